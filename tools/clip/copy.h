// SPDX-License-Identifier: MIT
/// Windows of a file on their way to the device and back, through pinned memory: while one block is
/// copied, the next is read from the file, or the one before written.
#ifndef PTXGEN_TOOLS_CLIP_COPY_H
#define PTXGEN_TOOLS_CLIP_COPY_H

#include "clip/window.h"
#include "progress.h"

struct clip_copier {
    const struct clip_job *job;
    ptx_device *device;
    CUstream stream;
    ptx_buffer *buffer; ///< a window's memory
    struct output *output;
    struct progress *progress;
    uint64_t largest;    ///< bytes of the largest window
    size_t block;        ///< bytes that are copied at a time
    void *memory[2];     ///< pinned
    CUevent passed[2];   ///< recorded behind the copy from or to that memory
    size_t next_written; ///< tensor of the job
};

/// Allocates what the fields before `block` are used with; they are the caller's to set. On failure
/// the error is the thread's; to be closed in any case.
ptx_status clip_copier_open(struct clip_copier *copier);
void clip_copier_close(struct clip_copier *copier);

/// Puts a window into the buffer, in the stream's order. May return before it is there.
ptx_status clip_copier_upload(struct clip_copier *copier, const struct clip_window *window);
/// Adds a window to the output as the buffer has it, and before its pieces, in their order, the
/// tensors that are copied as they are. Windows are to come in the order of CLIP_AS_WRITTEN.
ptx_status clip_copier_download(struct clip_copier *copier, const struct clip_window *window);
/// Adds the tensors that follow the last window.
void clip_copier_finish(struct clip_copier *copier);

#endif
