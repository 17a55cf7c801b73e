// SPDX-License-Identifier: MIT
// SGD with momentum, the average of its weights, and a copy of them in bf16:
//
//     m = fma(momentum, m, g)
//     p = fma(-lr, m, p)
//     average = t == 1 ? p : fma(1 - beta1, p - average, average)
//     copy = bf16(p)
#include "rules.h"

enum { S_LR, S_BETA1, S_MOMENTUM };
enum { LR, MOMENTUM, REST, FIRST };
enum { M, AVERAGE, COPY };

static void once(ptx_builder *b, struct ptx_rule_clock *clock)
{
    ptx_val first = ptx_eq(b, clock->t, 1);

    clock->c[LR] = clock->scalar[S_LR];
    clock->c[MOMENTUM] = clock->scalar[S_MOMENTUM];
    clock->c[REST] = ptx_sub(b, 1, ptx_cvt(b, PTX_F32, clock->scalar[S_BETA1]));
    clock->c[FIRST] = ptx_select(b, first, ptx_f32(1), 0);
}

static void update(ptx_builder *b, struct ptx_rule_element *e)
{
    const ptx_val *c = e->c;
    ptx_val m = ptx_fma(b, c[MOMENTUM], e->state[M], e->g);
    ptx_val p = ptx_fma(b, ptx_neg(b, c[LR]), m, e->p);
    ptx_val apart = ptx_sub(b, p, e->state[AVERAGE]);
    ptx_val average = ptx_fma(b, c[REST], apart, e->state[AVERAGE]);
    ptx_val first = ptx_ne(b, c[FIRST], 0);

    e->new_p = p;
    e->new_state[M] = m;
    e->new_state[AVERAGE] = ptx_select(b, first, p, average);
    if (e->user)
        e->new_state[COPY] = p;
}

#define SCALARS                                                                                    \
    {                                                                                              \
        { "lr", PTX_RULE_RANGE_AT_LEAST_0, 1e-2 }, { "beta1", PTX_RULE_RANGE_BELOW_1, 0.999 },     \
            { "momentum", PTX_RULE_RANGE_AT_LEAST_0, 0.9 },                                        \
    }

const struct ptx_rule_params averaged_params = {
    .name = "averaged",
    .states = { { "momentum_buffer", .stochastic = true },
                { "average", PTX_RULE_WEIGHT, .dtype = PTX_F32 } },
    .scalars = SCALARS,
    .once = once,
    .update = update,
};

const struct ptx_rule_params averaged_with_copy_params = {
    .name = "averaged",
    .states = { { "momentum_buffer", .stochastic = true },
                { "average", PTX_RULE_WEIGHT, .dtype = PTX_F32 },
                { "copy", PTX_RULE_WEIGHT, .dtype = PTX_BF16, .output = true } },
    .scalars = SCALARS,
    .user = "with a copy",
    .once = once,
    .update = update,
};
