// SPDX-License-Identifier: MIT
// Plans with scalars and sums at the caller's addresses: max_norm, the loss scale, found_inf and
// the sums; and setters, also in a captured graph.
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "caller_scalars.h"
#include "clip_fixture.h"
#include "sanitized.h"
#include "step_fixture.h"
#include "test.h"

static struct clip_set clip;
static struct clip_expected clip_expected;
static struct ptx_clip_params clip_params;
static struct step_set steps;
static struct ptx_step_params step_params;

static void clip_random(struct random *r, unsigned trial)
{
    const struct clip_shape shape = { .tensors = 1 + random_below(r, 12),
                                      .groups = 1 + random_below(r, 4),
                                      .most = 2500,
                                      .aligned = trial % 2 };
    clip_set_create(&clip, r, &shape);
    clip_params = clip_set_params(&clip);
    clip_params.nonfinite = (ptx_nonfinite)(trial % 3);
    clip_params.measure_only = trial % 7 == 3;
}

static struct any_plan clip_plan(const struct caller_scalars *scalars)
{
    CALLER_SCALARS_SET(scalars, &clip_params);
    return (struct any_plan) { .clip = clip_create(&clip_params),
                               .measures = clip_params.measure_only };
}

static bool clip_expect(struct random *r, float loss_scale, bool bad)
{
    clip_set_fill(&clip, r, bad ? DATA_SPECIAL : DATA_PLAIN);
    clip_set_expect(&clip, &clip_params, loss_scale, &clip_expected);
    return clip_expected.found;
}

static void clip_check(struct any_plan plan, bool found)
{
    (void)found; // clip_expected has it
    clip_set_check(&clip, plan.clip, &clip_expected);
}

static void step_random(struct random *r, unsigned trial)
{
    const struct step_shape shape = { ALL_STEPS,
                                      .tensors = 2 + random_below(r, 6),
                                      .groups = 1 + random_below(r, 3),
                                      .norm_groups = 1 + random_below(r, 3),
                                      .most = 1500,
                                      .aligned = trial % 2 };
    step_set_create(&steps, r, &shape);
    steps.gradients = (ptx_step_gradients)(trial % 3);
    step_params = step_set_params(&steps);
    step_params.loss_scale = 8;
}

static struct any_plan step_plan(const struct caller_scalars *scalars)
{
    CALLER_SCALARS_SET(scalars, &step_params);
    return (struct any_plan) { .step = step_create(&step_params) };
}

static bool step_expect(struct random *r, float loss_scale, bool bad)
{
    step_set_gradients(&steps, r, bad && !isinf(step_params.max_norm) ? NAN : 0);
    return step_set_expect(&steps, &step_params, loss_scale);
}

static void step_check(struct any_plan plan, bool found)
{
    struct ptx_clip_summary summary;

    step_set_check(&steps, "scalars of the caller");
    require_done(ptx_step_plan_read(plan.step, 0, 0, NULL, &summary, gpu.stream));
    assert_true(summary.found_inf == (found ? 1.0f : 0.0f));
}

enum kind { CLIP, STEP, KINDS };
static const struct {
    const char *name;
    float loss_scale; ///< without one of the caller
    uint32_t *groups; ///< of norms
    float *max_norms, *found_inf;
    void (*random)(struct random *r, unsigned trial); ///< a random set and its parameters
    struct any_plan (*plan)(const struct caller_scalars *scalars);
    bool (*expect)(struct random *r, float loss_scale, bool bad); ///< one step on the host
    void (*check)(struct any_plan plan, bool found);
} kinds[KINDS] = {
    { "scalars of the caller, clip", 1, &clip.groups, clip.max_norms, &clip.found_inf, clip_random,
      clip_plan, clip_expect, clip_check },
    { "scalars of the caller, step", 8, &steps.norm_groups, steps.max_norms, &steps.found_inf,
      step_random, step_plan, step_expect, step_check },
};

