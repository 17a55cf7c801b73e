// SPDX-License-Identifier: MIT
// What the builder's files share. Calls append instructions to two lists of the open entry. At its
// end they are checked (check.c, divergence.c) and printed (print.c); the lists then serve the next
// entry.
#ifndef PTXGEN_BUILDER_INTERNAL_H
#define PTXGEN_BUILDER_INTERNAL_H

#include <ptxgen/builder.h>

#include <stdarg.h>
#include <string.h>

// Registers, blocks, opcodes and all else in lists have numbers of so many bits; ptxb_grow()
// refuses a list with more.
enum { INDEX_BITS = 22, MOST_INDEX = (1 << INDEX_BITS) - 1 };
#define NO_INDEX UINT32_MAX

// Lines are indented so far; no opcode is longer.
enum { MOST_DEPTH = 32, OPCODE_BYTES = 96 };

// A growing array; see ROOM_FOR().
#define LIST(type)                                                                                 \
    struct {                                                                                       \
        type *at;                                                                                  \
        uint32_t count, capacity;                                                                  \
    }

// ---- instructions -------------------------------------------------------------------------------

enum register_file { FILE_P, FILE_RS, FILE_R, FILE_RD, FILE_F, FILE_FD, FILE_COUNT };

struct reg {
    uint32_t where : INDEX_BITS; // the block that it is defined in; once placed, its number
    uint32_t file : 3;
    uint32_t used : 1, used_again : 1;
    uint32_t variable : 1;
    uint32_t placed : 1;
    uint32_t assumed : 1; // the same in all lanes of a warp, as the caller says
};

enum operand_kind {
    OPERAND_REGISTER,
    OPERAND_ADDRESS,   // [register + offset]
    OPERAND_SYMBOL,    // [symbol + offset]
    OPERAND_IMMEDIATE, // of up to 32 bits
    OPERAND_WIDE,      // an immediate among the extras
    OPERAND_PARAM,     // [text]
    OPERAND_TEXT,
    OPERAND_LABEL,
};

struct operand {
    uint32_t id : INDEX_BITS; // register or symbol
    uint32_t type : 5;        // of an immediate
    uint32_t kind : 3;
    uint32_t open : 1;  // '{' before it
    uint32_t close : 1; // '}' after it
    union {
        uint32_t value; // an immediate's bits, or the number of a label or an extra
        int32_t offset;
    };
};

// What has no room in an operand.
union extra {
    uint64_t bits;
    const char *text;
};

enum insn_kind {
    INSN_PLAIN,
    INSN_LABEL,
    INSN_BRANCH,
    INSN_RETURN,
    INSN_BARRIER, // every thread of the block must come by
    INSN_WARP,    // every lane of the warp must come by
    INSN_COMMENT,
    INSN_DROPPED, // writes nothing
};

struct insn {
    uint32_t operands; // the first, among those of the code; destinations first
    uint32_t opcode : INDEX_BITS;
    uint32_t kind : 3;
    uint32_t guarded : 1, negated : 1; // under a predicate, its first operand
    uint32_t varying : 1;              // its results differ between threads whatever its operands
    uint32_t reducible : 1;            // an atomic that becomes `red` when its result is not used
    uint32_t moves : 1;                // a value to a register, as it is
    uint32_t positive : 1;             // a difference that is above zero
    uint8_t depth;
    uint8_t dst_count;
    uint8_t operand_count;
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
    uint32_t next; // another one with the same hash; 0: no more
    uint8_t length;
    uint8_t rule; // divergence.c's; 0: not looked up yet
};

// ---- what entries hold --------------------------------------------------------------------------

struct label {
    const char *name;
    const char *part; // "", "_end", "_else", "_label"
    uint32_t number;
    uint32_t uses;
    uint32_t first_use; // the first branch to it
    uint32_t index;     // of the instruction that places it
    uint32_t changes;   // struct divergence's, when it was last come by
    uint32_t block;     // where it is placed
    uint16_t entry;
    bool placed;
    bool raw;
};

enum symbol_kind { SYMBOL_SHARED, SYMBOL_DYNAMIC, SYMBOL_LOCAL, SYMBOL_PARAM };

struct symbol {
    const char *name;
    ptx_val base; // its address, once something needs it in a register
    uint32_t count;
    uint16_t entry;
    uint8_t kind;
    uint8_t type;
    bool used;
};

struct param {
    struct ptx_param_info info;
    uint32_t reg;    // what the body uses
    uint32_t symbol; // parameters that are arrays
};

// Who must come by an instruction together: all threads of the block, or of the warp.
enum meeting { MEET_BLOCK, MEET_WARP, MEETINGS };

