// SPDX-License-Identifier: MIT
// Streams, and what is submitted to them: run at once, or stored in the graph of a capture.
#include "stream.h"

#include "calls.h"
#include "capturing.h"
#include "graph.h"
#include "work.h"

#include <stdlib.h>

static CUstream create(enum api_kind kind, CUcontext context, unsigned flags, int priority)
{
    CUstream made = calloc(1, sizeof(*made));
    if (!made)
        return NULL;
    api_object_add(&made->object, kind, (uint64_t)(uintptr_t)made, context);
    made->context = context;
    made->flags = flags;
    made->priority = priority;
    made->id = api_new_id();
    made->thread = pthread_self();
    return made;
}

void api_stream_free(CUstream stream)
{
    api_capture_leave(stream);
    api_object_remove(&stream->object);
    free(stream->tail);
    free(stream);
}

static CUstream per_thread(CUcontext context)
{
    CUstream stream = context->threads;
    while (stream && !pthread_equal(stream->thread, pthread_self()))
        stream = stream->next;
    if (!stream && (stream = create(API_DEFAULT_STREAM, context, 0, 0))) {
        stream->next = context->threads;
        context->threads = stream;
    }
    return stream;
}

bool api_stream_is_legacy(CUstream handle)
{
    return (uintptr_t)handle == CUDA_ABI_STREAM_LEGACY || (!handle && !api_thread.per_thread);
}

CUresult api_stream_any(CUstream handle, CUstream *stream)
{
    CUcontext context = api_current();
    if ((uintptr_t)handle > CUDA_ABI_STREAM_PER_THREAD) {
        *stream = API_FIND(handle, API_STREAM);
        return *stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    }
    if (api_stream_is_legacy(handle) && !context->legacy)
        context->legacy = create(API_DEFAULT_STREAM, context, 0, 0);
    *stream = api_stream_is_legacy(handle) ? context->legacy : per_thread(context);
    return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult api_stream_find(CUstream handle, CUstream *stream)
{
    CUresult result = api_stream_is_legacy(handle) ? api_capture_legacy(true) : CUDA_SUCCESS;
    return result ? result : api_stream_any(handle, stream);
}

/// For a call that waits for the per-thread default stream: it must not be under capture.
static CUresult idle(void)
{
    CUstream stream = NULL;
    CUresult result = api_stream_any(NULL, &stream);
    if (!result && stream->capture)
        result = api_capture_fail(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return result;
}

CUresult api_require(enum api_needs needs)
{
    if (needs <= API_NEEDS_INIT)
        return CUDA_SUCCESS;
    CUcontext context = api_current();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (needs == API_NEEDS_CURRENT)
        return CUDA_SUCCESS;
    if (!context->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    CUresult error = atomic_load(&api_state.error);
    if (error)
        return error;
    if (needs == API_NEEDS_UNSAFE)
        return api_capture_unsafe();
    if (needs == API_NEEDS_LEGACY)
        return api_thread.per_thread ? idle() : api_capture_legacy(true);
    return CUDA_SUCCESS;
}

CUresult api_submit(CUstream stream, struct api_work *work)
{
    CUresult result = CUDA_SUCCESS;
    struct api_capture *capture = stream->capture;
    if (capture && capture->invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!result)
        result = api_work_check(work);
    if (result || !capture) {
        if (!result)
            result = api_work_run_all(stream->context, work, 1);
        api_work_clear(work);
        return capture ? api_capture_fail(capture, result) : result;
    }
    CUgraphNode node = NULL;
    result = api_graph_add(capture->graph, work, stream->tail, stream->tail_count, &node);
    if (!result && !api_nodes_copy(&stream->tail, &stream->tail_count, &node, 1))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    return result ? api_capture_fail(capture, result) : CUDA_SUCCESS;
}

CUresult api_submit_event(CUstream stream, CUevent event, CUgraphNodeType type)
{
    struct api_work work = { .type = type };
    work.as.event = event;
    return api_submit(stream, &work);
}

CUresult api_streamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    if (!stream || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    priority = priority > 0                       ? 0
               : priority < API_GREATEST_PRIORITY ? API_GREATEST_PRIORITY
                                                  : priority;
    CUstream made = create(API_STREAM, api_current(), flags, priority);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *stream = made;
    return CUDA_SUCCESS;
}

CUresult api_streamCreate(CUstream *stream, unsigned flags)
{
    return api_streamCreateWithPriority(stream, flags, 0);
}

CUresult api_streamDestroy(CUstream handle)
{
    CUstream stream =
        (uintptr_t)handle > CUDA_ABI_STREAM_PER_THREAD ? API_FIND(handle, API_STREAM) : NULL;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    api_stream_free(stream);
    return CUDA_SUCCESS;
}

CUresult api_streamGetPriority(CUstream handle, int *priority)
{
    CUstream stream = NULL;
    CUresult result = priority ? api_stream_any(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *priority = stream->priority;
    return result;
}

CUresult api_streamGetFlags(CUstream handle, unsigned *flags)
{
    CUstream stream = NULL;
    CUresult result = flags ? api_stream_any(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *flags = stream->flags;
    return result;
}

CUresult api_streamGetId(CUstream handle, unsigned long long *id)
{
    CUstream stream = NULL;
    CUresult result = id ? api_stream_any(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *id = stream->id;
    return result;
}

CUresult api_streamGetCtx(CUstream handle, CUcontext *context)
{
    CUstream stream = NULL;
    CUresult result = context ? api_stream_any(handle, &stream) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *context = stream->context;
    return result;
}

CUresult api_streamSynchronize(CUstream handle)
{
    CUstream stream = NULL;
    CUresult result = api_stream_find(handle, &stream);
    if (!result && stream->capture)
        result = api_capture_fail(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (!result)
        result = api_capture_unsafe();
    if (result)
        return result;
    api_drain();
    return atomic_load(&api_state.error);
}

CUresult api_streamQuery(CUstream handle)
{
    return api_streamSynchronize(handle);
}

static CUresult call_host(CUstream handle, CUhostFn function, CUstreamCallback callback, void *data)
{
    CUstream stream = NULL;
    CUresult result = api_stream_find(handle, &stream);
    if (result || (!function && !callback))
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    if (callback && stream->capture)
        return api_capture_fail(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    struct api_work work = { .type = CU_GRAPH_NODE_TYPE_HOST };
    work.as.host.function = function;
    work.as.host.callback = callback;
    work.as.host.stream = handle;
    work.as.host.data = data;
    return api_submit(stream, &work);
}

CUresult api_launchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    return call_host(stream, function, NULL, data);
}

CUresult api_streamAddCallback(CUstream stream, CUstreamCallback function, void *data,
                               unsigned flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : call_host(stream, NULL, function, data);
}
