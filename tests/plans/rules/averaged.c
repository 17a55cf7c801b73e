// SPDX-License-Identifier: MIT
// SGD with momentum, the average of its weights, and a copy of them in bf16 under an option, for
// which nesterov stands:
//
//     m = fma(momentum, m, g)
//     p = fma(-lr, m, p)
//     average = t == 1 ? p : fma(1 - beta1, p - average, average)
//     copy = bf16(p)
#include "kernels/step/step.h"

enum { LR, MOMENTUM, REST, FIRST, COUNT };
enum { M, AVERAGE, COPY, STATES };

static void once(ptx_builder *b, struct ptxk_step_clock *clock, ptx_val *c)
{
    ptx_val first = ptx_eq(b, clock->t, 1);

    c[LR] = clock->scalar[S_LR];
    c[MOMENTUM] = clock->scalar[S_MOMENTUM];
    c[REST] = ptx_sub(b, 1, clock->scalar[S_BETA1]);
    c[FIRST] = ptx_select(b, first, ptx_f32(1), 0);
}

static void update(ptx_builder *b, uint32_t options, const ptx_val *c, struct ptxk_step_element *e)
{
    ptx_val m = ptx_fma(b, c[MOMENTUM], e->state[M], e->g);
    ptx_val p = ptx_fma(b, ptx_neg(b, c[LR]), m, e->p);
    ptx_val apart = ptx_sub(b, p, e->state[AVERAGE]);
    ptx_val average = ptx_fma(b, c[REST], apart, e->state[AVERAGE]);
    ptx_val first = ptx_ne(b, c[FIRST], 0);

    e->p = p;
    e->state[M] = m;
    e->state[AVERAGE] = ptx_select(b, first, p, average);
    if (options & PTXK_STEP_NESTEROV)
        e->state[COPY] = p;
}

static const struct ptxk_step_scalar scalars[] = {
    { "lr", S_LR, PTXK_STEP_AT_LEAST_0, 1e-2 },
    { "beta1", S_BETA1, PTXK_STEP_BELOW_1, 0.999 },
    { "momentum", S_MOMENTUM, PTXK_STEP_AT_LEAST_0, 0.9 },
};

const struct ptxk_step_rule ptxk_step_averaged = {
    .name = "averaged",
    .states = STATES,
    .scalars = sizeof scalars / sizeof *scalars,
    .coefficients = COUNT,
    .scalar = scalars,
    .state = { [M] = { PTXK_STEP_SIGNED, .stochastic = true },
               [AVERAGE] = { PTXK_STEP_WEIGHT, .type = PTX_F32 },
               [COPY] = { PTXK_STEP_WEIGHT, .option = PTXK_STEP_NESTEROV, .type = PTX_BF16,
                          .output = true } },
    .options = PTXK_STEP_NESTEROV,
    .once = once,
    .update = update,
};
