// SPDX-License-Identifier: MIT
// Many values divided by one: as dividing would have it, for less.
#ifndef PTXGEN_KERNELS_DIVISION_H
#define PTXGEN_KERNELS_DIVISION_H

#include <ptxgen/builder.h>

struct divisor {
    ptx_val value; // f32 or f64, which is the type divided in
    ptx_val negated, reciprocal;
    ptx_val unusual; // near the ends of f32's range, where quotients are divided out
    bool by_reciprocal;
};

// Quotients are correctly rounded, or products with the rounded reciprocal.
struct divisor divisor_of(ptx_builder *b, ptx_val value, bool by_reciprocal);

// The divisor of each lane; lanes may share one.
struct divisors {
    const struct divisor *of[8];
};

// x / y in the type of x, through the type divided in.
ptx_vec quotients(ptx_builder *b, const struct divisors *y, ptx_vec x);

// rint(x / y) in the type divided in. In f32 only as far as it is below 2^32; beyond that it is
// anything beyond, or NaN.
ptx_vec nearest_multiples(ptx_builder *b, const struct divisors *y, ptx_vec x);

#endif
