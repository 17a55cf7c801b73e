// SPDX-License-Identifier: MIT
// The error function and its complement.
#include "math_parts.h"

ptx_val ptxb_math_erf(ptx_builder *b, ptx_val x)
{
    ptx_comment(b, "erf near 0: an odd polynomial");
    ptx_val a = ptx_abs(b, x);
    ptx_val s = ptx_mul(b, a, a);
    ptx_val p = HORNER(b, s, 0x1.4f3bb2p-14f, -0x1.a601e6p-11f, 0x1.5449ap-8f, -0x1.b80116p-6f,
                       0x1.ce2d64p-4f, -0x1.81274p-2f, 0x1.06eba8p-3f);
    ptx_val near = ptx_fma(b, p, a, a);

    // log(erfc(a)) / a, within 2^-30 of erf.
    ptx_val n;
    ptx_comment(b, "erf elsewhere: 1 - e^l, l a polynomial");
    ptx_val t = ptxb_math_at_most(b, a, 4); // 1 from there on
    ptx_val l = HORNER(b, t, -0x1.78e02cp-17f, 0x1.527e46p-12f, -0x1.dd6e36p-9f, 0x1.8551d2p-6f,
                       -0x1.b3259cp-4f, -0x1.45328ap-1f, -0x1.20ef1cp+0f);
    ptx_val e = ptxb_math_exp_parts(b, ptx_mul(b, l, t), (ptx_val) { 0 }, &n);
    ptx_val scale = ptxb_math_power_of_2(b, n);
    ptx_val far = ptx_sub(b, 1, ptx_fma(b, e, scale, scale));

    ptx_val is_near = ptx_lt(b, a, 0.92);
    ptx_val magnitude = ptx_select(b, is_near, near, far);
    return ptxb_math_signed(b, magnitude, ptx_bitcast(b, PTX_U32, x));
}

// Each quotient is corrected by its remainder. a^2 is exact in two parts.
ptx_val ptxb_math_erfc(ptx_builder *b, ptx_val x)
{
    ptx_comment(b, "erfc: q = (a - 4) / (a + 4), a = |x|");
    ptx_val a = ptxb_math_at_most(b, ptx_abs(b, x), 10.5f); // 0 from there on
    ptx_val over = ptx_rcp(b, ptx_add(b, a, 4));
    ptx_val q = ptx_mul(b, ptx_sub(b, a, 4), over);
    ptx_val rest = ptx_fma(b, ptx_add(b, q, 1), -4, a);
    rest = ptx_fma(b, ptx_neg(b, q), a, rest);
    q = ptx_fma(b, over, rest, q);

    ptx_comment(b, "erfc(a) e^(a^2): a polynomial in q over 1 + 2 a");
    ptx_val p = HORNER(b, q, 0x1.12a368p-10f, 0x1.e81bb8p-8f, -0x1.ffbd8cp-7f, 0x1.296e7p-5f,
                       -0x1.11927ep-4f, 0x1.804656p-4f, -0x1.9d8d14p-4f, 0x1.16eb22p-4f,
                       0x1.f7d52cp-7f, -0x1.1df1aep-3f, 0x1.3ba592p+0f);
    ptx_val r = ptx_rcp(b, ptx_fma(b, a, 2, 1));
    ptx_val v = ptx_mul(b, p, r);
    rest = ptx_fma(b, ptx_mul(b, v, -2), a, ptx_sub(b, p, v));
    v = ptx_fma(b, rest, r, v);

    ptx_val n;
    ptx_comment(b, "e^(-a^2), with a^2 in two floats");
    ptx_val square = ptx_neg(b, ptx_mul(b, a, a));
    ptx_val low = ptx_fma(b, a, a, square);
    ptx_val t = ptxb_math_exp_parts(b, square, ptx_neg(b, low), &n);
    ptx_val result = ptxb_math_scaled(b, ptx_fma(b, v, t, v), n);
    return ptx_select(b, ptx_lt(b, x, 0), ptx_sub(b, 2, result), result);
}
