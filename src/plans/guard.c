// SPDX-License-Identifier: MIT
// The guards of plans: their parameters, and the state that the caller gives.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "driver/error.h"
#include "norm_plan.h"

enum { LEAST_LENGTH = 6, MOST_LENGTH = 65536 };

// ---- parameters ---------------------------------------------------------------------------------

static ptx_status refuse(const char *name, double x, const char *must)
{
    return ptxd_fail(PTX_ERROR_INVALID, "guards.%s is %g; it must be %s", name, x, must);
}

// *x is to be finite and above 0; 0 means `preset`.
static ptx_status take_positive(const char *name, double x, double preset, double *to)
{
    *to = x != 0 ? x : preset;
    return *to > 0 && isfinite(*to) ? PTX_OK
                                    : refuse(name, x, "finite and above 0 (0: the default)");
}

static ptx_status take_share(const char *name, double x, double preset, double *to)
{
    *to = x != 0 ? x : preset;
    return *to > 0 && *to < 1 ? PTX_OK : refuse(name, x, "above 0 and below 1 (0: the default)");
}

// Fields of a rule that there is not: `without` is what the caller left 0.
static ptx_status refuse_without(const char *rule, const char *without)
{
    return ptxd_fail(PTX_ERROR_INVALID,
                     "guards.%s has fields that are not 0, and its %s is 0, which means no such "
                     "guard: give it a %s",
                     rule, without, without);
}

static ptx_status take_history(const struct ptx_guard_history_params *h, uint32_t groups,
                               struct norm_layout *layout)
{
    struct norm_guard_rule *rule = &layout->guard_scalars;

    if (!h->length && h->loss_at)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "guards.history has a loss_at, and its length is 0: give a length of %d "
                         "or more (OLMo-core has 128)",
                         LEAST_LENGTH);
    if (!h->length)
        return h->deviations != 0 || h->most_skips || h->one_group || h->group
                   ? refuse_without("history", "length")
                   : PTX_OK;
    if (h->length < LEAST_LENGTH || h->length > MOST_LENGTH)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "guards.history.length is %" PRIu32 "; it must be %d to %d%s", h->length,
                         LEAST_LENGTH, MOST_LENGTH,
                         h->length > MOST_LENGTH ? ""
                                                 : ": the first step of a shorter one would be "
                                                   "judged by one value");
    if (h->group && !h->one_group)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "guards.history.group is %" PRIu32 ", and one_group is not set: the norm "
                         "would be that of all groups",
                         h->group);
    if (h->one_group && h->group >= groups)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "guards.history.group is %" PRIu32 "; there are groups 0 to %" PRIu32,
                         h->group, groups - 1);
    rule->length = h->length;
    rule->most_skips = h->most_skips;
    rule->group = h->group;
    layout->spec.guards |= NORM_GUARD_HISTORY | (h->loss_at ? NORM_GUARD_LOSS : 0) |
                           (h->most_skips ? NORM_GUARD_MOST_SKIPS : 0) |
                           (h->one_group ? NORM_GUARD_ONE_GROUP : 0);
    return take_positive("history.deviations", h->deviations, 6, &rule->deviations);
}

static ptx_status take_zclip(const struct ptx_guard_zclip_params *z, struct norm_layout *layout)
{
    struct norm_guard_rule *rule = &layout->guard_scalars;
    ptx_status status;

    if (!z->warmup)
        return z->alpha != 0 || z->z_most != 0 ? refuse_without("zclip", "warmup") : PTX_OK;
    layout->spec.guards |= NORM_GUARD_ZCLIP;
    rule->warmup = z->warmup;
    status = take_share("zclip.alpha", z->alpha, 0.97, &rule->alpha);
    return status ? status : take_positive("zclip.z_most", z->z_most, 2.5, &rule->z_most);
}

static ptx_status take_adagc(const struct ptx_guard_adagc_params *a, struct norm_layout *layout)
{
    struct norm_guard_rule *rule = &layout->guard_scalars;
    ptx_status status;

    if (!a->warmup)
        return a->lambda_abs != 0 || a->lambda_rel != 0 || a->beta != 0
                   ? refuse_without("adagc", "warmup")
                   : PTX_OK;
    layout->spec.guards |= NORM_GUARD_ADAGC;
    rule->warmup = a->warmup;
    status = take_positive("adagc.lambda_abs", a->lambda_abs, 1, &rule->lambda_abs);
    if (!status)
        status = take_positive("adagc.lambda_rel", a->lambda_rel, 1.05, &rule->lambda_rel);
    return status ? status : take_share("adagc.beta", a->beta, 0.98, &rule->beta);
}

static ptx_status take_rules(const struct ptx_guard_params *guards, uint32_t groups,
                             struct norm_layout *layout)
{
    ptx_status status = PTX_OK;

