// SPDX-License-Identifier: MIT
// The sum of products of one element of a product of matrices: integers exactly, floats by the
// model of a generation of GPUs (docs/emulator.md).
#include "dot.h"

#include "exec/lanes/lanes.h"

#include <math.h>

enum { MOST_K = 64 };

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

static const struct {
    uint8_t width, fraction;
    bool no_infinity; // the largest exponent has numbers, and one NaN
} formats[] = {
    [EMU_F16] = { 16, 10, false },  [EMU_BF16] = { 16, 7, false }, [EMU_F32] = { 32, 23, false },
    [EMU_TF32] = { 32, 23, false }, [EMU_E4M3] = { 8, 3, true },   [EMU_E5M2] = { 8, 2, false },
};

static struct number number_of(enum emu_type type, uint32_t bits)
{
    const int fraction = formats[type].fraction, width = formats[type].width;
    const int exponent_bits = width - 1 - fraction, bias = (1 << (exponent_bits - 1)) - 1;
    bits = type == EMU_TF32 ? bits & UINT32_C(0xffffe000) : bits; // the rest is not read
    const uint32_t low = (UINT32_C(1) << fraction) - 1;
    const int field = (int)(bits >> fraction) & ((1 << exponent_bits) - 1);
    const int64_t part = bits & low;
    const int64_t whole =
        (field ? part | INT64_C(1) << fraction : part) * (1 << (FRACTION - fraction));
    const bool special =
        field == (1 << exponent_bits) - 1 && (!formats[type].no_infinity || part == low);
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
    bool short_sums; // results of f32 have but so many bits of fraction
};

// From the model of MMA-Sim (arXiv 2511.10909), which its authors tested on these generations. The
// least exponent is not in it: with -133, and no other, all sums are those of an H200.
static struct generation generation_of(int sm, bool bytes, bool group)
{
    if (bytes && group) // wgmma of floats of 8 bits: as on an H200
        return (struct generation) { 13, 32, -133, true };
    if (sm >= 90)
        return (struct generation) { 25, 32, -133, false };
    if (bytes) // sm_89
        return (struct generation) { 13, 16, ZERO_EXPONENT, true };
    return (struct generation) { 24, 16, ZERO_EXPONENT, false };
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
    const uint32_t packed = pack_sum(type, sum, largest - g->fraction);
    return g->short_sums && !half ? packed & ~((UINT32_C(1) << (FRACTION - g->fraction)) - 1)
                                  : packed;
}

// Floats are summed in f32 if C or D has that type. sm_8x takes the longest rows in two steps.
static uint32_t float_dot(const struct emu_insn *insn, const struct generation *g,
                          const struct number *x, const struct number *y, unsigned step,
                          unsigned depth, uint32_t c)
{
    const bool half = insn->type == EMU_F16 && insn->sum_type == EMU_F16;
    if (!half && insn->sum_type == EMU_F16)
        c = emu_f32_bits(emu_f16_to_f32((uint16_t)c));
    for (unsigned k = 0; k < depth; k += step) {
        const unsigned count = depth - k < step ? depth - k : step;
        c = fused(g, half ? EMU_F16 : EMU_F32, x + k, y + k, count, c);
    }
    return !half && insn->type == EMU_F16 ? emu_f32_to_f16(c) : c;
}

static uint32_t plain_sum(enum emu_type type, uint32_t x, uint32_t y)
{
    if (type == EMU_F16)
        return emu_half_add(false, (uint16_t)x, (uint16_t)y);
    const float sum = emu_f32(x) + emu_f32(y);
    return isnan(sum) ? EMU_F32_NAN : emu_f32_bits(sum);
}

// For mma of floats of 8 bits sm_90 has no instruction. ptxas 13.0 makes two products of f16 of
// each, of the elements that are the lower and the upper halves of registers, and adds C to their
// sum.
static uint32_t halves_dot(const struct emu_insn *insn, const struct generation *g,
                           const struct number *x, const struct number *y, unsigned depth,
                           uint32_t c)
{
    struct number from_a[MOST_K / 2], from_b[MOST_K / 2];
    uint32_t sum = 0;
    for (unsigned upper = 0; upper < 2; upper++) {
        unsigned count = 0;
        for (unsigned k = 0; k < depth; k++)
            if ((k & 2) / 2 == upper) {
                from_a[count] = x[k];
                from_b[count++] = y[k];
            }
        sum = float_dot(insn, g, from_a, from_b, count, count, sum);
    }
    return plain_sum((enum emu_type)insn->type, c, sum);
}

static int64_t integer_of(enum emu_type type, uint64_t bits)
{
    switch (type) {
    case EMU_S8:
        return (int8_t)bits;
    case EMU_S4:
        return bits & 8 ? (int64_t)(bits & 15) - 16 : (int64_t)(bits & 15);
    default:
        return (int64_t)bits;
    }
}

static uint32_t integer_dot(const struct emu_insn *insn, const uint64_t *a, const uint64_t *b,
                            unsigned depth, uint32_t c)
{
    int64_t sum = (int32_t)c;
    for (unsigned k = 0; k < depth; k++)
        sum += insn->source_type == EMU_B1
                   ? __builtin_popcountll(insn->boolean == EMU_BOOL_AND ? a[k] & b[k] : a[k] ^ b[k])
                   : integer_of((enum emu_type)insn->source_type, a[k]) *
                         integer_of((enum emu_type)insn->factor_type, b[k]);
    if (insn->satfinite)
        sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
    return (uint32_t)sum;
}

