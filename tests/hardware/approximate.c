// SPDX-License-Identifier: MIT
#include "approximate.h"

#include <math.h>

#include "op_inputs.h"
#include "random.h"
#include "reference/half.h"

// ---- formats ------------------------------------------------------------------------------------

struct format {
    int fraction, least, most; // bits; exponents of the least and greatest normal values
    uint64_t nan;              // 0: any
};

static struct format format_of(const struct op_case *c)
{
    const bool quotient = c->what == PTX_OP_div_approx || c->what == PTX_OP_div_full;

    switch (c->type) {
    case PTX_F64: // with .ftz, the lower word is zero
        return (struct format) { 52, -1022, 1023,
                                 c->what == PTX_OP_rcp_approx || c->ftz
                                     ? UINT64_C(0x7fffffff00000000)
                                     : 0 };
    case PTX_F32: // for x / 1, ptxas writes x, also if x is NaN
        return (struct format) { 23, -126, 127, quotient ? 0 : 0x7fffffff };
    case PTX_F16:
    case PTX_F16X2:
        return (struct format) { 10, -14, 15, 0x7fff };
    default:
        return (struct format) { 7, -126, 127, 0x7fff };
    }
}

static long double value_of(ptx_type type, uint64_t bits)
{
    switch (type) {
    case PTX_F64:
        return f64_of_bits(bits);
    case PTX_F32:
        return f32_of_bits((uint32_t)bits);
    case PTX_F16:
    case PTX_F16X2:
        return f16_to_f64((uint16_t)bits);
    default:
        return bf16_to_f64((uint16_t)bits);
    }
}

static long double ulp(const struct format *f, long double exact)
{
    const int exponent = ilogbl(exact);
    return ldexpl(1, (exponent < f->least ? f->least : exponent) - f->fraction);
}

static long double least_normal(const struct format *f)
{
    return ldexpl(1, f->least);
}

// The greatest finite value plus half a unit: from here on, values round to infinity.
static long double overflow(const struct format *f)
{
    return ldexpl(2 - ldexpl(1, -f->fraction - 1), f->most);
}

// ---- the manual ---------------------------------------------------------------------------------

static const long double two_pi = 6.28318530717958647692528676655900576L;

static long double exact_result(const struct op_case *c, long double x, long double y)
{
    switch (c->what) {
    case PTX_OP_sqrt_approx:
        return sqrtl(x);
    case PTX_OP_rcp_approx:
        return 1 / x;
    case PTX_OP_rsqrt_approx:
        return 1 / sqrtl(x);
    case PTX_OP_ex2:
        return exp2l(x);
    case PTX_OP_lg2:
        return log2l(x);
    case PTX_OP_sin:
        return sinl(x);
    case PTX_OP_cos:
        return cosl(x);
    case PTX_OP_tanh:
        return tanhl(x);
    case PTX_OP_div_approx: // its table ends at 2^126
    case PTX_OP_div_full:
        if (c->what == PTX_OP_div_approx && fabsl(y) > 0x1p126L && fabsl(y) < 0x1p128L)
            return !isfinite(x) ? (long double)NAN
                                : copysignl(0, signbit(x) == signbit(y) ? 1 : -1);
        return x / y;
    default:
        return NAN; // see approximate_is_documented()
    }
}

static long double trigonometric_bound(long double x)
{
    return fabsl(x) <= two_pi ? exp2l(-20.45L) : fabsl(x) <= 50 * two_pi ? exp2l(-14.65L) : -1;
}

