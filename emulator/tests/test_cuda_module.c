// SPDX-License-Identifier: MIT
/// The emulator as a driver: loading text, its logs, functions, parameters, variables, occupancy,
/// libraries.
#include "api.h"

#include <sys/resource.h>

static CUmodule module;

TEST(variables)
{
    CUdeviceptr address = 0;
    size_t bytes = 0;
    uint64_t counter = 0;
    uint32_t limits[2] = { 0 };
    OK(cuModuleGetGlobal_v2(&address, &bytes, module, "counter"));
    assert_int_equal(bytes, 8);
    OK(cuMemcpyDtoH_v2(&counter, address, 8));
    assert_int_equal(counter, 11);
    OK(cuModuleGetGlobal_v2(&address, &bytes, module, "limits"));
    assert_int_equal(bytes, 8);
    OK(cuMemcpyDtoH_v2(limits, address, 8));
    assert_true(limits[0] == 7 && limits[1] == 8);
    CUdeviceptr start = 0;
    unsigned type = 0;
    OK(cuMemGetAddressRange_v2(&start, &bytes, address + 5));
    assert_true(start == address && bytes == 8);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    RETURNS(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
    OK(cuModuleGetGlobal_v2(NULL, &bytes, module, "counter"));
    RETURNS(cuModuleGetGlobal_v2(NULL, NULL, module, "counter"), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuModuleGetGlobal_v2(&address, &bytes, module, "none"), CUDA_ERROR_NOT_FOUND);
    RETURNS(cuModuleGetGlobal_v2(&address, &bytes, module, NULL), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuModuleGetGlobal_v2(&address, &bytes, NULL, "counter"), CUDA_ERROR_INVALID_HANDLE);
}

// A variable whose initial value is the address of another.
TEST(addresses_in_variables)
{
    CUmodule loaded = NULL;
    CUdeviceptr at = 0, target = 0;
    uint64_t values[2] = { 0 };
    OK(cuModuleLoadData(&loaded, ".version 7.0\n.target sm_80\n.address_size 64\n"
                                 ".const .b32 fixed[4];\n.global .u32 first = 3, data[4];\n"
                                 ".global .u64 at[2] = {generic(data)+4, generic(fixed)};\n"));
    OK(cuModuleGetGlobal_v2(&at, NULL, loaded, "at"));
    OK(cuMemcpyDtoH_v2(values, at, sizeof(values)));
    OK(cuModuleGetGlobal_v2(&target, NULL, loaded, "data"));
    assert_int_equal(values[0], target + 4);
    OK(cuModuleGetGlobal_v2(&target, NULL, loaded, "fixed"));
    assert_int_equal(values[1], target);
    OK(cuModuleUnload(loaded));
}

TEST(functions)
{
    CUfunction found = NULL, again = NULL, all[16] = { NULL };
    CUmodule of = NULL;
    const char *name = NULL;
    unsigned count = 0;
    OK(cuModuleGetFunction(&found, module, "store"));
    OK(cuModuleGetFunction(&again, module, "store"));
    assert_ptr_equal(found, again);
    RETURNS(cuModuleGetFunction(&found, module, "none"), CUDA_ERROR_NOT_FOUND);
    RETURNS(cuModuleGetFunction(&found, module, ""), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuModuleGetFunction(&found, module, NULL), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuModuleGetFunction(NULL, module, "store"), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuModuleGetFunction(&found, NULL, "store"), CUDA_ERROR_INVALID_HANDLE);
    OK(cuModuleGetFunctionCount(&count, module));
    assert_int_equal(count, 7);
    OK(cuModuleEnumerateFunctions(all, 16, module));
    assert_ptr_equal(all[0], again);
    OK(cuFuncGetName(&name, again));
    assert_string_equal(name, "store");
    OK(cuFuncGetModule(&of, again));
    assert_ptr_equal(of, module);
    OK(cuFuncLoad(again));
    RETURNS(cuFuncLoad(NULL), CUDA_ERROR_INVALID_HANDLE);
    RETURNS(cuFuncGetName(NULL, again), CUDA_ERROR_INVALID_VALUE);
}

TEST(parameters)
{
    static const size_t offsets[] = { 0, 8, 16, 24 }, sizes[] = { 8, 1, 8, 12 };
    CUfunction shape = emu_function(module, "shape");
    size_t offset = 0, bytes = 0;
    for (size_t i = 0; i < 4; i++) {
        OK(cuFuncGetParamInfo(shape, i, &offset, &bytes));
        assert_int_equal(offset, offsets[i]);
        assert_int_equal(bytes, sizes[i]);
    }
    RETURNS(cuFuncGetParamInfo(shape, 4, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuFuncGetParamInfo(shape, 0, NULL, &bytes), CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncGetParamInfo(shape, 0, &offset, NULL));
}

static int attribute(const char *name, CUfunction_attribute which)
{
    int value = -7;
    OK(cuFuncGetAttribute(&value, which, emu_function(module, name)));
    return value;
}

TEST(attributes)
{
    CUfunction shared = emu_function(module, "shared");
    int value = 0;
    assert_int_equal(attribute("store", CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
    assert_int_equal(attribute("shape", CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
    assert_int_equal(attribute("small", CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 64);
    assert_int_equal(attribute("shared", CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES), 1024);
    assert_int_equal(attribute("store", CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES), 8);
    assert_int_equal(attribute("store", CU_FUNC_ATTRIBUTE_PTX_VERSION), 70);
    assert_int_equal(attribute("store", CU_FUNC_ATTRIBUTE_BINARY_VERSION), 90);
    CUfunction_attribute dynamic = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    assert_int_equal(attribute("store", dynamic), 49152);
    assert_int_equal(attribute("shared", dynamic), 48128);
    RETURNS(cuFuncSetAttribute(shared, dynamic, 232448), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuFuncSetAttribute(shared, dynamic, -1), CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetAttribute(shared, dynamic, 232448 - 1024));
    assert_int_equal(attribute("shared", dynamic), 232448 - 1024);
    OK(cuFuncSetAttribute(shared, dynamic, 48128));
    RETURNS(cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1),
            CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101),
            CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuFuncGetAttribute(&value, (CUfunction_attribute)99, shared), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuFuncGetAttribute(NULL, dynamic, shared), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuFuncGetAttribute(&value, dynamic, NULL), CUDA_ERROR_INVALID_HANDLE);
}

/// The results of an H200 for the same kernels: blocks with 0, 16384, 32768 and 49152 bytes.
TEST(occupancy)
{
    static const struct {
        const char *kernel;
        int threads, blocks[4];
    } known[] = {
        { "store", 1, { 32, 13, 6, 4 } },  { "store", 96, { 21, 13, 6, 4 } },
        { "store", 256, { 8, 8, 6, 4 } },  { "store", 1000, { 2, 2, 2, 2 } },
        { "small", 1024, { 2, 2, 2, 2 } }, { "shared", 64, { 32, 12, 6, 0 } },
    };
    int value = 0, block = 0;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        for (size_t k = 0; k < 4; k++) {
            OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &value, emu_function(module, known[i].kernel), known[i].threads, k * 16384));
            assert_int_equal(value, known[i].blocks[k]);
        }
    CUfunction store = emu_function(module, "store");
    RETURNS(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, store, 0, 0),
            CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, NULL, 32, 0),
            CUDA_ERROR_INVALID_HANDLE);
    OK(cuOccupancyMaxPotentialBlockSize(&value, &block, store, NULL, 0, 0));
    assert_int_equal(value, 264);
    assert_int_equal(block, 1024);
    OK(cuOccupancyMaxPotentialBlockSizeWithFlags(&value, &block, store, NULL, 0, 100, 0));
    assert_int_equal(value, 4224);
    assert_int_equal(block, 64);
    size_t bytes = 0;
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, store, 1, 128));
    assert_int_equal(bytes, 49152);
}

