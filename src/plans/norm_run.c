// SPDX-License-Identifier: MIT
// Launching: runs, phases and their order, capture, and changes between runs.
#include "norm_plan.h"

#include <stdlib.h>
#include <string.h>

#include "driver/capture.h"
#include "driver/error.h"
#include "driver/nvtx.h"
#include "load.h"

// Two threads that use one plan at the same time would mix up its launches: the second is refused.
ptx_status ptxp_norm_plan_begin(struct norm_plan *plan, const char *call)
{
    if (!plan)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: the plan is NULL: see what its creation said, or it was destroyed",
                         call);
    if (atomic_flag_test_and_set_explicit(&plan->busy, memory_order_acquire))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: another thread is using this plan: one plan is for one stream at a "
                         "time; make a plan for each",
                         call);
    ptxd_range_begin(call);
    return PTX_OK;
}

ptx_status ptxp_norm_plan_end(struct norm_plan *plan, const char *call, ptx_status status)
{
    ptxd_range_end();
    atomic_flag_clear_explicit(&plan->busy, memory_order_release);
    return ptxd_named(status, call);
}

// ---- the order of phases ------------------------------------------------------------------------

static bool has_order(const struct norm_plan *plan)
{
    return plan->hooks->missing[NORM_LEFT_SUMS] != NULL;
}

// Refuses a phase that needs `what` if the phase before has not left it.
static ptx_status check_order(const struct norm_plan *plan, enum norm_left what,
                              const struct ptxd_capture *in)
{
    const struct norm_order *order = &plan->order;
    const bool same = in->id && in->id == order->capture;

    if (!plan->hooks->missing[what] || (!in->active ? order->launched == what
                                        : same      ? order->captured == what
                                                    : order->ever[what]))
        return PTX_OK;
    ptxd_fail(PTX_ERROR_INVALID, "%s", plan->hooks->missing[what]);
    if (!in->active && order->captured == what)
        ptxd_explain("; what was captured does not count outside of its graph");
    return PTX_ERROR_INVALID;
}

ptx_status ptxp_norm_plan_check_idle(const struct norm_plan *plan, const char *message,
                                     CUstream stream)
{
    const struct norm_order *order = &plan->order;
    struct ptxd_capture in;
    const ptx_status status = ptxd_stream_capture(plan->device, stream, &in);

    if (status)
        return status;
    const bool same = in.id && in.id == order->capture;
    const enum norm_left left = !in.active ? order->launched
                                : same     ? order->captured
                                           : NORM_LEFT_NOTHING;
    return left == NORM_LEFT_NOTHING ? PTX_OK : ptxd_fail(PTX_ERROR_INVALID, "%s", message);
}

static void note(struct norm_plan *plan, enum norm_left what, const struct ptxd_capture *in)
{
    struct norm_order *order = &plan->order;

    order->ever[what] = true;
    if (in->active) {
        order->captured = what;
        order->capture = in->id;
    } else {
        order->launched = what;
    }
}

// ---- launches -----------------------------------------------------------------------------------

ptx_status ptxp_norm_plan_launch(const struct norm_plan *plan, unsigned entry, uint64_t blocks,
                                 bool overlaps, CUstream stream)
{
    const struct norm_kernel *kernel = &plan->kernels[entry];

    return ptx_launch(
        kernel->function,
        &(struct ptx_launch_params) { .grid = { (unsigned)blocks },
                                      .stream = stream,
                                      .shared_bytes = kernel->shared_bytes,
                                      .args = kernel->args,
                                      .arg_count = kernel->arg_count,
                                      .programmatic = overlaps && ptxp_can_overlap(plan->device) });
}

// Whether what is captured next follows a setter of the plan directly: it may begin before that has
// ended, since it waits for it, and the setter for what came before.
static bool follows_setter(const struct norm_plan *plan, const struct ptxd_capture *in,
                           CUstream stream)
{
    return in->id && in->id == plan->setter.capture && plan->setter.node &&
           ptxp_can_overlap(plan->device) &&
           ptxd_stream_captured_last(plan->device, stream) == plan->setter.node;
}

ptx_status ptxp_norm_plan_launch_setter(struct norm_plan *plan, unsigned entry, uint64_t blocks,
                                        bool overlaps, const struct ptxd_capture *in,
                                        CUstream stream)
{
    const bool follows = overlaps || follows_setter(plan, in, stream);
    const ptx_status status = ptxp_norm_plan_launch(plan, entry, blocks, follows, stream);

    if (status || !in->id)
        plan->setter = (struct norm_setter) { 0 };
    else
        plan->setter =
            (struct norm_setter) { in->id, ptxd_stream_captured_last(plan->device, stream) };
    return status;
}

