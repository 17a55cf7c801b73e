// SPDX-License-Identifier: MIT
#include "quick.h"

#include <math.h>

#include "../common/division.h"

// The bits of 2^-90 as 2 * bits - 1. From there on the remainder of a quotient has no underflow:
// the divisor is at most 2^34, so the quotient is at least 2^-124.
enum { LEAST_DIVIDEND = 2 * (127 - 90) * (1 << 23) - 1 };
// The bits of 2^-120 and 2^34.
enum { LEAST_DIVISOR = (127 - 120) * (1 << 23), MOST_DIVISOR = (127 + 34) * (1 << 23) };
// The bits of PTXK_QUICK_LEAST. Those of PTXK_QUICK_MOST are the distance of the divisors.
enum { LEAST_LIMITED = (127 - 13) * (1 << 23) };
_Static_assert(MOST_DIVISOR - LEAST_DIVISOR == (127 + 27) * (1 << 23), "2^27 as a distance");

struct ptxk_quick ptxk_quick_begin(void)
{
    return (struct ptxk_quick) { .least = ptx_u32(UINT32_MAX), .sum = ptx_zero(PTX_F32) };
}

void ptxk_quick_keep(ptx_builder *b, struct ptxk_quick *q)
{
    if (q->sum.kind == PTX_KIND_VARIABLE)
        return;
    q->least = ptx_var(b, q->least);
    q->sum = ptx_var(b, q->sum);
    q->most = ptx_var(b, q->most.type == PTX_NONE ? ptx_u32(0) : q->most);
    q->blocks = ptx_builder_get_info(b).blocks;
}

static void become(ptx_builder *b, ptx_val *of, ptx_val x)
{
    if (of->kind == PTX_KIND_VARIABLE)
        ptx_set(b, *of, x);
    else
        *of = x;
}

// The nearest f32 to sqrt(x): the root by the reciprocal root, and its exact remainder. ptxas uses
// this sequence for sqrt.rn between its checks, for every target, so it holds for the
// approximations of every GPU; it holds for the nearest one, which is the emulator's.
// tests/kernels/test_quick.c runs every significand. The reciprocal root of 0 is limited, so that
// the root is 0; negative values, infinity and NaN give NaN.
static ptx_val root(ptx_builder *b, ptx_val x)
{
    ptx_val y = ptx_op(b, PTX_OP_rsqrt_approx, .x = x, .ftz = true);
    y = ptx_min(b, y, 0x1p100);
    ptx_val s = ptx_mul(b, x, y);
    ptx_val h = ptx_mul(b, y, 0.5);
    ptx_val rest = ptx_fma(b, ptx_neg(b, s), s, x);
    return ptx_fma(b, rest, h, s);
}

// With the reciprocal in two parts the first quotient is within one unit in the last place, and its
// exact remainder rounds it correctly (Markstein).
static ptx_val over(ptx_builder *b, ptx_val x, const struct ptxk_quick_divisor *y)
{
    ptx_val low = ptx_mul(b, x, y->rest);
    ptx_val q = ptx_fma(b, x, y->reciprocal, low);
    ptx_val rest = ptx_fma(b, ptx_neg(b, y->value), q, x);
    return ptx_fma(b, rest, y->reciprocal, q);
}

ptx_val ptxk_quick_root(ptx_builder *b, ptx_val x)
{
    return root(b, ptx_mul(b, x, PTXK_QUICK_SCALE * PTXK_QUICK_SCALE));
}

// A root is 0, and not -0, or at least 2^-75, and so far above the least dividend.
ptx_val ptxk_quick_root_over(ptx_builder *b, ptx_val root, const struct ptxk_quick_divisor *y)
{
    return over(b, root, y);
}

