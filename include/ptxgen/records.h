// SPDX-License-Identifier: MIT
/// What kernels and hosts tell each other in device memory: the state of a loss scale, the records
/// of a clip plan. Part of operations.h and clip.h, which say what it is for.
#ifndef PTXGEN_RECORDS_H
#define PTXGEN_RECORDS_H

#include <ptxgen/common.h>

PTXGEN_BEGIN

/// The scale that the loss was multiplied by, and how long it has served; 8 bytes in device or host
/// memory.
struct ptx_loss_scale_state {
    float scale;            ///< finite, > 0
    int32_t growth_tracker; ///< steps in a row without a NaN or infinity
};

/// What happens to a group whose sum is NaN or infinite. found_inf is 1 under each.
typedef enum ptx_nonfinite {
    PTX_NONFINITE_PROPAGATE, ///< as PyTorch: a NaN norm makes every element NaN, an infinite norm
                             ///< makes finite elements 0 and infinite ones NaN
    PTX_NONFINITE_SKIP,      ///< factor 1: the gradients stay as they are, not even unscaled
    PTX_NONFINITE_ZERO,      ///< factor 0, and every element becomes +0
} ptx_nonfinite;

/// A group's record, in device memory. Valid where the stream has passed a run or a finish, until
/// the next one. 16 bytes.
struct ptx_clip_record {
    float factor;    ///< what the group's gradients are to be multiplied by, unscaling included
    float norm;      ///< of the unscaled gradients, before clipping; NaN or infinite if found_inf
    float found_inf; ///< 1 if anything in the group was NaN or infinite, else 0
    float max_norm;  ///< an input: may be written by the caller's own kernels between runs
};

/// The plan's own record, in device memory, right after the groups' records. 16 bytes.
struct ptx_clip_summary {
    float found_inf;                   ///< 1 if anything in any group was NaN or infinite, else 0
    float loss_scale;                  ///< that the run divided by, before the update
    struct ptx_loss_scale_state state; ///< the plan's own; an input, updated if params->update
};

PTXGEN_END

#endif
