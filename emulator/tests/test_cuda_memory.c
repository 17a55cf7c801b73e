// SPDX-License-Identifier: MIT
/// The emulator as a driver: memory of all kinds, copies, fills, pointer attributes.
#include "api.h"

static CUcontext context;

TEST(allocations)
{
    CUdeviceptr address = 1, start = 0;
    size_t bytes = 0, available = 0, total = 0, before = 0;
    RETURNS(cuMemAlloc_v2(&address, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemAlloc_v2(NULL, 4), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemAlloc_v2(&address, (size_t)1 << 60), CUDA_ERROR_OUT_OF_MEMORY);
    RETURNS(cuMemAlloc_v2(&address, ~(size_t)0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(address, 0);
    OK(cuMemGetInfo_v2(&before, &total));
    OK(cuMemAlloc_v2(&address, 1000));
    assert_int_equal(address % 256, 0);
    OK(cuMemGetInfo_v2(&available, NULL));
    assert_int_equal(before - available, 1024);
    OK(cuMemGetAddressRange_v2(&start, &bytes, address + 999));
    assert_int_equal(start, address);
    assert_int_equal(bytes, 1000);
    RETURNS(cuMemGetAddressRange_v2(&start, &bytes, address + 1000), CUDA_ERROR_NOT_FOUND);
    OK(cuMemGetAddressRange_v2(NULL, NULL, address));
    RETURNS(cuMemFree_v2(address + 256), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(address));
    RETURNS(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(0));
    OK(cuMemAllocAsync(&address, 100, NULL));
    OK(cuMemFreeAsync(address, NULL));
    RETURNS(cuMemFreeAsync(address, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAllocAsync(&address, 0, NULL));
    OK(cuMemFreeAsync(0, NULL));
}

TEST(pitched)
{
    CUdeviceptr address = 0;
    size_t pitch = 0;
    OK(cuMemAllocPitch_v2(&address, &pitch, 100, 10, 4));
    assert_int_equal(pitch, 512);
    OK(cuMemFree_v2(address));
    OK(cuMemAllocPitch_v2(&address, &pitch, 513, 10, 16));
    assert_int_equal(pitch, 1024);
    OK(cuMemFree_v2(address));
    RETURNS(cuMemAllocPitch_v2(&address, &pitch, 100, 10, 5), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemAllocPitch_v2(&address, &pitch, 0, 10, 4), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemAllocPitch_v2(&address, NULL, 10, 10, 4), CUDA_ERROR_INVALID_VALUE);
}

TEST(copies)
{
    char from[1000], to[1000];
    CUdeviceptr a = 0, b = 0, host = (CUdeviceptr)(uintptr_t)to;
    for (int i = 0; i < 1000; i++)
        from[i] = (char)(i * 7);
    OK(cuMemAlloc_v2(&a, 1000));
    OK(cuMemAlloc_v2(&b, 1000));
    OK(cuMemcpyHtoD_v2(a, from, 1000));
    OK(cuMemcpyDtoD_v2(b + 3, a, 900));
    OK(cuMemcpyDtoH_v2(to, b + 3, 900));
    assert_memory_equal(to, from, 900);
    memset(to, 0, sizeof(to));
    OK(cuMemcpy(host, a, 1000));
    assert_memory_equal(to, from, 1000);
    OK(cuMemcpy(b, (CUdeviceptr)(uintptr_t)from, 1000));
    OK(cuMemcpyAsync(host, b, 1000, (CUstream)2));
    assert_memory_equal(to, from, 1000);
    OK(cuMemcpy(host, host + 20, 10)); // both on the host
    assert_memory_equal(to, from + 20, 10);

    RETURNS(cuMemcpyHtoD_v2(a, from, 1001), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemcpyHtoD_v2(a + 999, from, 2), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemcpyHtoD_v2(a, NULL, 10), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemcpyHtoD_v2(0, from, 10), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemcpyDtoH_v2(to, 0x1000, 10), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemcpyHtoD_v2(host, from, 10), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemcpyHtoDAsync_v2(a, from, 10, (CUstream)(uintptr_t)0x7770),
            CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemcpyHtoD_v2(0, from, 0));
    OK(cuMemcpyHtoD_v2(a, NULL, 0));
    OK(cuMemFree_v2(a));
    RETURNS(cuMemcpyDtoH_v2(to, a, 4), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(b));
}

TEST(fills)
{
    CUdeviceptr a = 0;
    unsigned char bytes[64];
    OK(cuMemAlloc_v2(&a, 64));
    OK(cuMemsetD8_v2(a, 0x11, 64));
    OK(cuMemsetD16Async(a + 2, 0x2233, 2, NULL));
    OK(cuMemsetD32_v2(a + 8, 0x44556677, 1));
    OK(cuMemsetD2D8_v2(a + 32, 8, 0xee, 3, 4));
    OK(cuMemcpyDtoH_v2(bytes, a, 64));
    const unsigned char wanted[16] = { 0x11, 0x11, 0x33, 0x22, 0x33, 0x22, 0x11, 0x11,
                                       0x77, 0x66, 0x55, 0x44, 0x11, 0x11, 0x11, 0x11 };
    assert_memory_equal(bytes, wanted, 16);
    for (int i = 32; i < 64; i++)
        assert_int_equal(bytes[i], i % 8 < 3 ? 0xee : 0x11);
    RETURNS(cuMemsetD8_v2(0, 1, 10), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemsetD8_v2(a, 1, 65), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemsetD8_v2(a, 1, (size_t)1 << 40), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemsetD16_v2(a + 1, 1, 2), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemsetD32_v2(a + 2, 1, 2), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemsetD32_v2(a, 1, SIZE_MAX / 2), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemsetD2D8_v2(a, 4, 1, 5, 2), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemsetD2D32_v2(a, 10, 1, 1, 2), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemsetD8_v2(a, 1, 0));
    OK(cuMemFree_v2(a));
}

TEST(rectangles)
{
    unsigned char from[100], to[100] = { 0 };
    CUdeviceptr a = 0;
    for (int i = 0; i < 100; i++)
        from[i] = (unsigned char)i;
    OK(cuMemAlloc_v2(&a, 200));
    OK(cuMemsetD8_v2(a, 0xff, 200));
    CUDA_MEMCPY2D copy = { .srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = from,
                           .srcPitch = 10,
                           .srcXInBytes = 2,
                           .srcY = 1,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = a,
                           .dstPitch = 20,
                           .WidthInBytes = 5,
                           .Height = 3 };
    OK(cuMemcpy2D_v2(&copy));
    OK(cuMemcpyDtoH_v2(to, a, 60));
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 20; x++)
            assert_int_equal(to[y * 20 + x], x < 5 ? (y + 1) * 10 + x + 2 : 0xff);
    copy.dstPitch = 4;
    RETURNS(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
    copy.dstPitch = 20, copy.Height = 60;
    RETURNS(cuMemcpy2DAsync_v2(&copy, NULL), CUDA_ERROR_INVALID_VALUE);
    copy.Height = 1, copy.srcMemoryType = (CUmemorytype)9;
    RETURNS(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    RETURNS(cuMemcpy2D_v2(&copy), CUDA_ERROR_NOT_SUPPORTED);
    RETURNS(cuMemcpy2D_v2(NULL), CUDA_ERROR_INVALID_VALUE);

    CUDA_MEMCPY3D solid = { .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                            .srcDevice = a,
                            .srcPitch = 20,
                            .srcHeight = 2,
                            .srcZ = 1,
                            .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                            .dstDevice = (CUdeviceptr)(uintptr_t)to,
                            .WidthInBytes = 5,
                            .Height = 1,
                            .Depth = 1 };
    memset(to, 0, sizeof(to));
    OK(cuMemcpy3D_v2(&solid));
    assert_int_equal(to[0], 32);
    solid.Depth = SIZE_MAX;
    RETURNS(cuMemcpy3D_v2(&solid), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree_v2(a));
}

TEST(pinned)
{
    void *memory = NULL;
    char local[8];
    unsigned flags = 0;
    CUdeviceptr address = 0;
    RETURNS(cuMemHostAlloc(NULL, 10, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemHostAlloc(&memory, 10, 0x100), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemHostAlloc(&memory, (size_t)1 << 62, 0), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemHostAlloc(&memory, 0, 0));
    OK(cuMemHostAlloc(&memory, 100, 0));
    memset(memory, 5, 100);
    OK(cuMemHostGetDevicePointer_v2(&address, (char *)memory + 4, 0));
    assert_int_equal(address, (uintptr_t)memory + 4);
    RETURNS(cuMemHostGetDevicePointer_v2(&address, local, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemHostGetDevicePointer_v2(&address, memory, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemHostGetFlags(&flags, memory));
    assert_int_equal(flags, 2);
    OK(cuMemsetD8_v2((CUdeviceptr)(uintptr_t)memory, 9, 50)); // the device writes to it
    assert_int_equal(((char *)memory)[49], 9);
    assert_int_equal(((char *)memory)[50], 5);
    RETURNS(cuMemFree_v2((CUdeviceptr)(uintptr_t)memory), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemFreeHost((char *)memory + 4), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeHost(memory));
    RETURNS(cuMemFreeHost(memory), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemFreeHost(local), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeHost(NULL));
    OK(cuMemAllocHost_v2(&memory, 100));
    OK(cuMemFreeHost(memory));
}

TEST(registered_and_managed)
{
    static char block[8192];
    CUdeviceptr address = 0;
    OK(cuMemHostRegister_v2(block, 8192, 0));
    RETURNS(cuMemHostRegister_v2(block, 10, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuMemHostGetDevicePointer_v2(&address, block, 0));
    RETURNS(cuMemFreeHost(block), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemHostUnregister(block + 4), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemHostUnregister(block));
    RETURNS(cuMemHostUnregister(block), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    RETURNS(cuMemHostRegister_v2(NULL, 10, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemHostRegister_v2(block, 0, 0), CUDA_ERROR_INVALID_VALUE);

    OK(cuMemAllocManaged(&address, 64, 1));
    OK(cuMemsetD32_v2(address, 77, 16));
    assert_int_equal(((uint32_t *)(uintptr_t)address)[15], 77);
    OK(cuMemFree_v2(address));
    RETURNS(cuMemAllocManaged(&address, 64, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuMemAllocManaged(&address, 0, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST(what_a_pointer_is)
{
    CUdeviceptr device = 0, start = 0;
    void *host = NULL;
    char local = 0;
    unsigned type = 0;
    int ordinal = 9;
    bool managed = true;
    CUcontext owner = NULL;
    OK(cuMemAlloc_v2(&device, 1000));
    OK(cuMemHostAlloc(&host, 100, 0));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device + 16));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, device + 16));
    assert_int_equal(start, device);
    OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, device));
    assert_ptr_equal(owner, context);
    RETURNS(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_HOST_POINTER, device),
            CUDA_ERROR_INVALID_VALUE);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                             (CUdeviceptr)(uintptr_t)host));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    RETURNS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  (CUdeviceptr)(uintptr_t)&local),
            CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device),
            CUDA_ERROR_INVALID_VALUE);
    CUpointer_attribute asked[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                    CU_POINTER_ATTRIBUTE_IS_MANAGED };
    void *answers[] = { &type, &ordinal, &managed };
    OK(cuPointerGetAttributes(3, asked, answers, device));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    assert_int_equal(ordinal, 0);
    assert_false(managed);
    OK(cuPointerGetAttributes(3, asked, answers, (CUdeviceptr)(uintptr_t)&local));
    assert_int_equal(type, 0);
    assert_int_equal(ordinal, -2);
    OK(cuMemFreeHost(host));
    OK(cuMemFree_v2(device));
}

TEST(contexts_own_their_memory)
{
    CUcontext other = NULL;
    CUdeviceptr address = 0;
    size_t before = 0, after = 0;
    OK(cuMemGetInfo_v2(&before, NULL));
    OK(cuCtxCreate_v2(&other, 0, 0));
    OK(cuMemAlloc_v2(&address, 1 << 20));
    OK(cuCtxDestroy_v2(other));
    OK(cuMemGetInfo_v2(&after, NULL));
    assert_int_equal(before, after);
    RETURNS(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc_v2(&address, 16)); // freed in another context
    OK(cuCtxCreate_v2(&other, 0, 0));
    OK(cuMemFree_v2(address));
    OK(cuCtxDestroy_v2(other));
}

int main(void)
{
    context = emu_context();
    return tests_run(NULL, NULL);
}
