// SPDX-License-Identifier: MIT
#include "caller_scalars.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_calls.h"

static void upload(struct caller_scalars *s)
{
    require_done(ptx_buffer_upload(s->memory, 0, &s->values, sizeof s->values, gpu.stream));
}

void caller_scalars_create(struct caller_scalars *s, struct random *r, unsigned has)
{
    *s = (struct caller_scalars) { .has = has, .update = { .interval = 2 } };
    s->memory = made(ptx_buffer_create(gpu.device, sizeof s->values));
    s->values.found_inf_to = 77; // only runs that must write it do so
    s->values.state.scale = 64;
    caller_scalars_change(s, r);
}

void caller_scalars_destroy(struct caller_scalars *s)
{
    ptx_buffer_destroy(&s->memory);
}

void caller_scalars_change(struct caller_scalars *s, struct random *r)
{
    static const float found[] = { 1, -2, NAN, INFINITY, 1e-45f };
    static const float scales[] = { 0, -1, NAN, INFINITY, -0.0f };
    static const float norms[] = { 0, -1, NAN, INFINITY, -INFINITY };
    const bool bad = random_below(r, 3) == 0;
    struct caller_values *v = &s->values;

    v->found_inf = bad && random_below(r, 2) ? found[random_below(r, 5)] : 0;
    v->loss_scale = ldexpf(1, (int)random_below(r, 12));
    if (bad && random_below(r, 2))
        v->loss_scale = scales[random_below(r, 5)];
    for (unsigned g = 0; g < CALLER_MOST_GROUPS; g++) {
        v->max_norms[g] = (float)(0.25 + random_below(r, 1000) / 10.0);
        if (bad && random_below(r, 3) == 0)
            v->max_norms[g] = norms[random_below(r, 5)];
    }
    if (!(s->has & CALLER_UPDATED_STATE)) // otherwise as the previous step left it
        v->state = (struct ptx_loss_scale_state) { v->loss_scale, 17 };
    upload(s);
}

float caller_scalars_loss_scale(const struct caller_scalars *s, float own)
{
    return s->has & CALLER_LOSS_SCALE                       ? s->values.loss_scale
           : s->has & (CALLER_STATE | CALLER_UPDATED_STATE) ? s->values.state.scale
                                                            : own;
}

void caller_scalars_check(struct caller_scalars *s, bool found)
{
    struct caller_values got;

    if (s->has & CALLER_FOUND_INF_TO)
        s->values.found_inf_to = found;
    if (s->has & CALLER_UPDATED_STATE)
        require(ptx_loss_scale_step(&s->values.state, found, &s->update));
    require_done(ptx_buffer_download(s->memory, 0, &got, sizeof got, gpu.stream));
    assert_memory_equal(&got, &s->values, sizeof got);
}
