// SPDX-License-Identifier: MIT
// Clips a list of tensors in CUDA C++, in two versions: two launches over a table in device memory
// with sums in f64; and as apex's multi_tensor_apply does, with tables in the kernels' arguments,
// sums in f32, and one launch for each table. Tensors begin at 16-byte boundaries.
#include "peers.cuh"

#include <cmath>
#include <vector>

namespace
{

// As in apex: no f64.
template <class F> int with_type(int dtype, F f)
{
    return with_type_of<float, __half, __nv_bfloat16>(dtype, f);
}

struct record {
    float factor, norm, max_norm, unscale; // the last two are inputs
};

__device__ void finish(record *out, double sum)
{
    const float norm = float(sqrt(sum));
    const float scale = out->max_norm / (norm + 1e-6f);
    out->norm = norm;
    out->factor = (scale < 1 ? scale : 1) * out->unscale;
}

// ---- two launches -------------------------------------------------------------------------------

enum { THREADS = 256, VECTORS = 8 };

struct chunk {
    void *data;
    uint64_t count;
};

template <class T> constexpr uint64_t chunk_elements = uint64_t(THREADS) * VECTORS *lanes<T>;

template <class T>
__global__ void __launch_bounds__(THREADS)
    measure(const chunk *chunks, double *partials, unsigned *arrived, record *out)
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

// Backwards, because the last chunks are still in the cache.
template <class T>
__global__ void __launch_bounds__(THREADS) apply(const chunk *chunks, const record *out)
{
    constexpr int L = lanes<T>;
    const float factor = out->factor;
    if (factor == 1)
        return;
    const chunk c = chunks[gridDim.x - 1 - blockIdx.x];
    T *data = (T *)c.data;
    if (c.count == chunk_elements<T>) {
        vector<T> v[VECTORS];
#pragma unroll
        for (int k = 0; k < VECTORS; k++)
            v[k] = load(data + (k * THREADS + threadIdx.x) * L);
#pragma unroll
        for (int k = 0; k < VECTORS; k++) {
            for (T &g : v[k].lane)
                g = T(compute<T>(g) * compute<T>(factor));
            store(data + (k * THREADS + threadIdx.x) * L, v[k]);
        }
        return;
    }
    for (uint64_t at = threadIdx.x; at < c.count; at += THREADS)
        data[at] = T(compute<T>(data[at]) * compute<T>(factor));
}

// ---- in the manner of apex ----------------------------------------------------------------------

enum { APEX_THREADS = 512, APEX_BLOCKS = 320, APEX_CHUNK = 2048 * 32, ILP = 4 };

template <int DEPTH> struct table {
    static constexpr int MOST = DEPTH == 1 ? 110 : 64;
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

__global__ void apex_cleanup(const float *sums, record *out)
{
    const float sum = block_sum<APEX_THREADS>(threadIdx.x < APEX_BLOCKS ? sums[threadIdx.x] : 0);
    if (threadIdx.x == 0)
        finish(out, sum);
}

template <class T>
__global__ void apex_scale(const __grid_constant__ table<2> t, const record *out, int *overflow)
{
    const int tensor = t.block_to_tensor[blockIdx.x], first = t.block_to_chunk[blockIdx.x];
    const T *from = (const T *)t.addresses[0][tensor] + size_t(first) * APEX_CHUNK;
    T *to = (T *)t.addresses[1][tensor] + size_t(first) * APEX_CHUNK;
    const int n = min(t.sizes[tensor] - first * APEX_CHUNK, int(APEX_CHUNK));
    const float factor = out->factor;
    bool finite = true;
    if (n % ILP == 0) {
        for (int i = threadIdx.x; i * ILP < n; i += blockDim.x) {
            quad<T> q = load_quad(from + i * ILP);
            for (T &g : q.lane) {
                finite = finite && isfinite(float(g));
                g = T(float(g) * factor);
            }
            *(bits<T, ILP> *)(to + i * ILP) = from_bits<bits<T, ILP>>(q);
        }
    } else {
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
            finite = finite && isfinite(float(from[i]));
            to[i] = T(float(from[i]) * factor);
        }
    }
    if (!finite)
        *overflow = 1;
}

template <int DEPTH>
std::vector<table<DEPTH>> tables_of(void *const *data, const uint64_t *counts, size_t tensors)
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
                    now.addresses[d][slot] = data[t];
                now.sizes[slot] = int(counts[t]);
            }
            now.block_to_tensor[now.blocks] = (unsigned char)slot;
            now.block_to_chunk[now.blocks++] = int(k);
        }
    }
    return all;
}

