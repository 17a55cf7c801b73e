// SPDX-License-Identifier: MIT
/// What the driver layer's sources share. Names start with ptxd_, since a static library has
/// no other way to keep them out of a program's own names.
#ifndef PTXGEN_DRIVER_INTERNAL_H
#define PTXGEN_DRIVER_INTERNAL_H

#include <ptxgen/driver.h>

#include <stdarg.h>
#include <stdatomic.h>

#include "abi/cuda.h"
#include "error.h"

// --------------------------------------------------------------------------------------- library

/// An open libcuda: one member for each row of functions.def; NULL for an optional function that
/// this library lacks.
struct ptxd_library {
    void *handle;
    char *path;
    int version;
#define DRIVER_FUNCTION(need, symbol) __typeof__(symbol) *symbol;
#include "functions.def"
};

/// Finds a libcuda, fills the table and calls cuInit. On error *library is all zero.
ptx_status ptxd_library_open(struct ptxd_library *library);
void ptxd_library_close(struct ptxd_library *library);

// ---------------------------------------------------------------------------------------- errors

/// The result's name, "CUDA_ERROR_UNKNOWN" say. A constant string, never NULL.
const char *ptxd_result_name(const struct ptxd_library *library, CUresult result);

/// Notes which public function the thread is in, a constant string, for errors of kernels launched
/// earlier.
void ptxd_set_call(const char *call);

/// PTX_OK if the driver call went well; else the error: what was being done, which call failed,
/// with what, and the remedy if there is one for the result alone. Where a kernel launched earlier
/// failed, that, and the public function that the thread is in.
ptx_status ptxd_check(const struct ptxd_library *library, CUresult result, const char *call,
                      const char *purpose);

/// The same for a call made in place: PTXD_CALL(library, "wait", cuEventSynchronize, event).
#define PTXD_CALL(library, purpose, function, ...)                                                 \
    ptxd_check(library, (library)->function(__VA_ARGS__), #function, purpose)

// ------------------------------------------------------------------------------- device and scope

struct ptx_device {
    struct ptxd_library library;
    struct ptx_device_info info;
    CUcontext context;
    CUdevice device;
    bool retained; ///< the primary context, to be released
    long process;  ///< that CUDA works in
    atomic_int references;
};

void ptxd_device_retain(ptx_device *device);
void ptxd_device_release(ptx_device *device);

bool ptxd_same_process(const ptx_device *device);

/// PTX_OK unless the device is NULL or belongs to the process that forked this one.
ptx_status ptxd_usable(const ptx_device *device);

/// The state of the calling thread that a scope has changed.
struct ptxd_scope {
    const struct ptxd_library *library;
    bool pushed;
    bool relaxed;
    CUstreamCaptureMode mode;
};

/// Makes the device's context current, in the public function `call`. Every PTX_OK of it is
/// followed by ptxd_leave().
ptx_status ptxd_enter(struct ptxd_scope *scope, const ptx_device *device, const char *call);

/// The same for calls that CUDA forbids while a stream is being captured (allocating, loading,
/// waiting): keeps them from spoiling captures of other streams.
ptx_status ptxd_enter_cold(struct ptxd_scope *scope, const ptx_device *device, const char *call);

/// The same for calls that put work on the stream. Fails with PTX_ERROR_CAPTURE where that would
/// spoil a capture of another stream: on the legacy default stream, which alone costs a driver call
/// more.
ptx_status ptxd_enter_stream(struct ptxd_scope *scope, const ptx_device *device, CUstream stream,
                             const char *call, const char *purpose);

/// Puts the thread's state back. Returns `status`, or the error in putting back if it was PTX_OK.
ptx_status ptxd_leave(struct ptxd_scope *scope, ptx_status status);

/// The same for destructors, which cannot be refused and leave the thread's error alone. Where it
/// returns false, the driver is not to be called; else ptxd_leave_release() follows.
bool ptxd_enter_release(struct ptxd_scope *scope, const ptx_device *device);
void ptxd_leave_release(struct ptxd_scope *scope);

/// NULL and CU_STREAM_LEGACY: work on it waits for the blocking streams of the context.
bool ptxd_is_legacy(CUstream stream);

/// Sets *capturing; the context must be current.
ptx_status ptxd_capturing(const struct ptxd_library *library, CUstream stream, const char *purpose,
                          bool *capturing);

/// Fails with PTX_ERROR_CAPTURE if the stream is being captured; the context must be current.
ptx_status ptxd_refuse_capture(const struct ptxd_library *library, CUstream stream,
                               const char *purpose);

// -------------------------------------------------------------------------- modules and functions

enum { PTXD_MAX_PARAMS = 512 };

/// What a kernel's text says about it; strings and array are its own.
struct ptxd_signature {
    char *name;
    struct ptx_function_param *params;
    size_t param_count;
    int required_block[3];
    size_t body; ///< bytes from the start of the text to the body, or to what is there instead
};

/// What PTX text says about itself.
struct ptxd_text {
    int isa;         ///< .version, 84 for 8.4; 0 if there is none
    int sm;          ///< .target, 90 for sm_90a; 0 if there is none
    char target[32]; ///< as it is written
    struct ptxd_signature *entries;
    size_t entry_count;
};

/// Reads version and target, and with `entries` the signature of each kernel too. On error *text
/// is as after ptxd_text_free().
ptx_status ptxd_text_read(struct ptxd_text *text, const char *source, bool entries);
void ptxd_text_free(struct ptxd_text *text);

/// Compiles and loads; the context must be current. *log is set to the compiler's remarks, for the
/// caller to free, if all went well.
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
