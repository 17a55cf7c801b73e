// SPDX-License-Identifier: MIT
/// Devices, their memory and the ranges of addresses, on a real GPU. Without one, the test is
/// skipped.
#include "gpu_fixture.h"

TEST(each_device)
{
    int count = 0;
    check(ptx_device_count(&count));
    for (int i = 0; i < count; i++) {
        OWNED(ptx_device) *device =
            need(ptx_device_open(&(struct ptx_device_params) { .primary = true, .ordinal = i }));
        assert_int_equal(ptx_device_get_info(device)->ordinal, i);
        OWNED(ptx_buffer) *buffer = need(ptx_buffer_create(device, 256));
        check(ptx_buffer_fill(buffer, 0, 1, 256, NULL));
        check(ptx_stream_synchronize(device, NULL));
    }
}

TEST(memory_and_events)
{
    enum { BYTES = 1 << 20 };
    CUstream stream = need(ptx_stream_create(gpu));
    CUevent start = need(ptx_event_create(gpu));
    CUevent end = need(ptx_event_create(gpu));
    unsigned char *host = need(ptx_host_alloc(gpu, BYTES));
    OWNED(ptx_buffer) *buffer = need(ptx_buffer_create(gpu, BYTES));
    check(ptx_event_record(gpu, start, stream));
    check(ptx_buffer_fill(buffer, 0, 0x5a, BYTES, stream));
    check(ptx_buffer_fill(buffer, 3, 0xa5, 2, stream));
    check(ptx_buffer_download(buffer, 0, host, BYTES, stream));
    check(ptx_event_record(gpu, end, stream));
    check(ptx_event_synchronize(gpu, end));
    float milliseconds = -1;
    check(ptx_event_elapsed(gpu, start, end, &milliseconds));
    assert_true(milliseconds >= 0);
    assert_int_equal(host[2], 0x5a);
    assert_int_equal(host[3], 0xa5);
    assert_int_equal(host[BYTES - 1], 0x5a);
    size_t available = 0;
    size_t total = 0;
    check(ptx_device_memory(gpu, &available, &total));
    assert_true(available > 0 && available <= total);
    assert_null(ptx_buffer_create(gpu, (size_t)1 << 60));
    wanted(PTX_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY");
    ptx_host_free(gpu, &host);
    ptx_event_destroy(gpu, &end);
    ptx_event_destroy(gpu, &start);
    ptx_stream_destroy(gpu, &stream);
}

static void range_holds(CUdeviceptr address, size_t bytes)
{
    CUdeviceptr base = 0;
    size_t size = 0;
    check(ptx_address_range(gpu, address + bytes - 1, &base, &size));
    assert_true(base <= address);
    assert_true(base + size >= address + bytes);
}

TEST(address_ranges)
{
    enum { BYTES = 3000000 };
    struct others others;
    find_others(&others);
    CUstream stream = need(ptx_stream_create(gpu));
    OWNED(ptx_buffer) *buffer = need(ptx_buffer_create(gpu, BYTES));
    void *pinned = need(ptx_host_alloc(gpu, BYTES));
    CUdeviceptr base = 0;
    size_t bytes = 0;
    check(ptx_address_range(gpu, ptx_buffer_address(buffer) + 5, &base, &bytes));
    assert_true(base == ptx_buffer_address(buffer));
    assert_int_equal(bytes, BYTES);
    range_holds((CUdeviceptr)(uintptr_t)pinned, BYTES);
    assert_int_equal(ptx_address_range(gpu, 0, &base, &bytes), PTX_ERROR_NOT_FOUND);
    assert_int_equal(bytes, 0);

    assert_int_equal(others.push(ptx_device_context(gpu)), 0);
    CUdeviceptr managed = 0;
    assert_int_equal(others.allocate_managed(&managed, BYTES, 1), 0);
    range_holds(managed, BYTES);
    assert_int_equal(others.free(managed), 0);
    CUdeviceptr pooled = 0;
    if (others.allocate_from_pool) {
        assert_int_equal(others.allocate_from_pool(&pooled, BYTES, stream), 0);
        range_holds(pooled, BYTES);
        assert_int_equal(others.free_to_pool(pooled, stream), 0);
    }
    CUcontext popped = NULL;
    assert_int_equal(others.pop(&popped), 0);

    ptx_module *module = need(ptx_module_load(gpu, text, NULL));
    CUdeviceptr counter = 0;
    check(ptx_module_global(module, "counter", &counter, NULL));
    check(ptx_address_range(gpu, counter + 7, &base, &bytes));
    assert_true(base == counter);
    assert_int_equal(bytes, 8);
    ptx_module_unload(&module);
    check(ptx_stream_synchronize(gpu, stream));
    ptx_host_free(gpu, &pinned);
    ptx_stream_destroy(gpu, &stream);
}

int main(void)
{
    open_gpu();
    return tests_run(NULL, close_gpu);
}
