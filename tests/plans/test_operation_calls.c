// SPDX-License-Identifier: MIT
// Which calls of the driver the operations make. Calls after the first allocate nothing and compile
// nothing.
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
        FAKE_TEST(later_calls_only_launch),
        FAKE_TEST(a_blocking_stream_is_being_captured),
    };
    return cmocka_run_group_tests_name("operations: calls", tests, NULL, NULL);
}
