// SPDX-License-Identifier: MIT
/// Layer 4: norm, unscaling, detection of NaN and infinity, clipping, optimizer step and loss scale
/// update for a whole model, in one graph.
///
///     ptx_step_plan *plan = ptx_step_plan_create(gpu, &(struct ptx_step_params){
///         .tensors = tensors, .tensor_count = 148,
///         .groups = groups, .group_count = 2, .max_norm = 1.0f });
///     ...
///     ptx_step_plan_run(plan, stream);          // every step; also under capture
///
/// A step plan has the norms of a clip plan: norm.h has their parameters, clip.h the formulas of
/// records and loss scale, and the rules for threads and streams. In place of scaling the gradients
/// it takes the optimizer's step, whose formulas rules.h has. The results are the same on every GPU
/// and on the emulator (rule MUON: on devices of one generation, as muon.h says), launched or
/// captured, in phases, at any alignment.
///
/// A run is three launches for any number of tensors: the norms, together with everything that
/// depends only on scalars and step counts; the records; the step. One more folds what reports of
/// weights and an amax have of tensors of several tiles (tile of struct ptx_step_description); one
/// makes codes in blocks, one transposes codes, and agc takes one. Rules with sums have two more;
/// docs/muon.md has Muon's.
///
/// With g the raw gradient, a step computes, for each tensor,
///
///     t = count + 1
///     g = rn_f32(f32(g) * factor)               the record's factor of its norm group
///     parameter, states = rule(parameter, states, g, t)
///     parameter = parameter * f                 in rows or columns with a factor: qk_clip.h
///     ema follows the parameter                 where the tensor has an average of its weights
///     fp8, amax = those of the parameter        where the tensor has a copy, or its amax is wanted
///     count = t
///
/// If anything in any norm group is NaN or infinite, or an input says so (found_inf_at), or a guard
/// skips the step (guard.h), it writes only records, loss scale and the guards' state: no
/// parameter, state, average, copy, amax, count or gradient. `gradients` selects what happens to
/// the gradients; by default they do not change.
///
/// docs/steps.md shows a plan in a loop, in a graph, with a loss scale and across ranks.
#ifndef PTXGEN_STEP_H
#define PTXGEN_STEP_H

#include <ptxgen/builder.h>
#include <ptxgen/muon.h>
#include <ptxgen/norm.h>
#include <ptxgen/qk_clip.h>
#include <ptxgen/records.h>
#include <ptxgen/rule.h>
#include <ptxgen/rules.h>

PTXGEN_BEGIN

// ------------------------------------------------------------------------------------- parameters

/// Adaptive gradient clipping (Brock et al. 2021), as timm's adaptive_clip_grad() computes it, of
/// each unit of a group's tensors by itself: a row of a matrix, an output channel of a convolution
/// (all dimensions but the first; `columns` of struct ptx_step_tensor), all of a vector. With g the
/// unit's raw gradient and w its weights as stored, in f64 but for squares of weights that a step
/// adds in f32, up to 256 at a time:
///
///     |g| = sqrt(sum of g * g) * factor       factor: the record's of its norm group
///     most = clipping * max(|w|, eps)
///     of_unit = |g| < most ? factor : rn_f32(factor * (most / max(|g|, 1e-6)))
///
/// and a step takes of_unit in place of factor. So it comes last, after the loss scale, guards and
/// max_norm. A NaN among the weights makes the gradient of its unit NaN, as there; weights above
/// 1.8e19, whose squares f32 does not hold, leave it as it is. What is NaN or infinite among
/// gradients skips the step, as ever. timm leaves out the classifier: such tensors are in a group
/// without agc.
///
/// Sums of g * g ride on the pass of the norm. Those of the weights are left by the step before,
/// and so the first step needs ptx_step_plan_weights_changed(). Where rows are no multiple of 4
/// elements, or of 8 where anything of the tensor but the gradient has fewer than 32 bits, each run
/// reads the weights instead. A run has one launch more, and small tensors share no chunks.
/// With accumulators the units are those of the sums. docs/steps.md says what it costs. Not with
/// MUON in the plan.
struct ptx_step_agc {
    double clipping; ///< timm's clip_factor, usually 0.01; finite; 0: units are not clipped
    double eps;      ///< the least |w| that counts; 0: 1e-3
};

