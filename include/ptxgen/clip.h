// SPDX-License-Identifier: MIT
/// Layer 4: the gradient tail of a training step, planned once and run every step.
///
/// A clip plan takes the gradients of a model - any number of tensors of mixed types and sizes - in
/// two launches, or three for a large set of several groups: norms by group, unscaling by the loss
/// scale, detection of NaN and infinity, clipping, and the update of a dynamic loss scale. Nothing
/// is read back to the host.
///
///     ptx_clip_plan *plan = ptx_clip_plan_create(gpu, &(struct ptx_clip_params){
///         .tensors = gradients, .tensor_count = 148, .max_norm = 1.0f });
///     ...
///     ptx_clip_plan_run(plan, stream);          // every step; also under capture
///
/// For each group, with S the loss scale (1 if there is none) and sums in f64:
///
///     sum       = sum of weight * g^2 over the group's tensors
///     norm      = f32(sqrt(sum) * (1 / S))      of the unscaled gradients, before clipping
///     clip      = min(1, max_norm / (norm + eps)), 1 if the sum is 0; NaN if the norm is;
///                 each operation in f32
///     factor    = f32(clip * (1 / S))           1 / S in f64
///     found_inf = sum or factor is NaN or infinite, or an input says so: found_inf_at
///     g         = T(f32(f32(g) * factor))       T: its type; not written if factor is exactly 1
///
/// A product in f16 or bf16 is so rounded twice, to f32 and then to the type; in f64 it is formed
/// in f64 and rounded once.
///
/// If the sum is finite and above 0, and norm + eps is 0 or infinite in f32, the ratio is that of
/// the division in f64. Large finite gradients are clipped, not zeroed, and with a norm that
/// vanishes, and eps 0, max_norm 0 clips to 0 and any other max_norm not at all. So no finite
/// gradient becomes NaN unless found_inf is 1.
///
/// If something was not finite, the policy decides what is written: enum ptx_nonfinite.
///
/// **The same bits** come out on every GPU and on the emulator, at any alignment, in any launch
/// form, captured or not: sums are trees that depend on the tensors' sizes, types, groups and order
/// alone. No finite f32, f16 or bf16 gradient overflows or vanishes in a sum.
///
/// **Threads and streams.** Different plans are independent. One plan is used on one stream at a
/// time: its runs share device memory, so a run on another stream must be made to wait for the one
/// before (ptx_stream_wait_event()). If two threads call functions of one plan at the same time,
/// one of the calls is refused, except for functions that take the plan as const: they only read.
///
/// docs/plans.md shows it in a training loop, in a captured graph, and across ranks.
#ifndef PTXGEN_CLIP_H
#define PTXGEN_CLIP_H

#include <ptxgen/builder.h>
#include <ptxgen/norm.h>

PTXGEN_BEGIN

// ------------------------------------------------------------------------------------- parameters

/// What a clip plan is made of. tensors and max_norm are required: a max_norm that is left out is
/// refused, but beside group_max_norms or max_norms_at, which take its place.
struct ptx_clip_params {
    const struct ptx_clip_tensor *tensors; ///< copied
    size_t tensor_count;                   ///< at most PTX_CLIP_MAX_TENSORS; may be 0
    /// Number of groups, at most PTX_CLIP_MAX_TENSORS; 0: one more than the largest group number in
    /// use, at least 1. A group may be empty: its norm is 0.
    uint32_t group_count;
    /// max_norm, group_max_norms, max_norms_at, eps, loss_scale, loss_scale_state, loss_scale_at,
    /// update, found_inf_at, found_inf_to, guards, reports_at, sum_rows, sum_row, sums_at,
    /// any_address, stream, module: see norm.h.
    PTX_NORM_PARAMS(PTX_NORM_FIELD)
    ptx_nonfinite nonfinite; ///< what is written if something is NaN or infinite
    /// Runs stop before the gradients are written: for owners of an optimizer that multiplies by
    /// `factor` itself. ptx_clip_plan_apply() still writes them.
    bool measure_only;
};

/// A plan. It belongs to one device, and has its own device memory.
typedef struct ptx_clip_plan ptx_clip_plan;

// ------------------------------------------------------------------------------------------- plans

/// Allocates, compiles and uploads; runs only launch. `params` and what it points to are not needed
/// afterwards.
///
/// Checks that types, groups, counts and scalars are in range. Unless params->any_address is set,
/// also checks that addresses are not 0 and are aligned to their elements; as far as the driver can
/// tell, that they are in this device's memory with room for `count` elements; and that tensors,
/// scalars of the caller's and the plan's own memory do not overlap, except that scalars which the
/// plan only reads may overlap each other. The message names the tensor by its index, and the
/// field.
///
/// Errors (NULL, nothing stays allocated): INVALID, CAPTURE, JIT, OUT_OF_MEMORY, DRIVER,
/// UNSUPPORTED, FORKED.
PTXGEN_API ptx_clip_plan *ptx_clip_plan_create(ptx_device *device,
                                               const struct ptx_clip_params *params);
