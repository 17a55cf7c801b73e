// SPDX-License-Identifier: MIT
/// Every operation, with each driver call and each allocation failing once: the error is reported
/// and names the call, nothing is left over, and the thread's context is unchanged.
///
/// Linked with --wrap for malloc, calloc and realloc, to make the library's allocations fail.
#include "failing_allocations.h"
#include "operations.h"

#include <limits.h>

static void assert_left_alone(const struct scene *scene, CUcontext context)
{
    bool capturing = true;
    assert_int_equal(ptx_stream_is_capturing(scene->device, scene->captured, &capturing), PTX_OK);
    assert_false(capturing);
    assert_thread_untouched(context);
}

/// Fails one driver call of the operation: number `call`.
static void fail_one_call(struct scene *scene, size_t i, int call, bool reported, CUcontext context)
{
    int alive = objects_alive();
    fail_call(CUDA_ERROR_UNKNOWN, call);
    ptx_status status = operations[i].run(scene);
    const char *failed = failed_function();
    fail_call(CUDA_SUCCESS, 0);
    assert_non_null(failed);
    if (status != PTX_OK) {
        assert_int_equal(status, PTX_ERROR_DRIVER);
        assert_int_equal(ptx_error_code(), CUDA_ERROR_UNKNOWN);
        assert_message("CUDA_ERROR_UNKNOWN (999)");
        assert_message(failed);
        assert_int_equal(strncmp(ptx_error_message(), "ptx_", 4), 0);
    } else if (reported) {
        fail_msg("%s: failing %s, call %d, was not reported", operations[i].name, failed, call);
    }
    // A destructor that cannot enter the context leaves its objects to the end of the context.
    const bool outside = !reported && !context && strcmp(failed, "cuCtxPushCurrent_v2") == 0;
    if (outside)
        ptx_capture_abandon(scene->device, scene->captured);
    if (objects_alive() != alive && !outside)
        fail_msg("%s: failing %s, call %d, left something behind", operations[i].name, failed,
                 call);
    assert_left_alone(scene, context);
}

static void each_call_fails(CUcontext context)
{
    for (size_t i = 0; i < operation_count; i++) {
        struct scene scene = scene_create();
        int before = calls_so_far();
        scene.calls_when_made = INT_MAX;
        if (operations[i].run(&scene) != PTX_OK)
            fail_msg("%s: %s", operations[i].name, ptx_error_message());
        int calls = calls_so_far() - before;
        int reported = scene.calls_when_made - before;
        assert_true(calls > 0);
        for (int call = 1; call <= calls; call++)
            fail_one_call(&scene, i, call, call <= reported, context);
        scene_destroy(&scene);
    }
}

TEST(each_driver_call_fails_once)
{
    each_call_fails(NULL);
}

TEST(each_driver_call_fails_once_in_a_callers_context)
{
    CUcontext context = NULL;
    assert_int_equal(emulator.cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
    each_call_fails(context);
    assert_int_equal(emulator.cuCtxDestroy_v2(context), CUDA_SUCCESS);
}

/// The first driver call of each function fails, and returns the fault of an earlier kernel: both
/// messages name the function.
TEST(each_function_is_named)
{
    struct scene scene = scene_create();
    CUdeviceptr data = ptx_buffer_address(scene.buffer);
    uint32_t n = 1;
    float factor = 1;
    const struct ptx_arg args[] = { PTX_ARG(data), PTX_ARG(n), PTX_ARG(factor) };
    const struct ptx_launch_params params = {
        .grid = { 1 }, .block = { 32 }, .args = args, .arg_count = 3
    };
    ptx_function *scale = ptx_module_function(scene.module, "scale");
    bool capturing = false;
    float milliseconds = 0;
    size_t bytes = 0;
    CUdeviceptr base = 0;
    int blocks = 0;
    char host[8];
#define MEETS(call, ...)                                                                           \
    do {                                                                                           \
        fail_call(CUDA_ERROR_UNKNOWN, 1);                                                          \
        (void)call(__VA_ARGS__);                                                                   \
        assert_error(PTX_ERROR_DRIVER, #call ": could not ");                                      \
        fail_call(CUDA_ERROR_LAUNCH_FAILED, 1);                                                    \
        (void)call(__VA_ARGS__);                                                                   \
        fail_call(CUDA_SUCCESS, 0);                                                                \
        assert_error(PTX_ERROR_DRIVER, #call ": an earlier kernel failed");                        \
        assert_thread_untouched(NULL);                                                             \
    } while (0)
    MEETS(ptx_launch, scale, &params);
    MEETS(ptx_graph_launch, scene.graph, scene.stream);
    MEETS(ptx_stream_create, scene.device);
    MEETS(ptx_stream_synchronize, scene.device, scene.stream);
    MEETS(ptx_stream_is_capturing, scene.device, NULL, &capturing);
    MEETS(ptx_stream_wait_event, scene.device, scene.stream, scene.event);
    MEETS(ptx_event_create, scene.device);
    MEETS(ptx_event_record, scene.device, scene.event, scene.stream);
    MEETS(ptx_event_synchronize, scene.device, scene.event);
    MEETS(ptx_event_elapsed, scene.device, scene.event, scene.event, &milliseconds);
    MEETS(ptx_buffer_create, scene.device, 8);
    MEETS(ptx_buffer_upload, scene.buffer, 0, host, 8, scene.stream);
    MEETS(ptx_buffer_download, scene.buffer, 0, host, 8, scene.stream);
    MEETS(ptx_buffer_copy, scene.buffer, 0, scene.buffer, 8, 8, scene.stream);
    MEETS(ptx_buffer_fill, scene.buffer, 0, 1, 8, scene.stream);
    MEETS(ptx_host_alloc, scene.device, 8);
    MEETS(ptx_device_memory, scene.device, &bytes, NULL);
    MEETS(ptx_address_range, scene.device, ptx_buffer_address(scene.buffer), &base, &bytes);
    MEETS(ptx_module_load, scene.device, KERNEL_TEXT, NULL);
    MEETS(ptx_module_global, scene.module, "counter", &base, &bytes);
    MEETS(ptx_function_occupancy, scale, 32, 0, &blocks);
    MEETS(ptx_capture_begin, scene.device, scene.stream, PTX_CAPTURE_RELAXED);
    MEETS(ptx_device_open, NULL);
#undef MEETS
    scene_destroy(&scene);
}

TEST(each_allocation_fails_once)
{
    for (size_t i = 0; i < operation_count; i++) {
        struct scene scene = scene_create();
        int alive = objects_alive();
        for (int failing = 1;; failing++) {
            const int live = live_allocations;
            allocations = 0;
            failing_allocation = failing;
            ptx_status status = operations[i].run(&scene);
            failing_allocation = 0;
            assert_true(live_allocations <= live);
            assert_int_equal(objects_alive(), alive);
            assert_left_alone(&scene, NULL);
            if (allocations < failing) {
                assert_int_equal(status, PTX_OK);
                break;
            }
            if (status != PTX_ERROR_OUT_OF_MEMORY)
                fail_msg("%s: allocation %d failing gave %s", operations[i].name, failing,
                         ptx_status_name(status));
            assert_message("out of");
        }
        scene_destroy(&scene);
    }
}

int main(void)
{
    return tests_run(emulator_open, NULL);
}