/// Loads with both logs; the sizes written back are those of the logs.
static CUresult load(const char *text, char info[1024], char error[1024])
{
    CUmodule loaded = NULL;
    CUjit_option options[] = { CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                               CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                               CU_JIT_MAX_REGISTERS,    CU_JIT_WALL_TIME };
    void *values[] = { info, (void *)1024, error, (void *)1024, (void *)32, NULL };
    memset(info, 'x', 1024);
    memset(error, 'x', 1024);
    CUresult result = cuModuleLoadDataEx(&loaded, text, 6, options, values);
    assert_int_equal((uintptr_t)values[1], strlen(info));
    assert_int_equal((uintptr_t)values[3], strlen(error));
    if (result == CUDA_SUCCESS)
        OK(cuModuleUnload(loaded));
    return result;
}

TEST(logs)
{
    char info[1024], error[1024];
    OK(load(emu_text, info, error));
    assert_string_equal(error, "");
    OK(load(EMU_TEXT_HEAD, info, error));
    OK(load("// a comment\n/* and another */ " EMU_TEXT_HEAD, info, error));
    RETURNS(load("", info, error), CUDA_ERROR_INVALID_IMAGE);
    RETURNS(load("no PTX at all", info, error), CUDA_ERROR_INVALID_IMAGE);
    assert_non_null(strstr(error, "is not recognized"));
    RETURNS(load("\177ELF and then machine code", info, error), CUDA_ERROR_NO_BINARY_FOR_GPU);
    RETURNS(load(".version 99.0\n.target sm_70\n", info, error),
            CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    assert_non_null(strstr(error, "Unsupported .version 99.0; current version is '9.5'"));
    RETURNS(load(EMU_TEXT_HEAD ".visible .entry k()\n{\n    frobnicate.u32 1;\n}\n", info, error),
            CUDA_ERROR_INVALID_PTX);
    assert_non_null(strstr(error, "ptxas application ptx input, line 6; error   : "));
    OK(load(".version 8.0\n.target sm_90a\n.address_size 64\n", info, error));
}

TEST(small_buffers_and_bad_options)
{
    CUmodule loaded = NULL;
    char small[10];
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { small, (void *)10 };
    RETURNS(cuModuleLoadDataEx(&loaded, "nonsense", 2, options, values), CUDA_ERROR_INVALID_IMAGE);
    assert_int_equal((uintptr_t)values[1], 10);
    assert_string_equal(small, "error   :");
    options[0] = (CUjit_option)99;
    RETURNS(cuModuleLoadDataEx(&loaded, emu_text, 1, options, values), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuModuleLoadDataEx(&loaded, emu_text, 1, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuModuleLoadData(NULL, emu_text), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuModuleLoadData(&loaded, NULL), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuModuleLoad(&loaded, "/nonexistent"), CUDA_ERROR_FILE_NOT_FOUND);
    CUjit_option verbose[] = { CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                               CU_JIT_LOG_VERBOSE };
    char info[4096] = "";
    void *wanted[] = { info, (void *)4096, (void *)1 };
    OK(cuModuleLoadDataEx(&loaded, emu_text, 3, verbose, wanted));
    assert_non_null(strstr(info, "Compiling entry function 'store' for 'sm_90'"));
    OK(cuModuleUnload(loaded));
}

TEST(unloading)
{
    CUmodule loaded = emu_module();
    CUfunction function = emu_function(loaded, "small");
    size_t before = 0, after = 0;
    OK(cuModuleUnload(loaded));
    RETURNS(cuModuleUnload(loaded), CUDA_ERROR_INVALID_HANDLE);
    RETURNS(cuModuleUnload(NULL), CUDA_ERROR_INVALID_HANDLE);
    RETURNS(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
            CUDA_ERROR_INVALID_HANDLE);
    OK(cuMemGetInfo_v2(&before, NULL));
    OK(cuModuleUnload(emu_module()));
    OK(cuMemGetInfo_v2(&after, NULL));
    assert_int_equal(before, after);
}

TEST(libraries)
{
    CUlibrary library = NULL;
    CUkernel kernel = NULL, again = NULL;
    CUfunction function = NULL;
    CUdeviceptr address = 0;
    size_t bytes = 0;
    const char *name = NULL;
    OK(cuLibraryLoadData(&library, emu_text, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "small"));
    OK(cuLibraryGetKernel(&again, library, "small"));
    assert_ptr_equal(kernel, again);
    RETURNS(cuLibraryGetKernel(&again, library, "none"), CUDA_ERROR_NOT_FOUND);
    RETURNS(cuLibraryGetKernel(&again, NULL, "small"), CUDA_ERROR_INVALID_HANDLE);
    OK(cuKernelGetName(&name, kernel));
    assert_string_equal(name, "small");
    OK(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_EQUAL, 0));
    RETURNS(cuKernelSetCacheConfig(kernel, (CUfunc_cache)4, 0), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_NONE, 1),
            CUDA_ERROR_INVALID_DEVICE);
    RETURNS(cuKernelSetCacheConfig(NULL, CU_FUNC_CACHE_PREFER_NONE, 0), CUDA_ERROR_INVALID_HANDLE);
    OK(cuKernelGetFunction(&function, kernel));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cuLaunchKernel((CUfunction)(void *)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cuLibraryGetGlobal(&address, &bytes, library, "counter"));
    assert_int_equal(bytes, 8);
    OK(cuLibraryUnload(library));
    RETURNS(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
    RETURNS(cuKernelGetFunction(&function, kernel), CUDA_ERROR_INVALID_HANDLE);
    RETURNS(cuLibraryLoadFromFile(&library, "/none", NULL, NULL, 0, NULL, NULL, 0),
            CUDA_ERROR_FILE_NOT_FOUND);
    OK(cuLibraryLoadData(&library, "garbage", NULL, NULL, 0, NULL, NULL,
                         0)); // the text is read at its first use
    RETURNS(cuLibraryGetKernel(&kernel, library, "small"), CUDA_ERROR_INVALID_IMAGE);
    OK(cuLibraryUnload(library));
}

TEST(kernels_without_a_context)
{
    CUcontext context = NULL;
    CUlibrary library = NULL;
    CUkernel kernel = NULL, again = NULL;
    CUfunction function = NULL;
    OK(cuCtxPopCurrent_v2(&context));
    OK(cuLibraryLoadData(&library, emu_text, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "small"));
    RETURNS(cuLibraryGetKernel(&again, library, "none"), CUDA_ERROR_NOT_FOUND);
    RETURNS(cuLibraryGetKernel(&again, library, ""), CUDA_ERROR_INVALID_VALUE);
    RETURNS(cuKernelGetFunction(&function, kernel), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxPushCurrent_v2(context));
    OK(cuLibraryGetKernel(&again, library, "small"));
    assert_ptr_equal(kernel, again);
    OK(cuKernelGetFunction(&function, kernel));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cuLibraryUnload(library));
}

