// SPDX-License-Identifier: MIT
// What a builder holds. Calls append instructions to two lists of the open entry. At the end of the
// entry the lists are checked (check.c, divergence.c) and printed (print_entry.c), then reused for
// the next entry.
#ifndef PTXGEN_BUILDER_STATE_H
#define PTXGEN_BUILDER_STATE_H

// The functions, not the macros that set places: a call inside a call has the place of its caller.
#define PTXGEN_NO_PLACES
#include <ptxgen/builder.h>

// Bits of a list index (registers, blocks, opcodes, ...); ptxb_grow() refuses longer lists.
enum { INDEX_BITS = 22, MOST_INDEX = (1 << INDEX_BITS) - 1 };
#define NO_INDEX UINT32_MAX

// Maximum indentation depth, and maximum length of an opcode.
enum { MOST_DEPTH = 16, OPCODE_BYTES = 96 };

// A growing array; use ROOM_FOR() to append.
#define LIST(type)                                                                                 \
    struct {                                                                                       \
        type *at;                                                                                  \
        uint32_t count, capacity;                                                                  \
    }

// ---- instructions -------------------------------------------------------------------------------

enum register_file { FILE_P, FILE_RS, FILE_R, FILE_RD, FILE_F, FILE_FD, FILE_COUNT };

struct reg {
    // The block that defines it; in settle.c, twice the index of the instruction that read or wrote
    // it last, plus one if it wrote; once numbered, its PTX register number.
    uint32_t where : INDEX_BITS + 1;
    uint32_t file : 3;
    uint32_t variable : 1;
    uint32_t placed : 1;
    uint32_t assumed : 1;   // the caller asserted that it is warp-uniform
    uint32_t decides : 1;   // a branch depends on it; or may depend on it, found by divergence.c
    uint32_t is_result : 1; // what a function returns
    // By settle.c: the register that has its value; 0: none. Of a result: which one.
    uint32_t same : INDEX_BITS;
    uint32_t set : 1;  // a variable that changes after its definition
    uint32_t uses : 9; // MOST_USES: so many or more
};

enum { MOST_USES = 511 };

static inline void ptxb_count_use(struct reg *reg, int more)
{
    if (reg->uses < MOST_USES)
        reg->uses =
            (uint32_t)((int)reg->uses + more < MOST_USES ? (int)reg->uses + more : MOST_USES) &
            MOST_USES;
}

enum operand_kind {
    OPERAND_REGISTER,
    OPERAND_ADDRESS,   // [register + offset]
    OPERAND_SYMBOL,    // [symbol + offset]
    OPERAND_IMMEDIATE, // of up to 32 bits
    OPERAND_WIDE,      // an immediate stored in `extras`
    OPERAND_PARAM,     // [text]
    OPERAND_TEXT,
    OPERAND_LABEL,
};

struct operand {
    uint32_t id
        : INDEX_BITS;  // register or symbol; called function, MOST_INDEX if it is the driver's
    uint32_t type : 5; // of an immediate
    uint32_t kind : 3;
    uint32_t open : 1;  // '{' before it
    uint32_t close : 1; // '}' after it
    union {
        uint32_t value; // the bits of an immediate, or the index of a label or extra
        int32_t offset;
    };
};

// Data that does not fit in an operand.
union extra {
    uint64_t bits;
    const char *text;
};

enum insn_kind {
    INSN_PLAIN,
    INSN_LABEL,
    INSN_BRANCH,
    INSN_RETURN,
    INSN_BARRIER, // needs every thread of the block
    INSN_WARP,    // needs every lane of the warp
    INSN_COMMENT,
    INSN_DROPPED, // not printed
};

