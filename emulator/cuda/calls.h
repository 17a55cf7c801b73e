// SPDX-License-Identifier: MIT
// The implementations, each with the type of its driver function. Any family may call another's.
#ifndef PTXGEN_EMULATOR_CUDA_CALLS_H
#define PTXGEN_EMULATOR_CUDA_CALLS_H

#include "extensions.h"

#define API(symbol, needs, implementation) __typeof__(symbol) api_##implementation;
#include "functions.def"

#endif
