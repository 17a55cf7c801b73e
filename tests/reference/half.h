// SPDX-License-Identifier: MIT
/// f16 and bf16 for references: conversions with integer arithmetic only, so that they do not
/// depend on the compiler's half types, the host's rounding mode or the library under test.
#ifndef PTXGEN_TOOLS_REFERENCE_HALF_H
#define PTXGEN_TOOLS_REFERENCE_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/// Both formats have a sign, `exponent_bits` exponent bits, and fraction bits up to 16 bits.
enum { F16_EXPONENT_BITS = 5, BF16_EXPONENT_BITS = 8, HALF_NAN = 0x7fff };

static inline uint64_t bits_of_f64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double f64_of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t bits_of_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float f32_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/// Rounds to nearest even; values beyond the largest become infinity; NaN becomes 0x7fff, as in
/// PTX. A float argument is rounded once, because it widens exactly.
static inline uint16_t half_from_f64(int exponent_bits, double x)
{
    int fraction = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    uint64_t bits = bits_of_f64(x);
    unsigned sign = (unsigned)(bits >> 48) & 0x8000;
    if (isnan(x))
        return HALF_NAN;
    int exponent = (int)((bits >> 52) & 0x7ff) - 1023;
    if (exponent > bias)
        return (uint16_t)(sign | ((1u << exponent_bits) - 1) << fraction);
    // Bits below the last bit that is kept; more of them if the result is subnormal.
    int least = 1 - bias;
    int dropped = 52 - fraction + (exponent < least ? least - exponent : 0);
    if (dropped > 53)
        return (uint16_t)sign;
    uint64_t significand = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    uint64_t rest = significand & ((UINT64_C(1) << dropped) - 1);
    uint64_t half = UINT64_C(1) << (dropped - 1);
    uint64_t kept = significand >> dropped;
    kept += rest > half || (rest == half && (kept & 1));
    // The leading one and a carry out of the fraction are added to the exponent field.
    unsigned field = exponent < least ? 0 : (unsigned)(exponent - least);
    return (uint16_t)(sign | ((field << fraction) + (unsigned)kept));
}

/// Exact. Every NaN becomes the host's NaN.
static inline double half_to_f64(int exponent_bits, uint16_t half)
{
    int fraction = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    unsigned field = (unsigned)(half & 0x7fff) >> fraction;
    uint64_t rest = half & ((1u << fraction) - 1);
    uint64_t sign = (uint64_t)(half & 0x8000) << 48;
    if (field == (1u << exponent_bits) - 1)
        return rest ? (double)NAN : f64_of_bits(sign | UINT64_C(0x7ff) << 52);
    if (field == 0) {
        double unit = f64_of_bits((uint64_t)(1023 + 1 - bias - fraction) << 52);
        return sign ? -((double)rest * unit) : (double)rest * unit;
    }
    return f64_of_bits(sign | (uint64_t)((int)field - bias + 1023) << 52 | rest << (52 - fraction));
}

static inline uint16_t f16_from_f64(double x)
{
    return half_from_f64(F16_EXPONENT_BITS, x);
}

static inline double f16_to_f64(uint16_t half)
{
    return half_to_f64(F16_EXPONENT_BITS, half);
}

static inline uint16_t bf16_from_f64(double x)
{
    return half_from_f64(BF16_EXPONENT_BITS, x);
}

static inline double bf16_to_f64(uint16_t half)
{
    return half_to_f64(BF16_EXPONENT_BITS, half);
}

#endif
