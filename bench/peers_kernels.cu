// SPDX-License-Identifier: MIT
// The elementwise kernels and the sum of squares as one writes them in CUDA C++ with care: one
// 16-byte vector a thread, several loads in flight where nothing is written. Tensors begin at
// 16-byte boundaries.
#include "peers.cuh"

namespace
{

enum { THREADS = 256, VECTORS = 8 };

// partials[block] = sum of x^2 over the block's THREADS * VECTORS vectors, added up in S.
template <class T, class S>
__global__ void __launch_bounds__(THREADS)
    squared_sum(const T *__restrict__ x, uint64_t n, double *__restrict__ partials)
{
    constexpr int L = lanes<T>;
    const uint64_t first = blockIdx.x * uint64_t(THREADS * VECTORS * L);
    const S sum = block_sum<THREADS>(thread_squares<T, S, THREADS, VECTORS>(x + first, n - first));
    if (threadIdx.x == 0)
        partials[blockIdx.x] = double(sum);
}

template <class T, class Element> __device__ void for_vector(uint64_t n, Element element)
{
    constexpr int L = lanes<T>;
    const uint64_t first = (blockIdx.x * uint64_t(THREADS) + threadIdx.x) * L;
    element(first, first < n ? n - first : 0);
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    clip(T *__restrict__ gradient, uint64_t n, const float *__restrict__ record)
{
    const compute<T> scale = record[0];
    if (scale == 1)
        return;
    for_vector<T>(n, [=](uint64_t at, uint64_t left) {
        vector<T> v = load(gradient + at, left);
        for (T &g : v.lane)
            g = T(compute<T>(g) * scale);
        store(gradient + at, v, left);
    });
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    quantize(const T *__restrict__ x, const T *__restrict__ d_output, T *__restrict__ d_input,
             uint64_t n, compute<T> scale, compute<T> low, compute<T> high)
{
    for_vector<T>(n, [=](uint64_t at, uint64_t left) {
        const vector<T> value = load(x + at, left);
        vector<T> d = load(d_output + at, left);
        for (int k = 0; k < lanes<T>; k++) {
            const compute<T> q = rint(compute<T>(value.lane[k]) / scale);
            const bool inside = q >= low && q <= high;
            d.lane[k] = inside ? T(compute<T>(d.lane[k]) / scale) : T(0.0f);
        }
        store(d_input + at, d, left);
    });
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    lerp(const T *__restrict__ d_output, T *__restrict__ d_a, T *__restrict__ d_b, uint64_t n,
         compute<T> a, compute<T> b)
{
    for_vector<T>(n, [=](uint64_t at, uint64_t left) {
        const vector<T> d = load(d_output + at, left);
        vector<T> first, second;
        for (int k = 0; k < lanes<T>; k++) {
            first.lane[k] = T(compute<T>(d.lane[k]) * a);
            second.lane[k] = T(compute<T>(d.lane[k]) * b);
        }
        store(d_a + at, first, left);
        store(d_b + at, second, left);
    });
}

template <class T> unsigned blocks_for(uint64_t n, int vectors = 1)
{
    const uint64_t elements = uint64_t(THREADS) * vectors * lanes<T>;
    return unsigned((n + elements - 1) / elements);
}

} // namespace

// All return a cudaError_t; `dtype` is enum dtype.

extern "C" int peers_squared_sum(int dtype, int wide, const void *x, uint64_t n, double *partials,
                                 cudaStream_t stream)
{
    return with_type(dtype, [=](auto of) {
        using T = decltype(of);
        const auto kernel = wide ? squared_sum<T, double> : squared_sum<T, compute<T>>;
        kernel<<<blocks_for<T>(n, VECTORS), THREADS, 0, stream>>>((const T *)x, n, partials);
    });
}

extern "C" int peers_clip(int dtype, void *gradient, uint64_t n, const float *record,
                          cudaStream_t stream)
{
    return with_type(dtype, [=](auto of) {
        using T = decltype(of);
        clip<T><<<blocks_for<T>(n), THREADS, 0, stream>>>((T *)gradient, n, record);
    });
}

extern "C" int peers_quantize(int dtype, const void *x, const void *d_output, void *d_input,
                              uint64_t n, double scale, int low, int high, cudaStream_t stream)
{
    return with_type(dtype, [=](auto of) {
        using T = decltype(of);
        using C = compute<T>;
        quantize<T><<<blocks_for<T>(n), THREADS, 0, stream>>>(
            (const T *)x, (const T *)d_output, (T *)d_input, n, C(scale), C(low), C(high));
    });
}

extern "C" int peers_lerp(int dtype, const void *d_output, void *d_a, void *d_b, uint64_t n,
                          double weight, cudaStream_t stream)
{
    return with_type(dtype, [=](auto of) {
        using T = decltype(of);
        using C = compute<T>;
        lerp<T><<<blocks_for<T>(n), THREADS, 0, stream>>>((const T *)d_output, (T *)d_a, (T *)d_b,
                                                          n, C(1.0 - weight), C(weight));
    });
}
