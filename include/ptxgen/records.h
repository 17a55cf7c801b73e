// SPDX-License-Identifier: MIT
/// Structs that kernels and hosts share in device memory: the states of a loss scale, of an
/// observer and of guards, the records of norms. Part of operations.h and norm.h.
#ifndef PTXGEN_RECORDS_H
#define PTXGEN_RECORDS_H

#include <ptxgen/common.h>

PTXGEN_BEGIN

/// The current loss scale and the number of steps since it changed; 8 bytes in device or host
/// memory.
struct ptx_loss_scale_state {
    float scale;            ///< finite, > 0
    int32_t growth_tracker; ///< consecutive steps without NaN or infinity; below 0: see hysteresis
};

/// What an observer of a tensor's range keeps between steps, in device memory: 16 bytes. At first
/// { INFINITY, -INFINITY, INFINITY, -INFINITY }.
struct ptx_observer_state {
    float min_val, max_val; ///< moving averages of the least and the greatest element
    float least, greatest;  ///< of the step under way; +inf and -inf between steps
};

/// A float of 8 bits. e4m3 has values up to 448 and no infinity, e5m2 has values up to 57344.
typedef enum ptx_fp8 {
    PTX_FP8_E4M3,
    PTX_FP8_E5M2,
} ptx_fp8;

/// What shares a scale of codes in 8 bits, and how the scale follows from the largest magnitude:
/// step.h has the formulas.
typedef enum ptx_fp8_blocks {
    PTX_FP8_BLOCKS_NONE, ///< the whole tensor
    PTX_FP8_BLOCKS_128X128,
    PTX_FP8_BLOCKS_1X128,
} ptx_fp8_blocks;
typedef enum ptx_fp8_scaling {
    PTX_FP8_SCALING_TE,
    PTX_FP8_SCALING_TE_UE8M0,
    PTX_FP8_SCALING_DEEPGEMM,
    PTX_FP8_SCALING_DEEPGEMM_UE8M0,
} ptx_fp8_scaling;

/// How a group is treated if its sum is NaN or infinite. found_inf is 1 in each case.
typedef enum ptx_nonfinite {
    PTX_NONFINITE_PROPAGATE, ///< as PyTorch: a NaN norm makes every element NaN; an infinite norm
                             ///< makes finite elements 0 and infinite ones NaN, and with an
                             ///< infinite max_norm every element NaN
    PTX_NONFINITE_SKIP,      ///< factor 1: the gradients do not change and are not unscaled
    PTX_NONFINITE_ZERO,      ///< factor 0, and every element becomes +0
} ptx_nonfinite;

/// The record of a group, in device memory. Valid when the stream has passed a run or a finish,
/// until the next one. 16 bytes.
struct ptx_clip_record {
    float factor;    ///< multiplies the group's gradients; includes unscaling
    float norm;      ///< of the unscaled gradients, before clipping; NaN or infinite if its sum is;
                     ///< infinite if it exceeds f32
    float found_inf; ///< 1 if anything in the group was NaN or infinite, if `factor` would be, or
                     ///< if an input of the plan was not usable (found_inf_at in clip.h); else 0
    float max_norm;  ///< an input: may be written by the caller's own kernels between runs; a
                     ///< result if the plan has max_norms_at
};

/// The record of the plan, in device memory, directly after the groups' records. 16 bytes.
struct ptx_clip_summary {
    float found_inf;  ///< 1 if found_inf of any group is 1, else 0
    float loss_scale; ///< the loss scale that the run divided by, before the update
    struct ptx_loss_scale_state state; ///< the plan's own; an input, updated if params->update; of
                                       ///< no use with loss_scale_state and loss_scale_at
};

/// What a run says of a tensor's raw gradient: as it is in memory, neither unscaled nor clipped. 32
/// bytes in device memory. A run that skips its step writes it, too.
struct ptx_gradient_report {
    double norm;   ///< f64 sums in a tree that the sizes of all tensors fix; NaN or infinite if an
                   ///< element is
    float largest; ///< magnitude; NaN if an element is NaN. That of an f64 is rounded
    uint32_t absent; ///< 1: the tensor has no gradient, or no elements: all else is 0, -1
    uint64_t zeros;  ///< elements that are +0 or -0
    int64_t
        first_nonfinite; ///< index of the first NaN or infinity in the whole parameter; -1: none
};

/// What a step leaves of a tensor's weights: the parameter as it is stored after the step, rounded
/// to its type. 24 bytes in device memory. A run that skips its step leaves the row as it was,
/// unless the tensor is absent.
struct ptx_weight_report {
    double norm;   ///< f64 sums in a tree that the sizes of all tensors fix; NaN or infinite if an
                   ///< element is
    double change; ///< norm of the new less the old weights, both as stored, each difference in
                   ///< f64. With a master the old ones are the master before the step, rounded
    float largest; ///< magnitude; NaN if an element is NaN
    uint32_t absent; ///< 1: the tensor has no gradient, so that it is not stepped, or no elements:
                     ///< all else is 0
};

// ------------------------------------------------------------------------------------------ guards

/// Why a run skips a step: `skipped` of struct ptx_guard_state, as f32.
typedef enum ptx_guard_skip {
    PTX_GUARD_SKIP_NONE,      ///< the step is taken
    PTX_GUARD_SKIP_FOUND_INF, ///< found_inf of the summary; a clip plan does what its policy says
    PTX_GUARD_SKIP_GIVEN,     ///< skip_at
    PTX_GUARD_SKIP_LIMIT,
    PTX_GUARD_SKIP_HISTORY,
    PTX_GUARD_SKIP_COUNT
} ptx_guard_skip;

/// The layout that this header describes.
enum { PTX_GUARD_STATE_VERSION = 1, PTX_GUARD_MOST_REASONS = 8 };

/// The rule that keeps a struct ptx_guard_record for each group.
typedef enum ptx_guard_rule {
    PTX_GUARD_RULE_NONE,
    PTX_GUARD_RULE_ZCLIP,
    PTX_GUARD_RULE_ADAGC,
} ptx_guard_rule;

/// The state of guards, in device memory: 128 bytes. It is followed by the ring of norms and, with
/// loss_at, that of losses, each of `length` f32; the end is rounded up to 8 bytes; then, with
/// ZClip or AdaGC, a struct ptx_guard_record for each group. Valid when the stream has passed a run
/// or a finish. A copy is a checkpoint.
struct ptx_guard_state {
    uint32_t version;  ///< PTX_GUARD_STATE_VERSION; 0 before the first run
    uint32_t length;   ///< of the rings; 0: there are none
    uint32_t groups;   ///< rows of groups; 0: there are none
    uint32_t kinds;    ///< enum ptx_guard_rule, + 4 if there is a ring of losses
    float skipped;     ///< of the last run: enum ptx_guard_skip
    float norm;        ///< of the last run, over all groups
    uint32_t filled;   ///< values in each ring
    uint32_t next;     ///< the place of the next value
    uint32_t in_a_row; ///< steps skipped by guards since one was taken, or since
                       ///< the rings were emptied
    uint32_t unused;   ///< 0
    uint64_t counts[PTX_GUARD_MOST_REASONS]; ///< runs, by `skipped`: counts[0] steps were taken
    uint64_t more[3];                        ///< 0
};

/// A group's state: ZClip's mean and var, and the norms of its warm-up so far; AdaGC's gamma as
/// `mean`, 0 before its first norm.
struct ptx_guard_record {
    double mean;
    double variance;
    uint64_t count;
};

PTXGEN_END

#endif
