// SPDX-License-Identifier: MIT
/// Clipping of units (AGC) in plain C, with the bits that a GPU must give. Written from the formula
/// in step.h; shares no code with the library.
#ifndef PTXGEN_TESTS_REFERENCE_UNITS_H
#define PTXGEN_TESTS_REFERENCE_UNITS_H

#include "reference/reference.h"

/// A tensor of `count` elements, `columns` to a unit.
struct ref_units {
    enum ref_type gradient_type, parameter_type;
    const void *gradient, *parameter;
    uint64_t columns;
    bool vector;    ///< one unit, which is no row
    unsigned lanes; ///< of a thread of the step: 4 or 8
    double clipping, eps;
};

/// The sum of squares of the gradients of the parts that begin at elements `begin` to `end` - 1: a
/// part is 1024 elements of a unit, or what is left of it.
double ref_units_chunk_sum(const struct ref_units *u, uint64_t begin, uint64_t end);
/// The factor of a unit's gradient; `factor`: of its norm group.
float ref_unit_factor(const struct ref_units *u, uint64_t unit, float factor);

#endif
