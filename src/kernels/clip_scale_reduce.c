// SPDX-License-Identifier: MIT
#include <ptxgen/records.h>

#include "common/common.h"
#include "kernel_code.h"

enum { BLOCK = 1024 };
enum { OPTION_NONFINITE, OPTION_MAX_NORM };

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    ptx_ptr partials = ptx_param_ptr(b, spec->dtype, "partials", .meaning = "sums of squares",
                                     .length = "count", .readonly = true);
    ptx_val count = ptx_param(b, PTX_U64, "count", .meaning = "partials");
    ptx_val max_norm = ptxk_scalar_param(
        b, PTX_F32, spec->option[OPTION_MAX_NORM],
        (struct ptx_param_info) { .name = "max_norm",
                                  .meaning = "largest norm let through",
                                  .range = PTX_RANGE_NOT_NAN | PTX_RANGE_NOT_NEGATIVE });
    ptx_val eps = ptx_param(b, PTX_F32, "eps", .meaning = "added to the norm before dividing",
                            .preset = "0", .range = PTX_RANGE_FINITE | PTX_RANGE_NOT_NEGATIVE);
    ptx_ptr out = ptx_param_ptr(b, PTX_F32, "out", .meaning = "scale, norm, found_inf",
                                .length = "3", .writeonly = true);

    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val sum = ptx_var(b, ptx_f64(0));
    ptx_for (b, i, ptx_cvt(b, PTX_U64, tid), count, BLOCK) {
        ptx_val partial = ptx_load(b, partials, i);
        ptx_set(b, sum, ptx_add(b, sum, ptx_cvt(b, PTX_F64, partial)));
    }

    ptx_val total = ptxk_block_sum(b, sum, BLOCK);
    ptx_if (b, ptx_eq(b, tid, 0)) {
        ptx_val root = ptx_sqrt(b, total);
        ptx_val norm = ptxk_one_nan(b, ptx_cvt(b, PTX_F32, root));
        ptx_val scale = ptxk_clip_scale(b, total, root, norm, max_norm, eps);
        ptx_val finite = ptx_is_finite(b, total);
        finite = ptx_and(b, finite, ptx_is_finite(b, scale));
        if (spec->option[OPTION_NONFINITE] == PTX_NONFINITE_SKIP)
            scale = ptx_select(b, finite, scale, 1);
        if (spec->option[OPTION_NONFINITE] == PTX_NONFINITE_ZERO)
            scale = ptx_select(b, finite, scale, 0);
        ptx_store(b, out, 0, scale);
        ptx_store(b, out, 1, norm);
        ptx_store(b, out, 2, ptx_select(b, finite, ptx_f32(0), 1));
    }
}

const ptx_kernel ptx_kernel_clip_scale_reduce = {
    .name = "clip_scale_reduce",
    .summary = "sums of squares folded into the clip scale and the norm",
    .formula = "norm = sqrt(sum of partials); scale = min(1, max_norm / (norm + eps)), 1 if the "
               "sum is 0",
    .dtypes = PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F32),
    .options = {
        [OPTION_NONFINITE] = { "nonfinite",
                               { [PTX_NONFINITE_PROPAGATE] = "propagate",[PTX_NONFINITE_SKIP] = "skip",[PTX_NONFINITE_ZERO] = "zero" },
                               "scale for a NaN or infinite sum: NaN or 0 as it comes, 1, or 0" },
        [OPTION_MAX_NORM] = { "max_norm",
                              { "value", "device" },
                              "max_norm passed by value, or by the address of one f32" },
    },
    .grid = PTX_GRID_ONE,
    .block = BLOCK,
    .accumulator = "f64",
    .guarantees = "deterministic; the tree depends on the count alone; found_inf is set under every "
                  "policy",
    .code = &(const struct ptx_kernel_code) { .build = build },
};
