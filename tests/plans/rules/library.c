// SPDX-License-Identifier: MIT
// The rules of <ptxgen/rules.h> as a caller writes them, from the formulas there.
#include "rules.h"

static ptx_val in_f32(ptx_builder *b, ptx_val x)
{
    return ptx_cvt(b, PTX_F32, x);
}

// ---- AdamW, Adam --------------------------------------------------------------------------------

enum { A_LR, A_BETA1, A_BETA2, A_EPS, A_DECAY };
enum { DECAY, BETA1, BETA2, STEP, ROOT2, EPS };

static ptx_val complement(ptx_builder *b, ptx_val beta, ptx_val t)
{
    ptx_val rounded = ptx_cvt(b, PTX_F64, in_f32(b, beta));
    return ptx_sub(b, 1, ptx_rule_power(b, rounded, t));
}

static void adam_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    const ptx_val *s = clock->scalar;
    ptx_val rate = in_f32(b, s[A_LR]);

    clock->c[DECAY] = in_f32(b, s[A_DECAY]);
    if (clock->user)
        clock->c[DECAY] = ptx_mul(b, rate, clock->c[DECAY]);
    clock->c[BETA1] = s[A_BETA1];
    clock->c[BETA2] = s[A_BETA2];
    clock->c[STEP] = ptx_div(b, rate, in_f32(b, complement(b, s[A_BETA1], clock->t)));
    clock->c[ROOT2] = ptx_sqrt(b, complement(b, s[A_BETA2], clock->t));
    clock->c[EPS] = s[A_EPS];
}

static void adam_update(ptx_builder *b, struct ptx_rule_element *e)
{
    const ptx_val *c = e->c;
    ptx_val p = e->p, g = e->g;

    if (e->user)
        p = ptx_fma(b, ptx_neg(b, c[DECAY]), p, p);
    else
        g = ptx_fma(b, c[DECAY], p, g);
    ptx_val gg = ptx_mul(b, g, g);
    ptx_val m = ptx_fma(b, c[BETA1], e->state[0], ptx_fma(b, ptx_neg(b, c[BETA1]), g, g));
    ptx_val v = ptx_fma(b, c[BETA2], e->state[1], ptx_fma(b, ptx_neg(b, c[BETA2]), gg, gg));
    ptx_val size = ptx_add(b, ptx_rule_div(b, ptx_rule_sqrt(b, v), c[ROOT2]), c[EPS]);

    e->new_p = ptx_sub(b, p, ptx_rule_div(b, ptx_mul(b, c[STEP], m), size));
    e->new_state[0] = m;
    e->new_state[1] = v;
}

#define ADAM                                                                                       \
    .states = { { "exp_avg" }, { "exp_avg_sq", PTX_RULE_POSITIVE, .stochastic = true } },          \
    .scalars = { { "lr", PTX_RULE_RANGE_AT_LEAST_0, 1e-3 },                                        \
                 { "beta1", PTX_RULE_RANGE_BELOW_1, 0.9 },                                         \
                 { "beta2", PTX_RULE_RANGE_BELOW_1, 0.999 },                                       \
                 { "eps", PTX_RULE_RANGE_AT_LEAST_0, 1e-8 },                                       \
                 { "weight_decay", PTX_RULE_RANGE_AT_LEAST_0, 0 } },                               \
    .once = adam_once, .update = adam_update

const struct ptx_rule_params own_adam_params = { .name = "own_adam", ADAM };
const struct ptx_rule_params own_adamw_params = { .name = "own_adamw", .user = "decoupled", ADAM };

// ---- SGD ----------------------------------------------------------------------------------------

enum { G_LR, G_DECAY, G_MOMENTUM, G_DAMPENING };
enum { RATE, PULL, MOMENTUM, KEPT, FIRST };

static const char nesterov[] = "nesterov", momentum[] = "momentum";

static void sgd_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    const ptx_val *s = clock->scalar;
    ptx_val first = ptx_eq(b, clock->t, 1);

    clock->c[RATE] = s[G_LR];
    clock->c[PULL] = s[G_DECAY];
    clock->c[MOMENTUM] = s[G_MOMENTUM];
    clock->c[KEPT] = ptx_sub(b, 1, in_f32(b, s[G_DAMPENING]));
    clock->c[FIRST] = ptx_select(b, first, ptx_f32(1), 0);
}