// The sequence that ptxas uses for div.rn between its checks, with signs that keep that of a zero.
static ptx_val divided(ptx_builder *b, struct ptxk_quick *q, ptx_val x, ptx_val y, ptx_val r)
{
    ptx_val quotient = ptx_mul(b, x, r);

    for (unsigned turn = 0; turn < 2; turn++) {
        ptx_val excess = ptx_fma(b, quotient, y, ptx_neg(b, x));
        quotient = ptx_fma(b, excess, ptx_neg(b, r), quotient);
    }
    ptx_val bits = ptx_bitcast(b, PTX_U32, x);
    ptx_val beyond_zero = ptx_mad(b, bits, 2, UINT32_MAX); // 0 wraps around
    become(b, &q->least, ptx_min(b, q->least, beyond_zero));
    return quotient;
}

ptx_val ptxk_quick_div(ptx_builder *b, struct ptxk_quick *q, ptx_val x, ptx_val y)
{
    return divided(b, q, x, y, ptxk_quick_rcp(b, y));
}

struct ptxk_quick_divisor ptxk_quick_divisor(ptx_builder *b, ptx_val y)
{
    ptx_val reciprocal = ptx_rcp(b, y);
    ptx_val beyond = ptx_sub(b, ptx_bitcast(b, PTX_U32, y), LEAST_DIVISOR);
    ptx_val holds = ptx_le(b, beyond, MOST_DIVISOR - LEAST_DIVISOR);
    ptx_val rest = ptx_fma(b, ptx_neg(b, y), reciprocal, 1);
    ptx_val low = ptx_mul(b, rest, reciprocal);

    return (struct ptxk_quick_divisor) { y, ptx_select(b, holds, reciprocal, NAN), low };
}

ptx_val ptxk_quick_over(ptx_builder *b, struct ptxk_quick *q, ptx_val x,
                        const struct ptxk_quick_divisor *y)
{
    return divided(b, q, x, y->value, y->reciprocal);
}

// Notes a u32 that is a failure above MOST_DIVISOR - LEAST_DIVISOR.
static void note_distance(ptx_builder *b, struct ptxk_quick *q, ptx_val beyond)
{
    become(b, &q->most, ptx_max(b, q->most.type == PTX_NONE ? ptx_u32(0) : q->most, beyond));
}

// What is below the least divisor, negative or NaN wraps around.
ptx_val ptxk_quick_quotient(ptx_builder *b, struct ptxk_quick *q, ptx_val x, ptx_val y)
{
    note_distance(b, q, ptx_sub(b, ptx_bitcast(b, PTX_U32, y), LEAST_DIVISOR));
    return ptxk_quick_div(b, q, x, y);
}

// Whether coefficient k is to be checked, and notes it where the check is made for all elements.
static bool is_unchecked(const ptx_builder *b, const struct ptxk_quick *q, uint32_t k,
                         uint32_t *checked)
{
    const uint32_t bit = UINT32_C(1) << k;
    const bool was = *checked & bit;

    if (ptx_builder_get_info(b).blocks == q->blocks)
        *checked |= bit;
    return !was;
}

void ptxk_quick_at_least(ptx_builder *b, struct ptxk_quick *q, uint32_t k, ptx_val coefficient)
{
    if (is_unchecked(b, q, k, &q->least_checked))
        note_distance(b, q, ptx_sub(b, ptx_bitcast(b, PTX_U32, coefficient), LEAST_LIMITED));
}

// What is negative or NaN is far above.
void ptxk_quick_at_most(ptx_builder *b, struct ptxk_quick *q, uint32_t k, ptx_val coefficient)
{
    if (is_unchecked(b, q, k, &q->most_checked))
        note_distance(b, q, ptx_bitcast(b, PTX_U32, coefficient));
}

void ptxk_quick_note(ptx_builder *b, struct ptxk_quick *q, ptx_val result)
{
    become(b, &q->sum, ptx_add(b, q->sum, result));
}

ptx_val ptxk_quick_failed(ptx_builder *b, const struct ptxk_quick *q)
{
    ptx_val small = ptx_lt(b, q->least, LEAST_DIVIDEND);
    ptx_val failed = ptx_or(b, small, ptx_is_nan(b, q->sum));
    return q->most.type == PTX_NONE
               ? failed
               : ptx_or(b, failed, ptx_gt(b, q->most, MOST_DIVISOR - LEAST_DIVISOR));
}
