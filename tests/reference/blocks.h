// SPDX-License-Identifier: MIT
/// Block formats in plain C, from the formulas of <ptxgen/blocks.h> alone.
#ifndef PTXGEN_TESTS_REFERENCE_BLOCKS_H
#define PTXGEN_TESTS_REFERENCE_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

enum ref_block_scale {
    REF_NVFP4_TE,
    REF_NVFP4_TORCHAO,
    REF_MX_FLOOR,
    REF_MX_RCEIL,
    REF_MX_RCEIL_TE,
    REF_FP8_TE,
    REF_FP8_TE_POWER,
    REF_FP8_DEEPGEMM,
    REF_FP8_DEEPGEMM_POWER,
};

struct ref_blocks {
    int fraction, least, greatest; // bits; exponents of the least normal and the largest float
    float largest;
    uint64_t width, height; // of a block; edges cut it
    enum ref_block_scale scale;
    bool stochastic;
    uint64_t seed, offset;
    const float *amaxes; // learned; NULL: measured
};

/// y of a tensor of f32, before it is rounded to its type. first: its first element in the list.
void ref_blocks(const struct ref_blocks *how, const float *x, uint64_t rows, uint64_t columns,
                float amax, uint64_t first, float *y);

/// The gradients of x, before they are rounded to its type, and of the amaxes, from those of y (d).
/// `lanes`: the elements of 16 bytes. `factor`: grad_factor / 6.
void ref_blocks_gradients(const struct ref_blocks *how, const float *x, const float *d,
                          uint64_t count, float amax, unsigned lanes, double factor, float *d_x,
                          float *d_amaxes);

/// Each 16 elements become their transform, in bf16. To and from may be the same.
void ref_hadamard(const float *from, uint64_t count, float *to);

#endif
