// SPDX-License-Identifier: MIT
// Executable graphs: copies of the work, in an order that the edges allow. What nodes do: added,
// read and changed in a graph, and changed in an executable one.
#include "calls.h"
#include "capturing.h"
#include "copy.h"
#include "function.h"
#include "graph.h"
#include "launch.h"
#include "stream.h"
#include "user_object.h"
#include "work.h"

#include <stdlib.h>
#include <string.h>

enum { FLAGS = 0xf };

/// The nodes of the graph in order, each marked with its index from 1; false if they form a cycle.
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
    struct api_held *held = executable->held;
    free(executable);
    api_held_drop(&held);
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
    if (!made->works || !made->nodes || !made->before || !made->before_count ||
        !api_held_copy(&made->held, graph->held))
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

/// For a launch or upload, which cannot be captured.
static CUresult find(CUgraphExec handle, CUstream stream_handle, CUgraphExec *executable,
                     CUcontext *context)
{
    CUstream stream = NULL;
    *executable = API_FIND(handle, API_EXECUTABLE);
    if (!*executable)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = api_stream_find(stream_handle, &stream);
    if (!result && stream->capture)
        result = api_capture_fail(stream->capture,
                                  api_refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                                             "the emulator cannot capture the launch of a graph"));
    if (!result)
        *context = stream->context;
    return result;
}

CUresult api_graphUpload(CUgraphExec handle, CUstream stream)
{
    CUgraphExec executable = NULL;
    CUcontext context = NULL;
    return find(handle, stream, &executable, &context);
}