// The greatest distance from the exact result; negative if the manual gives no bound. The manual's
// figures are rounded, to whole ulps or to one decimal of an exponent, and an H200 exceeds them by
// less than the rounding: the cosine of 4.9 is 1.028 times 2^-20.5 away, a quotient 2.03 ulp. So
// half of the last digit is added to each figure. The error of ex2 counts from the rounded result.
// For rcp.approx.ftz.f64 and similar instructions the manual says that the upper word is computed,
// with 20 bits of fraction. It has nothing on rsqrt.approx.f64; CUDA's rsqrt(), which is this
// instruction, is documented with 1 ulp.
static long double bound(const struct op_case *c, const struct format *f, long double x,
                         long double y, long double exact)
{
    const bool half = c->type != PTX_F32 && c->type != PTX_F64;
    const bool bf16 = c->type == PTX_BF16 || c->type == PTX_BF16X2;
    const long double size = fabsl(exact);

    if (c->type == PTX_F64)
        return c->what == PTX_OP_rcp_approx || c->ftz ? ldexpl(size, -20) : ulp(f, exact);
    switch (c->what) {
    case PTX_OP_sqrt_approx:
        return size * exp2l(-22.95L);
    case PTX_OP_rcp_approx:
        return 1.5L * ulp(f, exact);
    case PTX_OP_rsqrt_approx:
        return size * exp2l(-22.85L);
    case PTX_OP_ex2:
        return !half ? 2.5L * ulp(f, exact) : size * (bf16 ? exp2l(-6.95L) : exp2l(-9.85L));
    case PTX_OP_lg2:
        return x > 0.5L && x < 2 ? exp2l(-21.95L) : size * exp2l(-21.95L);
    case PTX_OP_sin:
    case PTX_OP_cos:
        return trigonometric_bound(x);
    case PTX_OP_tanh:
        return !half ? size * exp2l(-10.95L) : bf16 ? exp2l(-7.95L) : exp2l(-10.987L);
    case PTX_OP_div_approx:
        return fabsl(y) < 0x1p-126L ? -1 : 2.5L * ulp(f, exact);
    default:
        return 2.5L * ulp(f, exact);
    }
}

// ---- the check ----------------------------------------------------------------------------------

static bool flushes(const struct op_case *c)
{
    const bool named = c->what == PTX_OP_rcp_approx && c->type == PTX_F64;
    const bool bf16 = c->type == PTX_BF16 || c->type == PTX_BF16X2;
    return c->ftz || named || (c->what == PTX_OP_ex2 && bf16);
}

// Results with only one right answer: NaN, infinity, exact zeros.
static struct approximate_error corner(const struct format *f, long double exact, uint64_t result,
                                       long double got)
{
    const bool right = isnan(exact) ? isnan(got) && (!f->nan || result == f->nan)
                                    : got == exact && signbit(got) == signbit(exact);
    return (struct approximate_error) { true, right, 0 };
}

static struct approximate_error one(const struct op_case *c, uint64_t x_bits, uint64_t y_bits,
                                    uint64_t result)
{
    const struct format f = format_of(c);
    const bool ftz = flushes(c), upper = c->type == PTX_F64 && ftz;
    const uint64_t kept = upper ? ~UINT64_C(0xffffffff) : UINT64_MAX;
    const long double got = value_of(c->type, result), least = least_normal(&f);
    long double x = value_of(c->type, x_bits & kept), y = value_of(c->type, y_bits & kept);

    if (ftz && fabsl(x) < least)
        x = copysignl(0, x);
    if (ftz && fabsl(y) < least)
        y = copysignl(0, y);
    const long double exact = exact_result(c, x, y);
    if (isnan(exact) || isinf(exact) || exact == 0)
        return corner(&f, exact, result, got);
    if (isnan(got) || (upper && (uint32_t)result) || (ftz && got != 0 && fabsl(got) < least))
        return (struct approximate_error) { true, false, INFINITY };
    long double allowed = bound(c, &f, x, y, exact);
    if (allowed < 0)
        return (struct approximate_error) { false, true, 0 };
    // The error of a subnormal result may be one unit in its last place.
    if (fabsl(exact) < least && allowed < ulp(&f, exact))
        allowed = ulp(&f, exact);
    if (isinf(got)) // right if a value within the bound rounds to it
        return (struct approximate_error) { true, fabsl(exact) + allowed >= overflow(&f), 0 };
    const long double share = fabsl(got - exact) / allowed;
    if (share > 1 && ftz && got == 0 && fabsl(exact) - allowed < least)
        return (struct approximate_error) { true, signbit(got) == signbit(exact), 0 };
    return (struct approximate_error) { true, share <= 1, (double)share };
}

bool approximate_is_documented(const struct op_case *c)
{
    switch (c->what) {
    case PTX_OP_sqrt_approx:
    case PTX_OP_rcp_approx:
    case PTX_OP_rsqrt_approx:
    case PTX_OP_ex2:
    case PTX_OP_lg2:
    case PTX_OP_sin:
    case PTX_OP_cos:
    case PTX_OP_tanh:
    case PTX_OP_div_approx:
    case PTX_OP_div_full:
        return true;
    default:
        return false;
    }
}

