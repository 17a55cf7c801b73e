// SPDX-License-Identifier: MIT
#include "calls.h"
#include "capturing.h"
#include "event.h"
#include "memory.h"
#include "module.h"
#include "stream.h"

#include <stdlib.h>

enum { FLAGS = 0xff, API_VERSION = 3020 };

enum { LIMITS = 9, NO_LIMIT = 3 };

static const size_t default_limits[LIMITS] = { 1024, 8650752, 8388608, 0, 2048, 64, 11796480 };

static void start(CUcontext context, unsigned flags)
{
    context->alive = true;
    context->flags = flags;
    context->id = api_new_id();
    context->cache = CU_FUNC_CACHE_PREFER_NONE;
    for (int i = 0; i < LIMITS; i++)
        context->limits[i] = default_limits[i];
    context->heap = (struct emu_heap) { .limit = context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] };
    context->limits[CU_LIMIT_SHMEM_SIZE] = (size_t)api_gpu()->shared_optin;
    api_object_add(&context->object, API_CONTEXT, (uint64_t)(uintptr_t)context, NULL);
}

static void free_object(struct api_object *object)
{
    switch (object->kind) {
    case API_STREAM:
    case API_DEFAULT_STREAM:
        api_stream_free((CUstream)object);
        break;
    case API_EVENT:
        api_event_free((CUevent)object);
        break;
    case API_MODULE:
        api_module_retire((CUmodule)object);
        api_module_release((CUmodule)object);
        break;
    default:
        api_memory_free(object);
    }
}

/// Frees everything that belongs to the context. The handle remains known as a dead one.
static void stop(CUcontext context)
{
    api_drain();
    for (struct api_capture *capture = api_state.captures, *next; capture; capture = next) {
        next = capture->next;
        if (capture->context == context)
            api_capture_end(capture, NULL);
    }
    for (struct api_object *object; (object = api_object_of(context));)
        free_object(object);
    emu_heap_clear(api_state.memory, &context->heap);
    context->legacy = NULL;
    context->threads = NULL;
    context->alive = false;
    // An error of a GPU outlives its context. Here it does not, so that one does not lose a run.
    if (api_state.failed == context) {
        api_state.failed = NULL;
        atomic_store(&api_state.error, CUDA_SUCCESS);
    }
}

static CUcontext context_of(CUcontext context)
{
    return context ? API_FIND(context, API_CONTEXT) : api_current();
}

CUresult api_devicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    CUcontext primary = &api_state.primary;
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult error = atomic_load(&api_state.error);
    if (error && !primary->alive)
        return error;
    if (!primary->alive) {
        api_object_remove(&primary->object);
        primary->primary = true;
        start(primary, primary->flags);
    }
    primary->references++;
    *context = primary;
    return CUDA_SUCCESS;
}

CUresult api_devicePrimaryCtxRelease(CUdevice device)
{
    CUcontext primary = &api_state.primary;
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (primary->references == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary->references == 0 && primary->alive)
        stop(primary);
    return CUDA_SUCCESS;
}

CUresult api_devicePrimaryCtxReset(CUdevice device)
{
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (api_state.primary.alive)
        stop(&api_state.primary);
    return CUDA_SUCCESS;
}

CUresult api_devicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags & ~(unsigned)FLAGS)
        return CUDA_ERROR_INVALID_VALUE;
    api_state.primary.flags = flags;
    return CUDA_SUCCESS;
}

CUresult api_devicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = api_state.primary.flags;
    *active = api_state.primary.alive;
    return CUDA_SUCCESS;
}

CUresult api_ctxCreate(CUcontext *context, unsigned flags, CUdevice device)
{
    if (!context || flags & ~(unsigned)FLAGS)
        return CUDA_ERROR_INVALID_VALUE;
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (atomic_load(&api_state.error))
        return atomic_load(&api_state.error);
    CUcontext made = calloc(1, sizeof(*made));
    if (!made || api_thread.depth >= API_MAX_DEPTH - 1) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    start(made, flags);
    api_thread.stack[api_thread.depth++] = made;
    *context = made;
    return CUDA_SUCCESS;
}

CUresult api_ctxCreate3(CUcontext *context, CUexecAffinityParam *params, int count, unsigned flags,
                        CUdevice device)
{
    if (params || count)
        return api_refuse(CUDA_ERROR_NOT_SUPPORTED,
                          "the emulator does not support execution affinity");
    return api_ctxCreate(context, flags, device);
}

