// SPDX-License-Identifier: MIT
// Clip plans with guards: each decision, factor and byte of the state as in plain C, over steps
// with outliers, NaN and infinity, in every form of a run.
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clip_fixture.h"
#include "reference/guard.h"
#include "test.h"

static struct clip_set set;

enum { STATE_BYTES = 1 << 15, INPUTS = 64 };

// What the caller has in device memory.
struct inputs {
    float skip, loss, limits[CLIP_MOST_GROUPS];
};

struct guarded {
    struct ptx_guard_params guards;
    struct ref_guards reference;
    struct ref_guard_state expected;
    float loss_scale;
    ptx_nonfinite nonfinite;
    struct inputs values;
    ptx_buffer *memory; // inputs, then the state
    uint64_t bytes;     // of the state
    ptx_clip_plan *plan;
    ptx_graph *graph;
};

static CUdeviceptr input_at(const struct guarded *g, size_t offset)
{
    return ptx_buffer_address(g->memory) + offset;
}

// Makes the plan of the set, with these guards.
static void guarded_create(struct guarded *g, struct ptx_guard_params guards, bool has_own_state)
{
    struct ptx_clip_params params = clip_set_params(&set);

    g->reference = (struct ref_guards) {
        .groups = set.groups,
        .limits = guards.limit != 0 || guards.limits_at ? g->values.limits : NULL,
        .length = guards.history.length,
        .deviations = guards.history.deviations != 0 ? guards.history.deviations : 6,
        .has_loss = guards.history.loss_at != 0,
        .most_skips = guards.history.most_skips,
        .group = guards.history.one_group ? (int)guards.history.group : -1,
        .zclip_warmup = guards.zclip.warmup,
        .alpha = 0.97,
        .z_most = 2.5,
        .adagc_warmup = guards.adagc.warmup,
        .lambda_abs = 1,
        .lambda_rel = 1.05,
        .beta = 0.98,
        .eps = 1e-6f,
    };
    for (uint32_t k = 0; k < set.groups; k++)
        g->values.limits[k] = guards.limit;
    memset(&g->expected, 0, sizeof g->expected);
    g->memory = made(ptx_buffer_create(gpu.device, INPUTS + STATE_BYTES));
    require(ptx_buffer_fill(g->memory, 0, 0, INPUTS + STATE_BYTES, gpu.stream));
    if (guards.limits_at)
        guards.limits_at = input_at(g, offsetof(struct inputs, limits));
    if (guards.skip_at)
        guards.skip_at = input_at(g, offsetof(struct inputs, skip));
    if (guards.history.loss_at)
        guards.history.loss_at = input_at(g, offsetof(struct inputs, loss));
    g->bytes = ptx_guard_state_bytes(&guards, set.groups);
    assert_true(g->bytes > 0 && g->bytes <= STATE_BYTES);
    guards.state = has_own_state ? 0 : input_at(g, INPUTS);
    guards.state_bytes = g->bytes;
    g->guards = guards;
    params.guards = &guards;
    params.eps = 1e-6f;
    params.loss_scale = g->loss_scale;
    params.nonfinite = g->nonfinite;
    g->plan = clip_create(&params);
    g->graph = plan_capture((struct any_plan) { .clip = g->plan });
}

static void guarded_destroy(struct guarded *g)
{
    ptx_graph_destroy(&g->graph);
    ptx_clip_plan_destroy(&g->plan);
    ptx_buffer_destroy(&g->memory);
}

// New gradients whose norm is about `size`, one of them `bad` if that is not 0.
static void fill(struct random *r, double size, float bad)
{
    uint64_t count = 0;

    for (size_t t = 0; t < set.count; t++)
        count += set.host[t].count;
    for (size_t t = 0; t < set.count; t++)
        for (uint64_t i = 0; i < set.host[t].count; i++) {
            const double x = random_unit(r) * size * sqrt(3.0 / (double)count);
            ref_store(set.host[t].type, set.host[t].data, i, x);
        }
    const size_t t = random_below(r, (uint32_t)set.count);
    if (bad != 0 && set.host[t].count)
        ref_store(set.host[t].type, set.host[t].data, 0, (double)bad);
    clip_set_upload(&set);
}

static void check_state(const struct guarded *g)
{
    static unsigned char is[STATE_BYTES], must[STATE_BYTES];
    const CUdeviceptr at = ptx_clip_plan_get_info(g->plan)->guard_state;

    assert_int_equal(ref_guard_bytes(&g->reference, &g->expected, must), g->bytes);
    require_done(ptx_address_download(gpu.device, at, is, g->bytes, gpu.stream));
    for (size_t k = 0; k < g->bytes; k++)
        if (is[k] != must[k])
            fail_msg("byte %zu of the state is %u, must be %u; skipped %g, must be %d", k, is[k],
                     must[k], (double)((struct ptx_guard_state *)(void *)is)->skipped,
                     (int)g->expected.skipped);
}

