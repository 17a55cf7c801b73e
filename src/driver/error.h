// SPDX-License-Identifier: MIT
/// Error reporting of the driver layer and the layers above it; ptx_error_message() and similar
/// functions read the result.
#ifndef PTXGEN_DRIVER_ERROR_H
#define PTXGEN_DRIVER_ERROR_H

#include <ptxgen/driver.h>

/// Sets this thread's error message; returns `status`.
ptx_status ptxd_fail(ptx_status status, const char *format, ...) PTXGEN_PRINTF(2, 3);

/// Appends to the message that ptxd_fail() or ptxd_check() set.
void ptxd_explain(const char *format, ...) PTXGEN_PRINTF(1, 2);

/// What makes a plural of a word behind the count: "s", or nothing for 1.
static inline const char *ptxd_plural(unsigned long long count)
{
    return count == 1 ? "" : "s";
}

/// Returns `status`. If it is an error: the thread's message begins with "call: ", in place of
/// another public function that it names there, as that of a kernel launched earlier does.
ptx_status ptxd_named(ptx_status status, const char *call);

/// Whether the thread's last error is the fault of a kernel launched earlier.
bool ptxd_kernel_failed(void);

/// The subject for a message when ptx_stream_is_capturing() is true for `stream`: the stream, or,
/// for the legacy default stream, a blocking stream of the context.
const char *ptxd_captured(CUstream stream);

#endif
