// SPDX-License-Identifier: MIT
/// The rule of the loss scale, for operations and plans.
#ifndef PTXGEN_PLANS_LOSS_SCALE_H
#define PTXGEN_PLANS_LOSS_SCALE_H

#include <ptxgen/operations.h>

/// Checks `params` (NULL: all defaults) and writes them to *filled with defaults filled in:
/// max_scale is INFINITY if there is no bound, hysteresis at least 1. On an error,
/// PTX_ERROR_INVALID, the message begins with the parameter's name, after `of` ("" or "update."),
/// and *filled is unchanged.
ptx_status ptxp_loss_scale_check(const char *of, const struct ptx_loss_scale_params *params,
                                 struct ptx_loss_scale_params *filled);

#endif