// A block for each chunk, after the plan's own.
static ptx_status squares(struct norm_plan *plan, uint64_t first, uint64_t count, CUstream stream)
{
    const uint64_t chunks = plan->no_norm ? 0 : count + plan->layout.empty_chunks;
    struct ptxd_capture in = { 0 };
    const ptx_status status =
        plan->setter.capture ? ptxd_stream_capture(plan->device, stream, &in) : PTX_OK;

    plan->launch.first = (uint32_t)first;
    return status ? status
                  : ptxp_norm_plan_launch(plan, NORM_SQUARES, plan->own_blocks + chunks,
                                          follows_setter(plan, &in, stream), stream);
}

static ptx_status sums(struct norm_plan *plan, uint32_t finishes, CUstream stream)
{
    plan->launch.finishes = finishes;
    return ptxp_norm_plan_launch(plan, NORM_SUMS, plan->layout.group_count + plan->own_sums, true,
                                 stream);
}

static ptx_status finish(struct norm_plan *plan, CUstream stream)
{
    const bool one_block = plan->layout.spec.guards;

    return ptxp_norm_plan_launch(plan, NORM_FINISH,
                                 one_block ? 1 : (plan->layout.group_count - 1) / NORM_BLOCK + 1,
                                 false, stream);
}

// A plan without tensors has no reports.
static ptx_status report(const struct norm_plan *plan, CUstream stream)
{
    const uint32_t tensors = plan->layout.tensor_count - 1;

    return ptxk_norm_reports(&plan->layout.spec) && tensors
               ? ptxp_norm_plan_launch(plan, NORM_REPORT, tensors, false, stream)
               : PTX_OK;
}

static ptx_status run(struct norm_plan *plan, CUstream stream)
{
    const uint64_t chunks = plan->layout.chunk_count;
    ptx_status status = squares(plan, 0, chunks, stream);

    if (!status && plan->no_norm)
        status = finish(plan, stream);
    else if (!status && !plan->fused)
        status = sums(plan, 1, stream);
    if (!status && plan->reduces)
        status = plan->hooks->reduce(plan, !plan->no_norm, stream);
    if (!status && !plan->params.measure_only)
        status = plan->hooks->last(plan, 0, chunks, plan->fused, !plan->no_norm && !plan->reduces,
                                   stream);
    return status ? status : report(plan, stream);
}

