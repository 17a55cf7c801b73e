// SPDX-License-Identifier: MIT
// LAMB (You et al. 2020), with sums over each tensor:
//
//     m = fma(beta1, m, fma(-beta1, g, g)), v = fma(beta2, v, fma(-beta2, g * g, g * g))
//     u = fma(weight_decay, p, (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps))
//     ratio = |p| / |u|, 1 if either is 0           norms in f64, the quotient rounded to f32
//     p = fma(-(lr * ratio), u, p)
#include "kernels/step/step.h"

enum { LR, BETA1, BETA2, REST1, REST2, EPS, DECAY, COUNT, STEP = COUNT };
enum { OF_P, OF_U, SUMS };
enum { M, V, STATES };

static void once(ptx_builder *b, struct ptxk_step_clock *clock, ptx_val *c)
{
    const ptx_val *s = clock->scalar;

    c[LR] = s[S_LR];
    c[BETA1] = s[S_BETA1];
    c[BETA2] = s[S_BETA2];
    c[REST1] = ptx_cvt(b, PTX_F32, ptxk_step_complement(b, s[S_BETA1], clock->t));
    c[REST2] = ptx_cvt(b, PTX_F32, ptxk_step_complement(b, s[S_BETA2], clock->t));
    c[EPS] = s[S_EPS];
    c[DECAY] = s[S_WEIGHT_DECAY];
}

// Updates the states; returns u.
static ptx_val direction(ptx_builder *b, const ptx_val *c, struct ptxk_step_element *e)
{
    ptx_val g = e->g;
    ptx_val gg = ptx_mul(b, g, g);
    ptx_val part = ptx_fma(b, ptx_neg(b, c[BETA1]), g, g);
    ptx_val m = ptx_fma(b, c[BETA1], e->state[M], part);
    part = ptx_fma(b, ptx_neg(b, c[BETA2]), gg, gg);
    ptx_val v = ptx_fma(b, c[BETA2], e->state[V], part);
    ptx_val root = ptx_sqrt(b, ptx_div(b, v, c[REST2]));
    ptx_val mean = ptx_div(b, m, c[REST1]);

    e->state[M] = m;
    e->state[V] = v;
    return ptx_fma(b, c[DECAY], e->p, ptx_div(b, mean, ptx_add(b, root, c[EPS])));
}

static void reduce(ptx_builder *b, uint32_t options, const ptx_val *c, struct ptxk_step_element *e,
                   ptx_val *term)
{
    (void)options;
    ptx_val u = direction(b, c, e);

    term[OF_P] = ptx_mul(b, e->p, e->p);
    term[OF_U] = ptx_mul(b, u, u);
}

static void of_sums(ptx_builder *b, const ptx_val *sum, ptx_val *c)
{
    ptx_val none = ptx_or(b, ptx_eq(b, sum[OF_P], ptx_f64(0)), ptx_eq(b, sum[OF_U], ptx_f64(0)));
    ptx_val norm = ptx_sqrt(b, sum[OF_P]);
    ptx_val ratio = ptx_cvt(b, PTX_F32, ptx_div(b, norm, ptx_sqrt(b, sum[OF_U])));

    c[STEP] = ptx_mul(b, c[LR], ptx_select(b, none, ptx_f32(1), ratio));
}

static void update(ptx_builder *b, uint32_t options, const ptx_val *c, struct ptxk_step_element *e)
{
    (void)options;
    ptx_val u = direction(b, c, e);

    e->p = ptx_fma(b, ptx_neg(b, c[STEP]), u, e->p);
}

static const struct ptxk_step_scalar scalars[] = {
    { "lr", S_LR, PTXK_STEP_AT_LEAST_0, 1e-3 },
    { "beta1", S_BETA1, PTXK_STEP_BELOW_1, 0.9 },
    { "beta2", S_BETA2, PTXK_STEP_BELOW_1, 0.999 },
    { "eps", S_EPS, PTXK_STEP_AT_LEAST_0, 1e-6 },
    { "weight_decay", S_WEIGHT_DECAY, PTXK_STEP_AT_LEAST_0, 0.01 },
};

const struct ptxk_step_rule ptxk_step_lamb = {
    .name = "lamb",
    .states = STATES,
    .scalars = sizeof scalars / sizeof *scalars,
    .coefficients = COUNT,
    .sums = SUMS,
    .scalar = scalars,
    .state = { [M] = { PTXK_STEP_SIGNED }, [V] = { PTXK_STEP_POSITIVE, .stochastic = true } },
    .once = once,
    .reduce = reduce,
    .of_sums = of_sums,
    .update = update,
};
