// SPDX-License-Identifier: MIT
// What the files of the builder share. Calls append instructions to two lists of the open entry. At
// the end of the entry the lists are checked (check.c, divergence.c) and printed (print_entry.c),
// then reused for the next entry.
#ifndef PTXGEN_BUILDER_INTERNAL_H
#define PTXGEN_BUILDER_INTERNAL_H

// The functions, not the macros that set places: a call inside a call has the place of its caller.
#define PTXGEN_NO_PLACES
#include <ptxgen/builder.h>

#include <stdarg.h>
#include <string.h>

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

// ---- builder.c ----------------------------------------------------------------------------------

// Errors: the builder keeps the first one. `call` is the public function's name without "ptx_".
void ptxb_fail(ptx_builder *b, const char *call, const char *format, ...) PTXGEN_PRINTF(3, 4);
// The same, about what was called elsewhere: at `place`, or if that is not known, after `index`
// instructions of the open entry's body (NO_INDEX: in none); or for an instruction of the body,
// where that was called.
void ptxb_fail_place(ptx_builder *b, const char *place, uint32_t index, const char *call,
                     const char *format, ...) PTXGEN_PRINTF(5, 6);
void ptxb_fail_insn(ptx_builder *b, uint32_t index, const char *call, const char *format, ...)
    PTXGEN_PRINTF(4, 5);
// The instruction that made a value; NO_INDEX: none did, or it is unknown.
uint32_t ptxb_index_of(const ptx_builder *b, ptx_val x);
// Where the instruction of the body was called; NULL: not known.
const char *ptxb_place_of(const ptx_builder *b, uint32_t index);
// Notes b->place as that of the newest instruction, which it returns, and of those that follow.
struct insn *ptxb_mark_place(ptx_builder *b, struct insn *newest);
// Whether instructions can be emitted: false after an error, when finished, or outside an entry.
bool ptxb_ready_if(ptx_builder *b, const char *call);
static inline bool ptxb_ready(ptx_builder *b, const char *call)
{
    return (b && !b->failed && !b->finished && b->blocks.count && !b->restriction.within) ||
           ptxb_ready_if(b, call);
}
// With .all_errors: a call of the user's begins, after an error of another.
void ptxb_recover(ptx_builder *b);
// Whether something may be missing because of an earlier error. Then nothing more is said of it.
bool ptxb_follows(ptx_builder *b);
// What a begin function returns after an error; with .all_errors its end function ignores it.
enum { NOT_OPENED = INT32_MAX };
int ptxb_not_opened(ptx_builder *b);
// Requires a minimum ISA and target for an instruction; fails if the target or the pinned ISA is
// older.
bool ptxb_require(ptx_builder *b, const char *call, int isa, int sm, const char *what);
// The same for a target with a suffix, which only some targets have.
bool ptxb_require_target(ptx_builder *b, const char *call, int isa, struct ptx_target least,
                         const char *what);
struct entry *ptxb_entry(ptx_builder *b);

// Memory that is freed with the builder. All return NULL after an error.
void *ptxb_alloc(ptx_builder *b, size_t bytes);
void *ptxb_resize(ptx_builder *b, void *memory, size_t old_bytes, size_t bytes);
// Makes room for `least` elements of a list that can have at most `most`. The first elements are in
// the arena.
bool ptxb_grow(ptx_builder *b, void **at, uint32_t *capacity, size_t size, uint32_t least,
               uint32_t most);
#define ROOM_FOR_UP_TO(most, b, list, more)                                                        \
    ((list).capacity - (list).count >= (more) ||                                                   \
     ptxb_grow(b, (void **)&(list).at, &(list).capacity, sizeof *(list).at, (list).count + (more), \
               most))
// Makes room for `more` further elements; false after an error.
#define ROOM_FOR(b, list, more) ROOM_FOR_UP_TO(MOST_INDEX, b, list, more)
// Pushes an operand of the call that follows (places.c). Operands that found no memory count, so
// that what is taken back is what was pushed. Takes a NULL builder.
void ptxb_push(ptx_builder *b, const void *from, size_t bytes);
const char *ptxb_copy(ptx_builder *b, const char *text);
char *ptxb_format(ptx_builder *b, const char *format, ...) PTXGEN_PRINTF(2, 3);
char *ptxb_vformat(ptx_builder *b, const char *call, const char *format, va_list args)
    PTXGEN_PRINTF(3, 0);

// ---- types.c ------------------------------------------------------------------------------------

