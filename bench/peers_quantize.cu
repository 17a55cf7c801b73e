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

// ---- learned quantizers -------------------------------------------------------------------------

// A quantizer with its levels around the zero point.
struct quantizer {
    float scale, inverse, low, high;
};

__device__ quantizer quantizer_at(const float *scale, const float *zero_point, uint64_t channel,
                                  float low, float high)
{
    const float zero = rintf(zero_point[channel]);
    return { scale[channel], 1 / scale[channel], low - zero, high - zero };
}

struct gradients {
    float scale = 0, zero_point = 0;
};

// Adds the terms of an element; returns d_input.
template <class T> __device__ T add_terms(gradients &sums, const quantizer &q, T x, T d_output)
{
    const float quotient = float(x) * q.inverse, dy = float(d_output);
    const float level = rintf(quotient);
    const float nearest = fminf(fmaxf(level, q.low), q.high);
    const bool inside = nearest == level;
    sums.scale = fmaf(dy, inside ? nearest - quotient : nearest, sums.scale);
    if (!inside)
        sums.zero_point = fmaf(dy, -q.scale, sums.zero_point);
    return inside ? d_output : T(0.0f);
}

template <class T>
__device__ void pass_vector(gradients &sums, const quantizer &q, const vector<T> &x,
                            vector<T> d_output, T *d_input)
{
#pragma unroll
    for (int k = 0; k < lanes<T>; k++)
        d_output.lane[k] = add_terms(sums, q, x.lane[k], d_output.lane[k]);
    store(d_input, d_output);
}

// What the launches share. The tensors are [outer, channels, inner].
template <class T> struct learned {
    const T *x, *d_output;
    T *d_input;
    uint64_t channels, inner;
    const float *scale, *zero_point;
    float low, high;
    double2 *partials; // [outer, channels, per_row] of rows, [tiles, channels] of columns
    unsigned per_row;
};

enum { PIECE = 16384, TILE_ROWS = 256 };

// A block for PIECE elements of a row. The length of a row is a multiple of a vector.
template <class T> __global__ void __launch_bounds__(THREADS) learned_rows(const learned<T> w)
{
    constexpr int L = lanes<T>, STEP = THREADS * L;
    const uint64_t row = blockIdx.x / w.per_row;
    const uint64_t begin = uint64_t(blockIdx.x % w.per_row) * PIECE;
    const int length = int(min(w.inner - begin, uint64_t(PIECE)));
    const uint64_t first = row * w.inner + begin;
    const quantizer q = quantizer_at(w.scale, w.zero_point, row % w.channels, w.low, w.high);
    gradients sums;
    int at = int(threadIdx.x) * L;
    for (; at + (VECTORS - 1) * STEP < length; at += VECTORS * STEP) {
        vector<T> x[VECTORS], dy[VECTORS];
#pragma unroll
        for (int k = 0; k < VECTORS; k++) {
            x[k] = load(w.x + first + at + k * STEP);
            dy[k] = load(w.d_output + first + at + k * STEP);
        }
#pragma unroll
        for (int k = 0; k < VECTORS; k++)
            pass_vector(sums, q, x[k], dy[k], w.d_input + first + at + k * STEP);
    }
    for (; at < length; at += STEP)
        pass_vector(sums, q, load(w.x + first + at), load(w.d_output + first + at),
                    w.d_input + first + at);
    const double scale = block_sum<THREADS>(double(sums.scale));
    __syncthreads();
    const double zero_point = block_sum<THREADS>(double(sums.zero_point));
    if (threadIdx.x == 0)
        w.partials[blockIdx.x] = { scale, zero_point };
}

// A block for TILE_ROWS rows of up to 32 vectors of columns, one channel each; `across` threads, a
// power of two, have a row.
template <class T>
__global__ void __launch_bounds__(THREADS)
    learned_columns(const learned<T> w, uint64_t rows, unsigned across)
{
    constexpr int L = lanes<T>;
    __shared__ gradients shared[THREADS * L];
    const unsigned lane = threadIdx.x % across, down = THREADS / across;
    const unsigned mine = threadIdx.x / across;
    const uint64_t column = (uint64_t(blockIdx.x) * across + lane) * L;
    const uint64_t top = uint64_t(blockIdx.y) * TILE_ROWS;
    const uint64_t bottom = min(top + TILE_ROWS, rows);
    quantizer q[L];
    gradients sums[L];
#pragma unroll
    for (int k = 0; k < L; k++)
        q[k] = quantizer_at(w.scale, w.zero_point, column + k, w.low, w.high);
    constexpr int AHEAD = 2;
    for (uint64_t row = top + mine; row < bottom; row += AHEAD * down) {
        vector<T> x[AHEAD], dy[AHEAD];
#pragma unroll
        for (int v = 0; v < AHEAD; v++)
            if (row + v * down < bottom) {
                x[v] = load(w.x + (row + v * down) * w.channels + column);
                dy[v] = load(w.d_output + (row + v * down) * w.channels + column);
            }
#pragma unroll
        for (int v = 0; v < AHEAD; v++)
            if (row + v * down < bottom) {
#pragma unroll
                for (int k = 0; k < L; k++)
                    dy[v].lane[k] = add_terms(sums[k], q[k], x[v].lane[k], dy[v].lane[k]);
                store(w.d_input + (row + v * down) * w.channels + column, dy[v]);
            }
    }
#pragma unroll
    for (int k = 0; k < L; k++)
        shared[(mine * across + lane) * L + k] = sums[k];
    __syncthreads();
    for (unsigned c = threadIdx.x; c < across * L; c += THREADS) {
        double2 total = { 0, 0 };
        for (unsigned d = 0; d < down; d++) {
            total.x += shared[d * across * L + c].scale;
            total.y += shared[d * across * L + c].zero_point;
        }
        w.partials[blockIdx.y * w.channels + uint64_t(blockIdx.x) * across * L + c] = total;
    }
}

