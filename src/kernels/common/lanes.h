// SPDX-License-Identifier: MIT
// The adjacent elements of an array that a thread processes at once: its lanes.
#ifndef PTXGEN_KERNELS_LANES_H
#define PTXGEN_KERNELS_LANES_H

#include "common.h"

enum { PTXK_LANES = 8 }; // maximum
enum { MAX_INPUTS = 2 }; // tensors that a kernel computes others from, lane by lane

// Lanes of one array, which are loaded into variables before they are used: ptxas moves any other
// load down to the first use of its value, even past branches. Lanes of less than 32 bits are held
// as words of 32.
struct ptxk_lanes {
    ptx_type type;
    unsigned words;
    ptx_val word[PTXK_LANES];
};

// Lanes of 0.
struct ptxk_lanes ptxk_lanes_var(ptx_builder *b, ptx_type type, unsigned lanes);

// Lanes that are read where they are declared, and are no variables.
struct ptxk_lanes ptxk_lanes_load(ptx_builder *b, ptx_type type, unsigned lanes, ptx_ptr at);

// Reads whole vectors; with a hint.
void ptxk_lanes_read(ptx_builder *b, const struct ptxk_lanes *l, ptx_ptr at);
void ptxk_lanes_read_as(ptx_builder *b, const struct ptxk_lanes *l, ptx_ptr at, ptx_cache cache);
// The same by single elements, for an `at` between the boundaries of vectors.
void ptxk_lanes_read_each(ptx_builder *b, const struct ptxk_lanes *l, ptx_ptr at);
// Reads lane `k` alone, element `place` of the array; what there is of it is 0.
void ptxk_lanes_read_lane(ptx_builder *b, const struct ptxk_lanes *l, unsigned k, ptx_ptr at,
                          ptx_val place);
// Reads the lanes from element `i` (s32) on that are below `length`; the others become 0.
void ptxk_lanes_read_some(ptx_builder *b, const struct ptxk_lanes *l, ptx_ptr at, ptx_val i,
                          ptx_val length);

struct ptxk_lanes ptxk_lanes_copy(ptx_builder *b, const struct ptxk_lanes *l);

// The values of the lanes.
ptx_vec ptxk_lanes_vec(ptx_builder *b, const struct ptxk_lanes *l);
// The same; bf16 lanes as f32, which has the same bits followed by zeros.
void ptxk_lanes_of(ptx_builder *b, const struct ptxk_lanes *l, ptx_val value[PTXK_LANES]);

// The stored form of a value: the value itself, an f32 rounded to nearest, or the upper half of a
// u32 as bf16.
ptx_val ptxk_narrow(ptx_builder *b, ptx_type type, ptx_val x);

// Writes whole vectors of what ptxk_narrow() takes. `type`: the array's, which `at` does not have
// where the builder has failed. A value of an 8-bit type is the word that it is in.
void ptxk_lanes_write(ptx_builder *b, ptx_type type, ptx_ptr at, const ptx_val *value,
                      unsigned lanes);
void ptxk_lanes_write_as(ptx_builder *b, ptx_type type, ptx_ptr at, const ptx_val *value,
                         unsigned lanes, ptx_cache cache);
// Writes the lanes from element `i` (s32) on that are below `length`.
void ptxk_lanes_write_some(ptx_builder *b, ptx_type type, ptx_ptr at, ptx_val i, ptx_val length,
                           const ptx_val value[PTXK_LANES]);

#endif
