// SPDX-License-Identifier: MIT
#include "driver/error.h"
#include "loss_scale.h"
#include "operations.h"

static const struct plan_call update = { "ptx_loss_scale_update", "ptx_loss_scale_prepare" };
static const struct plan_call prepare = { "ptx_loss_scale_prepare", "ptx_loss_scale_prepare" };

static const struct ptx_kernel_spec spec = { .dtype = PTX_F32 };

ptx_status ptx_loss_scale_update(ptx_operations *operations, CUdeviceptr state,
                                 CUdeviceptr found_inf, const struct ptx_loss_scale_params *params,
                                 CUstream stream)
{
    const struct plan_span spans[] = {
        { "found_inf", found_inf, 1, PTX_F32, false, false },
        { "state", state, 2, PTX_F32, true, false },
    };
    const CUdeviceptr tracker = state + offsetof(struct ptx_loss_scale_state, growth_tracker);
    struct ptx_loss_scale_params rule;
    ptx_status status = ptxp_check_operations(operations, &update);

    if (!status)
        status = ptx_plan_loss_scale_check(update.name, params, &rule);
    if (!status)
        status = ptxp_check_spans(operations, &update, spans, 2);
    if (status)
        return status;
    const struct ptx_arg args[] = {
        PTX_ARG(state),          PTX_ARG(tracker),        PTX_ARG(found_inf),
        PTX_ARG(rule.growth),    PTX_ARG(rule.backoff),   PTX_ARG(rule.interval),
        PTX_ARG(rule.min_scale), PTX_ARG(rule.max_scale), PTX_ARG(rule.hysteresis),
    };
    return ptxp_launch(operations, &update, PLAN_loss_scale_update, &spec, 1, args, 9, stream);
}

ptx_status ptx_loss_scale_prepare(ptx_operations *operations)
{
    ptx_function *function;
    ptx_status status = ptxp_check_operations(operations, &prepare);

    return status ? status
                  : ptxp_function(operations, &prepare, PLAN_loss_scale_update, &spec, NULL,
                                  &function);
}

ptx_status ptx_loss_scale_describe(const struct ptx_loss_scale_params *params,
                                   struct ptx_operation_description *description)
{
    static const char name[] = "ptx_loss_scale_describe";
    struct ptx_loss_scale_params rule;
    ptx_status status = ptx_plan_loss_scale_check(name, params, &rule);

    if (status)
        return status;
    if (!description)
        return ptx_driver_fail(PTX_ERROR_INVALID, "%s: description is NULL", name);
    ptxp_describe(PLAN_loss_scale_update, &spec, 1,
                  2 * sizeof(struct ptx_loss_scale_state) + sizeof(float), description);
    return PTX_OK;
}
