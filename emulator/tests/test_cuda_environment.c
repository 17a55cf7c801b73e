// SPDX-License-Identifier: MIT
/// The environment variables of the emulator. Each test has its own process, because they affect a
/// whole process.
#define _POSIX_C_SOURCE 200809L
#include "api.h"

#include "child.h"

static void is_sm_80(void)
{
    int value = 0;
    char name[64];
    CUmodule module = NULL;
    open_context();
    WANT(cuDeviceGetAttribute(&value, 16, 0), 0);
    WANT(value, 7);
    WANT(cuDeviceGetAttribute(&value, 75, 0), 0);
    WANT(value, 8);
    WANT(cuDeviceGetAttribute(&value, 97, 0), 0);
    WANT(value, 166912);
    WANT(cuDeviceGetName(name, sizeof(name), 0), 0);
    TRUE(strcmp(name, "my GPU") == 0);
    WANT(cuDriverGetVersion(&value), 0);
    WANT(value, 12040);
    WANT(cuModuleLoadData(&module, ".version 8.4\n.target sm_80\n.address_size 64\n"), 0);
    WANT(cuModuleLoadData(&module, ".version 8.5\n.target sm_80\n.address_size 64\n"), 222);
    TRUE(cuModuleLoadData(&module, ".version 8.0\n.target sm_90\n.address_size 64\n") != 0);
}

TEST(device_and_driver)
{
    IN_CHILD(is_sm_80, "PTXGEN_EMU_DEVICE=sm_80,sms=7,name=my GPU", "PTXGEN_EMU_DRIVER=12040");
}

/// The occupancy query, a cooperative launch and the available shared memory agree.
static void occupancy_agrees(void)
{
    const size_t shared[] = { 0, 1, 1000, 8192, 16384, 32768, 49152 };
    CUmodule module = NULL;
    CUfunction function = NULL;
    int processors = 0, blocks = 0;
    open_context();
    WANT(cuDeviceGetAttribute(&processors, 16, 0), 0);
    WANT(cuModuleLoadData(&module, emu_text), 0);
    WANT(cuModuleGetFunction(&function, module, "small"), 0);
    for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++) {
        size_t left = 0;
        unsigned bytes = (unsigned)shared[i];
        WANT(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 64, bytes), 0);
        TRUE(blocks > 0);
        unsigned most = (unsigned)(blocks * processors);
        WANT(cuLaunchCooperativeKernel(function, most, 1, 1, 64, 1, 1, bytes, NULL, NULL), 0);
        WANT(cuLaunchCooperativeKernel(function, most + 1, 1, 1, 64, 1, 1, bytes, NULL, NULL),
             CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
        WANT(cuOccupancyAvailableDynamicSMemPerBlock(&left, function, blocks, 64), 0);
        TRUE(left >= shared[i]);
        int again = 0;
        WANT(cuOccupancyMaxActiveBlocksPerMultiprocessor(&again, function, 64, left), 0);
        TRUE(again == blocks);
    }
    WANT(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 64, 0), 0);
    size_t left = 0;
    WANT(cuOccupancyAvailableDynamicSMemPerBlock(&left, function, blocks + 1, 64),
         CUDA_ERROR_INVALID_VALUE);
}

/// 32 KiB of shared memory on sm_75: two blocks a multiprocessor, 80 on all of them.
static void holds_two(void)
{
    CUmodule module = NULL;
    CUfunction function = NULL;
    int blocks = 0;
    open_context();
    WANT(cuModuleLoadData(&module, emu_text), 0);
    WANT(cuModuleGetFunction(&function, module, "small"), 0);
    WANT(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 64, 32768), 0);
    WANT(blocks, 2);
    WANT(cuLaunchCooperativeKernel(function, 80, 1, 1, 64, 1, 1, 32768, NULL, NULL), 0);
    WANT(cuLaunchCooperativeKernel(function, 81, 1, 1, 64, 1, 1, 32768, NULL, NULL),
         CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    WANT(cuCtxSynchronize(), 0);
}