struct type_row {
    const char *name;
    uint8_t bits, file;
};
extern const struct type_row ptxb_types[PTX_TYPE_COUNT];
static inline enum register_file ptxb_file(ptx_type type)
{
    return (enum register_file)ptxb_types[type].file;
}
static inline unsigned ptxb_bits(ptx_type type)
{
    return (unsigned)type < PTX_TYPE_COUNT ? ptxb_types[type].bits : 0;
}
// The type in instructions on untyped bits: b16 for f16, pred for predicates. And the type of a
// move: the type itself, or that of its bits if PTX moves only those.
ptx_type ptxb_bits_type(ptx_type type);
ptx_type ptxb_mov_type(ptx_type type);
// The type in loads, stores and moves: "b16" for f16, else the name of the type.
const char *ptxb_memory_name(ptx_type type);
static inline bool ptxb_is_integer(ptx_type type)
{
    return type >= PTX_U8 && type <= PTX_S64;
}
static inline bool ptxb_is_float(ptx_type type)
{
    return type >= PTX_F16 && type <= PTX_F64;
}
const char *ptxb_type_list(uint32_t types, char out[160]);
// "generic", "global", ...; and the suffix of instructions: ".global", or "" for generic.
const char *ptxb_space_name(unsigned space);
const char *ptxb_space_text(unsigned space);
int ptxb_target_isa(struct ptx_target target);

// ---- emit.c: the one door, by which every instruction is appended -------------------------------

static inline bool ptxb_is_open(const ptx_builder *b, uint32_t block)
{
    return b->open.at[block];
}
// Whether an optional operand was given, valid or not.
static inline bool ptxb_is_given(ptx_val x)
{
    return x.kind != PTX_KIND_POISON || x.type != PTX_NONE || x.bits;
}
// Whether `x` is a value that can be used here; `name` is its name in the message.
void ptxb_fail_unusable(ptx_builder *b, const char *call, const char *name, ptx_val x);
static inline bool ptxb_usable(ptx_builder *b, const char *call, const char *name, ptx_val x)
{
    const unsigned bits = ptxb_bits((ptx_type)x.type);
    bool usable = bits != 0 && !b->failed;

    if (x.kind == PTX_KIND_IMMEDIATE)
        usable = usable && (bits > 63 || x.bits >> bits == 0);
    else
        usable = usable && (x.kind == PTX_KIND_REGISTER || x.kind == PTX_KIND_VARIABLE) &&
                 x.bits == b->number && x.reg >= b->first_reg && x.reg < b->regs.count &&
                 ptxb_is_open(b, b->regs.at[x.reg].where);
    if (!usable)
        ptxb_fail_unusable(b, call, name, x);
    return usable;
}
// `x`; a number gets the type. A number that the type cannot hold is an error, and the result
// poison.
ptx_val ptxb_number(ptx_builder *b, const char *call, const char *name, ptx_val x, ptx_type type);
static inline ptx_val ptxb_typed(ptx_builder *b, const char *call, const char *name, ptx_val x,
                                 ptx_type type)
{
    return x.kind == PTX_KIND_NUMBER ? ptxb_number(b, call, name, x, type) : x;
}
ptx_val ptxb_register(ptx_builder *b, ptx_type type);
// The index of an opcode, given as text or as strings to concatenate, ended by NULL. 0 after an
// error, and for an opcode that needs a newer ISA or target.
uint32_t ptxb_opcode(ptx_builder *b, const char *text);
uint32_t ptxb_spell(ptx_builder *b, ...);
// What the spelling of a row of ops.h depends on: the row, a type, and up to 20 bits of modifiers.
static inline uint32_t ptxb_spelling(ptx_opcode op, ptx_type type, unsigned modifiers)
{
    return modifiers << 12 | (uint32_t)op << 5 | type;
}
// The opcode that was noted for the spelling; 0: none, and the caller spells it. So most calls
// spell nothing.
uint32_t ptxb_noted(const ptx_builder *b, uint32_t spelling);
uint32_t ptxb_note(ptx_builder *b, uint32_t spelling, uint32_t opcode); // returns the opcode
// "mov" of a value of the type, and of its bits.
uint32_t ptxb_mov_value(ptx_builder *b, ptx_type type);
uint32_t ptxb_mov_bits(ptx_builder *b, ptx_type type);
uint32_t ptxb_required(ptx_builder *b, const char *call, int isa, int sm, uint32_t opcode);
// Appends an instruction. Set its operands before the next append, which may move it. NULL after an
// error and for opcode 0.
struct insn *ptxb_append(ptx_builder *b, enum insn_kind kind, uint32_t opcode, unsigned dst,
                         unsigned src);
// Operand `k` of the instruction that was just appended.
void ptxb_result(ptx_builder *b, const struct insn *insn, unsigned k, ptx_val x);
void ptxb_source(ptx_builder *b, const struct insn *insn, unsigned k, ptx_val x);
void ptxb_address(ptx_builder *b, const struct insn *insn, unsigned k, ptx_ptr p);
// Notes a name that an operand may have, for its length.
void ptxb_note_name(ptx_builder *b, const char *name);
uint32_t ptxb_extra(ptx_builder *b, union extra extra); // its index in `extras`
// `text` must outlive the builder.
void ptxb_text_operand(ptx_builder *b, const struct insn *insn, unsigned k, enum operand_kind kind,
                       const char *text);
