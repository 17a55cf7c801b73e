// SPDX-License-Identifier: MIT
/// Kernels that fail, and what is said of them and of texts that are refused. Each test has its own
/// process, because a failure affects a whole process.
#define _POSIX_C_SOURCE 200809L
#include "api.h"

#include "child.h"

#include <pthread.h>

static CUresult launch(const char *name, CUdeviceptr address)
{
    CUmodule module = NULL;
    CUfunction function = NULL;
    uint32_t value = 1;
    void *params[] = { &address, &value };
    WANT(cuModuleLoadData(&module, emu_text), 0);
    WANT(cuModuleGetFunction(&function, module, name), 0);
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
}

/// The error has ended with its context: another one works, and the error is described as usual.
static void is_cured(void)
{
    CUcontext context = NULL;
    CUdeviceptr address = 0;
    uint32_t value = 0;
    WANT(cuDevicePrimaryCtxRetain(&context, 0), 0); // an H200 returns the error
    WANT(cuCtxSetCurrent(context), 0);
    WANT(cuMemAlloc_v2(&address, 4), 0);
    WANT(launch("store", address), 0);
    WANT(cuCtxSynchronize(), 0);
    WANT(cuMemcpyDtoH_v2(&value, address, 4), 0);
    WANT(value, 1);
}

/// A context that cuCtxCreate() made, and one beside the failed one, which does not end the error.
static void is_cured_by_destruction(void)
{
    CUcontext failing = NULL, other = NULL;
    const char *text = NULL;
    open_context();
    WANT(cuCtxCreate_v2(&other, 0, 0), 0);
    WANT(cuCtxCreate_v2(&failing, 0, 0), 0);
    WANT(launch("store", 16), 0);
    WANT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    WANT(cuCtxDestroy_v2(other), 0);
    WANT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    WANT(cuCtxDestroy_v2(failing), 0);
    WANT(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text), 0);
    TRUE(strcmp(text, "an illegal memory access was encountered") == 0);
    WANT(cuCtxPopCurrent_v2(&other), 0); // the destroyed one below
    WANT(cuCtxSynchronize(), 0);
    is_cured();
}

/// Which calls return the error of a failed kernel, as on an H200.
static void is_poisoned(int error)
{
    CUdeviceptr address = 0;
    CUcontext context = NULL, other = NULL;
    CUstream stream = NULL;
    CUdevice device = 0;
    CUgraph graph = NULL;
    int value = 0, active = 0;
    unsigned flags = 0;
    WANT(cuStreamSynchronize(NULL), error);
    WANT(cuStreamQuery(NULL), error);
    WANT(cuMemAlloc_v2(&address, 4), error);
    WANT(cuMemAlloc_v2(NULL, 0), error);
    WANT(cuMemFree_v2(address), 0); // NULL
    WANT(cuStreamCreate(&stream, 0), error);
    WANT(cuCtxSynchronize(), error);
    WANT(cuCtxCreate_v2(&other, 0, 0), error);
    WANT(cuGraphCreate(&graph, 0), 0);
    WANT(cuCtxGetDevice(&device), 0);
    WANT(cuCtxGetCurrent(&context), 0);
    WANT(cuDeviceGetAttribute(&value, 1, 0), 0);
    WANT(cuDevicePrimaryCtxGetState(0, &flags, &active), 0);
    WANT(active, 1);
    WANT(cuDevicePrimaryCtxReset_v2(0), 0);
    WANT(cuMemAlloc_v2(&address, 4), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    is_cured();
}

static void is_illegal(void)
{
    open_context();
    WANT(launch("store", 16), 0);
    is_poisoned(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void is_misaligned(void)
{
    CUdeviceptr address = 0;
    open_context();
    WANT(cuMemAlloc_v2(&address, 64), 0);
    WANT(launch("store", address + 2), 0);
    is_poisoned(CUDA_ERROR_MISALIGNED_ADDRESS);
}

static void is_trapped(void)
{
    open_context();
    WANT(launch("stop", 0), 0);
    is_poisoned(CUDA_ERROR_LAUNCH_FAILED);
}

static void *describe(void *text)
{
    WANT(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, text), 0);
    return NULL;
}

/// cuGetErrorString() includes the report in every thread, and only for the error that occurred.
static void is_described(void)
{
    const char *plain = "an illegal memory access was encountered: ", *text = NULL, *other = NULL;
    pthread_t thread;
    open_context();
    WANT(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text), 0);
    TRUE(strcmp(text, "an illegal memory access was encountered") == 0);
    WANT(launch("store", 16), 0);
    WANT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    WANT(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text), 0);
    TRUE(strncmp(text, plain, strlen(plain)) == 0);
    TRUE(strstr(text, "kernel store") && strstr(text, "st.global.u32 [%d1], %r1;"));
    WANT(pthread_create(&thread, NULL, describe, &other), 0);
    WANT(pthread_join(thread, NULL), 0);
    TRUE(other == text);
    WANT(cuGetErrorString(CUDA_ERROR_LAUNCH_FAILED, &other), 0);
    TRUE(strcmp(other, "unspecified launch failure") == 0);
    WANT(cuEmulatorClearError(), 0);
    WANT(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &other), 0);
    TRUE(strcmp(other, "an illegal memory access was encountered") == 0);
}

