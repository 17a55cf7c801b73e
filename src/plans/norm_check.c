// SPDX-License-Identifier: MIT
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "driver/error.h"
#include "norm_plan.h"

static bool is_gradient_type(ptx_type dtype)
{
    return ptxk_norm_dtype_code(dtype) < NORM_DTYPE_COUNT;
}

static ptx_status check_tensor(const struct norm_params *params, size_t t)
{
    const struct ptx_clip_tensor *tensor = &params->tensors[t];

    if (!is_gradient_type(tensor->dtype))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: its dtype is %s; it must be f32, f64, f16 or bf16", t,
                         ptxp_type_text(tensor->dtype, (char[TYPE_TEXT_SIZE]) { 0 }));
    if (tensor->count > PTX_CLIP_MAX_ELEMENTS)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: %" PRIu64 " elements; a plan takes 2^40 in all", t,
                         tensor->count);
    if (params->group_count ? tensor->group >= params->group_count
                            : tensor->group >= PTX_CLIP_MAX_TENSORS)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: its group is %" PRIu32 "; there are groups 0 to %" PRIu32, t,
                         tensor->group,
                         params->group_count ? params->group_count - 1
                                             : (uint32_t)PTX_CLIP_MAX_TENSORS - 1);
    if (!(tensor->weight >= 0.0) || isinf(tensor->weight))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: its weight is %g; it must be finite and not negative", t,
                         tensor->weight);
    if (tensor->uncounted && tensor->weight != 0.0)
        return ptxd_fail(
            PTX_ERROR_INVALID,
            "tensor %zu: uncounted is set, and its weight is %g: a tensor takes one of them", t,
            tensor->weight);
    return PTX_OK;
}

static ptx_status check_caller_arrays(const struct norm_params *params, uint32_t groups)
{
    struct plan_array arrays[NORM_CALLER_ARRAYS];
    const size_t count = ptxp_norm_caller_arrays(params, groups, arrays);

    for (size_t k = 0; k < count; k++)
        if (arrays[k].at % arrays[k].bytes)
            return ptxd_fail(PTX_ERROR_INVALID, "%s is 0x%llx; it must be a multiple of %u",
                             arrays[k].field, (unsigned long long)arrays[k].at, arrays[k].bytes);
    if (params->sum_row >= (params->sum_rows ? params->sum_rows : 1))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "sum_row is %" PRIu32 "; there are sum_rows 0 to %" PRIu32,
                         params->sum_row, params->sum_rows ? params->sum_rows - 1 : 0);
    if (params->sum_rows > PTX_CLIP_MAX_TENSORS / groups)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%" PRIu32 " sum_rows of %" PRIu32 " groups; a plan takes %d sums in all",
                         params->sum_rows, groups, PTX_CLIP_MAX_TENSORS);
    if (params->loss_scale_at && (params->loss_scale_state || params->update))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "loss_scale_at is given, which is only read, and %s too: give one of them",
                         params->update ? "update" : "loss_scale_state");
    return PTX_OK;
}

ptx_status ptxp_norm_check_max_norm(const char *name, float max_norm)
{
    if (max_norm >= 0.0f)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s is %g; it must be 0 or more, and not NaN (INFINITY: no clipping)", name,
                     (double)max_norm);
}

static ptx_status check_scalars(const struct norm_params *params, uint32_t groups)
{
    ptx_status status = PTX_OK;

    if (!params->group_max_norms)
        status = ptxp_norm_check_max_norm("max_norm", params->max_norm);
    if (!status && !params->group_max_norms && !params->max_norms_at && params->max_norm == 0.0f)
        status = ptxd_fail(PTX_ERROR_INVALID,
                           "max_norm is 0, as where it is left out, and would make every gradient "
                           "0: give the largest norm, or INFINITY for no clipping; if 0 is meant, "
                           "give it in group_max_norms");
    for (uint32_t g = 0; params->group_max_norms && g < groups && !status; g++) {
        char name[64];
        snprintf(name, sizeof name, "group_max_norms[%" PRIu32 "]", g);
        status = ptxp_norm_check_max_norm(name, params->group_max_norms[g]);
    }
    if (status)
        return status;
    if (!(params->eps >= 0.0f) || isinf(params->eps))
        return ptxd_fail(PTX_ERROR_INVALID, "eps is %g; it must be finite and not negative",
                         (double)params->eps);
    if ((unsigned)params->nonfinite > PTX_NONFINITE_ZERO)
        return ptxd_fail(PTX_ERROR_INVALID, "nonfinite is %d; there are %d to %d",
                         (int)params->nonfinite, PTX_NONFINITE_PROPAGATE, PTX_NONFINITE_ZERO);
    if (params->loss_scale != 0.0f)
        status = ptxp_norm_check_loss_scale(params->loss_scale);
    return status ? status : check_caller_arrays(params, groups);
}

