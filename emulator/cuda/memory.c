// SPDX-License-Identifier: MIT
// Allocations: on the device, pinned, registered and managed.
#define _DEFAULT_SOURCE // MAP_ANONYMOUS
#include "memory.h"

#include "calls.h"
#include "capturing.h"
#include "module.h"
#include "pool.h"
#include "stream.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PITCH = 512, HOST_FLAGS = 7, REGISTER_FLAGS = 15 };

struct allocation {
    struct api_object object;
    size_t bytes;
    unsigned flags;
    unsigned long long id;
    CUmemoryPool pool; // that it is of, or NULL
};

static struct allocation *note(enum api_kind kind, uint64_t address, size_t bytes, unsigned flags)
{
    struct allocation *made = calloc(1, sizeof(*made));
    if (!made)
        return NULL;
    api_object_add(&made->object, kind, address, api_current());
    made->bytes = bytes;
    made->flags = flags;
    made->id = api_new_id();
    return made;
}

void api_memory_free(struct api_object *object)
{
    struct allocation *old = (struct allocation *)object;
    void *host = (void *)(uintptr_t)object->key;
    api_object_remove(object);
    api_drain();
    if (object->kind == API_DEVICE_MEMORY)
        emu_memory_free(api_state.memory, object->key);
    else
        emu_memory_unmap_host(api_state.memory, host);
    if (object->kind == API_MANAGED_MEMORY || object->kind == API_PINNED_MEMORY)
        munmap(host, old->bytes);
    if (old->pool)
        api_pool_leave(old->pool, old->bytes);
    free(old);
}

static size_t align(size_t value, size_t to)
{
    return (value + to - 1) / to * to;
}

CUresult api_memGetInfo(size_t *available, size_t *total)
{
    uint64_t sizes[2];
    emu_memory_info(api_state.memory, &sizes[0], &sizes[1]);
    if (available)
        *available = (size_t)sizes[0];
    if (total)
        *total = (size_t)sizes[1];
    return CUDA_SUCCESS;
}

static CUresult allocate(CUdeviceptr *address, size_t bytes, CUmemoryPool pool)
{
    struct allocation *noted = NULL;
    uint64_t found = emu_memory_alloc(api_state.memory, bytes);
    if (found && !(noted = note(API_DEVICE_MEMORY, found, bytes, 0)))
        emu_memory_free(api_state.memory, found);
    if (!noted)
        return CUDA_ERROR_OUT_OF_MEMORY;
    noted->pool = pool;
    *address = found;
    return CUDA_SUCCESS;
}

CUresult api_memAlloc(CUdeviceptr *address, size_t bytes)
{
    if (!address)
        return CUDA_ERROR_INVALID_VALUE;
    *address = 0;
    return bytes ? allocate(address, bytes, NULL) : CUDA_ERROR_INVALID_VALUE;
}

CUresult api_memAllocPitch(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
                           unsigned element)
{
    if (!address || !pitch || width == 0 || height == 0 || width > SIZE_MAX / 2)
        return CUDA_ERROR_INVALID_VALUE;
    if (element != 4 && element != 8 && element != 16)
        return CUDA_ERROR_INVALID_VALUE;
    size_t row = align(width, PITCH);
    if (height > SIZE_MAX / row)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = api_memAlloc(address, row * height);
    if (!result)
        *pitch = row;
    return result;
}

