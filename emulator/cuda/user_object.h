// SPDX-License-Identifier: MIT
// The references of graphs to user objects.
#ifndef PTXGEN_EMULATOR_CUDA_USER_OBJECT_H
#define PTXGEN_EMULATOR_CUDA_USER_OBJECT_H

#include "state.h"

// Copies the references of a graph; false: host memory is out, and nothing is copied.
bool api_held_copy(struct api_held **to, const struct api_held *from);
// Drops all of them. May run destructors, without the lock: nothing may be half done.
void api_held_drop(struct api_held **held);

#endif
