// SPDX-License-Identifier: MIT
/// An observer of a tensor's range in plain C; the rules of reference.h. The formulas are those of
/// PyTorch's MovingAverageMinMaxObserver.
#ifndef PTXGEN_TOOLS_REFERENCE_OBSERVER_H
#define PTXGEN_TOOLS_REFERENCE_OBSERVER_H

#include "reference/reference.h"

/// Merges x, as floats, with a least and a greatest value. A zero is +0; NaN stays in both, as
/// FFFFFFFF in the first and 7FFFFFFF in the second.
void ref_observe_min_max(enum ref_type type, const void *x, uint64_t n, float extremes[2]);

struct ref_observer {
    float averaging_constant, eps;
    int32_t q_min, q_max;
    bool symmetric;
    int32_t zero; ///< the zero point, if symmetric
};

/// Updates the averages with the extremes, which become +inf, -inf, and derives the quantizer.
void ref_moving_average_update(const struct ref_observer *rule, float extremes[2],
                               float averages[2], float *scale, int32_t *zero_point);

#endif
