// SPDX-License-Identifier: MIT
/// What lives on the device for one run of `ptxgen clip`. For clip_run.c and clip_pass.c alone.
#ifndef PTXGEN_TOOLS_CLIP_SESSION_H
#define PTXGEN_TOOLS_CLIP_SESSION_H

#include "clip_copy.h"
#include "clip_run.h"

struct clip_session {
    const struct clip_request *request;
    struct clip_job *job;
    struct clip_report *report;
    struct ptx_tensor *tensors; ///< of `params`
    struct ptx_clip_params params;
    struct ptx_clip_description description;
    struct clip_windows measured, written; ///< one of each, if all fits
    uint64_t largest;                      ///< bytes of the largest window
    uint64_t *first_chunk;                 ///< of the plan, of each tensor that is not empty
    CUdeviceptr *addresses;                ///< of each tensor, with the window that is in
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

/// Sets addresses[] so that a window's pieces are where they lie in the buffer. A tensor whose
/// beginning is in an earlier window then begins before its piece, outside of the buffer.
void clip_place_window(struct clip_session *session, const struct clip_window *window);

/// All of it, from the file into the output, whose header is written: in one pass if it is one
/// window, else in two, of which the first measures.
ptx_status clip_pass_all(struct clip_session *session);

#endif
