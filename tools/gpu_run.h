// SPDX-License-Identifier: MIT
/// Runs a binding on a GPU or on the emulator, through the library's driver layer.
#ifndef PTXGEN_TOOLS_GPU_RUN_H
#define PTXGEN_TOOLS_GPU_RUN_H

#include "binding.h"
#include "place.h"

struct gpu_report {
    char device[128];             ///< name of the device; "the emulator (sm_90)"
    bool emulated;                ///< the time is that of the emulator, not of a GPU
    float milliseconds;           ///< time of the fastest launch; 0 if nothing is launched
    void *results[BINDING_LIMIT]; ///< data of the outputs
};

/// Launches several times (on the emulator once) and restores every in/out tensor before each
/// launch. The data of the last launch is in the outputs of the arguments, in memory that the
/// report owns. Returns an exit status, with the reason in `error` unless it is EXIT_DONE; the
/// caller releases the report in both cases.
int gpu_run(struct binding *binding, const struct place *place, struct gpu_report *report,
            struct message *error);
void gpu_report_release(struct gpu_report *report);

#endif
