// SPDX-License-Identifier: MIT
// Creating and running a clip plan with each driver call and each allocation in it failing once:
// the error is reported, nothing stays behind, and the next attempt works.
//
// Linked with --wrap for malloc, calloc and realloc.
#include "driver_fixture.h"
#include "failing_allocations.h"

#include <ptxgen/plans.h>

enum { TENSORS = 5, COUNT = 100 }; // within the 4096 bytes that the fake says it knows

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

// Creation ends with the destruction of a stream, which has nobody to report to.
static int calls_of_stream_destroy(const struct scene *scene)
{
    CUstream stream = ptx_stream_create(scene->device);
    assert_non_null(stream);
    const int before = atomic_load(&fake->calls);
    ptx_stream_destroy(scene->device, &stream);
    return atomic_load(&fake->calls) - before;
}

static void each_driver_call_of_creation_fails(void **state)
{
    (void)state;
    struct scene scene;
    set_up(&scene);
    const int before = atomic_load(&fake->calls);
    ptx_clip_plan *plan = create(&scene);
    if (!plan)
        fail_msg("%s", ptx_error_message());
    const int calls = atomic_load(&fake->calls) - before - calls_of_stream_destroy(&scene);
    ptx_clip_plan_destroy(&plan);
    assert_true(calls > 5);
    for (int call = 1; call <= calls; call++) {
        const int alive = atomic_load(&fake->alive);
        fake->fail_result = CUDA_ERROR_UNKNOWN;
        fake->failed = NULL;
        atomic_store(&fake->fail_at, call);
        plan = create(&scene);
        atomic_store(&fake->fail_at, 0);
        if (plan)
            fail_msg("failing %s, call %d of %d, was not reported", fake->failed, call, calls);
        assert_int_equal(ptx_error_status(), PTX_ERROR_DRIVER);
        assert_non_null(strstr(ptx_error_message(), fake->failed));
        if (atomic_load(&fake->alive) != alive)
            fail_msg("failing %s, call %d of %d, left something behind", fake->failed, call, calls);
    }
    tear_down(&scene);
}

static void each_allocation_of_creation_fails(void **state)
{
    (void)state;
    struct scene scene;
    set_up(&scene);
    allocations = failing_allocation = 0;
    const int live = live_allocations;
    ptx_clip_plan *plan = create(&scene);
    const int count = allocations;
    assert_non_null(plan);
    ptx_clip_plan_destroy(&plan);
    assert_int_equal(live_allocations, live);
    assert_true(count > 5);
    for (int k = 1; k <= count; k++) {
        const int alive = atomic_load(&fake->alive);
        allocations = 0;
        failing_allocation = k;
        plan = create(&scene);
        failing_allocation = 0;
        if (plan)
            fail_msg("failing allocation %d of %d was not reported", k, count);
        assert_int_equal(ptx_error_status(), PTX_ERROR_OUT_OF_MEMORY);
        assert_int_equal(atomic_load(&fake->alive), alive);
        assert_int_equal(live_allocations, live);
    }
    tear_down(&scene);
}

static ptx_status run(ptx_clip_plan *plan)
{
    return ptx_clip_plan_run(plan, NULL);
}

static ptx_status set_max_norm(ptx_clip_plan *plan)
{
    return ptx_clip_plan_set_max_norm(plan, PTX_CLIP_ALL_GROUPS, 2.0f, NULL);
}

static ptx_status set_loss_scale(ptx_clip_plan *plan)
{
    return ptx_clip_plan_set_loss_scale(plan, (struct ptx_loss_scale_state) { .scale = 2.0f },
                                        NULL);
}

static ptx_status read_back(ptx_clip_plan *plan)
{
    struct ptx_clip_record record;
    struct ptx_clip_summary summary;
    return ptx_clip_plan_read(plan, 0, 1, &record, &summary, NULL);
}

static ptx_status norm_sq(ptx_clip_plan *plan)
{
    return ptx_clip_plan_norm_sq(plan, NULL);
}

static ptx_status finish(ptx_clip_plan *plan)
{
    return ptx_clip_plan_finish(plan, NULL);
}

static ptx_status apply(ptx_clip_plan *plan)
{
    return ptx_clip_plan_apply(plan, NULL);
}

// The first tensor to where it is.
static ptx_status set_data(ptx_clip_plan *plan)
{
    return ptx_clip_plan_set_data(plan, 0, 1, &fake->registered, NULL);
}

// The call'th driver call of the operation meets the fault of a kernel launched earlier: it names
// the operation, whichever call of the driver layer it was in.
static void meet_a_fault(ptx_status (*operation)(ptx_clip_plan *), const char *name,
                         ptx_clip_plan *plan, int call)
{
    char begin[128];
    snprintf(begin, sizeof begin, "%s: an earlier kernel failed: CUDA_ERROR_LAUNCH_FAILED", name);
    fake->fail_result = CUDA_ERROR_LAUNCH_FAILED;
    atomic_store(&fake->fail_at, call);
    assert_int_equal(operation(plan), PTX_ERROR_DRIVER);
    atomic_store(&fake->fail_at, 0);
    if (strncmp(ptx_error_message(), begin, strlen(begin)) != 0)
        fail_msg("%s: %s", name, ptx_error_message());
}

