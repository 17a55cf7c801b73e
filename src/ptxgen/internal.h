// SPDX-License-Identifier: MIT
// What the builder's files share. A module is a list of entries; the instructions of all of them
// (insn.h) are printed at the end.
#ifndef PTXGEN_BUILDER_INTERNAL_H
#define PTXGEN_BUILDER_INTERNAL_H

#include "insn.h"

#include <ptxgen/builder.h>

#include <stdarg.h>
#include <string.h>

// Room that numbers take in the text.
enum { UNSIGNED_BYTES = 20, DECIMAL_BYTES = 40 };

// How a line is laid out.
enum { INDENT = 4, MOST_DEPTH = 32, OPERAND_COLUMN = 20, COMMENT_COLUMN = 44 };

// A growing array; see ROOM_FOR().
#define LIST(type)                                                                                 \
    struct {                                                                                       \
        type *at;                                                                                  \
        uint32_t count, capacity;                                                                  \
    }

struct label {
    const char *name;
    const char *part; // "", "_end", "_else", "_label"
    uint32_t number;
    uint32_t uses;
    uint32_t first_use;    // index of the first branch to it
    uint32_t index, place; // of the instruction that places it
    uint32_t changes;      // struct divergence's, when it was last come by
    uint32_t block;        // where it is placed
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
    struct stretch prologue, body; // once the entry is closed
    LIST(struct param) params;
    uint32_t registers[FILE_COUNT]; // by file
    uint32_t arrays;                // shared and local, for their names
    uint32_t labels;                // that have a number
    uint32_t first_label, first_block, first_reg;
    uint32_t shared_bytes, local_bytes, param_bytes;
    bool returns; // before its end
    // By enum meeting, whether something needs all threads; and whether in a block or after a
    // return.
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

// The decimal of a float immediate that was written before: the search for the shortest takes
// longer than all else of an instruction, and kernels repeat their constants.
struct decimal {
    uint64_t bits;
    uint8_t type; // 0: none
    uint8_t length;
    char text[DECIMAL_BYTES];
};

enum { OPCODE_PLACES = 128, DECIMALS = 4 };

struct ptx_builder {
    bool failed;
    bool finished;
    bool in_prologue;
    uint16_t owner;
    char *arena, *arena_end;     // what is left of the newest chunk
    struct code code[2];         // [1] is for what declarations need first
    LIST(struct reg) regs;       // [0] is no register
    LIST(struct block) blocks;   // open ones, innermost last
    LIST(bool) open;             // by block, whether it still is
    LIST(struct opcode) opcodes; // [0] is none
    LIST(union extra) extras;
    LIST(struct label) labels;
    LIST(struct symbol) symbols;
    LIST(struct entry) entries;
    // The instructions that are still to be printed lie at the end of it, from `limit` on.
    struct {
        char *at;
        size_t count, limit, capacity;
    } text;
    struct arena_chunk *chunks;
    struct ptx_builder_params params;
    uint32_t closed_if; // where the end label is of the if that closed just now, NO_INDEX: none
    struct block closed_block;
    int isa;
    const char *isa_reason;
    size_t bytes, peak;
    uint32_t opcode_at[OPCODE_PLACES]; // the newest of those with one place; the others by `next`
    struct decimal decimals[DECIMALS];
    char error[512];
};

// arena.c. All return NULL after ptxb_out_of_memory().
// A builder begins with so much memory behind it.
enum { FIRST_CHUNK_BYTES = 8192 };
// Freed with the builder.
void *ptxb_alloc(ptx_builder *b, size_t bytes);
void *ptxb_resize(ptx_builder *b, void *memory, size_t old_bytes, size_t bytes);
// Room for `least` elements of a list, of which there can be `most`. The first lie in the arena.
bool ptxb_grow(ptx_builder *b, void **at, uint32_t *capacity, size_t size, uint32_t least,
               uint32_t most);
bool ptxb_set_capacity(ptx_builder *b, void **at, uint32_t *capacity, size_t size, uint32_t wanted);
#define ROOM_FOR_UP_TO(most, b, list, more)                                                        \
    ((list).capacity - (list).count >= (more) ||                                                   \
     ptxb_grow(b, (void **)&(list).at, &(list).capacity, sizeof *(list).at, (list).count + (more), \
               most))
// Whether there is room for so many more elements.
#define ROOM_FOR(b, list, more)      ROOM_FOR_UP_TO(MOST_INDEX, b, list, more)
#define ROOM_FOR_CODE(b, code, more) ROOM_FOR_UP_TO(UINT32_MAX / 2, b, code, more)
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

// "cvta.to.global.u64", for entry.c and pointer.c alike.
extern const char ptxb_cvta[];

// symbols (entry.c)
ptx_val ptxb_symbol_base(ptx_builder *b, uint32_t symbol);

// table.c
const struct ptx_op_form *ptxb_form(const struct ptx_op_info *info, ptx_type type);
// Opcodes are remembered by what they are spelled from: one of these and fields above its byte.
enum {
    SPELLED_OP = 1,
    SPELLED_CVT,
    SPELLED_LD,
    SPELLED_ST,
    SPELLED_PARAM,
    SPELLED_ATOM,
    SPELLED_FENCE,
    SPELLED_REDUX
};
static inline uint64_t ptxb_op_key(ptx_opcode op, ptx_type type)
{
    return SPELLED_OP | (uint64_t)op << 8 | (uint64_t)type << 16;
}
static inline size_t ptxb_opcode_place(uint64_t key)
{
    return key * UINT64_C(0x9e3779b97f4a7c15) >> 57 & (OPCODE_PLACES - 1);
}
// The opcode that was remembered under the key and met its floors; 0: none.
static inline uint32_t ptxb_remembered(const ptx_builder *b, uint64_t key)
{
    uint32_t number = b->opcode_at[ptxb_opcode_place(key)];

    while (number && b->opcodes.at[number].key != key)
        number = b->opcodes.at[number].next;
    return number;
}
// A new opcode, under a key that none has; `text` must outlive the builder. It is not found again
// under the key 0. 0 if memory ran out, and for no text.
uint32_t ptxb_remember(ptx_builder *b, uint64_t key, const char *text);
// The opcode of a constant string.
static inline uint32_t ptxb_opcode(ptx_builder *b, const char *text)
{
    const uint64_t key = (uint64_t)(uintptr_t)text | UINT64_C(1) << 63; // no key of a spelling
    const uint32_t known = ptxb_remembered(b, key);
    return known ? known : ptxb_remember(b, key, text);
}

// label.c
uint32_t ptxb_label(ptx_builder *b, const char *name, uint32_t number, const char *part);
void ptxb_place(ptx_builder *b, uint32_t label);
void ptxb_branch(ptx_builder *b, uint32_t guard, bool negated, uint32_t label);
// For messages, which cut long names.
void ptxb_label_text(const struct label *label, char out[96]);

// control.c
struct block *ptxb_open_block(ptx_builder *b, struct block block);
// Puts the instruction, which has room for it as its first operand, under a predicate.
void ptxb_guard(ptx_builder *b, struct insn *insn, uint32_t guard, bool negated);
void ptxb_return(ptx_builder *b, uint32_t guard);

// var.c: var = x.
void ptxb_assign(ptx_builder *b, ptx_val var, ptx_val x);

// memory.c
ptx_ptr ptxb_at(ptx_builder *b, const char *call, ptx_ptr p, ptx_val i);
// Whether `bytes` from `p` on, in one access, are inside its array, if it is known.
bool ptxb_in_array(ptx_builder *b, const char *call, ptx_ptr p, unsigned bytes);

// text.c: what the text is made of.
// Makes the memory that has the code that of the text, of about so many bytes: the instructions go
// to its end, and the text is written towards them as they are printed.
bool ptxb_text_over_code(ptx_builder *b, size_t bytes);
// The end of the text, with room for `bytes` after it; NULL if memory ran out. Instructions that
// are still to be printed may move. What is written there counts once ptxb_put_end() is told where
// it ends.
char *ptxb_grow_text(ptx_builder *b, size_t bytes);
static inline char *ptxb_room(ptx_builder *b, size_t bytes)
{
    if (b->failed)
        return NULL;
    return b->text.limit - b->text.count > bytes ? b->text.at + b->text.count
                                                 : ptxb_grow_text(b, bytes);
}
static inline void ptxb_put_end(ptx_builder *b, const char *end)
{
    b->text.count = (size_t)(end - b->text.at);
}
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
extern const struct small_number {
    char text[3];
    uint8_t length;
} ptxb_small_numbers[1000];
char *ptxb_write_digits(char *at, uint64_t x);
// Writes up to UNSIGNED_BYTES, and 4 at least.
static inline char *ptxb_write_unsigned(char *at, uint64_t x)
{
    if (x >= 1000)
        return ptxb_write_digits(at, x);
    const struct small_number *small = &ptxb_small_numbers[x];
    memcpy(at, small, sizeof *small);
    return at + small->length;
}
char *ptxb_write_immediate(char *at, ptx_type type, uint64_t bits);
// The decimal of a float immediate; writes up to DECIMAL_BYTES.
char *ptxb_write_decimal(char *at, ptx_type type, uint64_t bits);

// check.c
bool ptxb_check_entry(ptx_builder *b, struct entry *entry);

// The instructions of a body, one after the other, with their indices:
// for (struct reader r = ptxb_read_body(b, entry); r.insn; ptxb_read_next(&r)).
struct reader {
    const struct insn *insn;
    uint32_t index, count;
};

static inline struct reader ptxb_read_body(const ptx_builder *b, const struct entry *entry)
{
    return (struct reader) { ptxb_insn(&b->code[0], entry->body.first), 0, entry->body.count };
}

// As if the label came next.
static inline struct reader ptxb_read_from(const ptx_builder *b, const struct reader *r,
                                           const struct label *label)
{
    return (struct reader) { ptxb_insn(&b->code[0], label->place), label->index, r->count };
}

static inline void ptxb_read_next(struct reader *r)
{
    r->insn = ++r->index < r->count ? ptxb_next(r->insn) : NULL;
}

static inline struct label *ptxb_label_of(const ptx_builder *b, const struct insn *branch)
{
    return &b->labels.at[branch->operands[branch->guarded].value - 1];
}

// The index that a branch or return goes to; the entry's end for returns.
static inline uint32_t ptxb_target_of(const ptx_builder *b, const struct entry *entry,
                                      const struct insn *insn)
{
    return insn->kind == INSN_RETURN ? entry->body.count : ptxb_label_of(b, insn)->index;
}

// divergence.c
// Nobody is missing where threads meet.
bool ptxb_check_divergence(ptx_builder *b, const struct entry *entry);
// Those who must come by the newest instruction.
void ptxb_meet(ptx_builder *b, enum meeting scope);

// settle.c: drops idle moves and numbers the registers. Returns about how long the text of the
// entry will be.
size_t ptxb_settle(ptx_builder *b, struct entry *entry);

// line.c
enum {
    // Most that an instruction can have, beside what things are called.
    OPCODE_BYTES = 64,
    LINE_BYTES = MOST_DEPTH * INDENT + 16 + OPCODE_BYTES + OPERAND_COLUMN + COMMENT_COLUMN + 16,
    OPERAND_BYTES = 32 + DECIMAL_BYTES,
};
size_t ptxb_names_bytes(const ptx_builder *b, const struct insn *insn);
// At most so many bytes are written for an instruction that is no comment.
static inline size_t ptxb_line_bytes(const ptx_builder *b, const struct insn *insn)
{
    return LINE_BYTES + insn->operand_count * (size_t)OPERAND_BYTES +
           (insn->named ? ptxb_names_bytes(b, insn) : 0);
}
// Writes its line, for which there must be room.
void ptxb_put_insn(ptx_builder *b, const struct insn *insn);
extern const struct file_row {
    const char *type;
    uint8_t length;
    char prefix[4];
} ptxb_files[FILE_COUNT];

// print.c
bool ptxb_print(ptx_builder *b);

#include "emit.h"

#endif
