// SPDX-License-Identifier: MIT
#include "../step.h"

enum { LR, DECAY, MOMENTUM, KEPT, FIRST, COUNT };

static void once(ptx_builder *b, struct ptxk_step_clock *clock, ptx_val *c)
{
    const ptx_val *s = clock->scalar;
    ptx_val first = ptx_eq(b, clock->t, 1);

    c[LR] = s[S_LR];
    c[DECAY] = s[S_WEIGHT_DECAY];
    c[MOMENTUM] = s[S_MOMENTUM];
    c[KEPT] = ptx_sub(b, 1, s[S_DAMPENING]);
    c[FIRST] = ptx_select(b, first, ptx_f32(1), 0);
}

static void update(ptx_builder *b, uint32_t options, const ptx_val *c, struct ptxk_step_element *e)
{
    ptx_val g = ptx_fma(b, c[DECAY], e->p, e->g);
    ptx_val direction = g;

    if (options & PTXK_STEP_MOMENTUM) {
        ptx_val kept = ptx_mul(b, c[KEPT], g);
        ptx_val m = ptx_add(b, ptx_mul(b, c[MOMENTUM], e->state[0]), kept);
        ptx_val first = ptx_ne(b, c[FIRST], 0);
        m = ptx_select(b, first, g, m);
        e->state[0] = direction = m;
        if (options & PTXK_STEP_NESTEROV)
            direction = ptx_add(b, g, ptx_mul(b, c[MOMENTUM], m));
    }
    e->p = ptx_sub(b, e->p, ptx_mul(b, c[LR], direction));
}

static const struct ptxk_step_scalar scalars[] = {
    { "lr", S_LR, PTX_RULE_RANGE_AT_LEAST_0, 1e-3 },
    { "weight_decay", S_WEIGHT_DECAY, PTX_RULE_RANGE_AT_LEAST_0, 0 },
    { "momentum", S_MOMENTUM, PTX_RULE_RANGE_AT_LEAST_0, 0 },
    { "dampening", S_DAMPENING, PTX_RULE_RANGE_FINITE, 0 },
};
enum { SCALARS = sizeof scalars / sizeof *scalars };

const struct ptxk_step_rule ptxk_step_sgd = {
    .name = "sgd",
    .states = 1,
    .scalars = SCALARS,
    .coefficients = COUNT,
    .scalar = scalars,
    .state = { { PTX_RULE_SIGNED, .stochastic = true, .option = PTXK_STEP_MOMENTUM } },
    .options = PTXK_STEP_MOMENTUM | PTXK_STEP_NESTEROV,
    .once = once,
    .update = update,
};