static void check_scalars(enum kind k, struct random *r, unsigned has)
{
    struct caller_scalars scalars;
    float own[CLIP_MOST_GROUPS];

    // The caller's may be values that the next plan's creation refuses.
    memcpy(own, kinds[k].max_norms, *kinds[k].groups * sizeof *own);
    caller_scalars_create(&scalars, r, has);
    struct any_plan plan = kinds[k].plan(&scalars);
    ptx_graph *graph = plan_capture(plan);
    for (unsigned step = 0; step < 6; step++) {
        caller_scalars_change(&scalars, r);
        if (has & CALLER_MAX_NORMS)
            memcpy(kinds[k].max_norms, scalars.values.max_norms, *kinds[k].groups * sizeof *own);
        *kinds[k].found_inf = has & CALLER_FOUND_INF ? scalars.values.found_inf : 0;
        const bool found =
            kinds[k].expect(r, caller_scalars_loss_scale(&scalars, kinds[k].loss_scale), step == 4);
        plan_run(plan, (enum plan_form)(step % 3), graph);
        kinds[k].check(plan, found);
        caller_scalars_check(&scalars, found);
    }
    memcpy(kinds[k].max_norms, own, *kinds[k].groups * sizeof *own);
    *kinds[k].found_inf = 0;
    ptx_graph_destroy(&graph);
    ptx_clip_plan_destroy(&plan.clip);
    ptx_step_plan_destroy(&plan.step);
    caller_scalars_destroy(&scalars);
}

// Every combination of the first three scalars, with each source of the loss scale in turn.
TEST(test_random_sets)
{
    static const unsigned scale[] = { 0, CALLER_LOSS_SCALE, CALLER_STATE, CALLER_UPDATED_STATE };

    for (enum kind k = CLIP; k < KINDS; k++) {
        struct random r = gpu_random(kinds[k].name);
        for (unsigned trial = 0; trial < 32; trial += SANITIZED_EVERY(5)) {
            kinds[k].random(&r, trial);
            check_scalars(k, &r, trial % 8 | scale[trial / 8]);
        }
    }
}

// A setter refuses a scalar that the plan reads at the caller's address, and only that one.
// max_norm may then be left out.
TEST(test_setters)
{
    struct random r = gpu_random("setters of the caller's");
    const struct ptx_loss_scale_state one = { .scale = 1 };

    for (unsigned trial = 0; trial < 4; trial++) {
        const enum kind k = trial % 2 ? STEP : CLIP;
        const bool limit = trial / 2;
        struct caller_scalars scalars;
        kinds[k].random(&r, trial);
        clip_params.group_max_norms = NULL;
        clip_params.max_norm = step_params.max_norm = limit ? 0.0f : 1.0f;
        caller_scalars_create(&scalars, &r, limit ? CALLER_MAX_NORMS : CALLER_LOSS_SCALE);
        struct any_plan plan = kinds[k].plan(&scalars);
        const ptx_status norm = k == CLIP ? ptx_clip_plan_set_max_norm(plan.clip, 0, 1, gpu.stream)
                                          : ptx_step_plan_set_max_norm(plan.step, 0, 1, gpu.stream);
        if (limit)
            expect_refused(norm, "the plan reads it at max_norms_at, 0x");
        const ptx_status scale = k == CLIP
                                     ? ptx_clip_plan_set_loss_scale(plan.clip, one, gpu.stream)
                                     : ptx_step_plan_set_loss_scale(plan.step, one, gpu.stream);
        if (!limit)
            expect_refused(scale, "the plan reads it at loss_scale_at, 0x");
        require(limit ? scale : norm);
        if (k == STEP)
            require(
                ptx_step_plan_set_addresses(plan.step, 0, steps.count, steps.tensors, gpu.stream));
        ptx_clip_plan_destroy(&plan.clip);
        ptx_step_plan_destroy(&plan.step);
        caller_scalars_destroy(&scalars);
    }
}

// ---- clip plans ---------------------------------------------------------------------------------

