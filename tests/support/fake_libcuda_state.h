// SPDX-License-Identifier: MIT
/// State shared by the sources of the fake libcuda.
#ifndef PTXGEN_TESTS_FAKE_LIBCUDA_STATE_H
#define PTXGEN_TESTS_FAKE_LIBCUDA_STATE_H

#include "fake_libcuda.h"

enum { FAKE_DEVICES = 4, FAKE_DEPTH = 16, FAKE_CAPTURES = 4, FAKE_NODES = 16 };

struct CUctx_st {
    CUdevice device;
    atomic_int retained;
};

struct CUstream_st {
    CUcontext context;
    bool blocking;
    CUstreamCaptureStatus status;
    CUstreamCaptureMode mode;
    CUgraphNodeType nodes[FAKE_NODES]; ///< captured so far
    size_t node_count;
};

extern struct fake_cuda fake;
extern CUstream fake_captures[FAKE_CAPTURES];
extern _Thread_local CUstreamCaptureMode fake_thread_mode;

/// The calling thread's current context; NULL for none.
CUcontext fake_current(void);

/// Counts a call.
void fake_count(void);

/// True if the stream is under capture: then the work is recorded, and must not be done.
bool fake_captured(CUstream stream, CUgraphNodeType type);

/// A call that CUDA forbids during a capture: it fails and invalidates the capture.
CUresult fake_unsafe_call(void);

/// Work on the legacy default stream while a blocking stream is under capture: it fails. With
/// `spoils`, it also invalidates the capture.
CUresult fake_implicit(CUstream stream, bool spoils);

/// Objects that are counted in fake.alive.
void *fake_create(size_t size);
void fake_destroy(void *object);

/// Starts a call that needs a context.
#define FAKE_IN_CONTEXT()                                                                          \
    fake_count();                                                                                  \
    if (!fake_current())                                                                           \
    return atomic_fetch_add(&fake.violations, 1), CUDA_ERROR_INVALID_CONTEXT

/// Starts a call that works on a stream.
#define FAKE_ON_STREAM(stream)                                                                     \
    FAKE_IN_CONTEXT();                                                                             \
    if (fake_implicit(stream, true) != CUDA_SUCCESS)                                               \
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT

#endif
