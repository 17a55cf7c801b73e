// SPDX-License-Identifier: MIT
#include "internal.h"

#include <stdlib.h>
#include <string.h>

struct ptx_buffer {
    ptx_device *device;
    CUdeviceptr address;
    size_t size;
};

static ptx_status allocate(ptx_buffer *buffer)
{
    if (buffer->size == 0)
        return ptxd_usable(buffer->device);
    struct ptxd_scope scope;
    ptx_status status = ptxd_enter_cold(&scope, buffer->device, "ptx_buffer_create");
    if (status)
        return status;
    status = ptxd_refuse_capture(scope.library, NULL, "allocate device memory");
    if (!status)
        status = PTXD_CALL(scope.library, "allocate device memory", cuMemAlloc_v2, &buffer->address,
                           buffer->size);
    if (status)
        ptxd_explain("\nasked for: %zu byte%s", buffer->size, ptxd_plural(buffer->size));
    return ptxd_leave(&scope, status);
}

ptx_buffer *ptx_buffer_create(ptx_device *device, size_t bytes)
{
    if (ptxd_named(ptxd_usable(device), __func__))
        return NULL;
    ptx_buffer *buffer = calloc(1, sizeof(*buffer));
    if (!buffer) {
        ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory while creating a buffer");
        return NULL;
    }
    ptxd_device_retain(device);
    buffer->device = device;
    buffer->size = bytes;
    if (ptxd_named(allocate(buffer), __func__))
        ptx_buffer_destroy(&buffer);
    return buffer;
}

static void free_device(ptx_device *device, CUdeviceptr address)
{
    struct ptxd_scope scope;
    if (!address || !ptxd_enter_release(&scope, device))
        return;
    scope.library->cuMemFree_v2(address);
    ptxd_leave_release(&scope);
}

void ptx_buffer_destroy(ptx_buffer **buffer)
{
    if (!buffer || !*buffer)
        return;
    ptx_buffer *destroyed = *buffer;
    *buffer = NULL;
    free_device(destroyed->device, destroyed->address);
    ptxd_device_release(destroyed->device);
    free(destroyed);
}

CUdeviceptr ptx_buffer_address(const ptx_buffer *buffer)
{
    return buffer ? buffer->address : 0;
}

size_t ptx_buffer_size(const ptx_buffer *buffer)
{
    return buffer ? buffer->size : 0;
}

static ptx_status check_range(const ptx_buffer *buffer, const char *operation, size_t offset,
                              size_t bytes)
{
    if (!buffer)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: the buffer is NULL", operation);
    if (offset > buffer->size || bytes > buffer->size - offset)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: %zu byte%s at offset %zu would end beyond the buffer, which has "
                         "%zu byte%s (at %#llx)",
                         operation, bytes, ptxd_plural(bytes), offset, buffer->size,
                         ptxd_plural(buffer->size), (unsigned long long)buffer->address);
    return PTX_OK;
}

/// A copy or a fill that is to be put on a stream.
struct transfer {
    const char *call;
    const char *operand; ///< the call's name, and the parameter's if there are two buffers
    const char *purpose;
    CUstream stream;
};

/// Enters the scope of a transfer to or from [offset, offset + bytes). If *nothing is set, the
/// transfer is done and no scope was entered.
static ptx_status enter_range(struct ptxd_scope *scope, const ptx_buffer *buffer,
                              const struct transfer *transfer, size_t offset, size_t bytes,
                              bool *nothing)
{
    *nothing = true;
    ptx_status status = check_range(buffer, transfer->operand, offset, bytes);
    if (status)
        return status;
    *nothing = bytes == 0;
    return bytes == 0 ? ptxd_usable(buffer->device)
                      : ptxd_enter_stream(scope, buffer->device, transfer->stream, transfer->call,
                                          transfer->purpose);
}

ptx_status ptx_buffer_upload(ptx_buffer *buffer, size_t offset, const void *source, size_t bytes,
                             CUstream stream)
{
    if (!source && bytes)
        return ptxd_fail(PTX_ERROR_INVALID, "ptx_buffer_upload: source is NULL");
    const struct transfer transfer = { __func__, __func__, "copy to the device", stream };
    struct ptxd_scope scope;
    bool nothing = false;
    ptx_status status = enter_range(&scope, buffer, &transfer, offset, bytes, &nothing);
    if (status || nothing)
        return status;
    status = PTXD_CALL(scope.library, transfer.purpose, cuMemcpyHtoDAsync_v2,
                       buffer->address + offset, source, bytes, stream);
    return ptxd_leave(&scope, status);
}

ptx_status ptx_buffer_download(const ptx_buffer *buffer, size_t offset, void *target, size_t bytes,
                               CUstream stream)
{
    if (!target && bytes)
        return ptxd_fail(PTX_ERROR_INVALID, "ptx_buffer_download: target is NULL");
    const struct transfer transfer = { __func__, __func__, "copy from the device", stream };
    struct ptxd_scope scope;
    bool nothing = false;
    ptx_status status = enter_range(&scope, buffer, &transfer, offset, bytes, &nothing);
    if (status || nothing)
        return status;
    status = PTXD_CALL(scope.library, transfer.purpose, cuMemcpyDtoHAsync_v2, target,
                       buffer->address + offset, bytes, stream);
    return ptxd_leave(&scope, status);
}

