// SPDX-License-Identifier: MIT
/// Tensors full of what goes wrong: every size of number, signed zeros, subnormals, NaN, infinity.
#ifndef PTXGEN_TESTS_DATA_H
#define PTXGEN_TESTS_DATA_H

#include "random.h"
#include "reference/reference.h"

enum data_kind {
    DATA_PLAIN,   ///< numbers of about the size of 1
    DATA_WILD,    ///< any finite pattern of bits
    DATA_SPECIAL, ///< a mixture of both with zeros, ends of ranges, infinities, NaNs of any payload
};

void data_fill(struct random *r, enum ref_type type, enum data_kind kind, void *p, uint64_t n);
/// Clears every sign.
void data_make_positive(enum ref_type type, void *p, uint64_t n);
/// Numbers that fall on, or one step beside, a boundary of x / scale's rounding; some special ones.
void data_fill_ties(struct random *r, enum ref_type type, double scale, void *p, uint64_t n);

#endif
