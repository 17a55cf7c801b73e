// SPDX-License-Identifier: MIT
// Schedule-free SGD (Defazio et al. 2024), whose parameter is y; lr and beta1 are rounded to f32:
//
//     lr_max = max(lr, lr_max), sum = sum + lr_max^2, c = lr_max^2 / sum     in f64; 0 / 0 = 0
//     g = fma(weight_decay, y, g)
//     y = fma(lr * (beta1 * (1 - c) - 1), g, fma(c, z - y, y))               z = y before step 1
//     z = fma(-lr, g, z)
//     x = fma(1 - 1 / beta1, z - y, y)                                       to evaluate with
#include "rules.h"

enum { S_LR, S_BETA1, S_DECAY };
enum { LR, DECAY, C, ALONG, OUT };
enum { LR_MAX, SUM };
enum { Z, X };

static ptx_val in_f32(ptx_builder *b, ptx_val x)
{
    return ptx_cvt(b, PTX_F64, ptx_cvt(b, PTX_F32, x));
}

static void once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    ptx_val lr = in_f32(b, clock->scalar[S_LR]);
    ptx_val beta = in_f32(b, clock->scalar[S_BETA1]);
    ptx_val lr_max = ptx_max(b, lr, clock->state[LR_MAX]);
    ptx_val weight = ptx_mul(b, lr_max, lr_max);
    ptx_val sum = ptx_add(b, clock->state[SUM], weight);
    ptx_val none = ptx_eq(b, sum, 0);
    ptx_val part = ptx_select(b, none, ptx_f64(0), ptx_div(b, weight, sum));
    ptx_val kept = ptx_mul(b, beta, ptx_sub(b, 1, part));

    clock->new_state[LR_MAX] = lr_max;
    clock->new_state[SUM] = sum;
    clock->c[LR] = lr;
    clock->c[DECAY] = clock->scalar[S_DECAY];
    clock->c[C] = part;
    clock->c[ALONG] = ptx_mul(b, lr, ptx_sub(b, kept, 1));
    clock->c[OUT] = ptx_sub(b, 1, ptx_div(b, 1, beta));
}

static void update(ptx_builder *b, struct ptx_rule_element *e)
{
    const ptx_val *c = e->c;
    ptx_val g = ptx_fma(b, c[DECAY], e->p, e->g);
    ptx_val y = ptx_fma(b, c[C], ptx_sub(b, e->state[Z], e->p), e->p);
    ptx_val z = ptx_fma(b, ptx_neg(b, c[LR]), g, e->state[Z]);

    y = ptx_fma(b, c[ALONG], g, y);
    e->new_p = y;
    e->new_state[Z] = z;
    e->new_state[X] = ptx_fma(b, c[OUT], ptx_sub(b, z, y), y);
}

const struct ptx_rule_params schedule_free_params = {
    .name = "schedule_free",
    .version = 1,
    .states = { { "z", PTX_RULE_WEIGHT, .start_p = true },
                { "x", PTX_RULE_WEIGHT, .dtype = PTX_F32, .output = true } },
    .scalars = { { "lr", PTX_RULE_RANGE_AT_LEAST_0, 1 },
                 { "beta1", PTX_RULE_RANGE_BELOW_1, 0.9 },
                 { "weight_decay", PTX_RULE_RANGE_AT_LEAST_0, 0 } },
    .clock_states = 2,
    .once = once,
    .update = update,
};
