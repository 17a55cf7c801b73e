// SPDX-License-Identifier: MIT
// Powers: the logarithm, its product with y and the power of e are each a sum of two floats.
#include "math_parts.h"

#include <math.h>

// x + y = result + *low exactly, for |x| >= |y| or x = 0 (Dekker).
static ptx_val sum(ptx_builder *b, ptx_val x, ptx_val y, ptx_val *low)
{
    ptx_val high = ptx_add(b, x, y);
    *low = ptx_add(b, ptx_sub(b, x, high), y);
    return high;
}

// x y = result + *low exactly, if nothing underflows.
static ptx_val product(ptx_builder *b, ptx_val x, ptx_val y, ptx_val *low)
{
    ptx_val high = ptx_mul(b, x, y);
    *low = ptx_fma(b, x, y, ptx_neg(b, high));
    return high;
}

// With q = f / (f + 2), log(1 + f) = 2 q + q^3 c(q^2): the q^3 c is u + *rest.
static ptx_val cubic_part(ptx_builder *b, ptx_val q, ptx_val q_low, ptx_val *rest)
{
    const float two_thirds = 0x1.555554p-1f;
    ptx_val s_low, t_low, u_low;
    ptx_comment(b, "the logarithm from the cubic term on, in two floats");
    ptx_val s = product(b, q, q, &s_low);
    ptx_val c = HORNER(b, s, 0x1.f13cfep-3f, 0x1.23d3dcp-2f, 0x1.999c26p-2f);
    ptx_val c_high = ptx_fma(b, c, s, two_thirds);
    ptx_val c_low = ptx_fma(b, c, s, ptx_sub(b, two_thirds, c_high));

    ptx_val t = product(b, s, c_high, &t_low);
    t_low = ptx_fma(b, s, c_low, t_low);
    t_low = ptx_fma(b, s_low, c_high, t_low);
    ptx_val u = product(b, q, t, &u_low);
    u_low = ptx_fma(b, q, t_low, u_low);
    *rest = ptx_fma(b, ptx_mul(b, q_low, 3), t, u_low);
    return u;
}

// log(x) = result + *low, within 2^-33, for x >= 0; the result alone for 0, infinity and NaN.
static ptx_val log_extended(ptx_builder *b, ptx_val x, ptx_val *low)
{
    ptx_val k, rest, h_low, g_low;
    ptx_comment(b, "log(x) = k ln 2 + 2 q + ..., q = f / (f + 2) in two floats");
    ptx_val f = ptxb_math_log_parts(b, x, &k);
    ptx_val r = ptx_rcp(b, ptx_add(b, f, 2));
    ptx_val q = ptx_mul(b, f, r);
    ptx_val q_low = ptx_fma(b, q, -2, f);
    q_low = ptx_fma(b, ptx_neg(b, q), f, q_low);
    q_low = ptx_mul(b, q_low, r);

    ptx_val u = cubic_part(b, q, q_low, &rest);
    rest = ptx_fma(b, q_low, 2, rest);
    rest = ptx_fma(b, k, 0x1.7f7d1cp-20, rest);
    ptx_comment(b, "the sum of its terms, the greatest first");
    ptx_val k_part = ptx_mul(b, k, 0x1.62e4p-1); // exact, as in exp
    ptx_val twice = ptx_add(b, q, q);
    ptx_val h = sum(b, k_part, twice, &h_low);
    ptx_val g = sum(b, h, u, &g_low);
    rest = ptx_add(b, rest, ptx_add(b, h_low, g_low));
    ptx_val high = sum(b, g, rest, low);
    return ptxb_math_log_special(b, x, high);
}

// |x|^y. A power beyond all limits has its limit, so that the exponential gives infinity or 0.
static ptx_val magnitude(ptx_builder *b, ptx_val x, ptx_val y)
{
    ptx_val low, power_low, n;
    ptx_val high = log_extended(b, ptx_abs(b, x), &low);
    ptx_comment(b, "y log(x) in two floats, limited");
    ptx_val power = product(b, y, high, &power_low);
    ptx_val kept = ptxb_math_within(b, power, -120, 100);
    ptx_val same = ptx_eq(b, kept, power);

    power_low = ptx_fma(b, y, low, power_low);
    power_low = ptx_select(b, same, power_low, 0);
    ptx_val t = ptxb_math_exp_parts(b, kept, power_low, &n);
    return ptxb_math_scaled(b, ptx_add(b, t, 1), n);
}

static ptx_val is_whole(ptx_builder *b, ptx_val x)
{
    return ptx_eq(b, ptx_trunc(b, x), x);
}

// The special cases are those of IEEE 754's pow. Infinite y is limited to an even integer that has
// the same results, which leaves 1^infinity = 1 and avoids infinity 0.
ptx_val ptxb_math_pow(ptx_builder *b, ptx_val x, ptx_val y)
{
    ptx_val limited = ptxb_math_within(b, y, -0x1p100f, 0x1p100f);
    ptx_val result = magnitude(b, x, limited);

    ptx_comment(b, "the sign, and the special cases of x^y");
    ptx_val whole = is_whole(b, limited);
    ptx_val odd = ptx_and(b, whole, ptx_not(b, is_whole(b, ptx_mul(b, limited, 0.5))));
    ptx_val sign = ptx_select(b, odd, ptx_bitcast(b, PTX_U32, x), 0);
    result = ptxb_math_signed(b, result, sign);

    ptx_val undefined = ptx_and(b, ptx_lt(b, x, 0), ptx_gt(b, x, -INFINITY));
    undefined = ptx_and(b, undefined, ptx_not(b, whole));
    result = ptx_select(b, undefined, ptx_imm_bits(PTX_F32, 0x7fffffff), result);

    ptx_val is_1 = ptx_or(b, ptx_eq(b, y, 0), ptx_eq(b, x, 1));
    return ptx_select(b, is_1, 1, result);
}
