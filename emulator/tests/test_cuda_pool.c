// SPDX-License-Identifier: MIT
/// The emulator as a driver: memory pools and user objects.
#include "api.h"

#include <limits.h>

static const CUmemPoolProps device_memory = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };

static uint64_t attribute(CUmemoryPool pool, CUmemPool_attribute name)
{
    cuuint64_t value = 0;
    OK(cuMemPoolGetAttribute(pool, name, &value));
    return value;
}

TEST(the_default_pool)
{
    CUmemoryPool pool = NULL, current = NULL, of_memory = NULL;
    CUdeviceptr p = 0, q = 0;
    int value = 0;
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
    assert_int_equal(value, 1);
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuDeviceGetMemPool(&current, 0));
    assert_ptr_equal(pool, current);
    RETURNS(cuDeviceGetMemPool(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuDeviceGetMemPool(&current, 1), CUDA_ERROR_INVALID_DEVICE);
    RETURNS(cuDeviceGetDefaultMemPool(&current, -1), CUDA_ERROR_INVALID_DEVICE);
    RETURNS(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
    const uint64_t before = attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    OK(cuMemAllocAsync(&p, 1000, NULL));
    OK(cuMemAlloc_v2(&q, 500)); // of no pool
    assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), before + 1000);
    OK(cuPointerGetAttribute(&of_memory, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    assert_ptr_equal(of_memory, pool);
    OK(cuPointerGetAttribute(&of_memory, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, q));
    assert_null(of_memory);
    OK(cuMemFreeAsync(p, NULL));
    OK(cuMemFree_v2(q));
    assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), before);
    assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), before + 1000);
    OK(cuMemPoolTrimTo(pool, 0));
    RETURNS(cuMemPoolTrimTo(NULL, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(attributes_of_pools)
{
    CUmemoryPool pool = NULL;
    CUdeviceptr p = 0;
    cuuint64_t value = 1 << 20;
    int flag = 7;
    OK(cuMemPoolCreate(&pool, &device_memory));
    for (int name = 1; name <= 3; name++) {
        OK(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)name, &flag));
        assert_int_equal(flag, 1);
        flag = 0;
        OK(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)name, &flag));
        flag = 7;
        OK(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)name, &flag));
        assert_int_equal(flag, 0);
    }
    assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value));
    assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 1 << 20);
    OK(cuMemAllocFromPoolAsync(&p, 4096, pool, NULL));
    assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 4096);
    OK(cuMemFreeAsync(p, NULL));
    assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 4096);
    assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 4096);
    RETURNS(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value),
            CUDA_ERROR_INVALID_VALUE); // only to 0
    value = 0;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
    assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0);
    assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 4096);
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &value));
    assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 0);
    RETURNS(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value),
            CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)0, &value), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)9, &value), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, NULL),
            CUDA_ERROR_INVALID_VALUE);
    OK(cuMemPoolDestroy(pool));
    RETURNS(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value),
            CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
}

