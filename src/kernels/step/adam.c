// SPDX-License-Identifier: MIT
// AdamW and Adam; they differ in how weight decay is applied.
#include "step.h"

#include <math.h>

enum { DECAY, BETA1, BETA2, STEP_SIZE, ROOT2, RECIPROCAL, REST, EPS };

static void derive(ptx_builder *b, const struct ptxk_step_scalars *s, ptx_val t, ptx_val *c)
{
    ptx_val bc1 = ptx_cvt(b, PTX_F32, ptxk_step_complement(b, s->beta1, t));
    ptx_val bc2 = ptxk_step_complement(b, s->beta2, t);

    c[DECAY] = s->weight_decay;
    c[BETA1] = s->beta1;
    c[BETA2] = s->beta2;
    c[STEP_SIZE] = ptx_div(b, s->lr, bc1);
    c[ROOT2] = ptx_cvt(b, PTX_F32, ptx_sqrt(b, bc2));
    c[EPS] = s->eps;

    ptx_comment(b, "NaN where quick quotients do not hold: none is used");
    ptx_val reciprocal = ptx_rcp(b, c[ROOT2]);
    ptx_val large = ptx_gt(b, s->eps, ptx_f32(0x1p32f));
    c[RECIPROCAL] = ptx_select(b, large, ptx_f32(NAN), reciprocal);
    ptx_val rest = ptx_fma(b, ptx_neg(b, c[ROOT2]), reciprocal, ptx_f32(1.0f));
    c[REST] = ptx_mul(b, rest, reciprocal);
}

static void derive_decoupled(ptx_builder *b, const struct ptxk_step_scalars *s, ptx_val t,
                             ptx_val *c)
{
    derive(b, s, t, c);
    c[DECAY] = ptx_mul(b, s->lr, s->weight_decay);
}

// step_size * m / (sqrt(v) / root2 + eps)
static ptx_val exact_step(ptx_builder *b, const ptx_val *c, ptx_val m, ptx_val v)
{
    ptx_val root = ptx_div(b, ptx_sqrt(b, v), c[ROOT2]);
    ptx_val denominator = ptx_add(b, root, c[EPS]);
    return ptx_div(b, ptx_mul(b, c[STEP_SIZE], m), denominator);
}

// The same, by sequences without branches.
static ptx_val quick_step(ptx_builder *b, const ptx_val *c, ptx_val m, ptx_val v,
                          struct ptxk_quick *quick)
{
    const struct ptxk_quick_divisor root2 = { c[ROOT2], c[RECIPROCAL], c[REST] };
    ptx_val root = ptxk_quick_root_over(b, v, &root2);
    ptx_val denominator = ptx_fma(b, root, ptx_f32(1 / PTXK_QUICK_SCALE), c[EPS]);
    return ptxk_quick_div(b, quick, ptx_mul(b, c[STEP_SIZE], m), denominator);
}

static void move(ptx_builder *b, const ptx_val *c, struct ptxk_step_element *e)
{
    ptx_val g = e->g;
    ptx_val gg = ptx_mul(b, g, g);
    ptx_val part = ptx_fma(b, ptx_neg(b, c[BETA1]), g, g);
    ptx_val m = ptx_fma(b, c[BETA1], e->state[0], part);
    part = ptx_fma(b, ptx_neg(b, c[BETA2]), gg, gg);
    ptx_val v = ptx_fma(b, c[BETA2], e->state[1], part);
    ptx_val step = e->quick ? quick_step(b, c, m, v, e->quick) : exact_step(b, c, m, v);

    e->p = ptx_sub(b, e->p, step);
    if (e->quick)
        ptxk_quick_note(b, e->quick, e->p);
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
    .quick = true,
    .derive = derive_decoupled,
    .update = adamw,
};

const struct ptxk_step_rule ptxk_step_adam = {
    .name = "adam",
    .states = 2,
    .coefficients = EPS + 1,
    .stochastic = { false, true },
    .quick = true,
    .derive = derive,
    .update = adam,
};