/// Frees the plan and sets *plan to NULL. The plan's work must be done, and graphs that captured
/// its runs must not be launched afterwards. The device may have been closed before.
PTXGEN_API void ptx_clip_plan_destroy(ptx_clip_plan **plan);

/// Runs all phases on the stream: norms, factors, loss scale update, gradients. Launches only; safe
/// under capture. The launches were captured at creation and are launched as one graph; on a stream
/// that is being captured, and with drivers before CUDA 12.3, each kernel is launched separately.
/// Errors: INVALID, CAPTURE (the legacy default stream, while a blocking stream of the context is
/// being captured; this applies to every call here that takes a stream), DRIVER, FORKED. INVALID
/// also for a plan with several sum_rows.
PTXGEN_API ptx_status ptx_clip_plan_run(ptx_clip_plan *plan, CUstream stream);

/// The phases of a run as separate calls, for gradients that are distributed over ranks:
///
///     ptx_clip_plan_norm_sq(plan, stream);     // the sums of this rank's tensors
///     ncclAllReduce(sums, sums, groups, ncclDouble, ncclSum, comm, stream);
///     ptx_clip_plan_finish(plan, stream);      // records, and the update of the loss scale
///     ptx_clip_plan_apply(plan, stream);       // gradients
///
/// with `sums` from ptx_clip_plan_get_info(). If the sums are not changed in between, the bits are
/// those of ptx_clip_plan_run(). Each call only launches and is safe under capture. Errors: those
/// of a run. The order is not checked, since sums may be the caller's, who then needs no norm_sq:
/// each finish updates the loss scale, and each apply scales the gradients again.
///
/// An all-reduce of more than two ranks adds in an order of its own. With a row for each rank, the
/// rows are gathered in its place, and the sum does not depend on it:
///
///     ncclAllGather(sums + rank * groups, sums, groups, ncclDouble, comm, stream);
PTXGEN_API ptx_status ptx_clip_plan_norm_sq(ptx_clip_plan *plan, CUstream stream);
PTXGEN_API ptx_status ptx_clip_plan_finish(ptx_clip_plan *plan, CUstream stream);
PTXGEN_API ptx_status ptx_clip_plan_apply(ptx_clip_plan *plan, CUstream stream);

/// Where a plan's results are in device memory, fixed for the plan's life.
struct ptx_clip_plan_info {
    /// One f64 for each group, in sum_rows rows: sums_at, if given. Valid from
    /// ptx_clip_plan_norm_sq() until the next one or the next run; without sums_at, a run may leave
    /// them unwritten.
    CUdeviceptr sums;
    CUdeviceptr records;     ///< one struct ptx_clip_record for each group
    CUdeviceptr summary;     ///< the struct ptx_clip_summary
    uint64_t chunks;         ///< the number of chunks, including those of empty groups: see below
    CUdeviceptr guard_state; ///< the struct ptx_guard_state; 0 without guards
};

/// What is fixed for the plan's life, owned by the plan. Makes no driver call. Returns NULL for
/// NULL.
PTXGEN_API const struct ptx_clip_plan_info *ptx_clip_plan_get_info(const ptx_clip_plan *plan);

/// Puts a copy of records, starting with group `first`, and of the summary to host memory on the
/// stream; either pointer may be NULL. Wait for the stream before reading them. Errors: those of a
/// run.
PTXGEN_API ptx_status ptx_clip_plan_read(const ptx_clip_plan *plan, uint32_t first, uint32_t count,
                                         struct ptx_clip_record *records,
                                         struct ptx_clip_summary *summary, CUstream stream);

/// Waits for the stream, and fails if the last run or finish on it found NaN or infinity: as
/// error_if_nonfinite of PyTorch's clip_grad_norm_, which the gradients here have been through.
/// With reports_at the message names the first tensor, by its index and by names[index], and its
/// first element that is not finite; without, the group. `names`: one a tensor, of which any may be
/// NULL; NULL: no names. Errors: NONFINITE; INVALID (a step plan that takes no norm), CAPTURE (the
/// stream is under capture), DRIVER, OUT_OF_MEMORY (host), FORKED.
PTXGEN_API ptx_status ptx_clip_plan_error_if_nonfinite(ptx_clip_plan *plan,
                                                       const char *const *names, CUstream stream);

