// SPDX-License-Identifier: MIT
/// Nodes of graphs: their parameters read and changed, events, clones, captures into an existing
/// graph.
#define _POSIX_C_SOURCE 200809L // nanosleep
#include "api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static CUcontext context;
static CUmodule module;
static CUstream stream;
static CUdeviceptr data;

static void run(CUgraphExec executable)
{
    OK(cuGraphLaunch(executable, stream));
    OK(cuStreamSynchronize(stream));
}

static CUDA_MEMSET_NODE_PARAMS fill(uint32_t value, size_t words)
{
    return (CUDA_MEMSET_NODE_PARAMS) {
        .dst = data, .value = value, .elementSize = 4, .width = words, .height = 1
    };
}

static CUDA_MEMCPY3D fetch(uint32_t *to, CUdeviceptr from)
{
    return (CUDA_MEMCPY3D) { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                             .srcDevice = from,
                             .dstMemoryType = CU_MEMORYTYPE_HOST,
                             .dstHost = to,
                             .WidthInBytes = sizeof(*to),
                             .Height = 1,
                             .Depth = 1 };
}

static void count_one(void *counter)
{
    ++*(int *)counter;
}

static void count_ten(void *counter)
{
    *(int *)counter += 10;
}

// A fill, a copy of what it filled to the host, and a call.
struct chain {
    CUgraph graph;
    CUgraphNode set, copy, call;
    uint32_t seen, other;
    int called;
};

static void make(struct chain *c)
{
    const CUDA_MEMSET_NODE_PARAMS set = fill(5, 4);
    const CUDA_MEMCPY3D copy = fetch(&c->seen, data + 4);
    const CUDA_HOST_NODE_PARAMS call = { count_one, &c->called };
    OK(cuGraphCreate(&c->graph, 0));
    OK(cuGraphAddMemsetNode(&c->set, c->graph, NULL, 0, &set, context));
    OK(cuGraphAddMemcpyNode(&c->copy, c->graph, &c->set, 1, &copy, context));
    OK(cuGraphAddHostNode(&c->call, c->graph, &c->copy, 1, &call));
}

TEST(changed_in_a_graph)
{
    struct chain c = { 0 };
    CUgraphExec executable = NULL;
    CUDA_MEMSET_NODE_PARAMS set;
    CUDA_MEMCPY3D copy;
    CUDA_HOST_NODE_PARAMS call;
    make(&c);
    OK(cuGraphMemsetNodeGetParams(c.set, &set));
    OK(cuGraphMemcpyNodeGetParams(c.copy, &copy));
    OK(cuGraphHostNodeGetParams(c.call, &call));
    assert_int_equal(copy.srcDevice, data + 4);
    assert_ptr_equal(copy.dstHost, &c.seen);
    assert_int_equal(copy.WidthInBytes, 4);
    set.value = 6;
    copy.dstHost = &c.other;
    call.fn = count_ten;
    OK(cuGraphMemsetNodeSetParams(c.set, &set));
    OK(cuGraphMemcpyNodeSetParams(c.copy, &copy));
    OK(cuGraphHostNodeSetParams(c.call, &call));
    OK(cuGraphInstantiateWithFlags(&executable, c.graph, 0));
    run(executable);
    assert_int_equal(c.seen, 0);
    assert_int_equal(c.other, 6);
    assert_int_equal(c.called, 10);
    RETURNS(cuGraphMemsetNodeSetParams(c.copy, &set), 1);
    RETURNS(cuGraphMemcpyNodeSetParams(c.copy, NULL), 1);
    RETURNS(cuGraphMemcpyNodeGetParams(c.call, &copy), 1);
    call.fn = NULL;
    RETURNS(cuGraphHostNodeSetParams(c.call, &call), 1);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(c.graph));
}

TEST(changed_when_executable)
{
    struct chain c = { 0 };
    CUgraphExec executable = NULL;
    make(&c);
    OK(cuGraphInstantiateWithFlags(&executable, c.graph, 0));
    run(executable);
    assert_int_equal(c.seen, 5);
    assert_int_equal(c.called, 1);
    const CUDA_MEMSET_NODE_PARAMS set = fill(7, 2);
    const CUDA_MEMCPY3D copy = fetch(&c.other, data);
    const CUDA_HOST_NODE_PARAMS call = { count_ten, &c.called };
    OK(cuGraphExecMemsetNodeSetParams(executable, c.set, &set, context));
    OK(cuGraphExecMemcpyNodeSetParams(executable, c.copy, &copy, context));
    OK(cuGraphExecHostNodeSetParams(executable, c.call, &call));
    run(executable);
    assert_int_equal(c.other, 7);
    assert_int_equal(c.called, 11);
    RETURNS(cuGraphExecMemsetNodeSetParams(executable, c.copy, &set, context), 1);
    RETURNS(cuGraphExecMemsetNodeSetParams(executable, c.set, &set, NULL), 201);
    RETURNS(cuGraphExecHostNodeSetParams(NULL, c.call, &call), 1);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(c.graph));
}

