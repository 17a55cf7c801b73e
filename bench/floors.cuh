// SPDX-License-Identifier: MIT
// What the programs share that measure what parts of a step take at the least: checked calls,
// memory, graphs and their times.
#ifndef PTXGEN_BENCH_FLOORS_CUH
#define PTXGEN_BENCH_FLOORS_CUH

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        const cudaError_t status = call;                                                           \
        if (status != cudaSuccess) {                                                               \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));                   \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

namespace
{

constexpr float BETA1 = 0.9f, BETA2 = 0.999f, EPS = 1e-8f;

template <class T> T *memory(size_t count, unsigned char byte = 0)
{
    T *made = nullptr;
    CHECK(cudaMalloc(&made, count * sizeof(T)));
    CHECK(cudaMemset(made, byte, count * sizeof(T)));
    return made;
}

template <class F> cudaGraphExec_t captured(cudaStream_t stream, F launches)
{
    cudaGraph_t graph;
    cudaGraphExec_t made;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    launches();
    CHECK(cudaGetLastError());
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&made, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return made;
}

// Microseconds of a launch, of so many in turn.
float time_of(cudaStream_t stream, cudaGraphExec_t graph, int turns)
{
    static cudaEvent_t from, to;
    float ms;
    if (!from) {
        CHECK(cudaEventCreate(&from));
        CHECK(cudaEventCreate(&to));
    }
    CHECK(cudaEventRecord(from, stream));
    for (int turn = 0; turn < turns; turn++)
        CHECK(cudaGraphLaunch(graph, stream));
    CHECK(cudaEventRecord(to, stream));
    CHECK(cudaEventSynchronize(to));
    CHECK(cudaEventElapsedTime(&ms, from, to));
    return ms * 1000 / float(turns);
}

} // namespace

#endif
