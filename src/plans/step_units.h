// SPDX-License-Identifier: MIT
// The units of a step plan that clips them (AGC).
#ifndef PTXGEN_PLANS_STEP_UNITS_H
#define PTXGEN_PLANS_STEP_UNITS_H

#include <ptxgen/step.h>

struct step_layout;

// How many of each a plan has; without clipping none.
struct unit_counts {
    bool clips, reads; // some tensor's units are clipped; of some the weights are read
    uint64_t units, blocks, sums, weights;
};

ptx_status ptxp_units_check_group(uint32_t g, const struct ptx_step_group *group);
// Of parameters whose tensors are valid by themselves.
ptx_status ptxp_units_check(const struct ptx_step_params *params);
// Whether any group's units are clipped.
bool ptxp_units_are_clipped(const struct ptx_step_params *params);

// Once the plan's variants are known.
ptx_status ptxp_units_count(const struct ptx_step_params *params, struct unit_counts *counts);
// Fills rows, blocks and tiles of the image; those of the step are filled.
void ptxp_units_fill(const struct ptx_step_params *params, const struct step_layout *layout,
                     unsigned char *image);

#endif
