// SPDX-License-Identifier: MIT
// What math_powers_gpu runs beside the builder's pow: the inputs, and how far the results are from
// CUDA's pow() of doubles, which is within 2 units in the last place of a double.
//     nvcc -ptx -arch=compute_80 -O3 -Itests/support tests/math/powers.cu -o powers.ptx
#include "math_distance.h"

// x[i] is the f32 with the bits first + i * step; every y is the power.
extern "C" __global__ void powers_inputs(uint32_t n, uint32_t first, uint32_t step, float power,
                                         float *x, float *y)
{
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        x[i] = math_value(first + i * step);
        y[i] = power;
    }
}

// state[0]: the greatest error as the bits of an f32, above the bits of its x; state[1]: the sum of
// the hashes; state[2]: results infinitely far from the exact value. Whole warps.
extern "C" __global__ void powers_count(uint32_t n, float power, const float *x, const float *out,
                                        unsigned long long *state)
{
    unsigned long long worst = 0, hash = 0, wrong = 0;

    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const double exact = pow((double)x[i], (double)power);
        double error = math_distance_of_numbers(out[i], exact);
        if (out[i] == 0 || error != error)
            error = math_distance_of_special(out[i], exact);
        const uint32_t bits = math_bits(x[i]);
        const unsigned long long key = (unsigned long long)math_bits((float)error) << 32 | bits;
        worst = error > 0 && key > worst ? key : worst;
        wrong += error == (double)INFINITY;
        hash += math_hash(bits, math_bits(power), math_bits(out[i]));
    }
    for (int lane = 16; lane; lane /= 2) {
        const unsigned long long other = __shfl_xor_sync(0xffffffff, worst, lane);
        worst = other > worst ? other : worst;
        hash += __shfl_xor_sync(0xffffffff, hash, lane);
        wrong += __shfl_xor_sync(0xffffffff, wrong, lane);
    }
    if (threadIdx.x % 32 == 0) {
        atomicMax(&state[0], worst);
        atomicAdd(&state[1], hash);
        atomicAdd(&state[2], wrong);
    }
}
