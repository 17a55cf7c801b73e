// SPDX-License-Identifier: MIT
// The exact values, as doubles from the C library, and the distance of results from them.
#ifndef PTXGEN_TESTS_MATH_ERROR_H
#define PTXGEN_TESTS_MATH_ERROR_H

#include <stddef.h>

// The values of a row of math.h, within some units in the last place of a double.
struct math_exact {
    const char *name;
    void (*many)(const float *x, const float *y, double *exact, size_t n); // y: for pow alone
};

// In the order of math.h; a name of NULL ends them.
extern const struct math_exact math_exact[];

// |result - exact| in units in the last place of `exact` as an f32, at least 2^-149. Infinity
// counts as 2^128. A NaN for a number, a number for a NaN, another NaN than 0x7fffffff, and a zero
// of the other sign are infinitely far.
void math_errors(const float *result, const double *exact, double *error, size_t n);

#endif
