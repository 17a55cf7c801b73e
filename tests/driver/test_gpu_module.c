// SPDX-License-Identifier: MIT
/// Modules and launches on a real GPU. Without one, the test is skipped.
#include "gpu_fixture.h"

#include <pthread.h>

TEST(load_and_launch)
{
    OWNED(ptx_module) *module = need(ptx_module_load(gpu, text, NULL));
    ptx_function *scale = need(ptx_module_function(module, "scale"));
    CUstream stream = need(ptx_stream_create(gpu));
    assert_true(scales(scale, (struct ptx_launch_params) { .stream = stream }, 100003));
    assert_true(scales(scale, (struct ptx_launch_params) { .stream = NULL }, 1));

    const struct ptx_function_info *info = ptx_function_get_info(scale);
    assert_true(info->registers > 0);
    assert_true(info->binary_version > 0);
    assert_in_range(info->max_threads_per_block, 128, 1024);
    int blocks = 0;
    check(ptx_function_occupancy(scale, 128, 0, &blocks));
    assert_in_range(blocks, 1, 64);
    CUdeviceptr counter = 0;
    size_t bytes = 0;
    check(ptx_module_global(module, "counter", &counter, &bytes));
    assert_true(counter != 0);
    assert_int_equal(bytes, 8);
    assert_int_equal(ptx_module_global(module, "absent", NULL, NULL), PTX_ERROR_NOT_FOUND);
    ptx_stream_destroy(gpu, &stream);
}

TEST(ways_to_launch)
{
    const struct ptx_device_info *info = ptx_device_get_info(gpu);
    OWNED(ptx_module) *module = need(ptx_module_load(gpu, text, NULL));
    ptx_function *scale = need(ptx_module_function(module, "scale"));
    if (info->driver_version >= 11080) {
        if (info->cooperative_launch)
            assert_true(scales(scale, (struct ptx_launch_params) { .cooperative = true }, 1000));
        if (info->sm >= 90)
            assert_true(scales(scale, (struct ptx_launch_params) { .cluster = { 2 } }, 1024));
    }
    assert_true(scales(scale, (struct ptx_launch_params) { .programmatic = true }, 1000));

    ptx_function *last = need(ptx_module_function(module, "last"));
    uint32_t bytes = (uint32_t)ptx_function_get_info(last)->max_dynamic_shared;
    assert_true((int)bytes >= info->shared_per_block);
    OWNED(ptx_buffer) *out = need(ptx_buffer_create(gpu, 4));
    CUdeviceptr address = ptx_buffer_address(out);
    uint32_t result = 0;
    check(ptx_launch(last, &(struct ptx_launch_params) {
                               .grid = { 1 },
                               .shared_bytes = bytes,
                               .args = (struct ptx_arg[]) { PTX_ARG(address), PTX_ARG(bytes) },
                               .arg_count = 2 }));
    check(ptx_buffer_download(out, 0, &result, 4, NULL));
    check(ptx_stream_synchronize(gpu, NULL));
    assert_int_equal(result, 4711);
}

TEST(bad_text)
{
    assert_null(ptx_module_load(gpu,
                                ".version 6.4\n.target sm_70\n.address_size 64\n"
                                ".visible .entry k()\n{\n    frobnicate.u32 1;\n    ret;\n}\n",
                                NULL));
    wanted(PTX_ERROR_JIT, "line 6 is:     frobnicate.u32 1;");
    wanted(PTX_ERROR_JIT, ptx_device_get_info(gpu)->library_path);
    assert_null(ptx_module_load(gpu, ".version 99.0\n.target sm_70\n.address_size 64\n", NULL));
    wanted(PTX_ERROR_JIT, "newer than the driver");
    assert_null(ptx_module_load(gpu, "no PTX at all", NULL));
    wanted(PTX_ERROR_JIT, "is it PTX?");
    ptx_module *module = need(ptx_module_load(gpu, text, NULL));
    ptx_module_unload(&module);
}

static void *work(void *argument)
{
    (void)argument;
    intptr_t failures = 0;
    CUstream stream = ptx_stream_create(gpu);
    for (int i = 0; i < 10; i++) {
        OWNED(ptx_module) *module = ptx_module_load(gpu, text, NULL);
        failures += !scales(ptx_module_function(module, "scale"),
                            (struct ptx_launch_params) { .stream = stream }, 5000);
    }
    ptx_stream_destroy(gpu, &stream);
    return (void *)failures;
}

TEST(many_threads)
{
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, NULL), 0);
    for (int i = 0; i < 8; i++) {
        void *failures = NULL;
        pthread_join(threads[i], &failures);
        assert_int_equal((intptr_t)failures, 0);
    }
}

int main(void)
{
    open_gpu();
    return tests_run(NULL, close_gpu);
}
