// SPDX-License-Identifier: MIT
/// The emulator as a driver: malloc() and free() of kernels, on the heap of their context.
#define _POSIX_C_SOURCE 200809L // setenv
#include "api.h"

enum { THREADS = 40 };

static const char text[] =
    EMU_TEXT_HEAD ".extern .func (.param .b64 r) malloc(.param .b64 a);\n"
                  ".extern .func free(.param .b64 a);\n"
                  // out[tid] = malloc(bytes), and its last word is tid if `bytes` is at least 4.
                  ".visible .entry take(.param .u64 bytes, .param .u64 out)\n{\n"
                  "    .reg .b64 %d<8>; .reg .b32 %r<3>; .reg .pred %p<3>;\n"
                  "    mov.u32 %r1, %tid.x;\n"
                  "    ld.param.u64 %d1, [bytes];\n"
                  "    ld.param.u64 %d2, [out];\n"
                  "    mul.wide.u32 %d3, %r1, 8;\n"
                  "    add.u64 %d2, %d2, %d3;\n"
                  "    {\n    .param .b64 p0; .param .b64 r0;\n"
                  "    st.param.b64 [p0], %d1;\n"
                  "    call.uni (r0), malloc, (p0);\n"
                  "    ld.param.b64 %d4, [r0];\n    }\n"
                  "    st.global.u64 [%d2], %d4;\n"
                  "    setp.eq.u64 %p1, %d4, 0;\n"
                  "    @%p1 ret;\n"
                  "    add.u64 %d5, %d4, %d1;\n"
                  "    st.u32 [%d5+-4], %r1;\n"
                  "    ret;\n}\n"
                  // sum += the word at p[tid] + at; free(p[tid]).
                  ".visible .entry give(.param .u64 p, .param .u64 at, .param .u64 sum)\n{\n"
                  "    .reg .b64 %d<8>; .reg .b32 %r<4>;\n"
                  "    mov.u32 %r1, %tid.x;\n"
                  "    ld.param.u64 %d1, [p];\n"
                  "    ld.param.u64 %d2, [at];\n"
                  "    ld.param.u64 %d6, [sum];\n"
                  "    mul.wide.u32 %d3, %r1, 8;\n"
                  "    add.u64 %d1, %d1, %d3;\n"
                  "    ld.global.u64 %d4, [%d1];\n"
                  "    add.u64 %d5, %d4, %d2;\n"
                  "    ld.u32 %r2, [%d5];\n"
                  "    red.global.add.u32 [%d6], %r2;\n"
                  "    {\n    .param .b64 p0;\n"
                  "    st.param.b64 [p0], %d4;\n"
                  "    call.uni free, (p0);\n    }\n"
                  "    ret;\n}\n"
                  // free(p); then, if `what` is 1, the word at p + 4 is read.
                  ".visible .entry drop(.param .u64 p, .param .u64 what)\n{\n"
                  "    .reg .b64 %d<4>; .reg .b32 %r<3>; .reg .pred %p<2>;\n"
                  "    ld.param.u64 %d1, [p];\n"
                  "    ld.param.u64 %d2, [what];\n"
                  "    setp.eq.u64 %p1, %d2, 1;\n"
                  "    {\n    .param .b64 p0;\n"
                  "    st.param.b64 [p0], %d1;\n"
                  "    call.uni free, (p0);\n    }\n"
                  "    @%p1 ld.u32 %r1, [%d1+4];\n"
                  "    ret;\n}\n"
                  // `count` times: free(malloc(100)), with a word stored and read.
                  ".visible .entry loop(.param .u64 count, .param .u64 wrong)\n{\n"
                  "    .reg .b64 %d<6>; .reg .b32 %r<5>; .reg .pred %p<3>;\n"
                  "    ld.param.u64 %d1, [count];\n"
                  "    ld.param.u64 %d5, [wrong];\n"
                  "AGAIN:\n"
                  "    mov.u64 %d2, 100;\n"
                  "    {\n    .param .b64 p0; .param .b64 r0;\n"
                  "    st.param.b64 [p0], %d2;\n"
                  "    call.uni (r0), malloc, (p0);\n"
                  "    ld.param.b64 %d3, [r0];\n    }\n"
                  "    cvt.u32.u64 %r1, %d1;\n"
                  "    st.u32 [%d3], %r1;\n"
                  "    ld.u32 %r2, [%d3];\n"
                  "    sub.u32 %r3, %r1, %r2;\n"
                  "    red.global.or.b32 [%d5], %r3;\n"
                  "    {\n    .param .b64 p0;\n"
                  "    st.param.b64 [p0], %d3;\n"
                  "    call.uni free, (p0);\n    }\n"
                  "    sub.u64 %d1, %d1, 1;\n"
                  "    setp.ne.u64 %p1, %d1, 0;\n"
                  "    @%p1 bra AGAIN;\n"
                  "    ret;\n}\n";

static CUcontext context;
static CUmodule module;
static CUdeviceptr pointers, word;
static unsigned blocks = 1;

static int begin(void **state)
{
    (void)state;
    context = emu_context();
    OK(cuModuleLoadData(&module, text));
    OK(cuMemAlloc_v2(&pointers, THREADS * 8));
    OK(cuMemAlloc_v2(&word, 4));
    OK(cuMemsetD32_v2(word, 0, 1));
    return 0;
}

