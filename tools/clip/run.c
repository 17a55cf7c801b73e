// SPDX-License-Identifier: MIT
#include "clip/run.h"
#include "clip/copy.h"
#include "clip/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/// The objects on the device for one run.
struct clip_session {
    const struct clip_request *request;
    struct clip_job *job;
    struct clip_report *report;
    struct ptx_clip_tensor *tensors; ///< of `params`
    struct ptx_clip_params params;
    struct ptx_clip_description description;
    struct clip_windows measured, written; ///< one window each if everything fits
    uint64_t largest;                      ///< bytes of the largest window
    uint64_t *chunk_of; ///< the plan's first chunk of each tensor that is not empty
    uint32_t
        *scaled_in;   ///< by chunk: the last window, from 1, in which the chunk was scaled; 0: none
    float *max_norms; ///< of each group
    CUdeviceptr *addresses;          ///< of each tensor in the current window; else 0
    const struct clip_window *is_in; ///< the current window; NULL: none
    ptx_device *device;
    CUstream stream;
    CUevent begin, end;
    ptx_buffer *buffer; ///< memory of a window
    ptx_clip_plan *plan;
    uint64_t chunks_measured; ///< number of the plan's chunks that are measured
    struct clip_copier copier;
    struct clip_outputs outputs;
    struct progress progress;
};

static int out_of_memory(struct message *error)
{
    message_set(error, "out of memory");
    return EXIT_FAILED;
}

// ---- how it fits --------------------------------------------------------------------------------

/// The device memory that may be used, in bytes.
static int allowance(const struct clip_session *session, uint64_t *memory, struct message *error)
{
    enum { MARGIN = 16 }; // a 16th is left for code and for other users of the device
    size_t available;
    *memory = session->request->memory;
    if (*memory > 0)
        return EXIT_DONE;
    if (ptx_device_memory(session->device, &available, NULL) != PTX_OK)
        return gpu_error(error);
    *memory = available - available / MARGIN;
    return EXIT_DONE;
}

static int cut(struct clip_session *session, uint64_t memory, struct message *error)
{
    const struct ptx_clip_description *plan = &session->description;
    uint64_t least, room = memory > plan->workspace ? memory - plan->workspace : 0;
    struct clip_windows *measured = &session->measured, *written = &session->written;
    if (clip_windows_cut(measured, session->job, session->chunk_of, plan->chunk, room, &least) &&
        clip_windows_cut(written, session->job, NULL, plan->chunk, room, &least)) {
        session->largest =
            measured->largest > written->largest ? measured->largest : written->largest;
        session->report->windows =
            measured->count > written->count ? measured->count : written->count;
        session->report->memory = session->largest + plan->workspace;
        return EXIT_DONE;
    }
    if (least == 0)
        return out_of_memory(error);
    bool chosen = session->request->memory > 0;
    message_set(
        error,
        "%s %" PRIu64 " bytes or more: the plan's tables take %" PRIu64
        " bytes, and the largest chunk of gradients, which is needed at once, takes %" PRIu64
        "; %" PRIu64 " byte%s of device memory can be used",
        chosen ? "--memory must be" : "free device memory, so that there are",
        plan->workspace + least, plan->workspace, least, memory, plural(memory));
    return chosen ? EXIT_USAGE : EXIT_FAILED;
}

// ---- what is set up -----------------------------------------------------------------------------

static int open_stream(struct clip_session *session, struct message *error)
{
    session->stream = ptx_stream_create(session->device);
    session->begin = session->stream ? ptx_event_create(session->device) : NULL;
    session->end = session->begin ? ptx_event_create(session->device) : NULL;
    return session->end ? EXIT_DONE : gpu_error(error);
}

static bool find_chunks(struct clip_session *session)
{
    struct ptx_clip_piece piece;
    uint64_t chunks = ptx_clip_plan_get_info(session->plan)->chunks;
    session->chunk_of = calloc(session->job->count + 1, sizeof(*session->chunk_of));
    session->scaled_in = calloc((size_t)chunks + 1, sizeof(*session->scaled_in));
    if (!session->chunk_of || !session->scaled_in)
        return false;
    for (uint64_t k = 0; k < chunks; k++)
        for (uint32_t i = 0; ptx_clip_plan_piece(session->plan, k, i, &piece); i++)
            if (piece.first == 0)
                session->chunk_of[piece.tensor] = k;
    return true;
}

