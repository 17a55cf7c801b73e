// SPDX-License-Identifier: MIT
/// The gradients of a learned quantizer in plain C: the results that a GPU must give, bit for bit.
/// Written from the formulas, as reference.h.
#ifndef PTXGEN_TOOLS_REFERENCE_LEARNED_H
#define PTXGEN_TOOLS_REFERENCE_LEARNED_H

#include "reference/reference.h"

enum ref_layout { REF_TENSOR, REF_ROWS, REF_COLUMNS, REF_WHOLE };

/// A tensor [outer, channels, inner]; with REF_TENSOR one scale, and channels and inner are unused.
/// With REF_WHOLE outer is 1, and each channel has one sum.
struct ref_learned {
    bool reciprocal;     ///< multiply by the rounded 1 / scale
    bool quotient_range; ///< in range if the unrounded quotient is strictly between the bounds
    int32_t q_min, q_max;
    enum ref_layout layout;
    uint64_t channels, inner;
    const double *scale;       ///< one for each channel; exactly floats, except for f64 tensors
    const double *zero_point;  ///< learned, of the scale's type; NULL: fixed
    const int32_t *zero_fixed; ///< NULL: learned
};

/// The number of sums of each kind.
uint64_t ref_learned_pieces(enum ref_type type, uint64_t n, const struct ref_learned *p);
/// d_input and the sums of the pieces; zero_sums only if the zero point is learned. d_input may be
/// d_output.
void ref_learned_backward(enum ref_type type, const void *x, const void *d_output, void *d_input,
                          uint64_t n, const struct ref_learned *p, double *scale_sums,
                          double *zero_sums);
/// The gradient of each channel from sums [outer, channels, width]; `type` is that of the gradient.
void ref_learned_reduce(enum ref_type type, const double *sums, uint64_t pieces, uint64_t channels,
                        uint64_t width, double grad_factor, void *gradient);

#endif
