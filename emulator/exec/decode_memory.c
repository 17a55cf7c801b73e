// SPDX-License-Identifier: MIT
// Accesses, addresses, asynchronous copies.
#include "decode.h"

bool emu_decode_memory(struct emu_decoder *d, struct emu_op *op, struct emu_wants *wants)
{
    const struct emu_insn *insn = d->insn;
    unsigned bits = emu_bits(insn->type);
    bool atomic = insn->opcode == EMU_OP_ATOM || insn->opcode == EMU_OP_RED;
    op->handler = insn->opcode == EMU_OP_LD   ? EMU_DO_LOAD
                  : insn->opcode == EMU_OP_ST ? EMU_DO_STORE
                                              : EMU_DO_ATOMIC;
    op->space = insn->space;
    op->bytes = (uint8_t)(bits / 8);
    unsigned lanes = insn->lanes ? insn->lanes : 1;
    if (bits < 8 || lanes > 8 || insn->src_count == 0)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "an access of no type");
    emu_want_all(wants->dst, emu_storage(insn->type));
    emu_want_all(wants->src, emu_storage(insn->type));
    wants->src[0] = EMU_LONG;
    bool right = op->handler == EMU_DO_LOAD ? insn->dst_count == lanes && insn->src_count == 1
                 : op->handler == EMU_DO_STORE
                     ? insn->dst_count == 0 && insn->src_count == lanes + 1
                 : insn->opcode == EMU_OP_ATOM ? insn->dst_count == lanes
                                               : insn->dst_count == 0;
    if (atomic)
        right = right &&
                insn->src_count == (insn->atomic == EMU_ATOMIC_CAS && lanes == 1 ? 3 : lanes + 1);
    if (!right)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "an access with so many operands");
    if ((insn->space == EMU_SHARED || insn->space == EMU_GENERIC) &&
        op->bytes < d->program->race_grain)
        d->program->race_grain = op->bytes;
    return emu_decode_operands(d, op, wants);
}

bool emu_decode_address(struct emu_decoder *d, struct emu_op *op, struct emu_wants *wants)
{
    op->handler = EMU_DO_ADDRESS;
    op->space = d->insn->space;
    emu_want_all(wants->dst,
                 d->insn->opcode == EMU_OP_ISSPACEP ? EMU_MASK : emu_storage(d->insn->type));
    emu_want_all(wants->src, EMU_LONG);
    return emu_decode_need(d, 1, 1, 1) && emu_decode_operands(d, op, wants);
}

static bool is_predicate(const struct emu_decoder *d, const struct emu_operand *operand)
{
    const struct emu_function *f = d->code->function;
    return operand->kind == EMU_OPERAND_REGISTER && operand->index < f->register_count &&
           f->registers[operand->index].type == EMU_PRED;
}

bool emu_decode_copy(struct emu_decoder *d, struct emu_op *op, struct emu_wants *wants)
{
    const struct emu_insn *insn = d->insn;
    const struct emu_operand *list = d->code->function->operands + insn->operands;
    if (!emu_decode_need(d, 0, 3, 4))
        return false;
    if (list[2].kind != EMU_OPERAND_IMMEDIATE ||
        (list[2].bits != 4 && list[2].bits != 8 && list[2].bits != 16))
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "a copy of no size");
    op->handler = EMU_DO_COPY;
    op->space = EMU_SHARED;
    op->bytes = (uint8_t)list[2].bits;
    emu_want_all(wants->src, EMU_LONG);
    wants->src[2] = EMU_WORD;
    wants->src[3] = insn->src_count > 3 && is_predicate(d, &list[3]) ? EMU_MASK : EMU_WORD;
    return emu_decode_operands(d, op, wants);
}
