// SPDX-License-Identifier: MIT
/// How the gradients of a file take turns in device memory, where they do not fit at once.
///
/// A window is a run of tensors or of parts of them: a tensor is cut where the plan cuts it, at
/// chunks, and tensors that share a chunk are measured together. The plan's sums have the same bits
/// however the windows fall.
#ifndef PTXGEN_TOOLS_CLIP_WINDOW_H
#define PTXGEN_TOOLS_CLIP_WINDOW_H

#include "clip/job.h"

/// What a window has of one tensor; never empty.
struct clip_piece {
    size_t tensor;  ///< of the job
    uint64_t first; ///< element, a multiple of the chunk
    uint64_t count; ///< elements
    uint64_t bytes;
    uint64_t offset; ///< in the window's memory, a multiple of CLIP_ALIGNMENT
};

enum { CLIP_ALIGNMENT = 256 };

struct clip_window {
    const struct clip_piece *pieces;
    size_t count;   ///< of pieces
    uint64_t bytes; ///< of memory
};

struct clip_windows {
    struct clip_piece *pieces;
    size_t piece_count;
    struct clip_window *windows;
    size_t count;     ///< at least 1; the only one may be empty
    uint64_t largest; ///< bytes of memory that any of them takes
};

/// The parameters of the plan for the whole file, without addresses and largest norms. A tensor
/// that is not clipped is an empty one in them, so that the plan's numbers are the job's. `tensors`
/// is to be freed; NULL: out of memory.
struct ptx_clip_tensor *clip_plan_params(const struct clip_job *job,
                                         struct ptx_clip_params *params);

/// Cuts the file's gradients into windows of up to `memory` bytes each, by chunks of so many
/// elements: one window if all fit. With `chunk_of`, the plan's first chunk of each tensor, for the
/// measurement: group by group, as the plan has them, and no chunk in two windows; with NULL as the
/// output has them. False, with *least set, if a single chunk needs more, *least bytes; with *least
/// 0, if the host's memory ran out.
bool clip_windows_cut(struct clip_windows *windows, const struct clip_job *job,
                      const uint64_t *chunk_of, uint32_t chunk, uint64_t memory, uint64_t *least);
void clip_windows_release(struct clip_windows *windows);

#endif
