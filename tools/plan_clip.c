// SPDX-License-Identifier: MIT
/// The plan "clip": of one gradient.
#include "plan_text.h"

#include <ptxgen/clip.h>

enum { NONFINITE, LOSS_SCALE, GRADIENTS, REPORTS };

static ptx_status write_clip(ptx_builder *b, const unsigned *chosen, ptx_type dtype,
                             struct plan_facts *facts)
{
    static const struct ptx_loss_scale_params update;
    const struct ptx_clip_tensor tensor = {
        .count = PLAN_ELEMENTS,
        .dtype = dtype != PTX_NONE ? dtype : PTX_F32,
    };
    const struct ptx_clip_params params = {
        .tensors = &tensor,
        .tensor_count = 1,
        .max_norm = 1.0f,
        .loss_scale_at = chosen[LOSS_SCALE] == 1 ? sizeof(float) : 0,
        .update = chosen[LOSS_SCALE] == 2 ? &update : NULL,
        .reports_at = chosen[REPORTS] ? sizeof(double) : 0,
        .nonfinite = (ptx_nonfinite)chosen[NONFINITE],
        .measure_only = chosen[GRADIENTS],
    };
    struct ptx_clip_description d;
    const ptx_status status = ptx_clip_describe(&params, &d);
    if (status != PTX_OK)
        return status;
    *facts = (struct plan_facts) { tensor.dtype, d.launches,
                                   chosen[GRADIENTS] ? d.bytes_measured : d.bytes_clipped,
                                   d.determinism };
    return b ? (ptx_clip_emit)(b, &params) : PTX_OK;
}

// The values of an option are in the order of its enumeration.
const struct plan_text plan_clip = {
    .name = "clip",
    .summary = "a plan: norm, clip and the loss scale",
    .tensor = "gradient",
    .options = {
        [NONFINITE] = { "nonfinite", "what is written if something is NaN or infinite", { "propagate", "skip", "zero" } },
        [LOSS_SCALE] = { "loss_scale", "read from the device, or updated by the plan",
                         { "no", "read", "update" } },
        [GRADIENTS] = { "gradients", "what a run does with them", { "write", "raw" } },
        [REPORTS] = { "reports", "a row of figures for each tensor", { "no", "yes" } },
    },
    .write = write_clip,
};