/// Changes max_norm for later runs on the stream, including replays of captured runs. 0 is allowed:
/// it makes every gradient 0. Errors: those of a run; INVALID for a plan with max_norms_at.
PTXGEN_API ptx_status ptx_clip_plan_set_max_norm(ptx_clip_plan *plan, uint32_t group,
                                                 float max_norm, CUstream stream);
/// Sets the loss scale of later runs and its growth tracker, in the caller's state or the plan's. A
/// run reads the loss scale in its first phase, so a following finish still uses the value from
/// then. Errors: those of a run; INVALID for a plan with loss_scale_at.
PTXGEN_API ptx_status ptx_clip_plan_set_loss_scale(ptx_clip_plan *plan,
                                                   struct ptx_loss_scale_state state,
                                                   CUstream stream);
/// Changes the addresses of tensors `first` to `first + count - 1` for later runs on the stream;
/// sizes, types and groups stay. Checked as at creation, together with the current addresses of all
/// other tensors, so tensors whose memory was freed must move in the same call. Launches only, one
/// for each 512 addresses; may be captured, and the graph then contains the addresses. Errors:
/// those of a run, OUT_OF_MEMORY (host).
PTXGEN_API ptx_status ptx_clip_plan_set_data(ptx_clip_plan *plan, size_t first, size_t count,
                                             const CUdeviceptr *data, CUstream stream);

// ----------------------------------------------------------------------------------------- windows

/// Chunks: for gradients that do not fit into device memory at once. A chunk is one piece, that is,
/// consecutive elements of one tensor, or several pieces that are each a whole small tensor. Bring
/// in the data of chunks first to first + count - 1, set the addresses of their tensors so that the
/// pieces are where those addresses place them, and call
///
///     ptx_clip_plan_norm_sq_chunks(plan, first, count, stream);
///
/// for one window after another, from the first chunk to the last. With the last chunk the sums are
/// complete, with the same bits as those of ptx_clip_plan_norm_sq(). ptx_clip_plan_finish()
/// follows, then ptx_clip_plan_apply_chunks() in windows again, in any order. In chunks of several
/// pieces, apply skips the pieces whose tensor has address 0, so that they may come in different
/// windows.

/// A run of elements of a tensor.
struct ptx_clip_piece {
    size_t tensor;
    uint64_t first; ///< index of the first element
    uint64_t count; ///< elements, at least 1
};

/// Piece `index`, from 0, of a chunk. The chunks of a tensor are consecutive, and so are the
/// tensors of a group. Returns false past the last piece and for NULL; the chunk of an empty group
/// has no pieces.
PTXGEN_API bool ptx_clip_plan_piece(const ptx_clip_plan *plan, uint64_t chunk, uint32_t index,
                                    struct ptx_clip_piece *piece);
/// Launches only. Errors: those of a run.
PTXGEN_API ptx_status ptx_clip_plan_norm_sq_chunks(ptx_clip_plan *plan, uint64_t first,
                                                   uint64_t count, CUstream stream);
PTXGEN_API ptx_status ptx_clip_plan_apply_chunks(ptx_clip_plan *plan, uint64_t first,
                                                 uint64_t count, CUstream stream);

// ------------------------------------------------------------------------------------ descriptions

/// What a plan would do.
struct ptx_clip_description {
    uint64_t elements;
    uint32_t groups;
    uint32_t chunk; ///< maximum number of elements of one partial sum
    uint64_t chunks;
    int launches;            ///< kernels of a run; of the phases, if there are several sum_rows
    uint64_t bytes_measured; ///< bytes of gradients that a run reads if nothing is clipped
    uint64_t bytes_clipped;  ///< bytes read and written if everything is clipped
    uint64_t workspace;      ///< device memory of the plan's tables and results, in bytes
    const char *accumulator; ///< "f64"
    const char *determinism; ///< what is guaranteed, as a sentence
};

/// Fills *description without a GPU, from any thread. Refuses the parameters that creation
/// refuses, except for addresses. Errors: INVALID, OUT_OF_MEMORY (host).
PTXGEN_API ptx_status ptx_clip_describe(const struct ptx_clip_params *params,
                                        struct ptx_clip_description *description);

/// Writes the plan's kernels into the builder's module: the text that ptx_clip_plan_create() loads.
/// Errors: INVALID, OUT_OF_MEMORY (host); those of the text go to the builder, whose
/// ptx_builder_finish() tells them. A builder that is NULL is one of those: no text is written, and
/// the status is that of the parameters.
PTXGEN_API ptx_status ptx_clip_emit(ptx_builder *b, const struct ptx_clip_params *params);

PTXGEN_END

// Errors name the caller's line; see places.h.
#ifdef PTXGEN_PLACED
#define ptx_clip_emit(b, ...) PTXGEN_PLACED(status, b, ptx_clip_emit(b, __VA_ARGS__))
#endif

#endif
