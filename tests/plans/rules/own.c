// SPDX-License-Identifier: MIT
#include "own.h"

#include <string.h>

#include "rules.h"
#include "test.h"

enum { OWN_ADAMW, OWN_ADAM, OWN_SGD, OWN_SGD_MOMENTUM, OWN_SGD_NESTEROV, OWN_LION, OWN_RULES };

static const struct ptx_rule_params *const own_params[OWN_RULES] = {
    &own_adamw_params,        &own_adam_params,         &own_sgd_params,
    &own_sgd_momentum_params, &own_sgd_nesterov_params, &own_lion_params,
};
static ptx_rule *own_rules[OWN_RULES];

void own_rules_create(void)
{
    for (unsigned k = 0; k < OWN_RULES; k++)
        if (!(own_rules[k] = ptx_rule_create(own_params[k])))
            fail_msg("%s", ptx_error_message());
}

void own_rules_destroy(void)
{
    for (unsigned k = 0; k < OWN_RULES; k++)
        ptx_rule_destroy(&own_rules[k]);
}

const ptx_rule *own_rule_of(const struct ptx_step_group *group)
{
    switch (group->rule) {
    case PTX_STEP_RULE_ADAMW:
        return own_rules[OWN_ADAMW];
    case PTX_STEP_RULE_ADAM:
        return own_rules[OWN_ADAM];
    case PTX_STEP_RULE_LION:
        return own_rules[OWN_LION];
    default:
        return own_rules[group->nesterov              ? OWN_SGD_NESTEROV
                         : group->hyper.momentum != 0 ? OWN_SGD_MOMENTUM
                                                      : OWN_SGD];
    }
}

struct ptx_step_group own_group(const struct ptx_step_group *group, const ptx_rule *rule)
{
    const struct ptx_rule_info *info = ptx_rule_get_info(rule);
    struct ptx_step_group own = { .maximize = group->maximize, .own_rule = rule };
    double from[PTX_STEP_MAX_SCALARS], to[PTX_STEP_MAX_SCALARS] = { 0 };

    memcpy(from, &group->hyper, sizeof from);
    for (uint32_t k = 0; k < info->scalars; k++)
        to[info->place[k]] = from[info->place[k]];
    memcpy(&own.hyper, to, sizeof to);
    own.hyper.ema_decay = group->hyper.ema_decay;
    return own;
}

void own_groups(const struct step_set *set, unsigned own, struct ptx_step_group *to)
{
    for (uint32_t g = 0; g < set->groups; g++)
        to[g] =
            own >> g & 1 ? own_group(&set->group[g], own_rule_of(&set->group[g])) : set->group[g];
}