struct insn {
    uint32_t operands; // index of the first operand in the code's list; destinations come first
    uint32_t opcode : INDEX_BITS;
    uint32_t kind : 3;
    uint32_t guarded : 1, negated : 1; // predicated by its first operand
    uint32_t varying : 1;   // its results differ between threads even if its operands do not
    uint32_t reducible : 1; // an atomic that becomes `red` if no result is used
    uint32_t moves : 1;     // copies a value to a register unchanged
    uint32_t positive : 1;  // a difference that is greater than zero
    uint32_t decides : 1;   // a label, a branch, or what a branch may depend on; by divergence.c
    uint8_t depth;
    uint8_t dst_count;
    uint8_t operand_count;
    uint8_t divergence : 4; // of a text of ptx_asm(): 1 + enum ptx_divergence; else 0
    uint8_t calls : 1;      // results, the name of a function with its index as `id`, arguments
    uint8_t param : 1;      // reads a parameter of a function
    uint8_t whole : 1;      // of all lanes of a warp: it takes no mask
};

struct code {
    LIST(struct insn) insns;
    LIST(struct operand) operands;
};

static inline struct operand *ptxb_operands(const struct code *code, const struct insn *insn)
{
    return &code->operands.at[insn->operands];
}

// The register that the operand reads or writes; 0: none.
static inline uint32_t ptxb_operand_reg(const struct operand *operand)
{
    return operand->kind <= OPERAND_ADDRESS ? operand->id : 0;
}

struct opcode {
    const char *text;
    uint32_t next; // next opcode with the same hash; 0: none
    uint8_t length;
    uint8_t rule;     // of lane_bits.c; 0: not looked up yet
    uint8_t from, to; // the types of an opcode that has a rule
};

// ---- what entries hold --------------------------------------------------------------------------

struct label {
    const char *name;
    const char *part; // "", "_end", "_else", "_label"
    uint32_t number;
    uint32_t uses;
    uint32_t first_use; // the first branch to it
    uint32_t index;     // index of the instruction that places it
    uint32_t changes;   // the `changes` of struct divergence when the label was last reached
    uint32_t block;     // the block that contains it
    uint16_t entry;
    bool placed;
    bool raw;
};

enum symbol_kind {
    SYMBOL_SHARED,
    SYMBOL_DYNAMIC,
    SYMBOL_LOCAL,
    SYMBOL_PARAM,
    // Of the module:
    SYMBOL_GLOBAL,
    SYMBOL_CONST,
    SYMBOL_STRING,
    SYMBOL_TEXT, // declared in a text of ptx_asm_module(), which prints it
};

// The first values of an array of the module, which follow it, and its alignment.
struct data {
    uint32_t bytes, align;
};

static inline const unsigned char *ptxb_values(const struct data *data)
{
    return (const unsigned char *)(data + 1);
}

// The newest entries, plus one, that load by .nc from a parameter or array, and that write to it.
struct traffic {
    uint16_t nc, written;
};

struct symbol {
    const char *name;
    ptx_val base;            // its address in a register of the newest entry that needed one
    const struct data *data; // of an array of the module
    uint32_t count;
    uint16_t entry;
    uint8_t kind;
    uint8_t type;
    bool used;
    struct traffic traffic;
    // Of a text of ptx_asm_module():
    uint8_t space; // of a variable; PTX_SPACE_GENERIC: it is none, or not known
    bool function;
    uint16_t counted; // the newest entry whose shared memory has it, plus one
    uint64_t shared;  // bytes of shared memory
};

struct param {
    struct ptx_param_info info;
    const char *place;
    struct traffic traffic;
    uint32_t index;  // of the body's instruction that follows its declaration
    uint32_t reg;    // the register that the body uses
    uint32_t symbol; // the symbol of an array parameter
};

// The threads that must execute an instruction together: all of the block, or all of the warp.
enum meeting { MEET_BLOCK, MEET_WARP, MEETINGS };

// What a block must be like for the warp operations of a function, from the most to the least: rows
// of a multiple of 32 threads; or a single row; or anything.
enum rows { ROWS_WHOLE, ROWS_SINGLE, ROWS_ANY, ROWS_COUNT };

static inline enum rows ptxb_rows(const uint32_t block[3])
{
    return block[0] % 32 == 0               ? ROWS_WHOLE
           : block[1] <= 1 && block[2] <= 1 ? ROWS_SINGLE
                                            : ROWS_ANY;
}

