// SPDX-License-Identifier: MIT
// What copies, fills and calls of graphs do: read, and changed in a graph or in an executable one.
#include "api.h"

#include <string.h>

// ---------------------------------------------------------------------------------------- copies

CUresult api_graphMemcpyNodeGetParams(CUgraphNode handle, CUDA_MEMCPY3D *params)
{
    CUgraphNode node = api_graph_node(handle, CU_GRAPH_NODE_TYPE_MEMCPY, params);
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    const struct api_side *to = &node->work.as.copy.to, *from = &node->work.as.copy.from;
    *params = (CUDA_MEMCPY3D) {
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
        .WidthInBytes = node->work.as.copy.width,
        .Height = node->work.as.copy.height,
        .Depth = node->work.as.copy.depth,
    };
    return CUDA_SUCCESS;
}

static CUresult copy_work(struct api_work *work, const CUDA_MEMCPY3D *params)
{
    CUresult result = params ? api_copy_work(work, params) : CUDA_ERROR_INVALID_VALUE;
    return result ? result : api_work_check(work);
}

CUresult api_graphMemcpyNodeSetParams(CUgraphNode handle, const CUDA_MEMCPY3D *params)
{
    struct api_work work;
    CUgraphNode node = api_graph_node(handle, CU_GRAPH_NODE_TYPE_MEMCPY, params);
    CUresult result = node ? copy_work(&work, params) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        node->work = work;
    return result;
}

CUresult api_graphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                          const CUDA_MEMCPY3D *params, CUcontext context)
{
    struct api_work work, *at = api_exec_work(executable, node, CU_GRAPH_NODE_TYPE_MEMCPY);
    CUresult result = at ? copy_work(&work, params) : CUDA_ERROR_INVALID_VALUE;
    if (!result && !API_FIND(context, API_CONTEXT))
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (!result)
        api_exec_replace(at, &work);
    return result;
}

// ----------------------------------------------------------------------------------------- fills

CUresult api_graphMemsetNodeGetParams(CUgraphNode handle, CUDA_MEMSET_NODE_PARAMS *params)
{
    CUgraphNode node = api_graph_node(handle, CU_GRAPH_NODE_TYPE_MEMSET, params);
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(params, &node->work.as.set, sizeof(*params));
    return CUDA_SUCCESS;
}

static CUresult set_work(struct api_work *work, const CUDA_MEMSET_NODE_PARAMS *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    *work = (struct api_work) { .type = CU_GRAPH_NODE_TYPE_MEMSET };
    memcpy(&work->as.set, params, sizeof(*params));
    return api_work_check(work);
}

CUresult api_graphMemsetNodeSetParams(CUgraphNode handle, const CUDA_MEMSET_NODE_PARAMS *params)
{
    struct api_work work;
    CUgraphNode node = api_graph_node(handle, CU_GRAPH_NODE_TYPE_MEMSET, params);
    CUresult result = node ? set_work(&work, params) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        node->work = work;
    return result;
}

CUresult api_graphExecMemsetNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                          const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    struct api_work work, *at = api_exec_work(executable, node, CU_GRAPH_NODE_TYPE_MEMSET);
    CUresult result = at ? set_work(&work, params) : CUDA_ERROR_INVALID_VALUE;
    if (!result && !API_FIND(context, API_CONTEXT))
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (!result)
        api_exec_replace(at, &work);
    return result;
}

// ----------------------------------------------------------------------------------------- calls

CUresult api_graphHostNodeGetParams(CUgraphNode handle, CUDA_HOST_NODE_PARAMS *params)
{
    CUgraphNode node = api_graph_node(handle, CU_GRAPH_NODE_TYPE_HOST, params);
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    *params = (CUDA_HOST_NODE_PARAMS) { node->work.as.host.function, node->work.as.host.data };
    return CUDA_SUCCESS;
}

static CUresult host_work(struct api_work *work, const CUDA_HOST_NODE_PARAMS *params)
{
    if (!params || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    *work = (struct api_work) { .type = CU_GRAPH_NODE_TYPE_HOST };
    work->as.host.function = params->fn;
    work->as.host.data = params->userData;
    return CUDA_SUCCESS;
}

CUresult api_graphHostNodeSetParams(CUgraphNode handle, const CUDA_HOST_NODE_PARAMS *params)
{
    struct api_work work;
    CUgraphNode node = api_graph_node(handle, CU_GRAPH_NODE_TYPE_HOST, params);
    CUresult result = node ? host_work(&work, params) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        node->work = work;
    return result;
}

CUresult api_graphExecHostNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                        const CUDA_HOST_NODE_PARAMS *params)
{
    struct api_work work, *at = api_exec_work(executable, node, CU_GRAPH_NODE_TYPE_HOST);
    CUresult result = at ? host_work(&work, params) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        api_exec_replace(at, &work);
    return result;
}

// --------------------------------------------------------------------------------------- skipped

/// Kernels, copies and fills alone may be left out.
static struct api_work *that_may_rest(CUgraphExec executable, CUgraphNode node)
{
    struct api_work *work = api_exec_work(executable, node, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!work)
        work = api_exec_work(executable, node, CU_GRAPH_NODE_TYPE_MEMCPY);
    return work ? work : api_exec_work(executable, node, CU_GRAPH_NODE_TYPE_MEMSET);
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
