// SPDX-License-Identifier: MIT
/// Stream capture: which calls are allowed during a capture. The expected results are those of
/// driver 580 on an H200.
#include "api.h"

#include <pthread.h>

static CUcontext context;
static CUstream captured, other;
static CUevent event, recorded;
static CUdeviceptr data;
static char host[256];
static void *pinned;
static CUmodule module;

static void nothing(void *argument)
{
    (void)argument;
}

static void nothing_on_stream(CUstream stream, CUresult status, void *argument)
{
    (void)stream;
    (void)status;
    (void)argument;
}

/// Makes a call by its number, and discards what it creates.
static CUresult call(int number)
{
    CUdeviceptr address = 0;
    void *memory = NULL, *params[] = { &data, host };
    CUmodule loaded = NULL;
    CUstream stream = NULL;
    CUevent made = NULL;
    CUcontext created = NULL;
    CUgraph graph = NULL;
    size_t size = 0;
    int value = 0;
    float time = 0;
    CUfunction store = emu_function(module, "store");
    switch (number) {
    case 0:
        return cuMemAlloc_v2(&address, 64);
    case 1:
        return cuMemFree_v2(data + 1); // refused before the address is looked at
    case 2:
        return cuMemHostAlloc(&memory, 64, 0);
    case 3:
        return cuMemcpyHtoD_v2(data, host, 64);
    case 4:
        return cuMemsetD8_v2(data, 1, 64);
    case 5:
        return cuModuleLoadData(&loaded, emu_text);
    case 6:
        return cuModuleUnload(loaded);
    case 7:
        return cuStreamCreate(&stream, 0);
    case 8:
        return cuStreamSynchronize(other);
    case 9:
        return cuStreamQuery(other);
    case 10:
        return cuEventCreate(&made, 0);
    case 11:
        return cuEventQuery(recorded);
    case 12:
        return cuEventSynchronize(recorded);
    case 13:
        return cuCtxSynchronize();
    case 14:
        return cuMemGetInfo_v2(&size, &size);
    case 15:
        return cuStreamSynchronize(captured);
    case 16:
        return cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
    case 17:
        return cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, other, params, NULL);
    case 18:
        return cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, captured, params, NULL);
    case 19:
        return cuLaunchKernel(store, 0, 1, 1, 1, 1, 1, 0, captured, params, NULL);
    case 20:
        return cuStreamSynchronize(NULL);
    case 21:
        return cuMemcpyHtoDAsync_v2(data, host, 64, NULL);
    case 22:
        return cuMemcpyHtoDAsync_v2(data, host, 64, captured);
    case 23:
        return cuEventRecord(event, NULL);
    case 24:
        return cuStreamWaitEvent(captured, recorded, 0);
    case 25:
        return cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
    case 26:
        return cuEventElapsedTime(&time, recorded, recorded);
    case 27:
        return cuFuncSetAttribute(store, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1000);
    case 28:
        return cuCtxCreate_v2(&created, 0, 0);
    case 29:
        return cuGraphCreate(&graph, 0);
    case 30:
        return cuMemAllocAsync(&address, 64, other);
    case 31:
        return cuLaunchHostFunc(captured, nothing, NULL);
    case 32:
        return cuStreamAddCallback(captured, nothing_on_stream, NULL, 0);
    case 33:
        return cuStreamWaitEvent(NULL, recorded, 0);
    case 34:
        return cuMemFreeHost(pinned);
    default:
        return cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, store);
    }
}

