// SPDX-License-Identifier: MIT
/// Launches: what reaches the driver, and what is refused before.
#include "driver_fixture.h"

#include <pthread.h>

struct scene {
    ptx_device *device;
    ptx_module *module;
    ptx_function *scale;
    ptx_function *fixed;
};

static struct scene set_up(void)
{
    struct scene scene = { .device = open_device() };
    scene.module = load_module(scene.device, KERNEL_TEXT);
    scene.scale = ptx_module_function(scene.module, "scale");
    scene.fixed = ptx_module_function(scene.module, "fixed");
    return scene;
}

static void tear_down(struct scene *scene)
{
    ptx_module_unload(&scene->module);
    ptx_device_close(&scene->device);
}

static CUdeviceptr data = 0x1234567890;
static uint32_t n = 77;
static float factor = 0.5f;

/// A valid launch of `scale`.
static struct ptx_launch_params right_launch(void)
{
    static struct ptx_arg args[3] = { PTX_ARG(data), PTX_ARG(n), PTX_ARG(factor) };
    return (
        struct ptx_launch_params) { .grid = { 3 }, .block = { 64 }, .args = args, .arg_count = 3 };
}

FAKE_TEST(everything_arrives)
{
    struct scene scene = set_up();
    fake->argument_sizes[0] = 8;
    fake->argument_sizes[1] = 4;
    fake->argument_sizes[2] = 4;
    struct ptx_launch_params params = right_launch();
    params.grid[1] = 2;
    params.block[2] = 4;
    params.shared_bytes = 100000;
    params.stream = (CUstream)2;
    int calls = atomic_load(&fake->calls);
    assert_int_equal(ptx_launch(scene.scale, &params), PTX_OK);
    // Three calls for the context (get, push, pop), one for the launch. A launch makes no other
    // calls.
    assert_int_equal(atomic_load(&fake->calls) - calls, 4);
    assert_int_equal(fake->launch.gridDimX, 3);
    assert_int_equal(fake->launch.gridDimY, 2);
    assert_int_equal(fake->launch.gridDimZ, 1);
    assert_int_equal(fake->launch.blockDimX, 64);
    assert_int_equal(fake->launch.blockDimY, 1);
    assert_int_equal(fake->launch.blockDimZ, 4);
    assert_int_equal(fake->launch.sharedMemBytes, 100000);
    assert_ptr_equal(fake->launch.hStream, (CUstream)2);
    assert_memory_equal(fake->arguments[0], &data, 8);
    assert_memory_equal(fake->arguments[1], &n, 4);
    assert_memory_equal(fake->arguments[2], &factor, 4);
    tear_down(&scene);
}

FAKE_TEST(empty_grid_does_nothing)
{
    struct scene scene = set_up();
    struct ptx_launch_params params = right_launch();
    params.grid[0] = 0;
    assert_int_equal(ptx_launch(scene.scale, &params), PTX_OK);
    params.arg_count = 2;
    assert_int_equal(ptx_launch(scene.scale, &params), PTX_ERROR_INVALID);
    assert_int_equal(atomic_load(&fake->launches), 0);
    tear_down(&scene);
}

static void refused(const ptx_function *function, struct ptx_launch_params params,
                    const char *message)
{
    int calls = atomic_load(&fake->calls);
    assert_int_equal(ptx_launch(function, &params), PTX_ERROR_INVALID);
    assert_message(message);
    assert_int_equal(atomic_load(&fake->calls), calls);
}

FAKE_TEST(arguments_are_checked)
{
    struct scene scene = set_up();
    uint64_t wide = 1;
    struct ptx_arg args[3] = { PTX_ARG(data), PTX_ARG(wide), PTX_ARG(factor) };
    struct ptx_launch_params params = right_launch();
    params.arg_count = 2;
    refused(scene.scale, params, "kernel scale takes 3 arguments, not 2");
    params.arg_count = 3;
    params.args = NULL;
    refused(scene.scale, params, "kernel scale: args is NULL");
    params.args = args;
    refused(scene.scale, params, "args[1] (n) is .u32 and takes 4 bytes, not 8");
    args[0].value = NULL;
    refused(scene.scale, params, "args[0] (data) has no value");
    assert_int_equal(ptx_launch(NULL, &params), PTX_ERROR_INVALID);
    assert_message("the function is NULL");
    assert_int_equal(ptx_launch(scene.scale, NULL), PTX_ERROR_INVALID);
    assert_message("kernel scale: params is NULL");
    tear_down(&scene);
}