/// Tensors that share a rule and its scalars. At most PTX_STEP_MAX_GROUPS groups.
struct ptx_step_group {
    ptx_step_rule rule;
    bool maximize; ///< steps along +g
    bool nesterov; ///< only with MUON, and SGD with momentum
    /// The scalars. Copied to the device at creation; ptx_step_plan_set_hyper() changes them.
    /// hyper.momentum decides, for the plan's life, whether SGD has momentum and so a state.
    struct ptx_step_hyper hyper;
    CUdeviceptr hyper_at; ///< the address of scalars that each run reads in place of the plan's
                          ///< own: eight doubles, those of a struct ptx_step_hyper before `more`;
                          ///< a multiple of 8; 0: the plan's own. The values there are not
                          ///< checked; `hyper` must still be valid
    CUdeviceptr lr_at; ///< the address of an f32 that each run reads in place of lr, not checked;
                       ///< 0: none
    /// A rule of the caller's, in place of `rule`, which is then 0, and nesterov false; rule.h. It
    /// must live as long as the plan. Its scalars alone may be other than 0, and the ones with
    /// names of their own are in hyper.more; hyper_at has behind its eight doubles as many of
    /// hyper.more as the rule has such scalars: with three, eleven doubles.
    const ptx_rule *own_rule;
    struct ptx_step_agc agc; ///< zeros: none; for the plan's life
    /// With MUON: its steps and the like, copied; muon.h. NULL: five of Jordan's, and
    /// PTX_MUON_ADJUST_ORIGINAL. Else NULL.
    const struct ptx_muon_params *muon;
};

/// The position of a shard in the whole parameter: element i of the shard is element first + i /
/// run * stride + i % run. { 0 }: the tensor is the whole parameter. Only the random bits depend on
/// it. With STATE_8BIT and STATE_F16 all three must be multiples of 256, with MASTER_24BIT of 32,
/// so that no block is cut; the last elements of a shard may be fewer only if the parameter ends
/// there. A whole parameter has at most PTX_CLIP_MAX_ELEMENTS.
struct ptx_step_whole {
    uint64_t first;
    uint64_t run;    ///< 0: all elements are consecutive
    uint64_t stride; ///< >= run; ignored if run is 0
};