// Tensors that share chunks. Factors come from the partials, or from the records where a run writes
// the sums at the caller's address.
TEST(test_packed_sets)
{
    struct random r = gpu_random("scalars of the caller, packed");
    const struct clip_shape shape = {
        .tensors = 2300, .groups = 3, .most = 30, .types = PTX_TYPE_BIT(F32), .aligned = true
    };
    OWNED(ptx_buffer) *sums = made(ptx_buffer_create(gpu.device, shape.groups * sizeof(double)));
    clip_set_create(&clip, &r, &shape);
    clip_params = clip_set_params(&clip);
    clip_params.nonfinite = PTX_NONFINITE_SKIP;
    for (unsigned own = 0; own < 2; own++) {
        clip_params.sums_at = own ? 0 : ptx_buffer_address(sums);
        check_scalars(CLIP, &r, CALLER_MAX_NORMS | CALLER_FOUND_INF | CALLER_FOUND_INF_TO);
    }
}

// Two plans, each with its own gradients, share their norms. Each plan's sums have their own row;
// each factor comes from the sum over both rows.
TEST(test_shared_sums)
{
    enum { GROUPS = 3, PLANS = 2 };
    static struct clip_set sets[PLANS];
    struct random r = gpu_random("shared sums");
    const struct clip_shape shape = { .tensors = 7, .groups = GROUPS, .most = 2500 };
    OWNED(ptx_buffer) *sums =
        ptx_buffer_create(gpu.device, (size_t)PLANS * GROUPS * sizeof(double));
    struct clip_expected expected[PLANS];
    ptx_clip_plan *plans[PLANS];

    assert_non_null(sums);
    for (unsigned k = 0; k < PLANS; k++) {
        clip_set_create(&sets[k], &r, &shape);
        memcpy(sets[k].max_norms, sets[0].max_norms, sizeof sets[0].max_norms);
        struct ptx_clip_params params = clip_set_params(&sets[k]);
        params.sum_rows = PLANS;
        params.sum_row = PLANS - 1 - k;
        params.sums_at = ptx_buffer_address(sums);
        plans[k] = clip_create(&params);
        assert_true(ptx_clip_plan_get_info(plans[k])->sums == params.sums_at);
        params.measure_only = true; // the gradients stay for now
        clip_set_expect(&sets[k], &params, 1.0f, &expected[k]);
        require(ptx_clip_plan_norm_sq(plans[k], gpu.stream));
    }
    for (unsigned k = 0; k < PLANS; k++) {
        const struct ref_clip_plan plan = { .tensors = sets[k].host,
                                            .tensor_count = sets[k].count,
                                            .group_count = GROUPS,
                                            .max_norms = sets[k].max_norms };
        struct clip_expected both = { .found = false };
        for (uint32_t g = 0; g < GROUPS; g++) {
            ref_clip_record(&plan, g, expected[1].sums[g] + expected[0].sums[g], 1.0f,
                            both.records[g]);
            ref_clip_apply(&plan, g, both.records[g]);
        }
        require(ptx_clip_plan_finish(plans[k], gpu.stream));
        require(ptx_clip_plan_apply(plans[k], gpu.stream));
        clip_set_check(&sets[k], plans[k], &both);
        assert_int_equal(ptx_clip_plan_run(plans[k], gpu.stream), PTX_ERROR_INVALID);
        assert_non_null(strstr(ptx_error_message(), "the plan shares its norm"));
    }
    for (unsigned k = 0; k < PLANS; k++)
        ptx_clip_plan_destroy(&plans[k]);
}

// The sums of one plan at the caller's address: a run writes them too.
TEST(test_sums_of_one_plan)
{
    struct random r = gpu_random("sums of one clip plan");
    const struct clip_shape shape = { .tensors = 7, .groups = 3, .most = 2500 };
    double got[3];
    OWNED(ptx_buffer) *sums = ptx_buffer_create(gpu.device, sizeof got);
    struct clip_expected expected;

    assert_non_null(sums);
    clip_set_create(&clip, &r, &shape);
    struct ptx_clip_params params = clip_set_params(&clip);
    params.sums_at = ptx_buffer_address(sums);
    OWNED(ptx_clip_plan) *plan = clip_create(&params);
    clip_set_expect(&clip, &params, 1.0f, &expected);
    require(ptx_clip_plan_run(plan, gpu.stream));
    clip_set_check(&clip, plan, &expected);
    require_done(ptx_buffer_download(sums, 0, got, sizeof got, gpu.stream));
    assert_memory_equal(got, expected.sums, sizeof got);
}

