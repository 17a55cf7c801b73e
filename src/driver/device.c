// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L // getpid
#include "internal.h"

#include <stdlib.h>
#include <unistd.h>

/// The newest PTX ISA for each CUDA version of the driver, newest first.
static const struct {
    int driver, isa;
} newest_isa[] = {
    { 13050, 95 }, { 13040, 94 }, { 13030, 93 }, { 13020, 92 }, { 13010, 91 }, { 13000, 90 },
    { 12090, 88 }, { 12080, 87 }, { 12070, 86 }, { 12050, 85 }, { 12040, 84 }, { 12030, 83 },
    { 12020, 82 }, { 12010, 81 }, { 12000, 80 }, { 11080, 78 }, { 11070, 77 }, { 11060, 76 },
    { 11050, 75 }, { 11040, 74 }, { 11030, 73 }, { 11020, 72 }, { 11010, 71 }, { 11000, 70 },
};

// X(field of ptx_device_info, device attribute)
#define DEVICE_FACTS(X)                                                                            \
    X(multiprocessors, MULTIPROCESSOR_COUNT)                                                       \
    X(warp_size, WARP_SIZE)                                                                        \
    X(l2_cache, L2_CACHE_SIZE)                                                                     \
    X(max_grid[0], MAX_GRID_DIM_X)                                                                 \
    X(max_grid[1], MAX_GRID_DIM_Y)                                                                 \
    X(max_grid[2], MAX_GRID_DIM_Z)                                                                 \
    X(max_block[0], MAX_BLOCK_DIM_X)                                                               \
    X(max_block[1], MAX_BLOCK_DIM_Y)                                                               \
    X(max_block[2], MAX_BLOCK_DIM_Z)                                                               \
    X(max_threads_per_block, MAX_THREADS_PER_BLOCK)                                                \
    X(max_threads_per_sm, MAX_THREADS_PER_MULTIPROCESSOR)                                          \
    X(shared_per_block, MAX_SHARED_MEMORY_PER_BLOCK)                                               \
    X(shared_per_block_optin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)                                   \
    X(shared_per_sm, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)                                         \
    X(registers_per_block, MAX_REGISTERS_PER_BLOCK)                                                \
    X(cooperative_launch, COOPERATIVE_LAUNCH)                                                      \
    X(memory_clock, MEMORY_CLOCK_RATE)                                                             \
    X(memory_bus_width, GLOBAL_MEMORY_BUS_WIDTH)

