// SPDX-License-Identifier: MIT
// Logarithms, and the reciprocal root.
#include "math_parts.h"

#include <math.h>

// The bits of sqrt(1/2), of the largest f32, and of the exponent.
enum { ROOT_HALF_BITS = 0x3f3504f3, MOST_FINITE_BITS = 0x7f7fffff };

// q where log(1 + f) = f + f^2 q(f), within 2^-27 from sqrt(1/2) to sqrt(2).
static ptx_val log1p_near_0(ptx_builder *b, ptx_val f)
{
    ptx_comment(b, "log(1 + f) = f + f^2 q, q a polynomial in f");
    return HORNER(b, f, -0x1.38ddcp-4f, 0x1.056c76p-3f, -0x1.0d854p-3f, 0x1.22d78cp-3f,
                  -0x1.54720cp-3f, 0x1.99a028p-3f, -0x1.000228p-2f, 0x1.555554p-2f, -0.5f);
}

// f + f^2 q + k ln 2
static ptx_val natural(ptx_builder *b, ptx_val f, ptx_val k)
{
    ptx_val q = log1p_near_0(b, f);
    ptx_val square = ptx_mul(b, f, f);
    return ptx_fma(b, k, 0x1.62e43p-1, ptx_fma(b, square, q, f));
}

// The exponent of the power of 2 that brings x into [sqrt(1/2), sqrt(2)), at its place in the bits.
static ptx_val exponent_bits(ptx_builder *b, ptx_val bits)
{
    return ptx_and(b, ptx_sub(b, bits, ROOT_HALF_BITS), 0xff800000);
}

static ptx_val exponent_value(ptx_builder *b, ptx_val exponent, ptx_val more)
{
    ptx_val whole = ptx_cvt(b, PTX_F32, ptx_bitcast(b, PTX_S32, exponent));
    return ptx_fma(b, whole, 0x1p-23, more);
}

ptx_val ptxb_math_log_parts(ptx_builder *b, ptx_val x, ptx_val *k)
{
    ptx_comment(b, "x = 2^k (1 + f), 1 + f from sqrt(1/2) to sqrt(2)");
    ptx_val subnormal = ptx_lt(b, x, 0x1p-126);
    ptx_val scaled = ptx_mul(b, x, 0x1p23);
    ptx_val bits = ptx_bitcast(b, PTX_U32, ptx_select(b, subnormal, scaled, x));
    ptx_val exponent = exponent_bits(b, bits);
    ptx_val m = ptx_bitcast(b, PTX_F32, ptx_sub(b, bits, exponent));

    *k = exponent_value(b, exponent, ptx_select(b, subnormal, ptx_f32(-23), 0));
    return ptx_sub(b, m, 1);
}

// x infinity + infinity is infinite for infinity, and NaN for NaN and what is below 0.
ptx_val ptxb_math_log_special(ptx_builder *b, ptx_val x, ptx_val result)
{
    ptx_comment(b, "the logarithm of 0, of what is below, of infinity and of NaN");
    ptx_val special = ptx_fma(b, x, INFINITY, INFINITY);
    special = ptx_select(b, ptx_eq(b, x, 0), -INFINITY, special);

    ptx_val less = ptx_sub(b, ptx_bitcast(b, PTX_U32, x), 1); // 0 wraps around
    ptx_val regular = ptx_lt(b, less, MOST_FINITE_BITS);
    return ptx_select(b, regular, result, special);
}

ptx_val ptxb_math_log(ptx_builder *b, ptx_val x)
{
    ptx_val k;
    ptx_val f = ptxb_math_log_parts(b, x, &k);
    return ptxb_math_log_special(b, x, natural(b, f, k));
}

ptx_val ptxb_math_log2(ptx_builder *b, ptx_val x)
{
    ptx_val k;
    ptx_val f = ptxb_math_log_parts(b, x, &k);
    ptx_val q = log1p_near_0(b, f);
    ptx_val square = ptx_mul(b, f, f);
    ptx_val v = ptx_mul(b, square, q);
    ptx_val low = ptx_fma(b, v, 0x1.715476p+0, ptx_mul(b, f, 0x1.4ae0cp-26));
    ptx_val r = ptx_fma(b, f, 0x1.715476p+0, low);
    return ptxb_math_log_special(b, x, ptx_add(b, k, r));
}

// f = 2^-k x + (2^-k - 1), so that no bit of x is lost. Both powers of 2 are made in the bits.
ptx_val ptxb_math_log1p(ptx_builder *b, ptx_val x)
{
    ptx_comment(b, "1 + x = 2^k (1 + f), with every bit of x");
    ptx_val sum = ptx_add(b, x, 1);
    ptx_val exponent = exponent_bits(b, ptx_bitcast(b, PTX_U32, sum));
    ptx_val bits = ptx_sub(b, ptx_bitcast(b, PTX_U32, x), exponent);
    ptx_val four = ptx_bitcast(b, PTX_F32, ptx_sub(b, 0x40800000, exponent));
    ptx_val shift = ptx_fma(b, four, 0.25, -1);
    ptx_val f = ptx_add(b, ptx_bitcast(b, PTX_F32, bits), shift);
    ptx_val k = exponent_value(b, exponent, ptx_f32(0));
    ptx_val result = ptxb_math_log_special(b, sum, natural(b, f, k));

    ptx_val tiny = ptx_lt(b, ptx_abs(b, x), 0x1p-26);
    return ptx_select(b, tiny, x, result);
}

ptx_val ptxb_math_rsqrt(ptx_builder *b, ptx_val x)
{
    return ptx_rcp(b, ptx_sqrt(b, x));
}
