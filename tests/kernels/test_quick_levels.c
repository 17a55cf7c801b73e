// SPDX-License-Identifier: MIT
// The levels that fake_quantize_groups computes without a division are those of a division.
//
// A level can only be wrong beside a tie, where x / scale is next to a level and a half. The test
// tries every x within 3 units in the last place of each tie, for significands of the scale with a
// stride; `test_quick_levels 1` tries them all, in a minute: 15 * 10^9 quotients, none wrong.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/half.h"
#include "test.h"

enum { SIGNIFICANDS = 1 << 23, LEVELS = 256, AROUND = 3, USUAL_STRIDE = 257 };

static uint32_t stride = USUAL_STRIDE;

static float scale_of(uint32_t significand)
{
    return f32_of_bits((127u << 23) + significand);
}

// ---- the kernel's sequences ---------------------------------------------------------------------

static float corrected(float x, float y, float reciprocal)
{
    const float rough = x * reciprocal;
    return fmaf(fmaf(rough, y, -x), -reciprocal, rough);
}

static float quick_rint(float x)
{
    return (x + 0x1.8p23f) - 0x1.8p23f;
}

static float quick_reciprocal(float scale, float approximate)
{
    return fmaf(approximate, fmaf(-scale, approximate, 1), approximate);
}

// ---- the tests ----------------------------------------------------------------------------------

static long wrong_levels(float scale, float reciprocal)
{
    long wrong = 0;
    for (int level = 0; level < LEVELS; ++level) {
        const uint32_t tie = bits_of_f32(((float)level + 0.5f) * scale);
        for (uint32_t k = 0; k <= 2 * AROUND; ++k) {
            const float x = f32_of_bits(tie + k - AROUND);
            wrong += quick_rint(corrected(x, scale, reciprocal)) != rintf(x / scale);
        }
    }
    return wrong;
}

/// With the reciprocal rounded to nearest.
TEST(test_levels)
{
    for (uint32_t s = 0; s < SIGNIFICANDS; s += stride)
        if (wrong_levels(scale_of(s), 1 / scale_of(s)))
            fail_msg("a level of scale %a is wrong", (double)scale_of(s));
}

/// rcp.approx is within one unit in the last place; here up to 3. The few scales for which the
/// reciprocal is not the nearest have the right levels all the same, but for the last one, which
/// the kernel divides by.
TEST(test_reciprocals)
{
    long others = 0;
    for (uint32_t s = 0; s < SIGNIFICANDS; ++s)
        for (uint32_t off = 0; off <= 6; ++off) {
            const float scale = scale_of(s), exact = 1 / scale;
            const float r = quick_reciprocal(scale, f32_of_bits(bits_of_f32(exact) + off - 3));
            if (r == exact)
                continue;
            others++;
            if (s < SIGNIFICANDS - 1 && wrong_levels(scale, r))
                fail_msg("a level of scale %a is wrong with the reciprocal %a", (double)scale,
                         (double)r);
        }
    assert_int_equal(others, 190);
    const float last = scale_of(SIGNIFICANDS - 1);
    assert_true(wrong_levels(last, quick_reciprocal(last, f32_of_bits(bits_of_f32(1 / last) + 1))) >
                0);
}

/// The scale is the span over one of six numbers.
TEST(test_scales)
{
    static const float steps[] = { 7, 7.5f, 15, 127, 127.5f, 255 };
    for (int k = 0; k < (int)(sizeof steps / sizeof *steps); ++k)
        for (uint32_t s = 0; s < SIGNIFICANDS; ++s)
            if (corrected(scale_of(s), steps[k], 1 / steps[k]) != scale_of(s) / steps[k])
                fail_msg("%a / %g is wrong", (double)scale_of(s), (double)steps[k]);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        stride = (uint32_t)strtoul(argv[1], NULL, 10);
    if (stride == 0)
        stride = 1;
    return tests_run(NULL, NULL);
}
