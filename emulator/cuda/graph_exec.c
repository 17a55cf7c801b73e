// SPDX-License-Identifier: MIT
// Executable graphs: copies of the work, in an order that the edges allow.
#include "api.h"

#include <stdlib.h>
#include <string.h>

enum { FLAGS = 0xf };

/// The graph's nodes in order, each marked with its place from 1; false if they go round in a
/// circle.
static bool order(CUgraph graph, CUgraphNode *ordered)
{
    size_t count = 0;
    for (CUgraphNode node = graph->first; node; node = node->next)
        node->mark = 0;
    for (size_t before = SIZE_MAX; count != before;) {
        before = count;
        for (CUgraphNode node = graph->first; node; node = node->next) {
            bool ready = node->mark == 0;
            for (size_t i = 0; ready && i < node->after_count; i++)
                ready = node->after[i]->mark != 0;
            if (!ready)
                continue;
            ordered[count++] = node;
            node->mark = count;
        }
    }
    return count == graph->count;
}

static void destroy(CUgraphExec executable)
{
    for (size_t i = 0; executable->works && i < executable->count; i++)
        api_work_clear(&executable->works[i]);
    free(executable->works);
    free(executable->nodes);
    free(executable->before);
    free(executable->before_count);
    free(executable);
}

static CUresult build(CUgraphExec made, CUgraph graph)
{
    size_t edges = 0, edge = 0;
    for (CUgraphNode node = graph->first; node; node = node->next)
        edges += node->after_count;
    made->works = calloc(graph->count + 1, sizeof(*made->works));
    made->nodes = calloc(graph->count + 1, sizeof(CUgraphNode));
    made->before = calloc(edges + 1, sizeof(CUgraphNode));
    made->before_count = calloc(graph->count + 1, sizeof(size_t));
    if (!made->works || !made->nodes || !made->before || !made->before_count)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!order(graph, made->nodes))
        return CUDA_ERROR_INVALID_VALUE;
    for (; made->count < graph->count; made->count++) {
        const struct CUgraphNode_st *node = made->nodes[made->count];
        CUresult result = api_work_copy(&made->works[made->count], &node->work);
        if (result)
            return result;
        made->before_count[made->count] = node->after_count;
        for (size_t i = 0; i < node->after_count; i++)
            made->before[edge++] = node->after[i];
    }
    return CUDA_SUCCESS;
}

CUresult api_graphInstantiateWithFlags(CUgraphExec *executable, CUgraph handle,
                                       unsigned long long flags)
{
    CUgraph graph = API_FIND(handle, API_GRAPH);
    if (!executable || !graph || graph->capturing || flags & ~(unsigned long long)FLAGS)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec made = calloc(1, sizeof(*made));
    CUresult result = made ? build(made, graph) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        if (made)
            destroy(made);
        return result;
    }
    made->flags = flags;
    api_object_add(&made->object, API_EXECUTABLE, (uint64_t)(uintptr_t)made, NULL);
    *executable = made;
    return CUDA_SUCCESS;
}

CUresult api_graphInstantiate(CUgraphExec *executable, CUgraph graph, CUgraphNode *node, char *log,
                              size_t size)
{
    if (node)
        *node = NULL;
    if (log && size)
        log[0] = '\0';
    return api_graphInstantiateWithFlags(executable, graph, 0);
}

CUresult api_graphInstantiateWithParams(CUgraphExec *executable, CUgraph graph,
                                        CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = api_graphInstantiateWithFlags(executable, graph, params->flags);
    params->hErrNode_out = NULL;
    params->result_out = result ? 1 : 0;
    return result;
}

/// For a launch or upload: nothing of a graph may be captured.
static CUresult find(CUgraphExec handle, CUstream stream_handle, CUgraphExec *executable)
{
    CUstream stream = NULL;
    *executable = API_FIND(handle, API_EXECUTABLE);
    if (!*executable)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = api_stream_find(stream_handle, &stream);
    if (!result && stream->capture)
        result = api_capture_fail(stream->capture,
                                  api_refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                                             "the emulator captures no graphs within graphs"));
    return result;
}

CUresult api_graphUpload(CUgraphExec handle, CUstream stream)
{
    CUgraphExec executable = NULL;
    return find(handle, stream, &executable);
}

CUresult api_graphLaunch(CUgraphExec handle, CUstream stream)
{
    CUgraphExec executable = NULL;
    CUresult result = find(handle, stream, &executable);
    return result ? result : api_work_run_all(executable->works, executable->count);
}

