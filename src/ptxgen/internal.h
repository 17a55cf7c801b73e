// SPDX-License-Identifier: MIT
// What the builder's files share. A module is a list of entries; an entry two lists of
// instructions (what its declarations need first, then its body) that are printed at the end.
#ifndef PTXGEN_BUILDER_INTERNAL_H
#define PTXGEN_BUILDER_INTERNAL_H

#include <ptxgen/builder.h>

#include <stdarg.h>
#include <string.h>

// Room that numbers take in the text.
enum { UNSIGNED_BYTES = 20, DECIMAL_BYTES = 40 };

enum operand_kind {
    OPERAND_REGISTER,
    OPERAND_IMMEDIATE,
    OPERAND_ADDRESS, // [register + offset]
    OPERAND_SYMBOL,  // [symbol + offset]
    OPERAND_PARAM,   // [text]
    OPERAND_TEXT,
};

struct operand {
    union {
        uint64_t bits;    // OPERAND_IMMEDIATE
        const char *text; // OPERAND_PARAM, OPERAND_TEXT
        struct {
            int32_t offset;
            uint32_t symbol; // OPERAND_SYMBOL
        } place;
    } as;
    uint32_t reg; // what it reads or writes, 0: none
    uint8_t kind;
    uint8_t type; // of an immediate
    bool open;    // '{' before it
    bool close;   // '}' after it
};

enum insn_kind {
    INSN_PLAIN,
    INSN_LABEL,
    INSN_BRANCH,
    INSN_RETURN,
    INSN_BARRIER, // every thread of the block must come by
    INSN_COMMENT,
};

struct insn {
    struct insn *next;
    const char *opcode; // INSN_COMMENT: the text
    uint32_t guard;     // register of the predicate, 0: none
    uint32_t label;     // INSN_LABEL, INSN_BRANCH
    uint32_t index;
    unsigned kind : 4;
    unsigned guard_negated : 1;
    unsigned varying : 1;   // its results differ between threads whatever its operands
    unsigned reducible : 1; // an atomic that becomes `red` when its result is not used
    unsigned depth : 6;
    unsigned dst_count : 4;
    unsigned operand_count : 5; // destinations first
    struct operand operands[];
};

struct insn_list {
    struct insn *first, *last;
};

struct reg {
    union {
        uint32_t block;  // where it is defined
        uint32_t number; // in the text, once it is placed
    };
    uint32_t uses;
    uint16_t entry;
    unsigned file : 3;
    unsigned variable : 1;
    unsigned placed : 1; // has its number
    unsigned varying : 1;
};