CUresult api_graphLaunch(CUgraphExec handle, CUstream stream)
{
    CUgraphExec executable = NULL;
    CUcontext context = NULL;
    CUresult result = find(handle, stream, &executable, &context);
    return result ? result : api_work_run_all(context, executable->works, executable->count);
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

/// Whether `now` has the same structure, by index, as the graph from which the executable one was
/// made.
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
    struct api_work *works = executable->works; // the node handles remain those of the first graph
    executable->works = now->works;
    now->works = works;
    struct api_held *held = executable->held;
    executable->held = now->held;
    now->held = held;
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

// ----------------------------------------------------------------------------- parameters of nodes

static CUresult make_kernel(struct api_work *work, const void *from)
{
    const CUDA_KERNEL_NODE_PARAMS_v2 *params = from;
    CUresult result = CUDA_SUCCESS;
    CUfunction handle = params->func ? params->func : (CUfunction)(void *)params->kern;
    CUcontext context = params->func ? NULL : params->ctx;
    if (context && !API_FIND(context, API_CONTEXT))
        return CUDA_ERROR_INVALID_CONTEXT;
    struct api_launch launch = {
        .grid = { params->gridDimX, params->gridDimY, params->gridDimZ },
        .block = { params->blockDimX, params->blockDimY, params->blockDimZ },
        .shared = params->sharedMemBytes,
        .params = params->kernelParams,
        .extra = params->extra,
    };
    launch.function = api_function_find(handle, context, &result);
    return result ? result : api_kernel_work(work, &launch);
}

static void tell_kernel(const struct api_work *work, void *params)
{
    bool any = work->as.kernel.function->entry->param_count > 0;
    *(CUDA_KERNEL_NODE_PARAMS_v2 *)params = (CUDA_KERNEL_NODE_PARAMS_v2) {
        .func = work->as.kernel.function,
        .gridDimX = work->as.kernel.grid[0],
        .gridDimY = work->as.kernel.grid[1],
        .gridDimZ = work->as.kernel.grid[2],
        .blockDimX = work->as.kernel.block[0],
        .blockDimY = work->as.kernel.block[1],
        .blockDimZ = work->as.kernel.block[2],
        .sharedMemBytes = work->as.kernel.shared,
        .kernelParams = any ? work->as.kernel.pointers : NULL,
        .ctx = work->as.kernel.function->object.context,
    };
}

static CUresult make_copy(struct api_work *work, const void *params)
{
    return api_copy_work(work, params);
}

static void tell_copy(const struct api_work *work, void *params)
{
    const struct api_side *to = &work->as.copy.to, *from = &work->as.copy.from;
    *(CUDA_MEMCPY3D *)params = (CUDA_MEMCPY3D) {
        .srcXInBytes = from->x,
        .srcY = from->y,
        .srcZ = from->z,
        .srcMemoryType = from->device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
        .srcHost = from->device ? NULL : (const void *)(uintptr_t)from->address,
        .srcDevice = from->device ? from->address : 0,
        .srcPitch = from->pitch,
        .srcHeight = from->height,
        .dstXInBytes = to->x,
        .dstY = to->y,
        .dstZ = to->z,
        .dstMemoryType = to->device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST,
        .dstHost = to->device ? NULL : (void *)(uintptr_t)to->address,
        .dstDevice = to->device ? to->address : 0,
        .dstPitch = to->pitch,
        .dstHeight = to->height,
        .WidthInBytes = work->as.copy.width,
        .Height = work->as.copy.height,
        .Depth = work->as.copy.depth,
    };
}

static CUresult make_fill(struct api_work *work, const void *params)
{
    *work = (struct api_work) { .type = CU_GRAPH_NODE_TYPE_MEMSET };
    memcpy(&work->as.set, params, sizeof(work->as.set));
    return CUDA_SUCCESS;
}

static void tell_fill(const struct api_work *work, void *params)
{
    memcpy(params, &work->as.set, sizeof(work->as.set));
}

static CUresult make_host(struct api_work *work, const void *from)
{
    const CUDA_HOST_NODE_PARAMS *params = from;
    *work = (struct api_work) { .type = CU_GRAPH_NODE_TYPE_HOST };
    work->as.host.function = params->fn;
    work->as.host.data = params->userData;
    return params->fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void tell_host(const struct api_work *work, void *params)
{
    *(CUDA_HOST_NODE_PARAMS *)params =
        (CUDA_HOST_NODE_PARAMS) { work->as.host.function, work->as.host.data };
}

/// For each type of node: its work from the parameters of its functions, and the reverse.
static const struct {
    CUresult (*make)(struct api_work *work, const void *params);
    void (*tell)(const struct api_work *work, void *params);
} kinds[] = {
    [CU_GRAPH_NODE_TYPE_KERNEL] = { make_kernel, tell_kernel },
    [CU_GRAPH_NODE_TYPE_MEMCPY] = { make_copy, tell_copy },
    [CU_GRAPH_NODE_TYPE_MEMSET] = { make_fill, tell_fill },
    [CU_GRAPH_NODE_TYPE_HOST] = { make_host, tell_host },
};

static CUresult make(struct api_work *work, CUgraphNodeType type, const void *params)
{
    CUresult result = kinds[type].make(work, params);
    return result ? result : api_work_check(work);
}

/// `context` is NULL if the function has no such argument, here and below.
static CUresult add(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                    CUgraphNodeType type, const void *params, const CUcontext *context)
{
    struct api_work work;
    CUresult result = api_graph_check_add(node, graph, after, count, params);
    if (!result && context && !API_FIND(*context, API_CONTEXT))
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (!result)
        result = make(&work, type, params);
    return result ? result : api_graph_add(graph, &work, after, count, node);
}

static CUresult get(CUgraphNode handle, CUgraphNodeType type, void *params)
{
    CUgraphNode node = api_graph_node(handle, type, params);
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    kinds[type].tell(&node->work, params);
    return CUDA_SUCCESS;
}

/// The work of a node of a type, in its graph or in an executable one; NULL: there is none.
struct target {
    struct api_work *work;
    CUgraphNodeType type;
    bool executable;
};

static struct target in_graph(CUgraphNode handle, CUgraphNodeType type)
{
    CUgraphNode node = api_graph_node(handle, type, handle);
    return (struct target) { node ? &node->work : NULL, type, false };
}

static struct target in_executable(CUgraphExec handle, CUgraphNode node, CUgraphNodeType type)
{
    CUgraphExec executable = API_FIND(handle, API_EXECUTABLE);
    size_t at = executable ? place_of(node, executable->nodes, executable->count) : 0;
    bool found = executable && at < executable->count && executable->works[at].type == type;
    return (struct target) { found ? &executable->works[at] : NULL, type, true };
}

/// Takes the new work over. Another thread may be launching an executable graph.
static void replace(struct target at, const struct api_work *work)
{
    if (at.executable)
        api_engine_enter();
    struct api_work old = *at.work;
    *at.work = *work;
    at.work->disabled = old.disabled;
    if (at.executable)
        api_engine_leave();
    api_work_clear(&old);
}

static CUresult set(struct target at, const void *params, const CUcontext *context)
{
    struct api_work work;
    CUresult result = at.work && params ? make(&work, at.type, params) : CUDA_ERROR_INVALID_VALUE;
    if (!result && context && !API_FIND(*context, API_CONTEXT))
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (result)
        return result;
    if (at.type == CU_GRAPH_NODE_TYPE_KERNEL)
        work.as.kernel.cooperative = at.work->as.kernel.cooperative;
    replace(at, &work);
    return CUDA_SUCCESS;
}

// ---------------------------------------------------------- kernels, copies, fills, host functions

CUresult api_graphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                size_t count, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    return add(node, graph, after, count, CU_GRAPH_NODE_TYPE_KERNEL, params, NULL);
}

CUresult api_graphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    return get(node, CU_GRAPH_NODE_TYPE_KERNEL, params);
}

