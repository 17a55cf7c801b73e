// SPDX-License-Identifier: MIT
// What threads do together: operations of a warp, barriers.
#include "decode.h"

bool emu_decode_warp(struct emu_decoder *d, struct emu_op *op, struct emu_wants *wants)
{
    const struct emu_insn *insn = d->insn;
    op->handler = EMU_DO_WARP_SYNC;
    emu_want_all(wants->src, EMU_WORD);
    emu_want_all(wants->dst, EMU_WORD);
    unsigned most = 2;
    switch (insn->opcode) {
    case EMU_OP_BAR_WARP:
        return emu_decode_need(d, 0, 1, 1) && emu_decode_operands(d, op, wants);
    case EMU_OP_SHFL_BFLY:
    case EMU_OP_SHFL_DOWN:
    case EMU_OP_SHFL_IDX:
    case EMU_OP_SHFL_UP:
        wants->dst[1] = EMU_MASK;
        most = 4;
        break;
    case EMU_OP_VOTE_ALL:
    case EMU_OP_VOTE_ANY:
    case EMU_OP_VOTE_UNI:
        wants->dst[0] = EMU_MASK;
        wants->src[0] = EMU_MASK;
        break;
    case EMU_OP_VOTE_BALLOT:
        wants->src[0] = EMU_MASK;
        break;
    case EMU_OP_MATCH_ANY:
    case EMU_OP_MATCH_ALL:
        wants->src[0] = emu_storage(insn->type);
        wants->dst[1] = EMU_MASK;
        break;
    default:
        break;
    }
    bool two = most == 4 || insn->opcode == EMU_OP_MATCH_ALL;
    if (insn->dst_count < 1 || insn->dst_count > (two ? 2 : 1) || insn->src_count != most)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "so many operands");
    return emu_decode_operands(d, op, wants);
}

bool emu_decode_barrier(struct emu_decoder *d, struct emu_op *op, struct emu_wants *wants)
{
    const struct emu_insn *insn = d->insn;
    bool red = insn->opcode == EMU_OP_BAR_RED || insn->opcode == EMU_OP_BAR_RED_POPC;
    op->handler = EMU_DO_BARRIER;
    emu_want_all(wants->src, EMU_WORD);
    emu_want_all(wants->dst, insn->opcode == EMU_OP_BAR_RED_POPC ? EMU_WORD : EMU_MASK);
    if (insn->src_count == 0 || insn->src_count > 3)
        return emu_decode_fail(d, EMU_ILLEGAL_INSTRUCTION, "a barrier without its number");
    if (red)
        wants->src[insn->src_count - 1] = EMU_MASK;
    bool arrive = insn->opcode == EMU_OP_BAR_ARRIVE;
    return emu_decode_need(d, red ? 1 : 0, red || arrive ? 2 : 1, red ? 3 : 2) &&
           emu_decode_operands(d, op, wants);
}
