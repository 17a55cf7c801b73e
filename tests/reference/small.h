// SPDX-License-Identifier: MIT
/// Floats of 8 bits and tf32 for references. A format of 8 bits is a sorted list of its values, in
/// which the nearest is looked for; so nothing here rounds bits as the library or the emulator do.
#ifndef PTXGEN_TOOLS_REFERENCE_SMALL_H
#define PTXGEN_TOOLS_REFERENCE_SMALL_H

#include "half.h"

#include <stdbool.h>

enum small_format { SMALL_E4M3, SMALL_E5M2 };

/// Magnitudes with a finite value: in e4m3 all but 0x7f, in e5m2 those below infinity, 0x7c.
static inline unsigned small_count(enum small_format format)
{
    return format == SMALL_E4M3 ? 0x7f : 0x7c;
}

/// The value of a magnitude, one of small_count().
static inline double small_value(enum small_format format, unsigned magnitude)
{
    const int fractions = format == SMALL_E4M3 ? 8 : 4, bias = format == SMALL_E4M3 ? 7 : 15;
    const int exponent = (int)magnitude / fractions;
    const double fraction = (double)((int)magnitude % fractions) / fractions;

    return exponent ? ldexp(1 + fraction, exponent - bias) : ldexp(fraction, 1 - bias);
}

/// The nearest, of two the even one; beyond the last, the last. NaN is 0x7f. With `relu`, a
/// negative number is 0.
static inline unsigned small_from_f64(enum small_format format, double x, bool relu)
{
    const unsigned sign = signbit(x) ? 0x80 : 0, count = small_count(format);
    unsigned k = 0;

    if (isnan(x))
        return 0x7f;
    if (relu && sign)
        return 0;
    x = fabs(x);
    for (unsigned step = 64; step; step /= 2)
        if (k + step < count && small_value(format, k + step) <= x)
            k += step;
    if (k + 1 < count) {
        const double below = x - small_value(format, k), above = small_value(format, k + 1) - x;
        k += above < below || (above == below && k % 2);
    }
    return sign | k;
}

/// The bits of the f16 with this value.
static inline unsigned small_to_f16(enum small_format format, unsigned x, bool relu)
{
    const unsigned magnitude = x & 0x7f;
    const bool infinite = format == SMALL_E5M2 && magnitude == 0x7c;

    if (magnitude >= small_count(format) && !infinite)
        return HALF_NAN;
    if (relu && x & 0x80)
        return 0;
    const double value = infinite ? (double)INFINITY : small_value(format, magnitude);
    return f16_from_f64(x & 0x80 ? -value : value);
}

/// f32 to tf32, `mode` being 'a' (nearest, ties away from zero), 'n' (ties to even) or 'z' (towards
/// zero). The multiples of 2^13 around the bits are the candidates; doubles say which is nearer.
/// NaN is 0x7fffe000, but with 'a' it keeps its upper 19 bits, 2^13 less with satfinite: so on an
/// H200.
static inline uint32_t tf32_from_f32(uint32_t x, char mode, bool relu, bool satfinite)
{
    const double value = (double)f32_of_bits(x);
    const uint32_t down = x & UINT32_C(0xffffe000), up = down + 0x2000;
    const double past = x >> 31 ? -0x1p128 : 0x1p128; // in place of infinity
    const double next = isfinite(f32_of_bits(up)) ? (double)f32_of_bits(up) : past;
    const double below = fabs(value - (double)f32_of_bits(down)), above = fabs(next - value);
    uint32_t result = down;

    if (isnan(value))
        return mode != 'a' ? 0x7fffe000 : satfinite ? down - 0x2000 : down;
    if (relu && x >> 31)
        return 0;
    if (!isinf(value) && mode != 'z')
        result = above < below || (above == below && (mode == 'a' || down >> 13 & 1)) ? up : down;
    if (satfinite && isinf(f32_of_bits(result)))
        return (result & UINT32_C(0x80000000)) | 0x7f7fe000;
    return result;
}

#endif
