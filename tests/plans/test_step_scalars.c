// SPDX-License-Identifier: MIT
// Step plans with scalars at the caller's addresses: max_norm, the loss scale and found_inf; and
// setters in a captured graph.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "caller_scalars.h"
#include "step_fixture.h"

enum { ALL_RULES = (1 << PTX_STEP_RULE_COUNT) - 1, ALL_FORMATS = (1 << PTX_STEP_FORMAT_COUNT) - 1 };

static struct gpu gpu;
static struct step_set set;

static void check_scalars(struct random *r, struct ptx_step_params params, unsigned has)
{
    struct caller_scalars scalars;
    struct ptx_clip_summary summary;

    caller_scalars_create(&scalars, &gpu, r, has);
    CALLER_SCALARS_SET(&scalars, &params);
    ptx_step_plan *plan = step_create(&gpu, &params);
    const struct any_plan any = { .step = plan };
    ptx_graph *graph = plan_capture(&gpu, any);
    for (unsigned step = 0; step < 6; step++) {
        caller_scalars_change(&scalars, r);
        for (uint32_t g = 0; g < set.norm_groups; g++)
            set.max_norms[g] = scalars.values.max_norms[g];
        set.found_inf = has & CALLER_FOUND_INF ? scalars.values.found_inf : 0;
        step_set_gradients(&set, r, step == 4 && !isinf(params.max_norm) ? NAN : 0);
        const bool found =
            step_set_expect(&set, &params, caller_scalars_loss_scale(&scalars, params.loss_scale));
        plan_run(&gpu, any, (enum plan_form)(step % 3), graph);
        step_set_check(&set, "scalars of the caller");
        require(ptx_step_plan_read(plan, 0, 0, NULL, &summary, gpu.stream));
        caller_scalars_check(&scalars, found);
        assert_true(summary.found_inf == (found ? 1.0f : 0.0f));
    }
    ptx_graph_destroy(&graph);
    ptx_step_plan_destroy(&plan);
    caller_scalars_destroy(&scalars);
}

// Every combination of the first three scalars, with each source of the loss scale in turn.
static void test_random_sets(void **state)
{
    (void)state;
    static const unsigned scale[] = { 0, CALLER_LOSS_SCALE, CALLER_STATE, CALLER_UPDATED_STATE };
    struct random r = gpu_random(&gpu, "scalars of the caller, step");

    for (unsigned trial = 0; trial < 32; trial++) {
        const struct step_shape shape = { .tensors = 2 + random_below(&r, 6),
                                          .groups = 1 + random_below(&r, 3),
                                          .norm_groups = 1 + random_below(&r, 3),
                                          .most = 1500,
                                          .rules = ALL_RULES,
                                          .formats = ALL_FORMATS,
                                          .aligned = trial % 2 };
        step_set_create(&set, &gpu, &r, &shape);
        set.gradients = (ptx_step_gradients)(trial % 3);
        struct ptx_step_params params = step_set_params(&set);
        params.loss_scale = 8;
        check_scalars(&r, params, trial % 8 | scale[trial / 8]);
        step_set_destroy(&set);
    }
}

static const struct step_shape plain = { .tensors = 8,
                                         .groups = 2,
                                         .norm_groups = 2,
                                         .most = 1000,
                                         .rules = ALL_RULES,
                                         .formats = ALL_FORMATS };

// Without a limit there is no norm, but the inputs still count. A limit that is read, or a result
// that is written, needs a norm.
static void test_no_limit(void **state)
{
    (void)state;
    struct random r = gpu_random(&gpu, "scalars of the caller, no limit");
    struct ptx_step_description d;

    step_set_create(&set, &gpu, &r, &plain);
    struct ptx_step_params params = step_set_params(&set);
    params.max_norm = INFINITY;
    params.loss_scale = 8;
    check_scalars(&r, params, CALLER_FOUND_INF | CALLER_LOSS_SCALE);
    check_scalars(&r, params, CALLER_FOUND_INF | CALLER_FOUND_INF_TO);
    check_scalars(&r, params, CALLER_MAX_NORMS | CALLER_STATE);
    require(ptx_step_describe(&params, &d));
    const uint64_t bytes = d.bytes;
    params.max_norms_at = 16;
    require(ptx_step_describe(&params, &d));
    assert_true(d.bytes > bytes);
    params.max_norms_at = 0;
    params.found_inf_to = 16;
    require(ptx_step_describe(&params, &d));
    assert_true(d.bytes > bytes);
    step_set_destroy(&set);
}

