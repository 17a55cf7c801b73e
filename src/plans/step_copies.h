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
    uint64_t in_blocks, block_tiles; // with those that are transposed by the step
    uint64_t square_tiles;           // of block_tiles, the last, which are made by the step
    bool squares_whole;              // those have half of their elements or more
    uint32_t kinds;                  // of copies in blocks, as bits
};

// Of parameters whose tensors are valid.
ptx_status ptxp_copies_count(const struct ptx_step_params *params, const struct step_layout *layout,
                             struct copy_counts *counts);
// Which of a plan's matrices may be stepped in tiles of 128 x 128, and whether a tensor is, if so:
// the step then makes its codes in blocks, or those of its transpose. `sm`: of the device; 0: not
// known.
enum copy_squares { COPY_SQUARES_NONE, COPY_SQUARES_IN_BLOCKS, COPY_SQUARES_TURNED };
enum copy_squares ptxp_copies_may_be_square(const struct ptx_step_params *params, int sm);
bool ptxp_copies_is_square(const struct ptx_step_params *params, const struct step_layout *layout,
                           size_t t);
// The tiles of such a matrix.
uint64_t ptxp_copies_tiles(const struct ptx_step_tensor *tensor);
// The bytes of a tensor's copies that a step reads and writes.
uint64_t ptxp_copies_bytes(const struct ptx_step_tensor *tensor, bool is_square);
// Of a copy in blocks: the scales, and with `transposed` those of the transposed codes.
uint64_t ptxp_copies_scales(const struct ptx_step_tensor *tensor, bool transposed);
// Fills rows and tiles of the image.
void ptxp_copies_fill(const struct ptx_step_params *params, const struct step_layout *layout,
                      unsigned char *image);

#endif
