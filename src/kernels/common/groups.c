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

ptx_val ptxk_groups_aligned(ptx_builder *b, const struct group_tensors *of)
{
    ptx_val addresses = ptx_ptr_address(b, of->in[0]);

    for (unsigned t = 1; t < of->inputs; t++)
        addresses = ptx_or(b, addresses, ptx_ptr_address(b, of->in[t]));
    addresses = ptx_or(b, addresses, ptx_ptr_address(b, of->out));
    return ptx_eq(b, ptx_and(b, addresses, VECTOR_BYTES - 1), 0);
}

static void read_with(ptx_builder *b, const struct group_tensors *of,
                      const struct group_vector *vectors, unsigned count,
                      void (*read)(ptx_builder *b, const struct ptxk_lanes *l, ptx_ptr at))
{
    for (unsigned v = 0; v < count; v++) {
        if (count > 1 || read == ptxk_lanes_read_each)
            ptx_comment(b,
                        read == ptxk_lanes_read ? "reads vector %u"
                                                : "reads vector %u, which is unaligned",
                        v);
        ptx_if (b, vectors[v].in)
            for (unsigned t = 0; t < of->inputs; t++)
                read(b, &vectors[v].x[t], ptx_at(b, of->in[t], vectors[v].i));
    }
}

void ptxk_groups_read(ptx_builder *b, const struct group_tensors *of,
                      const struct group_vector *vectors, unsigned count)
{
    ptx_if (b, of->aligned)
        read_with(b, of, vectors, count, ptxk_lanes_read);
    ptx_else (b)
        read_with(b, of, vectors, count, ptxk_lanes_read_each);
}

void ptxk_groups_write(ptx_builder *b, const struct group_tensors *of, ptx_val i, ptx_vec out)
{
    ptx_comment(b, "writes the vector");
    ptx_if (b, of->aligned)
        ptx_store_vec(b, of->out, i, out);
    ptx_else (b)
        for (unsigned k = 0; k < out.lanes; k++)
            ptx_store(b, ptx_at(b, of->out, i), k, out.lane[k]);
}
