// SPDX-License-Identifier: MIT
#include "clip_plan.h"

#include <stdlib.h>
#include <string.h>

#include "driver/capture.h"
#include "driver/error.h"

// Two threads that use one plan at the same time would mix up its launches: the second is refused.
ptx_status ptxp_clip_plan_begin(ptx_clip_plan *plan)
{
    if (!plan)
        return ptxd_fail(PTX_ERROR_INVALID, "the plan is NULL: see what its creation said");
    if (atomic_flag_test_and_set_explicit(&plan->busy, memory_order_acquire))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "another thread is using this plan: one plan is for one stream at a "
                         "time; make a plan for each");
    return PTX_OK;
}

ptx_status ptxp_clip_plan_end(ptx_clip_plan *plan, const char *call, ptx_status status)
{
    if (status)
        ptxd_name_call(call);
    atomic_flag_clear_explicit(&plan->busy, memory_order_release);
    return status;
}

// ---- the order of a step plan's phases ----------------------------------------------------------

// Refuses a phase that needs `what` if the phase before has not left it. The order of a clip plan
// is the caller's: its sums may be, too, and applying is repeated for windows.
static ptx_status check_order(const ptx_clip_plan *plan, enum clip_left what,
                              const struct ptxd_capture *in)
{
    const struct clip_order *order = &plan->order;
    const bool same = in->id && in->id == order->capture;

    if (!plan->step || what == CLIP_LEFT_NOTHING ||
        (!in->active ? order->launched == what
         : same      ? order->captured == what
                     : order->ever[what]))
        return PTX_OK;
    if (what == CLIP_LEFT_SUMS)
        ptxd_fail(PTX_ERROR_INVALID,
                  "ptx_step_plan_finish: the sums are not known: ptx_step_plan_norm_sq() comes "
                  "first, for each finish");
    else
        ptxd_fail(PTX_ERROR_INVALID,
                  "ptx_step_plan_step: the factors are not known: ptx_step_plan_norm_sq() comes "
                  "first, then ptx_step_plan_finish(), for each step");
    if (!in->active && order->captured == what)
        ptxd_explain("; what was captured does not count outside of its graph");
    return PTX_ERROR_INVALID;
}

static void note(ptx_clip_plan *plan, enum clip_left what, const struct ptxd_capture *in)
{
    struct clip_order *order = &plan->order;

    order->ever[what] = true;
    if (in->active) {
        order->captured = what;
        order->capture = in->id;
    } else {
        order->launched = what;
    }
}

// ---- launches -----------------------------------------------------------------------------------

static ptx_status launch(const struct clip_kernel *kernel, uint64_t blocks, CUstream stream,
                         bool programmatic)
{
    return ptx_launch(kernel->function,
                      &(struct ptx_launch_params) { .grid = { (unsigned)blocks },
                                                    .stream = stream,
                                                    .args = kernel->args,
                                                    .arg_count = kernel->arg_count,
                                                    .programmatic = programmatic });
}

static ptx_status norm(ptx_clip_plan *plan, uint32_t first, uint64_t count, CUstream stream)
{
    plan->launch.first = first;
    return launch(&plan->clip_norm, count, stream, false);
}

static ptx_status sums(ptx_clip_plan *plan, uint32_t finishes, CUstream stream)
{
    plan->launch.finishes = finishes;
    return launch(&plan->clip_sums, plan->layout.group_count, stream, true);
}

static ptx_status finish(ptx_clip_plan *plan, CUstream stream)
{
    return launch(&plan->clip_finish, (plan->layout.group_count - 1) / CLIP_BLOCK + 1, stream,
                  false);
}

// `fused`: factors from the partials; else from the records. `overlaps`: the preceding launch on
// the stream belongs to this run. Any other launch may write the tables, which this kernel reads
// before it waits.
static ptx_status apply(ptx_clip_plan *plan, uint64_t first, uint64_t chunks, uint32_t fused,
                        bool overlaps, CUstream stream)
{
    const uint32_t tiles = (uint32_t)(chunks * plan->tiles_of_chunk);
    // A block that reaches a tile of another group would need that group's record, which may not be
    // written yet.
    const bool one_each = fused && plan->layout.group_count > 1;
    const uint32_t blocks = one_each || tiles < plan->apply_blocks ? tiles : plan->apply_blocks;

    plan->launch.last = (uint32_t)(first + chunks - 1);
    plan->launch.tiles = tiles;
    plan->launch.fused = fused;
    return launch(&plan->clip_apply, blocks, stream, overlaps);
}

