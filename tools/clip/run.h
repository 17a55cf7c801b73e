// SPDX-License-Identifier: MIT
/// Clips the gradients of a file on a GPU, or on the emulator, with a plan of the library.
#ifndef PTXGEN_TOOLS_CLIP_RUN_H
#define PTXGEN_TOOLS_CLIP_RUN_H

#include "clip/job.h"
#include "place.h"

struct clip_request {
    struct clip_job *job; ///< the groups' records are filled in
    const char *path;     ///< of the output
    bool force;           ///< even where it is read-only
    struct place place;
    uint64_t memory; ///< most bytes of device memory; 0: what is free, less a margin
    bool quiet;      ///< no progress bar
};

struct clip_report {
    char device[128];
    bool emulated;   ///< the seconds are those of the emulator, and say nothing of a GPU
    size_t windows;  ///< 1: all gradients were in device memory at once
    uint64_t memory; ///< bytes of device memory that were used
    double seconds;  ///< that they took
    uint64_t bytes;  ///< of gradients that they read and wrote
    struct ptx_clip_summary summary;
};

/// Returns an exit status, with the reason in `error` unless it is EXIT_DONE; nothing is written
/// then.
int clip_run(const struct clip_request *request, struct clip_report *report, struct message *error);

#endif
