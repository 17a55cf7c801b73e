// SPDX-License-Identifier: MIT
/// A training step as launches on a stream, and runs of many: launched one by one, or captured into
/// a CUDA graph and replayed. The host neither waits nor decides anything between two steps.
#ifndef PTXGEN_EXAMPLES_TRAIN_TRAINER_H
#define PTXGEN_EXAMPLES_TRAIN_TRAINER_H

#include "kernels.h"
#include "model.h"

struct trainer;

enum train_form {
    TRAIN_DIRECT,   ///< every step is launched kernel by kernel
    TRAIN_CAPTURED, ///< every step is one launch of the graph
};

/// What a run leaves. The caller provides the memory.
struct train_outcome {
    struct train_record *history; ///< one a step
    float *adapters;
    struct train_progress progress;
    float milliseconds; ///< by the GPU's clock, from the first step's start to the last one's end
};

/// Allocates, compiles, and captures the step; `data` is not needed afterwards, but for
/// `data->adapters`, which each run starts with. NULL: ptx_error_message() says why.
struct trainer *trainer_create(ptx_device *device, const struct train_options *options,
                               const struct train_data *data);
void trainer_destroy(struct trainer **trainer);

/// Trains from the start, steps `first` to `first + count - 1`; history before `first` is zero.
bool trainer_run(struct trainer *trainer, enum train_form form, unsigned first, unsigned count,
                 struct train_outcome *outcome);

/// What was captured.
const struct ptx_graph_info *trainer_graph_info(const struct trainer *trainer);

#endif