ptx_status ptx_address_download(ptx_device *device, CUdeviceptr address, void *target, size_t bytes,
                                CUstream stream)
{
    static const char purpose[] = "copy from the device";
    struct ptxd_scope scope;
    ptx_status status;

    if (bytes && (!target || !address))
        return ptxd_fail(PTX_ERROR_INVALID, "ptx_address_download: %s",
                         target ? "address is 0" : "target is NULL");
    if (bytes == 0)
        return ptxd_usable(device);
    status = ptxd_enter_stream(&scope, device, stream, __func__, purpose);
    if (status)
        return status;
    status =
        PTXD_CALL(scope.library, purpose, cuMemcpyDtoHAsync_v2, target, address, bytes, stream);
    return ptxd_leave(&scope, status);
}

ptx_status ptx_buffer_copy(ptx_buffer *to, size_t to_offset, const ptx_buffer *from,
                           size_t from_offset, size_t bytes, CUstream stream)
{
    ptx_status status = check_range(from, "ptx_buffer_copy, from", from_offset, bytes);
    if (status)
        return status;
    const struct transfer transfer = { __func__, "ptx_buffer_copy, to", "copy within the device",
                                       stream };
    struct ptxd_scope scope;
    bool nothing = false;
    if (to && to->device != from->device)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "ptx_buffer_copy: the buffers belong to different devices");
    if (to == from && bytes > 0 && to_offset < from_offset + bytes &&
        from_offset < to_offset + bytes)
        return ptxd_fail(PTX_ERROR_INVALID, "ptx_buffer_copy: the ranges overlap");
    status = enter_range(&scope, to, &transfer, to_offset, bytes, &nothing);
    if (status || nothing)
        return status;
    status = PTXD_CALL(scope.library, transfer.purpose, cuMemcpyDtoDAsync_v2,
                       to->address + to_offset, from->address + from_offset, bytes, stream);
    return ptxd_leave(&scope, status);
}

ptx_status ptx_buffer_fill(ptx_buffer *buffer, size_t offset, unsigned char value, size_t bytes,
                           CUstream stream)
{
    const struct transfer transfer = { __func__, __func__, "fill device memory", stream };
    struct ptxd_scope scope;
    bool nothing = false;
    ptx_status status = enter_range(&scope, buffer, &transfer, offset, bytes, &nothing);
    if (status || nothing)
        return status;
    status = PTXD_CALL(scope.library, transfer.purpose, cuMemsetD8Async, buffer->address + offset,
                       value, bytes, stream);
    return ptxd_leave(&scope, status);
}

static void free_host(ptx_device *device, void *block)
{
    struct ptxd_scope scope;
    if (!block || !device || !ptxd_enter_release(&scope, device))
        return;
    scope.library->cuMemFreeHost(block);
    ptxd_leave_release(&scope);
}

void *ptx_host_alloc(ptx_device *device, size_t bytes)
{
    if (bytes == 0) {
        ptxd_fail(PTX_ERROR_INVALID, "ptx_host_alloc: bytes is 0");
        return NULL;
    }
    struct ptxd_scope scope;
    if (ptxd_enter_cold(&scope, device, __func__))
        return NULL;
    void *memory = NULL;
    ptx_status status = ptxd_refuse_capture(scope.library, NULL, "allocate pinned host memory");
    if (!status)
        status = PTXD_CALL(scope.library, "allocate pinned host memory", cuMemHostAlloc, &memory,
                           bytes, CUDA_ABI_MEMHOSTALLOC_PORTABLE);
    if (ptxd_leave(&scope, status)) {
        free_host(device, memory);
        return NULL;
    }
    return memory;
}

void ptx_host_free(ptx_device *device, void *memory)
{
    // memcpy, because the caller's pointer may have any type and must not be read as a void *.
    void *block = NULL;
    if (!memory)
        return;
    memcpy(&block, memory, sizeof(block));
    free_host(device, block);
    memset(memory, 0, sizeof(block));
}

/// For an address that it does not know the driver returns zeros.
static ptx_status ask_range(const ptx_device *device, CUdeviceptr address, CUdeviceptr *base,
                            size_t *bytes)
{
    unsigned type = 0;
    unsigned managed = 0;
    int ordinal = -1;
    CUpointer_attribute attributes[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    };
    void *values[] = { &type, &managed, &ordinal, base, bytes };
    ptx_status status = PTXD_CALL(&device->library, "ask what an address belongs to",
                                  cuPointerGetAttributes, 5, attributes, values, address);
    if (status)
        return status;
    if (type == 0 || *bytes == 0)
        return ptxd_fail(PTX_ERROR_NOT_FOUND,
                         "%#llx is in no memory that the driver allocated or registered",
                         (unsigned long long)address);
    if (type == CU_MEMORYTYPE_DEVICE && !managed && ordinal != device->info.ordinal)
        return ptxd_fail(PTX_ERROR_INVALID, "%#llx is memory of GPU %d, not of GPU %d",
                         (unsigned long long)address, ordinal, device->info.ordinal);
    return PTX_OK;
}

ptx_status ptx_address_range(ptx_device *device, CUdeviceptr address, CUdeviceptr *base,
                             size_t *bytes)
{
    CUdeviceptr start = 0;
    size_t size = 0;
    struct ptxd_scope scope;
    ptx_status status = ptxd_enter(&scope, device, __func__);
    if (!status)
        status = ptxd_leave(&scope, ask_range(device, address, &start, &size));
    if (base)
        *base = status ? 0 : start;
    if (bytes)
        *bytes = status ? 0 : size;
    return status;
}
