// SPDX-License-Identifier: MIT
#include "common.h"
#include "division.h"

enum { BLOCK = 256 };
enum { OPTION_DIVISION, OPTION_GRADIENT, OPTION_TARGET, OPTION_SCALARS };
enum { DIVISION_EXACT, DIVISION_RECIPROCAL };
enum { GRADIENT_QUANTIZE, GRADIENT_FAKE_QUANTIZE };
enum { TARGET_S8, TARGET_U8, TARGET_ANY };

struct quantizer {
    const struct ptx_spec *spec;
    ptx_type compute;
    struct divisor scale;
    ptx_val lo, hi;
};

static void pass_through(ptx_builder *b, const void *user, const ptx_vec *in, ptx_vec *dx)
{
    const struct quantizer *q = user;
    const ptx_vec x = in[0], dy = in[1];
    const bool fake = q->spec->option[OPTION_GRADIENT] == GRADIENT_FAKE_QUANTIZE;
    ptx_vec level = nearest_multiples(b, &q->scale, x);
    ptx_vec gradient = fake ? dy : quotients(b, &q->scale, dy);

    for (unsigned k = 0; k < x.lanes; k++) {
        ptx_val above = ptx_ge(b, level.lane[k], q->lo);
        ptx_val below = ptx_le(b, level.lane[k], q->hi);
        ptx_val inside = ptx_and(b, above, below);
        dx->lane[k] = ptx_select(b, inside, gradient.lane[k], ptx_zero(q->spec->dtype));
    }
}

// The bounds of x / scale: q_min - zero_point rounded up, q_max - zero_point rounded down. The
// difference of two s32 fits s64; rounding it inwards changes no comparison with an integer.
static void bounds(ptx_builder *b, struct quantizer *q, bool device)
{
    static const struct {
        const char *low, *high;
        int q_min, q_max;
    } targets[] = { { "-128", "127", -128, 127 },
                    { "0", "255", 0, 255 },
                    { "q_min", "q_max", 0, 0 } };
    const unsigned target = q->spec->option[OPTION_TARGET];
    const struct ptx_param_info info = { .name = "zero_point",
                                         .meaning = "what 0 is quantized to",
                                         .preset = "0",
                                         .low = targets[target].low,
                                         .high = targets[target].high };
    ptx_val zero_point = ptx_cvt(b, PTX_S64, scalar_param(b, PTX_S32, device, info));
    ptx_val q_min = ptx_s64(targets[target].q_min), q_max = ptx_s64(targets[target].q_max);
    if (target == TARGET_ANY) {
        q_min = ptx_param(b, PTX_S32, "q_min", .meaning = "least quantized value", .preset = "-128",
                          .high = "q_max");
        q_max = ptx_param(b, PTX_S32, "q_max", .meaning = "greatest quantized value",
                          .preset = "127", .low = "q_min");
        q_min = ptx_cvt(b, PTX_S64, q_min);
        q_max = ptx_cvt(b, PTX_S64, q_max);
    }
    ptx_comment(b, "in range: lo <= rint(x / scale) <= hi");
    q->lo = ptx_cvt(b, q->compute, ptx_sub(b, q_min, zero_point), .round = PTX_RP);
    q->hi = ptx_cvt(b, q->compute, ptx_sub(b, q_max, zero_point), .round = PTX_RM);
}

static void build(ptx_builder *b, const struct ptx_spec *spec)
{
    const bool device = spec->option[OPTION_SCALARS];
    struct quantizer q = { .spec = spec, .compute = compute_type(spec->dtype) };

    struct elementwise e = { .inputs = 2, .outputs = 1, .compute = pass_through, .user = &q };

    e.in[0] = ptx_param_ptr(b, spec->dtype, "x", .meaning = "what was quantized", .length = "n",
                            .readonly = true);
    e.in[1] = ptx_param_ptr(b, spec->dtype, "d_output", .meaning = "gradient of the output",
                            .length = "n", .readonly = true);
    e.out[0] = ptx_param_ptr(b, spec->dtype, "d_input", .meaning = "gradient of x; may be d_output",
                             .length = "n", .writeonly = true);
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements of each tensor");
    ptx_val scale = scalar_param(b, q.compute, device,
                                 (struct ptx_param_info) { .name = "scale",
                                                           .meaning = "step of the quantizer",
                                                           .range = PTX_FINITE | PTX_POSITIVE });
    bounds(b, &q, device);
    q.scale = divisor_of(b, scale, spec->option[OPTION_DIVISION] == DIVISION_RECIPROCAL);
    for_each_element(b, n, &e);
}

const ptx_kernel ptx_kernel_quantize_ste_backward = {
    .name = "quantize_ste_backward",
    .summary = "straight-through gradient of a per-tensor quantizer",
    .formula = "d_input = q_min <= rint(x / scale) + zero_point <= q_max ? d_output / scale : 0",
    .dtypes = PTX_SET(F32) | PTX_SET(F64) | PTX_SET(F16) | PTX_SET(BF16),
    .options = {
        [OPTION_DIVISION] = { "division",
                              { "exact", "reciprocal" },
                              "correctly rounded, or times the rounded 1 / scale" },
        [OPTION_GRADIENT] = { "gradient",
                              { "quantize", "fake_quantize" },
                              "in range: d_output / scale, or d_output itself" },
        [OPTION_TARGET] = { "target",
                            { "s8", "u8", "any" },
                            "-128..127, 0..255, or q_min and q_max as parameters" },
        [OPTION_SCALARS] = { "scalars",
                             { "value", "device" },
                             "scale and zero_point by value, or by their addresses" },
    },
    .grid = PTX_GRID_VECTORS,
    .block = BLOCK,
    .guarantees = "deterministic; correctly rounded; NaN and infinite x give +0",
    .build = build,
};