struct label {
    const char *name;
    const char *part; // "", "_end", "_else", "_label"
    struct insn *insn;
    uint32_t number;
    uint32_t uses;
    uint32_t first_use; // index of the first branch to it
    uint32_t block;     // where it is placed
    uint16_t entry;
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

struct entry {
    struct ptx_entry_params decl;
    struct insn_list prologue, body;
    struct param *params;
    uint32_t param_count;
    uint32_t param_capacity;
    uint32_t registers[6]; // by file
    uint32_t arrays;       // shared and local, for their names
    uint32_t labels;
    uint32_t insns;
    uint32_t shared_bytes, local_bytes, param_bytes;
    bool barriers;
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

// A growing array; see ptxb_grow().
#define LIST(type)                                                                                 \
    struct {                                                                                       \
        type *at;                                                                                  \
        uint32_t count, capacity;                                                                  \
    }

// An opcode that was spelled before, by all that its spelling depends on.
struct spelling {
    uint64_t key;       // 0: none
    const char *opcode; // NULL with it
};

// The decimal of a float immediate that was written before: the search for the shortest takes
// longer than all else of an instruction, and kernels repeat their constants.
struct decimal {
    uint64_t bits;
    uint8_t type; // 0: none
    char text[DECIMAL_BYTES];
};

enum { SPELLINGS = 64, DECIMALS = 4 };

struct ptx_builder {
    struct ptx_builder_params params;
    char *arena, *arena_end; // what is left of the newest chunk
    struct arena_chunk *chunks;
    LIST(struct reg) regs; // [0] is no register
    LIST(struct label) labels;
    LIST(struct symbol) symbols;
    LIST(struct entry) entries;
    LIST(struct block) blocks; // open ones, innermost last
    struct {
        char *at;
        size_t count, capacity;
    } text;
    struct insn *closed_if; // the end label of the if that closed just now
    struct block closed_block;
    uint32_t next_block;
    bool in_prologue;
    bool failed;
    bool finished;
    int isa;
    const char *isa_reason;
    uint16_t owner;
    size_t bytes, peak;
    char error[512];
    struct spelling spellings[SPELLINGS];
    struct decimal decimals[DECIMALS];
};

enum register_file { FILE_P, FILE_RS, FILE_R, FILE_RD, FILE_F, FILE_FD, FILE_COUNT };

// arena.c. All return NULL after ptxb_out_of_memory().
// A builder begins with so much memory behind it.
enum { FIRST_CHUNK_BYTES = 12288 };
// Zeroed, and freed with the builder.
void *ptxb_alloc(ptx_builder *b, size_t bytes);
void *ptxb_resize(ptx_builder *b, void *memory, size_t old_bytes, size_t bytes);
// Room for one more element of a list. The first elements lie in the arena.
bool ptxb_grow(ptx_builder *b, void **at, uint32_t count, uint32_t *capacity, size_t size);
void ptxb_release(ptx_builder *b);
// The strings one after the other, up to a NULL.
const char *ptxb_join(ptx_builder *b, ...);
char *ptxb_format(ptx_builder *b, const char *format, ...) PTXGEN_PRINTF(2, 3);
char *ptxb_vformat(ptx_builder *b, const char *call, const char *format, va_list args)
    PTXGEN_PRINTF(3, 0);

// builder.c
// Errors: the first one stays. `call` is the public function's name without "ptx_".
void ptxb_fail(ptx_builder *b, const char *call, const char *format, ...) PTXGEN_PRINTF(3, 4);
void ptxb_out_of_memory(ptx_builder *b);
// False if nothing can be emitted: failed, finished or no open entry.
bool ptxb_ready(ptx_builder *b, const char *call);
// The floors of an instruction; fails if target or pinned ISA is below.
bool ptxb_require(ptx_builder *b, const char *call, int isa, int sm, const char *what);
struct entry *ptxb_entry(ptx_builder *b);

// types.c
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

// emit.c: the one door.
bool ptxb_usable(ptx_builder *b, const char *call, const char *name, ptx_val x);
ptx_val ptxb_register(ptx_builder *b, ptx_type type);
struct insn *ptxb_append(ptx_builder *b, enum insn_kind kind, const char *opcode, unsigned dst,
                         unsigned src);
void ptxb_operand(ptx_builder *b, struct insn *insn, unsigned k, ptx_val x);
void ptxb_address(ptx_builder *b, struct insn *insn, unsigned k, ptx_ptr p);
// `dst = opcode src...`; the result's register has type `result`.
ptx_val ptxb_emit(ptx_builder *b, ptx_type result, const char *opcode, unsigned n,
                  const ptx_val *src);
void ptxb_emit_void(ptx_builder *b, const char *opcode, unsigned n, const ptx_val *src);
ptx_val ptxb_mov(ptx_builder *b, ptx_val x);
// `x` in a register, immediates too.
ptx_val ptxb_in_register(ptx_builder *b, ptx_val x);
// Whether `cond` is a predicate that can be used.
bool ptxb_is_condition(ptx_builder *b, const char *call, ptx_val cond);
// Its register, counted as used by a branch; 0 after an error.
uint32_t ptxb_condition(ptx_builder *b, const char *call, ptx_val cond);
bool ptxb_is_open(const ptx_builder *b, uint32_t block);
// Reads that differ between threads.
void ptxb_mark_varying(ptx_builder *b);

// symbols (entry.c)
ptx_val ptxb_symbol_base(ptx_builder *b, uint32_t symbol);

// table.c
const struct ptx_form *ptxb_form(const struct ptx_op_info *info, ptx_type type);
// Opcodes are remembered by what they are spelled from: one of these and fields above its byte.
enum { SPELLED_OP = 1, SPELLED_CVT, SPELLED_LD, SPELLED_ST };
// 0 if something is out of range.
uint64_t ptxb_op_key(const struct ptx_op_params *p, ptx_type type);
// The opcode that was remembered under the key and met its floors, or NULL.
const char *ptxb_remembered(const ptx_builder *b, uint64_t key);
void ptxb_remember(ptx_builder *b, uint64_t key, const char *opcode);

// label.c
uint32_t ptxb_label(ptx_builder *b, const char *name, uint32_t number, const char *part);
void ptxb_place(ptx_builder *b, uint32_t label);
void ptxb_branch(ptx_builder *b, uint32_t guard, bool negated, uint32_t label);
// For messages, which cut long names.
void ptxb_label_text(const struct label *label, char out[96]);

// var.c: var = x.
void ptxb_assign(ptx_builder *b, ptx_val var, ptx_val x);

// memory.c
ptx_ptr ptxb_at(ptx_builder *b, const char *call, ptx_ptr p, ptx_val i);
// Whether `bytes` from `p` on, in one access, are inside its array, if it is known.
bool ptxb_in_array(ptx_builder *b, const char *call, ptx_ptr p, unsigned bytes);

// text.c: what the text is made of.
// The end of the text, with room for `bytes` after it; NULL if memory ran out. What is written
// there counts once ptxb_put_end() is told where it ends.
char *ptxb_room(ptx_builder *b, size_t bytes);
void ptxb_put_end(ptx_builder *b, const char *end);
void ptxb_put(ptx_builder *b, const char *string);
void ptxb_put_unsigned(ptx_builder *b, uint64_t x);
// Text of the user's for a comment: whatever could end the comment, or is not ASCII, is replaced.
void ptxb_put_comment(ptx_builder *b, const char *string);
void ptxb_pad(ptx_builder *b, size_t line_start, size_t column);
// These write where there is room, and return the end.
static inline char *ptxb_write(char *at, const char *string)
{
    const size_t length = strlen(string);
    memcpy(at, string, length + 1);
    return at + length;
}
char *ptxb_write_unsigned(char *at, uint64_t x);
char *ptxb_write_immediate(char *at, ptx_type type, uint64_t bits);
// The decimal of a float immediate, and a NUL after it; at most DECIMAL_BYTES.
char *ptxb_write_decimal(char *at, ptx_type type, uint64_t bits);

// check.c, print.c
bool ptxb_check_entry(ptx_builder *b, struct entry *entry);
void ptxb_coalesce(ptx_builder *b, struct entry *entry);
bool ptxb_print(ptx_builder *b);

#endif
