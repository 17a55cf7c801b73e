// SPDX-License-Identifier: MIT
#include "step.h"

enum { LR, DECAY, MOMENTUM, KEPT, FIRST };

static void derive(ptx_builder *b, const struct ptxk_step_scalars *s, ptx_val t, ptx_val *c)
{
    ptx_val first = ptx_eq(b, t, ptx_u32(1));

    c[LR] = s->lr;
    c[DECAY] = s->weight_decay;
    c[MOMENTUM] = s->momentum;
    c[KEPT] = ptx_sub(b, ptx_f32(1.0f), s->dampening);
    c[FIRST] = ptx_select(b, first, ptx_f32(1.0f), ptx_f32(0.0f));
}

static void update(ptx_builder *b, const struct ptxk_step_variant *v, const ptx_val *c,
                   struct ptxk_step_element *e)
{
    ptx_val g = ptx_fma(b, c[DECAY], e->p, e->g);
    ptx_val direction = g;

    if (v->momentum) {
        ptx_val kept = ptx_mul(b, c[KEPT], g);
        ptx_val m = ptx_add(b, ptx_mul(b, c[MOMENTUM], e->state[0]), kept);
        ptx_val first = ptx_ne(b, c[FIRST], ptx_f32(0.0f));
        m = ptx_select(b, first, g, m);
        e->state[0] = direction = m;
        if (v->nesterov)
            direction = ptx_add(b, g, ptx_mul(b, c[MOMENTUM], m));
    }
    e->p = ptx_sub(b, e->p, ptx_mul(b, c[LR], direction));
}

const struct ptxk_step_rule ptxk_step_sgd = {
    .name = "sgd",
    .states = 1,
    .coefficients = FIRST + 1,
    .stochastic = { true },
    .derive = derive,
    .update = update,
};
