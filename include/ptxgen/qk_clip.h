// SPDX-License-Identifier: MIT
/// QK-clip: factors for rows or columns of parameters, which a step plan multiplies its new weights
/// by. Part of step.h.
///
///     struct ptx_qk_clip clips[2 * 12]; // Q and K of 12 heads of 64 rows, one weight of all three
///     for (unsigned k = 0; k < 24; k++)
///         clips[k] = (struct ptx_qk_clip){ .tensor = 7, .range = { .first = 64 * k, .run = 64 },
///                                          .factor_at = factors + 4 * (k % 12) };
///     ptx_step_plan *plan = ptx_step_plan_create(gpu, &(struct ptx_step_params){ ...,
///         .qk_clips = clips, .qk_clip_count = 24 });
///     ...
///     // each step: a kernel of the caller's leaves sqrt(min(1, tau / largest logit)) of each head
///     ptx_step_plan_run(plan, stream);
///
/// With f the f32 that the step finds at factor_at, and p what the rule has made of an element of
/// the range, in f32 and before the format of the tensor rounds it,
///
///     p = rn_f32(p * f)
///
/// where it is 1 no bit changes. That is: the master is multiplied where there is one, and parts of
/// 32 bits as a whole (REMAINDER, MASTER_24BIT); a parameter of STOCHASTIC and STATE_8BIT is
/// rounded once, by its random bits. What follows the weights follows these: the parameter of a
/// master, the average (ema), amax, copies in 8 bits, and reports of weights, whose change is from
/// before the step to after the factor. Momentum and other states, gradients and norms are as
/// without, also a state that is a weight itself (PTX_RULE_WEIGHT). It is part of the pass that
/// steps the tensor, and reads and writes no weight again.
///
/// A step that is skipped, and one in which the tensor has no gradient, leave the weights, whatever
/// the factors are. A factor is not checked, and goes into the formula as it is: 0 makes zeros with
/// the sign of the weight, a negative one turns signs, NaN makes NaN.
///
/// Rows and columns are the tensor's own: of a shard the rows that are there, so each rank gives
/// those of a head that it has. A range that no rank has is in no list. Of the matrices of one
/// parameter (muon.h) each is a tensor of its own.
///
/// Source: QK-Clip of MuonClip, Kimi K2, arXiv 2507.20534, algorithm 1: with S the largest logit of
/// a head in the last forward pass, gamma = min(1, tau / S), and W_q and W_k of the head are
/// multiplied by sqrt(gamma) each; with MLA W_qr by gamma. docs/muon.md has it in a loop.
#ifndef PTXGEN_QK_CLIP_H
#define PTXGEN_QK_CLIP_H

#include <stddef.h>

#include <ptxgen/muon.h>

PTXGEN_BEGIN

/// Rows or columns of a tensor that share a factor. Ranges of one tensor are all of rows or all of
/// columns, and do not overlap; what none has is not multiplied. The tensor may have any rule and
/// format. Its `columns` are required, of which its count is a multiple, so that it has whole rows;
/// it has at most 2^31 - 1 elements. Entries of a tensor without elements are ignored.
struct ptx_qk_clip {
    size_t tensor;               ///< its index
    struct ptx_muon_range range; ///< of its rows or columns; a stride need not divide columns
    CUdeviceptr factor_at;       ///< the address of an f32, which entries may share: a multiple of
                                 ///< 4. The caller writes it before the step, on the step's stream;
                                 ///< nothing that the plan writes may overlap it
};

PTXGEN_END

#endif
