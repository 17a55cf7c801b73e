// SPDX-License-Identifier: MIT
// What the kernels share, written with the public builder alone.
#ifndef PTXGEN_KERNELS_COMMON_H
#define PTXGEN_KERNELS_COMMON_H

#include <ptxgen/kernels.h>

// Threads; the widest load and store of a thread.
enum { WARP = 32, VECTOR_BYTES = 16 };

// The type that arithmetic on tensors of `dtype` is done in.
ptx_type ptxk_compute_type(ptx_type dtype);

// The sum of `x` over a block of `threads` (a multiple of 32, at most 1024), in lane 0 of warp 0; a
// tree over lanes, then over warps, the same for every launch. All threads must come by.
ptx_val ptxk_block_sum(ptx_builder *b, ptx_val x, unsigned threads);

// The sum of `count` values, a power of two, as a tree of halves.
ptx_val ptxk_tree_sum(ptx_builder *b, const ptx_val *x, unsigned count);

// `x`, or the one NaN (all bits but the sign set) for every NaN: arithmetic in f64 and conversions
// from it carry an input's NaN along, so that the result would depend on which one came first.
ptx_val ptxk_one_nan(ptx_builder *b, ptx_val x);

// x, unsigned, over a power of two. ptxas divides by a constant at run time, with a reciprocal.
ptx_val ptxk_over_power_of_two(ptx_builder *b, ptx_val x, uint32_t power);

// Lanes of `dtype` in 16 bytes.
unsigned ptxk_vector_lanes(ptx_type dtype);

// How many elements `p` lies beyond a 16-byte boundary: u64; and the same of an address: u32.
ptx_val ptxk_elements_beyond_boundary(ptx_builder *b, ptx_ptr p);
ptx_val ptxk_skew_of_address(ptx_builder *b, ptx_val address, ptx_type dtype);

// Whether all are equally far from a 16-byte boundary; poisoned if they are all the same.
ptx_val ptxk_aligned_alike(ptx_builder *b, const ptx_ptr *p, unsigned count);

// A scalar passed by value, or read from device memory where the option says so.
ptx_val ptxk_scalar_param(ptx_builder *b, ptx_type type, bool device, struct ptx_param_info info);

// min(1, max_norm / (norm + eps)) in f32; 1 if `total` is 0, NaN if the norm is: PTX's min would
// drop it. `total` is the sum of squares and `root` the norm in f64, `norm` the same in f32.
ptx_val ptxk_clip_scale(ptx_builder *b, ptx_val total, ptx_val root, ptx_val norm, ptx_val max_norm,
                        ptx_val eps);

// ---- words --------------------------------------------------------------------------------------

// Vectors of 16 bytes that are read ahead of their use, into variables: ptxas moves any other load
// down to the first use of its value, behind branches too. Lanes of 16 bits travel as words of two.

// Variables for a vector of `dtype`, zeros until it is read.
ptx_vec ptxk_words_var(ptx_builder *b, ptx_type dtype);

// Sets them to the vector that begins with p[i], at a 16-byte boundary.
void ptxk_words_read(ptx_builder *b, ptx_vec words, ptx_ptr p, ptx_val i);

ptx_vec ptxk_words_copy(ptx_builder *b, ptx_vec words);

// The lanes, of `dtype`.
ptx_vec ptxk_words_lanes(ptx_builder *b, ptx_vec words, ptx_type dtype);

#endif
