// SPDX-License-Identifier: MIT
// Which channel an element is of, in a tensor seen as [outer, channels, inner]: without a division
// of 64-bit integers.
#ifndef PTXGEN_KERNELS_CHANNEL_H
#define PTXGEN_KERNELS_CHANNEL_H

#include <ptxgen/builder.h>

struct channels {
    ptx_val count, inner;  // u64, above 0
    ptx_val inner_inverse; // f64
};
struct channels ptxk_channels_of(ptx_builder *b, ptx_val count, ptx_val inner);

// x / y rounded down, by the rounded inverse of y; for x below 2^50.
ptx_val ptxk_quotient_by(ptx_builder *b, ptx_val x, ptx_val y, ptx_val inverse);

// An element's channel and its place among the `inner` elements that are next to each other; u64.
// A step from one element to a later one is such a pair, too.
struct position {
    ptx_val channel, offset;
};

// Of element `place` - `skew`; where that is negative, of the one that is as far before a row's
// beginning. `skew` is at most 8.
struct position ptxk_position_of(ptx_builder *b, const struct channels *c, ptx_val place,
                                 ptx_val skew);
// That many elements.
struct position ptxk_step_of(ptx_builder *b, const struct channels *c, uint32_t elements);
// Sets the variables of `at` to where the step leads.
void ptxk_take_step(ptx_builder *b, const struct channels *c, struct position at,
                    struct position step);
struct position ptxk_position_var(ptx_builder *b, struct position at);

#endif
