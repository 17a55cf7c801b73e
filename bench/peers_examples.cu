// SPDX-License-Identifier: MIT
// The examples' softmax and matrix product in CUDA C++: the same plan, written for nvcc.
#include "peers.cuh"

#include <cuda_pipeline.h>
#include <mma.h>

namespace
{

// The pages show the lines between here and the end mark.
enum { WARP = 32, MAX_ELEMENTS = 16, MAX_THREADS = 1024 };

constexpr int row_threads(int columns)
{
    int threads = WARP;
    while (threads < MAX_THREADS && threads * MAX_ELEMENTS < columns)
        threads *= 2;
    return threads;
}

struct maximum {
    __device__ float operator()(float x, float y) const
    {
        return fmaxf(x, y);
    }
};
struct plus {
    __device__ float operator()(float x, float y) const
    {
        return x + y;
    }
};

template <class Op> __device__ float warp_reduce(Op op, float x, int lanes)
{
    for (int mask = lanes / 2; mask > 0; mask /= 2)
        x = op(x, __shfl_xor_sync(0xffffffff, x, mask));
    return x;
}

// Reduces x over the threads of the row; each gets the result.
template <int THREADS, class Op> __device__ float row_reduce(Op op, float x)
{
    constexpr int WARPS = THREADS / WARP;
    x = warp_reduce(op, x, WARP);
    if constexpr (WARPS > 1) {
        __shared__ float parts[WARPS];
        if (threadIdx.x % WARP == 0)
            parts[threadIdx.x / WARP] = x;
        __syncthreads();
        x = warp_reduce(op, parts[threadIdx.x % WARPS], WARPS);
    }
    return x;
}

template <class T, int COLUMNS, int THREADS = row_threads(COLUMNS),
          int TOGETHER = THREADS == WARP ? 4 : 1>
__global__ void __launch_bounds__(THREADS *TOGETHER)
    softmax(const T *__restrict__ x, T *__restrict__ y, unsigned rows)
{
    constexpr int L = lanes<T>, VECTORS = (COLUMNS + THREADS * L - 1) / (THREADS * L);
    const unsigned row = blockIdx.x * TOGETHER + threadIdx.x / THREADS;
    if (row >= rows)
        return;
    const uint64_t start = uint64_t(row) * COLUMNS;
    const int first = threadIdx.x % THREADS * L;
    float e[VECTORS][L], max = -INFINITY, sum = 0;

#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const int column = first + v * THREADS * L;
        vector<T> loaded;
        if (column < COLUMNS)
            loaded = load(x + start + column);
#pragma unroll
        for (int k = 0; k < L; k++) {
            e[v][k] = column < COLUMNS ? float(loaded.lane[k]) : -INFINITY;
            max = fmaxf(max, e[v][k]);
        }
    }
    max = row_reduce<THREADS>(maximum(), max);
#pragma unroll
    for (int v = 0; v < VECTORS; v++)
#pragma unroll
        for (int k = 0; k < L; k++) {
            e[v][k] = __expf(e[v][k] - max);
            sum += e[v][k];
        }
    const float scale = 1 / row_reduce<THREADS>(plus(), sum);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const int column = first + v * THREADS * L;
        vector<T> out;
#pragma unroll
        for (int k = 0; k < L; k++)
            out.lane[k] = T(e[v][k] * scale);
        if (column < COLUMNS)
            store(y + start + column, out);
    }
}
// End of what the pages show.

template <class T, int COLUMNS>
int launch_softmax(const void *x, void *y, unsigned rows, cudaStream_t stream)
{
    constexpr int threads = row_threads(COLUMNS), together = threads == WARP ? 4 : 1;
    softmax<T, COLUMNS><<<(rows + together - 1) / together, threads * together, 0, stream>>>(
        (const T *)x, (T *)y, rows);
    return cudaGetLastError();
}

// ---- a matrix product ---------------------------------------------------------------------------

namespace tc = nvcuda::wmma;

enum {
    TILE_M = 128,
    TILE_N = 256,
    TILE_K = 64,
    PART = 64, // of a warp, both ways
    STAGES = 3,
    STEPS = TILE_K / 16,
    GROUP = 8,
    THREADS = 256,
    A_STRIDE = TILE_K + 8,
    B_STRIDE = TILE_N + 8,
    C_STRIDE = PART + 4,
    A_ELEMENTS = TILE_M * A_STRIDE,
    STAGE = A_ELEMENTS + TILE_K * B_STRIDE,
    SHARED_BYTES = STAGES * STAGE * 2,
};
using bf16 = __nv_bfloat16;

template <int ROWS, int COLUMNS>
__device__ void copy_tile(bf16 *to, const bf16 *from, unsigned stride)
{
    constexpr int PIECES = COLUMNS / 8, STEP = THREADS / PIECES;
    const int row = threadIdx.x / PIECES, column = threadIdx.x % PIECES * 8;
#pragma unroll
    for (int r = 0; r < ROWS; r += STEP)
        __pipeline_memcpy_async(to + (row + r) * (COLUMNS + 8) + column,
                                from + uint64_t(row + r) * stride + column, 16);
}

