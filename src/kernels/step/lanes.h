// SPDX-License-Identifier: MIT
// The elements of an array that a thread processes at once: its lanes.
#ifndef PTXGEN_KERNELS_STEP_LANES_H
#define PTXGEN_KERNELS_STEP_LANES_H

#include "format.h"

enum { PTXK_LANES = 8 }; // maximum

// Lanes of one array, in variables of 32 bits: ptxas moves any other load down to the first use of
// its value.
struct ptxk_lanes {
    ptx_type type;
    unsigned words;
    ptx_val word[PTXK_LANES];
};

// Lanes of 0.
struct ptxk_lanes ptxk_lanes_var(ptx_builder *b, ptx_type type, unsigned lanes);

// Reads whole vectors.
void ptxk_lanes_read(ptx_builder *b, const struct ptxk_lanes *l, ptx_ptr at);
// Reads the lanes from element `i` (s32) on that are below `length`; the others become 0.
void ptxk_lanes_read_some(ptx_builder *b, const struct ptxk_lanes *l, ptx_ptr at, ptx_val i,
                          ptx_val length);

// The values of the lanes; bf16 lanes as f32, which has the same bits followed by zeros.
void ptxk_lanes_of(ptx_builder *b, const struct ptxk_lanes *l, ptx_val value[PTXK_LANES]);

// Writes whole vectors. `type`: the array's, which `at` does not have where the builder has failed.
// A value of an 8-bit type is the word that it is in.
void ptxk_lanes_write(ptx_builder *b, ptx_type type, ptx_ptr at, const ptx_val *value,
                      unsigned lanes);
// Writes the lanes from element `i` (s32) on that are below `length`.
void ptxk_lanes_write_some(ptx_builder *b, ptx_type type, ptx_ptr at, ptx_val i, ptx_val length,
                           const ptx_val value[PTXK_LANES]);

#endif
