// SPDX-License-Identifier: MIT
/// Guards of clip and step plans: rules that look at the norms of a step's gradients, and at its
/// loss, and decide on the device, before anything is written, whether the step is taken and how
/// far its gradients are clipped. Part of norm.h.
///
///     const struct ptx_guard_params guards = {
///         .limit = 100,                                  // the norm of a usable step
///         .history = { .length = 128, .loss_at = loss }, // no outlier of the last 128
///         .state = state, .state_bytes = bytes,          // ptx_guard_state_bytes(), zeros first
///     };
///     plan = ptx_step_plan_create(gpu, &(struct ptx_step_params){
///         ..., .max_norm = 1, .guards = &guards });
///
/// With `norm` the record's norm of a group and `all` the norm over all groups, both f32, of the
/// unscaled gradients before clipping, a run decides in this order:
///
///     found_inf   something is NaN or infinite, as without guards: see clip.h
///     given       the f32 at skip_at is not 0
///     limit       norm > limit, in any group
///     history     x - mean <= deviations * std does not hold, for x = all or x = the loss
///     zclip       clips further: see struct ptx_guard_zclip_params
///     adagc       clips further: see struct ptx_guard_adagc_params
///     max_norm    clips, as without guards
///
/// The first of the first four that holds is the reason for which the run skips the step: `skipped`
/// of struct ptx_guard_state. A skip for another reason than found_inf leaves found_inf 0, so the
/// loss scale counts a good step; every factor is 1, so that a clip plan leaves the gradients as
/// they are, not even unscaled; a step plan writes no parameter, state or count. Skipped steps
/// leave the state of ZClip and AdaGC as it is.
///
/// Statistics are f64, each operation rounded once, of values in f32. The results are the same on
/// every GPU and on the emulator. Ranks that share the sums, and the state at first, take one
/// decision, and so keep equal states; the loss at an address, too, must then be reduced over the
/// ranks by the caller: where ranks give different losses their decisions may differ. Plans that
/// share a norm through rows of sums have a state each.
///
/// docs/guards.md has every case, and the sources of the rules.
#ifndef PTXGEN_GUARD_H
#define PTXGEN_GUARD_H

#include <ptxgen/module.h>
#include <ptxgen/records.h>

PTXGEN_BEGIN

/// OLMo-core's rule (optim/skip_step_optimizer.py of ai2-olmo-core 3.0.0; at commit a14de85 it is
/// armed from max(20, length / 2) values on): the step is skipped if its norm, or its loss, is an
/// outlier among those of the steps before:
///
///     mean, std   of the values in the ring, at most `length`; std with the divisor n - 1
///     armed       n + 1 >= max(2, floor(length / 2)), n the number of values in the ring
///     step        not armed, or x - mean <= deviations * std for the norm and, with loss_at, for
///                 the loss. NaN compares false, and so skips
///
/// The values then enter the ring, those of skipped steps too, in place of the oldest. Norm and
/// loss enter together: not if either is NaN or infinite, nor with found_inf.
struct ptx_guard_history_params {
    uint32_t length;     ///< at least 6, at most 65536; OLMo-core has 128; 0: no such guard
    double deviations;   ///< finite, > 0; 0 means 6
    CUdeviceptr loss_at; ///< an f32 that each run reads; 0: norms alone
    uint32_t most_skips; ///< 0: skipped steps enter, as OLMo-core's. If not 0, the values of steps
                         ///< that a guard skips stay out, and after so many of them in a row the
                         ///< ring is empty, and starts again
    bool one_group;      ///< the norm is that of `group` alone, not that over all groups
    uint32_t group;      ///< 0 unless one_group is set
};

/// ZClip (arXiv 2504.02507, its zclip.py at commit 134344f with mode zscore and adaptive_scaling),
/// for each group:
///
///     warm-up     the first `warmup` norms give mean and var, with divisor `warmup`
///     z           (norm - mean) / (sqrt(var) + 1e-6)
///     z > z_most  c = mean + z_most * sqrt(var) / (z / z_most); clips to min(c, max_norm)
///     else        c = norm; clips to max_norm, as in the warm-up
///     mean        = alpha * mean + (1 - alpha) * c
///     var         = alpha * var + (1 - alpha) * (c - mean)^2, with the new mean
///
/// In the warm-up, with n norms so far and this one among them, d = norm - mean; mean += d / n;
/// var += d * (norm - mean), whose sum is divided by `warmup` at the end. A norm of 0, or beyond
/// f32, changes nothing (its source has no check: after a warm-up of zeros it clips everything to
/// 0).
struct ptx_guard_zclip_params {
    uint32_t warmup; ///< steps, at least 1; its source has 25; 0: no such guard
    double alpha;    ///< above 0, below 1; 0 means 0.97
    double z_most;   ///< finite, > 0; 0 means 2.5
};

/// AdaGC (arXiv 2502.11034), for each group, where the paper has a group for each tensor. With t
/// the number of steps taken, this one included:
///
///     t < warmup  h = min(lambda_abs / all, 1)
///                 gamma = min(gamma, h * norm)
///     else        h = min(lambda_rel * gamma / norm, 1)
///                 gamma = beta * gamma + (1 - beta) * h * norm
///     factor      that of the smaller of h and max_norm's
///
/// A group's first norm above 0 is treated as in the warm-up, and gives gamma = h * norm. A norm of
/// 0, or beyond f32, changes nothing, and its h is 1.
struct ptx_guard_adagc_params {
    uint32_t warmup;   ///< steps, at least 1; the paper has 100; 0: no such guard
    double lambda_abs; ///< finite, > 0; 0 means 1
    double lambda_rel; ///< finite, > 0; 0 means 1.05
    double beta;       ///< above 0, below 1; 0 means 0.98
};

/// What a plan's guards are. { 0 }: none, but the state counts steps. Fields of a rule whose length
/// or warmup is 0 are 0, too.
struct ptx_guard_params {
    float limit;           ///< > 0: of the norm of each group; 0: none
    CUdeviceptr limits_at; ///< an f32 for each group that each run reads instead; not checked: NaN
                           ///< limits nothing, a value below 0 skips every step. 0: none
    /// An f32 that each run reads: if it is not 0, the step is skipped. For `skipped` of another
    /// plan's guards: state + offsetof(struct ptx_guard_state, skipped), state as guard_state of
    /// that plan's info has it. Not within this plan's own state. 0: none
    CUdeviceptr skip_at;
    struct ptx_guard_history_params history;
    struct ptx_guard_zclip_params zclip;
    struct ptx_guard_adagc_params adagc; ///< not together with zclip
    /// The address of the state: a multiple of 8, not within a tensor. Zeros are an empty state.
    /// Creation reads its first 16 bytes, and refuses the state of other guards: of another length
    /// or rule or, with zclip or adagc, number of groups. 0: the plan has a state of its own.
    CUdeviceptr state;
    uint64_t state_bytes; ///< its size: at least ptx_guard_state_bytes(); not used without state
};

/// The bytes of a state, for a plan with so many groups (norm groups of a step plan). 0: `guards`
/// is NULL or not valid, and the error says why. Thread-safe. Errors: INVALID.
PTXGEN_API uint64_t ptx_guard_state_bytes(const struct ptx_guard_params *guards, uint32_t groups);

PTXGEN_END

#endif
