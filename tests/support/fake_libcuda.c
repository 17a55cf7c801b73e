// SPDX-License-Identifier: MIT
/// A libcuda for tests of the driver layer. Contexts, memory, streams and captures follow CUDA's
/// rules; launches are recorded, and do nothing. It is what the emulator cannot be: two GPUs, an
/// old driver, a driver that lacks functions, a driver that records its arguments.
///
/// Built in several versions: FAKE_STUB is the toolkit's stub, FAKE_WITHOUT_OPTIONAL an old driver,
/// FAKE_WITHOUT_REQUIRED no driver at all.
#include "fake_libcuda_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_cuda fake;
CUstream fake_captures[FAKE_CAPTURES];
_Thread_local CUstreamCaptureMode fake_thread_mode;

static struct CUctx_st primary[FAKE_DEVICES];
static _Thread_local CUcontext stack[FAKE_DEPTH];
static _Thread_local int depth;

CUcontext fake_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

void fake_count(void)
{
    atomic_fetch_add(&fake.calls, 1);
}

void *fake_create(size_t size)
{
    atomic_fetch_add(&fake.alive, 1);
    return calloc(1, size ? size : 1);
}

void fake_destroy(void *object)
{
    atomic_fetch_sub(&fake.alive, 1);
    free(object);
}

// --------------------------------------------------------------------------------------- control

static void reset(void)
{
    struct fake_cuda reins = fake;
    memset(&fake, 0, sizeof(fake));
    fake.reset = reins.reset;
    fake.context_depth = reins.context_depth;
    fake.context_pop = reins.context_pop;
    fake.capture_mode = reins.capture_mode;
    fake.context_create = reins.context_create;
    fake.stream_create = reins.stream_create;
    fake.capture_begin = reins.capture_begin;
    fake.capture_end = reins.capture_end;
    fake.capture_status = reins.capture_status;
    fake.capture_spoil = reins.capture_spoil;
    fake.capture_mode_of = reins.capture_mode_of;
    fake.device_count = 2;
    fake.driver_version = 12040;
    fake.sm = 90;
    fake.shared_optin = 232448;
    fake.block_threads = 512;
    fake.cooperative = 1;
    for (int i = 0; i < FAKE_DEVICES; i++)
        primary[i].device = i;
}

static int context_depth(void)
{
    return depth;
}

static void context_pop(void)
{
    depth--;
}

static CUstreamCaptureMode capture_mode(void)
{
    return fake_thread_mode;
}

static CUcontext context_create(CUdevice device)
{
    CUcontext context = calloc(1, sizeof(*context));
    context->device = device;
    stack[depth++] = context;
    return context;
}

static CUstream stream_create(CUcontext context, bool blocking)
{
    CUstream stream = calloc(1, sizeof(*stream));
    stream->context = context;
    stream->blocking = blocking;
    return stream;
}

static void capture_begin(CUstream stream, CUstreamCaptureMode mode)
{
    stream->status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    stream->mode = mode;
    stream->node_count = 0;
    for (int i = 0; i < FAKE_CAPTURES; i++)
        if (!fake_captures[i]) {
            fake_captures[i] = stream;
            return;
        }
}

static CUstreamCaptureStatus capture_end(CUstream stream)
{
    CUstreamCaptureStatus status = stream->status;
    stream->status = CU_STREAM_CAPTURE_STATUS_NONE;
    for (int i = 0; i < FAKE_CAPTURES; i++)
        if (fake_captures[i] == stream)
            fake_captures[i] = NULL;
    return status;
}

static CUstreamCaptureStatus capture_status(CUstream stream)
{
    return stream->status;
}

static CUstreamCaptureMode capture_mode_of(CUstream stream)
{
    return stream->mode;
}

static void capture_spoil(CUstream stream)
{
    stream->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

struct fake_cuda *fake_cuda(void)
{
    if (!fake.reset) {
        fake.reset = reset;
        fake.context_depth = context_depth;
        fake.context_pop = context_pop;
        fake.capture_mode = capture_mode;
        fake.context_create = context_create;
        fake.stream_create = stream_create;
        fake.capture_begin = capture_begin;
        fake.capture_end = capture_end;
        fake.capture_status = capture_status;
        fake.capture_spoil = capture_spoil;
        fake.capture_mode_of = capture_mode_of;
        reset();
    }
    return &fake;
}

// --------------------------------------------------------------------------- library and devices

CUresult cuInit(unsigned flags)
{
    (void)flags;
#ifdef FAKE_STUB
    return CUDA_ERROR_STUB_LIBRARY;
#endif
    fake_cuda();
    fake_count();
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    fake_count();
    *version = fake.driver_version;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult code, const char **name)
{
#ifdef FAKE_STUB
    return CUDA_ERROR_STUB_LIBRARY;
#endif
    switch (code) {
#define NAME(constant, value, text)                                                                \
    case constant:                                                                                 \
        *name = #constant;                                                                         \
        return CUDA_SUCCESS;
        CUDA_ABI_RESULTS(NAME)
#undef NAME
    }
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **text)
{
    *text = "the fake libcuda has no descriptions";
    return code == CUDA_ERROR_STUB_LIBRARY ? CUDA_ERROR_STUB_LIBRARY : CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    fake_count();
    *count = fake.device_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    fake_count();
    *device = ordinal;
    return ordinal < 0 || ordinal >= fake.device_count ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    fake_count();
    snprintf(name, (size_t)size, "Fake GPU %d", device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    (void)device;
    fake_count();
    *bytes = (size_t)1 << 30;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    fake_count();
    // An attribute without a case has its own number as its value, so that mixed-up attributes
    // show.
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = fake.sm / 10;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = fake.sm % 10;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        *value = 1024;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        *value = 64;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
        *value = 2147483647;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        *value = 65535;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        *value = 49152;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = fake.shared_optin;
        break;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
        *value = fake.cooperative;
        break;
    default:
        *value = (int)attribute;
    }
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    fake_count();
    atomic_fetch_add(&primary[device].retained, 1);
    atomic_fetch_add(&fake.alive, 1);
    *context = &primary[device];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    fake_count();
    if (atomic_fetch_sub(&primary[device].retained, 1) <= 0)
        atomic_fetch_add(&fake.violations, 1);
    atomic_fetch_sub(&fake.alive, 1);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    fake_count();
    *context = fake_current();
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    fake_count();
    if (!context || depth == FAKE_DEPTH)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    fake_count();
    if (depth == 0)
        return atomic_fetch_add(&fake.violations, 1), CUDA_ERROR_INVALID_CONTEXT;
    *context = stack[--depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    FAKE_IN_CONTEXT();
    *device = fake_current()->device;
    return CUDA_SUCCESS;
}
