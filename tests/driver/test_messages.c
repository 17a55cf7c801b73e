// SPDX-License-Identifier: MIT
/// What the library says of a driver call that failed: status, code and message, for the results
/// and logs that the emulator is made to return.
#include "emulator_faults.h"

static int alive; ///< objects of the primary context itself

/// The fault of the test has occurred, and nothing is left over.
// --------------------------------------------------------------------------------------- launches

static void fail_launch(const ptx_function *function, CUresult result, const char *report)
{
    CUdeviceptr data = 0x1234567890;
    uint32_t n = 77;
    float factor = 0.5f;
    struct ptx_arg args[] = { PTX_ARG(data), PTX_ARG(n), PTX_ARG(factor) };
    const struct ptx_launch_params params = {
        .grid = { 3 }, .block = { 64 }, .args = args, .arg_count = 3
    };
    fail_next((struct emulator_fault) {
        .function = "cuLaunchKernel", .result = result, .report = report });
    assert_int_equal(ptx_launch(function, &params), PTX_ERROR_DRIVER);
    assert_int_equal(ptx_error_code(), result);
}

static int teardown(void **state)
{
    (void)state;
    assert_non_null(failed_function());
    assert_int_equal(objects_alive(), alive);
    assert_thread_untouched(NULL);
    return 0;
}

#define MESSAGE_TEST(name) TEST_WITH(name, NULL, teardown)

