// SPDX-License-Identifier: MIT
/// Functions that the emulator has and libcuda does not, for tests that examine a fault or make
/// calls fail. A program finds them with dlsym().
#ifndef PTXGEN_EMULATOR_CUDA_EXTENSIONS_H
#define PTXGEN_EMULATOR_CUDA_EXTENSIONS_H

#include "abi/cuda.h"

/// Sets *text to the last report, "" if there is none. It changes with the next report.
CUresult cuEmulatorReport(const char **text);

/// Clears the fault of a kernel and the last report. Work continues as if nothing had happened.
CUresult cuEmulatorClearError(void);

/// Counts of calls so far, and of live objects.
struct emulator_counts {
    unsigned long long calls;    ///< calls that cuEmulatorFail() counts
    unsigned long long objects;  ///< handles, allocations, references to the primary context
    unsigned long long launches; ///< kernels that ran, including those of graphs
    const char *failed;          ///< the last function that cuEmulatorFail() made fail, or NULL
};
CUresult cuEmulatorCounts(struct emulator_counts *counts);

/// The call'th call from now, counted from 1, returns `result`, whatever its function and thread;
/// 0: no call. A call that gives something back (destroys, frees, releases, unloads, pops, ends a
/// capture, leaves the relaxed capture mode) does so first, as it would with an error of earlier
/// work. Any other call does nothing. Functions that explain errors or find functions, and the
/// emulator's own, do not count.
CUresult cuEmulatorFail(CUresult result, unsigned long long call);

/// Their rows, in the form of abi/functions.def.
#define EMULATOR_FUNCTIONS(X)                                                                      \
    X(cuEmulatorReport, cuEmulatorReport, 0, none, (const char **text), (text))                    \
    X(cuEmulatorClearError, cuEmulatorClearError, 0, none, (void), ())                             \
    X(cuEmulatorCounts, cuEmulatorCounts, 0, none, (struct emulator_counts * counts), (counts))    \
    X(cuEmulatorFail, cuEmulatorFail, 0, none, (CUresult result, unsigned long long call),         \
      (result, call))

#endif