/// Creates the plan before memory for gradients is allocated: the plan determines how they can be
/// divided into windows.
static int create_plan(struct clip_session *session, struct message *error)
{
    session->tensors = clip_plan_params(session->job, &session->params);
    session->addresses = calloc(session->job->count + 1, sizeof(*session->addresses));
    session->max_norms = calloc(session->job->group_count, sizeof(*session->max_norms));
    if (!session->tensors || !session->addresses || !session->max_norms)
        return out_of_memory(error);
    // One for each group, because max_norm cannot be 0, which --max-norm allows.
    for (uint32_t g = 0; g < session->job->group_count; g++)
        session->max_norms[g] = session->job->max_norm;
    session->params.group_max_norms = session->max_norms;
    if (ptx_clip_describe(&session->params, &session->description) != PTX_OK)
        return gpu_error(error);
    session->params.any_address = true;
    session->params.stream = session->stream;
    session->plan = ptx_clip_plan_create(session->device, &session->params);
    if (!session->plan)
        return gpu_error(error);
    return find_chunks(session) ? EXIT_DONE : out_of_memory(error);
}

/// The allocation for gradients failed: suggests the option that needs less memory.
static int no_memory_for_window(const struct clip_session *session, struct message *error)
{
    int status = gpu_error(error);
    if (ptx_error_status() == PTX_ERROR_OUT_OF_MEMORY)
        message_lead(error, "--memory BYTES, with less than %" PRIu64 ", works in smaller parts",
                     session->report->memory);
    return status;
}

static int open_copier(struct clip_session *session, struct message *error)
{
    session->buffer = ptx_buffer_create(session->device, (size_t)session->largest);
    if (!session->buffer)
        return no_memory_for_window(session, error);
    session->copier = (struct clip_copier) {
        .job = session->job,
        .device = session->device,
        .stream = session->stream,
        .buffer = session->buffer,
        .outputs = &session->outputs,
        .progress = &session->progress,
        .largest = session->largest,
    };
    return clip_copier_open(&session->copier) == PTX_OK ? EXIT_DONE : gpu_error(error);
}

static void begin_progress(struct clip_session *session)
{
    const struct clip_job *job = session->job;
    uint64_t passes = session->report->windows > 1 ? 3 : 2; // over the gradients
    progress_begin(&session->progress, passes * job->clipped.bytes + job->copied.bytes,
                   session->request->quiet);
}

// ---- the passes ---------------------------------------------------------------------------------

typedef ptx_status (*clip_work)(struct clip_session *session, const struct clip_window *window);

/// Puts work on the stream, waits for it, and adds its time on the device.
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

/// The index of the plan's chunk after a piece.
static uint64_t chunk_behind(const struct clip_session *session, const struct clip_piece *piece)
{
    uint64_t end = piece->first + piece->count;
    return session->chunk_of[piece->tensor] + (end - 1) / session->description.chunk + 1;
}

/// Measures up to the last chunk of the window, in the plan's order, which the windows follow.
/// Groups without elements have a chunk, too; the last ones are measured with the last window.
static ptx_status measure_window(struct clip_session *session, const struct clip_window *window)
{
    const struct clip_windows *windows = &session->measured;
    uint64_t end = ptx_clip_plan_get_info(session->plan)->chunks;
    if (window != &windows->windows[windows->count - 1])
        end = chunk_behind(session, &window->pieces[window->count - 1]);
    uint64_t first = session->chunks_measured;
    session->chunks_measured = end;
    return ptx_clip_plan_norm_sq_chunks(session->plan, first, end - first, session->stream);
}

/// One launch for each sequence of consecutive chunks of the plan. Other tensors of a packed chunk
/// may be in other windows, and other tensors of this window may come later.
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

/// Extends a range of tensors to include those of a window.
static void widen(const struct clip_window *window, size_t *first, size_t *last)
{
    for (size_t k = 0; k < window->count; k++) {
        size_t tensor = window->pieces[k].tensor;
        *first = tensor < *first ? tensor : *first;
        *last = tensor > *last ? tensor : *last;
    }
}

/// Copies a window's gradients to the device, over the current window, and sets the plan's
/// addresses. If a tensor starts in an earlier window, its address is that of its piece minus an
/// offset, and so before the buffer.
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

/// The pass that measures, and with one window also scales.
static ptx_status measure_all(struct clip_session *session)
{
    const struct clip_windows *measured = &session->measured;
    ptx_status status = PTX_OK;
    if (session->report->windows == 1) {
        status = bring_in(session, &session->written.windows[0]);
        return status == PTX_OK ? timed(session, &session->written.windows[0], whole_run) : status;
    }
    for (size_t k = 0; k < measured->count && status == PTX_OK; k++) {
        status = bring_in(session, &measured->windows[k]);
        if (status == PTX_OK)
            status = timed(session, &measured->windows[k], measure_window);
    }
    return status == PTX_OK ? timed(session, NULL, finish) : status;
}

/// The pass that writes everything after the header, and with several windows scales them.
static ptx_status write_all(struct clip_session *session)
{
    const struct clip_windows *written = &session->written;
    ptx_status status = PTX_OK;
    for (size_t k = 0; k < written->count && status == PTX_OK; k++) {
        if (session->report->windows > 1) {
            status = bring_in(session, &written->windows[k]);
            if (status == PTX_OK)
                status = timed(session, &written->windows[k], scale_window);
        }
        if (status == PTX_OK)
            status = clip_copier_download(&session->copier, &written->windows[k]);
    }
    if (status == PTX_OK)
        clip_copier_finish(&session->copier);
    return status;
}

