// SPDX-License-Identifier: MIT
/// Runs what a binding says on a GPU, or on the emulator, through the library's driver layer.
#ifndef PTXGEN_TOOLS_GPU_RUN_H
#define PTXGEN_TOOLS_GPU_RUN_H

#include "binding.h"
#include "place.h"

struct gpu_report {
    char device[128];             ///< its name; "the emulator (sm_90)"
    bool emulated;                ///< the time is that of the emulator, and says nothing of a GPU
    float milliseconds;           ///< of the fastest launch; 0 where there is nothing to launch
    void *results[BINDING_LIMIT]; ///< memory of the outputs
};

/// Launches a few times (the emulator once), with every in/out tensor as it was before each, and
/// leaves the data of the last launch in the arguments' outputs, in memory that the report owns.
/// Returns an exit status, with the reason in `error` unless it is EXIT_DONE; the report is to be
/// released in any case.
int gpu_run(struct binding *binding, const struct place *place, struct gpu_report *report,
            struct message *error);
void gpu_report_release(struct gpu_report *report);

#endif