__global__ void __launch_bounds__(THREADS)
    matmul(const bf16 *__restrict__ a, const bf16 *__restrict__ b, bf16 *__restrict__ c,
           unsigned rows, unsigned columns, unsigned depth)
{
    extern __shared__ __align__(128) bf16 shared[];
    const unsigned group_size = columns / TILE_N * GROUP, in_group = blockIdx.x % group_size;
    const unsigned first = blockIdx.x / group_size * GROUP;
    const unsigned height = min(rows / TILE_M - first, unsigned(GROUP));
    const unsigned row = (first + in_group % height) * TILE_M, column = in_group / height * TILE_N;
    const int warp = threadIdx.x / 32, x = warp / 4 * PART, y = warp % 4 * PART;
    const bf16 *from_a = a + uint64_t(row) * depth, *from_b = b + column;
    tc::fragment<tc::accumulator, 16, 16, 16, float> sums[4][4];

    const auto copy = [&](unsigned k, int stage) {
        if (k < depth) {
            copy_tile<TILE_M, TILE_K>(shared + stage * STAGE, from_a + k, depth);
            copy_tile<TILE_K, TILE_N>(shared + stage * STAGE + A_ELEMENTS,
                                      from_b + uint64_t(k) * columns, columns);
        }
        __pipeline_commit();
    };
    for (int stage = 0; stage < STAGES - 1; stage++)
        copy(stage * TILE_K, stage);
    for (auto &line : sums)
        for (auto &sum : line)
            tc::fill_fragment(sum, 0.0f);
    tc::fragment<tc::matrix_a, 16, 16, 16, bf16, tc::row_major> left[2][4];
    tc::fragment<tc::matrix_b, 16, 16, 16, bf16, tc::row_major> right[2][4];
    const auto load = [&](int stage, int step, int part) {
        const bf16 *at_a = shared + stage * STAGE + x * A_STRIDE + 16 * step;
        const bf16 *at_b = shared + stage * STAGE + A_ELEMENTS + y + 16 * step * B_STRIDE;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            tc::load_matrix_sync(left[part][i], at_a + 16 * i * A_STRIDE, A_STRIDE);
            tc::load_matrix_sync(right[part][i], at_b + 16 * i, B_STRIDE);
        }
    };
    int stage = 0, next = STAGES - 1;
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    load(0, 0, 0);
    for (unsigned k = 0; k < depth; k += TILE_K) {
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            if (step == STEPS - 1) {
                __pipeline_wait_prior(STAGES - 2);
                __syncthreads();
                next = stage;
                stage = stage == STAGES - 1 ? 0 : stage + 1;
            }
            load(stage, (step + 1) % STEPS, (step + 1) % 2);
            if (step == 0)
                copy(k + (STAGES - 1) * TILE_K, next);
#pragma unroll
            for (int m = 0; m < 4; m++)
#pragma unroll
                for (int n = 0; n < 4; n++)
                    tc::mma_sync(sums[m][n], left[step % 2][m], right[step % 2][n], sums[m][n]);
        }
    }
    // Through shared memory, because the places of an accumulator's elements are unspecified.
    __pipeline_wait_prior(0);
    __syncthreads();
    float *mine = (float *)shared + warp * PART * C_STRIDE;
#pragma unroll
    for (int m = 0; m < 4; m++)
#pragma unroll
        for (int n = 0; n < 4; n++)
            tc::store_matrix_sync(mine + 16 * m * C_STRIDE + 16 * n, sums[m][n], C_STRIDE,
                                  tc::mem_row_major);
    __syncwarp();
    const int lane = threadIdx.x % 32;
    for (int r = lane / 8; r < PART; r += 4) {
        vector<bf16> out;
#pragma unroll
        for (int i = 0; i < 8; i++)
            out.lane[i] = bf16(mine[r * C_STRIDE + lane % 8 * 8 + i]);
        store(c + uint64_t(row + x + r) * columns + column + y + lane % 8 * 8, out);
    }
}

} // namespace

// Both return a cudaError_t; `dtype` is enum dtype.

extern "C" int peers_softmax(int dtype, const void *x, void *y, unsigned rows, unsigned columns,
                             cudaStream_t stream)
{
    int status = cudaErrorInvalidValue;
    const int known = with_type_of<float, __nv_bfloat16>(dtype, [&](auto of) {
        using T = decltype(of);
        status = columns == 1024    ? launch_softmax<T, 1024>(x, y, rows, stream)
                 : columns == 4096  ? launch_softmax<T, 4096>(x, y, rows, stream)
                 : columns == 16384 ? launch_softmax<T, 16384>(x, y, rows, stream)
                                    : cudaErrorInvalidValue;
    });
    return known ? known : status;
}

extern "C" int peers_matmul(const void *a, const void *b, void *c, unsigned rows, unsigned columns,
                            unsigned depth, cudaStream_t stream)
{
    const cudaError_t status =
        cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
    if (status != cudaSuccess)
        return status;
    matmul<<<rows / TILE_M *(columns / TILE_N), THREADS, SHARED_BYTES, stream>>>(
        (const bf16 *)a, (const bf16 *)b, (bf16 *)c, rows, columns, depth);
    return cudaGetLastError();
}
