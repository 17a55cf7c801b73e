// SPDX-License-Identifier: MIT
// Every function that the emulator answers to, one row each:
//
//     X(symbol, name, since, needs, implementation, parameters, arguments)
//
// `symbol` is what the library exports; `name` is what cuGetProcAddress() is asked for, and `since`
// the CUDA version from which on that is this symbol. `needs` is what api_enter() sees to before
// api_<implementation>() is called, with the lock held:
//
//     ANY       nothing                              INIT      cuInit()
//     CURRENT   a current context                    CALLBACK  as CONTEXT, and callbacks may
//     CONTEXT   one in which no kernel has failed    UNSAFE    as CONTEXT, and no capture minds
//     LEGACY    as CONTEXT, and no capture minds the legacy default stream
#ifndef PTXGEN_EMULATOR_CUDA_FUNCTIONS_H
#define PTXGEN_EMULATOR_CUDA_FUNCTIONS_H

#include "functions_work.h"

// clang-format off
#define API_GENERAL(X) \
    X(cuInit, cuInit, 2000, ANY, init, (unsigned flags), (flags)) \
    X(cuDriverGetVersion, cuDriverGetVersion, 2020, ANY, driverGetVersion, \
      (int *version), (version)) \
    X(cuGetErrorName, cuGetErrorName, 6000, ANY, getErrorName, \
      (CUresult result, const char **name), (result, name)) \
    X(cuGetErrorString, cuGetErrorString, 6000, ANY, getErrorString, \
      (CUresult result, const char **text), (result, text)) \
    X(cuGetProcAddress, cuGetProcAddress, 11030, ANY, getProcAddress1, \
      (const char *name, void **function, int version, cuuint64_t flags), (name, function, \
      version, flags)) \
    X(cuGetProcAddress_v2, cuGetProcAddress, 12000, ANY, getProcAddress, \
      (const char *name, void **function, int version, cuuint64_t flags, \
      CUdriverProcAddressQueryResult *status), (name, function, version, flags, status)) \
    X(cuGetExportTable, cuGetExportTable, 3000, ANY, getExportTable, \
      (const void **table, const CUuuid *id), (table, id)) \
    X(cuProfilerStart, cuProfilerStart, 4000, CONTEXT, profilerStart, (void), ()) \
    X(cuProfilerStop, cuProfilerStop, 4000, CONTEXT, profilerStop, (void), ())

#define API_DEVICE(X) \
    X(cuDeviceGetCount, cuDeviceGetCount, 2000, INIT, deviceGetCount, (int *count), (count)) \
    X(cuDeviceGet, cuDeviceGet, 2000, INIT, deviceGet, \
      (CUdevice *device, int ordinal), (device, ordinal)) \
    X(cuDeviceGetName, cuDeviceGetName, 2000, INIT, deviceGetName, \
      (char *name, int size, CUdevice device), (name, size, device)) \
    X(cuDeviceGetUuid, cuDeviceGetUuid, 9020, INIT, deviceGetUuid, \
      (CUuuid *uuid, CUdevice device), (uuid, device)) \
    X(cuDeviceGetUuid_v2, cuDeviceGetUuid, 11040, INIT, deviceGetUuid, \
      (CUuuid *uuid, CUdevice device), (uuid, device)) \
    X(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, INIT, deviceTotalMem, \
      (size_t *bytes, CUdevice device), (bytes, device)) \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, INIT, deviceGetAttribute, \
      (int *value, CUdevice_attribute attribute, CUdevice device), (value, attribute, device)) \
    X(cuDeviceComputeCapability, cuDeviceComputeCapability, 2000, INIT, deviceComputeCapability, \
      (int *major, int *minor, CUdevice device), (major, minor, device)) \
    X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010, INIT, deviceGetPCIBusId, \
      (char *id, int size, CUdevice device), (id, size, device)) \
    X(cuDeviceGetByPCIBusId, cuDeviceGetByPCIBusId, 4010, INIT, deviceGetByPCIBusId, \
      (CUdevice *device, const char *id), (device, id)) \
    X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000, INIT, deviceCanAccessPeer, \
      (int *can, CUdevice device, CUdevice peer), (can, device, peer))

