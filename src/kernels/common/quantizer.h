// SPDX-License-Identifier: MIT
// The gradient of a quantizer with a straight-through estimator, shared by the kernels with one
// scale and with one scale per channel.
#ifndef PTXGEN_KERNELS_QUANTIZER_H
#define PTXGEN_KERNELS_QUANTIZER_H

#include "common.h"
#include "division.h"
#include "quantizer_target.h"

enum { QUANTIZER_DIVISION, QUANTIZER_GRADIENT, QUANTIZER_TARGET, QUANTIZER_OPTIONS };

#define QUANTIZER_OPTION_ROWS                                                                      \
    [QUANTIZER_DIVISION] = DIVISION_OPTION_ROW,                                                    \
    [QUANTIZER_GRADIENT] = { "gradient",                                                           \
                             { "quantize", "fake_quantize" },                                      \
                             "in range: d_output / scale, or d_output itself" },                   \
    [QUANTIZER_TARGET] = { "target",                                                               \
                           { QUANTIZER_TARGET_NAMES },                                             \
                           "-128..127, 0..255, or q_min and q_max as parameters" }

// The tensors of a backward pass, as parameters: x and d_output, and d_input.
void ptxk_backward_params(ptx_builder *b, ptx_type dtype, ptx_ptr in[2], ptx_ptr *d_input);

// The zero point's parameter, without the way it is passed.
struct ptx_param_info ptxk_zero_point_info(const struct ptx_kernel_spec *spec);

// The bounds of the quantized type, s64; for `any` they are parameters.
struct levels {
    ptx_val q_min, q_max;
};
struct levels ptxk_target_levels(ptx_builder *b, const struct ptx_kernel_spec *spec);
// The same for every target, as the parameters q_min and q_max.
struct levels ptxk_any_levels(ptx_builder *b);
// The bounds minus the zero point (s64), in the compute type: what x / scale is rounded to if it is
// in range.
struct levels ptxk_levels_around(ptx_builder *b, ptx_type compute, ptx_val zero_point,
                                 struct levels levels);

// A zero point that is a float, rounded to even, from q_min to q_max, as an s64; q_min for a NaN.
ptx_val ptxk_nearest_level(ptx_builder *b, ptx_val zero_point, struct levels levels);

// A scale and its range, in the compute type: the range of x, or of rint(x * reciprocal) if the
// option says so, is lo to hi.
struct quantizer {
    struct divisor scale;
    ptx_val lo, hi;
    ptx_val minus_scale; // f64, of a learned zero point; else poisoned
};

// `zero_point` is an s64.
struct quantizer ptxk_quantizer_of(ptx_builder *b, const struct ptx_kernel_spec *spec,
                                   ptx_val scale, ptx_val zero_point, struct levels levels);

// The same for a whole block; all its threads must execute it. One thread computes the quantizer if
// that costs more than sharing it.
struct quantizer ptxk_quantizer_of_block(ptx_builder *b, const struct ptx_kernel_spec *spec,
                                         ptx_val scale, ptx_val zero_point, struct levels levels);

// A quantizer of variables, which can be set to another quantizer.
struct quantizer ptxk_quantizer_var(ptx_builder *b, struct quantizer init);
void ptxk_quantizer_set(ptx_builder *b, const struct quantizer *var, struct quantizer q);

enum { MAX_SUMS = 2 };

// The quantizer of each lane, and the sums (f64 variables) that the lane adds to, if there are any;
// lanes may share both.
struct quantizers {
    const struct quantizer *of[8];
    const ptx_val *sums[8];
};
struct quantizers ptxk_quantizers_same(const struct quantizer *q, const ptx_val *sums);

// x / scale, lane by lane, in the type of the division.
ptx_vec ptxk_over_scales(ptx_builder *b, const struct quantizers *q, ptx_vec x);

// d_input, computed from x and d_output.
ptx_vec ptxk_straight_through(ptx_builder *b, const struct ptx_kernel_spec *spec,
                              const struct quantizers *q, const ptx_vec *in);

#endif
