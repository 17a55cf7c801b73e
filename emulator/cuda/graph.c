// SPDX-License-Identifier: MIT
// Graphs: nodes of work and what each comes after.
#include "api.h"

#include <stdlib.h>
#include <string.h>

CUgraph api_graph_new(void)
{
    CUgraph graph = calloc(1, sizeof(*graph));
    if (graph)
        api_object_add(&graph->object, API_GRAPH, (uint64_t)(uintptr_t)graph, NULL);
    return graph;
}

static void free_node(CUgraphNode node)
{
    api_object_remove(&node->object);
    api_work_clear(&node->work);
    free(node->after);
    free(node);
}

void api_graph_free(CUgraph graph)
{
    while (graph->first) {
        CUgraphNode node = graph->first;
        graph->first = node->next;
        free_node(node);
    }
    api_object_remove(&graph->object);
    free(graph);
}

bool api_nodes_copy(CUgraphNode **to, size_t *to_count, const CUgraphNode *from, size_t count)
{
    CUgraphNode *copy = malloc((count + 1) * sizeof(CUgraphNode));
    if (!copy)
        return false;
    if (count)
        memcpy(copy, from, count * sizeof(CUgraphNode));
    free(*to);
    *to = copy;
    *to_count = count;
    return true;
}

static bool among(CUgraphNode node, const CUgraphNode *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (nodes[i] == node)
            return true;
    return false;
}

bool api_nodes_unite(CUgraphNode **to, size_t *to_count, const CUgraphNode *from, size_t count)
{
    CUgraphNode *larger = realloc(*to, (*to_count + count + 1) * sizeof(CUgraphNode));
    if (!larger)
        return false;
    *to = larger;
    for (size_t i = 0; i < count; i++)
        if (!among(from[i], larger, *to_count))
            larger[(*to_count)++] = from[i];
    return true;
}

static void mark_all(CUgraph graph, size_t mark)
{
    for (CUgraphNode node = graph->first; node; node = node->next)
        node->mark = mark;
}

bool api_nodes_joined(CUgraph graph, const CUgraphNode *nodes, size_t count,
                      const CUgraphNode *ends, size_t end_count)
{
    mark_all(graph, 0);
    for (size_t i = 0; i < end_count; i++)
        ends[i]->mark = 1;
    for (bool more = true; more;) {
        more = false;
        for (CUgraphNode node = graph->first; node; node = node->next)
            for (size_t i = 0; node->mark && i < node->after_count; i++)
                if (!node->after[i]->mark) {
                    node->after[i]->mark = 1;
                    more = true;
                }
    }
    for (size_t i = 0; i < count; i++)
        if (!nodes[i]->mark)
            return false;
    return true;
}

