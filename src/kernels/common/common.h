// SPDX-License-Identifier: MIT
// What the kernels share, written with the public builder only.
#ifndef PTXGEN_KERNELS_COMMON_H
#define PTXGEN_KERNELS_COMMON_H

#include <ptxgen/kernels.h>

#include "vector.h"

enum { WARP = 32 }; // threads

// The compute type for tensors of `dtype`.
ptx_type ptxk_compute_type(ptx_type dtype);

// The sum of `x` over a block of `threads` (a multiple of 32, at most 1024), in lane 0 of warp 0. A
// tree over lanes, then over warps, the same in every launch. All threads of the block must execute
// it.
ptx_val ptxk_block_sum(ptx_builder *b, ptx_val x, unsigned threads);

// The sum over teams of adjacent lanes of a warp, in the first lane of each: x[i] += x[i + d] for
// d = team / 2 ... 1. `team`: u32, a power of two; an immediate costs fewer instructions.
ptx_val ptxk_team_sum(ptx_builder *b, ptx_val x, ptx_val team);
// Several such sums, together: each waits for its lanes.
void ptxk_team_sums(ptx_builder *b, ptx_val *x, unsigned count, ptx_val team);
// The same sum of `team` values of one thread.
ptx_val ptxk_team_sum_of(ptx_builder *b, const ptx_val *x, unsigned team);

// The same with another combination, over lanes that are `apart` from each other: the teams begin
// at the first `apart` lanes, if there are no more. And in all lanes of each team of adjacent ones.
typedef ptx_val ptxk_combine(ptx_builder *b, ptx_val x, ptx_val y);
ptx_val ptxk_lanes_combine(ptx_builder *b, ptxk_combine *combine, ptx_val x, uint32_t team,
                           uint32_t apart);
ptx_val ptxk_lanes_combine_all(ptx_builder *b, ptxk_combine *combine, ptx_val x, uint32_t team);

// The greatest `x` of a block, in the same thread; f32, of which NaN are left out. All threads of
// the block must execute it.
ptx_val ptxk_block_max(ptx_builder *b, ptx_val x, unsigned threads);

// The greatest or the least `x` of a block, in the same thread; f32, NaN if any is. All threads of
// the block must execute it.
ptx_val ptxk_block_extreme(ptx_builder *b, ptx_val x, unsigned threads, bool greatest);

// Several values of a block at once: each becomes a variable, which in thread 0 is what its
// function makes of those of all threads, in the order of ptxk_block_sum(), with one barrier for
// all. All threads of the block must execute it.
enum { PTXK_MOST_REDUCED = 4 };
struct ptxk_reduced {
    ptx_val value;
    ptxk_combine *combine;
    const char *what; // for comments: "the largest"
};
void ptxk_block_reduce(ptx_builder *b, struct ptxk_reduced *r, unsigned count, unsigned threads);

// The larger and the smaller; NaN if either is NaN.
ptx_val ptxk_larger(ptx_builder *b, ptx_val x, ptx_val y);
ptx_val ptxk_smaller(ptx_builder *b, ptx_val x, ptx_val y);

// The sum of `count` values (a power of two) as a binary tree.
ptx_val ptxk_tree_sum(ptx_builder *b, const ptx_val *x, unsigned count);

// `x`, with every NaN replaced by one NaN (all bits set except the sign). f64 arithmetic and
// conversions from f64 propagate the payload of an input NaN, so the bits would depend on which NaN
// came first.
ptx_val ptxk_one_nan(ptx_builder *b, ptx_val x);

// A comment for element `k` of so many that are alike, if it is the first of `each` of them: what
// is done, and with which.
void ptxk_comment_lanes(ptx_builder *b, const char *what, unsigned k, unsigned each,
                        unsigned lanes);

// How many have one comment where they are converted or compared, which takes several instructions
// on targets before sm_80.
unsigned ptxk_comment_each(ptx_builder *b);

// The least power of two of threads, at most `most`, of which each has at most `share` of `count`
// (u64) things; u32.
ptx_val ptxk_team_for(ptx_builder *b, ptx_val count, uint32_t share, uint32_t most);

// The exponent of a power of two.
unsigned ptxk_log2(uint32_t power);

// x / divisor, x unsigned and the divisor a power of two. For a constant divisor ptxas would emit a
// division with a reciprocal at run time.
ptx_val ptxk_over_power_of_two(ptx_builder *b, ptx_val x, uint32_t power);

// The number of elements of `dtype` in 16 bytes.
unsigned ptxk_vector_lanes(ptx_type dtype);

// The misalignment of `p`: the number of elements after a 16-byte boundary, u64; and the same for
// an address, u32.
ptx_val ptxk_elements_beyond_boundary(ptx_builder *b, ptx_ptr p);
ptx_val ptxk_skew_of_address(ptx_builder *b, ptx_val address, ptx_type dtype);

// Whether all pointers have the same misalignment; poisoned if they are all the same pointer.
ptx_val ptxk_aligned_alike(ptx_builder *b, const ptx_ptr *p, unsigned count);

// A scalar that is passed by value, or read from device memory if the option says so.
ptx_val ptxk_scalar_param(ptx_builder *b, ptx_type type, bool device, struct ptx_param_info info);

// min(1, max_norm / (norm + eps)) in f32; 1 if `total` is 0, NaN if the norm is NaN, which PTX's
// min would drop. `total` is the sum of squares and `root` the norm in f64; `norm` is the norm in
// f32. If norm + eps is 0 or infinite there, the result is that of the division in f64.
ptx_val ptxk_clip_scale(ptx_builder *b, ptx_val total, ptx_val root, ptx_val norm, ptx_val max_norm,
                        ptx_val eps);

#endif
