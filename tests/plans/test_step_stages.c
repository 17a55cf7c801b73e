// SPDX-License-Identifier: MIT
// Several step plans that share one norm, as the stages of a pipeline do: the same bits in whatever
// order the plans are called, as those of plain C.
#include <math.h>
#include <string.h>

#include "step_fixture.h"
#include "test.h"

enum { MOST_STAGES = 5, GUARD = 1 };

static struct step_set set;
static ptx_module *copy;

// The plans of the set's stages. Their sums are in one array, or each has an array of its own.
struct pipeline {
    ptx_step_plan *plans[MOST_STAGES];
    ptx_buffer *sums;  // NULL: the plans' own
    ptx_buffer *scale; // of the loss: the last plan updates it, and the others read it
    struct ptx_loss_scale_state state; // what is there
};

static const struct ptx_loss_scale_params update = { .interval = 1 };

static void pipeline_create(struct pipeline *p, struct ptx_step_params params, bool together)
{
    const size_t rows = set.stages * set.norm_groups;

    *p = (struct pipeline) { 0 };
    if (together) {
        p->sums = made(ptx_buffer_create(gpu.device, (rows + GUARD) * sizeof(double)));
        // Whatever was there is of no matter, and what follows stays.
        require(ptx_buffer_fill(p->sums, 0, 0xff, (rows + GUARD) * sizeof(double), gpu.stream));
    }
    p->state.scale = 4;
    p->scale = made(ptx_buffer_create(gpu.device, sizeof p->state));
    require(ptx_buffer_upload(p->scale, 0, &p->state, sizeof p->state, gpu.stream));
    for (size_t k = 0; k < set.stages; k++) {
        const bool owner = k == set.stages - 1;
        params.update = owner ? &update : NULL;
        params.loss_scale_state = owner ? ptx_buffer_address(p->scale) : 0;
        params.loss_scale_at = owner ? 0 : ptx_buffer_address(p->scale);
        params.tensors = set.tensors + step_set_first(&set, k);
        params.tensor_count = step_set_first(&set, k + 1) - step_set_first(&set, k);
        params.sum_rows = (uint32_t)set.stages;
        params.sum_row = (uint32_t)k;
        params.sums_at = p->sums ? ptx_buffer_address(p->sums) : 0;
        p->plans[k] = step_create(&params);
        assert_true(!p->sums || ptx_step_plan_get_info(p->plans[k])->sums == params.sums_at);
    }
}

static void pipeline_destroy(struct pipeline *p)
{
    double guard;

    if (p->sums) {
        require_done(ptx_buffer_download(p->sums, set.stages * set.norm_groups * sizeof guard,
                                         &guard, sizeof guard, gpu.stream));
        assert_true(isnan(guard));
    }
    for (size_t k = 0; k < set.stages; k++)
        ptx_step_plan_destroy(&p->plans[k]);
    ptx_buffer_destroy(&p->sums);
    ptx_buffer_destroy(&p->scale);
}

static void shuffle(struct random *r, size_t *order)
{
    for (size_t k = 0; k < set.stages; k++) {
        const size_t other = random_below(r, (uint32_t)k + 1);
        order[k] = order[other];
        order[other] = k;
    }
}

// A launch that copies so many f64.
static void copy_emit(ptx_builder *b)
{
    ptx_entry (b, "copy", .block = { STEP_MOST_GROUPS }) {
        ptx_ptr from = ptx_param_ptr(b, PTX_F64, "from");
        ptx_ptr to = ptx_param_ptr(b, PTX_F64, "to");
        ptx_val count = ptx_param(b, PTX_U32, "count");
        ptx_val k = ptx_tid(b, PTX_X);
        ptx_if (b, ptx_lt(b, k, count))
            ptx_store(b, to, k, ptx_load(b, from, k));
    }
}

static void load_copy(void)
{
    OWNED(ptx_builder) *b =
        ptx_builder_create(&(struct ptx_builder_params) { .target = gpu_target() });
    copy_emit(b);
    const char *text = ptx_builder_finish(b);
    assert_non_null(text);
    copy = made(ptx_module_load(gpu.device, text, NULL));
}

// As an all-gather: each row goes from the plan that wrote it to the arrays of all others.
static void gather(const struct pipeline *p)
{
    for (size_t k = 0; k < set.stages; k++) {
        const CUdeviceptr row = k * set.norm_groups * sizeof(double);
        const CUdeviceptr from = ptx_step_plan_get_info(p->plans[k])->sums + row;
        for (size_t other = 0; other < set.stages; other++) {
            const CUdeviceptr to = ptx_step_plan_get_info(p->plans[other])->sums + row;
            const struct ptx_arg args[] = { PTX_ARG(from), PTX_ARG(to), PTX_ARG(set.norm_groups) };
            const struct ptx_launch_params launch = {
                .grid = { 1 }, .stream = gpu.stream, .args = args, .arg_count = 3
            };
            if (other != k)
                require(ptx_launch(ptx_module_function(copy, "copy"), &launch));
        }
    }
}

