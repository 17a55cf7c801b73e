// SPDX-License-Identifier: MIT
/// The rule of the loss scale, for the operations and plans that use it.
#ifndef PTXGEN_PLANS_OPERATIONS_LOSS_SCALE_H
#define PTXGEN_PLANS_OPERATIONS_LOSS_SCALE_H

#include <ptxgen/operations.h>

/// Checks `params` (NULL: all defaults) and writes them to *filled with the defaults in place:
/// max_scale is INFINITY where there is none, hysteresis at least 1. PTX_ERROR_INVALID, with a
/// message that begins with `function` and names the parameter, leaves *filled alone.
ptx_status ptxp_loss_scale_check(const char *function, const struct ptx_loss_scale_params *params,
                                 struct ptx_loss_scale_params *filled);

#endif