/// A parameter, its gradient and its states, in device memory. Each array of a tensor has `count`
/// elements, an absmax one for each 256 or 32 of them; its address must be a multiple of the
/// element size. Arrays must not overlap. A tensor without elements is counted only with
/// counts_empty, and its other addresses are not used: of a parameter's shards, take the count from
/// one that has elements.
struct ptx_step_tensor {
    CUdeviceptr parameter;
    CUdeviceptr gradient; ///< 0: excluded from norm, step and count
    /// Adam: m, v; Lion, MUON, SGD with momentum: one state; zeros initially. A rule of the
    /// caller's: its states and outputs, in its order. 0 for states that the rule does not have.
    CUdeviceptr state[PTX_STEP_MAX_STATES];
    /// STATE_8BIT, STATE_F16: an f32 for each 256 elements of each state, zeros initially.
    /// MASTER_24BIT: an f16 for each 32. Else 0.
    CUdeviceptr absmax[PTX_STEP_MAX_STATES];
    /// Where the gradients of micro-batches are summed, an f32 for each element, at a multiple of
    /// 16: see ptx_step_plan_accumulate(). The plan writes it; nothing has to set it to 0. All
    /// tensors that have elements have one, or none has. 0: a step takes `gradient` alone.
    CUdeviceptr accumulator;
    /// With an accumulator: its struct ptx_step_accumulated, at a multiple of 8.
    CUdeviceptr accumulated;
    CUdeviceptr beside; ///< MASTER: the f32 master; REMAINDER: the s16 remainder;
                        ///< MASTER_24BIT: the s8 correction; else 0
    /// The exponential moving average of the weights, of `count` elements, which each step moves
    /// towards the parameter by the group's ema_decay: rules.h. A step that is skipped, and one in
    /// which the tensor has no gradient, leave it. The caller sets it first, usually to the
    /// parameter. It costs 8 bytes an element in f32, 4 in bf16. 0, with an ema_dtype of PTX_NONE:
    /// none.
    CUdeviceptr ema;
    ptx_type ema_dtype; ///< PTX_F32; PTX_BF16, rounded stochastically; PTX_NONE: no average
    /// Where each step leaves the largest magnitude of the weights as stored, an f32: NaN if any is
    /// NaN. It stays as it is where the step is skipped or the tensor has no gradient; so do fp8
    /// and fp8_scale_inv. 0: not wanted.
    CUdeviceptr amax;
    /// A copy of the weights in 8 bits, `count` codes, which each step makes of the weights as
    /// stored: fp8[i] = code(f32(parameter[i]) * scale), the conversion of ptx_fp8_cast(), with the
    /// scale that the step finds at fp8_scale. Before the first step, make it by that call. 0:
    /// none.
    CUdeviceptr fp8;
    CUdeviceptr fp8_scale;     ///< with fp8, without fp8_blocks: the address of its scale, an f32;
                               ///< tensors may share it. At creation it must be finite and above 0;
                               ///< later it is not checked, and goes into the formula unchanged: 0
                               ///< makes codes of 0, NaN of NaN
    CUdeviceptr fp8_scale_inv; ///< an f32, to which the step writes 1 / scale, what the codes are
                               ///< multiplied by; 0: not wanted. With fp8_blocks an f32 a block
    ptx_fp8 fp8_format;        ///< of the codes
    /// With fp8: `count` bytes for the codes of the transposed matrix: element column * rows + row
    /// is fp8[row * fp8_columns + column]. Each run leaves there what fp8 then has, also where it
    /// skips the step. The step of most f32 matrices makes them itself, one launch behind it those
    /// of all others. 0: not wanted. With fp8_blocks what makes the codes makes these, too.
    CUdeviceptr fp8_transposed;
    uint64_t fp8_columns; ///< with fp8_transposed or fp8_blocks: of the matrix, of which `count` is
                          ///< a multiple. Else it is not read
    /// Codes with a scale a block, in place of one for the tensor: see "codes in blocks" below.
    ptx_fp8_blocks fp8_blocks;
    ptx_fp8_scaling fp8_scaling; ///< with fp8_blocks: how a block's scale follows from its largest
    CUdeviceptr fp8_transposed_scale_inv; ///< with fp8_blocks and fp8_transposed: as fp8_scale_inv,
                                          ///< of the transposed codes
    CUdeviceptr step; ///< an f32, the steps taken so far, as torch's state['step']; tensors may
                      ///< share it, and it counts once a run, if one of them has a gradient. A
                      ///< whole number from 0 to 2^24 - 1, not checked: it stays at 2^24, where
                      ///< the random bits repeat, and below 0 Adam's bias corrections are 0
    uint64_t count;   ///< elements; may be 0
    ptx_type dtype;   ///< of the parameter, as its format allows
    ptx_type gradient_dtype; ///< PTX_F32, PTX_F16 or PTX_BF16; PTX_NONE: that of the parameter
    ptx_step_format format;
    uint32_t group;      ///< the hyperparameter group
    uint32_t norm_group; ///< from 0; independent of `group`
    double weight;       ///< as in struct ptx_clip_tensor
    bool uncounted;      ///< as in struct ptx_clip_tensor
    uint32_t id;         ///< distinguishes parameters in the random bits of STOCHASTIC, STATE_8BIT,
                 ///< STATE_F16 and an ema in bf16: those with one id get the same bits; all shards
                 ///< of one have its id
    struct ptx_step_whole whole;
    /// Where `count` is 0: whether `step` and a rule's clock states behind it go on nevertheless,
    /// with each step that is taken. For a rank that has no element of a parameter.
    bool counts_empty;
    /// With MUON and in qk_clips: of the matrix, of which `count` is a multiple. In a group with
    /// agc: the elements of a unit, of which `count` is a multiple; 0: the tensor is one unit. A
    /// shard of the tensor must have whole units. Else not used.
    uint64_t columns;
    /// With MUON, where the matrix is some rows or columns of a parameter: where its elements are.
    /// { 0 }: one after the other. See muon.h.
    struct ptx_muon_spread spread;
    /// With MUON, where the tensor has some of a matrix's rows, and other ranks the others: how
    /// many the matrix has. The first one here is whole.first / columns, and whole.run is 0. 0: the
    /// tensor is the matrix. Such a plan takes all phases; see muon.h, also for a rank without
    /// rows.
    uint64_t whole_rows;
    CUdeviceptr update; ///< with whole_rows: where reduce leaves X of the rows, and step finds what
                        ///< became of them: f16, rows ptx_muon_pitch(columns) bytes apart; a
                        ///< multiple of 16
};