/// A refused load says why in cuGetErrorString() if the caller gave no buffer for the log.
static void is_refused(void)
{
    static const char machine_code[] = "\177ELF";
    static const char bad[] = EMU_TEXT_HEAD ".visible .entry bad()\n{\n    frobnicate.b32;\n}\n";
    const char *text = NULL, *report = NULL;
    CUmodule module = NULL;
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    open_context();
    WANT(cuModuleLoadData(&module, bad), CUDA_ERROR_INVALID_PTX);
    WANT(cuGetErrorString(CUDA_ERROR_INVALID_PTX, &text), 0);
    TRUE(strncmp(text, "a PTX JIT compilation failed: cuModuleLoadData failed", 53) == 0);
    TRUE(strstr(text, "line 6") && strstr(text, "frobnicate"));
    WANT(cuEmulatorReport(&report), 0);
    TRUE(strstr(report, "line 6") && strstr(report, "frobnicate"));
    WANT(cuModuleLoadData(&module, machine_code), CUDA_ERROR_NO_BINARY_FOR_GPU);
    WANT(cuGetErrorString(CUDA_ERROR_NO_BINARY_FOR_GPU, &text), 0);
    TRUE(strstr(text, "the emulator runs PTX. Ask for PTX: nvcc"));
    WANT(cuLibraryLoadData(&library, bad, NULL, NULL, 0, NULL, NULL, 0), 0);
    WANT(cuLibraryGetKernel(&kernel, library, "bad"), CUDA_ERROR_INVALID_PTX);
    WANT(cuGetErrorString(CUDA_ERROR_INVALID_PTX, &text), 0);
    TRUE(strstr(text, "cuLibraryGetKernel failed"));
    WANT(cuLibraryUnload(library), 0);
}

/// With a buffer, only the buffer has the log. The text of an earlier call does not explain a later
/// one.
static void is_silent(void)
{
    char log[256] = "";
    const char *text = NULL;
    CUmodule module = NULL;
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { log, (void *)sizeof(log) };
    open_context();
    WANT(cuModuleLoadDataEx(&module, "nonsense", 2, options, values), CUDA_ERROR_INVALID_IMAGE);
    TRUE(log[0]);
    WANT(cuGetErrorString(CUDA_ERROR_INVALID_IMAGE, &text), 0);
    TRUE(strcmp(text, "device kernel image is invalid") == 0);
    FILE *file = fopen(log_path, "r");
    TRUE(!file);
    WANT(cuModuleLoadData(&module, "nonsense"), CUDA_ERROR_INVALID_IMAGE);
    WANT(cuGetErrorString(CUDA_ERROR_INVALID_IMAGE, &text), 0);
    TRUE(strstr(text, "not recognized"));
    WANT(cuModuleLoadDataEx(&module, "nonsense", 2, options, values), CUDA_ERROR_INVALID_IMAGE);
    WANT(cuGetErrorString(CUDA_ERROR_INVALID_IMAGE, &text), 0);
    TRUE(strcmp(text, "device kernel image is invalid") == 0);
}

TEST(explanations)
{
    in_child(is_described, NULL);
    in_child(is_refused, NULL);
    in_log("cuModuleLoadData failed (218 CUDA_ERROR_INVALID_PTX): ");
    in_log("cuModuleLoadData failed (209 CUDA_ERROR_NO_BINARY_FOR_GPU): ");
    in_child(is_silent, NULL);
}

