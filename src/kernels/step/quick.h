// SPDX-License-Identifier: MIT
// Correctly rounded roots and quotients without branches.
//
// ptxas expands sqrt.rn and div.rn to a short sequence and a branch to a long one, so a thread
// computes its elements one after the other. Here the short sequence stands alone, and the elements
// of a thread overlap. Where the sequence does not hold, ptxk_quick_failed() says so afterwards,
// and the thread computes its elements again with the exact instructions.
#ifndef PTXGEN_KERNELS_STEP_QUICK_H
#define PTXGEN_KERNELS_STEP_QUICK_H

#include <ptxgen/builder.h>

struct ptxk_quick {
    ptx_val least; // u32: the least dividend above 0, as 2 * bits - 1
    ptx_val sum;   // f32: NaN if a result is
    ptx_val most;  // u32, of ptxk_quick_quotient(): the greatest distance of a divisor from the
                   // least that is allowed, in units in the last place; { 0 }: none was called
    // Bits: the coefficients of ptxk_quick_at_least() and ptxk_quick_at_most(), checked already.
    uint32_t least_checked, most_checked;
    uint32_t blocks; // that were open at ptxk_quick_keep()
};

struct ptxk_quick ptxk_quick_begin(void);
// Keeps what it has in variables, so that results in blocks of the builder may be noted.
void ptxk_quick_keep(ptx_builder *b, struct ptxk_quick *q);

// A divisor of many values, 0 < value <= 1, as the f32s nearest to 1 / value and to the rest of it.
struct ptxk_quick_divisor {
    ptx_val value, reciprocal, rest;
};

// sqrt(x) rounded, times PTXK_QUICK_SCALE; NaN if x is -0 or below, at least 2^40, or NaN. And a
// root, by any power of two from 1 to PTXK_QUICK_SCALE, / y, rounded; NaN if one of them is.
#define PTXK_QUICK_SCALE 0x1p44f
enum { PTXK_QUICK_ROOTS = (127 + 40) << 23 }; // 2^40 as bits
ptx_val ptxk_quick_root(ptx_builder *b, ptx_val x);
ptx_val ptxk_quick_root_over(ptx_builder *b, ptx_val root, const struct ptxk_quick_divisor *y);

// The f32s nearest to 1 / y and to the rest of it; NaN where ptxk_quick_over() does not hold for y.
struct ptxk_quick_divisor ptxk_quick_divisor(ptx_builder *b, ptx_val y);
// x / y, rounded, for a divisor of many values; NaN, or a failure, where the sequence does not
// hold.
ptx_val ptxk_quick_over(ptx_builder *b, struct ptxk_quick *q, ptx_val x,
                        const struct ptxk_quick_divisor *y);

// x / y, rounded, for y from 0 to 2^34. NaN, or a failure, where the sequence does not hold.
ptx_val ptxk_quick_div(ptx_builder *b, struct ptxk_quick *q, ptx_val x, ptx_val y);

// x / y, rounded, for any values: NaN, or a failure, where the sequence does not hold.
ptx_val ptxk_quick_quotient(ptx_builder *b, struct ptxk_quick *q, ptx_val x, ptx_val y);

// Of coefficient k: from 0 to below PTXK_QUICK_LEAST, or outside of 0 to PTXK_QUICK_MOST, is a
// failure.
#define PTXK_QUICK_LEAST 0x1p-13f
#define PTXK_QUICK_MOST  0x1p27f
void ptxk_quick_at_least(ptx_builder *b, struct ptxk_quick *q, uint32_t k, ptx_val coefficient);
void ptxk_quick_at_most(ptx_builder *b, struct ptxk_quick *q, uint32_t k, ptx_val coefficient);

// Notes a result: NaN is a failure.
void ptxk_quick_note(ptx_builder *b, struct ptxk_quick *q, ptx_val result);

// A predicate: some result may be wrong.
ptx_val ptxk_quick_failed(ptx_builder *b, const struct ptxk_quick *q);

#endif