// One multiplication and addition after the other, each rounded once.
static uint64_t double_dot(const uint64_t *a, const uint64_t *b, unsigned depth, uint64_t c)
{
    for (unsigned k = 0; k < depth; k++) {
        const double sum = fma(emu_f64(a[k]), emu_f64(b[k]), emu_f64(c));
        c = !isnan(sum)          ? emu_f64_bits(sum)
            : emu_is_nan64(b[k]) ? emu_quiet64(b[k])
            : emu_is_nan64(c)    ? emu_quiet64(c)
            : emu_is_nan64(a[k]) ? emu_quiet64(a[k])
                                 : EMU_F64_NAN;
    }
    return c;
}

uint64_t emu_dot(const struct emu_insn *insn, int sm, const uint64_t *a, const uint64_t *b,
                 unsigned depth, uint64_t c)
{
    const enum emu_type types[] = { (enum emu_type)insn->source_type,
                                    (enum emu_type)insn->factor_type };
    const bool bytes = types[0] == EMU_E4M3 || types[0] == EMU_E5M2;
    struct number x[MOST_K], y[MOST_K];
    if (insn->type == EMU_S32)
        return integer_dot(insn, a, b, depth, (uint32_t)c);
    if (insn->type == EMU_F64)
        return double_dot(a, b, depth, c);
    for (unsigned k = 0; k < depth; k++) {
        x[k] = number_of(types[0], (uint32_t)a[k]);
        y[k] = number_of(types[1], (uint32_t)b[k]);
    }
    const bool group = insn->eighths != 0;
    const struct generation g = generation_of(sm, bytes, group);
    if (bytes && !group && sm / 10 == 9)
        return halves_dot(insn, &g, x, y, depth, (uint32_t)c);
    return float_dot(insn, &g, x, y, g.step_bytes / (emu_bits(types[0]) / 8), depth, (uint32_t)c);
}

// ---- many products of 16-bit floats -------------------------------------------------------------

// A product of two f16 or bf16 is exact in f64, and so are the aligned summands, whose integer part
// fits 32 bits: what fused() does, in loops that a compiler makes vectors of.
enum { AT_ONCE = 8 };

// 2^exponent of a normal f64.
static double power(int exponent)
{
    return emu_f64((uint64_t)(exponent + 1023) << 52);
}

static void fill_line(enum emu_type type, const uint64_t *bits, unsigned depth, struct emu_line *to)
{
    to->special = false;
    for (unsigned k = 0; k < depth; k++) {
        const struct number x = number_of(type, (uint32_t)bits[k]);
        to->special |= x.infinite || x.nan;
        to->exponent[k] = (int16_t)x.exponent;
        to->value[k] = x.significand ? (double)x.significand * power(x.exponent - FRACTION) : 0;
    }
}

struct emu_tile_sums emu_half_sums(int sm)
{
    const struct generation g = generation_of(sm, false, false);
    return (struct emu_tile_sums) { g.fraction, g.least, g.step_bytes / 2 };
}

bool emu_lines_fit(const struct emu_insn *insn, unsigned depth)
{
    return insn->type == EMU_F32 && insn->sum_type == EMU_F32 &&
           (insn->source_type == EMU_F16 || insn->source_type == EMU_BF16) &&
           insn->factor_type == insn->source_type && depth % AT_ONCE == 0 && depth <= EMU_LINE_MOST;
}

void emu_fill_line(const struct emu_insn *insn, const uint64_t *bits, unsigned depth,
                   struct emu_line *to)
{
    fill_line((enum emu_type)insn->source_type, bits, depth, to);
}

static int largest_exponent(const struct emu_line *a, const struct emu_line *b, unsigned k)
{
    int16_t largest = INT16_MIN;
    for (unsigned i = 0; i < AT_ONCE; i++) {
        const int16_t sum = (int16_t)(a->exponent[k + i] + b->exponent[k + i]);
        largest = sum > largest ? sum : largest;
    }
    return largest;
}

static int32_t aligned_sum(const struct emu_line *a, const struct emu_line *b, unsigned k,
                           double scale)
{
    int32_t sum = 0;
    for (unsigned i = 0; i < AT_ONCE; i++)
        sum += (int32_t)(a->value[k + i] * b->value[k + i] * scale);
    return sum;
}

bool emu_dot_lines(int sm, const struct emu_line *a, const struct emu_line *b, unsigned depth,
                   uint32_t *c)
{
    enum { LEAST = -700 }; // of aligned summands that f64 has
    const struct generation g = generation_of(sm, false, false);
    const unsigned step = g.step_bytes / 2;
    uint32_t sum = *c;
    if (a->special || b->special)
        return false;
    for (unsigned k = 0; k < depth; k += step) {
        const struct number add = number_of(EMU_F32, sum);
        const unsigned end = depth - k < step ? depth : k + step;
        int largest = add.exponent > g.least ? add.exponent : g.least;
        for (unsigned at = k; at < end; at += AT_ONCE) {
            const int of_part = largest_exponent(a, b, at);
            largest = of_part > largest ? of_part : largest;
        }
        if (add.infinite || add.nan || largest < LEAST)
            return false;
        const double scale = power(g.fraction - largest);
        int64_t whole = (int64_t)((double)emu_f32(sum) * scale);
        for (unsigned at = k; at < end; at += AT_ONCE)
            whole += aligned_sum(a, b, at, scale);
        sum = pack_sum(EMU_F32, whole, largest - g.fraction);
    }
    *c = sum;
    return true;
}
