// SPDX-License-Identifier: MIT
/// Functions that the emulator has and libcuda has not, for tests that look into a fault. A program
/// finds them by dlsym().
#ifndef PTXGEN_EMULATOR_CUDA_EXTENSIONS_H
#define PTXGEN_EMULATOR_CUDA_EXTENSIONS_H

#include "abi/cuda.h"

/// Sets *text to the last report, "" if there is none. It changes with the next report.
CUresult cuEmulatorReport(const char **text);

/// Forgets the fault of a kernel and the last report: work goes on as if nothing had happened.
CUresult cuEmulatorClearError(void);

/// The rows that abi/functions.def would have of them.
#define EMULATOR_FUNCTIONS(X)                                                                      \
    X(cuEmulatorReport, cuEmulatorReport, 0, none, (const char **text), (text))                    \
    X(cuEmulatorClearError, cuEmulatorClearError, 0, none, (void), ())

#endif
