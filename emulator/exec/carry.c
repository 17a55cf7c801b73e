// SPDX-License-Identifier: MIT
// Sums and products with a carry, as longer numbers are made of. The flag, a bit a lane, is the
// carry out of the addition; x - y is x + ~y + 1, so after a subtraction it says that none was
// borrowed.
#include "undefined.h"

#include <stdalign.h>

static bool takes_carry(const struct emu_insn *insn)
{
    return insn->opcode == EMU_OP_ADDC || insn->opcode == EMU_OP_SUBC ||
           insn->opcode == EMU_OP_MADC_LO || insn->opcode == EMU_OP_MADC_HI;
}

// x + y or x - y. The carry in is the flag where the instruction takes it.
static uint64_t with_carry(const struct emu_insn *insn, bool wide, uint64_t x, uint64_t y,
                           bool *carry)
{
    bool subtracts = insn->opcode == EMU_OP_SUB_CC || insn->opcode == EMU_OP_SUBC;
    uint64_t in = takes_carry(insn) ? *carry : subtracts, sum;
    bool out;
    y = subtracts ? ~y : y;
    if (wide) {
        sum = x + y + in;
        out = sum < x || (in && sum == x);
    } else {
        sum = (uint64_t)(uint32_t)x + (uint32_t)y + in;
        out = sum >> 32 & 1;
        sum = (uint32_t)sum;
    }
    if (insn->carry_out)
        *carry = out;
    return sum;
}

static uint64_t lane_of(bool wide, const void *lanes, unsigned i)
{
    return wide ? ((const uint64_t *)lanes)[i] : ((const uint32_t *)lanes)[i];
}

// The undefined bits of what is added up: of the product, if there is one, and of the other.
static void fetch_undefined(struct emu_warp *warp, const uint32_t *init, const struct emu_op *op,
                            uint32_t mask, struct emu_undefined_lanes *u)
{
    struct emu_undefined_lanes factor;
    bool high = op->insn->opcode == EMU_OP_MAD_HI_CC || op->insn->opcode == EMU_OP_MADC_HI;
    emu_undefined_fetch(warp, init, op, &op->src[0], mask, &u[0]);
    emu_undefined_fetch(warp, init, op, &op->src[1], mask, &u[1]);
    if (!op->fn)
        return;
    factor = u[1];
    emu_undefined_fetch(warp, init, op, &op->src[2], mask, &u[1]);
    for (unsigned i = 0; i < EMU_LANES; i++) {
        struct emu_undefined *product = &u[0].lane[i];
        product->origin = product->bits ? product->origin : factor.lane[i].origin;
        product->bits |= factor.lane[i].bits;
        product->bits =
            high ? (product->bits ? UINT64_MAX : 0) : emu_undefined_upward(product->bits);
    }
}

// Both ways that undefined bits may go: what differs is undefined, of the sum and of the carry.
static void carry_undefined(struct emu_warp *warp, const struct emu_op *op, bool wide,
                            const void *first, const void *second, uint32_t mask,
                            struct emu_undefined_lanes *u)
{
    const struct emu_insn *insn = op->insn;
    bool subtracts = insn->opcode == EMU_OP_SUB_CC || insn->opcode == EMU_OP_SUBC;
    uint32_t open = takes_carry(insn) ? warp->carry_undefined : 0;
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned i = emu_first(m);
        struct emu_undefined x = u[0].lane[i], y = u[1].lane[i];
        uint64_t a = lane_of(wide, first, i), b = lane_of(wide, second, i);
        bool in = warp->carry >> i & 1, unknown = open >> i & 1;
        bool low = in && !unknown, high = in || unknown;
        uint64_t least =
            with_carry(insn, wide, a & ~x.bits, subtracts ? b | y.bits : b & ~y.bits, &low);
        uint64_t most =
            with_carry(insn, wide, a | x.bits, subtracts ? b & ~y.bits : b | y.bits, &high);
        uint32_t origin = x.bits ? x.origin : y.bits ? y.origin : warp->carry_origin[i];
        u[0].lane[i] =
            (struct emu_undefined) { (least ^ most) | x.bits | y.bits, UINT64_MAX, origin };
        if (!insn->carry_out)
            continue;
        warp->carry_undefined &= ~(1u << i);
        warp->carry_undefined |= low != high ? 1u << i : 0;
        warp->carry_origin[i] = origin;
    }
}

void emu_do_carry(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                  const struct emu_op *op, uint32_t mask)
{
    struct emu_sources s;
    alignas(64) uint64_t longs[EMU_LANES], product[EMU_LANES];
    alignas(64) uint32_t words[EMU_LANES];
    const bool wide = emu_bits(op->insn->type) == 64, multiplies = op->fn != NULL;
    emu_fetch_all(warp, frame, op, &s);
    if (multiplies)
        op->fn(product, s.at, op->insn);
    const void *first = multiplies ? product : s.at[0];
    const void *second = multiplies ? s.at[2] : s.at[1];
    struct emu_undefined_lanes u[2];
    uint32_t open = takes_carry(op->insn) ? mask & warp->carry_undefined : 0;
    for (unsigned k = 0; k < op->src_count; k++)
        open |= emu_undefined_in(init, &op->src[k], mask);
    if (open) {
        fetch_undefined(warp, init, op, mask, u);
        carry_undefined(warp, op, wide, first, second, mask, u);
    } else if (op->insn->carry_out) {
        warp->carry_undefined &= ~mask;
    }
    for (unsigned i = 0; i < EMU_LANES; i++) {
        bool carry = warp->carry >> i & 1;
        longs[i] =
            with_carry(op->insn, wide, lane_of(wide, first, i), lane_of(wide, second, i), &carry);
        words[i] = (uint32_t)longs[i];
        if (mask >> i & 1)
            warp->carry = (warp->carry & ~(1u << i)) | (uint32_t)carry << i;
    }
    emu_put(frame, init, &op->dst[0], mask, wide ? (const void *)longs : (const void *)words);
    if (open)
        emu_undefined_put(warp, init, &op->dst[0], mask, &u[0]);
}
