// SPDX-License-Identifier: MIT
/// A training step as launches on a stream, and runs of many steps: launched kernel by kernel, or
/// captured into a CUDA graph and replayed. Between steps the host does not wait and makes no
/// decision.
#ifndef PTXGEN_EXAMPLES_TRAIN_TRAINER_H
#define PTXGEN_EXAMPLES_TRAIN_TRAINER_H

#include "kernels.h"
#include "model.h"

struct trainer;

enum train_form {
    TRAIN_DIRECT,   ///< every step is launched kernel by kernel
    TRAIN_CAPTURED, ///< every step is one launch of the graph
};

/// The results of a run. The caller provides the memory.
struct train_outcome {
    struct train_record *history; ///< one for each step
    float *adapters;
    struct train_progress progress;
    float milliseconds; ///< by the GPU's clock, from the start of the first step to the end of the
                        ///< last one
};

/// Allocates, compiles, and captures the step. `data` is not needed afterwards, except
/// `data->adapters`, with which each run starts. NULL on an error, described by
/// ptx_error_message().
struct trainer *trainer_create(ptx_device *device, const struct train_options *options,
                               const struct train_data *data);
void trainer_destroy(struct trainer **trainer);

/// Runs steps `first` to `first + count - 1` from the initial state; earlier history is zero.
bool trainer_run(struct trainer *trainer, enum train_form form, unsigned first, unsigned count,
                 struct train_outcome *outcome);

/// Counts of the captured graph.
const struct ptx_graph_info *trainer_graph_info(const struct trainer *trainer);

#endif
