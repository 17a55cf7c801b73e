// SPDX-License-Identifier: MIT
// Streams, and what is submitted to them.
#ifndef PTXGEN_EMULATOR_CUDA_STREAM_H
#define PTXGEN_EMULATOR_CUDA_STREAM_H

#include "state.h"

enum api_needs {
    API_NEEDS_ANY,
    API_NEEDS_INIT,
    API_NEEDS_CURRENT,
    API_NEEDS_CALLBACK,
    API_NEEDS_CONTEXT,
    API_NEEDS_UNSAFE,
    API_NEEDS_LEGACY,
};

// Does what api_enter() does for a function with these needs, for needs that depend on the
// arguments.
CUresult api_require(enum api_needs needs);

// CUDA_ERROR_STREAM_CAPTURE_IMPLICIT if the handle is that of the legacy stream and a capture
// forbids its use.
CUresult api_stream_find(CUstream handle, CUstream *stream);
// The same without the check of captures.
CUresult api_stream_any(CUstream handle, CUstream *stream);
bool api_stream_is_legacy(CUstream handle);
void api_stream_free(CUstream stream);

// Runs the work now, or records it if the stream is under capture. Takes the work over and clears
// it.
CUresult api_submit(CUstream stream, struct api_work *work);
// A node that records or waits for an event with a real time.
CUresult api_submit_event(CUstream stream, CUevent event, CUgraphNodeType type);

#endif
