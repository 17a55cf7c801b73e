// SPDX-License-Identifier: MIT
/// The kernels of a training step, written with the builder, all in one module.
#ifndef PTXGEN_EXAMPLES_TRAIN_KERNELS_H
#define PTXGEN_EXAMPLES_TRAIN_KERNELS_H

#include <ptxgen/ptxgen.h>

enum { TRAIN_BLOCK = 256, TRAIN_WARPS = TRAIN_BLOCK / 32 };

/// X(entry): the kernels.
///
///     take_batch          batch = data of batch number `step`
///     product             out = a b                     matrices with any strides, one warp an
///     product_add         out = out + a b               element; sums in a fixed order
///     product_add_relu    out = max(out + a b, 0)
///     product_add_where   out = out + a b where `where` is positive, else 0
///     product_f16         out = a b, rounded to f16: infinite from 65520 on
///     loss                mean of (y - target)^2, and its gradient times the loss scale
///     advance             the step's line of the history; counts steps
#define TRAIN_KERNELS(X)                                                                           \
    X(take_batch)                                                                                  \
    X(product)                                                                                     \
    X(product_add)                                                                                 \
    X(product_add_relu)                                                                            \
    X(product_add_where)                                                                           \
    X(product_f16)                                                                                 \
    X(loss)                                                                                        \
    X(advance)

/// The state of the training, in device memory: no step needs values from the host.
struct train_progress {
    uint32_t step; ///< number of steps so far
    float taken;   ///< number of steps that changed the adapters; the step plan counts them
};

/// The history of a step, in device memory until the end.
struct train_record {
    float loss;
    float norm;       ///< of the unscaled gradients
    float loss_scale; ///< used in this step
    float found_inf;  ///< 1: the step was skipped
};

void train_emit(ptx_builder *b);

#endif
