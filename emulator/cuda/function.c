// SPDX-License-Identifier: MIT
// Functions of modules and kernels of libraries: attributes, parameters, occupancy.
#include "function.h"

#include "calls.h"
#include "library.h"

// Registers are not allocated: every kernel reports this number, which limits nothing.
enum { REGISTERS = 32 };

CUfunction api_function_find(CUfunction handle, CUcontext context, CUresult *result)
{
    CUfunction function = API_FIND(handle, API_FUNCTION);
    CUkernel kernel = API_FIND(handle, API_KERNEL);
    *result = CUDA_ERROR_INVALID_HANDLE;
    if (kernel)
        *result = api_kernel_function(&function, kernel, context ? context : api_current());
    else if (function && (!context || function->object.context == context))
        *result = CUDA_SUCCESS;
    return *result ? NULL : function;
}

int api_function_threads(CUfunction function)
{
    const uint32_t *most = function->entry->max_block;
    uint64_t threads = 1;
    for (int axis = 0; most[0] && axis < 3 && threads < EMU_MAX_THREADS; axis++)
        threads *= most[axis];
    return most[0] && threads < EMU_MAX_THREADS ? (int)threads : EMU_MAX_THREADS;
}

CUresult api_funcGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
    CUresult result = CUDA_SUCCESS;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    CUfunction function = api_function_find(handle, NULL, &result);
    if (!function)
        return result;
    const struct emu_module *program = function->module->program;
    switch ((unsigned)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = api_function_threads(function);
        break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)function->entry->shared_bytes;
        break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        *value = (int)program->const_bytes;
        break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = (int)function->entry->local_bytes;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = REGISTERS;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        *value = program->sm;
        break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = api_gpu()->sm;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = function->max_dynamic;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = function->carveout;
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = function->non_portable;
        break;
    default:
        if ((unsigned)attribute > CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE)
            return CUDA_ERROR_INVALID_VALUE;
        *value = 0;
    }
    return CUDA_SUCCESS;
}

CUresult api_funcSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
    CUresult result = CUDA_SUCCESS;
    CUfunction function = api_function_find(handle, NULL, &result);
    if (!function)
        return result;
    switch ((unsigned)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || value > api_gpu()->shared_optin - (int)function->entry->shared_bytes)
            return CUDA_ERROR_INVALID_VALUE;
        function->max_dynamic = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        function->carveout = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        function->non_portable = value != 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult api_funcSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
    CUresult result = CUDA_SUCCESS;
    CUfunction function = api_function_find(handle, NULL, &result);
    if (function && (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        result = CUDA_ERROR_INVALID_VALUE;
    return result;
}

CUresult api_funcGetModule(CUmodule *module, CUfunction handle)
{
    CUresult result = module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    CUfunction function = module ? api_function_find(handle, NULL, &result) : NULL;
    if (function)
        *module = function->module;
    return result;
}

CUresult api_funcGetName(const char **name, CUfunction handle)
{
    CUresult result = name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    CUfunction function = name ? api_function_find(handle, NULL, &result) : NULL;
    if (function)
        *name = function->entry->name;
    return result;
}

CUresult api_funcGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *bytes)
{
    CUresult result = offset ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    CUfunction function = offset ? api_function_find(handle, NULL, &result) : NULL;
    if (!function)
        return result;
    if (index >= function->entry->param_count)
        return CUDA_ERROR_INVALID_VALUE;
    const struct emu_symbol *symbol =
        &function->module->program->symbols[function->entry->params[index]];
    *offset = (size_t)symbol->offset;
    if (bytes)
        *bytes = (size_t)symbol->bytes;
    return CUDA_SUCCESS;
}

CUresult api_funcLoad(CUfunction handle)
{
    CUresult result = CUDA_SUCCESS;
    api_function_find(handle, NULL, &result);
    return result;
}

int api_function_blocks(CUfunction function, int threads, size_t shared)
{
    if (threads > EMU_MAX_THREADS || shared > (size_t)function->max_dynamic)
        return 0;
    return emu_blocks_per_sm(api_gpu(), (uint64_t)threads,
                             emu_shared_bytes(function->module->program, function->entry, shared));
}