static int end(void **state)
{
    (void)state;
    cuEmulatorClearError();
    OK(cuDevicePrimaryCtxRelease(0));
    return 0;
}

static void launch(const char *name, unsigned threads, uint64_t first, uint64_t second,
                   uint64_t third)
{
    void *params[] = { &first, &second, &third };
    OK(cuLaunchKernel(emu_function(module, name), blocks, 1, 1, threads, 1, 1, 0, NULL, params,
                      NULL));
}

static void read_pointers(uint64_t *to)
{
    OK(cuMemcpyDtoH_v2(to, pointers, THREADS * 8));
}

static void expect_report(CUresult result, const char *part)
{
    const char *report = NULL;
    RETURNS(cuCtxSynchronize(), result);
    OK(cuEmulatorReport(&report));
    if (!strstr(report, part))
        fail_msg("'%s' is not in '%s'", part, report);
}

TEST_WITH(memory_lives_between_launches, begin, end)
{
    uint64_t got[THREADS];
    launch("take", THREADS, 104, pointers, 0);
    read_pointers(got);
    for (int k = 0; k < THREADS; k++) {
        assert_true(got[k] != 0 && got[k] % 16 == 0);
        for (int j = 0; j < k; j++)
            assert_true(got[j] != got[k]);
    }
    launch("give", THREADS, pointers, 100, word);
    assert_int_equal(emu_read(word), THREADS * (THREADS - 1) / 2);
}

TEST_WITH(a_full_heap_gives_null, begin, end)
{
    uint64_t got[THREADS], none = 0;
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1000));
    launch("take", THREADS, 100, pointers, 0); // 112 each
    read_pointers(got);
    for (int k = 0; k < THREADS; k++)
        none += got[k] == 0;
    assert_int_equal(none, THREADS - 1000 / 112);
    launch("drop", 1, got[0], 0, 0);
    launch("take", 1, 100, pointers, 0);
    read_pointers(got);
    assert_true(got[0] != 0);
    RETURNS(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1 << 20), CUDA_ERROR_INVALID_VALUE);
    static const uint64_t odd[] = { 0, 1001, UINT64_MAX, UINT64_MAX - 7, UINT64_C(1) << 63 };
    for (size_t k = 0; k < sizeof odd / sizeof *odd; k++) {
        launch("take", 1, odd[k], pointers, 0);
        read_pointers(got);
        assert_true(got[0] == 0);
    }
}

TEST_WITH(wrong_frees_are_reported, begin, end)
{
    uint64_t got[THREADS];
    launch("drop", 1, 0, 0, 0); // free(NULL)
    OK(cuCtxSynchronize());
    launch("drop", 1, word, 0, 0); // the host's
    expect_report(CUDA_ERROR_LAUNCH_FAILED, "free() of 0x");
    OK(cuEmulatorClearError());
    launch("take", 1, 64, pointers, 0);
    read_pointers(got);
    launch("drop", 1, got[0] + 16, 0, 0);
    expect_report(CUDA_ERROR_LAUNCH_FAILED, "free() of 0x");
    OK(cuEmulatorClearError());
    RETURNS(cuMemFree_v2(got[0]), CUDA_ERROR_INVALID_VALUE);
    launch("drop", 1, got[0], 0, 0);
    OK(cuCtxSynchronize());
    launch("drop", 1, got[0], 0, 0);
    expect_report(CUDA_ERROR_LAUNCH_FAILED, "freed before");
}

TEST_WITH(wrong_accesses_are_reported, begin, end)
{
    uint64_t got[THREADS];
    launch("take", 2, 64, pointers, 0);
    read_pointers(got);
    launch("drop", 1, got[0], 1, 0); // in the launch that frees
    expect_report(CUDA_ERROR_ILLEGAL_ADDRESS, "use after free");
    OK(cuEmulatorClearError());
    OK(cuMemcpyHtoD_v2(pointers, &got[1], 8));
    launch("give", 1, pointers, 64, word);
    expect_report(CUDA_ERROR_ILLEGAL_ADDRESS, "out of bounds");
}

TEST_WITH(a_loop_needs_no_more_memory, begin, end)
{
    size_t before = 0, after = 0, total = 0;
    OK(cuMemGetInfo_v2(&before, &total));
    launch("loop", 32, 2000, word, 0);
    blocks = 50; // on several threads
    launch("loop", 32, 40, word, 0);
    blocks = 1;
    assert_int_equal(emu_read(word), 0);
    OK(cuMemGetInfo_v2(&after, &total));
    assert_true(before == after);
}

TEST_WITH(the_heap_ends_with_its_context, begin, end)
{
    size_t before = 0, after = 0, total = 0;
    OK(cuMemGetInfo_v2(&before, &total));
    launch("take", THREADS, 1000, pointers, 0);
    OK(cuMemGetInfo_v2(&after, &total));
    assert_true(before - after >= THREADS * 1000);
    OK(cuDevicePrimaryCtxReset(0));
    begin(NULL);
    OK(cuMemGetInfo_v2(&after, &total));
    assert_true(before == after);
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1 << 20));
    OK(cuDevicePrimaryCtxRelease(0)); // of begin()
}

int main(void)
{
    setenv("PTXGEN_EMU_LOG", "/dev/null", 1);
    return tests_run(NULL, NULL);
}
