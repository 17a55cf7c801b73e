// SPDX-License-Identifier: MIT
// Pools of device memory.
#ifndef PTXGEN_EMULATOR_CUDA_POOL_H
#define PTXGEN_EMULATOR_CUDA_POOL_H

#include "state.h"

// Counts an allocation of a pool. NULL: there is no such pool, or it is full.
CUmemoryPool api_pool_enter(CUmemoryPool pool, size_t bytes, CUresult *result);
void api_pool_leave(CUmemoryPool pool, size_t bytes);
CUmemoryPool api_pool_current(void);

#endif