static void fail_each_call_of_a_run(int driver_version)
{
    static const struct {
        ptx_status (*call)(ptx_clip_plan *);
        const char *name;
    } operations[] = {
        { run, "ptx_clip_plan_run" },
        { norm_sq, "ptx_clip_plan_norm_sq" },
        { finish, "ptx_clip_plan_finish" },
        { apply, "ptx_clip_plan_apply" },
        { set_max_norm, "ptx_clip_plan_set_max_norm" },
        { set_loss_scale, "ptx_clip_plan_set_loss_scale" },
        { set_data, "ptx_clip_plan_set_data" },
        { read_back, "ptx_clip_plan_read" },
    };
    struct scene scene;
    fake->driver_version = driver_version;
    set_up(&scene);
    ptx_clip_plan *plan = create(&scene);
    assert_non_null(plan);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        int before = atomic_load(&fake->calls);
        assert_int_equal(operations[i].call(plan), PTX_OK);
        const int calls = atomic_load(&fake->calls) - before;
        for (int call = 1; call <= calls; call++) {
            fake->fail_result = CUDA_ERROR_UNKNOWN;
            atomic_store(&fake->fail_at, call);
            assert_int_equal(operations[i].call(plan), PTX_ERROR_DRIVER);
            atomic_store(&fake->fail_at, 0);
            assert_int_equal(fake->context_depth(), 0);
            assert_int_equal(operations[i].call(plan), PTX_OK); // it is as good as new
            meet_a_fault(operations[i].call, operations[i].name, plan, call);
        }
    }
    allocations = 0;
    for (int k = 0; k < 100; k++)
        assert_int_equal(run(plan), PTX_OK);
    assert_int_equal(allocations, 0);
    ptx_clip_plan_destroy(&plan);
    tear_down(&scene);
}

static void each_driver_call_of_a_run_fails(void **state)
{
    (void)state;
    fail_each_call_of_a_run(12020); // kernel by kernel
    fail_each_call_of_a_run(12030); // as a graph
}

// Kernels and graphs that a run launches on the stream.
static void expect_run(ptx_clip_plan *plan, CUstream stream, int kernels, int graphs)
{
    const int kernels_before = atomic_load(&fake->launches);
    const int graphs_before = atomic_load(&fake->graphs);
    assert_int_equal(ptx_clip_plan_run(plan, stream), PTX_OK);
    assert_int_equal(atomic_load(&fake->launches) - kernels_before, kernels);
    assert_int_equal(atomic_load(&fake->graphs) - graphs_before, graphs);
}

// A plan with a driver that cannot capture a run's launches (0), or with one that can (1).
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

// A run that fails in the midst of the caller's capture leaves the capture to the caller, and the
// plan as good as new.
static void each_driver_call_of_a_captured_run_fails(void **state)
{
    (void)state;
    struct scene scene;
    set_up(&scene);
    ptx_clip_plan *plan = create(&scene);
    CUstream stream = ptx_stream_create(scene.device);
    assert_true(plan && stream);
    int calls = 0;
    for (int call = 0; call <= calls; call++) {
        assert_int_equal(ptx_capture_begin(scene.device, stream, PTX_CAPTURE_THREAD_LOCAL), PTX_OK);
        const int before = atomic_load(&fake->calls);
        fake->fail_result = CUDA_ERROR_UNKNOWN;
        atomic_store(&fake->fail_at, call); // 0: none
        assert_int_equal(ptx_clip_plan_run(plan, stream), call ? PTX_ERROR_DRIVER : PTX_OK);
        atomic_store(&fake->fail_at, 0);
        calls = call ? calls : atomic_load(&fake->calls) - before;
        ptx_capture_abandon(scene.device, stream);
        expect_run(plan, stream, 2, 1);
    }
    assert_true(calls > 5);
    ptx_stream_destroy(scene.device, &stream);
    ptx_clip_plan_destroy(&plan);
    tear_down(&scene);
}

// Work on the legacy default stream would spoil the capture.
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

// Without graphs, launches with attributes, and other functions that came later.
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
        FAKE_TEST(each_driver_call_of_creation_fails),
        FAKE_TEST(each_allocation_of_creation_fails),
        FAKE_TEST(each_driver_call_of_a_run_fails),
        FAKE_TEST(a_run_is_one_graph_where_it_can_be),
        FAKE_TEST(each_driver_call_of_a_captured_run_fails),
        FAKE_TEST(a_blocking_stream_is_being_captured),
        FAKE_TEST(a_run_with_the_oldest_driver),
        FAKE_TEST(a_plan_outlives_its_device),
    };
    return cmocka_run_group_tests_name("clip plans: faults", tests, NULL, NULL);
}
