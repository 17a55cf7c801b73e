// SPDX-License-Identifier: MIT
// The private part of a kernel's row: how its entry is written, and how its work is divided.
#ifndef PTXGEN_KERNELS_KERNEL_CODE_H
#define PTXGEN_KERNELS_KERNEL_CODE_H

#include <ptxgen/kernels.h>

struct ptx_kernel_code {
    void (*build)(ptx_builder *b,
                  const struct ptx_kernel_spec *spec); // emits the body of the entry
    uint32_t chunk;                                    // PTX_GRID_CHUNKS: elements per block
    uint32_t short_chunk; // the same for n up to short_most; 0: `chunk` for every n
    uint64_t short_most;
};

#endif
