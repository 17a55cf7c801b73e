// SPDX-License-Identifier: MIT
// The elementwise kernels and the sum of squares in careful CUDA C++: one 16-byte vector per
// thread, and several loads in flight if nothing is written. Tensors begin at 16-byte boundaries.
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

// Each thread has the vector that begins here; the last thread has the remaining elements.
template <class T> __device__ uint64_t first_element()
{
    return (blockIdx.x * uint64_t(THREADS) + threadIdx.x) * lanes<T>;
}

template <class T> __device__ T scaled(T x, compute<T> scale)
{
    return T(compute<T>(x) * scale);
}

template <class T> __device__ vector<T> scaled(vector<T> v, compute<T> scale)
{
    for (T &lane : v.lane)
        lane = scaled(lane, scale);
    return v;
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    clip(T *__restrict__ gradient, uint64_t n, const float *__restrict__ record)
{
    const compute<T> scale = record[0];
    if (scale == 1)
        return;
    uint64_t at = first_element<T>();
    if (at + lanes<T> <= n)
        store(gradient + at, scaled(load(gradient + at), scale));
    else
        for (; at < n; at++)
            gradient[at] = scaled(gradient[at], scale);
}

template <class T> struct quantizer {
    compute<T> scale, low, high;

    __device__ T operator()(T x, T d) const
    {
        const compute<T> q = rint(compute<T>(x) / scale);
        return q >= low && q <= high ? T(compute<T>(d) / scale) : T(0.0f);
    }
};

template <class T>
__global__ void __launch_bounds__(THREADS)
    quantize(const T *__restrict__ x, const T *__restrict__ d_output, T *__restrict__ d_input,
             uint64_t n, quantizer<T> through)
{
    uint64_t at = first_element<T>();
    if (at + lanes<T> <= n) {
        const vector<T> value = load(x + at);
        vector<T> d = load(d_output + at);
#pragma unroll
        for (int k = 0; k < lanes<T>; k++)
            d.lane[k] = through(value.lane[k], d.lane[k]);
        store(d_input + at, d);
        return;
    }
    for (; at < n; at++)
        d_input[at] = through(x[at], d_output[at]);
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    lerp(const T *__restrict__ d_output, T *__restrict__ d_a, T *__restrict__ d_b, uint64_t n,
         compute<T> a, compute<T> b)
{
    uint64_t at = first_element<T>();
    if (at + lanes<T> <= n) {
        const vector<T> d = load(d_output + at);
        store(d_a + at, scaled(d, a));
        store(d_b + at, scaled(d, b));
        return;
    }
    for (; at < n; at++) {
        d_a[at] = scaled(d_output[at], a);
        d_b[at] = scaled(d_output[at], b);
    }
}

template <class F> int with_type(int dtype, F f)
{
    return with_type_of<float, double, __half, __nv_bfloat16>(dtype, f);
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
            (const T *)x, (const T *)d_output, (T *)d_input, n,
            quantizer<T> { C(scale), C(low), C(high) });
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
