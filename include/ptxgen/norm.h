// SPDX-License-Identifier: MIT
/// What plans that take the norms of gradients share: a gradient, and the parameters of norms,
/// records and loss scale. Part of clip.h and step.h.
#ifndef PTXGEN_NORM_H
#define PTXGEN_NORM_H

#include <ptxgen/builder.h>
#include <ptxgen/guard.h>
#include <ptxgen/module.h>
#include <ptxgen/operations.h>
#include <ptxgen/records.h>
#include <ptxgen/report.h>
#include <ptxgen/types.h>

PTXGEN_BEGIN

/// The most tensors of a plan, and elements of a tensor.
enum { PTX_CLIP_MAX_TENSORS = 1 << 20 };
#define PTX_CLIP_MAX_ELEMENTS (UINT64_C(1) << 40)

/// A gradient in device memory.
struct ptx_clip_tensor {
    CUdeviceptr data; ///< a multiple of the element size; may be 0 if count is 0
    uint64_t count;   ///< elements; may be 0
    ptx_type dtype;   ///< PTX_F32, PTX_F64, PTX_F16 or PTX_BF16
    uint32_t group;   ///< from 0; a group's tensors share a norm and a factor
    /// Factor of the tensor's sum of squares: 1 / k for a tensor that is replicated on k ranks,
    /// say. Finite, > 0; left out, and so 0, it is 1: most tensors count once. A weight of zero is
    /// no weight but `uncounted`.
    double weight;
    /// The tensor is scaled with its group and does not contribute to the norm, but with NaN and
    /// infinity, which make it NaN and infinite.
    bool uncounted;
};

/// X(type, field): fields of struct ptx_clip_params and struct ptx_step_params. Of the functions of
/// a clip plan that are named here, a step plan has all but ptx_clip_plan_piece(), as
/// ptx_step_plan_set_max_norm() and so on.
///
/// - max_norm: the largest norm of each group: > 0; INFINITY for no clipping. 0, as if left out,
///   would make every gradient 0: creation, description and text refuse it, but beside
///   group_max_norms or max_norms_at. A 0 that is meant is given in group_max_norms, or by
///   ptx_clip_plan_set_max_norm().
/// - group_max_norms: NULL, or one for each group, >= 0, used instead of max_norm; copied.
/// - max_norms_at: the address of an f32 for each group, which each run reads instead of max_norm
///   and group_max_norms; the record shows the value. NaN or below 0: see found_inf_at. 0: none.
/// - eps: added to the norm: finite, >= 0; PyTorch adds 1e-6.
/// - loss_scale: the factor that the loss, and so each gradient, was multiplied by: finite, > 0; 0
///   means 1. This is the initial value: ptx_clip_plan_set_loss_scale() changes it. Not used with
///   loss_scale_state and loss_scale_at: the value there counts, from the first run on.
/// - loss_scale_state: the address of a struct ptx_loss_scale_state from which each run reads the
///   loss scale: a multiple of 4, not within a tensor. 0: the plan has a state of its own, which
///   starts with `loss_scale`.
/// - loss_scale_at: the address of an f32 from which each run reads the loss scale, and which no
///   call writes: the scale of PyTorch's GradScaler, say, which updates it. Not together with
///   loss_scale_state or `update`. 0: none.
/// - update: if not NULL, a run ends by updating the loss scale from found_inf of all groups.
///   Copied.
/// - found_inf_at: the address of an f32 that each run reads with its records: if it is not 0,
///   every group is treated as if one of its elements were NaN or infinite, except that norm and,
///   if the policy is PROPAGATE, factor follow the formulas. The same holds if the loss scale is
///   not finite and above 0, and, for a group, if its value at max_norms_at is NaN or below 0. 0:
///   none.
/// - found_inf_to: the address of an f32 to which each run writes found_inf of all groups, 0 or 1,
///   as in the summary. 0: none.
/// - guards: if not NULL, the rules by which a run skips its step, or clips further: see guard.h.
///   Copied. A clip plan with guards has three launches.
/// - reports_at: the address of a struct ptx_gradient_report for each tensor, in their order, which
///   each run or norm_sq writes: a multiple of 8. A clip plan has one more launch, and its small
///   tensors share no chunks; of a step plan only those of at most an eighth of a chunk share them.
///   So sums may differ in their last bits. Sums of windows of chunks are complete with the last.
///   0: none.
/// - sum_rows, sum_row: for several plans that share one norm, such as the stages of a pipeline or
///   ranks: the sums are an array of sum_rows rows, each of one f64 for each group. The phase
///   norm_sq writes row sum_row, and `finish` adds all rows, from the first to the last. So the
///   order in which the rows were written does not matter, and every plan gets the same bits. All
///   rows must be written, by these plans or by the caller, before the first finish. The plans must
///   have the same number of groups. With more than one row a run is refused: use the phases. 0
///   rows mean 1.
/// - sums_at: the address of that array: a multiple of 8; a run writes it, too. 0: the plan has an
///   array of its own, see ptx_clip_plan_get_info().
/// - any_address: addresses, including those of scalars, are checked neither for 0, nor against the
///   driver's allocations, nor against each other. For memory that the driver did not allocate, and
///   for gradients that share a window of device memory: ptx_clip_plan_piece().
/// - stream: for the uploads of creation, which waits for it. It must not be under capture;
///   captures of other streams are not disturbed.
/// - module: how the kernels are loaded; its `stream` is not used. NULL: the defaults.
#define PTX_NORM_PARAMS(X)                                                                         \
    X(float, max_norm)                                                                             \
    X(const float *, group_max_norms)                                                              \
    X(CUdeviceptr, max_norms_at)                                                                   \
    X(float, eps)                                                                                  \
    X(float, loss_scale)                                                                           \
    X(CUdeviceptr, loss_scale_state)                                                               \
    X(CUdeviceptr, loss_scale_at)                                                                  \
    X(const struct ptx_loss_scale_params *, update)                                                \
    X(CUdeviceptr, found_inf_at)                                                                   \
    X(CUdeviceptr, found_inf_to)                                                                   \
    X(const struct ptx_guard_params *, guards)                                                     \
    X(CUdeviceptr, reports_at)                                                                     \
    X(uint32_t, sum_rows)                                                                          \
    X(uint32_t, sum_row)                                                                           \
    X(CUdeviceptr, sums_at)                                                                        \
    X(bool, any_address)                                                                           \
    X(CUstream, stream)                                                                            \
    X(const struct ptx_module_params *, module)
#define PTX_NORM_FIELD(type, name) type name;

/// All groups, as the `group` of ptx_clip_plan_set_max_norm().
#define PTX_CLIP_ALL_GROUPS UINT32_MAX

// For the macros of ptx_clip_emit() and ptx_step_emit(); see places.h.
#if defined(PTXGEN_PLACED) && !defined(__cplusplus)
PTXGEN_RESULT(status, ptx_status)
#endif

PTXGEN_END

#endif
