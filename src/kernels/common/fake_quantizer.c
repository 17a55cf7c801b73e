// SPDX-License-Identifier: MIT
#include "fake_quantizer.h"

enum { ZERO_POINT_FIXED, ZERO_POINT_LEARNED };

struct ptx_param_info ptxk_fake_zero_point_info(void)
{
    return (struct ptx_param_info) { .name = "zero_point",
                                     .meaning = "what 0 is quantized to",
                                     .preset = "0",
                                     .low = "q_min",
                                     .high = "q_max" };
}

ptx_type ptxk_fake_zero_point_type(const struct ptx_kernel_spec *spec)
{
    const bool learned = spec->option[FAKE_ZERO_POINT] == ZERO_POINT_LEARNED;

    return learned ? ptxk_compute_type(spec->dtype) : PTX_S32;
}

struct quantizer ptxk_fake_quantizer_of(ptx_builder *b, const struct ptx_kernel_spec *spec,
                                        ptx_val scale, ptx_val zero_point, struct levels levels)
{
    const bool by_reciprocal = spec->option[FAKE_DIVISION] == DIVISION_RECIPROCAL;
    const bool learned = spec->option[FAKE_ZERO_POINT] == ZERO_POINT_LEARNED;
    ptx_comment(b, "the quantizer: its divisor, and its levels around the zero point");
    ptx_val zero =
        learned ? ptxk_nearest_level(b, zero_point, levels) : ptx_cvt(b, PTX_S64, zero_point);
    struct levels around = ptxk_levels_around(b, ptxk_compute_type(spec->dtype), zero, levels);

    return (struct quantizer) { .scale = ptxk_divisor_of(b, scale, spec->dtype, by_reciprocal),
                                .lo = around.q_min,
                                .hi = around.q_max };
}

// PTX's max gives the other operand for a NaN, so the level of a NaN is the least. Adding +0 makes
// a level of -0 that of the integer 0.
ptx_vec ptxk_fake_quantize(ptx_builder *b, const struct ptx_kernel_spec *spec,
                           const struct quantizers *q, const ptx_vec *in)
{
    ptx_vec y = ptxk_over_scales(b, q, in[0]);

    for (unsigned k = 0; k < y.lanes; k++) {
        ptxk_comment_lanes(b, "levels, within the range, times the scale", k, ptxk_comment_each(b),
                           y.lanes);
        ptx_val level = ptx_max(b, ptx_rint(b, y.lane[k]), q->of[k]->lo);
        level = ptx_min(b, level, q->of[k]->hi);
        ptx_val scale = q->of[k]->scale.value;
        level = ptx_fma(b, level, scale, 0);
        y.lane[k] = ptx_cvt(b, spec->dtype, level);
    }
    return y;
}
