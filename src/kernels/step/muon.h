// SPDX-License-Identifier: MIT
// What the passes of Muon share: the places of coefficients.
#ifndef PTXGEN_KERNELS_STEP_MUON_H
#define PTXGEN_KERNELS_STEP_MUON_H

#include "step.h"

// The coefficients of a clock, and behind them lr times a matrix's own factor.
enum {
    MUON_LR,
    MUON_DECAY,
    MUON_MOMENTUM,
    MUON_REST,
    MUON_EPS,
    MUON_CLOCK_COEFFICIENTS,
    MUON_RATE = MUON_CLOCK_COEFFICIENTS
};

#endif
