// SPDX-License-Identifier: MIT
// Comparisons of halves, two at a time.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
extern "C" __global__ void k(const __half2 *a, const __half2 *b, const __nv_bfloat162 *c,
                             const __nv_bfloat162 *d, unsigned *out)
{
    unsigned i = threadIdx.x;
    unsigned *o = out + 8 * i;
    o[0] = __heq2_mask(a[i], b[i]);
    o[1] = __hltu2_mask(c[i], d[i]);
    __half2 ge = __hge2(a[i], b[i]);
    __nv_bfloat162 gt = __hgt2(c[i], d[i]);
    o[2] = *(unsigned *)&ge;
    o[3] = *(unsigned *)&gt;
    o[4] = __hbne2(a[i], b[i]);
    o[5] = __hble2(c[i], d[i]);
    __half2 m = __hmax2(a[i], b[i]);
    o[6] = *(unsigned *)&m;
    o[7] = __half2int_rn(__low2half(a[i]));
}
