// SPDX-License-Identifier: MIT
// Fake quantization in block formats: what a plan's kernel is for, and its arguments.
#ifndef PTXGEN_KERNELS_BLOCKS_H
#define PTXGEN_KERNELS_BLOCKS_H

#include <ptxgen/builder.h>

enum { BLOCKS_TENSORS = 64 }; // of a launch

// X(FLOAT, bits of the fraction, exponent of the least normal, of the largest, the largest): what
// the formats of <ptxgen/blocks.h> have.
#define BLOCK_FLOATS(X)                                                                            \
    X(E2M1, 1, 0, 2, 6)                                                                            \
    X(E3M2, 2, -2, 4, 28)                                                                          \
    X(E2M3, 3, 0, 2, 7.5f)                                                                         \
    X(E4M3, 3, -6, 8, 448)                                                                         \
    X(E5M2, 2, -14, 15, 57344)
enum block_float {
#define BLOCK_DECLARE(name, ...) BLOCK_##name,
    BLOCK_FLOATS(BLOCK_DECLARE)
#undef BLOCK_DECLARE
};

// How a block's scale comes about.
enum block_scaling {
    BLOCK_NVFP4_TE,
    BLOCK_NVFP4_TORCHAO,
    BLOCK_MX_FLOOR,
    BLOCK_MX_RCEIL,
    BLOCK_MX_RCEIL_TE,
    BLOCK_FP8_TE,
    BLOCK_FP8_TE_POWER,
    BLOCK_FP8_DEEPGEMM,
    BLOCK_FP8_DEEPGEMM_POWER,
};

// Whether A of each block is measured, or a parameter that is learned.
enum block_learning {
    BLOCK_MEASURED,
    BLOCK_LEARNED,  // and read
    BLOCK_GRADIENT, // the gradients of x and of it
};

struct blocks_spec {
    ptx_type dtype;
    enum block_float element;
    enum block_scaling scaling;
    uint32_t width, height; // of a block
    bool stochastic;
    bool hadamard;                // bf16 in blocks of 16 x 1
    bool measure;                 // amax of a tensor, and no y
    enum block_learning learning; // in blocks of 16 x 1, to nearest
};

// Of a tensor, in the kernel's argument `tensors`.
struct block_row {
    uint64_t x, y, amax, rows, columns;
    uint64_t first; // of the tensor's elements, in the list
};

// The same with amaxes that are learned. y: with gradients that of x.
struct block_learned_row {
    uint64_t x, y, amax, count, amaxes;
    uint64_t d_output, d_amaxes; // with gradients
};

// The kernel's arguments, by value.
struct blocks_arguments {
    union {
        struct block_row tensors[BLOCKS_TENSORS];
        struct block_learned_row learned[BLOCKS_TENSORS];
    };
    uint32_t firsts[BLOCKS_TENSORS]; // the first block of threads of each; else UINT32_MAX
};

// Whether the format has a scale of the tensor.
static inline bool ptxk_blocks_amax(const struct blocks_spec *spec)
{
    return spec->scaling <= BLOCK_NVFP4_TORCHAO;
}
// The blocks of threads for a tensor.
uint64_t ptxk_blocks_grid(const struct blocks_spec *spec, uint64_t rows, uint64_t columns);
#define BLOCKS_ENTRY "fake_quantize_blocks"
// The entry: its parameters are `tensors`, `firsts`, if it is stochastic `seed`, `seed_at`,
// `offset` and `offset_at`, and with gradients `factor` (f64), which multiplies those of amaxes.
void ptxk_blocks_emit(ptx_builder *b, const struct blocks_spec *spec);

#endif
