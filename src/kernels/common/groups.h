// SPDX-License-Identifier: MIT
// Groups of adjacent elements that a kernel's option gives the size of.
#ifndef PTXGEN_KERNELS_GROUPS_H
#define PTXGEN_KERNELS_GROUPS_H

#include "common.h"

#define GROUP_OPTION_ROW                                                                           \
    {                                                                                              \
        "group", { "32", "64", "128" }, "adjacent elements of a group"                             \
    }

// The elements of a group, by the option at this index.
uint32_t ptxk_group_of(const struct ptx_kernel_spec *spec, unsigned option);

// The length "groups": the number of groups. False for another name, and unless groups are whole.
bool ptxk_group_count(uint32_t group, const struct ptx_kernel_sizes *sizes, const char *name,
                      uint64_t *count);

#endif
