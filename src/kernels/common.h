// SPDX-License-Identifier: MIT
// What the kernels share, written with the public builder alone.
#ifndef PTXGEN_KERNELS_COMMON_H
#define PTXGEN_KERNELS_COMMON_H

#include <ptxgen/kernels.h>

// The type that arithmetic on tensors of `dtype` is done in.
ptx_type compute_type(ptx_type dtype);

// The sum of `x` over a block of `threads` (a multiple of 32, at most 1024), in lane 0 of warp 0; a
// tree over lanes, then over warps, the same for every launch. All threads must come by.
ptx_val block_sum(ptx_builder *b, ptx_val x, unsigned threads);

// `x`, or the one NaN (all bits but the sign set) for every NaN: arithmetic in f64 and conversions
// from it carry an input's NaN along, so that the result would depend on which one came first.
ptx_val one_nan(ptx_builder *b, ptx_val x);

// Lanes of `dtype` in 16 bytes.
unsigned vector_lanes(ptx_type dtype);

// The elements that a thread of an elementwise kernel has: lo <= i < hi, and whether they are a
// whole vector that every tensor has 16-byte aligned. Threads are laid out from the 16-byte
// boundary at or before tensor[0], so that only its head and tail are not whole.
struct span {
    ptx_val lo, hi; // u64
    ptx_val whole;
    unsigned lanes;
};
struct span thread_span(ptx_builder *b, ptx_val n, const ptx_ptr *tensors, unsigned count);

// A scalar passed by value, or read from device memory where the option says so.
ptx_val scalar_param(ptx_builder *b, ptx_type type, bool device, struct ptx_param_info info);

#endif
