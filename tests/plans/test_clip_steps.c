// SPDX-License-Identifier: MIT
// Clip plans over many steps: captured and replayed, with a changing loss scale, with gradients
// that move.
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip_fixture.h"
#include "test.h"

static struct clip_set set;
static bool small; // the emulator: fewer replays

static const struct clip_shape shape = { .tensors = 9, .groups = 2, .most = 2500 };

static ptx_graph *capture(ptx_clip_plan *plan, enum ptx_capture_mode mode)
{
    require(ptx_capture_begin(gpu.device, gpu.stream, mode));
    require(ptx_clip_plan_run(plan, gpu.stream));
    ptx_graph *graph = end_capture(gpu.stream);
    const struct ptx_graph_info *info = ptx_graph_get_info(graph);
    assert_true(info->kernel_nodes >= 1 && info->kernel_nodes <= 2);
    assert_int_equal(info->nodes, info->kernel_nodes); // F-GRAPH-BWD-002: no copy, no host node
    return graph;
}

/// A captured run, replayed with other data, another max_norm and another loss scale each time.
TEST(test_replays)
{
    struct random r = gpu_random("replays");
    struct clip_expected expected;
    clip_set_create(&set, &r, &shape);
    struct ptx_clip_params params = clip_set_params(&set);
    params.loss_scale = 2.0f;
    OWNED(ptx_clip_plan) *plan = clip_create(&params);
    for (int mode = PTX_CAPTURE_THREAD_LOCAL; mode <= PTX_CAPTURE_RELAXED; ++mode) {
        OWNED(ptx_graph) *graph = capture(plan, (enum ptx_capture_mode)mode);
        for (int turn = 0; turn < (small ? 6 : 60); ++turn) {
            const struct ptx_loss_scale_state scale = { .scale = ldexpf(1.0f, turn % 20) };
            const uint32_t group = random_below(&r, set.groups);
            clip_set_fill(&set, &r, turn % 7 == 6 ? DATA_SPECIAL : DATA_PLAIN);
            set.max_norms[group] = (float)(1.0 + random_below(&r, 500) / 7.0);
            require(ptx_clip_plan_set_max_norm(plan, group, set.max_norms[group], gpu.stream));
            require(ptx_clip_plan_set_loss_scale(plan, scale, gpu.stream));
            require(ptx_graph_launch(graph, gpu.stream));
            clip_set_expect(&set, &params, scale.scale, &expected);
            clip_set_check(&set, plan, &expected);
        }
    }
}

/// 10,000 replays and 10,000 direct runs of a gradient that shrinks and overflows. Both give the
/// same.
TEST(test_many_replays)
{
    struct random r = gpu_random("many replays");
    const int turns = small ? 40 : 10000;
    clip_set_create(&set, &r, &shape);
    const struct ptx_loss_scale_params update = { .interval = 3 };
    struct ptx_clip_params params = clip_set_params(&set);
    params.loss_scale = 4.0f;
    params.update = &update;
    unsigned char *image[2] = { malloc(set.bytes), malloc(set.bytes) };
    struct ptx_clip_record records[2][CLIP_MOST_GROUPS];
    struct ptx_clip_summary summary[2];
    for (int captured = 0; captured < 2; ++captured) {
        clip_set_upload(&set);
        OWNED(ptx_clip_plan) *plan = clip_create(&params);
        OWNED(ptx_graph) *graph = captured ? capture(plan, PTX_CAPTURE_THREAD_LOCAL) : NULL;
        for (int turn = 0; turn < turns; ++turn) {
            const float max_norm = (float)(1 + turn % 13);
            require(ptx_clip_plan_set_max_norm(plan, PTX_CLIP_ALL_GROUPS, max_norm, gpu.stream));
            require(graph ? ptx_graph_launch(graph, gpu.stream)
                          : ptx_clip_plan_run(plan, gpu.stream));
        }
        require(ptx_clip_plan_read(plan, 0, set.groups, records[captured], &summary[captured],
                                   gpu.stream));
        require_done(ptx_buffer_download(set.memory, 0, image[captured], set.bytes, gpu.stream));
    }
    assert_memory_equal(image[0], image[1], set.bytes);
    assert_memory_equal(records[0], records[1], set.groups * sizeof **records);
    assert_memory_equal(&summary[0], &summary[1], sizeof *summary);
    assert_true(summary[0].state.scale > 4.0f);
    free(image[0]);
    free(image[1]);
}

