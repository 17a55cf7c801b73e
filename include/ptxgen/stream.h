// SPDX-License-Identifier: MIT
/// Part of driver.h, which says what holds for all of it: streams and events.
#ifndef PTXGEN_STREAM_H
#define PTXGEN_STREAM_H

#include <ptxgen/device.h>

PTXGEN_BEGIN

/// A new stream that does not synchronise with the legacy default stream. The caller destroys it.
/// Any other CUstream does as well wherever a stream is wanted: the caller's own, NULL for the
/// legacy default stream, (CUstream)2 for the per-thread one. Its context must be the device's.
/// Errors (NULL): DRIVER, OUT_OF_MEMORY, FORKED, INVALID.
PTXGEN_API CUstream ptx_stream_create(ptx_device *device);

/// Destroys a stream made by ptx_stream_create() and sets *stream to NULL. Does not wait: work
/// on it is still done.
PTXGEN_API void ptx_stream_destroy(ptx_device *device, CUstream *stream);

/// Waits until all work on the stream is done, and reports what failed in it.
/// Errors: DRIVER (also for the kernels that ran), CAPTURE, FORKED, INVALID.
PTXGEN_API ptx_status ptx_stream_synchronize(ptx_device *device, CUstream stream);

/// Says whether the stream is being captured into a graph. For NULL, the legacy default stream:
/// whether a blocking stream of the context is, which the default stream would disturb.
/// Errors: DRIVER, FORKED, INVALID.
PTXGEN_API ptx_status ptx_stream_is_capturing(ptx_device *device, CUstream stream, bool *capturing);

/// Makes later work on `stream` wait for the event. Does not wait itself.
/// Errors: CAPTURE, DRIVER, FORKED, INVALID.
PTXGEN_API ptx_status ptx_stream_wait_event(ptx_device *device, CUstream stream, CUevent event);

/// A new event that measures time. The caller destroys it.
/// Errors (NULL): DRIVER, OUT_OF_MEMORY, FORKED, INVALID.
PTXGEN_API CUevent ptx_event_create(ptx_device *device);

/// Destroys an event and sets *event to NULL.
PTXGEN_API void ptx_event_destroy(ptx_device *device, CUevent *event);

/// Marks the point that the stream has come to. Errors: CAPTURE, DRIVER, FORKED, INVALID.
PTXGEN_API ptx_status ptx_event_record(ptx_device *device, CUevent event, CUstream stream);

/// Waits until the recorded point is reached. Errors: DRIVER, FORKED, INVALID.
PTXGEN_API ptx_status ptx_event_synchronize(ptx_device *device, CUevent event);

/// The time from one event to another, in milliseconds. Both must have been reached.
/// Errors: DRIVER (CUDA_ERROR_NOT_READY: not reached yet), FORKED, INVALID.
PTXGEN_API ptx_status ptx_event_elapsed(ptx_device *device, CUevent start, CUevent end,
                                        float *milliseconds);

PTXGEN_END

#endif
