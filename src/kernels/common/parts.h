// SPDX-License-Identifier: MIT
// Division that rounds up, on the host, also for the plans that launch kernels.
#ifndef PTXGEN_KERNELS_PARTS_H
#define PTXGEN_KERNELS_PARTS_H

#include <stdint.h>

// The parts of `count` elements, of which `each` are one, and the last may be shorter.
static inline uint64_t parts_of(uint64_t count, uint64_t each)
{
    return count / each + (count % each != 0);
}

#endif
