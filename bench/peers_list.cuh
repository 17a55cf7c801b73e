// SPDX-License-Identifier: MIT
// The norm of a list of tensors in CUDA C++, in two versions: one launch over a table in device
// memory with sums in f64; and as apex's multi_tensor_apply does, with tables in the kernels'
// arguments, sums in f32, and one launch for each table. Tensors begin at 16-byte boundaries.
#ifndef PTXGEN_BENCH_PEERS_LIST_CUH
#define PTXGEN_BENCH_PEERS_LIST_CUH

#include "peers.cuh"

#include <cmath>
#include <vector>

namespace
{

struct record {
    float factor, norm, max_norm, unscale; // the last two are inputs
};

// A record of more than the clip has its own finish().
__device__ void finish(record *out, double sum)
{
    const float norm = float(sqrt(sum));
    const float scale = out->max_norm / (norm + 1e-6f);
    out->norm = norm;
    out->factor = (scale < 1 ? scale : 1) * out->unscale;
}

// ---- one launch ---------------------------------------------------------------------------------

enum { THREADS = 256, VECTORS = 8 };

struct chunk {
    void *data;
    uint64_t count;
};

template <class T> constexpr uint64_t chunk_elements = uint64_t(THREADS) * VECTORS *lanes<T>;

template <class T, class R>
__global__ void __launch_bounds__(THREADS)
    measure(const chunk *chunks, double *partials, unsigned *arrived, R *out)
{
    __shared__ bool last;
    const chunk c = chunks[blockIdx.x];
    double sum =
        block_sum<THREADS>(thread_squares<T, double, THREADS, VECTORS>((const T *)c.data, c.count));
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    sum = 0;
    for (unsigned k = threadIdx.x; k < gridDim.x; k += THREADS)
        sum += __ldcg(partials + k);
    sum = block_sum<THREADS>(sum);
    if (threadIdx.x == 0)
        finish(out, sum);
}

std::vector<chunk> chunks_of(uint64_t elements, size_t bytes, void *const *data,
                             const uint64_t *counts, size_t tensors)
{
    std::vector<chunk> chunks;
    for (size_t t = 0; t < tensors; t++)
        for (uint64_t at = 0; at < counts[t]; at += elements)
            chunks.push_back({ (char *)data[t] + at * bytes,
                               counts[t] - at < elements ? counts[t] - at : elements });
    return chunks;
}

// ---- in the manner of apex ----------------------------------------------------------------------

enum { APEX_THREADS = 512, APEX_BLOCKS = 320, APEX_CHUNK = 2048 * 32, ILP = 4 };

template <int DEPTH> struct table {
    static constexpr int MOST = DEPTH == 1 ? 110 : DEPTH == 2 ? 64 : 36;
    void *addresses[DEPTH][MOST];
    int sizes[MOST];
    unsigned char block_to_tensor[APEX_BLOCKS];
    int block_to_chunk[APEX_BLOCKS];
    int tensors, blocks;
};

template <class T> struct alignas(ILP * sizeof(T)) quad {
    T lane[ILP];
};

template <class T> __device__ quad<T> load_quad(const T *p)
{
    return from_bits<quad<T>>(*(const bits<T, ILP> *)p);
}

template <class T> __global__ void apex_norm(const __grid_constant__ table<1> t, float *sums)
{
    const int tensor = t.block_to_tensor[blockIdx.x], first = t.block_to_chunk[blockIdx.x];
    const T *x = (const T *)t.addresses[0][tensor] + size_t(first) * APEX_CHUNK;
    const int n = min(t.sizes[tensor] - first * APEX_CHUNK, int(APEX_CHUNK));
    float squares[ILP] = {};
    if (n % ILP == 0) {
        for (int i = threadIdx.x; i * ILP < n; i += blockDim.x) {
            const quad<T> q = load_quad(x + i * ILP);
            for (int k = 0; k < ILP; k++)
                squares[k] += float(q.lane[k]) * float(q.lane[k]);
        }
    } else {
        for (int i = threadIdx.x; i < n; i += blockDim.x)
            squares[0] += float(x[i]) * float(x[i]);
    }
    const float sum = block_sum<APEX_THREADS>(squares[0] + squares[1] + squares[2] + squares[3]);
    if (threadIdx.x == 0)
        sums[blockIdx.x] += sum;
}

template <class R> __global__ void apex_cleanup(const float *sums, R *out)
{
    const float sum = block_sum<APEX_THREADS>(threadIdx.x < APEX_BLOCKS ? sums[threadIdx.x] : 0);
    if (threadIdx.x == 0)
        finish(out, sum);
}

// `lists`: DEPTH arrays of addresses, one for each tensor.
template <int DEPTH>
std::vector<table<DEPTH>> tables_of(void *const *const *lists, const uint64_t *counts,
                                    size_t tensors)
{
    std::vector<table<DEPTH>> all(1);
    for (size_t t = 0; t < tensors; t++) {
        const uint64_t chunks = (counts[t] + APEX_CHUNK - 1) / APEX_CHUNK;
        int slot = -1;
        for (uint64_t k = 0; k < chunks; k++) {
            const bool full = all.back().blocks == APEX_BLOCKS ||
                              (slot < 0 && all.back().tensors == table<DEPTH>::MOST);
            if (full) {
                all.emplace_back();
                slot = -1;
            }
            table<DEPTH> &now = all.back();
            if (slot < 0) {
                slot = now.tensors++;
                for (int d = 0; d < DEPTH; d++)
                    now.addresses[d][slot] = lists[d][t];
                now.sizes[slot] = int(counts[t]);
            }
            now.block_to_tensor[now.blocks] = (unsigned char)slot;
            now.block_to_chunk[now.blocks++] = int(k);
        }
    }
    return all;
}

// ---- a norm of either kind ----------------------------------------------------------------------

// f64 has no peer here.
template <class F> int with_type(int dtype, F f)
{
    return with_type_of<float, __half, __nv_bfloat16>(dtype, f);
}

template <class R> struct list_norm {
    int dtype;
    bool apex;
    std::vector<table<1>> tables;
    unsigned chunk_count;
    chunk *chunks; // device memory, as are the following
    double *partials;
    float *sums;
    unsigned *arrived;
    R *out;
};

template <class R>
int norm_create(list_norm<R> *n, int dtype, bool apex, void *const *data, const uint64_t *counts,
                size_t tensors)
{
    std::vector<chunk> chunks;
    const int status = with_type(dtype, [&](auto of) {
        using T = decltype(of);
        chunks = chunks_of(chunk_elements<T>, sizeof(T), data, counts, tensors);
    });
    if (status != cudaSuccess)
        return status;
    n->dtype = dtype;
    n->apex = apex;
    n->tables = tables_of<1>(&data, counts, tensors);
    n->chunk_count = unsigned(chunks.size());
    cudaMalloc(&n->chunks, chunks.size() * sizeof(chunk));
    cudaMalloc(&n->partials, chunks.size() * sizeof(double));
    cudaMalloc(&n->sums, APEX_BLOCKS * sizeof(float));
    cudaMalloc(&n->arrived, sizeof(unsigned));
    cudaMalloc(&n->out, sizeof(R));
    cudaMemset(n->arrived, 0, sizeof(unsigned));
    cudaMemset(n->out, 0, sizeof(R));
    cudaMemcpy(n->chunks, chunks.data(), chunks.size() * sizeof(chunk), cudaMemcpyHostToDevice);
    return cudaGetLastError();
}

template <class R> int norm_run(const list_norm<R> *n, cudaStream_t stream)
{
    if (n->apex)
        cudaMemsetAsync(n->sums, 0, APEX_BLOCKS * sizeof *n->sums, stream);
    return with_type(n->dtype, [=](auto of) {
        using T = decltype(of);
        if (!n->apex) {
            measure<T><<<n->chunk_count, THREADS, 0, stream>>>(n->chunks, n->partials, n->arrived,
                                                               n->out);
            return;
        }
        for (const table<1> &t : n->tables)
            apex_norm<T><<<t.blocks, APEX_THREADS, 0, stream>>>(t, n->sums);
        apex_cleanup<<<1, APEX_THREADS, 0, stream>>>(n->sums, n->out);
    });
}

template <class R> void norm_destroy(list_norm<R> *n)
{
    cudaFree(n->chunks);
    cudaFree(n->partials);
    cudaFree(n->sums);
    cudaFree(n->arrived);
    cudaFree(n->out);
}

} // namespace

#endif