static void is_freed(void)
{
    CUdeviceptr address = 0, other = 0;
    const char *report = NULL;
    open_context();
    WANT(cuMemAlloc_v2(&address, 64), 0);
    WANT(cuMemFree_v2(address), 0);
    WANT(launch("store", address), 0);
    WANT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    WANT(cuEmulatorReport(&report), 0);
    TRUE(strstr(report, "store") != NULL);
    WANT(cuEmulatorClearError(), 0); // hardware cannot do this
    WANT(cuMemAlloc_v2(&other, 64), 0);
    WANT(launch("store", other), 0);
    WANT(cuCtxSynchronize(), 0);
}

/// Memory that nobody told the driver of.
static void is_pageable(void)
{
    ALLOCATED(uint32_t) *anywhere = calloc(1, sizeof *anywhere);
    int value = 0;
    TRUE(anywhere);
    open_context();
    WANT(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0), 0);
    const bool pageable = value;
    TRUE(pageable == (getenv("PTXGEN_EMU_DEVICE") != NULL));
    WANT(launch("store", (CUdeviceptr)(uintptr_t)anywhere), 0);
    WANT(cuCtxSynchronize(), pageable ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS);
    TRUE(*anywhere == pageable);
    if (!pageable)
        WANT(cuEmulatorClearError(), 0);
    WANT(launch("store", 16), 0);
    WANT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(pageable_memory)
{
    in_child(is_pageable, NULL);
    IN_CHILD(is_pageable, "PTXGEN_EMU_DEVICE=sm_90,pageable,sms=2");
}

/// The code of compilers for `struct { unsigned a; /* padding */ } s = { thread }; *out = s`.
static const char padding_text[] = EMU_TEXT_HEAD ".visible .entry pad(.param .u64 p)\n"
                                                 "{\n"
                                                 "    .local .align 8 .b8 s[8];\n"
                                                 "    .reg .b32 %r<2>;\n"
                                                 "    .reg .b64 %d<5>;\n"
                                                 "    ld.param.u64 %d1, [p];\n"
                                                 "    mov.u32 %r1, %tid.x;\n"
                                                 "    mul.wide.u32 %d2, %r1, 8;\n"
                                                 "    add.u64 %d1, %d1, %d2;\n"
                                                 "    mov.u64 %d3, s;\n"
                                                 "    st.local.u32 [%d3], %r1;\n"
                                                 "    ld.local.u64 %d4, [%d3];\n"
                                                 "    st.global.u64 [%d1], %d4;\n"
                                                 "    ret;\n"
                                                 "}\n";

static void pads(void)
{
    CUmodule module = NULL;
    CUfunction function = NULL;
    CUdeviceptr memory = 0;
    uint32_t words[64];
    void *params[] = { &memory };
    open_context();
    WANT(cuModuleLoadData(&module, padding_text), 0);
    WANT(cuModuleGetFunction(&function, module, "pad"), 0);
    WANT(cuMemAlloc_v2(&memory, sizeof(words)), 0);
    WANT(cuMemcpyDtoH_v2(words, memory, sizeof(words)), 0); // as of memory that was never written
    WANT(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), 0);
    WANT(cuMemcpyDtoH_v2(words, memory, sizeof(words)), 0);
    for (uint32_t i = 0; i < 32; i++)
        WANT(words[2 * i], i);
}

/// Adds 5 to memory that was never written, and copies the sums on the device.
static CUdeviceptr make_sums(CUdeviceptr *copy)
{
    CUmodule module = NULL;
    CUfunction function = NULL;
    CUdeviceptr sums = 0;
    uint32_t n = 16, value = 5;
    void *params[] = { &sums, &n, &value };
    open_context();
    WANT(cuModuleLoadData(&module, emu_text), 0);
    WANT(cuModuleGetFunction(&function, module, "add"), 0);
    WANT(cuMemAlloc_v2(&sums, 64), 0);
    WANT(cuMemAlloc_v2(copy, 256), 0);
    WANT(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), 0);
    WANT(cuCtxSynchronize(), 0);
    WANT(cuMemcpyDtoD_v2(*copy + 64, sums, 64), 0);
    return sums;
}

