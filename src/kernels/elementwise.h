// SPDX-License-Identifier: MIT
// Kernels that compute each element by itself.
#ifndef PTXGEN_KERNELS_ELEMENTWISE_H
#define PTXGEN_KERNELS_ELEMENTWISE_H

#include "common.h"

// out[o][i] = compute(in[0][i], in[1][i] ...) for every element, a vector of lanes at a time.
// Threads have 16 bytes of elements each, or twice as many, laid out from the 16-byte boundary at
// or before in[0], so that at any alignment that the tensors share all but the head and the tail
// are whole vectors; elsewhere, and where tensors are aligned differently, a thread goes element by
// element. An output may be an input.
enum { MAX_INPUTS = 2, MAX_OUTPUTS = 2 };
struct elementwise {
    ptx_ptr in[MAX_INPUTS], out[MAX_OUTPUTS];
    unsigned inputs, outputs;
    uint32_t block; // threads
    bool pairs;     // two vectors a thread, read before either is computed
    ptx_val unless; // a predicate: nothing is to be done; poisoned: there always is, as with pairs
    void (*compute)(ptx_builder *b, const void *user, const ptx_vec *in, ptx_vec *out);
    const void *user;
};
void for_each_element(ptx_builder *b, ptx_val n, const struct elementwise *e);

#endif
