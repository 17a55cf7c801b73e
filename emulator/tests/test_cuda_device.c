// SPDX-License-Identifier: MIT
/// The emulator as a driver: before cuInit(), devices, contexts, names of errors and of functions.
#include "api.h"

TEST(before_init)
{
    int value = 0;
    CUdeviceptr address = 0;
    CUcontext context = NULL;
    RETURNS(cuDeviceGetCount(&value), CUDA_ERROR_NOT_INITIALIZED);
    RETURNS(cuMemAlloc_v2(&address, 4), CUDA_ERROR_NOT_INITIALIZED);
    RETURNS(cuMemFreeHost(NULL), CUDA_ERROR_NOT_INITIALIZED);
    RETURNS(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
    RETURNS(cuInit(1), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuDeviceGetCount(&value), CUDA_ERROR_NOT_INITIALIZED);
    OK(cuDriverGetVersion(&value));
    assert_int_equal(value, 13050);
    RETURNS(cuDriverGetVersion(NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuInit(0));
    OK(cuInit(0));
}

TEST(names_of_errors)
{
    const char *text = NULL;
    OK(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    assert_string_equal(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
    OK(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    assert_string_equal(text, "an illegal memory access was encountered");
    RETURNS(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
    assert_null(text);
    RETURNS(cuGetErrorString(CUDA_SUCCESS, NULL), CUDA_ERROR_INVALID_VALUE);
#define NAMED(code, value, words)                                                                  \
    OK(cuGetErrorName(code, &text));                                                               \
    assert_string_equal(text, #code);
    CUDA_ABI_RESULTS(NAMED)
}

TEST(one_device)
{
    int value = 0;
    size_t bytes = 0;
    char name[64] = "";
    CUdevice device = 7;
    CUuuid uuid;
    OK(cuDeviceGetCount(&value));
    assert_int_equal(value, 1);
    OK(cuDeviceGet(&device, 0));
    assert_int_equal(device, 0);
    RETURNS(cuDeviceGet(&device, 1), CUDA_ERROR_INVALID_DEVICE);
    RETURNS(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
    RETURNS(cuDeviceGet(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuDeviceGetName(name, sizeof(name), 0));
    assert_string_equal(name, "ptxgen emulator (sm_90)");
    OK(cuDeviceGetName(name, 5, 0));
    assert_string_equal(name, "ptxg");
    RETURNS(cuDeviceGetName(name, 0, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuDeviceGetName(name, 5, 3), CUDA_ERROR_INVALID_DEVICE);
    OK(cuDeviceTotalMem_v2(&bytes, 0));
    assert_int_equal(bytes, (size_t)8 << 30);
    OK(cuDeviceGetUuid_v2(&uuid, 0));
    OK(cuDeviceGetPCIBusId(name, sizeof(name), 0));
    OK(cuDeviceGetByPCIBusId(&device, name));
    OK(cuDeviceGetByPCIBusId(&device, "0000:00:00"));
    OK(cuDeviceGetByPCIBusId(&device, "00:00.0"));
    static const char *const none[] = {
        "", "0000:00:01.0", "00:00.1", "0000:00:00.0 ", "0000", "x"
    };
    for (size_t k = 0; k < sizeof none / sizeof *none; k++)
        RETURNS(cuDeviceGetByPCIBusId(&device, none[k]), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuDeviceGetByPCIBusId(&device, NULL), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuDeviceGetByPCIBusId(NULL, name), CUDA_ERROR_INVALID_VALUE);
}

TEST(attributes)
{
    static const struct {
        int attribute, value;
    } known[] = {
        { 1, 1024 }, { 4, 64 },      { 5, 2147483647 }, { 6, 65535 },  { 8, 49152 }, { 10, 32 },
        { 16, 132 }, { 39, 2048 },   { 41, 1 },         { 75, 9 },     { 76, 0 },    { 81, 233472 },
        { 95, 1 },   { 97, 232448 }, { 106, 32 },       { 111, 1024 }, { 120, 1 },
    };
    int value = 0;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        OK(cuDeviceGetAttribute(&value, (CUdevice_attribute)known[i].attribute, 0));
        assert_int_equal(value, known[i].value);
    }
    RETURNS(cuDeviceGetAttribute(&value, 9999, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuDeviceGetAttribute(&value, 0, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuDeviceGetAttribute(NULL, 1, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuDeviceGetAttribute(&value, 1, 9), CUDA_ERROR_INVALID_DEVICE);
    int minor = 7;
    OK(cuDeviceComputeCapability(&value, &minor, 0));
    assert_int_equal(value * 10 + minor, 90);
}

TEST(no_context)
{
    CUdeviceptr address = 0;
    CUcontext context = NULL;
    CUstream stream = NULL;
    size_t bytes = 0;
    CUdevice device = 0;
    RETURNS(cuMemAlloc_v2(&address, 4), CUDA_ERROR_INVALID_CONTEXT);
    RETURNS(cuMemAlloc_v2(NULL, 4), CUDA_ERROR_INVALID_CONTEXT);
    RETURNS(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    RETURNS(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    RETURNS(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
    RETURNS(cuMemGetInfo_v2(&bytes, &bytes), CUDA_ERROR_INVALID_CONTEXT);
    RETURNS(cuCtxPopCurrent_v2(&context), CUDA_ERROR_INVALID_CONTEXT);
    RETURNS(cuCtxPushCurrent_v2(NULL), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuCtxPushCurrent_v2((CUcontext)&bytes), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxSetCurrent(NULL));
    OK(cuMemFree_v2(0));
    OK(cuCtxGetCurrent(&context));
    assert_null(context);
}

TEST(primary_context)
{
    CUcontext first = NULL, second = NULL;
    CUdeviceptr address = 0;
    unsigned flags = 9;
    int active = 9;
    RETURNS(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuDevicePrimaryCtxSetFlags_v2(0, 4));
    RETURNS(cuDevicePrimaryCtxRetain(&first, 9), CUDA_ERROR_INVALID_DEVICE);
    OK(cuDevicePrimaryCtxRetain(&first, 0));
    OK(cuDevicePrimaryCtxRetain(&second, 0));
    assert_ptr_equal(first, second);
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(flags, 4);
    assert_int_equal(active, 1);
    RETURNS(cuCtxDestroy_v2(first), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxSetCurrent(first));
    OK(cuMemAlloc_v2(&address, 4));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    RETURNS(cuMemAlloc_v2(&address, 4), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuCtxGetCurrent(&second));
    assert_ptr_equal(first, second);
    OK(cuDevicePrimaryCtxRetain(&second, 0));
    assert_ptr_equal(first, second);
    RETURNS(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE); // freed with the context
    OK(cuMemAlloc_v2(&address, 4));
    OK(cuDevicePrimaryCtxReset_v2(0));
    RETURNS(cuMemFree_v2(address), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    OK(cuCtxSetCurrent(NULL));
}

TEST(stack_of_contexts)
{
    CUcontext a = NULL, b = NULL, found = NULL;
    CUdeviceptr address = 0;
    unsigned value = 0;
    RETURNS(cuCtxCreate_v2(NULL, 0, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuCtxCreate_v2(&a, 0x1000, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuCtxCreate_v2(&a, 0, 9), CUDA_ERROR_INVALID_DEVICE);
    OK(cuCtxCreate_v2(&a, 4, 0));
    OK(cuCtxCreate_v4(&b, NULL, 0, 0));
    OK(cuCtxGetApiVersion(a, &value));
    assert_int_equal(value, 3020);
    OK(cuCtxPopCurrent_v2(&found));
    assert_ptr_equal(found, b);
    OK(cuCtxGetCurrent(&found));
    assert_ptr_equal(found, a);
    OK(cuCtxGetFlags(&value));
    assert_int_equal(value, 4);
    OK(cuCtxPushCurrent_v2(b));
    OK(cuCtxDestroy_v2(a));
    OK(cuCtxPopCurrent_v2(NULL));
    RETURNS(cuMemAlloc_v2(&address, 4), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    RETURNS(cuCtxDestroy_v2(a), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuCtxPopCurrent_v2(&found));
    OK(cuCtxSetCurrent(b));
    OK(cuCtxDestroy_v2(b));
    OK(cuCtxGetCurrent(&found));
    assert_null(found);
    RETURNS(cuCtxDestroy_v2(NULL), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuCtxDestroy_v2((CUcontext)&value), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(limits)
{
    size_t value = 0;
    CUcontext context = NULL;
    CUfunc_cache cache = CU_FUNC_CACHE_PREFER_EQUAL;
    int least = 9, greatest = 9;
    OK(cuCtxCreate_v2(&context, 0, 0));
    OK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    assert_int_equal(value, 1024);
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
    OK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    assert_int_equal(value, 4096);
    RETURNS(cuCtxGetLimit(&value, (CUlimit)3), CUDA_ERROR_UNSUPPORTED_LIMIT);
    RETURNS(cuCtxSetLimit((CUlimit)99, 1), CUDA_ERROR_UNSUPPORTED_LIMIT);
    RETURNS(cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxGetCacheConfig(&cache));
    assert_int_equal(cache, CU_FUNC_CACHE_PREFER_NONE);
    RETURNS(cuCtxSetCacheConfig((CUfunc_cache)7), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxGetStreamPriorityRange(&least, &greatest));
    assert_int_equal(least, 0);
    assert_int_equal(greatest, -5);
    OK(cuCtxDestroy_v2(context));
}

static void *address_of(const char *name, int version, unsigned flags, int status)
{
    void *function = &status;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
    OK(cuGetProcAddress_v2(name, &function, version, flags, &found));
    assert_int_equal(found, status);
    assert_int_equal(function != NULL, status == CU_GET_PROC_ADDRESS_SUCCESS);
    return function;
}

static bool is(void *found, void (*function)(void))
{
    return memcmp(&found, &function, sizeof(found)) == 0;
}

#define IS(found, function) assert_true(is(found, (void (*)(void))function))

TEST(functions_by_name)
{
    void *function = NULL;
    IS(address_of("cuMemAlloc", 12000, 0, 0), cuMemAlloc_v2);
    IS(address_of("cuInit", 12000, 0, 0), cuInit);
    IS(address_of("cuGraphInstantiate", 11000, 0, 0), cuGraphInstantiate_v2);
    IS(address_of("cuGraphInstantiate", 12000, 0, 0), cuGraphInstantiateWithFlags);
    IS(address_of("cuStreamGetCaptureInfo", 11030, 0, 0), cuStreamGetCaptureInfo_v2);
    IS(address_of("cuStreamGetCaptureInfo", 13000, 0, 0), cuStreamGetCaptureInfo_v3);
    IS(address_of("cuLaunchKernel", 12000, 2, 0), cuLaunchKernel_ptsz);
    address_of("cuMemAlloc_v2", 12000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    address_of("nonsense", 12000, 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    address_of("cuLaunchKernelEx", 11000, 0, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    RETURNS(cuGetProcAddress_v2("cuInit", &function, 99999, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuGetProcAddress_v2("cuInit", &function, 12000, 7, NULL), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuGetProcAddress("nonsense", &function, 12000, 0), CUDA_ERROR_NOT_FOUND);
    OK(cuGetProcAddress("cuInit", &function, 12000, 0));
    const void *table = &function;
    CUuuid id = { { 1 } };
    RETURNS(cuGetExportTable(&table, &id), CUDA_ERROR_NO_DEVICE);
    assert_null(table);
}
