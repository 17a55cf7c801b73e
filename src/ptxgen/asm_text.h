// SPDX-License-Identifier: MIT
// The texts of ptx_asm(): read once, into statements for the checks and lines for print.
#ifndef PTXGEN_BUILDER_ASM_TEXT_H
#define PTXGEN_BUILDER_ASM_TEXT_H

#include "internal.h"

// The lists of operands, in the order of %0, %1, ..., and the names that a module's text declares.
// In the instruction, variables are among the results, and behind the addresses once more.
enum asm_list { ASM_RESULTS, ASM_INOUTS, ASM_INPUTS, ASM_ADDRESSES, ASM_NAMES, ASM_LISTS };
extern const struct asm_list_row {
    const char *name;
    unsigned most;
} ptxb_asm_lists[ASM_LISTS];
enum {
    ASM_OPERANDS =
        PTX_ASM_MAX_RESULTS + PTX_ASM_MAX_INOUTS + PTX_ASM_MAX_INPUTS + PTX_ASM_MAX_ADDRESSES
};

// A line is a statement with '\n' at its end. It begins with its depth of braces as a digit, or
// with ASM_LABEL; then come a guard and a space, the name, ASM_COLUMN (after a directive: a space),
// and operands. A byte from ASM_OPERAND up is an operand of the instruction: its index is added.
enum { ASM_LABEL = 'L', ASM_COLUMN = '\t', ASM_OPERAND = 0x80, ASM_MOST_DEPTH = 9 };

// A part of a line.
struct asm_word {
    const char *at;
    size_t length;
};

// What an instruction is known to be.
enum asm_fact {
    ASM_READS = 1, // memory: of the last state space that it names, and WRITES of the first
    ASM_WRITES = 2,
    ASM_UPDATES = 4, // reads what it writes
    ASM_SHARED = 8,  // shared memory, where it names no state space
    ASM_EFFECT = 16, // does what is neither a result nor a write
    ASM_LANES = 32,  // its results differ between lanes although the operands do not
    ASM_WARP = 64,   // needs all threads of a warp; or of a block
    ASM_BLOCK = 128,
    ASM_SOURCE = 256, // reads its first operand
    ASM_BRANCH = 512,
    ASM_LEAVES = 1024, // ends the function or the thread
    ASM_UNKNOWN = 2048,
};

struct asm_statement {
    char *line;
    struct asm_word guard; // its predicate; `at` NULL: none
    struct asm_word name;  // of an instruction, a directive or a label; empty: a brace
    struct asm_word sets;  // the operands that it sets: the first of them, or nothing there
    unsigned facts;        // enum asm_fact, of an instruction
    uint32_t scope;        // the '{' around it: its index plus one; 0: none
    bool negated, is_label, reached;
};

// What the directives of a statement have said so far of the variables that it declares.
struct asm_declaration {
    bool begun; // by a directive
    bool function, external;
    uint8_t space;
    unsigned bits, vector; // of an element, and how many are one; 0: not said
};

// A text under way.
struct asm_text {
    ptx_builder *b;
    const char *call;
    struct ptx_asm_params *p; // NULL: a text of the module
    struct symbol *names;     // of a text of the module: .declares, and one whose name is NULL
    unsigned counts[ASM_LISTS];
    unsigned operands, set; // their number; of results and variables, which the text sets
    // The reader:
    const char *at;              // the next character
    const char *from;            // where the statement begins
    char *out;                   // the end of what is written; NULL: nothing is
    char open[16];               // the brackets of the statement, or of the module's text
    unsigned opened;             // how many; none between statements
    uint32_t scope;              // of the next statement
    bool value;                  // after '=' in the module's text, outside of brackets
    bool numbered, any_numbered; // the statement has %=; a statement has
    bool used[ASM_OPERANDS];
    struct asm_declaration declares;
    struct symbol own, *newest;    // newest->shared counts what is declared
    char excerpt[48], operand[40]; // for errors
    // What was read:
    char *lines;
    struct asm_statement *statements; // for the checks, and room for one more; the caller frees
    uint32_t count;
    size_t bytes;        // of the statements
    const char *varying; // the first special register that differs between threads; NULL: none
    bool special;        // reads a special register
    // The checks:
    const struct asm_statement *s; // the instruction or directive under way
    unsigned facts;                // of it in this entry or function
    unsigned first, last;          // state spaces that it names; PTX_SPACE_GENERIC: none
    struct asm_word first_name;    // of the first instruction
    const char *lanes;             // the first whose results differ between lanes; NULL: none
    ptx_convergence together;      // the threads that must take part
    bool agrees;                   // threads can agree on results
};

// An error of a text, as false.
#define FAIL(t, ...) (ptxb_fail((t)->b, (t)->call, __VA_ARGS__), false)

// Reads the text from `at` on. False after an error.
bool ptxb_read_asm(struct asm_text *t);
// Whether the module's text, from `at` on, declares the names and no others, and is whole. Says
// what they are; SYMBOL_TEXT is the kind of those that it declares.
bool ptxb_read_module(struct asm_text *t);
// "%3, which is .in[1]".
const char *ptxb_asm_operand(struct asm_text *t, unsigned k);
// The beginning of the statement on one line.
const char *ptxb_excerpt(struct asm_text *t);

static inline bool asm_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool asm_is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || asm_is_digit(c) || c == '_' ||
           c == '$';
}

// Whether a word is one of a list, with a space between two.
bool ptxb_asm_among(struct asm_word word, const char *list);

// ---- asm.c --------------------------------------------------------------------------------------

unsigned ptxb_asm_facts(struct asm_word name);
// Whether a name begins with these parts, as ld.shared::cta.u32 does with ld.shared. A space ends
// them.
bool ptxb_asm_is(struct asm_word name, const char *parts);
// Whether an access by a text may be in the space, as far as the caller of ptx_asm() says.
static inline bool asm_may_touch(ptx_memory said, unsigned space)
{
    if (said == PTX_MEMORY_ANY || said == PTX_MEMORY_NONE || space == PTX_SPACE_GENERIC)
        return said != PTX_MEMORY_NONE;
    return space == (said == PTX_MEMORY_SHARED ? PTX_SPACE_SHARED : PTX_SPACE_GLOBAL);
}
// Whether each way through the text sets the result.
bool ptxb_asm_sets(struct asm_text *t, unsigned k);

#endif
