// SPDX-License-Identifier: MIT
// The random bits of the elements of a tile. rules.h has which element gets which.
#ifndef PTXGEN_KERNELS_STEP_RANDOM_H
#define PTXGEN_KERNELS_STEP_RANDOM_H

#include "format.h"

// What they depend on, besides the element.
struct ptxk_step_random {
    ptx_val first;                    // u64: index in the tensor of the tile's first element
    ptx_val whole_first, run, stride; // u64: the position of the shard in the whole parameter
    ptx_val t, id, key[2];            // u32
};

// Random bits, u32 below 2^16, for eight elements that are consecutive in the whole parameter; the
// index there of the first, element `i` (s32) of the tile, is a multiple of 8.
void ptxk_step_random_vector(ptx_builder *b, const struct ptxk_step_variant *v,
                             const struct ptxk_step_random *r, ptx_val i,
                             ptx_val random[PTXK_STREAMS][PTXK_LANES]);
// The same for one element: lane 0.
void ptxk_step_random_element(ptx_builder *b, const struct ptxk_step_variant *v,
                              const struct ptxk_step_random *r, ptx_val i,
                              ptx_val random[PTXK_STREAMS][PTXK_LANES]);

// The bits of the same element of one stream: `which` of rules.h.
ptx_val ptxk_step_random_of(ptx_builder *b, const struct ptxk_step_random *r, ptx_val i,
                            unsigned which);

#endif
