// SPDX-License-Identifier: MIT
// What goes round a lane function: ftz, sat and rounding modes.
#include "warp.h"

#include <fenv.h>
#include <math.h>

static void flush_words(void *to, const void *from)
{
    const uint32_t *x = from;
    uint32_t *r = to;
    for (unsigned i = 0; i < EMU_LANES; i++)
        r[i] = x[i] & UINT32_C(0x7f800000) ? x[i] : x[i] & UINT32_C(0x80000000);
}

void emu_flush_sources(const struct emu_op *op, struct emu_sources *s)
{
    for (unsigned k = 0; k < op->src_count; k++) {
        if (op->src[k].want != EMU_WORD)
            continue;
        flush_words(s->scratch[k], s->at[k]);
        s->at[k] = s->scratch[k];
    }
}

// Hardware looks at the result rounded as if exponents had no end: what is below 2^-126 then is
// flushed, also where rounding to a subnormal's fewer bits would have carried it up to 2^-126. So
// those results are formed again 2^64 times as large. Sources are flushed already, sums of them are
// exact, and the calling thread still rounds as the instruction does.
static bool below_normal(unsigned opcode, float x, float y, float z)
{
    const float up = 0x1p64f, down = 0x1p-64f;
    volatile float scaled;

    switch (opcode) {
    case EMU_OP_MUL_LO:
        scaled = fabsf(x) < 1 ? x * up * y : y * up * x;
        break;
    case EMU_OP_FMA:
    case EMU_OP_MAD_LO:
        if (fabsf(z) > 1)
            return false;
        scaled = fabsf(x) < 1 ? fmaf(x * up, y, z * up) : fmaf(y * up, x, z * up);
        break;
    case EMU_OP_DIV:
        scaled = fabsf(x) < 1 ? x * up / y : x / (y * down);
        break;
    case EMU_OP_RCP:
        scaled = 1 / (x * down);
        break;
    default:
        return false;
    }
    return fabsf(scaled) < 0x1p-62f;
}

static void flush_carried(const struct emu_op *op, const struct emu_sources *s, uint32_t *r)
{
    for (unsigned i = 0; i < EMU_LANES; i++) {
        float x[3] = { 0, 0, 0 };
        if ((r[i] & UINT32_C(0x7fffffff)) != UINT32_C(0x00800000))
            continue;
        for (unsigned k = 0; k < op->src_count && k < 3; k++)
            memcpy(&x[k], (const uint32_t *)s->at[k] + i, sizeof x[k]);
        if (below_normal(op->insn->opcode, x[0], x[1], x[2]))
            r[i] &= UINT32_C(0x80000000);
    }
}

static int host_rounding(unsigned round)
{
    switch (round) {
    case EMU_RZ:
        return FE_TOWARDZERO;
    case EMU_RM:
        return FE_DOWNWARD;
    case EMU_RP:
        return FE_UPWARD;
    default:
        return FE_TONEAREST;
    }
}

// To [0, 1]; NaN and -0 to +0.
static void saturate_words(uint32_t *r)
{
    for (unsigned i = 0; i < EMU_LANES; i++) {
        uint32_t x = r[i] > UINT32_C(0x7f800000) ? 0 : r[i];
        r[i] = x > UINT32_C(0x3f800000) ? UINT32_C(0x3f800000) : x;
    }
}

void emu_do_float(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                  const struct emu_op *op, uint32_t mask)
{
    struct emu_sources s;
    alignas(64) uint32_t out[EMU_LANES * 2];
    int rounding = host_rounding(op->insn->round);
    emu_fetch_all(warp, frame, op, &s);
    if (op->is_float && op->insn->ftz)
        emu_flush_sources(op, &s);
    if (rounding != FE_TONEAREST)
        fesetround(rounding);
    op->fn(out, s.at, op->insn);
    if (op->float_out && op->insn->ftz && op->insn->type == EMU_F32)
        flush_carried(op, &s, out);
    if (rounding != FE_TONEAREST)
        fesetround(FE_TONEAREST);
    if (op->float_out && op->insn->ftz)
        flush_words(out, out);
    if (op->float_out && op->insn->sat)
        saturate_words(out);
    emu_put(frame, init, &op->dst[0], mask, out);
}