struct entry {
    struct ptx_entry_params decl;
    LIST(struct param) params;
    uint32_t registers[FILE_COUNT]; // by file
    uint32_t arrays;                // shared and local, for their names
    uint32_t labels;                // that have a number
    uint32_t first_label, first_block, first_reg, first_symbol;
    uint32_t shared_bytes, local_bytes, param_bytes;
    bool returns; // before its end
    // By enum meeting, whether something needs all; and whether in a block or after a return.
    bool meets[MEETINGS], inner[MEETINGS];
    bool raw_labels;
};

enum block_kind { BLOCK_ENTRY, BLOCK_IF, BLOCK_ELSE, BLOCK_FOR, BLOCK_LOOP };

struct block {
    uint32_t id;
    uint8_t kind;
    uint32_t first;     // index of its first instruction
    uint32_t head, end; // labels
    ptx_val i, hi, step;
};

enum { OPCODE_HASHES = 64 };

struct ptx_builder {
    bool failed;
    bool finished;
    bool in_prologue;
    uint16_t owner;
    char *arena, *arena_end;     // what is left of the newest chunk
    struct code code[2];         // of the open entry; [1] is for what declarations need first
    LIST(struct reg) regs;       // [0] is no register
    LIST(struct block) blocks;   // open ones, innermost last
    LIST(bool) open;             // by block, whether it still is
    LIST(struct opcode) opcodes; // [0] is none
    LIST(union extra) extras;    // of the open entry
    LIST(struct label) labels;
    LIST(struct symbol) symbols;
    LIST(struct entry) entries;
    LIST(char) text;
    struct arena_chunk *chunks;
    struct ptx_builder_params params;
    uint32_t closed_if; // the end label's index of the if that closed just now, NO_INDEX: none
    struct block closed_block;
    int isa;
    const char *isa_reason;
    size_t bytes, peak;
    uint32_t opcode_at[OPCODE_HASHES]; // the newest of those with one hash; the others by `next`
    char error[512];
};

// ---- builder.c ----------------------------------------------------------------------------------

// Errors: the first one stays. `call` is the public function's name without "ptx_".
void ptxb_fail(ptx_builder *b, const char *call, const char *format, ...) PTXGEN_PRINTF(3, 4);
// False if nothing can be emitted: failed, finished or no open entry.
void ptxb_fail_unready(ptx_builder *b, const char *call);
static inline bool ptxb_ready(ptx_builder *b, const char *call)
{
    if (b && !b->failed && !b->finished && b->blocks.count)
        return true;
    ptxb_fail_unready(b, call);
    return false;
}
// The floors of an instruction; fails if target or pinned ISA is below.
bool ptxb_require(ptx_builder *b, const char *call, int isa, int sm, const char *what);
struct entry *ptxb_entry(ptx_builder *b);

// Memory, freed with the builder. All return NULL after an error.
void *ptxb_alloc(ptx_builder *b, size_t bytes);
void *ptxb_resize(ptx_builder *b, void *memory, size_t old_bytes, size_t bytes);
// Room for `least` elements of a list, of which there can be `most`. The first lie in the arena.
bool ptxb_grow(ptx_builder *b, void **at, uint32_t *capacity, size_t size, uint32_t least,
               uint32_t most);
#define ROOM_FOR_UP_TO(most, b, list, more)                                                        \
    ((list).capacity - (list).count >= (more) ||                                                   \
     ptxb_grow(b, (void **)&(list).at, &(list).capacity, sizeof *(list).at, (list).count + (more), \
               most))
// Whether there is room for so many more elements.
#define ROOM_FOR(b, list, more) ROOM_FOR_UP_TO(MOST_INDEX, b, list, more)
const char *ptxb_copy(ptx_builder *b, const char *text);
char *ptxb_format(ptx_builder *b, const char *format, ...) PTXGEN_PRINTF(2, 3);
char *ptxb_vformat(ptx_builder *b, const char *call, const char *format, va_list args)
    PTXGEN_PRINTF(3, 0);

// ---- types.c ------------------------------------------------------------------------------------