/// More than any program has. The time is proportional to their number.
TEST(very_many_functions)
{
    enum { COUNT = 10000, ROOM = 160 };
    ALLOCATED(char) *text = malloc((size_t)(COUNT + 2) * ROOM);
    size_t length = 0;
    uint32_t got = 0;
    CUmodule many = NULL;
    CUfunction entry = NULL;
    CUdeviceptr address = 0;
    void *arguments[] = { &address };
    assert_non_null(text);
    length += (size_t)sprintf(text, ".version 7.0\n.target sm_70\n.address_size 64\n");
    for (int k = 0; k < COUNT; k++)
        length += (size_t)sprintf(text + length,
                                  ".func (.reg .u32 %%y) f%d () { mov.u32 %%y, %d; ret; }\n", k, k);
    sprintf(text + length,
            ".entry last(.param .u64 p) { .reg .u64 %%d; .reg .u32 %%r; ld.param.u64 %%d, [p];\n"
            "call.uni (%%r), f%d, (); st.global.u32 [%%d], %%r; ret; }\n",
            COUNT - 1);
    OK(cuModuleLoadData(&many, text));
    OK(cuModuleGetFunction(&entry, many, "last"));
    OK(cuMemAlloc_v2(&address, sizeof(got)));
    OK(cuLaunchKernel(entry, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    OK(cuMemcpyDtoH_v2(&got, address, sizeof(got)));
    assert_int_equal(got, COUNT - 1);
    OK(cuMemFree_v2(address));
    OK(cuModuleUnload(many));
}

// Host and kernels use a managed variable at one address.
TEST(managed_variables)
{
    static const char text[] =
        ".version 8.0\n.target sm_75\n.address_size 64\n"
        ".visible .global .attribute(.managed) .align 4 .u32 both = 41;\n"
        ".visible .global .align 8 .attribute(.managed) .u64 at = both;\n.visible .global .u32 "
        "own;\n"
        ".visible .entry k()\n{\n.reg .b32 %r; .reg .b64 %d;\nld.global.u64 %d, [at];\n"
        "ld.u32 %r, [%d];\nadd.u32 %r, %r, 1;\nst.global.u32 [both], %r;\nret;\n}\n";
    CUmodule loaded = NULL;
    CUfunction k = NULL;
    CUdeviceptr both = 0, own = 0;
    size_t bytes = 0;
    bool managed = false;
    OK(cuModuleLoadData(&loaded, text));
    OK(cuModuleGetFunction(&k, loaded, "k"));
    OK(cuModuleGetGlobal_v2(&both, &bytes, loaded, "both"));
    assert_int_equal(bytes, 4);
    volatile unsigned *word = (volatile unsigned *)(uintptr_t)both;
    assert_int_equal(*word, 41);
    *word = 99;
    OK(cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cuCtxSynchronize());
    assert_int_equal(*word, 100);
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, both));
    assert_true(managed);
    OK(cuModuleGetGlobal_v2(&own, NULL, loaded, "own"));
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, own));
    assert_false(managed);
    OK(cuModuleUnload(loaded));
}

