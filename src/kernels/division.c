// SPDX-License-Identifier: MIT
#include "division.h"

struct divisor divisor_of(ptx_builder *b, ptx_val value, bool by_reciprocal)
{
    struct divisor y = { .value = value, .by_reciprocal = by_reciprocal };

    if (by_reciprocal || value.type == PTX_F32)
        y.reciprocal = ptx_rcp(b, value);
    if (by_reciprocal || value.type != PTX_F32)
        return y;
    ptx_val below = ptx_lt(b, value, ptx_f32(0x1p-60f));
    ptx_val above = ptx_gt(b, value, ptx_f32(0x1p60f));
    y.unusual = ptx_or(b, below, above);
    y.negated = ptx_neg(b, value);
    return y;
}

static ptx_vec convert(ptx_builder *b, ptx_type type, ptx_vec x)
{
    for (unsigned k = 0; k < x.lanes; k++)
        x.lane[k] = ptx_cvt(b, type, x.lane[k]);
    return x;
}

static ptx_vec divide(ptx_builder *b, const struct divisors *y, ptx_vec x)
{
    for (unsigned k = 0; k < x.lanes; k++) {
        const struct divisor *of = y->of[k];
        x.lane[k] = of->by_reciprocal ? ptx_mul(b, x.lane[k], of->reciprocal)
                                      : ptx_div(b, x.lane[k], of->value);
    }
    return x;
}

// Whether the divisor of any lane is an unusual one.
static ptx_val any_unusual(ptx_builder *b, const struct divisors *y, unsigned lanes)
{
    ptx_val any = y->of[0]->unusual;

    for (unsigned k = 1; k < lanes; k++)
        if (y->of[k]->unusual.reg != y->of[k - 1]->unusual.reg)
            any = ptx_or(b, any, y->of[k]->unusual);
    return any;
}

// With r the correctly rounded reciprocal of y, q = x * r and the remainder e = x - q * y exact,
// q + e * r rounded once is the correctly rounded quotient (P. Markstein, "Computation of
// elementary functions on the IBM RISC System/6000 processor", 1990). e is exact while x is above
// 2^-100.
struct quotient {
    ptx_val rough, remainder, corrected;
};

static struct quotient correct(ptx_builder *b, const struct divisor *y, ptx_val x)
{
    struct quotient q;

    q.rough = ptx_mul(b, x, y->reciprocal);
    q.remainder = ptx_fma(b, q.rough, y->negated, x);
    q.corrected = ptx_fma(b, q.remainder, y->reciprocal, q.rough);
    return q;
}

// The lanes of `fast`, or x / y in all of them if `rare` holds.
static ptx_vec unless(ptx_builder *b, ptx_val rare, const struct divisors *y, ptx_vec x,
                      ptx_vec fast)
{
    for (unsigned k = 0; k < x.lanes; k++)
        fast.lane[k] = ptx_var(b, fast.lane[k]);
    ptx_if (b, rare) {
        ptx_vec slow = divide(b, y, x);
        for (unsigned k = 0; k < x.lanes; k++)
            ptx_set(b, fast.lane[k], slow.lane[k]);
    }
    return fast;
}

// Whether x is where remainders underflow or quotients may overflow; 0 is not.
static ptx_val far_from_one(ptx_builder *b, ptx_val x)
{
    ptx_val magnitude = ptx_abs(b, x);
    ptx_val small = ptx_lt(b, magnitude, ptx_f32(0x1p-60f));
    ptx_val large = ptx_gt(b, magnitude, ptx_f32(0x1p60f));
    ptx_val nonzero = ptx_ne(b, x, ptx_f32(0));

    return ptx_and(b, nonzero, ptx_or(b, small, large));
}

ptx_vec quotients(ptx_builder *b, const struct divisors *y, ptx_vec x)
{
    const ptx_type dtype = (ptx_type)x.lane[0].type;

    x = convert(b, (ptx_type)y->of[0]->value.type, x);
    if (y->of[0]->by_reciprocal || (dtype != PTX_F16 && dtype != PTX_BF16))
        return convert(b, dtype, divide(b, y, x));
    ptx_vec result = x;
    ptx_val rare = any_unusual(b, y, x.lanes);
    for (unsigned k = 0; k < x.lanes; k++) {
        struct quotient q = correct(b, y->of[k], x.lane[k]);
        // No remainder, or NaN for one: x is a multiple, 0, infinite or NaN. Keep the sign of 0.
        ptx_val inexact = ptx_ne(b, q.remainder, ptx_f32(0));
        result.lane[k] = ptx_select(b, inexact, q.corrected, q.rough);
        if (dtype == PTX_BF16) // every f16 but 0 is near enough
            rare = ptx_or(b, rare, far_from_one(b, x.lane[k]));
    }
    return convert(b, dtype, unless(b, rare, y, x, result));
}

ptx_vec nearest_multiples(ptx_builder *b, const struct divisors *y, ptx_vec x)
{
    const struct divisor *first = y->of[0];

    x = convert(b, (ptx_type)first->value.type, x);
    ptx_vec result = x;
    if (first->by_reciprocal || first->value.type != PTX_F32) {
        result = divide(b, y, x);
    } else {
        // Below 2^-100 the quotient is near 0 and rounds to 0 however it comes out.
        for (unsigned k = 0; k < x.lanes; k++)
            result.lane[k] = correct(b, y->of[k], x.lane[k]).corrected;
        result = unless(b, any_unusual(b, y, x.lanes), y, x, result);
    }
    for (unsigned k = 0; k < x.lanes; k++)
        result.lane[k] = ptx_rint(b, result.lane[k]);
    return result;
}