/// Results during a capture in global mode of a non-blocking stream, of a blocking one, during a
/// relaxed capture, and in a relaxed thread. The capture continues after 0 and after the marked
/// calls.
static const struct {
    int non_blocking, blocking, relaxed, relaxed_thread;
    bool goes_on;
} wanted[] = {
    { 900, 900, 0, 0, false },     // cuMemAlloc
    { 900, 900, 1, 1, false },     // cuMemFree
    { 900, 900, 0, 0, false },     // cuMemHostAlloc
    { 0, 906, 0, 0, false },       // cuMemcpyHtoD
    { 0, 906, 0, 0, false },       // cuMemsetD8
    { 0, 0, 0, 0, false },         // cuModuleLoadData
    { 900, 900, 400, 400, false }, // cuModuleUnload
    { 0, 0, 0, 0, false },         // cuStreamCreate
    { 900, 900, 0, 0, false },     // cuStreamSynchronize, another
    { 900, 900, 0, 0, false },     // cuStreamQuery, another
    { 0, 0, 0, 0, false },         // cuEventCreate
    { 900, 900, 0, 0, false },     // cuEventQuery
    { 900, 900, 0, 0, false },     // cuEventSynchronize
    { 900, 900, 900, 900, false }, // cuCtxSynchronize
    { 0, 0, 0, 0, false },         // cuMemGetInfo
    { 900, 900, 900, 900, false }, // cuStreamSynchronize
    { 0, 906, 0, 0, false },       // cuLaunchKernel, default stream
    { 0, 0, 0, 0, false },         // cuLaunchKernel, another
    { 0, 0, 0, 0, false },         // cuLaunchKernel
    { 1, 1, 1, 1, false },         // cuLaunchKernel, wrong
    { 900, 906, 0, 0, false },     // cuStreamSynchronize, default stream
    { 0, 906, 0, 0, false },       // cuMemcpyHtoDAsync, default stream
    { 0, 0, 0, 0, false },         // cuMemcpyHtoDAsync
    { 0, 906, 0, 0, false },       // cuEventRecord, default stream
    { 905, 905, 905, 905, false }, // cuStreamWaitEvent
    { 401, 401, 401, 401, true },  // cuStreamBeginCapture
    { 0, 0, 0, 0, false },         // cuEventElapsedTime
    { 0, 0, 0, 0, false },         // cuFuncSetAttribute
    { 0, 0, 0, 0, false },         // cuCtxCreate
    { 0, 0, 0, 0, false },         // cuGraphCreate
    { 900, 900, 0, 0, false },     // cuMemAllocAsync, another
    { 0, 0, 0, 0, false },         // cuLaunchHostFunc
    { 900, 900, 900, 900, false }, // cuStreamAddCallback
    { 0, 906, 0, 0, false },       // cuStreamWaitEvent, default stream
    { 900, 900, 0, 0, false },     // cuMemFreeHost
    { 0, 0, 0, 0, false },         // cuFuncGetAttribute
};

static void one_call(int number, unsigned flags, CUstreamCaptureMode mode,
                     CUstreamCaptureMode thread_mode, int result)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraph graph = NULL;
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&captured, flags));
    OK(cuStreamCreate(&other, flags));
    OK(cuEventCreate(&event, 0));
    OK(cuEventCreate(&recorded, 0));
    OK(cuEventRecord(recorded, other));
    OK(cuMemHostAlloc(&pinned, 64, 0));
    OK(cuThreadExchangeStreamCaptureMode(&thread_mode));
    OK(cuStreamBeginCapture_v2(captured, mode));
    if ((int)call(number) != result)
        fail_msg("call %d, flags %u, mode %d: not %d", number, flags, (int)mode, result);
    // A call that fails for another reason than the capture does not end it.
    bool goes_on =
        result == 0 || wanted[number].goes_on || result == 400 || (result == 1 && number == 1);
    OK(cuCtxSetCurrent(context));
    OK(cuStreamIsCapturing(captured, &status));
    assert_int_equal(status, goes_on ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                     : CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    RETURNS(cuStreamEndCapture(captured, &graph), goes_on ? 0 : 901);
    assert_int_equal(graph != NULL, goes_on);
    if (graph)
        OK(cuGraphDestroy(graph));
    OK(cuThreadExchangeStreamCaptureMode(&thread_mode));
    OK(cuStreamDestroy_v2(captured));
    OK(cuStreamDestroy_v2(other));
    cuMemFreeHost(pinned);
}

TEST(calls_during_capture)
{
    const CUstreamCaptureMode global = CU_STREAM_CAPTURE_MODE_GLOBAL,
                              relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    for (int i = 0; i < (int)(sizeof(wanted) / sizeof(wanted[0])); i++) {
        one_call(i, 1, global, global, wanted[i].non_blocking);
        one_call(i, 0, global, global, wanted[i].blocking);
        one_call(i, 1, relaxed, global, wanted[i].relaxed);
        one_call(i, 1, global, relaxed, wanted[i].relaxed_thread);
    }
}

static CUstreamCaptureStatus status_of(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    OK(cuStreamIsCapturing(stream, &status));
    return status;
}

