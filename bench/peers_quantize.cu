// SPDX-License-Identifier: MIT
// The kernels of quantizers in careful CUDA C++. Tensors begin at 16-byte boundaries.
#include "peers.cuh"

#include <cuda_fp8.h>

namespace
{

enum { THREADS = 256, VECTORS = 4 };

template <class T> struct caster {
    float scale, greatest;

    __device__ __nv_fp8_storage_t operator()(T x)
    {
        greatest = fmaxf(greatest, fabsf(float(x)));
        return __nv_cvt_float_to_fp8(float(x) * scale, __NV_SATFINITE, __NV_E4M3);
    }

    __device__ __nv_fp8x2_storage_t operator()(T x, T y)
    {
        const float2 pair = { float(x), float(y) };
        greatest = fmaxf(greatest, fmaxf(fabsf(pair.x), fabsf(pair.y)));
        return __nv_cvt_float2_to_fp8x2({ pair.x * scale, pair.y * scale }, __NV_SATFINITE,
                                        __NV_E4M3);
    }
};

template <class T> __device__ void cast_vector(caster<T> &f, const vector<T> &v, uint8_t *y)
{
    alignas(8) __nv_fp8x2_storage_t pairs[lanes<T> / 2];
#pragma unroll
    for (int k = 0; k < lanes<T> / 2; k++)
        pairs[k] = f(v.lane[2 * k], v.lane[2 * k + 1]);
    using word = std::conditional_t<lanes<T> == 8, uint2, uint32_t>;
    word out;
    memcpy(&out, pairs, sizeof out);
    *(word *)y = out;
}

__device__ void merge(float greatest, float *amax)
{
    __shared__ int block;
    if (threadIdx.x == 0)
        block = 0;
    __syncthreads();
    for (int d = 16; d > 0; d /= 2)
        greatest = fmaxf(greatest, __shfl_down_sync(0xffffffff, greatest, d));
    if (threadIdx.x % 32 == 0)
        atomicMax(&block, __float_as_int(greatest));
    __syncthreads();
    if (threadIdx.x == 0)
        atomicMax((int *)amax, block);
}

// y = e4m3(x * scale), amax = max(amax, |x|); each thread has VECTORS vectors.
template <class T>
__global__ void __launch_bounds__(THREADS)
    cast_e4m3(const T *__restrict__ x, uint8_t *__restrict__ y, uint64_t n,
              const float *__restrict__ scale, float *__restrict__ amax)
{
    constexpr int L = lanes<T>;
    const uint64_t first = blockIdx.x * uint64_t(THREADS * VECTORS * L);
    caster<T> f = { *scale, 0 };
    if (first + THREADS * VECTORS * L <= n) {
        vector<T> v[VECTORS];
#pragma unroll
        for (int k = 0; k < VECTORS; k++)
            v[k] = load(x + first + (k * THREADS + threadIdx.x) * L);
#pragma unroll
        for (int k = 0; k < VECTORS; k++)
            cast_vector(f, v[k], y + first + (k * THREADS + threadIdx.x) * L);
    } else {
        for (uint64_t at = first + threadIdx.x; at < n; at += THREADS)
            y[at] = f(x[at]);
    }
    merge(f.greatest, amax);
}

// y = the level nearest to x / scale, from low to high, times scale; 0 * scale is +0.
template <class T> __device__ T scaled_back(T x, float scale, float low, float high)
{
    const float level = rintf(float(x) / scale);
    return T(fmaf(fminf(fmaxf(level, low), high), scale, 0.0f));
}

// Groups of GROUP elements with scales of their own, levels from -7 to 7; a vector for each thread.
template <class T>
__global__ void __launch_bounds__(THREADS)
    fake_quantize_groups(const T *__restrict__ x, T *__restrict__ y, uint64_t n)
{
    constexpr int L = lanes<T>, GROUP = 32;
    const uint64_t at = (blockIdx.x * uint64_t(THREADS) + threadIdx.x) * L;
    vector<T> v = {};
    if (at < n)
        v = load(x + at);
    float most = 0;
#pragma unroll
    for (int k = 0; k < L; k++)
        most = fmaxf(most, fabsf(float(v.lane[k])));
    for (int d = GROUP / L / 2; d > 0; d /= 2)
        most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, d));
    const float scale = most == 0 ? 1 : most / 7;
#pragma unroll
    for (int k = 0; k < L; k++)
        v.lane[k] = scaled_back(v.lane[k], scale, -7.0f, 7.0f);
    if (at < n)
        store(y + at, v);
}

// One scale, on the device.
template <class T>
__global__ void __launch_bounds__(THREADS)
    fake_quantize(const T *__restrict__ x, T *__restrict__ y, uint64_t n,
                  const float *__restrict__ scale, float low, float high)
{
    constexpr int L = lanes<T>;
    const uint64_t at = (blockIdx.x * uint64_t(THREADS) + threadIdx.x) * L;
    if (at + L <= n) {
        vector<T> v = load(x + at);
        const float inverse = 1 / *scale;
#pragma unroll
        for (int k = 0; k < L; k++) {
            const float level = rintf(float(v.lane[k]) * inverse);
            v.lane[k] = T(fmaf(fminf(fmaxf(level, low), high), *scale, 0.0f));
        }
        store(y + at, v);
    }
}

} // namespace

extern "C" int peers_fake_quantize_groups(int dtype, const void *x, void *y, uint64_t n,
                                          cudaStream_t stream)
{
    return with_type_of<float, __half, __nv_bfloat16>(dtype, [&](auto type) {
        using T = decltype(type);
        const uint64_t span = uint64_t(THREADS) * lanes<T>;
        fake_quantize_groups<T>
            <<<unsigned((n + span - 1) / span), THREADS, 0, stream>>>((const T *)x, (T *)y, n);
    });
}

extern "C" int peers_fake_quantize(int dtype, const void *x, void *y, uint64_t n,
                                   const float *scale, float low, float high, cudaStream_t stream)
{
    return with_type_of<float, __half, __nv_bfloat16>(dtype, [&](auto type) {
        using T = decltype(type);
        const uint64_t span = uint64_t(THREADS) * lanes<T>;
        fake_quantize<T><<<unsigned((n + span - 1) / span), THREADS, 0, stream>>>(
            (const T *)x, (T *)y, n, scale, low, high);
    });
}

extern "C" int peers_cast_e4m3(int dtype, const void *x, uint8_t *y, uint64_t n, const float *scale,
                               float *amax, cudaStream_t stream)
{
    return with_type_of<float, __half, __nv_bfloat16>(dtype, [&](auto type) {
        using T = decltype(type);
        const uint64_t span = uint64_t(THREADS) * VECTORS * lanes<T>;
        cast_e4m3<T><<<unsigned((n + span - 1) / span), THREADS, 0, stream>>>((const T *)x, y, n,
                                                                              scale, amax);
    });
}
