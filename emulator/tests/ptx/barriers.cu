// SPDX-License-Identifier: MIT
// cuda::barrier and cuda::memcpy_async of libcu++: bulk copies, and copies that arrive at a barrier.
#include <cuda/barrier>
#include <cuda/ptx>

using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace ptx = cuda::ptx;

// Both ways through shared memory by bulk copies.
extern "C" __global__ void by_bulk(const int *in, int *out)
{
    __shared__ alignas(128) int buffer[1024];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier filled;
    const int at = blockIdx.x * 1024;
    if (threadIdx.x == 0) {
        init(&filled, blockDim.x);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncthreads();
    if (threadIdx.x == 0)
        cuda::memcpy_async(buffer, in + at, cuda::aligned_size_t<16>(sizeof buffer), filled);
    filled.wait(filled.arrive());
    for (int i = threadIdx.x; i < 1024; i += blockDim.x)
        buffer[i] = buffer[i] * 2 + 1;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out + at, buffer, sizeof buffer);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
}

// Two buffers, filled by all threads while the other one is read.
extern "C" __global__ void by_threads(const int *in, int *out, long long rounds)
{
    __shared__ int buffer[2][256];
    __shared__ barrier filled[2];
    int sum = 0;
    if (threadIdx.x < 2)
        init(&filled[threadIdx.x], blockDim.x);
    __syncthreads();
    cuda::memcpy_async(&buffer[0][threadIdx.x], in + threadIdx.x, sizeof(int), filled[0]);
    for (int k = 0; k < rounds; k++) {
        if (k + 1 < rounds)
            cuda::memcpy_async(&buffer[(k + 1) & 1][threadIdx.x], in + (k + 1) * 256 + threadIdx.x,
                               sizeof(int), filled[(k + 1) & 1]);
        filled[k & 1].arrive_and_wait();
        sum += (k + 1) * buffer[k & 1][threadIdx.x ^ 65];
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}

// A warp that produces, and others that consume, with a barrier for each direction.
extern "C" __global__ void by_roles(const int *in, int *out, long long rounds)
{
    __shared__ int slot[32];
    __shared__ barrier full, empty;
    const int lane = threadIdx.x % 32, consumers = blockDim.x - 32;
    int sum = 0;
    if (threadIdx.x == 0) {
        init(&full, blockDim.x);
        init(&empty, blockDim.x);
    }
    __syncthreads();
    for (int k = 0; k < rounds; k++)
        if (threadIdx.x < 32) {
            if (k)
                empty.arrive_and_wait();
            slot[lane] = in[k * 32 + lane];
            (void)full.arrive();
        } else {
            full.arrive_and_wait();
            sum += slot[(lane + threadIdx.x / 32) % 32];
            if (k + 1 < rounds)
                (void)empty.arrive();
        }
    if (threadIdx.x >= 32)
        out[threadIdx.x - 32 + blockIdx.x * consumers] = sum;
}

// Threads that leave a barrier.
extern "C" __global__ void with_drops(int *out)
{
    __shared__ int sum;
    __shared__ barrier all;
    if (threadIdx.x == 0) {
        sum = 0;
        init(&all, blockDim.x);
    }
    __syncthreads();
    for (int k = 0; k < 3; k++) {
        if (threadIdx.x % 4 == k) {
            atomicAdd(&sum, 1 << 8 * k);
            all.arrive_and_drop();
            return;
        }
        all.arrive_and_wait();
    }
    out[0] = sum;
}
