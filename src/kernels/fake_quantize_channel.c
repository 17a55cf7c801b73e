// SPDX-License-Identifier: MIT
#include "common/channel_walk.h"
#include "common/fake_quantizer.h"
#include "kernel_code.h"

enum { OPTION_LAYOUT = FAKE_OPTIONS };

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    struct channel_walk w = { .spec = spec,
                              .inputs = 1,
                              .quantizer_of = ptxk_fake_quantizer_of,
                              .compute = ptxk_fake_quantize };
    struct ptx_param_info zero_point = ptxk_fake_zero_point_info();

    w.in[0] = ptx_param_ptr(b, spec->dtype, "x", .meaning = "to be quantized", .length = "n",
                            .readonly = true);
    w.out = ptx_param_ptr(b, spec->dtype, "y", .meaning = "the quantized x, scaled back; may be x",
                          .length = "n", .writeonly = true);
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements of each tensor");
    w.scale = ptx_param_ptr(b, ptxk_compute_type(spec->dtype), "scale",
                            .meaning = "step of each channel's quantizer", .length = "channels",
                            .readonly = true, .range = PTX_RANGE_FINITE | PTX_RANGE_POSITIVE);
    zero_point.length = "channels";
    zero_point.readonly = true;
    w.zero_point = ptx_param_ptr_emit(b, ptxk_fake_zero_point_type(spec), zero_point);
    ptxk_channel_walk_params(b, &w);
    w.levels = ptxk_any_levels(b);
    ptxk_channel_walk(b, &w, n, spec->option[OPTION_LAYOUT] == LAYOUT_COLUMNS);
}

const ptx_kernel ptx_kernel_fake_quantize_channel = {
    .name = "fake_quantize_channel",
    .summary = "quantizes and scales back, with a scale for each channel",
    .formula = "as fake_quantize, with scale and zero_point [i / inner % channels]",
    .dtypes = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16),
    .options = { FAKE_OPTION_ROWS, [OPTION_LAYOUT] = CHANNEL_LAYOUT_ROW },
    .grid = PTX_GRID_CHUNKS,
    .block = CHANNELS_BLOCK,
    .guarantees = "deterministic; correctly rounded; NaN x has the least level",
    .chunk = CHANNELS_CHUNK,
    .code = &(const struct ptx_kernel_code) { .build = build },
};