TEST(begin_and_end)
{
    CUgraph graph = NULL;
    CUstreamCaptureStatus status;
    OK(cuStreamCreate(&captured, 1));
    RETURNS(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL), 900);
    RETURNS(cuStreamBeginCapture_v2((CUstream)1, CU_STREAM_CAPTURE_MODE_GLOBAL), 900);
    RETURNS(cuStreamBeginCapture_v2(captured, (CUstreamCaptureMode)7), 1);
    OK(cuStreamBeginCapture_v2((CUstream)2, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamEndCapture((CUstream)2, &graph));
    OK(cuGraphDestroy(graph));
    RETURNS(cuStreamEndCapture(captured, &graph), 401);
    assert_null(graph);
    RETURNS(cuStreamEndCapture(NULL, &graph), 401);
    RETURNS(cuStreamIsCapturing(captured, NULL), 1);
    OK(cuStreamBeginCapture(captured));
    OK(cuStreamEndCapture(captured, NULL));
    CUstream blocking = NULL;
    OK(cuStreamCreate(&blocking, 0));
    OK(cuStreamBeginCapture(blocking));
    RETURNS(cuStreamIsCapturing(NULL, &status), 906);
    RETURNS(cuStreamGetCaptureInfo(NULL, &status, NULL), 906);
    assert_int_equal(status_of(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuStreamDestroy_v2(blocking)); // this ends the capture too
    OK(cuStreamIsCapturing(NULL, &status));
    RETURNS(cuThreadExchangeStreamCaptureMode(NULL), 1);
    OK(cuStreamDestroy_v2(captured));
}

TEST(forks_and_joins)
{
    CUgraph graph = NULL;
    CUevent forked = NULL, joined = NULL;
    cuuint64_t id = 0;
    const CUgraphNode *nodes = NULL;
    size_t count = 9;
    CUstreamCaptureStatus status;
    float time = 0;
    OK(cuStreamCreate(&captured, 1));
    OK(cuStreamCreate(&other, 1));
    OK(cuEventCreate(&forked, 0));
    OK(cuEventCreate(&joined, 0));
    OK(cuStreamBeginCapture(captured));
    OK(cuStreamWaitEvent(captured, joined, 0)); // never recorded
    OK(cuMemsetD8Async(data, 1, 4, captured));
    OK(cuEventRecord(forked, captured));
    OK(cuStreamWaitEvent(other, forked, 0));
    assert_int_equal(status_of(other), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuMemsetD8Async(data, 2, 4, other));
    OK(cuMemsetD8Async(data + 4, 3, 4, captured));
    RETURNS(cuEventElapsedTime(&time, forked, forked), 907);
    OK(cuEventRecord(joined, other));
    OK(cuStreamWaitEvent(captured, joined, 0));
    OK(cuStreamGetCaptureInfo_v3(captured, &status, &id, &graph, &nodes, NULL, &count));
    assert_int_equal(count, 2);
    assert_non_null(graph);
    OK(cuStreamEndCapture(captured, &graph));
    assert_int_equal(status_of(other), CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 3);
    OK(cuGraphGetEdges(graph, NULL, NULL, &count));
    assert_int_equal(count, 2);
    OK(cuGraphDestroy(graph));
    RETURNS(cuEventQuery(forked), 1); // its capture has ended
    RETURNS(cuStreamWaitEvent(captured, forked, 0), 1);

    OK(cuStreamBeginCapture(captured));
    OK(cuEventRecord(forked, captured));
    OK(cuStreamWaitEvent(other, forked, 0));
    OK(cuMemsetD8Async(data, 2, 4, other));
    RETURNS(cuStreamEndCapture(captured, &graph), 904);
    assert_null(graph);

    OK(cuStreamBeginCapture(captured));
    OK(cuEventRecord(forked, captured));
    OK(cuStreamWaitEvent(other, forked, 0));
    RETURNS(cuStreamEndCapture(other, &graph), 903);
    RETURNS(cuStreamEndCapture(captured, &graph), 901);

    OK(cuStreamBeginCapture(captured));
    OK(cuStreamBeginCapture(other));
    OK(cuEventRecord(forked, captured));
    RETURNS(cuStreamWaitEvent(other, forked, 0), 902);
    RETURNS(cuStreamEndCapture(captured, &graph), 901);
    RETURNS(cuStreamEndCapture(other, &graph), 901);

    OK(cuStreamBeginCapture(captured));
    OK(cuEventRecord(forked, captured));
    RETURNS(cuStreamWaitEvent(NULL, forked, 0), 906);
    RETURNS(cuMemsetD8Async(data, 1, 4, captured), 901);
    OK(cuEventRecord(forked, other));
    RETURNS(cuStreamEndCapture(captured, &graph), 901);
    OK(cuEventQuery(forked));
    OK(cuStreamBeginCapture(captured));
    OK(cuEventRecord(forked, captured));
    RETURNS(cuEventQuery(forked), 907);
    RETURNS(cuStreamEndCapture(captured, &graph), 901);
}

/// Of a capture that forks from `captured` to `other` and on to a third stream, which is destroyed.
static void destroy_the_third(bool joins, int expected)
{
    CUgraph graph = NULL;
    CUevent event_of[4];
    CUstream third = NULL;
    size_t count = 0;
    OK(cuStreamCreate(&captured, 1));
    OK(cuStreamCreate(&other, 1));
    OK(cuStreamCreate(&third, 1));
    for (int i = 0; i < 4; i++)
        OK(cuEventCreate(&event_of[i], 0));
    OK(cuStreamBeginCapture(captured));
    OK(cuEventRecord(event_of[0], captured));
    OK(cuStreamWaitEvent(other, event_of[0], 0));
    OK(cuMemsetD8Async(data, 1, 4, other));
    OK(cuEventRecord(event_of[1], other));
    OK(cuStreamWaitEvent(third, event_of[1], 0));
    OK(cuMemsetD8Async(data + 4, 2, 4, third));
    OK(cuEventRecord(event_of[2], third));
    if (joins)
        OK(cuStreamWaitEvent(other, event_of[2], 0));
    OK(cuStreamDestroy_v2(third));
    RETURNS(cuEventRecord(event_of[3], other), expected);
    if (expected == 0) {
        OK(cuStreamWaitEvent(captured, event_of[3], 0));
        OK(cuStreamDestroy_v2(other));
    }
    RETURNS(cuStreamEndCapture(captured, &graph), expected);
    if (expected == 0) {
        OK(cuGraphGetNodes(graph, NULL, &count));
        assert_int_equal(count, 2);
        OK(cuGraphDestroy(graph));
    }
    OK(cuStreamDestroy_v2(captured));
}

TEST(streams_end_during_capture)
{
    destroy_the_third(true, 0); // other goes on from all that it did
    destroy_the_third(false, 901);
}

static void *elsewhere(void *argument)
{
    const int *results = argument;
    CUdeviceptr address = 0;
    CUgraph graph = NULL;
    OK(cuCtxSetCurrent(context));
    RETURNS(cuMemAlloc_v2(&address, 4), results[0]);
    RETURNS(cuStreamEndCapture(captured, &graph), results[1]);
    return NULL;
}

TEST(other_threads)
{
    static const int results[3][2] = { { 900, 901 }, { 0, 908 }, { 0, 0 } };
    for (int mode = 0; mode < 3; mode++) {
        pthread_t thread;
        CUgraph graph = NULL;
        OK(cuStreamCreate(&captured, 1));
        OK(cuStreamBeginCapture_v2(captured, (CUstreamCaptureMode)mode));
        assert_int_equal(pthread_create(&thread, NULL, elsewhere, (void *)results[mode]), 0);
        pthread_join(thread, NULL);
        assert_int_equal(status_of(captured), CU_STREAM_CAPTURE_STATUS_NONE);
        RETURNS(cuStreamEndCapture(captured, &graph), 401);
    }
}

TEST(per_thread_default_stream)
{
    CUgraph graph = NULL;
    size_t count = 0;
    OK(cuStreamBeginCapture_v2_ptsz(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemsetD8Async_ptsz(data, 1, 4, NULL));
    OK(cuStreamEndCapture_ptsz(NULL, &graph));
    OK(cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 1);
    OK(cuGraphDestroy(graph));
    OK(cuMemcpyHtoD_v2_ptds(data, host, 4));
}

int main(void)
{
    context = emu_context();
    module = emu_module();
    OK(cuMemAlloc_v2(&data, 4096));
    return tests_run(NULL, NULL);
}
