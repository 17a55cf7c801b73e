// SPDX-License-Identifier: MIT
/// Tensors of difficult values: numbers of every size, signed zeros, subnormals, NaN, infinity.
#ifndef PTXGEN_TESTS_DATA_H
#define PTXGEN_TESTS_DATA_H

#include "random.h"
#include "reference/reference.h"

enum data_kind {
    DATA_PLAIN,   ///< numbers of about the size of 1
    DATA_WILD,    ///< any bits of a finite number
    DATA_SPECIAL, ///< both, with zeros, ends of ranges, infinities, and NaNs with any payload
};

void data_fill(struct random *r, enum ref_type type, enum data_kind kind, void *p, uint64_t n);
/// Makes every value positive.
void data_make_positive(enum ref_type type, void *p, uint64_t n);
/// Numbers for which x / scale is at a rounding boundary, or one step beside it; some special
/// values.
void data_fill_ties(struct random *r, enum ref_type type, double scale, void *p, uint64_t n);

#endif
