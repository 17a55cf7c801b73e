// SPDX-License-Identifier: MIT
// Asynchronous copies through the pipeline's intrinsics, and loads with hints.
#include <cuda_pipeline.h>
extern "C" __global__ void k(const float4 *in, const float *bias, float4 *out, unsigned n)
{
    __shared__ float4 tile[2][128];
    unsigned stage = 0, i = threadIdx.x;
    __pipeline_memcpy_async(&tile[0][i], &in[i], 16);
    __pipeline_commit();
    for (unsigned first = 0; first < n; first += 128) {
        unsigned next = first + 128 + i;
        if (first + 128 < n) {
            __pipeline_memcpy_async(&tile[stage ^ 1][i], &in[next < n ? next : 0], 16,
                                    next < n ? 0 : 16);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        float4 x = tile[stage][127 - i];
        float c = __ldg(&bias[i]);
        x.x += c;
        x.y *= c;
        x.z -= c;
        x.w = c;
        if (first + i < n)
            __stcs(&out[first + i], x);
        __syncthreads();
        stage ^= 1;
    }
}
