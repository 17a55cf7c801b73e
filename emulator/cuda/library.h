// SPDX-License-Identifier: MIT
// Libraries.
#ifndef PTXGEN_EMULATOR_CUDA_LIBRARY_H
#define PTXGEN_EMULATOR_CUDA_LIBRARY_H

#include "state.h"

struct CUkern_st {
    struct api_object object;
    CUlibrary library;
    CUkernel next;
    char name[];
};

// The kernel's function in the context.
CUresult api_kernel_function(CUfunction *function, CUkernel kernel, CUcontext context);

#endif
