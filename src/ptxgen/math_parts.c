// SPDX-License-Identifier: MIT
// What the formulas of the functions of math.h share.
#include "math_parts.h"

ptx_val ptxb_math_horner(ptx_builder *b, ptx_val x, size_t n, const float *coefficients)
{
    ptx_val sum = ptx_f32(coefficients[0]);

    for (size_t k = 1; k < n; k++)
        sum = ptx_fma(b, sum, x, coefficients[k]);
    return sum;
}

ptx_val ptxb_math_at_most(ptx_builder *b, ptx_val x, float most)
{
    return ptx_select(b, ptx_gt(b, x, most), most, x);
}

ptx_val ptxb_math_within(ptx_builder *b, ptx_val x, float least, float most)
{
    x = ptx_select(b, ptx_lt(b, x, least), least, x);
    return ptxb_math_at_most(b, x, most);
}

ptx_val ptxb_math_power_of_2(ptx_builder *b, ptx_val n)
{
    return ptx_bitcast(b, PTX_F32, ptx_mad(b, n, 1 << 23, 127 << 23));
}

ptx_val ptxb_math_scaled(ptx_builder *b, ptx_val x, ptx_val n)
{
    ptx_val half = ptx_shr(b, n, 1);
    ptx_val rest = ptx_sub(b, n, half);

    x = ptx_mul(b, x, ptxb_math_power_of_2(b, half));
    return ptx_mul(b, x, ptxb_math_power_of_2(b, rest));
}

ptx_val ptxb_math_signed(ptx_builder *b, ptx_val magnitude, ptx_val sign)
{
    ptx_val one = ptx_or(b, ptx_and(b, sign, 0x80000000), 0x3f800000);
    return ptx_mul(b, magnitude, ptx_bitcast(b, PTX_F32, one));
}

ptx_val ptxb_math_nearest(ptx_builder *b, ptx_val x, float y, ptx_val *bits)
{
    const float shifter = 0x1.8p23f; // the sum has no bits below 1
    ptx_val shifted = ptx_fma(b, x, y, shifter);

    *bits = ptx_bitcast(b, PTX_U32, shifted);
    return ptx_sub(b, shifted, shifter);
}
