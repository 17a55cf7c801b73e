// SPDX-License-Identifier: MIT
/// One dot product of mma.sync for references, in doubles, which hold each product exactly. The
/// rule is the published model of MMA-Sim (arXiv 2511.10909): the products of a step and the addend
/// are aligned to the largest exponent, each is truncated to `fraction` bits below it, and the
/// exact sum is rounded towards zero to f32, or to nearest even to f16. The model gives zeros the
/// exponent -126; an H200 leaves them out, and aligns to the exponent -133 at least.
#ifndef PTXGEN_TOOLS_REFERENCE_MMA_H
#define PTXGEN_TOOLS_REFERENCE_MMA_H

#include "half.h"

enum mma_format { MMA_F16, MMA_BF16, MMA_TF32, MMA_F32, MMA_E4M3, MMA_E5M2 };

static inline double mma_value(enum mma_format format, uint32_t bits)
{
    switch (format) {
    case MMA_E4M3: // f16 has its values, but for the last one, NaN
        return (bits & 0x7f) == 0x7f
                   ? (double)NAN
                   : ldexp(f16_to_f64((uint16_t)((bits & 0x80) << 8 | (bits & 0x7f) << 7)), 8);
    case MMA_E5M2:
        return f16_to_f64((uint16_t)(bits << 8));
    case MMA_F16:
        return f16_to_f64((uint16_t)bits);
    case MMA_BF16:
        return (double)f32_of_bits(bits << 16);
    case MMA_TF32:
        return (double)f32_of_bits(bits & UINT32_C(0xffffe000));
    default:
        return (double)f32_of_bits(bits);
    }
}

/// The exponent of a value's leading bit, at least that of the format's least normal number. A
/// zero, and a product with one, is aligned to nothing: its exponent is below all others.
static inline int mma_exponent(enum mma_format format, double x)
{
    const int least = format == MMA_F16 || format == MMA_E5M2 ? -14
                      : format == MMA_E4M3                    ? -6
                                                              : -126;
    int exponent = 0;

    if (x == 0)
        return -1000;
    frexp(x, &exponent);
    return exponent - 1 < least ? least : exponent - 1;
}

static inline uint32_t mma_round(enum mma_format to, double x)
{
    if (isnan(x))
        return to == MMA_F16 ? 0x7fff : 0x7fffffff;
    if (to == MMA_F16) {
        const uint32_t half = f16_from_f64(x);
        return half & 0x7fff ? half : 0;
    }
    if (isinf(x) || fabs(x) >= 0x1p128)
        return x < 0 ? UINT32_C(0xff800000) : UINT32_C(0x7f800000);
    float f = (float)x;
    if (fabs((double)f) > fabs(x)) // rounded up, maybe to infinity
        f = nextafterf(f, 0);
    return f == 0 ? 0 : bits_of_f32(f);
}

/// One step: c + the sum of a[k] * b[k], c and the result being f16 or f32, aligned to `least` or
/// more.
static inline uint32_t mma_step_of(enum mma_format of_a, enum mma_format of_b,
                                   enum mma_format sum_format, int fraction, int least,
                                   const uint32_t *a, const uint32_t *b, unsigned count, uint32_t c)
{
    const double addend = mma_value(sum_format, c);
    int largest = mma_exponent(sum_format, addend);
    double plain = addend, sum = 0;

    largest = largest > least ? largest : least;
    for (unsigned k = 0; k < count; k++) {
        const double x = mma_value(of_a, a[k]), y = mma_value(of_b, b[k]);
        const int exponent = mma_exponent(of_a, x) + mma_exponent(of_b, y);
        plain += x * y;
        largest = exponent > largest ? exponent : largest;
    }
    if (!isfinite(plain)) // of finite numbers, the sum is finite
        return mma_round(sum_format, plain);
    for (unsigned k = 0; k < count; k++)
        sum += trunc(ldexp(mma_value(of_a, a[k]) * mma_value(of_b, b[k]), fraction - largest));
    sum += trunc(ldexp(addend, fraction - largest));
    return mma_round(sum_format, ldexp(sum, largest - fraction));
}

static inline uint32_t mma_step(enum mma_format format, enum mma_format sum_format, int fraction,
                                int least, const uint32_t *a, const uint32_t *b, unsigned count,
                                uint32_t c)
{
    return mma_step_of(format, format, sum_format, fraction, least, a, b, count, c);
}

/// 32 products of floats of 8 bits, as wgmma of an H200 adds them: f32 sums have 13 bits.
static inline uint32_t mma_dot_bytes(enum mma_format of_a, enum mma_format of_b,
                                     enum mma_format sum_format, const uint32_t *a,
                                     const uint32_t *b, uint32_t c)
{
    const uint32_t sum = mma_step_of(of_a, of_b, sum_format, 13, -133, a, b, 32, c);
    return sum_format == MMA_F16 || sum == 0x7fffffff ? sum : sum & UINT32_C(0xfffffc00);
}

/// All of a row and a column, as a GPU of this compute capability does it.
static inline uint32_t mma_dot(int sm, enum mma_format format, enum mma_format sum_format,
                               const uint32_t *a, const uint32_t *b, unsigned count, uint32_t c)
{
    const unsigned whole = format == MMA_TF32 ? 8 : 16, step = sm >= 90 ? whole : whole / 2;

    for (unsigned k = 0; k < count; k += step)
        c = mma_step(format, sum_format, sm >= 90 ? 25 : 24, sm >= 90 ? -133 : -1000, a + k, b + k,
                     count - k < step ? count - k : step, c);
    return c;
}

#endif