// The partials of a channel, summed by `TEAM` threads.
template <int TEAM>
__global__ void __launch_bounds__(TEAM < THREADS ? THREADS : TEAM)
    finish_learned(const double2 *partials, uint64_t outer, uint64_t channels, unsigned per_row,
                   float *d_scale, float *d_zero_point)
{
    const uint64_t channel = (uint64_t(blockIdx.x) * blockDim.x + threadIdx.x) / TEAM;
    const unsigned lane = threadIdx.x % TEAM;
    double2 total = { 0, 0 };
    if (channel < channels)
        for (uint64_t k = lane; k < outer * per_row; k += TEAM) {
            const double2 part =
                partials[(k / per_row * channels + channel) * per_row + k % per_row];
            total.x += part.x;
            total.y += part.y;
        }
    if constexpr (TEAM > 32) {
        total.x = block_sum<TEAM>(total.x);
        __syncthreads();
        total.y = block_sum<TEAM>(total.y);
    } else {
        for (int d = TEAM / 2; d > 0; d /= 2) {
            total.x += __shfl_down_sync(0xffffffff, total.x, d);
            total.y += __shfl_down_sync(0xffffffff, total.y, d);
        }
    }
    if (lane == 0 && channel < channels) {
        d_scale[channel] = float(total.x);
        d_zero_point[channel] = float(total.y);
    }
}

unsigned over(uint64_t x, uint64_t y)
{
    return unsigned((x + y - 1) / y);
}

// Groups of GROUP elements with scales and zero points of their own: VECTORS vectors a thread.
template <class T>
__global__ void __launch_bounds__(THREADS)
    learned_groups(const learned<T> w, uint64_t n, float *__restrict__ d_scale,
                   float *__restrict__ d_zero_point)
{
    constexpr int L = lanes<T>, GROUP = 32, TEAM = GROUP / L;
    const uint64_t first = blockIdx.x * uint64_t(THREADS * VECTORS * L) + threadIdx.x * L;
    vector<T> x[VECTORS] = {}, dy[VECTORS] = {};
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        const uint64_t at = first + k * THREADS * L;
        if (at < n) {
            x[k] = load(w.x + at);
            dy[k] = load(w.d_output + at);
        }
    }
#pragma unroll
    for (int k = 0; k < VECTORS; k++) {
        const uint64_t at = first + k * THREADS * L;
        gradients sums;
        if (at < n) {
            const quantizer q = quantizer_at(w.scale, w.zero_point, at / GROUP, w.low, w.high);
            pass_vector(sums, q, x[k], dy[k], w.d_input + at);
        }
#pragma unroll
        for (int d = TEAM / 2; d > 0; d /= 2) {
            sums.scale += __shfl_down_sync(0xffffffff, sums.scale, d);
            sums.zero_point += __shfl_down_sync(0xffffffff, sums.zero_point, d);
        }
        if (at < n && at % GROUP == 0) {
            d_scale[at / GROUP] = sums.scale;
            d_zero_point[at / GROUP] = sums.zero_point;
        }
    }
}

// ---- an observer --------------------------------------------------------------------------------

// Merges x into an extreme; the bits of floats order as integers, those of negative ones backwards.
__device__ void merge_least(float *to, float x)
{
    if (x >= 0)
        atomicMin((int *)to, __float_as_int(x + 0.0f));
    else
        atomicMax((unsigned *)to, __float_as_uint(x));
}

__device__ void merge_greatest(float *to, float x)
{
    if (x >= 0)
        atomicMax((int *)to, __float_as_int(x + 0.0f));
    else
        atomicMin((unsigned *)to, __float_as_uint(x));
}

