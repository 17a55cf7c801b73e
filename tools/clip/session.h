// SPDX-License-Identifier: MIT
/// What lives on the device for one run of `ptxgen clip`. For clip_run.c and clip_pass.c alone.
#ifndef PTXGEN_TOOLS_CLIP_SESSION_H
#define PTXGEN_TOOLS_CLIP_SESSION_H

#include "clip/copy.h"
#include "clip/run.h"

struct clip_session {
    const struct clip_request *request;
    struct clip_job *job;
    struct clip_report *report;
    struct ptx_clip_tensor *tensors; ///< of `params`
    struct ptx_clip_params params;
    struct ptx_clip_description description;
    struct clip_windows measured, written; ///< one of each, if all fits
    uint64_t largest;                      ///< bytes of the largest window
    uint64_t *chunk_of;     ///< the plan's first chunk of each tensor that is not empty
    uint32_t *scaled_in;    ///< the last window in which each chunk was scaled, from 1; 0: in none
    float *max_norms;       ///< of each group
    CUdeviceptr *addresses; ///< of each tensor in the window that is in; else 0
    const struct clip_window *is_in; ///< NULL: none
    ptx_device *device;
    CUstream stream;
    CUevent begin, end;
    ptx_buffer *buffer; ///< a window
    ptx_clip_plan *plan;
    uint64_t chunks_measured; ///< the plan's first so many
    struct clip_copier copier;
    struct output output;
    struct progress progress;
};

/// All of it, from the file into the output, whose header is written: in one pass if it is one
/// window, else in two, of which the first measures.
ptx_status clip_pass_all(struct clip_session *session);

#endif
