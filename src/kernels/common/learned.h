// SPDX-License-Identifier: MIT
// The gradients of a quantizer's scale and zero point: what an element adds to their sums.
#ifndef PTXGEN_KERNELS_LEARNED_H
#define PTXGEN_KERNELS_LEARNED_H

#include "division.h"
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

// A quantizer with its range around the zero point, in the compute type.
struct learned {
    struct divisor scale;
    struct levels around;
    ptx_val minus_scale; // f64; poisoned if the zero point is fixed
};

bool ptxk_learns_zero_point(const struct ptx_kernel_spec *spec);

// `zero_point` is an element of the parameter.
struct learned ptxk_learned_of(ptx_builder *b, const struct ptx_kernel_spec *spec, ptx_val scale,
                               ptx_val zero_point, struct levels levels);

// The quantizer that another lane of the warp has. All lanes must execute it.
struct learned ptxk_learned_of_lane(ptx_builder *b, const struct ptx_kernel_spec *spec,
                                    const struct learned *q, ptx_val lane);

// The sums of a thread: f64 variables. `zero_point` is poisoned if it is fixed.
struct learned_sums {
    ptx_val scale, zero_point;
};
struct learned_sums ptxk_learned_sums_var(ptx_builder *b, const struct ptx_kernel_spec *spec);

// The quantizer and the sums of each lane; lanes may share them.
struct learned_lanes {
    const struct learned *of[8];
    const struct learned_sums *sums[8];
};

// Adds the terms of x and d_output to the sums, lane by lane. Returns d_input.
ptx_vec ptxk_learned_terms(ptx_builder *b, const struct ptx_kernel_spec *spec,
                           const struct learned_lanes *lanes, ptx_vec x, ptx_vec d_output);

#endif
