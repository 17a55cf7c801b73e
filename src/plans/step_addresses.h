// SPDX-License-Identifier: MIT
#ifndef PTXGEN_PLANS_STEP_ADDRESSES_H
#define PTXGEN_PLANS_STEP_ADDRESSES_H

#include <ptxgen/step.h>

#include "norm_plan.h"

// Checks the addresses of all tensors and groups, of which tensors first to first + moves - 1 get
// theirs by this call.
ptx_status ptxp_step_check_addresses(const ptx_step_plan *plan, size_t first, size_t moves);
// Checks the scales of copies, as they are now. Waits for the stream of the params, if there are
// any.
ptx_status ptxp_step_check_scales(const struct norm_plan *norm,
                                  const struct ptx_step_params *params);

#endif
