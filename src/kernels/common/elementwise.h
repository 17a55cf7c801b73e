// SPDX-License-Identifier: MIT
// Elementwise kernels. They start their loads, prepare what all elements need while the loads are
// in flight, then compute and write.
#ifndef PTXGEN_KERNELS_ELEMENTWISE_H
#define PTXGEN_KERNELS_ELEMENTWISE_H

#include "lanes.h"

enum { MAX_OUTPUTS = 2 };

// Tensors of n elements each. An output may be an input.
struct tensors {
    ptx_ptr in[MAX_INPUTS], out[MAX_OUTPUTS];
    unsigned inputs, outputs;
    uint32_t block; // threads of a block
    ptx_val
        early; // a predicate: start the loads before it is known what to compute; poisoned: always
};

// The elements of a thread: 16 bytes, counted from the 16-byte boundary at or before in[0]. If all
// tensors have the same misalignment, everything except the head and the tail is accessed as whole
// vectors; otherwise a thread accesses single elements. Positions count from the block's first
// boundary.
struct elements {
    struct tensors of; // the pointers are offset to the block
    ptx_val place;     // s32, position of the thread's first element
    ptx_val head, end; // s32: the tensors have the positions head to end - 1
    ptx_val whole;     // a predicate: the whole vector is in the tensors, and all have the same
                       // misalignment
    struct ptxk_lanes in[MAX_INPUTS]; // the loaded vectors
};

// Starts the loads of whole vectors.
struct elements ptxk_read_elements(ptx_builder *b, ptx_val n, const struct tensors *tensors);

// out[o] = f(in[0], in[1], ...), one vector of lanes at a time.
typedef void compute_lanes(ptx_builder *b, const void *user, const ptx_vec *in, ptx_vec *out);
void ptxk_write_elements(ptx_builder *b, const struct elements *elements, compute_lanes *compute,
                         const void *user);

#endif
