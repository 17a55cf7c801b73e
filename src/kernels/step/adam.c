// SPDX-License-Identifier: MIT
// AdamW and Adam; they differ in how weight decay is applied.
#include "step.h"

#include <math.h>

enum { DECAY, BETA1, BETA2, STEP_SIZE, ROOT2, RECIPROCAL, EPS };

static void derive(ptx_builder *b, const struct ptxk_step_scalars *s, ptx_val t, ptx_val *c)
{
    ptx_val bc1 = ptx_cvt(b, PTX_F32, ptxk_step_complement(b, s->beta1, t));
    ptx_val bc2 = ptxk_step_complement(b, s->beta2, t);

    c[DECAY] = s->weight_decay;
    c[BETA1] = s->beta1;
    c[BETA2] = s->beta2;
    c[STEP_SIZE] = ptx_div(b, s->lr, bc1);
    c[ROOT2] = ptx_cvt(b, PTX_F32, ptx_sqrt(b, bc2));
    c[RECIPROCAL] = ptx_rcp(b, c[ROOT2]);
    c[EPS] = s->eps;
}

static void derive_decoupled(ptx_builder *b, const struct ptxk_step_scalars *s, ptx_val t,
                             ptx_val *c)
{
    derive(b, s, t, c);
    c[DECAY] = ptx_mul(b, s->lr, s->weight_decay);
}

// x / ROOT2, correctly rounded, without a division: with a correctly rounded reciprocal, the exact
// remainder corrects a quotient that is within one unit in the last place (Markstein 1990). The
// first correction brings the quotient that close. x is a square root: it is 0, or so large that no
// remainder underflows; infinity has no remainder.
static ptx_val over_root2(ptx_builder *b, ptx_val x, const ptx_val *c)
{
    ptx_val divisor = ptx_neg(b, c[ROOT2]);
    ptx_val q = ptx_mul(b, x, c[RECIPROCAL]);

    for (unsigned turn = 0; turn < 2; turn++) {
        ptx_val rest = ptx_fma(b, divisor, q, x);
        q = ptx_fma(b, rest, c[RECIPROCAL], q);
    }
    ptx_val infinite = ptx_eq(b, x, ptx_f32(INFINITY));
    return ptx_select(b, infinite, x, q);
}

static void move(ptx_builder *b, const ptx_val *c, struct ptxk_step_element *e)
{
    ptx_val g = e->g;
    ptx_val gg = ptx_mul(b, g, g);
    ptx_val part = ptx_fma(b, ptx_neg(b, c[BETA1]), g, g);
    ptx_val m = ptx_fma(b, c[BETA1], e->state[0], part);
    part = ptx_fma(b, ptx_neg(b, c[BETA2]), gg, gg);
    ptx_val v = ptx_fma(b, c[BETA2], e->state[1], part);
    ptx_val root = over_root2(b, ptx_sqrt(b, v), c);
    ptx_val denominator = ptx_add(b, root, c[EPS]);
    ptx_val step = ptx_div(b, ptx_mul(b, c[STEP_SIZE], m), denominator);

    e->p = ptx_sub(b, e->p, step);
    e->state[0] = m;
    e->state[1] = v;
}

static void adamw(ptx_builder *b, const struct ptxk_step_variant *v, const ptx_val *c,
                  struct ptxk_step_element *e)
{
    (void)v;
    e->p = ptx_fma(b, ptx_neg(b, c[DECAY]), e->p, e->p);
    move(b, c, e);
}

static void adam(ptx_builder *b, const struct ptxk_step_variant *v, const ptx_val *c,
                 struct ptxk_step_element *e)
{
    (void)v;
    e->g = ptx_fma(b, c[DECAY], e->p, e->g);
    move(b, c, e);
}

const struct ptxk_step_rule ptxk_step_adamw = {
    .name = "adamw",
    .states = 2,
    .coefficients = EPS + 1,
    .stochastic = { false, true },
    .derive = derive_decoupled,
    .update = adamw,
};

const struct ptxk_step_rule ptxk_step_adam = {
    .name = "adam",
    .states = 2,
    .coefficients = EPS + 1,
    .stochastic = { false, true },
    .derive = derive,
    .update = adam,
};
