// SPDX-License-Identifier: MIT
#include "math_error.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "math_inputs.h"
#include "math_twin.h"

static inline double sigmoid(double x)
{
    const double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

static inline double rsqrt(double x)
{
    return 1 / sqrt(x);
}

#define MANY(name, ...)                                                                            \
    static void many_##name(const float *x, const float *y, double *exact, size_t n)               \
    {                                                                                              \
        (void)y;                                                                                   \
        for (size_t k = 0; k < n; k++)                                                             \
            exact[k] = name((double)x[k]);                                                         \
    }
PTX_MATH_UNARY(MANY)
#undef MANY

static void many_pow(const float *x, const float *y, double *exact, size_t n)
{
    for (size_t k = 0; k < n; k++)
        exact[k] = pow((double)x[k], (double)y[k]);
}

const struct math_exact math_exact[] = {
#define ROW(name, ...) { #name, many_##name },
    PTX_MATH_UNARY(ROW) PTX_MATH_BINARY(ROW)
#undef ROW
        { NULL, NULL },
};

static inline double of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint64_t to_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// x, at most 2^128 away from 0. NaN stays.
static inline double limited(double x)
{
    x = x > 0x1p128 ? 0x1p128 : x;
    return x < -0x1p128 ? -0x1p128 : x;
}

// 2^(e - 23), where |x| is from 2^e to 2^(e + 1) and e from -126 to 127, as its reciprocal.
static inline double units(double x)
{
    const double size = fabs(x);
    const double least = size < 0x1p-126 ? 0x1p-126 : size;
    const double kept = least > 0x1p127 ? 0x1p127 : least;
    const uint64_t power = to_bits(kept) & UINT64_C(0x7ff0000000000000);
    return of_bits(((UINT64_C(2 * 1023 + 23)) << 52) - power);
}

static double error_of_special(float result, double exact)
{
    if (exact != exact)
        return math_bits(result) == 0x7fffffff ? 0 : (double)INFINITY;
    if (result != result || (exact == 0 && !signbit(result) != !signbit(exact)))
        return (double)INFINITY;
    return fabs(exact) * units(exact);
}

void math_errors(const float *result, const double *exact, double *error, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const double found = limited((double)result[k]), wanted = limited(exact[k]);
        error[k] = fabs(found - wanted) * units(wanted);
    }
    for (size_t k = 0; k < n; k++)
        if (result[k] == 0 || error[k] != error[k])
            error[k] = error_of_special(result[k], exact[k]);
}