#define API_CONTEXTS(X) \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, INIT, devicePrimaryCtxRetain, \
      (CUcontext *context, CUdevice device), (context, device)) \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, INIT, devicePrimaryCtxRelease, \
      (CUdevice device), (device)) \
    X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, 7000, INIT, devicePrimaryCtxReset, \
      (CUdevice device), (device)) \
    X(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags, 7000, INIT, devicePrimaryCtxSetFlags, \
      (CUdevice device, unsigned flags), (device, flags)) \
    X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, INIT, devicePrimaryCtxRelease, \
      (CUdevice device), (device)) \
    X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 11000, INIT, devicePrimaryCtxReset, \
      (CUdevice device), (device)) \
    X(cuDevicePrimaryCtxSetFlags_v2, cuDevicePrimaryCtxSetFlags, 11000, INIT, devicePrimaryCtxSetFlags, \
      (CUdevice device, unsigned flags), (device, flags)) \
    X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, INIT, devicePrimaryCtxGetState, \
      (CUdevice device, unsigned *flags, int *active), (device, flags, active)) \
    X(cuCtxCreate_v2, cuCtxCreate, 3020, INIT, ctxCreate, \
      (CUcontext *context, unsigned flags, CUdevice device), (context, flags, device)) \
    X(cuCtxCreate_v3, cuCtxCreate, 11040, INIT, ctxCreate3, \
      (CUcontext *context, CUexecAffinityParam *params, int count, unsigned flags, CUdevice \
      device), (context, params, count, flags, device)) \
    X(cuCtxCreate_v4, cuCtxCreate, 12050, INIT, ctxCreate4, \
      (CUcontext *context, CUctxCreateParams *params, unsigned flags, CUdevice device), \
      (context, params, flags, device)) \
    X(cuCtxDestroy_v2, cuCtxDestroy, 4000, INIT, ctxDestroy, (CUcontext context), (context)) \
    X(cuCtxPushCurrent_v2, cuCtxPushCurrent, 4000, INIT, ctxPushCurrent, \
      (CUcontext context), (context)) \
    X(cuCtxPopCurrent_v2, cuCtxPopCurrent, 4000, INIT, ctxPopCurrent, \
      (CUcontext *context), (context)) \
    X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, INIT, ctxSetCurrent, \
      (CUcontext context), (context)) \
    X(cuCtxGetCurrent, cuCtxGetCurrent, 4000, INIT, ctxGetCurrent, \
      (CUcontext *context), (context)) \
    X(cuCtxGetDevice, cuCtxGetDevice, 2000, CURRENT, ctxGetDevice, (CUdevice *device), (device)) \
    X(cuCtxGetFlags, cuCtxGetFlags, 7000, CURRENT, ctxGetFlags, (unsigned *flags), (flags)) \
    X(cuCtxSetFlags, cuCtxSetFlags, 12010, CURRENT, ctxSetFlags, (unsigned flags), (flags)) \
    X(cuCtxGetId, cuCtxGetId, 12000, INIT, ctxGetId, \
      (CUcontext context, unsigned long long *id), (context, id)) \
    X(cuCtxGetApiVersion, cuCtxGetApiVersion, 3020, INIT, ctxGetApiVersion, \
      (CUcontext context, unsigned *version), (context, version)) \
    X(cuCtxSynchronize, cuCtxSynchronize, 2000, CONTEXT, ctxSynchronize, (void), ()) \
    X(cuCtxGetLimit, cuCtxGetLimit, 3010, CONTEXT, ctxGetLimit, \
      (size_t *value, CUlimit limit), (value, limit)) \
    X(cuCtxSetLimit, cuCtxSetLimit, 3010, CONTEXT, ctxSetLimit, \
      (CUlimit limit, size_t value), (limit, value)) \
    X(cuCtxGetCacheConfig, cuCtxGetCacheConfig, 3020, CONTEXT, ctxGetCacheConfig, \
      (CUfunc_cache *config), (config)) \
    X(cuCtxSetCacheConfig, cuCtxSetCacheConfig, 3020, CONTEXT, ctxSetCacheConfig, \
      (CUfunc_cache config), (config)) \
    X(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, 5050, CONTEXT, ctxGetStreamPriorityRange, \
      (int *least, int *greatest), (least, greatest))