TEST(occupancy)
{
    static const char *const devices[] = { "70", "72", "75",  "80",  "86",  "87",
                                           "89", "90", "100", "103", "120", "121" };
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        char variable[64];
        snprintf(variable, sizeof(variable), "PTXGEN_EMU_DEVICE=sm_%s,sms=2", devices[i]);
        IN_CHILD(occupancy_agrees, variable);
    }
    IN_CHILD(holds_two, "PTXGEN_EMU_DEVICE=sm_75");
}

static void has_a_megabyte(void)
{
    CUdeviceptr address = 0, more = 0;
    size_t available = 0, total = 0;
    open_context();
    WANT(cuMemGetInfo_v2(&available, &total), 0);
    WANT(total, 1 << 20);
    WANT(cuMemAlloc_v2(&address, 1 << 20), 0);
    WANT(cuMemAlloc_v2(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
    CUmodule module = NULL;
    WANT(cuModuleLoadData(&module, emu_text), CUDA_ERROR_OUT_OF_MEMORY); // for its variables
    WANT(cuMemFree_v2(address), 0);
    WANT(cuModuleLoadData(&module, emu_text), 0);
}

TEST(memory_limit)
{
    IN_CHILD(has_a_megabyte, "PTXGEN_EMU_MEMORY=1M");
    IN_CHILD(has_a_megabyte, "PTXGEN_EMU_MEMORY=1024K");
    IN_CHILD(has_a_megabyte, "PTXGEN_EMU_MEMORY=1048576");
}

static void is_malformed(void)
{
    int count = 0;
    if (!freopen("/dev/null", "w", stderr))
        _exit(2);
    const char *text = NULL;
    WANT(cuInit(0), CUDA_ERROR_INVALID_VALUE);
    WANT(cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text), 0);
    TRUE(strncmp(text, "PTXGEN_EMU_", 11) == 0);
    WANT(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
}

static void names_the_devices(void)
{
    const char *text = NULL;
    is_malformed();
    WANT(cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text), 0);
    TRUE(strstr(text, "NN one of 70 72 75 80 ") != NULL);
    TRUE(strcmp(text + strlen(text) - 8, " 120 121") == 0);
}

#define TEN       "0123456789"
#define FIFTY     TEN TEN TEN TEN TEN
#define LONG_NAME FIFTY FIFTY FIFTY FIFTY "0"

TEST(malformed)
{
    static const char *const variables[] = {
        "PTXGEN_EMU_DEVICE=sm_42",
        "PTXGEN_EMU_DEVICE=sm_90,sms=0",
        "PTXGEN_EMU_DEVICE=GPU",
        "PTXGEN_EMU_DEVICE=sm_90,colour=red",
        "PTXGEN_EMU_DEVICE=,",
        "PTXGEN_EMU_DEVICE=sm_90,",
        "PTXGEN_EMU_DEVICE=sm_90,,sms=1",
        "PTXGEN_EMU_DEVICE=sm_90,name=",
        "PTXGEN_EMU_DEVICE=name=" LONG_NAME,
        "PTXGEN_EMU_SEED=x",
        "PTXGEN_EMU_SEED=-1",
        "PTXGEN_EMU_MEMORY=",
        "PTXGEN_EMU_MEMORY=1T",
        "PTXGEN_EMU_MEMORY=0",
        "PTXGEN_EMU_MEMORY=99999999999999999999",
        "PTXGEN_EMU_SANITIZE=2",
        "PTXGEN_EMU_SANITIZE=warning",
        "PTXGEN_EMU_THREADS=many",
        "PTXGEN_EMU_TIMEOUT=1s",
        "PTXGEN_EMU_INSTRUCTIONS=none",
        "PTXGEN_EMU_DRIVER=12.4",
        "PTXGEN_EMU_DRIVER=9000",
        "PTXGEN_EMU_FAIL=cuMemAlloc",
        "PTXGEN_EMU_FAIL=cuNothing:2",
        "PTXGEN_EMU_FAIL=cuMemAlloc:zero",
        "PTXGEN_EMU_FAIL=cuMemAlloc:0",
        "PTXGEN_EMU_FAIL=cuMemAlloc:2@0",
        "PTXGEN_EMU_FAIL=cuMemAlloc:2@",
        "PTXGEN_EMU_FAIL=cuInit:0,",
        "PTXGEN_EMU_FAIL=,,,",
        "PTXGEN_EMU_FAIL=cuInit:2,",
        "PTXGEN_EMU_FAIL=cuInit:2,,cuMemAlloc:2",
        "PTXGEN_EMU_FAIL=cuInit:2@4294967296",
        "PTXGEN_EMU_FAIL=cuInit:2@99999999999999999999",
        "PTXGEN_EMU_FAIL=cuInit:1000",
        "PTXGEN_EMU_FAIL=cuInit:2,cuNothing:2",
        "PTXGEN_EMU_SANITISE=0",
        "PTXGEN_EMU_SEEDS=1",
        "PTXGEN_EMU_=1",
    };
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        IN_CHILD(is_malformed, variables[i]);
    IN_CHILD(names_the_devices, "PTXGEN_EMU_DEVICE=sm_42");
}

static void second_fails(void)
{
    CUdeviceptr address = 0;
    CUmodule module = NULL;
    int count = 7;
    WANT(cuInit(0), CUDA_ERROR_NO_DEVICE);
    open_context();
    WANT(cuMemAlloc_v2(&address, 4), 0);
    WANT(cuMemAlloc_v2(&address, 4), CUDA_ERROR_OUT_OF_MEMORY);
    WANT(cuMemAlloc_v2(&address, 4), 0);
    for (int i = 0; i < 3; i++)
        WANT(cuDeviceGetCount(&count), CUDA_ERROR_UNKNOWN);
    WANT(count, 7);
    WANT(cuModuleLoadData(&module, emu_text), CUDA_ERROR_INVALID_PTX);
    WANT(cuModuleLoadData(&module, emu_text), 0);
}

/// The faults of cuEmulatorFail().
static void chosen_fails(void)
{
    CUdeviceptr address = 0;
    CUmodule module = NULL;
    int count = 0;
    const char *text = NULL;
    char error[4] = "", info[8] = "";
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                               CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { error, (void *)(sizeof(error) - 1), info, (void *)sizeof(info) };
    struct emulator_fault fault = { .result = CUDA_ERROR_UNKNOWN, .call = 2 };
    struct emulator_counts counts;
    open_context();
    WANT(cuEmulatorFail(&fault), 0);
    WANT(cuDeviceGetCount(&count), 0);
    WANT(cuMemAlloc_v2(&address, 4), CUDA_ERROR_UNKNOWN);
    WANT(cuMemAlloc_v2(&address, 4), 0);
    WANT(cuEmulatorCounts(&counts), 0);
    TRUE(strcmp(counts.failed, "cuMemAlloc_v2") == 0);

    fault = (struct emulator_fault) { CUDA_ERROR_ASSERT, 2, "cuMemAlloc", "line 7", NULL, NULL };
    WANT(cuEmulatorFail(&fault), 0);
    WANT(cuMemAlloc_v2(&address, 4), 0);
    WANT(cuDeviceGetCount(&count), 0);
    WANT(cuMemAlloc_v2(&address, 4), CUDA_ERROR_ASSERT);
    WANT(cuGetErrorString(CUDA_ERROR_ASSERT, &text), 0);
    TRUE(strcmp(text, "device-side assert triggered: line 7") == 0);
    WANT(cuMemAlloc_v2(&address, 4), 0);
    WANT(cuEmulatorFail(&fault), 0);
    WANT(cuEmulatorFail(NULL), 0);
    for (int i = 0; i < 3; i++)
        WANT(cuMemAlloc_v2(&address, 4), 0);

    fault = (struct emulator_fault) {
        CUDA_ERROR_INVALID_PTX, 1, "cuModuleLoadDataEx", NULL, "wrong", "info"
    };
    WANT(cuEmulatorFail(&fault), 0);
    WANT(cuModuleLoadDataEx(&module, emu_text, 4, options, values), CUDA_ERROR_INVALID_PTX);
    TRUE(!module && memcmp(error, "wro", 4) == 0 && memcmp(info, "info\0\0\0", 8) == 0);
    fault.result = CUDA_SUCCESS;
    WANT(cuEmulatorFail(&fault), 0);
    WANT(cuModuleLoadDataEx(&module, emu_text, 4, options, values), 0);
    TRUE(module && memcmp(info, "info", 4) == 0);
    WANT(cuModuleUnload(module), 0);
}

TEST(injected_faults)
{
    in_child(chosen_fails, NULL);
    IN_CHILD(second_fails, "PTXGEN_EMU_FAIL=cuInit:100@1,cuMemAlloc:CUDA_ERROR_OUT_OF_MEMORY@2,"
                           "cuDeviceGetCount:999,cuModuleLoadData:218@1");
}

// `turns` iterations of a loop of three instructions.
static const char loop_text[] = EMU_TEXT_HEAD ".visible .entry loop(.param .u32 turns)\n"
                                              "{\n"
                                              "    .reg .pred %p<2>;\n"
                                              "    .reg .b32 %r<2>;\n"
                                              "    ld.param.u32 %r1, [turns];\n"
                                              "AGAIN:\n"
                                              "    sub.u32 %r1, %r1, 1;\n"
                                              "    setp.ne.u32 %p1, %r1, 0;\n"
                                              "    @%p1 bra AGAIN;\n"
                                              "    ret;\n"
                                              "}\n";

static void is_limited(void)
{
    CUmodule module = NULL;
    CUfunction function = NULL;
    uint32_t turns = 300;
    void *params[] = { &turns };
    open_context();
    WANT(cuModuleLoadData(&module, loop_text), 0);
    WANT(cuModuleGetFunction(&function, module, "loop"), 0);
    for (int i = 0; i < 20; i++) // the limit is for each launch
        WANT(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), 0);
    WANT(cuCtxSynchronize(), 0);
    WANT(cuLaunchKernel(function, 20, 1, 1, 1, 1, 1, 0, NULL, params, NULL), 0);
    WANT(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_TIMEOUT);
    WANT(cuEmulatorClearError(), 0);
    turns = 0; // four thousand million
    WANT(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), 0);
    WANT(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_TIMEOUT);
}