// They are within the device's memory as others are, and take no host memory before they are used.
TEST(large_managed_variables)
{
#define LARGE_MANAGED(bytes)                                                                       \
    ".version 8.0\n.target sm_75\n.address_size 64\n.global .attribute(.managed) .b8 all[" bytes   \
    "];\n"
    struct rusage before, after;
    CUmodule loaded = NULL;
    RETURNS(cuModuleLoadData(&loaded, LARGE_MANAGED("1099511627776")), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    OK(cuModuleLoadData(&loaded, LARGE_MANAGED("1073741824")));
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    assert_true(after.ru_maxrss - before.ru_maxrss < 65536);
    OK(cuModuleUnload(loaded));
}

// The head of a cuda_tile module of version 13.1, and its end.
TEST(tile_modules)
{
    static const unsigned char tile[] = { 0x7f, 'T', 'i', 'l', 'e', 'I', 'R', 0, 13, 1, 0, 0, 0 };
    CUmodule loaded = NULL;
    const char *told = NULL;
    RETURNS(cuModuleLoadData(&loaded, tile), CUDA_ERROR_NO_BINARY_FOR_GPU);
    OK(cuGetErrorString(CUDA_ERROR_NO_BINARY_FOR_GPU, &told));
    assert_non_null(strstr(told, "cuda_tile IR, which the emulator does not run"));
}

/// Programs copy the text of an error into an array of some 1,000 bytes: Triton does.
TEST(texts_of_errors_are_short)
{
    char text[16384];
    CUmodule loaded = NULL;
    CUfunction function = NULL;
    const char *told = NULL;
    int length = snprintf(text, sizeof(text),
                          ".version 8.0\n.target sm_90\n.address_size 64\n"
                          ".visible .entry k()\n{\n");
    for (int i = 0; i < 40; i++)
        length +=
            snprintf(text + length, sizeof(text) - (size_t)length, "wgmma.fence.sync.aligned;\n");
    snprintf(text + length, sizeof(text) - (size_t)length, "ret;\n}\n");
    RETURNS(cuModuleLoadData(&loaded, text), CUDA_ERROR_INVALID_PTX);
    OK(cuGetErrorString(CUDA_ERROR_INVALID_PTX, &told));
    assert_in_range(strlen(told), 900, 980);
    assert_non_null(strstr(told, "line 6; error   : Feature 'wgmma' requires .target sm_90a"));
    assert_non_null(strstr(told, " ... "));

    char name[1501];
    memset(name, 'k', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    snprintf(text, sizeof(text),
             ".version 8.0\n.target sm_90\n.address_size 64\n"
             ".visible .entry %s()\n{\n.reg .b64 %%d;\nmov.b64 %%d, 0;\n"
             "st.global.u32 [%%d], 0;\nret;\n}\n",
             name);
    OK(cuModuleLoadData(&loaded, text));
    OK(cuModuleGetFunction(&function, loaded, name));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    RETURNS(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &told));
    assert_in_range(strlen(told), 900, 980);
    assert_non_null(strstr(told, "out of bounds: store of 4 bytes at 0x0"));
    assert_non_null(strstr(told, "kkk ... kkk"));
    assert_non_null(strstr(told, "PTX line 8: `st.global.u32 [%d], 0;`"));
    OK(cuEmulatorClearError());
    OK(cuModuleUnload(loaded));
}

int main(void)
{
    emu_context();
    module = emu_module();
    return tests_run(NULL, NULL);
}
