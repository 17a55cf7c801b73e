// SPDX-License-Identifier: MIT
// The sum of squares of consecutive elements that one block reads, in f64.
#ifndef PTXGEN_KERNELS_CHUNK_H
#define PTXGEN_KERNELS_CHUNK_H

#include "common.h"

// The block size that ptxk_chunk_square_sum() requires, and the number of sums of a block.
enum { CHUNK_BLOCK = 256, CHUNK_SCRATCH = 8 * CHUNK_BLOCK };

// A chunk: `length` (s32, at most `most`) elements of `x` from element `first` (u64) on. `first` is
// a multiple of the elements in 16 bytes, so the chunk has the same misalignment as `x`. `most` is
// 2048 or more and only decides how many rows are read at a time; a chunk may be shorter.
struct chunk {
    ptx_ptr x;
    ptx_val first;
    ptx_val length;
    uint32_t most;
    ptx_val tid;     // %tid.x
    ptx_ptr scratch; // CHUNK_SCRATCH f64 of shared memory; poisoned: the chunk declares its own
    bool ragged; // many chunks end within a vector: speeds them up and slows the others slightly
    const struct chunk_seen *seen; // NULL: only the sum is asked for
};

// What else is known of the thread's elements: variables, set as the sum is taken.
struct chunk_seen {
    ptx_val largest; // f32: magnitude, NaN if any is
    ptx_val zeros;   // u32
};
// Notes one element.
void ptxk_chunk_see(ptx_builder *b, const struct chunk_seen *seen, ptx_val x);
// The same of one that is 0 where it is not there (a predicate; poisoned: it is).
void ptxk_chunk_see_some(ptx_builder *b, const struct chunk_seen *seen, ptx_val x, ptx_val there);
// Adds its square to a sum, an f64 variable.
void ptxk_add_square(ptx_builder *b, ptx_val sum, ptx_val x);

// This thread's part of the sum, for ptxk_block_sum(). The thread and the position in the tree
// depend only on the element's index in the chunk, so the block's sum has the same bits at any
// alignment. f64 holds the square of every f32, f16 and bf16: nothing overflows or underflows. All
// threads of the block must execute it.
ptx_val ptxk_chunk_square_sum(ptx_builder *b, const struct chunk *chunk);

// Sums of several arrays: the chunk's x, an f32 array at a multiple of 16 bytes, takes `y` up.
struct chunk_addend {
    ptx_ptr y;    // f32, f16 or bf16, at any multiple of its element
    ptx_val adds; // a predicate, of all threads: there is a y; else x stays
    ptx_val onto; // a predicate, of all threads: x has a sum; else it becomes y. One of both holds
};

// What x becomes, from both values.
ptx_val ptxk_chunk_taken_up(ptx_builder *b, const struct chunk_addend *a, ptx_val x, ptx_val y);

// x = onto ? x + y : y, in f32. `squares`: returns this thread's part of the sum of squares of the
// new x, as ptxk_chunk_square_sum() of it; all threads of the block must execute it. Else returns
// nothing.
ptx_val ptxk_chunk_add(ptx_builder *b, const struct chunk *chunk, const struct chunk_addend *a,
                       bool squares);

#endif
