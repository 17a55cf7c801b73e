// SPDX-License-Identifier: MIT
// The one door: every instruction is appended here.
#include "internal.h"

bool ptxb_is_open(const ptx_builder *b, uint32_t block)
{
    for (uint32_t k = b->blocks.count; k-- > 0;)
        if (b->blocks.at[k].id == block)
            return true;
    return false;
}

bool ptxb_usable(ptx_builder *b, const char *call, const char *name, ptx_val x)
{
    if (b->failed)
        return false;
    const unsigned bits = ptxb_bits((ptx_type)x.type);
    const bool fits = x.kind != PTX_IMMEDIATE || bits > 63 || x.bits >> bits == 0;
    if (x.kind == PTX_POISON || x.kind > PTX_IMMEDIATE || !bits || !fits) {
        ptxb_fail(
            b, call,
            "%s is not a value: it was never set, or is an immediate outside its type's range",
            name);
        return false;
    }
    if (x.kind == PTX_IMMEDIATE)
        return true;
    if (x.owner != b->owner || x.reg == 0 || x.reg >= b->regs.count) {
        ptxb_fail(b, call, "%s belongs to another builder", name);
        return false;
    }
    const struct reg *reg = &b->regs.at[x.reg];
    if (reg->entry != b->entries.count - 1u) {
        ptxb_fail(b, call, "%s was made in another entry, '%.64s'", name,
                  b->entries.at[reg->entry].decl.name);
        return false;
    }
    if (!ptxb_is_open(b, reg->block)) {
        ptxb_fail(b, call,
                  "%s was made inside a block that is closed, so that it is not defined on every "
                  "path; make a ptx_var before the block and ptx_set it inside",
                  name);
        return false;
    }
    return true;
}

ptx_val ptxb_register(ptx_builder *b, ptx_type type)
{
    if (b->failed ||
        !ptxb_grow(b, (void **)&b->regs.at, b->regs.count, &b->regs.capacity, sizeof *b->regs.at))
        return (ptx_val) { 0 };
    // What the prologue defines is defined everywhere in the entry.
    const struct block *block = &b->blocks.at[b->in_prologue ? 0 : b->blocks.count - 1];
    b->regs.at[b->regs.count] = (struct reg) {
        .block = block->id,
        .entry = (uint16_t)(b->entries.count - 1),
        .file = ptxb_file(type) & 7u,
    };
    return (ptx_val) {
        .reg = b->regs.count++, .owner = b->owner, .kind = PTX_REGISTER, .type = (uint8_t)type
    };
}

struct insn *ptxb_append(ptx_builder *b, enum insn_kind kind, const char *opcode, unsigned dst,
                         unsigned src)
{
    if (b->failed || !opcode)
        return NULL;
    struct insn *insn = ptxb_alloc(b, sizeof *insn + (dst + src) * sizeof *insn->operands);
    if (!insn)
        return NULL;
    insn->kind = kind & 15u;
    insn->opcode = opcode;
    insn->dst_count = dst & 15u;
    insn->operand_count = (dst + src) & 31u;
    const uint32_t depth = b->in_prologue ? 1 : b->blocks.count;
    insn->depth = depth < 32 ? depth & 31u : 32u;

    struct entry *entry = ptxb_entry(b);
    struct insn_list *list = b->in_prologue ? &entry->prologue : &entry->body;
    if (list->last)
        list->last->next = insn;
    else
        list->first = insn;
    list->last = insn;
    insn->index = b->in_prologue ? 0 : entry->insns++;
    if (!b->in_prologue)
        b->closed_if = NULL;
    return insn;
}

void ptxb_operand(ptx_builder *b, struct insn *insn, unsigned k, ptx_val x)
{
    struct operand *operand = &insn->operands[k];

    if (x.kind == PTX_IMMEDIATE) {
        operand->kind = OPERAND_IMMEDIATE;
        operand->type = x.type;
        operand->as.bits = x.bits;
        return;
    }
    operand->kind = OPERAND_REGISTER;
    operand->reg = x.reg;
    if (k >= insn->dst_count)
        b->regs.at[x.reg].uses++;
}

void ptxb_address(ptx_builder *b, struct insn *insn, unsigned k, ptx_ptr p)
{
    struct operand *operand = &insn->operands[k];

    operand->as.place.offset = (int32_t)p.offset; // ptxb_at() takes care that it fits
    if (p.base.kind == PTX_POISON) {
        operand->kind = OPERAND_SYMBOL;
        operand->as.place.symbol = p.symbol;
        return;
    }
    operand->kind = OPERAND_ADDRESS;
    operand->reg = p.base.reg;
    b->regs.at[p.base.reg].uses++;
}

ptx_val ptxb_mov(ptx_builder *b, ptx_val x)
{
    const ptx_type type = (ptx_type)x.type;
    ptx_val result = ptxb_register(b, type);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, ptxb_mov_value(type), 1, 1);
    if (!insn)
        return (ptx_val) { 0 };
    ptxb_operand(b, insn, 0, result);
    ptxb_operand(b, insn, 1, x);
    return result;
}

ptx_val ptxb_in_register(ptx_builder *b, ptx_val x)
{
    return x.kind == PTX_IMMEDIATE ? ptxb_mov(b, x) : x;
}

// PTX has no literals of these types.
static bool has_literal(ptx_val x)
{
    return x.kind != PTX_IMMEDIATE ||
           (ptxb_is_integer((ptx_type)x.type) && ptxb_bits((ptx_type)x.type) > 8) ||
           x.type == PTX_F32 || x.type == PTX_F64 || (PTX_SET_B >> x.type & 1);
}

static void add_operands(ptx_builder *b, struct insn *insn, const ptx_val *src)
{
    const unsigned dst = insn->dst_count;

    for (unsigned k = dst; k < insn->operand_count; k++)
        ptxb_operand(b, insn, k, src[k - dst]);
}

ptx_val ptxb_emit(ptx_builder *b, ptx_type type, const char *opcode, unsigned n, const ptx_val *src)
{
    ptx_val in[8];

    if (b->failed)
        return (ptx_val) { 0 };
    for (unsigned k = 0; k < n; k++)
        in[k] = has_literal(src[k]) ? src[k] : ptxb_mov(b, src[k]);
    ptx_val result = ptxb_register(b, type);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 1, n);
    if (!insn)
        return (ptx_val) { 0 };
    ptxb_operand(b, insn, 0, result);
    add_operands(b, insn, in);
    return result;
}

void ptxb_emit_void(ptx_builder *b, const char *opcode, unsigned n, const ptx_val *src)
{
    ptx_val in[8];

    for (unsigned k = 0; k < n; k++)
        in[k] = has_literal(src[k]) ? src[k] : ptxb_mov(b, src[k]);
    struct insn *insn = ptxb_append(b, INSN_PLAIN, opcode, 0, n);
    if (insn)
        add_operands(b, insn, in);
}

void ptxb_mark_varying(ptx_builder *b)
{
    if (!b->failed)
        ptxb_entry(b)->body.last->varying = true;
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
    if (b->failed)
        return 0;
    b->regs.at[cond.reg].uses++;
    return cond.reg;
}
