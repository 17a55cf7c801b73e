// SPDX-License-Identifier: MIT
// Functions of modules and kernels of libraries.
#ifndef PTXGEN_EMULATOR_CUDA_FUNCTION_H
#define PTXGEN_EMULATOR_CUDA_FUNCTION_H

#include "state.h"

// The function of a CUfunction or CUkernel; NULL: there is none, and *result says why. It has to be
// of the context; NULL: a kernel's of the current one, a function of any.
CUfunction api_function_find(CUfunction handle, CUcontext context, CUresult *result);
int api_function_threads(CUfunction function);
int api_function_blocks(CUfunction function, int threads, size_t shared);

#endif
