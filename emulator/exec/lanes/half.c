// SPDX-License-Identifier: MIT
// f16 and bf16, one or two to a register.
//
// Sums of two values are computed in float, which has enough extra bits that rounding twice equals
// rounding once. Products are exact in double. An addition to a product is rounded to odd there, so
// the rounding to 16 bits is correct. Each step is a loop that compilers vectorise.
#include "family.h"

#include <math.h>

// Bits of the significand, and the least exponent of a normal number, in double.
#define EXPONENT_f16   0x7c00u
#define EXPONENT_bf16  0x7f80u
#define ONE_f16        0x3c00u
#define ONE_bf16       0x3f80u
#define PRECISION_f16  11
#define PRECISION_bf16 8
#define LEAST_f16      (1023 - 14)
#define LEAST_bf16     (1023 - 126)
#define READ_f16(h)    emu_f16_to_f32((uint16_t)(h))
#define READ_bf16(h)   emu_bf16_to_f32((uint16_t)(h))
#define PACK_f16(x)    emu_f32_to_f16(emu_f32_bits(x))
#define PACK_bf16(x)   emu_f32_to_bf16(emu_f32_bits(x))

// For an inexact sum, the neighbour whose last bit is set.
static inline double odd_sum(double x, double y)
{
    double sum = x + y, part = sum - x, lost = (x - (sum - part)) + (y - part);
    uint64_t bits = emu_f64_bits(sum);
    uint64_t away = (lost > 0) == (sum > 0) ? 1 : UINT64_MAX;
    uint64_t inexact = lost < 0 || lost > 0 ? UINT64_C(1) : 0;
    return emu_f64(bits + (inexact & ~bits ? away : 0));
}

// Rounds to this number of significand bits, or to fewer below the least exponent: adds and
// subtracts a number whose last bit is the last one to keep.
static inline double round_to(int precision, int64_t least, double x)
{
    uint64_t bits = emu_f64_bits(x), sign = bits & UINT64_C(0x8000000000000000);
    int64_t exponent = (int64_t)((bits ^ sign) >> 52);
    exponent = exponent > least ? exponent : least;
    exponent = exponent < 1600 ? exponent : 1600; // of infinity and NaN
    double unit = emu_f64((uint64_t)(exponent + 53 - precision) << 52);
    double rounded = (emu_f64(bits ^ sign) + unit) - unit;
    return emu_f64(emu_f64_bits(rounded) | sign);
}

// Hardware flushes a result that, rounded with an unbounded exponent, is below the least normal
// number. This includes results that rounding to a subnormal would have raised to it.
static inline double round_result(int precision, int64_t least, bool ftz, double x)
{
    double rounded = round_to(precision, ftz ? 0 : least, x);
    double bound = ftz ? emu_f64((uint64_t)least << 52) : 0;
    return fabs(rounded) < bound ? copysign(0, rounded) : rounded;
}

static inline double product(float x, float y)
{
    return (double)x * (double)y;
}

#define ADD(n, x, y, z) ((x) + (y))
#define SUB(n, x, y, z) ((x) - (y))
#define RESULT(n, x)    (float)round_result(PRECISION_##n, LEAST_##n, insn->ftz, x)
#define MUL(n, x, y, z) RESULT(n, product(x, y))
#define FMA(n, x, y, z) RESULT(n, odd_sum(product(x, y), (double)(z)))
#define IS_NAN(n, x)    (((x)&0x7fff) > EXPONENT_##n)
#define NEG(n, x, y, z) (IS_NAN(n, x) ? EMU_F16_NAN : (x) ^ 0x8000)
#define ABS(n, x, y, z) (IS_NAN(n, x) ? EMU_F16_NAN : (x)&0x7fff)
// A rank that orders the numbers; +0 is above -0.
#define RANK(x)         ((x)&0x8000 ? 0xffff ^ (x) : 0x8000 | (x))
#define EXTREME(n, x, y, first)                                                                    \
    ((IS_NAN(n, x) & IS_NAN(n, y)) | ((IS_NAN(n, x) | IS_NAN(n, y)) & insn->nan) ? EMU_F16_NAN     \
     : IS_NAN(n, x)                                                              ? (y)             \
     : IS_NAN(n, y)                                                              ? (x)             \
     : (first)                                                                   ? (x)             \
                                                                                 : (y))