/// The error of a kernel that was launched earlier: whichever call returns it names itself, and not
/// the driver's function, and gives the driver's description.
MESSAGE_TEST(earlier_kernels)
{
    static const struct {
        CUresult result;
        const char *text;
    } faults[] = {
        { CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered" },
        { CUDA_ERROR_ASSERT, "device-side assert triggered" },
        { CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered" },
        { CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address" },
        { CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure" },
        { CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error" },
        { CUDA_ERROR_INVALID_PC, "invalid program counter" },
        { CUDA_ERROR_INVALID_ADDRESS_SPACE,
          "operation not supported on global/shared address space" },
    };
    OWNED(ptx_device) *device = open_device();
    OWNED(ptx_module) *module = load_module(device, KERNEL_TEXT);
    const ptx_function *scale = ptx_module_function(module, "scale");
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        char end[128];
        snprintf(end, sizeof(end), ", %s\nthe context is lost with it", faults[i].text);
        fail_launch(scale, faults[i].result, NULL);
        assert_int_equal(
            strncmp(ptx_error_message(), "ptx_launch: an earlier kernel failed: CUDA_", 43), 0);
        assert_message(end);
        assert_message("run the program with PTXGEN_LIBCUDA naming its libcuda.so.1");
        assert_null(strstr(ptx_error_message(), "cuLaunchKernel"));
        assert_null(strstr(ptx_error_message(), "kernel scale"));
    }
    // The emulator's report follows a colon. The message does not recommend the emulator then.
    fail_launch(scale, CUDA_ERROR_LAUNCH_FAILED, "kernel k, line 7: a race");
    assert_string_equal(ptx_error_message(),
                        "ptx_launch: an earlier kernel failed: CUDA_ERROR_LAUNCH_FAILED (719), "
                        "unspecified launch failure: kernel k, line 7: a race\n"
                        "the context is lost with it");
    fail_launch(scale, CUDA_ERROR_LAUNCH_TIMEOUT, NULL);
    assert_message("watchdog");
    // Nor the display's watchdog, where the report says that threads wait for each other.
    fail_launch(scale, CUDA_ERROR_LAUNCH_TIMEOUT, "kernel k: 32 threads wait at barrier 1");
    assert_null(strstr(ptx_error_message(), "watchdog"));
}

/// An error of the launch itself: the message names the launch and the driver's function.
MESSAGE_TEST(the_launch_itself)
{
    OWNED(ptx_device) *device = open_device();
    OWNED(ptx_module) *module = load_module(device, KERNEL_TEXT);
    const ptx_function *scale = ptx_module_function(module, "scale");
    fail_launch(scale, CUDA_ERROR_UNKNOWN, NULL);
    assert_message("cuLaunchKernel failed with CUDA_ERROR_UNKNOWN (999)");
    assert_message("kernel scale, grid 3 x 1 x 1, block 64 x 1 x 1, 0 bytes");
}

// ---------------------------------------------------------------------------------------- modules

static void fail_load(ptx_device *device, struct emulator_fault fault, const char *text)
{
    fault.function = "cuModuleLoadDataEx";
    fail_next(fault);
    assert_null(ptx_module_load(device, text, NULL));
    assert_int_equal(ptx_error_code(), fault.result);
}

MESSAGE_TEST(quotes_of_log_and_text)
{
    OWNED(ptx_device) *device = open_device();
    fail_load(device,
              (struct emulator_fault) {
                  .result = CUDA_ERROR_INVALID_PTX,
                  .error_log = "ptxas application ptx input, line 6; error   : odd name\n"
                               "ptxas application ptx input, line 2; fatal   : worse\n"
                               "ptxas application ptx input, line 6; error   : again\n"
                               "ptxas application ptx input, line 1; warning : first\n"
                               "ptxas application ptx input, line 0; error\n"
                               "ptxas application ptx input, line 4000; error\n\n" },
              KERNEL_TEXT);
    assert_error(PTX_ERROR_JIT,
                 "could not compile and load the PTX text: cuModuleLoadDataEx failed "
                 "with CUDA_ERROR_INVALID_PTX (218)");
    assert_message("line 6; error   : odd name\n");
    assert_message("\nline 6 is: .visible .entry scale(\n");
    assert_message("\nline 2 is: .version 8.0\n");
    assert_message("\nline 1 is: ");
    assert_null(strstr(ptx_error_message(), "line 0 is"));
    assert_null(strstr(ptx_error_message(), "line 4000 is"));
    assert_null(strstr(strstr(ptx_error_message(), "line 6 is") + 1, "line 6 is"));
    assert_message("text: .version 8.0, .target sm_80; GPU: GPU of the test, sm_90; "
                   "driver: CUDA 12.4, PTX ISA up to 8.4; library: ");
    assert_message("correct the text");
}

// The last .loc before the line, of the same entry.
MESSAGE_TEST(source_lines_of_the_log)
{
    static const char text[] = ".version 8.0\n.target sm_80\n.file 1 \"/src/a.c\"\n"
                               ".file 12 \"/src/b.c\"\n.visible .entry k()\n{\n"
                               "    .loc 1 2 0, function_name $g, inlined_at 1 90 0\n"
                               "    .loc 12 34 0, function_name $f, inlined_at 1 2 0\n"
                               "    first;\n    .loc 1 5 0\n    second;\n    .loc 3 6 0\n"
                               "    third;\n}\nfourth;\n";
    OWNED(ptx_device) *device = open_device();
    fail_load(device,
              (struct emulator_fault) { .result = CUDA_ERROR_INVALID_PTX,
                                        .error_log = "line 9; odd\nline 11; odd\n"
                                                     "line 13; odd\nline 15; odd\n" },
              text);
    assert_message("\nline 9 is:     first; (from /src/b.c:34, inlined at /src/a.c:2, inlined at "
                   "/src/a.c:90)\n");
    assert_message("\nline 11 is:     second; (from /src/a.c:5)\n");
    assert_message("\nline 13 is:     third;\n");
    assert_message("\nline 15 is: fourth;\n");
}

MESSAGE_TEST(remedies)
{
    static const struct {
        CUresult result;
        const char *text;
        const char *remedy;
    } cases[] = {
        { CUDA_ERROR_UNSUPPORTED_PTX_VERSION, ".version 8.8\n.target sm_90",
          "write it for PTX ISA 8.4 or older, or update the driver" },
        { CUDA_ERROR_UNSUPPORTED_PTX_VERSION, ".version 8.8\n.target sm_90",
          "text: .version 8.8, .target sm_90; " },
        { CUDA_ERROR_INVALID_PTX, ".version 9.0\n.target sm_90", "newer than the driver" },
        { CUDA_ERROR_NO_BINARY_FOR_GPU, ".version 8.0\n.target sm_100",
          "write it for sm_90 or lower" },
        { CUDA_ERROR_INVALID_PTX, ".version 8.0\n.target sm_80a",
          ".target sm_80a is not for this GPU" },
        { CUDA_ERROR_JIT_COMPILER_NOT_FOUND, KERNEL_TEXT, "libnvidia-ptxjitcompiler.so.1" },
        { CUDA_ERROR_JIT_COMPILATION_DISABLED, KERNEL_TEXT, "CUDA_DISABLE_PTX_JIT" },
        { CUDA_ERROR_INVALID_IMAGE, "\177ELF", "is it PTX?" },
        { CUDA_ERROR_INVALID_IMAGE, "", "is it PTX?" },
        // No number: the message shows 0. A name that is too long is cut.
        { CUDA_ERROR_INVALID_PTX, ".version 99999999999.9\n.target sm_99999999999999999",
          "text: .version 0.0, .target sm_99999999999999999" },
        { CUDA_ERROR_INVALID_PTX,
          ".version 8.0\n.target sm_90123456789012345678901234567890123456789",
          ".target sm_9012345678901234567890123456; GPU" },
    };
    OWNED(ptx_device) *device = open_device();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fail_load(device, (struct emulator_fault) { .result = cases[i].result }, cases[i].text);
        assert_error(PTX_ERROR_JIT, cases[i].remedy);
    }
    fail_load(device,
              (struct emulator_fault) {
                  .result = CUDA_ERROR_INVALID_PTX,
                  .error_log = "line 6; error : 'tex' is not supported by the emulator" },
              KERNEL_TEXT);
    assert_message("load it on a GPU, or write it without that: docs/limits.md lists");
    assert_null(strstr(ptx_error_message(), "correct the text"));
    fail_load(device, (struct emulator_fault) { .result = CUDA_ERROR_OUT_OF_MEMORY }, KERNEL_TEXT);
    assert_error(PTX_ERROR_OUT_OF_MEMORY, "free device memory");
    fail_load(device, (struct emulator_fault) { .result = CUDA_ERROR_ILLEGAL_ADDRESS },
              KERNEL_TEXT);
    assert_error(PTX_ERROR_DRIVER, "ptx_module_load: an earlier kernel failed");
    assert_null(strstr(ptx_error_message(), ".version"));
}

/// Logs that fill their buffers and have no NUL: the message still has its last line.
MESSAGE_TEST(endless_logs)
{
    static char log[40000];
    for (size_t i = 0; i + 1 < sizeof(log); i++)
        log[i] = "line 6, "[i % 8];
    OWNED(ptx_device) *device = open_device();
    fail_load(device,
              (struct emulator_fault) {
                  .result = CUDA_ERROR_INVALID_PTX, .error_log = log, .info_log = log },
              KERNEL_TEXT);
    assert_message("[and so on]");
    assert_message("\nline 6 is: .visible");
    assert_message("library: ");
    assert_message("correct the text");
}

MESSAGE_TEST(log_of_a_load_that_works)
{
    OWNED(ptx_device) *device = open_device();
    fail_next((struct emulator_fault) { .function = "cuModuleLoadDataEx",
                                        .info_log = "ptxas warning : something\n" });
    OWNED(ptx_module) *module = load_module(device, KERNEL_TEXT);
    assert_string_equal(ptx_module_log(module), "ptxas warning : something");
}

// ------------------------------------------------------------------------------- captures, memory

MESSAGE_TEST(ends_of_captures)
{
    static const struct {
        CUresult result;
        const char *message;
    } causes[] = {
        { CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "has not come back" },
        { CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "began on another stream" },
        { CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "PTX_CAPTURE_RELAXED" },
        { CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures cannot be joined" },
        { CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "recorded before the capture" },
    };
    OWNED(ptx_device) *device = open_device();
    CUstream stream = ptx_stream_create(device);
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
        assert_int_equal(ptx_capture_begin(device, stream, PTX_CAPTURE_RELAXED), PTX_OK);
        fail_next((struct emulator_fault) { .function = "cuStreamEndCapture",
                                            .result = causes[i].result });
        assert_null(ptx_capture_end(device, stream));
        assert_error(PTX_ERROR_CAPTURE, causes[i].message);
        bool capturing = true;
        assert_int_equal(ptx_stream_is_capturing(device, stream, &capturing), PTX_OK);
        assert_false(capturing);
    }
    ptx_stream_destroy(device, &stream);
}

MESSAGE_TEST(out_of_device_memory)
{
    OWNED(ptx_device) *device = open_device();
    fail_next((struct emulator_fault) { .function = "cuMemAlloc_v2",
                                        .result = CUDA_ERROR_OUT_OF_MEMORY });
    assert_null(ptx_buffer_create(device, 12345));
    assert_error(PTX_ERROR_OUT_OF_MEMORY, "cuMemAlloc_v2 failed with CUDA_ERROR_OUT_OF_MEMORY (2)");
    assert_message("free device memory");
    assert_message("asked for: 12345 bytes");
}

// --------------------------------------------------------------------------------- initialisation

MESSAGE_TEST(initialisation)
{
    static const struct {
        CUresult result;
        ptx_status status;
        const char *message;
    } cases[] = {
        { CUDA_ERROR_NO_DEVICE, PTX_ERROR_NO_DEVICE, "CUDA_VISIBLE_DEVICES" },
        { CUDA_ERROR_INVALID_VALUE, PTX_ERROR_DRIVER, "CUDA_ERROR_INVALID_VALUE (1)" },
        { CUDA_ERROR_NOT_INITIALIZED, PTX_ERROR_DRIVER, "forked" },
        { CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, PTX_ERROR_DRIVER, "reboot" },
        { (CUresult)12345, PTX_ERROR_DRIVER, "an unknown error (12345)" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fail_next((struct emulator_fault) { .function = "cuInit", .result = cases[i].result });
        assert_null(ptx_device_open(NULL));
        assert_error(cases[i].status, cases[i].message);
        assert_int_equal(ptx_error_code(), cases[i].result);
        assert_message("could not initialise CUDA: cuInit failed with");
        assert_message("library: ");
        // PTXGEN_LIBCUDA named a libcuda: there is nothing to correct in the variable.
        assert_null(strstr(ptx_error_message(), "PTXGEN_LIBCUDA"));
    }
}

/// The emulator reads its settings at the first call.
static int setup(void **state)
{
    setenv("PTXGEN_EMU_DEVICE", "sm_90,name=GPU of the test", 1);
    setenv("PTXGEN_EMU_DRIVER", "12040", 1);
    if (emulator_open(state))
        return -1;
    ptx_device *device = open_device();
    ptx_device_close(&device);
    alive = objects_alive();
    return 0;
}

int main(void)
{
    return tests_run(setup, NULL);
}
