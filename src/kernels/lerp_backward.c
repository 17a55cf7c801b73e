// SPDX-License-Identifier: MIT
#include "common.h"

enum { BLOCK = 256, MAX_OUTPUTS = 2 };
enum { OPTION_OUTPUTS, OPTION_WEIGHT };
enum { OUTPUTS_BOTH, OUTPUTS_DA, OUTPUTS_DB };

// One output: where it goes and what d_output is multiplied by.
struct output {
    ptx_ptr to;
    ptx_val factor;
};

static ptx_val scaled(ptx_builder *b, ptx_type dtype, ptx_val factor, ptx_val dy)
{
    ptx_val wide = ptx_cvt(b, (ptx_type)factor.type, dy);
    return ptx_cvt(b, dtype, ptx_mul(b, factor, wide));
}

static void build(ptx_builder *b, const struct ptx_spec *spec)
{
    const bool want_da = spec->option[OPTION_OUTPUTS] != OUTPUTS_DB;
    const bool want_db = spec->option[OPTION_OUTPUTS] != OUTPUTS_DA;
    const ptx_type compute = compute_type(spec->dtype);
    struct output outputs[MAX_OUTPUTS];
    unsigned count = 0;

    ptx_ptr dy = ptx_param_ptr(b, spec->dtype, "d_output", .meaning = "gradient of the output",
                               .length = "n", .readonly = true);
    if (want_da)
        outputs[count++].to =
            ptx_param_ptr(b, spec->dtype, "d_a", .meaning = "gradient of a; may be d_output",
                          .length = "n", .writeonly = true);
    if (want_db)
        outputs[count++].to =
            ptx_param_ptr(b, spec->dtype, "d_b", .meaning = "gradient of b; may be d_output",
                          .length = "n", .writeonly = true);
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements of each tensor");
    ptx_val weight =
        scalar_param(b, PTX_F64, spec->option[OPTION_WEIGHT],
                     (struct ptx_param_info) {
                         .name = "weight", .meaning = "share of b", .range = PTX_NOT_NAN });

    ptx_comment(b, "1 - weight is formed in f64 and rounded once");
    if (want_da)
        outputs[0].factor = ptx_cvt(b, compute, ptx_sub(b, ptx_f64(1), weight));
    if (want_db)
        outputs[count - 1].factor = ptx_cvt(b, compute, weight);

    const ptx_ptr tensors[] = { dy, outputs[0].to, outputs[count - 1].to };
    struct span span = thread_span(b, n, tensors, 1 + count);
    ptx_if (b, span.whole) {
        ptx_vec g = ptx_load_vec(b, dy, span.lo, span.lanes, .cache = PTX_STREAM);
        for (unsigned o = 0; o < count; o++) {
            ptx_vec result = g;
            for (unsigned k = 0; k < span.lanes; k++)
                result.lane[k] = scaled(b, spec->dtype, outputs[o].factor, g.lane[k]);
            ptx_store_vec(b, outputs[o].to, span.lo, result, .cache = PTX_STREAM);
        }
    }
    ptx_else (b) {
        ptx_for (b, i, span.lo, span.hi, ptx_u64(1)) {
            ptx_val g = ptx_load(b, dy, i);
            for (unsigned o = 0; o < count; o++)
                ptx_store(b, outputs[o].to, i, scaled(b, spec->dtype, outputs[o].factor, g));
        }
    }
}

const ptx_kernel ptx_kernel_lerp_backward = {
    .name = "lerp_backward",
    .summary = "gradients of a + weight * (b - a)",
    .formula = "d_a = (1 - weight) * d_output; d_b = weight * d_output",
    .dtypes = PTX_SET(F32) | PTX_SET(F64) | PTX_SET(F16) | PTX_SET(BF16),
    .options = {
        [OPTION_OUTPUTS] = { "outputs", { "both", "da", "db" }, "which gradients are written" },
        [OPTION_WEIGHT] = { "weight",
                            { "value", "device" },
                            "weight passed by value, or by the address of one f64" },
    },
    .grid = PTX_GRID_VECTORS,
    .block = BLOCK,
    .guarantees = "deterministic; one rounding an element; bit-stable at any alignment",
    .build = build,
};
