// SPDX-License-Identifier: MIT
/// What examples/plain_driver.c needs of NVIDIA's cuda.h, for machines that have none.
#ifndef PTXGEN_TESTS_STAND_IN_CUDA_H
#define PTXGEN_TESTS_STAND_IN_CUDA_H

#include "abi/cuda.h"

#define cuMemAlloc   cuMemAlloc_v2
#define cuMemFree    cuMemFree_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuMemcpyHtoD cuMemcpyHtoD_v2

#endif