struct approximate_error approximate_error(const struct op_case *c, uint64_t x, uint64_t y,
                                           uint64_t result)
{
    if (c->type != PTX_F16X2 && c->type != PTX_BF16X2)
        return one(c, x, y, result);
    const struct approximate_error low = one(c, x & 0xffff, y & 0xffff, result & 0xffff);
    const struct approximate_error high =
        one(c, x >> 16 & 0xffff, y >> 16 & 0xffff, result >> 16 & 0xffff);
    return (struct approximate_error) { low.documented && high.documented, low.right && high.right,
                                        low.share > high.share ? low.share : high.share };
}

// ---- operands -----------------------------------------------------------------------------------

static const uint32_t corners[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000,
    0x3f800000, 0xbf800000, 0x40000000, 0xc0000000, 0x3f000000, 0xbf000000, 0x7f7fffff, 0xff7fffff,
    0x7f800000, 0xff800000, 0x7fc00000, 0xffc01234, 0x7f800001, 0x7fffffff, 0x7e800000, 0x7e800001,
    0x7f000000, 0xfe800001, 0x7effffff, 0x00400000, 0x00200000, 0x001fffff, 0x3f7fffff, 0x3f800001,
    0x43000000, 0x42fe0000, 0xc2fc0000, 0xc2fc8000, 0xc3150000, 0xc3158000, 0xc3160000, 0x42ffffff,
    0x40c90fdb, 0xc0c90fdb, 0x40490fdb, 0x3fc90fdb, 0x439d1463, 0xc39d1463, 0x33800000, 0x39800000,
    0x41100000, 0xc1100000, 0x3c800000, 0x3eaaaaab, 0x4b800000, 0x501502f9, 0x7d000000, 0x01000000,
};
enum { CORNERS = sizeof corners / sizeof *corners };

static double ordinary(struct random *r, unsigned way)
{
    int exponent;

    switch (way) {
    case 0:
        return 8 * random_unit(r);
    case 1:
        return 320 * random_unit(r);
    case 2:
        return 1 + random_unit(r) * 0x1p-4;
    default:
        exponent = (int)random_below(r, 320) - 160;
        return ldexp(1 + random_unit(r) / 2, exponent);
    }
}

static uint64_t narrow(ptx_type type, double x)
{
    return type == PTX_F64 ? bits_of_f64(x) : bits_of_f32((float)x);
}

static uint64_t corner_of(ptx_type type, unsigned k)
{
    const double x = f32_of_bits(corners[k]);

    if (type == PTX_F32)
        return corners[k];
    if (isnan(x))
        return UINT64_C(0x7ff0000000000000) | (uint64_t)corners[k] << 29 | (k & 1);
    // The ends of the format, which differ from those of f32.
    return k % 8 == 2   ? (uint64_t)k << 45
           : k % 8 == 6 ? UINT64_C(0x7fe0000000000000) + k
                        : bits_of_f64(x);
}

static uint64_t half_input(ptx_type type, unsigned i)
{
    const uint32_t corner = corners[i % CORNERS];

    if (i < CORNERS)
        return type == PTX_F16 || type == PTX_F16X2 ? f16_from_f64((double)f32_of_bits(corner))
                                                    : corner >> 16;
    return (i * 40503u) & 0xffff; // each value once, in another order
}

uint64_t approximate_input(ptx_type type, unsigned operand, unsigned i)
{
    struct random r = { (uint64_t)i << 8 | operand << 4 | op_type_number(type) };
    const unsigned pick = operand ? i * 5 / 3 + i / CORNERS : i; // pairs of corners

    if (type == PTX_F16 || type == PTX_BF16)
        return half_input(type, i);
    if (type == PTX_F16X2 || type == PTX_BF16X2)
        return half_input(type, i) | half_input(type, i + 7) << 16;
    if (pick < CORNERS || (operand && i < APPROXIMATE_CHOSEN))
        return corner_of(type, pick % CORNERS);
    const uint64_t bits = random_u64(&r);
    if (i % 5 < 4)
        return narrow(type, ordinary(&r, i % 5));
    return type == PTX_F64 ? bits : bits & UINT32_MAX;
}
