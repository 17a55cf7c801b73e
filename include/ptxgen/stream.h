// SPDX-License-Identifier: MIT
/// Part of driver.h: streams and events. The rules of driver.h apply.
#ifndef PTXGEN_STREAM_H
#define PTXGEN_STREAM_H

#include <ptxgen/device.h>

PTXGEN_BEGIN

/// Creates a stream that does not synchronise with the legacy default stream. The caller destroys
/// it. Functions that take a stream accept any CUstream of the device's context: the caller's own,
/// NULL for the legacy default stream, (CUstream)2 for the per-thread default stream. Errors
/// (NULL): DRIVER, OUT_OF_MEMORY, FORKED, INVALID.
PTXGEN_API CUstream ptx_stream_create(ptx_device *device);

/// Destroys a stream made by ptx_stream_create() and sets *stream to NULL. Does not wait; work
/// already on the stream still completes.
PTXGEN_API void ptx_stream_destroy(ptx_device *device, CUstream *stream);

/// Waits until all work on the stream is done and reports its failures. Errors: DRIVER (including
/// faults of kernels on the stream), CAPTURE, FORKED, INVALID.
PTXGEN_API ptx_status ptx_stream_synchronize(ptx_device *device, CUstream stream);

/// Sets *capturing to whether the stream is being captured. For NULL, the legacy default stream:
/// whether a blocking stream of the context is being captured, which work on the default stream
/// would invalidate. Errors: DRIVER, FORKED, INVALID.
PTXGEN_API ptx_status ptx_stream_is_capturing(ptx_device *device, CUstream stream, bool *capturing);

/// Makes later work on `stream` wait for the event. The host does not wait. Errors: CAPTURE,
/// DRIVER, FORKED, INVALID.
PTXGEN_API ptx_status ptx_stream_wait_event(ptx_device *device, CUstream stream, CUevent event);

/// Creates an event with timing. The caller destroys it. Errors (NULL): DRIVER, OUT_OF_MEMORY,
/// FORKED, INVALID.
PTXGEN_API CUevent ptx_event_create(ptx_device *device);

/// Destroys an event and sets *event to NULL.
PTXGEN_API void ptx_event_destroy(ptx_device *device, CUevent *event);

/// Records the event on the stream, after the work put there so far. Errors: CAPTURE, DRIVER,
/// FORKED, INVALID.
PTXGEN_API ptx_status ptx_event_record(ptx_device *device, CUevent event, CUstream stream);

/// Waits until the work recorded by the event is done. Errors: DRIVER, FORKED, INVALID.
PTXGEN_API ptx_status ptx_event_synchronize(ptx_device *device, CUevent event);

/// The time between two events in milliseconds. Both must be complete. Errors: DRIVER
/// (CUDA_ERROR_NOT_READY: not complete yet), FORKED, INVALID.
PTXGEN_API ptx_status ptx_event_elapsed(ptx_device *device, CUevent start, CUevent end,
                                        float *milliseconds);

PTXGEN_END

#endif
