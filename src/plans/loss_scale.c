// SPDX-License-Identifier: MIT
#include "loss_scale.h"

#include <math.h>

#include "driver/error.h"

static ptx_status refuse(const char *function, const char *name, double value, const char *wanted)
{
    return ptx_driver_fail(PTX_ERROR_INVALID, "%s: %s is %g; it must be %s", function, name, value,
                           wanted);
}

ptx_status ptx_plan_loss_scale_check(const char *function,
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
        return refuse(function, "growth", (double)p.growth, "finite and above 1 (0: 2)");
    if (!(p.backoff > 0 && p.backoff < 1))
        return refuse(function, "backoff", (double)p.backoff, "between 0 and 1 (0: 0.5)");
    if (p.interval < 1)
        return refuse(function, "interval", p.interval, "1 step or more (0: 2000)");
    if (!(p.min_scale >= 0 && isfinite(p.min_scale)))
        return refuse(function, "min_scale", (double)p.min_scale,
                      "finite and above 0 (0: no lower bound)");
    if (!(p.max_scale >= p.min_scale && p.max_scale > 0))
        return refuse(function, "max_scale", (double)p.max_scale,
                      "above 0 and not below min_scale (0: no upper bound)");
    if (p.hysteresis < 1)
        return refuse(function, "hysteresis", p.hysteresis, "1 step or more (0: 1)");
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
    ptx_status status = ptx_plan_loss_scale_check("ptx_loss_scale_step", params, &rule);

    if (status)
        return status;
    if (!state)
        return ptx_driver_fail(PTX_ERROR_INVALID, "ptx_loss_scale_step: state is NULL");
    if (!(state->scale >= 0 && isfinite(state->scale)))
        return refuse("ptx_loss_scale_step", "state->scale", (double)state->scale,
                      "finite and not negative");
    struct ptx_loss_scale_state next =
        found_inf ? after_a_bad_step(*state, &rule) : after_a_good_step(*state, &rule);
    next.scale = next.scale < rule.min_scale ? rule.min_scale : next.scale;
    next.scale = next.scale > rule.max_scale ? rule.max_scale : next.scale;
    *state = next;
    return PTX_OK;
}
