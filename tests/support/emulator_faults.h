// SPDX-License-Identifier: MIT
/// Uses the emulator to make driver calls fail: which call fails, how many calls there were, which
/// objects are left over, and whether a test leaves the thread unchanged.
#ifndef PTXGEN_TESTS_EMULATOR_FAULTS_H
#define PTXGEN_TESTS_EMULATOR_FAULTS_H

#include "driver_checks.h"

#include "abi/cuda.h"
#include "emulator/cuda/extensions.h"

#define CUDA_FUNCTION(symbol, name, since, variant, parameters, arguments)                         \
    CUresult symbol parameters;
#include "abi/functions.def"

#define EMULATOR_CALLS(X)                                                                          \
    X(cuEmulatorCounts)                                                                            \
    X(cuEmulatorFail)                                                                              \
    X(cuCtxCreate_v2)                                                                              \
    X(cuCtxDestroy_v2)                                                                             \
    X(cuCtxGetCurrent)                                                                             \
    X(cuThreadExchangeStreamCaptureMode)

/// Functions of the library named by PTXGEN_LIBCUDA.
#define FUNCTION(name) __typeof__(name) *name;
struct emulator_functions {
    EMULATOR_CALLS(FUNCTION)
};
#undef FUNCTION
extern struct emulator_functions emulator;

/// Finds these functions. A group setup for cmocka_run_group_tests().
int emulator_open(void **state);

/// Makes a driver call fail with `result`: the call'th from now; 0: none.
void fail_call(CUresult result, int call);
/// The next call of fault.function fails.
void fail_next(struct emulator_fault fault);
/// The function that was made to fail, or NULL.
const char *failed_function(void);
int calls_so_far(void);
/// Handles, allocations and references to the primary context.
int objects_alive(void);
/// Kernels that ran.
int launches_so_far(void);

/// Fails unless the thread's context is this one, and its capture mode the default.
void assert_thread_untouched(CUcontext context);

#endif
