// SPDX-License-Identifier: MIT
// Calls that fail on request (cuEmulatorFail()), and the counts of calls and objects.
#include "trial.h"

#include "calls.h"

#include <string.h>

/// For cuEmulatorFail() and cuEmulatorCounts().
static struct {
    atomic_ullong calls, until; // calls left until one fails; 0: none
    struct emulator_fault fault;
    const char *_Atomic failed;
} trial;
static _Thread_local CUresult fails_late;
static _Thread_local bool logs_late;

static bool counts(const char *symbol)
{
    return strncmp(symbol, "cuGetError", 10) != 0 && strncmp(symbol, "cuGetProcAddress", 16) != 0 &&
           strncmp(symbol, "cuEmulator", 10) != 0;
}

/// A change of the capture mode gives something back if it ends a relaxed mode.
static bool gives_back(const char *symbol)
{
    static const char *const words[] = {
        "Destroy", "Free", "Release", "Unload", "Pop", "EndCapture"
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(symbol, words[i]))
            return true;
    return strcmp(symbol, "cuThreadExchangeStreamCaptureMode") == 0 &&
           api_thread.mode == CU_STREAM_CAPTURE_MODE_RELAXED;
}

/// True for the call that must fail.
static bool is_chosen(const struct api_row *row)
{
    unsigned long long until = atomic_load(&trial.until);
    if (until == 0 || (trial.fault.function && !api_row_has_name(row, trial.fault.function)))
        return false;
    while (until && !atomic_compare_exchange_weak(&trial.until, &until, until - 1))
        continue;
    return until == 1;
}

/// The injected result, if this is the call that must fail and it has nothing to do first.
CUresult api_trial(const struct api_row *row)
{
    const struct emulator_fault *fault = &trial.fault;
    if (!counts(row->symbol))
        return CUDA_SUCCESS;
    atomic_fetch_add(&trial.calls, 1);
    if (!is_chosen(row))
        return CUDA_SUCCESS;
    trial.failed = row->symbol;
    if (fault->report) {
        pthread_mutex_lock(&api_state.lock);
        api_explain(fault->result, fault->report);
        pthread_mutex_unlock(&api_state.lock);
    }
    logs_late = fault->error_log || fault->info_log;
    if (!logs_late && !gives_back(row->symbol))
        return fault->result;
    fails_late = fault->result;
    return CUDA_SUCCESS;
}

void api_trial_begin(void)
{
    fails_late = CUDA_SUCCESS;
    logs_late = false;
}

CUresult api_fails_late(void)
{
    return fails_late;
}

const struct emulator_fault *api_fault_with_logs(void)
{
    return logs_late ? &trial.fault : NULL;
}

CUresult api_emulatorCounts(struct emulator_counts *counts_now)
{
    if (!counts_now)
        return CUDA_ERROR_INVALID_VALUE;
    *counts_now =
        (struct emulator_counts) { atomic_load(&trial.calls),
                                   atomic_load(&api_state.objects) + api_state.primary.references,
                                   api_state.grids, trial.failed };
    return CUDA_SUCCESS;
}

CUresult api_emulatorFail(const struct emulator_fault *fault)
{
    atomic_store(&trial.until, 0);
    trial.failed = NULL;
    trial.fault = fault ? *fault : (struct emulator_fault) { 0 };
    atomic_store(&trial.until, trial.fault.call);
    return CUDA_SUCCESS;
}
