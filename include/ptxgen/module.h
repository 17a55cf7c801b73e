// SPDX-License-Identifier: MIT
/// Part of driver.h: modules and their kernels. The rules of driver.h apply.
#ifndef PTXGEN_MODULE_H
#define PTXGEN_MODULE_H

#include <ptxgen/device.h>

PTXGEN_BEGIN

/// Compiled PTX text, loaded on one device.
typedef struct ptx_module ptx_module;
/// One kernel of a module, ready to launch; owned by the module. The device functions of function.h
/// are something else: they have no object here.
typedef struct ptx_function ptx_function;

/// How to load a module. All zero is right for most callers.
struct ptx_module_params {
    /// The stream that the kernels will run on. Loading is refused while it is being captured.
    CUstream stream;
    /// Maximum of registers per thread; 0: the compiler decides.
    int max_registers;
    /// Keep source lines for profilers, if the text has them. A text with a line that begins with
    /// .file, as that of a builder with .line_info, keeps them in any case.
    bool line_info;
    /// Report the registers and memory of each kernel in ptx_module_log().
    bool verbose;
};

/// Compiles PTX text for the device and makes all its kernels ready to launch, with the maximum of
/// shared memory that the device allows. Takes from milliseconds to seconds. `text` ends with a NUL
/// and is not needed afterwards; `params` may be NULL.
///
/// Captures elsewhere are not disturbed. Refused with CAPTURE: params->stream is being captured,
/// or, if there is no such stream, a blocking stream of the context is.
///
/// Errors (NULL): JIT (the message has the compiler's log, the lines of text that it refers to,
/// with their source lines where the text has them, the versions involved and a remedy),
/// UNSUPPORTED (a parameter list that cannot be read), CAPTURE, OUT_OF_MEMORY, DRIVER, FORKED,
/// INVALID.
PTXGEN_API ptx_module *ptx_module_load(ptx_device *device, const char *text,
                                       const struct ptx_module_params *params);

/// Unloads the module and its functions and sets *module to NULL. Work that uses them must be done.
PTXGEN_API void ptx_module_unload(ptx_module **module);

/// The kernel of this name, ready to launch; owned by the module, the same pointer at every call.
/// Makes no driver call. Errors (NULL): NOT_FOUND (the message lists the kernels), FORKED, INVALID.
PTXGEN_API ptx_function *ptx_module_function(ptx_module *module, const char *name);

/// Kernel `k` of the module, in the order of the text; NULL past the last. Kernels that are not
/// .visible are left out. Makes no driver call, and sets no error.
PTXGEN_API ptx_function *ptx_module_function_at(ptx_module *module, size_t k);

/// Address and size in bytes of a `.global` or `.const` variable; either pointer may be NULL.
/// Errors: NOT_FOUND, DRIVER, FORKED, INVALID.
PTXGEN_API ptx_status ptx_module_global(ptx_module *module, const char *name, CUdeviceptr *address,
                                        size_t *bytes);

/// The compiler's output for this module, warnings for example; "" if there is none. Owned by the
/// module.
PTXGEN_API const char *ptx_module_log(const ptx_module *module);

PTXGEN_END

#endif
