// SPDX-License-Identifier: MIT
#include "step.h"

enum { LR, DECAY, BETA1, REST1, BETA2, REST2 };

static void derive(ptx_builder *b, const struct ptxk_step_scalars *s, ptx_val t, ptx_val *c)
{
    (void)t;
    c[LR] = s->lr;
    c[DECAY] = ptx_mul(b, s->lr, s->weight_decay);
    c[BETA1] = s->beta1;
    c[REST1] = ptx_sub(b, ptx_f32(1.0f), s->beta1);
    c[BETA2] = s->beta2;
    c[REST2] = ptx_sub(b, ptx_f32(1.0f), s->beta2);
}

// beta * m + rest * g, each product rounded.
static ptx_val mix(ptx_builder *b, ptx_val beta, ptx_val m, ptx_val rest, ptx_val g)
{
    ptx_val old = ptx_mul(b, beta, m);
    return ptx_add(b, old, ptx_mul(b, rest, g));
}

static void update(ptx_builder *b, const struct ptxk_step_variant *v, const ptx_val *c,
                   struct ptxk_step_element *e)
{
    (void)v;
    ptx_val p = ptx_fma(b, ptx_neg(b, c[DECAY]), e->p, e->p);
    ptx_val u = mix(b, c[BETA1], e->state[0], c[REST1], e->g);
    ptx_val up = ptx_gt(b, u, ptx_f32(0.0f));
    ptx_val down = ptx_lt(b, u, ptx_f32(0.0f));
    ptx_val move = ptx_select(b, up, c[LR], ptx_f32(0.0f));

    move = ptx_select(b, down, ptx_neg(b, c[LR]), move);
    e->p = ptx_sub(b, p, move);
    e->state[0] = mix(b, c[BETA2], e->state[0], c[REST2], e->g);
}

const struct ptxk_step_rule ptxk_step_lion = {
    .name = "lion",
    .states = 1,
    .coefficients = REST2 + 1,
    .stochastic = { true },
    .derive = derive,
    .update = update,
};
