// SPDX-License-Identifier: MIT
// The captures that are under way: who joins, what they forbid, and their end.
#include "capturing.h"

#include "graph.h"

#include <stdlib.h>

CUresult api_capture_fail(struct api_capture *capture, CUresult result)
{
    capture->invalid = true;
    return result;
}

struct api_capture *api_capture_by_id(unsigned long long id)
{
    struct api_capture *capture = api_state.captures;
    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

/// For calls that may disturb a capture: checks the mode of the thread.
CUresult api_capture_unsafe(void)
{
    CUresult result = CUDA_SUCCESS;
    CUstreamCaptureMode mode = api_thread.mode;
    for (struct api_capture *capture = api_state.captures; capture; capture = capture->next) {
        bool own = pthread_equal(capture->thread, pthread_self());
        bool minds = capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
                     (own || (capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                              mode == CU_STREAM_CAPTURE_MODE_GLOBAL));
        if (minds && mode != CU_STREAM_CAPTURE_MODE_RELAXED)
            result = api_capture_fail(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    return result;
}

/// For calls on the legacy default stream, which waits for every blocking stream.
CUresult api_capture_legacy(bool invalidate)
{
    for (struct api_capture *capture = api_state.captures; capture; capture = capture->next)
        for (CUstream stream = capture->members; stream; stream = stream->next_member)
            if (!(stream->flags & CU_STREAM_NON_BLOCKING) && stream->context == api_current()) {
                if (invalidate)
                    capture->invalid = true;
                return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
            }
    return CUDA_SUCCESS;
}

void api_capture_join(struct api_capture *capture, CUstream stream)
{
    stream->capture = capture;
    stream->next_member = capture->members;
    capture->members = stream;
}

void api_capture_end(struct api_capture *capture, CUgraph *graph)
{
    struct api_capture **at = &api_state.captures;
    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
    for (CUstream stream = capture->members, next; stream; stream = next) {
        next = stream->next_member;
        stream->capture = NULL;
        stream->next_member = NULL;
        free(stream->tail);
        stream->tail = NULL;
        stream->tail_count = 0;
    }
    capture->graph->capturing = false;
    if (graph)
        *graph = capture->graph;
    else if (!capture->borrowed)
        api_graph_free(capture->graph);
    free(capture);
}

/// Whether another stream of the capture goes on from all that this one did.
static bool joined(const struct api_capture *capture, const struct CUstream_st *stream)
{
    const struct CUstream_st *other = capture->members;
    while (other &&
           (other == stream || !api_nodes_joined(capture->graph, stream->tail, stream->tail_count,
                                                 other->tail, other->tail_count)))
        other = other->next_member;
    return other != NULL;
}

/// Before a stream is destroyed.
void api_capture_leave(CUstream stream)
{
    struct api_capture *capture = stream->capture;
    if (!capture)
        return;
    if (capture->origin == stream) {
        api_capture_end(capture, NULL);
        return;
    }
    CUstream *at = &capture->members;
    if (!joined(capture, stream))
        capture->invalid = true;
    while (*at != stream)
        at = &(*at)->next_member;
    *at = stream->next_member;
    stream->capture = NULL;
}

CUresult api_capture_record(CUstream stream, CUevent event)
{
    if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!api_nodes_copy(&event->nodes, &event->node_count, stream->tail, stream->tail_count))
        return api_capture_fail(stream->capture, CUDA_ERROR_OUT_OF_MEMORY);
    event->recorded = false;
    event->capture = stream->capture->id;
    return CUDA_SUCCESS;
}

CUresult api_capture_wait(CUstream stream, CUevent event)
{
    struct api_capture *capture = stream->capture;
    if (capture && capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (event->capture == 0) {
        if (!capture || !event->recorded)
            return CUDA_SUCCESS;
        return api_capture_fail(capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    }
    struct api_capture *other = api_capture_by_id(event->capture);
    if (!other || other->invalid)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream == stream->context->legacy)
        return api_capture_fail(other, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (capture && capture != other) {
        capture->invalid = true;
        return api_capture_fail(other, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    if (!capture)
        api_capture_join(other, stream);
    if (!api_nodes_unite(&stream->tail, &stream->tail_count, event->nodes, event->node_count))
        return api_capture_fail(other, CUDA_ERROR_OUT_OF_MEMORY);
    return CUDA_SUCCESS;
}
