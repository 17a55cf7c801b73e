// SPDX-License-Identifier: MIT
// Compares the reference of quantize_ste_backward with quantization on integers.
#include "reference/reference.h"
#include "test.h"

#include <math.h>

#include "random.h"
#include "reference/half.h"

static uint32_t f32_gradient(float x, float dy, struct ref_quantize q)
{
    float dx;
    ref_quantize_ste_backward(REF_F32, &x, &dy, &dx, 1, q);
    return bits_of_f32(dx);
}

/// Passes a gradient of 1.0 through one element of x.
static bool passes(float x, struct ref_quantize q)
{
    uint32_t bits = f32_gradient(x, 1.0f, q);
    assert_true(bits == 0 || f32_of_bits(bits) != 0.0f);
    return bits != 0;
}

static struct ref_quantize to_s8(float scale)
{
    return (struct ref_quantize) { .scale = (double)scale, .q_min = -128, .q_max = 127 };
}

TEST(test_exact_and_reciprocal_division_differ_at_a_tie)
{
    struct ref_quantize q = to_s8(0.03f);
    float x = -3.85500002f;
    // x / 0.03f is exactly -128.5 and rounds to even, -128. x times the rounded 1 / 0.03f is just
    // beyond -128.5.
    assert_true(x / 0.03f == -128.5f);
    assert_true(x * (1.0f / 0.03f) < -128.5f);
    assert_true(passes(x, q));
    q.reciprocal = true;
    assert_false(passes(x, q));
}

TEST(test_gradient_carries_the_factor)
{
    struct ref_quantize q = to_s8(0.03f);
    assert_int_equal(f32_gradient(1.0f, 0.7f, q), bits_of_f32(0.7f / 0.03f));
    q.reciprocal = true;
    assert_int_equal(f32_gradient(1.0f, 0.7f, q), bits_of_f32(0.7f * (1.0f / 0.03f)));
    q.fake_quantize = true;
    assert_int_equal(f32_gradient(1.0f, 0.7f, q), bits_of_f32(0.7f));
}

/// With a scale of 1, the quantized integer is known without floats: the loop has 2x as an integer.
TEST(test_mask_agrees_with_integers)
{
    struct random r = { 21 };
    for (int trial = 0; trial < 2000; ++trial) {
        int64_t q_min = (int64_t)random_below(&r, 512) - 256;
        int64_t q_max = q_min + random_below(&r, 300);
        int64_t zero_point = q_min + random_below(&r, (uint32_t)(q_max - q_min + 1));
        struct ref_quantize q = { .scale = 1.0,
                                  .zero_point = (int32_t)zero_point,
                                  .q_min = (int32_t)q_min,
                                  .q_max = (int32_t)q_max };
        for (int k = 0; k < 20; ++k) {
            int64_t twice = (int64_t)random_below(&r, 2400) - 1200;
            int64_t low = twice >= 0 ? twice / 2 : -((1 - twice) / 2);
            int64_t rounded = twice == 2 * low ? low : low % 2 == 0 ? low : low + 1;
            bool want = rounded + zero_point >= q_min && rounded + zero_point <= q_max;
            q.reciprocal = k & 1;
            assert_int_equal(passes((float)twice / 2.0f, q), want);
        }
    }
}

TEST(test_bounds_at_the_ends_of_s32_never_wrap)
{
    struct ref_quantize q = { .scale = 1.0, .q_min = INT32_MIN, .q_max = INT32_MAX };
    assert_true(passes(-0x1p31f, q));
    assert_false(passes(nextafterf(-0x1p31f, -INFINITY), q));
    // 2^31 - 1 is not an f32. The largest f32 that passes is the one below 2^31.
    assert_true(passes(nextafterf(0x1p31f, 0.0f), q));
    assert_false(passes(0x1p31f, q));
    // In s32, 2^31 - 1 plus a positive zero point would be negative and pass.
    q.zero_point = INT32_MAX;
    assert_true(passes(0.0f, q));
    assert_false(passes(1.0f, q));
    assert_true(passes(nextafterf(-0x1p32f, 0.0f), q));
    assert_false(passes(-0x1p32f, q));
    q.zero_point = INT32_MIN;
    assert_true(passes(nextafterf(0x1p32f, 0.0f), q));
    assert_false(passes(0x1p32f, q));
    assert_false(passes(-1.0f, q));
    // f64 can represent the bounds themselves.
    double x[3] = { 4294967295.0, 4294967296.0, -1.0 }, dy[3] = { 1.0, 1.0, 1.0 }, dx[3];
    ref_quantize_ste_backward(REF_F64, x, dy, dx, 3, q);
    assert_true(dx[0] == 1.0 && dx[1] == 0.0 && dx[2] == 0.0);
    assert_false(passes(1e38f, q));
    assert_false(passes(-1e38f, q));
}

TEST(test_what_is_masked_is_plus_zero)
{
    struct ref_quantize widest = { .scale = 1.0, .q_min = INT32_MIN, .q_max = INT32_MAX };
    static const float bad[] = { NAN, INFINITY, -INFINITY, 1e30f, -1e30f };
    static const float gradients[] = { 1.0f, -1.0f, -0.0f, NAN, INFINITY, -INFINITY };
    for (int mode = 0; mode < 4; ++mode)
        for (int i = 0; i < 5; ++i)
            for (int j = 0; j < 6; ++j) {
                widest.reciprocal = mode & 1;
                widest.fake_quantize = mode & 2;
                assert_int_equal(f32_gradient(bad[i], gradients[j], widest), 0);
            }
    // With a tiny scale, x / scale is infinite: it is masked too.
    struct ref_quantize tiny = to_s8(0x1p-149f);
    assert_int_equal(f32_gradient(1.0f, 1.0f, tiny), 0);
    assert_int_equal(f32_gradient(0x1p-149f, 1.0f, tiny), bits_of_f32(INFINITY));
}

TEST(test_unmasked_nan_is_canonical_but_for_fake_quantize)
{
    float dy = f32_of_bits(0xffc12345);
    struct ref_quantize q = to_s8(0.5f);
    assert_int_equal(f32_gradient(1.0f, dy, q), 0x7fffffff);
    q.fake_quantize = true;
    assert_int_equal(f32_gradient(1.0f, dy, q), 0xffc12345);
    uint16_t x = f16_from_f64(1.0), half = 0xfd01, dx;
    ref_quantize_ste_backward(REF_F16, &x, &half, &dx, 1, q);
    assert_int_equal(dx, 0xfd01);
    q.fake_quantize = false;
    ref_quantize_ste_backward(REF_F16, &x, &half, &dx, 1, q);
    assert_int_equal(dx, HALF_NAN);
    ref_quantize_ste_backward(REF_BF16, &x, &half, &half, 1, q);
    assert_int_equal(half, bf16_from_f64(bf16_to_f64(0xfd01) / 0.5));
}

TEST(test_scale_of_f64_tensors_is_f64)
{
    struct ref_quantize q = { .scale = 0.03, .q_min = -128, .q_max = 127 };
    double x = 1.0, dy = 0.7, dx;
    ref_quantize_ste_backward(REF_F64, &x, &dy, &dx, 1, q);
    assert_true(dx == 0.7 / 0.03 && dx != 0.7 / (double)0.03f);
}