CUresult api_graphExecDestroy(CUgraphExec handle)
{
    CUgraphExec executable = API_FIND(handle, API_EXECUTABLE);
    if (!executable)
        return CUDA_ERROR_INVALID_VALUE;
    api_object_remove(&executable->object);
    api_drain();
    destroy(executable);
    return CUDA_SUCCESS;
}

CUresult api_graphExecGetFlags(CUgraphExec handle, cuuint64_t *flags)
{
    CUgraphExec executable = API_FIND(handle, API_EXECUTABLE);
    if (!executable || !flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = executable->flags;
    return CUDA_SUCCESS;
}

static size_t place_of(CUgraphNode node, const CUgraphNode *nodes, size_t count)
{
    size_t i = 0;
    while (i < count && nodes[i] != node)
        i++;
    return i;
}

/// Whether what `now` has is, by places, what the executable graph was made from.
static CUgraphExecUpdateResult compare(const struct CUgraphExec_st *executable,
                                       const struct CUgraphExec_st *now, size_t *where)
{
    const CUgraphNode *old_edge = executable->before, *edge = now->before;
    *where = 0;
    if (now->count != executable->count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < now->count; i++) {
        *where = i;
        if (now->works[i].type != executable->works[i].type)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (now->before_count[i] != executable->before_count[i])
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        for (size_t k = 0; k < now->before_count[i]; k++)
            if (place_of(*edge++, now->nodes, now->count) !=
                place_of(*old_edge++, executable->nodes, executable->count))
                return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUresult update(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    size_t where = 0;
    CUgraphExec now = calloc(1, sizeof(*now));
    CUresult result = now ? build(now, graph) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
        if (now)
            destroy(now);
        return result;
    }
    info->result = compare(executable, now, &where);
    if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        info->errorNode = where < now->count ? now->nodes[where] : NULL;
        destroy(now);
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    for (size_t i = 0; i < now->count; i++)
        now->works[i].disabled = executable->works[i].disabled;
    struct api_work *works = executable->works; // the nodes' handles stay those of the first graph
    executable->works = now->works;
    now->works = works;
    api_drain();
    destroy(now);
    return CUDA_SUCCESS;
}

CUresult api_graphExecUpdate(CUgraphExec handle, CUgraph graph_handle,
                             CUgraphExecUpdateResultInfo *info)
{
    CUgraphExec executable = API_FIND(handle, API_EXECUTABLE);
    CUgraph graph = API_FIND(graph_handle, API_GRAPH);
    if (!executable || !graph || graph->capturing || !info)
        return CUDA_ERROR_INVALID_VALUE;
    *info = (CUgraphExecUpdateResultInfo) { CU_GRAPH_EXEC_UPDATE_SUCCESS, NULL, NULL };
    return update(executable, graph, info);
}

CUresult api_graphExecUpdate1(CUgraphExec executable, CUgraph graph, CUgraphNode *node,
                              CUgraphExecUpdateResult *outcome)
{
    CUgraphExecUpdateResultInfo info = { CU_GRAPH_EXEC_UPDATE_ERROR, NULL, NULL };
    CUresult result = api_graphExecUpdate(executable, graph, &info);
    if (node)
        *node = info.errorNode;
    if (outcome)
        *outcome = info.result;
    return result;
}

struct api_work *api_exec_work(CUgraphExec handle, CUgraphNode node, CUgraphNodeType type)
{
    CUgraphExec executable = API_FIND(handle, API_EXECUTABLE);
    size_t at = executable ? place_of(node, executable->nodes, executable->count) : 0;
    if (!executable || at == executable->count || executable->works[at].type != type)
        return NULL;
    return &executable->works[at];
}

void api_exec_replace(struct api_work *at, const struct api_work *work)
{
    struct api_work old = *at;
    api_engine_enter(); // a launch by another thread may be reading it
    *at = *work;
    at->disabled = old.disabled;
    api_engine_leave();
    api_work_clear(&old);
}

CUresult api_graphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                          const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    struct api_work work, *at = api_exec_work(executable, node, CU_GRAPH_NODE_TYPE_KERNEL);
    CUresult result = at && params ? api_graph_kernel(&work, params) : CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    work.as.kernel.cooperative = at->as.kernel.cooperative;
    api_exec_replace(at, &work);
    return CUDA_SUCCESS;
}

CUresult api_graphExecKernelNodeSetParams1(CUgraphExec executable, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS_v2 wide = { 0 };
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&wide, params, sizeof(*params));
    return api_graphExecKernelNodeSetParams(executable, node, &wide);
}
