// SPDX-License-Identifier: MIT
// Compares the reference with results that share no code with it: exact sums, integers by brute
// force, formulas of other libraries written again. Contracts C-CLIP-001, C-FUSEDCLIP-001.
#include "reference/reference.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "reference/half.h"

static const enum ref_type all_types[] = { REF_F32, REF_F64, REF_F16, REF_BF16 };

enum { MOST = 70000, CHUNK = 4096, PARTIALS = MOST / CHUNK + 1 };

struct norm {
    float scale, norm;
    bool found;
};

static struct norm clip_record(enum ref_type type, const void *partials, uint64_t count,
                               struct ref_clip clip)
{
    float out[3];
    ref_clip_scale_reduce(type, partials, count, clip, out);
    assert_true(out[2] == 0.0f || out[2] == 1.0f);
    return (struct norm) { out[0], out[1], out[2] != 0.0f };
}

static struct norm norm_of(enum ref_type type, const void *x, uint64_t n, struct ref_clip clip)
{
    double partials[PARTIALS];
    ref_squared_sum(type, x, n, false, partials);
    return clip_record(REF_F64, partials, ref_partial_count(n), clip);
}

/// In long double, squares are exact or nearly exact, and the error of the compensated sum is below
/// f64's precision.
static double exact_norm(enum ref_type type, const void *x, uint64_t n)
{
    long double sum = 0, lost = 0;
    for (uint64_t i = 0; i < n; ++i) {
        long double value = (long double)ref_load(type, x, i);
        long double term = value * value - lost;
        long double next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    return (double)sqrtl(sum);
}

static int64_t ulps(float x, float y)
{
    int64_t distance = (int64_t)bits_of_f32(x) - (int64_t)bits_of_f32(y);
    return distance < 0 ? -distance : distance;
}

static void assert_f32_bits(float got, uint32_t want)
{
    assert_int_equal(bits_of_f32(got), want);
}

TEST(test_norm_is_within_two_ulp_of_the_exact_sum)
{
    static const uint64_t sizes[] = { 1, 2, 31, 257, 4095, 4096, 4097, 16385, MOST };
    struct random r = { 7 };
    ALLOCATED(double) *x = malloc(MOST * sizeof *x);
    float f32_partials[PARTIALS];
    for (int t = 0; t < 4; ++t)
        for (int s = 0; s < 9; ++s)
            for (int magnitude = 0; magnitude < 3; ++magnitude) {
                enum ref_type type = all_types[t];
                uint64_t n = sizes[s];
                // The third kind mixes large and small values: the small squares must count.
                for (uint64_t i = 0; i < n; ++i)
                    ref_store(type, x, i,
                              random_unit(&r) * (magnitude == 0   ? 1.0
                                                 : magnitude == 1 ? 0x1p-13
                                                                  : (i % 1000 ? 0x1p-9 : 100.0)));
                float want = (float)exact_norm(type, x, n);
                assert_true(ulps(norm_of(type, x, n, (struct ref_clip) { 0 }).norm, want) <= 2);
                ref_squared_sum(type, x, n, true, f32_partials);
                struct norm rough = clip_record(REF_F32, f32_partials, ref_partial_count(n),
                                                (struct ref_clip) { 0 });
                assert_true(ulps(rough.norm, want) <= 2);
            }
}

TEST(test_chunks_are_longer_beyond_2_to_22)
{
    enum { SWITCH = 1 << 22, TAIL = 5, ELEMENTS = SWITCH + TAIL };
    ALLOCATED(float) *x = malloc(ELEMENTS * sizeof *x);
    double got[SWITCH / CHUNK + 1];
    for (int i = 0; i < ELEMENTS; ++i)
        x[i] = 2;
    got[1024] = -1;
    ref_squared_sum(REF_F32, x, SWITCH, false, got);
    for (int k = 0; k < 1024; ++k)
        assert_true(got[k] == 4 * 4096);
    assert_true(got[1024] == -1);
    ref_squared_sum(REF_F32, x, ELEMENTS, false, got);
    for (int k = 0; k < 256; ++k)
        assert_true(got[k] == 4 * 16384);
    assert_true(got[256] == 4 * TAIL);
    assert_true(got[257] == 4 * 4096);
    assert_int_equal(ref_partial_count(SWITCH), 1024);
    assert_int_equal(ref_partial_count(ELEMENTS), 257);
    assert_int_equal(ref_chunk((UINT64_C(1) << 32) + 1), 16384);
}

/// Integers sum exactly in any order, so a lost, repeated or misplaced element changes the sum.
TEST(test_partials_of_integers_are_exact)
{
    static const uint64_t sizes[] = { 1, 33, 2047, 2049, 4095, 4096, 4097, 8192, 50001 };
    struct random r = { 8 };
    ALLOCATED(double) *x = malloc(MOST * sizeof *x);
    for (int t = 0; t < 4; ++t)
        for (int s = 0; s < 9; ++s) {
            double want[PARTIALS] = { 0 }, got[PARTIALS + 1];
            uint64_t n = sizes[s], chunks = (n + CHUNK - 1) / CHUNK;
            for (uint64_t i = 0; i < n; ++i) {
                double value = (double)random_below(&r, 255) - 127.0;
                ref_store(all_types[t], x, i, value);
                want[i / CHUNK] += value * value;
            }
            got[chunks] = -1.0;
            ref_squared_sum(all_types[t], x, n, false, got);
            for (uint64_t k = 0; k < chunks; ++k)
                assert_true(got[k] == want[k]);
            assert_true(got[chunks] == -1.0);
            assert_int_equal(ref_partial_count(n), chunks);
        }
    const double nans[2] = { -(double)NAN, f64_of_bits(UINT64_C(0x7ff0000000000001)) };
    double partial;
    ref_squared_sum(REF_F64, nans, 2, false, &partial);
    assert_true(bits_of_f64(partial) == UINT64_MAX >> 1);
    float rough;
    ref_squared_sum(REF_F64, nans, 2, true, &rough);
    assert_f32_bits(rough, 0x7fffffff);
}

TEST(test_huge_and_tiny_gradients_have_a_norm)
{
    static const float values[] = { 1e30f, 1e-30f, 1e-42f, 3e38f };
    float x[1000];
    for (int v = 0; v < 4; ++v) {
        for (int i = 0; i < 1000; ++i)
            x[i] = values[v];
        struct norm got = norm_of(REF_F32, x, 1000, (struct ref_clip) { .max_norm = 1.0f });
        double want = (double)values[v] * sqrt(1000.0);
        assert_false(got.found);
        if (v == 3) {
            // The norm is too large for f32; found is still false, and the scale is still the
            // quotient.
            assert_true(isinf(got.norm));
            assert_true(got.scale > 0.0f && ulps(got.scale, (float)(1.0 / want)) <= 1);
        } else {
            assert_true(ulps(got.norm, (float)want) <= 2);
            assert_true(v == 0 ? ulps(got.scale, 1.0f / got.norm) == 0 : got.scale == 1.0f);
        }
    }
    double wide[4] = { 1e154, 1e154, 1e154, 1e154 };
    assert_true(isinf(norm_of(REF_F64, wide, 4, (struct ref_clip) { .max_norm = 1.0f }).norm));
    assert_false(norm_of(REF_F64, wide, 1, (struct ref_clip) { .max_norm = 1.0f }).found);
    // The norm is 0 in f32, and the gradient is not.
    double narrow[1] = { 0x1p-152 };
    struct norm none = norm_of(REF_F64, narrow, 1, (struct ref_clip) { .max_norm = 0.0f });
    assert_true(none.norm == 0.0f && none.scale == 0.0f && !none.found);
    none = norm_of(REF_F64, narrow, 1, (struct ref_clip) { .max_norm = 0x1p-149f });
    assert_true(none.norm == 0.0f && none.scale == 1.0f && !none.found);
}

TEST(test_policies_for_a_sum_that_is_not_finite)
{
    const double sums[][2] = { { (double)NAN, 4.0 },
                               { (double)INFINITY, 4.0 },
                               { 4.0, (double)NAN },
                               { (double)INFINITY, -(double)INFINITY } };
    for (int s = 0; s < 4; ++s)
        for (int max = 0; max < 3; ++max) {
            float max_norm = max == 0 ? 1.0f : max == 1 ? 0.0f : INFINITY;
            float f32_sums[2] = { (float)sums[s][0], (float)sums[s][1] };
            for (int f32 = 0; f32 < 2; ++f32) {
                enum ref_type type = f32 ? REF_F32 : REF_F64;
                const void *p = f32 ? (const void *)f32_sums : (const void *)sums[s];
                struct ref_clip clip = { REF_PROPAGATE, max_norm, 1e-6f };
                struct norm got = clip_record(type, p, 2, clip);
                assert_true(got.found);
                if (s == 1) {
                    assert_true(isinf(got.norm));
                    assert_true(max == 2 ? isnan(got.scale) : bits_of_f32(got.scale) == 0);
                } else {
                    assert_f32_bits(got.norm, 0x7fffffff);
                    assert_f32_bits(got.scale, 0x7fffffff);
                }
                clip.nonfinite = REF_SKIP;
                got = clip_record(type, p, 2, clip);
                assert_true(got.found && got.scale == 1.0f);
                clip.nonfinite = REF_ZERO;
                got = clip_record(type, p, 2, clip);
                assert_true(got.found && bits_of_f32(got.scale) == 0);
            }
        }
}

TEST(test_one_bad_element_is_always_found)
{
    struct random r = { 9 };
    double x[1000];
    for (int t = 0; t < 4; ++t)
        for (int trial = 0; trial < 50; ++trial) {
            for (uint64_t i = 0; i < 1000; ++i)
                ref_store(all_types[t], x, i, random_unit(&r));
            ref_store(all_types[t], x, random_below(&r, 1000),
                      trial & 1 ? (double)NAN : -(double)INFINITY);
            struct norm got =
                norm_of(all_types[t], x, 1000, (struct ref_clip) { .max_norm = 1.0f });
            assert_true(got.found);
            assert_true(trial & 1 ? isnan(got.scale) : got.scale == 0.0f);
        }
}

/// C-FUSEDCLIP-001.
TEST(test_fusedclip_001_scale_norm_and_zero_sum)
{
    double zeros[3] = { 0.0, 0.0, 0.0 };
    for (uint64_t count = 0; count <= 3; ++count)
        for (int policy = 0; policy < 3; ++policy) {
            struct ref_clip clip = { (enum ref_nonfinite)policy, 0.0f, 0.0f };
            struct norm got = clip_record(REF_F64, zeros, count, clip);
            assert_true(got.scale == 1.0f && got.norm == 0.0f && !got.found);
        }
    struct random r = { 10 };
    for (int trial = 0; trial < 20000; ++trial) {
        double partials[3];
        float max_norm = ldexpf((float)fabs(random_unit(&r)), (int)random_below(&r, 20) - 10);
        for (int k = 0; k < 3; ++k)
            partials[k] = ldexp(fabs(random_unit(&r)), (int)random_below(&r, 40) - 20);
        struct norm got =
            clip_record(REF_F64, partials, 3, (struct ref_clip) { 0, max_norm, 0.0f });
        double norm = sqrt(partials[0] + partials[1] + partials[2]);
        double scale = fmin(1.0, (double)max_norm / norm);
        assert_true(ulps(got.norm, (float)norm) <= 1);
        assert_true(fabs((double)got.scale - scale) <= 2e-7 * scale);
        assert_false(got.found);
    }
}

/// C-CLIP-001, the coefficient: PyTorch has max_norm / (total_norm + 1e-6), clamped to 1.
TEST(test_clip_001_coefficient_is_that_of_pytorch)
{
    struct random r = { 11 };
    float x[3000];
    for (int trial = 0; trial < 300; ++trial) {
        double size = ldexp(1.0, (int)random_below(&r, 30) - 20);
        double sum = 0;
        for (int i = 0; i < 3000; ++i) {
            x[i] = (float)(random_unit(&r) * size);
            sum += (double)x[i] * (double)x[i];
        }
        float max_norm = (float)(fabs(random_unit(&r)) * size * 60.0);
        double want = (double)max_norm / (sqrt(sum) + 1e-6);
        struct norm got = norm_of(REF_F32, x, 3000, (struct ref_clip) { 0, max_norm, 1e-6f });
        assert_true(fabs((double)got.scale - (want < 1.0 ? want : 1.0)) <= 1e-6);
    }
}

/// C-CLIP-001, the norm after clipping.
TEST(test_clip_001_clipped_norm_is_at_most_max_norm)
{
    struct random r = { 12 };
    ALLOCATED(double) *x = malloc(MOST * sizeof *x);
    for (int trial = 0; trial < 60; ++trial) {
        enum ref_type type = trial & 1 ? REF_F32 : REF_F64;
        uint64_t n = trial < 20 ? 1 + random_below(&r, 40) : 1 + random_below(&r, MOST);
        double size = ldexp(1.0, (int)random_below(&r, 60) - 30);
        for (uint64_t i = 0; i < n; ++i)
            ref_store(type, x, i, random_unit(&r) * size);
        float max_norm = (float)(exact_norm(type, x, n) * (0.01 + 1.2 * fabs(random_unit(&r))));
        struct norm clip = norm_of(type, x, n, (struct ref_clip) { .max_norm = max_norm });
        float record[3] = { clip.scale, clip.norm, 0.0f };
        ref_gradient_clip_from_device_scale(type, x, n, REF_PROPAGATE, record);
        assert_true(exact_norm(type, x, n) <= (double)max_norm * (1.0 + 1e-6));
    }
}

TEST(test_clip_of_one_writes_nothing_and_zero_stores_zero)
{
    const uint32_t odd[4] = { 0xff800001, 0x7fc12345, 0x80000000, 0x00000001 };
    uint32_t g[4];
    memcpy(g, odd, sizeof g);
    ref_gradient_clip_from_device_scale(REF_F32, g, 4, REF_SKIP, (float[]) { 1.0f });
    assert_memory_equal(g, odd, sizeof g);
    ref_gradient_clip_from_device_scale(REF_F32, g, 4, REF_PROPAGATE, (float[]) { 0.5f });
    // NaN becomes the NaN of PTX. Half the least subnormal rounds to even.
    const uint32_t halved[4] = { 0x7fffffff, 0x7fffffff, 0x80000000, 0x00000000 };
    assert_memory_equal(g, halved, sizeof g);
    ref_gradient_clip_from_device_scale(REF_F32, g, 4, REF_PROPAGATE, (float[]) { NAN });
    for (int i = 0; i < 4; ++i)
        assert_int_equal(g[i], 0x7fffffff);
    ref_gradient_clip_from_device_scale(REF_F32, g, 4, REF_ZERO, (float[]) { 1.0f, NAN, 1.0f });
    for (int i = 0; i < 4; ++i)
        assert_int_equal(g[i], 0);
    // 1 - 2^-24 times 1 is 1 - 2^-24 in f32: it is not taken for 1.
    float one = 1.0f;
    ref_gradient_clip_from_device_scale(REF_F32, &one, 1, REF_PROPAGATE,
                                        (float[]) { 0x1.fffffep-1f });
    assert_f32_bits(one, 0x3f7fffff);
}

TEST(test_lerp)
{
    float dy[4] = { 2.0f, INFINITY, -0.0f, NAN }, a[4], b[4];
    ref_lerp_backward(REF_F32, dy, a, b, 4, 0.0);
    assert_true(a[0] == 2.0f && b[0] == 0.0f && isinf(a[1]));
    assert_f32_bits(b[1], 0x7fffffff);
    assert_f32_bits(b[2], 0x80000000);
    assert_f32_bits(a[3], 0x7fffffff);
    ref_lerp_backward(REF_F32, dy, a, NULL, 4, 1.0);
    assert_f32_bits(a[1], 0x7fffffff);
    // 1 - 0.9 is computed in f64 and gives 0.1f, not 1.0f - 0.9f.
    float one = 1.0f;
    ref_lerp_backward(REF_F32, &one, a, b, 1, 0.9);
    assert_true(a[0] == 0.1f && a[0] != 1.0f - 0.9f && b[0] == 0.9f);
    double wide = 3.0, wide_a, wide_b;
    ref_lerp_backward(REF_F64, &wide, &wide_a, &wide_b, 1, 0.3);
    assert_true(wide_a == (1.0 - 0.3) * 3.0 && wide_b == 0.3 * 3.0);
    // f16: the f32 product is rounded once. In place.
    uint16_t half = f16_from_f64(1.0);
    ref_lerp_backward(REF_F16, &half, NULL, &half, 1, 0.1);
    assert_int_equal(half, f16_from_f64((double)0.1f));
}
