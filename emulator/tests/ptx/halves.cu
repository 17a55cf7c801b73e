// SPDX-License-Identifier: MIT
// Floats of every width.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void k(__half *h, __nv_bfloat16 *b, float *f, double *d)
{
    int i = threadIdx.x;
    __half2 pair = *(__half2 *)(h + 2 * i);
    pair = __hfma2(pair, pair, __float2half2_rn(0.5f));
    *(__half2 *)(h + 2 * i) = pair;
    b[i] = __hadd(__hmul(b[i], b[i]), __float2bfloat16(f[i]));
    float x = f[i], y = __half2float(__low2half(pair)) + __bfloat162float(b[i]);
    if (__hlt(__low2half(pair), __high2half(pair)))
        x = __saturatef(x);
    f[i] = fmaf(x, y, 1.0f) + rintf(x) - copysignf(y, x) + (float)(int)y + fminf(x, y);
    f[i + 32] = __fdiv_rn(x, y) + __fsqrt_rn(fabsf(y)) + __frcp_rz(x) + __fadd_ru(x, y);
    d[i] = sqrt(d[i]) + x + __ddiv_rd(d[i], 3.0) + (double)__double2int_rz(d[i]);
    f[i + 64] = __expf(x) + __logf(y) + __sinf(x) + rsqrtf(y) + __fdividef(x, y);
    h[i + 64] = __double2half(d[i]);
}