/// The kernel takes one parameter of each kind. An argument of another C type is refused.
FAKE_TEST(types_of_arguments_are_checked)
{
    static const char text[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                               ".visible .entry types(.param .f32 f, .param .u32 u, .param .s64 s,"
                               " .param .b32 b, .param .f64 d, .param .b8 h[8], .param .u64 p)\n"
                               "{\n    ret;\n}\n";
    struct scene scene = set_up();
    ptx_module *module = load_module(scene.device, text);
    const ptx_function *function = ptx_module_function(module, "types");
    assert_non_null(function);
    const float f = 1;
    const double d = 1;
    const uint32_t u = 1;
    const int i = 1;
    const long long s = 1;
    enum { ENUMERATOR } e = ENUMERATOR;
    struct {
        float x, y;
    } pair = { 1, 2 };
    float two[2] = { 1, 2 };
    ptx_buffer *buffer = NULL;
    const char *text_pointer = text;
    const struct ptx_arg right[] = { PTX_ARG(f), PTX_ARG(u),    PTX_ARG(s),   PTX_ARG(f),
                                     PTX_ARG(d), PTX_ARG(pair), PTX_ARG(data) };
    const struct {
        size_t at;
        struct ptx_arg arg;
        const char *message;
    } other[] = {
        { 0, PTX_ARG(u), "kernel types: args[0] (f) is .f32 and takes a float, not an integer" },
        { 4, PTX_ARG(s), "args[4] (d) is .f64 and takes a double, not an integer" },
        { 1, PTX_ARG(f), "args[1] (u) is .u32 and takes an integer of 4 bytes, not a float" },
        { 2, PTX_ARG(d), "args[2] (s) is .s64 and takes an integer of 8 bytes, not a double" },
        { 6, PTX_ARG(buffer),
          "args[6] (p) is .u64, and the argument is a pointer of the host: pass "
          "the CUdeviceptr" },
        { 5, PTX_ARG(text_pointer), "args[5] (h) is .b8, and the argument is a pointer" },
        { 1, PTX_ARG(i), NULL },
        { 1, PTX_ARG(e), NULL },
        { 3, PTX_ARG(i), NULL },
        { 5, PTX_ARG(two), NULL },
        { 5, PTX_ARG(d), NULL },
        { 5, PTX_ARG(s), NULL },
        { 0, { .value = &i, .size = sizeof i }, NULL },
        { 6, { .value = &buffer, .size = sizeof buffer }, NULL },
    };
    struct ptx_arg args[7];
    struct ptx_launch_params params = {
        .grid = { 1 }, .block = { 1 }, .args = args, .arg_count = 7
    };
    for (size_t k = 0; k < sizeof other / sizeof other[0]; k++) {
        memcpy(args, right, sizeof args);
        assert_int_equal(ptx_launch(function, &params), PTX_OK);
        args[other[k].at] = other[k].arg;
        if (other[k].message)
            refused(function, params, other[k].message);
        else if (ptx_launch(function, &params))
            fail_msg("%zu: %s", k, ptx_error_message());
    }
    ptx_module_unload(&module);
    tear_down(&scene);
}

FAKE_TEST(geometry_is_checked)
{
    struct scene scene = set_up();
    struct ptx_launch_params params = right_launch();
    params.block[0] = 0;
    refused(scene.scale, params, "block is 0, and the kernel has no .reqntid");
    params.block[0] = 1025;
    refused(scene.scale, params, "block.x is 1025, the GPU allows 1024");
    params.block[0] = 1;
    params.block[2] = 65;
    refused(scene.scale, params, "block.z is 65, the GPU allows 64");
    params.block[2] = 0;
    params.block[1] = 513;
    refused(scene.scale, params, "1 x 513 x 1 = 513 threads, the kernel runs with at most 512");
    params = right_launch();
    params.grid[0] = 2147483648u;
    refused(scene.scale, params, "grid.x is 2147483648, the GPU allows 2147483647");
    params.grid[0] = 1;
    params.grid[1] = 65536;
    refused(scene.scale, params, "grid.y is 65536, the GPU allows 65535");
    params = right_launch();
    params.shared_bytes = 232449;
    refused(scene.scale, params, "shared_bytes is 232449, but only 232448 are left");
    params.shared_bytes = SIZE_MAX;
    refused(scene.scale, params, "shared_bytes is ");
    params = right_launch();
    params.cluster[0] = 2;
    refused(scene.scale, params, "grid.x is 3, no multiple of cluster.x, 2");
    tear_down(&scene);
}

FAKE_TEST(required_block)
{
    struct scene scene = set_up();
    struct ptx_launch_params params = { .grid = { 5 } };
    assert_int_equal(ptx_launch(scene.fixed, &params), PTX_OK);
    assert_int_equal(fake->launch.blockDimX, 128);
    assert_int_equal(fake->launch.blockDimY, 2);
    assert_int_equal(fake->launch.blockDimZ, 1);
    params.block[0] = 128;
    refused(scene.fixed, params, "block.y is 1, but the kernel's .reqntid is 2");
    params.block[1] = 2;
    assert_int_equal(ptx_launch(scene.fixed, &params), PTX_OK);
    tear_down(&scene);
}

FAKE_TEST(attributes)
{
    struct scene scene = set_up();
    struct ptx_launch_params params = right_launch();
    params.grid[0] = 4;
    params.cooperative = true;
    params.cluster[0] = 2;
    params.programmatic = true;
    assert_int_equal(ptx_launch(scene.scale, &params), PTX_OK);
    assert_int_equal(fake->launch.numAttrs, 3);
    assert_int_equal(fake->attributes[0].id, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
    assert_int_equal(fake->attributes[0].value.cooperative, 1);
    assert_int_equal(fake->attributes[1].id, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    assert_int_equal(fake->attributes[1].value.clusterDim.x, 2);
    assert_int_equal(fake->attributes[1].value.clusterDim.y, 1);
    assert_int_equal(fake->attributes[2].id, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
    tear_down(&scene);

    fake->sm = 80;
    fake->cooperative = 0;
    atomic_store(&fake->launches, 0);
    scene = set_up();
    assert_int_equal(ptx_launch(scene.scale, &params), PTX_ERROR_UNSUPPORTED);
    assert_message("has no cooperative launches");
    params.cooperative = false;
    assert_int_equal(ptx_launch(scene.scale, &params), PTX_ERROR_UNSUPPORTED);
    assert_message("clusters need sm_90, and Fake GPU 0 is sm_80");
    params.cluster[0] = 0;
    assert_int_equal(ptx_launch(scene.scale, &params), PTX_OK);
    assert_int_equal(fake->launch.numAttrs, 0);
    tear_down(&scene);
}

/// The caller's context is current, and the device was opened with it: a launch neither pushes nor
/// pops it.
FAKE_TEST(callers_context_stays)
{
    CUcontext context = fake->context_create(0);
    struct scene scene = set_up();
    struct ptx_launch_params params = right_launch();
    CUstream stream = ptx_stream_create(scene.device);
    int calls = atomic_load(&fake->calls);
    assert_int_equal(ptx_launch(scene.scale, &params), PTX_OK);
    // One more call on the legacy default stream, because of captures.
    assert_int_equal(atomic_load(&fake->calls) - calls, 3);
    params.stream = stream;
    calls = atomic_load(&fake->calls);
    assert_int_equal(ptx_launch(scene.scale, &params), PTX_OK);
    assert_int_equal(atomic_load(&fake->calls) - calls, 2);
    assert_int_equal(fake->context_depth(), 1);
    ptx_stream_destroy(scene.device, &stream);
    tear_down(&scene);
    fake->context_pop();
    free(context);
}

FAKE_TEST(launching_under_capture)
{
    struct scene scene = set_up();
    CUstream captured = fake->stream_create(ptx_device_context(scene.device), false);
    fake->capture_begin(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
    struct ptx_launch_params params = right_launch();
    params.stream = captured;
    assert_int_equal(ptx_launch(ptx_module_function(scene.module, "scale"), &params), PTX_OK);
    assert_int_equal(fake->capture_end(captured), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    free(captured);
    tear_down(&scene);
}

/// Each thread uses the shared device with its own objects, and has its own errors.
static void *work(void *argument)
{
    struct scene *scene = argument;
    struct ptx_launch_params params = right_launch();
    intptr_t failures = ptx_error_status() != PTX_OK;
    for (int i = 0; i < 50; i++) {
        char in[16] = "something";
        char out[16] = "";
        OWNED(ptx_buffer) *buffer = ptx_buffer_create(scene->device, 16);
        OWNED(ptx_module) *module = ptx_module_load(scene->device, KERNEL_TEXT, NULL);
        failures += ptx_buffer_upload(buffer, 0, in, 16, NULL) != PTX_OK;
        failures += ptx_launch(scene->scale, &params) != PTX_OK;
        failures += ptx_launch(ptx_module_function(module, "scale"), &params) != PTX_OK;
        failures += ptx_buffer_download(buffer, 0, out, 16, NULL) != PTX_OK;
        failures += strcmp(in, out) != 0;
    }
    failures += ptx_error_status() != PTX_OK;
    failures += ptx_launch(NULL, &params) != PTX_ERROR_INVALID;
    failures += fake->context_depth() != 0;
    return (void *)failures;
}

FAKE_TEST(many_threads)
{
    struct scene scene = set_up();
    assert_null(ptx_buffer_create(NULL, 1));
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &scene), 0);
    for (int i = 0; i < 4; i++) {
        void *failures = NULL;
        pthread_join(threads[i], &failures);
        assert_int_equal((intptr_t)failures, 0);
    }
    assert_error(PTX_ERROR_INVALID, "the device is NULL");
    assert_int_equal(atomic_load(&fake->launches), 400);
    tear_down(&scene);
}