struct type_row {
    const char *name, *mov;
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
// The type that an instruction on plain bits has: "b16" for f16, "pred" for predicates.
const char *ptxb_bits_name(ptx_type type);
// The move of plain bits, and the move of a value as what it is where PTX has one.
const char *ptxb_mov_bits(ptx_type type);
const char *ptxb_mov_value(ptx_type type);
// The type in loads, stores and moves: "b16" for f16, else its own name.
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
// "generic", "global", ...; and ".global", or "" for generic, as instructions have it.
const char *ptxb_space_name(unsigned space);
const char *ptxb_space_text(unsigned space);
int ptxb_target_isa(struct ptx_target target);

// ---- emit.c: the one door, by which every instruction is appended -------------------------------

static inline bool ptxb_is_open(const ptx_builder *b, uint32_t block)
{
    return b->open.at[block];
}
// Whether an optional operand was given at all, be it wrong.
static inline bool ptxb_is_given(ptx_val x)
{
    return x.kind != PTX_KIND_POISON || x.type != PTX_NONE;
}
// Whether `x` is a value that can be used here; `name` is for the message.
bool ptxb_usable(ptx_builder *b, const char *call, const char *name, ptx_val x);
ptx_val ptxb_register(ptx_builder *b, ptx_type type);
// The number of an opcode: of the text, or of the strings one after the other up to a NULL. 0 after
// an error, and for an opcode whose floors are not met.
uint32_t ptxb_opcode(ptx_builder *b, const char *text);
uint32_t ptxb_spell(ptx_builder *b, ...);
uint32_t ptxb_required(ptx_builder *b, const char *call, int isa, int sm, uint32_t opcode);
// Appends an instruction, whose operands are to be set before the next one is appended: that may
// move it. NULL after an error, and for an opcode that is missing.
struct insn *ptxb_append(ptx_builder *b, enum insn_kind kind, uint32_t opcode, unsigned dst,
                         unsigned src);
// The k-th operand of an instruction that was appended just now.
void ptxb_result(ptx_builder *b, const struct insn *insn, unsigned k, ptx_val x);
void ptxb_source(ptx_builder *b, const struct insn *insn, unsigned k, ptx_val x);
void ptxb_address(ptx_builder *b, const struct insn *insn, unsigned k, ptx_ptr p);
// `text` must outlive the builder.
void ptxb_text_operand(ptx_builder *b, const struct insn *insn, unsigned k, enum operand_kind kind,
                       const char *text);
void ptxb_label_operand(ptx_builder *b, const struct insn *insn, unsigned k, uint32_t label);
// Braces around operands `first` to `last`.
void ptxb_brace(ptx_builder *b, const struct insn *insn, unsigned first, unsigned last);
// `dst = opcode src...`, up to 4 of them; the result's register has type `result`. Immediates that
// PTX has no literals for come in registers.
ptx_val ptxb_emit(ptx_builder *b, ptx_type result, uint32_t opcode, unsigned n, const ptx_val *src);
void ptxb_emit_void(ptx_builder *b, uint32_t opcode, unsigned n, const ptx_val *src);
ptx_val ptxb_mov(ptx_builder *b, ptx_val x);
// `x` in a register, immediates too.
ptx_val ptxb_in_register(ptx_builder *b, ptx_val x);
// var = x.
void ptxb_assign(ptx_builder *b, ptx_val var, ptx_val x);
// Whether `cond` is a predicate that can be used; and its register, 0 after an error.
bool ptxb_is_condition(ptx_builder *b, const char *call, ptx_val cond);
uint32_t ptxb_condition(ptx_builder *b, const char *call, ptx_val cond);
// The newest instruction, of which there must be one.
struct insn *ptxb_newest(const ptx_builder *b);
// Its results differ between threads.
void ptxb_mark_varying(ptx_builder *b);

// ---- entry.c, ops.c, control.c, memory.c --------------------------------------------------------

ptx_val ptxb_symbol_base(ptx_builder *b, uint32_t symbol);

const struct ptx_op_form *ptxb_form(const struct ptx_op_info *info, ptx_type type);

uint32_t ptxb_open_block(ptx_builder *b, struct block block); // its number; 0 after an error
void ptxb_return(ptx_builder *b, uint32_t guard);
// For messages, which cut long names.
void ptxb_label_text(const struct label *label, char out[96]);

// ---- check.c, divergence.c, print.c: a closed entry ---------------------------------------------

bool ptxb_check_entry(ptx_builder *b, const struct entry *entry);
static inline struct label *ptxb_label_of(const ptx_builder *b, const struct insn *branch)
{
    return &b->labels.at[ptxb_operands(&b->code[0], branch)[branch->guarded].value - 1];
}
// The index that a branch or return goes to; the entry's end for returns.
static inline uint32_t ptxb_target_of(const ptx_builder *b, const struct insn *insn)
{
    return insn->kind == INSN_RETURN ? b->code[0].insns.count : ptxb_label_of(b, insn)->index;
}
// Nobody is missing where threads meet.
bool ptxb_check_divergence(ptx_builder *b, const struct entry *entry);
// Those who must come by the newest instruction.
void ptxb_meet(ptx_builder *b, enum meeting scope);

// Appends the entry's text; and puts what a module begins with before all.
void ptxb_print_entry(ptx_builder *b, struct entry *entry);
bool ptxb_print_module(ptx_builder *b);

#endif
