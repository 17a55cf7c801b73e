// SPDX-License-Identifier: MIT
/// The clip factor by its formula in f64, beside the kernels and their reference, which both follow
/// the formula in f32 step by step.
#ifndef PTXGEN_TESTS_CLIP_FORMULA_H
#define PTXGEN_TESTS_CLIP_FORMULA_H

#include "random.h"
#include "reference/reference.h"

/// What four roundings to f32 may make of min(1, max_norm / (sqrt(sum) / loss_scale + eps)) /
/// loss_scale, which is 1 / loss_scale for a sum of 0. Never NaN.
struct clip_bounds {
    double least, most;
};

/// `sum` and `eps`: finite, >= 0. max_norm: >= 0, may be infinite. loss_scale: finite, > 0.
struct clip_bounds clip_formula(double sum, float max_norm, float eps, float loss_scale);

/// The bits of element * factor in f16 or bf16: rounded at once, or to f32 first.
uint16_t clip_rounded(enum ref_type type, double element, float factor, bool through_f32);

/// A random element of f16 or bf16, and a factor below 1, for which it makes a difference.
struct clip_product {
    double element;
    float factor;
};
struct clip_product clip_rounded_twice(struct random *r, enum ref_type type);

#endif
