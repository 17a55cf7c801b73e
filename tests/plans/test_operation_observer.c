// SPDX-License-Identifier: MIT
// An observer of a tensor's range in one call: results compared with plain C over several steps,
// capture.
#include <math.h>

#include "data.h"
#include "operation_fixture.h"
#include "reference/observer.h"

enum { COUNT = 5000, PART = 48 * 1024, PARTS = 4, STEPS = 5 };
/// One buffer: x, the state, the scale, the zero point.
enum { AT_X, AT_STATE, AT_SCALE, AT_ZERO };

static const struct ptx_observer_state fresh = { INFINITY, -INFINITY, INFINITY, -INFINITY };

static struct scene scene;
SCENE_OF(PARTS *PART)

static struct ptx_observer_update_params good(ptx_type dtype)
{
    const CUdeviceptr at = ptx_buffer_address(scene.memory);
    return (struct ptx_observer_update_params) { .dtype = dtype,
                                                 .count = COUNT,
                                                 .x = at,
                                                 .state = at + AT_STATE * PART,
                                                 .scales = at + AT_SCALE * PART,
                                                 .zero_points = at + AT_ZERO * PART,
                                                 .averaging_constant = 0.01f };
}

static void put(int part, const void *data, size_t bytes)
{
    require_done(ptx_buffer_upload(scene.memory, (size_t)part * PART, data, bytes, gpu.stream));
}

static void expect(const struct ptx_observer_state *state, float scale, int32_t zero_point)
{
    struct ptx_observer_state got;
    float got_scale;
    int32_t got_zero;
    download(scene.memory, AT_STATE * PART, &got, sizeof got);
    download(scene.memory, AT_SCALE * PART, &got_scale, sizeof got_scale);
    download(scene.memory, AT_ZERO * PART, &got_zero, sizeof got_zero);
    assert_memory_equal(&got, state, sizeof got);
    assert_memory_equal(&got_scale, &scale, sizeof scale);
    assert_int_equal(got_zero, zero_point);
}

static void check_steps(ptx_type dtype, struct ptx_observer_update_params p,
                        struct ref_observer rule)
{
    static double x[COUNT];
    struct random r = gpu_random("observer");
    struct ptx_observer_state state = fresh;
    put(AT_STATE, &state, sizeof state);
    for (int step = 0; step < STEPS; step++) {
        float averages[2] = { state.min_val, state.max_val }, scale = 0;
        float extremes[2] = { state.least, state.greatest };
        int32_t zero_point = 0;
        data_fill(&r, gpu_ref_type(dtype), step == STEPS - 1 ? DATA_SPECIAL : DATA_PLAIN, x, COUNT);
        put(AT_X, x, COUNT * ref_bytes(gpu_ref_type(dtype)));
        ref_observe_min_max(gpu_ref_type(dtype), x, p.count, extremes);
        ref_moving_average_update(&rule, extremes, averages, &scale, &zero_point);
        state = (struct ptx_observer_state) { averages[0], averages[1], extremes[0], extremes[1] };
        require(ptx_observer_update(scene.operations, &p, gpu.stream));
        expect(&state, scale, zero_point);
    }
}

TEST_WITH(test_results, set_up, tear_down)
{
    static const ptx_type dtypes[] = { PTX_F32, PTX_F64, PTX_F16, PTX_BF16 };
    for (int k = 0; k < 4; k++) {
        struct ptx_observer_update_params p = good(dtypes[k]);
        check_steps(dtypes[k], p, (struct ref_observer) { 0.01f, 0x1p-23f, -128, 127, false, 0 });
        p.q_max = 255;
        p.symmetric = true;
        p.zero_point = 128;
        p.averaging_constant = 0.25f;
        p.eps = 0.5f;
        p.count = 77;
        check_steps(dtypes[k], p, (struct ref_observer) { 0.25f, 0.5f, 0, 255, true, 128 });
    }
}

TEST_WITH(test_captured, set_up, tear_down)
{
    struct ptx_observer_update_params p = good(PTX_F32);
    const float x[3] = { -8, 1, 10 };
    p.count = 3;
    p.averaging_constant = 0.5f;
    p.q_min = -8;
    p.q_max = 7;
    require(ptx_observer_update_prepare(scene.operations, &p));
    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
    require(ptx_observer_update(scene.operations, &p, gpu.stream));
    OWNED(ptx_graph) *graph = ptx_capture_end(gpu.device, gpu.stream);
    assert_non_null(graph);
    put(AT_X, x, sizeof x);
    put(AT_STATE, &(struct ptx_observer_state) { -4, 8, INFINITY, -INFINITY }, sizeof fresh);
    require(ptx_graph_launch(graph, gpu.stream));
    expect(&(struct ptx_observer_state) { -6, 9, INFINITY, -INFINITY }, 1, -2);
    require(ptx_graph_launch(graph, gpu.stream));
    expect(&(struct ptx_observer_state) { -7, 9.5f, INFINITY, -INFINITY }, 16.5f / 15, -2);
}

GPU_MAIN
