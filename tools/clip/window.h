// SPDX-License-Identifier: MIT
/// Divides the gradients of a file into windows of device memory, if they do not fit at once.
///
/// A window is a sequence of tensors or parts of tensors. A tensor is divided where the plan
/// divides it, at chunks; tensors that share a chunk are measured together. The plan's sums have
/// the same bits for every choice of windows.
#ifndef PTXGEN_TOOLS_CLIP_WINDOW_H
#define PTXGEN_TOOLS_CLIP_WINDOW_H

#include "clip/job.h"

/// The part of a window that belongs to one tensor; never empty.
struct clip_piece {
    size_t tensor;  ///< index of a tensor of the job
    uint64_t first; ///< index of the first element, a multiple of the chunk
    uint64_t count; ///< elements
    uint64_t bytes;
    uint64_t offset; ///< offset in the window's memory, a multiple of CLIP_ALIGNMENT
};

enum { CLIP_ALIGNMENT = 256 };

struct clip_window {
    const struct clip_piece *pieces;
    size_t count;   ///< number of pieces
    uint64_t bytes; ///< bytes of device memory
};

struct clip_windows {
    struct clip_piece *pieces;
    size_t piece_count;
    struct clip_window *windows;
    size_t count;     ///< at least 1; the only one may be empty
    uint64_t largest; ///< bytes of device memory of the largest window
};

/// The parameters of the plan for the whole file, without addresses and max norms. Tensors that are
/// not clipped are empty there, so that the plan's tensor indices are the job's. The caller frees
/// `tensors`; NULL: out of memory.
struct ptx_clip_tensor *clip_plan_params(const struct clip_job *job,
                                         struct ptx_clip_params *params);

/// Divides the file's gradients into windows of up to `memory` bytes each, at multiples of the
/// chunk: one window if all fit. `chunk_of` is the plan's first chunk of each tensor, for the
/// measuring pass: windows then follow the plan, group by group, and no chunk is in two windows.
/// NULL: windows follow the output. Returns false, with *least set to the bytes needed, if a single
/// chunk does not fit; with *least 0 if host memory ran out.
bool clip_windows_cut(struct clip_windows *windows, const struct clip_job *job,
                      const uint64_t *chunk_of, uint32_t chunk, uint64_t memory, uint64_t *least);
void clip_windows_release(struct clip_windows *windows);

#endif
