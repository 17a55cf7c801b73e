// SPDX-License-Identifier: MIT
/// Graphs: captured or built by calls, instantiated, launched, changed.
#include "api.h"

static CUcontext context;
static CUmodule module;
static CUstream stream;
static CUdeviceptr data;

static CUgraph capture_store(uint32_t value)
{
    CUgraph graph = NULL;
    void *params[] = { &data, &value };
    OK(cuStreamBeginCapture(stream));
    OK(cuLaunchKernel(emu_function(module, "store"), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    OK(cuStreamEndCapture(stream, &graph));
    return graph;
}

TEST(captured)
{
    CUgraph graph = NULL;
    CUgraphExec executable = NULL;
    uint32_t n = 100, three = 3, numbers[100] = { 0 };
    void *params[] = { &data, &n, &three };
    OK(cuMemsetD32_v2(data, 9, 100));
    OK(cuStreamBeginCapture(stream));
    OK(cuMemsetD32Async(data, 4, 100, stream));
    OK(cuLaunchKernel(emu_function(module, "add"), 1, 1, 1, 128, 1, 1, 0, stream, params, NULL));
    OK(cuMemcpyDtoHAsync_v2(numbers, data, sizeof(numbers), stream));
    three = 77; // the launch has its own copy
    OK(cuStreamEndCapture(stream, &graph));
    assert_int_equal(emu_read(data), 9); // nothing ran
    OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    OK(cuGraphDestroy(graph));
    for (int i = 0; i < 3; i++) {
        memset(numbers, 0, sizeof(numbers));
        OK(cuGraphUpload(executable, stream));
        OK(cuGraphLaunch(executable, stream));
        OK(cuStreamSynchronize(stream));
        for (int k = 0; k < 100; k++)
            assert_int_equal(numbers[k], 7);
    }
    OK(cuGraphExecDestroy(executable));
    RETURNS(cuGraphExecDestroy(executable), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuGraphLaunch(executable, stream), CUDA_ERROR_INVALID_VALUE);
}

TEST(changed)
{
    CUgraph graph = capture_store(5), newer = capture_store(6), empty = NULL;
    CUgraphExec executable = NULL;
    CUgraphNode node = NULL;
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    CUgraphExecUpdateResultInfo info;
    uint32_t value = 8;
    size_t count = 1;
    OK(cuGraphInstantiate_v2(&executable, graph, NULL, NULL, 0));
    OK(cuGraphLaunch(executable, stream));
    assert_int_equal(emu_read(data), 5);
    OK(cuGraphExecUpdate_v2(executable, newer, &info));
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    OK(cuGraphLaunch(executable, stream));
    assert_int_equal(emu_read(data), 6);
    OK(cuGraphGetNodes(graph, &node, &count));
    OK(cuGraphKernelNodeGetParams_v2(node, &params));
    assert_ptr_equal(params.func, emu_function(module, "store"));
    assert_int_equal(*(uint32_t *)params.kernelParams[1], 5);
    void *arguments[] = { &data, &value };
    params.kernelParams = arguments;
    OK(cuGraphExecKernelNodeSetParams_v2(executable, node, &params));
    OK(cuGraphLaunch(executable, stream));
    assert_int_equal(emu_read(data), 8);
    params.gridDimX = 0;
    RETURNS(cuGraphExecKernelNodeSetParams_v2(executable, node, &params), CUDA_ERROR_INVALID_VALUE);
    params.gridDimX = 1, value = 10;
    OK(cuGraphKernelNodeSetParams_v2(node, &params));
    OK(cuGraphKernelNodeGetParams_v2(node, &params));
    assert_int_equal(*(uint32_t *)params.kernelParams[1], 10);
    OK(cuGraphCreate(&empty, 0));
    RETURNS(cuGraphExecUpdate_v2(executable, empty, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    OK(cuGraphAddEmptyNode(&node, empty, NULL, 0));
    CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    RETURNS(cuGraphExecUpdate(executable, empty, &node, &result),
            CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(empty));
    OK(cuGraphDestroy(newer));
    OK(cuGraphDestroy(graph));
}

static void count_up(void *argument)
{
    ++*(int *)argument;
}

struct by_hand {
    CUgraph graph;
    CUgraphNode kernel, set, host, empty, copy;
    uint32_t value, number;
    int calls;
};

/// kernel -> set -> host -> empty -> copy
static void make(struct by_hand *hand)
{
    void *arguments[] = { &data, &hand->value };
    CUDA_KERNEL_NODE_PARAMS_v1 kernel = { .func = emu_function(module, "store"),
                                          EMU_ONE_THREAD,
                                          .kernelParams = arguments };
    CUDA_MEMSET_NODE_PARAMS set = {
        .dst = data + 2, .elementSize = 1, .width = 1, .height = 1, .value = 3
    };
    CUDA_HOST_NODE_PARAMS host = { count_up, &hand->calls };
    CUDA_MEMCPY3D copy = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = data,
                           .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = &hand->number,
                           .WidthInBytes = 4,
                           .Height = 1,
                           .Depth = 1 };
    OK(cuGraphCreate(&hand->graph, 0));
    OK(cuGraphAddKernelNode(&hand->kernel, hand->graph, NULL, 0, &kernel));
    OK(cuGraphAddMemsetNode(&hand->set, hand->graph, &hand->kernel, 1, &set, context));
    OK(cuGraphAddHostNode(&hand->host, hand->graph, &hand->set, 1, &host));
    OK(cuGraphAddEmptyNode(&hand->empty, hand->graph, &hand->host, 1));
    OK(cuGraphAddMemcpyNode(&hand->copy, hand->graph, &hand->empty, 1, &copy, context));
    RETURNS(cuGraphAddKernelNode(&hand->kernel, hand->graph, NULL, 1, &kernel), 1);
    kernel.gridDimX = 0;
    RETURNS(cuGraphAddKernelNode(&hand->kernel, hand->graph, NULL, 0, &kernel), 1);
    kernel.func = NULL;
    RETURNS(cuGraphAddKernelNode(&hand->kernel, hand->graph, NULL, 0, &kernel), 400);
    set.elementSize = 3;
    RETURNS(cuGraphAddMemsetNode(&hand->set, hand->graph, NULL, 0, &set, context), 1);
}

TEST(made_by_hand)
{
    struct by_hand hand = { .value = 0x01010101 };
    CUgraphExec executable = NULL;
    CUgraphNodeType type;
    CUgraphNode from[8], to[8];
    size_t count = 8;
    make(&hand);
    OK(cuGraphNodeGetType(hand.copy, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_MEMCPY);
    OK(cuGraphGetEdges_v2(hand.graph, from, to, NULL, &count));
    assert_int_equal(count, 4);
    assert_ptr_equal(from[0], hand.kernel);
    assert_ptr_equal(to[3], hand.copy);
    OK(cuGraphGetRootNodes(hand.graph, NULL, &count));
    assert_int_equal(count, 1);
    count = 8;
    OK(cuGraphNodeGetDependencies(hand.set, from, &count));
    assert_true(count == 1 && from[0] == hand.kernel);
    count = 8;
    OK(cuGraphNodeGetDependentNodes(hand.set, from, &count));
    assert_true(count == 1 && from[0] == hand.host);

    OK(cuGraphAddDependencies(hand.graph, &hand.copy, &hand.kernel, 1));
    RETURNS(cuGraphInstantiateWithFlags(&executable, hand.graph, 0), 1); // the edges form a cycle
    OK(cuGraphRemoveDependencies(hand.graph, &hand.copy, &hand.kernel, 1));
    RETURNS(cuGraphRemoveDependencies(hand.graph, &hand.copy, &hand.kernel, 1), 1);
    RETURNS(cuGraphAddDependencies(hand.graph, &hand.kernel, &hand.set, 1), 1);
    OK(cuGraphInstantiateWithFlags(&executable, hand.graph, 0));
    OK(cuGraphLaunch(executable, stream));
    OK(cuStreamSynchronize(stream));
    assert_int_equal(hand.number, 0x01030101);
    assert_int_equal(hand.calls, 1);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroyNode(hand.set));
    RETURNS(cuGraphDestroyNode(hand.set), 1);
    OK(cuGraphGetNodes(hand.graph, NULL, &count));
    assert_int_equal(count, 4);
    OK(cuGraphDestroy(hand.graph));
    RETURNS(cuGraphNodeGetType(hand.copy, &type), 1);
}

TEST(wrong_calls)
{
    CUgraph graph = NULL;
    CUgraphExec executable = NULL;
    size_t count = 0;
    RETURNS(cuGraphCreate(NULL, 0), 1);
    RETURNS(cuGraphCreate(&graph, 1), 1);
    RETURNS(cuGraphDestroy(NULL), 1);
    RETURNS(cuGraphGetNodes(NULL, NULL, &count), 1);
    RETURNS(cuGraphLaunch(NULL, stream), 1);
    RETURNS(cuGraphInstantiateWithFlags(&executable, NULL, 0), 1);
    OK(cuGraphCreate(&graph, 0));
    RETURNS(cuGraphInstantiateWithFlags(NULL, graph, 0), 1);
    RETURNS(cuGraphInstantiateWithFlags(&executable, graph, 0x1000), 1);
    OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    OK(cuGraphLaunch(executable, stream));
    RETURNS(cuGraphLaunch(executable, (CUstream)&count), CUDA_ERROR_INVALID_HANDLE);
    OK(cuStreamBeginCapture(stream));
    RETURNS(cuGraphLaunch(executable, stream), 900);
    RETURNS(cuStreamEndCapture(stream, &graph), 901);
    OK(cuGraphExecDestroy(executable));
}

TEST(outlives_its_module)
{
    CUmodule loaded = emu_module();
    CUgraph graph = NULL;
    CUgraphExec executable = NULL;
    uint32_t value = 31;
    void *params[] = { &data, &value };
    OK(cuStreamBeginCapture(stream));
    OK(cuLaunchKernel(emu_function(loaded, "store"), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    OK(cuModuleUnload(loaded));
    OK(cuGraphLaunch(executable, stream));
    assert_int_equal(emu_read(data), 31);
    OK(cuGraphDestroy(graph));
    OK(cuGraphExecDestroy(executable));
}

int main(void)
{
    context = emu_context();
    module = emu_module();
    OK(cuMemAlloc_v2(&data, 4096));
    OK(cuStreamCreate(&stream, 1));
    return tests_run(NULL, NULL);
}
