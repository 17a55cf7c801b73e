// SPDX-License-Identifier: MIT
// What formats compute of a block of states, in all lanes of the warp that has it.
#ifndef PTXGEN_KERNELS_STEP_BLOCKS_H
#define PTXGEN_KERNELS_STEP_BLOCKS_H

#include "../common/lanes.h"

// The largest |state| of the block, an f32; NaN if one is.
ptx_val ptxk_block_largest(ptx_builder *b, const ptx_val state[PTXK_LANES]);

// Replaces states, variables, by their roots, rounded.
void ptxk_block_roots(ptx_builder *b, const ptx_val state[PTXK_LANES]);

// 1 / scale of each state. Where a scale is below 2^-126, it becomes 0, and its inverse is 0. Where
// it is infinite or NaN, it becomes NaN, 0x7fffffff, and its inverse is 0, too. Both are variables
// then. `state`: those with an inverse of 0 become 0; NULL: they stay.
void ptxk_block_inverses(ptx_builder *b, ptx_val *scale, unsigned states, ptx_val *inverse,
                         ptx_val (*state)[PTXK_LANES]);

#endif
