// SPDX-License-Identifier: MIT
// Compares the f16 and bf16 conversions that the other tests use with arithmetic in f64.
#include <math.h>
#include <stdbool.h>

#include "random.h"
#include "reference/half.h"
#include "test.h"

struct format {
    int exponent_bits;
    int fraction; ///< bits
    int least;    ///< exponent of the least normal number
    double largest;
};

static const struct format formats[] = {
    { F16_EXPONENT_BITS, 10, -14, 65504.0 },
    { BF16_EXPONENT_BITS, 7, -126, 0x1.fep127 },
};

/// The value of a bit pattern, by the definition of the format.
static double value_of(const struct format *f, unsigned half)
{
    int field = (int)(half & 0x7fff) >> f->fraction;
    int rest = (int)half & ((1 << f->fraction) - 1);
    double sign = half & 0x8000 ? -1.0 : 1.0;
    if (field == (1 << f->exponent_bits) - 1)
        return rest ? (double)NAN : sign * (double)INFINITY;
    if (field == 0)
        return sign * ldexp(rest, f->least - f->fraction);
    return sign * ldexp(rest + (1 << f->fraction), field - 1 + f->least - f->fraction);
}

/// The double nearest to the value in the format's grid, by the host's own rounding.
static double round_to_grid(const struct format *f, double x)
{
    if (x == 0.0 || !isfinite(x))
        return x;
    int exponent = ilogb(x) < f->least ? f->least : ilogb(x);
    double rounded = ldexp(nearbyint(ldexp(x, f->fraction - exponent)), exponent - f->fraction);
    return fabs(rounded) > f->largest ? copysign((double)INFINITY, x) : rounded;
}

static void assert_same_value(double got, double want)
{
    if (isnan(want))
        assert_true(isnan(got));
    else
        assert_int_equal(bits_of_f64(got), bits_of_f64(want));
}

TEST(test_widening_is_exact_for_every_pattern)
{
    for (unsigned k = 0; k < 2; ++k)
        for (unsigned half = 0; half < 0x10000; ++half)
            assert_same_value(half_to_f64(formats[k].exponent_bits, (uint16_t)half),
                              value_of(&formats[k], half));
}

TEST(test_every_pattern_comes_back)
{
    for (unsigned k = 0; k < 2; ++k) {
        int bits = formats[k].exponent_bits;
        for (unsigned half = 0; half < 0x10000; ++half) {
            double x = half_to_f64(bits, (uint16_t)half);
            unsigned want = isnan(x) ? HALF_NAN : half;
            assert_int_equal(half_from_f64(bits, x), want);
            assert_int_equal(half_from_f64(bits, (double)(float)x), want);
        }
    }
}

/// Between each bit pattern and the next. For the last one, the pattern of infinity stands for the
/// power of two above the largest number.
TEST(test_rounding_around_every_midpoint)
{
    for (unsigned k = 0; k < 2; ++k) {
        const struct format *f = &formats[k];
        unsigned infinity = ((1u << f->exponent_bits) - 1) << f->fraction;
        for (unsigned half = 0; half < infinity; ++half) {
            double low = value_of(f, half);
            double high =
                half + 1 == infinity ? ldexp(1.0, 1 - f->least + 1) : value_of(f, half + 1);
            double middle = (low + high) / 2;
            unsigned even = half & 1 ? half + 1 : half;
            for (unsigned sign = 0; sign < 2; ++sign) {
                double s = sign ? -1.0 : 1.0;
                unsigned bit = sign << 15;
                assert_int_equal(half_from_f64(f->exponent_bits, s * middle), bit | even);
                assert_int_equal(half_from_f64(f->exponent_bits, s * nextafter(middle, 0.0)),
                                 bit | half);
                assert_int_equal(half_from_f64(f->exponent_bits, s * nextafter(middle, INFINITY)),
                                 bit | (half + 1));
            }
        }
    }
}

TEST(test_random_doubles_round_as_the_host_rounds)
{
    struct random r = { 1 };
    for (int i = 0; i < 400000; ++i) {
        double wide = f64_of_bits(random_u64(&r));
        double near = ldexp(random_unit(&r), (int)random_below(&r, 300) - 150);
        double narrow = (double)f32_of_bits((uint32_t)random_u64(&r));
        for (unsigned k = 0; k < 2; ++k) {
            const struct format *f = &formats[k];
            const double xs[] = { wide, near, narrow };
            for (int j = 0; j < 3; ++j) {
                uint16_t got = half_from_f64(f->exponent_bits, xs[j]);
                assert_same_value(value_of(f, got), round_to_grid(f, xs[j]));
            }
        }
    }
}

TEST(test_known_values)
{
    assert_int_equal(f16_from_f64(1.0), 0x3c00);
    assert_int_equal(f16_from_f64(-2.0), 0xc000);
    assert_int_equal(f16_from_f64(65504.0), 0x7bff);
    assert_int_equal(f16_from_f64(65519.99), 0x7bff);
    assert_int_equal(f16_from_f64(65520.0), 0x7c00);
    assert_int_equal(f16_from_f64(-1e300), 0xfc00);
    assert_int_equal(f16_from_f64(0x1p-24), 0x0001);
    assert_int_equal(f16_from_f64(0x1p-25), 0x0000);
    assert_int_equal(f16_from_f64(-0.0), 0x8000);
    assert_int_equal(f16_from_f64(0x1p-1074), 0x0000);
    assert_int_equal(bf16_from_f64(1.0), 0x3f80);
    assert_int_equal(bf16_from_f64((double)3.3895313e38f), 0x7f7f);
    assert_int_equal(bf16_from_f64((double)3.4028235e38f), 0x7f80);
    assert_int_equal(bf16_from_f64(0x1p-133), 0x0001);
    assert_int_equal(bf16_from_f64(0x1p-134), 0x0000);
    assert_int_equal(bf16_from_f64(-(double)NAN), HALF_NAN);
    assert_int_equal(f16_from_f64(f64_of_bits(UINT64_C(0xfff0000000000001))), HALF_NAN);
}