#define API_MEMORY(X) \
    X(cuMemGetInfo_v2, cuMemGetInfo, 3020, CONTEXT, memGetInfo, \
      (size_t *available, size_t *total), (available, total)) \
    X(cuMemAlloc_v2, cuMemAlloc, 3020, UNSAFE, memAlloc, \
      (CUdeviceptr *address, size_t bytes), (address, bytes)) \
    X(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, UNSAFE, memAllocPitch, \
      (CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element), \
      (address, pitch, width, height, element)) \
    X(cuMemAllocManaged, cuMemAllocManaged, 6000, UNSAFE, memAllocManaged, \
      (CUdeviceptr *address, size_t bytes, unsigned flags), (address, bytes, flags)) \
    X(cuMemAllocAsync, cuMemAllocAsync, 11020, CONTEXT, memAllocAsync, \
      (CUdeviceptr *address, size_t bytes, CUstream stream), (address, bytes, stream)) \
    X(cuMemFree_v2, cuMemFree, 3020, INIT, memFree, (CUdeviceptr address), (address)) \
    X(cuMemFreeAsync, cuMemFreeAsync, 11020, CONTEXT, memFreeAsync, \
      (CUdeviceptr address, CUstream stream), (address, stream)) \
    X(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020, CONTEXT, memGetAddressRange, \
      (CUdeviceptr *start, size_t *bytes, CUdeviceptr address), (start, bytes, address)) \
    X(cuMemAllocHost_v2, cuMemAllocHost, 3020, UNSAFE, memAllocHost, \
      (void **memory, size_t bytes), (memory, bytes)) \
    X(cuMemHostAlloc, cuMemHostAlloc, 2020, UNSAFE, memHostAlloc, \
      (void **memory, size_t bytes, unsigned flags), (memory, bytes, flags)) \
    X(cuMemFreeHost, cuMemFreeHost, 2000, INIT, memFreeHost, (void *memory), (memory)) \
    X(cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer, 3020, CONTEXT, memHostGetDevicePointer, \
      (CUdeviceptr *address, void *memory, unsigned flags), (address, memory, flags)) \
    X(cuMemHostGetFlags, cuMemHostGetFlags, 2030, CONTEXT, memHostGetFlags, \
      (unsigned *flags, void *memory), (flags, memory)) \
    X(cuMemHostRegister, cuMemHostRegister, 4000, UNSAFE, memHostRegister, \
      (void *memory, size_t bytes, unsigned flags), (memory, bytes, flags)) \
    X(cuMemHostRegister_v2, cuMemHostRegister, 6050, UNSAFE, memHostRegister, \
      (void *memory, size_t bytes, unsigned flags), (memory, bytes, flags)) \
    X(cuMemHostUnregister, cuMemHostUnregister, 4000, UNSAFE, memHostUnregister, \
      (void *memory), (memory)) \
    X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, INIT, pointerGetAttribute, \
      (void *data, CUpointer_attribute attribute, CUdeviceptr address), (data, attribute, \
      address)) \
    X(cuPointerGetAttributes, cuPointerGetAttributes, 7000, INIT, pointerGetAttributes, \
      (unsigned count, CUpointer_attribute *attributes, void **data, CUdeviceptr address), \
      (count, attributes, data, address))

