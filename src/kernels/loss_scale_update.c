// SPDX-License-Identifier: MIT
#include "common/common.h"
#include "common/loss_scale.h"
#include "kernel_code.h"

static ptx_val float_param(ptx_builder *b, const char *name, const char *meaning,
                           const char *preset, unsigned range)
{
    return ptx_param(b, PTX_F32, name, .meaning = meaning, .preset = preset,
                     .range = (uint8_t)range);
}

static ptx_val step_param(ptx_builder *b, const char *name, const char *meaning, const char *preset)
{
    return ptx_param(b, PTX_S32, name, .meaning = meaning, .preset = preset, .low = "1");
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    const ptx_type type = spec->dtype;
    ptx_ptr scale = ptx_param_ptr(b, type, "scale", .meaning = "of the loss", .length = "1");
    ptx_ptr tracker =
        ptx_param_ptr(b, PTX_S32, "growth_tracker",
                      .meaning = "good steps in a row; below 0: bad ones", .length = "1");
    ptx_ptr found_inf =
        ptx_param_ptr(b, PTX_F32, "found_inf", .meaning = "0 if everything was finite",
                      .length = "1", .readonly = true);
    struct loss_scale_rule rule;
    rule.growth = float_param(b, "growth", "above 1", "2", PTX_RANGE_FINITE | PTX_RANGE_POSITIVE);
    rule.backoff =
        float_param(b, "backoff", "between 0 and 1", "0.5", PTX_RANGE_FINITE | PTX_RANGE_POSITIVE);
    rule.interval = step_param(b, "interval", "good steps before the scale grows", "2000");
    rule.min_scale =
        float_param(b, "min_scale", "lower bound", "0", PTX_RANGE_FINITE | PTX_RANGE_NOT_NEGATIVE);
    rule.max_scale =
        float_param(b, "max_scale", "upper bound", "inf", PTX_RANGE_NOT_NAN | PTX_RANGE_POSITIVE);
    rule.hysteresis = step_param(b, "hysteresis", "bad steps before the scale backs off", "1");

    ptx_val found = ptx_neu(b, ptx_load(b, found_inf, 0), 0);
    ptxk_update_loss_scale_parts(b, scale, tracker, found, &rule);
}

const ptx_kernel ptx_kernel_loss_scale_update = {
    .name = "loss_scale_update",
    .summary = "a dynamic loss scale after a step",
    .formula = "found_inf: scale *= backoff; interval steps without: scale *= growth",
    .dtypes = PTX_TYPE_BIT(F32),
    .grid = PTX_GRID_ONE,
    .block = 1,
    .guarantees = "deterministic; the same bits as ptx_loss_scale_step()",
    .code = &(const struct ptx_kernel_code) { .build = build },
};
