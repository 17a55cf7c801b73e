// SPDX-License-Identifier: MIT
/// The driver layer on a real GPU. Skipped where there is none.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// After those four, as it asks.
#include <cmocka.h>

#include <ptxgen/driver.h>

// scale: data[i] *= factor. last: writes the last word of dynamic shared memory and reads it back.
static const char text[] = ".version 6.4\n"
                           ".target sm_70\n"
                           ".address_size 64\n"
                           ".visible .global .align 8 .u64 counter;\n"
                           ".extern .shared .align 16 .b8 dynamic[];\n"
                           ".visible .entry scale(\n"
                           "    .param .u64 data,\n"
                           "    .param .u32 n,\n"
                           "    .param .f32 factor\n"
                           ")\n"
                           "{\n"
                           "    .reg .pred %p<2>;\n"
                           "    .reg .b32 %r<6>;\n"
                           "    .reg .f32 %f<4>;\n"
                           "    .reg .b64 %d<4>;\n"
                           "    ld.param.u64 %d1, [data];\n"
                           "    ld.param.u32 %r1, [n];\n"
                           "    ld.param.f32 %f1, [factor];\n"
                           "    mov.u32 %r2, %ctaid.x;\n"
                           "    mov.u32 %r3, %ntid.x;\n"
                           "    mov.u32 %r4, %tid.x;\n"
                           "    mad.lo.u32 %r5, %r2, %r3, %r4;\n"
                           "    setp.ge.u32 %p1, %r5, %r1;\n"
                           "    @%p1 ret;\n"
                           "    cvta.to.global.u64 %d1, %d1;\n"
                           "    mul.wide.u32 %d2, %r5, 4;\n"
                           "    add.u64 %d3, %d1, %d2;\n"
                           "    ld.global.f32 %f2, [%d3];\n"
                           "    mul.rn.f32 %f3, %f2, %f1;\n"
                           "    st.global.f32 [%d3], %f3;\n"
                           "    ret;\n"
                           "}\n"
                           ".visible .entry last(.param .u64 out, .param .u32 bytes)\n"
                           ".reqntid 32\n"
                           "{\n"
                           "    .reg .b32 %r<5>;\n"
                           "    .reg .b64 %d<2>;\n"
                           "    ld.param.u64 %d1, [out];\n"
                           "    ld.param.u32 %r1, [bytes];\n"
                           "    cvta.to.global.u64 %d1, %d1;\n"
                           "    mov.u32 %r2, dynamic;\n"
                           "    add.u32 %r2, %r2, %r1;\n"
                           "    mov.u32 %r3, 4711;\n"
                           "    st.volatile.shared.u32 [%r2 + -4], %r3;\n"
                           "    bar.sync 0;\n"
                           "    ld.volatile.shared.u32 %r4, [%r2 + -4];\n"
                           "    st.global.u32 [%d1], %r4;\n"
                           "    ret;\n"
                           "}\n";

static ptx_device *gpu;

static void check(ptx_status status)
{
    if (status != PTX_OK)
        fail_msg("%s: %s", ptx_status_name(status), ptx_error_message());
}

static void *need(void *object)
{
    if (!object)
        fail_msg("%s: %s", ptx_status_name(ptx_error_status()), ptx_error_message());
    return object;
}

static void wanted(ptx_status status, const char *message)
{
    assert_int_equal(ptx_error_status(), status);
    if (!strstr(ptx_error_message(), message))
        fail_msg("'%s' is not in the message: %s", message, ptx_error_message());
}

/// Scales n ones by 2 on the stream, in any way the launch says; true if that is what comes out.
static bool scales(ptx_function *scale, struct ptx_launch_params params, uint32_t n)
{
    float *values = malloc(n * sizeof(*values));
    for (uint32_t i = 0; i < n; i++)
        values[i] = (float)(i % 1000);
    ptx_buffer *buffer = ptx_buffer_create(gpu, n * sizeof(*values));
    CUdeviceptr data = ptx_buffer_address(buffer);
    float factor = 2.0f;
    params.grid[0] = (n + 127) / 128;
    params.block[0] = 128;
    params.args = (struct ptx_arg[]) { PTX_ARG(data), PTX_ARG(n), PTX_ARG(factor) };
    params.arg_count = 3;
    bool right =
        ptx_buffer_upload(buffer, 0, values, n * sizeof(*values), params.stream) == PTX_OK &&
        ptx_launch(scale, &params) == PTX_OK &&
        ptx_buffer_download(buffer, 0, values, n * sizeof(*values), params.stream) == PTX_OK &&
        ptx_stream_synchronize(gpu, params.stream) == PTX_OK;
    for (uint32_t i = 0; i < n && right; i++)
        right = values[i] == 2.0f * (float)(i % 1000);
    ptx_buffer_destroy(&buffer);
    free(values);
    return right;
}

