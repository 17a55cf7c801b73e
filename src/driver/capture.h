// SPDX-License-Identifier: MIT
/// For the layers above: which capture a stream belongs to, and the end of a branch.
#ifndef PTXGEN_DRIVER_CAPTURE_H
#define PTXGEN_DRIVER_CAPTURE_H

#include <ptxgen/driver.h>

struct ptxd_capture {
    bool active;
    uint64_t id; ///< no other capture of the process has it; 0: not active, or not known
};

/// As ptx_stream_is_capturing(). The id is not known for drivers before CUDA 11.3, for a capture
/// that was invalidated, and for the legacy default stream.
ptx_status ptxd_stream_capture(ptx_device *device, CUstream stream, struct ptxd_capture *capture);

/// After an error: what `stream` does next waits for the work on `other`, by way of the event, so
/// that a capture that took both streams in can end. It cannot fail, and the thread's error stays.
void ptxd_stream_join(ptx_device *device, CUstream stream, CUstream other, CUevent event);

#endif
