// SPDX-License-Identifier: MIT
// Comparisons: the mask of a lane function, with a predicate, to a predicate or to a number.
#include "warp.h"

#include <stdalign.h>

// What a result has where the comparison holds.
static uint64_t truth(unsigned type)
{
    switch (type) {
    case EMU_F32:
        return UINT64_C(0x3f800000);
    case EMU_F64:
        return UINT64_C(0x3ff0000000000000);
    case EMU_F16:
        return 0x3c00;
    case EMU_BF16:
        return 0x3f80;
    case EMU_F16X2:
        return UINT64_C(0x3c003c00);
    case EMU_BF16X2:
        return UINT64_C(0x3f803f80);
    default:
        return emu_bits(type) >= 64 ? UINT64_MAX : (UINT64_C(1) << emu_bits(type)) - 1;
    }
}

// The comparison, or what it is not, with the predicate.
static uint32_t with_predicate(const struct emu_op *op, const struct emu_sources *s, uint32_t holds)
{
    uint32_t with;
    if (op->insn->boolean == EMU_BOOL_NONE)
        return holds;
    memcpy(&with, s->at[2], 4);
    return op->insn->boolean == EMU_BOOL_AND  ? holds & with
           : op->insn->boolean == EMU_BOOL_OR ? holds | with
                                              : holds ^ with;
}

// Bits of `keep` where the mask holds for the lane.
static void put_number(unsigned char *frame, uint32_t *init, const struct emu_value *value,
                       uint32_t mask, uint64_t yes, const uint32_t halves[2])
{
    const uint64_t low = yes & UINT64_C(0xffffffff0000ffff), high = yes & UINT64_C(0xffff0000);
    alignas(64) uint64_t longs[EMU_LANES];
    alignas(64) uint32_t words[EMU_LANES];
    for (unsigned i = 0; i < EMU_LANES; i++) {
        longs[i] = (halves[0] >> i & 1 ? low : 0) | (halves[1] >> i & 1 ? high : 0);
        words[i] = (uint32_t)longs[i];
    }
    emu_put(frame, init, value, mask,
            value->want == EMU_LONG ? (const void *)longs : (const void *)words);
}

void emu_do_compare(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                    const struct emu_op *op, uint32_t mask)
{
    struct emu_sources s;
    uint32_t holds = 0;
    emu_fetch_all(warp, frame, op, &s);
    if (op->is_float)
        emu_flush_sources(op, &s);
    op->fn(&holds, s.at, op->insn);
    uint32_t fails = with_predicate(op, &s, ~holds);
    holds = with_predicate(op, &s, holds);
    if (op->insn->opcode == EMU_OP_SETP) {
        emu_put(frame, init, &op->dst[0], mask, &holds);
        if (op->dst_count > 1)
            emu_put(frame, init, &op->dst[1], mask, &fails);
        return;
    }
    put_number(frame, init, &op->dst[0], mask, truth(op->insn->type),
               (const uint32_t[2]) { holds, holds });
}

void emu_do_compare_pair(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                         const struct emu_op *op, uint32_t mask)
{
    struct emu_sources s;
    alignas(64) uint32_t part[2][EMU_LANES];
    uint32_t halves[2] = { 0, 0 };
    emu_fetch_all(warp, frame, op, &s);
    for (unsigned half = 0; half < 2; half++) {
        const uint32_t *a = s.at[0], *b = s.at[1];
        for (unsigned i = 0; i < EMU_LANES; i++) {
            part[0][i] = a[i] >> 16 * half & 0xffff;
            part[1][i] = b[i] >> 16 * half & 0xffff;
        }
        op->fn(&halves[half], (const void *const[]) { part[0], part[1] }, op->insn);
        halves[half] = with_predicate(op, &s, halves[half]);
    }
    if (op->insn->opcode == EMU_OP_SETP) {
        emu_put(frame, init, &op->dst[0], mask, &halves[0]);
        if (op->dst_count > 1)
            emu_put(frame, init, &op->dst[1], mask, &halves[1]);
        return;
    }
    put_number(frame, init, &op->dst[0], mask, truth(op->insn->type), halves);
}
