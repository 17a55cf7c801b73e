// SPDX-License-Identifier: MIT
// The distance of one result from the exact value, which math_errors() gives for many.
#ifndef PTXGEN_TESTS_MATH_DISTANCE_H
#define PTXGEN_TESTS_MATH_DISTANCE_H

#include <math.h>

#include "math_inputs.h"

MATH_INLINE double math_double(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

MATH_INLINE uint64_t math_double_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// x, at most 2^128 away from 0. NaN stays.
MATH_INLINE double math_limited(double x)
{
    x = x > 0x1p128 ? 0x1p128 : x;
    return x < -0x1p128 ? -0x1p128 : x;
}

// 2^(e - 23), where |x| is from 2^e to 2^(e + 1) and e from -126 to 127, as its reciprocal.
MATH_INLINE double math_units(double x)
{
    const double size = fabs(x);
    const double least = size < 0x1p-126 ? 0x1p-126 : size;
    const double kept = least > 0x1p127 ? 0x1p127 : least;
    const uint64_t power = math_double_bits(kept) & UINT64_C(0x7ff0000000000000);
    return math_double(((UINT64_C(2 * 1023 + 23)) << 52) - power);
}

// Where one is 0 or not a number.
MATH_INLINE double math_distance_of_special(float result, double exact)
{
    if (exact != exact)
        return math_bits(result) == 0x7fffffff ? 0 : (double)INFINITY;
    if (result != result || (exact == 0 && !signbit(result) != !signbit(exact)))
        return (double)INFINITY;
    return fabs(exact) * math_units(exact);
}

// Where both are numbers and the result is not 0; NaN else.
MATH_INLINE double math_distance_of_numbers(float result, double exact)
{
    const double found = math_limited((double)result), wanted = math_limited(exact);
    return fabs(found - wanted) * math_units(wanted);
}

#endif
