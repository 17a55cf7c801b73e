// SPDX-License-Identifier: MIT
/// The plan "step": of one tensor, for a rule and a format.
#include "plan_text.h"

#include <ptxgen/step.h>

enum { RULE, FORMAT, GRADIENT, GRADIENTS, MAXIMIZE, MOMENTUM, NESTEROV, EMA, FP8, AMAX };

enum { COLUMNS = 1 << 10 };

_Static_assert(PTX_STEP_RULE_COUNT == 5, "a value for each");

static ptx_status write_step(ptx_builder *b, const unsigned *chosen, ptx_type dtype,
                             struct plan_facts *facts)
{
    static const ptx_type gradients[] = { PTX_NONE, PTX_F32, PTX_F16, PTX_BF16 };
    static const ptx_type averages[] = { PTX_NONE, PTX_F32, PTX_BF16 };
    const ptx_step_format format = (ptx_step_format)chosen[FORMAT];
    const ptx_type usual =
        format == PTX_STEP_FORMAT_FULL || format == PTX_STEP_FORMAT_STATE_BF16 ? PTX_F32 : PTX_BF16;
    const struct ptx_step_tensor tensor = {
        .count = PLAN_ELEMENTS,
        .dtype = dtype != PTX_NONE ? dtype : usual,
        .gradient_dtype = gradients[chosen[GRADIENT]],
        .format = format,
        .ema_dtype = averages[chosen[EMA]],
        .amax = chosen[AMAX] ? sizeof(float) : 0,
        .fp8 = chosen[FP8] ? sizeof(float) : 0,
        .fp8_scale = chosen[FP8] ? sizeof(float) : 0,
        .fp8_format = chosen[FP8] == 2 ? PTX_FP8_E5M2 : PTX_FP8_E4M3,
        .columns = COLUMNS,
    };
    const struct ptx_step_group group = {
        .rule = (ptx_step_rule)chosen[RULE],
        .maximize = chosen[MAXIMIZE],
        .nesterov = chosen[NESTEROV],
        .hyper = { .lr = 0.001,
                   .beta1 = 0.9,
                   .beta2 = 0.999,
                   .eps = 1e-8,
                   .momentum = chosen[MOMENTUM] ? 0 : 0.9,
                   .ema_decay = chosen[EMA] ? 0.999 : 0 },
    };
    const struct ptx_step_params params = {
        .tensors = &tensor,
        .tensor_count = 1,
        .groups = &group,
        .group_count = 1,
        .max_norm = 1.0f,
        .gradients = (ptx_step_gradients)chosen[GRADIENTS],
    };
    struct ptx_step_description d;
    const ptx_status status = ptx_step_describe(&params, &d);
    if (status != PTX_OK)
        return status;
    *facts = (struct plan_facts) { tensor.dtype, d.launches, d.bytes, d.determinism };
    return b ? (ptx_step_emit)(b, &params) : PTX_OK;
}

// The values of an option are in the order of its enumeration.
const struct plan_text plan_step = {
    .name = "step",
    .summary = "a plan: norm, clip, the optimizer's step and the loss scale",
    .tensor = "parameter",
    .options = {
        [RULE] = { "rule", "the optimizer's", { "adamw", "adam", "sgd", "lion", "muon" } },
        [FORMAT] = { "format",
                     "of parameter and states",
                     {
#define FORMAT_NAME(enumerator, name, state, beside) #name,
                         PTX_STEP_FORMATS(FORMAT_NAME)
#undef FORMAT_NAME
                     } },
        [GRADIENT] = { "gradient", "type; same: the parameter's", { "same", "f32", "f16", "bf16" } },
        [GRADIENTS] = { "gradients", "what the step does with them", { "raw", "write", "zero" } },
        [MAXIMIZE] = { "maximize", "steps along +g", { "no", "yes" } },
        [MOMENTUM] = { "momentum", "of sgd", { "yes", "no" } },
        [NESTEROV] = { "nesterov", "of muon, and sgd with momentum", { "no", "yes" } },
        [EMA] = { "ema", "average of the weights, by its type", { "no", "f32", "bf16" } },
        [FP8] = { "fp8", "copy of the weights in 8 bits", { "no", "e4m3", "e5m2" } },
        [AMAX] = { "amax", "the largest weight is wanted", { "no", "yes" } },
    },
    .write = write_step,
};
