// SPDX-License-Identifier: MIT
// What the peers in CUDA C++ share: types, 16-byte vectors, the sum over a block.
#ifndef PTXGEN_BENCH_PEERS_CUH
#define PTXGEN_BENCH_PEERS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

enum dtype { F32, F64, F16, BF16 };

template <class T> using compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T> constexpr int lanes = int(16 / sizeof(T));

template <class T> struct alignas(16) vector {
    T lane[16 / sizeof(T)];
};

// A type that moves `count` lanes of T in one access: the compiler would copy a struct of
// __nv_bfloat16 lane by lane.
template <class T, int count>
using bits = std::conditional_t<
    sizeof(T) * count == 8, uint2,
    std::conditional_t<sizeof(T) == 2, uint4, std::conditional_t<sizeof(T) == 4, float4, double2>>>;

template <class To, class Bits> __device__ To from_bits(Bits in)
{
    To out;
    static_assert(sizeof in == sizeof out);
    memcpy(&out, &in, sizeof out);
    return out;
}

template <class T> __device__ vector<T> load(const T *p)
{
    return from_bits<vector<T>>(*(const bits<T, lanes<T>> *)p);
}

template <class T> __device__ void store(T *p, const vector<T> &v)
{
    *(bits<T, lanes<T>> *)p = from_bits<bits<T, lanes<T>>>(v);
}

// Adds the square of each lane to sum.
template <class T, class S> __device__ void add_squares(const vector<T> &v, S &sum)
{
#pragma unroll
    for (int lane = 0; lane < lanes<T>; lane++) {
        const S value = S(compute<T>(v.lane[lane]));
        sum += value * value;
    }
}

// The sum of squares of this thread's vectors, out of THREADS * VECTORS vectors at x, `left`
// elements of which exist.
template <class T, class S, int THREADS, int VECTORS>
__device__ S thread_squares(const T *x, uint64_t left)
{
    constexpr int L = lanes<T>;
    S sums[4] = {};
    if (left >= uint64_t(THREADS) * VECTORS * L) {
        vector<T> v[VECTORS];
#pragma unroll
        for (int k = 0; k < VECTORS; k++)
            v[k] = load(x + (k * THREADS + threadIdx.x) * L);
#pragma unroll
        for (int k = 0; k < VECTORS; k++)
            add_squares(v[k], sums[k % 4]);
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
    const uint64_t whole = left / L * L;
    for (uint64_t at = threadIdx.x * L; at < whole; at += THREADS * L)
        add_squares(load(x + at), sums[0]);
    if (whole + threadIdx.x < left) {
        const S value = S(compute<T>(x[whole + threadIdx.x]));
        sums[1] = value * value;
    }
    return sums[0] + sums[1];
}

// Valid in thread 0.
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

template <class T>
constexpr dtype dtype_of = std::is_same_v<T, double>   ? F64
                           : std::is_same_v<T, __half> ? F16
                           : std::is_same_v<T, float>  ? F32
                                                       : BF16;

// Calls f with the type of Ts that has this dtype; returns the error of the launches.
template <class... Ts, class F> int with_type_of(int dtype, F f)
{
    const bool called = ((dtype == dtype_of<Ts> && (f(Ts()), true)) || ...);
    return called ? cudaGetLastError() : cudaErrorInvalidValue;
}

#endif