CUresult api_occupancyBlocksFlags(int *blocks, CUfunction handle, int threads, size_t shared,
                                  unsigned flags)
{
    CUresult result = CUDA_SUCCESS;
    CUfunction function = api_function_find(handle, NULL, &result);
    if (!function)
        return result;
    if (!blocks || threads <= 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    *blocks = api_function_blocks(function, threads, shared);
    return CUDA_SUCCESS;
}

CUresult api_occupancyBlocks(int *blocks, CUfunction function, int threads, size_t shared)
{
    return api_occupancyBlocksFlags(blocks, function, threads, shared, 0);
}

/// The threads of a block of i + 1 warps; the last warp may be partial.
static int threads_of(int i, int most)
{
    return (i + 1) * EMU_LANES < most ? (i + 1) * EMU_LANES : most;
}

CUresult api_occupancyBlockSizeFlags(int *grid, int *block, CUfunction handle,
                                     CUoccupancyB2DSize shared_of, size_t shared, int limit,
                                     unsigned flags)
{
    CUresult result = CUDA_SUCCESS;
    CUfunction function = api_function_find(handle, NULL, &result);
    if (!function)
        return result;
    if (!grid || !block || limit < 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    size_t bytes[EMU_MAX_THREADS / EMU_LANES];
    int most = api_function_threads(function), resident = 0;
    if (limit > 0 && limit < most)
        most = limit;
    int warps = (most + EMU_LANES - 1) / EMU_LANES;
    if (shared_of)
        pthread_mutex_unlock(&api_state.lock); // the callback may call the driver
    for (int i = 0; i < warps; i++)
        bytes[i] = shared_of ? shared_of(threads_of(i, most)) : shared;
    if (shared_of) {
        pthread_mutex_lock(&api_state.lock);
        function = api_function_find(handle, NULL, &result);
    }
    if (!function)
        return result;
    *grid = *block = 0;
    for (int i = warps - 1; i >= 0; i--) {
        int threads = threads_of(i, most),
            blocks = api_function_blocks(function, threads, bytes[i]);
        if (blocks * threads <= resident)
            continue;
        resident = blocks * threads;
        *block = threads;
        *grid = blocks * api_state.config.multiprocessors;
    }
    return CUDA_SUCCESS;
}

CUresult api_occupancyBlockSize(int *grid, int *block, CUfunction function,
                                CUoccupancyB2DSize shared_of, size_t shared, int limit)
{
    return api_occupancyBlockSizeFlags(grid, block, function, shared_of, shared, limit, 0);
}

CUresult api_occupancyShared(size_t *bytes, CUfunction handle, int blocks, int threads)
{
    CUresult result = CUDA_SUCCESS;
    CUfunction function = api_function_find(handle, NULL, &result);
    if (!function)
        return result;
    if (!bytes || blocks <= 0 || threads <= 0 || blocks > api_function_blocks(function, threads, 0))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t each = emu_shared_for_blocks(api_gpu(), (uint64_t)blocks);
    uint64_t start = emu_dynamic_start(function->module->program, function->entry);
    each = each > start ? each - start : 0;
    *bytes = each < (uint64_t)function->max_dynamic ? (size_t)each : (size_t)function->max_dynamic;
    return CUDA_SUCCESS;
}

// ---- kernels of libraries -----------------------------------------------------------------------

CUresult api_kernelGetFunction(CUfunction *function, CUkernel handle)
{
    CUkernel kernel = API_FIND(handle, API_KERNEL);
    return kernel ? api_kernel_function(function, kernel, api_current())
                  : CUDA_ERROR_INVALID_HANDLE;
}

CUresult api_kernelGetLibrary(CUlibrary *library, CUkernel handle)
{
    CUkernel kernel = API_FIND(handle, API_KERNEL);
    if (!kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!library)
        return CUDA_ERROR_INVALID_VALUE;
    *library = kernel->library;
    return CUDA_SUCCESS;
}

CUresult api_kernelGetName(const char **name, CUkernel handle)
{
    CUkernel kernel = API_FIND(handle, API_KERNEL);
    if (!kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = kernel->name;
    return CUDA_SUCCESS;
}

CUresult api_kernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
                                CUdevice device)
{
    CUfunction function = NULL;
    CUresult result = api_kernelGetFunction(&function, kernel);
    if (!result && device != 0)
        result = CUDA_ERROR_INVALID_DEVICE;
    return result ? result : api_funcGetAttribute(value, attribute, function);
}

CUresult api_kernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
                                CUdevice device)
{
    CUfunction function = NULL;
    CUresult result = api_kernelGetFunction(&function, kernel);
    if (!result && device != 0)
        result = CUDA_ERROR_INVALID_DEVICE;
    return result ? result : api_funcSetAttribute(function, attribute, value);
}

CUresult api_kernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
    CUfunction function = NULL;
    CUresult result = api_kernelGetFunction(&function, kernel);
    if (!result && device != 0)
        result = CUDA_ERROR_INVALID_DEVICE;
    return result ? result : api_funcSetCacheConfig(function, config);
}

CUresult api_kernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes)
{
    CUfunction function = NULL;
    CUresult result = api_kernelGetFunction(&function, kernel);
    return result ? result : api_funcGetParamInfo(function, index, offset, bytes);
}
