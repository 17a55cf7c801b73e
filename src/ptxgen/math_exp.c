// SPDX-License-Identifier: MIT
// Exponentials, and what is made of them.
#include "math_parts.h"

// The bits of the number that ptxb_math_nearest() adds.
enum { SHIFTER_BITS = 0x4b400000 };

static ptx_val integer(ptx_builder *b, ptx_val bits)
{
    return ptx_sub(b, ptx_bitcast(b, PTX_S32, bits), SHIFTER_BITS);
}

// e^r - 1 for |r| <= ln(2) / 2, within 2^-31: r + r^2 q(r).
static ptx_val expm1_near_0(ptx_builder *b, ptx_val r)
{
    ptx_val q = HORNER(b, r, 0x1.9e738p-13f, 0x1.6d3a4ap-10f, 0x1.1112d8p-7f, 0x1.5554f8p-5f,
                       0x1.555554p-3f, 0.5f);
    ptx_val square = ptx_mul(b, r, r);
    return ptx_fma(b, square, q, r);
}

// r = x - n ln 2. The first part of ln 2 has 15 bits, so that its product with n is exact.
ptx_val ptxb_math_exp_parts(ptx_builder *b, ptx_val x, ptx_val low, ptx_val *n)
{
    ptx_val bits;
    ptx_comment(b, "e^x = 2^n e^r, n the integer nearest to x / ln 2");
    ptx_val k = ptxb_math_nearest(b, x, 0x1.715476p+0f, &bits);
    ptx_val r = ptx_fma(b, k, -0x1.62e4p-1, x);

    r = ptx_fma(b, k, -0x1.7f7d1cp-20, r);
    if (low.type != PTX_NONE)
        r = ptx_add(b, r, low);
    *n = integer(b, bits);
    return expm1_near_0(b, r);
}

ptx_val ptxb_math_exp(ptx_builder *b, ptx_val x)
{
    ptx_val n;
    ptx_val kept = ptxb_math_within(b, x, -110, 90);
    ptx_val t = ptxb_math_exp_parts(b, kept, (ptx_val) { 0 }, &n);
    return ptxb_math_scaled(b, ptx_add(b, t, 1), n);
}

ptx_val ptxb_math_exp2(ptx_builder *b, ptx_val x)
{
    ptx_val bits;
    ptx_val kept = ptxb_math_within(b, x, -160, 130);
    ptx_comment(b, "2^x = 2^n e^r, n the integer nearest to x");
    ptx_val k = ptxb_math_nearest(b, kept, 1, &bits);
    ptx_val r = ptx_mul(b, ptx_sub(b, kept, k), 0x1.62e43p-1);
    ptx_val t = expm1_near_0(b, r);
    ptx_val p = ptx_add(b, t, 1);
    return ptxb_math_scaled(b, p, integer(b, bits));
}

// 2 (2^(n-1) t + (2^(n-1) - 1/2)): half of the sum, because 2^128 is no f32.
ptx_val ptxb_math_expm1(ptx_builder *b, ptx_val x)
{
    ptx_val n;
    ptx_val kept = ptxb_math_within(b, x, -18, 89);
    ptx_val t = ptxb_math_exp_parts(b, kept, (ptx_val) { 0 }, &n);
    ptx_comment(b, "e^x - 1, and x itself where it is tiny");
    ptx_val half = ptxb_math_power_of_2(b, ptx_sub(b, n, 1));
    ptx_val sum = ptx_fma(b, t, half, ptx_sub(b, half, 0.5));
    ptx_val result = ptx_add(b, sum, sum);

    ptx_val tiny = ptx_lt(b, ptx_abs(b, x), 0x1p-26);
    return ptx_select(b, tiny, x, result);
}

// 1 / (1 + e) for x >= 0, and e / (1 + e) for x < 0, e = e^-|x| = 2^n (p + p_low). 2^n in the
// numerator is left to the end, where subnormal results are rounded; in 1 + e it has no effect
// below 2^-60.
ptx_val ptxb_math_sigmoid(ptx_builder *b, ptx_val x)
{
    ptx_val n;
    ptx_val minus = ptx_neg(b, ptx_abs(b, x));
    ptx_val kept = ptxb_math_within(b, minus, -110, 0);
    ptx_val t = ptxb_math_exp_parts(b, kept, (ptx_val) { 0 }, &n);
    ptx_val p = ptx_add(b, t, 1);
    ptx_val p_low = ptx_sub(b, t, ptx_sub(b, p, 1));

    ptx_comment(b, "1 + e^-|x| in two floats");
    ptx_val scale = ptxb_math_power_of_2(b, ptx_max(b, n, -60));
    ptx_val e = ptx_mul(b, p, scale);
    ptx_val d = ptx_add(b, e, 1);
    ptx_val lost = ptx_add(b, ptx_sub(b, 1, d), e);
    ptx_val d_low = ptx_fma(b, p_low, scale, lost);

    ptx_comment(b, "the quotient, corrected by its remainder");
    ptx_val negative = ptx_lt(b, x, 0);
    ptx_val numerator = ptx_select(b, negative, p, 1);
    ptx_val numerator_low = ptx_select(b, negative, p_low, 0);
    ptx_val r = ptx_rcp(b, d);
    ptx_val q = ptx_mul(b, numerator, r);
    ptx_val minus_q = ptx_neg(b, q);
    ptx_val rest = ptx_fma(b, minus_q, d, numerator);
    rest = ptx_add(b, rest, numerator_low);
    rest = ptx_fma(b, minus_q, d_low, rest);
    q = ptx_fma(b, rest, r, q);
    return ptxb_math_scaled(b, q, ptx_select(b, negative, n, 0));
}

ptx_val ptxb_math_tanh(ptx_builder *b, ptx_val x)
{
    ptx_comment(b, "tanh near 0: an odd polynomial");
    ptx_val a = ptx_abs(b, x);
    ptx_val s = ptx_mul(b, a, a);
    ptx_val p = HORNER(b, s, -0x1.9958dcp-8f, 0x1.58eccp-6f, -0x1.b91f24p-5f, 0x1.110cfp-3f,
                       -0x1.55554ap-2f);
    ptx_val near = ptx_fma(b, ptx_mul(b, p, s), a, a);

    ptx_val n;
    ptx_comment(b, "tanh elsewhere: 1 - 2 / (e^2|x| + 1)");
    ptx_val kept = ptxb_math_at_most(b, a, 10); // 1 from there on
    ptx_val twice = ptx_add(b, kept, kept);
    ptx_val t = ptxb_math_exp_parts(b, twice, (ptx_val) { 0 }, &n);
    ptx_val scale = ptxb_math_power_of_2(b, n);
    ptx_val e = ptx_fma(b, t, scale, scale);
    ptx_val r = ptx_rcp(b, ptx_add(b, e, 1));
    ptx_val far = ptx_fma(b, r, -2, 1);

    ptx_val is_near = ptx_lt(b, a, 0.55);
    ptx_val magnitude = ptx_select(b, is_near, near, far);
    return ptxb_math_signed(b, magnitude, ptx_bitcast(b, PTX_U32, x));
}