CUresult api_graphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    return set(in_graph(node, CU_GRAPH_NODE_TYPE_KERNEL), params, NULL);
}

CUresult api_graphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                          const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    return set(in_executable(executable, node, CU_GRAPH_NODE_TYPE_KERNEL), params, NULL);
}

CUresult api_graphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                size_t count, const CUDA_MEMCPY3D *params, CUcontext context)
{
    return add(node, graph, after, count, CU_GRAPH_NODE_TYPE_MEMCPY, params, &context);
}

CUresult api_graphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *params)
{
    return get(node, CU_GRAPH_NODE_TYPE_MEMCPY, params);
}

CUresult api_graphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *params)
{
    return set(in_graph(node, CU_GRAPH_NODE_TYPE_MEMCPY), params, NULL);
}

CUresult api_graphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                          const CUDA_MEMCPY3D *params, CUcontext context)
{
    return set(in_executable(executable, node, CU_GRAPH_NODE_TYPE_MEMCPY), params, &context);
}

CUresult api_graphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                size_t count, const CUDA_MEMSET_NODE_PARAMS *params,
                                CUcontext context)
{
    return add(node, graph, after, count, CU_GRAPH_NODE_TYPE_MEMSET, params, &context);
}

CUresult api_graphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *params)
{
    return get(node, CU_GRAPH_NODE_TYPE_MEMSET, params);
}

CUresult api_graphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params)
{
    return set(in_graph(node, CU_GRAPH_NODE_TYPE_MEMSET), params, NULL);
}

CUresult api_graphExecMemsetNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                          const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    return set(in_executable(executable, node, CU_GRAPH_NODE_TYPE_MEMSET), params, &context);
}

CUresult api_graphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                              size_t count, const CUDA_HOST_NODE_PARAMS *params)
{
    return add(node, graph, after, count, CU_GRAPH_NODE_TYPE_HOST, params, NULL);
}

CUresult api_graphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *params)
{
    return get(node, CU_GRAPH_NODE_TYPE_HOST, params);
}

CUresult api_graphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *params)
{
    return set(in_graph(node, CU_GRAPH_NODE_TYPE_HOST), params, NULL);
}

CUresult api_graphExecHostNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                        const CUDA_HOST_NODE_PARAMS *params)
{
    return set(in_executable(executable, node, CU_GRAPH_NODE_TYPE_HOST), params, NULL);
}

/// The parameters of CUDA 12 from those of CUDA 11: a pointer to `wide`, or NULL.
static const CUDA_KERNEL_NODE_PARAMS_v2 *widen(CUDA_KERNEL_NODE_PARAMS_v2 *wide,
                                               const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    *wide = (CUDA_KERNEL_NODE_PARAMS_v2) { 0 };
    if (params)
        memcpy(wide, params, sizeof(*params));
    return params ? wide : NULL;
}

