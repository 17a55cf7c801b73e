// SPDX-License-Identifier: MIT
// The settings from the environment (docs/emulator.md), read once, at the first call.
#ifndef PTXGEN_EMULATOR_CUDA_ENVIRONMENT_H
#define PTXGEN_EMULATOR_CUDA_ENVIRONMENT_H

#include "state.h"

void api_config_read(struct api_config *config);
// The CUresult that a call of the function must return; 0: none.
int api_config_fault(struct api_config *config, const struct api_row *row);

#endif
