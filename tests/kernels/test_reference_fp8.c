// SPDX-License-Identifier: MIT
// The reference of floats of 8 bits, compared with values worked out by hand.
#include "reference/fp8.h"
#include "test.h"

#include <float.h>
#include <math.h>
#include <string.h>

static unsigned code(enum ref_fp8 format, float x)
{
    uint8_t y;
    ref_cast_fp8(REF_F32, &x, 1, format, 1, &y, NULL);
    return y;
}

TEST(test_codes_of_e4m3)
{
    assert_int_equal(code(REF_E4M3, 0.0f), 0x00);
    assert_int_equal(code(REF_E4M3, -0.0f), 0x80);
    assert_int_equal(code(REF_E4M3, 1.0f), 0x38);
    assert_int_equal(code(REF_E4M3, 1.0625f), 0x38); // between 1 and 1.125: even
    assert_int_equal(code(REF_E4M3, 1.1875f), 0x3a);
    assert_int_equal(code(REF_E4M3, 448.0f), 0x7e);
    assert_int_equal(code(REF_E4M3, 1e9f), 0x7e);
    assert_int_equal(code(REF_E4M3, -INFINITY), 0xfe);
    assert_int_equal(code(REF_E4M3, NAN), 0x7f);
    assert_int_equal(code(REF_E4M3, 0x1p-9f), 0x01);
    assert_int_equal(code(REF_E4M3, 0x1p-10f), 0x00); // half of the least: even
    assert_int_equal(code(REF_E4M3, 0x1.8p-9f), 0x02);
    assert_int_equal(code(REF_E4M3, 0x1.fp-7f), 0x08); // rounds to the least normal value
}

TEST(test_codes_of_e5m2)
{
    assert_int_equal(code(REF_E5M2, 1.0f), 0x3c);
    assert_int_equal(code(REF_E5M2, 57344.0f), 0x7b);
    assert_int_equal(code(REF_E5M2, 65536.0f), 0x7b);
    assert_int_equal(code(REF_E5M2, INFINITY), 0x7b);
    assert_int_equal(code(REF_E5M2, -NAN), 0x7f);
    assert_int_equal(code(REF_E5M2, -0x1p-16f), 0x81);
    assert_int_equal(code(REF_E5M2, 0x1p-17f), 0x00);
}

TEST(test_the_product_is_rounded_before_the_conversion)
{
    // 1.0625 and a little more, which the product in f32 loses: then it is a tie, to even.
    const float x = 0x1.10002p+0f, scale = 0x1.ffffc4p-1f;
    uint8_t y;
    assert_true((double)x * (double)scale > 1.0625 && x * scale == 1.0625f);
    ref_cast_fp8(REF_F32, &x, 1, REF_E4M3, scale, &y, NULL);
    assert_int_equal(y, 0x38);
}

static float amax_after(float amax, const float *x, uint64_t n)
{
    uint8_t y[8];
    ref_cast_fp8(REF_F32, x, n, REF_E4M3, 2, y, &amax);
    return amax;
}

TEST(test_amax)
{
    const float x[] = { 1, -3, NAN, 2, -INFINITY };
    assert_true(amax_after(0, x, 4) == 3);
    assert_true(amax_after(5, x, 4) == 5);
    assert_true(amax_after(0, x + 2, 1) == 0);
    assert_true(isinf(amax_after(0, x, 5)));
    assert_true(isnan(amax_after(NAN, x, 5)));
}

TEST(test_delayed_scale)
{
    // Columns: max is in the middle; 0 everywhere; infinite; tiny.
    float history[12] = { 2, 0, 1, 0, 7, 0, INFINITY, 0x1p-140f, 3, 0, 2, 0 };
    const float rolled[12] = { 0, 0, 0, 0, 3, 0, 2, 0, 2, 0, 1, 0 };
    float scale[4] = { 9, 4, 5, 6 }, inverse[4];
    const uint32_t formats[4] = { 0, 1, 0, 1 };
    struct ref_delayed_scale rule = { .formats = formats, .margin = 1 };
    ref_delayed_scale_update(&rule, 4, 3, history, scale, inverse);
    assert_true(scale[0] == 32 && inverse[0] == 0.03125f);
    assert_true(scale[1] == 4 && inverse[1] == 0.25f);
    assert_true(scale[2] == 5 && inverse[2] == 0.2f);
    assert_true(scale[3] == FLT_MAX && inverse[3] == 1 / FLT_MAX);
    assert_memory_equal(history, rolled, sizeof history);
    rule = (struct ref_delayed_scale) { .most_recent = true, .format = REF_E5M2 };
    history[0] = 28;
    ref_delayed_scale_update(&rule, 4, 3, history, scale, inverse);
    assert_true(scale[0] == 2048 && scale[1] == 4 && history[8] == 28 && history[4] == 2);
}