TEST(instruction_limit)
{
    IN_CHILD(is_limited, "PTXGEN_EMU_INSTRUCTIONS=10000", "PTXGEN_EMU_THREADS=1");
    in_log("timeout: the launch has run");
    in_log("thread (0,0,0), PTX line");
    IN_CHILD(is_limited, "PTXGEN_EMU_INSTRUCTIONS=10000", "PTXGEN_EMU_THREADS=4");
}

static void does_not_end(void)
{
    CUmodule module = NULL;
    CUfunction function = NULL;
    uint32_t turns = 0; // four thousand million
    void *params[] = { &turns };
    open_context();
    WANT(cuModuleLoadData(&module, loop_text), 0);
    WANT(cuModuleGetFunction(&function, module, "loop"), 0);
    WANT(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), 0);
    WANT(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_TIMEOUT);
}

TEST(time_limit)
{
    IN_CHILD(does_not_end, "PTXGEN_EMU_TIMEOUT=20", "PTXGEN_EMU_INSTRUCTIONS=100000000");
    in_log("no block has ended for 20 ms (PTXGEN_EMU_TIMEOUT)");
}

int main(void)
{
    snprintf(log_path, sizeof(log_path), "/tmp/ptxgen-emulator-%ld.log", (long)getpid());
    int failed = tests_run(NULL, NULL);
    remove(log_path);
    return failed;
}
