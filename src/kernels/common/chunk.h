// SPDX-License-Identifier: MIT
// The sum of squares of a run of elements that one block reads, in f64.
#ifndef PTXGEN_KERNELS_CHUNK_H
#define PTXGEN_KERNELS_CHUNK_H

#include "common.h"

// Threads that ptxk_chunk_square_sum() is written for, and the sums of a block.
enum { CHUNK_BLOCK = 256, CHUNK_SCRATCH = 8 * CHUNK_BLOCK };

// A chunk: `length` (s32, at most `most`) elements of `x` from the element `first` (u64) on, a
// multiple of the elements in 16 bytes, so that it lies as far from a boundary as `x`. `most` is
// 2048 or more; it decides how many rows are read at a time, no more, and a chunk may be shorter.
struct chunk {
    ptx_ptr x;
    ptx_val first;
    ptx_val length;
    uint32_t most;
    ptx_val tid;     // %tid.x
    ptx_ptr scratch; // CHUNK_SCRATCH f64 of shared memory; poisoned: the chunk has its own
    bool ragged;     // many chunks end between vectors: that costs little then, and a bit in all
};

// This thread's share of the sum, for ptxk_block_sum(). Which thread and which place of the tree an
// element goes to depends on its place in the chunk alone, so the block's sum has the same bits at
// any alignment. f64 holds the square of every f32, f16 and bf16: nothing overflows or vanishes.
// All threads must come by.
ptx_val ptxk_chunk_square_sum(ptx_builder *b, const struct chunk *chunk);

#endif
