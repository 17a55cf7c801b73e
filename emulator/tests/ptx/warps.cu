// SPDX-License-Identifier: MIT
// Warps and barriers.
extern "C" __global__ void k(unsigned *p, const unsigned *q, uint4 *v)
{
    unsigned i = threadIdx.x, x = q[i], all = 0xffffffff;
    int same;
    p[i] = __ballot_sync(all, x > 3) + __any_sync(all, x == 5) + __all_sync(all, x < 100);
    p[i + 32] = __shfl_sync(all, x, 3) + __shfl_xor_sync(all, x, 1, 8) + __shfl_up_sync(all, x, 2);
    p[i + 64] = __match_any_sync(all, x) ^ __match_all_sync(all, x, &same);
    p[i + 96] = __reduce_add_sync(all, x) + __reduce_xor_sync(all, x) + (unsigned)same;
    __syncwarp();
    p[i + 128] = (unsigned)__syncthreads_count(x > 3) + (unsigned)__syncthreads_or(x == 9);
    p[i + 160] = __activemask() + __ldg(q + 31 - i) + __ldcs(q + i);
    v[i] = v[i + 32];
    __stcg(p + 192 + i, x);
    __threadfence();
    *(volatile unsigned *)(p + 224 + i) = x;
    __threadfence_system();
    __nanosleep(20);
    asm volatile("{ .reg .pred q; setp.eq.u32 q, %0, 3; @q bra done%=; mov.u32 %0, 4; done%=: }"
                 : "+r"(x));
    p[i + 256] = x;
    if (p[i] == 77)
        __trap();
}
