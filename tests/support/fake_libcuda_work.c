// SPDX-License-Identifier: MIT
/// Memory, streams and events of the fake libcuda.
#include "fake_libcuda_state.h"

#include <string.h>

struct CUevent_st {
    int time;
};

static atomic_int clock_ticks;

CUresult fake_unsafe_call(void)
{
    if (fake_thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    for (int i = 0; i < FAKE_CAPTURES; i++)
        if (fake_captures[i] && fake_captures[i]->mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
            fake_captures[i]->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return CUDA_SUCCESS;
}

CUresult fake_implicit(CUstream stream, bool spoils)
{
    if ((uintptr_t)stream > CUDA_ABI_STREAM_LEGACY)
        return CUDA_SUCCESS;
    for (int i = 0; i < FAKE_CAPTURES; i++)
        if (fake_captures[i] && fake_captures[i]->blocking &&
            fake_captures[i]->context == fake_current()) {
            if (spoils)
                fake_captures[i]->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    return CUDA_SUCCESS;
}

// ---------------------------------------------------------------------------------------- memory

CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    FAKE_IN_CONTEXT();
    *available = 1000;
    *total = 2000;
    return CUDA_SUCCESS;
}

#ifndef FAKE_WITHOUT_REQUIRED
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    FAKE_IN_CONTEXT();
    const CUresult result = fake_unsafe_call();
    if (result == CUDA_SUCCESS)
        *address = (CUdeviceptr)(uintptr_t)fake_create(bytes);
    return result;
}
#endif

CUresult cuMemFree_v2(CUdeviceptr address)
{
    fake_count();
    fake_unsafe_call();
    fake_destroy((void *)(uintptr_t)address);
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    FAKE_IN_CONTEXT();
    const CUresult result = fake_unsafe_call();
    if (result == CUDA_SUCCESS)
        *memory = fake_create(bytes);
    return result;
}

CUresult cuMemFreeHost(void *memory)
{
    fake_count();
    fake_unsafe_call();
    fake_destroy(memory);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    FAKE_ON_STREAM(stream);
    if (!fake_captured(stream, CU_GRAPH_NODE_TYPE_MEMCPY))
        memcpy((void *)(uintptr_t)to, from, bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    FAKE_ON_STREAM(stream);
    if (!fake_captured(stream, CU_GRAPH_NODE_TYPE_MEMCPY))
        memcpy(to, (void *)(uintptr_t)from, bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    FAKE_ON_STREAM(stream);
    if (!fake_captured(stream, CU_GRAPH_NODE_TYPE_MEMCPY))
        memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    FAKE_ON_STREAM(stream);
    if (!fake_captured(stream, CU_GRAPH_NODE_TYPE_MEMSET))
        memset((void *)(uintptr_t)to, value, bytes);
    return CUDA_SUCCESS;
}

// ------------------------------------------------------------------------------ streams and events

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    FAKE_IN_CONTEXT();
    *stream = fake_create(sizeof(**stream));
    (*stream)->context = fake_current();
    (*stream)->blocking = flags != CU_STREAM_NON_BLOCKING;
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    fake_count();
    fake_destroy(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    (void)stream;
    FAKE_IN_CONTEXT();
    return fake_unsafe_call();
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    FAKE_IN_CONTEXT();
    const CUresult result = fake_implicit(stream, false);
    if (result != CUDA_SUCCESS)
        return result;
    // 1 and 2 are the default streams.
    *status = (uintptr_t)stream > 2 ? stream->status : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)event;
    (void)flags;
    FAKE_ON_STREAM(stream);
    return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    fake_count();
    CUstreamCaptureMode old = fake_thread_mode;
    fake_thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    FAKE_IN_CONTEXT();
    *event = fake_create(sizeof(**event));
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    fake_count();
    fake_destroy(event);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    FAKE_ON_STREAM(stream);
    event->time = atomic_fetch_add(&clock_ticks, 1) + 1;
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event)
{
    (void)event;
    FAKE_IN_CONTEXT();
    return fake_unsafe_call();
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    FAKE_IN_CONTEXT();
    *milliseconds = (float)(end->time - start->time);
    return start->time && end->time ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
