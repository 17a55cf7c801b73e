// SPDX-License-Identifier: MIT
#include "emulator_faults.h"

struct emulator_functions emulator;

int emulator_open(void **state)
{
    (void)state;
    void *library = dlopen(getenv("PTXGEN_LIBCUDA"), RTLD_NOW | RTLD_LOCAL);
    void *symbol = NULL;
#define FIND(name)                                                                                 \
    symbol = library ? dlsym(library, #name) : NULL;                                               \
    if (!symbol) {                                                                                 \
        fprintf(stderr, "PTXGEN_LIBCUDA is not the emulator: no " #name "\n");                     \
        return -1;                                                                                 \
    }                                                                                              \
    memcpy(&emulator.name, &symbol, sizeof(symbol));
    EMULATOR_CALLS(FIND)
#undef FIND
    return 0;
}

void fail_call(CUresult result, int call)
{
    emulator.cuEmulatorFail(
        &(struct emulator_fault) { .result = result, .call = (unsigned long long)call });
}

void fail_next(struct emulator_fault fault)
{
    fault.call = 1;
    emulator.cuEmulatorFail(&fault);
}

static struct emulator_counts counts_now(void)
{
    struct emulator_counts counts;
    emulator.cuEmulatorCounts(&counts);
    return counts;
}

int calls_so_far(void)
{
    return (int)counts_now().calls;
}

int objects_alive(void)
{
    return (int)counts_now().objects;
}

int launches_so_far(void)
{
    return (int)counts_now().launches;
}

const char *failed_function(void)
{
    return counts_now().failed;
}

static CUcontext current_context(void)
{
    CUcontext context = NULL;
    assert_int_equal(emulator.cuCtxGetCurrent(&context), CUDA_SUCCESS);
    return context;
}

void assert_thread_untouched(CUcontext context)
{
    assert_ptr_equal(current_context(), context);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    assert_int_equal(emulator.cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
