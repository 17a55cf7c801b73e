// SPDX-License-Identifier: MIT
/// The working half of the libcuda without a GPU: memory, streams, modules, launches.
#include "fake_libcuda_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUevent_st {
    int time;
};

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

static atomic_int clock_ticks;

CUresult fake_unsafe_call(void)
{
    if (fake_thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    for (int i = 0; i < FAKE_CAPTURES; i++)
        if (fake_captures[i] && fake_captures[i]->mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
            fake_captures[i]->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return CUDA_SUCCESS;
}

// ---------------------------------------------------------------------------------------- memory

CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    FAKE_BEGIN_IN_CONTEXT(cuMemGetInfo_v2);
    *available = 1000;
    *total = 2000;
    return result;
}

#ifndef FAKE_WITHOUT_REQUIRED
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    FAKE_BEGIN_IN_CONTEXT(cuMemAlloc_v2);
    if ((result = fake_unsafe_call()) == CUDA_SUCCESS)
        *address = (CUdeviceptr)(uintptr_t)fake_create(bytes);
    return result;
}
#endif

CUresult cuMemFree_v2(CUdeviceptr address)
{
    FAKE_RELEASE(cuMemFree_v2);
    fake_unsafe_call();
    fake_destroy((void *)(uintptr_t)address);
    return result;
}

CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    FAKE_BEGIN_IN_CONTEXT(cuMemHostAlloc);
    if ((result = fake_unsafe_call()) == CUDA_SUCCESS)
        *memory = fake_create(bytes);
    return result;
}

CUresult cuMemFreeHost(void *memory)
{
    FAKE_RELEASE(cuMemFreeHost);
    fake_unsafe_call();
    fake_destroy(memory);
    return result;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    FAKE_BEGIN_IN_CONTEXT(cuMemcpyHtoDAsync_v2);
    if (!fake_captured(stream, CU_GRAPH_NODE_TYPE_MEMCPY))
        memcpy((void *)(uintptr_t)to, from, bytes);
    return result;
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    FAKE_BEGIN_IN_CONTEXT(cuMemcpyDtoHAsync_v2);
    if (!fake_captured(stream, CU_GRAPH_NODE_TYPE_MEMCPY))
        memcpy(to, (void *)(uintptr_t)from, bytes);
    return result;
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    FAKE_BEGIN_IN_CONTEXT(cuMemcpyDtoDAsync_v2);
    if (!fake_captured(stream, CU_GRAPH_NODE_TYPE_MEMCPY))
        memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
    return result;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    FAKE_BEGIN_IN_CONTEXT(cuMemsetD8Async);
    if (!fake_captured(stream, CU_GRAPH_NODE_TYPE_MEMSET))
        memset((void *)(uintptr_t)to, value, bytes);
    return result;
}

// ------------------------------------------------------------------------------ streams and events

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    FAKE_BEGIN_IN_CONTEXT(cuStreamCreate);
    *stream = fake_create(sizeof(**stream));
    (*stream)->context = fake_current();
    (*stream)->blocking = flags != CU_STREAM_NON_BLOCKING;
    return result;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    FAKE_RELEASE(cuStreamDestroy_v2);
    fake_destroy(stream);
    return result;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    (void)stream;
    FAKE_BEGIN_IN_CONTEXT(cuStreamSynchronize);
    return fake_unsafe_call();
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    FAKE_BEGIN_IN_CONTEXT(cuStreamIsCapturing);
    for (int i = 0; i < FAKE_CAPTURES && !stream; i++)
        if (fake_captures[i] && fake_captures[i]->blocking &&
            fake_captures[i]->context == fake_current())
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = stream ? stream->status : CU_STREAM_CAPTURE_STATUS_NONE;
    return result;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)stream;
    (void)event;
    (void)flags;
    FAKE_BEGIN_IN_CONTEXT(cuStreamWaitEvent);
    return result;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    FAKE_RELEASE(cuThreadExchangeStreamCaptureMode);
    // Only the way back is sure to work even if it reports an error.
    if (result == CUDA_SUCCESS || fake_thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
        CUstreamCaptureMode old = fake_thread_mode;
        fake_thread_mode = *mode;
        *mode = old;
    }
    return result;
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    FAKE_BEGIN_IN_CONTEXT(cuEventCreate);
    *event = fake_create(sizeof(**event));
    return result;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    FAKE_RELEASE(cuEventDestroy_v2);
    fake_destroy(event);
    return result;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    (void)stream;
    FAKE_BEGIN_IN_CONTEXT(cuEventRecord);
    event->time = atomic_fetch_add(&clock_ticks, 1) + 1;
    return result;
}

CUresult cuEventSynchronize(CUevent event)
{
    (void)event;
    FAKE_BEGIN_IN_CONTEXT(cuEventSynchronize);
    return fake_unsafe_call();
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    FAKE_BEGIN_IN_CONTEXT(cuEventElapsedTime);
    *milliseconds = (float)(end->time - start->time);
    return start->time && end->time ? result : CUDA_ERROR_INVALID_HANDLE;
}

// ------------------------------------------------------------------------------ modules and
// kernels

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

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned option_count,
                            CUjit_option *options, void **values)
{
    CUresult result = fake_step("cuModuleLoadDataEx");
    if (result == CUDA_SUCCESS && !fake_current())
        return atomic_fetch_add(&fake.violations, 1), CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS)
        result = fake_unsafe_call();
    if (fake.jit_error_log || fake.jit_info_log ||
        option_count > 4) { // else threads may load at once
        fake.option_count = option_count;
        memcpy(fake.options, options, option_count * sizeof(*options));
        memcpy(fake.values, values, option_count * sizeof(*values));
        write_log(CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, fake.jit_error_log);
        write_log(CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, fake.jit_info_log);
    }
    if (result != CUDA_SUCCESS)
        return result;
    *module = fake_create(sizeof(**module) + strlen(image) + 1);
    (*module)->context = fake_current();
    strcpy((*module)->text, image);
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
    FAKE_BEGIN_IN_CONTEXT(cuLaunchKernel);
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
    FAKE_BEGIN_IN_CONTEXT(cuLaunchKernelEx);
    return launch(config, function, arguments);
}
#endif
