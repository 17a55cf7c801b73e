// SPDX-License-Identifier: MIT
#define _GNU_SOURCE // dladdr, secure_getenv
#include "internal.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/// Paths to libcuda, in this order. The folders of distributions are needed if the usual search
/// finds a stub.
static const char *const places[] = {
    "libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1",
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/usr/lib/libcuda.so.1",
};

/// The result of examining one library. PASSED_OVER: a stub, or not a libcuda; the message says
/// why.
enum outcome { OPENED, PASSED_OVER, BROKEN };

static char *path_of(void *symbol, const char *name)
{
    Dl_info info;
    const char *path = dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : name;
    char *resolved = realpath(path, NULL);
    return resolved ? resolved : strdup(path);
}

static ptx_status bind_functions(struct ptxd_library *library, const char *name)
{
    void *symbol = dlsym(library->handle, "cuInit");
    library->path = path_of(symbol, name);
    if (!library->path)
        return ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of memory while opening %s", name);
    // memcpy, because ISO C has no conversion between object pointers and function pointers.
    enum need { OPTIONAL, REQUIRED };
#define DRIVER_FUNCTION(need, function)                                                            \
    symbol = dlsym(library->handle, #function);                                                    \
    if (!symbol && (need) == REQUIRED)                                                             \
        return ptxd_fail(                                                                          \
            PTX_ERROR_NO_DRIVER,                                                                   \
            "%s has no %s: it is no libcuda, or older than 450 (CUDA 11.0); update the driver",    \
            library->path, #function);                                                             \
    memcpy(&library->function, &symbol, sizeof(symbol));
#include "functions.def"
    return PTX_OK;
}

static enum outcome open_one(struct ptxd_library *library, const char *name, int flags)
{
    *library = (struct ptxd_library) { 0 };
    library->handle = dlopen(name, RTLD_NOW | flags);
    if (!library->handle) {
        const char *reason = dlerror();
        ptxd_fail(PTX_ERROR_NO_DRIVER, "%s", reason ? reason : name);
        return PASSED_OVER;
    }
    enum outcome outcome = PASSED_OVER;
    if (bind_functions(library, name) == PTX_OK) {
        CUresult result = library->cuInit(0);
        ptx_status status = ptxd_check(library, result, "cuInit", "initialise CUDA");
        if (!status)
            status = PTXD_CALL(library, "ask for the driver's version", cuDriverGetVersion,
                               &library->version);
        if (!status)
            return OPENED;
        ptxd_explain("\nlibrary: %s", library->path);
        outcome = result == CUDA_ERROR_STUB_LIBRARY ? PASSED_OVER : BROKEN;
    }
    ptxd_library_close(library);
    return outcome;
}

static ptx_status search(struct ptxd_library *library)
{
    char complaints[2048] = "";
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (places[i][0] == '/' && access(places[i], F_OK) != 0)
            continue;
        enum outcome outcome = open_one(library, places[i], RTLD_LOCAL | RTLD_NODELETE);
        if (outcome != PASSED_OVER)
            return outcome == OPENED ? PTX_OK : ptx_error_status();
        size_t length = strlen(complaints);
        snprintf(complaints + length, sizeof(complaints) - length, "\n%s", ptx_error_message());
    }
    ptxd_fail(
        PTX_ERROR_NO_DRIVER,
        "no usable libcuda.so.1: install the NVIDIA display driver, or name the "
        "library in PTXGEN_LIBCUDA, which may be ptxgen's emulator, to run on the CPU; what was "
        "tried:%s",
        complaints);
    return PTX_ERROR_NO_DRIVER;
}

/// A loaded library stays mapped, because it then has threads of its own. A library that was
/// already in the process is unloaded by whoever loaded it.
ptx_status ptxd_library_open(struct ptxd_library *library)
{
    void *present = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (present) {
        enum outcome outcome = open_one(library, "libcuda.so.1", RTLD_NOLOAD);
        dlclose(present);
        if (outcome == OPENED)
            return PTX_OK;
        // A second libcuda would not know the caller's handles.
        if (ptx_error_code() != CUDA_ERROR_STUB_LIBRARY)
            return ptx_error_status();
    }
    const char *named = secure_getenv("PTXGEN_LIBCUDA");
    if (!named || !named[0])
        return search(library);
    enum outcome outcome = open_one(library, named, RTLD_LOCAL | RTLD_NODELETE);
    // BROKEN: the file was found and is a libcuda, so the file name is not the problem.
    if (outcome == PASSED_OVER)
        ptxd_explain("\nPTXGEN_LIBCUDA names this library: correct it or unset it");
    return outcome == OPENED ? PTX_OK : ptx_error_status();
}

void ptxd_library_close(struct ptxd_library *library)
{
    free(library->path);
    if (library->handle)
        dlclose(library->handle);
    *library = (struct ptxd_library) { 0 };
}
