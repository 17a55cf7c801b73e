// SPDX-License-Identifier: MIT
// The order of a step plan's phases: what comes too early or twice is refused and changes nothing,
// launched, in captures, and by graphs of single phases.
#include <stdlib.h>

#include "step_fixture.h"
#include "test.h"

static const struct step_shape shape = { .tensors = 4,
                                         .most = 300,
                                         .rules = (1 << STEP_RULES) - 1,
                                         .formats = (1 << PTX_STEP_FORMAT_COUNT) - 1 };

static struct random r;
static struct step_set set;
static struct ptx_step_params params;

static int set_up(void **state)
{
    (void)state;
    r = gpu_random("order of phases");
    step_set_create(&set, &r, &shape);
    step_set_gradients(&set, &r, 0);
    params = step_set_params(&set);
    return 0;
}

// So many steps have been taken since the last call, with this loss scale. Waits for the stream.
static void expect_steps(unsigned count, float loss_scale)
{
    while (count--)
        assert_false(step_set_expect(&set, &params, loss_scale));
    step_set_check(&set, "order of phases");
}

static ptx_status take(ptx_step_plan *plan, enum plan_phase phase)
{
    return plan_call((struct any_plan) { .step = plan }, phase);
}

static void take_all(ptx_step_plan *plan, const enum plan_phase *phases, size_t count)
{
    for (size_t k = 0; k < count; k++)
        require(take(plan, phases[k]));
}

#define LIST(...)                                                                                  \
    (const enum plan_phase[]) { __VA_ARGS__ },                                                     \
        sizeof((enum plan_phase[]) { __VA_ARGS__ }) / sizeof(enum plan_phase)
#define TAKE(plan, ...)    take_all(plan, LIST(__VA_ARGS__))
#define CAPTURE(plan, ...) capture(plan, LIST(__VA_ARGS__))

// The phase is refused because another one comes first.
static void expect_order(ptx_step_plan *plan, enum plan_phase phase)
{
    expect_refused(take(plan, phase), phase == WRITE ? "ptx_step_plan_step: the factors are not"
                                                     : "ptx_step_plan_finish: the sums are not");
    expect_failure(PTX_ERROR_INVALID, "ptx_step_plan_norm_sq() comes first");
}

// Phases in any order: those that are refused change nothing, and all others are taken.
TEST_WITH(test_order_of_phases, set_up, NULL)
{
    OWNED(ptx_step_plan) *plan = step_create(&params);
    enum { NOTHING, SUMS, RECORDS } left = NOTHING;
    unsigned steps = 0, refused = 0;

    for (unsigned turn = 0; turn < 120; turn++) {
        const enum plan_phase phase = (enum plan_phase)random_below(&r, RUN + 1);
        if ((phase == FINISH && left != SUMS) || (phase == WRITE && left != RECORDS)) {
            expect_order(plan, phase);
            refused++;
            continue;
        }
        require(take(plan, phase));
        left = phase == NORM_SQ ? SUMS : phase == FINISH ? RECORDS : NOTHING;
        steps += phase == WRITE || phase == RUN;
    }
    assert_true(refused > 5 && steps > 5);
    expect_steps(steps, 1);
}

// Neither a finish nor a step is taken twice, also after a run.
TEST_WITH(test_repeated_phases, set_up, NULL)
{
    const struct ptx_loss_scale_params update = { .interval = 1 };
    struct ptx_clip_summary summary;

    params.loss_scale = 8;
    params.update = &update;
    OWNED(ptx_step_plan) *plan = step_create(&params);
    expect_order(plan, WRITE);
    expect_order(plan, FINISH);
    TAKE(plan, RUN);
    expect_order(plan, WRITE);
    expect_order(plan, FINISH);
    expect_steps(1, 8);
    TAKE(plan, NORM_SQ);
    expect_order(plan, WRITE);
    TAKE(plan, NORM_SQ, FINISH);
    expect_order(plan, FINISH);
    TAKE(plan, WRITE);
    expect_order(plan, WRITE);
    require(ptx_step_plan_read(plan, 0, 0, NULL, &summary, gpu.stream));
    expect_steps(1, 16);
    assert_true(summary.state.scale == 32.0f);
}

