// SPDX-License-Identifier: MIT
// Clip plans on every kind of stream, from any thread, and beside other captures.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "blocking_stream.h"
#include "clip_fixture.h"
#include "test.h"

#define STREAM_LEGACY     ((CUstream)(uintptr_t)1)
#define STREAM_PER_THREAD ((CUstream)(uintptr_t)2)

static struct random r;
static struct clip_set set, other_set;
static struct clip_expected expected;

static const struct clip_shape shape = {
    .tensors = 7,
    .groups = 2,
    .most = 2500,
    .types = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16),
};

static int set_up(void **state)
{
    (void)state;
    r = gpu_random("streams");
    clip_set_create(&set, &r, &shape);
    clip_set_create(&other_set, &r, &shape);
    return 0;
}

static ptx_graph *end_with(CUstream stream, size_t kernels)
{
    ptx_graph *graph = end_capture(stream);
    assert_int_equal(ptx_graph_get_info(graph)->kernel_nodes, kernels);
    assert_int_equal(ptx_graph_get_info(graph)->nodes, kernels);
    return graph;
}

/// Sets new gradients, runs the plan or replays a captured run on the stream, and checks the
/// results.
static void check(struct clip_set *of, ptx_clip_plan *plan, ptx_graph *graph, CUstream stream)
{
    const struct ptx_clip_params params = clip_set_params(of);
    clip_set_fill(of, &r, DATA_PLAIN);
    require(graph ? ptx_graph_launch(graph, stream) : ptx_clip_plan_run(plan, stream));
    require(ptx_stream_synchronize(gpu.device, stream));
    clip_set_expect(of, &params, 1.0f, &expected);
    clip_set_check(of, plan, &expected);
}

static CUstream create_stream(void)
{
    CUstream stream = made(ptx_stream_create(gpu.device));
    return stream;
}

TEST_WITH(test_every_stream, set_up, NULL)
{
    CUstream own = create_stream(), blocking = create_blocking_stream(gpu.device);
    const CUstream streams[] = { NULL, STREAM_LEGACY, STREAM_PER_THREAD, own, blocking };
    for (size_t k = 0; k < sizeof streams / sizeof *streams; ++k) {
        struct ptx_clip_params params = clip_set_params(&set);
        params.stream = streams[k];
        OWNED(ptx_clip_plan) *plan = clip_create(&params);
        for (size_t on = 0; on < sizeof streams / sizeof *streams; ++on)
            check(&set, plan, NULL, streams[on]);
    }
    ptx_stream_destroy(gpu.device, &blocking);
    ptx_stream_destroy(gpu.device, &own);
}

/// A plan is created, run and destroyed while another stream of the same thread is under capture.
TEST_WITH(test_beside_a_capture, set_up, NULL)
{
    const CUstream creators[] = { NULL, STREAM_PER_THREAD, gpu.stream };
    CUstream captured = create_stream();
    struct ptx_clip_params params = clip_set_params(&other_set);
    OWNED(ptx_clip_plan) *first = clip_create(&params);
    for (int mode = PTX_CAPTURE_THREAD_LOCAL; mode <= PTX_CAPTURE_RELAXED; ++mode) {
        require(ptx_capture_begin(gpu.device, captured, (enum ptx_capture_mode)mode));
        require(ptx_clip_plan_run(first, captured));
        for (size_t k = 0; k < sizeof creators / sizeof *creators; ++k) {
            params = clip_set_params(&set);
            params.stream = creators[k];
            OWNED(ptx_clip_plan) *second = clip_create(&params);
            check(&set, second, NULL, creators[k]);
        }
        OWNED(ptx_graph) *graph = end_with(captured, 2);
        check(&other_set, first, graph, captured);
    }
    ptx_stream_destroy(gpu.device, &captured);
}

static void *create_run_destroy(void *wrong)
{
    const struct ptx_clip_params params = clip_set_params(&set);
    OWNED(ptx_clip_plan) *plan = ptx_clip_plan_create(gpu.device, &params);
    *(bool *)wrong = !plan || ptx_clip_plan_run(plan, gpu.stream) ||
                     ptx_stream_synchronize(gpu.device, gpu.stream);
    return NULL;
}

