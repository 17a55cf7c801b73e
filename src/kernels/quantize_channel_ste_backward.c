// SPDX-License-Identifier: MIT
#include "common/channel_walk.h"
#include "kernel_code.h"

enum { OPTION_LAYOUT = QUANTIZER_OPTIONS };

static struct quantizer quantizer_of(ptx_builder *b, const struct ptx_kernel_spec *spec,
                                     ptx_val scale, ptx_val zero_point, struct levels levels)
{
    return ptxk_quantizer_of(b, spec, scale, ptx_cvt(b, PTX_S64, zero_point), levels);
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    struct channel_walk w = {
        .spec = spec, .inputs = 2, .quantizer_of = quantizer_of, .compute = ptxk_straight_through
    };

    ptxk_backward_params(b, spec->dtype, w.in, &w.out);
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements of each tensor");
    w.scale = ptx_param_ptr(b, ptxk_compute_type(spec->dtype), "scale",
                            .meaning = "step of each channel's quantizer", .length = "channels",
                            .readonly = true, .range = PTX_RANGE_FINITE | PTX_RANGE_POSITIVE);
    struct ptx_param_info zero_point = ptxk_zero_point_info(spec);
    zero_point.length = "channels";
    zero_point.readonly = true;
    w.zero_point = ptx_param_ptr_emit(b, PTX_S32, zero_point);
    ptxk_channel_walk_params(b, &w);
    w.levels = ptxk_target_levels(b, spec);
    ptxk_channel_walk(b, &w, n, spec->option[OPTION_LAYOUT] == LAYOUT_COLUMNS);
}

const ptx_kernel ptx_kernel_quantize_channel_ste_backward = {
    .name = "quantize_channel_ste_backward",
    .summary = "straight-through gradient of a quantizer with a scale for each channel",
    .formula = "as quantize_ste_backward, with scale and zero_point [i / inner % channels]",
    .dtypes = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16),
    .options = { QUANTIZER_OPTION_ROWS, [OPTION_LAYOUT] = CHANNEL_LAYOUT_ROW },
    .grid = PTX_GRID_CHUNKS,
    .block = CHANNELS_BLOCK,
    .guarantees = "deterministic; correctly rounded; NaN and infinite x give +0",
    .chunk = CHANNELS_CHUNK,
    .code = &(const struct ptx_kernel_code) { .build = build },
};
