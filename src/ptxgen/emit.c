// SPDX-License-Identifier: MIT
// The one door: every instruction is appended here.
#include "internal.h"

static const char *entry_of(const ptx_builder *b, uint32_t block)
{
    uint32_t e = b->entries.count - 1;

    while (b->entries.at[e].first_block > block)
        e--;
    return b->entries.at[e].decl.name;
}

void ptxb_fail_value(ptx_builder *b, const char *call, const char *name, ptx_val x)
{
    const unsigned bits = ptxb_bits((ptx_type)x.type);
    const bool fits = x.kind != PTX_IMMEDIATE || bits > 63 || x.bits >> bits == 0;

    if (x.kind == PTX_POISON || x.kind > PTX_IMMEDIATE || !bits || !fits)
        ptxb_fail(
            b, call,
            "%s is not a value: it was never set, or is an immediate outside its type's range",
            name);
    else if (x.owner != b->owner || x.reg == 0 || x.reg >= b->regs.count)
        ptxb_fail(b, call, "%s belongs to another builder", name);
    else if (b->regs.at[x.reg].where < ptxb_entry(b)->first_block)
        ptxb_fail(b, call, "%s was made in another entry, '%.64s'", name,
                  entry_of(b, b->regs.at[x.reg].where));
    else
        ptxb_fail(b, call,
                  "%s was made inside a block that is closed, so that it is not defined on every "
                  "path; make a ptx_var before the block and ptx_set it inside",
                  name);
}

ptx_val ptxb_register(ptx_builder *b, ptx_type type)
{
    if (b->failed || !ROOM_FOR(b, b->regs, 1))
        return (ptx_val) { 0 };
    // What the prologue defines is defined everywhere in the entry.
    const struct block *block = &b->blocks.at[b->in_prologue ? 0 : b->blocks.count - 1];
    b->regs.at[b->regs.count] =
        (struct reg) { .where = block->id & MOST_INDEX, .file = ptxb_file(type) & 7u };
    return (ptx_val) {
        .reg = b->regs.count++, .owner = b->owner, .kind = PTX_REGISTER, .type = (uint8_t)type
    };
}

// Code begins with so many words once it has more than a few instructions.
enum { CODE_WORDS = 512 };

static bool grow_code(ptx_builder *b, struct code *code, uint32_t words)
{
    const uint32_t more = code->capacity && words < CODE_WORDS ? CODE_WORDS : words;

    return ROOM_FOR_CODE(b, *code, more);
}

struct insn *ptxb_append(ptx_builder *b, enum insn_kind kind, uint32_t opcode, unsigned dst,
                         unsigned src)
{
    struct code *code = &b->code[b->in_prologue];
    const uint32_t words = 1 + dst + src;

    if (b->failed || (!opcode && kind == INSN_PLAIN) ||
        (code->capacity - code->count < words && !grow_code(b, code, words)))
        return NULL;
    const uint32_t depth = b->in_prologue ? 1 : b->blocks.count;
    struct insn *insn = ptxb_insn(code, code->count);
    *insn = (struct insn) { .opcode = opcode & MOST_INDEX,
                            .kind = kind & 7u,
                            .depth = (uint8_t)(depth < 32 ? depth : 32),
                            .dst_count = (uint8_t)dst,
                            .operand_count = (uint8_t)(dst + src) };
    code->last = code->count;
    code->count += words;
    code->insns++;
    if (!b->in_prologue)
        b->closed_if = NO_INDEX;
    return insn;
}

static uint32_t add_extra(ptx_builder *b, union extra extra)
{
    if (!ROOM_FOR(b, b->extras, 1))
        return 0;
    b->extras.at[b->extras.count] = extra;
    return b->extras.count++;
}

static struct operand immediate(ptx_builder *b, ptx_val x)
{
    const bool wide = x.bits > UINT32_MAX;

    return (struct operand) {
        .kind = wide ? OPERAND_WIDE : OPERAND_IMMEDIATE,
        .type = x.type & 31u,
        .value = wide ? add_extra(b, (union extra) { .bits = x.bits }) : (uint32_t)x.bits,
    };
}