TEST_WITH(test_beside_a_capture_of_another_thread, set_up, NULL)
{
    const struct ptx_clip_params params = clip_set_params(&other_set);
    CUstream captured = create_stream();
    OWNED(ptx_clip_plan) *plan = clip_create(&params);
    for (int mode = PTX_CAPTURE_THREAD_LOCAL; mode <= PTX_CAPTURE_RELAXED; ++mode) {
        pthread_t thread;
        bool wrong = true;
        require(ptx_capture_begin(gpu.device, captured, (enum ptx_capture_mode)mode));
        assert_int_equal(pthread_create(&thread, NULL, create_run_destroy, &wrong), 0);
        pthread_join(thread, NULL);
        assert_false(wrong);
        require(ptx_clip_plan_run(plan, captured));
        OWNED(ptx_graph) *graph = end_with(captured, 2);
        check(&other_set, plan, graph, captured);
    }
    ptx_stream_destroy(gpu.device, &captured);
}

/// A capture of a blocking stream beside runs on streams that do not block.
TEST_WITH(test_capture_of_a_blocking_stream, set_up, NULL)
{
    CUstream blocking = create_blocking_stream(gpu.device);
    struct ptx_clip_params params = clip_set_params(&set);
    OWNED(ptx_clip_plan) *plan = clip_create(&params);
    require(ptx_capture_begin(gpu.device, blocking, PTX_CAPTURE_RELAXED));
    assert_int_equal(ptx_clip_plan_run(plan, NULL), PTX_ERROR_CAPTURE);
    check(&set, plan, NULL, gpu.stream);
    require(ptx_clip_plan_run(plan, blocking));
    OWNED(ptx_graph) *graph = end_with(blocking, 2);
    check(&set, plan, graph, blocking);
    check(&set, plan, NULL, NULL);
    ptx_stream_destroy(gpu.device, &blocking);
}

/// Two plans in one graph, in parallel; the stream of one has joined the capture. Their gradients
/// move between replays.
TEST_WITH(test_joined_streams, set_up, NULL)
{
    CUdeviceptr data[CLIP_MOST_TENSORS];
    CUstream joined = create_stream();
    CUevent begin = ptx_event_create(gpu.device), end = ptx_event_create(gpu.device);
    assert_true(begin && end);
    struct ptx_clip_params params = clip_set_params(&set);
    params.any_address = true;
    ptx_clip_plan *plan = clip_create(&params);
    params = clip_set_params(&other_set);
    params.measure_only = true;
    ptx_clip_plan *measuring = clip_create(&params);
    for (size_t t = 0; t < set.count; ++t)
        data[t] = 0;
    require(ptx_clip_plan_set_data(plan, 0, set.count, data, gpu.stream));
    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
    require(ptx_event_record(gpu.device, begin, gpu.stream));
    require(ptx_stream_wait_event(gpu.device, joined, begin));
    require(ptx_clip_plan_run(measuring, gpu.stream));
    for (size_t t = 0; t < set.count; ++t)
        data[t] = set.tensors[t].data;
    require(ptx_clip_plan_set_data(plan, 0, set.count, data, joined));
    require(ptx_clip_plan_run(plan, joined));
    require(ptx_event_record(gpu.device, end, joined));
    require(ptx_stream_wait_event(gpu.device, gpu.stream, end));
    OWNED(ptx_graph) *graph = end_with(gpu.stream, 2 + 1 + 2);
    check(&set, plan, graph, gpu.stream);
    check(&set, plan, NULL, joined); // the replay has set the addresses
    clip_set_expect(&other_set, &params, 1.0f, &expected);
    clip_set_check(&other_set, measuring, &expected);
    ptx_clip_plan_destroy(&measuring);
    ptx_clip_plan_destroy(&plan); // before the graph, which is not launched again
    ptx_event_destroy(gpu.device, &begin);
    ptx_event_destroy(gpu.device, &end);
    ptx_stream_destroy(gpu.device, &joined);
}

GPU_MAIN
