// SPDX-License-Identifier: MIT
/// Modules and launches of the libcuda without a GPU.
#include "fake_libcuda_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUmod_st {
    CUcontext context;
    bool code; ///< loaded from machine code
    struct CUfunc_st *functions;
    char text[];
};

struct CUfunc_st {
    struct CUfunc_st *next;
    CUmodule module;
    int max_dynamic;
};

/// As the driver does it: not a byte beyond the size, and no NUL of its own.
static void write_log(CUjit_option buffer, CUjit_option size, const char *log)
{
    char *to = NULL;
    size_t room = 0;
    for (unsigned i = 0; i < fake.option_count; i++) {
        if (fake.options[i] == buffer)
            to = fake.values[i];
        if (fake.options[i] == size)
            room = (size_t)(uintptr_t)fake.values[i];
    }
    if (to && log)
        memcpy(to, log, strlen(log) < room ? strlen(log) : room);
}

/// Threads may load at once, so this is for loads that a test looks at.
static void note_options(unsigned option_count, const CUjit_option *options, void **values)
{
    if (option_count == 0 || !(fake.jit_error_log || fake.jit_info_log || option_count > 4))
        return;
    fake.option_count = option_count;
    memcpy(fake.options, options, option_count * sizeof(*options));
    memcpy(fake.values, values, option_count * sizeof(*values));
}

static void write_logs(void)
{
    if (!fake.jit_error_log && !fake.jit_info_log)
        return;
    write_log(CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, fake.jit_error_log);
    write_log(CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, fake.jit_info_log);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned option_count,
                            CUjit_option *options, void **values)
{
    CUresult result = fake_step("cuModuleLoadDataEx");
    if (result == CUDA_SUCCESS && !fake_current())
        return atomic_fetch_add(&fake.violations, 1), CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS)
        result = fake_unsafe_call();
    const char *text = image;
    note_options(option_count, options, values);
    if (option_count)
        write_logs();
    if (result != CUDA_SUCCESS)
        return result;
    *module = fake_create(sizeof(**module) + strlen(text) + 1);
    (*module)->context = fake_current();
    strcpy((*module)->text, text);
    atomic_fetch_add(&fake.loads, 1);
    return result;
}

CUresult cuModuleUnload(CUmodule module)
{
    FAKE_RELEASE(cuModuleUnload);
    fake_unsafe_call();
    while (module->functions) {
        CUfunction next = module->functions->next;
        free(module->functions);
        module->functions = next;
    }
    fake_destroy(module);
    return result;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    FAKE_BEGIN_IN_CONTEXT(cuModuleGetFunction);
    char declaration[256];
    snprintf(declaration, sizeof(declaration), ".visible .entry %s", name);
    if (!strstr(module->text, declaration))
        return CUDA_ERROR_NOT_FOUND;
    *function = calloc(1, sizeof(**function));
    (*function)->next = module->functions;
    (*function)->module = module;
    (*function)->max_dynamic = 49152;
    module->functions = *function;
    return result;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
                              const char *name)
{
    FAKE_BEGIN_IN_CONTEXT(cuModuleGetGlobal_v2);
    const char *found = strstr(module->text, name);
    if (!found)
        return CUDA_ERROR_NOT_FOUND;
    *address = (CUdeviceptr)(uintptr_t)found;
    *bytes = 8;
    return result;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    (void)function;
    FAKE_BEGIN_IN_CONTEXT(cuFuncGetAttribute);
    *value = (int)attribute + 100;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
        *value = fake.max_threads;
    if (attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
        *value = fake.static_shared;
    return result;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    FAKE_BEGIN_IN_CONTEXT(cuFuncSetAttribute);
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
        value + fake.static_shared > fake.shared_optin)
        return CUDA_ERROR_INVALID_VALUE;
    function->max_dynamic = value;
    return result;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t shared)
{
    (void)function;
    FAKE_BEGIN_IN_CONTEXT(cuOccupancyMaxActiveBlocksPerMultiprocessor);
    *blocks = 2048 / threads - (shared > 0);
    return result;
}

static CUresult launch(const CUlaunchConfig *config, CUfunction function, void **arguments)
{
    if (function->module->context != fake_current())
        return atomic_fetch_add(&fake.violations, 1), CUDA_ERROR_INVALID_HANDLE;
    if (config->sharedMemBytes > (unsigned)function->max_dynamic)
        return CUDA_ERROR_INVALID_VALUE;
    if (fake_captured(config->hStream, CU_GRAPH_NODE_TYPE_KERNEL))
        return CUDA_SUCCESS;
    if (atomic_fetch_add(&fake.launches, 1) > 0) // threads may launch at once: note the first
        return CUDA_SUCCESS;
    fake.launch = *config;
    for (unsigned i = 0; i < config->numAttrs; i++)
        fake.attributes[i] = config->attrs[i];
    for (int i = 0; i < 4 && arguments && fake.argument_sizes[i]; i++)
        memcpy(fake.arguments[i], arguments[i], fake.argument_sizes[i]);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void **arguments, void **extra)
{
    (void)extra;
    FAKE_BEGIN_ON_STREAM(cuLaunchKernel, stream);
    const CUlaunchConfig config = { grid_x,  grid_y,       grid_z, block_x, block_y,
                                    block_z, shared_bytes, stream, NULL,    0 };
    return launch(&config, function, arguments);
}

#ifndef FAKE_WITHOUT_OPTIONAL
CUresult cuFuncLoad(CUfunction function)
{
    (void)function;
    FAKE_BEGIN_IN_CONTEXT(cuFuncLoad);
    return result;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments,
                          void **extra)
{
    (void)extra;
    FAKE_BEGIN_ON_STREAM(cuLaunchKernelEx, config->hStream);
    return launch(config, function, arguments);
}
#endif
