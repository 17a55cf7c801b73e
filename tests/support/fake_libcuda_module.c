// SPDX-License-Identifier: MIT
/// Modules and launches of the fake libcuda.
#include "fake_libcuda_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUmod_st {
    CUcontext context;
    struct CUfunc_st *functions;
    char text[];
};

struct CUfunc_st {
    struct CUfunc_st *next;
    CUmodule module;
    int max_dynamic;
};

static void note_options(unsigned option_count, const CUjit_option *options, void **values)
{
    fake.option_count = option_count;
    memcpy(fake.options, options, option_count * sizeof(*options));
    memcpy(fake.values, values, option_count * sizeof(*values));
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned option_count,
                            CUjit_option *options, void **values)
{
    FAKE_IN_CONTEXT();
    const CUresult result = fake_unsafe_call();
    if (result != CUDA_SUCCESS)
        return result;
    const char *text = image;
    *module = fake_create(sizeof(**module) + strlen(text) + 1);
    (*module)->context = fake_current();
    strcpy((*module)->text, text);
    if (atomic_fetch_add(&fake.loads, 1) ==
        0) // threads may load at the same time: record the first
        note_options(option_count, options, values);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    fake_count();
    fake_unsafe_call();
    while (module->functions) {
        CUfunction next = module->functions->next;
        free(module->functions);
        module->functions = next;
    }
    fake_destroy(module);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    FAKE_IN_CONTEXT();
    char declaration[256];
    snprintf(declaration, sizeof(declaration), ".visible .entry %s", name);
    if (!strstr(module->text, declaration))
        return CUDA_ERROR_NOT_FOUND;
    *function = calloc(1, sizeof(**function));
    (*function)->next = module->functions;
    (*function)->module = module;
    (*function)->max_dynamic = 49152;
    module->functions = *function;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
                              const char *name)
{
    FAKE_IN_CONTEXT();
    const char *found = strstr(module->text, name);
    if (!found)
        return CUDA_ERROR_NOT_FOUND;
    *address = (CUdeviceptr)(uintptr_t)found;
    *bytes = 8;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    (void)function;
    FAKE_IN_CONTEXT();
    *value = (int)attribute + 100;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
        *value = fake.block_threads;
    if (attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
        *value = fake.static_shared;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    FAKE_IN_CONTEXT();
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
        value + fake.static_shared > fake.shared_optin)
        return CUDA_ERROR_INVALID_VALUE;
    function->max_dynamic = value;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t shared)
{
    (void)function;
    FAKE_IN_CONTEXT();
    *blocks = 2048 / threads - (shared > 0);
    return CUDA_SUCCESS;
}

static CUresult launch(const CUlaunchConfig *config, CUfunction function, void **arguments)
{
    if (function->module->context != fake_current())
        return atomic_fetch_add(&fake.violations, 1), CUDA_ERROR_INVALID_HANDLE;
    if (config->sharedMemBytes > (unsigned)function->max_dynamic)
        return CUDA_ERROR_INVALID_VALUE;
    if (fake_captured(config->hStream, CU_GRAPH_NODE_TYPE_KERNEL))
        return CUDA_SUCCESS;
    if (atomic_fetch_add(&fake.launches, 1) >
        0) // threads may launch at the same time: record the first
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
    FAKE_ON_STREAM(stream);
    const CUlaunchConfig config = { grid_x,  grid_y,       grid_z, block_x, block_y,
                                    block_z, shared_bytes, stream, NULL,    0 };
    return launch(&config, function, arguments);
}

#ifndef FAKE_WITHOUT_OPTIONAL
CUresult cuFuncLoad(CUfunction function)
{
    (void)function;
    FAKE_IN_CONTEXT();
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments,
                          void **extra)
{
    (void)extra;
    FAKE_ON_STREAM(config->hStream);
    return launch(config, function, arguments);
}
#endif
