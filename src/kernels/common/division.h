// SPDX-License-Identifier: MIT
// Divides many values by one divisor, with the results of a division at a lower cost.
#ifndef PTXGEN_KERNELS_DIVISION_H
#define PTXGEN_KERNELS_DIVISION_H

#include <ptxgen/builder.h>

// The row of an option, and its values.
#define DIVISION_OPTION_ROW                                                                        \
    {                                                                                              \
        "division", { "exact", "reciprocal" }, "correctly rounded, or times the rounded 1 / scale" \
    }

enum { DIVISION_EXACT, DIVISION_RECIPROCAL };

// 1 / x in f32, rounded, for |x| from 2^-125 to 2^125: the sequence that ptxas uses for rcp.rn
// there.
ptx_val ptxk_quick_rcp(ptx_builder *b, ptx_val x);

// The reciprocal of a divisor near the ends of f32's range, which needs real divisions, is NaN: so
// are its products, and who looks for NaN finds both.
struct divisor {
    ptx_val value; // f32 or f64: the type of the division
    ptx_val reciprocal, negated;
    bool by_reciprocal;
    bool for_many; // whether it is of ptxk_divisor_of_many()
};

// Quotients are correctly rounded, or are products with the rounded reciprocal. `dividend` is the
// type of the dividends.
struct divisor ptxk_divisor_of(ptx_builder *b, ptx_val value, ptx_type dividend,
                               bool by_reciprocal);
// The same for many dividends, few of which are 0: those of f32 are divided as those of 16 bits.
struct divisor ptxk_divisor_of_many(ptx_builder *b, ptx_val value, ptx_type dividend,
                                    bool by_reciprocal);
// A divisor with correctly rounded quotients whose reciprocal was found elsewhere; poisoned if it
// is not needed, as for dividends of f64.
struct divisor ptxk_divisor_from(ptx_builder *b, ptx_val value, ptx_val reciprocal);

// Of dividends in 16 bits.
ptx_val ptxk_reciprocal_of(ptx_builder *b, ptx_val value);

// The divisor of each lane; lanes may share a divisor.
struct divisors {
    const struct divisor *of[8];
};

// The quotient in the type of the division; converted to the type of x it is x / y. Every divisor
// must be made for the type of x.
ptx_vec ptxk_quotients(ptx_builder *b, const struct divisors *y, ptx_vec x);

#endif
