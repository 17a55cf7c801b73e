// SPDX-License-Identifier: MIT
#include "cases.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "reference/observer.h"

// ---- observe_min_max ----------------------------------------------------------------------------

static void check_extremes(struct suite *s, const struct gpu_kernel *loaded, const void *x,
                           uint64_t n, const float before[2])
{
    float after[2] = { before[0], before[1] };
    struct gpu_case c;
    ref_observe_min_max(s->type, x, n, after);
    gpu_case_begin(&c, loaded, n);
    gpu_case_tensor(&c, "x", s->type, n, x, NULL);
    gpu_case_value(&c, &n, sizeof n);
    gpu_case_tensor(&c, "extremes", REF_F32, 2, before, after)->exact = true;
    snprintf(c.note, sizeof c.note, "from %a, %a", (double)before[0], (double)before[1]);
    gpu_check(&s->random, &c);
}

void check_observe_min_max(ptx_type dtype)
{
    static const float before[][2] = {
        { INFINITY, -INFINITY }, { -2, 3 }, { 0, 0 }, { -1e30f, -1e-30f }, { 1e-9f, 4 }
    };
    static const enum data_kind kinds[] = { DATA_PLAIN, DATA_WILD, DATA_PLAIN, DATA_SPECIAL };
    enum { BEFORE = sizeof before / sizeof *before };
    struct suite s;
    suite_begin(&s, &ptx_kernel_observe_min_max, dtype);
    void *room = suite_room(&s);
    for (int trial = 0; trial < 4; ++trial) {
        data_fill(&s.random, s.type, kinds[trial], room, s.most);
        if (trial == 2) // one sign
            data_make_positive(s.type, room, s.most);
        for (int i = 0; i < s.size_count; ++i) {
            if (s.sizes[i] > 20000 && (trial + i) % 4)
                continue;
            check_extremes(&s, &s.loaded[(trial + i) % s.count], suite_window(&s, room, s.sizes[i]),
                           s.sizes[i], before[(trial + i) % BEFORE]);
        }
    }
    free(room);
    suite_end(&s);
}

// ---- moving_average_update ----------------------------------------------------------------------

static const float pairs[][2] = {
    { INFINITY, -INFINITY },
    { -1.5f, 2.25f },
    { -0.0f, 0.0f },
    { 0.75f, 3 },
    { -3, -1e-3f },
    { -FLT_MAX, FLT_MAX },
    { -0x1p-149f, 0x1p-140f },
    { NAN, NAN },
    { -INFINITY, 1 },
    { -1, INFINITY },
    { INFINITY, INFINITY },
    { -1e-3f, 7.7f },
    { -2.5f, 0 },
};
static const struct ref_observer rules[] = {
    { 0.01f, 0x1p-23f, -128, 127, false, 0 },
    { 1, 0x1p-23f, -8, 7, false, 0 },
    { 0.3f, 1e-30f, 0, 255, false, 128 },
    { 0.1f, 0x1p-23f, 3, 4, false, 3 },
    { 0.01f, 0x1p-10f, INT32_MIN, INT32_MAX, false, -5 },
};

static void check_update(struct random *r, const struct gpu_kernel *loaded,
                         struct ref_observer rule, const float seen[2], const float old[2])
{
    float extremes[2] = { seen[0], seen[1] }, averages[2] = { old[0], old[1] }, scale = 0;
    int32_t zero_point = 0;
    struct gpu_case c;
    rule.symmetric = gpu_kernel_has(loaded, "scheme", "symmetric");
    ref_moving_average_update(&rule, extremes, averages, &scale, &zero_point);
    gpu_case_begin(&c, loaded, 1);
    gpu_case_tensor(&c, "extremes", REF_F32, 2, seen, extremes);
    gpu_case_tensor(&c, "averages", REF_F32, 2, old, averages);
    gpu_case_value(&c, &rule.averaging_constant, sizeof rule.averaging_constant);
    gpu_case_value(&c, &rule.q_min, sizeof rule.q_min);
    gpu_case_value(&c, &rule.q_max, sizeof rule.q_max);
    gpu_case_value(&c, &rule.eps, sizeof rule.eps);
    if (rule.symmetric)
        gpu_case_value(&c, &rule.zero, sizeof rule.zero);
    gpu_case_tensor(&c, "scale", REF_F32, 1, NULL, &scale);
    gpu_case_tensor(&c, "zero_point", REF_F32, 1, NULL, &zero_point);
    snprintf(c.note, sizeof c.note, "%a, %a after %a, %a; %" PRId32 " to %" PRId32, (double)seen[0],
             (double)seen[1], (double)old[0], (double)old[1], rule.q_min, rule.q_max);
    gpu_check(r, &c);
}

void check_moving_average_update(ptx_type dtype)
{
    enum { PAIRS = sizeof pairs / sizeof *pairs, RULES = sizeof rules / sizeof *rules };
    struct gpu_kernel loaded[GPU_MOST_VARIANTS];
    struct random r = gpu_random("moving_average_update");
    const int count = gpu_load_variants(&ptx_kernel_moving_average_update, dtype, loaded);
    int trial = 0;
    for (int v = 0; v < count; ++v) {
        for (int old = 0; old < PAIRS; ++old)
            for (int seen = 0; seen < PAIRS; ++seen)
                check_update(&r, &loaded[v], rules[trial++ % RULES], pairs[seen], pairs[old]);
        gpu_kernel_unload(&loaded[v]);
    }
}
