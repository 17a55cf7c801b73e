// SPDX-License-Identifier: MIT
// Schedule-free SGD (Defazio et al. 2024), whose parameter is y:
//
//     lr_max = max(lr, lr_max), sum = sum + lr_max^2, c = lr_max^2 / sum     in f64; 0 / 0 = 0
//     g = fma(weight_decay, y, g)
//     y = fma(lr * (beta1 * (1 - c) - 1), g, fma(c, z - y, y))               z = y before step 1
//     z = fma(-lr, g, z)
//     x = fma(1 - 1 / beta1, z - y, y)                                       to evaluate with
#include "kernels/step/step.h"

enum { LR, DECAY, C, ALONG, OUT, FIRST, COUNT };
enum { LR_MAX, SUM, CLOCK_STATES };
enum { Z, X, STATES };

static void once(ptx_builder *b, struct ptxk_step_clock *clock, ptx_val *c)
{
    const ptx_val one = ptx_f64(1);
    ptx_val lr = ptx_cvt(b, PTX_F64, clock->scalar[S_LR]);
    ptx_val beta = ptx_cvt(b, PTX_F64, clock->scalar[S_BETA1]);
    ptx_val lr_max = ptx_max(b, lr, clock->state[LR_MAX]);
    ptx_val weight = ptx_mul(b, lr_max, lr_max);
    ptx_val sum = ptx_add(b, clock->state[SUM], weight);
    ptx_val none = ptx_eq(b, sum, ptx_f64(0));
    ptx_val part = ptx_select(b, none, ptx_f64(0), ptx_div(b, weight, sum));
    ptx_val kept = ptx_mul(b, beta, ptx_sub(b, one, part));
    ptx_val first = ptx_eq(b, clock->t, 1);

    clock->state[LR_MAX] = lr_max;
    clock->state[SUM] = sum;
    c[LR] = clock->scalar[S_LR];
    c[DECAY] = clock->scalar[S_WEIGHT_DECAY];
    c[C] = ptx_cvt(b, PTX_F32, part);
    c[ALONG] = ptx_cvt(b, PTX_F32, ptx_mul(b, lr, ptx_sub(b, kept, one)));
    c[OUT] = ptx_cvt(b, PTX_F32, ptx_sub(b, one, ptx_div(b, one, beta)));
    c[FIRST] = ptx_select(b, first, ptx_f32(1), 0);
}

static void update(ptx_builder *b, uint32_t options, const ptx_val *c, struct ptxk_step_element *e)
{
    (void)options;
    ptx_val first = ptx_ne(b, c[FIRST], 0);
    ptx_val z = ptx_select(b, first, e->p, e->state[Z]);
    ptx_val g = ptx_fma(b, c[DECAY], e->p, e->g);
    ptx_val y = ptx_fma(b, c[C], ptx_sub(b, z, e->p), e->p);

    y = ptx_fma(b, c[ALONG], g, y);
    z = ptx_fma(b, ptx_neg(b, c[LR]), g, z);
    e->p = y;
    e->state[Z] = z;
    e->state[X] = ptx_fma(b, c[OUT], ptx_sub(b, z, y), y);
}

static const struct ptxk_step_scalar scalars[] = {
    { "lr", S_LR, PTXK_STEP_AT_LEAST_0, 1 },
    { "beta1", S_BETA1, PTXK_STEP_BELOW_1, 0.9 },
    { "weight_decay", S_WEIGHT_DECAY, PTXK_STEP_AT_LEAST_0, 0 },
};

const struct ptxk_step_rule ptxk_step_schedule_free = {
    .name = "schedule_free",
    .states = STATES,
    .scalars = sizeof scalars / sizeof *scalars,
    .coefficients = COUNT,
    .clock_states = CLOCK_STATES,
    .scalar = scalars,
    .state = { [Z] = { PTXK_STEP_WEIGHT }, [X] = { .type = PTX_F32, .output = true } },
    .once = once,
    .update = update,
};
