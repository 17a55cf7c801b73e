// SPDX-License-Identifier: MIT
// The driver calls that operations make. After the first call, an operation allocates nothing and
// compiles nothing.
//
// Linked with --wrap for malloc, calloc and realloc.
#include "driver_fixture.h"
#include "failing_allocations.h"
#include "operation_calls.h"

static void set_up(struct scene *scene)
{
    scene_create(scene);
    fake->registered = scene->at;
    fake->block_threads = 1024;
}

static void later_calls_only_launch(void **state)
{
    (void)state;
    struct scene scene;
    set_up(&scene);
    ptx_operations *operations = ptx_operations_create(
        scene.device, &(struct ptx_operations_params) { .any_address = true });
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(calls[i](&scene, operations), PTX_OK);
        const int loads = atomic_load(&fake->loads), launches = atomic_load(&fake->launches);
        const int before = atomic_load(&fake->calls);
        allocations = 0;
        for (int k = 0; k < 100; k++)
            assert_int_equal(calls[i](&scene, operations), PTX_OK);
        assert_int_equal(allocations, 0);
        assert_int_equal(atomic_load(&fake->loads), loads);
        assert_int_equal(atomic_load(&fake->launches), launches + 100 * launches_of[i]);
        // Calls for the context (get, push, pop), and a query of the legacy default stream.
        assert_true(atomic_load(&fake->calls) - before <= 100 * 5 * launches_of[i]);
    }
    ptx_operations_destroy(&operations);
    scene_destroy(&scene);
}

// The calls use the legacy default stream, and are compiled: the driver can only refuse the launch.
static void a_blocking_stream_is_being_captured(void **state)
{
    (void)state;
    struct scene scene;
    set_up(&scene);
    ptx_operations *operations = ptx_operations_create(scene.device, NULL);
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(calls[i](&scene, operations), PTX_OK);
    CUstream blocking = fake->stream_create(ptx_device_context(scene.device), true);
    fake->capture_begin(blocking, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    const int loads = atomic_load(&fake->loads), launches = atomic_load(&fake->launches);
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(calls[i](&scene, operations), PTX_ERROR_CAPTURE);
        assert_message("could not launch the kernel: a blocking stream of the context is being");
        assert_int_equal(fake->capture_status(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    }
    assert_int_equal(atomic_load(&fake->loads), loads);
    assert_int_equal(atomic_load(&fake->launches), launches);
    assert_int_equal(fake->capture_end(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(calls[i](&scene, operations), PTX_OK);
    free(blocking);
    ptx_operations_destroy(&operations);
    scene_destroy(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_TEST(later_calls_only_launch),
        FAKE_TEST(a_blocking_stream_is_being_captured),
    };
    return cmocka_run_group_tests_name("operations: calls", tests, NULL, NULL);
}