void ptxb_label_operand(ptx_builder *b, const struct insn *insn, unsigned k, uint32_t label);
// Puts braces around operands `first` to `last`.
void ptxb_brace(ptx_builder *b, const struct insn *insn, unsigned first, unsigned last);
// `dst = opcode src...` with up to 4 operands; the result's register has type `result`. Immediates
// that have no PTX literal are moved to registers first.
ptx_val ptxb_emit(ptx_builder *b, ptx_type result, uint32_t opcode, unsigned n, const ptx_val *src);
void ptxb_emit_void(ptx_builder *b, uint32_t opcode, unsigned n, const ptx_val *src);
ptx_val ptxb_mov(ptx_builder *b, ptx_val x);
// `x` in a register, also if it is an immediate.
ptx_val ptxb_in_register(ptx_builder *b, ptx_val x);
// Whether an instruction of its type can have the value as an operand.
bool ptxb_has_literal(ptx_val x);
// Notes that the newest instruction sets a variable.
void ptxb_sets(ptx_builder *b, uint32_t var);
// var = x.
void ptxb_assign(ptx_builder *b, ptx_val var, ptx_val x);
// Whether `cond` is a predicate that can be used; and its register, 0 after an error.
bool ptxb_is_condition(ptx_builder *b, const char *call, ptx_val cond);
uint32_t ptxb_condition(ptx_builder *b, const char *call, ptx_val cond);
// The newest instruction; there must be one.
struct insn *ptxb_newest(const ptx_builder *b);
// Marks that its results differ between threads.
void ptxb_mark_varying(ptx_builder *b);

// ---- entry.c, function.c, ops.c, control.c, memory.c --------------------------------------------

// Checks that a name is a PTX identifier, without '$' and '%': the builder uses those in names of
// its own. And that nothing in the module has it.
bool ptxb_valid_name(ptx_builder *b, const char *call, const char *name);
bool ptxb_name_is_free(ptx_builder *b, const char *call, const char *name);
static inline bool ptxb_is_of_module(const struct symbol *symbol)
{
    return symbol->kind >= SYMBOL_GLOBAL;
}
// The symbol's number is its index plus one.
// The entry's or function's begin and end.
int ptxb_open_entry(ptx_builder *b, const char *call, struct entry entry);
int ptxb_close_entry(ptx_builder *b, const char *call, enum block_kind kind, int block);
static inline const char *ptxb_entry_kind(const struct entry *entry)
{
    return entry->is_function ? "function" : "entry";
}
// Notes that the entry loads by .nc through the pointer, or writes. It must not do both: such a
// load may give what was there before the kernel began.
bool ptxb_traffic_ok(ptx_builder *b, const char *call, ptx_ptr p, bool nc);
// The threads of a block, or the most that it can have; 0: not said.
uint32_t ptxb_block_threads(const struct entry *entry);
// The type in which a function gets and returns a value: predicates and narrow values in 32 bits.
ptx_type ptxb_carrier(ptx_type type);
ptx_ptr ptxb_symbol_ptr(const ptx_builder *b, uint32_t symbol, ptx_space space, bool readonly);
// The same for a new symbol, whose strings live as long as the builder.
ptx_ptr ptxb_declare_array(ptx_builder *b, struct symbol symbol, ptx_space space, bool readonly);
// Whether a call may use the pointer; and, of a declared array, as many bytes from there on.
bool ptxb_pointer_ok(ptx_builder *b, const char *call, ptx_ptr p);
bool ptxb_in_array(ptx_builder *b, const char *call, ptx_ptr p, unsigned bytes);
// `p + i` for the call.
ptx_ptr ptxb_at(ptx_builder *b, const char *call, ptx_ptr p, ptx_val i);
// The place of this lane in fragments of a shape and a stride, if straight code has computed it.
ptx_val ptxb_kept_lane(const ptx_builder *b, ptx_val stride, uint8_t shape);
void ptxb_keep_lane(ptx_builder *b, ptx_val stride, uint8_t shape, ptx_val lane);
extern const char *const ptxb_scope_names[]; // by ptx_scope, ".gpu"
extern const char *const ptxb_order_names[]; // by ptx_order, ".acquire"
ptx_val ptxb_symbol_base(ptx_builder *b, uint32_t symbol);
// Whether the pointer can be used here; its array is used then.
bool ptxb_pointer_ok(ptx_builder *b, const char *call, ptx_ptr p);

