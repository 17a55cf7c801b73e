// SPDX-License-Identifier: MIT
/// Random numbers for the tests: splitmix64, the same on every machine for one seed.
#ifndef PTXGEN_TESTS_RANDOM_H
#define PTXGEN_TESTS_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state;
};

static inline uint64_t random_u64(struct random *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/// From 0 to bound - 1.
static inline uint32_t random_below(struct random *r, uint32_t bound)
{
    return (uint32_t)((random_u64(r) >> 32) * bound >> 32);
}

/// Uniform in [-1, 1).
static inline double random_unit(struct random *r)
{
    return (double)(int64_t)random_u64(r) * 0x1p-63;
}

#endif
