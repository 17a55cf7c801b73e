// SPDX-License-Identifier: MIT
#include "clip/session.h"

typedef ptx_status (*clip_work)(struct clip_session *session, const struct clip_window *window);

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
    return ptx_clip_plan_run(session->plan, session->stream);
}

/// The plan's chunk behind a piece.
static uint64_t chunk_behind(const struct clip_session *session, const struct clip_piece *piece)
{
    uint64_t end = piece->first + piece->count;
    return session->chunk_of[piece->tensor] + (end - 1) / session->description.chunk + 1;
}

/// Up to the window's last chunk, in the plan's order, which the windows follow. Groups without
/// elements have a chunk too, that of the last ones comes with the last window.
static ptx_status measure_window(struct clip_session *session, const struct clip_window *window)
{
    const struct clip_windows *windows = &session->measured;
    uint64_t end = ptx_clip_plan_chunk_count(session->plan);
    if (window != &windows->windows[windows->count - 1])
        end = chunk_behind(session, &window->pieces[window->count - 1]);
    uint64_t first = session->chunks_measured;
    session->chunks_measured = end;
    return ptx_clip_plan_norm_sq_chunks(session->plan, first, end - first, session->stream);
}

/// A launch for each run of chunks that follow each other in the plan. Of a chunk of several
/// tensors others may be in other windows, and others of this one further on.
static ptx_status scale_window(struct clip_session *session, const struct clip_window *window)
{
    const uint32_t number = (uint32_t)(window - session->written.windows) + 1;
    uint64_t first = 0, end = 0;
    ptx_status status = PTX_OK;
    for (size_t k = 0; k < window->count && status == PTX_OK; k++) {
        const struct clip_piece *piece = &window->pieces[k];
        uint64_t chunk =
            session->chunk_of[piece->tensor] + piece->first / session->description.chunk;
        if (session->scaled_in[chunk] == number)
            continue;
        session->scaled_in[chunk] = number;
        if (chunk != end) {
            status = ptx_clip_plan_apply_chunks(session->plan, first, end - first, session->stream);
            first = chunk;
        }
        end = chunk_behind(session, piece);
    }
    if (status == PTX_OK)
        status = ptx_clip_plan_apply_chunks(session->plan, first, end - first, session->stream);
    return status;
}

static ptx_status finish(struct clip_session *session, const struct clip_window *window)
{
    (void)window;
    return ptx_clip_plan_finish(session->plan, session->stream);
}

/// Widens a range of tensors to hold those of a window.
static void widen(const struct clip_window *window, size_t *first, size_t *last)
{
    for (size_t k = 0; k < window->count; k++) {
        size_t tensor = window->pieces[k].tensor;
        *first = tensor < *first ? tensor : *first;
        *last = tensor > *last ? tensor : *last;
    }
}

/// Brings a window's gradients in, in the place of the one that is in, and has the plan find them.
/// A tensor whose beginning is in an earlier window then begins before its piece, outside of the
/// buffer.
static ptx_status bring_in(struct clip_session *session, const struct clip_window *window)
{
    CUdeviceptr base = ptx_buffer_address(session->buffer);
    size_t first = session->job->count, last = 0;
    if (session->is_in) {
        widen(session->is_in, &first, &last);
        for (size_t k = 0; k < session->is_in->count; k++)
            session->addresses[session->is_in->pieces[k].tensor] = 0;
    }
    widen(window, &first, &last);
    for (size_t k = 0; k < window->count; k++) {
        const struct clip_piece *piece = &window->pieces[k];
        uint64_t before = piece->first * session->job->tensors[piece->tensor]->dtype->bytes;
        session->addresses[piece->tensor] = base + piece->offset - before;
    }
    session->is_in = window;
    ptx_status status = clip_copier_upload(&session->copier, window);
    if (status != PTX_OK || first > last)
        return status;
    return ptx_clip_plan_set_data(session->plan, first, last - first + 1,
                                  session->addresses + first, session->stream);
}

static ptx_status two_passes(struct clip_session *session)
{
    const struct clip_windows *measured = &session->measured;
    const struct clip_windows *written = &session->written;
    ptx_status status = PTX_OK;
    for (size_t k = 0; k < measured->count && status == PTX_OK; k++) {
        status = bring_in(session, &measured->windows[k]);
        if (status == PTX_OK)
            status = timed(session, &measured->windows[k], measure_window);
    }
    if (status == PTX_OK)
        status = timed(session, NULL, finish);
    for (size_t k = 0; k < written->count && status == PTX_OK; k++) {
        status = bring_in(session, &written->windows[k]);
        if (status == PTX_OK)
            status = timed(session, &written->windows[k], scale_window);
        if (status == PTX_OK)
            status = clip_copier_download(&session->copier, &written->windows[k]);
    }
    return status;
}

ptx_status clip_pass_all(struct clip_session *session)
{
    const struct clip_window *only = &session->written.windows[0];
    ptx_status status;
    if (session->report->windows > 1) {
        status = two_passes(session);
    } else {
        status = bring_in(session, only);
        if (status == PTX_OK)
            status = timed(session, only, whole_run);
        if (status == PTX_OK)
            status = clip_copier_download(&session->copier, only);
    }
    if (status == PTX_OK)
        clip_copier_finish(&session->copier);
    return status;
}