/// What an accumulator has, in device memory; zeros initially.
struct ptx_step_accumulated {
    uint32_t gradients; ///< summed since the last step; with bit 31, that a norm_sq or run has
                        ///< taken: the next one begins a new sum
    uint32_t launch;    ///< the library's: what marks the launch that wrote `gradients`
};

/// Codes in blocks. With fp8_blocks a run leaves a copy of the weights in blocks of the matrix of
/// count / fp8_columns rows, each with a scale of its own that follows from the weights as stored:
///
///     128X128   128 rows by 128 columns; those of the edges have fewer
///     1X128     128 elements of a row; the last of a row has fewer
///
/// fp8[row * fp8_columns + column] is code(f32(parameter) * scale), and fp8_scale_inv has what the
/// codes of each block are multiplied by, by rows of blocks: 128X128 has ceil(rows / 128) rows of
/// ceil(columns / 128), 1X128 has `rows` rows of ceil(columns / 128). It is required, and fp8_scale
/// is 0: there is none to read. Elements beyond an edge count as 0 and are not written, so the
/// results are those of a matrix that is filled up with zeros.
///
/// fp8_transposed has the codes of the transposed matrix, of `columns` rows, with its blocks at
/// fp8_transposed_scale_inv, which is required then. With 128X128 the codes are the same, and the
/// scales those of the same blocks, transposed. With 1X128 a block is 128 elements of a column, and
/// codes and scales are others.
///
/// With `largest` 448 in e4m3 and 57344 in e5m2, and amax the largest magnitude of the block, all
/// of it in f32, each operation rounded once:
///
///     DEEPGEMM         inv = max(amax, 1e-4) / largest, scale = 1 / inv, as DeepGEMM
///     DEEPGEMM_UE8M0   inv is that, rounded up to a power of two
///     TE               scale = largest / amax, inv = 1 / scale, as Transformer Engine with scales
///                      that are no powers of two
///     TE_UE8M0         scale is that, rounded down to a power of two: Transformer Engine's default
///
/// The f32 results of TE and DEEPGEMM differ in the last bit for many blocks. Of the UE8M0 ones the
/// byte of the format ue8m0 is the bits of inv shifted right by 23. What is not plain:
///
///     amax 0           DEEPGEMM as 1e-4; TE scale 1; codes of 0, which have the sign of the weight
///     below 1e-4       DEEPGEMM as 1e-4; TE the formula, with the largest finite f32 where the
///                      scale would be infinite (2^127 with UE8M0: inv is 2^-127, its byte 0)
///     infinite         DEEPGEMM inv is infinite (byte 255) and scale 0: codes of 0 with the sign
///                      of the weight, NaN for infinite weights; TE scale 1, codes saturate
///     NaN              amax is NaN if a weight of the block is; DEEPGEMM inv is NaN (byte 255),
///                      and all codes of the block are; TE scale 1, and NaN weights have codes of
///                      NaN. NaN is 0x7fffffff in f32, 0x7f in codes
///
/// The step of f32 parameters makes the blocks (docs/steps.md says when), or one launch after it,
/// which reads the weights again, with the same bits. A run that skips its step leaves them, and
/// those of a tensor without a gradient. Before the first step ptx_step_plan_cast() makes them. A
/// shard's blocks are those of the matrix that it is itself: cut a matrix at multiples of 128 rows,
/// or its blocks are not those of the whole. A vector has none.