// The extremes of finite elements.
template <class T>
__global__ void __launch_bounds__(THREADS)
    observe(const T *__restrict__ x, uint64_t n, float *extremes)
{
    constexpr int L = lanes<T>;
    __shared__ float warps[2][THREADS / 32];
    const uint64_t first = blockIdx.x * uint64_t(THREADS * VECTORS * L);
    float least = INFINITY, greatest = -INFINITY;
    const auto take = [&](T value) {
        least = fminf(least, float(value));
        greatest = fmaxf(greatest, float(value));
    };
    if (first + THREADS * VECTORS * L <= n) {
        vector<T> v[VECTORS];
#pragma unroll
        for (int k = 0; k < VECTORS; k++)
            v[k] = load(x + first + (k * THREADS + threadIdx.x) * L);
#pragma unroll
        for (int k = 0; k < VECTORS; k++)
#pragma unroll
            for (int lane = 0; lane < L; lane++)
                take(v[k].lane[lane]);
    } else {
        for (uint64_t at = first + threadIdx.x; at < n; at += THREADS)
            take(x[at]);
    }
    for (int d = 16; d > 0; d /= 2) {
        least = fminf(least, __shfl_down_sync(0xffffffff, least, d));
        greatest = fmaxf(greatest, __shfl_down_sync(0xffffffff, greatest, d));
    }
    if (threadIdx.x % 32 == 0) {
        warps[0][threadIdx.x / 32] = least;
        warps[1][threadIdx.x / 32] = greatest;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < THREADS / 32; k++) {
            least = fminf(least, warps[0][k]);
            greatest = fmaxf(greatest, warps[1][k]);
        }
        merge_least(extremes, least);
        merge_greatest(extremes + 1, greatest);
    }
}

// state: the averages, the extremes of this step.
__global__ void finish_observer(float *state, float constant, float eps, float *scale,
                                int *zero_point)
{
    const float least = state[0] + constant * (state[2] - state[0]);
    const float greatest = state[1] + constant * (state[3] - state[1]);
    const float low = fminf(least, 0), high = fmaxf(greatest, 0);
    const float step = fmaxf((high - low) / 255, eps);
    state[0] = least;
    state[1] = greatest;
    state[2] = INFINITY;
    state[3] = -INFINITY;
    *scale = step;
    *zero_point = int(fminf(fmaxf(-rintf(low / step), 0), 255));
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

extern "C" int peers_learned(int dtype, const void *x, const void *d_output, void *d_input,
                             uint64_t outer, uint64_t channels, uint64_t inner, float low,
                             float high, const float *scale, const float *zero_point,
                             float *d_scale, float *d_zero_point, double2 *partials,
                             cudaStream_t stream)
{
    return with_type_of<float, __half, __nv_bfloat16>(dtype, [&](auto type) {
        using T = decltype(type);
        learned<T> w = { (const T *)x,
                         (const T *)d_output,
                         (T *)d_input,
                         channels,
                         inner,
                         scale,
                         zero_point,
                         low,
                         high,
                         partials,
                         1 };
        uint64_t parts = outer;
        if (inner == 1) {
            unsigned across = 32;
            while (across * lanes < T >> channels)
                across /= 2;
            parts = over(outer, TILE_ROWS);
            const dim3 grid(over(channels, across * lanes<T>), unsigned(parts));
            learned_columns<T><<<grid, THREADS, 0, stream>>>(w, outer, across);
        } else {
            w.per_row = over(inner, PIECE);
            learned_rows<T><<<unsigned(outer * channels * w.per_row), THREADS, 0, stream>>>(w);
        }
        if (parts * w.per_row > 1024)
            finish_learned<1024><<<unsigned(channels), 1024, 0, stream>>>(
                partials, parts, channels, w.per_row, d_scale, d_zero_point);
        else
            finish_learned<32><<<over(channels, THREADS / 32), THREADS, 0, stream>>>(
                partials, parts, channels, w.per_row, d_scale, d_zero_point);
    });
}

extern "C" int peers_learned_groups(int dtype, const void *x, const void *d_output, void *d_input,
                                    uint64_t n, float low, float high, const float *scale,
                                    const float *zero_point, float *d_scale, float *d_zero_point,
                                    cudaStream_t stream)
{
    return with_type_of<float, __half, __nv_bfloat16>(dtype, [&](auto type) {
        using T = decltype(type);
        const learned<T> w = { (const T *)x,
                               (const T *)d_output,
                               (T *)d_input,
                               n / 32,
                               32,
                               scale,
                               zero_point,
                               low,
                               high,
                               nullptr,
                               1 };
        learned_groups<T><<<over(n, THREADS * VECTORS * lanes<T>), THREADS, 0, stream>>>(
            w, n, d_scale, d_zero_point);
    });
}

extern "C" int peers_observe(int dtype, const void *x, uint64_t n, float constant, float eps,
                             float *state, float *scale, int *zero_point, cudaStream_t stream)
{
    return with_type_of<float, __half, __nv_bfloat16>(dtype, [&](auto type) {
        using T = decltype(type);
        observe<T>
            <<<over(n, THREADS * VECTORS * lanes<T>), THREADS, 0, stream>>>((const T *)x, n,
                                                                                  state + 2);
        finish_observer<<<1, 1, 0, stream>>>(state, constant, eps, scale, zero_point);
    });
}