CUresult api_ctxCreate4(CUcontext *context, CUctxCreateParams *params, unsigned flags,
                        CUdevice device)
{
    if (params && (params->execAffinityParams || params->cigParams))
        return api_refuse(CUDA_ERROR_NOT_SUPPORTED,
                          "the emulator supports neither execution affinity nor CIG contexts");
    return api_ctxCreate(context, flags, device);
}

CUresult api_ctxDestroy(CUcontext context)
{
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    CUcontext found = API_FIND(context, API_CONTEXT);
    if (!found || found->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!found->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    stop(found);
    if (api_current() == found)
        api_thread.depth--;
    return CUDA_SUCCESS;
}

CUresult api_ctxPushCurrent(CUcontext context)
{
    if (!context || api_thread.depth >= API_MAX_DEPTH - 1)
        return CUDA_ERROR_INVALID_VALUE;
    CUcontext found = API_FIND(context, API_CONTEXT);
    if (!found)
        return CUDA_ERROR_INVALID_CONTEXT;
    api_thread.stack[api_thread.depth++] = found;
    return CUDA_SUCCESS;
}

CUresult api_ctxPopCurrent(CUcontext *context)
{
    if (api_thread.depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context)
        *context = api_current();
    api_thread.depth--;
    return CUDA_SUCCESS;
}

CUresult api_ctxSetCurrent(CUcontext context)
{
    if (!context) {
        api_thread.depth -= api_thread.depth > 0;
        return CUDA_SUCCESS;
    }
    CUcontext found = API_FIND(context, API_CONTEXT);
    if (!found)
        return CUDA_ERROR_INVALID_CONTEXT;
    api_thread.depth += api_thread.depth == 0;
    api_thread.stack[api_thread.depth - 1] = found;
    return CUDA_SUCCESS;
}

CUresult api_ctxGetCurrent(CUcontext *context)
{
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    *context = api_current();
    return CUDA_SUCCESS;
}

CUresult api_ctxGetDevice(CUdevice *device)
{
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult api_ctxGetFlags(unsigned *flags)
{
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = api_current()->flags;
    return CUDA_SUCCESS;
}

CUresult api_ctxSetFlags(unsigned flags)
{
    if (flags & ~(unsigned)FLAGS)
        return CUDA_ERROR_INVALID_VALUE;
    api_current()->flags = flags;
    return CUDA_SUCCESS;
}

CUresult api_ctxGetId(CUcontext context, unsigned long long *id)
{
    CUcontext found = context_of(context);
    if (!id)
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!found->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *id = found->id;
    return CUDA_SUCCESS;
}

CUresult api_ctxGetApiVersion(CUcontext context, unsigned *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    if (!context_of(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    *version = API_VERSION;
    return CUDA_SUCCESS;
}

CUresult api_ctxSynchronize(void)
{
    CUresult result = CUDA_SUCCESS;
    for (struct api_capture *capture = api_state.captures; capture; capture = capture->next)
        if (capture->context == api_current())
            result = api_capture_fail(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (result)
        return result;
    api_drain();
    return atomic_load(&api_state.error);
}

static bool known_limit(CUlimit limit)
{
    return (unsigned)limit < LIMITS && (unsigned)limit != NO_LIMIT;
}

CUresult api_ctxGetLimit(size_t *value, CUlimit limit)
{
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (!known_limit(limit))
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = api_current()->limits[limit];
    return CUDA_SUCCESS;
}

CUresult api_ctxSetLimit(CUlimit limit, size_t value)
{
    if (!known_limit(limit))
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE) {
        if (api_current()->heap.in_use)
            return CUDA_ERROR_INVALID_VALUE;
        api_current()->heap.limit = value;
    }
    api_current()->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult api_ctxGetCacheConfig(CUfunc_cache *config)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    *config = api_current()->cache;
    return CUDA_SUCCESS;
}

CUresult api_ctxSetCacheConfig(CUfunc_cache config)
{
    if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUDA_ERROR_INVALID_VALUE;
    api_current()->cache = config;
    return CUDA_SUCCESS;
}

CUresult api_ctxGetStreamPriorityRange(int *least, int *greatest)
{
    if (least)
        *least = 0;
    if (greatest)
        *greatest = API_GREATEST_PRIORITY;
    return CUDA_SUCCESS;
}
