// SPDX-License-Identifier: MIT
/// The emulator as a driver: printf() and assert() of kernels. Each check has its own process,
/// whose standard output or error is a file.
#define _POSIX_C_SOURCE 200809L
#include "api.h"

#include "child.h"

#include <fcntl.h>

static char output_path[64];

static const char text[] = EMU_TEXT_HEAD
    ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
    ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d,\n"
    "    .param .b64 e);\n"
    ".global .align 1 .b8 word[4] = { 111, 110, 101, 0 };\n"           // one
    ".global .align 1 .b8 file[5] = { 97, 46, 99, 117, 0 };\n"         // a.cu
    ".global .align 1 .b8 message[6] = { 105, 32, 60, 32, 110, 0 };\n" // i < n
    // Prints with the format at `format`: an int, a long long, a double, a string, a char.
    ".visible .entry print(.param .u64 format, .param .u64 result)\n{\n"
    "    .local .align 8 .b8 room[48];\n"
    "    .reg .b64 %d<9>; .reg .b32 %r<5>; .reg .f64 %e<2>;\n"
    "    mov.u32 %r1, %tid.x;\n"
    "    mov.u64 %d1, room;\n"
    "    add.s32 %r2, %r1, -7;\n"
    "    st.local.u32 [%d1], %r2;\n"
    "    mov.u64 %d2, -5000000000;\n"
    "    st.local.u64 [%d1+8], %d2;\n"
    "    mov.f64 %e1, 0d3FF4000000000000;\n"
    "    st.local.f64 [%d1+16], %e1;\n"
    "    mov.u64 %d3, word;\n"
    "    cvta.global.u64 %d3, %d3;\n"
    "    st.local.u64 [%d1+24], %d3;\n"
    "    mov.u32 %r3, 33;\n"
    "    st.local.u32 [%d1+32], %r3;\n"
    "    cvta.local.u64 %d4, %d1;\n"
    "    ld.param.u64 %d5, [format];\n"
    "    {\n"
    "    .param .b64 p0; .param .b64 p1; .param .b32 r0;\n"
    "    st.param.b64 [p0], %d5;\n"
    "    st.param.b64 [p1], %d4;\n"
    "    call.uni (r0), vprintf, (p0, p1);\n"
    "    ld.param.b32 %r4, [r0];\n"
    "    }\n"
    "    ld.param.u64 %d6, [result];\n"
    "    st.global.u32 [%d6], %r4;\n"
    "    ret;\n}\n"
    ".visible .entry fail()\n{\n"
    "    .reg .b64 %d<5>; .reg .b32 %r<3>; .reg .pred %p<2>;\n"
    "    mov.u32 %r1, %tid.x;\n"
    "    setp.lt.u32 %p1, %r1, 33;\n"
    "    @%p1 ret;\n"
    "    mov.u64 %d1, message;\n    cvta.global.u64 %d1, %d1;\n"
    "    mov.u64 %d2, file;\n    cvta.global.u64 %d2, %d2;\n"
    "    mov.u64 %d3, word;\n    cvta.global.u64 %d3, %d3;\n"
    "    mov.u32 %r2, 12;\n    mov.u64 %d4, 1;\n"
    "    {\n"
    "    .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;\n"
    "    st.param.b64 [p0], %d1;\n    st.param.b64 [p1], %d2;\n    st.param.b32 [p2], %r2;\n"
    "    st.param.b64 [p3], %d3;\n    st.param.b64 [p4], %d4;\n"
    "    call.uni __assertfail, (p0, p1, p2, p3, p4);\n"
    "    }\n"
    "    ret;\n}\n";

/// Sends a stream of this process to the file.
static void redirect(int stream)
{
    const int file = open(output_path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    fflush(NULL);
    WANT(dup2(file, stream) < 0, 0);
    close(file);
}

static const char *output(void)
{
    static char read[1 << 16];
    FILE *file = fopen(output_path, "r");
    const size_t length = file ? fread(read, 1, sizeof(read) - 1, file) : 0;
    if (file)
        fclose(file);
    read[length] = '\0';
    return read;
}

static CUmodule module;
static CUdeviceptr result_at;

static void start(int stream)
{
    CUcontext context = NULL;
    redirect(stream);
    WANT(cuInit(0), 0);
    WANT(cuDevicePrimaryCtxRetain(&context, 0), 0);
    WANT(cuCtxSetCurrent(context), 0);
    WANT(cuModuleLoadData(&module, text), 0);
    WANT(cuMemAlloc_v2(&result_at, 4), 0);
}

static void launch_print(const char *format, unsigned threads)
{
    CUfunction function = NULL;
    CUdeviceptr copy = 0;
    void *params[] = { &copy, &result_at };
    if (format) {
        WANT(cuMemAlloc_v2(&copy, strlen(format) + 1), 0);
        WANT(cuMemcpyHtoD_v2(copy, format, strlen(format) + 1), 0);
    }
    WANT(cuModuleGetFunction(&function, module, "print"), 0);
    WANT(cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, NULL, params, NULL), 0);
}

