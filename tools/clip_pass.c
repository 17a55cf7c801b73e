// SPDX-License-Identifier: MIT
#include "clip_session.h"

typedef ptx_status (*clip_work)(struct clip_session *session, const struct clip_window *window);
typedef ptx_status (*clip_chunk_work)(ptx_clip_plan *plan, uint64_t first, uint64_t count,
                                      CUstream stream);

void clip_place_window(struct clip_session *session, const struct clip_window *window)
{
    CUdeviceptr base = ptx_buffer_address(session->buffer);
    for (size_t k = 0; k < window->count; k++) {
        const struct clip_piece *piece = &session->windows.pieces[window->first + k];
        uint64_t before = piece->first * session->job->tensors[piece->tensor]->dtype->bytes;
        session->addresses[piece->tensor] = base + piece->offset - before;
    }
}

/// Has the stream do the work, waits for it, and adds the time that it took there.
static ptx_status timed(struct clip_session *session, const struct clip_window *window,
                        clip_work work)
{
    float milliseconds = 0;
    ptx_status status = ptx_event_record(session->device, session->begin, session->stream);
    if (status == PTX_OK)
        status = work(session, window);
    if (status == PTX_OK)
        status = ptx_event_record(session->device, session->end, session->stream);
    if (status == PTX_OK)
        status = ptx_stream_synchronize(session->device, session->stream);
    if (status == PTX_OK)
        status = ptx_event_elapsed(session->device, session->begin, session->end, &milliseconds);
    session->report->seconds += (double)milliseconds / 1e3;
    return status;
}

static ptx_status whole_run(struct clip_session *session, const struct clip_window *window)
{
    (void)window;
    session->report->launches += session->description.launches;
    return ptx_clip_plan_run(session->plan, session->stream);
}

static ptx_status run_chunks(struct clip_session *session, uint64_t first, uint64_t count,
                             clip_chunk_work work)
{
    session->report->launches++;
    return work(session->plan, first, count, session->stream);
}

/// A launch for each run of chunks that follow each other in the plan, which has the tensors of a
/// group side by side.
static ptx_status for_chunks(struct clip_session *session, const struct clip_window *window,
                             clip_chunk_work work)
{
    const struct clip_piece *pieces = session->windows.pieces + window->first;
    uint32_t chunk = session->description.chunk;
    uint64_t first = 0, count = 0;
    ptx_status status = PTX_OK;
    for (size_t k = 0; k < window->count && status == PTX_OK; k++) {
        uint64_t next = session->first_chunk[pieces[k].tensor] + pieces[k].first / chunk;
        if (count > 0 && next != first + count) {
            status = run_chunks(session, first, count, work);
            count = 0;
        }
        first = count > 0 ? first : next;
        count += (pieces[k].count - 1) / chunk + 1;
    }
    if (count > 0 && status == PTX_OK)
        status = run_chunks(session, first, count, work);
    return status;
}

static ptx_status measure_window(struct clip_session *session, const struct clip_window *window)
{
    return for_chunks(session, window, ptx_clip_plan_norm_sq_chunks);
}

static ptx_status scale_window(struct clip_session *session, const struct clip_window *window)
{
    return for_chunks(session, window, ptx_clip_plan_apply_chunks);
}

/// Groups without elements have a chunk too, without which their sums would not be there.
static ptx_status measure_empty_groups(struct clip_session *session,
                                       const struct clip_window *window)
{
    struct ptx_clip_chunk at;
    uint32_t chunk = session->description.chunk;
    ptx_status status = PTX_OK;
    (void)window;
    for (uint64_t k = 0; status == PTX_OK && ptx_clip_plan_chunk(session->plan, k, &at);) {
        if (at.count == 0)
            status = run_chunks(session, k, 1, ptx_clip_plan_norm_sq_chunks);
        k += at.count == 0 ? 1 : (session->tensors[at.tensor].count - 1) / chunk + 1;
    }
    return status;
}

static ptx_status finish(struct clip_session *session, const struct clip_window *window)
{
    (void)window;
    session->report->launches++;
    return ptx_clip_plan_finish(session->plan, session->stream);
}

/// Brings a window's gradients in and has the plan find them.
static ptx_status bring_in(struct clip_session *session, const struct clip_window *window)
{
    ptx_status status = clip_copier_upload(&session->copier, window);
    if (status != PTX_OK || window->count == 0)
        return status;
    const struct clip_piece *pieces = session->windows.pieces + window->first;
    size_t first = pieces[0].tensor;
    clip_place_window(session, window);
    return ptx_clip_plan_set_data(session->plan, first,
                                  pieces[window->count - 1].tensor - first + 1,
                                  session->addresses + first, session->stream);
}

static ptx_status two_passes(struct clip_session *session)
{
    const struct clip_windows *windows = &session->windows;
    ptx_status status = timed(session, NULL, measure_empty_groups);
    for (size_t k = 0; k < windows->count && status == PTX_OK; k++) {
        status = bring_in(session, &windows->windows[k]);
        if (status == PTX_OK)
            status = timed(session, &windows->windows[k], measure_window);
    }
    if (status == PTX_OK)
        status = timed(session, NULL, finish);
    for (size_t k = 0; k < windows->count && status == PTX_OK; k++) {
        status = bring_in(session, &windows->windows[k]);
        if (status == PTX_OK)
            status = timed(session, &windows->windows[k], scale_window);
        if (status == PTX_OK)
            status = clip_copier_download(&session->copier, &windows->windows[k]);
    }
    return status;
}

ptx_status clip_pass_all(struct clip_session *session)
{
    const struct clip_window *only = &session->windows.windows[0];
    ptx_status status;
    if (session->windows.count > 1) {
        status = two_passes(session);
    } else {
        status = clip_copier_upload(&session->copier, only);
        if (status == PTX_OK)
            status = timed(session, only, whole_run);
        if (status == PTX_OK)
            status = clip_copier_download(&session->copier, only);
    }
    if (status == PTX_OK)
        clip_copier_finish(&session->copier);
    return status;
}
