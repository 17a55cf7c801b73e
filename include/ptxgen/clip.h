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
///     found_inf = sum is NaN or infinite
///     clip      = min(1, max_norm / (norm + eps)), 1 if the sum is 0; NaN if the norm is;
///                 each operation in f32
///     factor    = f32(clip * (1 / S))           1 / S in f64
///     g         = g * factor                    one rounding; not written if factor is exactly 1
///
/// What is written where something was not finite is the policy's to say: enum ptx_nonfinite.
///
/// **The same bits** come out on every GPU and on the emulator, at any alignment, in any launch
/// form, captured or not: sums are trees that depend on the tensors' sizes, types, groups and order
/// alone. No finite f32, f16 or bf16 gradient overflows or vanishes in a sum.
///
/// **Threads and streams.** Different plans are independent. One plan is used on one stream at a
/// time: its runs share device memory, so a run on another stream must be made to wait for the one
/// before (ptx_stream_wait_event()). Of calls on one plan from two threads at the same time one is
/// refused, but for those that take it as const: they only look something up or read.
///
/// docs/plans.md shows it in a training loop, in a captured graph, and across ranks.
#ifndef PTXGEN_CLIP_H
#define PTXGEN_CLIP_H

#include <ptxgen/builder.h>
#include <ptxgen/operations.h>
#include <ptxgen/records.h>

PTXGEN_BEGIN

// ------------------------------------------------------------------------------------- parameters

/// A gradient in device memory.
struct ptx_clip_tensor {
    CUdeviceptr data; ///< a multiple of the element's size; may be 0 if count is
    uint64_t count;   ///< elements; may be 0
    ptx_type dtype;   ///< PTX_F32, PTX_F64, PTX_F16 or PTX_BF16
    uint32_t group;   ///< from 0; a group's tensors share a norm and a factor
    /// Multiplies the tensor's sum of squares: 1 / k for a tensor that k ranks hold a copy of, say.
    /// Finite, >= 0; 0 is 1. `uncounted` for a weight of zero.
    double weight;
    /// The tensor is scaled with its group and searched for NaN and infinity, but adds nothing to
    /// the norm.
    bool uncounted;
};

struct ptx_clip_params {
    const struct ptx_clip_tensor *tensors; ///< copied
    size_t tensor_count;                   ///< at most PTX_CLIP_MAX_TENSORS; may be 0
    /// Groups, at most PTX_CLIP_MAX_TENSORS; 0: as many as the tensors use, at least 1. A group may
    /// be empty: its norm is 0.
    uint32_t group_count;
    /// Of every group: > 0; INFINITY for no clipping. 0, as where it is left out, is refused by
    /// ptx_clip_plan_create(), since it makes every gradient 0; group_max_norms may have 0.
    float max_norm;
    const float
        *group_max_norms; ///< NULL, or one for each group, >= 0, in place of max_norm; copied
    float eps;            ///< finite, >= 0; 1e-6 is what PyTorch adds
    ptx_nonfinite nonfinite;
    /// What the loss, and so each gradient, was multiplied by: finite, > 0; 0 is 1. Only a first
    /// value: ptx_clip_plan_set_loss_scale().
    float loss_scale;
    /// The address of a struct ptx_loss_scale_state, from where each run takes the loss scale: a
    /// multiple of 4, apart from the tensors. 0: the plan has one of its own, which starts with
    /// `loss_scale`.
    CUdeviceptr loss_scale_state;
    /// Not NULL: a run ends by updating the loss scale from found_inf of all groups. Copied.
    const struct ptx_loss_scale_params *update;
    /// Addresses are taken as they are: not held against the driver's allocations and each other,
    /// nor is loss_scale_state.
    /// For memory that the driver did not allocate, and for gradients that take turns in a window
    /// of device memory: ptx_clip_plan_piece().
    bool any_address;
    /// Runs stop before the gradients are written: for owners of an optimizer that multiplies by
    /// `factor` itself. ptx_clip_plan_apply() still writes them.
    bool measure_only;
    /// The stream that creation uploads on; creation waits for it. Not one that is being captured;
    /// captures of other streams are not disturbed.
    CUstream stream;
    /// How the kernels are loaded; the stream in it is not used. NULL: the defaults.
    const struct ptx_module_params *module;
};