CUresult api_graph_add(CUgraph graph, struct api_work *work, const CUgraphNode *after, size_t count,
                       CUgraphNode *node)
{
    CUgraphNode made = calloc(1, sizeof(*made));
    if (!made || !api_nodes_copy(&made->after, &made->after_count, after, count)) {
        free(made);
        api_work_clear(work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    api_object_add(&made->object, API_NODE, (uint64_t)(uintptr_t)made, NULL);
    made->graph = graph;
    made->work = *work;
    if (graph->last)
        graph->last->next = made;
    else
        graph->first = made;
    graph->last = made;
    graph->count++;
    *node = made;
    return CUDA_SUCCESS;
}

CUresult api_graphCreate(CUgraph *graph, unsigned flags)
{
    if (!graph || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph made = api_graph_new();
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *graph = made;
    return CUDA_SUCCESS;
}

CUresult api_graphDestroy(CUgraph handle)
{
    CUgraph graph = API_FIND(handle, API_GRAPH);
    if (!graph || graph->capturing)
        return CUDA_ERROR_INVALID_VALUE;
    api_graph_free(graph);
    return CUDA_SUCCESS;
}

CUresult api_graph_check_add(CUgraphNode *node, CUgraph handle, const CUgraphNode *after,
                             size_t count, const void *params)
{
    CUgraph graph = API_FIND(handle, API_GRAPH);
    if (!node || !graph || !params || (count && !after))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        CUgraphNode before = API_FIND(after[i], API_NODE);
        if (!before || before->graph != graph || among(before, after, i))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult api_graph_kernel(struct api_work *work, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    CUresult result = CUDA_SUCCESS;
    CUfunction handle = params->func ? params->func : (CUfunction)(void *)params->kern;
    struct api_launch launch = {
        .grid = { params->gridDimX, params->gridDimY, params->gridDimZ },
        .block = { params->blockDimX, params->blockDimY, params->blockDimZ },
        .shared = params->sharedMemBytes,
        .params = params->kernelParams,
        .extra = params->extra,
    };
    launch.function = api_function_find(handle, &result);
    return result ? result : api_kernel_work(work, &launch);
}

CUresult api_graphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                size_t count, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    struct api_work work;
    CUresult result = api_graph_check_add(node, graph, after, count, params);
    if (!result)
        result = api_graph_kernel(&work, params);
    return result ? result : api_graph_add(graph, &work, after, count, node);
}

static CUDA_KERNEL_NODE_PARAMS_v2 newer(const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS_v2 wide = { 0 };
    memcpy(&wide, params, sizeof(*params));
    return wide;
}

CUresult api_graphAddKernelNode1(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS_v2 wide = newer(params);
    return api_graphAddKernelNode(node, graph, after, count, &wide);
}

static CUresult add_checked(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                            size_t count, struct api_work *work)
{
    CUresult result = api_work_check(work);
    return result ? result : api_graph_add(graph, work, after, count, node);
}

CUresult api_graphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                size_t count, const CUDA_MEMCPY3D *params, CUcontext context)
{
    struct api_work work;
    CUresult result = api_graph_check_add(node, graph, after, count, params);
    if (!result && !API_FIND(context, API_CONTEXT))
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (!result)
        result = api_copy_work(&work, params);
    return result ? result : add_checked(node, graph, after, count, &work);
}

CUresult api_graphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                size_t count, const CUDA_MEMSET_NODE_PARAMS *params,
                                CUcontext context)
{
    struct api_work work = { .type = CU_GRAPH_NODE_TYPE_MEMSET };
    CUresult result = api_graph_check_add(node, graph, after, count, params);
    if (!result && !API_FIND(context, API_CONTEXT))
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (result)
        return result;
    memcpy(&work.as.set, params, sizeof(*params));
    return add_checked(node, graph, after, count, &work);
}

CUresult api_graphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                              size_t count, const CUDA_HOST_NODE_PARAMS *params)
{
    struct api_work work = { .type = CU_GRAPH_NODE_TYPE_HOST };
    CUresult result = api_graph_check_add(node, graph, after, count, params);
    if (result || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    work.as.host.function = params->fn;
    work.as.host.data = params->userData;
    return api_graph_add(graph, &work, after, count, node);
}

CUresult api_graphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                               size_t count)
{
    struct api_work work = { .type = CU_GRAPH_NODE_TYPE_EMPTY };
    CUresult result = api_graph_check_add(node, graph, after, count, &work);
    return result ? result : api_graph_add(graph, &work, after, count, node);
}

static void forget(CUgraphNode node, CUgraphNode gone)
{
    size_t kept = 0;
    for (size_t i = 0; i < node->after_count; i++)
        if (node->after[i] != gone)
            node->after[kept++] = node->after[i];
    node->after_count = kept;
}

CUresult api_graphDestroyNode(CUgraphNode handle)
{
    CUgraphNode node = API_FIND(handle, API_NODE);
    if (!node || node->graph->capturing)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph graph = node->graph;
    CUgraphNode *at = &graph->first, last = NULL;
    for (; *at != node; at = &(*at)->next)
        last = *at;
    *at = node->next;
    if (graph->last == node)
        graph->last = last;
    graph->count--;
    for (CUgraphNode other = graph->first; other; other = other->next)
        forget(other, node);
    free_node(node);
    return CUDA_SUCCESS;
}

CUgraphNode api_graph_node(CUgraphNode handle, CUgraphNodeType type, const void *params)
{
    CUgraphNode node = params ? API_FIND(handle, API_NODE) : NULL;
    return node && node->work.type == type ? node : NULL;
}

CUresult api_graphKernelNodeGetParams(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    CUgraphNode node = api_graph_node(handle, CU_GRAPH_NODE_TYPE_KERNEL, params);
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    const struct api_work *work = &node->work;
    bool any = work->as.kernel.function->entry->param_count > 0;
    *params = (CUDA_KERNEL_NODE_PARAMS_v2) {
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
    return CUDA_SUCCESS;
}

CUresult api_graphKernelNodeGetParams1(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS_v2 wide;
    CUresult result = params ? api_graphKernelNodeGetParams(node, &wide) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        memcpy(params, &wide, sizeof(*params));
    return result;
}

CUresult api_graphKernelNodeSetParams(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    struct api_work work;
    CUgraphNode node = api_graph_node(handle, CU_GRAPH_NODE_TYPE_KERNEL, params);
    CUresult result = node ? api_graph_kernel(&work, params) : CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    work.as.kernel.cooperative = node->work.as.kernel.cooperative;
    api_work_clear(&node->work);
    node->work = work;
    return CUDA_SUCCESS;
}

CUresult api_graphKernelNodeSetParams1(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS_v2 wide = newer(params);
    return api_graphKernelNodeSetParams(node, &wide);
}