TEST(pools_of_ones_own)
{
    CUmemPoolProps props = device_memory;
    CUmemoryPool pool = NULL, standard = NULL, current = NULL;
    CUdeviceptr p = 0, q = 0;
    props.maxSize = 1000;
    OK(cuDeviceGetDefaultMemPool(&standard, 0));
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuDeviceSetMemPool(0, pool));
    OK(cuDeviceGetMemPool(&current, 0));
    assert_ptr_equal(current, pool);
    OK(cuMemAllocAsync(&p, 600, NULL)); // of the current pool
    assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 600);
    RETURNS(cuMemAllocFromPoolAsync(&q, 401, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAllocFromPoolAsync(&q, 0, pool, NULL));
    assert_int_equal(q, 0);
    OK(cuMemAllocFromPoolAsync(&q, 400, pool, NULL));
    assert_int_equal(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1000);
    OK(cuMemFree_v2(q));
    RETURNS(cuMemAllocFromPoolAsync(NULL, 4, pool, NULL), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemAllocFromPoolAsync(&q, 4, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemAllocFromPoolAsync(&q, 4, pool, (CUstream)(void *)&props),
            CUDA_ERROR_INVALID_HANDLE);
    // The memory outlives its pool, and the default one is the current one again.
    OK(cuMemPoolDestroy(pool));
    OK(cuDeviceGetMemPool(&current, 0));
    assert_ptr_equal(current, standard);
    RETURNS(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuDeviceSetMemPool(1, standard), CUDA_ERROR_INVALID_DEVICE);
    OK(cuMemsetD8_v2(p, 1, 600));
    assert_int_equal(emu_read(p), 0x01010101);
    OK(cuMemFreeAsync(p, NULL));
    RETURNS(cuMemFreeAsync(p, NULL), CUDA_ERROR_INVALID_VALUE);
}

TEST(pools_that_there_are_not)
{
    CUmemPoolProps props = device_memory;
    CUmemoryPool pool = NULL;
    CUmemLocation here = device_memory.location, host = { CU_MEM_LOCATION_TYPE_HOST, 0 };
    CUmemAccessDesc access = { here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    RETURNS(cuMemPoolCreate(NULL, &props), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemPoolCreate(&pool, NULL), CUDA_ERROR_INVALID_VALUE);
    props.allocType = (CUmemAllocationType)0;
    RETURNS(cuMemPoolCreate(&pool, &props), CUDA_ERROR_INVALID_VALUE);
    props = device_memory;
    props.location.id = 1;
    RETURNS(cuMemPoolCreate(&pool, &props), CUDA_ERROR_INVALID_DEVICE);
    props.location = host;
    RETURNS(cuMemPoolCreate(&pool, &props), CUDA_ERROR_NOT_SUPPORTED);
    props = device_memory;
    props.handleTypes = (CUmemAllocationHandleType)1; // a file descriptor
    RETURNS(cuMemPoolCreate(&pool, &props), CUDA_ERROR_NOT_SUPPORTED);
    props = device_memory;
    props.reserved[3] = 1;
    RETURNS(cuMemPoolCreate(&pool, &props), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemPoolCreate(&pool, &device_memory));
    OK(cuMemPoolGetAccess(&flags, pool, &here));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    RETURNS(cuMemPoolGetAccess(&flags, pool, &host), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemPoolGetAccess(NULL, pool, &here), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemPoolSetAccess(pool, &access, 1));
    OK(cuMemPoolSetAccess(pool, NULL, 0));
    RETURNS(cuMemPoolSetAccess(pool, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE; // its own device keeps access
    RETURNS(cuMemPoolSetAccess(pool, &access, 1), CUDA_ERROR_INVALID_VALUE);
    access = (CUmemAccessDesc) { { CU_MEM_LOCATION_TYPE_DEVICE, 2 },
                                 CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    RETURNS(cuMemPoolSetAccess(pool, &access, 1), CUDA_ERROR_INVALID_DEVICE);
    OK(cuMemPoolDestroy(pool));
}

// ---- user objects -------------------------------------------------------------------------------

static CUresult from_destructor;

static void count_down(void *data)
{
    CUdeviceptr p = 0;
    from_destructor = cuMemAlloc_v2(&p, 4);
    --*(int *)data;
}

TEST(user_objects)
{
    int alive = 1;
    CUuserObject object = NULL;
    OK(cuUserObjectCreate(&object, &alive, count_down, 2, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cuUserObjectRetain(object, 3));
    RETURNS(cuUserObjectRetain(object, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuUserObjectRelease(object, 6), CUDA_ERROR_INVALID_VALUE);
    OK(cuUserObjectRelease(object, 4));
    assert_int_equal(alive, 1);
    OK(cuUserObjectRelease(object, 1));
    assert_int_equal(alive, 0);
    assert_int_equal(from_destructor, CUDA_ERROR_NOT_PERMITTED);
    RETURNS(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuUserObjectCreate(NULL, &alive, count_down, 1, 1), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuUserObjectCreate(&object, &alive, NULL, 1, 1), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuUserObjectCreate(&object, &alive, count_down, 0, 1), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuUserObjectCreate(&object, &alive, count_down, 1, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(graphs_hold_user_objects)
{
    int alive = 1;
    CUuserObject object = NULL;
    CUgraph graph = NULL, clone = NULL, other = NULL;
    CUgraphExec executable = NULL;
    CUgraphExecUpdateResultInfo info;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphCreate(&other, 0));
    OK(cuUserObjectCreate(&object, &alive, count_down, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    RETURNS(cuGraphRetainUserObject(graph, object, 2, CU_GRAPH_USER_OBJECT_MOVE),
            CUDA_ERROR_INVALID_VALUE); // there is one
    RETURNS(cuGraphRetainUserObject(graph, object, 0, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuGraphRetainUserObject(graph, object, 1, 2), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuGraphRetainUserObject(NULL, object, 1, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphRetainUserObject(graph, object, 2, 0));
    OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    RETURNS(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_VALUE); // the graph has it now
    RETURNS(cuGraphReleaseUserObject(graph, object, 4), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuGraphReleaseUserObject(other, object, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphReleaseUserObject(graph, object, 2));
    OK(cuGraphClone(&clone, graph));
    OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    OK(cuGraphDestroy(graph));
    assert_int_equal(alive, 1);
    OK(cuGraphDestroy(clone));
    assert_int_equal(alive, 1);
    OK(cuGraphLaunch(executable, NULL));
    OK(cuGraphExecUpdate_v2(executable, other, &info)); // it holds what the other graph holds
    assert_int_equal(alive, 0);
    OK(cuGraphExecDestroy(executable));
    OK(cuGraphDestroy(other));

    alive = 1;
    OK(cuGraphCreate(&graph, 0));
    OK(cuUserObjectCreate(&object, &alive, count_down, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cuGraphRetainUserObject(graph, object, 1, 0));
    OK(cuUserObjectRelease(object, 1));
    assert_int_equal(alive, 1);
    OK(cuGraphReleaseUserObject(graph, object, 1));
    assert_int_equal(alive, 0);
    OK(cuGraphDestroy(graph));
}

int main(void)
{
    emu_context();
    return tests_run(NULL, NULL);
}
