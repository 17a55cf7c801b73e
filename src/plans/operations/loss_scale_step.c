// SPDX-License-Identifier: MIT
// The loss scale on the host.
#include <math.h>

#include <ptxgen/operations.h>

#include "driver/error.h"
#include "plans/loss_scale.h"

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