static inline void set_operand(ptx_builder *b, struct insn *insn, unsigned k, ptx_val x)
{
    if (x.kind == PTX_IMMEDIATE) {
        insn->operands[k] = immediate(b, x);
        return;
    }
    insn->operands[k] = (struct operand) { .id = x.reg & MOST_INDEX, .kind = OPERAND_REGISTER };
    if (k >= insn->dst_count)
        ptxb_use(b, x.reg);
}

void ptxb_operand(ptx_builder *b, struct insn *insn, unsigned k, ptx_val x)
{
    set_operand(b, insn, k, x);
}

void ptxb_address(ptx_builder *b, struct insn *insn, unsigned k, ptx_ptr p)
{
    const bool known = p.base.kind == PTX_POISON;

    insn->operands[k] = (struct operand) {
        .id = (known ? p.symbol : p.base.reg) & MOST_INDEX,
        .kind = known ? OPERAND_SYMBOL : OPERAND_ADDRESS,
        .offset = (int32_t)p.offset, // ptxb_at() takes care that it fits
    };
    if (!known)
        ptxb_use(b, p.base.reg);
}

void ptxb_text_operand(ptx_builder *b, struct insn *insn, unsigned k, enum operand_kind kind,
                       const char *text)
{
    insn->operands[k] = (struct operand) {
        .kind = kind & 7u,
        .value = add_extra(b, (union extra) { .text = text }),
    };
}

ptx_val ptxb_mov(ptx_builder *b, ptx_val x)
{
    const ptx_type type = (ptx_type)x.type;
    ptx_val result = ptxb_register(b, type);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, ptxb_opcode(b, ptxb_mov_value(type)), 1, 1);

    if (!insn)
        return (ptx_val) { 0 };
    insn->moves = 1;
    set_operand(b, insn, 0, result);
    set_operand(b, insn, 1, x);
    return result;
}

// PTX has literals of these types.
enum { LITERALS = PTX_SET_I | PTX_SET_B | PTX_SET(F32) | PTX_SET(F64) };

static inline bool has_literal(ptx_val x)
{
    return x.kind != PTX_IMMEDIATE || (LITERALS >> x.type & 1);
}

// The sources as the instruction can have them: `src`, or `own` with some of them in registers.
static inline const ptx_val *as_operands(ptx_builder *b, unsigned n, const ptx_val *src,
                                         ptx_val own[4])
{
    bool all = true;

    for (unsigned k = 0; k < n; k++)
        all &= has_literal(src[k]);
    if (all)
        return src;
    for (unsigned k = 0; k < n; k++)
        own[k] = has_literal(src[k]) ? src[k] : ptxb_mov(b, src[k]);
    return own;
}

ptx_val ptxb_emit(ptx_builder *b, ptx_type type, uint32_t opcode, unsigned n, const ptx_val *src)
{
    ptx_val own[4];

    if (b->failed)
        return (ptx_val) { 0 };
    src = as_operands(b, n, src, own);
    ptx_val result = ptxb_register(b, type);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 1, n);
    if (!insn)
        return (ptx_val) { 0 };
    set_operand(b, insn, 0, result);
    for (unsigned k = 0; k < n; k++)
        set_operand(b, insn, 1 + k, src[k]);
    return result;
}

void ptxb_emit_void(ptx_builder *b, uint32_t opcode, unsigned n, const ptx_val *src)
{
    ptx_val own[4];

    if (b->failed)
        return;
    src = as_operands(b, n, src, own);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 0, n);
    for (unsigned k = 0; insn && k < n; k++)
        set_operand(b, insn, k, src[k]);
}

void ptxb_mark_varying(ptx_builder *b)
{
    if (!b->failed)
        ptxb_last(b)->varying = true;
}

bool ptxb_is_condition(ptx_builder *b, const char *call, ptx_val cond)
{
    if (!ptxb_ready(b, call) || !ptxb_usable(b, call, "the condition", cond))
        return false;
    if (cond.type == PTX_PRED)
        return true;
    ptxb_fail(b, call, "the condition is %s; it must be pred, as comparisons give it",
              ptx_type_name((ptx_type)cond.type));
    return false;
}

uint32_t ptxb_condition(ptx_builder *b, const char *call, ptx_val cond)
{
    if (!ptxb_is_condition(b, call, cond))
        return 0;
    cond = ptxb_in_register(b, cond);
    return b->failed ? 0 : cond.reg;
}
