// SPDX-License-Identifier: MIT
// The hashes of the results of math.h by the plain C of math_twin.c: of every MATH_SAMPLE_STEP-th
// input, and of all 2^32. `math_sweep all 16411` and `math_sweep all` print them.
#ifndef PTXGEN_TESTS_MATH_HASHES_H
#define PTXGEN_TESTS_MATH_HASHES_H

#include <stdint.h>

enum { MATH_SAMPLE_STEP = 16411 };

// Columns: name, hash of the sample, hash of all.
// clang-format off
#define MATH_HASHES(X) \
    X(exp, 0xb890351ba48b2768, 0x550bbe31d0223f9b) \
    X(exp2, 0xe10d36499c5ec247, 0xa4501558d1e2f085) \
    X(expm1, 0x4ccf9b0d148d990f, 0xefe7902b0724d97e) \
    X(log, 0x88e896c0b29d05f2, 0xb4ee7e1eb3b64458) \
    X(log2, 0x0938f2cd1bbd2b0d, 0x5fdf11cf88758700) \
    X(log1p, 0x28a5da451fbef43e, 0x280aa6bf4238264b) \
    X(sin, 0x68a88b351f7e0914, 0xb904898ab8c84f95) \
    X(cos, 0x0064c9f46c0879f2, 0x85e815ed344af578) \
    X(tanh, 0xc7196c62e8089387, 0x5cf9bc0163e86a3b) \
    X(sigmoid, 0xdc4231c6d29d1bf3, 0x3851c1e0a32009db) \
    X(erf, 0x89e93501fe807e5d, 0x0c12d0cdb14e188c) \
    X(erfc, 0xd41faefa0eb33d7b, 0x2c8fc621f0313931) \
    X(rsqrt, 0x55a3698318b75c6e, 0xf60f3c4933c3ae01) \
    X(pow, 0x0feb0fcc28231a57, 0x7a70ffd8c8b76f99)
// clang-format on

static const struct {
    const char *name;
    uint64_t sample, all;
} math_hashes[] = {
#define PTX_ROW(name, sample, all) { #name, UINT64_C(sample), UINT64_C(all) },
    MATH_HASHES(PTX_ROW)
#undef PTX_ROW
};

#endif
