// SPDX-License-Identifier: MIT
// The captures that are under way.
#ifndef PTXGEN_EMULATOR_CUDA_CAPTURING_H
#define PTXGEN_EMULATOR_CUDA_CAPTURING_H

#include "state.h"

// Checks of calls that may disturb a capture (the mode of the thread decides), and of calls on the
// legacy default stream, which waits for every blocking stream.
CUresult api_capture_unsafe(void);
CUresult api_capture_legacy(bool invalidate);
// Marks the capture as invalid, and returns the result.
CUresult api_capture_fail(struct api_capture *capture, CUresult result);
struct api_capture *api_capture_by_id(unsigned long long id);
void api_capture_join(struct api_capture *capture, CUstream stream);
// Ends the capture. The graph is destroyed unless it is wanted.
void api_capture_end(struct api_capture *capture, CUgraph *graph);
// Before a stream is destroyed.
void api_capture_leave(CUstream stream);
CUresult api_capture_wait(CUstream stream, CUevent event);
CUresult api_capture_record(CUstream stream, CUevent event);

#endif
