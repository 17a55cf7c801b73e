// SPDX-License-Identifier: MIT
// The functions of operations.h.
#include <math.h>

#include "driver/error.h"
#include "engine.h"
#include "plans/loss_scale.h"

#define PLAN_FUNCTIONS(name, stem, run)                                                            \
    ptx_status run(ptx_operations *operations, const struct stem##_params *params,                 \
                   CUstream stream)                                                                \
    {                                                                                              \
        return ptxp_operation_run(operations, PLAN_##name, params, stream);                        \
    }                                                                                              \
    ptx_status stem##_prepare(ptx_operations *operations, const struct stem##_params *params)      \
    {                                                                                              \
        return ptxp_operation_prepare(operations, PLAN_##name, params);                            \
    }                                                                                              \
    ptx_status stem##_describe(const struct stem##_params *params,                                 \
                               struct ptx_operation_description *description)                      \
    {                                                                                              \
        return ptxp_operation_describe(PLAN_##name, params, description);                          \
    }
PLAN_TYPED_OPERATIONS(PLAN_FUNCTIONS)

ptx_status ptx_loss_scale_update(ptx_operations *operations, CUdeviceptr state,
                                 CUdeviceptr found_inf, const struct ptx_loss_scale_params *params,
                                 CUstream stream)
{
    struct plan_loss_scale_params all = { .state = state, .found_inf = found_inf };

    if (params)
        all.rule = *params;
    return ptxp_operation_run(operations, PLAN_loss_scale, &all, stream);
}

ptx_status ptx_loss_scale_prepare(ptx_operations *operations)
{
    return ptxp_operation_prepare(operations, PLAN_loss_scale,
                                  &(struct plan_loss_scale_params) { .state = 0 });
}

ptx_status ptx_loss_scale_describe(const struct ptx_loss_scale_params *params,
                                   struct ptx_operation_description *description)
{
    struct plan_loss_scale_params all = { .state = 0 };

    if (params)
        all.rule = *params;
    return ptxp_operation_describe(PLAN_loss_scale, &all, description);
}

static struct ptx_loss_scale_state after_a_bad_step(struct ptx_loss_scale_state state,
                                                    const struct ptx_loss_scale_params *rule)
{
    const int32_t bad = state.growth_tracker < 0 ? state.growth_tracker : 0;

    if (bad > 1 - rule->hysteresis)
        return (struct ptx_loss_scale_state) { state.scale, bad - 1 };
    return (struct ptx_loss_scale_state) { state.scale * rule->backoff, 0 };
}

static struct ptx_loss_scale_state after_a_good_step(struct ptx_loss_scale_state state,
                                                     const struct ptx_loss_scale_params *rule)
{
    const int32_t good = state.growth_tracker > 0 ? state.growth_tracker : 0;
    const float larger = state.scale * rule->growth;

    if (good < rule->interval - 1)
        return (struct ptx_loss_scale_state) { state.scale, good + 1 };
    return (struct ptx_loss_scale_state) { isfinite(larger) ? larger : state.scale, 0 };
}

ptx_status ptx_loss_scale_step(struct ptx_loss_scale_state *state, bool found_inf,
                               const struct ptx_loss_scale_params *params)
{
    struct ptx_loss_scale_params rule = { 0 };
    ptx_status status = ptxd_named(ptxp_loss_scale_check("", params, &rule), __func__);

    if (status)
        return status;
    if (!state)
        return ptxd_fail(PTX_ERROR_INVALID, "ptx_loss_scale_step: state is NULL");
    if (!(state->scale >= 0 && isfinite(state->scale)))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "ptx_loss_scale_step: state->scale is %g; it must be finite and not "
                         "negative",
                         (double)state->scale);
    struct ptx_loss_scale_state next =
        found_inf ? after_a_bad_step(*state, &rule) : after_a_good_step(*state, &rule);
    next.scale = next.scale < rule.min_scale ? rule.min_scale : next.scale;
    next.scale = next.scale > rule.max_scale ? rule.max_scale : next.scale;
    *state = next;
    return PTX_OK;
}
