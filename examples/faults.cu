// SPDX-License-Identifier: MIT
// Three kernels with a fault each, for docs/command.md. faults.ptx is made of it:
//   nvcc -ptx -lineinfo -arch=compute_75 faults.cu

extern "C" __global__ void mirror(float *y) // no __syncthreads() between the write and the read
{
    __shared__ float tile[256];
    tile[threadIdx.x] = y[threadIdx.x];
    y[threadIdx.x] = tile[255 - threadIdx.x];
}

extern "C" __global__ void slope(int n, const float *x, float *y) // x[n] is read
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i + 1] - x[i];
}

extern "C" __global__ void total(int n, const float *x, float *sum) // part[] is not all written
{
    __shared__ float part[256];
    if (threadIdx.x < n)
        part[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    float s = 0;
    for (int i = 0; i < blockDim.x; i++)
        s += part[i];
    if (threadIdx.x == 0)
        *sum = s;
}