// ---- a clip of either kind ----------------------------------------------------------------------

struct clip {
    int dtype;
    bool apex;
    std::vector<table<1>> norms;
    std::vector<table<2>> scales;
    unsigned chunk_count;
    chunk *chunks; // device memory, as are the following
    double *partials;
    float *sums;
    int *overflow;
    unsigned *arrived;
    record *out;
};

int run_two_launches(const clip *c, cudaStream_t stream)
{
    return with_type(c->dtype, [=](auto of) {
        using T = decltype(of);
        measure<T>
            <<<c->chunk_count, THREADS, 0, stream>>>(c->chunks, c->partials, c->arrived, c->out);
        apply<T><<<c->chunk_count, THREADS, 0, stream>>>(c->chunks, c->out);
    });
}

int run_apex(const clip *c, cudaStream_t stream)
{
    cudaMemsetAsync(c->sums, 0, APEX_BLOCKS * sizeof *c->sums, stream);
    return with_type(c->dtype, [=](auto of) {
        using T = decltype(of);
        for (const table<1> &t : c->norms)
            apex_norm<T><<<t.blocks, APEX_THREADS, 0, stream>>>(t, c->sums);
        apex_cleanup<<<1, APEX_THREADS, 0, stream>>>(c->sums, c->out);
        for (const table<2> &t : c->scales)
            apex_scale<T><<<t.blocks, APEX_THREADS, 0, stream>>>(t, c->out, c->overflow);
    });
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

} // namespace

// NULL if memory ran out or the dtype is unknown.
extern "C" void *peers_clip_create(int dtype, int apex, void *const *data, const uint64_t *counts,
                                   size_t tensors)
{
    std::vector<chunk> chunks;
    if (with_type(dtype, [&](auto of) {
            using T = decltype(of);
            chunks = chunks_of(chunk_elements<T>, sizeof(T), data, counts, tensors);
        }) != cudaSuccess)
        return nullptr;
    clip *c = new clip {};
    c->dtype = dtype;
    c->apex = apex != 0;
    c->norms = tables_of<1>(data, counts, tensors);
    c->scales = tables_of<2>(data, counts, tensors);
    c->chunk_count = unsigned(chunks.size());
    cudaMalloc(&c->chunks, chunks.size() * sizeof(chunk));
    cudaMalloc(&c->partials, chunks.size() * sizeof(double));
    cudaMalloc(&c->sums, APEX_BLOCKS * sizeof(float));
    cudaMalloc(&c->overflow, sizeof(int));
    cudaMalloc(&c->arrived, sizeof(unsigned));
    cudaMalloc(&c->out, sizeof(record));
    cudaMemset(c->arrived, 0, sizeof(unsigned));
    cudaMemcpy(c->chunks, chunks.data(), chunks.size() * sizeof(chunk), cudaMemcpyHostToDevice);
    return cudaGetLastError() == cudaSuccess ? c : nullptr;
}

extern "C" int peers_clip_configure(void *handle, float max_norm, float unscale)
{
    const record in = { 0, 0, max_norm, unscale };
    return cudaMemcpy(((clip *)handle)->out, &in, sizeof in, cudaMemcpyHostToDevice);
}

extern "C" int peers_clip_run(void *handle, cudaStream_t stream)
{
    const clip *c = (const clip *)handle;
    return c->apex ? run_apex(c, stream) : run_two_launches(c, stream);
}

// Waits for the device.
extern "C" int peers_clip_norm(void *handle, float *norm)
{
    record out;
    const int status = cudaMemcpy(&out, ((clip *)handle)->out, sizeof out, cudaMemcpyDeviceToHost);
    *norm = out.norm;
    return status;
}

extern "C" void peers_clip_destroy(void *handle)
{
    clip *c = (clip *)handle;
    cudaFree(c->chunks);
    cudaFree(c->partials);
    cudaFree(c->sums);
    cudaFree(c->overflow);
    cudaFree(c->arrived);
    cudaFree(c->out);
    delete c;
}
