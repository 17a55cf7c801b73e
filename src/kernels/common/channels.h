// SPDX-License-Identifier: MIT
// Finds the channel of an element in a tensor seen as [outer, channels, inner], without dividing
// 64-bit integers.
#ifndef PTXGEN_KERNELS_CHANNELS_H
#define PTXGEN_KERNELS_CHANNELS_H

#include "common.h"

struct channels {
    ptx_val count, inner;  // u64, above 0
    ptx_val inner_inverse; // f64
};

// An element's channel and its index among the `inner` adjacent elements of that channel; u64. The
// distance between two elements has the same form.
struct position {
    ptx_val channel, offset;
};

// The rounded 1 / y in f64, for ptxk_quotient_by().
ptx_val ptxk_inverse_of(ptx_builder *b, ptx_val y);

// x / y rounded down, u64, for x below 2^50.
ptx_val ptxk_quotient_by(ptx_builder *b, ptx_val x, ptx_val y, ptx_val inverse);

struct channels ptxk_channels_of(ptx_builder *b, ptx_val count, ptx_val inner);

// The channel of element `place` - `skew`. If that is negative: of the element as far before the
// start of a row. `skew` is at most 8.
struct position ptxk_position_of(ptx_builder *b, const struct channels *c, ptx_val place,
                                 ptx_val skew);

// A position of variables.
struct position ptxk_position_var(ptx_builder *b, struct position at);

// A distance of this many elements.
struct position ptxk_step_of(ptx_builder *b, const struct channels *c, uint32_t elements);

// Advances the variables of `at` by the step.
void ptxk_take_step(ptx_builder *b, const struct channels *c, struct position at,
                    struct position step);

#endif