// ---- step plans ---------------------------------------------------------------------------------

static const struct step_shape plain = { ALL_STEPS, .tensors = 8, .groups = 2, .norm_groups = 2,
                                         .most = 1000 };

// Without a limit there is no norm, but the inputs still count. A limit that is read, or a result
// that is written, needs a norm.
TEST(test_no_limit)
{
    struct random r = gpu_random("scalars of the caller, no limit");
    struct ptx_step_description d;

    step_set_create(&steps, &r, &plain);
    step_params = step_set_params(&steps);
    step_params.max_norm = INFINITY;
    step_params.loss_scale = 8;
    check_scalars(STEP, &r, CALLER_FOUND_INF | CALLER_LOSS_SCALE);
    check_scalars(STEP, &r, CALLER_FOUND_INF | CALLER_FOUND_INF_TO);
    check_scalars(STEP, &r, CALLER_MAX_NORMS | CALLER_STATE);
    step_params = step_set_params(&steps);
    step_params.max_norm = INFINITY;
    require(ptx_step_describe(&step_params, &d));
    const uint64_t bytes = d.bytes;
    step_params.max_norms_at = 16;
    require(ptx_step_describe(&step_params, &d));
    assert_true(d.bytes > bytes);
    step_params.max_norms_at = 0;
    step_params.found_inf_to = 16;
    require(ptx_step_describe(&step_params, &d));
    assert_true(d.bytes > bytes);
}

// A norm group is not called as a hyperparameter group is.
TEST(test_norm_groups)
{
    struct random r = gpu_random("norm groups of a setter, step");

    step_set_create(&steps, &r, &plain);
    struct ptx_step_params params = step_set_params(&steps);
    params.norm_group_count = 9;
    OWNED(ptx_step_plan) *plan = step_create(&params);
    require(ptx_step_plan_set_max_norm(plan, 8, 1, gpu.stream));
    expect_refused(ptx_step_plan_set_max_norm(plan, 9, 1, gpu.stream),
                   "norm_group is 9; the plan has norm groups 0 to 8");
}

struct settings {
    double lr;
    float max_norm, loss_scale;
    CUdeviceptr gradient; // of the first tensor; 0: left out
};

static void apply(ptx_step_plan *plan, const struct settings *to)
{
    for (uint32_t g = 0; g < steps.groups; g++) {
        struct ptx_step_hyper hyper = steps.group[g].hyper;
        hyper.lr = to->lr;
        require(ptx_step_plan_set_hyper(plan, g, &hyper, gpu.stream));
    }
    require(ptx_step_plan_set_max_norm(plan, PTX_CLIP_ALL_GROUPS, to->max_norm, gpu.stream));
    require(ptx_step_plan_set_loss_scale(
        plan, (struct ptx_loss_scale_state) { .scale = to->loss_scale }, gpu.stream));
    require(ptx_step_plan_set_gradients(plan, 0, 1, &to->gradient, gpu.stream));
}

static void expect_step(struct random *r, struct ptx_step_params params,
                        const struct settings *with)
{
    for (uint32_t g = 0; g < steps.groups; g++)
        steps.group[g].hyper.lr = with->lr;
    steps.tensors[0].gradient = with->gradient;
    params.max_norm = with->max_norm;
    step_set_gradients(&steps, r, 0);
    step_set_expect(&steps, &params, with->loss_scale);
}

// A graph has the values of the setters that were captured: a replay sets them again, and they
// stay. The capture itself sets nothing.
TEST(test_captured_setters)
{
    struct random r = gpu_random("captured setters");

    step_set_create(&steps, &r, &plain);
    const struct ptx_step_params params = step_set_params(&steps);
    const struct settings launched = { 0.01, 2.0f, 16.0f, steps.tensors[0].gradient };
    const struct settings captured = { 0.03, 0.5f, 4.0f, 0 };
    OWNED(ptx_step_plan) *plan = step_create(&params);
    apply(plan, &launched);
    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
    apply(plan, &captured);
    require(ptx_step_plan_run(plan, gpu.stream));
    OWNED(ptx_graph) *graph = end_capture(gpu.stream);
    const struct ptx_graph_info *info = ptx_graph_get_info(graph);
    assert_int_equal(info->kernel_nodes, steps.groups + 6); // three setters, three of the run
    assert_int_equal(info->nodes, info->kernel_nodes);
    for (unsigned turn = 0; turn < 2; turn++) {
        expect_step(&r, params, &launched);
        require(ptx_step_plan_run(plan, gpu.stream));
        step_set_check(&steps, "as launched");
        expect_step(&r, params, &captured);
        require(ptx_graph_launch(graph, gpu.stream));
        step_set_check(&steps, "as captured");
        expect_step(&r, params, &captured);
        require(ptx_step_plan_run(plan, gpu.stream));
        step_set_check(&steps, "after a replay");
        apply(plan, &launched);
    }
}

