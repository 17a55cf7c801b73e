// SPDX-License-Identifier: MIT
// Copies and fills, in one, two and three dimensions.
#include "api.h"

#include <stdio.h>
#include <string.h>

struct api_side api_side_of(CUmemorytype type, const void *host, CUdeviceptr device, size_t pitch,
                            size_t height)
{
    struct api_side side = { .address =
                                 type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)host : device,
                             .device = type == CU_MEMORYTYPE_DEVICE,
                             .pitch = pitch,
                             .height = height };
    side.device = side.device || side.address >= EMU_DEVICE_BASE;
    return side;
}

/// The address of a row; false if it exceeds the address range.
static bool row_address(const struct api_side *side, size_t y, size_t z, uint64_t *address)
{
    uint64_t rows = 0, offset = 0;
    if (__builtin_mul_overflow(side->z + z, side->height, &rows) ||
        __builtin_add_overflow(rows, side->y + y, &rows) ||
        __builtin_mul_overflow(rows, side->pitch, &offset) ||
        __builtin_add_overflow(offset, side->x, &offset))
        return false;
    return !__builtin_add_overflow(side->address, offset, address);
}

/// The host bytes of the row and, on the device, their shadow.
static unsigned char *row_bytes(const struct api_side *side, size_t y, size_t z, size_t width,
                                unsigned char **shadow)
{
    uint64_t address = 0;
    enum emu_access_fault fault;
    *shadow = NULL;
    if (!row_address(side, y, z, &address))
        return NULL;
    if (side->device)
        return emu_memory_access(api_state.memory, address, width, shadow, &fault);
    return (unsigned char *)(uintptr_t)address;
}

/// Whether a row may be read or written. A host row that begins in memory that the device may
/// access must end there too; nothing is known of other host memory.
static bool row_fits(const struct api_side *side, size_t y, size_t z, size_t width)
{
    uint64_t address = 0, start = 0, bytes = 0;
    unsigned char *shadow = NULL;
    if (side->device)
        return row_bytes(side, y, z, width, &shadow) != NULL;
    return row_address(side, y, z, &address) &&
           (!emu_memory_find(api_state.memory, address, &start, &bytes) ||
            width <= bytes - (address - start));
}

static bool side_fits(const struct api_work *work, const struct api_side *side)
{
    size_t width = work->as.copy.width;
    bool rows = work->as.copy.height > 1 || work->as.copy.depth > 1;
    if (rows && (side->pitch < width || side->pitch - width < side->x))
        return false;
    for (size_t z = 0; z < work->as.copy.depth; z++)
        for (size_t y = 0; y < work->as.copy.height; y++)
            if (!row_fits(side, y, z, width))
                return false;
    return true;
}

