// SPDX-License-Identifier: MIT
/// Clips the gradients of a file on a GPU, or on the emulator, with a plan of the library.
#ifndef PTXGEN_TOOLS_CLIP_RUN_H
#define PTXGEN_TOOLS_CLIP_RUN_H

#include "clip/job.h"
#include "place.h"

struct clip_request {
    struct clip_job *job; ///< the groups' records are filled in
    const char *path;     ///< of the output
    bool force;           ///< also if the output is read-only
    struct place place;
    uint64_t memory; ///< maximum of device memory in bytes; 0: the free memory minus a margin
    bool quiet;      ///< no progress bar, and no word of files that are replaced
};

struct clip_report {
    char device[128];
    bool emulated;   ///< the time is that of the emulator, not of a GPU
    size_t windows;  ///< 1: all gradients were in device memory at the same time
    uint64_t memory; ///< bytes of device memory in use
    double seconds;  ///< of the passes over the gradients
    uint64_t bytes;  ///< bytes of gradients that they read and wrote
    struct ptx_clip_summary summary;
};

/// Returns an exit status, with the reason in `error` unless it is EXIT_DONE; on an error nothing
/// is written.
int clip_run(const struct clip_request *request, struct clip_report *report, struct message *error);

#endif
