// SPDX-License-Identifier: MIT
// The first call of each operation, which compiles, with each driver call and each allocation in it
// failing once: the error is reported, nothing stays behind, and the next attempt works. Calls
// after it allocate nothing and compile nothing.
//
// Linked with --wrap for malloc, calloc and realloc.
#include "driver_fixture.h"
#include "failing_allocations.h"

#include <ptxgen/operations.h>

struct scene {
    ptx_device *device;
    ptx_buffer *memory;
    CUdeviceptr at;
};

static void set_up(struct scene *scene)
{
    scene->device = ptx_device_open(NULL);
    scene->memory = ptx_buffer_create(scene->device, 4096);
    assert_true(scene->device && scene->memory);
    scene->at = fake->registered = ptx_buffer_address(scene->memory);
}

static void tear_down(struct scene *scene)
{
    ptx_buffer_destroy(&scene->memory);
    ptx_device_close(&scene->device);
}

static ptx_status quantize(const struct scene *scene, ptx_operations *operations)
{
    return ptx_quantize_backward(operations,
                                 &(struct ptx_quantize_params) { .dtype = PTX_BF16,
                                                                 .count = 64,
                                                                 .x = scene->at,
                                                                 .d_output = scene->at + 512,
                                                                 .d_input = scene->at + 1024,
                                                                 .scale = 0.1 },
                                 NULL);
}

static ptx_status quantize_channels(const struct scene *scene, ptx_operations *operations)
{
    return ptx_quantize_backward(operations,
                                 &(struct ptx_quantize_params) { .dtype = PTX_F32,
                                                                 .count = 64,
                                                                 .x = scene->at,
                                                                 .d_output = scene->at + 512,
                                                                 .d_input = scene->at + 512,
                                                                 .scales = scene->at + 1024,
                                                                 .zero_points = scene->at + 1536,
                                                                 .channels = 32 },
                                 NULL);
}

static ptx_status lerp(const struct scene *scene, ptx_operations *operations)
{
    return ptx_lerp_backward(operations,
                             &(struct ptx_lerp_params) { .dtype = PTX_F64,
                                                         .count = 64,
                                                         .d_output = scene->at,
                                                         .d_a = scene->at,
                                                         .d_b = scene->at + 512,
                                                         .weight_at = scene->at + 1024 },
                             NULL);
}

static ptx_status loss_scale(const struct scene *scene, ptx_operations *operations)
{
    return ptx_loss_scale_update(operations, scene->at, scene->at + 8, NULL, NULL);
}

static ptx_status (*const calls[])(const struct scene *, ptx_operations *) = { quantize,
                                                                               quantize_channels,
                                                                               lerp, loss_scale };
enum { CALLS = sizeof calls / sizeof *calls };

static void each_driver_call_of_the_first_call_fails(void **state)
{
    (void)state;
    for (int i = 0; i < CALLS; i++) {
        struct scene scene;
        set_up(&scene);
        const int alive = atomic_load(&fake->alive);
        ptx_operations *operations = ptx_operations_create(scene.device, NULL);
        const int before = atomic_load(&fake->calls);
        if (calls[i](&scene, operations) != PTX_OK)
            fail_msg("%s", ptx_error_message());
        const int count = atomic_load(&fake->calls) - before;
        assert_true(count > 5);
        ptx_operations_destroy(&operations);
        for (int call = 1; call <= count; call++) {
            const int live = live_allocations;
            operations = ptx_operations_create(scene.device, NULL);
            const int launches = atomic_load(&fake->launches);
            fake->fail_result = CUDA_ERROR_UNKNOWN;
            fake->failed = NULL;
            atomic_store(&fake->fail_at, call);
            const ptx_status status = calls[i](&scene, operations);
            atomic_store(&fake->fail_at, 0);
            if (status != PTX_ERROR_DRIVER || !strstr(ptx_error_message(), fake->failed))
                fail_msg("failing %s, call %d of %d: %s", fake->failed, call, count,
                         ptx_status_name(status));
            assert_int_equal(fake->context_depth(), 0);
            // Only leaving the context may fail after the launch.
            assert_true(atomic_load(&fake->launches) == launches ||
                        strstr(fake->failed, "cuCtxPop") || call == count);
            assert_int_equal(calls[i](&scene, operations), PTX_OK);
            ptx_operations_destroy(&operations);
            if (atomic_load(&fake->alive) != alive || live_allocations != live)
                fail_msg("failing %s, call %d of %d, left something behind", fake->failed, call,
                         count);
        }
        tear_down(&scene);
    }
}

static void each_allocation_of_the_first_call_fails(void **state)
{
    (void)state;
    for (int i = 0; i < CALLS; i++) {
        struct scene scene;
        set_up(&scene);
        const int alive = atomic_load(&fake->alive);
        for (int failing = 1;; failing++) {
            const int live = live_allocations;
            allocations = 0;
            failing_allocation = failing;
            ptx_operations *operations = ptx_operations_create(scene.device, NULL);
            const ptx_status status =
                operations ? calls[i](&scene, operations) : ptx_error_status();
            const bool all = allocations < failing;
            failing_allocation = 0;
            if (status != (all ? PTX_OK : PTX_ERROR_OUT_OF_MEMORY))
                fail_msg("allocation %d failing gave %s", failing, ptx_status_name(status));
            ptx_operations_destroy(&operations);
            assert_int_equal(atomic_load(&fake->alive), alive);
            assert_int_equal(live_allocations, live);
            if (all)
                break;
        }
        tear_down(&scene);
    }
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
        assert_int_equal(atomic_load(&fake->launches), launches + 100);
        // The context is asked for, entered, left again; and the legacy default stream asked about.
        assert_true(atomic_load(&fake->calls) - before <= 100 * 5);
    }
    ptx_operations_destroy(&operations);
    tear_down(&scene);
}

// The calls are on the legacy default stream, and compiled: a launch is all that is left to refuse.
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
    tear_down(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_driver_call_of_the_first_call_fails, fake_setup,
                                        fake_teardown),
        cmocka_unit_test_setup_teardown(each_allocation_of_the_first_call_fails, fake_setup,
                                        fake_teardown),
        cmocka_unit_test_setup_teardown(later_calls_only_launch, fake_setup, fake_teardown),
        cmocka_unit_test_setup_teardown(a_blocking_stream_is_being_captured, fake_setup,
                                        fake_teardown),
    };
    return cmocka_run_group_tests_name("operations: faults", tests, NULL, NULL);
}
