// SPDX-License-Identifier: MIT
/// What the sources of the driver layer share. Names start with ptxd_, because with a static
/// library they share the program's namespace.
#ifndef PTXGEN_DRIVER_INTERNAL_H
#define PTXGEN_DRIVER_INTERNAL_H

#include <ptxgen/driver.h>

#include <stdarg.h>
#include <stdatomic.h>

#include "abi/cuda.h"
#include "error.h"

// --------------------------------------------------------------------------------------- library

/// A loaded libcuda: one member for each row of functions.def; NULL for an optional function that
/// this library does not have.
struct ptxd_library {
    void *handle;
    char *path;
    int version;
#define DRIVER_FUNCTION(need, symbol) __typeof__(symbol) *symbol;
#include "functions.def"
};

/// Finds a libcuda, fills the table and calls cuInit. On an error *library is all zero.
ptx_status ptxd_library_open(struct ptxd_library *library);
void ptxd_library_close(struct ptxd_library *library);

// ---------------------------------------------------------------------------------------- errors

/// The name of the result, "CUDA_ERROR_UNKNOWN". A constant string, never NULL.
const char *ptxd_result_name(const struct ptxd_library *library, CUresult result);

/// Records the public function that the thread is executing (a constant string), for messages.
void ptxd_set_call(const char *call);
const char *ptxd_call(void);

/// PTX_OK if the driver call succeeded. Otherwise sets the error: the public function that the
/// thread is executing, what was attempted, which call failed, its result, and the remedy if the
/// result alone suggests one. For the fault of a kernel launched earlier the message says so.
ptx_status ptxd_check(const struct ptxd_library *library, CUresult result, const char *call,
                      const char *purpose);

/// The same with the call as arguments: PTXD_CALL(library, "wait", cuEventSynchronize, event).
#define PTXD_CALL(library, purpose, function, ...)                                                 \
    ptxd_check(library, (library)->function(__VA_ARGS__), #function, purpose)

// ------------------------------------------------------------------------------- device and scope

struct ptx_device {
    struct ptxd_library library;
    struct ptx_device_info info;
    CUcontext context;
    CUdevice device;
    bool retained; ///< the primary context, released when the device is closed
    long process;  ///< process id that opened the device
    atomic_int references;
};

void ptxd_device_retain(ptx_device *device);
void ptxd_device_release(ptx_device *device);

bool ptxd_same_process(const ptx_device *device);

/// PTX_OK unless the device is NULL or was opened before a fork() by the parent process.
ptx_status ptxd_usable(const ptx_device *device);

/// The thread state to restore at the end of a scope.
struct ptxd_scope {
    const struct ptxd_library *library;
    bool pushed;
    bool relaxed;
    CUstreamCaptureMode mode;
};

/// Makes the device's context current, in the public function `call`. Each success must be followed
/// by ptxd_leave().
ptx_status ptxd_enter(struct ptxd_scope *scope, const ptx_device *device, const char *call);

/// The same, for calls that CUDA forbids during captures (allocating, loading, waiting): protects
/// the captures of other streams.
ptx_status ptxd_enter_cold(struct ptxd_scope *scope, const ptx_device *device, const char *call);

/// The same, for calls that put work on the stream. Fails with PTX_ERROR_CAPTURE if the work would
/// invalidate a capture of another stream; this is possible only for the legacy default stream,
/// which costs one more driver call.
ptx_status ptxd_enter_stream(struct ptxd_scope *scope, const ptx_device *device, CUstream stream,
                             const char *call, const char *purpose);

/// Restores the thread's state. Returns `status`, or the error of restoring if `status` is PTX_OK.
ptx_status ptxd_leave(struct ptxd_scope *scope, ptx_status status);

/// The same for destructors, which must not fail and must not change the thread's error. If it
/// returns false, do not call the driver; otherwise ptxd_leave_release() must follow.
bool ptxd_enter_release(struct ptxd_scope *scope, const ptx_device *device);
void ptxd_leave_release(struct ptxd_scope *scope);

/// NULL and CU_STREAM_LEGACY: work on this stream waits for the blocking streams of the context.
bool ptxd_is_legacy(CUstream stream);

/// Sets *capturing; the context must be current.
ptx_status ptxd_capturing(const struct ptxd_library *library, CUstream stream, const char *purpose,
                          bool *capturing);

/// Fails with PTX_ERROR_CAPTURE if the stream is being captured; the context must be current.
ptx_status ptxd_refuse_capture(const struct ptxd_library *library, CUstream stream,
                               const char *purpose);

// -------------------------------------------------------------------------- modules and functions

enum { PTXD_MAX_PARAMS = 512 };

/// The launch interface of a kernel, read from the text. Owns its strings and array.
struct ptxd_signature {
    char *name;
    struct ptx_function_param *params;
    size_t param_count;
    int required_block[3];
    size_t body; ///< offset in the text of the kernel's body, or of whatever follows the header
};

/// Facts read from PTX text.
struct ptxd_text {
    int isa;         ///< .version, 84 for 8.4; 0 if there is none
    int sm;          ///< .target, 90 for sm_90a; 0 if there is none
    char target[32]; ///< as spelled
    struct ptxd_signature *entries;
    size_t entry_count;
};

/// Reads version and target and, with `entries`, the signature of each kernel. On an error *text is
/// as after ptxd_text_free().
ptx_status ptxd_text_read(struct ptxd_text *text, const char *source, bool entries);
void ptxd_text_free(struct ptxd_text *text);

/// Compiles and loads; the context must be current. On success *log is the compiler's output, which
/// the caller frees.
ptx_status ptxd_jit(const ptx_device *device, const char *source,
                    const struct ptx_module_params *params, CUmodule *module, char **log);

struct ptx_function {
    ptx_module *module;
    CUfunction handle; ///< NULL if the driver does not know the kernel
    struct ptx_function_info info;
};

struct ptx_module {
    ptx_device *device;
    CUmodule handle;
    char *log;
    struct ptxd_text text;
    ptx_function *functions; ///< one for each of text.entries
};

#endif