// Of an entry; and dynamic shared memory of a block, the most that any target has.
enum { SHARED_BYTES = 48 << 10, LOCAL_BYTES = 512 << 10, DYNAMIC_BYTES = 227 << 10 };

// The code of a function that ended, which each call prints.
struct kept {
    struct code code[2];
    union extra *extras;
    struct mark *marks; // if source lines are written
    uint32_t mark_count;
    uint32_t end_symbol; // the first symbol that is not the function's
};

// An entry, or a device function. A function is in the list before what calls it.
struct entry {
    struct ptx_entry_params decl; // of a function: the name alone
    LIST(struct param) params;
    uint32_t registers[FILE_COUNT]; // number of registers by file
    uint32_t arrays;                // number of shared and local arrays, for their names
    uint32_t messages;              // number of traps with a message
    uint32_t print_buffer;          // the symbol of the memory for values of printf; 0: none
    uint32_t labels;                // number of labels with a number
    uint32_t first_label, first_block, first_reg, first_symbol;
    uint32_t shared_bytes, local_bytes, param_bytes;
    bool returns; // has a return before its end
    // By enum meeting: whether an instruction needs all threads, and whether one is in a block or
    // after a return.
    bool meets[MEETINGS], inner[MEETINGS];
    bool raw_labels;
    bool wrong;             // has an error; nothing is checked at its end
    bool whole_warps;       // has instructions that no block with part of a warp can execute
    uint16_t named_threads; // the greatest count of threads that a named barrier waits for
    // By barrier: the count of threads of the first use, as far as it is known, and whether threads
    // arrive there without waiting.
    uint16_t barrier_threads[16];
    bool arrives[16];
    // Of a function:
    bool is_function, is_called;
    bool text_shared; // a text of it declares shared memory
    const struct kept *kept;
    uint32_t pieces, nested;              // of both: the code of functions in it, and its depth
    const char *place;                    // of its begin
    uint8_t results;                      // how many it has
    uint8_t result[PTX_FUNC_MAX_RESULTS]; // their types
    uint8_t rows;                         // what it asks of blocks
    uint32_t result_reg; // the first of their registers, assigned before each return
    // By divergence.c, if no argument varies: how many of a result's lowest bits differ.
    uint8_t result_differs[PTX_FUNC_MAX_RESULTS][MEETINGS][ROWS_COUNT];
    // Of both: the functions that it reaches, and the shared memory that is its own.
    LIST(uint16_t) reaches;
    uint32_t own_shared;
    uint32_t called_local; // local memory of its calls, each counted
};

enum block_kind {
    BLOCK_ENTRY,
    BLOCK_FUNC,
    BLOCK_IF,
    BLOCK_ELSE,
    BLOCK_ELSE_IF,
    BLOCK_FOR,
    BLOCK_LOOP
};

struct block {
    const char *place; // of its begin
    uint32_t id;
    uint8_t kind;
    bool down;          // a for that counts down
    bool is_while;      // a loop with a condition
    uint32_t first;     // index of its first instruction
    uint32_t test;      // index of the branch of an if or else-if, 0 if there is none yet
    uint32_t head, end; // labels
    uint32_t next;      // the label of a for's step, 0 if nothing continues there
    ptx_val i, limit, step;
};

enum { ADDRESSES = 32 };

// The addresses that were computed since the last label or branch, for accesses that follow: base +
// index * size. What is here holds: neither base nor index was set since.
struct address {
    uint32_t base, index, address; // registers
    uint8_t index_type, size;
};
struct addresses {
    uint32_t count, next; // next: to be replaced where all are used
    struct address at[ADDRESSES];
};

enum { OPCODE_HASHES = 64, NOTES = 128, DECIMALS = 16 };

// Where the instructions from `index` of the body on were called, up to the next mark.
struct mark {
    const char *place; // NULL: not known
    uint32_t index;
    uint32_t site; // the ptx_inlined block that it is in; 0: none
};

