// SPDX-License-Identifier: MIT
// Calls that fail on request.
#ifndef PTXGEN_EMULATOR_CUDA_TRIAL_H
#define PTXGEN_EMULATOR_CUDA_TRIAL_H

#include "state.h"

// At the beginning of a call.
void api_trial_begin(void);
// The injected result, if this is the call that must fail and it has nothing to do first.
CUresult api_trial(const struct api_row *row);
// The result that cuEmulatorFail() injects into this call after its work; CUDA_SUCCESS: none.
CUresult api_fails_late(void);
// The fault that cuEmulatorFail() injects into this call, if it has logs; or NULL.
const struct emulator_fault *api_fault_with_logs(void);

#endif
