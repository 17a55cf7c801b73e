// SPDX-License-Identifier: MIT
/// For the layers above: which capture a stream belongs to.
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

/// The node after which the capture of the stream goes on; NULL: there is none or there are
/// several, or the driver does not say.
const void *ptxd_stream_captured_last(ptx_device *device, CUstream stream);

#endif
