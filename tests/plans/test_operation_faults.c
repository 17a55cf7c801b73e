// SPDX-License-Identifier: MIT
// The first call of each operation, which compiles, with each driver call and each allocation in it
// failing once: the error is reported, nothing stays behind, and the next attempt works.
//
// Linked with --wrap for malloc, calloc and realloc.
#include "emulator_faults.h"
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
    assert_int_equal(ptx_buffer_fill(scene->memory, 0, 0, 4096, NULL), PTX_OK);
    scene->at = ptx_buffer_address(scene->memory);
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
        const int alive = objects_alive();
        ptx_operations *operations = ptx_operations_create(scene.device, NULL);
        const int before = calls_so_far();
        if (calls[i](&scene, operations) != PTX_OK)
            fail_msg("%s", ptx_error_message());
        const int count = calls_so_far() - before;
        assert_true(count > 5);
        ptx_operations_destroy(&operations);
        for (int call = 1; call <= count; call++) {
            const int live = live_allocations;
            operations = ptx_operations_create(scene.device, NULL);
            const int launches = launches_so_far();
            fail_call(CUDA_ERROR_UNKNOWN, call);
            const ptx_status status = calls[i](&scene, operations);
            const char *failed = failed_function();
            fail_call(CUDA_SUCCESS, 0);
            assert_non_null(failed);
            if (status != PTX_ERROR_DRIVER || !strstr(ptx_error_message(), failed))
                fail_msg("failing %s, call %d of %d: %s", failed, call, count,
                         ptx_status_name(status));
            assert_thread_untouched(NULL);
            // Only leaving the context may fail after the launch.
            assert_true(launches_so_far() == launches || strstr(failed, "cuCtxPop"));
            assert_int_equal(calls[i](&scene, operations), PTX_OK);
            ptx_operations_destroy(&operations);
            if (objects_alive() != alive || live_allocations != live)
                fail_msg("failing %s, call %d of %d, left something behind", failed, call, count);
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
        const int alive = objects_alive();
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
            assert_int_equal(live_allocations, live);
            assert_int_equal(objects_alive(), alive);
            if (all)
                break;
        }
        tear_down(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_driver_call_of_the_first_call_fails),
        cmocka_unit_test(each_allocation_of_the_first_call_fails),
    };
    return cmocka_run_group_tests_name("operations: faults", tests, emulator_open, NULL);
}
