// SPDX-License-Identifier: MIT
// Events.
#ifndef PTXGEN_EMULATOR_CUDA_EVENT_H
#define PTXGEN_EMULATOR_CUDA_EVENT_H

#include "state.h"

void api_event_free(CUevent event);

#endif
