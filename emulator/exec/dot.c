// SPDX-License-Identifier: MIT
// The sum of products of one element of a product of matrices: integers exactly, floats by the
// model of a generation of GPUs (docs/emulator.md).
#include "warp.h"

enum { MOST_K = 32 };

// A number: significand * 2^(exponent - bits), where the significand of a normal number has its
// leading one at bit `bits`. The exponent of a subnormal number is that of the least normal one.
struct number {
    int64_t significand;
    int exponent;
    bool infinite, nan;
};

enum { FRACTION = 23 }; // bits of a significand below its leading one, for all formats

// Of a zero: an H200 does not align a sum to it or to its products, so it is below that of all
// other products. (The model gives it -126.)
enum { ZERO_EXPONENT = -1000 };

static struct number number_of(enum emu_type type, uint32_t bits)
{
    const int fraction = type == EMU_F16 ? 10 : type == EMU_BF16 ? 7 : 23;
    const int width = type == EMU_F16 || type == EMU_BF16 ? 16 : 32;
    const int exponent_bits = width - 1 - fraction, bias = (1 << (exponent_bits - 1)) - 1;
    bits = type == EMU_TF32 ? bits & UINT32_C(0xffffe000) : bits; // the rest is not read
    const int field = (int)(bits >> fraction) & ((1 << exponent_bits) - 1);
    const int64_t part = bits & ((UINT32_C(1) << fraction) - 1);
    const int64_t whole =
        (field ? part | INT64_C(1) << fraction : part) * (1 << (FRACTION - fraction));
    const bool special = field == (1 << exponent_bits) - 1;
    return (struct number) { .significand = bits >> (width - 1) & 1 ? -whole : whole,
                             .exponent = whole ? (field ? field : 1) - bias : ZERO_EXPONENT,
                             .infinite = special && part == 0,
                             .nan = special && part != 0 };
}

// The arithmetic of a generation: the summands of a step, which takes so many bytes of a row of A,
// are aligned to the largest exponent, or to `least`, and truncated to so many bits of fraction.
struct generation {
    int fraction;
    unsigned step_bytes;
    int least;
};

// From the model of MMA-Sim (arXiv 2511.10909), which its authors tested on these generations. The
// least exponent is not in it: with -133, and no other, all sums are those of an H200.
static struct generation generation_of(int sm)
{
    if (sm >= 90)
        return (struct generation) { 25, 32, -133 };
    return (struct generation) { 24, 16, ZERO_EXPONENT };
}

// The sign of an infinite sum; 0: it is finite; 2: NaN.
static int special_sum(const struct number *a, const struct number *b, unsigned count,
                       const struct number *c)
{
    bool up = c->infinite && c->significand > 0, down = c->infinite && c->significand < 0;
    bool nan = c->nan;
    for (unsigned k = 0; k < count; k++) {
        const bool infinite = a[k].infinite || b[k].infinite;
        nan = nan || a[k].nan || b[k].nan ||
              (infinite && (a[k].significand == 0 || b[k].significand == 0));
        const bool negative = (a[k].significand < 0) != (b[k].significand < 0);
        up = up || (infinite && !negative);
        down = down || (infinite && negative);
    }
    return nan || (up && down) ? 2 : up ? 1 : down ? -1 : 0;
}

// significand * 2^-shift, without the bits below the point.
static int64_t truncated(int64_t significand, int shift)
{
    const int64_t magnitude = significand < 0 ? -significand : significand;
    const int64_t kept = shift >= 63 ? 0 : shift >= 0 ? magnitude >> shift : magnitude << -shift;
    return significand < 0 ? -kept : kept;
}

