// SPDX-License-Identifier: MIT
// The texts of ptx_asm(): read once, kept as lines for print, and looked at line by line.
#ifndef PTXGEN_BUILDER_ASM_TEXT_H
#define PTXGEN_BUILDER_ASM_TEXT_H

#include "internal.h"

// Operands of an instruction: variables are among the results and among the sources.
enum {
    ASM_OPERANDS =
        PTX_ASM_MAX_RESULTS + PTX_ASM_MAX_INOUTS + PTX_ASM_MAX_INPUTS + PTX_ASM_MAX_ADDRESSES
};

// A text as lines, each with '\n' at its end. A line begins with its depth of braces as a digit, or
// with ASM_LABEL; then come a guard and a space, the mnemonic, ASM_COLUMN (ASM_READ, if the first
// operand is read; after a directive: a space), and operands. A byte from ASM_OPERAND up is an
// operand of the instruction: its index is added.
enum {
    ASM_LABEL = 'L',
    ASM_COLUMN = '\t',
    ASM_READ = '\v',
    ASM_OPERAND = 0x80,
    ASM_MOST_DEPTH = 9
};
#define ASM_ENDS "\t\v ;" // what follows a mnemonic

// What a text's %0, %1, ... are.
struct asm_operands {
    unsigned results, inouts, inputs, addresses;
};

struct asm_text {
    const char *lines;
    const char *varying; // the first special register that differs between threads; NULL: none
    uint64_t shared;     // bytes of shared memory that it declares
    bool special;        // reads a special register
    bool numbered;       // has %=
};

// Reads a text, with `number` for %=. False after an error.
bool ptxb_read_asm(ptx_builder *b, const char *call, const char *text, uint32_t number,
                   const struct asm_operands *operands, struct asm_text *read);
static inline bool asm_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool asm_is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || asm_is_digit(c) || c == '_' ||
           c == '$';
}

// Behind white space and comments; a comment without an end stays.
const char *ptxb_asm_skip(const char *at);
// Whether a word is one of a list, with a space between two.
bool ptxb_asm_among(const char *word, size_t length, const char *list);
// What the directives of a declaration have said so far.
struct asm_declaration {
    uint8_t space;
    bool function, external;
    unsigned bytes, vector; // of an element, and how many are one; 0: not said
};
void ptxb_note_directive(struct asm_declaration *d, const char *at, size_t length);
// The bytes of a variable whose name ends at `at`; 0 where its text does not say them in numbers.
uint64_t ptxb_variable_bytes(const struct asm_declaration *d, const char *at);
// Whether a word is the directive .shared; the bytes of the variables that its statement declares.
bool ptxb_is_shared(const char *word);
uint64_t ptxb_declared_shared(const char *at);

// What a text of the module declares.
struct asm_name {
    uint8_t space; // ptx_space of a variable; PTX_SPACE_GENERIC: it is none, or not known
    bool function;
    uint64_t shared; // bytes of shared memory, also in the body of a function
};
// Whether a text of the module declares these names, and no others, and is whole; and what they
// are.
bool ptxb_check_module_text(ptx_builder *b, const char *text,
                            const char *const names[PTX_ASM_MAX_NAMES], unsigned count,
                            struct asm_name found[PTX_ASM_MAX_NAMES]);
// The beginning of a statement on one line, for messages.
enum { ASM_EXCERPT = 48 };
const char *ptxb_asm_excerpt(const char *from, char out[ASM_EXCERPT]);

// A line's mnemonic, and the length of it. Empty for braces and labels.
struct asm_mnemonic {
    const char *at;
    size_t length;
};
struct asm_mnemonic ptxb_asm_mnemonic(const char *line);
static inline const char *asm_next(const char *line)
{
    return strchr(line, '\n') + 1;
}

// ---- asm_known.c --------------------------------------------------------------------------------

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
    ASM_UNKNOWN = 512,
};
unsigned ptxb_asm_facts(struct asm_mnemonic m);
// Whether a mnemonic begins with these parts; and whether one of its parts is a word, as shared is
// of ld.shared::cta.u32.
bool ptxb_asm_begins(struct asm_mnemonic m, const char *parts, size_t length);
static inline bool asm_is(struct asm_mnemonic m, const char *parts)
{
    return ptxb_asm_begins(m, parts, strlen(parts));
}
bool ptxb_asm_has(struct asm_mnemonic m, const char *part);
// Whether a special register, "%tid.x", differs between threads of a block.
bool ptxb_asm_varies(const char *name);

// ---- asm_flow.c ---------------------------------------------------------------------------------

// The operands that a line sets: the first one, in front of a comma outside of brackets. Those of a
// call are in parentheses, and what begins with an address sets none.
const char *ptxb_asm_destinations(const char *line, size_t *length);
// Whether a branch ends at a label of the text.
bool ptxb_asm_stays(const char *lines, const char *branch);
// Whether a line lies between a branch and its label, so that not all threads that begin the text
// need to reach it.
bool ptxb_asm_skips(const char *lines, const char *at);
// Whether each way through a text sets a result; if not, whether nothing sets it, or a guard or a
// branch is why it can be missed.
enum asm_setting { ASM_SET, ASM_UNSET, ASM_GUARDED, ASM_SKIPPED };
enum asm_setting ptxb_asm_setting(ptx_builder *b, const char *lines, unsigned result);

// ---- asm_check.c --------------------------------------------------------------------------------

// Whether an access by a text may be in the space, as far as the caller of ptx_asm() says.
static inline bool asm_may_touch(ptx_memory said, unsigned space)
{
    if (said == PTX_MEMORY_ANY || said == PTX_MEMORY_NONE || space == PTX_SPACE_GENERIC)
        return said != PTX_MEMORY_NONE;
    return space == (said == PTX_MEMORY_SHARED ? PTX_SPACE_SHARED : PTX_SPACE_GLOBAL);
}
// Whether each instruction is what the parameters say, and its shared memory fits. Gives the first
// instruction, and the threads that must take part.
bool ptxb_check_asm(ptx_builder *b, const char *call, const struct ptx_asm_params *p,
                    const struct asm_operands *o, const struct asm_text *text,
                    struct asm_mnemonic *first, ptx_convergence *together);

#endif
