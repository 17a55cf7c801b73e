// SPDX-License-Identifier: MIT
#include "clip_formula.h"

#include <math.h>

/// Half a unit in the last place of each of four results, and of a subnormal result.
static const double ulps = 0x1p-22, least_half = 0x1p-150;

static double quotient(double max_norm, double divisor)
{
    if (max_norm == 0.0)
        return 0.0;
    return divisor == 0.0 || max_norm / divisor > 1.0 ? 1.0 : max_norm / divisor;
}

struct clip_bounds clip_formula(double sum, float max_norm, float eps, float loss_scale)
{
    const double scale = (double)loss_scale, norm = sqrt(sum) / scale;
    const double below = fmax(0.0, norm * (1.0 - ulps) - least_half);
    const double above = norm * (1.0 + ulps) + least_half;
    struct clip_bounds bounds = { 1.0, 1.0 };

    if (sum > 0.0 && max_norm < INFINITY) {
        bounds.least = quotient((double)max_norm, above + (double)eps);
        bounds.most = quotient((double)max_norm, below + (double)eps);
    }
    // A result of 0 or 1 is exact up to here.
    if (bounds.least > 0.0 && bounds.least < 1.0)
        bounds.least = fmax(0.0, bounds.least * (1.0 - ulps) - least_half);
    if (bounds.most > 0.0 && bounds.most < 1.0)
        bounds.most = fmin(1.0, bounds.most * (1.0 + ulps) + least_half);
    bounds.least = bounds.least / scale * (1.0 - ulps) - (bounds.least > 0.0 ? least_half : 0.0);
    bounds.most = bounds.most / scale * (1.0 + ulps) + (bounds.most > 0.0 ? least_half : 0.0);
    bounds.least = fmax(0.0, bounds.least);
    return bounds;
}

uint16_t clip_rounded(enum ref_type type, double element, float factor, bool through_f32)
{
    const double exact = element * (double)factor; // 35 bits at most
    uint16_t bits;

    ref_store(type, &bits, 0, through_f32 ? (double)(float)exact : exact);
    return bits;
}

// The product lies so near to the middle between two numbers of the type that it is the middle in
// f32.
struct clip_product clip_rounded_twice(struct random *r, enum ref_type type)
{
    const uint32_t least = UINT32_C(1) << (type == REF_F16 ? 10 : 7); // of the significand

    for (;;) {
        const double element = (double)(least + random_below(r, least));
        const double middle = (double)(2 * (least + random_below(r, least)) + 1);
        const float factor = (float)(middle / element / 8);
        if (clip_rounded(type, element, factor, true) != clip_rounded(type, element, factor, false))
            return (struct clip_product) { element, factor };
    }
}
