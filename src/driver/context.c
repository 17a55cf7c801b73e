// SPDX-License-Identifier: MIT
#include "internal.h"

static CUresult restore(struct ptxd_scope *scope, const char **call)
{
    CUresult first = CUDA_SUCCESS;
    if (scope->relaxed) {
        *call = "cuThreadExchangeStreamCaptureMode";
        first = scope->library->cuThreadExchangeStreamCaptureMode(&scope->mode);
    }
    if (scope->pushed) {
        CUcontext popped = NULL;
        CUresult result = scope->library->cuCtxPopCurrent_v2(&popped);
        if (first == CUDA_SUCCESS) {
            *call = "cuCtxPopCurrent_v2";
            first = result;
        }
    }
    return first;
}

/// With `relaxed`, allows this thread to allocate, load and wait while any thread captures in the
/// global mode. CUDA forbids these calls then and invalidates the capture; in relaxed mode they do
/// no harm.
static CUresult acquire(struct ptxd_scope *scope, const ptx_device *device, bool relaxed,
                        const char **call)
{
    const struct ptxd_library *library = &device->library;
    *scope = (struct ptxd_scope) { .library = library, .mode = CU_STREAM_CAPTURE_MODE_RELAXED };
    CUcontext current = NULL;
    *call = "cuCtxGetCurrent";
    CUresult result = library->cuCtxGetCurrent(&current);
    if (result == CUDA_SUCCESS && current != device->context) {
        *call = "cuCtxPushCurrent_v2";
        result = library->cuCtxPushCurrent_v2(device->context);
        scope->pushed = result == CUDA_SUCCESS;
    }
    if (result == CUDA_SUCCESS && relaxed) {
        *call = "cuThreadExchangeStreamCaptureMode";
        result = library->cuThreadExchangeStreamCaptureMode(&scope->mode);
        scope->relaxed = result == CUDA_SUCCESS;
    }
    const char *ignored = NULL;
    if (result != CUDA_SUCCESS)
        restore(scope, &ignored);
    return result;
}

static ptx_status enter(struct ptxd_scope *scope, const ptx_device *device, bool relaxed,
                        const char *call)
{
    ptx_status status = ptxd_usable(device);
    if (status)
        return ptxd_named(status, call);
    ptxd_set_call(call);
    const char *failed = NULL;
    CUresult result = acquire(scope, device, relaxed, &failed);
    return ptxd_check(&device->library, result, failed, "enter the device's context");
}

ptx_status ptxd_enter(struct ptxd_scope *scope, const ptx_device *device, const char *call)
{
    return enter(scope, device, false, call);
}

ptx_status ptxd_enter_cold(struct ptxd_scope *scope, const ptx_device *device, const char *call)
{
    return enter(scope, device, true, call);
}

ptx_status ptxd_leave(struct ptxd_scope *scope, ptx_status status)
{
    const char *call = NULL;
    CUresult result = restore(scope, &call);
    return status ? status : ptxd_check(scope->library, result, call, "leave the device's context");
}

/// Continues after a failed step: everything that can be released is released.
bool ptxd_enter_release(struct ptxd_scope *scope, const ptx_device *device)
{
    const struct ptxd_library *library = &device->library;
    *scope = (struct ptxd_scope) { .library = library, .mode = CU_STREAM_CAPTURE_MODE_RELAXED };
    if (!ptxd_same_process(device))
        return false;
    CUcontext current = NULL;
    library->cuCtxGetCurrent(&current);
    scope->pushed =
        current != device->context && library->cuCtxPushCurrent_v2(device->context) == CUDA_SUCCESS;
    scope->relaxed = library->cuThreadExchangeStreamCaptureMode(&scope->mode) == CUDA_SUCCESS;
    return true;
}

void ptxd_leave_release(struct ptxd_scope *scope)
{
    const char *call = NULL;
    restore(scope, &call);
}

ptx_status ptxd_capturing(const struct ptxd_library *library, CUstream stream, const char *purpose,
                          bool *capturing)
{
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = library->cuStreamIsCapturing(stream, &state);
    // The result for the legacy default stream while a blocking stream is being captured.
    bool implicit = result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *capturing = implicit || state != CU_STREAM_CAPTURE_STATUS_NONE;
    return implicit ? PTX_OK : ptxd_check(library, result, "cuStreamIsCapturing", purpose);
}

bool ptxd_is_legacy(CUstream stream)
{
    return !stream || (uintptr_t)stream == CUDA_ABI_STREAM_LEGACY;
}

const char *ptxd_captured(CUstream stream)
{
    return ptxd_is_legacy(stream) ? "a blocking stream of the context" : "the stream";
}

ptx_status ptxd_enter_stream(struct ptxd_scope *scope, const ptx_device *device, CUstream stream,
                             const char *call, const char *purpose)
{
    ptx_status status = ptxd_enter(scope, device, call);
    if (status || !ptxd_is_legacy(stream))
        return status;
    bool capturing = false;
    status = ptxd_capturing(scope->library, stream, purpose, &capturing);
    if (!status && capturing)
        status = ptxd_fail(PTX_ERROR_CAPTURE,
                           "%s: could not %s: a blocking stream of the context is being captured, "
                           "and work on the legacy default stream would invalidate the capture; "
                           "use another stream. The capture continues",
                           call, purpose);
    return status ? ptxd_leave(scope, status) : PTX_OK;
}

ptx_status ptxd_refuse_capture(const struct ptxd_library *library, CUstream stream,
                               const char *purpose)
{
    bool capturing = false;
    ptx_status status = ptxd_capturing(library, stream, purpose, &capturing);
    if (status || !capturing)
        return status;
    return ptxd_fail(PTX_ERROR_CAPTURE,
                     "%s: could not %s: %s is being captured into a graph, which cannot contain "
                     "this; do it before the capture begins. The capture continues",
                     ptxd_call(), purpose, ptxd_captured(stream));
}
