// SPDX-License-Identifier: MIT
// The one door: every instruction is appended here. The end of internal.h; what every instruction
// goes through is inline.
#ifndef PTXGEN_BUILDER_EMIT_H
#define PTXGEN_BUILDER_EMIT_H

static inline bool ptxb_is_open(const ptx_builder *b, uint32_t block)
{
    return b->open.at[block];
}

// Whether `x`, whose type is one, is a value that can be used here; not whether the builder failed.
static inline bool ptxb_is_alive(const ptx_builder *b, const ptx_val *x)
{
    if (x->kind == PTX_KIND_IMMEDIATE) {
        const unsigned bits = ptxb_types[x->type].bits;
        return bits > 63 || x->bits >> bits == 0;
    }
    return (x->kind == PTX_KIND_REGISTER || x->kind == PTX_KIND_VARIABLE) && x->owner == b->owner &&
           x->reg && x->reg < b->regs.count && ptxb_is_open(b, b->regs.at[x->reg].where);
}

// Whether an optional operand was given at all, be it wrong.
static inline bool ptxb_is_given(ptx_val x)
{
    return x.kind != PTX_KIND_POISON || x.type != PTX_NONE;
}
void ptxb_fail_value(ptx_builder *b, const char *call, const char *name, ptx_val x);
static inline bool ptxb_usable(ptx_builder *b, const char *call, const char *name, ptx_val x)
{
    if (b->failed)
        return false;
    if (ptxb_bits((ptx_type)x.type) && ptxb_is_alive(b, &x))
        return true;
    ptxb_fail_value(b, call, name, x);
    return false;
}

// A new register, in room that there is.
static inline ptx_val ptxb_next_register(ptx_builder *b, ptx_type type)
{
    // What the prologue defines is defined everywhere in the entry.
    const struct block *block = &b->blocks.at[b->in_prologue ? 0 : b->blocks.count - 1];

    b->regs.at[b->regs.count] =
        (struct reg) { .where = block->id & MOST_INDEX, .file = ptxb_file(type) & 7u };
    return (ptx_val) {
        .reg = b->regs.count++, .owner = b->owner, .kind = PTX_KIND_REGISTER, .type = (uint8_t)type
    };
}
static inline ptx_val ptxb_register(ptx_builder *b, ptx_type type)
{
    return !b->failed && ROOM_FOR(b, b->regs, 1) ? ptxb_next_register(b, type) : (ptx_val) { 0 };
}

bool ptxb_grow_code(ptx_builder *b, struct code *code, uint32_t words);
// Appends an instruction, whose operands are to be set before the next one is appended: that may
// move it. NULL after an error, and for an opcode that is missing.
static inline struct insn *ptxb_append(ptx_builder *b, enum insn_kind kind, uint32_t opcode,
                                       unsigned dst, unsigned src)
{
    struct code *code = &b->code[b->in_prologue];
    const uint32_t words = 1 + dst + src;

    if (b->failed || (!opcode && kind == INSN_PLAIN) ||
        (code->capacity - code->count < words && !ptxb_grow_code(b, code, words)))
        return NULL;
    const uint32_t depth = b->in_prologue ? 1 : b->blocks.count;
    struct insn *insn = ptxb_insn(code, code->count);
    *insn = (struct insn) { .opcode = opcode & MOST_INDEX,
                            .kind = kind & 7u,
                            .depth = (depth < MOST_DEPTH ? depth : MOST_DEPTH) & 127u,
                            .dst_count = (uint8_t)dst,
                            .operand_count = (uint8_t)(dst + src) };
    code->last = code->count;
    code->count += words;
    code->insns++;
    if (!b->in_prologue)
        b->closed_if = NO_INDEX;
    return insn;
}

static inline void ptxb_use(ptx_builder *b, uint32_t reg)
{
    b->regs.at[reg].used_again |= b->regs.at[reg].used;
    b->regs.at[reg].used = 1;
}

static inline void ptxb_result(struct insn *insn, unsigned k, ptx_val x)
{
    insn->operands[k] = (struct operand) { .id = x.reg & MOST_INDEX, .kind = OPERAND_REGISTER };
}
void ptxb_immediate(ptx_builder *b, struct insn *insn, unsigned k, const ptx_val *x);
static inline void ptxb_source(ptx_builder *b, struct insn *insn, unsigned k, const ptx_val *x)
{
    if (x->kind == PTX_KIND_IMMEDIATE) {
        ptxb_immediate(b, insn, k, x);
        return;
    }
    insn->operands[k] = (struct operand) { .id = x->reg & MOST_INDEX, .kind = OPERAND_REGISTER };
    ptxb_use(b, x->reg);
}
void ptxb_address(ptx_builder *b, struct insn *insn, unsigned k, ptx_ptr p);
// `text` must outlive the builder.
void ptxb_text_operand(ptx_builder *b, struct insn *insn, unsigned k, enum operand_kind kind,
                       const char *text);

// Whether the value can stand in an instruction: PTX has no literals of some types.
static inline bool ptxb_has_literal(const ptx_val *x)
{
    const uint32_t types = PTX_TYPES_I | PTX_TYPES_B | PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64);
    return x->kind != PTX_KIND_IMMEDIATE || (types >> x->type & 1);
}

// `dst = opcode src...`, up to 4 of them; the result's register has type `result`. Immediates that
// PTX has no literals for come in registers.
ptx_val ptxb_emit(ptx_builder *b, ptx_type result, uint32_t opcode, unsigned n, const ptx_val *src);
// The same where all of `src` can stand as they are.
ptx_val ptxb_emit_plain(ptx_builder *b, ptx_type result, uint32_t opcode, unsigned n,
                        const ptx_val *src);
void ptxb_emit_void(ptx_builder *b, uint32_t opcode, unsigned n, const ptx_val *src);
ptx_val ptxb_mov(ptx_builder *b, ptx_val x);
// `x` in a register, immediates too.
static inline ptx_val ptxb_in_register(ptx_builder *b, ptx_val x)
{
    return x.kind == PTX_KIND_IMMEDIATE ? ptxb_mov(b, x) : x;
}
// Whether `cond` is a predicate that can be used.
bool ptxb_is_condition(ptx_builder *b, const char *call, ptx_val cond);
// Its register; 0 after an error.
uint32_t ptxb_condition(ptx_builder *b, const char *call, ptx_val cond);
// The newest instruction, of which there must be one.
static inline struct insn *ptxb_newest(const ptx_builder *b)
{
    const struct code *code = &b->code[b->in_prologue];
    return ptxb_insn(code, code->last);
}
// Reads that differ between threads.
void ptxb_mark_varying(ptx_builder *b);

#endif
