// SPDX-License-Identifier: MIT
/// The part of NVIDIA's cuda.h that examples/plain_driver.c needs, for machines without it.
#ifndef PTXGEN_TESTS_STAND_IN_CUDA_H
#define PTXGEN_TESTS_STAND_IN_CUDA_H

#include "abi/cuda.h"

#define cuMemAlloc   cuMemAlloc_v2
#define cuMemFree    cuMemFree_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2

#endif
