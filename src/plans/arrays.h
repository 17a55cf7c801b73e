// SPDX-License-Identifier: MIT
// Arrays in device memory that the caller gives, and the one place where their addresses are
// checked: for plans, at creation and when addresses change, and for operations, in each call.
#ifndef PTXGEN_PLANS_ARRAYS_H
#define PTXGEN_PLANS_ARRAYS_H

#include <ptxgen/buffer.h>
#include <ptxgen/types.h>

enum {
    PLAN_ALIGNMENT = 256, // bytes, of each array in a plan's own memory
    FEW_ARRAYS = 20,      // that are checked without allocating memory, each against each
};

// What has no tensor: an array of the plan or the operation, and a field of a hyperparameter group.
#define ARRAY_OF_PLAN    SIZE_MAX
#define ARRAY_OF_GROUP   (SIZE_MAX - 1)
// And of an entry of qk_clips.
#define ARRAY_OF_QK_CLIP (SIZE_MAX - 2)

struct plan_array {
    CUdeviceptr at;
    uint64_t count; // elements; an array without elements is not checked
    unsigned bytes; // of one element
    // Of elements that are not consecutive, in bytes: so many are, and so far apart they begin, up
    // to `count`. 0: they are consecutive.
    uint64_t run, stride;
    // Its name in messages: "tensor 3", "tensor 3's gradient", "group 1's lr_at", "max_norms_at".
    size_t tensor;        // index of its tensor; or one of the above
    uint32_t group;       // for ARRAY_OF_GROUP; for ARRAY_OF_QK_CLIP the entry
    const char *field;    // of the tensor or the group; NULL: the tensor has only one array; for
                          // ARRAY_OF_PLAN the full name
    const char *effect;   // the consequence of an overlap, for the message
    const char *sized_by; // the function that says how many bytes it has; NULL: its caller knows
    bool in_bytes;        // the caller gave its size in bytes
    bool read_only;       // nothing that is launched writes it
    bool shared;          // may be the same as another's shared array of the same field
    bool stays;           // the address was given earlier, and the caller gives others now
    // May begin exactly where this one of few arrays does, to be worked on in place. NULL: none.
    const struct plan_array *in_place_of;
};

// Checks that every array has an address that is aligned to its element, that it lies in this
// device's memory with room for its elements, and that it overlaps no other, unless both are read
// only, nor the plan's own memory, of plan_bytes. A device that is NULL: the driver is not asked
// for its allocations. Errors: INVALID, whose message begins with the array's name, and names no
// call, which the public function adds; those of ptx_address_range(); OUT_OF_MEMORY (host), for
// more than FEW_ARRAYS.
ptx_status ptxp_check_arrays(ptx_device *device, const struct plan_array *arrays, size_t count,
                             CUdeviceptr plan, uint64_t plan_bytes);

// A type's name, or its number where there is no such type. `room` is for the number.
enum { TYPE_TEXT_SIZE = 12 };
const char *ptxp_type_text(ptx_type type, char room[TYPE_TEXT_SIZE]);

#endif
