// SPDX-License-Identifier: MIT
// Sine and cosine.
#include "math_parts.h"

// The quotient 2 / pi in words of 32 bits, the first of weight 4.
enum { WORDS = 7 };
static const uint32_t two_over_pi[WORDS] = { 0x00000000, 0x28be60db, 0x9391054a, 0x7f09d5f4,
                                             0x7d4d3770, 0x36d8a566, 0x4f10e410 };

// The 96 bits of 2 / pi that have an effect where a has this exponent, 0 to 127: those before them
// give multiples of 4 quadrants, those behind them less than 2^-62 of one.
static void window(ptx_builder *b, ptx_val exponent, ptx_val part[3])
{
    ptx_val word[WORDS], count[2];
    size_t words = WORDS;

    for (size_t k = 0; k < words; k++)
        word[k] = ptx_u32(two_over_pi[k]);
    for (unsigned step = 2; step; step /= 2) { // whole words: 2 of them, and 1
        count[step - 1] = ptx_ne(b, ptx_and(b, exponent, 32 * step), 0);
        words -= step;
        for (size_t k = 0; k < words; k++)
            word[k] = ptx_select(b, count[step - 1], word[k + step], word[k]);
    }
    ptx_val shift = ptx_add(b, ptx_and(b, exponent, 31), 1);
    for (size_t k = 0; k < 3; k++)
        part[k] = ptx_shf_l(b, word[k + 1], word[k], shift);
}

// For 1 <= a: a 2 / pi in fixed point, without the multiples of 4 and with 62 bits behind the
// quadrant. The f32 nearest to a multiple of pi / 2, 16367173 2^72, is 2^-29.2 from it (J.-M.
// Muller, Elementary Functions, 2016), so about 30 bits after the leading zeros are right.
static ptx_val reduce_large(ptx_builder *b, ptx_val a, ptx_val *quadrant)
{
    ptx_val part[3];
    ptx_comment(b, "a large |x|: the bits of 2 / pi that have an effect");
    ptx_val bits = ptx_bitcast(b, PTX_U32, a);
    ptx_val exponent = ptx_sub(b, ptx_shr(b, bits, 23), 127);
    window(b, exponent, part);
    ptx_comment(b, "|x| 2 / pi in fixed point: the quadrant, and the fraction");
    ptx_val m = ptx_or(b, ptx_shl(b, bits, 8), 0x80000000);
    ptx_val low = ptx_mul_hi(b, m, part[2]);
    ptx_val middle = ptx_mad_wide(b, m, part[1], ptx_cvt(b, PTX_U64, low));
    ptx_vec halves = ptx_unpack(b, PTX_U32, middle);
    ptx_val high = ptx_mad(b, m, part[0], halves.lane[1]);

    // The nearest quadrant, and the fraction of it with its sign.
    ptx_val fraction = ptx_shf_l(b, halves.lane[0], high, 2);
    ptx_val fraction_low = ptx_shl(b, halves.lane[0], 2);
    ptx_val up = ptx_shr(b, fraction, 31);
    ptx_val whole = ptx_shr(b, high, 30);
    *quadrant = ptx_add(b, whole, up);
    ptx_val sign = ptx_and(b, fraction, 0x80000000);
    ptx_val flip = ptx_sub(b, 0, up);
    fraction = ptx_xor(b, fraction, flip);
    fraction_low = ptx_xor(b, fraction_low, flip);

    // Its 32 bits from the first one on, times pi / 2, as a float.
    ptx_comment(b, "the fraction times pi / 2, as a float");
    ptx_val zeros = ptx_clz(b, fraction);
    ptx_val top = ptx_shf_l(b, fraction_low, fraction, zeros);
    ptx_val r = ptx_mul_hi(b, top, 0xc90fdaa2);
    ptx_val scale = ptx_or(b, ptx_shl(b, ptx_sub(b, 96, zeros), 23), sign);
    ptx_val x = ptx_mul(b, ptx_cvt(b, PTX_F32, r), ptx_bitcast(b, PTX_F32, scale));
    return ptx_fma(b, a, 0, x); // NaN for infinity
}

// a = pi / 2 (quadrant + a multiple of 4) + result, |result| <= pi / 4, for any finite a >= 0.
static ptx_val reduce(ptx_builder *b, ptx_val a, ptx_val *quadrant)
{
    ptx_val bits;
    ptx_comment(b, "|x| less the nearest multiple of pi / 2");
    ptx_val k = ptxb_math_nearest(b, a, 0x1.45f306p-1f, &bits);
    ptx_val r = ptx_fma(b, k, -0x1.921fb6p+0, a);
    r = ptx_fma(b, k, 0x1.777a5cp-25, r);
    r = ptx_fma(b, k, 0x1.ee59dap-50, r);

    ptx_val result = ptx_var(b, r);
    *quadrant = ptx_var(b, bits);
    ptx_if (b, ptx_gt(b, a, 0x1p15)) {
        ptx_val large_quadrant;
        ptx_val large = reduce_large(b, a, &large_quadrant);
        ptx_set(b, result, large);
        ptx_set(b, *quadrant, large_quadrant);
    }
    return result;
}

// sin(r + pi / 2 quadrant), with the sign changed if the highest bit of `sign` is set.
static ptx_val sine(ptx_builder *b, ptx_val r, ptx_val quadrant, ptx_val sign)
{
    ptx_comment(b, "the sine and the cosine of the rest; the quadrant selects");
    ptx_val s = ptx_mul(b, r, r);
    ptx_val p = HORNER(b, s, -0x1.9953f2p-13f, 0x1.110778p-7f, -0x1.555546p-3f);
    ptx_val sin_r = ptx_fma(b, ptx_mul(b, p, s), r, r);
    ptx_val cos_r = HORNER(b, s, 0x1.99e90ap-16f, -0x1.6c0c2ap-10f, 0x1.55554ap-5f, -0.5f, 1);

    ptx_val odd = ptx_ne(b, ptx_and(b, quadrant, 1), 0);
    ptx_val magnitude = ptx_select(b, odd, cos_r, sin_r);
    return ptxb_math_signed(b, magnitude, ptx_xor(b, ptx_shl(b, quadrant, 30), sign));
}

ptx_val ptxb_math_sin(ptx_builder *b, ptx_val x)
{
    ptx_val quadrant;
    ptx_val r = reduce(b, ptx_abs(b, x), &quadrant);
    return sine(b, r, quadrant, ptx_bitcast(b, PTX_U32, x));
}

ptx_val ptxb_math_cos(ptx_builder *b, ptx_val x)
{
    ptx_val quadrant;
    ptx_val r = reduce(b, ptx_abs(b, x), &quadrant);
    return sine(b, r, ptx_add(b, quadrant, 1), ptx_u32(0));
}
