// SPDX-License-Identifier: MIT
/// Part of driver.h, which says what holds for all of it: how calls end.
#ifndef PTXGEN_ERROR_H
#define PTXGEN_ERROR_H

#include <ptxgen/common.h>

PTXGEN_BEGIN

/// How a call ended. ptx_error_message() has the particulars.
typedef enum ptx_status {
    PTX_OK = 0,
    PTX_ERROR_INVALID,       ///< an argument is wrong: fix the call; the message names it
    PTX_ERROR_OUT_OF_MEMORY, ///< host or device memory ran out
    PTX_ERROR_NO_DRIVER,     ///< no usable libcuda was found
    PTX_ERROR_NO_DEVICE,     ///< the driver works but has no such GPU
    PTX_ERROR_DRIVER,        ///< a driver call failed; ptx_error_code() is its CUresult
    PTX_ERROR_JIT,           ///< the driver would not compile the text; the message has its log
    PTX_ERROR_NOT_FOUND,     ///< no kernel or variable of that name, no memory at the address
    PTX_ERROR_UNSUPPORTED,   ///< this driver or GPU lacks the feature
    PTX_ERROR_CAPTURE,       ///< not possible while the stream is being captured, or not captured
    PTX_ERROR_FORKED,        ///< the object was made before fork(), by the parent process
} ptx_status;

/// The status's name, "PTX_ERROR_JIT" say. A constant string, never NULL.
PTXGEN_API const char *ptx_status_name(ptx_status status);

/// What went wrong in this thread's last failing call and what to do about it: one or more lines
/// of English without a newline at the end; "" if nothing failed yet. Calls that succeed leave it
/// as it is. The string lives until this thread's next failing call.
PTXGEN_API const char *ptx_error_message(void);

/// The status of this thread's last failing call (for constructors, which return NULL);
/// PTX_OK if nothing failed yet.
PTXGEN_API ptx_status ptx_error_status(void);

/// The driver's own error number (CUresult) behind this thread's last failing call; 0 if it was
/// not the driver that failed.
PTXGEN_API int ptx_error_code(void);

PTXGEN_END

#endif
