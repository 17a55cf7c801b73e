// SPDX-License-Identifier: MIT
// What the functions of math.h share. They are written with the public calls of the builder.
#ifndef PTXGEN_BUILDER_MATH_PARTS_H
#define PTXGEN_BUILDER_MATH_PARTS_H

// Errors have the place of the user's call.
#define PTXGEN_HERE NULL
#include <ptxgen/builder.h>

// ---- math_parts.c -------------------------------------------------------------------------------

// A polynomial by Horner's rule, the coefficient of the highest power first.
ptx_val ptxb_math_horner(ptx_builder *b, ptx_val x, size_t n, const float *coefficients);
#define HORNER(b, x, ...)                                                                          \
    ptxb_math_horner(b, x, sizeof((const float[]) { __VA_ARGS__ }) / sizeof(float),                \
                     (const float[]) { __VA_ARGS__ })
// x, at least `least` and at most `most`. NaN stays.
ptx_val ptxb_math_at_most(ptx_builder *b, ptx_val x, float most);
ptx_val ptxb_math_within(ptx_builder *b, ptx_val x, float least, float most);
// 2^n for -126 <= n <= 127, s32.
ptx_val ptxb_math_power_of_2(ptx_builder *b, ptx_val n);
// x 2^n for |n| < 253, rounded once, for a normal x.
ptx_val ptxb_math_scaled(ptx_builder *b, ptx_val x, ptx_val n);
// A magnitude with the highest bit of `sign`, u32, as its sign. NaN is 0x7fffffff.
ptx_val ptxb_math_signed(ptx_builder *b, ptx_val magnitude, ptx_val sign);
// The nearest integer to x y, |x y| < 2^22, as a float; and with it in the low bits, u32.
ptx_val ptxb_math_nearest(ptx_builder *b, ptx_val x, float y, ptx_val *bits);

// ---- math_exp.c ---------------------------------------------------------------------------------

// e^(x + low) = 2^n (1 + result) for |x| < 2^20; n is s32. `low` may be left out (zero).
ptx_val ptxb_math_exp_parts(ptx_builder *b, ptx_val x, ptx_val low, ptx_val *n);

// ---- math_log.c ---------------------------------------------------------------------------------

// x = 2^k (1 + result) for a positive, finite x, 1 + result from sqrt(1/2) to sqrt(2).
ptx_val ptxb_math_log_parts(ptx_builder *b, ptx_val x, ptx_val *k);
// `result` for a positive, finite x; log(x) for another: -infinity, infinity or NaN.
ptx_val ptxb_math_log_special(ptx_builder *b, ptx_val x, ptx_val result);

// ---- the rows: math_NAME is called with f32 values in registers ---------------------------------

#define DECLARE(name, ...) ptx_val ptxb_math_##name(ptx_builder *b, ptx_val x);
PTX_MATH_UNARY(DECLARE)
#undef DECLARE
#define DECLARE(name, ...) ptx_val ptxb_math_##name(ptx_builder *b, ptx_val x, ptx_val y);
PTX_MATH_BINARY(DECLARE)
#undef DECLARE

#endif
