// SPDX-License-Identifier: MIT
#include "target.h"

#include "driver/error.h"

bool ptxp_target(const ptx_device *device, struct ptx_target *target)
{
    const struct ptx_device_info *info = ptx_device_get_info(device);
    const bool found = ptx_target_newest(info->sm, info->isa, target);

    if (!found)
        ptx_driver_fail(PTX_ERROR_UNSUPPORTED,
                        "%s (compute capability %d.%d): there is no target for it", info->name,
                        info->sm / 10, info->sm % 10);
    return found;
}
