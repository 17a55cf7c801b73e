// SPDX-License-Identifier: MIT
#include "capture.h"
#include "internal.h"

CUstream ptx_stream_create(ptx_device *device)
{
    struct ptxd_scope scope;
    if (ptxd_enter_cold(&scope, device, __func__))
        return NULL;
    CUstream stream = NULL;
    ptx_status status = PTXD_CALL(scope.library, "create a stream", cuStreamCreate, &stream,
                                  CU_STREAM_NON_BLOCKING);
    if (ptxd_leave(&scope, status))
        ptx_stream_destroy(device, &stream);
    return stream;
}

void ptx_stream_destroy(ptx_device *device, CUstream *stream)
{
    if (!stream || !*stream)
        return;
    struct ptxd_scope scope;
    if (device && ptxd_enter_release(&scope, device)) {
        scope.library->cuStreamDestroy_v2(*stream);
        ptxd_leave_release(&scope);
    }
    *stream = NULL;
}

ptx_status ptx_stream_synchronize(ptx_device *device, CUstream stream)
{
    struct ptxd_scope scope;
    ptx_status status = ptxd_enter_cold(&scope, device, __func__);
    if (status)
        return status;
    status = ptxd_refuse_capture(scope.library, stream, "wait for the stream");
    if (!status)
        status = PTXD_CALL(scope.library, "wait for the stream", cuStreamSynchronize, stream);
    return ptxd_named(ptxd_leave(&scope, status), __func__);
}

ptx_status ptx_stream_is_capturing(ptx_device *device, CUstream stream, bool *capturing)
{
    if (!capturing)
        return ptxd_fail(PTX_ERROR_INVALID, "ptx_stream_is_capturing: capturing is NULL");
    struct ptxd_scope scope;
    ptx_status status = ptxd_enter(&scope, device, __func__);
    if (status)
        return status;
    status = ptxd_capturing(scope.library, stream, "ask whether the stream is being captured",
                            capturing);
    return ptxd_leave(&scope, status);
}

ptx_status ptxd_stream_capture(ptx_device *device, CUstream stream, struct ptxd_capture *capture)
{
    struct ptxd_scope scope;
    const char *purpose = "ask which capture the stream belongs to";
    ptx_status status = ptxd_enter(&scope, device, "ptx_stream_is_capturing");

    *capture = (struct ptxd_capture) { 0 };
    if (status)
        return status;
    status = ptxd_capturing(scope.library, stream, purpose, &capture->active);
    if (!status && capture->active && !ptxd_is_legacy(stream) &&
        scope.library->cuStreamGetCaptureInfo_v2) {
        CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
        cuuint64_t id = 0;
        status = PTXD_CALL(scope.library, purpose, cuStreamGetCaptureInfo_v2, stream, &state, &id,
                           NULL, NULL, NULL);
        capture->id = id;
    }
    return ptxd_leave(&scope, status);
}

const void *ptxd_stream_captured_last(ptx_device *device, CUstream stream)
{
    const CUgraphNode *nodes = NULL;
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    struct ptxd_scope scope;
    size_t count = 0;

    if (ptxd_is_legacy(stream) || ptxd_enter(&scope, device, "ptx_stream_is_capturing"))
        return NULL;
    if (!scope.library->cuStreamGetCaptureInfo_v2 ||
        scope.library->cuStreamGetCaptureInfo_v2(stream, &state, NULL, NULL, &nodes, &count) ||
        state != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        count = 0;
    const void *last = count == 1 ? nodes[0] : NULL;
    return ptxd_leave(&scope, PTX_OK) ? NULL : last;
}

static ptx_status no_event(const char *function)
{
    return ptxd_fail(PTX_ERROR_INVALID, "%s: an event is NULL", function);
}

ptx_status ptx_stream_wait_event(ptx_device *device, CUstream stream, CUevent event)
{
    if (!event)
        return no_event("ptx_stream_wait_event");
    struct ptxd_scope scope;
    const char *purpose = "make the stream wait for the event";
    ptx_status status = ptxd_enter_stream(&scope, device, stream, __func__, purpose);
    if (status)
        return status;
    status = PTXD_CALL(scope.library, purpose, cuStreamWaitEvent, stream, event, 0);
    return ptxd_leave(&scope, status);
}

CUevent ptx_event_create(ptx_device *device)
{
    struct ptxd_scope scope;
    if (ptxd_enter_cold(&scope, device, __func__))
        return NULL;
    CUevent event = NULL;
    ptx_status status =
        PTXD_CALL(scope.library, "create an event", cuEventCreate, &event, CU_EVENT_DEFAULT);
    if (ptxd_leave(&scope, status))
        ptx_event_destroy(device, &event);
    return event;
}

void ptx_event_destroy(ptx_device *device, CUevent *event)
{
    if (!event || !*event)
        return;
    struct ptxd_scope scope;
    if (device && ptxd_enter_release(&scope, device)) {
        scope.library->cuEventDestroy_v2(*event);
        ptxd_leave_release(&scope);
    }
    *event = NULL;
}

ptx_status ptx_event_record(ptx_device *device, CUevent event, CUstream stream)
{
    if (!event)
        return no_event("ptx_event_record");
    struct ptxd_scope scope;
    const char *purpose = "record the event";
    ptx_status status = ptxd_enter_stream(&scope, device, stream, __func__, purpose);
    if (status)
        return status;
    status = PTXD_CALL(scope.library, purpose, cuEventRecord, event, stream);
    return ptxd_leave(&scope, status);
}

ptx_status ptx_event_synchronize(ptx_device *device, CUevent event)
{
    if (!event)
        return no_event("ptx_event_synchronize");
    struct ptxd_scope scope;
    ptx_status status = ptxd_enter_cold(&scope, device, __func__);
    if (status)
        return status;
    status = PTXD_CALL(scope.library, "wait for the event", cuEventSynchronize, event);
    return ptxd_leave(&scope, status);
}

ptx_status ptx_event_elapsed(ptx_device *device, CUevent start, CUevent end, float *milliseconds)
{
    if (!start || !end)
        return no_event("ptx_event_elapsed");
    if (!milliseconds)
        return ptxd_fail(PTX_ERROR_INVALID, "ptx_event_elapsed: milliseconds is NULL");
    struct ptxd_scope scope;
    ptx_status status = ptxd_enter_cold(&scope, device, __func__);
    if (status)
        return status;
    status = PTXD_CALL(scope.library, "read the time between events", cuEventElapsedTime,
                       milliseconds, start, end);
    return ptxd_leave(&scope, status);
}
