// SPDX-License-Identifier: MIT
// The copies in 8 bits that a step plan makes by launches of their own: transposed ones, and those
// in blocks.
#ifndef PTXGEN_PLANS_STEP_COPIES_H
#define PTXGEN_PLANS_STEP_COPIES_H

#include <ptxgen/step.h>

struct step_layout;

// How many matrices and tiles of each a plan has.
struct copy_counts {
    uint64_t transposed, transpose_tiles;
    uint64_t in_blocks, block_tiles;
    uint32_t kinds; // of copies in blocks, as bits
};

// Of parameters whose tensors are valid.
ptx_status ptxp_copies_count(const struct ptx_step_params *params, struct copy_counts *counts);
// The bytes of a tensor's copies that a step reads and writes.
uint64_t ptxp_copies_bytes(const struct ptx_step_tensor *tensor);
// Of a copy in blocks: the scales, and with `transposed` those of the transposed codes.
uint64_t ptxp_copies_scales(const struct ptx_step_tensor *tensor, bool transposed);
// Fills rows and tiles of the image.
void ptxp_copies_fill(const struct ptx_step_params *params, const struct step_layout *layout,
                      unsigned char *image);

#endif
