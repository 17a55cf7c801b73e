// SPDX-License-Identifier: MIT
// The private part of a kernel's row: how its entry is written, and how its work is divided.
#ifndef PTXGEN_KERNELS_KERNEL_CODE_H
#define PTXGEN_KERNELS_KERNEL_CODE_H

#include <ptxgen/kernels.h>

struct ptx_kernel_code {
    void (*build)(ptx_builder *b,
                  const struct ptx_kernel_spec *spec); // emits the body of the entry
    // Blocks that a multiprocessor should have at a time; 0, or NULL: any number.
    uint32_t (*min_blocks)(const struct ptx_kernel_spec *spec);
    // The lengths of parameters that depend on more than n; NULL: none. Returns false for a name
    // that it does not know, and for sizes that have no such length.
    bool (*length)(const struct ptx_kernel_spec *spec, const struct ptx_kernel_sizes *sizes,
                   const char *name, uint64_t *count);
};

#endif
