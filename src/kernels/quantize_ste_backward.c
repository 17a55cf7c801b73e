// SPDX-License-Identifier: MIT
#include "common.h"

enum { BLOCK = 256 };
enum { OPTION_DIVISION, OPTION_GRADIENT, OPTION_TARGET, OPTION_SCALARS };
enum { DIVISION_EXACT, DIVISION_RECIPROCAL };
enum { GRADIENT_QUANTIZE, GRADIENT_FAKE_QUANTIZE };
enum { TARGET_S8, TARGET_U8, TARGET_ANY };

struct quantizer {
    const struct ptx_spec *spec;
    ptx_type compute;
    ptx_val scale; // 1 / scale where the division is by reciprocal
    ptx_val lo, hi;
};

// x / scale, or x times the rounded reciprocal.
static ptx_val divide(ptx_builder *b, const struct quantizer *q, ptx_val x)
{
    if (q->spec->option[OPTION_DIVISION] == DIVISION_RECIPROCAL)
        return ptx_mul(b, x, q->scale);
    return ptx_div(b, x, q->scale);
}

static ptx_val gradient_of(ptx_builder *b, const struct quantizer *q, ptx_val x, ptx_val dy)
{
    ptx_val wide = ptx_cvt(b, q->compute, x);
    ptx_val level = ptx_rint(b, divide(b, q, wide));
    ptx_val above = ptx_ge(b, level, q->lo);
    ptx_val below = ptx_le(b, level, q->hi);
    ptx_val inside = ptx_and(b, above, below);
    ptx_val dx = dy;

    if (q->spec->option[OPTION_GRADIENT] == GRADIENT_QUANTIZE) {
        ptx_val quotient = divide(b, q, ptx_cvt(b, q->compute, dy));
        dx = ptx_cvt(b, q->spec->dtype, quotient);
    }
    return ptx_select(b, inside, dx, ptx_zero(q->spec->dtype));
}

// The bounds of x / scale: q_min - zero_point rounded up, q_max - zero_point rounded down. The
// difference of two s32 fits s64; rounding an integer bound inwards changes no comparison with an
// integer.
static void bounds(ptx_builder *b, struct quantizer *q, bool device)
{
    static const char *const lows[] = { "-128", "0", "q_min" };
    static const char *const highs[] = { "127", "255", "q_max" };
    const unsigned target = q->spec->option[OPTION_TARGET];
    ptx_val q_min = ptx_s64(target == TARGET_S8 ? -128 : 0);
    ptx_val q_max = ptx_s64(target == TARGET_S8 ? 127 : 255);

    ptx_val zero_point = scalar_param(b, PTX_S32, device,
                                      (struct ptx_param_info) { .name = "zero_point",
                                                                .meaning = "what 0 is quantized to",
                                                                .preset = "0",
                                                                .low = lows[target],
                                                                .high = highs[target] });
    if (target == TARGET_ANY) {
        q_min = ptx_param(b, PTX_S32, "q_min", .meaning = "least quantized value", .preset = "-128",
                          .high = "q_max");
        q_max = ptx_param(b, PTX_S32, "q_max", .meaning = "greatest quantized value",
                          .preset = "127", .low = "q_min");
        q_min = ptx_cvt(b, PTX_S64, q_min);
        q_max = ptx_cvt(b, PTX_S64, q_max);
    }
    ptx_comment(b, "in range: lo <= rint(x / scale) <= hi");
    zero_point = ptx_cvt(b, PTX_S64, zero_point);
    ptx_val lo = ptx_sub(b, q_min, zero_point);
    ptx_val hi = ptx_sub(b, q_max, zero_point);
    q->lo = ptx_cvt(b, q->compute, lo, .round = PTX_RP);
    q->hi = ptx_cvt(b, q->compute, hi, .round = PTX_RM);
}

static void build(ptx_builder *b, const struct ptx_spec *spec)
{
    const bool device = spec->option[OPTION_SCALARS];
    struct quantizer q = { .spec = spec, .compute = compute_type(spec->dtype) };

    ptx_ptr x = ptx_param_ptr(b, spec->dtype, "x", .meaning = "what was quantized", .length = "n",
                              .readonly = true);
    ptx_ptr dy = ptx_param_ptr(b, spec->dtype, "d_output", .meaning = "gradient of the output",
                               .length = "n", .readonly = true);
    ptx_ptr dx =
        ptx_param_ptr(b, spec->dtype, "d_input", .meaning = "gradient of x; may be d_output",
                      .length = "n", .writeonly = true);
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements of each tensor");
    q.scale = scalar_param(b, q.compute, device,
                           (struct ptx_param_info) { .name = "scale",
                                                     .meaning = "step of the quantizer",
                                                     .range = PTX_FINITE | PTX_POSITIVE });
    bounds(b, &q, device);
    if (spec->option[OPTION_DIVISION] == DIVISION_RECIPROCAL)
        q.scale = ptx_rcp(b, q.scale);

    const ptx_ptr tensors[] = { x, dy, dx };
    struct span span = thread_span(b, n, tensors, 3);
    ptx_if (b, span.whole) {
        ptx_vec v = ptx_load_vec(b, x, span.lo, span.lanes, .nc = true, .cache = PTX_STREAM);
        ptx_vec g = ptx_load_vec(b, dy, span.lo, span.lanes, .cache = PTX_STREAM);
        for (unsigned k = 0; k < span.lanes; k++)
            g.lane[k] = gradient_of(b, &q, v.lane[k], g.lane[k]);
        ptx_store_vec(b, dx, span.lo, g, .cache = PTX_STREAM);
    }
    ptx_else (b) {
        ptx_for (b, i, span.lo, span.hi, ptx_u64(1)) {
            ptx_val v = ptx_load(b, x, i);
            ptx_val g = ptx_load(b, dy, i);
            ptx_store(b, dx, i, gradient_of(b, &q, v, g));
        }
    }
}

const ptx_kernel ptx_kernel_quantize_ste_backward = {
    .name = "quantize_ste_backward",
    .summary = "straight-through gradient of a per-tensor quantizer",
    .formula = "q = rint(x / scale); d_input = q_min <= q + zero_point <= q_max ? d_output / scale "
               ": 0",
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
    .guarantees = "deterministic; correctly rounded; NaN and infinite x give +0; bit-stable at any "
                  "alignment",
    .build = build,
};