// A block of ptx_inlined: what it has the code of, and where it stands.
struct site {
    const char *name, *place;
    uint32_t outer; // the site that it is in; 0: none
};

// Where an instruction comes from: a call in a block of ptx_inlined or none, in the code of a
// function that is printed at its call, or of the entry (NULL).
struct position {
    const char *place;
    uint32_t site; // 0: none
    const struct frame *frame;
};

// The call of a function whose code is being printed, and its number among these.
struct frame {
    const char *name;
    struct position at;
    uint32_t number;
};

// What the last .loc said.
struct located {
    const char *place;
    uint32_t site, frame;
};

// A file of places: the first bytes of one of them.
struct source {
    const char *place;
    uint32_t length;
};

// What must be the same in all lanes of a warp, from the instruction `index` of the body on.
struct uniform {
    const char *call, *name; // for an error
    uint32_t reg, index;
};

// The opcode that belongs to a spelling, by ptxb_note().
struct note {
    uint32_t spelling, opcode;
};

// The decimal of a float, as it stands somewhere in the text.
struct decimal {
    uint64_t bits;
    uint32_t at; // where it begins
    uint8_t type, length;
};

struct ptx_builder {
    const char *place;  // of the call under way, NULL: not known
    const char *marked; // the place of the last mark
    const char *within; // the call that is written with other calls; NULL: errors name those
    struct ptx_restriction restriction;
    bool failed;
    bool halted;        // and nothing is looked for after the error
    bool adrift;        // a block was not opened, so nothing is said about blocks
    bool lost;          // a function or a text of the module is missing, and so are its names
    bool explaining;    // the error is being written
    bool out_of_memory; // is the error
    bool finished;
    bool in_prologue;
    uint64_t number; // no other builder of the process has it, before or after; its values do
    char *arena, *arena_end;   // free part of the newest chunk
    struct code code[2];       // of the open entry; [1] is the prologue: what declarations compute
    LIST(struct reg) regs;     // [0] means "none"
    uint32_t first_reg;        // of the open entry; not 0
    LIST(struct block) blocks; // the open blocks, innermost last
    LIST(bool) open;           // by block: whether it is open
    LIST(struct opcode) opcodes;   // [0] means "none"
    LIST(union extra) extras;      // of the open entry
    LIST(struct mark) marks;       // of the open entry's body, ascending
    LIST(struct uniform) uniforms; // of the open entry
    LIST(struct label) labels;
    LIST(struct symbol) symbols;
    LIST(struct entry) entries;
    LIST(struct site) sites;
    LIST(struct source) sources;      // in order of their first .loc
    LIST(const char *) inlined_names; // of functions and sites, likewise
    LIST(uint64_t) operands;          // that macros have pushed: values, pointers, places
    uint32_t lost_operands;           // words of those after them, for which there was no memory
    LIST(const char *) errors;        // with .all_errors; the first one first
    LIST(char) text;
    struct arena_chunk *chunks;
    struct ptx_builder_params params;
    uint32_t closed_if; // index of the end label of the if that was just closed; NO_INDEX: none
    struct block closed_block;
    int isa;
    const char *isa_reason;
    size_t bytes, peak;
    uint32_t opcode_at[OPCODE_HASHES]; // newest opcode of each hash; `next` links the others
    struct note notes[NOTES];          // the newest of each hash
    struct addresses addresses;
    struct decimal decimals[DECIMALS]; // those printed last
    uint32_t next_decimal;             // counts them
    uint32_t const_bytes, strings;     // of the module
    bool calls_vprintf, calls_assertfail;
    // The calls that were printed; and while one is: its number among them, and the depth of the
    // function's first lines.
    uint32_t inlined, inlining;
    unsigned nesting;
    uint32_t site;             // of the calls that follow, plus one; 0: none
    const struct frame *frame; // of the code that is being printed
    struct position printing;  // of the instruction that is being printed
    struct located located;
    size_t longest_name; // in an operand
    char error[1024];
};

#endif
