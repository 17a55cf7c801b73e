// SPDX-License-Identifier: MIT
// Copies from their descriptions.
#ifndef PTXGEN_EMULATOR_CUDA_COPY_H
#define PTXGEN_EMULATOR_CUDA_COPY_H

#include "state.h"

CUresult api_copy_work(struct api_work *work, const CUDA_MEMCPY3D *copy);

#endif
