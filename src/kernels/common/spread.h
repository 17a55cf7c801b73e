// SPDX-License-Identifier: MIT
// Elements that are not consecutive: some rows or columns of a matrix in memory. Element i of a
// tensor is i / run * stride + i % run elements behind the address of each of its arrays.
#ifndef PTXGEN_KERNELS_SPREAD_H
#define PTXGEN_KERNELS_SPREAD_H

#include "common.h"

// Of elements from `first` (u64) on, less than 2^30 of them.
struct ptxk_spread {
    ptx_val run, stride; // u32; poisoned: the plan has no such tensor
    ptx_val rest;        // u32: place of the first one in its run
    ptx_val base;        // u64: where that run begins
};
struct ptxk_spread ptxk_spread_from(ptx_builder *b, ptx_val run, ptx_val stride, ptx_val first);

// Where element `i` (s32) behind the first one is, from `base` on: u64.
ptx_val ptxk_spread_at(ptx_builder *b, const struct ptxk_spread *s, ptx_val i);

// Whether four elements that begin at a multiple of four are consecutive, and begin at one in
// memory: a predicate.
ptx_val ptxk_spread_has_vectors(ptx_builder *b, ptx_val run, ptx_val stride);

#endif
