// SPDX-License-Identifier: MIT
#include "kernel_code.h"
#include "quantize_channel.h"

enum { OPTION_LAYOUT = QUANTIZER_OPTIONS };
enum { LAYOUT_ROWS, LAYOUT_COLUMNS };

static ptx_ptr tensor_param(ptx_builder *b, const struct ptx_kernel_spec *spec, const char *name,
                            const char *meaning, bool written)
{
    return ptx_param_ptr(b, spec->dtype, name, .meaning = meaning, .length = "n",
                         .readonly = !written, .writeonly = written);
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    struct channel_work w = { .spec = spec, .lanes = ptxk_vector_lanes(spec->dtype) };

    w.x = tensor_param(b, spec, "x", "what was quantized", false);
    w.d_output = tensor_param(b, spec, "d_output", "gradient of the output", false);
    w.d_input = tensor_param(b, spec, "d_input", "gradient of x; may be d_output", true);
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements of each tensor");
    w.scale = ptx_param_ptr(b, ptxk_compute_type(spec->dtype), "scale",
                            .meaning = "step of each channel's quantizer", .length = "channels",
                            .readonly = true, .range = PTX_RANGE_FINITE | PTX_RANGE_POSITIVE);
    struct ptx_param_info zero_point = ptxk_zero_point_info(spec);
    zero_point.length = "channels";
    zero_point.readonly = true;
    w.zero_point = ptx_param_ptr_emit(b, PTX_S32, zero_point);
    w.channels.count = ptx_param(b, PTX_U64, "channels", .meaning = "1 or more", .low = "1");
    w.channels.inner = ptx_param(b, PTX_U64, "inner", .preset = "1", .low = "1",
                                 .meaning = "adjacent elements of one channel");
    w.levels = ptxk_target_levels(b, spec);

    ptx_comment(b, "places: elements from the 16-byte boundary at or before x");
    w.skew = ptxk_elements_beyond_boundary(b, w.x);
    w.end = ptx_add(b, n, w.skew);
    w.alike = ptxk_aligned_alike(b, (ptx_ptr[]) { w.x, w.d_output, w.d_input }, 3);
    if (spec->option[OPTION_LAYOUT] == LAYOUT_COLUMNS)
        ptxk_channel_pass_columns(b, &w);
    else
        ptxk_channel_pass_rows(b, &w);
}

const ptx_kernel ptx_kernel_quantize_channel_ste_backward = {
    .name = "quantize_channel_ste_backward",
    .summary = "straight-through gradient of a quantizer with a scale for each channel",
    .formula = "as quantize_ste_backward, with scale and zero_point [i / inner % channels]",
    .dtypes = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16),
    .options = { QUANTIZER_OPTION_ROWS,
                 [OPTION_LAYOUT] = { "layout",
                                     { "rows", "columns" },
                                     "fast where inner is large, or where it is small; the same "
                                     "bits" } },
    .grid = PTX_GRID_CHUNKS,
    .block = CHANNEL_BLOCK,
    .guarantees = "deterministic; correctly rounded; NaN and infinite x give +0",
    .code = &(const struct ptx_kernel_code) { .build = build, .chunk = CHANNEL_CHUNK },
};