CUresult api_copy_check(const struct api_work *work)
{
    const struct api_side *to = &work->as.copy.to, *from = &work->as.copy.from;
    if (work->as.copy.width == 0 || work->as.copy.height == 0 || work->as.copy.depth == 0)
        return CUDA_SUCCESS;
    if (!to->device) // check the device's side first: its size is known
        to = &work->as.copy.from, from = &work->as.copy.to;
    return side_fits(work, to) && side_fits(work, from) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// Checks bytes on their way to the host that were computed from undefined values:
/// CUDA_ERROR_LAUNCH_FAILED, or one warning for each origin.
static CUresult check_defined(const struct api_side *from, size_t y, size_t z, size_t width,
                              char *report, size_t report_size)
{
    uint64_t address = 0;
    uint32_t origin = 0;
    char text[2048] = "warning: ";
    size_t begun = strlen(text);
    if (!row_address(from, y, z, &address) ||
        !emu_memory_undefined(api_state.memory, address, width, &origin, text + begun,
                              sizeof(text) - begun))
        return CUDA_SUCCESS;
    if (api_state.config.sanitize == EMU_SANITIZE_WARN) {
        if (emu_origin_report(emu_memory_shadows(api_state.memory), origin))
            api_log(text);
        return CUDA_SUCCESS;
    }
    snprintf(report, report_size, "%s", text + begun);
    return CUDA_ERROR_LAUNCH_FAILED;
}

static CUresult check_all_defined(const struct api_work *work, char *report, size_t report_size)
{
    size_t width = work->as.copy.width;
    CUresult result = CUDA_SUCCESS;
    for (size_t z = 0; width && z < work->as.copy.depth; z++)
        for (size_t y = 0; !result && y < work->as.copy.height; y++) {
            unsigned char *shadow = NULL, *from_shadow = NULL;
            row_bytes(&work->as.copy.to, y, z, width, &shadow);
            row_bytes(&work->as.copy.from, y, z, width, &from_shadow);
            if (from_shadow && !shadow)
                result = check_defined(&work->as.copy.from, y, z, width, report, report_size);
        }
    return result;
}

CUresult api_copy_run(const struct api_work *work, char *report, size_t report_size)
{
    size_t width = work->as.copy.width;
    CUresult result = check_all_defined(work, report, report_size);
    if (result)
        return result;
    for (size_t z = 0; width && z < work->as.copy.depth; z++)
        for (size_t y = 0; y < work->as.copy.height; y++) {
            unsigned char *shadow = NULL, *from_shadow = NULL;
            unsigned char *to = row_bytes(&work->as.copy.to, y, z, width, &shadow);
            unsigned char *from = row_bytes(&work->as.copy.from, y, z, width, &from_shadow);
            if (!to || !from) // freed since: use what was known when the graph was made
                return CUDA_SUCCESS;
            memmove(to, from, width);
            if (shadow && from_shadow)
                emu_shadow_move(emu_memory_shadows(api_state.memory), shadow, from_shadow, width);
            else if (shadow)
                memset(shadow, EMU_SHADOW_DEFINED, width);
        }
    return CUDA_SUCCESS;
}

CUresult api_set_check(const CUDA_MEMSET_NODE_PARAMS *set)
{
    unsigned size = set->elementSize;
    if ((size != 1 && size != 2 && size != 4) || set->dst % size)
        return CUDA_ERROR_INVALID_VALUE;
    if (set->width == 0 || set->height == 0)
        return CUDA_SUCCESS;
    if (set->width > SIZE_MAX / size)
        return CUDA_ERROR_INVALID_VALUE;
    size_t width = set->width * size;
    if (set->height > 1 && (set->pitch < width || set->pitch % size))
        return CUDA_ERROR_INVALID_VALUE;
    struct api_side side = { .device = true, .address = set->dst, .pitch = set->pitch };
    unsigned char *shadow = NULL;
    for (size_t y = 0; y < set->height; y++)
        if (!row_bytes(&side, y, 0, width, &shadow))
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

void api_set_run(const CUDA_MEMSET_NODE_PARAMS *set)
{
    struct api_side side = { .device = true, .address = set->dst, .pitch = set->pitch };
    size_t size = set->elementSize, width = set->width * size;
    for (size_t y = 0; width && y < set->height; y++) {
        unsigned char *shadow = NULL, *to = row_bytes(&side, y, 0, width, &shadow);
        if (!to)
            return;
        if (size == 1)
            memset(to, (int)(set->value & 0xff), width);
        for (size_t i = 0; size > 1 && i < width; i += size) {
            uint16_t half = (uint16_t)set->value;
            memcpy(to + i, size == 2 ? (const void *)&half : &set->value, size);
        }
        if (shadow)
            memset(shadow, EMU_SHADOW_DEFINED, width);
    }
}

static CUresult submit_to(CUstream handle, struct api_work *work)
{
    CUstream stream = NULL;
    CUresult result = api_stream_find(handle, &stream);
    return result ? result : api_submit(stream, work);
}

static CUresult copy_line(CUmemorytype to_type, uint64_t to, CUmemorytype from_type, uint64_t from,
                          size_t bytes, CUstream stream)
{
    struct api_work work = { .type = CU_GRAPH_NODE_TYPE_MEMCPY };
    if (bytes && (!to || !from))
        return CUDA_ERROR_INVALID_VALUE;
    work.as.copy.to = api_side_of(to_type, (void *)(uintptr_t)to, to, bytes, 1);
    work.as.copy.from = api_side_of(from_type, (void *)(uintptr_t)from, from, bytes, 1);
    work.as.copy.width = bytes;
    work.as.copy.height = work.as.copy.depth = 1;
    return submit_to(stream, &work);
}

#define HOST    CU_MEMORYTYPE_HOST
#define DEVICE  CU_MEMORYTYPE_DEVICE
#define UNIFIED CU_MEMORYTYPE_UNIFIED

CUresult api_memcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_line(UNIFIED, to, UNIFIED, from, bytes, stream);
}

CUresult api_memcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return copy_line(DEVICE, to, HOST, (uint64_t)(uintptr_t)from, bytes, stream);
}

CUresult api_memcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_line(HOST, (uint64_t)(uintptr_t)to, DEVICE, from, bytes, stream);
}

CUresult api_memcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_line(DEVICE, to, DEVICE, from, bytes, stream);
}

CUresult api_memcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return api_memcpyAsync(to, from, bytes, NULL);
}

CUresult api_memcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    return api_memcpyHtoDAsync(to, from, bytes, NULL);
}

CUresult api_memcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    return api_memcpyDtoHAsync(to, from, bytes, NULL);
}

CUresult api_memcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return api_memcpyDtoDAsync(to, from, bytes, NULL);
}

static bool plain(CUmemorytype type)
{
    return type == HOST || type == DEVICE || type == UNIFIED;
}

