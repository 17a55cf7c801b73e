// SPDX-License-Identifier: MIT
#include "clip_plan.h"

#include <stdlib.h>
#include <string.h>

#include "driver/error.h"

// Two threads in one plan at a time would mix up its launches: the second is refused.
static ptx_status begin(ptx_clip_plan *plan)
{
    if (!plan)
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "the plan is NULL: see what ptx_clip_plan_create() said");
    if (atomic_flag_test_and_set_explicit(&plan->busy, memory_order_acquire))
        return ptx_driver_fail(PTX_ERROR_INVALID,
                               "another thread is using this plan: one plan is for one stream at a "
                               "time; make a plan for each");
    return PTX_OK;
}

// `call`: the public function, which has met the fault of a kernel launched earlier if that is it.
static ptx_status end(ptx_clip_plan *plan, const char *call, ptx_status status)
{
    if (status)
        ptx_driver_name_call(call);
    atomic_flag_clear_explicit(&plan->busy, memory_order_release);
    return status;
}

static ptx_status launch(const ptx_function *function, uint64_t blocks, const struct ptx_arg *args,
                         size_t count, CUstream stream, bool programmatic)
{
    return ptx_launch(function, &(struct ptx_launch_params) { .grid = { (unsigned)blocks },
                                                              .stream = stream,
                                                              .args = args,
                                                              .arg_count = count,
                                                              .programmatic = programmatic });
}

enum { MOST_ARGS = 16 };

// Arguments that every kernel has which reads gradients.
static size_t add_tables(const ptx_clip_plan *plan, struct ptx_arg *args)
{
    size_t count = 0;

    args[count++] = (struct ptx_arg)PTX_ARG(plan->tensors);
    args[count++] = (struct ptx_arg)PTX_ARG(plan->chunks);
    if (plan->layout.packs)
        args[count++] = (struct ptx_arg)PTX_ARG(plan->pieces);
    return count;
}

static ptx_status norm(ptx_clip_plan *plan, uint32_t first, uint64_t count, CUstream stream)
{
    struct ptx_arg args[MOST_ARGS];
    size_t n = add_tables(plan, args);

    args[n++] = (struct ptx_arg)PTX_ARG(plan->partials);
    args[n++] = (struct ptx_arg)PTX_ARG(plan->state);
    args[n++] = (struct ptx_arg)PTX_ARG(plan->used);
    args[n++] = (struct ptx_arg)PTX_ARG(first);
    return launch(plan->clip_norm, count, args, n, stream, false);
}

// Arguments that every kernel has which writes records; the last two only where there is an update.
static size_t add_results(const ptx_clip_plan *plan, struct ptx_arg *args)
{
    size_t count = 0;

    args[count++] = (struct ptx_arg)PTX_ARG(plan->records);
    args[count++] = (struct ptx_arg)PTX_ARG(plan->used);
    args[count++] = (struct ptx_arg)PTX_ARG(plan->totals);
    args[count++] = (struct ptx_arg)PTX_ARG(plan->layout.group_count);
    args[count++] = (struct ptx_arg)PTX_ARG(plan->eps);
    if (plan->updates) {
        args[count++] = (struct ptx_arg)PTX_ARG(plan->state);
        args[count++] = (struct ptx_arg)PTX_ARG(plan->rule);
    }
    return count;
}

static ptx_status sums(ptx_clip_plan *plan, uint32_t finishes, CUstream stream)
{
    struct ptx_arg args[MOST_ARGS] = { PTX_ARG(plan->groups), PTX_ARG(plan->partials),
                                       PTX_ARG(plan->sums) };
    size_t count = 3;

    count += add_results(plan, args + count);
    args[count++] = (struct ptx_arg)PTX_ARG(finishes);
    return launch(plan->clip_sums, plan->layout.group_count, args, count, stream, true);
}

static ptx_status finish(ptx_clip_plan *plan, CUstream stream)
{
    const uint32_t groups = plan->layout.group_count;
    struct ptx_arg args[MOST_ARGS] = { PTX_ARG(plan->sums) };
    const size_t count = 1 + add_results(plan, args + 1);

    return launch(plan->clip_finish, (groups - 1) / CLIP_BLOCK + 1, args, count, stream, false);
}

// `fused`: factors from the partials; else from the records. `overlaps`: the launch ahead on the
// stream is one of this run; anything else may have written the tables, which are read before it is
// waited for.
static ptx_status apply(ptx_clip_plan *plan, uint64_t first, uint64_t chunks, uint32_t fused,
                        bool overlaps, CUstream stream)
{
    const uint32_t last = (uint32_t)(first + chunks - 1);
    const uint32_t tiles = (uint32_t)(chunks * plan->tiles_of_chunk);
    // A block that came to another group's tile would need that one's record, which may not be
    // there.
    const bool one_each = fused && plan->layout.group_count > 1;
    const uint32_t blocks = one_each || tiles < plan->apply_blocks ? tiles : plan->apply_blocks;
    struct ptx_arg args[MOST_ARGS];
    size_t count = add_tables(plan, args);

    args[count++] = (struct ptx_arg)PTX_ARG(plan->groups);
    args[count++] = (struct ptx_arg)PTX_ARG(plan->partials);
    count += add_results(plan, args + count);
    args[count++] = (struct ptx_arg)PTX_ARG(last);
    args[count++] = (struct ptx_arg)PTX_ARG(tiles);
    args[count++] = (struct ptx_arg)PTX_ARG(fused);
    return launch(plan->clip_apply, blocks, args, count, stream, overlaps);
}