static ptx_status read_info(ptx_device *device)
{
    const struct ptxd_library *library = &device->library;
    struct ptx_device_info *info = &device->info;
    info->library_path = library->path;
    info->driver_version = library->version;
    for (size_t i = 0; i < sizeof(newest_isa) / sizeof(newest_isa[0]) && !info->isa; i++)
        if (library->version >= newest_isa[i].driver)
            info->isa = newest_isa[i].isa;

    ptx_status status = PTXD_CALL(library, "ask for the GPU's name", cuDeviceGetName, info->name,
                                  (int)sizeof(info->name), device->device);
    if (!status)
        status = PTXD_CALL(library, "ask for the size of memory", cuDeviceTotalMem_v2,
                           &info->memory, device->device);
    int major = 0;
    int minor = 0;
#define READ(field, attribute)                                                                     \
    if (!status)                                                                                   \
        status = PTXD_CALL(library, "ask for the GPU's " #attribute, cuDeviceGetAttribute,         \
                           &(field), CU_DEVICE_ATTRIBUTE_##attribute, device->device);
#define READ_INFO(field, attribute) READ(info->field, attribute)
    READ(major, COMPUTE_CAPABILITY_MAJOR)
    READ(minor, COMPUTE_CAPABILITY_MINOR)
    DEVICE_FACTS(READ_INFO)
    info->sm = 10 * major + minor;
    return status;
}

/// Finds the GPU of device->context, which is the caller's.
static ptx_status find_device_of_context(ptx_device *device)
{
    struct ptxd_scope scope;
    ptx_status status = ptxd_enter(&scope, device, "ptx_device_open");
    if (status)
        return status;
    status =
        PTXD_CALL(&device->library, "ask for the context's GPU", cuCtxGetDevice, &device->device);
    return ptxd_leave(&scope, status);
}

static ptx_status count_devices(const struct ptxd_library *library, int *count)
{
    *count = 0;
    ptx_status status = PTXD_CALL(library, "count the GPUs", cuDeviceGetCount, count);
    if (!status && *count <= 0)
        status =
            ptxd_fail(PTX_ERROR_NO_DEVICE, "the driver sees no GPU; library: %s", library->path);
    return status;
}

/// The ordinal of a CUdevice. Both numbers are the same in every driver, but this is not
/// documented.
static ptx_status find_ordinal(ptx_device *device)
{
    int count = 0;
    ptx_status status = count_devices(&device->library, &count);
    for (int i = 0; i < count && !status; i++) {
        CUdevice candidate = 0;
        status = PTXD_CALL(&device->library, "list the GPUs", cuDeviceGet, &candidate, i);
        if (!status && candidate == device->device) {
            device->info.ordinal = i;
            return PTX_OK;
        }
    }
    return status;
}

static ptx_status adopt(ptx_device *device, CUcontext context)
{
    device->context = context;
    ptx_status status = find_device_of_context(device);
    return status ? status : find_ordinal(device);
}

static ptx_status retain_primary(ptx_device *device, int ordinal)
{
    const struct ptxd_library *library = &device->library;
    int count = 0;
    ptx_status status = count_devices(library, &count);
    if (status)
        return status;
    if (ordinal < 0 || ordinal >= count)
        return ptxd_fail(
            PTX_ERROR_NO_DEVICE,
            "there is no GPU %d: the driver sees %d, numbered from 0 (see CUDA_VISIBLE_DEVICES)",
            ordinal, count);
    status = PTXD_CALL(library, "get the GPU", cuDeviceGet, &device->device, ordinal);
    if (!status)
        status = PTXD_CALL(library, "retain the GPU's primary context", cuDevicePrimaryCtxRetain,
                           &device->context, device->device);
    device->retained = !status;
    device->info.ordinal = ordinal;
    return status;
}

static ptx_status take_context(ptx_device *device, const struct ptx_device_params *params)
{
    if (params->context)
        return adopt(device, params->context);
    CUcontext current = NULL;
    ptx_status status = PTX_OK;
    if (!params->primary)
        status =
            PTXD_CALL(&device->library, "ask for the current context", cuCtxGetCurrent, &current);
    if (!status && current) {
        status = adopt(device, current);
        if (status || params->ordinal == 0 || params->ordinal == device->info.ordinal)
            return status;
    }
    return status ? status : retain_primary(device, params->ordinal);
}

ptx_status ptx_device_count(int *count)
{
    ptxd_set_call(__func__);
    if (!count)
        return ptxd_fail(PTX_ERROR_INVALID, "ptx_device_count: count is NULL");
    *count = 0;
    struct ptxd_library library;
    ptx_status status = ptxd_library_open(&library);
    if (status)
        return status;
    status = count_devices(&library, count);
    ptxd_library_close(&library);
    return status;
}

ptx_device *ptx_device_open(const struct ptx_device_params *params)
{
    ptxd_set_call(__func__);
    static const struct ptx_device_params defaults;
    if (!params)
        params = &defaults;
    ptx_device *device = calloc(1, sizeof(*device));
    if (!device) {
        ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of memory while opening a device");
        return NULL;
    }
    device->process = getpid();
    atomic_init(&device->references, 1);
    ptx_status status = ptxd_library_open(&device->library);
    if (!status)
        status = take_context(device, params);
    if (!status)
        status = read_info(device);
    if (status)
        ptxd_device_release(device);
    return status ? NULL : device;
}

void ptx_device_close(ptx_device **device)
{
    if (!device || !*device)
        return;
    ptxd_device_release(*device);
    *device = NULL;
}

const struct ptx_device_info *ptx_device_get_info(const ptx_device *device)
{
    return device ? &device->info : NULL;
}

CUcontext ptx_device_context(const ptx_device *device)
{
    return device ? device->context : NULL;
}

void ptxd_device_retain(ptx_device *device)
{
    atomic_fetch_add(&device->references, 1);
}

void ptxd_device_release(ptx_device *device)
{
    if (atomic_fetch_sub(&device->references, 1) != 1)
        return;
    if (ptxd_same_process(device)) {
        if (device->retained)
            device->library.cuDevicePrimaryCtxRelease_v2(device->device);
        ptxd_library_close(&device->library);
    }
    free(device->library.path);
    free(device);
}

bool ptxd_same_process(const ptx_device *device)
{
    return device->process == getpid();
}

ptx_status ptxd_usable(const ptx_device *device)
{
    if (!device)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "the device is NULL: see what ptx_device_open() said, or it was closed");
    if (!ptxd_same_process(device))
        return ptxd_fail(PTX_ERROR_FORKED,
                         "this device was opened by process %ld, which forked this one; CUDA "
                         "does not survive fork(), nor can this process open it again: start the "
                         "child before CUDA is opened, or with exec",
                         device->process);
    return PTX_OK;
}

ptx_status ptx_device_memory(ptx_device *device, size_t *available, size_t *total)
{
    size_t sizes[2] = { 0, 0 };
    struct ptxd_scope scope;
    ptx_status status = ptxd_enter_cold(&scope, device, __func__);
    if (status)
        return status;
    status = PTXD_CALL(scope.library, "ask for the free device memory", cuMemGetInfo_v2, &sizes[0],
                       &sizes[1]);
    status = ptxd_leave(&scope, status);
    if (!status && available)
        *available = sizes[0];
    if (!status && total)
        *total = sizes[1];
    return status;
}
