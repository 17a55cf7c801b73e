// SPDX-License-Identifier: MIT
// Stream capture: which calls are allowed during a capture, and what its end returns. The results
// are those of driver 580 on an H200, compared call by call.
#include "calls.h"
#include "capturing.h"
#include "graph.h"
#include "stream.h"
#include "trial.h"

#include <stdlib.h>

static CUresult begin(CUstream handle, CUgraph into, CUstreamCaptureMode mode, CUstream *begun)
{
    CUstream stream = NULL;
    if (api_stream_is_legacy(handle))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = api_stream_any(handle, &stream);
    if (result || stream->capture)
        return result ? result : CUDA_ERROR_ILLEGAL_STATE;
    struct api_capture *capture = calloc(1, sizeof(*capture));
    CUgraph graph = !capture ? NULL : into ? into : api_graph_new();
    if (!graph) {
        free(capture);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *capture = (struct api_capture) { .id = api_new_id(),
                                      .mode = mode,
                                      .thread = pthread_self(),
                                      .context = stream->context,
                                      .origin = stream,
                                      .graph = graph,
                                      .borrowed = into != NULL,
                                      .next = api_state.captures };
    graph->capturing = true;
    api_state.captures = capture;
    api_capture_join(capture, stream);
    *begun = stream;
    return CUDA_SUCCESS;
}

CUresult api_streamBeginCapture(CUstream handle, CUstreamCaptureMode mode)
{
    CUstream stream = NULL;
    return begin(handle, NULL, mode, &stream);
}

static bool all_of(CUgraph graph, const CUgraphNode *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        CUgraphNode node = nodes ? API_FIND(nodes[i], API_NODE) : NULL;
        if (!node || node->graph != graph)
            return false;
    }
    return true;
}

CUresult api_streamBeginCaptureToGraph(CUstream handle, CUgraph graph_handle,
                                       const CUgraphNode *after, const CUgraphEdgeData *edges,
                                       size_t count, CUstreamCaptureMode mode)
{
    CUstream stream = NULL;
    CUgraph graph = API_FIND(graph_handle, API_GRAPH);
    (void)edges; // all edges are alike, because each piece of work is done at once
    if (!graph || graph->capturing || !all_of(graph, after, count))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = begin(handle, graph, mode, &stream);
    if (!result && !api_nodes_copy(&stream->tail, &stream->tail_count, after, count)) {
        api_capture_end(stream->capture, NULL);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return result;
}

CUresult api_streamUpdateCaptureDependencies1(CUstream handle, CUgraphNode *nodes, size_t count,
                                              unsigned flags)
{
    enum { ADD, SET };
    CUstream stream = NULL;
    if (flags > SET)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = api_stream_any(handle, &stream);
    if (result || !stream->capture)
        return result ? result : CUDA_ERROR_ILLEGAL_STATE;
    if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!all_of(stream->capture->graph, nodes, count))
        return CUDA_ERROR_INVALID_VALUE;
    bool done = flags == SET ? api_nodes_copy(&stream->tail, &stream->tail_count, nodes, count)
                             : api_nodes_unite(&stream->tail, &stream->tail_count, nodes, count);
    return done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult api_streamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes,
                                             const CUgraphEdgeData *edges, size_t count,
                                             unsigned flags)
{
    (void)edges;
    return api_streamUpdateCaptureDependencies1(stream, nodes, count, flags);
}

CUresult api_streamBeginCapture1(CUstream stream)
{
    return api_streamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static CUresult verdict(const struct api_capture *capture)
{
    bool own = pthread_equal(capture->thread, pthread_self());
    if (capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!own && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    const struct CUstream_st *origin = capture->origin;
    for (CUstream stream = capture->members; stream; stream = stream->next_member)
        if (!api_nodes_joined(capture->graph, stream->tail, stream->tail_count, origin->tail,
                              origin->tail_count))
            return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    return CUDA_SUCCESS;
}

CUresult api_streamEndCapture(CUstream handle, CUgraph *graph)
{
    CUstream stream = NULL;
    CUresult result = api_stream_any(handle, &stream);
    if (graph)
        *graph = NULL;
    if (result || !stream->capture)
        return result ? result : CUDA_ERROR_ILLEGAL_STATE;
    struct api_capture *capture = stream->capture;
    if (capture->origin != stream)
        return api_capture_fail(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    result = verdict(capture);
    if (result == CUDA_SUCCESS)
        result = api_fails_late();
    api_capture_end(capture, result ? NULL : graph);
    return result;
}

static CUresult status_of(CUstream handle, CUstream *stream, CUstreamCaptureStatus *status)
{
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = api_stream_is_legacy(handle) ? api_capture_legacy(false) : CUDA_SUCCESS;
    if (!result)
        result = api_stream_any(handle, stream);
    if (result)
        return result;
    *status = !(*stream)->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
              : (*stream)->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                            : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

CUresult api_streamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    CUstream stream = NULL;
    return status_of(handle, &stream, status);
}

CUresult api_streamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
                                  CUgraph *graph, const CUgraphNode **nodes,
                                  const CUgraphEdgeData **edges, size_t *count)
{
    CUstream stream = NULL;
    CUresult result = status_of(handle, &stream, status);
    if (result || *status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return result;
    if (id)
        *id = stream->capture->id;
    if (graph)
        *graph = stream->capture->graph;
    if (nodes)
        *nodes = stream->tail;
    if (edges)
        *edges = NULL;
    if (count)
        *count = stream->tail_count;
    return CUDA_SUCCESS;
}

CUresult api_streamGetCaptureInfo2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **nodes, size_t *count)
{
    return api_streamGetCaptureInfo(stream, status, id, graph, nodes, NULL, count);
}

CUresult api_streamGetCaptureInfo1(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    return api_streamGetCaptureInfo(stream, status, id, NULL, NULL, NULL, NULL);
}

CUresult api_threadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = api_thread.mode;
    api_thread.mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
