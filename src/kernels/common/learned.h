// SPDX-License-Identifier: MIT
// The gradients of a quantizer's scale and zero point: what an element adds to their sums.
#ifndef PTXGEN_KERNELS_LEARNED_H
#define PTXGEN_KERNELS_LEARNED_H

#include "quantizer.h"

enum { LEARNED_DIVISION, LEARNED_ZERO_POINT, LEARNED_RANGE, LEARNED_OPTIONS };

#define LEARNED_OPTION_ROWS                                                                        \
    [LEARNED_DIVISION] = DIVISION_OPTION_ROW,                                                      \
    [LEARNED_ZERO_POINT] = { "zero_point",                                                         \
                             { "learned", "fixed" },                                               \
                             "a float with a gradient, or an s32 without" },                       \
    [LEARNED_RANGE] = { "range",                                                                   \
                        { "level", "quotient" },                                                   \
                        "tested on the rounded level, or on x / scale (LSQ)" }

bool ptxk_learns_zero_point(const struct ptx_kernel_spec *spec);

// The sums of a quantizer; that of the zero point if it is learned.
enum { SUM_SCALE, SUM_ZERO_POINT };
unsigned ptxk_learned_sums(const struct ptx_kernel_spec *spec);

// `zero_point` is an element of the parameter. The quantizer's lo and hi are levels: q_min and
// q_max minus the zero point.
struct quantizer ptxk_learned_of(ptx_builder *b, const struct ptx_kernel_spec *spec, ptx_val scale,
                                 ptx_val zero_point, struct levels levels);

// The quantizer that another lane of the warp has. All lanes must execute it.
struct quantizer ptxk_learned_of_lane(ptx_builder *b, const struct ptx_kernel_spec *spec,
                                      const struct quantizer *q, ptx_val lane);

// Adds the terms of x and d_output to the sums, lane by lane. Returns d_input.
ptx_vec ptxk_learned_terms(ptx_builder *b, const struct ptx_kernel_spec *spec,
                           const struct quantizers *q, const ptx_vec *in);

#endif
