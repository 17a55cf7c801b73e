// SPDX-License-Identifier: MIT
/// f16 and bf16 for the tests: conversions by integer arithmetic alone, so that they owe nothing
/// to the compiler's half types, to the host's rounding mode or to the library under test.
#ifndef PTXGEN_TOOLS_REFERENCE_HALF_H
#define PTXGEN_TOOLS_REFERENCE_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/// Both formats are a sign, `exponent_bits` of exponent and the rest of 16 bits fraction.
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

/// To nearest even; beyond the largest value to infinity; NaN to 0x7fff, as PTX has it. A float
/// argument is rounded once, since it widens exactly.
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
    // Places below the last bit that is kept; more of them where the result is subnormal.
    int least = 1 - bias;
    int dropped = 52 - fraction + (exponent < least ? least - exponent : 0);
    if (dropped > 53)
        return (uint16_t)sign;
    uint64_t significand = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    uint64_t rest = significand & ((UINT64_C(1) << dropped) - 1);
    uint64_t half = UINT64_C(1) << (dropped - 1);
    uint64_t kept = significand >> dropped;
    kept += rest > half || (rest == half && (kept & 1));
    // The leading one, and a carry out of the fraction, add to the exponent field.
    unsigned field = exponent < least ? 0 : (unsigned)(exponent - least);
    return (uint16_t)(sign | ((field << fraction) + (unsigned)kept));
}

/// Exact. Every NaN becomes the host's.
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
