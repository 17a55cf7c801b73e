// SPDX-License-Identifier: MIT
#include "api.h"

#include <stdio.h>
#include <string.h>

// Attributes of every device: X(attribute, value).
// clang-format off
#define COMMON(X)                                                                                  \
    X(1, EMU_MAX_THREADS)                                 /* MAX_THREADS_PER_BLOCK */              \
    X(2, EMU_MAX_THREADS) X(3, EMU_MAX_THREADS) X(4, EMU_MAX_BLOCK_Z)                              \
    X(5, EMU_MAX_GRID_X) X(6, EMU_MAX_GRID_YZ) X(7, EMU_MAX_GRID_YZ)                               \
    X(8, EMU_SHARED_DEFAULT)                              /* MAX_SHARED_MEMORY_PER_BLOCK */        \
    X(9, 65536)       /* TOTAL_CONSTANT_MEMORY */                                                  \
    X(10, 32)         /* WARP_SIZE */                                                              \
    X(11, 2147483647) /* MAX_PITCH */                                                              \
    X(12, 65536)      /* MAX_REGISTERS_PER_BLOCK */                                                \
    X(14, 512)        /* TEXTURE_ALIGNMENT */                                                      \
    X(15, 1)          /* GPU_OVERLAP */                                                            \
    X(17, 0)          /* KERNEL_EXEC_TIMEOUT */                                                    \
    X(18, 0)          /* INTEGRATED */                                                             \
    X(19, 1)          /* CAN_MAP_HOST_MEMORY */                                                    \
    X(20, 0)          /* COMPUTE_MODE */                                                           \
    X(30, 512)        /* SURFACE_ALIGNMENT */                                                      \
    X(31, 1)          /* CONCURRENT_KERNELS */                                                     \
    X(32, 0)          /* ECC_ENABLED */                                                            \
    X(33, 0) X(34, 0) X(50, 0)                            /* PCI */                                \
    X(35, 0)          /* TCC_DRIVER */                                                             \
    X(40, 1)          /* ASYNC_ENGINE_COUNT */                                                     \
    X(41, 1)          /* UNIFIED_ADDRESSING */                                                     \
    X(51, 32)         /* TEXTURE_PITCH_ALIGNMENT */                                                \
    X(78, 1)          /* STREAM_PRIORITIES_SUPPORTED */                                            \
    X(79, 1) X(80, 1)                                     /* L1 caches */                          \
    X(82, 65536)      /* MAX_REGISTERS_PER_MULTIPROCESSOR */                                       \
    X(83, 1)          /* MANAGED_MEMORY */                                                         \
    X(84, 0) X(85, 0)                                     /* MULTI_GPU_BOARD */                    \
    X(86, 0)          /* HOST_NATIVE_ATOMIC_SUPPORTED */                                           \
    X(88, 0)          /* PAGEABLE_MEMORY_ACCESS */                                                 \
    X(89, 1)          /* CONCURRENT_MANAGED_ACCESS */                                              \
    X(90, 1)          /* COMPUTE_PREEMPTION_SUPPORTED */                                           \
    X(91, 1)          /* CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM */                                \
    X(92, 0) X(93, 0) X(94, 0) X(122, 0) X(123, 0)        /* stream memory operations */           \
    X(95, 1)          /* COOPERATIVE_LAUNCH */                                                     \
    X(96, 0)          /* COOPERATIVE_MULTI_DEVICE_LAUNCH */                                        \
    X(98, 0)          /* CAN_FLUSH_REMOTE_WRITES */                                                \
    X(99, 1)          /* HOST_REGISTER_SUPPORTED */                                                \
    X(100, 0) X(101, 0)                                                                            \
    X(102, 0)         /* VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */                                    \
    X(103, 0) X(104, 0) X(105, 0)                         /* shareable handles */                  \
    X(107, 0) X(108, 0) X(109, 0) X(110, 0) X(112, 0) X(113, 0) X(114, 0)                          \
    X(115, 1)         /* MEMORY_POOLS_SUPPORTED: cuMemAllocAsync() */                              \
    X(116, 0) X(117, 0) X(118, 0) X(119, 0) X(121, 0) X(124, 0) X(125, 0) X(126, 1) X(127, 0)      \
    X(128, 0) X(129, 0) X(130, 0) X(131, -1) X(132, 0) X(133, 0) X(134, -1)
// clang-format on

const struct emu_gpu *api_gpu(void)
{
    return emu_gpu_of(api_state.config.sm);
}

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
        *major = api_state.config.sm / 10;
        *minor = api_state.config.sm % 10;
    }
    return result;
}

/// What differs between devices.
static bool own_attribute(unsigned attribute, int *value)
{
    const struct emu_gpu *gpu = api_gpu();
    const struct {
        unsigned attribute;
        int value;
    } own[] = {
        { 13, gpu->clock },
        { 16, api_state.config.multiprocessors },
        { 36, gpu->memory_clock },
        { 37, gpu->bus_width },
        { 38, gpu->l2 },
        { 39, gpu->threads_per_sm },
        { 75, gpu->sm / 10 },
        { 76, gpu->sm % 10 },
        { 81, gpu->shared_per_sm },
        { 87, gpu->sm == 70 || gpu->sm == 80 || gpu->sm == 90 || gpu->sm == 100 ? 2 : 64 },
        { 97, gpu->shared_optin },
        { 106, gpu->blocks_per_sm },
        { 111, gpu->shared_reserved },
        { 120, gpu->sm >= 90 },
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
#define CASE(number, constant)                                                                     \
    case number:                                                                                   \
        *value = constant;                                                                         \
        return CUDA_SUCCESS;
        COMMON(CASE)
#undef CASE
    default: // there are no textures or surfaces
        *value = 0;
        return attribute >= 1 && attribute <= 147 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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
    if (!device || !id || strcmp(id, "0000:00:00.0") != 0)
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
