// SPDX-License-Identifier: MIT
// Kernels that compute each element by itself. They begin to read, prepare what all elements need
// while that is on its way, then compute and write.
#ifndef PTXGEN_KERNELS_ELEMENTWISE_H
#define PTXGEN_KERNELS_ELEMENTWISE_H

#include "common.h"

enum { MAX_INPUTS = 2, MAX_OUTPUTS = 2 };

// Tensors of n elements each. An output may be an input.
struct tensors {
    ptx_ptr in[MAX_INPUTS], out[MAX_OUTPUTS];
    unsigned inputs, outputs;
    uint32_t block; // threads
    ptx_val early;  // a predicate: read before it is known what to do; poisoned: always
};

// What a thread reads and writes: 16 bytes of elements, laid out from the 16-byte boundary at or
// before in[0], so that at any alignment that the tensors share all but the head and the tail are
// whole vectors; elsewhere, and where tensors are aligned differently, a thread goes element by
// element. Places count from the block's first boundary.
struct elements {
    struct tensors of;         // the pointers are those of the block
    ptx_val place;             // s32, of the thread's first
    ptx_val head, end;         // s32: the tensors have the places from head up to end
    ptx_val whole;             // a predicate: they have all of the vector, aligned alike
    ptx_vec words[MAX_INPUTS]; // variables: the vectors, once they are read
};

// Begins to read what is a whole vector.
struct elements ptxk_read_elements(ptx_builder *b, ptx_val n, const struct tensors *tensors);

// out[o] = what is computed of in[0], in[1] ..., a vector of lanes at a time.
typedef void compute_lanes(ptx_builder *b, const void *user, const ptx_vec *in, ptx_vec *out);
void ptxk_write_elements(ptx_builder *b, const struct elements *elements, compute_lanes *compute,
                         const void *user);

#endif