static void load_and_launch(void **state)
{
    (void)state;
    ptx_module *module = need(ptx_module_load(gpu, text, NULL));
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
    ptx_module_unload(&module);
}

static void ways_to_launch(void **state)
{
    (void)state;
    const struct ptx_device_info *info = ptx_device_get_info(gpu);
    ptx_module *module = need(ptx_module_load(gpu, text, NULL));
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
    ptx_buffer *out = need(ptx_buffer_create(gpu, 4));
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
    ptx_buffer_destroy(&out);
    ptx_module_unload(&module);
}

static void memory_and_events(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    CUstream stream = need(ptx_stream_create(gpu));
    CUevent start = need(ptx_event_create(gpu));
    CUevent end = need(ptx_event_create(gpu));
    unsigned char *host = need(ptx_host_alloc(gpu, BYTES));
    ptx_buffer *buffer = need(ptx_buffer_create(gpu, BYTES));
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
    ptx_buffer_destroy(&buffer);
    ptx_host_free(gpu, &host);
    ptx_event_destroy(gpu, &end);
    ptx_event_destroy(gpu, &start);
    ptx_stream_destroy(gpu, &stream);
}

static void bad_text(void **state)
{
    (void)state;
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

static ptx_module *load_cached(const char *folder, enum ptx_cache_outcome outcome)
{
    ptx_module *module =
        need(ptx_module_load(gpu, text, &(struct ptx_module_params) { .cache = folder }));
    const struct ptx_cache_result *result = ptx_module_cache_result(module);
    if (result->outcome != outcome)
        fail_msg("outcome %d: %s", (int)result->outcome, result->reason);
    assert_true(
        scales(need(ptx_module_function(module, "scale")), (struct ptx_launch_params) { 0 }, 1000));
    return module;
}

/// Turns a bit in the middle of the one file that is there; its path.
static void spoil(const char *folder, char *path, size_t size)
{
    DIR *open = need(opendir(folder));
    for (struct dirent *found; (found = readdir(open));)
        if (found->d_name[0] != '.')
            snprintf(path, size, "%s/%s", folder, found->d_name);
    closedir(open);
    FILE *file = need(fopen(path, "r+b"));
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long middle = ftell(file) / 2;
    assert_int_equal(fseek(file, middle, SEEK_SET), 0);
    int byte = fgetc(file);
    assert_int_equal(fseek(file, middle, SEEK_SET), 0);
    assert_int_not_equal(fputc(byte ^ 4, file), EOF);
    assert_int_equal(fclose(file), 0);
}

static void cached_modules(void **state)
{
    (void)state;
    char folder[256];
    char path[600] = "";
    char message[8192];
    snprintf(folder, sizeof(folder), "%s/ptxgen-test-gpu-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    need(mkdtemp(folder));
    ptx_module *plain = need(ptx_module_load(gpu, text, NULL));
    ptx_module *stored = load_cached(folder, PTX_CACHE_STORED);
    ptx_module *hit = load_cached(folder, PTX_CACHE_HIT);
    const struct ptx_function_info *infos[] = {
        ptx_function_get_info(ptx_module_function(plain, "last")),
        ptx_function_get_info(ptx_module_function(stored, "last")),
        ptx_function_get_info(ptx_module_function(hit, "last")),
    };
    for (int i = 1; i < 3; i++) {
        assert_int_equal(infos[i]->registers, infos[0]->registers);
        assert_int_equal(infos[i]->binary_version, infos[0]->binary_version);
        assert_int_equal(infos[i]->max_dynamic_shared, infos[0]->max_dynamic_shared);
        assert_int_equal(infos[i]->required_block[0], 32);
    }
    ptx_module_unload(&hit);
    spoil(folder, path, sizeof(path));
    hit = load_cached(folder, PTX_CACHE_STORED);
    ptx_module_unload(&hit);
    hit = load_cached(folder, PTX_CACHE_HIT);
    ptx_module_unload(&hit);

    static const char bad[] = ".version 6.4\n.target sm_70\n.address_size 64\n"
                              ".visible .entry k()\n{\n    frobnicate.u32 1;\n    ret;\n}\n";
    assert_null(ptx_module_load(gpu, bad, NULL));
    snprintf(message, sizeof(message), "%s", ptx_error_message());
    assert_null(ptx_module_load(gpu, bad, &(struct ptx_module_params) { .cache = folder }));
    assert_string_equal(ptx_error_message(), message);
    ptx_module_unload(&stored);
    ptx_module_unload(&plain);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

/// Functions of libcuda that the library itself has no use for; NULL where there is none.
struct others {
    int (*push)(CUcontext);
    int (*pop)(CUcontext *);
    int (*create_stream)(CUstream *, unsigned);
    int (*allocate_managed)(CUdeviceptr *, size_t, unsigned);
    int (*free)(CUdeviceptr);
    int (*allocate_from_pool)(CUdeviceptr *, size_t, CUstream);
    int (*free_to_pool)(CUdeviceptr, CUstream);
};

static void find_others(struct others *others)
{
    static const char *const names[] = { "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2",
                                         "cuStreamCreate",      "cuMemAllocManaged",
                                         "cuMemFree_v2",        "cuMemAllocAsync",
                                         "cuMemFreeAsync" };
    void *library = need(dlopen(ptx_device_get_info(gpu)->library_path, RTLD_NOW));
    void *symbols[sizeof(names) / sizeof(names[0])] = { NULL };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        symbols[i] = dlsym(library, names[i]);
    _Static_assert(sizeof(*others) == sizeof(symbols), "a name for each member");
    memcpy(others, symbols, sizeof(symbols));
}

static void needs_graphs(void)
{
    if (ptx_device_get_info(gpu)->driver_version < 11040) {
        print_message("skipped: this driver is older than graphs of this library\n");
        skip();
    }
}

static void scale_one(ptx_function *scale, CUdeviceptr data, CUstream stream)
{
    uint32_t n = 1;
    float factor = 3.0f;
    check(ptx_launch(scale,
                     &(struct ptx_launch_params) {
                         .grid = { 1 },
                         .block = { 32 },
                         .stream = stream,
                         .args = (struct ptx_arg[]) { PTX_ARG(data), PTX_ARG(n), PTX_ARG(factor) },
                         .arg_count = 3 }));
}

/// What the stream under capture refuses, and what goes on beside it.
static void work_beside_capture(CUstream stream)
{
    assert_null(ptx_module_load(gpu, text, &(struct ptx_module_params) { .stream = stream }));
    wanted(PTX_ERROR_CAPTURE, "the stream is being captured");
    assert_int_equal(ptx_stream_synchronize(gpu, stream), PTX_ERROR_CAPTURE);
    assert_int_equal(ptx_capture_begin(gpu, stream, PTX_CAPTURE_GLOBAL), PTX_ERROR_CAPTURE);
    wanted(PTX_ERROR_CAPTURE, "the stream is being captured already");
    ptx_module *other = need(ptx_module_load(gpu, text, NULL));
    assert_true(scales(ptx_module_function(other, "scale"),
                       (struct ptx_launch_params) { .stream = NULL }, 1000));
    ptx_module_unload(&other);
}

static void capture_and_replay(void **state)
{
    (void)state;
    needs_graphs();
    ptx_module *module = need(ptx_module_load(gpu, text, NULL));
    ptx_function *scale = need(ptx_module_function(module, "scale"));
    CUstream stream = need(ptx_stream_create(gpu));
    ptx_buffer *buffer = need(ptx_buffer_create(gpu, 8));
    CUdeviceptr data = ptx_buffer_address(buffer);
    for (int mode = PTX_CAPTURE_THREAD_LOCAL; mode <= PTX_CAPTURE_RELAXED; mode++) {
        float value = 1.0f;
        check(ptx_buffer_upload(buffer, 0, &value, 4, stream));
        check(ptx_stream_synchronize(gpu, stream));
        check(ptx_capture_begin(gpu, stream, (enum ptx_capture_mode)mode));
        bool capturing = false;
        check(ptx_stream_is_capturing(gpu, stream, &capturing));
        assert_true(capturing);
        scale_one(scale, data, stream);
        check(ptx_address_range(gpu, data, NULL, NULL));
        work_beside_capture(stream);
        scale_one(scale, data, stream);
        ptx_graph *graph = need(ptx_capture_end(gpu, stream));
        check(ptx_stream_is_capturing(gpu, stream, &capturing));
        assert_false(capturing);
        assert_int_equal(ptx_graph_get_info(graph)->nodes, 2);
        assert_int_equal(ptx_graph_get_info(graph)->kernel_nodes, 2);
        for (int i = 0; i < 3; i++)
            check(ptx_graph_launch(graph, i == 1 ? NULL : stream));
        check(ptx_stream_synchronize(gpu, NULL));
        check(ptx_buffer_download(buffer, 0, &value, 4, stream));
        check(ptx_stream_synchronize(gpu, stream));
        assert_true(value == 729.0f);
        ptx_graph_destroy(&graph);
    }
    ptx_buffer_destroy(&buffer);
    ptx_stream_destroy(gpu, &stream);
    ptx_module_unload(&module);
}

static void kinds_of_nodes(void **state)
{
    (void)state;
    needs_graphs();
    static char host[8] = "abcdefg";
    CUstream stream = need(ptx_stream_create(gpu));
    ptx_buffer *buffer = need(ptx_buffer_create(gpu, 8));
    check(ptx_capture_begin(gpu, stream, PTX_CAPTURE_THREAD_LOCAL));
    check(ptx_buffer_upload(buffer, 0, host, 8, stream));
    check(ptx_buffer_fill(buffer, 2, 'x', 2, stream));
    check(ptx_buffer_copy(buffer, 4, buffer, 2, 2, stream));
    ptx_graph *graph = need(ptx_capture_end(gpu, stream));
    const struct ptx_graph_info *info = ptx_graph_get_info(graph);
    assert_int_equal(info->nodes, 3);
    assert_int_equal(info->memcpy_nodes, 2);
    assert_int_equal(info->memset_nodes, 1);
    assert_int_equal(info->kernel_nodes + info->host_nodes + info->other_nodes, 0);
    char result[8] = "";
    check(ptx_graph_launch(graph, stream));
    check(ptx_buffer_download(buffer, 0, result, 8, stream));
    check(ptx_stream_synchronize(gpu, stream));
    assert_string_equal(result, "abxxxxg");
    ptx_graph_destroy(&graph);
    ptx_buffer_destroy(&buffer);
    ptx_stream_destroy(gpu, &stream);
}

static void captures_that_fail(void **state)
{
    (void)state;
    needs_graphs();
    CUstream stream = need(ptx_stream_create(gpu));
    CUstream other = need(ptx_stream_create(gpu));
    CUevent event = need(ptx_event_create(gpu));
    ptx_buffer *buffer = need(ptx_buffer_create(gpu, 8));
    assert_null(ptx_capture_end(gpu, stream));
    wanted(PTX_ERROR_CAPTURE, "the stream is not being captured");
    assert_int_equal(ptx_capture_begin(gpu, NULL, PTX_CAPTURE_GLOBAL), PTX_ERROR_INVALID);

    // A stream that joins and does not come back.
    check(ptx_capture_begin(gpu, stream, PTX_CAPTURE_THREAD_LOCAL));
    check(ptx_event_record(gpu, event, stream));
    check(ptx_stream_wait_event(gpu, other, event));
    check(ptx_buffer_fill(buffer, 0, 1, 8, other));
    assert_null(ptx_capture_end(gpu, other));
    assert_int_equal(ptx_error_status(), PTX_ERROR_CAPTURE);
    assert_null(ptx_capture_end(gpu, stream));
    assert_int_equal(ptx_error_status(), PTX_ERROR_CAPTURE);

    check(ptx_capture_begin(gpu, stream, PTX_CAPTURE_THREAD_LOCAL));
    check(ptx_buffer_fill(buffer, 0, 2, 8, stream));
    ptx_capture_abandon(gpu, stream);

    // Both are free again.
    char bytes[2] = { 0 };
    check(ptx_buffer_fill(buffer, 0, 3, 1, stream));
    check(ptx_stream_synchronize(gpu, stream));
    check(ptx_buffer_fill(buffer, 1, 4, 1, other));
    check(ptx_stream_synchronize(gpu, other));
    check(ptx_buffer_download(buffer, 0, bytes, 2, stream));
    check(ptx_stream_synchronize(gpu, stream));
    assert_int_equal(bytes[0], 3);
    assert_int_equal(bytes[1], 4);
    ptx_buffer_destroy(&buffer);
    ptx_event_destroy(gpu, &event);
    ptx_stream_destroy(gpu, &other);
    ptx_stream_destroy(gpu, &stream);
}

static void captured_blocking_stream(void **state)
{
    (void)state;
    struct others others;
    find_others(&others);
    CUstream blocking = NULL;
    assert_int_equal(others.push(ptx_device_context(gpu)), 0);
    assert_int_equal(others.create_stream(&blocking, 0), 0);
    check(ptx_capture_begin(gpu, blocking, PTX_CAPTURE_GLOBAL));
    assert_null(ptx_buffer_create(gpu, 4));
    wanted(PTX_ERROR_CAPTURE, "a blocking stream of the context");
    assert_null(ptx_module_load(gpu, text, NULL));
    wanted(PTX_ERROR_CAPTURE, "a blocking stream of the context");
    ptx_capture_abandon(gpu, blocking);
    ptx_stream_destroy(gpu, &blocking);
    CUcontext popped = NULL;
    assert_int_equal(others.pop(&popped), 0);
    assert_ptr_equal(popped, ptx_device_context(gpu));
}

static void range_holds(CUdeviceptr address, size_t bytes)
{
    CUdeviceptr base = 0;
    size_t size = 0;
    check(ptx_address_range(gpu, address + bytes - 1, &base, &size));
    assert_true(base <= address);
    assert_true(base + size >= address + bytes);
}

static void address_ranges(void **state)
{
    (void)state;
    enum { BYTES = 3000000 };
    struct others others;
    find_others(&others);
    CUstream stream = need(ptx_stream_create(gpu));
    ptx_buffer *buffer = need(ptx_buffer_create(gpu, BYTES));
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
    ptx_buffer_destroy(&buffer);
    ptx_stream_destroy(gpu, &stream);
}

static void *work(void *argument)
{
    (void)argument;
    intptr_t failures = 0;
    CUstream stream = ptx_stream_create(gpu);
    for (int i = 0; i < 10; i++) {
        ptx_module *module = ptx_module_load(gpu, text, NULL);
        failures += !scales(ptx_module_function(module, "scale"),
                            (struct ptx_launch_params) { .stream = stream }, 5000);
        ptx_module_unload(&module);
    }
    ptx_stream_destroy(gpu, &stream);
    return (void *)failures;
}

static void many_threads(void **state)
{
    (void)state;
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, NULL), 0);
    for (int i = 0; i < 8; i++) {
        void *failures = NULL;
        pthread_join(threads[i], &failures);
        assert_int_equal((intptr_t)failures, 0);
    }
}

static void each_device(void **state)
{
    (void)state;
    int count = 0;
    check(ptx_device_count(&count));
    for (int i = 0; i < count; i++) {
        ptx_device *device =
            need(ptx_device_open(&(struct ptx_device_params) { .primary = true, .ordinal = i }));
        assert_int_equal(ptx_device_get_info(device)->ordinal, i);
        ptx_buffer *buffer = need(ptx_buffer_create(device, 256));
        check(ptx_buffer_fill(buffer, 0, 1, 256, NULL));
        check(ptx_stream_synchronize(device, NULL));
        ptx_buffer_destroy(&buffer);
        ptx_device_close(&device);
    }
}

int main(void)
{
    gpu = ptx_device_open(NULL);
    if (!gpu) {
        fprintf(stderr, "skipped, no GPU to test on: %s\n", ptx_error_message());
        return ptx_error_status() == PTX_ERROR_NO_DRIVER ||
                       ptx_error_status() == PTX_ERROR_NO_DEVICE
                   ? 77
                   : 1;
    }
    const struct ptx_device_info *info = ptx_device_get_info(gpu);
    printf("%s, sm_%d, driver CUDA %d.%d, %s\n", info->name, info->sm, info->driver_version / 1000,
           info->driver_version % 1000 / 10, info->library_path);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(load_and_launch),
        cmocka_unit_test(ways_to_launch),
        cmocka_unit_test(memory_and_events),
        cmocka_unit_test(bad_text),
        cmocka_unit_test(cached_modules),
        cmocka_unit_test(capture_and_replay),
        cmocka_unit_test(kinds_of_nodes),
        cmocka_unit_test(captures_that_fail),
        cmocka_unit_test(captured_blocking_stream),
        cmocka_unit_test(address_ranges),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(each_device),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    ptx_device_close(&gpu);
    return failures;
}
