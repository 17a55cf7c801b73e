// SPDX-License-Identifier: MIT
// y = a x + y, and the sum of a vector by shared memory and shuffles.
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

extern "C" __global__ void k(const float *x, float *out, long long n)
{
    __shared__ float warps[32];
    extern __shared__ float copy[];
    float sum = 0;
    for (long long i = threadIdx.x; i < n; i += blockDim.x)
        sum += x[i];
    copy[threadIdx.x] = sum;
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, step);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = sum;
    __syncthreads();
    for (int step = blockDim.x / 64; step > 0; step /= 2) {
        if (threadIdx.x < step)
            warps[threadIdx.x] += warps[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        atomicAdd(out, warps[0]);
    out[1 + threadIdx.x] = copy[blockDim.x - 1 - threadIdx.x];
}
