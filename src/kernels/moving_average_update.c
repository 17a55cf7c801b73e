// SPDX-License-Identifier: MIT
#include <float.h>
#include <math.h>

#include "common/common.h"
#include "kernel_code.h"

enum { OPTION_SCHEME };
enum { SCHEME_AFFINE, SCHEME_SYMMETRIC };
enum { LEAST, GREATEST };

struct update {
    ptx_ptr extremes, averages, scale, zero_point;
    ptx_val constant, eps;      // f32
    ptx_val q_min, q_max, zero; // s32; zero: of a symmetric scheme
};

// Whether a pair is the one that nothing has been observed in.
static ptx_val is_empty(ptx_builder *b, const ptx_val *pair)
{
    return ptx_and(b, ptx_eq(b, pair[LEAST], INFINITY), ptx_eq(b, pair[GREATEST], -INFINITY));
}

// The averages after this step. `extremes` becomes empty.
static void take_averages(ptx_builder *b, const struct update *u, ptx_val *averages)
{
    ptx_val seen[2], old[2];

    for (int k = 0; k < 2; k++) {
        seen[k] = ptx_load(b, u->extremes, k);
        old[k] = ptx_load(b, u->averages, k);
        ptx_store(b, u->extremes, k, k ? -INFINITY : INFINITY);
    }
    ptx_comment(b, "the averages, unless nothing was seen");
    ptx_val nothing = is_empty(b, seen), first = is_empty(b, old);
    for (int k = 0; k < 2; k++) {
        ptx_val change = ptx_mul(b, u->constant, ptx_sub(b, seen[k], old[k]));
        ptx_val next = ptx_select(b, first, seen[k], ptx_add(b, old[k], change));
        averages[k] = ptxk_one_nan(b, ptx_select(b, nothing, old[k], next));
        ptx_store(b, u->averages, k, averages[k]);
    }
}

// An s64 from q_min to q_max; q_min if the scale is NaN or infinite.
static ptx_val zero_point_of(ptx_builder *b, const struct update *u, ptx_val low, ptx_val scale)
{
    ptx_val level = ptx_rint(b, ptx_div(b, low, scale));
    level = ptx_select(b, ptx_is_nan(b, level), 0, level);
    ptx_val below = ptx_cvt(b, PTX_S64, level);
    ptx_val q_min = ptx_cvt(b, PTX_S64, u->q_min), q_max = ptx_cvt(b, PTX_S64, u->q_max);

    return ptx_min(b, ptx_max(b, ptx_sub(b, q_min, below), q_min), q_max);
}

static void write_quantizer(ptx_builder *b, const struct ptx_kernel_spec *spec,
                            const struct update *u, const ptx_val *averages)
{
    const bool symmetric = spec->option[OPTION_SCHEME] == SCHEME_SYMMETRIC;
    ptx_comment(b, "the quantizer of the averages");
    ptx_val empty = is_empty(b, averages);
    ptx_val low = ptxk_smaller(b, averages[LEAST], ptx_f32(0));
    ptx_val high = ptxk_larger(b, averages[GREATEST], ptx_f32(0));
    ptx_val q_min = ptx_cvt(b, PTX_S64, u->q_min);
    ptx_val steps = ptx_cvt(b, PTX_F32, ptx_sub(b, ptx_cvt(b, PTX_S64, u->q_max), q_min));
    ptx_val span;

    if (symmetric) {
        span = ptxk_larger(b, ptx_neg(b, low), high);
        steps = ptx_mul(b, steps, 0.5);
    } else {
        span = ptx_sub(b, high, low);
    }
    ptx_val scale = ptxk_larger(b, ptx_div(b, span, steps), u->eps);
    ptx_val zero = symmetric ? u->zero : ptx_cvt(b, PTX_S32, zero_point_of(b, u, low, scale));
    ptx_val written = ptxk_one_nan(b, ptx_select(b, empty, 1, scale));
    ptx_store(b, u->scale, 0, written);
    ptx_store(b, u->zero_point, 0, ptx_select(b, empty, 0, zero));
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    struct update u = { .zero = { 0 } };
    ptx_val averages[2];

    u.extremes = ptx_param_ptr(b, spec->dtype, "extremes",
                               .meaning = "of this step; becomes +inf, -inf", .length = "2");
    u.averages = ptx_param_ptr(b, spec->dtype, "averages",
                               .meaning = "of the least and the greatest; +inf, -inf at first",
                               .length = "2");
    u.constant = ptx_param(b, PTX_F32, "averaging_constant", .meaning = "weight of this step",
                           .preset = "0.01", .range = PTX_RANGE_FINITE | PTX_RANGE_POSITIVE);
    u.q_min = ptx_param(b, PTX_S32, "q_min", .meaning = "least quantized value", .preset = "-128",
                        .high = "q_max");
    u.q_max = ptx_param(b, PTX_S32, "q_max", .meaning = "greatest quantized value, above q_min",
                        .preset = "127", .low = "q_min");
    u.eps =
        ptx_param(b, PTX_F32, "eps", .meaning = "least scale", .preset = "1.1920928955078125e-07",
                  .range = PTX_RANGE_FINITE | PTX_RANGE_POSITIVE);
    if (spec->option[OPTION_SCHEME] == SCHEME_SYMMETRIC)
        u.zero = ptx_param(b, PTX_S32, "zero", .meaning = "the zero point", .preset = "0",
                           .low = "q_min", .high = "q_max");
    u.scale = ptx_param_ptr(b, PTX_F32, "scale", .meaning = "of the quantizer", .length = "1",
                            .writeonly = true);
    u.zero_point = ptx_param_ptr(b, PTX_S32, "zero_point", .meaning = "of the quantizer",
                                 .length = "1", .writeonly = true);
    take_averages(b, &u, averages);
    write_quantizer(b, spec, &u, averages);
}

const ptx_kernel ptx_kernel_moving_average_update = {
    .name = "moving_average_update",
    .summary = "moving averages of the least and the greatest element, and their quantizer",
    .formula = "averages += averaging_constant * (extremes - averages); scale = (high - low) / "
               "(q_max - q_min), zero_point = q_min - rint(low / scale)",
    .dtypes = PTX_TYPE_BIT(F32),
    .options = { [OPTION_SCHEME] = { "scheme",
                                     { "affine", "symmetric" },
                                     "from the least to the greatest, or around a zero point" } },
    .grid = PTX_GRID_ONE,
    .block = 1,
    .guarantees = "deterministic; correctly rounded; a NaN gives a NaN scale",
    .code = &(const struct ptx_kernel_code) { .build = build },
};
