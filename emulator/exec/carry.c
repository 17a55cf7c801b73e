// SPDX-License-Identifier: MIT
// Sums and products with a carry, as longer numbers are made of. The flag, a bit a lane, is the
// carry out of the addition; x - y is x + ~y + 1, so after a subtraction it says that none was
// borrowed.
#include "exec.h"

#include <stdalign.h>

// x + y or x - y. The carry in is the flag where the instruction takes it.
static uint64_t with_carry(const struct emu_insn *insn, bool wide, uint64_t x, uint64_t y,
                           bool *carry)
{
    bool subtracts = insn->opcode == EMU_OP_SUB_CC || insn->opcode == EMU_OP_SUBC;
    bool takes = insn->opcode == EMU_OP_ADDC || insn->opcode == EMU_OP_SUBC ||
                 insn->opcode == EMU_OP_MADC_LO || insn->opcode == EMU_OP_MADC_HI;
    uint64_t in = takes ? *carry : subtracts, sum;
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
    for (unsigned i = 0; i < EMU_LANES; i++) {
        bool carry = warp->carry >> i & 1;
        longs[i] =
            with_carry(op->insn, wide, lane_of(wide, first, i), lane_of(wide, second, i), &carry);
        words[i] = (uint32_t)longs[i];
        if (mask >> i & 1)
            warp->carry = (warp->carry & ~(1u << i)) | (uint32_t)carry << i;
    }
    emu_put(frame, init, &op->dst[0], mask, wide ? (const void *)longs : (const void *)words);
}
