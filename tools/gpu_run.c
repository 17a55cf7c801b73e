// SPDX-License-Identifier: MIT
#include "gpu_run.h"

#include <stdlib.h>
#include <string.h>

enum { LAUNCHES = 6 }; // the first is not timed, unless it is the only one

/// The objects on the GPU for one run.
struct session {
    struct binding *binding;
    ptx_device *device;
    CUstream stream;
    CUevent begin, end;
    ptx_module *module;
    ptx_function *function;
    ptx_buffer *buffers[BINDING_LIMIT];
    CUdeviceptr addresses[BINDING_LIMIT];
    struct ptx_arg args[BINDING_LIMIT]; ///< in the order of the kernel's parameters
    size_t arg_count;
};

static int open_session(struct session *session, const struct place *place,
                        struct gpu_report *report, struct message *error)
{
    struct opened opened;
    int status = place_open(place, &opened, error);
    if (status != EXIT_DONE)
        return status;
    session->device = opened.device;
    report->emulated = opened.emulated;
    memcpy(report->device, opened.name, sizeof(report->device));
    const struct ptx_device_info *info = ptx_device_get_info(session->device);
    struct ptx_target *target = &session->binding->selection.target;
    if (!ptx_target_newest(info->sm, info->isa, target)) {
        message_set(error, "%s (compute capability %d.%d): no target of this version is for it",
                    info->name, info->sm / 10, info->sm % 10);
        return EXIT_FAILED;
    }
    session->stream = ptx_stream_create(session->device);
    session->begin = session->stream ? ptx_event_create(session->device) : NULL;
    session->end = session->begin ? ptx_event_create(session->device) : NULL;
    return session->end ? EXIT_DONE : gpu_error(error);
}

static int load(struct session *session, struct message *error)
{
    const struct selection *selection = &session->binding->selection;
    char entry[PTX_ENTRY_NAME_SIZE];
    ptx_builder *b = selection_emit(selection, error);
    if (!b)
        return EXIT_FAILED;
    session->module = ptx_module_load(session->device, ptx_builder_finish(b), NULL);
    ptx_builder_destroy(&b);
    if (session->module)
        session->function = ptx_module_function(
            session->module, ptx_kernel_entry_name(selection->kernel, &selection->spec, entry));
    return session->function ? EXIT_DONE : gpu_error(error);
}

static uint64_t argument_bytes(const struct argument *argument)
{
    return argument->input ? argument->input->bytes : argument->output.bytes;
}

static ptx_status upload(struct session *session, bool only_changed)
{
    for (size_t k = 0; k < session->binding->count; k++) {
        const struct argument *argument = &session->binding->arguments[k];
        if (!argument->input || (only_changed && !argument->output.name))
            continue;
        ptx_status status = ptx_buffer_upload(session->buffers[k], 0, argument->input->data,
                                              (size_t)argument->input->bytes, session->stream);
        if (status != PTX_OK)
            return status;
    }
    return PTX_OK;
}

static ptx_status allocate(struct session *session)
{
    for (size_t k = 0; k < session->binding->count; k++) {
        const struct argument *argument = &session->binding->arguments[k];
        if (!argument->info.is_pointer)
            continue;
        size_t bytes = (size_t)argument_bytes(argument);
        session->buffers[k] = ptx_buffer_create(session->device, bytes);
        if (!session->buffers[k])
            return ptx_error_status();
        session->addresses[k] = ptx_buffer_address(session->buffers[k]);
        // Elements that a kernel does not write must not show what other programs left in the
        // memory.
        ptx_status status =
            argument->input ? PTX_OK
                            : ptx_buffer_fill(session->buffers[k], 0, 0, bytes, session->stream);
        if (status != PTX_OK)
            return status;
    }
    return upload(session, false);
}