static void prints(const char *format, unsigned threads, const char *expected, int result)
{
    int value = 99;
    redirect(1);
    launch_print(format, threads);
    WANT(strlen(output()), 0); // not before a synchronisation
    WANT(cuCtxSynchronize(), 0);
    if (strcmp(output(), expected) != 0) {
        fprintf(stderr, "'%s' gave '%s', not '%s'\n", format, output(), expected);
        _exit(1);
    }
    WANT(cuMemcpyDtoH_v2(&value, result_at, 4), 0);
    WANT(value, result);
}

static void formats(void)
{
    start(1);
    prints("%d %lld %f %s %c\n", 1, "-7 -5000000000 1.250000 one !\n", 5);
    prints("%5d|%-14ld|%.1e|%6s|%c", 1, "   -7|-5000000000   |1.2e+00|   one|!", 5);
    prints("%x %llx %g", 1, "fffffff9 fffffffed5fa0e00 1.25", 3);
    prints("%hd %hhu", 1, "-7 0", 2); // the second: the low word of the long long is next
    prints("100%%\n", 1, "100%\n", 0);
    prints("", 1, "", 0);
    prints(NULL, 1, "", -1);
    prints("%q and %*d and %", 1, "%q and %*d and %", 0); // not CUDA's: as they stand
    prints("%d\n", 3, "-7\n-6\n-5\n", 1);
    prints("%99999d", 1, "%99999d", 0);
    redirect(1);
    launch_print("%1000d%1000d%1000d%1000d%1000d%1000d%1000d%1000d%1000d", 1);
    WANT(cuCtxSynchronize(), 0);
    WANT(strlen(output()), 8191); // the most of a call
}

/// A launch writes what earlier ones printed; the limit keeps the newest.
static void when_and_how_much(void)
{
    start(1);
    launch_print("first\n", 1);
    launch_print("second\n", 1);
    TRUE(strcmp(output(), "first\n") == 0);
    WANT(cuStreamSynchronize(NULL), 0);
    TRUE(strcmp(output(), "first\nsecond\n") == 0);
    redirect(1);
    WANT(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 6), 0);
    launch_print("%d,", 8);
    WANT(cuCtxSynchronize(), 0);
    TRUE(strcmp(output(), "-1,0,") == 0 || strcmp(output(), ",-1,0,") == 0);
}

/// A format that is nowhere is a fault, as any load is.
static void bad_pointer(void)
{
    CUfunction function = NULL;
    CUdeviceptr nowhere = 16;
    const char *report = NULL;
    void *params[] = { &nowhere, &result_at };
    start(1);
    WANT(cuModuleGetFunction(&function, module, "print"), 0);
    WANT(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), 0);
    WANT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    WANT(cuEmulatorReport(&report), 0);
    TRUE(strstr(report, "out of bounds: load of 1 bytes at 0x10"));
}

static void assertion(void)
{
    CUfunction function = NULL;
    start(2);
    WANT(cuModuleGetFunction(&function, module, "fail"), 0);
    WANT(cuLaunchKernel(function, 1, 1, 1, 5, 7, 1, 0, NULL, NULL, NULL), 0);
    WANT(cuCtxSynchronize(), 0); // x is below 33 in every thread
    WANT(cuLaunchKernel(function, 1, 1, 1, 35, 1, 1, 0, NULL, NULL, NULL), 0);
    WANT(cuCtxSynchronize(), CUDA_ERROR_ASSERT);
    TRUE(strcmp(output(),
                "a.cu:12: one: block: [0,0,0], thread: [33,0,0] Assertion `i < n` failed.\n"
                "a.cu:12: one: block: [0,0,0], thread: [34,0,0] Assertion `i < n` "
                "failed.\n") == 0);
}

TEST(printing)
{
    in_child(formats, NULL);
    in_child(when_and_how_much, NULL);
    in_child(bad_pointer, NULL);
    in_log("kernel print");
}

TEST(asserting)
{
    in_child(assertion, NULL);
    in_log("assertion `i < n` failed: a.cu, line 12, function one");
}

/// Functions of these names with other parameters are not the driver's.
TEST(other_signatures)
{
    CUmodule other = NULL;
    emu_context();
    RETURNS(
        cuModuleLoadData(&other, EMU_TEXT_HEAD
                         ".extern .func vprintf(.param .b64 a);\n.visible .entry k()\n{\n"
                         "    .reg .b64 d; mov.b64 d, 0;\n    call vprintf, (d);\n    ret;\n}\n"),
        CUDA_ERROR_INVALID_PTX);
    OK(cuModuleLoadData(&other,
                        EMU_TEXT_HEAD ".visible .func vprintf()\n{\n    ret;\n}\n"
                                      ".visible .entry k()\n{\n    call vprintf;\n    ret;\n"
                                      "}\n"));
    OK(cuModuleUnload(other));
}

int main(void)
{
    snprintf(log_path, sizeof(log_path), "/tmp/ptxgen-log-%d", (int)getpid());
    snprintf(output_path, sizeof(output_path), "/tmp/ptxgen-output-%d", (int)getpid());
    const int failed = tests_run(NULL, NULL);
    remove(log_path);
    remove(output_path);
    return failed;
}
