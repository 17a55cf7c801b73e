// SPDX-License-Identifier: MIT
/// Graphs and addresses of the fake libcuda.
#include "fake_libcuda_state.h"

#include <string.h>

struct CUgraphNode_st {
    CUgraphNodeType type;
};

struct CUgraph_st {
    size_t count;
    struct CUgraphNode_st nodes[FAKE_NODES];
};

struct CUgraphExec_st {
    size_t kernels;
};

enum { KNOWN_BYTES = 4096 };

bool fake_captured(CUstream stream, CUgraphNodeType type)
{
    // 1 and 2 are the default streams.
    if ((uintptr_t)stream <= 2 || stream->status == CU_STREAM_CAPTURE_STATUS_NONE)
        return false;
    if (stream->node_count < FAKE_NODES)
        stream->nodes[stream->node_count++] = type;
    return true;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
    FAKE_IN_CONTEXT();
    if (stream->status != CU_STREAM_CAPTURE_STATUS_NONE)
        return CUDA_ERROR_ILLEGAL_STATE;
    fake.capture_begin(stream, mode);
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    fake_count();
    *graph = NULL;
    if (stream->status == CU_STREAM_CAPTURE_STATUS_NONE)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (fake.capture_end(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *graph = fake_create(sizeof(**graph));
    (*graph)->count = stream->node_count;
    for (size_t i = 0; i < stream->node_count; i++)
        (*graph)->nodes[i].type = stream->nodes[i];
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    fake_count();
    for (size_t i = 0; nodes && i < graph->count && i < *count; i++)
        nodes[i] = &graph->nodes[i];
    *count = graph->count;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
    fake_count();
    *type = node->type;
    return CUDA_SUCCESS;
}

#ifndef FAKE_WITHOUT_OPTIONAL
CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
                                     unsigned long long flags)
{
    FAKE_IN_CONTEXT();
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = fake_unsafe_call();
    if (result != CUDA_SUCCESS)
        return result;
    *executable = fake_create(sizeof(**executable));
    for (size_t i = 0; i < graph->count; i++)
        (*executable)->kernels += graph->nodes[i].type == CU_GRAPH_NODE_TYPE_KERNEL;
    return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec executable, CUstream stream)
{
    (void)executable;
    FAKE_IN_CONTEXT();
    return fake_captured(stream, CU_GRAPH_NODE_TYPE_EMPTY) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                                           : CUDA_SUCCESS;
}
#endif

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream)
{
    FAKE_ON_STREAM(stream);
    atomic_fetch_add(&fake.graphs, 1);
    atomic_fetch_add(&fake.launches, (int)executable->kernels);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec executable)
{
    fake_count();
    fake_destroy(executable);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    fake_count();
    fake_destroy(graph);
    return CUDA_SUCCESS;
}

/// For an address that it does not know, libcuda gives zeros.
static void write_attribute(CUpointer_attribute attribute, void *value, CUdeviceptr address)
{
    bool host = fake.registered && address - fake.registered < KNOWN_BYTES;
    bool device = fake.foreign && address - fake.foreign < KNOWN_BYTES;
    CUdeviceptr base = host ? fake.registered : device ? fake.foreign : 0;
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value = host ? CU_MEMORYTYPE_HOST : device ? CU_MEMORYTYPE_DEVICE : 0;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned char *)value = 0;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = host || device ? 1 : -2;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = base;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = base ? KNOWN_BYTES : 0;
        break;
    default:
        atomic_fetch_add(&fake.violations, 1);
    }
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **values,
                                CUdeviceptr address)
{
    FAKE_IN_CONTEXT();
    for (unsigned i = 0; i < count; i++)
        write_attribute(attributes[i], values[i], address);
    return CUDA_SUCCESS;
}