/// What a step does with the gradients: with accumulators, with the sums there. A step that writes
/// no parameter, because something was NaN or infinite, leaves RAW and WRITE gradients as they are,
/// NaN included, and clears those of ZERO.
typedef enum ptx_step_gradients {
    PTX_STEP_GRADIENTS_RAW,   ///< leaves them unchanged
    PTX_STEP_GRADIENTS_WRITE, ///< writes g, rounded to the gradient's type
    PTX_STEP_GRADIENTS_ZERO,  ///< writes +0
} ptx_step_gradients;

/// What a step plan is made of. tensors, groups and max_norm are required: a max_norm that is left
/// out is refused, but beside group_max_norms or max_norms_at, which take its place.
struct ptx_step_params {
    const struct ptx_step_tensor *tensors; ///< copied
    size_t tensor_count;                   ///< at most PTX_CLIP_MAX_TENSORS; may be 0
    const struct ptx_step_group *groups;   ///< copied
    uint32_t group_count;                  ///< 1 to PTX_STEP_MAX_GROUPS
    uint32_t norm_group_count; ///< 0: one more than the largest norm_group in use, at least 1. A
                               ///< norm group may be empty: its norm is 0
    /// max_norm to module, as in struct ptx_clip_params: see norm.h, whose groups are norm groups
    /// here. If every max_norm is INFINITY and nothing else needs a norm (max_norms_at, `update`,
    /// found_inf_to, sums_at, several sum_rows, reports_at, accumulators, a tensor of rule MUON or
    /// with agc, a guard other than skip_at), none is computed: each gradient is read once, records
    /// have norm 0, NaN and infinity are not detected, and ptx_step_plan_set_max_norm() is refused.
    /// A rule has its own eps.
    PTX_NORM_PARAMS(PTX_NORM_FIELD)
    ptx_step_gradients gradients;
    uint64_t seed; ///< any number, 0 too: of the random bits of STOCHASTIC, STATE_8BIT, STATE_F16
                   ///< and an ema in bf16
    /// The address of a struct ptx_weight_report for each tensor, in their order, which each step
    /// writes: a multiple of 8. No norm is taken for them. 0: none.
    CUdeviceptr weight_reports_at;
    /// Of rules with sums (rule.h): the address of PTX_RULE_MAX_SUMS f64s for each tensor, in their
    /// order, which a run or a reduce writes and the step reads: a multiple of 8. Rows of tensors
    /// without elements or gradient are zeros. 0: the plan's own.
    CUdeviceptr rule_sums_at;
    /// With tensors that have whole_rows: the address of PTX_MUON_SUMS f64s for each tensor, in
    /// their order, which norm_sq writes, and reduce reads: a multiple of 8. Rows of tensors
    /// without elements, without gradient and of other rules are zeros. 0: the plan's own.
    CUdeviceptr matrix_sums_at;
    const struct ptx_qk_clip *qk_clips; ///< copied; factors of rows and columns: qk_clip.h
    size_t qk_clip_count;
    /// With tensors of rule MUON: the most bytes that X and the products of matrices take in the
    /// plan's memory. Where all need more, they are stepped in windows, one after the other, with
    /// the same bits, and as many launches more for each window as the matrices take: see muon.h.
    /// Not with whole_rows. 0: all matrices at once.
    uint64_t matrix_memory;
};

/// The most hyperparameter groups of a plan.
enum { PTX_STEP_MAX_GROUPS = 1 << 16 };

/// A plan. It belongs to one device, and has its own device memory.
typedef struct ptx_step_plan ptx_step_plan;

// ------------------------------------------------------------------------------------------ plans

