// SPDX-License-Identifier: MIT
#include "../step.h"

enum { LR, DECAY, BETA1, REST1, BETA2, REST2, COUNT };

static void once(ptx_builder *b, struct ptxk_step_clock *clock, ptx_val *c)
{
    const ptx_val *s = clock->scalar;

    c[LR] = s[S_LR];
    c[DECAY] = ptx_mul(b, s[S_LR], s[S_WEIGHT_DECAY]);
    c[BETA1] = s[S_BETA1];
    c[REST1] = ptx_sub(b, 1, s[S_BETA1]);
    c[BETA2] = s[S_BETA2];
    c[REST2] = ptx_sub(b, 1, s[S_BETA2]);
}

// beta * m + rest * g, each product rounded.
static ptx_val mix(ptx_builder *b, ptx_val beta, ptx_val m, ptx_val rest, ptx_val g)
{
    ptx_val old = ptx_mul(b, beta, m);
    return ptx_add(b, old, ptx_mul(b, rest, g));
}

static void update(ptx_builder *b, uint32_t options, const ptx_val *c, struct ptxk_step_element *e)
{
    (void)options;
    ptx_val p = ptx_fma(b, ptx_neg(b, c[DECAY]), e->p, e->p);
    ptx_val u = mix(b, c[BETA1], e->state[0], c[REST1], e->g);
    ptx_val up = ptx_gt(b, u, 0);
    ptx_val down = ptx_lt(b, u, 0);
    ptx_val move = ptx_select(b, up, c[LR], 0);

    move = ptx_select(b, down, ptx_neg(b, c[LR]), move);
    e->p = ptx_sub(b, p, move);
    e->state[0] = mix(b, c[BETA2], e->state[0], c[REST2], e->g);
}

static const struct ptxk_step_scalar scalars[] = {
    { "lr", S_LR, PTX_RULE_RANGE_AT_LEAST_0, 1e-4 },
    { "beta1", S_BETA1, PTX_RULE_RANGE_BELOW_1, 0.9 },
    { "beta2", S_BETA2, PTX_RULE_RANGE_BELOW_1, 0.99 },
    { "weight_decay", S_WEIGHT_DECAY, PTX_RULE_RANGE_AT_LEAST_0, 0 },
};
enum { SCALARS = sizeof scalars / sizeof *scalars };

const struct ptxk_step_rule ptxk_step_lion = {
    .name = "lion",
    .states = 1,
    .scalars = SCALARS,
    .coefficients = COUNT,
    .scalar = scalars,
    .state = { { PTX_RULE_SIGNED, .stochastic = true } },
    .once = once,
    .update = update,
};
