// SPDX-License-Identifier: MIT
#include "clip_plan.h"
#include "driver/error.h"
#include "loss_scale.h"

ptx_status ptx_clip_describe(const struct ptx_clip_params *params,
                             struct ptx_clip_description *description)
{
    struct ptx_loss_scale_params rule;
    struct clip_layout layout;
    ptx_status status = ptxp_clip_check_params(params);

    if (!status && !description)
        status = ptxd_fail(PTX_ERROR_INVALID, "ptx_clip_describe: description is NULL");
    if (!status)
        status = ptxp_loss_scale_check("ptx_clip_describe", params->update, &rule);
    if (!status)
        status = ptxp_clip_layout_create(params, &layout);
    if (status)
        return status;
    *description = (struct ptx_clip_description) {
        .elements = layout.element_count,
        .groups = layout.group_count,
        .chunk = layout.chunk,
        .chunks = layout.chunk_count,
        .launches = params->measure_only || ptxp_clip_is_fused(params, &layout) ? 2 : 3,
        .bytes_measured = layout.gradient_bytes,
        .bytes_clipped = (params->measure_only ? 1 : 3) * layout.gradient_bytes,
        .workspace = layout.bytes,
        .accumulator = "f64",
        .determinism = "the same bits on every GPU, at any alignment, in any launch form; sums are "
                       "trees that depend on the tensors' sizes, types, groups and order alone",
    };
    return PTX_OK;
}
