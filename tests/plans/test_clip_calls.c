// SPDX-License-Identifier: MIT
// The driver calls that a clip plan makes, with drivers of several versions.
#include "driver_fixture.h"

#include <ptxgen/clip.h>

enum { TENSORS = 5, COUNT = 100 }; // in the 4096 bytes that the fake knows

struct scene {
    ptx_device *device;
    ptx_buffer *memory;
    struct ptx_clip_tensor tensors[TENSORS];
};

static void set_up(struct scene *scene)
{
    static const ptx_type types[TENSORS] = { PTX_F32, PTX_F64, PTX_F16, PTX_BF16, PTX_F32 };
    scene->device = ptx_device_open(NULL);
    assert_non_null(scene->device);
    scene->memory = ptx_buffer_create(scene->device, TENSORS * COUNT * 8);
    assert_non_null(scene->memory);
    fake->registered = ptx_buffer_address(scene->memory);
    for (unsigned t = 0; t < TENSORS; t++)
        scene->tensors[t] = (struct ptx_clip_tensor) {
            .data = ptx_buffer_address(scene->memory) + t * COUNT * 8,
            .count = COUNT,
            .dtype = types[t],
            .group = t / 2,
        };
}

static void tear_down(struct scene *scene)
{
    ptx_buffer_destroy(&scene->memory);
    ptx_device_close(&scene->device);
}

static ptx_clip_plan *create(const struct scene *scene)
{
    static const struct ptx_loss_scale_params update;
    return ptx_clip_plan_create(scene->device,
                                &(struct ptx_clip_params) { .tensors = scene->tensors,
                                                            .tensor_count = TENSORS,
                                                            .max_norm = 1.0f,
                                                            .update = &update });
}

// Counts the kernels and graphs that a run launches on the stream.
static void expect_run(ptx_clip_plan *plan, CUstream stream, int kernels, int graphs)
{
    const int kernels_before = atomic_load(&fake->launches);
    const int graphs_before = atomic_load(&fake->graphs);
    assert_int_equal(ptx_clip_plan_run(plan, stream), PTX_OK);
    assert_int_equal(atomic_load(&fake->launches) - kernels_before, kernels);
    assert_int_equal(atomic_load(&fake->graphs) - graphs_before, graphs);
}

// A plan with a driver that cannot capture the launches of a run (0), or can (1).
static ptx_clip_plan *create_with_driver(struct scene *scene, int captures)
{
    fake->driver_version = captures ? 12030 : 12020;
    set_up(scene);
    return create(scene);
}

static void a_run_is_one_graph_where_it_can_be(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct scene scene;
        ptx_clip_plan *plan = create_with_driver(&scene, i);
        CUstream stream = ptx_stream_create(scene.device);
        assert_true(plan && stream);
        expect_run(plan, stream, 2, i);
        assert_int_equal(ptx_capture_begin(scene.device, stream, PTX_CAPTURE_THREAD_LOCAL), PTX_OK);
        expect_run(plan, stream, 0, 0);
        ptx_graph *graph = ptx_capture_end(scene.device, stream);
        assert_non_null(graph);
        assert_int_equal(ptx_graph_get_info(graph)->kernel_nodes, 2);
        assert_int_equal(ptx_graph_get_info(graph)->nodes, 2);
        ptx_graph_destroy(&graph);
        ptx_stream_destroy(scene.device, &stream);
        ptx_clip_plan_destroy(&plan);
        tear_down(&scene);
    }
}

// Work on the legacy default stream would invalidate the capture.
static void a_blocking_stream_is_being_captured(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct scene scene;
        ptx_clip_plan *plan = create_with_driver(&scene, i);
        CUstream blocking = fake->stream_create(ptx_device_context(scene.device), true);
        assert_true(plan && blocking);
        fake->capture_begin(blocking, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        const int launches = atomic_load(&fake->launches);
        assert_int_equal(ptx_clip_plan_run(plan, NULL), PTX_ERROR_CAPTURE);
        assert_message("use another stream");
        assert_null(create(&scene));
        assert_error(PTX_ERROR_CAPTURE, "a blocking stream of the context is being captured");
        assert_int_equal(atomic_load(&fake->launches), launches);
        assert_int_equal(fake->capture_end(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
        expect_run(plan, NULL, 2, i);
        free(blocking);
        ptx_clip_plan_destroy(&plan);
        tear_down(&scene);
    }
}

// A driver without graphs, launch attributes, and other later functions.
static void a_run_with_the_oldest_driver(void **state)
{
    (void)state;
    struct fake_cuda *usual = fake;
    struct scene scene;
    fake = fake_open(FAKE_OLD_LIBCUDA);
    assert_non_null(fake);
    fake->reset();
    fake->driver_version = 11000;
    fake->sm = 70;
    set_up(&scene);
    ptx_clip_plan *plan = create(&scene);
    if (!plan)
        fail_msg("%s", ptx_error_message());
    expect_run(plan, NULL, 2, 0);
    ptx_clip_plan_destroy(&plan);
    tear_down(&scene);
    fake_teardown(NULL);
    fake = usual;
    setenv("PTXGEN_LIBCUDA", FAKE_LIBCUDA, 1);
}

static void a_plan_outlives_its_device(void **state)
{
    (void)state;
    struct scene scene;
    set_up(&scene);
    ptx_clip_plan *plan = create(&scene);
    assert_non_null(plan);
    ptx_buffer_destroy(&scene.memory);
    ptx_device_close(&scene.device);
    expect_run(plan, NULL, 2, 1);
    ptx_clip_plan_destroy(&plan);
    assert_int_equal(atomic_load(&fake->alive), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_TEST(a_run_is_one_graph_where_it_can_be),
        FAKE_TEST(a_blocking_stream_is_being_captured),
        FAKE_TEST(a_run_with_the_oldest_driver),
        FAKE_TEST(a_plan_outlives_its_device),
    };
    return cmocka_run_group_tests_name("clip plans: calls", tests, NULL, NULL);
}
