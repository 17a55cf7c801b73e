// SPDX-License-Identifier: MIT
/// Muon: the rule PTX_STEP_RULE_MUON of step plans, which steps whole matrices.
///
///     static const struct ptx_muon_params muon = { .steps = 5 };
///     struct ptx_step_group group = { .rule = PTX_STEP_RULE_MUON, .nesterov = true,
///         .hyper = { .lr = 0.02, .momentum = 0.95, .weight_decay = 0.1, .eps = 1e-7 },
///         .muon = &muon };
///     struct ptx_step_tensor tensor = { ..., .count = 768 * 3072, .columns = 3072 };
///
/// A tensor of such a group is a matrix of A rows and B columns: B is its `columns`, A * B its
/// `count`; a convolution is (out, rest). It has one state, the momentum m. Its group may stand
/// beside groups of other rules, and of rules of the caller's, in one plan: all share norms,
/// guards, loss scale, reports and phases. A matrix lies whole in one plan: a shard is refused.
///
/// With g the gradient times the factor of its norm group, rounded once to f32 (-g under
/// `maximize`), one step is
///
///     m = fma(1 - momentum, g - m, m)                          in f32; then rounded to its format
///     u = nesterov ? fma(-(1 - momentum), m - g, m) : m        of the m before that rounding
///     X = rn_f16(u / max(s, eps))                              n x k, n <= k: transposed if A > B
///     X = the orthogonalized X                                 `steps` steps, below; 0: X as it is
///     p = fma(-(lr * weight_decay), p, p)
///     p = fma(-(lr * adjust), X, p)
///
/// Scalars are rounded to f32 first, as those of other rules; 1 - momentum, lr * weight_decay and
/// lr * adjust are formed from those in f64 and rounded once. The difference, each fma and the
/// quotient are rounded once in f32, the quotient once more to f16.
///
/// s is |u| (Frobenius), from sums in f64 that the norm's launch takes over m, as it is before the
/// step, and the raw gradient G. With mu the momentum, nu = 1 - mu, f the factor (-f under
/// `maximize`), and a = mu, b = nu, or a = mu^2, b = 1 - mu^2 with nesterov,
///
///     s^2 = a^2 m.m + 2 a b f m.G + b^2 f^2 G.G
///     s   = the larger of its root and 2^-20 (a |m| + b |f| |G|)
///
/// and max(s, eps) is rounded to f32. Where s is 0, X is 0. The order of a matrix's sums is
/// fixed by its number of elements alone.
///
/// The steps, with a triple (a, b, c) each. Products have operands in f16 and sums in f32; rn
/// rounds to f16:
///
///     plain, n = k:  R = rn(X X^T);  Z = rn(b R + c R R);  X = rn(a X + Z X)
///     Gram,  n < k:  R = rn(X X^T); in each step
///                        Z = rn(b R + c R R)
///                        Q = rn(Z + a I) first and after a restart, else rn(a Q + Q Z)
///                        but in the last step and before a restart:
///                        T = rn(a R + R Z);  R = rn(a T + Z T)
///                    a restart, after steps 2, 5, 8, ... where there are more than 3 and it is not
///                    the last one:
///                        X = rn(Q X);  R = rn(X X^T)
///                    at the end X = rn(Q X)
///
/// The form is fixed by a matrix's sizes and its group's steps alone. So a matrix gets the same
/// bits launched, captured, in phases, and beside any others given the same factor, on devices of
/// one generation and on the emulator that presents it: products of f16 are the one operation whose
/// bits the generations differ in. All else is as in other rules.
///
/// The norm is always taken. Where matrices are not to be clipped, give them a norm group whose
/// max_norm is INFINITY. A step that is skipped writes nothing; nor does a tensor without a
/// gradient. docs/muon.md has how close the result is to an exact one, and what is refused.
///
/// Sources: Jordan et al. 2024; torch.optim.Muon of PyTorch 2.11; the Gram form is that of
/// Dao-AILab's gram-newton-schulz.
#ifndef PTXGEN_MUON_H
#define PTXGEN_MUON_H

#include <ptxgen/types.h>

PTXGEN_BEGIN

enum {
    PTX_MUON_STEPS = 5,              ///< of the default
    PTX_MUON_MOST_STEPS = 32,        ///< at most
    PTX_MUON_MOST_ROWS = 16384,      ///< the smaller side of a matrix, at most
    PTX_MUON_MOST_COLUMNS = 1 << 24, ///< each side, at most
};

/// What lr is multiplied by for a matrix of A rows and B columns.
typedef enum ptx_muon_adjust {
    PTX_MUON_ADJUST_ORIGINAL,        ///< sqrt(max(1, A / B)), Jordan's
    PTX_MUON_ADJUST_MATCH_RMS_ADAMW, ///< 0.2 sqrt(max(A, B)): updates about as large as AdamW's
} ptx_muon_adjust;

/// What a group with the rule MUON has besides its scalars, of which the rule uses lr, momentum
/// (from 0, below 1), weight_decay and eps. Fixed for the plan's life.
struct ptx_muon_params {
    uint32_t steps; ///< at most PTX_MUON_MOST_STEPS; 0: X is the normalized update itself
    /// a, b and c of each step, one triple after the other. Finite. NULL: 3.4445, -4.7750 and
    /// 2.0315 in each.
    const float *triples;
    ptx_muon_adjust adjust;
    bool in_by_out; ///< weights are stored in x out, as GPT-2's Conv1D: adjust swaps A and B
};

PTXGEN_END

#endif
