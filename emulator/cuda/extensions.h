// SPDX-License-Identifier: MIT
/// Functions that the emulator has and libcuda has not, for tests that look into a fault or make
/// calls fail. A program finds them by dlsym().
#ifndef PTXGEN_EMULATOR_CUDA_EXTENSIONS_H
#define PTXGEN_EMULATOR_CUDA_EXTENSIONS_H

#include "abi/cuda.h"

/// Sets *text to the last report, "" if there is none. It changes with the next report.
CUresult cuEmulatorReport(const char **text);

/// Forgets the fault of a kernel and the last report: work goes on as if nothing had happened.
CUresult cuEmulatorClearError(void);

/// What was called so far, and what there is.
struct emulator_counts {
    unsigned long long calls;    ///< that cuEmulatorFail() counts
    unsigned long long objects;  ///< handles, allocations, references to the primary context
    unsigned long long launches; ///< of kernels that ran, those of graphs too
    const char *failed;          ///< the function that cuEmulatorFail() made fail last, or NULL
};
CUresult cuEmulatorCounts(struct emulator_counts *counts);

/// The call'th call from now, from 1, returns `result`, whichever function and thread it is of; 0:
/// none. A call that gives something back (destroys, frees, releases, unloads, pops, ends a
/// capture, leaves the relaxed capture
/// mode) does so first, as it would with an error of earlier work;
/// any other does nothing. The functions that explain errors or find functions, and the emulator's
/// own, do not count.
CUresult cuEmulatorFail(CUresult result, unsigned long long call);

/// The rows that abi/functions.def would have of them.
#define EMULATOR_FUNCTIONS(X)                                                                      \
    X(cuEmulatorReport, cuEmulatorReport, 0, none, (const char **text), (text))                    \
    X(cuEmulatorClearError, cuEmulatorClearError, 0, none, (void), ())                             \
    X(cuEmulatorCounts, cuEmulatorCounts, 0, none, (struct emulator_counts * counts), (counts))    \
    X(cuEmulatorFail, cuEmulatorFail, 0, none, (CUresult result, unsigned long long call),         \
      (result, call))

#endif
