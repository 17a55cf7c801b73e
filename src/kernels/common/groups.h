// SPDX-License-Identifier: MIT
// Groups of adjacent elements that a kernel's option gives the size of. Adjacent threads have the
// adjacent vectors of a group.
#ifndef PTXGEN_KERNELS_GROUPS_H
#define PTXGEN_KERNELS_GROUPS_H

#include "lanes.h"

#define GROUP_OPTION_ROW                                                                           \
    {                                                                                              \
        "group", { "32", "64", "128" }, "adjacent elements of a group"                             \
    }

// The elements of a group, by the option at this index.
uint32_t ptxk_group_of(const struct ptx_kernel_spec *spec, unsigned option);

// The length "groups": the number of groups. False for another name, and unless groups are whole.
bool ptxk_group_count(uint32_t group, const struct ptx_kernel_sizes *sizes, const char *name,
                      uint64_t *count);

// The tensors of a kernel.
struct group_tensors {
    ptx_ptr in[MAX_INPUTS], out;
    unsigned inputs;
    uint32_t group;  // elements
    unsigned lanes;  // of a vector
    ptx_val aligned; // whether all begin at 16-byte boundaries
    ptx_val end;     // u64: the end of the last whole group
};
ptx_val ptxk_groups_aligned(ptx_builder *b, const struct group_tensors *of);

// A thread's vector of each input.
struct group_vector {
    ptx_val i;  // u64: the index of its first element
    ptx_val in; // whether it is in the tensors
    struct ptxk_lanes x[MAX_INPUTS];
};
void ptxk_groups_read(ptx_builder *b, const struct group_tensors *of,
                      const struct group_vector *vectors, unsigned count);

// Writes a vector that is in the tensors.
void ptxk_groups_write(ptx_builder *b, const struct group_tensors *of, ptx_val i, ptx_vec out);

#endif
