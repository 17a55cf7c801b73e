// SPDX-License-Identifier: MIT
/// One GPU with its part of a gradient and a clip plan for it.
#ifndef PTXGEN_EXAMPLES_SHARDED_RANK_H
#define PTXGEN_EXAMPLES_SHARDED_RANK_H

#include "nccl.h"

/// A tensor of the gradient, on the host.
struct part {
    ptx_type dtype;
    uint64_t count;
    size_t bytes;
    void *data;
    double weight; ///< 1 / k for one that k ranks hold a copy of; 0: 1
};

enum { RANK_MAX_PARTS = 64 };

/// What clipping leaves, read back to be compared.
struct outcome {
    double sum; ///< that norm and factor come from
    struct ptx_clip_record record;
    struct ptx_clip_summary summary;
    unsigned char *gradients; ///< one part after the other; the caller's
};

struct rank {
    ptx_device *device;
    CUstream stream;
    CUevent start, end;
    size_t part_count;
    const struct part *parts;
    ptx_buffer *buffers[RANK_MAX_PARTS];
    ptx_clip_plan *plan;
    const struct nccl *nccl;
    ncclComm_t comm; ///< NULL: this GPU has all of the gradient
    void *libcuda;
    int (*set_current)(CUcontext context);
    int (*copy_to_host)(void *to, CUdeviceptr from, size_t bytes);
    int (*copy_to_device)(CUdeviceptr to, const void *from, size_t bytes);
};

#define SHARDED_LOSS_SCALE 1024.0f
#define SHARDED_MAX_NORM   1.0f

/// Takes up GPU `ordinal`, makes its context current, allocates, and plans. `parts` stay the
/// caller's and must live as long. False: ptx_error_message() says why; rank_close() all the same.
bool rank_open(struct rank *rank, int ordinal, const struct part *parts, size_t part_count);
void rank_close(struct rank *rank);

/// Gradients and loss scale as they were at first.
bool rank_reset(struct rank *rank);
/// The sum of squares of this rank's parts alone.
bool rank_local_sum(struct rank *rank, double *sum);
/// Puts norm, all-reduce, factor and scaling on the stream. Never waits; may be captured. Takes
/// part in the all-reduce even after an error, since the other ranks wait for it.
bool rank_clip(struct rank *rank);
/// The same, with `sum` in place of the one that the rank would come to.
bool rank_clip_by_sum(struct rank *rank, double sum);
/// rank_clip() as a graph. NULL: ptx_error_message() says why.
ptx_graph *rank_capture(struct rank *rank);
/// Waits for the stream.
bool rank_read(struct rank *rank, struct outcome *outcome);

#endif
