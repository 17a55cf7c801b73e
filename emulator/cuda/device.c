// SPDX-License-Identifier: MIT
// The attributes of the emulated device.
#include "calls.h"
#include "state.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

// ---- attributes ---------------------------------------------------------------------------------

enum { NEWEST_ATTRIBUTE = CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED };

// The attributes that are the same on every device: X(attribute, value). The others are 0.
#define COMMON(X)                                                                                  \
    X(MAX_THREADS_PER_BLOCK, EMU_MAX_THREADS)                                                      \
    X(MAX_BLOCK_DIM_X, EMU_MAX_THREADS)                                                            \
    X(MAX_BLOCK_DIM_Y, EMU_MAX_THREADS)                                                            \
    X(MAX_BLOCK_DIM_Z, EMU_MAX_BLOCK_Z)                                                            \
    X(MAX_GRID_DIM_X, EMU_MAX_GRID_X)                                                              \
    X(MAX_GRID_DIM_Y, EMU_MAX_GRID_YZ)                                                             \
    X(MAX_GRID_DIM_Z, EMU_MAX_GRID_YZ)                                                             \
    X(MAX_SHARED_MEMORY_PER_BLOCK, EMU_SHARED_DEFAULT)                                             \
    X(TOTAL_CONSTANT_MEMORY, EMU_MAX_CONST)                                                        \
    X(WARP_SIZE, EMU_LANES)                                                                        \
    X(MAX_PITCH, INT_MAX)                                                                          \
    X(MAX_REGISTERS_PER_BLOCK, 65536)                                                              \
    X(TEXTURE_ALIGNMENT, 512)                                                                      \
    X(GPU_OVERLAP, 1)                                                                              \
    X(CAN_MAP_HOST_MEMORY, 1)                                                                      \
    X(SURFACE_ALIGNMENT, 512)                                                                      \
    X(CONCURRENT_KERNELS, 1)                                                                       \
    X(ASYNC_ENGINE_COUNT, 1)                                                                       \
    X(UNIFIED_ADDRESSING, 1)                                                                       \
    X(TEXTURE_PITCH_ALIGNMENT, 32)                                                                 \
    X(STREAM_PRIORITIES_SUPPORTED, 1)                                                              \
    X(GLOBAL_L1_CACHE_SUPPORTED, 1)                                                                \
    X(LOCAL_L1_CACHE_SUPPORTED, 1)                                                                 \
    X(MAX_REGISTERS_PER_MULTIPROCESSOR, 65536)                                                     \
    X(MANAGED_MEMORY, 1)                                                                           \
    X(CONCURRENT_MANAGED_ACCESS, 1)                                                                \
    X(COMPUTE_PREEMPTION_SUPPORTED, 1)                                                             \
    X(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1)                                                  \
    X(COOPERATIVE_LAUNCH, 1)                                                                       \
    X(HOST_REGISTER_SUPPORTED, 1)                                                                  \
    X(MEMORY_POOLS_SUPPORTED, 1)                                                                   \
    X(MEM_SYNC_DOMAIN_COUNT, 1)                                                                    \
    X(NUMA_ID, -1)                                                                                 \
    X(HOST_NUMA_ID, -1)
// clang-format on

CUresult api_driverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = api_state.config.driver;
    return CUDA_SUCCESS;
}

CUresult api_deviceGetCount(int *count)
{
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult api_deviceGet(CUdevice *device, int ordinal)
{
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (ordinal != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = 0;
    return CUDA_SUCCESS;
}

/// For a function that writes to `out`.
static CUresult check(const void *out, CUdevice device)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult api_deviceGetName(char *name, int size, CUdevice device)
{
    CUresult result = check(name, device);
    if (!result && size <= 0)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        snprintf(name, (size_t)size, "%s", api_state.config.name);
    return result;
}

CUresult api_deviceGetUuid(CUuuid *uuid, CUdevice device)
{
    CUresult result = check(uuid, device);
    if (!result)
        memcpy(uuid->bytes, "ptxgen-emulator", 16);
    return result;
}

CUresult api_deviceTotalMem(size_t *bytes, CUdevice device)
{
    CUresult result = check(bytes, device);
    if (!result)
        *bytes = (size_t)api_state.config.memory;
    return result;
}

CUresult api_deviceComputeCapability(int *major, int *minor, CUdevice device)
{
    CUresult result = check(major && minor ? major : NULL, device);
    if (!result) {
        *major = api_gpu()->sm / 10;
        *minor = api_gpu()->sm % 10;
    }
    return result;
}

/// The attributes that differ between devices.
static bool own_attribute(unsigned attribute, int *value)
{
    const struct emu_gpu *gpu = api_gpu();
    const struct {
        unsigned attribute;
        int value;
    } own[] = {
        { CU_DEVICE_ATTRIBUTE_CLOCK_RATE, gpu->clock },
        { CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, api_state.config.multiprocessors },
        { CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, gpu->memory_clock },
        { CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, gpu->bus_width },
        { CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, gpu->l2 },
        { CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, gpu->threads_per_sm },
        { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, gpu->sm / 10 },
        { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, gpu->sm % 10 },
        { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, gpu->shared_per_sm },
        { CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO,
          gpu->sm == 70 || gpu->sm == 80 || gpu->sm == 90 || gpu->sm == 100 ? 2 : 64 },
        { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, gpu->shared_optin },
        { CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, gpu->blocks_per_sm },
        { CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, gpu->shared_reserved },
        { CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, gpu->sm >= 90 },
        { CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, api_state.config.pageable },
    };
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (own[i].attribute == attribute) {
            *value = own[i].value;
            return true;
        }
    return false;
}

CUresult api_deviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    CUresult result = check(value, device);
    if (result || own_attribute((unsigned)attribute, value))
        return result;
    switch ((unsigned)attribute) {
#define CASE(name, constant)                                                                       \
    case CU_DEVICE_ATTRIBUTE_##name:                                                               \
        *value = constant;                                                                         \
        return CUDA_SUCCESS;
        COMMON(CASE)
#undef CASE
    default:
        *value = 0;
        return attribute >= 1 && (unsigned)attribute <= NEWEST_ATTRIBUTE ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult api_deviceGetPCIBusId(char *id, int size, CUdevice device)
{
    CUresult result = check(id, device);
    if (!result && size < 13)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        snprintf(id, (size_t)size, "0000:00:00.0");
    return result;
}

CUresult api_deviceGetByPCIBusId(CUdevice *device, const char *id)
{
    // domain:bus:device.function, domain:bus:device, bus:device.function
    static const char *const forms[] = { "%4x:%2x:%2x.%1x%n", "%4x:%2x:%2x%n", "%2x:%2x.%1x%n" };
    bool found = false;
    for (size_t k = 0; device && id && k < sizeof(forms) / sizeof(forms[0]) && !found; k++) {
        unsigned part[4] = { 0 };
        int length = 0;
        // The length is the argument after the parts of the form.
        if (k == 0)
            sscanf(id, forms[k], &part[0], &part[1], &part[2], &part[3], &length);
        else
            sscanf(id, forms[k], &part[0], &part[1], &part[2], &length);
        found = length && !id[length] && !(part[0] | part[1] | part[2] | part[3]);
    }
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult api_deviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    CUresult result = check(can, device ? device : peer);
    if (!result)
        *can = 0;
    return result;
}
