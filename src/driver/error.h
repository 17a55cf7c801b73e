// SPDX-License-Identifier: MIT
/// How the driver layer, and what stands on it, reports errors: ptx_error_message() and its like
/// give them to the program.
#ifndef PTXGEN_DRIVER_ERROR_H
#define PTXGEN_DRIVER_ERROR_H

#include <ptxgen/driver.h>

/// Starts this thread's error message anew; returns `status`.
ptx_status ptxd_fail(ptx_status status, const char *format, ...) PTXGEN_PRINTF(2, 3);

/// Adds to the message that ptxd_fail() or ptxd_check() started.
void ptxd_explain(const char *format, ...) PTXGEN_PRINTF(1, 2);

/// What makes a plural of a word behind the count: "s", or nothing for 1.
static inline const char *ptxd_plural(unsigned long long count)
{
    return count == 1 ? "" : "s";
}

/// The thread's last error is that a kernel launched earlier failed: names `call`, a public
/// function, as the one that met it, in place of the driver layer's own. Leaves other errors alone.
void ptxd_name_call(const char *call);

/// Whether the thread's last error is that a kernel launched earlier failed.
bool ptxd_kernel_failed(void);

/// Names what is being captured where ptx_stream_is_capturing() says so of `stream`: the stream,
/// or, for the legacy default stream, a blocking stream of the context.
const char *ptxd_captured(CUstream stream);

#endif
