// SPDX-License-Identifier: MIT
// What bench/math_times.c compares with: the same loop around CUDA's functions.
//     nvcc -ptx -arch=compute_80 -O3 bench/math_peers.cu -o math_peers.ptx
#define PEER(name, f)                                                                              \
    extern "C" __global__ void __launch_bounds__(128)                                              \
        cuda_##name(float *out, float first, float thread_step, float turn_step, float y, unsigned turns) \
    {                                                                                              \
        float x = fmaf(threadIdx.x, thread_step, first), sum = 0;                                  \
        _Pragma("unroll 1") for (unsigned turn = 0; turn < turns; turn++)                          \
        {                                                                                          \
            sum += f;                                                                              \
            x += turn_step;                                                                        \
        }                                                                                          \
        out[blockIdx.x * 128 + threadIdx.x] = sum;                                                 \
    }

PEER(exp, expf(x))
PEER(exp2, exp2f(x))
PEER(expm1, expm1f(x))
PEER(log, logf(x))
PEER(log2, log2f(x))
PEER(log1p, log1pf(x))
PEER(sin, sinf(x))
PEER(cos, cosf(x))
PEER(tanh, tanhf(x))
PEER(sigmoid, 1 / (1 + expf(-x)))
PEER(erf, erff(x))
PEER(erfc, erfcf(x))
PEER(rsqrt, rsqrtf(x))
PEER(pow, powf(x, y))
