// SPDX-License-Identifier: MIT
#ifndef PTXGEN_PLANS_TARGET_H
#define PTXGEN_PLANS_TARGET_H

#include <ptxgen/driver.h>
#include <ptxgen/types.h>

// The newest plain target that the device runs and its driver reads. False, with the error said, if
// there is none.
bool ptxp_target(const ptx_device *device, struct ptx_target *target);

#endif
