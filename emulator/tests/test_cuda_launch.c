// SPDX-License-Identifier: MIT
/// The emulator as a driver: valid and invalid launches, streams, events, callbacks.
#include "api.h"

#include <pthread.h>

static CUmodule module;
static CUdeviceptr data;

static CUresult launch(const char *name, unsigned grid, unsigned block, unsigned shared,
                       void **params)
{
    return cuLaunchKernel(emu_function(module, name), grid, 1, 1, block, 1, 1, shared, NULL, params,
                          NULL);
}

TEST(results)
{
    uint32_t n = 1000, value = 5, numbers[1000];
    void *params[] = { &data, &n, &value };
    OK(cuMemsetD32_v2(data, 3, 1000));
    OK(launch("add", 8, 128, 0, params));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemcpyDtoH_v2(numbers, data, sizeof(numbers)));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(numbers[i], 8);
}

TEST(geometry)
{
    uint32_t value = 1;
    void *params[] = { &data, &value };
    CUfunction store = emu_function(module, "store"), shape = emu_function(module, "shape");
    OK(launch("store", 1, 1, 0, params));
    RETURNS(launch("store", 0, 1, 0, params), CUDA_ERROR_INVALID_VALUE);
    RETURNS(launch("store", 1, 0, 0, params), CUDA_ERROR_INVALID_VALUE);
    RETURNS(launch("store", 1, 1025, 0, params), CUDA_ERROR_INVALID_VALUE);
    OK(launch("store", 1, 1, 49152, params));
    RETURNS(launch("store", 1, 1, 49153, params), CUDA_ERROR_INVALID_VALUE);
    RETURNS(launch("shared", 1, 1, 49152, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(launch("shared", 1, 1, 48128, NULL));
    RETURNS(cuLaunchKernel(store, 1, 65536, 1, 1, 1, 1, 0, NULL, params, NULL),
            CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuLaunchKernel(store, 1, 1, 1, 1024, 2, 1, 0, NULL, params, NULL),
            CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuLaunchKernel(store, 1, 1, 1, 1, 1, 65, 0, NULL, params, NULL),
            CUDA_ERROR_INVALID_VALUE);
    char bytes[64] = { 0 };
    void *four[] = { bytes, bytes, bytes, bytes };
    OK(cuLaunchKernel(shape, 1, 1, 1, 32, 2, 1, 0, NULL, four, NULL));
    RETURNS(cuLaunchKernel(shape, 1, 1, 1, 64, 1, 1, 0, NULL, four, NULL),
            CUDA_ERROR_INVALID_VALUE);
    OK(launch("small", 1, 64, 0, NULL));
    RETURNS(launch("small", 1, 65, 0, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(arguments)
{
    uint32_t value = 6;
    void *params[] = { &data, &value }, *missing[] = { &data, NULL };
    CUfunction store = emu_function(module, "store");
    struct {
        CUdeviceptr address;
        uint32_t value;
        uint32_t more[4];
    } packed = { data, 21, { 0 } };
    size_t size = 12;
    void *extra[] = { (void *)1, &packed, (void *)2, &size, NULL };
    RETURNS(launch("store", 1, 1, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    RETURNS(launch("store", 1, 1, 0, missing), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
            CUDA_ERROR_INVALID_HANDLE);
    RETURNS(cuLaunchKernel((CUfunction)&packed, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
            CUDA_ERROR_INVALID_HANDLE);
    RETURNS(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, (CUstream)&packed, params, NULL),
            CUDA_ERROR_INVALID_HANDLE);
    OK(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    assert_int_equal(emu_read(data), 21);
    RETURNS(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra),
            CUDA_ERROR_INVALID_VALUE);
    size = 20;
    RETURNS(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
            CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    extra[0] = (void *)7;
    RETURNS(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
            CUDA_ERROR_INVALID_VALUE);
}

/// Kernels that say they run in clusters of one block; each writes a word of its own.
static const char cluster_text[] =
    ".version 7.8\n.target sm_90\n.address_size 64\n"
    ".visible .entry one(.param .u64 p) .explicitcluster .reqnctapercluster 1, 1, 1\n{\n"
    "    .reg .b32 %r<4>; .reg .b64 %d<2>; .shared .b32 s;\n"
    "    ld.param.u64 %d1, [p];\n"
    "    mov.u32 %r3, %ctaid.x;\n"
    "    mad.wide.u32 %d1, %r3, 4, %d1;\n"
    "    mapa.shared::cluster.u32 %r1, s, 0;\n"
    "    st.shared::cluster.u32 [%r1], 42;\n"
    "    ld.shared.u32 %r2, [s];\n"
    "    st.global.u32 [%d1], %r2;\n"
    "    ret;\n}\n";

TEST(clusters_of_one_block)
{
    CUmodule loaded = NULL;
    CUdeviceptr p = 0;
    CUlaunchAttribute attribute = { .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION };
    CUlaunchConfig config = { EMU_ONE_THREAD, .attrs = &attribute, .numAttrs = 1 };
    void *arguments[] = { &p };
    config.gridDimX = 2;
    OK(cuModuleLoadData(&loaded, cluster_text));
    OK(cuMemAlloc_v2(&p, 8));
    CUfunction one = emu_function(loaded, "one");
    attribute.value.clusterDim.x = attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
    OK(cuLaunchKernelEx(&config, one, arguments, NULL));
    assert_int_equal(emu_read(p), 42);
    assert_int_equal(emu_read(p + 4), 42);
    attribute.value.clusterDim.x = 2;
    RETURNS(cuLaunchKernelEx(&config, one, arguments, NULL), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuMemFree_v2(p));
    OK(cuModuleUnload(loaded));
}

/// ptxas takes more threads than a block can have, and a launch meets its own limits.
TEST(sizes_beyond_a_block)
{
    static const char text[] =
        EMU_TEXT_HEAD ".visible .entry most() .maxntid 65536, 65536, 4 { ret; }\n"
                      ".visible .entry exact() .reqntid 64, 32 { ret; }\n";
    CUmodule loaded = NULL;
    int threads = 0;
    OK(cuModuleLoadData(&loaded, text));
    CUfunction most = emu_function(loaded, "most"), exact = emu_function(loaded, "exact");
    OK(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, most));
    assert_int_equal(threads, 1024);
    OK(cuLaunchKernel(most, 1, 1, 1, 1024, 1, 1, 0, NULL, NULL, NULL));
    RETURNS(cuLaunchKernel(most, 1, 1, 1, 1024, 2, 1, 0, NULL, NULL, NULL),
            CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuLaunchKernel(exact, 1, 1, 1, 64, 32, 1, 0, NULL, NULL, NULL),
            CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuLaunchKernel(exact, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL),
            CUDA_ERROR_INVALID_VALUE);
    OK(cuModuleUnload(loaded));
}

TEST(cooperative_and_clusters)
{
    CUfunction small = emu_function(module, "small");
    CUlaunchAttribute attribute = { .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION };
    CUlaunchConfig config = { .gridDimX = 8,
                              .gridDimY = 1,
                              .gridDimZ = 1,
                              .blockDimX = 32,
                              .blockDimY = 1,
                              .blockDimZ = 1,
                              .attrs = &attribute,
                              .numAttrs = 1 };
    OK(cuLaunchCooperativeKernel(small, 132, 1, 1, 64, 1, 1, 0, NULL, NULL));
    RETURNS(cuLaunchCooperativeKernel(small, 10000000, 1, 1, 64, 1, 1, 0, NULL, NULL),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    static const struct {
        unsigned x;
        int result;
    } clusters[] = { { 2, 0 }, { 8, 0 }, { 3, 912 }, { 0, 912 }, { 16, 912 } };
    for (size_t i = 0; i < sizeof(clusters) / sizeof(clusters[0]); i++) {
        attribute.value.clusterDim.x = clusters[i].x;
        attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
        RETURNS(cuLaunchKernelEx(&config, small, NULL, NULL), clusters[i].result);
    }
    attribute.id = 99;
    RETURNS(cuLaunchKernelEx(&config, small, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    attribute.id = 6; // programmatic stream serialisation
    OK(cuLaunchKernelEx(&config, small, NULL, NULL));
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
    OK(cuLaunchKernelEx(&config, small, NULL, NULL));
    config.gridDimX = 1000000;
    RETURNS(cuLaunchKernelEx(&config, small, NULL, NULL), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    config.attrs = NULL;
    RETURNS(cuLaunchKernelEx(&config, small, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuLaunchKernelEx(NULL, small, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(streams)
{
    CUstream stream = NULL, other = NULL;
    CUcontext context = NULL, current = NULL;
    unsigned flags = 9;
    int priority = 9;
    RETURNS(cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuStreamCreate(&stream, 8), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamCreate(&stream, 1));
    OK(cuStreamCreateWithPriority(&other, 0, -100));
    OK(cuStreamGetPriority(other, &priority));
    assert_int_equal(priority, -5);
    OK(cuStreamGetFlags(stream, &flags));
    assert_int_equal(flags, 1);
    OK(cuStreamGetFlags(NULL, &flags));
    assert_int_equal(flags, 0);
    OK(cuStreamGetCtx(stream, &context));
    OK(cuCtxGetCurrent(&current));
    assert_ptr_equal(context, current);
    OK(cuStreamQuery(stream));
    OK(cuStreamSynchronize((CUstream)1));
    OK(cuStreamSynchronize((CUstream)2));
    OK(cuStreamDestroy_v2(other));
    OK(cuStreamDestroy_v2(stream));
    RETURNS(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
    RETURNS(cuStreamDestroy_v2(stream), CUDA_ERROR_INVALID_HANDLE);
    RETURNS(cuStreamDestroy_v2(NULL), CUDA_ERROR_INVALID_HANDLE);
    RETURNS(cuStreamDestroy_v2((CUstream)2), CUDA_ERROR_INVALID_HANDLE);
}

TEST(events)
{
    CUevent start = NULL, end = NULL, untimed = NULL;
    float milliseconds = -1;
    RETURNS(cuEventCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuEventCreate(&start, 0x100), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuEventCreate(&start, 4), CUDA_ERROR_INVALID_VALUE);
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&end, 0));
    OK(cuEventCreate(&untimed, 2));
    OK(cuEventQuery(start));
    RETURNS(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventRecord(start, NULL));
    uint32_t n = 100000, value = 1;
    void *params[] = { &data, &n, &value };
    n = 1000;
    OK(launch("add", 8, 128, 0, params));
    OK(cuEventRecord(end, NULL));
    OK(cuEventSynchronize(end));
    OK(cuEventElapsedTime(&milliseconds, start, end));
    assert_true(milliseconds > 0);
    OK(cuEventElapsedTime_v2(&milliseconds, end, start));
    assert_true(milliseconds < 0);
    OK(cuEventRecord(untimed, NULL));
    RETURNS(cuEventElapsedTime(&milliseconds, start, untimed), CUDA_ERROR_INVALID_HANDLE);
    RETURNS(cuEventElapsedTime(&milliseconds, NULL, end), CUDA_ERROR_INVALID_HANDLE);
    RETURNS(cuEventRecord(NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
    OK(cuStreamWaitEvent(NULL, start, 0));
    RETURNS(cuStreamWaitEvent(NULL, start, 5), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuStreamWaitEvent(NULL, NULL, 0), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy_v2(start));
    OK(cuEventDestroy_v2(end));
    OK(cuEventDestroy_v2(untimed));
    RETURNS(cuEventQuery(start), CUDA_ERROR_INVALID_HANDLE);
    RETURNS(cuEventDestroy_v2(NULL), CUDA_ERROR_INVALID_HANDLE);
}

struct calls {
    int count;
    CUresult inside;
    CUstream stream;
};

static void on_host(void *argument)
{
    struct calls *calls = argument;
    CUdeviceptr address = 0;
    calls->count++;
    calls->inside = cuMemAlloc_v2(&address, 4);
}

static void on_stream(CUstream stream, CUresult status, void *argument)
{
    struct calls *calls = argument;
    calls->count += 10;
    calls->inside = status;
    calls->stream = stream;
}

TEST(host_functions)
{
    struct calls calls = { 0 };
    OK(cuLaunchHostFunc(NULL, on_host, &calls));
    OK(cuCtxSynchronize());
    assert_int_equal(calls.count, 1);
    assert_int_equal(calls.inside, CUDA_ERROR_NOT_PERMITTED);
    OK(cuStreamAddCallback((CUstream)2, on_stream, &calls, 0));
    OK(cuStreamSynchronize((CUstream)2));
    assert_int_equal(calls.count, 11);
    assert_int_equal(calls.inside, CUDA_SUCCESS);
    assert_ptr_equal(calls.stream, (CUstream)2);
    RETURNS(cuLaunchHostFunc(NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuStreamAddCallback(NULL, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

static void *work(void *argument)
{
    intptr_t failures = 0;
    uint32_t n = 1000, one = 1, *numbers = malloc(4000);
    CUdeviceptr own = 0;
    CUstream stream = NULL;
    failures += cuCtxSetCurrent(argument) != CUDA_SUCCESS;
    for (int i = 0; i < 20; i++) {
        failures += cuStreamCreate(&stream, 1) != CUDA_SUCCESS;
        failures += cuMemAlloc_v2(&own, 4000) != CUDA_SUCCESS;
        failures += cuMemsetD32Async(own, 1, 1000, stream) != CUDA_SUCCESS;
        CUmodule loaded = emu_module();
        void *params[] = { &own, &n, &one };
        failures += cuLaunchKernel(emu_function(loaded, "add"), 8, 1, 1, 128, 1, 1, 0, stream,
                                   params, NULL) != CUDA_SUCCESS;
        failures += cuMemcpyDtoHAsync_v2(numbers, own, 4000, stream) != CUDA_SUCCESS;
        failures += cuStreamSynchronize(stream) != CUDA_SUCCESS;
        for (int k = 0; k < 1000; k++)
            failures += numbers[k] != 2;
        failures += cuModuleUnload(loaded) != CUDA_SUCCESS;
        failures += cuMemFree_v2(own) != CUDA_SUCCESS;
        failures += cuStreamDestroy_v2(stream) != CUDA_SUCCESS;
    }
    free(numbers);
    return (void *)failures;
}

TEST(many_threads)
{
    pthread_t threads[6];
    CUcontext context = NULL;
    OK(cuCtxGetCurrent(&context));
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, context), 0);
    for (int i = 0; i < 6; i++) {
        void *failures = NULL;
        pthread_join(threads[i], &failures);
        assert_int_equal((intptr_t)failures, 0);
    }
}

// A dependent kernel reads what its primary writes: before griddepcontrol.wait it is reported.
TEST(dependent_launches)
{
    static const char text[] =
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".visible .entry first(.param .u64 p)\n{\n.reg .b64 %d;\nld.param.u64 %d, [p];\n"
        "griddepcontrol.launch_dependents;\nst.global.u32 [%d], 5;\nret;\n}\n"
        ".visible .entry alone(.param .u64 p)\n{\n.reg .b64 %d;\nld.param.u64 %d, [p];\n"
        "st.global.u32 [%d], 5;\nret;\n}\n"
        ".visible .entry late(.param .u64 p)\n{\n.reg .b64 %d; .reg .b32 %r;\n"
        "ld.param.u64 %d, [p];\nld.global.u32 %r, [%d+8];\ngriddepcontrol.wait;\n"
        "ld.global.u32 %r, [%d];\nst.global.u32 [%d+4], %r;\nret;\n}\n"
        ".visible .entry early(.param .u64 p)\n{\n.reg .b64 %d; .reg .b32 %r;\n"
        "ld.param.u64 %d, [p];\nld.global.u32 %r, [%d];\ngriddepcontrol.wait;\n"
        "st.global.u32 [%d+4], %r;\nret;\n}\n";
    static const struct {
        const char *first, *second;
        bool allowed, between, reported;
    } rows[] = { { "first", "late", true, false, false },
                 { "first", "early", false, false, false },
                 { "first", "early", true, true, false },
                 { "alone", "early", true, false, false },
                 { "first", "early", true, false, true } };
    CUmodule pair = NULL;
    CUdeviceptr at = 0;
    OK(cuModuleLoadData(&pair, text));
    OK(cuMemAlloc_v2(&at, 16));
    void *params[] = { &at };
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        CUfunction first = NULL, second = NULL;
        CUlaunchAttribute attribute = { .id =
                                            CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION };
        attribute.value.programmaticStreamSerializationAllowed = rows[k].allowed;
        const CUlaunchConfig config = { .gridDimX = 1,
                                        .gridDimY = 1,
                                        .gridDimZ = 1,
                                        .blockDimX = 32,
                                        .blockDimY = 1,
                                        .blockDimZ = 1,
                                        .attrs = &attribute,
                                        .numAttrs = 1 };
        OK(cuMemsetD32_v2(at, 0, 4));
        OK(cuModuleGetFunction(&first, pair, rows[k].first));
        OK(cuModuleGetFunction(&second, pair, rows[k].second));
        OK(cuLaunchKernel(first, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
        if (rows[k].between)
            OK(cuMemsetD32_v2(at + 12, 1, 1));
        OK(cuLaunchKernelEx(&config, second, params, NULL));
        RETURNS(cuCtxSynchronize(), rows[k].reported ? CUDA_ERROR_LAUNCH_FAILED : 0);
    }
    const char *told = NULL;
    OK(cuGetErrorString(CUDA_ERROR_LAUNCH_FAILED, &told));
    if (!strstr(told,
                "is of bytes that the primary kernel first writes, before griddepcontrol.wait"))
        fail_msg("%s", told);
}

int main(void)
{
    emu_context();
    module = emu_module();
    OK(cuMemAlloc_v2(&data, 4096));
    return tests_run(NULL, NULL);
}
