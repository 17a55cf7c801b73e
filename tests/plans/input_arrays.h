// SPDX-License-Identifier: MIT
/// The addresses that a call gets, each of which it must refuse where the array cannot be.
#ifndef PTXGEN_TESTS_INPUT_ARRAYS_H
#define PTXGEN_TESTS_INPUT_ARRAYS_H

#include <ptxgen/buffer.h>

/// What may be done with an address.
enum input_access {
    INPUT_WRITTEN = 1,
    INPUT_OPTIONAL = 2, ///< may be 0
    INPUT_IN_PLACE = 4, ///< may be that of the array `over`
    INPUT_SHARED = 8,   ///< may be that of another shared array
    INPUT_SCALAR = 16,  ///< alignment is checked without a device, in other words
    INPUT_FIXED = 32,   ///< no call changes it
};

struct input_array {
    CUdeviceptr *at;
    const char *name; ///< in messages
    unsigned bytes;   ///< of an element
    uint64_t count;
    unsigned access; ///< bits of enum input_access
    const CUdeviceptr *over;
};

/// Requires that the call, as its arguments are now, is refused, with these words and the names of
/// the arrays in its message. `of` is where it cannot be; `over` is what it overlaps, or NULL.
typedef void input_refuse(const struct input_array *of, const struct input_array *over,
                          const char *words);

/// Each array in turn: at 0, misaligned, where there is no memory, too close to `end`, the end of
/// its memory, and over each other array that it must not overlap. The addresses that are there are
/// right, and are there again afterwards.
void input_arrays_check(const struct input_array *arrays, size_t count, CUdeviceptr end,
                        input_refuse *refuse);

#endif
