// SPDX-License-Identifier: MIT
// Memory of any of the four kinds.
#ifndef PTXGEN_EMULATOR_CUDA_MEMORY_H
#define PTXGEN_EMULATOR_CUDA_MEMORY_H

#include "state.h"

void api_memory_free(struct api_object *object);

#endif