ptx_status ptxp_norm_check_loss_scale(float scale)
{
    if (scale > 0.0f && isfinite(scale))
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID, "loss_scale is %g; it must be finite and above 0",
                     (double)scale);
}

ptx_status ptxp_norm_check_params(const struct norm_params *params)
{
    uint32_t groups;
    uint64_t elements = 0;

    if (params->tensor_count && !params->tensors)
        return ptxd_fail(PTX_ERROR_INVALID, "tensors is NULL, and tensor_count is %zu",
                         params->tensor_count);
    if (params->tensor_count > PTX_CLIP_MAX_TENSORS || params->group_count > PTX_CLIP_MAX_TENSORS)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%zu tensors in %" PRIu32 " groups; a plan takes %d of each",
                         params->tensor_count, params->group_count, PTX_CLIP_MAX_TENSORS);
    groups = params->group_count ? params->group_count : 1;
    for (size_t t = 0; t < params->tensor_count; t++) {
        const ptx_status status = check_tensor(params, t);
        if (status)
            return status;
        elements += params->tensors[t].count;
        if (elements > PTX_CLIP_MAX_ELEMENTS)
            return ptxd_fail(PTX_ERROR_INVALID,
                             "tensor %zu brings the elements to %" PRIu64 "; a plan takes 2^40", t,
                             elements);
        if (params->tensors[t].group >= groups)
            groups = params->tensors[t].group + 1;
    }
    return check_scalars(params, groups);
}

ptx_status ptxp_norm_out_of_host_memory(const struct norm_hooks *hooks)
{
    return ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for a %s", hooks->name);
}

size_t ptxp_norm_caller_arrays(const struct norm_params *params, uint32_t groups,
                               struct plan_array arrays[NORM_CALLER_ARRAYS])
{
    static const struct ptx_guard_params none;
    const struct ptx_guard_params *guards = params->guards ? params->guards : &none;
    const uint64_t sums = (uint64_t)groups * (params->sum_rows ? params->sum_rows : 1);
    const struct plan_array all[NORM_CALLER_ARRAYS] = {
        { params->max_norms_at, groups, 4, .field = "max_norms_at", .read_only = true },
        { params->loss_scale_state, 2, 4, .field = "loss_scale_state" },
        { params->loss_scale_at, 1, 4, .field = "loss_scale_at", .read_only = true },
        { params->found_inf_at, 1, 4, .field = "found_inf_at", .read_only = true },
        { params->found_inf_to, 1, 4, .field = "found_inf_to" },
        { params->sums_at, sums, 8, .field = "sums_at" },
        { params->reports_at, 4 * (uint64_t)params->tensor_count, 8, .field = "reports_at" },
        { guards->limits_at, groups, 4, .field = "guards.limits_at", .read_only = true },
        { guards->skip_at, 1, 4, .field = "guards.skip_at", .read_only = true },
        { guards->history.loss_at, 1, 4, .field = "guards.history.loss_at", .read_only = true },
        { guards->state, guards->state_bytes / 8, 8, .field = "guards.state", .in_bytes = true },
    };
    size_t count = 0;

    for (size_t k = 0; k < NORM_CALLER_ARRAYS; k++) {
        if (!all[k].at)
            continue;
        arrays[count] = all[k];
        arrays[count].tensor = ARRAY_OF_PLAN;
        arrays[count++].effect = "the plan would overwrite the one with the other";
    }
    return count;
}
