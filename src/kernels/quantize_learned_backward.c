// SPDX-License-Identifier: MIT
#include <string.h>

#include "common/learned.h"
#include "common/piece_walk.h"
#include "kernel_code.h"

enum { OPTION_LAYOUT = LEARNED_OPTIONS };

static ptx_ptr sums_param(ptx_builder *b, const char *name, const char *meaning)
{
    return ptx_param_ptr(b, PTX_F64, name, .meaning = meaning, .length = "pieces",
                         .computed_length = true, .writeonly = true);
}

static ptx_ptr gradient_param(ptx_builder *b, ptx_type type, const char *name, const char *meaning)
{
    return ptx_param_ptr(b, type, name, .meaning = meaning, .length = "channels",
                         .writeonly = true);
}

static void result_params(ptx_builder *b, struct channel_walk *w, enum pieces_layout layout)
{
    const ptx_type compute = ptxk_compute_type(w->spec->dtype);

    if (layout == PIECES_WHOLE) {
        w->factor = ptx_param(b, PTX_F64, "grad_factor", .preset = "1",
                              .meaning = "the gradients are multiplied by it");
        w->sums_to[SUM_SCALE] = gradient_param(b, compute, "d_scale", "gradient of the scale");
        if (w->sums > 1)
            w->sums_to[SUM_ZERO_POINT] =
                gradient_param(b, compute, "d_zero_point", "gradient of the zero point");
        return;
    }
    w->sums_to[SUM_SCALE] = sums_param(b, "scale_sums", "sums of the scale's gradient");
    if (w->sums > 1)
        w->sums_to[SUM_ZERO_POINT] =
            sums_param(b, "zero_sums", "sums of the zero point's gradient");
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    const enum pieces_layout layout = (enum pieces_layout)spec->option[OPTION_LAYOUT];
    const char *length = layout == PIECES_TENSOR ? "1" : "channels";
    const bool learns = ptxk_learns_zero_point(spec);
    const ptx_type compute = ptxk_compute_type(spec->dtype);
    struct channel_walk w = { .spec = spec,
                              .inputs = 2,
                              .quantizer_of = ptxk_learned_of,
                              .compute = ptxk_learned_terms,
                              .sums = ptxk_learned_sums(spec) };

    ptxk_backward_params(b, spec->dtype, w.in, &w.out);
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements of each tensor");
    w.scale =
        ptx_param_ptr(b, compute, "scale", .meaning = "step of the quantizer", .length = length,
                      .readonly = true, .range = PTX_RANGE_FINITE | PTX_RANGE_POSITIVE);
    w.zero_point = ptx_param_ptr(b, learns ? compute : PTX_S32, "zero_point",
                                 .meaning = learns ? "what 0 is quantized to; rounded and clamped"
                                                   : "what 0 is quantized to",
                                 .length = length, .readonly = true);
    if (layout != PIECES_TENSOR)
        ptxk_channel_walk_params(b, &w);
    w.levels = ptxk_any_levels(b);
    result_params(b, &w, layout);
    ptxk_piece_walk(b, &w, n, layout);
}

// With more registers, ptxas keeps the loads of rows ahead of the arithmetic.
static uint32_t min_blocks_of(const struct ptx_kernel_spec *spec)
{
    const enum pieces_layout layout = (enum pieces_layout)spec->option[OPTION_LAYOUT];

    return layout == PIECES_ROWS || layout == PIECES_WHOLE ? 2 : 0;
}

static bool length_of(const struct ptx_kernel_spec *spec, const struct ptx_kernel_sizes *sizes,
                      const char *name, uint64_t *count)
{
    const enum pieces_layout layout = (enum pieces_layout)spec->option[OPTION_LAYOUT];

    return strcmp(name, "pieces") == 0 && ptxk_pieces(sizes, spec->dtype, layout, count);
}

const ptx_kernel ptx_kernel_quantize_learned_backward = {
    .name = "quantize_learned_backward",
    .summary = "gradients of a fake quantizer's input, scale and zero point",
    .formula = "d_input = in range ? d_output : 0; sums of d_output * (in range ? q - z - x / "
               "scale : q - z) and of -scale * d_output out of range",
    .dtypes = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16),
    .options = { LEARNED_OPTION_ROWS,
                 [OPTION_LAYOUT] = { "layout",
                                     { "tensor", "rows", "columns", "whole" },
                                     "one scale; one a channel, fast where inner is large, or "
                                     "where it is small; or a row a channel, and gradients in "
                                     "place of sums" } },
    .grid = PTX_GRID_CHUNKS,
    .block = PIECES_BLOCK,
    .accumulator = "f64",
    .guarantees = "deterministic; bit-stable at any alignment; NaN x gives +0 and counts as the "
                  "least level",
    .chunk = TILE,
    .short_chunk = SHORT_TILE,
    .short_most = SHORT_TILE_MOST,
    .code = &(const struct ptx_kernel_code) { .build = build,
                                              .min_blocks = min_blocks_of,
                                              .length = length_of },
};
