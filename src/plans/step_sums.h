// SPDX-License-Identifier: MIT
// Plans that sum gradients of micro-batches.
#ifndef PTXGEN_PLANS_STEP_SUMS_H
#define PTXGEN_PLANS_STEP_SUMS_H

#include <ptxgen/step.h>

#include "kernels/step_apply.h"

// The parts of all tensors, a block for each; at least one, which may be of the empty tensor.
// `rows`: gets them, if it is not NULL.
uint64_t ptxp_sum_parts(const struct ptx_step_params *params, struct step_tile_row *rows);

// Where the marks of a plan's launches begin: far from those of other plans, and of other
// processes, whose counts a checkpoint may have.
uint32_t ptxp_sum_first_turn(void);

#endif
