// SPDX-License-Identifier: MIT
// The arrays that a plan reads and writes, and what is checked of their addresses.
#ifndef PTXGEN_PLANS_ARRAYS_H
#define PTXGEN_PLANS_ARRAYS_H

#include <ptxgen/buffer.h>

#define ARRAY_OF_PLAN SIZE_MAX

struct plan_array {
    CUdeviceptr at;
    uint64_t count;
    unsigned bytes;     // of an element
    size_t tensor;      // whose it is; ARRAY_OF_PLAN: the plan's, and `field` is its whole name
    const char *field;  // which of the tensor's; NULL: its only one
    const char *effect; // what an overlap would do
    bool shared;        // may be the same as another's shared array of the same field
};

// That every array has an address, aligned to its element, in this device's memory with room for
// its elements, and that none overlaps another or the plan's own memory. Arrays without elements
// are left out. The message names tensor and field.
ptx_status ptxp_check_arrays(ptx_device *device, const struct plan_array *arrays, size_t count,
                             CUdeviceptr plan, uint64_t plan_bytes);

#endif