const struct ptx_op_form *ptxb_form(const struct ptx_op_info *info, ptx_type type);
// Whether a row of ops.h has the first part of the instruction; and whether a special register,
// "%tid.x", differs between threads of a block.
bool ptxb_is_spelled(const char *name, size_t length);
bool ptxb_special_varies(const char *name);
extern const uint8_t ptxb_op_operands[PTX_OP_COUNT]; // 1 to 4 for rows that ptx_op() emits
ptx_val ptxb_op_emit(ptx_builder *b, ptx_opcode op, const ptx_val *operands);

uint32_t ptxb_open_block(ptx_builder *b, struct block block); // its index; 0 after an error
// The return value of a begin function: the body is always entered once, also after an error.
int ptxb_opened(ptx_builder *b, struct block block);
// The block to close: the innermost one, which must be of one of `kinds`.
bool ptxb_close_block(ptx_builder *b, const char *call, uint32_t id, unsigned kinds,
                      struct block *closed);
// Whether code of others may close a block whose body begins at `first`: it sets a variable, or
// leaves a loop. Else nothing depends on its condition, and what C assigned there counts always.
bool ptxb_check_effect(ptx_builder *b, const char *call, const struct block *block, uint32_t first);
// A label, 0 after an error; `name` lives as long as the builder.
uint32_t ptxb_new_label(ptx_builder *b, const char *name, uint32_t number, const char *part);
void ptxb_place_label(ptx_builder *b, uint32_t label);
void ptxb_branch(ptx_builder *b, uint32_t guard, bool negated, uint32_t label); // guard 0: always
void ptxb_return(ptx_builder *b, uint32_t guard);
// Opens a block for the threads in which the guard is false; its number, 0 after an error.
uint32_t ptxb_unless_begin(ptx_builder *b, uint32_t guard, const char *name);
// Whether no block of ptx_inlined is open; if not, an error.
bool ptxb_sites_are_closed(ptx_builder *b, const char *call);
// A name for messages; long names are cut.
void ptxb_label_text(const struct label *label, char out[96]);

// ---- matrix.c -----------------------------------------------------------------------------------

// Whether blocks of the open entry end with a whole warp. An error names the call, or `callee`. A
// function passes the question on to its callers.
bool ptxb_whole_warps(ptx_builder *b, const char *call, const char *callee);

// ---- check.c, divergence.c, settle.c, print_entry.c: a closed entry -----------------------------

bool ptxb_check_entry(ptx_builder *b, struct entry *entry);
static inline struct label *ptxb_label_of(const ptx_builder *b, const struct insn *branch)
{
    return &b->labels.at[ptxb_operands(&b->code[0], branch)[branch->guarded].value - 1];
}
// The index of the target of a branch; the end of the entry for a return.
static inline uint32_t ptxb_target_of(const ptx_builder *b, const struct insn *insn)
{
    return insn->kind == INSN_RETURN ? b->code[0].insns.count : ptxb_label_of(b, insn)->index;
}
// Checks that all threads reach the instructions that need all threads.
bool ptxb_check_divergence(ptx_builder *b, struct entry *entry);
// Requires, when the entry ends, that `x` does not differ between lanes of a warp.
void ptxb_require_uniform(ptx_builder *b, const char *call, const char *name, ptx_val x);
// Marks the newest instruction as one that needs all threads of the block or warp.
void ptxb_meet(ptx_builder *b, enum meeting scope);
// The same with a warp, for an instruction that has no mask of lanes.
void ptxb_meet_whole_warps(ptx_builder *b);

// Drops copies that nothing needs, and numbers the registers in order of appearance, so that the
// numbers have no gaps.
void ptxb_settle(ptx_builder *b, struct entry *entry);
// Writes what stands before instruction `index` of the open entry's body, for an error without a
// place. The entry can only be given up afterwards.
void ptxb_print_context(ptx_builder *b, uint32_t index, char *to, size_t size);
// ---- lines.c ------------------------------------------------------------------------------------

// Writes where the code that follows comes from, unless the last .loc says so. NULL: it is not
// known.
void ptxb_put_loc(ptx_builder *b, const char *place, uint32_t site, unsigned depth);
// The next one is written in any case: another entry begins.
void ptxb_forget_loc(ptx_builder *b);
void ptxb_print_files(ptx_builder *b);
void ptxb_print_inlined_names(ptx_builder *b);

// Appends the driver's functions, and the arrays of the module.
void ptxb_print_externals(ptx_builder *b);
void ptxb_print_data(ptx_builder *b);
// Appends the entry's text; and inserts the header of the module before all entries.
void ptxb_print_entry(ptx_builder *b, struct entry *entry);
bool ptxb_print_module(ptx_builder *b);

#endif
