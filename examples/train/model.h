// SPDX-License-Identifier: MIT
/// The model on the host: its sizes, initial weights and targets, and one step in plain C.
///
/// Two layers of the same width with fixed weights. Training adjusts an addition to each layer, the
/// product of two narrow matrices (LoRA):
///
///     low1   = x a1^T           [batch, rank]
///     hidden = max(x w1^T + low1 b1^T, 0)
///     low2   = hidden a2^T
///     y      = hidden w2^T + low2 b2^T
///     loss   = mean of (y - target)^2
///
/// The targets come from the same network with other adapters, which training should find.
#ifndef PTXGEN_EXAMPLES_TRAIN_MODEL_H
#define PTXGEN_EXAMPLES_TRAIN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct train_options {
    unsigned width;   ///< of x, hidden and y
    unsigned rank;    ///< of the adapters
    unsigned batch;   ///< examples of a step
    unsigned batches; ///< number of batches, used in turn
    unsigned steps;
    unsigned spoilt;  ///< the step whose gradient is set to infinity; not the first
    unsigned repeats; ///< runs of each form; the fastest is reported
    float max_norm;   ///< of the gradients of all adapters together
};

/// a1, b1, a2, b2, one after the other; the number of elements of each.
enum { TRAIN_ADAPTERS = 4 };
static inline size_t train_adapter_elements(const struct train_options *options)
{
    return (size_t)options->rank * options->width;
}

struct train_data {
    float *frozen;   ///< w1 and w2, [width, width] each
    float *adapters; ///< a1 [rank, width], b1 [width, rank], a2, b2, at the start of training
    float *batches;  ///< batch after batch: x [batch, width], then targets [batch, width]
};

/// False if memory runs out. Always generates the same numbers.
bool train_data_create(struct train_data *data, const struct train_options *options);
void train_data_destroy(struct train_data *data);

/// The first step's loss and the norm of its gradients, in f64. False if memory runs out.
bool train_reference(const struct train_data *data, const struct train_options *options,
                     double *loss, double *norm);

#endif