/// Allocates, compiles and uploads: all slow work, and all that can fail for lack of resources, is
/// here. `params` and what it points to are not needed afterwards. Checks that types, groups,
/// counts and scalars are in range, and that rule, format and types fit together. Unless
/// params->any_address is set, also checks that every array of every tensor is aligned, in this
/// device's memory with room for `count` elements, and does not overlap another, except that
/// scalars which are only read may. The message names the tensor or group by its index, and the
/// field.
///
/// Errors (NULL, nothing stays allocated): INVALID, CAPTURE, JIT, OUT_OF_MEMORY, DRIVER,
/// UNSUPPORTED, FORKED.
PTXGEN_API ptx_step_plan *ptx_step_plan_create(ptx_device *device,
                                               const struct ptx_step_params *params);
/// As ptx_clip_plan_destroy().
PTXGEN_API void ptx_step_plan_destroy(ptx_step_plan **plan);

/// Runs all phases on the stream. Launches only; safe under capture. Errors: INVALID, CAPTURE,
/// DRIVER, FORKED, as ptx_clip_plan_run(); INVALID if a tensor whose rule has sums is known to be a
/// shard, or has rows of a matrix.
PTXGEN_API ptx_status ptx_step_plan_run(ptx_step_plan *plan, CUstream stream);

/// The same in three phases, for gradients that are spread over ranks:
///
///     ptx_step_plan_norm_sq(plan, stream); // this rank's sums; takes scalars and counts
///     ncclAllReduce(sums, sums, groups, ncclDouble, ncclSum, comm, stream);
///     ptx_step_plan_finish(plan, stream);      // records, and the update of the loss scale
///     ptx_step_plan_step(plan, stream);        // parameters, states, counts
///
/// With the same sums, the same bits however a parameter is cut into shards. A plan that has rules
/// with sums over each tensor (rule.h) takes a phase more, between finish and step:
///
///     ptx_step_plan_reduce(plan, stream);      // this rank's sums of each tensor
///     ncclAllReduce(rule_sums, rule_sums, PTX_RULE_MAX_SUMS * tensors, ncclDouble, ncclSum, comm,
///                   stream);
///
/// Ranks then have the same tensors in the same order; of one a rank may have no element. A plan
/// with rows of matrices (whole_rows) has that phase, too; muon.h has its step over ranks. Several
/// plans on one device, such as the stages of a pipeline, share one norm through the rows of one
/// array, sums_at, in place of the all-reduce.
///
/// Each step takes all of them, in this order: a finish needs a norm_sq since the last finish, step
/// or run, and a step needs a finish since the last norm_sq, step or run; a reduce needs that
/// finish, and the step that reduce. Phases that are captured neither count for phases that are
/// launched nor change their order. The order holds within a capture, too, except that its first
/// phase may belong to phases elsewhere: it is accepted if the one before was ever captured or
/// launched. So each phase may have a graph of its own, and the caller replays them in order. A
/// phase or a run whose launches fail may have done a part: norm_sq comes next.
///
/// Errors: those of a run; INVALID for a phase out of order, which changes nothing, and for a
/// reduce of a plan without a rule that has sums and without rows of matrices.
PTXGEN_API ptx_status ptx_step_plan_norm_sq(ptx_step_plan *plan, CUstream stream);
PTXGEN_API ptx_status ptx_step_plan_finish(ptx_step_plan *plan, CUstream stream);
PTXGEN_API ptx_status ptx_step_plan_reduce(ptx_step_plan *plan, CUstream stream);
PTXGEN_API ptx_status ptx_step_plan_step(ptx_step_plan *plan, CUstream stream);

/// As struct ptx_clip_plan_info, for norm groups.
struct ptx_step_plan_info {
    CUdeviceptr sums;
    CUdeviceptr records;
    CUdeviceptr summary;
    CUdeviceptr guard_state;
    CUdeviceptr rule_sums;   ///< PTX_RULE_MAX_SUMS f64s a tensor; 0: no rule has sums
    CUdeviceptr matrix_sums; ///< PTX_MUON_SUMS f64s a tensor; 0: none has rows of a matrix
};

