// SPDX-License-Identifier: MIT
// Launches as pieces of work.
#ifndef PTXGEN_EMULATOR_CUDA_LAUNCH_H
#define PTXGEN_EMULATOR_CUDA_LAUNCH_H

#include "state.h"

struct api_launch {
    CUfunction function;
    unsigned grid[3], block[3], shared, cluster[3];
    bool cooperative, programmatic;
    void **params, **extra;
};
CUresult api_kernel_work(struct api_work *work, const struct api_launch *launch);

#endif
