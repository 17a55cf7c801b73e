// SPDX-License-Identifier: MIT
// Forms of x *= scale over n float4s, as measured in scaling.txt: a thread's U rows in flight, T threads
// a block, cache hints in loads (HINT 1) and stores (2). `forms` is what one of the runs had.
#include <cstdint>
#include <cuda_runtime.h>
template <int HINT> __device__ float4 ld(const float4 *p) { return HINT & 1 ? __ldcs(p) : *p; }
template <int HINT> __device__ void st(float4 *p, float4 v) { if (HINT & 2) __stcs(p, v); else *p = v; }
__device__ float4 mul(float4 v, float s) { v.x *= s; v.y *= s; v.z *= s; v.w *= s; return v; }

template <int U, int T, int HINT>
__global__ void __launch_bounds__(T) many(float4 *x, uint32_t n, const float *record, unsigned *)
{
    const float s = *record;
    if (s == 1) return;
    uint32_t at = blockIdx.x * (U * T) + threadIdx.x;
    float4 v[U];
#pragma unroll
    for (int u = 0; u < U; u++) if (at + u * T < n) v[u] = ld<HINT>(x + at + u * T);
#pragma unroll
    for (int u = 0; u < U; u++) if (at + u * T < n) st<HINT>(x + at + u * T, mul(v[u], s));
}
// blocks walk tiles of U rows in grid stride
template <int U, int T, int HINT>
__global__ void __launch_bounds__(T) strided(float4 *x, uint32_t n, const float *record, unsigned *)
{
    const float s = *record;
    if (s == 1) return;
    for (uint32_t t = blockIdx.x; t * (U * T) < n; t += gridDim.x) {
        uint32_t at = t * (U * T) + threadIdx.x;
        float4 v[U];
#pragma unroll
        for (int u = 0; u < U; u++) if (at + u * T < n) v[u] = ld<HINT>(x + at + u * T);
#pragma unroll
        for (int u = 0; u < U; u++) if (at + u * T < n) st<HINT>(x + at + u * T, mul(v[u], s));
    }
}
// the same, the next tile read before this one is written
template <int U, int T, int HINT>
__global__ void __launch_bounds__(T) piped(float4 *x, uint32_t n, const float *record, unsigned *)
{
    const float s = *record;
    if (s == 1) return;
    uint32_t t = blockIdx.x;
    uint32_t at = t * (U * T) + threadIdx.x;
    float4 v[U];
#pragma unroll
    for (int u = 0; u < U; u++) if (at + u * T < n) v[u] = ld<HINT>(x + at + u * T);
    while (t * (U * T) < n) {
        t += gridDim.x;
        uint32_t next = t * (U * T) + threadIdx.x;
        float4 w[U];
#pragma unroll
        for (int u = 0; u < U; u++) if (next + u * T < n) w[u] = ld<HINT>(x + next + u * T);
#pragma unroll
        for (int u = 0; u < U; u++) { if (at + u * T < n) st<HINT>(x + at + u * T, mul(v[u], s)); v[u] = w[u]; }
        at = next;
    }
}
// warps draw tiles of W rows of a warp, no barrier; the ticket is drawn ahead
template <int U, int T, int HINT>
__global__ void __launch_bounds__(T) warps(float4 *x, uint32_t n, const float *record, unsigned *ticket)
{
    const float s = *record;
    if (s == 1) return;
    const unsigned lane = threadIdx.x & 31, all = gridDim.x * (T / 32);
    uint32_t t = blockIdx.x * (T / 32) + threadIdx.x / 32;
    while (t * (U * 32) < n) {
        unsigned drawn = 0;
        if (lane == 0) drawn = atomicAdd(ticket, 1);
        uint32_t at = t * (U * 32) + lane;
        float4 v[U];
#pragma unroll
        for (int u = 0; u < U; u++) if (at + u * 32 < n) v[u] = ld<HINT>(x + at + u * 32);
#pragma unroll
        for (int u = 0; u < U; u++) if (at + u * 32 < n) st<HINT>(x + at + u * 32, mul(v[u], s));
        t = all + __shfl_sync(~0u, drawn, 0);
    }
}
// blocks draw tiles of U rows, taken row after row; two tickets ahead
template <int U, int T, int HINT>
__global__ void __launch_bounds__(T) drawn(float4 *x, uint32_t n, const float *record, unsigned *ticket)
{
    __shared__ unsigned next[2];
    const float s = *record;
    if (s == 1) return;
    uint32_t t = blockIdx.x;
    int slot = 0;
    while (t * (U * T) < n) {
        unsigned d = 0;
        if (threadIdx.x == 0) d = atomicAdd(ticket, 1);
        uint32_t at = t * (U * T) + threadIdx.x;
        float4 v[U];
#pragma unroll
        for (int u = 0; u < U; u++) if (at + u * T < n) v[u] = ld<HINT>(x + at + u * T);
#pragma unroll
        for (int u = 0; u < U; u++) if (at + u * T < n) st<HINT>(x + at + u * T, mul(v[u], s));
        if (threadIdx.x == 0) next[slot] = d;
        __syncthreads();
        t = gridDim.x + next[slot];
        slot ^= 1;
    }
}
// blocks draw big tiles of R rows, and walk them with one row ahead
template <int R, int T, int HINT>
__global__ void __launch_bounds__(T) walk(float4 *x, uint32_t n, const float *record, unsigned *ticket)
{
    __shared__ unsigned next[2];
    const float s = *record;
    if (s == 1) return;
    uint32_t t = blockIdx.x;
    int slot = 0;
    while (t * (R * T) < n) {
        unsigned d = 0;
        if (threadIdx.x == 0) d = atomicAdd(ticket, 1);
        const uint32_t at = t * (R * T) + threadIdx.x;
#pragma unroll 1
        for (int r = 0; r < R; r++)
            if (at + r * T < n) st<HINT>(x + at + r * T, mul(ld<HINT>(x + at + r * T), s));
        if (threadIdx.x == 0) next[slot] = d;
        __syncthreads();
        t = gridDim.x + next[slot];
        slot ^= 1;
    }
}
// blocks draw tiles of R rows, taken two rows at a time
template <int R, int T, int HINT>
__global__ void __launch_bounds__(T) half(float4 *x, uint32_t n, const float *record, unsigned *ticket)
{
    __shared__ unsigned next[2];
    const float s = *record;
    if (s == 1) return;
    uint32_t t = blockIdx.x;
    int slot = 0;
    while (t * (R * T) < n) {
        unsigned d = 0;
        if (threadIdx.x == 0) d = atomicAdd(ticket, 1);
#pragma unroll 1
        for (int r = 0; r < R; r += 2) {
            const uint32_t at = t * (R * T) + threadIdx.x + r * T;
            float4 v[2];
#pragma unroll
            for (int u = 0; u < 2; u++) if (at + u * T < n) v[u] = ld<HINT>(x + at + u * T);
#pragma unroll
            for (int u = 0; u < 2; u++) if (at + u * T < n) st<HINT>(x + at + u * T, mul(v[u], s));
        }
        if (threadIdx.x == 0) next[slot] = d;
        __syncthreads();
        t = gridDim.x + next[slot];
        slot ^= 1;
    }
}
// tickets two ahead; the next tile is read before this one is written
template <int U, int T, int HINT>
__global__ void __launch_bounds__(T) ahead(float4 *x, uint32_t n, const float *record, unsigned *ticket)
{
    __shared__ unsigned next[2];
    const float s = *record;
    if (s == 1) return;
    uint32_t t = blockIdx.x, t2 = t + gridDim.x;
    int slot = 0;
    float4 v[U];
#pragma unroll
    for (int u = 0; u < U; u++) if (t * (U * T) + threadIdx.x + u * T < n) v[u] = ld<HINT>(x + t * (U * T) + threadIdx.x + u * T);
    while (t * (U * T) < n) {
        unsigned d = 0;
        if (threadIdx.x == 0) d = atomicAdd(ticket, 1);
        const uint32_t at = t * (U * T) + threadIdx.x, to = t2 * (U * T) + threadIdx.x;
        float4 w[U];
#pragma unroll
        for (int u = 0; u < U; u++) if (to + u * T < n) w[u] = ld<HINT>(x + to + u * T);
#pragma unroll
        for (int u = 0; u < U; u++) { if (at + u * T < n) st<HINT>(x + at + u * T, mul(v[u], s)); v[u] = w[u]; }
        if (threadIdx.x == 0) next[slot] = d;
        __syncthreads();
        t = t2;
        t2 = 2 * gridDim.x + next[slot];
        slot ^= 1;
    }
}
#define FORM(name, U, T, H) { #name " U" #U " T" #T " H" #H, name<U, T, H>, U, T }
struct Form { const char *name; void (*f)(float4 *, uint32_t, const float *, unsigned *); int u, t; };
static Form forms[] = {
    FORM(many, 1, 256, 0),
    FORM(drawn, 1, 512, 0), FORM(drawn, 2, 128, 0), FORM(drawn, 4, 128, 0), FORM(drawn, 2, 256, 0), FORM(drawn, 3, 256, 0), FORM(drawn, 4, 256, 0), FORM(drawn, 2, 384, 0), FORM(drawn, 2, 512, 0),
    FORM(drawn, 2, 256, 3), FORM(drawn, 2, 256, 2), FORM(drawn, 2, 256, 1),
    FORM(half, 4, 256, 0), FORM(half, 8, 256, 0), FORM(half, 4, 512, 0), FORM(ahead, 1, 256, 0), FORM(ahead, 2, 256, 0), FORM(ahead, 1, 512, 0),
};
extern "C" int form_count() { return sizeof forms / sizeof *forms; }
extern "C" const char *form_name(int k) { return forms[k].name; }
extern "C" int form_resident(int k) { int n = 0; cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, forms[k].f, forms[k].t, 0); return n; }
extern "C" int form_run(int k, void *x, uint32_t n, const float *record, unsigned *ticket, int blocks_sm, cudaStream_t s)
{
    if (blocks_sm < 100) cudaMemsetAsync(ticket, 0, 4, s); else blocks_sm -= 100;
    int blocks = blocks_sm ? blocks_sm * 132 : (n + forms[k].u * forms[k].t - 1) / (forms[k].u * forms[k].t);
    forms[k].f<<<blocks, forms[k].t, 0, s>>>((float4 *)x, n, record, ticket);
    return cudaGetLastError();
}