/// What ptx_clip_plan_get_info() to ptx_clip_plan_set_loss_scale() are for groups, for norm groups.
PTXGEN_API const struct ptx_step_plan_info *ptx_step_plan_get_info(const ptx_step_plan *plan);
PTXGEN_API ptx_status ptx_step_plan_read(const ptx_step_plan *plan, uint32_t first, uint32_t count,
                                         struct ptx_clip_record *records,
                                         struct ptx_clip_summary *summary, CUstream stream);
PTXGEN_API ptx_status ptx_step_plan_error_if_nonfinite(ptx_step_plan *plan,
                                                       const char *const *names, CUstream stream);
PTXGEN_API ptx_status ptx_step_plan_set_max_norm(ptx_step_plan *plan, uint32_t norm_group,
                                                 float max_norm, CUstream stream);
PTXGEN_API ptx_status ptx_step_plan_set_loss_scale(ptx_step_plan *plan,
                                                   struct ptx_loss_scale_state state,
                                                   CUstream stream);

/// Adds the gradients of a micro-batch to the accumulators, in one launch, which may be captured.
/// After k backward passes:
///
///     for (int k = 1; k < micro_batches; k++) {
///         backward(stream);                         // writes the gradients
///         ptx_step_plan_accumulate(plan, stream);
///     }
///     backward(stream);
///     ptx_step_plan_run(plan, stream);              // takes the last ones up, too
///
/// With the first gradient since the last step an accumulator becomes f32(g), with each later one
/// rn_f32(accumulator + f32(g)). So nothing is set to 0: for a gradient in 16 bits the first takes
/// 6 bytes an element, each later one 10. A run, or norm_sq, does the same with the gradients that
/// there are then, in the pass of the norm; it takes the norm even where no max_norm needs it. All
/// that a step does with gradients it does with the sums: norm, clipping, guards, `gradients`. A
/// tensor without a gradient (0) is not added to; one that had none since the last step is left out
/// of the step. Where the last gradients are added by a call of their own, too, set all gradients
/// to 0 before the run. A step that is skipped begins new sums as others do. Sums are the caller's
/// to scale, as by a loss over the number of micro-batches. A second norm_sq before a step begins a
/// new sum with the gradients of its time. Reports of gradients are of the sums, too.
///
/// Errors: those of a run; INVALID for a plan with elements and without accumulators, and between a
/// norm_sq and its step.
PTXGEN_API ptx_status ptx_step_plan_accumulate(ptx_step_plan *plan, CUstream stream);

/// Makes the codes in blocks (fp8_blocks) of all tensors that have them, of the weights as they
/// are: before the first step, and after weights were loaded. Nothing else is changed, and no
/// gradient is needed. One launch, which may be captured.
///
/// Errors: those of a run; INVALID for a plan in which no tensor has fp8_blocks.
PTXGEN_API ptx_status ptx_step_plan_cast(ptx_step_plan *plan, CUstream stream);

/// Takes the norms of the weights as they are, by which agc clips: before the first run, and
/// whenever something else has written weights, as after loading them. It reads them once; a step
/// leaves those of the weights that it stores, with the same bits. Addresses of parameters that
/// change (ptx_step_plan_set_addresses()) need it, too. One launch, which may be captured.
///
/// Errors: those of a run; INVALID for a plan in which no group has agc. Without it a run or a
/// norm_sq is INVALID.
PTXGEN_API ptx_status ptx_step_plan_weights_changed(ptx_step_plan *plan, CUstream stream);

/// Changes a group's scalars for later runs on the stream, including replays of captured runs.
/// Checked as at creation; SGD's momentum cannot change between zero and nonzero. Launches only;
/// may be captured, and the graph then contains the values. Errors: those of a run; INVALID for a
/// group with `hyper_at`.
PTXGEN_API ptx_status ptx_step_plan_set_hyper(ptx_step_plan *plan, uint32_t group,
                                              const struct ptx_step_hyper *hyper, CUstream stream);