// In any order; but all rows before the first finish.
static void take(const struct pipeline *p, struct random *r)
{
    size_t order[MOST_STAGES];

    shuffle(r, order);
    for (size_t k = 0; k < set.stages; k++)
        require(ptx_step_plan_norm_sq(p->plans[order[k]], gpu.stream));
    if (!p->sums)
        gather(p);
    shuffle(r, order);
    for (size_t k = 0; k < set.stages; k++)
        require(ptx_step_plan_finish(p->plans[order[k]], gpu.stream));
    shuffle(r, order);
    for (size_t k = 0; k < set.stages; k++)
        require(ptx_step_plan_step(p->plans[order[k]], gpu.stream));
}

static void check_stages(struct random *r, struct ptx_step_params params, bool together, float bad)
{
    struct pipeline p;

    pipeline_create(&p, params, together);
    for (unsigned step = 0; step < 4; step++) {
        step_set_gradients(&set, r, step == 2 ? bad : 0);
        const bool found = step_set_expect(&set, &params, p.state.scale);
        assert_int_equal(found, step == 2 && bad != 0 && set.has_elements);
        if (step < 2) {
            take(&p, r);
        } else { // all of it in one graph
            require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
            take(&p, r);
            OWNED(ptx_graph) *graph = end_capture(gpu.stream);
            require_done(ptx_graph_launch(graph, gpu.stream));
        }
        step_set_check(&set, "stages");
        require(ptx_loss_scale_step(&p.state, found, &update));
        struct ptx_loss_scale_state state;
        require_done(ptx_buffer_download(p.scale, 0, &state, sizeof state, gpu.stream));
        assert_memory_equal(&state, &p.state, sizeof state);
    }
    pipeline_destroy(&p);
}

TEST(test_random_pipelines)
{
    struct random r = gpu_random("stages");

    load_copy();
    for (unsigned trial = 0; trial < 10; trial++) {
        const struct step_shape shape = { .rules = ALL_RULES | 1 << PTX_STEP_RULE_MUON,
                                          .formats = ALL_FORMATS,
                                          .tensors = 3 + random_below(&r, 12),
                                          .groups = 1 + random_below(&r, 3),
                                          .norm_groups = 1 + random_below(&r, 4),
                                          .most = 3000,
                                          .aligned = trial % 2,
                                          .absent = trial == 4 };
        step_set_create(&set, &r, &shape);
        set.stages = 2 + random_below(&r, MOST_STAGES - 1);
        set.gradients = (ptx_step_gradients)(trial % 3);
        struct ptx_step_params params = step_set_params(&set);
        if (trial % 5 == 3)
            params.max_norm = INFINITY; // the norm is taken all the same
        check_stages(&r, params, trial % 3 != 0, shape.absent ? 0 : trial % 2 ? NAN : INFINITY);
    }
    ptx_module_unload(&copy);
}

static const struct step_shape plain = { ALL_STEPS, .tensors = 6, .groups = 2, .norm_groups = 2,
                                         .most = 1000 };

// The sums of one plan at the caller's address: a run writes them, and so do the phases.
TEST(test_sums_of_one_plan)
{
    struct random r = gpu_random("sums of one plan");
    struct ptx_clip_record records[2];
    double sums[3];
    OWNED(ptx_buffer) *memory = made(ptx_buffer_create(gpu.device, sizeof sums));
    step_set_create(&set, &r, &plain);
    struct ptx_step_params params = step_set_params(&set);
    params.sums_at = ptx_buffer_address(memory);
    params.max_norm = INFINITY; // the norm is taken all the same
    OWNED(ptx_step_plan) *plan = step_create(&params);
    for (unsigned form = 0; form < 2; form++) {
        require(ptx_buffer_fill(memory, 0, 0xff, sizeof sums, gpu.stream));
        step_set_gradients(&set, &r, 0);
        step_set_expect(&set, &params, 1);
        if (form == 0) {
            require(ptx_step_plan_norm_sq(plan, gpu.stream));
            require(ptx_step_plan_finish(plan, gpu.stream));
            require(ptx_step_plan_step(plan, gpu.stream));
        } else {
            require(ptx_step_plan_run(plan, gpu.stream));
        }
        step_set_check(&set, "sums of one plan");
        require(ptx_step_plan_read(plan, 0, 2, records, NULL, gpu.stream));
        require_done(ptx_buffer_download(memory, 0, sums, sizeof sums, gpu.stream));
        assert_true(isnan(sums[2]) && sums[0] + sums[1] > 0);
        for (unsigned g = 0; g < 2; g++)
            assert_true(records[g].norm == (float)sqrt(sums[g]));
    }
}

// One run cannot wait for the rows of the others.
TEST(test_no_run)
{
    struct random r = gpu_random("no run of a stage");
    struct ptx_step_description d;

    step_set_create(&set, &r, &plain);
    struct ptx_step_params params = step_set_params(&set);
    params.sum_rows = 3;
    params.sum_row = 2;
    require(ptx_step_describe(&params, &d));
    assert_int_equal(d.launches, 4);
    OWNED(ptx_step_plan) *plan = step_create(&params);
    assert_int_equal(ptx_step_plan_run(plan, gpu.stream), PTX_ERROR_INVALID);
    assert_non_null(strstr(ptx_error_message(), "shares its norm with others, in 3 sum_rows"));
    assert_int_equal(ptx_step_plan_step(plan, gpu.stream), PTX_ERROR_INVALID);
    assert_non_null(strstr(ptx_error_message(), "ptx_step_plan_norm_sq() comes first"));
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
}

GPU_MAIN
