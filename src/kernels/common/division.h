// SPDX-License-Identifier: MIT
// Many values divided by one: as dividing would have it, for less.
#ifndef PTXGEN_KERNELS_DIVISION_H
#define PTXGEN_KERNELS_DIVISION_H

#include <ptxgen/builder.h>

struct divisor {
    ptx_val value; // f32 or f64, which is the type divided in
    ptx_val reciprocal, negated;
    ptx_val unusual; // near the ends of f32's range, where quotients are divided out
    bool by_reciprocal;
};

// Quotients are correctly rounded, or products with the rounded reciprocal. `dividend` is the type
// of what will be divided.
struct divisor ptxk_divisor_of(ptx_builder *b, ptx_val value, ptx_type dividend,
                               bool by_reciprocal);
// One whose quotients are correctly rounded, with the rounded 1 / value that was found elsewhere;
// poisoned where it has none, as for dividends of f32 and f64.
struct divisor ptxk_divisor_from(ptx_builder *b, ptx_val value, ptx_val reciprocal);

// The divisor of each lane; lanes may share one.
struct divisors {
    const struct divisor *of[8];
};

// In the type divided in, what converts to the type of x as x / y does. Every divisor is one for
// that type.
ptx_vec ptxk_quotients(ptx_builder *b, const struct divisors *y, ptx_vec x);

#endif