CUresult api_graphAddKernelNode1(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS_v2 wide;
    return api_graphAddKernelNode(node, graph, after, count, widen(&wide, params));
}

CUresult api_graphKernelNodeGetParams1(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS_v2 wide = { 0 };
    CUresult result = params ? api_graphKernelNodeGetParams(node, &wide) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        memcpy(params, &wide, sizeof(*params));
    return result;
}

CUresult api_graphKernelNodeSetParams1(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS_v2 wide;
    return api_graphKernelNodeSetParams(node, widen(&wide, params));
}

CUresult api_graphExecKernelNodeSetParams1(CUgraphExec executable, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS_v2 wide;
    return api_graphExecKernelNodeSetParams(executable, node, widen(&wide, params));
}

// --------------------------------------------------------------------------------------- skipped

/// Only kernels, copies and fills can be disabled.
static struct api_work *that_may_rest(CUgraphExec executable, CUgraphNode node)
{
    struct api_work *work = in_executable(executable, node, CU_GRAPH_NODE_TYPE_KERNEL).work;
    if (!work)
        work = in_executable(executable, node, CU_GRAPH_NODE_TYPE_MEMCPY).work;
    return work ? work : in_executable(executable, node, CU_GRAPH_NODE_TYPE_MEMSET).work;
}

CUresult api_graphNodeSetEnabled(CUgraphExec executable, CUgraphNode node, unsigned enabled)
{
    struct api_work *work = that_may_rest(executable, node);
    if (!work)
        return CUDA_ERROR_INVALID_VALUE;
    api_engine_enter();
    work->disabled = enabled == 0;
    api_engine_leave();
    return CUDA_SUCCESS;
}

CUresult api_graphNodeGetEnabled(CUgraphExec executable, CUgraphNode node, unsigned *enabled)
{
    const struct api_work *work = that_may_rest(executable, node);
    if (!work || !enabled)
        return CUDA_ERROR_INVALID_VALUE;
    *enabled = !work->disabled;
    return CUDA_SUCCESS;
}

// ---------------------------------------------------------------------------------------- events

static CUresult add_event(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,
                          CUevent event, CUgraphNodeType type)
{
    struct api_work work = { .type = type };
    CUresult result = api_graph_check_add(node, graph, after, count, &work);
    if (!result && !API_FIND(event, API_EVENT))
        result = CUDA_ERROR_INVALID_VALUE;
    work.as.event = event;
    return result ? result : api_graph_add(graph, &work, after, count, node);
}

CUresult api_graphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                     size_t count, CUevent event)
{
    return add_event(node, graph, after, count, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}

CUresult api_graphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                   size_t count, CUevent event)
{
    return add_event(node, graph, after, count, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
}

static CUresult get_event(CUgraphNode handle, CUevent *event, CUgraphNodeType type)
{
    CUgraphNode node = api_graph_node(handle, type, event);
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    *event = node->work.as.event;
    return CUDA_SUCCESS;
}

CUresult api_graphEventRecordNodeGetEvent(CUgraphNode node, CUevent *event)
{
    return get_event(node, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}

CUresult api_graphEventWaitNodeGetEvent(CUgraphNode node, CUevent *event)
{
    return get_event(node, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
}

static CUresult set_event(struct target at, CUevent event)
{
    if (!at.work || !API_FIND(event, API_EVENT))
        return CUDA_ERROR_INVALID_VALUE;
    struct api_work work = { .type = at.type };
    work.as.event = event;
    replace(at, &work);
    return CUDA_SUCCESS;
}

CUresult api_graphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
    return set_event(in_graph(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD), event);
}

CUresult api_graphEventWaitNodeSetEvent(CUgraphNode node, CUevent event)
{
    return set_event(in_graph(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT), event);
}

CUresult api_graphExecEventRecordNodeSetEvent(CUgraphExec executable, CUgraphNode node,
                                              CUevent event)
{
    return set_event(in_executable(executable, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD), event);
}

CUresult api_graphExecEventWaitNodeSetEvent(CUgraphExec executable, CUgraphNode node, CUevent event)
{
    return set_event(in_executable(executable, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT), event);
}
