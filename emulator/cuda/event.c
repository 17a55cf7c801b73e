// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L // clock_gettime
#include "api.h"

#include <stdlib.h>
#include <time.h>

enum { EXTERNAL = 1, DISABLE_TIMING = 2, INTERPROCESS = 4, FLAGS = 7 };

static uint64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

CUresult api_eventCreate(CUevent *event, unsigned flags)
{
    if (!event || flags & ~(unsigned)FLAGS || (flags & INTERPROCESS && !(flags & DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    CUevent made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    api_object_add(&made->object, API_EVENT, (uint64_t)(uintptr_t)made, api_current());
    made->flags = flags;
    *event = made;
    return CUDA_SUCCESS;
}

void api_event_free(CUevent event)
{
    api_object_remove(&event->object);
    free(event->nodes);
    free(event);
}

CUresult api_eventDestroy(CUevent handle)
{
    CUevent event = API_FIND(handle, API_EVENT);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    api_event_free(event);
    return CUDA_SUCCESS;
}

void api_event_record(CUevent handle)
{
    pthread_mutex_lock(&api_state.lock);
    CUevent event = API_FIND(handle, API_EVENT);
    if (event) {
        event->recorded = true;
        event->capture = 0;
        event->nanoseconds = nanoseconds();
    }
    pthread_mutex_unlock(&api_state.lock);
}

CUresult api_eventRecord(CUevent handle, CUstream stream_handle)
{
    CUstream stream = NULL;
    CUevent event = API_FIND(handle, API_EVENT);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = api_stream_find(stream_handle, &stream);
    if (!result && event->object.context != stream->context)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result || stream->capture)
        return result ? result : api_capture_record(stream, event);
    api_drain();
    event = API_FIND(handle, API_EVENT);
    if (!event) // destroyed by another thread meanwhile
        return CUDA_ERROR_INVALID_HANDLE;
    event->recorded = true;
    event->capture = 0;
    event->nanoseconds = nanoseconds();
    return CUDA_SUCCESS;
}

CUresult api_eventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned flags)
{
    CUstream stream = NULL;
    if (flags > EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags != EXTERNAL)
        return api_eventRecord(handle, stream_handle);
    CUevent event = API_FIND(handle, API_EVENT);
    CUresult result = event ? api_stream_find(stream_handle, &stream) : CUDA_ERROR_INVALID_HANDLE;
    if (result ||
        !stream->capture) // outside of a capture there is nothing that it could be outside of
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    return api_capture_external(stream, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}

/// For calls that want an event of real time.
static CUresult uncaptured(const struct CUevent_st *event, bool invalidate)
{
    if (event->capture == 0)
        return CUDA_SUCCESS;
    struct api_capture *capture = api_capture_by_id(event->capture);
    if (!capture || capture->invalid)
        return CUDA_ERROR_INVALID_VALUE;
    return invalidate ? api_capture_fail(capture, CUDA_ERROR_CAPTURED_EVENT)
                      : CUDA_ERROR_CAPTURED_EVENT;
}

CUresult api_eventSynchronize(CUevent handle)
{
    CUevent event = API_FIND(handle, API_EVENT);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = uncaptured(event, true);
    return result ? result : api_capture_unsafe();
}

CUresult api_eventQuery(CUevent event)
{
    return api_eventSynchronize(event);
}

CUresult api_eventElapsedTime(float *milliseconds, CUevent start_handle, CUevent end_handle)
{
    CUevent start = API_FIND(start_handle, API_EVENT), end = API_FIND(end_handle, API_EVENT);
    if (!milliseconds || !start || !end)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = uncaptured(start, false);
    if (!result)
        result = uncaptured(end, false);
    if (result)
        return result;
    if (!start->recorded || !end->recorded || (start->flags | end->flags) & DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    *milliseconds = (float)((double)(int64_t)(end->nanoseconds - start->nanoseconds) * 1e-6);
    return CUDA_SUCCESS;
}