// Runs the plan once on the gradients that are there; returns why it skips.
static enum ref_skip step(struct guarded *g, enum plan_form form)
{
    const struct ref_clip_plan plain = { .tensors = set.host,
                                         .tensor_count = set.count,
                                         .group_count = set.groups,
                                         .nonfinite = (enum ref_nonfinite)g->nonfinite };
    struct ptx_clip_params params = clip_set_params(&set);
    struct clip_expected expected;
    const struct ref_guard_step of = { expected.sums, expected.records, g->loss_scale,
                                       g->guards.skip_at ? g->values.skip : 0, g->values.loss };

    params.eps = 1e-6f;
    params.nonfinite = g->nonfinite;
    params.measure_only = true;
    require(ptx_buffer_upload(g->memory, 0, &g->values, sizeof g->values, gpu.stream));
    clip_set_expect(&set, &params, g->loss_scale, &expected);
    const enum ref_skip why = ref_guard_decide(&g->reference, &g->expected, &of);
    for (uint32_t k = 0; k < set.groups; k++)
        ref_clip_apply(&plain, k, expected.records[k]);
    plan_run((struct any_plan) { .clip = g->plan }, form, g->graph);
    clip_set_check(&set, g->plan, &expected);
    check_state(g);
    return why;
}

static const struct clip_shape shape = {
    .tensors = 5, .groups = 2, .most = 300, .types = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(BF16)
};

// A norm that moves slowly, outliers, and what is not finite.
static float bad_of(unsigned step)
{
    return step % 37 == 20 ? NAN : step % 41 == 30 ? INFINITY : 0;
}

static void run_steps(struct guarded *g, struct random *r, unsigned steps, unsigned seen[8])
{
    for (unsigned k = 0; k < steps; k++) {
        const double usual = 2 + sin(k / 10.0) + 0.1 * random_unit(r);
        fill(r, k % 23 == 17 ? 60 * usual : k % 29 == 28 ? 4 * usual : usual, bad_of(k));
        g->values.loss = k % 31 == 25   ? 50.0f
                         : k % 67 == 50 ? NAN
                         : k % 71 == 60 ? INFINITY
                                        : (float)(3 + 0.1 * random_unit(r));
        g->values.skip = k % 19 == 11 ? 1.0f : 0;
        seen[step(g, (enum plan_form)(k % 3))]++;
    }
}

static bool has_elements(void)
{
    for (size_t t = 0; t < set.count; t++)
        if (set.host[t].count)
            return true;
    return false;
}

// With two of the twelve kinds of plans, the next call with the next two. Without an element no
// norm is above a limit.
static void check_guards(const char *name, struct ptx_guard_params guards, unsigned steps,
                         unsigned seen[8])
{
    static unsigned trial;
    struct random r = gpu_random(name);

    for (unsigned last = trial + 2; trial < last; trial++) {
        struct guarded g = { .loss_scale = trial % 2 ? 1024.0f : 1.0f,
                             .nonfinite = (ptx_nonfinite)(trial % 3) };
        struct clip_shape of = shape;
        of.groups = trial % 4 ? 1 + random_below(&r, CLIP_MOST_GROUPS) : 1;
        of.tensors = of.groups + random_below(&r, 4);
        do
            clip_set_create(&set, &r, &of);
        while (!has_elements());
        if (guards.history.one_group)
            guards.history.group = random_below(&r, of.groups);
        guarded_create(&g, guards, trial % 4 == 3);
        run_steps(&g, &r, steps, seen);
        guarded_destroy(&g);
    }
}

TEST(test_none)
{
    unsigned seen[8] = { 0 };

    check_guards("no guard", (struct ptx_guard_params) { 0 }, 60, seen);
    assert_true(seen[REF_SKIP_NONE] && seen[REF_SKIP_FOUND_INF]);
    assert_int_equal(seen[REF_SKIP_NONE] + seen[REF_SKIP_FOUND_INF], 120);
}

TEST(test_limit)
{
    unsigned seen[8] = { 0 };

    check_guards("limit", (struct ptx_guard_params) { .limit = 1500, .skip_at = 4 }, 60, seen);
    check_guards("limit", (struct ptx_guard_params) { .limit = 20 }, 60, seen);
    assert_true(seen[REF_SKIP_LIMIT] && seen[REF_SKIP_GIVEN] && seen[REF_SKIP_NONE]);
}