// New addresses end the phases of the ones before.
TEST_WITH(test_addresses_between_phases, set_up, NULL)
{
    OWNED(ptx_step_plan) *plan = step_create(&params);
    CUdeviceptr gradient[STEP_MOST_TENSORS];

    for (size_t t = 0; t < set.count; t++)
        gradient[t] = set.tensors[t].gradient;
    TAKE(plan, NORM_SQ);
    require(ptx_step_plan_set_gradients(plan, 0, set.count, gradient, gpu.stream));
    expect_order(plan, FINISH);
    TAKE(plan, NORM_SQ, FINISH);
    require(ptx_step_plan_set_addresses(plan, 0, set.count, set.tensors, gpu.stream));
    expect_order(plan, WRITE);
    expect_order(plan, FINISH);
    TAKE(plan, NORM_SQ, FINISH, WRITE);
    expect_steps(1, 1);
}

static void begin_capture(void)
{
    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
}

static ptx_graph *capture(ptx_step_plan *plan, const enum plan_phase *phases, size_t count)
{
    begin_capture();
    take_all(plan, phases, count);
    return end_capture(gpu.stream);
}

// The order holds within a capture. Launched and captured phases do not count for each other.
TEST_WITH(test_order_in_captures, set_up, NULL)
{
    OWNED(ptx_step_plan) *plan = step_create(&params);

    begin_capture();
    expect_order(plan, WRITE); // nothing has ever left what it needs
    expect_order(plan, FINISH);
    TAKE(plan, NORM_SQ);
    expect_order(plan, WRITE);
    TAKE(plan, FINISH);
    expect_order(plan, FINISH);
    ptx_capture_abandon(gpu.device, gpu.stream);
    expect_order(plan, WRITE);
    expect_failure(PTX_ERROR_INVALID, "what was captured does not count outside of its graph");
    expect_order(plan, FINISH);
    TAKE(plan, NORM_SQ);
    begin_capture();
    TAKE(plan, RUN);
    expect_order(plan, WRITE);
    TAKE(plan, NORM_SQ, FINISH, WRITE);
    expect_order(plan, WRITE);
    expect_order(plan, FINISH);
    ptx_capture_abandon(gpu.device, gpu.stream);
    TAKE(plan, FINISH, WRITE); // of the norm_sq before the capture
    expect_steps(1, 1);
}

// A graph for each phase, as with an all-reduce between them, and one of them captured again.
TEST_WITH(test_graphs_of_phases, set_up, NULL)
{
    OWNED(ptx_step_plan) *plan = step_create(&params);
    ptx_graph *graphs[4];

    for (unsigned k = 0; k < 3; k++)
        graphs[k] = CAPTURE(plan, (enum plan_phase)k);
    graphs[3] = graphs[FINISH];
    graphs[FINISH] = CAPTURE(plan, FINISH);
    for (unsigned k = 0; k < 3; k++)
        require(ptx_graph_launch(graphs[k], gpu.stream));
    expect_steps(1, 1);
    for (unsigned k = 0; k < 4; k++)
        ptx_graph_destroy(&graphs[k]);
    ptx_step_plan_destroy(&plan);
    plan = step_create(&params);
    TAKE(plan, RUN);
    graphs[0] = CAPTURE(plan, FINISH, WRITE);
    begin_capture();
    TAKE(plan, WRITE);
    expect_order(plan, FINISH);
    ptx_capture_abandon(gpu.device, gpu.stream);
    expect_steps(1, 1); // nothing of what was captured
    ptx_graph_destroy(&graphs[0]);
}

GPU_MAIN
