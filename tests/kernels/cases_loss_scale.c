// SPDX-License-Identifier: MIT
#include "cases.h"

#include <math.h>
#include <stdio.h>

#include "data.h"

static const struct ref_loss_scale rules[] = {
    { 2.0f, 0.5f, 2000, 0.0f, INFINITY, 1 },
    { 1.1f, 0.3f, 1, 0.0f, INFINITY, 1 },
    { 2.0f, 0.5f, 3, 1.0f, 65536.0f, 2 },
    { 3e38f, 0x1p-149f, 2, 0x1p-20f, 3e38f, 3 },
    { 1.0000001f, 0.9999999f, INT32_MAX, 7.0f, 7.0f, INT32_MAX },
};
static const float scales[] = { 65536.0f, 1.0f, 0x1.fffffep127f, 0x1p127f, 0x1p-149f, 0x1p-126f,
                                3.3f,     0.0f };
static const int32_t trackers[] = {
    0, 1, 2, 1998, 1999, 2000, -1, -2, -3, INT32_MAX, INT32_MIN + 1
};
static const float findings[] = { 0.0f, -0.0f, 1.0f, NAN, INFINITY, 0x1p-149f };

static void check_update(struct random *r, const struct gpu_kernel *loaded,
                         struct ref_loss_scale rule, float scale, int32_t tracker, float found)
{
    float scale_after = scale;
    int32_t tracker_after = tracker;
    struct gpu_case c;
    ref_loss_scale_update(&scale_after, &tracker_after, found != 0.0f, rule);
    gpu_case_begin(&c, loaded, 1);
    gpu_case_tensor(&c, "scale", REF_F32, 1, &scale, &scale_after);
    gpu_case_tensor(&c, "growth_tracker", REF_F32, 1, &tracker, &tracker_after);
    gpu_case_tensor(&c, "found_inf", REF_F32, 1, &found, NULL);
    gpu_case_value(&c, &rule.growth, sizeof rule.growth);
    gpu_case_value(&c, &rule.backoff, sizeof rule.backoff);
    gpu_case_value(&c, &rule.interval, sizeof rule.interval);
    gpu_case_value(&c, &rule.min_scale, sizeof rule.min_scale);
    gpu_case_value(&c, &rule.max_scale, sizeof rule.max_scale);
    gpu_case_value(&c, &rule.hysteresis, sizeof rule.hysteresis);
    snprintf(c.note, sizeof c.note, "scale %a, tracker %d, found %g, growth %g, backoff %g",
             (double)scale, tracker, (double)found, (double)rule.growth, (double)rule.backoff);
    gpu_check(r, &c);
}

void check_loss_scale_update(ptx_type dtype)
{
    struct gpu_kernel loaded;
    struct random r = gpu_random("loss_scale_update");
    int trial = 0;
    gpu_kernel_load(&ptx_kernel_loss_scale_update, &(struct ptx_kernel_spec) { .dtype = dtype },
                    gpu_target(), &loaded);
    for (size_t k = 0; k < sizeof rules / sizeof *rules; ++k)
        for (size_t s = 0; s < sizeof scales / sizeof *scales; ++s)
            for (size_t t = 0; t < sizeof trackers / sizeof *trackers; ++t, ++trial) {
                const float found = findings[trial % 2 ? trial / 2 % 6 : 0];
                check_update(&r, &loaded, rules[k], scales[s], trackers[t], found);
            }
    gpu_kernel_unload(&loaded);
}
