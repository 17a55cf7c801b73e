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

/// One call that returns `result`. The texts may be NULL, and must stay valid until the call.
struct emulator_fault {
    CUresult result;         ///< CUDA_SUCCESS: the call works, and writes the logs
    unsigned long long call; ///< which call from now, counted from 1; 0: none
    const char *function;    ///< only its calls count, with or without _v2; NULL: those of all
    const char *report;      ///< cuGetErrorString() has it, after the usual description
    const char *error_log;   ///< for a function that loads a module: what its buffers contain
    const char *info_log;    ///< afterwards, cut to their size, without a NUL
};

/// Makes one call fail, in whatever thread, in place of the fault set before. NULL: no call fails.
/// A call that gives something back (destroys, frees, releases, unloads, pops, ends a capture,
/// leaves the relaxed capture mode) does so first, as it would with an error of earlier work. Any
/// other call does nothing. Functions that explain errors or find functions, and the emulator's
/// own, do not count.
CUresult cuEmulatorFail(const struct emulator_fault *fault);

/// Their rows, in the form of abi/functions.def.
#define EMULATOR_FUNCTIONS(X)                                                                      \
    X(cuEmulatorReport, cuEmulatorReport, 0, none, (const char **text), (text))                    \
    X(cuEmulatorClearError, cuEmulatorClearError, 0, none, (void), ())                             \
    X(cuEmulatorCounts, cuEmulatorCounts, 0, none, (struct emulator_counts * counts), (counts))    \
    X(cuEmulatorFail, cuEmulatorFail, 0, none, (const struct emulator_fault *fault), (fault))

#endif