// Computes what depends only on scalars and counts, and the sums of the chunks.
static ptx_status clocks_and_norm(ptx_clip_plan *plan, CUstream stream)
{
    const uint64_t chunks = plan->step->no_norm ? 0 : plan->layout.chunk_count;

    return norm(plan, 0, plan->step->clock_blocks + chunks, stream);
}

static ptx_status take_step(ptx_clip_plan *plan, bool overlaps, CUstream stream)
{
    return launch(&plan->step_apply, plan->step->tile_count, stream, overlaps);
}

static ptx_status run_step(ptx_clip_plan *plan, CUstream stream)
{
    const bool no_norm = plan->step->no_norm;
    ptx_status status = clocks_and_norm(plan, stream);

    if (!status)
        status = no_norm ? finish(plan, stream) : sums(plan, 1, stream);
    return status ? status : take_step(plan, !no_norm, stream);
}

static ptx_status run(ptx_clip_plan *plan, CUstream stream)
{
    if (plan->step)
        return run_step(plan, stream);
    const uint64_t chunks = plan->layout.chunk_count;
    ptx_status status = norm(plan, 0, chunks, stream);

    if (!status && !plan->fused)
        status = sums(plan, 1, stream);
    if (!status && !plan->measure_only)
        status = apply(plan, 0, chunks, plan->fused, true, stream);
    return status;
}

// Captures in the relaxed mode, so that other threads are not restricted, and on a stream of its
// own, so that captures of the caller are not affected.
ptx_status ptxp_clip_plan_capture(ptx_clip_plan *plan)
{
    enum { PROGRAMMATIC_EDGES = 12030 }; // older drivers cannot capture launches that overlap
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
    struct ptxd_capture in;
    if (plan->layout.sum_rows > 1)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "the plan shares its norm with others, in %u sum_rows, which one run "
                         "cannot wait for: use the phases, and finish when all rows are written",
                         plan->layout.sum_rows);
    ptx_status status = ptxd_stream_capture(plan->device, stream, &in);

    // In a graph of the caller: single kernels instead of a child graph.
    if (!status)
        status =
            in.active || !plan->graph ? run(plan, stream) : ptx_graph_launch(plan->graph, stream);
    if (!status) {
        plan->order.ever[CLIP_LEFT_SUMS] = plan->order.ever[CLIP_LEFT_RECORDS] = true;
        note(plan, CLIP_LEFT_NOTHING, &in);
    }
    return status;
}

ptx_status ptx_clip_plan_run(ptx_clip_plan *plan, CUstream stream)
{
    ptx_status status = ptxp_clip_plan_begin(plan);
    if (status)
        return status;
    return ptxp_clip_plan_end(plan, __func__, run_or_launch_graph(plan, stream));
}

typedef ptx_status phase(ptx_clip_plan *plan, CUstream stream);

// Launches a phase that needs what the one before left, and leaves something itself. A norm_sq that
// fails may have launched a part, so that sums of an earlier one no longer belong to the scalars.
static ptx_status take_phase(ptx_clip_plan *plan, enum clip_left needs, enum clip_left leaves,
                             phase *launches, CUstream stream)
{
    struct ptxd_capture in = { 0 };
    ptx_status status = plan->step ? ptxd_stream_capture(plan->device, stream, &in) : PTX_OK;

    if (!status)
        status = check_order(plan, needs, &in);
    if (status)
        return status;
    status = launches(plan, stream);
    if (!status)
        note(plan, leaves, &in);
    else if (leaves == CLIP_LEFT_SUMS)
        note(plan, CLIP_LEFT_NOTHING, &in);
    return status;
}

static ptx_status norm_sq(ptx_clip_plan *plan, uint64_t first, uint64_t count, CUstream stream)
{
    ptx_status status =
        plan->step ? clocks_and_norm(plan, stream) : norm(plan, (uint32_t)first, count, stream);
    if (plan->step && plan->step->no_norm)
        return status;
    if (!status && first + count == plan->layout.chunk_count)
        status = sums(plan, 0, stream);
    return status;
}

static ptx_status norm_sq_all(ptx_clip_plan *plan, CUstream stream)
{
    return norm_sq(plan, 0, plan->layout.chunk_count, stream);
}

ptx_status ptx_clip_plan_norm_sq(ptx_clip_plan *plan, CUstream stream)
{
    ptx_status status = ptxp_clip_plan_begin(plan);
    if (status)
        return status;
    status = take_phase(plan, CLIP_LEFT_NOTHING, CLIP_LEFT_SUMS, norm_sq_all, stream);
    return ptxp_clip_plan_end(plan, __func__, status);
}