CUresult api_copy_work(struct api_work *work, const CUDA_MEMCPY3D *copy)
{
    if (copy->srcMemoryType == CU_MEMORYTYPE_ARRAY || copy->dstMemoryType == CU_MEMORYTYPE_ARRAY)
        return api_refuse(CUDA_ERROR_NOT_SUPPORTED, "the emulator does not support CUDA arrays");
    if (!plain(copy->srcMemoryType) || !plain(copy->dstMemoryType) || copy->srcLOD || copy->dstLOD)
        return CUDA_ERROR_INVALID_VALUE;
    *work = (struct api_work) { .type = CU_GRAPH_NODE_TYPE_MEMCPY };
    bool nothing = !copy->WidthInBytes || !copy->Height || !copy->Depth;
    work->as.copy.width = copy->WidthInBytes;
    work->as.copy.height = copy->Height;
    work->as.copy.depth = nothing ? 0 : copy->Depth; // avoids that many empty turns
    struct api_side *to = &work->as.copy.to, *from = &work->as.copy.from;
    *to = api_side_of(copy->dstMemoryType, copy->dstHost, copy->dstDevice,
                      copy->dstPitch ? copy->dstPitch : copy->dstXInBytes + copy->WidthInBytes,
                      copy->dstHeight ? copy->dstHeight : copy->dstY + copy->Height);
    *from = api_side_of(copy->srcMemoryType, copy->srcHost, copy->srcDevice,
                        copy->srcPitch ? copy->srcPitch : copy->srcXInBytes + copy->WidthInBytes,
                        copy->srcHeight ? copy->srcHeight : copy->srcY + copy->Height);
    to->x = copy->dstXInBytes, to->y = copy->dstY, to->z = copy->dstZ;
    from->x = copy->srcXInBytes, from->y = copy->srcY, from->z = copy->srcZ;
    if (!nothing && (!to->address || !from->address))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult api_memcpy3DAsync(const CUDA_MEMCPY3D *copy, CUstream stream)
{
    struct api_work work;
    CUresult result = copy ? api_copy_work(&work, copy) : CUDA_ERROR_INVALID_VALUE;
    return result ? result : submit_to(stream, &work);
}

CUresult api_memcpy3D(const CUDA_MEMCPY3D *copy)
{
    return api_memcpy3DAsync(copy, NULL);
}

CUresult api_memcpy2DAsync(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    if (!copy)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D solid = { .srcXInBytes = copy->srcXInBytes,
                            .srcY = copy->srcY,
                            .srcMemoryType = copy->srcMemoryType,
                            .srcHost = copy->srcHost,
                            .srcDevice = copy->srcDevice,
                            .srcPitch = copy->srcPitch,
                            .dstXInBytes = copy->dstXInBytes,
                            .dstY = copy->dstY,
                            .dstMemoryType = copy->dstMemoryType,
                            .dstHost = copy->dstHost,
                            .dstDevice = copy->dstDevice,
                            .dstPitch = copy->dstPitch,
                            .WidthInBytes = copy->WidthInBytes,
                            .Height = copy->Height,
                            .Depth = 1 };
    return api_memcpy3DAsync(&solid, stream);
}

CUresult api_memcpy2D(const CUDA_MEMCPY2D *copy)
{
    return api_memcpy2DAsync(copy, NULL);
}

static CUresult fill(CUdeviceptr to, size_t pitch, unsigned value, unsigned size, size_t width,
                     size_t height, CUstream stream)
{
    struct api_work work = { .type = CU_GRAPH_NODE_TYPE_MEMSET };
    work.as.set = (CUDA_MEMSET_NODE_PARAMS) { to, pitch, value, size, width, height };
    return submit_to(stream, &work);
}

#define FILLS(bits, type)                                                                          \
    CUresult api_memsetD##bits##Async(CUdeviceptr to, type value, size_t count, CUstream stream)   \
    {                                                                                              \
        return fill(to, 0, value, bits / 8, count, 1, stream);                                     \
    }                                                                                              \
    CUresult api_memsetD##bits(CUdeviceptr to, type value, size_t count)                           \
    {                                                                                              \
        return fill(to, 0, value, bits / 8, count, 1, NULL);                                       \
    }                                                                                              \
    CUresult api_memsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value, size_t width,    \
                                        size_t height, CUstream stream)                            \
    {                                                                                              \
        return fill(to, pitch, value, bits / 8, width, height, stream);                            \
    }                                                                                              \
    CUresult api_memsetD2D##bits(CUdeviceptr to, size_t pitch, type value, size_t width,           \
                                 size_t height)                                                    \
    {                                                                                              \
        return fill(to, pitch, value, bits / 8, width, height, NULL);                              \
    }
FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned)
