// SPDX-License-Identifier: MIT
// The factors of a step plan's rows and columns.
#ifndef PTXGEN_PLANS_STEP_QK_CLIP_H
#define PTXGEN_PLANS_STEP_QK_CLIP_H

#include "arrays.h"
#include "step_table.h"

// Checks the entries, of params whose tensors are checked, and sets what they say of each tensor.
// Nothing is set where there are none. After a success ptxp_qk_free() must be called.
ptx_status ptxp_qk_create(const struct ptx_step_params *params, struct qk_set *set);
void ptxp_qk_free(struct qk_set *set);
bool ptxp_qk_has(const struct qk_set *set, size_t t);

// Writes the tables of the layout.
void ptxp_qk_fill(const struct ptx_step_params *params, const struct step_layout *layout,
                  CUdeviceptr memory, unsigned char *image);

// The addresses of factors, as arrays to be checked. Returns their number, at most qk_clip_count.
size_t ptxp_qk_arrays(const struct ptx_step_params *params, struct plan_array *to);

#endif
