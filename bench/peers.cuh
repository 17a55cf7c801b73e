// SPDX-License-Identifier: MIT
// What the peers in CUDA C++ share: types, 16-byte vectors, the sum over a block.
#ifndef PTXGEN_BENCH_PEERS_CUH
#define PTXGEN_BENCH_PEERS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

enum dtype { F32, F64, F16, BF16 };

template <class T> using compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T> constexpr int lanes = int(16 / sizeof(T));

template <class T> struct alignas(16) vector {
    T lane[16 / sizeof(T)];
};

// In one access: a struct of __nv_bfloat16 would be copied lane by lane.
template <class Bits, class To, class From> __device__ void copy_bits(To *to, const From *from)
{
    *(Bits *)to = *(const Bits *)from;
}

// Up to `left` elements; the others are 0.
template <class T> __device__ vector<T> load(const T *p, uint64_t left)
{
    vector<T> v;
    if (left >= uint64_t(lanes<T>)) {
        copy_bits<uint4>(&v, p);
        return v;
    }
#pragma unroll
    for (int k = 0; k < lanes<T>; k++)
        v.lane[k] = k < int(left) ? p[k] : T(0.0f);
    return v;
}

template <class T> __device__ void store(T *p, const vector<T> &v, uint64_t left)
{
    if (left >= uint64_t(lanes<T>)) {
        copy_bits<uint4>(p, &v);
        return;
    }
#pragma unroll
    for (int k = 0; k < lanes<T>; k++)
        if (k < int(left))
            p[k] = v.lane[k];
}

// The thread's squares out of THREADS * VECTORS vectors at x, of which `left` elements are there.
template <class T, class S, int THREADS, int VECTORS>
__device__ S thread_squares(const T *x, uint64_t left)
{
    constexpr int L = lanes<T>;
    vector<T> v[VECTORS];
    S sums[4] = {};
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        const uint64_t at = (k * THREADS + threadIdx.x) * uint64_t(L);
        v[k] = load(x + at, at < left ? left - at : 0);
    }
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
#pragma unroll
        for (int lane = 0; lane < L; lane++) {
            const S value = S(compute<T>(v[k].lane[lane]));
            sums[k % 4] += value * value;
        }
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// For thread 0.
template <int THREADS, class S> __device__ S block_sum(S sum)
{
    __shared__ S warps[THREADS / 32];
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, d);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < THREADS / 32 ? warps[threadIdx.x] : S(0);
        for (int d = 16; d > 0; d /= 2)
            sum += __shfl_down_sync(0xffffffff, sum, d);
    }
    return sum;
}

// Calls f with a T of that dtype; returns the error of its launches.
template <class F> int with_type(int dtype, F f)
{
    switch (dtype) {
    case F32:
        f(float());
        break;
    case F64:
        f(double());
        break;
    case F16:
        f(__half());
        break;
    case BF16:
        f(__nv_bfloat16());
        break;
    default:
        return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}

#endif