enum { PTX_CLIP_MAX_TENSORS = 1 << 20 };
#define PTX_CLIP_MAX_ELEMENTS (UINT64_C(1) << 40)

typedef struct ptx_clip_plan ptx_clip_plan;

// ------------------------------------------------------------------------------------------- plans

/// Allocates, compiles and uploads; all that is not a launch happens here. `params` and what it
/// points to are not needed afterwards.
///
/// Checked: types, groups, counts and scalars are in their ranges; and, unless params->any_address
/// is set, addresses are not null, aligned to their elements and, where the driver can tell, lie in
/// this device's memory with room for `count` elements, and tensors, loss_scale_state and the
/// plan's own memory do not overlap. The message names the tensor by its index.
///
/// Errors (NULL, and nothing stays allocated): INVALID, CAPTURE, JIT, OUT_OF_MEMORY, DRIVER,
/// UNSUPPORTED, FORKED.
PTXGEN_API ptx_clip_plan *ptx_clip_plan_create(ptx_device *device,
                                               const struct ptx_clip_params *params);
/// Frees the plan, whose work must be done, and sets *plan to NULL. Graphs that its runs were
/// captured into must not be launched any more. The device may have been closed before.
PTXGEN_API void ptx_clip_plan_destroy(ptx_clip_plan **plan);

/// Norms, factors, the update of the loss scale, gradients: all of it on the stream. Launches only;
/// safe under capture. What it launches was captured at creation, and is launched as one graph; on
/// a stream that is being captured, and with drivers before CUDA 12.3, kernel by kernel. Errors:
/// INVALID, CAPTURE (the legacy default stream, while a blocking stream of the context is being
/// captured; likewise for every call here that takes a stream), DRIVER, FORKED.
PTXGEN_API ptx_status ptx_clip_plan_run(ptx_clip_plan *plan, CUstream stream);

/// The same in three steps, for gradients that are spread over ranks:
///
///     ptx_clip_plan_norm_sq(plan, stream);     // the sums of this rank's tensors
///     ncclAllReduce(sums, sums, groups, ncclDouble, ncclSum, comm, stream);
///     ptx_clip_plan_finish(plan, stream);      // records, and the update of the loss scale
///     ptx_clip_plan_apply(plan, stream);       // gradients
///
/// with `sums` from ptx_clip_plan_sums(). Without a change to the sums in between, the same bits as
/// ptx_clip_plan_run(). Each: launches only; safe under capture. Errors: those of a run.
PTXGEN_API ptx_status ptx_clip_plan_norm_sq(ptx_clip_plan *plan, CUstream stream);
PTXGEN_API ptx_status ptx_clip_plan_finish(ptx_clip_plan *plan, CUstream stream);
PTXGEN_API ptx_status ptx_clip_plan_apply(ptx_clip_plan *plan, CUstream stream);

/// The device address of the sums, one f64 a group, fixed for the plan's life; 0 for NULL. Valid
/// from ptx_clip_plan_norm_sq() until the next one or the next run, which need not write them.
PTXGEN_API CUdeviceptr ptx_clip_plan_sums(const ptx_clip_plan *plan);
/// Device addresses of what a run leaves, fixed for the plan's life: one struct ptx_clip_record a
/// group; the struct ptx_clip_summary. 0 for NULL.
PTXGEN_API CUdeviceptr ptx_clip_plan_records(const ptx_clip_plan *plan);
PTXGEN_API CUdeviceptr ptx_clip_plan_summary(const ptx_clip_plan *plan);

