// SPDX-License-Identifier: MIT
// Memory pools. Memory that is freed returns to the device at once, so a pool reserves what is in
// use, and there is nothing to trim.
#include "pool.h"

#include "calls.h"

#include <stdlib.h>

struct CUmemPoolHandle_st {
    struct api_object object;
    uint64_t most; // bytes; 0: no limit
    uint64_t used, used_high, reserved_high, threshold;
    uint64_t live; // allocations
    int reuse[3];  // set and returned, without an effect
    bool destroyed;
};

static struct CUmemPoolHandle_st standard = { .reuse = { 1, 1, 1 } };
static CUmemoryPool current = &standard;

static CUmemoryPool find(CUmemoryPool handle)
{
    return handle == &standard ? handle : API_FIND(handle, API_POOL);
}

CUmemoryPool api_pool_current(void)
{
    return current;
}

CUmemoryPool api_pool_enter(CUmemoryPool handle, size_t bytes, CUresult *result)
{
    CUmemoryPool pool = find(handle);
    *result = !pool ? CUDA_ERROR_INVALID_VALUE
              : pool->most && (bytes > pool->most || pool->used > pool->most - bytes)
                  ? CUDA_ERROR_OUT_OF_MEMORY
                  : CUDA_SUCCESS;
    if (*result)
        return NULL;
    pool->live++;
    pool->used += bytes;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    if (pool->used > pool->reserved_high)
        pool->reserved_high = pool->used;
    return pool;
}

void api_pool_leave(CUmemoryPool pool, size_t bytes)
{
    pool->used -= bytes;
    if (--pool->live == 0 && pool->destroyed)
        free(pool);
}

CUresult api_deviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *pool = &standard;
    return CUDA_SUCCESS;
}

CUresult api_deviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    CUresult result = api_deviceGetDefaultMemPool(pool, device);
    if (!result)
        *pool = current;
    return result;
}

CUresult api_deviceSetMemPool(CUdevice device, CUmemoryPool handle)
{
    CUmemoryPool pool = find(handle);
    if (device != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    current = pool;
    return CUDA_SUCCESS;
}

CUresult api_memPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    if (!pool || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < sizeof(props->reserved); k++)
        if (props->reserved[k])
            return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return api_refuse(CUDA_ERROR_NOT_SUPPORTED, "the emulator has pools of device memory only");
    if (props->location.id != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return api_refuse(CUDA_ERROR_NOT_SUPPORTED,
                          "pools of the emulator cannot be shared with other processes");
    CUmemoryPool made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->most = props->maxSize;
    for (int k = 0; k < 3; k++)
        made->reuse[k] = 1;
    api_object_add(&made->object, API_POOL, (uint64_t)(uintptr_t)made, NULL);
    *pool = made;
    return CUDA_SUCCESS;
}

// Its allocations live on, as the documentation has it.
CUresult api_memPoolDestroy(CUmemoryPool handle)
{
    CUmemoryPool pool = find(handle);
    if (!pool || pool == &standard)
        return CUDA_ERROR_INVALID_VALUE;
    if (current == pool)
        current = &standard;
    api_object_remove(&pool->object);
    pool->destroyed = true;
    if (pool->live == 0)
        free(pool);
    return CUDA_SUCCESS;
}

CUresult api_memPoolTrimTo(CUmemoryPool handle, size_t bytes)
{
    (void)bytes;
    return find(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult api_memPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    CUmemoryPool pool = find(handle);
    if (!pool || !value)
        return CUDA_ERROR_INVALID_VALUE;
    switch ((unsigned)attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->reuse[attribute - 1] = *(int *)value != 0;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold = *(cuuint64_t *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*(cuuint64_t *)value != 0)
            return CUDA_ERROR_INVALID_VALUE;
        if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
            pool->used_high = pool->used;
        else
            pool->reserved_high = pool->used;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult api_memPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    CUmemoryPool pool = find(handle);
    if (!pool || !value)
        return CUDA_ERROR_INVALID_VALUE;
    const uint64_t sizes[] = { pool->threshold, pool->used, pool->reserved_high, pool->used,
                               pool->used_high };
    if ((unsigned)attribute < CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
        (unsigned)attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        *(int *)value = pool->reuse[attribute - 1];
    else
        *(cuuint64_t *)value = sizes[attribute - CU_MEMPOOL_ATTR_RELEASE_THRESHOLD];
    return CUDA_SUCCESS;
}

// The only device has access, and keeps it.
CUresult api_memPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *access, size_t count)
{
    if (!find(handle) || (count && !access))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < count; k++) {
        if (access[k].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            access[k].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
        if (access[k].location.id != 0)
            return CUDA_ERROR_INVALID_DEVICE;
    }
    return CUDA_SUCCESS;
}

CUresult api_memPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle,
                              CUmemLocation *location)
{
    if (!flags || !find(handle) || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->id != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}