ptx_status ptx_clip_plan_finish(ptx_clip_plan *plan, CUstream stream)
{
    ptx_status status = ptxp_clip_plan_begin(plan);
    if (status)
        return status;
    status = take_phase(plan, CLIP_LEFT_SUMS, CLIP_LEFT_RECORDS, finish, stream);
    return ptxp_clip_plan_end(plan, __func__, status);
}

static ptx_status apply_all(ptx_clip_plan *plan, CUstream stream)
{
    return plan->step ? take_step(plan, false, stream)
                      : apply(plan, 0, plan->layout.chunk_count, 0, false, stream);
}

ptx_status ptx_clip_plan_apply(ptx_clip_plan *plan, CUstream stream)
{
    ptx_status status = ptxp_clip_plan_begin(plan);
    if (status)
        return status;
    status = take_phase(plan, CLIP_LEFT_RECORDS, CLIP_LEFT_NOTHING, apply_all, stream);
    return ptxp_clip_plan_end(plan, __func__, status);
}

// ---- windows ------------------------------------------------------------------------------------

static ptx_status check_chunks(const ptx_clip_plan *plan, uint64_t first, uint64_t count)
{
    const uint64_t chunks = plan->layout.chunk_count;

    if (first <= chunks && count <= chunks - first)
        return PTX_OK;
    return ptxd_fail(PTX_ERROR_INVALID, "%llu chunk%s from %llu on: the plan has %llu",
                     (unsigned long long)count, ptxd_plural(count), (unsigned long long)first,
                     (unsigned long long)chunks);
}

ptx_status ptx_clip_plan_norm_sq_chunks(ptx_clip_plan *plan, uint64_t first, uint64_t count,
                                        CUstream stream)
{
    ptx_status status = ptxp_clip_plan_begin(plan);
    if (status)
        return status;
    status = check_chunks(plan, first, count);
    if (!status && count)
        status = norm_sq(plan, first, count, stream);
    return ptxp_clip_plan_end(plan, __func__, status);
}

ptx_status ptx_clip_plan_apply_chunks(ptx_clip_plan *plan, uint64_t first, uint64_t count,
                                      CUstream stream)
{
    ptx_status status = ptxp_clip_plan_begin(plan);
    if (status)
        return status;
    status = check_chunks(plan, first, count);
    if (!status && count)
        status = apply(plan, first, count, 0, false, stream);
    return ptxp_clip_plan_end(plan, __func__, status);
}

// ---- changes ------------------------------------------------------------------------------------

static ptx_status refuse_to_write(const char *field, CUdeviceptr at)
{
    return ptxd_fail(PTX_ERROR_INVALID,
                     "the plan reads it at %s, 0x%llx, which is the caller's: write it there",
                     field, (unsigned long long)at);
}

static ptx_status set_max_norm(ptx_clip_plan *plan, uint32_t group, float max_norm, CUstream stream)
{
    const uint32_t groups = plan->layout.group_count;
    ptx_status status = ptxp_clip_check_max_norm(max_norm);

    if (!status && plan->max_norms_at)
        status = refuse_to_write("max_norms_at", plan->max_norms_at);
    if (!status && group >= groups && group != PTX_CLIP_ALL_GROUPS)
        status = ptxd_fail(PTX_ERROR_INVALID, "%sgroup is %u; the plan has %sgroups 0 to %u",
                           plan->step ? "norm_" : "", group, plan->step ? "norm " : "", groups - 1);
    if (status)
        return status;
    const uint32_t first = group == PTX_CLIP_ALL_GROUPS ? 0 : group;
    const uint32_t count = group == PTX_CLIP_ALL_GROUPS ? groups : 1;
    plan->launch.rows = plan->records + first * (CUdeviceptr)sizeof(struct ptx_clip_record);
    plan->launch.count = count;
    plan->launch.max_norm = max_norm;
    return launch(&plan->clip_set_max_norm, (count - 1) / CLIP_BLOCK + 1, stream, false);
}

ptx_status ptx_clip_plan_set_max_norm(ptx_clip_plan *plan, uint32_t group, float max_norm,
                                      CUstream stream)
{
    ptx_status status = ptxp_clip_plan_begin(plan);
    return status ? status
                  : ptxp_clip_plan_end(plan, __func__, set_max_norm(plan, group, max_norm, stream));
}