static void test_setters(void **state)
{
    (void)state;
    struct random r = gpu_random(&gpu, "setters of the caller's, step");
    const struct ptx_loss_scale_state one = { .scale = 1 };
    struct caller_scalars scalars;

    step_set_create(&set, &gpu, &r, &plain);
    struct ptx_step_params params = step_set_params(&set);
    params.max_norm = 0; // may be left out
    caller_scalars_create(&scalars, &gpu, &r, CALLER_MAX_NORMS | CALLER_LOSS_SCALE);
    CALLER_SCALARS_SET(&scalars, &params);
    ptx_step_plan *plan = step_create(&gpu, &params);
    expect_refused(ptx_step_plan_set_max_norm(plan, 0, 1, gpu.stream),
                   "the plan reads it at max_norms_at, 0x");
    expect_refused(ptx_step_plan_set_loss_scale(plan, one, gpu.stream),
                   "the plan reads it at loss_scale_at, 0x");
    require(ptx_step_plan_set_addresses(plan, 0, set.count, set.tensors, gpu.stream));
    ptx_step_plan_destroy(&plan);
    caller_scalars_destroy(&scalars);
    step_set_destroy(&set);
}

// A norm group is not called as a hyperparameter group is.
static void test_norm_groups(void **state)
{
    (void)state;
    struct random r = gpu_random(&gpu, "norm groups of a setter, step");

    step_set_create(&set, &gpu, &r, &plain);
    struct ptx_step_params params = step_set_params(&set);
    params.norm_group_count = 9;
    ptx_step_plan *plan = step_create(&gpu, &params);
    require(ptx_step_plan_set_max_norm(plan, 8, 1, gpu.stream));
    expect_refused(ptx_step_plan_set_max_norm(plan, 9, 1, gpu.stream),
                   "norm_group is 9; the plan has norm groups 0 to 8");
    ptx_step_plan_destroy(&plan);
    step_set_destroy(&set);
}

struct settings {
    double lr;
    float max_norm, loss_scale;
    CUdeviceptr gradient; // of the first tensor; 0: left out
};

static void apply(ptx_step_plan *plan, const struct settings *to)
{
    for (uint32_t g = 0; g < set.groups; g++) {
        struct ptx_step_hyper hyper = set.group[g].hyper;
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
    for (uint32_t g = 0; g < set.groups; g++)
        set.group[g].hyper.lr = with->lr;
    set.tensors[0].gradient = with->gradient;
    params.max_norm = with->max_norm;
    step_set_gradients(&set, r, 0);
    step_set_expect(&set, &params, with->loss_scale);
}

// A graph has the values of the setters that were captured: a replay sets them again, and they
// stay. The capture itself sets nothing.
static void test_captured_setters(void **state)
{
    (void)state;
    struct random r = gpu_random(&gpu, "captured setters");

    step_set_create(&set, &gpu, &r, &plain);
    const struct ptx_step_params params = step_set_params(&set);
    const struct settings launched = { 0.01, 2.0f, 16.0f, set.tensors[0].gradient };
    const struct settings captured = { 0.03, 0.5f, 4.0f, 0 };
    ptx_step_plan *plan = step_create(&gpu, &params);
    apply(plan, &launched);
    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
    apply(plan, &captured);
    require(ptx_step_plan_run(plan, gpu.stream));
    ptx_graph *graph = end_capture(&gpu, gpu.stream);
    const struct ptx_graph_info *info = ptx_graph_get_info(graph);
    assert_int_equal(info->kernel_nodes, set.groups + 6); // three setters, three of the run
    assert_int_equal(info->nodes, info->kernel_nodes);
    for (unsigned turn = 0; turn < 2; turn++) {
        expect_step(&r, params, &launched);
        require(ptx_step_plan_run(plan, gpu.stream));
        step_set_check(&set, "as launched");
        expect_step(&r, params, &captured);
        require(ptx_graph_launch(graph, gpu.stream));
        step_set_check(&set, "as captured");
        expect_step(&r, params, &captured);
        require(ptx_step_plan_run(plan, gpu.stream));
        step_set_check(&set, "after a replay");
        apply(plan, &launched);
    }
    ptx_graph_destroy(&graph);
    ptx_step_plan_destroy(&plan);
    step_set_destroy(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_sets),      cmocka_unit_test(test_no_limit),
        cmocka_unit_test(test_setters),          cmocka_unit_test(test_norm_groups),
        cmocka_unit_test(test_captured_setters),
    };
    gpu_open(&gpu);
    const int failed =
        cmocka_run_group_tests_name("step plans: scalars of the caller", tests, NULL, NULL);
    gpu_close(&gpu);
    return failed;
}
