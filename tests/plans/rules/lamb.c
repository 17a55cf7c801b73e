// SPDX-License-Identifier: MIT
// LAMB (You et al. 2020), with sums over each tensor; the scalars are rounded to f32:
//
//     m = fma(beta1, m, fma(-beta1, g, g)), v = fma(beta2, v, fma(-beta2, g * g, g * g))
//     u = fma(weight_decay, p, (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps))
//     ratio = |p| / |u|, 1 if either is 0           norms in f64, the quotient rounded to f32
//     p = fma(-(lr * ratio), u, p)
#include "rules.h"

enum { S_LR, S_BETA1, S_BETA2, S_EPS, S_DECAY };
enum { LR, BETA1, BETA2, REST1, REST2, EPS, DECAY, STEP };
enum { OF_P, OF_U, SUMS };
enum { M, V };

static ptx_val complement(ptx_builder *b, ptx_val beta, ptx_val t)
{
    ptx_val rounded = ptx_cvt(b, PTX_F64, ptx_cvt(b, PTX_F32, beta));
    return ptx_sub(b, 1, ptx_rule_power(b, rounded, t));
}

static void once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    const ptx_val *s = clock->scalar;

    clock->c[LR] = s[S_LR];
    clock->c[BETA1] = s[S_BETA1];
    clock->c[BETA2] = s[S_BETA2];
    clock->c[REST1] = complement(b, s[S_BETA1], clock->t);
    clock->c[REST2] = complement(b, s[S_BETA2], clock->t);
    clock->c[EPS] = s[S_EPS];
    clock->c[DECAY] = s[S_DECAY];
}

// Sets the states; returns u.
static ptx_val direction(ptx_builder *b, struct ptx_rule_element *e)
{
    const ptx_val *c = e->c;
    ptx_val g = e->g;
    ptx_val gg = ptx_mul(b, g, g);
    ptx_val part = ptx_fma(b, ptx_neg(b, c[BETA1]), g, g);
    ptx_val m = ptx_fma(b, c[BETA1], e->state[M], part);
    part = ptx_fma(b, ptx_neg(b, c[BETA2]), gg, gg);
    ptx_val v = ptx_fma(b, c[BETA2], e->state[V], part);
    ptx_val root = ptx_rule_sqrt(b, ptx_rule_div(b, v, c[REST2]));
    ptx_val mean = ptx_rule_div(b, m, c[REST1]);

    e->new_state[M] = m;
    e->new_state[V] = v;
    return ptx_fma(b, c[DECAY], e->p, ptx_rule_div(b, mean, ptx_add(b, root, c[EPS])));
}

static void reduce(ptx_builder *b, struct ptx_rule_element *e)
{
    ptx_val u = direction(b, e);

    e->term[OF_P] = ptx_mul(b, e->p, e->p);
    e->term[OF_U] = ptx_mul(b, u, u);
}

static void of_sums(ptx_builder *b, struct ptx_rule_sums *s)
{
    ptx_val none = ptx_or(b, ptx_eq(b, s->sum[OF_P], 0), ptx_eq(b, s->sum[OF_U], 0));
    ptx_val norm = ptx_sqrt(b, s->sum[OF_P]);
    ptx_val ratio = ptx_cvt(b, PTX_F32, ptx_div(b, norm, ptx_sqrt(b, s->sum[OF_U])));

    s->c[STEP] = ptx_mul(b, s->c[LR], ptx_select(b, none, ptx_f32(1), ratio));
}

static void update(ptx_builder *b, struct ptx_rule_element *e)
{
    ptx_val u = direction(b, e);

    e->new_p = ptx_fma(b, ptx_neg(b, e->c[STEP]), u, e->p);
}

const struct ptx_rule_params lamb_params = {
    .name = "lamb",
    .version = 1,
    .states = { { "exp_avg" }, { "exp_avg_sq", PTX_RULE_POSITIVE, .stochastic = true } },
    .scalars = { { "lr", PTX_RULE_RANGE_AT_LEAST_0, 1e-3 },
                 { "beta1", PTX_RULE_RANGE_BELOW_1, 0.9 },
                 { "beta2", PTX_RULE_RANGE_BELOW_1, 0.999 },
                 { "eps", PTX_RULE_RANGE_AT_LEAST_0, 1e-6 },
                 { "weight_decay", PTX_RULE_RANGE_AT_LEAST_0, 0.01 } },
    .sums = SUMS,
    .once = once,
    .update = update,
    .reduce = reduce,
    .of_sums = of_sums,
};