// ---- the run ------------------------------------------------------------------------------------

static int read_records(struct clip_session *session, struct message *error)
{
    uint32_t count = session->job->group_count;
    struct ptx_clip_record *records = calloc(count, sizeof(*records));
    if (!records)
        return out_of_memory(error);
    ptx_status status = ptx_clip_plan_read(session->plan, 0, count, records,
                                           &session->report->summary, session->stream);
    if (status == PTX_OK)
        status = ptx_stream_synchronize(session->device, session->stream);
    for (uint32_t g = 0; g < count && status == PTX_OK; g++)
        session->job->groups[g].record = records[g];
    free(records);
    return status == PTX_OK ? EXIT_DONE : gpu_error(error);
}

/// Refuses NaN and infinity for --nonfinite error.
static int check_finite(const struct clip_job *job, struct message *error)
{
    const struct clip_group *first = NULL;
    uint32_t found = 0;
    for (uint32_t g = 0; g < job->group_count; g++) {
        if (job->groups[g].record.found_inf == 0.0f)
            continue;
        found++;
        first = first ? first : &job->groups[g];
    }
    if (found == 0 || job->nonfinite != CLIP_ERROR)
        return EXIT_DONE;
    char quoted[QUOTED_SIZE];
    message_set(error, "NaN or infinity in %" PRIu32 " of %" PRIu32 " group%s", found,
                job->group_count, plural(job->group_count));
    if (job->grouped)
        message_add(error, ", first in %s", clip_group_title(job, first, quoted));
    message_add(error, ": nothing is written (--nonfinite error)");
    return EXIT_FAILED;
}

/// Every gradient is read once; if its group is scaled, it is read and written once more.
static uint64_t traffic(const struct clip_job *job)
{
    uint64_t bytes = job->clipped.bytes;
    for (uint32_t g = 0; g < job->group_count; g++)
        if (job->groups[g].record.factor != 1.0f)
            bytes += 2 * job->groups[g].bytes;
    return bytes;
}

static int run_all(struct clip_session *session, struct message *error)
{
    uint64_t memory;
    int status = allowance(session, &memory, error);
    if (status == EXIT_DONE)
        status = open_stream(session, error);
    if (status == EXIT_DONE)
        status = create_plan(session, error);
    if (status == EXIT_DONE)
        status = cut(session, memory, error);
    if (status == EXIT_DONE)
        status = open_copier(session, error);
    if (status != EXIT_DONE)
        return status;
    const struct clip_request *request = session->request;
    if (!request->quiet && !clip_outputs_tell(session->job, request->path, error))
        return EXIT_FAILED;
    begin_progress(session);
    if (measure_all(session) != PTX_OK)
        return gpu_error(error);
    status = read_records(session, error);
    if (status == EXIT_DONE)
        status = check_finite(session->job, error);
    if (status != EXIT_DONE)
        return status;
    // Not before, because an output that is a pipe cannot be taken back.
    if (!clip_outputs_open(&session->outputs, session->job, request->path, request->force, error))
        return EXIT_FAILED;
    if (write_all(session) != PTX_OK)
        return gpu_error(error);
    session->report->bytes = traffic(session->job);
    return clip_outputs_commit(&session->outputs, request->force, error) ? EXIT_DONE : EXIT_FAILED;
}

static void close_session(struct clip_session *session)
{
    // A failed run may have pending copies to memory that is about to be freed.
    if (session->stream)
        ptx_stream_synchronize(session->device, session->stream);
    progress_end(&session->progress);
    clip_copier_close(&session->copier);
    ptx_clip_plan_destroy(&session->plan);
    ptx_buffer_destroy(&session->buffer);
    ptx_event_destroy(session->device, &session->begin);
    ptx_event_destroy(session->device, &session->end);
    ptx_stream_destroy(session->device, &session->stream);
    ptx_device_close(&session->device);
    clip_windows_release(&session->measured);
    clip_windows_release(&session->written);
    free(session->tensors);
    free(session->chunk_of);
    free(session->scaled_in);
    free(session->addresses);
    free(session->max_norms);
    clip_outputs_discard(&session->outputs);
}

int clip_run(const struct clip_request *request, struct clip_report *report, struct message *error)
{
    struct opened opened;
    *report = (struct clip_report) { 0 };
    int status = place_open(&request->place, &opened, error);
    if (status != EXIT_DONE)
        return status;
    memcpy(report->device, opened.name, sizeof(report->device));
    report->emulated = opened.emulated;
    struct clip_session session = {
        .request = request, .job = request->job, .report = report, .device = opened.device
    };
    status = run_all(&session, error);
    close_session(&session);
    return status;
}
