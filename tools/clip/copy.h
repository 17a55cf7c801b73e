// SPDX-License-Identifier: MIT
/// Copies windows of a file to the device and back through pinned memory: while one block is
/// copied, the next one is read from the file or the previous one is written.
#ifndef PTXGEN_TOOLS_CLIP_COPY_H
#define PTXGEN_TOOLS_CLIP_COPY_H

#include "clip/outputs.h"
#include "clip/window.h"
#include "progress.h"

struct clip_copier {
    const struct clip_job *job;
    ptx_device *device;
    CUstream stream;
    ptx_buffer *buffer; ///< a window's memory
    struct clip_outputs *outputs;
    struct progress *progress;
    uint64_t largest;    ///< bytes of the largest window
    size_t block;        ///< bytes per copy
    void *memory[2];     ///< pinned
    CUevent passed[2];   ///< recorded after the copy from or to that memory
    size_t next_written; ///< index of a tensor of the job
};

/// Allocates the memory and events. The caller sets the fields before `block`. On failure the error
/// is the thread's; the caller must close it in both cases.
ptx_status clip_copier_open(struct clip_copier *copier);
void clip_copier_close(struct clip_copier *copier);

/// Copies a window to the buffer, in stream order. May return before the copy is done.
ptx_status clip_copier_upload(struct clip_copier *copier, const struct clip_window *window);
/// Appends a window to the output from the buffer. The tensors that are copied unchanged are
/// inserted before its pieces, in order. Windows must come in the order of CLIP_AS_WRITTEN.
ptx_status clip_copier_download(struct clip_copier *copier, const struct clip_window *window);
/// Appends the tensors after the last window.
void clip_copier_finish(struct clip_copier *copier);

#endif