// A limit for each group at an address: NaN limits nothing, a value below 0 skips every step.
TEST(test_limits_at)
{
    static const float limits[] = { 1e30f, 1.0f, NAN, -1.0f, 0.0f, INFINITY };
    static const enum ref_skip expected[] = { REF_SKIP_NONE,  REF_SKIP_LIMIT, REF_SKIP_NONE,
                                              REF_SKIP_LIMIT, REF_SKIP_LIMIT, REF_SKIP_NONE };
    struct random r = gpu_random("limits at an address");
    struct guarded g = { .loss_scale = 1 };
    struct clip_shape of = shape;

    of.groups = 1, of.tensors = 3, of.most = 100;
    do
        clip_set_create(&set, &r, &of);
    while (set.host[0].count == 0);
    guarded_create(&g, (struct ptx_guard_params) { .limits_at = 4 }, false);
    for (size_t k = 0; k < 18; k++) {
        fill(&r, 5, 0);
        g.values.limits[0] = limits[k % 6];
        assert_int_equal(step(&g, (enum plan_form)(k / 6)), expected[k % 6]);
    }
    guarded_destroy(&g);
}

TEST(test_history)
{
    const struct ptx_guard_history_params kinds[] = {
        { .length = 6, .deviations = 1.5 },
        { .length = 16 },
        { .length = 33, .loss_at = 4, .deviations = 3 },
        { .length = 16, .one_group = true, .deviations = 2 },
        { .length = 7, .most_skips = 2, .deviations = 1 },
        { .length = 20, .most_skips = 1, .loss_at = 4 },
    };
    unsigned seen[8] = { 0 };

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        check_guards("history", (struct ptx_guard_params) { .history = kinds[k] }, 45, seen);
    assert_true(seen[REF_SKIP_HISTORY] && seen[REF_SKIP_NONE]);
}

TEST(test_zclip)
{
    unsigned seen[8] = { 0 };

    check_guards("zclip", (struct ptx_guard_params) { .zclip.warmup = 1 }, 60, seen);
    check_guards("zclip", (struct ptx_guard_params) { .zclip.warmup = 25, .limit = 100 }, 90, seen);
    assert_true(seen[REF_SKIP_LIMIT] && seen[REF_SKIP_NONE]);
}

TEST(test_adagc)
{
    unsigned seen[8] = { 0 };

    check_guards("adagc", (struct ptx_guard_params) { .adagc.warmup = 1 }, 60, seen);
    check_guards("adagc", (struct ptx_guard_params) { .adagc.warmup = 20, .skip_at = 4 }, 90, seen);
    assert_true(seen[REF_SKIP_GIVEN] && seen[REF_SKIP_NONE]);
}

// Replays of one graph with all of them, as a plain loop. A skipped step leaves the
// gradients.
static void check_replays(struct ptx_guard_params guards, unsigned steps)
{
    struct random r = { 1000 }; // of its own: every reason must be seen more than a few times
    struct guarded g = { .loss_scale = 8, .nonfinite = PTX_NONFINITE_SKIP };
    struct clip_shape of = shape;
    unsigned seen[8] = { 0 };

    of.groups = 3, of.most = 40;
    clip_set_create(&set, &r, &of);
    guarded_create(&g, guards, false);
    for (unsigned k = 0; k < steps; k++) {
        const bool spike = random_below(&r, 40) == 0;
        const float bad = random_below(&r, 60) == 0 ? INFINITY : 0;
        fill(&r, 8 * (spike ? 3 + 200 * fabs(random_unit(&r)) : 2 + 0.1 * random_unit(&r)), bad);
        g.values.loss = (float)(random_below(&r, 50) ? 3 + 0.05 * random_unit(&r) : 30);
        g.values.skip = random_below(&r, 80) == 0;
        seen[step(&g, REPLAYED)]++;
    }
    for (unsigned why = 0; why <= REF_SKIP_HISTORY; why++)
        assert_true(seen[why] > steps / 300);
    guarded_destroy(&g);
}

TEST(test_replays)
{
    check_replays((struct ptx_guard_params) { .limit = 100,
                                              .skip_at = 4,
                                              .history = { .length = 128, .loss_at = 4 },
                                              .zclip.warmup = 25 },
                  1000);
}

// AdaGC, and a history that leaves skipped steps out.
TEST(test_replays_of_others)
{
    check_replays(
        (struct ptx_guard_params) { .limit = 100,
                                    .skip_at = 4,
                                    .history = { .length = 20, .loss_at = 4, .most_skips = 3 },
                                    .adagc.warmup = 100 },
        500);
}

int main(void)
{
    // On the emulator: so few multiprocessors that blocks draw tiles.
    setenv("PTXGEN_EMU_DEVICE", "sm_90,sms=2", 0);
    return gpu_tests_run();
}