static void sgd_update(ptx_builder *b, struct ptx_rule_element *e)
{
    const ptx_val *c = e->c;
    ptx_val g = ptx_fma(b, c[PULL], e->p, e->g);
    ptx_val u = g;

    if (e->user) {
        ptx_val old = ptx_mul(b, c[MOMENTUM], e->state[0]);
        ptx_val m = ptx_add(b, old, ptx_mul(b, c[KEPT], g));
        u = ptx_select(b, ptx_ne(b, c[FIRST], 0), g, m);
        e->new_state[0] = u;
    }
    if (e->user == nesterov)
        u = ptx_add(b, g, ptx_mul(b, c[MOMENTUM], u));
    e->new_p = ptx_sub(b, e->p, ptx_mul(b, c[RATE], u));
}

#define SGD                                                                                        \
    .scalars = { { "lr", PTX_RULE_RANGE_AT_LEAST_0, 1e-3 },                                        \
                 { "weight_decay", PTX_RULE_RANGE_AT_LEAST_0, 0 },                                 \
                 { "momentum", PTX_RULE_RANGE_AT_LEAST_0, 0 },                                     \
                 { "dampening" } },                                                                \
    .once = sgd_once, .update = sgd_update
#define WITH_BUFFER .states = { { "momentum_buffer", .stochastic = true } }

const struct ptx_rule_params own_sgd_params = { .name = "own_sgd", SGD };
const struct ptx_rule_params own_sgd_momentum_params = {
    .name = "own_sgd", .version = 1, WITH_BUFFER, .user = momentum, SGD
};
const struct ptx_rule_params own_sgd_nesterov_params = {
    .name = "own_sgd", .version = 1, WITH_BUFFER, .user = nesterov, SGD
};

// ---- Lion ---------------------------------------------------------------------------------------

enum { L_LR, L_BETA1, L_BETA2, L_DECAY };
enum { MOVE, SHRINK, OLD, NEW, OLD2, NEW2 };

static void lion_once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    const ptx_val *s = clock->scalar;

    clock->c[MOVE] = s[L_LR];
    clock->c[SHRINK] = ptx_mul(b, in_f32(b, s[L_LR]), in_f32(b, s[L_DECAY]));
    clock->c[OLD] = s[L_BETA1];
    clock->c[NEW] = ptx_sub(b, 1, in_f32(b, s[L_BETA1]));
    clock->c[OLD2] = s[L_BETA2];
    clock->c[NEW2] = ptx_sub(b, 1, in_f32(b, s[L_BETA2]));
}

static ptx_val mix(ptx_builder *b, ptx_val old, ptx_val m, ptx_val new, ptx_val g)
{
    return ptx_add(b, ptx_mul(b, old, m), ptx_mul(b, new, g));
}

static void lion_update(ptx_builder *b, struct ptx_rule_element *e)
{
    const ptx_val *c = e->c;
    ptx_val p = ptx_fma(b, ptx_neg(b, c[SHRINK]), e->p, e->p);
    ptx_val u = mix(b, c[OLD], e->state[0], c[NEW], e->g);
    ptx_val move = ptx_select(b, ptx_gt(b, u, 0), c[MOVE], 0);

    move = ptx_select(b, ptx_lt(b, u, 0), ptx_neg(b, c[MOVE]), move);
    e->new_p = ptx_sub(b, p, move);
    e->new_state[0] = mix(b, c[OLD2], e->state[0], c[NEW2], e->g);
}

const struct ptx_rule_params own_lion_params = {
    .name = "own_lion",
    .states = { { "exp_avg", .stochastic = true } },
    .scalars = { { "lr", PTX_RULE_RANGE_AT_LEAST_0, 1e-4 },
                 { "beta1", PTX_RULE_RANGE_BELOW_1, 0.9 },
                 { "beta2", PTX_RULE_RANGE_BELOW_1, 0.99 },
                 { "weight_decay", PTX_RULE_RANGE_AT_LEAST_0, 0 } },
    .once = lion_once,
    .update = lion_update,
};
