// SPDX-License-Identifier: MIT
/// Part of driver.h: the result of a call and its error message. The rules of driver.h apply.
#ifndef PTXGEN_ERROR_H
#define PTXGEN_ERROR_H

#include <ptxgen/common.h>

PTXGEN_BEGIN

/// The result of a call. ptx_error_message() has the details.
typedef enum ptx_status {
    PTX_OK = 0,
    PTX_ERROR_INVALID,       ///< an argument is wrong: the message names it
    PTX_ERROR_OUT_OF_MEMORY, ///< host or device memory ran out
    PTX_ERROR_NO_DRIVER,     ///< no usable libcuda was found
    PTX_ERROR_NO_DEVICE,     ///< the driver works but has no such GPU
    PTX_ERROR_DRIVER,        ///< a driver call failed; ptx_error_code() is its CUresult
    PTX_ERROR_JIT,           ///< the driver could not compile the text; the message has its log
    PTX_ERROR_NOT_FOUND,     ///< no kernel or variable of that name, no allocation at the address
    PTX_ERROR_UNSUPPORTED,   ///< this driver or GPU lacks the feature
    PTX_ERROR_CAPTURE,       ///< not possible while the stream is captured, or only while it is
    PTX_ERROR_FORKED,        ///< the parent process made the object before fork()
    PTX_ERROR_NONFINITE,     ///< a gradient is NaN or infinite: the message names it
} ptx_status;

/// The name of the status: "PTX_ERROR_JIT". A constant string, never NULL.
PTXGEN_API const char *ptx_status_name(ptx_status status);

/// Describes this thread's last failing call and the remedy: one or more lines without a final
/// newline; "" if nothing has failed yet. Successful calls do not change it. The string lives until
/// this thread's next failing call.
PTXGEN_API const char *ptx_error_message(void);

/// The status of this thread's last failing call, for constructors, which return NULL. PTX_OK if
/// nothing has failed yet.
PTXGEN_API ptx_status ptx_error_status(void);

/// The driver's error number (CUresult) of this thread's last failing call; 0 if the driver was not
/// the cause.
PTXGEN_API int ptx_error_code(void);

PTXGEN_END

#endif
