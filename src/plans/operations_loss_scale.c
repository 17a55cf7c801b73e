// SPDX-License-Identifier: MIT
#include "operations_loss_scale.h"

#include <math.h>
#include <string.h>

#include "driver/error.h"
#include "operations.h"

static ptx_status refuse(const char *function, const char *of, const char *name, double value,
                         const char *wanted)
{
    return ptxd_fail(PTX_ERROR_INVALID, "%s: %s%s is %g; it must be %s", function, of, name, value,
                     wanted);
}

ptx_status ptxp_loss_scale_check(const char *function, const char *of,
                                 const struct ptx_loss_scale_params *params,
                                 struct ptx_loss_scale_params *filled)
{
    struct ptx_loss_scale_params p = params ? *params : (struct ptx_loss_scale_params) { 0 };

    p.growth = p.growth != 0 ? p.growth : 2;
    p.backoff = p.backoff != 0 ? p.backoff : 0.5f;
    p.interval = p.interval != 0 ? p.interval : 2000;
    p.max_scale = p.max_scale != 0 ? p.max_scale : INFINITY;
    p.hysteresis = p.hysteresis != 0 ? p.hysteresis : 1;
    if (!(p.growth > 1 && isfinite(p.growth)))
        return refuse(function, of, "growth", (double)p.growth, "finite and above 1 (0: 2)");
    if (!(p.backoff > 0 && p.backoff < 1))
        return refuse(function, of, "backoff", (double)p.backoff, "between 0 and 1 (0: 0.5)");
    if (p.interval < 1)
        return refuse(function, of, "interval", p.interval, "1 step or more (0: 2000)");
    if (!(p.min_scale >= 0 && isfinite(p.min_scale)))
        return refuse(function, of, "min_scale", (double)p.min_scale,
                      "finite and above 0 (0: no lower bound)");
    if (!(p.max_scale >= p.min_scale && p.max_scale > 0))
        return refuse(function, of, "max_scale", (double)p.max_scale,
                      "above 0 and not below min_scale (0: no upper bound)");
    if (p.hysteresis < 1)
        return refuse(function, of, "hysteresis", p.hysteresis, "1 step or more (0: 1)");
    *filled = p;
    return PTX_OK;
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
    ptx_status status = ptxp_loss_scale_check("ptx_loss_scale_step", "", params, &rule);

    if (status)
        return status;
    if (!state)
        return ptxd_fail(PTX_ERROR_INVALID, "ptx_loss_scale_step: state is NULL");
    if (!(state->scale >= 0 && isfinite(state->scale)))
        return refuse("ptx_loss_scale_step", "", "state->scale", (double)state->scale,
                      "finite and not negative");
    struct ptx_loss_scale_state next =
        found_inf ? after_a_bad_step(*state, &rule) : after_a_good_step(*state, &rule);
    next.scale = next.scale < rule.min_scale ? rule.min_scale : next.scale;
    next.scale = next.scale > rule.max_scale ? rule.max_scale : next.scale;
    *state = next;
    return PTX_OK;
}

// ---- on the device ------------------------------------------------------------------------------

static const struct plan_call update = { "ptx_loss_scale_update", "ptx_loss_scale_prepare" };
static const struct plan_call prepare = { "ptx_loss_scale_prepare", "ptx_loss_scale_prepare" };

// A call, with the parameters' defaults in place.
struct update {
    CUdeviceptr scale, tracker, found_inf;
    struct ptx_loss_scale_params rule;
};

static size_t values_of(const void *call, struct ptx_named_arg *values)
{
    const struct update *u = call;
    const struct ptx_named_arg all[] = {
        { "scale", PTX_ARG(u->scale) },
        { "growth_tracker", PTX_ARG(u->tracker) },
        { "found_inf", PTX_ARG(u->found_inf) },
        { "growth", PTX_ARG(u->rule.growth) },
        { "backoff", PTX_ARG(u->rule.backoff) },
        { "interval", PTX_ARG(u->rule.interval) },
        { "min_scale", PTX_ARG(u->rule.min_scale) },
        { "max_scale", PTX_ARG(u->rule.max_scale) },
        { "hysteresis", PTX_ARG(u->rule.hysteresis) },
    };
    memcpy(values, all, sizeof all);
    return sizeof all / sizeof *all;
}

const struct plan_operation ptxp_operation_loss_scale = {
    .kernel = &ptx_kernel_loss_scale_update,
    .values = values_of,
};

static struct plan_request request_of(const struct update *call)
{
    return (struct plan_request) {
        .operation = PLAN_loss_scale, .dtype = PTX_F32, .n = 1, .call = call
    };
}

ptx_status ptx_loss_scale_update(ptx_operations *operations, CUdeviceptr state,
                                 CUdeviceptr found_inf, const struct ptx_loss_scale_params *params,
                                 CUstream stream)
{
    const struct plan_span spans[] = {
        { "found_inf", found_inf, 1, PTX_F32, false, false },
        { "state", state, 2, PTX_F32, true, false },
    };
    struct update call = { .scale = state,
                           .tracker = state + offsetof(struct ptx_loss_scale_state, growth_tracker),
                           .found_inf = found_inf };
    ptx_status status = ptxp_check_operations(operations, &update);

    if (!status)
        status = ptxp_loss_scale_check(update.name, "", params, &call.rule);
    if (!status)
        status = ptxp_check_spans(operations, &update, spans, 2);
    if (status)
        return status;
    const struct plan_request request = request_of(&call);
    return ptxp_launch(operations, &update, &request, stream);
}

ptx_status ptx_loss_scale_prepare(ptx_operations *operations)
{
    const struct update call = { 0 };
    const struct plan_request request = request_of(&call);
    ptx_status status = ptxp_check_operations(operations, &prepare);

    return status ? status : ptxp_prepare(operations, &prepare, &request, NULL);
}

ptx_status ptx_loss_scale_describe(const struct ptx_loss_scale_params *params,
                                   struct ptx_operation_description *description)
{
    static const char name[] = "ptx_loss_scale_describe";
    struct ptx_loss_scale_params rule;
    ptx_status status = ptxp_loss_scale_check(name, "", params, &rule);

    if (status)
        return status;
    if (!description)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: description is NULL", name);
    const struct plan_request request = request_of(NULL);
    ptxp_describe(&request, 2 * sizeof(struct ptx_loss_scale_state) + sizeof(float), description);
    return PTX_OK;
}
