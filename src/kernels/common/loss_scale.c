// SPDX-License-Identifier: MIT
#include "loss_scale.h"

static void after_a_bad_step(ptx_builder *b, ptx_val scale, ptx_val tracker,
                             const struct loss_scale_rule *rule)
{
    ptx_val smaller = ptx_mul(b, scale, rule->backoff);

    if (rule->hysteresis.kind == PTX_KIND_POISON) {
        ptx_set(b, scale, smaller);
        ptx_set(b, tracker, 0);
        return;
    }
    ptx_comment(b, "bad steps are counted below zero");
    ptx_val bad = ptx_min(b, tracker, 0);
    ptx_val limit = ptx_sub(b, 1, rule->hysteresis);
    ptx_val enough = ptx_le(b, bad, limit);
    ptx_set(b, scale, ptx_select(b, enough, smaller, scale));
    ptx_val more = ptx_sub(b, bad, 1);
    ptx_set(b, tracker, ptx_select(b, enough, 0, more));
}

static void after_a_good_step(ptx_builder *b, ptx_val scale, ptx_val tracker,
                              const struct loss_scale_rule *rule)
{
    ptx_val good = ptx_max(b, tracker, 0);
    ptx_val limit = ptx_sub(b, rule->interval, 1);
    ptx_val enough = ptx_ge(b, good, limit);
    ptx_val larger = ptx_mul(b, scale, rule->growth);
    ptx_val grows = ptx_and(b, enough, ptx_is_finite(b, larger));

    ptx_set(b, scale, ptx_select(b, grows, larger, scale));
    ptx_val more = ptx_add(b, good, 1);
    ptx_set(b, tracker, ptx_select(b, enough, 0, more));
}

void ptxk_update_loss_scale(ptx_builder *b, ptx_ptr state, ptx_val found,
                            const struct loss_scale_rule *rule)
{
    ptx_ptr scale = ptx_ptr_cast(b, PTX_F32, state);
    ptx_ptr tracker = ptx_at(b, ptx_ptr_cast(b, PTX_S32, state), 1);

    ptxk_update_loss_scale_parts(b, scale, tracker, found, rule);
}

void ptxk_update_loss_scale_parts(ptx_builder *b, ptx_ptr scale_at, ptx_ptr tracker_at,
                                  ptx_val found, const struct loss_scale_rule *rule)
{
    ptx_val scale = ptx_var(b, ptx_load(b, scale_at, 0));
    ptx_val tracker = ptx_var(b, ptx_load(b, tracker_at, 0));

    ptx_if (b, found)
        after_a_bad_step(b, scale, tracker, rule);
    ptx_else (b)
        after_a_good_step(b, scale, tracker, rule);
    if (rule->min_scale.kind != PTX_KIND_POISON) {
        ptx_val below = ptx_lt(b, scale, rule->min_scale);
        ptx_set(b, scale, ptx_select(b, below, rule->min_scale, scale));
    }
    if (rule->max_scale.kind != PTX_KIND_POISON) {
        ptx_val above = ptx_gt(b, scale, rule->max_scale);
        ptx_set(b, scale, ptx_select(b, above, rule->max_scale, scale));
    }
    ptx_store(b, scale_at, 0, scale);
    ptx_store(b, tracker_at, 0, tracker);
}