// The bits of sum * 2^exponent: f32 towards zero, f16 to nearest even; a zero is +0.
static uint32_t pack_sum(enum emu_type type, int64_t sum, int exponent)
{
    const bool negative = sum < 0, half = type == EMU_F16;
    const uint64_t magnitude = (uint64_t)(negative ? -sum : sum);
    const struct emu_format *format = half ? &emu_format_f16 : &emu_format_f32;
    uint32_t bits = (uint32_t)emu_round_pack(format, half ? EMU_RN : EMU_RZ, negative, exponent,
                                             magnitude, false);
    // Beyond the largest number of f32 is infinity, though the rounding is towards zero.
    if (!half && magnitude && exponent + 63 - __builtin_clzll(magnitude) > 127)
        bits = (negative ? UINT32_C(0x80000000) : 0) | UINT32_C(0x7f800000);
    return bits << 1 << (half ? 16 : 0) ? bits : 0;
}

// c + the products of a and b, in one step.
static uint32_t fused(const struct generation *g, enum emu_type type, const struct number *a,
                      const struct number *b, unsigned count, uint32_t c_bits)
{
    const bool half = type == EMU_F16;
    const struct number c = number_of(type, c_bits);
    const int special = special_sum(a, b, count, &c);
    int largest = c.exponent > g->least ? c.exponent : g->least;
    if (special == 2)
        return half ? EMU_F16_NAN : EMU_F32_NAN;
    if (special)
        return half ? (special < 0 ? 0xfc00 : 0x7c00)
                    : (special < 0 ? UINT32_C(0xff800000) : UINT32_C(0x7f800000));
    for (unsigned k = 0; k < count; k++) {
        const int exponent = a[k].exponent + b[k].exponent;
        largest = exponent > largest ? exponent : largest;
    }
    int64_t sum = truncated(c.significand, FRACTION + largest - c.exponent - g->fraction);
    for (unsigned k = 0; k < count; k++)
        sum += truncated(a[k].significand * b[k].significand,
                         2 * FRACTION + largest - a[k].exponent - b[k].exponent - g->fraction);
    return pack_sum(type, sum, largest - g->fraction);
}

// Floats are summed in f32 if C or D has that type. sm_8x takes the longest rows in two steps.
static uint32_t float_dot(const struct emu_insn *insn, const struct generation *g,
                          const uint32_t *a, const uint32_t *b, uint32_t c)
{
    const enum emu_type from = (enum emu_type)insn->source_type;
    const bool half = insn->type == EMU_F16 && insn->sum_type == EMU_F16;
    const unsigned step = g->step_bytes / (emu_bits(from) / 8);
    const unsigned depth = emu_sizes_of((enum emu_shape)insn->shape).k;
    struct number x[MOST_K], y[MOST_K];
    for (unsigned k = 0; k < depth; k++) {
        x[k] = number_of(from, a[k]);
        y[k] = number_of(from, b[k]);
    }
    if (!half && insn->sum_type == EMU_F16)
        c = emu_f32_bits(emu_f16_to_f32((uint16_t)c));
    for (unsigned k = 0; k < depth; k += step) {
        const unsigned count = depth - k < step ? depth - k : step;
        c = fused(g, half ? EMU_F16 : EMU_F32, x + k, y + k, count, c);
    }
    return !half && insn->type == EMU_F16 ? emu_f32_to_f16(c) : c;
}

static int64_t byte_of(enum emu_type type, uint32_t bits)
{
    return type == EMU_S8 ? (int8_t)bits : (uint8_t)bits;
}

static uint32_t integer_dot(const struct emu_insn *insn, const uint32_t *a, const uint32_t *b,
                            uint32_t c)
{
    const unsigned depth = emu_sizes_of((enum emu_shape)insn->shape).k;
    int64_t sum = (int32_t)c;
    for (unsigned k = 0; k < depth; k++)
        sum += byte_of((enum emu_type)insn->source_type, a[k]) *
               byte_of((enum emu_type)insn->factor_type, b[k]);
    if (insn->satfinite)
        sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return (uint32_t)sum;
}

uint32_t emu_dot(const struct emu_insn *insn, int sm, const uint32_t *a, const uint32_t *b,
                 uint32_t c)
{
    const struct generation generation = generation_of(sm);
    return insn->type == EMU_S32 ? integer_dot(insn, a, b, c)
                                 : float_dot(insn, &generation, a, b, c);
}