/// Zeroed pages that host and device access at the same address.
static CUresult shared_pages(enum api_kind kind, void **memory, size_t bytes, unsigned flags)
{
    void *pages = bytes > SIZE_MAX / 4 ? MAP_FAILED
                                       : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!emu_memory_map_host(api_state.memory, pages, bytes)) {
        munmap(pages, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!note(kind, (uint64_t)(uintptr_t)pages, bytes, flags)) {
        emu_memory_unmap_host(api_state.memory, pages);
        munmap(pages, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *memory = pages;
    return CUDA_SUCCESS;
}

CUresult api_memAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags)
{
    void *memory = NULL;
    if (!address || bytes == 0 || (flags != 1 && flags != 2))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = shared_pages(API_MANAGED_MEMORY, &memory, bytes, flags);
    if (!result)
        *address = (CUdeviceptr)(uintptr_t)memory;
    return result;
}

/// For work on a stream that is done at once and cannot be captured.
static CUresult stream_ready(CUstream handle)
{
    CUstream stream = NULL;
    CUresult result = api_stream_find(handle, &stream);
    if (!result && stream->capture)
        return api_capture_fail(stream->capture,
                                api_refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                                           "the emulator cannot capture allocations"));
    return result ? result : api_capture_unsafe();
}

CUresult api_memAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool handle,
                                   CUstream stream)
{
    CUresult result = stream_ready(stream);
    if (result || !address)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    *address = 0;
    CUmemoryPool pool = api_pool_enter(handle, bytes, &result);
    if (pool && bytes)
        result = allocate(address, bytes, pool);
    if (pool && (result || !bytes))
        api_pool_leave(pool, bytes);
    return result;
}

CUresult api_memAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream)
{
    return api_memAllocFromPoolAsync(address, bytes, api_pool_current(), stream);
}

CUresult api_memFreeAsync(CUdeviceptr address, CUstream stream)
{
    CUresult result = stream_ready(stream);
    return result ? result : api_memFree(address);
}

CUresult api_memFree(CUdeviceptr address)
{
    if (address == 0)
        return CUDA_SUCCESS;
    CUresult result = api_require(API_NEEDS_UNSAFE);
    if (result)
        return result;
    struct api_object *found = api_object_at(address, API_DEVICE_MEMORY);
    if (!found)
        found = api_object_at(address, API_MANAGED_MEMORY);
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    api_memory_free(found);
    return CUDA_SUCCESS;
}

CUresult api_memHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    if (!memory || flags & ~(unsigned)HOST_FLAGS)
        return CUDA_ERROR_INVALID_VALUE;
    *memory = NULL;
    return bytes ? shared_pages(API_PINNED_MEMORY, memory, bytes, flags | 2) : CUDA_SUCCESS;
}

CUresult api_memAllocHost(void **memory, size_t bytes)
{
    return api_memHostAlloc(memory, bytes, 0);
}

CUresult api_memFreeHost(void *memory)
{
    if (!memory)
        return CUDA_SUCCESS;
    CUresult result = api_require(API_NEEDS_UNSAFE);
    if (result)
        return result;
    struct api_object *found = API_FIND(memory, API_PINNED_MEMORY);
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    api_memory_free(found);
    return CUDA_SUCCESS;
}

/// The object that contains the address; NULL if there is none. A module's variable is written to
/// *variable.
static struct allocation *holder(uint64_t address, struct allocation *variable)
{
    uint64_t start = 0, bytes = 0;
    bool managed = false;
    if (!emu_memory_find(api_state.memory, address, &start, NULL))
        return NULL;
    struct api_object *found = NULL;
    for (int kind = API_DEVICE_MEMORY; kind <= API_REGISTERED_MEMORY && !found; kind++)
        found = api_object_at(start, (enum api_kind)kind);
    if (found)
        return (struct allocation *)found;
    struct api_module_memory *memory =
        (struct api_module_memory *)api_object_at(start, API_MODULE_MEMORY);
    if (!memory || !api_module_variable(memory->module, address, &start, &bytes, &managed))
        return NULL;
    *variable = (struct allocation) {
        .object = { .key = start,
                    .kind = managed ? API_MANAGED_MEMORY : API_DEVICE_MEMORY,
                    .context = memory->module->object.context },
        .bytes = (size_t)bytes,
    };
    return variable;
}

CUresult api_memGetAddressRange(CUdeviceptr *start, size_t *bytes, CUdeviceptr address)
{
    struct allocation variable;
    const struct allocation *found = holder(address, &variable);
    if (!found)
        return CUDA_ERROR_NOT_FOUND;
    if (start)
        *start = found->object.key;
    if (bytes)
        *bytes = found->bytes;
    return CUDA_SUCCESS;
}

