// SPDX-License-Identifier: MIT
// The functions that the files of the builder share, by file.
#ifndef PTXGEN_BUILDER_INTERNAL_H
#define PTXGEN_BUILDER_INTERNAL_H

#include "state.h"

#include <stdarg.h>
#include <string.h>

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

// ---- entry.c, entry_param.c, function.c, ops.c, control.c, memory.c -----------------------------

// Checks that a name is a PTX identifier, without '$' and '%': the builder uses those in names of
// its own. And that nothing in the module has it.
bool ptxb_valid_name(ptx_builder *b, const char *call, const char *name);
bool ptxb_name_is_free(ptx_builder *b, const char *call, const char *name);
// The same for a parameter: other entries may have one of its name.
bool ptxb_param_name_is_free(ptx_builder *b, const char *call, const char *name);
// Whether each parameter of a closed entry is used, or said to be unused; and whether the
// parameters are there by which others say their lengths and bounds.
bool ptxb_params_are_used(ptx_builder *b, const struct entry *entry);
bool ptxb_params_are_there(ptx_builder *b, const struct entry *entry);
static inline bool ptxb_is_of_module(const struct symbol *symbol)
{
    return symbol->kind >= SYMBOL_GLOBAL;
}
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
// The symbol's number is its index plus one.
ptx_ptr ptxb_symbol_ptr(const ptx_builder *b, uint32_t symbol, ptx_space space, bool readonly);
// The same for a new symbol, whose strings live as long as the builder.
ptx_ptr ptxb_declare_array(ptx_builder *b, struct symbol symbol, ptx_space space, bool readonly);
// Whether a call may use the pointer, whose array is used then; and, of a declared array, as many
// bytes from there on.
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