/// Puts a copy of records, from group `first` on, and of the summary on the stream; either may be
/// NULL. For the host to see them it must wait for the stream. Errors: those of a run.
PTXGEN_API ptx_status ptx_clip_plan_read(const ptx_clip_plan *plan, uint32_t first, uint32_t count,
                                         struct ptx_clip_record *records,
                                         struct ptx_clip_summary *summary, CUstream stream);

/// Every group, as the `group` of ptx_clip_plan_set_max_norm().
#define PTX_CLIP_ALL_GROUPS UINT32_MAX

/// Changes max_norm for later runs on the stream, replays of a captured run among them.
/// Errors: those of a run.
PTXGEN_API ptx_status ptx_clip_plan_set_max_norm(ptx_clip_plan *plan, uint32_t group,
                                                 float max_norm, CUstream stream);
/// Sets the loss scale that later runs take, the caller's own state or the plan's, and its growth
/// tracker. A run takes it with its first phase: a finish that follows has the one from then.
/// Errors: those of a run.
PTXGEN_API ptx_status ptx_clip_plan_set_loss_scale(ptx_clip_plan *plan,
                                                   struct ptx_loss_scale_state state,
                                                   CUstream stream);
/// Gives tensors `first` to `first + count - 1` new addresses for later runs on the stream; sizes,
/// types and groups stay. Checked as at creation, with the addresses of all other tensors as they
/// are: those whose memory is gone move in the same call. Launches only, one for each 256
/// addresses: may be captured, the addresses with it. Errors: those of a run, OUT_OF_MEMORY (host).
PTXGEN_API ptx_status ptx_clip_plan_set_data(ptx_clip_plan *plan, size_t first, size_t count,
                                             const CUdeviceptr *data, CUstream stream);

// ----------------------------------------------------------------------------------------- windows

/// For gradients that do not fit into device memory at once. A chunk is one piece, a run of
/// elements of one tensor, or where many tensors are small several, each a whole tensor. Chunks
/// first to first + count - 1 are brought in, the addresses of their pieces' tensors set so that
/// the pieces are where the addresses say, and
///
///     ptx_clip_plan_norm_sq_chunks(plan, first, count, stream);
///
/// for one window after another, from the first chunk to the last. With the last chunk the sums are
/// there, with the same bits as ptx_clip_plan_norm_sq() gives. ptx_clip_plan_finish() follows, and
/// ptx_clip_plan_apply_chunks() in windows again, of any order. Of a chunk of several pieces that
/// call leaves out those whose tensor's address is 0, so that they may come in different windows.

/// A run of elements of a tensor.
struct ptx_clip_piece {
    size_t tensor;
    uint64_t first; ///< element
    uint64_t count; ///< elements, at least 1
};

/// How many chunks there are, those of empty groups among them. 0 for NULL.
PTXGEN_API uint64_t ptx_clip_plan_chunk_count(const ptx_clip_plan *plan);
/// A chunk's piece `index`, from 0. Chunks of a tensor follow each other, and so do tensors of a
/// group. False past the last piece, and for NULL; a chunk that stands for an empty group has none.
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
    uint32_t chunk; ///< elements that one partial sum stands for, at most
    uint64_t chunks;
    int launches;            ///< kernels of a run
    uint64_t bytes_measured; ///< of gradients that a run reads if nothing is clipped
    uint64_t bytes_clipped;  ///< read and written if everything is
    uint64_t workspace;      ///< device memory of the plan's tables and results, in bytes
    const char *accumulator; ///< "f64"
    const char *determinism; ///< what holds, in a sentence
};

/// Fills *description without a GPU, from any thread; addresses are not looked at. Errors: INVALID,
/// OUT_OF_MEMORY (host).
PTXGEN_API ptx_status ptx_clip_describe(const struct ptx_clip_params *params,
                                        struct ptx_clip_description *description);

/// Writes the plan's kernels into the builder's module: what ptx_clip_plan_create() would load.
/// Errors: INVALID, OUT_OF_MEMORY (host); those of the text are the builder's.
PTXGEN_API ptx_status ptx_clip_emit(ptx_builder *b, const struct ptx_clip_params *params);

PTXGEN_END

#endif