static bool is_host(const struct allocation *allocation)
{
    return allocation && (allocation->object.kind == API_PINNED_MEMORY ||
                          allocation->object.kind == API_REGISTERED_MEMORY);
}

CUresult api_memHostGetDevicePointer(CUdeviceptr *address, void *memory, unsigned flags)
{
    struct allocation variable;
    if (!address || flags != 0 || !is_host(holder((uint64_t)(uintptr_t)memory, &variable)))
        return CUDA_ERROR_INVALID_VALUE;
    *address = (CUdeviceptr)(uintptr_t)memory;
    return CUDA_SUCCESS;
}

CUresult api_memHostGetFlags(unsigned *flags, void *memory)
{
    struct allocation variable;
    const struct allocation *found = holder((uint64_t)(uintptr_t)memory, &variable);
    if (!flags || !is_host(found))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = found->flags;
    return CUDA_SUCCESS;
}

/// Whether the whole range is mapped in the process.
static bool is_mapped(const void *memory, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)memory / page * page;
    if (bytes > UINTPTR_MAX - (uintptr_t)memory)
        return false;
    return msync((void *)start, (uintptr_t)memory + bytes - start, MS_ASYNC) == 0;
}

CUresult api_memHostRegister(void *memory, size_t bytes, unsigned flags)
{
    if (!memory || bytes == 0 || flags & ~(unsigned)REGISTER_FLAGS || !is_mapped(memory, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (!emu_memory_map_host(api_state.memory, memory, bytes))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (note(API_REGISTERED_MEMORY, (uint64_t)(uintptr_t)memory, bytes, flags | 2))
        return CUDA_SUCCESS;
    emu_memory_unmap_host(api_state.memory, memory);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult api_memHostUnregister(void *memory)
{
    struct allocation variable;
    struct api_object *found = API_FIND(memory, API_REGISTERED_MEMORY);
    if (!found)
        return holder((uint64_t)(uintptr_t)memory, &variable)
                   ? CUDA_ERROR_INVALID_VALUE
                   : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    api_memory_free(found);
    return CUDA_SUCCESS;
}

/// Sets *data; false if such memory does not have the attribute.
static bool attribute_of(void *data, unsigned attribute, struct allocation *found, uint64_t address)
{
    bool managed = found->object.kind == API_MANAGED_MEMORY;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = found->object.context;
        return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = is_host(found) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = address;
        return true;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (found->object.kind != API_DEVICE_MEMORY)
            *(uint64_t *)data = address;
        return found->object.kind != API_DEVICE_MEMORY;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(bool *)data = true;
        return true;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = found->id;
        return true;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(bool *)data = managed;
        return true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = found->pool;
        return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = 0;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = found->object.key;
        return true;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = found->bytes;
        return true;
    default:
        return false;
    }
}

CUresult api_pointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
    struct allocation variable;
    struct allocation *found = holder(address, &variable);
    return data && found && attribute_of(data, (unsigned)attribute, found, address)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

/// The size of an attribute's value in bytes.
static size_t attribute_size(unsigned attribute)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        return 16;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return 4;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        return 1;
    default:
        return 8;
    }
}

CUresult api_pointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **data,
                                  CUdeviceptr address)
{
    struct allocation variable;
    struct allocation *found = holder(address, &variable);
    if (!attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        unsigned attribute = (unsigned)attributes[i];
        if (!data[i] || attribute < 1 || attribute > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE)
            return CUDA_ERROR_INVALID_VALUE;
        if (found && attribute_of(data[i], attribute, found, address))
            continue;
        for (size_t k = 0; k < attribute_size(attribute); k++)
            ((unsigned char *)data[i])[k] = 0;
        if (!found && attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)data[i] = -2; // unknown to every device
    }
    return CUDA_SUCCESS;
}
