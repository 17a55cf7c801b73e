// SPDX-License-Identifier: MIT
// Clips a list of tensors in CUDA C++, in two versions: the norm of peers_list.cuh and one launch
// that scales; and as apex's multi_tensor_apply does.
#include "peers_list.cuh"

namespace
{

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

struct clip {
    list_norm<record> measured;
    std::vector<table<2>> scales;
    int *overflow; // device memory
};

} // namespace

// NULL if memory ran out or the dtype is unknown.
extern "C" void *peers_clip_create(int dtype, int apex, void *const *data, const uint64_t *counts,
                                   size_t tensors)
{
    void *const *const lists[] = { data, data };
    clip *c = new clip {};
    c->scales = tables_of<2>(lists, counts, tensors);
    cudaMalloc(&c->overflow, sizeof(int));
    if (norm_create(&c->measured, dtype, apex != 0, data, counts, tensors) == cudaSuccess)
        return c;
    delete c;
    return nullptr;
}

extern "C" int peers_clip_configure(void *handle, float max_norm, float unscale)
{
    const record in = { 0, 0, max_norm, unscale };
    return cudaMemcpy(((clip *)handle)->measured.out, &in, sizeof in, cudaMemcpyHostToDevice);
}

extern "C" int peers_clip_run(void *handle, cudaStream_t stream)
{
    const clip *c = (const clip *)handle;
    const list_norm<record> *n = &c->measured;
    const int status = norm_run(n, stream);
    if (status != cudaSuccess)
        return status;
    return with_type(n->dtype, [=](auto of) {
        using T = decltype(of);
        if (!n->apex) {
            apply<T><<<n->chunk_count, THREADS, 0, stream>>>(n->chunks, n->out);
            return;
        }
        for (const table<2> &t : c->scales)
            apex_scale<T><<<t.blocks, APEX_THREADS, 0, stream>>>(t, n->out, c->overflow);
    });
}

// Waits for the device.
extern "C" int peers_clip_norm(void *handle, float *result)
{
    record out;
    const int status =
        cudaMemcpy(&out, ((clip *)handle)->measured.out, sizeof out, cudaMemcpyDeviceToHost);
    *result = out.norm;
    return status;
}

extern "C" void peers_clip_destroy(void *handle)
{
    clip *c = (clip *)handle;
    norm_destroy(&c->measured);
    cudaFree(c->overflow);
    delete c;
}
