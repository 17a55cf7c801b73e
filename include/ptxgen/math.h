// SPDX-License-Identifier: MIT
/// Part of builder.h: functions of mathematics, written with the builder's own calls. The rules of
/// builder.h apply.
///
/// A call takes f32 values and writes 2 to 121 instructions; the result is a new f32 value. The
/// instructions are additions, products, fma, quotients and roots that IEEE 754 rounds, integer
/// arithmetic, comparisons and selections, without approximations, f64 or .ftz. So a result is one
/// bit pattern: the same on every GPU, under every driver and on the emulator. Subnormal values are
/// used and made like any other.
///
/// A result differs from the exact value by at most the row's number of units in the last place of
/// the exact value (2^-149 at least). Results beyond the largest f32 are infinite. Every NaN is
/// 0x7fffffff. docs/math.md has the measured errors and the results for zeros, infinities and NaN.
///
/// The instructions ptx_sin(), ptx_cos(), ptx_tanh(), ptx_ex2() and ptx_lg2() are approximations of
/// the hardware, shorter and less exact, with bits that depend on the GPU.
#ifndef PTXGEN_MATH_H
#define PTXGEN_MATH_H

#include <ptxgen/types.h>

// clang-format off

/// Columns: name, units in the last place, result, source of the method. The polynomials have
/// minimax coefficients, rounded to f32 one after the other.
#define PTX_MATH_UNARY(X) \
    X(exp, 1, "e^x", \
      "two-part reduction by ln 2: W. J. Cody and W. Waite, Software Manual for the Elementary Functions, 1980") \
    X(exp2, 1, "2^x", \
      "x without its nearest integer; the polynomial of exp") \
    X(expm1, 1.5, "e^x - 1", \
      "as exp, and 2^n (e^r - 1) + (2^n - 1): P. T. P. Tang, ACM TOMS 18, 1992") \
    X(log, 1, "the natural logarithm of x", \
      "a factor of 2^k and a polynomial from sqrt(1/2) to sqrt(2): Cody and Waite, 1980") \
    X(log2, 1.2, "the logarithm of x to base 2", \
      "as log, and a product with log2(e) in two parts") \
    X(log1p, 1.5, "log(1 + x)", \
      "as log, with 2^-k x + (2^-k - 1): P. T. P. Tang, ACM TOMS 16, 1990") \
    X(sin, 1.6, "the sine of x radians", \
      "Cody and Waite up to 2^15, beyond it M. Payne and R. Hanek, ACM SIGNUM 18, 1983") \
    X(cos, 1.6, "the cosine of x radians", \
      "as sin") \
    X(tanh, 1.5, "the hyperbolic tangent of x", \
      "an odd polynomial below 0.55, then 1 - 2 / (e^2x + 1): Cody and Waite, 1980") \
    X(sigmoid, 1, "1 / (1 + e^-x)", \
      "as exp, and a quotient with the remainder of its terms: T. J. Dekker, Numerische Mathematik 18, 1971") \
    X(erf, 1.2, "the error function of x", \
      "an odd polynomial below 0.92, then 1 - e^P(x): W. J. Cody, Mathematics of Computation 23, 1969") \
    X(erfc, 3.5, "1 - erf(x)", \
      "e^(-x^2) / (1 + 2x) P((x - 4) / (x + 4)): M. M. Shepherd and J. G. Laframboise, Mathematics of Computation 36, 1981") \
    X(rsqrt, 1.5, "1 / sqrt(x)", \
      "the rounded reciprocal of the rounded root")
#define PTX_MATH_BINARY(X) \
    X(pow, 1.5, "x^y", \
      "e^(y log x), the logarithm and the product in two parts: T. J. Dekker, 1971; the series of artanh((x - 1) / (x + 1))")

// clang-format on

PTXGEN_BEGIN

/// One function for each row: ptx_math_exp(b, x), ptx_math_sin(b, x) ... An operand is
/// an f32 or a C number; another type is an error.
#define PTX_DECLARE(name, ...) PTXGEN_API ptx_val ptx_math_##name(ptx_builder *b, ptx_val x);
PTX_MATH_UNARY(PTX_DECLARE)
#undef PTX_DECLARE
#define PTX_DECLARE(name, ...)                                                                     \
    PTXGEN_API ptx_val ptx_math_##name(ptx_builder *b, ptx_val x, ptx_val y);
PTX_MATH_BINARY(PTX_DECLARE)
#undef PTX_DECLARE

/// A row, as data.
struct ptx_math_info {
    const char *name;    ///< "exp"
    const char *meaning; ///< its result
    const char *source;  ///< of the method
    unsigned operands;   ///< 1, or 2 for pow
    float ulp;           ///< the largest error, in units in the last place
};

/// Row `index`, from 0; NULL behind the last one.
PTXGEN_API const struct ptx_math_info *ptx_math_get_info(size_t index);

PTXGEN_END

#endif