TEST(left_out)
{
    struct chain c = { 0 };
    CUgraphExec executable = NULL;
    CUgraphExecUpdateResultInfo info;
    unsigned enabled = 7;
    make(&c);
    OK(cuGraphInstantiateWithFlags(&executable, c.graph, 0));
    OK(cuMemsetD32_v2(data, 1, 4));
    OK(cuGraphNodeSetEnabled(executable, c.set, 0));
    OK(cuGraphNodeGetEnabled(executable, c.set, &enabled));
    assert_int_equal(enabled, 0);
    OK(cuGraphExecUpdate_v2(executable, c.graph, &info)); // does not enable it
    run(executable);
    assert_int_equal(c.seen, 1);
    OK(cuGraphNodeSetEnabled(executable, c.set, 1));
    OK(cuGraphNodeGetEnabled(executable, c.set, &enabled));
    assert_int_equal(enabled, 1);
    run(executable);
    assert_int_equal(c.seen, 5);
    RETURNS(cuGraphNodeSetEnabled(executable, c.call, 0), 1); // only kernels, copies and fills
    RETURNS(cuGraphNodeGetEnabled(executable, c.set, NULL), 1);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(c.graph));
}

TEST(events)
{
    CUevent start, end, seen = NULL;
    CUgraph graph = NULL;
    CUgraphExec executable = NULL;
    CUgraphNode first, wait, last;
    CUgraphNodeType type;
    float milliseconds = -1;
    OK(cuEventCreate(&start, 0));
    OK(cuEventCreate(&end, 0));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEventRecordNode(&first, graph, NULL, 0, start));
    OK(cuGraphAddEventWaitNode(&wait, graph, &first, 1, start));
    OK(cuGraphAddEventRecordNode(&last, graph, &wait, 1, start));
    OK(cuGraphNodeGetType(first, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    OK(cuGraphNodeGetType(wait, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    OK(cuGraphEventRecordNodeSetEvent(last, end));
    OK(cuGraphEventRecordNodeGetEvent(last, &seen));
    assert_ptr_equal(seen, end);
    OK(cuGraphEventWaitNodeGetEvent(wait, &seen));
    assert_ptr_equal(seen, start);
    OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    RETURNS(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
    run(executable);
    OK(cuEventElapsedTime(&milliseconds, start, end));
    assert_true(milliseconds >= 0);
    OK(cuGraphExecEventRecordNodeSetEvent(executable, last, start));
    OK(cuGraphExecEventWaitNodeSetEvent(executable, wait, end));
    RETURNS(cuGraphExecEventWaitNodeSetEvent(executable, last, end), 1);
    RETURNS(cuGraphAddEventWaitNode(&wait, graph, NULL, 0, NULL), 1);
    OK(cuEventDestroy_v2(end)); // the graph keeps only the handle
    run(executable);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(graph));
    OK(cuEventDestroy_v2(start));
}

// Under capture, an external event becomes a node. It does not become an event of the capture.
TEST(external_events)
{
    CUevent event;
    CUgraph graph = NULL;
    CUgraphExec executable = NULL;
    CUgraphNode nodes[3];
    CUgraphNodeType type;
    size_t count = 3;
    OK(cuEventCreate(&event, 0));
    RETURNS(cuEventRecordWithFlags(event, stream, 1), 1); // nothing is captured
    OK(cuStreamBeginCapture(stream));
    OK(cuStreamWaitEvent(stream, event, 1));
    OK(cuMemsetD32Async(data, 3, 1, stream));
    OK(cuEventRecordWithFlags(event, stream, 1));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphGetNodes(graph, nodes, &count));
    assert_int_equal(count, 3);
    OK(cuGraphNodeGetType(nodes[0], &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    OK(cuGraphNodeGetType(nodes[2], &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    run(executable);
    OK(cuEventSynchronize(event));
    assert_int_equal(emu_read(data), 3);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(graph));
    OK(cuEventDestroy_v2(event));
}

TEST(clones)
{
    struct chain c = { 0 };
    CUgraph clone = NULL;
    CUgraphExec executable = NULL;
    CUgraphNode set = NULL, copy = NULL, before = NULL;
    size_t count = 1;
    make(&c);
    OK(cuGraphClone(&clone, c.graph));
    OK(cuGraphNodeFindInClone(&set, c.set, clone));
    OK(cuGraphNodeFindInClone(&copy, c.copy, clone));
    assert_ptr_not_equal(set, c.set);
    OK(cuGraphNodeGetDependencies(copy, &before, &count));
    assert_int_equal(count, 1);
    assert_ptr_equal(before, set);
    const CUDA_MEMSET_NODE_PARAMS other = fill(12, 4);
    OK(cuGraphMemsetNodeSetParams(c.set, &other)); // the clone has its own work
    OK(cuGraphDestroy(c.graph));
    OK(cuGraphInstantiateWithFlags(&executable, clone, 0));
    run(executable);
    assert_int_equal(c.seen, 5);
    assert_int_equal(c.called, 1);
    RETURNS(cuGraphNodeFindInClone(&set, copy, clone), 1); // the clone has no clone
    RETURNS(cuGraphClone(NULL, clone), 1);
    RETURNS(cuGraphClone(&clone, NULL), 1);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(clone));
}

TEST(captured_into_a_graph)
{
    struct chain c = { 0 };
    CUgraph graph = NULL;
    CUgraphExec executable = NULL;
    CUgraphNode ends[2] = { NULL }, added = NULL;
    uint32_t value = 40, one = 1;
    void *params[] = { &data, &value }, *more[] = { &data, &one, &one };
    size_t count = 2;
    make(&c);
    RETURNS(cuStreamBeginCaptureToGraph(stream, NULL, NULL, NULL, 0, 2), 1);
    OK(cuStreamBeginCaptureToGraph(stream, c.graph, &c.call, NULL, 1,
                                   CU_STREAM_CAPTURE_MODE_RELAXED));
    RETURNS(cuGraphDestroy(c.graph), 1); // a capture adds to it
    OK(cuLaunchKernel(emu_function(module, "store"), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    // One node is added by a call; the captured nodes depend on it.
    const CUDA_MEMSET_NODE_PARAMS set = fill(90, 1);
    CUgraph capturing = NULL;
    CUstreamCaptureStatus status;
    const CUgraphNode *tail = NULL;
    OK(cuStreamGetCaptureInfo_v2(stream, &status, NULL, &capturing, &tail, &count));
    assert_ptr_equal(capturing, c.graph);
    assert_int_equal(count, 1);
    OK(cuGraphAddMemsetNode(&added, capturing, tail, count, &set, context));
    OK(cuStreamUpdateCaptureDependencies(stream, &added, 1, 1));
    OK(cuLaunchKernel(emu_function(module, "add"), 1, 1, 1, 1, 1, 1, 0, stream, more, NULL));
    RETURNS(cuStreamUpdateCaptureDependencies(stream, &added, 1, 2), 1);
    OK(cuStreamEndCapture(stream, &graph));
    assert_ptr_equal(graph, c.graph);
    RETURNS(cuStreamUpdateCaptureDependencies(stream, &added, 1, 1), CUDA_ERROR_ILLEGAL_STATE);
    OK(cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 6);
    count = 2;
    OK(cuGraphNodeGetDependentNodes(c.call, ends, &count));
    assert_int_equal(count, 1);
    OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    run(executable);
    assert_int_equal(c.called, 1);
    assert_int_equal(emu_read(data), 91);
    OK(cuGraphExecDestroy(executable));
    // A failed capture does not destroy the graph, which belongs to the caller.
    OK(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, 0));
    RETURNS(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    RETURNS(cuStreamEndCapture(stream, &capturing), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 6);
    OK(cuGraphDestroy(graph));
}

// ---- from several threads ----------------------------------------------------------------------

static atomic_bool busy;

// Other threads have to wait for the end of this work.
static void keep_busy(void *unused)
{
    (void)unused;
    atomic_store(&busy, true);
    nanosleep(&(struct timespec) { .tv_nsec = 30000000 }, NULL);
}

struct change {
    CUgraphExec executable;
    CUgraphNode node;
    CUfunction store;
    uint32_t value;
    CUresult result;
};

static CUDA_KERNEL_NODE_PARAMS_v2 stores(CUfunction function, void **params)
{
    const CUDA_KERNEL_NODE_PARAMS_v2 made = { .func = function,
                                              .kernelParams = params,
                                              EMU_ONE_THREAD };
    return made;
}

static void *change(void *of)
{
    struct change *c = of;
    const CUDA_KERNEL_NODE_PARAMS_v2 params = stores(c->store, (void *[]) { &data, &c->value });
    while (!atomic_load(&busy))
        nanosleep(&(struct timespec) { .tv_nsec = 100000 }, NULL);
    c->result = cuCtxSetCurrent(context);
    if (c->result == CUDA_SUCCESS)
        c->result = cuGraphExecKernelNodeSetParams_v2(c->executable, c->node, &params);
    return NULL;
}

// Two threads wait to replace the same parameters, which must be freed once.
TEST(changed_by_two_threads)
{
    uint32_t value = 3;
    const CUfunction store = emu_function(module, "store");
    const CUDA_KERNEL_NODE_PARAMS_v2 params = stores(store, (void *[]) { &data, &value });
    CUgraph graph = NULL;
    CUgraphExec executable = NULL;
    CUgraphNode node = NULL;
    pthread_t threads[2];
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params));
    OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    struct change changes[2] = { { executable, node, store, 40, 1 },
                                 { executable, node, store, 41, 1 } };
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, change, &changes[i]), 0);
    OK(cuLaunchHostFunc(stream, keep_busy, NULL));
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    OK(changes[0].result);
    OK(changes[1].result);
    run(executable);
    assert_true(emu_read(data) == 40 || emu_read(data) == 41);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(graph));
}

int main(void)
{
    context = emu_context();
    module = emu_module();
    OK(cuMemAlloc_v2(&data, 4096));
    OK(cuStreamCreate(&stream, 1));
    return tests_run(NULL, NULL);
}