static void is_undefined(void)
{
    CUdeviceptr copy = 0, sums = make_sums(&copy);
    uint32_t words[64];
    const char *text = NULL;
    void *pinned = NULL;
    WANT(cuMemcpyDtoH_v2(words, copy, 64), 0); // beside them
    WANT(cuMemcpyDtoH_v2(words, copy, 256), CUDA_ERROR_LAUNCH_FAILED);
    WANT(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    WANT(cuGetErrorString(CUDA_ERROR_LAUNCH_FAILED, &text), 0);
    TRUE(strstr(text, "byte 64 of the 256 bytes") && strstr(text, "kernel add") &&
         strstr(text, "ld.global.u32 %r7, [%d3];"));
    WANT(cuEmulatorClearError(), 0);
    WANT(cuMemcpyDtoHAsync_v2(words, sums, 64, NULL), CUDA_ERROR_LAUNCH_FAILED);
    WANT(cuEmulatorClearError(), 0);
    WANT(cuMemAllocHost_v2(&pinned, 64), 0);
    WANT(cuMemcpy((CUdeviceptr)(uintptr_t)pinned, sums, 64), CUDA_ERROR_LAUNCH_FAILED);
    WANT(cuEmulatorClearError(), 0);
    // In a graph of several nodes the launch succeeds, as with a kernel.
    CUstream stream = NULL;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    WANT(cuStreamCreate(&stream, 1), 0);
    WANT(cuStreamBeginCapture_v2(stream, 2), 0);
    WANT(cuMemcpyDtoHAsync_v2(words, sums, 64, stream), 0);
    WANT(cuMemcpyDtoHAsync_v2(words, sums, 64, stream), 0);
    WANT(cuStreamEndCapture(stream, &graph), 0);
    WANT(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    WANT(cuGraphLaunch(exec, stream), 0);
    WANT(cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED);
    WANT(cuEmulatorClearError(), 0);
    WANT(cuMemsetD8_v2(copy + 64, 1, 32), 0);
    WANT(cuMemcpyDtoH_v2(words, copy, 96), 0);
    WANT(cuMemcpyHtoD_v2(copy + 96, words, 32), 0);
    WANT(cuMemcpyDtoH_v2(words, copy, 256), 0);
}

static void is_five(void)
{
    CUdeviceptr copy = 0, sums = make_sums(&copy);
    uint32_t words[16];
    WANT(cuMemcpyDtoH_v2(words, copy + 64, 64), 0);
    WANT(cuMemcpyDtoH_v2(words, sums, 64), 0);
    for (int i = 0; i < 16; i++)
        WANT(words[i], 5); // memory begins as zeros
}

TEST(undefined_results)
{
    in_child(pads, NULL);
    in_child(is_undefined, NULL);
    in_log("uninitialised values are copied to the host: byte 64 of the 256 bytes");
    IN_CHILD(is_five, "PTXGEN_EMU_SANITIZE=0");
    IN_CHILD(is_five, "PTXGEN_EMU_SANITIZE=warn");
    in_log("warning: uninitialised values are copied to the host: byte 0 of the 64 bytes");
    // Reported once, although it is copied twice.
    char text[8192] = "", *first;
    FILE *file = fopen(log_path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    first = strstr(text, "warning:");
    assert_non_null(first);
    assert_null(strstr(first + 1, "warning:"));
}

TEST(failing_kernels)
{
    in_child(is_illegal, NULL);
    in_log("store");
    in_log("st.global.u32 [%d1], %r1;");
    in_child(is_misaligned, NULL);
    in_log("store");
    in_child(is_trapped, NULL);
    in_log("stop");
    in_child(is_cured_by_destruction, NULL);
    in_child(is_freed, NULL);
    in_log("store");
}

/// As is_illegal(), with standard error in the file of the log.
static void is_illegal_unlogged(void)
{
    if (!freopen(log_path, "w", stderr))
        _exit(2);
    is_illegal();
    fflush(stderr);
}

TEST(log_that_cannot_be_written)
{
    IN_CHILD(is_illegal_unlogged, "PTXGEN_EMU_LOG=/nonexistent/log");
    in_log("PTXGEN_EMU_LOG='/nonexistent/log' cannot be written: No such file or directory");
    in_log("st.global.u32 [%d1], %r1;");
    if (access("/dev/full", W_OK) != 0)
        return;
    IN_CHILD(is_illegal_unlogged, "PTXGEN_EMU_LOG=/dev/full");
    in_log("PTXGEN_EMU_LOG='/dev/full' cannot be written: No space left on device");
    in_log("st.global.u32 [%d1], %r1;");
}

int main(void)
{
    snprintf(log_path, sizeof(log_path), "/tmp/ptxgen-failure-%ld.log", (long)getpid());
    int failed = tests_run(NULL, NULL);
    remove(log_path);
    return failed;
}