#define MIN(n, x, y, z)           EXTREME(n, x, y, RANK(x) < RANK(y))
#define MAX(n, x, y, z)           EXTREME(n, x, y, RANK(x) > RANK(y))
// Of the magnitudes; with .xorsign, the sign is that of a product.
#define SIGNED(n, x, y, m)        (IS_NAN(n, m) ? (m) : (m) | (insn->xorsign ? ((x) ^ (y)) & 0x8000 : 0))
#define MIN_MAGNITUDE(n, x, y, z) SIGNED(n, x, y, MIN(n, ((x)&0x7fff), ((y)&0x7fff), 0))
#define MAX_MAGNITUDE(n, x, y, z) SIGNED(n, x, y, MAX(n, ((x)&0x7fff), ((y)&0x7fff), 0))
// Approximate: PTX bounds the errors at 2^-9.9 and 2^-10.987 (f16), 2^-7 and 2^-8 (bf16).
#define ROUND(n, x)               (uint32_t) emu_round_f64(&emu_format_##n, EMU_RN, x)
#define EX2(n, x, y, z)           ROUND(n, exp2((double)READ_##n(x)))
#define TANH(n, x, y, z)          ROUND(n, tanh((double)READ_##n(x)))

static inline uint32_t flush(uint32_t exponent, uint32_t h)
{
    return h & exponent ? h : h & 0x8000;
}

static const uint32_t *flush_source(const struct emu_insn *insn, uint32_t exponent,
                                    const uint32_t *x, uint32_t *scratch)
{
    if (!insn->ftz)
        return x;
    EMU_FOR_LANES scratch[i] = flush(exponent, x[i] & 0xffff) | flush(exponent, x[i] >> 16) << 16;
    return scratch;
}

// NaN and -0 become +0 under .sat.
static inline uint32_t finish_half(const struct emu_insn *insn, uint32_t exponent, uint32_t one,
                                   uint32_t h)
{
    bool is_nan = (h & 0x7fff) > exponent, negative = h & 0x8000;
    if (insn->ftz)
        h = flush(exponent, h);
    if (insn->sat)
        h = is_nan || negative ? 0 : h > one ? one : h;
    return insn->relu && !is_nan && negative ? 0 : h;
}

static void finish(const struct emu_insn *insn, uint32_t exponent, uint32_t one, uint32_t *r)
{
    if (!insn->ftz && !insn->sat && !insn->relu)
        return;
    EMU_FOR_LANES r[i] = finish_half(insn, exponent, one, r[i] & 0xffff) |
                         finish_half(insn, exponent, one, r[i] >> 16) << 16;
}

// The NaN that a tensor's copy puts outside its bounds, with either sign: what an H200 takes for
// it.
static bool is_outside(uint32_t half)
{
    return (half & 0x7fff) == 0x7ff7;
}

// .oob: +0 where a factor is that NaN.
static void clear_outside(const struct emu_insn *insn, const uint32_t *a, const uint32_t *b,
                          uint32_t *r)
{
    if (!insn->oob)
        return;
    EMU_FOR_LANES
    {
        const uint32_t low = is_outside(a[i]) || is_outside(b[i]) ? 0 : 0xffff;
        const uint32_t high = is_outside(a[i] >> 16) || is_outside(b[i] >> 16) ? 0 : 0xffff0000;
        r[i] &= low | high;
    }
}

