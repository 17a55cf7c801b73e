// SPDX-License-Identifier: MIT
#include "division.h"

#include <math.h>

#include "common.h"

ptx_val ptxk_quick_rcp(ptx_builder *b, ptx_val x)
{
    ptx_val r = ptx_op(b, PTX_OP_rcp_approx, .x = x, .ftz = true);
    ptx_val error = ptx_fma(b, ptx_neg(b, x), r, 1);
    return ptx_fma(b, r, error, r);
}

static ptx_val usual_reciprocal(ptx_builder *b, ptx_val value, ptx_val reciprocal)
{
    ptx_val below = ptx_lt(b, value, 0x1p-60);
    ptx_val above = ptx_gt(b, value, 0x1p60);

    return ptx_select(b, ptx_or(b, below, above), NAN, reciprocal);
}

ptx_val ptxk_reciprocal_of(ptx_builder *b, ptx_val value)
{
    return usual_reciprocal(b, value, ptx_rcp(b, value));
}

struct divisor ptxk_divisor_from(ptx_builder *b, ptx_val value, ptx_val reciprocal)
{
    struct divisor y = { .value = value, .reciprocal = reciprocal };

    if (reciprocal.kind != PTX_KIND_POISON)
        y.negated = ptx_neg(b, reciprocal);
    return y;
}

struct divisor ptxk_divisor_of(ptx_builder *b, ptx_val value, ptx_type dividend, bool by_reciprocal)
{
    const bool narrow = dividend == PTX_F16 || dividend == PTX_BF16;

    if (by_reciprocal)
        return (struct divisor) { .value = value,
                                  .reciprocal = ptx_rcp(b, value),
                                  .by_reciprocal = true };
    return ptxk_divisor_from(b, value, narrow ? ptxk_reciprocal_of(b, value) : (ptx_val) { 0 });
}

struct divisor ptxk_divisor_of_many(ptx_builder *b, ptx_val value, ptx_type dividend,
                                    bool by_reciprocal)
{
    if (by_reciprocal || dividend == PTX_F64)
        return ptxk_divisor_of(b, value, dividend, by_reciprocal);
    ptx_val reciprocal = usual_reciprocal(b, value, ptxk_quick_rcp(b, value));
    struct divisor y = ptxk_divisor_from(b, value, reciprocal);
    y.for_many = true;
    return y;
}

// With r the correctly rounded reciprocal of y, q = x * r and e = q * y - x without an error, q - e
// * r rounded once is the correctly rounded quotient for every x that is not tiny (P. Markstein,
// "Computation of elementary functions on the IBM RISC System/6000 processor", 1990; verified for
// all pairs of significands of f16 and bf16, and for all of f32 whose quotients are near a boundary
// of rounding). With these signs a zero keeps its sign. The result is NaN if x or the quotient is
// infinite.
static ptx_val corrected(ptx_builder *b, const struct divisor *y, ptx_val x)
{
    ptx_val rough = ptx_mul(b, x, y->reciprocal);
    ptx_val excess = ptx_fma(b, rough, y->value, ptx_neg(b, x));
    return ptx_fma(b, excess, y->negated, rough);
}

// In f16 the only tiny x is 0.
static ptx_val is_tiny(ptx_builder *b, ptx_val x)
{
    const uint32_t least = 0x21800000; // 2^-60
    ptx_val bits = ptx_bitcast(b, PTX_U32, x);
    ptx_val beyond_zero = ptx_mad(b, bits, 2, UINT32_MAX); // 0 wraps around

    return ptx_lt(b, beyond_zero, 2 * least - 1);
}

static ptx_val divide(ptx_builder *b, const struct divisor *y, ptx_val x)
{
    return y->by_reciprocal ? ptx_mul(b, x, y->reciprocal) : ptx_div(b, x, y->value);
}

// Whether any lane is NaN: one comparison detects it in either of two.
static ptx_val any_nan(ptx_builder *b, ptx_vec x)
{
    ptx_val any = ptx_unordered(b, x.lane[0], x.lane[x.lanes > 1]);

    for (unsigned k = 2; k < x.lanes; k += 2) {
        const ptx_val other = x.lane[k + 1 < x.lanes ? k + 1 : k];
        any = ptx_or(b, any, ptx_unordered(b, x.lane[k], other));
    }
    return any;
}

// Whether any lane is tiny.
static ptx_val any_tiny(ptx_builder *b, ptx_vec x)
{
    ptx_val any = is_tiny(b, x.lane[0]);

    for (unsigned k = 1; k < x.lanes; k++)
        any = ptx_or(b, any, is_tiny(b, x.lane[k]));
    return any;
}

// Whether any lane is tiny or 0.
static ptx_val any_small(ptx_builder *b, ptx_vec x)
{
    ptx_val least = ptx_abs(b, x.lane[0]);

    for (unsigned k = 1; k < x.lanes; k++)
        least = ptx_min(b, least, ptx_abs(b, x.lane[k]));
    return ptx_lt(b, least, 0x1p-60);
}

static void divide_exactly(ptx_builder *b, const struct divisors *y, ptx_vec x, ptx_vec result)
{
    ptx_comment(b, "a tiny dividend, an unusual divisor or a NaN: divided exactly");
    for (unsigned k = 0; k < x.lanes; k++)
        ptx_set(b, result.lane[k], ptx_div(b, x.lane[k], y->of[k]->value));
}

ptx_vec ptxk_quotients(ptx_builder *b, const struct divisors *y, ptx_vec x)
{
    const ptx_type dtype = (ptx_type)x.lane[0].type;
    const struct divisor *first = y->of[0];
    const bool tests_each = dtype == PTX_BF16 && !first->for_many;
    ptx_vec result = x;

    for (unsigned k = 0; k < x.lanes; k++)
        x.lane[k] = ptx_cvt(b, (ptx_type)first->value.type, x.lane[k]);
    if (first->by_reciprocal || first->reciprocal.kind == PTX_KIND_POISON) {
        ptx_comment(b, "quotients");
        for (unsigned k = 0; k < x.lanes; k++)
            result.lane[k] = divide(b, y->of[k], x.lane[k]);
        return result;
    }
    for (unsigned k = 0; k < x.lanes; k++) {
        ptxk_comment_lanes(b, "quotients by the reciprocal, corrected", k, 4, x.lanes);
        result.lane[k] = ptx_var(b, corrected(b, y->of[k], x.lane[k]));
    }
    if (x.lanes > 4)
        ptx_comment(b, "whether one of them is NaN");
    ptx_val rare = any_nan(b, result);
    for (unsigned k = 0; k < x.lanes && tests_each; k++)
        rare = ptx_or(b, rare, is_tiny(b, x.lane[k]));
    if (dtype == PTX_F16 || tests_each) {
        ptx_if (b, rare)
            divide_exactly(b, y, x, result);
        return result;
    }
    ptx_comment(b, "a dividend that is tiny or 0");
    ptx_val small = any_small(b, x);
    ptx_if (b, ptx_or(b, rare, small)) {
        ptx_comment(b, "one that is tiny");
        ptx_if (b, ptx_or(b, rare, any_tiny(b, x)))
            divide_exactly(b, y, x, result);
    }
    return result;
}
