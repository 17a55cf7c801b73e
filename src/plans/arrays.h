// SPDX-License-Identifier: MIT
// The arrays that a plan reads and writes, and the checks of their addresses.
#ifndef PTXGEN_PLANS_ARRAYS_H
#define PTXGEN_PLANS_ARRAYS_H

#include <ptxgen/buffer.h>

enum { PLAN_ALIGNMENT = 256 }; // bytes, of each array in a plan's own memory

#define ARRAY_OF_PLAN  SIZE_MAX
#define ARRAY_OF_GROUP (SIZE_MAX - 1) // of a hyperparameter group

struct plan_array {
    CUdeviceptr at;
    uint64_t count;
    unsigned bytes; // of one element
    size_t tensor;  // index of its tensor; ARRAY_OF_PLAN: an array of the plan, and `field` is its
                    // full name; ARRAY_OF_GROUP: a field of `group`
    uint32_t group;
    const char *field;  // the field of the tensor; NULL: the tensor has only one array
    const char *effect; // the consequence of an overlap, for the message
    bool shared;        // may be the same as another's shared array of the same field
    bool read_only;     // nothing that the plan launches writes it
    bool stays;         // the address was given earlier, and the caller gives others now
};

// Checks that every array has an address that is aligned to its element and lies in this device's
// memory with room for its elements, and that no array overlaps another, unless both are read only,
// or the plan's own memory. Arrays without elements are skipped. The message names tensor and
// field.
ptx_status ptxp_check_arrays(ptx_device *device, const struct plan_array *arrays, size_t count,
                             CUdeviceptr plan, uint64_t plan_bytes);

#endif