/// Binds by name: tensors by the addresses of their buffers, scalars by value.
static ptx_status bind(struct session *session)
{
    const struct binding *binding = session->binding;
    struct ptx_named_arg values[BINDING_LIMIT];
    for (size_t k = 0; k < binding->count; k++) {
        const struct argument *argument = &binding->arguments[k];
        values[k].name = argument->info.name;
        if (argument->info.is_pointer)
            values[k].arg = (struct ptx_arg)PTX_ARG(session->addresses[k]);
        else
            values[k].arg =
                (struct ptx_arg) { .value = &argument->value.as, .size = argument->value.bytes };
    }
    return ptx_bind(binding->builder, 0, values, binding->count, session->args, BINDING_LIMIT,
                    &session->arg_count);
}

static ptx_status launch(struct session *session)
{
    const struct ptx_geometry *geometry = &session->binding->geometry;
    struct ptx_launch_params params = {
        .grid = { geometry->grid },
        .block = { geometry->block },
        .stream = session->stream,
        .args = session->args,
        .arg_count = session->arg_count,
    };
    return ptx_launch(session->function, &params);
}

static ptx_status launch_timed(struct session *session, float *milliseconds)
{
    ptx_status status = upload(session, true);
    if (status == PTX_OK)
        status = ptx_event_record(session->device, session->begin, session->stream);
    if (status == PTX_OK)
        status = launch(session);
    if (status == PTX_OK)
        status = ptx_event_record(session->device, session->end, session->stream);
    if (status == PTX_OK)
        status = ptx_stream_synchronize(session->device, session->stream);
    if (status == PTX_OK)
        status = ptx_event_elapsed(session->device, session->begin, session->end, milliseconds);
    return status;
}

static ptx_status launch_all(struct session *session, int launches, float *best)
{
    *best = 0;
    for (int k = 0; k < launches; k++) {
        float milliseconds = 0;
        ptx_status status = launch_timed(session, &milliseconds);
        if (status != PTX_OK)
            return status;
        if (k <= 1 || milliseconds < *best)
            *best = milliseconds;
    }
    return PTX_OK;
}

static int download(struct session *session, struct gpu_report *report, struct message *error)
{
    for (size_t k = 0; k < session->binding->count; k++) {
        struct argument *argument = &session->binding->arguments[k];
        size_t bytes = (size_t)argument->output.bytes;
        if (!argument->output.name || bytes == 0)
            continue;
        report->results[k] = malloc(bytes);
        if (!report->results[k]) {
            message_set(error, "out of memory for the %zu bytes of '%s'", bytes,
                        argument->output.name);
            return EXIT_FAILED;
        }
        argument->output.data = report->results[k];
        if (ptx_buffer_download(session->buffers[k], 0, report->results[k], bytes,
                                session->stream) != PTX_OK)
            return gpu_error(error);
    }
    if (ptx_stream_synchronize(session->device, session->stream) != PTX_OK)
        return gpu_error(error);
    return EXIT_DONE;
}

static void close_session(struct session *session)
{
    // A failed run may have pending copies to memory that is about to be freed.
    if (session->stream)
        ptx_stream_synchronize(session->device, session->stream);
    for (size_t k = 0; k < BINDING_LIMIT; k++)
        ptx_buffer_destroy(&session->buffers[k]);
    ptx_module_unload(&session->module);
    ptx_event_destroy(session->device, &session->begin);
    ptx_event_destroy(session->device, &session->end);
    ptx_stream_destroy(session->device, &session->stream);
    ptx_device_close(&session->device);
}

int gpu_run(struct binding *binding, const struct place *place, struct gpu_report *report,
            struct message *error)
{
    struct session session = { .binding = binding };
    *report = (struct gpu_report) { 0 };
    int status = open_session(&session, place, report, error);
    if (status == EXIT_DONE)
        status = load(&session, error);
    int launches = report->emulated ? 1 : LAUNCHES;
    if (status == EXIT_DONE && (allocate(&session) != PTX_OK || bind(&session) != PTX_OK ||
                                launch_all(&session, launches, &report->milliseconds) != PTX_OK))
        status = gpu_error(error);
    if (status == EXIT_DONE)
        status = download(&session, report, error);
    close_session(&session);
    return status;
}

void gpu_report_release(struct gpu_report *report)
{
    for (size_t k = 0; k < BINDING_LIMIT; k++)
        free(report->results[k]);
    *report = (struct gpu_report) { 0 };
}