static ptx_status run(ptx_clip_plan *plan, CUstream stream)
{
    const uint64_t chunks = plan->layout.chunk_count;
    ptx_status status = norm(plan, 0, chunks, stream);

    if (!status && !plan->fused)
        status = sums(plan, 1, stream);
    if (!status && !plan->measure_only)
        status = apply(plan, 0, chunks, plan->fused, true, stream);
    return status;
}

// Relaxed, so that it has no say in what others do meanwhile, and for a stream of its own, so that
// it may go on beside captures of the caller's.
ptx_status ptxp_clip_plan_capture(ptx_clip_plan *plan)
{
    enum { PROGRAMMATIC_EDGES = 12030 }; // drivers before cannot capture launches that overlap
    if (ptx_device_get_info(plan->device)->driver_version < PROGRAMMATIC_EDGES)
        return PTX_OK;
    CUstream stream = ptx_stream_create(plan->device);
    if (!stream)
        return ptx_error_status();
    ptx_status status = ptx_capture_begin(plan->device, stream, PTX_CAPTURE_RELAXED);
    if (!status) {
        status = run(plan, stream);
        if (status) {
            ptx_capture_abandon(plan->device, stream);
        } else {
            plan->graph = ptx_capture_end(plan->device, stream);
            status = plan->graph ? PTX_OK : ptx_error_status();
        }
    }
    ptx_stream_destroy(plan->device, &stream);
    return status;
}

static ptx_status run_or_launch_graph(ptx_clip_plan *plan, CUstream stream)
{
    bool capturing;
    const ptx_status status = ptx_stream_is_capturing(plan->device, stream, &capturing);

    if (status)
        return status;
    // In a graph of the caller's: kernels, not a graph within it.
    return capturing || !plan->graph ? run(plan, stream) : ptx_graph_launch(plan->graph, stream);
}

ptx_status ptx_clip_plan_run(ptx_clip_plan *plan, CUstream stream)
{
    ptx_status status = begin(plan);
    return status ? status : end(plan, __func__, run_or_launch_graph(plan, stream));
}

static ptx_status norm_sq(ptx_clip_plan *plan, uint64_t first, uint64_t count, CUstream stream)
{
    ptx_status status = norm(plan, (uint32_t)first, count, stream);
    if (!status && first + count == plan->layout.chunk_count)
        status = sums(plan, 0, stream);
    return status;
}

ptx_status ptx_clip_plan_norm_sq(ptx_clip_plan *plan, CUstream stream)
{
    ptx_status status = begin(plan);
    return status ? status
                  : end(plan, __func__, norm_sq(plan, 0, plan->layout.chunk_count, stream));
}

ptx_status ptx_clip_plan_finish(ptx_clip_plan *plan, CUstream stream)
{
    ptx_status status = begin(plan);
    return status ? status : end(plan, __func__, finish(plan, stream));
}

ptx_status ptx_clip_plan_apply(ptx_clip_plan *plan, CUstream stream)
{
    ptx_status status = begin(plan);
    return status ? status
                  : end(plan, __func__, apply(plan, 0, plan->layout.chunk_count, 0, false, stream));
}

// ---- windows ------------------------------------------------------------------------------------

static ptx_status check_chunks(const ptx_clip_plan *plan, uint64_t first, uint64_t count)
{
    const uint64_t chunks = plan->layout.chunk_count;

    if (first <= chunks && count <= chunks - first)
        return PTX_OK;
    return ptx_driver_fail(PTX_ERROR_INVALID, "%llu chunks from %llu on: the plan has %llu",
                           (unsigned long long)count, (unsigned long long)first,
                           (unsigned long long)chunks);
}

ptx_status ptx_clip_plan_norm_sq_chunks(ptx_clip_plan *plan, uint64_t first, uint64_t count,
                                        CUstream stream)
{
    ptx_status status = begin(plan);
    if (status)
        return status;
    status = check_chunks(plan, first, count);
    if (!status && count)
        status = norm_sq(plan, first, count, stream);
    return end(plan, __func__, status);
}

ptx_status ptx_clip_plan_apply_chunks(ptx_clip_plan *plan, uint64_t first, uint64_t count,
                                      CUstream stream)
{
    ptx_status status = begin(plan);
    if (status)
        return status;
    status = check_chunks(plan, first, count);
    if (!status && count)
        status = apply(plan, first, count, 0, false, stream);
    return end(plan, __func__, status);
}