// All that ptxgen.torch sets.
static void set_all(ptx_step_plan *plan, const struct settings *to, CUstream stream)
{
    CUdeviceptr gradients[STEP_MOST_TENSORS];

    for (size_t t = 0; t < steps.count; t++)
        gradients[t] = t ? steps.tensors[t].gradient : to->gradient;
    for (uint32_t g = 0; g < steps.groups; g++) {
        struct ptx_step_hyper hyper = steps.group[g].hyper;
        hyper.lr = to->lr;
        require(ptx_step_plan_set_hyper(plan, g, &hyper, stream));
    }
    require(ptx_step_plan_set_max_norm(plan, PTX_CLIP_ALL_GROUPS, to->max_norm, stream));
    require(ptx_step_plan_set_gradients(plan, 0, steps.count, gradients, stream));
}

static size_t nodes_of(ptx_graph **graph, CUstream stream)
{
    *graph = end_capture(stream);
    return ptx_graph_get_info(*graph)->kernel_nodes;
}

// A graph of several steps sets once what stays, but again what a launch beside it has set.
TEST(test_setters_captured_again)
{
    enum { OF_RUN = 3 }; // launches
    struct random r = gpu_random("setters captured again");

    step_set_create(&steps, &r, &plain);
    struct ptx_step_params params = step_set_params(&steps);
    const struct settings first = { 0.01, 2.0f, 1.0f, steps.tensors[0].gradient };
    const struct settings then = { 0.03, 0.5f, 1.0f, 0 };
    const struct settings *const turns[] = { &first, &first, &then };
    const size_t setters = steps.groups + 2;
    OWNED(ptx_step_plan) *plan = step_create(&params);
    ptx_graph *graph = NULL, *other = NULL;
    CUstream beside = ptx_stream_create(gpu.device);

    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
    for (unsigned k = 0; k < 3; k++) {
        set_all(plan, turns[k], gpu.stream);
        require(ptx_step_plan_run(plan, gpu.stream));
    }
    assert_int_equal(nodes_of(&graph, gpu.stream), 2 * setters + 3 * OF_RUN);
    require(ptx_capture_begin(gpu.device, beside, PTX_CAPTURE_THREAD_LOCAL));
    for (unsigned k = 0; k < 2; k++) {
        set_all(plan, &first, beside);
        require(ptx_step_plan_run(plan, beside));
        set_all(plan, &then, gpu.stream);
    }
    assert_int_equal(nodes_of(&other, beside), 2 * setters + 2 * OF_RUN);
    for (unsigned replay = 0; replay < 2; replay++) {
        step_set_gradients(&steps, &r, 0);
        for (unsigned k = 0; k < 3; k++) {
            for (uint32_t g = 0; g < steps.groups; g++)
                steps.group[g].hyper.lr = turns[k]->lr;
            steps.tensors[0].gradient = turns[k]->gradient;
            params.max_norm = turns[k]->max_norm;
            step_set_expect(&steps, &params, 1);
        }
        require(ptx_graph_launch(graph, gpu.stream));
        step_set_check(&steps, "three steps in a graph");
    }
    ptx_graph_destroy(&graph);
    ptx_graph_destroy(&other);
    ptx_stream_destroy(gpu.device, &beside);
}

int main(void)
{
    // On the emulator: so few multiprocessors that blocks draw tiles.
    setenv("PTXGEN_EMU_DEVICE", "sm_90,sms=2", 0);
    return gpu_tests_run();
}
