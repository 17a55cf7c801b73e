// SPDX-License-Identifier: MIT
/// Part of driver.h, which says what holds for all of it: PTX text, loaded.
#ifndef PTXGEN_MODULE_H
#define PTXGEN_MODULE_H

#include <ptxgen/device.h>

PTXGEN_BEGIN

/// Compiled PTX text, loaded on one device.
typedef struct ptx_module ptx_module;
/// One kernel of a module; owned by the module.
typedef struct ptx_function ptx_function;

/// How to load a module. All zero is right for most.
struct ptx_module_params {
    /// The stream that the kernels are for. If it is being captured, loading is refused.
    CUstream stream;
    /// Most registers a thread may use; 0: the compiler decides.
    int max_registers;
    /// Keep source lines for profilers, where the text has them.
    bool line_info;
    /// Ask the compiler for registers and memory of each kernel in ptx_module_log().
    bool verbose;
};

/// Compiles PTX text for the device and makes all of its kernels ready to launch, with as much
/// shared memory as the device allows. Takes from milliseconds to seconds. `text` ends with a NUL
/// and is not needed afterwards; `params` may be NULL.
///
/// A capture that goes on elsewhere is not disturbed. Refused with CAPTURE: a params->stream that
/// is being captured, or, with none given, a blocking stream of the context that is.
///
/// Errors (NULL): JIT (the message has the compiler's log, the lines of text it means, the
/// versions concerned and a remedy), UNSUPPORTED (a parameter list that cannot be read), CAPTURE,
/// OUT_OF_MEMORY, DRIVER, FORKED, INVALID.
PTXGEN_API ptx_module *ptx_module_load(ptx_device *device, const char *text,
                                       const struct ptx_module_params *params);

/// Unloads the module with its functions and sets *module to NULL. Their work must be done.
PTXGEN_API void ptx_module_unload(ptx_module **module);

/// The kernel of that name, ready to launch; owned by the module, always the same pointer. Makes
/// no driver call. Errors (NULL): NOT_FOUND (the message lists what there is), FORKED, INVALID.
PTXGEN_API ptx_function *ptx_module_function(ptx_module *module, const char *name);

/// Address and size in bytes of a `.global` or `.const` variable; either pointer may be NULL.
/// Errors: NOT_FOUND, DRIVER, FORKED, INVALID.
PTXGEN_API ptx_status ptx_module_global(ptx_module *module, const char *name, CUdeviceptr *address,
                                        size_t *bytes);

/// What the compiler said while it compiled the module, warnings for one; "" if nothing. Owned by
/// the module.
PTXGEN_API const char *ptx_module_log(const ptx_module *module);

PTXGEN_END

#endif
