// SPDX-License-Identifier: MIT
// AdamW and Adam; they differ in how weight decay is applied.
#include "../step.h"

#include <math.h>

// What depends on the scalars and t alone.
enum { DECAY, BETA1, BETA2, STEP_SIZE, ROOT2, RECIPROCAL, REST, EPS, COUNT };

static void once(ptx_builder *b, struct ptxk_step_clock *clock, ptx_val *c)
{
    const ptx_val *s = clock->scalar;
    ptx_val bc1 = ptx_cvt(b, PTX_F32, ptxk_step_complement(b, s[S_BETA1], clock->t));
    ptx_val bc2 = ptxk_step_complement(b, s[S_BETA2], clock->t);

    c[DECAY] = s[S_WEIGHT_DECAY];
    c[BETA1] = s[S_BETA1];
    c[BETA2] = s[S_BETA2];
    c[STEP_SIZE] = ptx_div(b, s[S_LR], bc1);
    c[ROOT2] = ptx_cvt(b, PTX_F32, ptx_sqrt(b, bc2));
    c[EPS] = s[S_EPS];

    ptx_comment(b, "NaN where quick quotients do not hold: none is used");
    ptx_val reciprocal = ptx_rcp(b, c[ROOT2]);
    ptx_val large = ptx_gt(b, s[S_EPS], 0x1p32);
    c[RECIPROCAL] = ptx_select(b, large, NAN, reciprocal);
    ptx_val rest = ptx_fma(b, ptx_neg(b, c[ROOT2]), reciprocal, 1);
    c[REST] = ptx_mul(b, rest, reciprocal);
}

static void once_decoupled(ptx_builder *b, struct ptxk_step_clock *clock, ptx_val *c)
{
    once(b, clock, c);
    c[DECAY] = ptx_mul(b, clock->scalar[S_LR], clock->scalar[S_WEIGHT_DECAY]);
}

// step_size * m / (sqrt(v) / root2 + eps), and sqrt(v)
static ptx_val exact_step(ptx_builder *b, const ptx_val *c, ptx_val m, ptx_val v, ptx_val *root)
{
    ptx_comment(b, "the step, by the exact instructions");
    *root = ptx_sqrt(b, v);
    ptx_val denominator = ptx_add(b, ptx_div(b, *root, c[ROOT2]), c[EPS]);
    return ptx_div(b, ptx_mul(b, c[STEP_SIZE], m), denominator);
}

// The same, by sequences without branches.
static ptx_val quick_step(ptx_builder *b, const ptx_val *c, ptx_val m, ptx_val v, ptx_val *root,
                          struct ptxk_quick *quick)
{
    ptx_comment(b, "the step, without branches");
    const struct ptxk_quick_divisor root2 = { c[ROOT2], c[RECIPROCAL], c[REST] };
    *root = ptxk_quick_root(b, v);
    ptx_val quotient = ptxk_quick_root_over(b, *root, &root2);
    ptx_val denominator = ptx_fma(b, quotient, 1 / PTXK_QUICK_SCALE, c[EPS]);
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
    ptx_val *const root = &e->root[1];
    ptx_val step = e->quick ? quick_step(b, c, m, v, root, e->quick) : exact_step(b, c, m, v, root);

    e->p = ptx_sub(b, e->p, step);
    if (e->quick)
        ptxk_quick_note(b, e->quick, e->p);
    e->state[0] = m;
    e->state[1] = v;
}

static void adamw(ptx_builder *b, uint32_t options, const ptx_val *c, struct ptxk_step_element *e)
{
    (void)options;
    e->p = ptx_fma(b, ptx_neg(b, c[DECAY]), e->p, e->p);
    move(b, c, e);
}

static void adam(ptx_builder *b, uint32_t options, const ptx_val *c, struct ptxk_step_element *e)
{
    (void)options;
    e->g = ptx_fma(b, c[DECAY], e->p, e->g);
    move(b, c, e);
}

enum { SCALARS = 5 };

static const struct ptxk_step_scalar scalars_of_adamw[SCALARS] = {
    { "lr", S_LR, PTX_RULE_RANGE_AT_LEAST_0, 1e-3 },
    { "beta1", S_BETA1, PTX_RULE_RANGE_BELOW_1, 0.9 },
    { "beta2", S_BETA2, PTX_RULE_RANGE_BELOW_1, 0.999 },
    { "eps", S_EPS, PTX_RULE_RANGE_AT_LEAST_0, 1e-8 },
    { "weight_decay", S_WEIGHT_DECAY, PTX_RULE_RANGE_AT_LEAST_0, 0.01 },
};

static const struct ptxk_step_scalar scalars_of_adam[SCALARS] = {
    { "lr", S_LR, PTX_RULE_RANGE_AT_LEAST_0, 1e-3 },
    { "beta1", S_BETA1, PTX_RULE_RANGE_BELOW_1, 0.9 },
    { "beta2", S_BETA2, PTX_RULE_RANGE_BELOW_1, 0.999 },
    { "eps", S_EPS, PTX_RULE_RANGE_AT_LEAST_0, 1e-8 },
    { "weight_decay", S_WEIGHT_DECAY, PTX_RULE_RANGE_AT_LEAST_0, 0 },
};

const struct ptxk_step_rule ptxk_step_adamw = {
    .name = "adamw",
    .states = 2,
    .scalars = SCALARS,
    .coefficients = COUNT,
    .scalar = scalars_of_adamw,
    .state = { { PTX_RULE_SIGNED }, { PTX_RULE_POSITIVE, .stochastic = true } },
    .quick = true,
    .roots = 1 << 1,
    .once = once_decoupled,
    .update = adamw,
};

const struct ptxk_step_rule ptxk_step_adam = {
    .name = "adam",
    .states = 2,
    .scalars = SCALARS,
    .coefficients = COUNT,
    .scalar = scalars_of_adam,
    .state = { { PTX_RULE_SIGNED }, { PTX_RULE_POSITIVE, .stochastic = true } },
    .quick = true,
    .roots = 1 << 1,
    .once = once,
    .update = adam,
};
