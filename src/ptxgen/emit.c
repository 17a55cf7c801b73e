// SPDX-License-Identifier: MIT
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
    const bool fits = x.kind != PTX_KIND_IMMEDIATE || bits > 63 || x.bits >> bits == 0;

    if (x.kind == PTX_KIND_POISON && bits) { // as ptx_imm() leaves it
        double number;
        memcpy(&number, &x.bits, sizeof number);
        ptxb_fail(b, call, "%s is the immediate %.17g, which %s cannot hold", name, number,
                  ptx_type_name((ptx_type)x.type));
    } else if (!fits)
        ptxb_fail(b, call, "%s is an immediate of %s with bits that its type does not have: 0x%llx",
                  name, ptx_type_name((ptx_type)x.type), (unsigned long long)x.bits);
    else if (x.kind == PTX_KIND_POISON || x.kind > PTX_KIND_IMMEDIATE || !bits)
        ptxb_fail(b, call, "%s was never set", name);
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

// Code begins with so many words once it has more than a few instructions.
enum { CODE_WORDS = 512 };

bool ptxb_grow_code(ptx_builder *b, struct code *code, uint32_t words)
{
    const uint32_t more = code->capacity && words < CODE_WORDS ? CODE_WORDS : words;

    return ROOM_FOR_CODE(b, *code, more);
}

static uint32_t add_extra(ptx_builder *b, union extra extra)
{
    if (!ROOM_FOR(b, b->extras, 1))
        return 0;
    b->extras.at[b->extras.count] = extra;
    return b->extras.count++;
}

void ptxb_immediate(ptx_builder *b, struct insn *insn, unsigned k, const ptx_val *x)
{
    const bool wide = x->bits > UINT32_MAX;

    insn->operands[k] = (struct operand) {
        .kind = wide ? OPERAND_WIDE : OPERAND_IMMEDIATE,
        .type = x->type & 31u,
        .value = wide ? add_extra(b, (union extra) { .bits = x->bits }) : (uint32_t)x->bits,
    };
    insn->floats |= ptxb_is_float((ptx_type)x->type);
}

void ptxb_address(ptx_builder *b, struct insn *insn, unsigned k, ptx_ptr p)
{
    const bool known = p.base.kind == PTX_KIND_POISON;

    insn->operands[k] = (struct operand) {
        .id = (known ? p.symbol : p.base.reg) & MOST_INDEX,
        .kind = known ? OPERAND_SYMBOL : OPERAND_ADDRESS,
        .offset = (int32_t)p.offset, // ptxb_at() takes care that it fits
    };
    if (known)
        insn->named = 1;
    else
        ptxb_use(b, p.base.reg);
}

void ptxb_text_operand(ptx_builder *b, struct insn *insn, unsigned k, enum operand_kind kind,
                       const char *text)
{
    insn->operands[k] = (struct operand) {
        .kind = kind & 7u,
        .value = add_extra(b, (union extra) { .text = text }),
    };
    insn->named = 1;
}

ptx_val ptxb_mov(ptx_builder *b, ptx_val x)
{
    const ptx_type type = (ptx_type)x.type;
    const uint32_t opcode = ptxb_opcode(b, ptxb_mov_value(type));
    ptx_val result = ptxb_emit_plain(b, type, opcode, 1, &x);

    if (!b->failed)
        ptxb_newest(b)->moves = 1;
    return result;
}

// The sources as the instruction can have them: `src`, or `own` with some of them in registers.
static inline const ptx_val *as_operands(ptx_builder *b, unsigned n, const ptx_val *src,
                                         ptx_val own[4])
{
    bool all = true;

    for (unsigned k = 0; k < n; k++)
        all &= ptxb_has_literal(&src[k]);
    if (all)
        return src;
    for (unsigned k = 0; k < n; k++)
        own[k] = ptxb_has_literal(&src[k]) ? src[k] : ptxb_mov(b, src[k]);
    return own;
}

ptx_val ptxb_emit_plain(ptx_builder *b, ptx_type type, uint32_t opcode, unsigned n,
                        const ptx_val *src)
{
    struct insn *insn = ROOM_FOR(b, b->regs, 1) ? ptxb_append(b, INSN_PLAIN, opcode, 1, n) : NULL;

    if (!insn)
        return (ptx_val) { 0 };
    const ptx_val result = ptxb_next_register(b, type);
    ptxb_result(insn, 0, result);
    for (unsigned k = 0; k < n; k++)
        ptxb_source(b, insn, 1 + k, &src[k]);
    return result;
}

ptx_val ptxb_emit(ptx_builder *b, ptx_type type, uint32_t opcode, unsigned n, const ptx_val *src)
{
    ptx_val own[4];

    if (b->failed)
        return (ptx_val) { 0 };
    return ptxb_emit_plain(b, type, opcode, n, as_operands(b, n, src, own));
}

void ptxb_emit_void(ptx_builder *b, uint32_t opcode, unsigned n, const ptx_val *src)
{
    ptx_val own[4];

    if (b->failed)
        return;
    src = as_operands(b, n, src, own);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 0, n);
    for (unsigned k = 0; insn && k < n; k++)
        ptxb_source(b, insn, k, &src[k]);
}

void ptxb_mark_varying(ptx_builder *b)
{
    if (!b->failed)
        ptxb_newest(b)->varying = true;
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