#define API_COPIES(X) \
    X(cuMemcpy, cuMemcpy, 4000, LEGACY, memcpy, \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes)) \
    X(cuMemcpyAsync, cuMemcpyAsync, 4000, CONTEXT, memcpyAsync, \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, \
      stream)) \
    X(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, LEGACY, memcpyHtoD, \
      (CUdeviceptr to, const void *from, size_t bytes), (to, from, bytes)) \
    X(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, LEGACY, memcpyDtoH, \
      (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes)) \
    X(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, LEGACY, memcpyDtoD, \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes)) \
    X(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020, CONTEXT, memcpyHtoDAsync, \
      (CUdeviceptr to, const void *from, size_t bytes, CUstream stream), (to, from, bytes, \
      stream)) \
    X(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020, CONTEXT, memcpyDtoHAsync, \
      (void *to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, stream)) \
    X(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020, CONTEXT, memcpyDtoDAsync, \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream), (to, from, bytes, \
      stream)) \
    X(cuMemcpy2D_v2, cuMemcpy2D, 3020, LEGACY, memcpy2D, (const CUDA_MEMCPY2D *copy), (copy)) \
    X(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned, 3020, LEGACY, memcpy2D, \
      (const CUDA_MEMCPY2D *copy), (copy)) \
    X(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020, CONTEXT, memcpy2DAsync, \
      (const CUDA_MEMCPY2D *copy, CUstream stream), (copy, stream)) \
    X(cuMemcpy3D_v2, cuMemcpy3D, 3020, LEGACY, memcpy3D, (const CUDA_MEMCPY3D *copy), (copy)) \
    X(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, 3020, CONTEXT, memcpy3DAsync, \
      (const CUDA_MEMCPY3D *copy, CUstream stream), (copy, stream)) \
    X(cuMemsetD8_v2, cuMemsetD8, 3020, LEGACY, memsetD8, \
      (CUdeviceptr to, unsigned char value, size_t count), (to, value, count)) \
    X(cuMemsetD8Async, cuMemsetD8Async, 3020, CONTEXT, memsetD8Async, \
      (CUdeviceptr to, unsigned char value, size_t count, CUstream stream), (to, value, count, \
      stream)) \
    X(cuMemsetD2D8_v2, cuMemsetD2D8, 3020, LEGACY, memsetD2D8, \
      (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height), (to, \
      pitch, value, width, height)) \
    X(cuMemsetD2D8Async, cuMemsetD2D8Async, 3020, CONTEXT, memsetD2D8Async, \
      (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, \
      CUstream stream), (to, pitch, value, width, height, stream)) \
    X(cuMemsetD16_v2, cuMemsetD16, 3020, LEGACY, memsetD16, \
      (CUdeviceptr to, unsigned short value, size_t count), (to, value, count)) \
    X(cuMemsetD16Async, cuMemsetD16Async, 3020, CONTEXT, memsetD16Async, \
      (CUdeviceptr to, unsigned short value, size_t count, CUstream stream), (to, value, \
      count, stream)) \
    X(cuMemsetD2D16_v2, cuMemsetD2D16, 3020, LEGACY, memsetD2D16, \
      (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height), (to, \
      pitch, value, width, height)) \
    X(cuMemsetD2D16Async, cuMemsetD2D16Async, 3020, CONTEXT, memsetD2D16Async, \
      (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, \
      CUstream stream), (to, pitch, value, width, height, stream)) \
    X(cuMemsetD32_v2, cuMemsetD32, 3020, LEGACY, memsetD32, \
      (CUdeviceptr to, unsigned value, size_t count), (to, value, count)) \
    X(cuMemsetD32Async, cuMemsetD32Async, 3020, CONTEXT, memsetD32Async, \
      (CUdeviceptr to, unsigned value, size_t count, CUstream stream), (to, value, count, \
      stream)) \
    X(cuMemsetD2D32_v2, cuMemsetD2D32, 3020, LEGACY, memsetD2D32, \
      (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height), (to, pitch, \
      value, width, height)) \
    X(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020, CONTEXT, memsetD2D32Async, \
      (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height, CUstream \
      stream), (to, pitch, value, width, height, stream))

#define API_FUNCTIONS(X) \
    API_GENERAL(X) API_DEVICE(X) API_CONTEXTS(X) API_MEMORY(X) API_COPIES(X) API_STREAMS(X) \
    API_EVENTS(X) API_MODULES(X) API_LAUNCH(X) API_GRAPHS(X)
// clang-format on

#endif
