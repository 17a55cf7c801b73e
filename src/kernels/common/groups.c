// SPDX-License-Identifier: MIT
#include "groups.h"

#include <string.h>

uint32_t ptxk_group_of(const struct ptx_kernel_spec *spec, unsigned option)
{
    return UINT32_C(32) << spec->option[option];
}

bool ptxk_group_count(uint32_t group, const struct ptx_kernel_sizes *sizes, const char *name,
                      uint64_t *count)
{
    if (strcmp(name, "groups") != 0 || sizes->n % group)
        return false;
    *count = sizes->n / group;
    return true;
}