/// Changes the addresses of tensors `first` to `first + count - 1` for later runs on the stream:
/// gradient (0 excludes the tensor from then on), parameter, states, absmax, `beside`, ema. All
/// other fields of `tensors`, including `step`, accumulators, amax and copies, must be as at
/// creation. The next phase on the stream is a norm_sq: a finish or step would belong to other
/// tensors, and is refused. Checked as at creation, together with the current addresses of all
/// other tensors, so tensors whose memory was freed must move in the same call. Launches only; may
/// be captured, and the graph then contains the addresses; later checks take them as set at once.
/// Not for use from several threads at the same time. Errors: those of a run, OUT_OF_MEMORY (host).
/// After an error the plan is unchanged, with one exception: a DRIVER error between two launches
/// leaves the effect of the first ones; set the same tensors again. There is one launch for each 32
/// tensors, for each 24 in a plan that has a tensor with more than two states, its ema being one,
/// for each 19 with more than four, and one for each 512 gradients.
PTXGEN_API ptx_status ptx_step_plan_set_addresses(ptx_step_plan *plan, size_t first, size_t count,
                                                  const struct ptx_step_tensor *tensors,
                                                  CUstream stream);
/// The same for gradients alone, in one launch for each 512 of them. A capture of several steps
/// sets limits, scalars and the gradients of all tensors once: what it has set, and nothing
/// launched since, is not set again to the same value.
PTXGEN_API ptx_status ptx_step_plan_set_gradients(ptx_step_plan *plan, size_t first, size_t count,
                                                  const CUdeviceptr *gradients, CUstream stream);

// ----------------------------------------------------------------------------------- descriptions

/// What a plan would do.
struct ptx_step_description {
    uint64_t elements;
    uint32_t groups, norm_groups;
    uint32_t clocks;    ///< distinct pairs of hyperparameter group and step count of tensors that
                        ///< have elements
    uint32_t variants;  ///< distinct combinations of rule, format and types, each with its code in
                        ///< the text
    int launches;       ///< kernels of a run; of the phases, if there are several sum_rows. A plan
                        ///< on sm_90 says how many its square matrices of 129 to 256 rows take
    uint64_t bytes;     ///< of parameters, gradients and states that a run reads and writes
    uint64_t workspace; ///< device memory of the plan's tables and results, in bytes
    const char *determinism; ///< what holds, in a sentence
    uint32_t tile; ///< elements that a block steps, all of one tensor: with reports of weights, of
                   ///< a partial sum
    /// Of a plan, else 0 and NULL: what the kernels that a rule is part of take at most, for each
    /// thread, on this device.
    int registers;
    int local;           ///< bytes of local memory: registers that the driver's compiler spilled
    const char *warning; ///< what makes steps slow, in a sentence; NULL: nothing is known to
};

/// As ptx_clip_describe() and ptx_clip_emit(): without a GPU, and NULL as a builder is an error of
/// the text, which also has the kernels of Muon's products, and those of a Muon plan where tensors
/// have rows of matrices. Errors: INVALID, OUT_OF_MEMORY (host).
PTXGEN_API ptx_status ptx_step_describe(const struct ptx_step_params *params,
                                        struct ptx_step_description *description);
PTXGEN_API ptx_status ptx_step_emit(ptx_builder *b, const struct ptx_step_params *params);
/// The same of a plan, with what is known only once its kernels are loaded. Errors: INVALID.
PTXGEN_API ptx_status ptx_step_plan_describe(const ptx_step_plan *plan,
                                             struct ptx_step_description *description);

// ------------------------------------------------------------------------------------ 8-bit states

/// Writes the 256 entries of the map of STATE_8BIT, as bitsandbytes' create_dynamic_map(signed)
/// gives them on a processor with fused multiply-add: by code, the least first. For reading and
/// writing states elsewhere. Thread-safe. Errors: INVALID for a map that is NULL.
PTXGEN_API ptx_status ptx_step_map(bool is_signed, float map[256]);

PTXGEN_END

// Errors name the caller's line; see places.h.
#ifdef PTXGEN_PLACED
#define ptx_step_emit(b, ...) PTXGEN_PLACED(status, b, ptx_step_emit(b, __VA_ARGS__))
#endif

#endif