// Captures in the relaxed mode, so that other threads are not restricted, and on a stream of its
// own, so that captures of the caller are not affected.
ptx_status ptxp_norm_plan_capture(struct norm_plan *plan)
{
    if (plan->layout.sum_rows > 1 || !ptxp_can_overlap(plan->device))
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

ptx_status ptxp_norm_plan_run(struct norm_plan *plan, const char *call, CUstream stream)
{
    struct ptxd_capture in;
    ptx_status status = ptxp_norm_plan_begin(plan, call);

    if (status)
        return status;
    if (plan->layout.sum_rows > 1)
        status = ptxd_fail(PTX_ERROR_INVALID,
                           "the plan shares its norm with others, in %u sum_rows, which one run "
                           "cannot wait for: use the phases, and finish when all rows are written",
                           plan->layout.sum_rows);
    else
        status = ptxd_stream_capture(plan->device, stream, &in);
    if (status)
        return ptxp_norm_plan_end(plan, call, status);
    // In a graph of the caller: single kernels instead of a child graph.
    status = in.active || !plan->graph ? run(plan, stream) : ptx_graph_launch(plan->graph, stream);
    for (unsigned k = NORM_LEFT_SUMS; !status && k <= NORM_LEFT_RULE_SUMS; k++)
        plan->order.ever[k] = true;
    note(plan, NORM_LEFT_NOTHING, &in);
    return ptxp_norm_plan_end(plan, call, status);
}

// ---- phases -------------------------------------------------------------------------------------

ptx_status ptxp_norm_plan_squares(struct norm_plan *plan, uint64_t first, uint64_t count,
                                  CUstream stream)
{
    ptx_status status = squares(plan, first, count, stream);

    if (!status && !plan->no_norm && first + count == plan->layout.chunk_count)
        status = sums(plan, 0, stream);
    if (!status && first + count == plan->layout.chunk_count)
        status = report(plan, stream);
    return status;
}

static ptx_status launch_phase(struct norm_plan *plan, enum norm_phase phase, CUstream stream)
{
    const uint64_t chunks = plan->layout.chunk_count;
    ptx_status status;

    switch (phase) {
    case NORM_PHASE_SQUARES:
        status = ptxp_norm_plan_squares(plan, 0, chunks, stream);
        return status || !plan->hooks->total ? status : plan->hooks->total(plan, stream);
    case NORM_PHASE_FINISH:
        return finish(plan, stream);
    case NORM_PHASE_REDUCE:
        return plan->hooks->reduce(plan, false, stream);
    case NORM_PHASE_LAST:
        break;
    }
    return plan->hooks->last(plan, 0, chunks, false, false, stream);
}

ptx_status ptxp_norm_plan_phase(struct norm_plan *plan, const char *call, enum norm_phase phase,
                                CUstream stream)
{
    static const struct {
        enum norm_left needs, leaves;
    } phases[] = {
        [NORM_PHASE_SQUARES] = { NORM_LEFT_NOTHING, NORM_LEFT_SUMS },
        [NORM_PHASE_FINISH] = { NORM_LEFT_SUMS, NORM_LEFT_RECORDS },
        [NORM_PHASE_REDUCE] = { NORM_LEFT_RECORDS, NORM_LEFT_RULE_SUMS },
        [NORM_PHASE_LAST] = { NORM_LEFT_RECORDS, NORM_LEFT_NOTHING },
    };
    struct ptxd_capture in = { 0 };
    ptx_status status = ptxp_norm_plan_begin(plan, call);

    if (status)
        return status;
    if (has_order(plan))
        status = ptxd_stream_capture(plan->device, stream, &in);
    const enum norm_left needs =
        phase == NORM_PHASE_LAST && plan->reduces ? NORM_LEFT_RULE_SUMS : phases[phase].needs;
    if (!status)
        status = check_order(plan, needs, &in);
    if (!status) {
        status = launch_phase(plan, phase, stream);
        // One that fails may have launched a part: what comes next must not build on it.
        note(plan, status ? NORM_LEFT_NOTHING : phases[phase].leaves, &in);
    }
    return ptxp_norm_plan_end(plan, call, status);
}

// ---- changes ------------------------------------------------------------------------------------

static ptx_status refuse_to_write(const char *field, CUdeviceptr at)
{
    return ptxd_fail(PTX_ERROR_INVALID,
                     "the plan reads it at %s, 0x%llx, which is the caller's: write it there",
                     field, (unsigned long long)at);
}

bool ptxp_norm_is_set(uint64_t *set, const struct ptxd_capture *in, bool same)
{
    const bool is = same && in->id && *set == in->id;

    *set = in->id;
    return is;
}

static ptx_status launch_max_norm(struct norm_plan *plan, uint32_t first, uint32_t count,
                                  float max_norm, CUstream stream)
{
    struct ptxd_capture in;
    ptx_status status = ptxd_stream_capture(plan->device, stream, &in);
    bool are_set = true;

    for (uint32_t g = first; g < first + count && !status; g++) {
        struct norm_limit_set *limit = &plan->limits[g];
        are_set &= ptxp_norm_is_set(&limit->capture, &in, limit->max_norm == max_norm);
        limit->max_norm = max_norm;
    }
    if (status || are_set)
        return status;
    plan->launch.rows = plan->records + first * (CUdeviceptr)sizeof(struct ptx_clip_record);
    plan->launch.count = count;
    plan->launch.max_norm = max_norm;
    status = ptxp_norm_plan_launch_setter(plan, NORM_SET_MAX_NORM, (count - 1) / NORM_BLOCK + 1,
                                          false, &in, stream);
    for (uint32_t g = first; g < first + count && status; g++)
        plan->limits[g].capture = 0;
    return status;
}

ptx_status ptxp_norm_plan_set_max_norm(struct norm_plan *plan, const char *call, uint32_t group,
                                       float max_norm, CUstream stream)
{
    const bool all = group == PTX_CLIP_ALL_GROUPS;
    ptx_status status = ptxp_norm_plan_begin(plan, call);

    if (status)
        return status;
    const uint32_t groups = plan->layout.group_count, count = all ? groups : 1;
    status = ptxp_norm_check_max_norm("max_norm", max_norm);
    if (!status && plan->params.max_norms_at)
        status = refuse_to_write("max_norms_at", plan->params.max_norms_at);
    if (!status && !all && group >= groups)
        status = ptxd_fail(PTX_ERROR_INVALID, "%s is %u; the plan has %s 0 to %u",
                           plan->hooks->group, group, plan->hooks->groups, groups - 1);
    if (!status)
        status = launch_max_norm(plan, all ? 0 : group, count, max_norm, stream);
    return ptxp_norm_plan_end(plan, call, status);
}

ptx_status ptxp_norm_plan_set_loss_scale(struct norm_plan *plan, const char *call,
                                         struct ptx_loss_scale_state state, CUstream stream)
{
    ptx_status status = ptxp_norm_plan_begin(plan, call);
    if (status)
        return status;
    status = ptxp_norm_check_loss_scale(state.scale);
    if (!status && plan->params.loss_scale_at)
        status = refuse_to_write("loss_scale_at", plan->params.loss_scale_at);
    plan->launch.state = state;
    if (!status)
        status = ptxp_norm_plan_launch(plan, NORM_SET_LOSS_SCALE, 1, false, stream);
    return ptxp_norm_plan_end(plan, call, status);
}

// plan->rows follows the launches batch by batch, so both agree after an error, too.
static ptx_status launch_data(struct norm_plan *plan, size_t first, size_t count,
                              const CUdeviceptr *data, const struct ptxd_capture *in,
                              CUstream stream)
{
    struct norm_launch *values = &plan->launch;
    ptx_status status = PTX_OK;

    for (size_t done = 0; done < count && !status; done += NORM_SET_DATA_BATCH) {
        const size_t left = count - done;
        values->count = left < NORM_SET_DATA_BATCH ? (uint32_t)left : NORM_SET_DATA_BATCH;
        values->rows = plan->tensors + (first + done) * (CUdeviceptr)sizeof(struct norm_tensor_row);
        for (uint32_t k = 0; k < values->count; k++)
            values->data[k] = data[done + k];
        status = ptxp_norm_plan_launch_setter(plan, NORM_SET_DATA, 1, done > 0, in, stream);
        for (uint32_t k = 0; k < values->count && !status; k++)
            plan->rows[first + done + k].data = data[done + k];
    }
    return status;
}

// Checks all tensors: those that stay may overlap those that move.
static ptx_status check_data(const struct norm_plan *plan, size_t first, size_t count,
                             const CUdeviceptr *data)
{
    const size_t tensors = plan->layout.tensor_count;
    struct norm_tensor_row *rows = malloc(tensors * sizeof *rows);

    if (!rows)
        return ptxp_norm_out_of_host_memory(plan->hooks);
    memcpy(rows, plan->rows, tensors * sizeof *rows);
    for (size_t k = 0; k < count; k++)
        rows[first + k].data = data[k];
    const ptx_status status = ptxp_norm_check_addresses(plan, rows);
    free(rows);
    return status;
}

ptx_status ptxp_norm_plan_set_data(struct norm_plan *plan, size_t first, size_t count,
                                   const CUdeviceptr *data, CUstream stream)
{
    const size_t tensors = plan->layout.tensor_count - 1; // the last row is the empty tensor
    struct ptxd_capture in = { 0 };
    ptx_status status = PTX_OK;

    if (first > tensors || count > tensors - first)
        return ptxd_fail(PTX_ERROR_INVALID, "%zu tensor%s from %zu on: the plan has %zu", count,
                         ptxd_plural(count), first, tensors);
    if (count && !data)
        return ptxd_fail(PTX_ERROR_INVALID, "data is NULL");
    if (count && !plan->params.any_address)
        status = check_data(plan, first, count, data);
    if (!status && has_order(plan))
        status = ptxd_stream_capture(plan->device, stream, &in);
    if (status)
        return status;
    // Sums and factors of the tensors before are not for those that come.
    note(plan, NORM_LEFT_NOTHING, &in);
    if (in.id && plan->rows_set == in.id) { // those that differ
        while (count && plan->rows[first].data == data[0])
            first++, data++, count--;
        while (count && plan->rows[first + count - 1].data == data[count - 1])
            count--;
    } else {
        plan->rows_set = count == tensors ? in.id : 0;
    }
    status = launch_data(plan, first, count, data, &in, stream);
    if (status)
        plan->rows_set = 0;
    return status;
}