/// The update of the loss scale at the end of a run, compared with the rule on the host.
TEST(test_whole_step)
{
    struct random r = gpu_random("whole step");
    struct clip_shape one = shape;
    struct clip_expected expected;
    one.most = 300;
    clip_set_create(&set, &r, &one);
    const struct ptx_loss_scale_params update = { .interval = 2, .max_scale = 64.0f };
    struct ptx_clip_params params = clip_set_params(&set);
    params.loss_scale = 16.0f;
    params.update = &update;
    params.nonfinite = PTX_NONFINITE_SKIP;
    OWNED(ptx_clip_plan) *plan = clip_create(&params);
    struct ptx_loss_scale_state scale = { .scale = 16.0f };
    for (int turn = 0; turn < (small ? 30 : 500); ++turn) {
        struct ptx_clip_summary summary;
        clip_set_fill(&set, &r, random_below(&r, 3) ? DATA_PLAIN : DATA_SPECIAL);
        clip_set_expect(&set, &params, scale.scale, &expected);
        require(ptx_clip_plan_run(plan, gpu.stream));
        clip_set_check(&set, plan, &expected);
        require_done(ptx_clip_plan_read(plan, 0, 0, NULL, &summary, gpu.stream));
        assert_true(summary.loss_scale == scale.scale);
        require(ptx_loss_scale_step(&scale, expected.found, &update));
        assert_memory_equal(&summary.state, &scale, sizeof scale);
    }
}

/// The gradients move to other memory between runs, and between replays of a captured run.
TEST(test_moving_gradients)
{
    struct random r = gpu_random("moving");
    struct clip_expected expected;
    clip_set_create(&set, &r, &shape);
    const struct ptx_clip_params params = clip_set_params(&set);
    OWNED(ptx_clip_plan) *plan = clip_create(&params);
    OWNED(ptx_graph) *graph = capture(plan, PTX_CAPTURE_THREAD_LOCAL);
    for (int turn = 0; turn < 5; ++turn) {
        CUdeviceptr data[CLIP_MOST_TENSORS];
        ptx_buffer *old = set.memory;
        set.memory = made(ptx_buffer_create(gpu.device, set.bytes));
        for (size_t t = 0; t < set.count; ++t)
            data[t] = ptx_buffer_address(set.memory) + set.offset[t];
        clip_set_fill(&set, &r, DATA_PLAIN);
        require(ptx_clip_plan_set_data(plan, 0, set.count, data, gpu.stream));
        require(turn % 2 ? ptx_clip_plan_run(plan, gpu.stream)
                         : ptx_graph_launch(graph, gpu.stream));
        clip_set_expect(&set, &params, 1.0f, &expected);
        clip_set_check(&set, plan, &expected);
        ptx_buffer_destroy(&old);
    }
}

/// Threads with one plan each, and threads that share a plan: a call may find it in use.
struct runner {
    pthread_t thread;
    ptx_clip_plan *plan;
    CUstream stream;
    int wrong;
};

static void *run_often(void *argument)
{
    struct runner *runner = argument;
    for (int turn = 0; turn < (small ? 20 : 500); ++turn) {
        const ptx_status status = ptx_clip_plan_run(runner->plan, runner->stream);
        if (status == PTX_ERROR_INVALID && strstr(ptx_error_message(), "another thread"))
            continue;
        runner->wrong += status != PTX_OK;
    }
    return NULL;
}

TEST(test_threads)
{
    enum { THREADS = 4 };
    struct random r = gpu_random("threads");
    for (int shared = 0; shared < 2; ++shared) {
        static struct clip_set sets[THREADS];
        struct clip_expected expected;
        struct runner runner[THREADS];
        for (int k = 0; k < THREADS; ++k) {
            clip_set_create(&sets[k], &r, &shape);
            struct ptx_clip_params params = clip_set_params(&sets[k]);
            params.measure_only = true; // so each iteration gives the same
            runner[k] = (struct runner) { .stream = ptx_stream_create(gpu.device) };
            assert_non_null(runner[k].stream);
            runner[k].plan = shared && k ? runner[0].plan : clip_create(&params);
            if (shared)
                runner[k].stream = runner[0].stream;
        }
        for (int k = 0; k < THREADS; ++k)
            assert_int_equal(pthread_create(&runner[k].thread, NULL, run_often, &runner[k]), 0);
        for (int k = 0; k < THREADS; ++k) {
            pthread_join(runner[k].thread, NULL);
            assert_int_equal(runner[k].wrong, 0);
            require(ptx_stream_synchronize(gpu.device, runner[k].stream));
        }
        for (int k = 0; k < (shared ? 1 : THREADS); ++k) {
            struct ptx_clip_params params = clip_set_params(&sets[k]);
            params.measure_only = true;
            clip_set_expect(&sets[k], &params, 1.0f, &expected);
            clip_set_check(&sets[k], runner[k].plan, &expected);
            ptx_clip_plan_destroy(&runner[k].plan);
            ptx_stream_destroy(gpu.device, &runner[k].stream);
        }
    }
}

int main(void)
{
    gpu_open();
    small = strstr(ptx_device_get_info(gpu.device)->name, "emulator") != NULL;
    return gpu_tests_run();
}
