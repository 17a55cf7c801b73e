// SPDX-License-Identifier: MIT
// Kernels that compute a tensor and the sums that each quantizer adds to: which thread has which
// elements. pieces.h says how they are divided.
#ifndef PTXGEN_KERNELS_PIECE_WALK_H
#define PTXGEN_KERNELS_PIECE_WALK_H

#include "channel_walk.h"
#include "pieces.h"

// Computes n elements and writes the sums of each piece, or of whole rows the gradients. Those of a
// thread go to running sums in ascending order, and those of a piece are a tree: the sizes alone
// decide on both, so the bits are the same at any alignment.
void ptxk_piece_walk(ptx_builder *b, struct channel_walk *w, ptx_val n, enum pieces_layout layout);

// ---- for walks ----------------------------------------------------------------------------------

enum { PIECES_AHEAD = 4 }; // vectors of each tensor that a thread has read before it computes

// The vectors that a thread has read; at first 0.
struct ptxk_ahead {
    struct ptxk_lanes in[PIECES_AHEAD][MAX_INPUTS];
};
struct ptxk_ahead ptxk_ahead_var(ptx_builder *b, const struct channel_walk *w);

// Whether the tensors can be read and written in vectors.
ptx_val ptxk_piece_aligned(ptx_builder *b, const struct channel_walk *w);

// The sum of a column over the warps, whose sums are `apart` elements.
ptx_val ptxk_piece_sum_of_warps(ptx_builder *b, ptx_ptr sums, ptx_val i, uint32_t apart);

// A scale for each channel, which changes from element to element: a thread sums down columns.
// Completes w->channels.
void ptxk_piece_columns(ptx_builder *b, struct channel_walk *w);

#endif
