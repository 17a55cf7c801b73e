// SPDX-License-Identifier: MIT
// f16 and bf16, one or two to a register. Products are exact in double; sums are rounded to odd
// there, which leaves the rounding to 16 bits as if it were the only one.
#include "half.h"
#include "lanes_family.h"

#include <math.h>

struct half_type {
    const struct emu_format *format;
    bool bf16;
    uint16_t infinity, one;
};

static const struct half_type f16 = { &emu_format_f16, false, 0x7c00, 0x3c00 };
static const struct half_type bf16 = { &emu_format_bf16, true, 0x7f80, 0x3f80 };

static double widen(const struct half_type *type, uint16_t h)
{
    return (double)(type->bf16 ? emu_bf16_to_f32(h) : emu_f16_to_f32(h));
}

static bool is_nan(const struct half_type *type, uint16_t h)
{
    return (h & 0x7fff) > type->infinity;
}

// x + y with its last bit set if anything was lost.
static double add_to_odd(double x, double y)
{
    double sum = x + y;
    if (!isfinite(sum))
        return sum;
    double part = sum - x;
    double lost = (x - (sum - part)) + (y - part);
    uint64_t bits = emu_f64_bits(sum);
    if (lost != 0 && !(bits & 1))
        bits = (lost > 0) == (sum > 0) ? bits + 1 : bits - 1;
    return emu_f64(bits);
}

static uint16_t round_half(const struct half_type *type, double x)
{
    return (uint16_t)emu_round_f64(type->format, EMU_RN, x);
}

static uint16_t flush(const struct half_type *type, uint16_t h)
{
    unsigned exponent = type->infinity;
    return (uint16_t)(h & exponent ? h : h & 0x8000);
}

uint16_t emu_half_add(bool is_bf16, uint16_t x, uint16_t y)
{
    const struct half_type *type = is_bf16 ? &bf16 : &f16;
    return round_half(type, add_to_odd(widen(type, x), widen(type, y)));
}

static uint16_t extreme(const struct half_type *type, const struct emu_insn *insn, uint16_t x,
                        uint16_t y)
{
    bool nan_x = is_nan(type, x), nan_y = is_nan(type, y);
    if ((nan_x && nan_y) || ((nan_x || nan_y) && insn->nan))
        return EMU_F16_NAN;
    if (nan_x || nan_y)
        return nan_x ? y : x;
    double a = widen(type, x), b = widen(type, y);
    bool first =
        insn->opcode == EMU_OP_MIN ? a < b || (a == b && x > y) : a > b || (a == b && x < y);
    return first ? x : y;
}

static uint16_t negate(const struct half_type *type, bool absolute, uint16_t x)
{
    if (is_nan(type, x))
        return EMU_F16_NAN;
    return (uint16_t)(absolute ? x & 0x7fff : x ^ 0x8000);
}

static uint16_t operate(const struct half_type *type, const struct emu_insn *insn, uint16_t x,
                        uint16_t y, uint16_t z)
{
    double a = widen(type, x), b = widen(type, y);
    switch (insn->opcode) {
    case EMU_OP_ADD:
        return round_half(type, add_to_odd(a, b));
    case EMU_OP_SUB:
        return round_half(type, add_to_odd(a, -b));
    case EMU_OP_MUL_LO:
        return round_half(type, a * b);
    case EMU_OP_FMA:
        return round_half(type, add_to_odd(a * b, widen(type, z)));
    case EMU_OP_MIN:
    case EMU_OP_MAX:
        return extreme(type, insn, x, y);
    case EMU_OP_NEG:
        return negate(type, false, x);
    case EMU_OP_ABS:
        return negate(type, true, x);
    case EMU_OP_EX2: // approximate: PTX bounds the error at 2^-9.9 (f16), 2^-7 (bf16)
        return round_half(type, exp2(a));
    default: // TANH, approximate: 2^-10.987 (f16), 2^-8 (bf16)
        return round_half(type, tanh(a));
    }
}

static uint16_t element(const struct half_type *type, const struct emu_insn *insn, uint32_t x,
                        uint32_t y, uint32_t z)
{
    uint16_t a = (uint16_t)x, b = (uint16_t)y, c = (uint16_t)z;
    if (insn->ftz) {
        a = flush(type, a);
        b = flush(type, b);
        c = flush(type, c);
    }
    uint16_t r = operate(type, insn, a, b, c);
    if (insn->ftz)
        r = flush(type, r);
    if (insn->sat) // NaN and -0 become +0
        r = is_nan(type, r) || r & 0x8000 ? 0 : r > type->one ? type->one : r;
    if (insn->relu && !is_nan(type, r) && r & 0x8000)
        r = 0;
    return r;
}

static void run(const struct half_type *type, bool packed, void *out, const void *const *src,
                const struct emu_insn *insn)
{
    const uint32_t *a = src[0], *b = insn->src_count > 1 ? src[1] : a;
    const uint32_t *c = insn->src_count > 2 ? src[2] : a;
    uint32_t *r = out;
    EMU_FOR_LANES
    {
        uint32_t bits = element(type, insn, a[i], b[i], c[i]);
        if (packed)
            bits |= (uint32_t)element(type, insn, a[i] >> 16, b[i] >> 16, c[i] >> 16) << 16;
        r[i] = bits;
    }
}

EMU_LANE_FUNCTION(run_f16)
{
    run(&f16, false, out, src, insn);
}

EMU_LANE_FUNCTION(run_f16x2)
{
    run(&f16, true, out, src, insn);
}

EMU_LANE_FUNCTION(run_bf16)
{
    run(&bf16, false, out, src, insn);
}

EMU_LANE_FUNCTION(run_bf16x2)
{
    run(&bf16, true, out, src, insn);
}

bool emu_find_half(const struct emu_insn *insn, struct emu_lane_info *info)
{
    static const struct {
        enum emu_type type;
        emu_lane_function *fn;
    } types[] = {
        { EMU_F16, run_f16 },
        { EMU_F16X2, run_f16x2 },
        { EMU_BF16, run_bf16 },
        { EMU_BF16X2, run_bf16x2 },
    };
    switch (insn->opcode) {
    case EMU_OP_ADD:
    case EMU_OP_SUB:
    case EMU_OP_MUL_LO:
    case EMU_OP_FMA:
    case EMU_OP_MIN:
    case EMU_OP_MAX:
    case EMU_OP_NEG:
    case EMU_OP_ABS:
    case EMU_OP_EX2:
    case EMU_OP_TANH:
        break;
    default:
        return false;
    }
    *info = (struct emu_lane_info) { .out = 4, .src = { 4, 4, 4, 4 } };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (types[i].type == (enum emu_type)insn->type)
            info->fn = types[i].fn;
    return info->fn != NULL;
}
