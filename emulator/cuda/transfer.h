// SPDX-License-Identifier: MIT
// Copies and fills as pieces of work.
#ifndef PTXGEN_EMULATOR_CUDA_TRANSFER_H
#define PTXGEN_EMULATOR_CUDA_TRANSFER_H

#include "state.h"

CUresult api_copy_check(const struct api_work *work);
// If the host would receive undefined values: CUDA_ERROR_LAUNCH_FAILED with the report, and nothing
// is copied.
CUresult api_copy_run(const struct api_work *work, char *report, size_t report_size);
CUresult api_set_check(const CUDA_MEMSET_NODE_PARAMS *set);
void api_set_run(const CUDA_MEMSET_NODE_PARAMS *set);

#endif
