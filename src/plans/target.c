// SPDX-License-Identifier: MIT
#include "target.h"

#include "driver/error.h"

bool plan_target(const ptx_device *device, struct ptx_target *target)
{
    const struct ptx_device_info *info = ptx_device_get_info(device);
    struct ptx_target candidate;
    bool found = false;
    int isa;

    for (size_t k = 0; ptx_target_at(k, &candidate, &isa); k++) {
        if (candidate.suffix || candidate.sm > info->sm || isa > info->isa)
            continue;
        *target = candidate;
        found = true;
    }
    if (!found)
        ptx_driver_fail(PTX_ERROR_UNSUPPORTED,
                        "%s (compute capability %d.%d): there is no target for it", info->name,
                        info->sm / 10, info->sm % 10);
    return found;
}
