// SPDX-License-Identifier: MIT
// What goes round a lane function: ftz, sat and rounding modes, comparisons with a predicate,
// carries.
#include "exec.h"

#include <fenv.h>
#include <math.h>

static void flush_words(void *to, const void *from)
{
    const uint32_t *x = from;
    uint32_t *r = to;
    for (unsigned i = 0; i < EMU_LANES; i++)
        r[i] = x[i] & UINT32_C(0x7f800000) ? x[i] : x[i] & UINT32_C(0x80000000);
}

static void flush_sources(const struct emu_op *op, struct emu_sources *s)
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
        flush_sources(op, &s);
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
    default:
        return emu_bits(type) >= 64 ? UINT64_MAX : (UINT64_C(1) << emu_bits(type)) - 1;
    }
}

void emu_do_compare(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                    const struct emu_op *op, uint32_t mask)
{
    struct emu_sources s;
    uint32_t holds = 0, with = 0;
    emu_fetch_all(warp, frame, op, &s);
    if (op->is_float)
        flush_sources(op, &s);
    op->fn(&holds, s.at, op->insn);
    uint32_t fails = ~holds;
    if (op->insn->boolean != EMU_BOOL_NONE) {
        memcpy(&with, s.at[2], 4);
        switch (op->insn->boolean) {
        case EMU_BOOL_AND:
            holds &= with;
            fails &= with;
            break;
        case EMU_BOOL_OR:
            holds |= with;
            fails |= with;
            break;
        default:
            holds ^= with;
            fails ^= with;
        }
    }
    if (op->insn->opcode == EMU_OP_SETP) {
        emu_put(frame, init, &op->dst[0], mask, &holds);
        if (op->dst_count > 1)
            emu_put(frame, init, &op->dst[1], mask, &fails);
        return;
    }
    uint64_t longs[EMU_LANES], yes = truth(op->insn->type);
    uint32_t words[EMU_LANES];
    for (unsigned i = 0; i < EMU_LANES; i++) {
        longs[i] = holds >> i & 1 ? yes : 0;
        words[i] = (uint32_t)longs[i];
    }
    emu_put(frame, init, &op->dst[0], mask,
            op->dst[0].want == EMU_LONG ? (const void *)longs : (const void *)words);
}

// The carry is a bit a lane; of a subtraction it is the borrow.
static uint64_t with_carry(const struct emu_insn *insn, const uint64_t x[3], bool *carry)
{
    bool wide = emu_bits(insn->type) == 64;
    bool is_signed = insn->type == EMU_S32 || insn->type == EMU_S64;
    uint64_t a = x[0], b = x[1], in = 0;
    switch (insn->opcode) {
    case EMU_OP_ADDC:
        in = *carry;
        break;
    case EMU_OP_SUB:
        b = ~b;
        in = 1;
        break;
    case EMU_OP_SUBC:
        b = ~b;
        in = !*carry;
        break;
    case EMU_OP_MAD_LO:
    case EMU_OP_MAD_HI: {
        struct emu_insn product = *insn;
        product.opcode = insn->opcode == EMU_OP_MAD_LO ? EMU_OP_MUL_LO : EMU_OP_MUL_HI;
        product.carry_out = product.sat = false;
        product.type = wide ? (is_signed ? EMU_S64 : EMU_U64) : is_signed ? EMU_S32 : EMU_U32;
        struct emu_lane_info info;
        alignas(64) uint64_t lanes[2][EMU_LANES] = { { a }, { b } }, out[EMU_LANES];
        alignas(64) uint32_t words[2][EMU_LANES] = { { (uint32_t)a }, { (uint32_t)b } };
        const void *longs_at[] = { lanes[0], lanes[1] }, *words_at[] = { words[0], words[1] };
        if (emu_lane_find(&product, &info))
            info.fn(out, wide ? longs_at : words_at, &product);
        uint32_t low;
        memcpy(&low, out, 4);
        a = wide ? out[0] : low;
        b = x[2];
        break;
    }
    default:
        break;
    }
    bool subtracts = insn->opcode == EMU_OP_SUB || insn->opcode == EMU_OP_SUBC;
    uint64_t sum;
    bool out_of;
    if (wide) {
        sum = a + b + in;
        out_of = sum < a || (in && sum == a);
    } else {
        sum = (uint64_t)(uint32_t)a + (uint32_t)b + in;
        out_of = sum >> 32 & 1;
        sum = (uint32_t)sum;
    }
    if (insn->carry_out)
        *carry = subtracts ? !out_of : out_of;
    return sum;
}

void emu_do_carry(struct emu_warp *warp, unsigned char *frame, uint32_t *init,
                  const struct emu_op *op, uint32_t mask)
{
    struct emu_sources s;
    alignas(64) uint64_t longs[EMU_LANES];
    alignas(64) uint32_t words[EMU_LANES];
    emu_fetch_all(warp, frame, op, &s);
    bool wide = emu_bits(op->insn->type) == 64;
    for (uint32_t m = mask; m; m &= m - 1) {
        unsigned i = emu_first(m);
        uint64_t x[3] = { 0 };
        for (unsigned k = 0; k < op->src_count && k < 3; k++)
            x[k] = wide ? ((const uint64_t *)s.at[k])[i] : ((const uint32_t *)s.at[k])[i];
        bool carry = warp->carry >> i & 1;
        longs[i] = with_carry(op->insn, x, &carry);
        words[i] = (uint32_t)longs[i];
        warp->carry = (warp->carry & ~(1u << i)) | (uint32_t)carry << i;
    }
    emu_put(frame, init, &op->dst[0], mask, wide ? (const void *)longs : (const void *)words);
}
