// SPDX-License-Identifier: MIT
/// One GPU with its part of a gradient and its clip plan.
#ifndef PTXGEN_EXAMPLES_SHARDED_RANK_H
#define PTXGEN_EXAMPLES_SHARDED_RANK_H

#include "nccl.h"

/// A tensor of the gradient, on the host.
struct part {
    ptx_type dtype;
    uint64_t count;
    size_t bytes;
    void *data;
    double weight; ///< 1 / k for a tensor that k ranks have a copy of; 0 means 1
};

enum { RANK_MAX_PARTS = 64 };

/// The results of clipping, copied to the host for comparison.
struct outcome {
    double sum; ///< the sum that norm and factor are computed from
    struct ptx_clip_record record;
    struct ptx_clip_summary summary;
    unsigned char *gradients; ///< all parts, one after the other; owned by the caller
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
    ncclComm_t comm; ///< NULL: this GPU has the whole gradient
    void *libcuda;
    int (*set_current)(CUcontext context);
    int (*copy_to_host)(void *to, CUdeviceptr from, size_t bytes);
    int (*copy_to_device)(CUdeviceptr to, const void *from, size_t bytes);
};

#define SHARDED_LOSS_SCALE 1024.0f
#define SHARDED_MAX_NORM   1.0f

/// Opens GPU `ordinal`, makes its context current, allocates, and makes the plan. The caller owns
/// `parts`, which must live as long as the rank. Returns false on an error, described by
/// ptx_error_message(); call rank_close() in both cases.
bool rank_open(struct rank *rank, int ordinal, const struct part *parts, size_t part_count);
void rank_close(struct rank *rank);

/// Restores the initial gradients and loss scale.
bool rank_reset(struct rank *rank);
/// The sum of squares of only this rank's parts.
bool rank_local_sum(struct rank *rank, double *sum);
/// Puts norm, all-reduce, factor and scaling on the stream. Never waits; may be captured. Takes
/// part in the all-reduce even after an error, because the other ranks wait for it.
bool rank_clip(struct rank *rank);
/// The same with `sum` instead of the sum that the rank would compute.
bool rank_clip_by_sum(struct rank *rank, double sum);
/// Captures rank_clip() into a graph. NULL on an error, described by ptx_error_message().
ptx_graph *rank_capture(struct rank *rank);
/// Waits for the stream.
bool rank_read(struct rank *rank, struct outcome *outcome);

#endif
