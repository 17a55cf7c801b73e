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

#endif
