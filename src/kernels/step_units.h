// SPDX-License-Identifier: MIT
// Clipping of units (AGC): each row of a gradient, or all of a vector, by the norms of the
// gradient and of the weights. The norm's launch leaves sums of squares of each unit's gradient,
// the step those of the weights; a launch between them makes a factor for each unit.
#ifndef PTXGEN_KERNELS_STEP_UNITS_H
#define PTXGEN_KERNELS_STEP_UNITS_H

#include "norm_parts.h"
#include "step_tile.h"

// ---- in the norm's launch -----------------------------------------------------------------------

struct ptxk_unit_sums {
    ptx_ptr rows, sums; // u64, f64
};
// Has the launch sum the units of tensors that are clipped.
void ptxk_unit_sums_param(ptx_builder *b, struct norm_squares *n, struct ptxk_unit_sums *u);

// ---- in the step --------------------------------------------------------------------------------

void ptxk_units_param(ptx_builder *b, struct ptxk_tile *s);
// Reads what does not depend on other launches.
void ptxk_units_read(ptx_builder *b, struct ptxk_tile *s);
// Sets `to`, a variable, to the factor of element `i` (s32), ahead of its use as s->unit_ahead.
void ptxk_units_ahead(ptx_builder *b, const struct ptxk_tile *s, ptx_val i, ptx_val to);
// Sets the factors of the gradients of so many lanes from element `i` (s32) of the tile on.
void ptxk_units_factors(ptx_builder *b, struct ptxk_tile *s, ptx_val i, unsigned lanes);
// Notes a weight as it is stored, f32 or its own type; and leaves what was noted of the vector at
// `i`, which all threads of the warp must execute.
void ptxk_units_note(ptx_builder *b, const struct ptxk_tile *s, ptx_val weight);
void ptxk_units_leave(ptx_builder *b, const struct ptxk_tile *s, ptx_val i);

#endif
