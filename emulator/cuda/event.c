// SPDX-License-Identifier: MIT
// Events: recorded, waited for, measured.
#include "event.h"

#include "calls.h"
#include "capturing.h"
#include "stream.h"
#include "work.h"

#include <stdlib.h>

enum { EXTERNAL = 1, DISABLE_TIMING = 2, INTERPROCESS = 4, FLAGS = 7 };

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
    if (!event) // another thread has destroyed it
        return CUDA_ERROR_INVALID_HANDLE;
    api_event_stamp(event);
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
    if (result || !stream->capture) // the flag matters only during a capture
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    return api_submit_event(stream, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}

/// For calls that need an event with a real time.
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

CUresult api_streamWaitEvent(CUstream handle, CUevent handle_of_event, unsigned flags)
{
    CUstream stream = NULL;
    CUevent event = API_FIND(handle_of_event, API_EVENT);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = api_stream_find(handle, &stream);
    if (!result && flags && stream->capture)
        return api_submit_event(stream, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    return result ? result : api_capture_wait(stream, event);
}
