// SPDX-License-Identifier: MIT
// The inputs of the tests and sweeps, as bits of f32: every x; and pairs for pow, made with
// integers alone, so that they are the same everywhere.
#ifndef PTXGEN_TESTS_MATH_INPUTS_H
#define PTXGEN_TESTS_MATH_INPUTS_H

#include <stdint.h>
#include <string.h>

#include "random.h"

// CUDA's compiler builds these, and those of math_distance.h, for the device too.
#ifdef __CUDACC__
#define MATH_INLINE static __host__ __device__ inline
#else
#define MATH_INLINE static inline
#endif

MATH_INLINE float math_value(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

MATH_INLINE uint32_t math_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

// Values at which something changes, for one operand and for pairs.
static const uint32_t math_edges[] = {
    0x00000000, 0x00000001, 0x00000002, 0x007fffff, 0x00800000, 0x00800001, 0x0d800000, 0x32800000,
    0x33000000, 0x33800000, 0x39800000, 0x3e800000, 0x3eaaaaab, 0x3f000000, 0x3f0ccccd, 0x3f3504f3,
    0x3f3504f4, 0x3f490fdb, 0x3f6b851f, 0x3f7fffff, 0x3f800000, 0x3f800001, 0x3fc00000, 0x3fc90fdb,
    0x40000000, 0x40200000, 0x40400000, 0x40490fdb, 0x40800000, 0x40a00000, 0x41100000, 0x4120ec16,
    0x41210000, 0x41280000, 0x41900000, 0x42000000, 0x42aeac50, 0x42b17217, 0x42b17218, 0x42b20000,
    0x42cff1b5, 0x42fe0000, 0x42ff0000, 0x43000000, 0x43140000, 0x43150000, 0x43160000, 0x437f0000,
    0x47000000, 0x47000001, 0x47000003, 0x4b000000, 0x4b000001, 0x4b7fffff, 0x4b800000, 0x4b800001,
    0x4f000000, 0x5f000000, 0x7149f2ca, 0x71800000, 0x7e800000, 0x7f000000, 0x7f7fffff, 0x7f800000,
    0x7f800001, 0x7fc00000, 0x7fffffff,
};
enum { MATH_EDGES = sizeof math_edges / sizeof *math_edges };

// Pair i: any bits; x > 0 and y with a finite power; x near 1 and large y; and small whole y.
static inline void math_pair(uint64_t i, uint32_t *x, uint32_t *y)
{
    struct random r = { i * UINT64_C(0xd1342543de82ef95) };
    const uint64_t bits = random_u64(&r);
    const uint32_t half = (uint32_t)(bits >> 32), more = (uint32_t)random_u64(&r);
    const int kind = (int)(i % 4);

    *x = (uint32_t)bits;
    *y = half;
    if (kind == 1) {
        // |log2(x)| is about the distance of its exponent from that of 1; the power is below 2^150.
        const int exponent = (int)(*x >> 23 & 255) - 127;
        int log = 0;
        while ((exponent < 0 ? -exponent : exponent) >> log > 1)
            log++;
        *x &= 0x7fffffff;
        *y = (half & 0x807fffff) | (uint32_t)(127 + 7 - log - (int)(more % 9)) << 23;
    } else if (kind == 2) {
        const uint32_t distance = (half >> 8) & ((1u << (more % 24)) - 1);
        *x = 0x3f800000 + (bits & 1 ? distance : 0 - distance);
        *y = (half & 0x807fffff) | (uint32_t)(127 + 6 + (more >> 8) % 26) << 23;
    } else if (kind == 3) {
        *y = math_bits((float)((int)(half % 300) - 150) * (more & 1 ? 1.0f : 0.5f));
    }
}

// A sum over all inputs that does not depend on their order.
MATH_INLINE uint64_t math_hash(uint32_t x, uint32_t y, uint32_t result)
{
    uint64_t z = ((uint64_t)x << 32 | result) + (uint64_t)y * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    return z ^ z >> 29;
}

#endif