    layout->spec.guards = NORM_GUARD_ANY |
                          (guards->limits_at    ? NORM_GUARD_LIMITS_AT
                           : guards->limit != 0 ? NORM_GUARD_LIMIT
                                                : 0) |
                          (guards->skip_at ? NORM_GUARD_SKIP_AT : 0);
    layout->guard_scalars.limit = guards->limit;
    if (!(guards->limit >= 0))
        status = refuse("limit", (double)guards->limit, "above 0 (0: no limit)");
    if (!status && guards->zclip.warmup && guards->adagc.warmup)
        status = ptxd_fail(PTX_ERROR_INVALID, "guards has zclip and adagc: give one of them");
    if (!status)
        status = take_history(&guards->history, groups, layout);
    if (!status)
        status = take_zclip(&guards->zclip, layout);
    return status ? status : take_adagc(&guards->adagc, layout);
}

// The first state, its bytes, and where the groups' records are in it.
static void lay_out_state(struct norm_layout *layout, uint32_t groups)
{
    struct norm_guard_rule *rule = &layout->guard_scalars;
    const uint32_t guards = layout->spec.guards;
    const uint64_t rings = !rule->length ? 0 : guards & NORM_GUARD_LOSS ? 2 : 1;
    const uint32_t kind = guards & NORM_GUARD_ZCLIP   ? PTX_GUARD_RULE_ZCLIP
                          : guards & NORM_GUARD_ADAGC ? PTX_GUARD_RULE_ADAGC
                                                      : PTX_GUARD_RULE_NONE;
    const uint64_t floats = sizeof(struct ptx_guard_state) / sizeof(float) + rings * rule->length;

    rule->records = (uint32_t)((floats + 1) / 2);
    rule->belongs = (struct norm_guard_belongs) { .version = PTX_GUARD_STATE_VERSION,
                                                  .length = rule->length,
                                                  .groups = kind ? groups : 0,
                                                  .kinds = kind | (rings == 2 ? 4 : 0) };
    layout->guard_bytes = rule->records * sizeof(double) +
                          (uint64_t)rule->belongs.groups * sizeof(struct ptx_guard_record);
}

ptx_status ptxp_norm_guards_lay_out(const struct ptx_guard_params *guards, uint32_t groups,
                                    struct norm_layout *layout)
{
    const ptx_status status = take_rules(guards, groups, layout);

    if (status)
        return status;
    lay_out_state(layout, groups);
    if (guards->state && guards->state_bytes < layout->guard_bytes)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "guards.state has %" PRIu64 " bytes, and these guards need %" PRIu64
                         ", as ptx_guard_state_bytes() says",
                         guards->state_bytes, layout->guard_bytes);
    return PTX_OK;
}

uint64_t ptx_guard_state_bytes(const struct ptx_guard_params *guards, uint32_t groups)
{
    struct norm_layout layout = { 0 };
    ptx_status status = PTX_OK;

    if (!guards)
        status = ptxd_fail(PTX_ERROR_INVALID, "guards is NULL");
    else if (groups < 1 || groups > PTX_CLIP_MAX_TENSORS)
        status = ptxd_fail(PTX_ERROR_INVALID, "groups is %" PRIu32 "; a plan has 1 to %d", groups,
                           PTX_CLIP_MAX_TENSORS);
    else
        status = take_rules(guards, groups, &layout);
    if (!status)
        lay_out_state(&layout, groups);
    return ptxd_named(status, __func__) ? 0 : layout.guard_bytes;
}

bool ptxp_norm_guards_measure(const struct ptx_guard_params *guards)
{
    return guards && (guards->limit != 0 || guards->limits_at || guards->history.length ||
                      guards->zclip.warmup || guards->adagc.warmup);
}

// ---- the state ----------------------------------------------------------------------------------

static ptx_status refuse_state(const struct norm_guard_belongs *is,
                               const struct norm_guard_belongs *must)
{
    if (is->version != must->version)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "guards.state is of version %" PRIu32 ", or no state at all; this library "
                         "has version %" PRIu32 ": an empty state is zeros",
                         is->version, must->version);
    if (is->length != must->length)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "guards.state is that of a history of length %" PRIu32
                         ", and history.length is %" PRIu32 ": give that length, or an empty "
                         "state, which is zeros",
                         is->length, must->length);
    return ptxd_fail(PTX_ERROR_INVALID,
                     "guards.state is that of other guards: it has rule %" PRIu32 " of %" PRIu32
                     " groups%s, and the plan rule %" PRIu32 " of %" PRIu32
                     "%s (1: zclip, 2: adagc): an empty state is zeros",
                     is->kinds & 3, is->groups, is->kinds & 4 ? " and losses" : "", must->kinds & 3,
                     must->groups, must->kinds & 4 ? " and losses" : "");
}

ptx_status ptxp_norm_guards_check_state(struct norm_plan *plan)
{
    static const struct norm_guard_belongs empty;
    const struct norm_guard_belongs *must = &plan->layout.guard_scalars.belongs;
    const CUstream stream = plan->params.stream;
    struct norm_guard_belongs is;
    ptx_status status;

    if (!plan->layout.guard_bytes || !plan->guards.state)
        return PTX_OK;
    status = ptx_address_download(plan->device, plan->guards.state, &is, sizeof is, stream);
    if (!status)
        status = ptx_stream_synchronize(plan->device, stream);
    if (status || memcmp(&is, &empty, sizeof is) == 0 || memcmp(&is, must, sizeof is) == 0)
        return status;
    return refuse_state(&is, must);
}
