// SPDX-License-Identifier: MIT
#include "internal.h"

#include <stdlib.h>

struct ptx_graph {
    ptx_device *device;
    CUgraphExec handle;
    struct ptx_graph_info info;
};

static ptx_status refuse_legacy(CUstream stream, const char *function)
{
    if (!ptxd_is_legacy(stream))
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID,
                     "%s: the legacy default stream cannot be captured: use one from "
                     "ptx_stream_create(), or the per-thread default stream",
                     function);
}

ptx_status ptx_capture_begin(ptx_device *device, CUstream stream, enum ptx_capture_mode mode)
{
    static const CUstreamCaptureMode modes[] = {
        [PTX_CAPTURE_THREAD_LOCAL] = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        [PTX_CAPTURE_GLOBAL] = CU_STREAM_CAPTURE_MODE_GLOBAL,
        [PTX_CAPTURE_RELAXED] = CU_STREAM_CAPTURE_MODE_RELAXED,
    };
    if ((unsigned)mode >= sizeof(modes) / sizeof(modes[0]))
        return ptxd_fail(PTX_ERROR_INVALID, "ptx_capture_begin: there is no mode %d", (int)mode);
    ptx_status status = refuse_legacy(stream, "ptx_capture_begin");
    if (status)
        return status;
    struct ptxd_scope scope;
    status = ptxd_enter(&scope, device, __func__);
    if (status)
        return status;
    status =
        PTXD_CALL(scope.library, "begin a capture", cuStreamBeginCapture_v2, stream, modes[mode]);
    bool begun = !status;
    if (ptx_error_code() == CUDA_ERROR_ILLEGAL_STATE && status)
        ptxd_explain("\nthe stream is being captured already: end that capture first");
    status = ptxd_leave(&scope, status);
    if (status && begun)
        ptx_capture_abandon(device, stream);
    return ptxd_named(status, __func__);
}

void ptx_capture_abandon(ptx_device *device, CUstream stream)
{
    struct ptxd_scope scope;
    CUgraph captured = NULL;
    if (!device || !stream || !ptxd_enter_release(&scope, device))
        return;
    scope.library->cuStreamEndCapture(stream, &captured);
    if (captured)
        scope.library->cuGraphDestroy(captured);
    ptxd_leave_release(&scope);
}

static void count_node(struct ptx_graph_info *info, CUgraphNodeType type)
{
    info->nodes++;
    switch ((int)type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        info->kernel_nodes++;
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        info->memcpy_nodes++;
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        info->memset_nodes++;
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        info->host_nodes++;
        break;
    default:
        info->other_nodes++;
    }
}

static ptx_status count_nodes(const struct ptxd_library *library, CUgraph captured,
                              struct ptx_graph_info *info)
{
    size_t count = 0;
    ptx_status status =
        PTXD_CALL(library, "count the nodes of a graph", cuGraphGetNodes, captured, NULL, &count);
    if (status)
        return status;
    CUgraphNode *nodes = calloc(count + 1, sizeof(CUgraphNode));
    if (!nodes)
        return ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory while making a graph");
    if (count)
        status = PTXD_CALL(library, "list the nodes of a graph", cuGraphGetNodes, captured, nodes,
                           &count);
    for (size_t i = 0; i < count && !status; i++) {
        CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
        status = PTXD_CALL(library, "ask what a node of a graph is", cuGraphNodeGetType, nodes[i],
                           &type);
        count_node(info, type);
    }
    free(nodes);
    return status;
}

/// Uploads the graph now, so that the first launch does not have to.
static ptx_status instantiate(ptx_graph *graph, const struct ptxd_library *library,
                              CUgraph captured, CUstream stream)
{
    if (!library->cuGraphInstantiateWithFlags)
        return ptxd_fail(PTX_ERROR_UNSUPPORTED,
                         "making a graph needs cuGraphInstantiateWithFlags, which %s lacks: "
                         "update the driver to 470 (CUDA 11.4) or newer",
                         library->path);
    ptx_status status = PTXD_CALL(library, "make the captured work ready to launch",
                                  cuGraphInstantiateWithFlags, &graph->handle, captured, 0);
    if (!status && library->cuGraphUpload)
        status = PTXD_CALL(library, "upload the graph", cuGraphUpload, graph->handle, stream);
    return status;
}

static ptx_status end(ptx_graph *graph, const struct ptxd_library *library, CUstream stream)
{
    CUgraph captured = NULL;
    ptx_status status =
        PTXD_CALL(library, "end the capture", cuStreamEndCapture, stream, &captured);
    if (status && ptx_error_code() == CUDA_ERROR_ILLEGAL_STATE)
        ptxd_explain("\nthe stream is not being captured: ptx_capture_begin() begins it");
    if (!status)
        status = count_nodes(library, captured, &graph->info);
    if (!status)
        status = instantiate(graph, library, captured, stream);
    CUresult result = captured ? library->cuGraphDestroy(captured) : CUDA_SUCCESS;
    return status ? status : ptxd_check(library, result, "cuGraphDestroy", "end the capture");
}

ptx_graph *ptx_capture_end(ptx_device *device, CUstream stream)
{
    if (refuse_legacy(stream, __func__) || ptxd_named(ptxd_usable(device), __func__))
        return NULL;
    struct ptxd_scope scope;
    ptx_graph *graph = calloc(1, sizeof(*graph));
    ptx_status status = PTX_OK;
    if (!graph)
        status = ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory while making a graph");
    else
        status = ptxd_enter_cold(&scope, device, __func__);
    if (status) {
        free(graph);
        ptx_capture_abandon(device, stream);
        return NULL;
    }
    ptxd_device_retain(device);
    graph->device = device;
    status = end(graph, scope.library, stream);
    if (ptxd_named(ptxd_leave(&scope, status), __func__))
        ptx_graph_destroy(&graph);
    return graph;
}

ptx_status ptx_graph_launch(const ptx_graph *graph, CUstream stream)
{
    if (!graph)
        return ptxd_fail(PTX_ERROR_INVALID, "ptx_graph_launch: the graph is NULL: see what "
                                            "ptx_capture_end() said, or it was destroyed");
    struct ptxd_scope scope;
    const char *purpose = "launch the graph";
    ptx_status status = ptxd_enter_stream(&scope, graph->device, stream, __func__, purpose);
    if (status)
        return status;
    status = PTXD_CALL(scope.library, purpose, cuGraphLaunch, graph->handle, stream);
    return ptxd_leave(&scope, status);
}

const struct ptx_graph_info *ptx_graph_get_info(const ptx_graph *graph)
{
    return graph ? &graph->info : NULL;
}

void ptx_graph_destroy(ptx_graph **graph)
{
    if (!graph || !*graph)
        return;
    ptx_graph *old = *graph;
    *graph = NULL;
    struct ptxd_scope scope;
    if (old->handle && ptxd_enter_release(&scope, old->device)) {
        scope.library->cuGraphExecDestroy(old->handle);
        ptxd_leave_release(&scope);
    }
    ptxd_device_release(old->device);
    free(old);
}