ptx_status ptx_clip_plan_set_loss_scale(ptx_clip_plan *plan, struct ptx_loss_scale_state state,
                                        CUstream stream)
{
    ptx_status status = ptxp_clip_plan_begin(plan);
    if (status)
        return status;
    status = ptxp_clip_check_loss_scale(state.scale);
    if (!status && plan->loss_scale_at)
        status = refuse_to_write("loss_scale_at", plan->loss_scale_at);
    plan->launch.state = state;
    if (!status)
        status = launch(&plan->clip_set_loss_scale, 1, stream, false);
    return ptxp_clip_plan_end(plan, __func__, status);
}

// plan->rows follows the launches batch by batch, so both agree after an error, too.
static ptx_status launch_data(ptx_clip_plan *plan, size_t first, size_t count,
                              const CUdeviceptr *data, CUstream stream)
{
    struct clip_launch *values = &plan->launch;
    ptx_status status = PTX_OK;

    for (size_t done = 0; done < count && !status; done += CLIP_SET_DATA_BATCH) {
        const size_t left = count - done;
        values->count = left < CLIP_SET_DATA_BATCH ? (uint32_t)left : CLIP_SET_DATA_BATCH;
        values->rows = plan->tensors + (first + done) * (CUdeviceptr)sizeof(struct clip_tensor_row);
        for (uint32_t k = 0; k < values->count; k++)
            values->data[k] = data[done + k];
        status = launch(&plan->clip_set_data, 1, stream, false);
        for (uint32_t k = 0; k < values->count && !status; k++)
            plan->rows[first + done + k].data = data[done + k];
    }
    return status;
}

// Checks all tensors: those that stay may overlap those that move.
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

// Of a step plan: sums and factors of the tensors before are not for those that come.
static ptx_status forget_phases(ptx_clip_plan *plan, CUstream stream)
{
    struct ptxd_capture in;
    const ptx_status status = ptxd_stream_capture(plan->device, stream, &in);

    if (!status)
        note(plan, CLIP_LEFT_NOTHING, &in);
    return status;
}

ptx_status ptxp_clip_plan_set_data(ptx_clip_plan *plan, size_t first, size_t count,
                                   const CUdeviceptr *data, CUstream stream)
{
    const size_t tensors = plan->layout.tensor_count - 1; // the last row is the empty tensor
    ptx_status status = PTX_OK;

    if (first > tensors || count > tensors - first)
        return ptxd_fail(PTX_ERROR_INVALID, "%zu tensor%s from %zu on: the plan has %zu", count,
                         ptxd_plural(count), first, tensors);
    if (count && !data)
        return ptxd_fail(PTX_ERROR_INVALID, "data is NULL");
    if (count && !plan->any_address)
        status = check_data(plan, first, count, data);
    if (!status && plan->step)
        status = forget_phases(plan, stream);
    return status ? status : launch_data(plan, first, count, data, stream);
}

ptx_status ptx_clip_plan_set_data(ptx_clip_plan *plan, size_t first, size_t count,
                                  const CUdeviceptr *data, CUstream stream)
{
    ptx_status status = ptxp_clip_plan_begin(plan);
    return status ? status
                  : ptxp_clip_plan_end(plan, __func__,
                                       ptxp_clip_plan_set_data(plan, first, count, data, stream));
}

ptx_status ptxp_clip_plan_set_hyper(ptx_clip_plan *plan, CUdeviceptr hyper,
                                    const double values[STEP_SCALARS], CUstream stream)
{
    ptx_status status = ptxp_clip_plan_begin(plan);
    if (status)
        return status;
    plan->launch.hyper = hyper;
    memcpy(plan->launch.values, values, sizeof plan->launch.values);
    return ptxp_clip_plan_end(plan, "ptx_step_plan_set_hyper",
                              launch(&plan->step_set_hyper, 1, stream, false));
}

ptx_status ptxp_clip_plan_set_rows(ptx_clip_plan *plan, CUdeviceptr to, const void *rows,
                                   size_t count, CUstream stream)
{
    enum { ROW_BYTES = STEP_ROW_WORDS * sizeof(uint64_t) };
    const unsigned char *from = rows;
    ptx_status status = PTX_OK;

    for (size_t done = 0; done < count && !status; done += STEP_SET_ROWS_BATCH) {
        const size_t left = count - done;
        const size_t batch = left < STEP_SET_ROWS_BATCH ? left : STEP_SET_ROWS_BATCH;
        plan->launch.rows = to + done * ROW_BYTES;
        plan->launch.count = (uint32_t)batch * STEP_ROW_WORDS;
        memcpy(plan->launch.words, from + done * ROW_BYTES, batch * ROW_BYTES);
        status = launch(&plan->step_set_rows, 1, stream, false);
    }
    return status;
}
