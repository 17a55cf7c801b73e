// SPDX-License-Identifier: MIT
// Copies and fills, in one, two and three dimensions.
#include "copy.h"

#include "calls.h"
#include "stream.h"

#include <stdio.h>
#include <string.h>

static struct api_side side_of(CUmemorytype type, const void *host, CUdeviceptr device,
                               size_t pitch, size_t height)
{
    struct api_side side = { .address =
                                 type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)host : device,
                             .device = type == CU_MEMORYTYPE_DEVICE,
                             .pitch = pitch,
                             .height = height };
    side.device = side.device || side.address >= EMU_DEVICE_BASE;
    return side;
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
    work.as.copy.to = side_of(to_type, (void *)(uintptr_t)to, to, bytes, 1);
    work.as.copy.from = side_of(from_type, (void *)(uintptr_t)from, from, bytes, 1);
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
    *to = side_of(copy->dstMemoryType, copy->dstHost, copy->dstDevice,
                  copy->dstPitch ? copy->dstPitch : copy->dstXInBytes + copy->WidthInBytes,
                  copy->dstHeight ? copy->dstHeight : copy->dstY + copy->Height);
    *from = side_of(copy->srcMemoryType, copy->srcHost, copy->srcDevice,
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