// ---- changes ------------------------------------------------------------------------------------

static ptx_status set_max_norm(ptx_clip_plan *plan, uint32_t group, float max_norm, CUstream stream)
{
    const uint32_t groups = plan->layout.group_count;
    ptx_status status = ptxp_clip_check_max_norm(max_norm);

    if (!status && group >= groups && group != PTX_CLIP_ALL_GROUPS)
        status = ptx_driver_fail(PTX_ERROR_INVALID, "group is %u; the plan has groups 0 to %u",
                                 group, groups - 1);
    if (status)
        return status;
    const uint32_t first = group == PTX_CLIP_ALL_GROUPS ? 0 : group;
    const uint32_t count = group == PTX_CLIP_ALL_GROUPS ? groups : 1;
    const CUdeviceptr records = plan->records + first * (CUdeviceptr)sizeof(struct ptx_clip_record);
    const struct ptx_arg args[] = { PTX_ARG(records), PTX_ARG(count), PTX_ARG(max_norm) };
    return launch(plan->clip_set_max_norm, (count - 1) / CLIP_BLOCK + 1, args, 3, stream, false);
}

ptx_status ptx_clip_plan_set_max_norm(ptx_clip_plan *plan, uint32_t group, float max_norm,
                                      CUstream stream)
{
    ptx_status status = begin(plan);
    return status ? status : end(plan, __func__, set_max_norm(plan, group, max_norm, stream));
}

ptx_status ptx_clip_plan_set_loss_scale(ptx_clip_plan *plan, struct ptx_loss_scale_state state,
                                        CUstream stream)
{
    ptx_status status = begin(plan);
    if (status)
        return status;
    status = ptxp_clip_check_loss_scale(state.scale);
    const struct ptx_arg args[] = { PTX_ARG(plan->state), PTX_ARG(state.scale),
                                    PTX_ARG(state.growth_tracker) };
    if (!status)
        status = launch(plan->clip_set_loss_scale, 1, args, 3, stream, false);
    return end(plan, __func__, status);
}

// plan->rows follows what is launched, batch by batch: they are the same after an error, too.
static ptx_status launch_data(ptx_clip_plan *plan, size_t first, size_t count,
                              const CUdeviceptr *data, CUstream stream)
{
    uint64_t batch[CLIP_SET_DATA_BATCH] = { 0 };
    ptx_status status = PTX_OK;

    for (size_t done = 0; done < count && !status; done += CLIP_SET_DATA_BATCH) {
        const size_t left = count - done;
        const uint32_t rows = left < CLIP_SET_DATA_BATCH ? (uint32_t)left : CLIP_SET_DATA_BATCH;
        const CUdeviceptr tensors =
            plan->tensors + (first + done) * (CUdeviceptr)sizeof(struct clip_tensor_row);
        for (uint32_t k = 0; k < rows; k++)
            batch[k] = data[done + k];
        const struct ptx_arg args[] = { PTX_ARG(tensors), PTX_ARG(rows), PTX_ARG(batch) };
        status = launch(plan->clip_set_data, 1, args, 3, stream, false);
        for (uint32_t k = 0; k < rows && !status; k++)
            plan->rows[first + done + k].data = data[done + k];
    }
    return status;
}

// All tensors: those that stay may be in the way.
static ptx_status check_data(const ptx_clip_plan *plan, size_t first, size_t count,
                             const CUdeviceptr *data)
{
    const size_t tensors = plan->layout.tensor_count;
    struct clip_tensor_row *rows = malloc(tensors * sizeof *rows);

    if (!rows)
        return ptxp_clip_out_of_host_memory();
    memcpy(rows, plan->rows, tensors * sizeof *rows);
    for (size_t k = 0; k < count; k++)
        rows[first + k].data = data[k];
    const ptx_status status = ptxp_clip_plan_check_addresses(plan, rows);
    free(rows);
    return status;
}

static ptx_status set_data(ptx_clip_plan *plan, size_t first, size_t count, const CUdeviceptr *data,
                           CUstream stream)
{
    const size_t tensors = plan->layout.tensor_count - 1; // the last row is the empty tensor's
    ptx_status status = PTX_OK;

    if (first > tensors || count > tensors - first)
        return ptx_driver_fail(PTX_ERROR_INVALID, "%zu tensors from %zu on: the plan has %zu",
                               count, first, tensors);
    if (count && !data)
        return ptx_driver_fail(PTX_ERROR_INVALID, "data is NULL");
    if (count && !plan->any_address)
        status = check_data(plan, first, count, data);
    return status ? status : launch_data(plan, first, count, data, stream);
}

ptx_status ptx_clip_plan_set_data(ptx_clip_plan *plan, size_t first, size_t count,
                                  const CUdeviceptr *data, CUstream stream)
{
    ptx_status status = begin(plan);
    return status ? status : end(plan, __func__, set_data(plan, first, count, data, stream));
}