#define SOURCES(n, sources)                                                                        \
    uint32_t scratch[3][EMU_LANES], *r = out;                                                      \
    const uint32_t *a = flush_source(insn, EXPONENT_##n, src[0], scratch[0]);                      \
    const uint32_t *b = flush_source(insn, EXPONENT_##n, src[(sources) > 1], scratch[1]);          \
    const uint32_t *c = flush_source(insn, EXPONENT_##n, src[(sources)-1], scratch[2]);            \
    (void)b;                                                                                       \
    (void)c

// Operations on numbers: widen, compute, pack.
#define NUMBERS(name, n, op, sources, halves)                                                      \
    EMU_LANE_FUNCTION(name)                                                                        \
    {                                                                                              \
        float x[3][EMU_LANES], result[EMU_LANES];                                                  \
        SOURCES(n, sources);                                                                       \
        uint32_t both[2][EMU_LANES] = { { 0 } };                                                   \
        for (unsigned half = 0; half < halves; half++) {                                           \
            EMU_FOR_LANES x[0][i] = READ_##n(a[i] >> 16 * half);                                   \
            EMU_FOR_LANES x[1][i] = READ_##n(b[i] >> 16 * half);                                   \
            EMU_FOR_LANES x[2][i] = READ_##n(c[i] >> 16 * half);                                   \
            EMU_FOR_LANES result[i] = op(n, x[0][i], x[1][i], x[2][i]);                            \
            EMU_FOR_LANES both[half][i] = PACK_##n(result[i]) << 16 * half;                        \
        }                                                                                          \
        EMU_FOR_LANES both[0][i] |= both[1][i];                                                    \
        finish(insn, EXPONENT_##n, ONE_##n, both[0]);                                              \
        clear_outside(insn, a, b, both[0]);                                                        \
        EMU_FOR_LANES r[i] = both[0][i];                                                           \
    }

// Operations on bits.
#define PATTERNS(name, n, op, sources, halves)                                                     \
    EMU_LANE_FUNCTION(name)                                                                        \
    {                                                                                              \
        SOURCES(n, sources);                                                                       \
        uint32_t low[EMU_LANES];                                                                   \
        EMU_FOR_LANES low[i] = op(n, (a[i] & 0xffff), (b[i] & 0xffff), (c[i] & 0xffff));           \
        if (halves > 1)                                                                            \
            EMU_FOR_LANES low[i] |= op(n, (a[i] >> 16), (b[i] >> 16), (c[i] >> 16)) << 16;         \
        EMU_FOR_LANES r[i] = low[i];                                                               \
        finish(insn, EXPONENT_##n, ONE_##n, r);                                                    \
    }

#define FORMATS(FUNCTION, name, op, sources)                                                       \
    FUNCTION(name##_f16, f16, op, sources, 1)                                                      \
    FUNCTION(name##_f16x2, f16, op, sources, 2)                                                    \
    FUNCTION(name##_bf16, bf16, op, sources, 1)                                                    \
    FUNCTION(name##_bf16x2, bf16, op, sources, 2)
// Columns: kind, function, expression, sources.
#define OPERATIONS(X)                                                                              \
    X(NUMBERS, add, ADD, 2)                                                                        \
    X(NUMBERS, sub, SUB, 2)                                                                        \
    X(NUMBERS, mul, MUL, 2)                                                                        \
    X(NUMBERS, fma, FMA, 3)                                                                        \
    X(PATTERNS, min, MIN, 2)                                                                       \
    X(PATTERNS, max, MAX, 2)                                                                       \
    X(PATTERNS, min_magnitude, MIN_MAGNITUDE, 2)                                                   \
    X(PATTERNS, max_magnitude, MAX_MAGNITUDE, 2)                                                   \
    X(PATTERNS, neg, NEG, 1)                                                                       \
    X(PATTERNS, abs, ABS, 1)                                                                       \
    X(PATTERNS, ex2, EX2, 1)                                                                       \
    X(PATTERNS, tanh, TANH, 1)
#define DEFINE(kind, name, op, sources) FORMATS(kind, name, op, sources)
OPERATIONS(DEFINE)

static emu_lane_function *find(const struct emu_insn *insn)
{
    switch (insn->opcode) {
#define INSTRUCTION(opcode, mnemonic, handler, lanes, ...)                                         \
    case EMU_OP_##opcode:                                                                          \
        lanes break;
#define MAGNITUDES(stem)                                                                           \
    if (insn->abs)                                                                                 \
    HALVES(stem##_magnitude)
#define HALVES(stem)                                                                               \
    return insn->type == EMU_F16      ? stem##_f16                                                 \
           : insn->type == EMU_F16X2  ? stem##_f16x2                                               \
           : insn->type == EMU_BF16   ? stem##_bf16                                                \
           : insn->type == EMU_BF16X2 ? stem##_bf16x2                                              \
                                      : NULL;
#include "isa.def"
    default:
        break;
    }
    return NULL;
}

bool EMU_NAMED(emu_find_half)(const struct emu_insn *insn, struct emu_lane_info *info)
{
    info->fn = find(insn);
    return info->fn != NULL;
}
