// SPDX-License-Identifier: MIT
#include "internal.h"

#include <stdio.h>
#include <string.h>

/// The only state outside objects: the result of the thread's last failing call.
static _Thread_local struct {
    ptx_status status;
    int code;
    size_t length;
    size_t name; ///< length of the call's name at the start of the message; 0: the error is not a
                 ///< kernel fault
    char message[8192];
} last;

/// The public function that the thread is executing.
static _Thread_local const char *current_call = "ptxgen";

static const struct {
    CUresult result;
    ptx_status status;
    const char *remedy;
} results[] = {
    { CUDA_ERROR_OUT_OF_MEMORY, PTX_ERROR_OUT_OF_MEMORY,
      "free device memory or use smaller pieces; ptx_device_memory() says what is left" },
    { CUDA_ERROR_NOT_INITIALIZED, PTX_ERROR_DRIVER,
      "CUDA was initialised before this process was forked, and does not survive that: fork "
      "first, or start the child with exec (Python: start method \"spawn\")" },
    { CUDA_ERROR_DEINITIALIZED, PTX_ERROR_DRIVER,
      "the driver has shut down, the process is ending" },
    { CUDA_ERROR_STUB_LIBRARY, PTX_ERROR_NO_DRIVER,
      "this is the CUDA toolkit's stub library: install the NVIDIA display driver" },
    { CUDA_ERROR_DEVICE_UNAVAILABLE, PTX_ERROR_DRIVER,
      "another process holds the GPU exclusively: see nvidia-smi, compute mode" },
    { CUDA_ERROR_NO_DEVICE, PTX_ERROR_NO_DEVICE,
      "the driver sees no GPU: see nvidia-smi, CUDA_VISIBLE_DEVICES and the container's settings" },
    { CUDA_ERROR_INVALID_DEVICE, PTX_ERROR_NO_DEVICE, NULL },
    { CUDA_ERROR_INVALID_CONTEXT, PTX_ERROR_DRIVER,
      "the context that the device was opened with is gone: keep it until the device is closed" },
    { CUDA_ERROR_CONTEXT_IS_DESTROYED, PTX_ERROR_DRIVER,
      "the context that the device was opened with is gone: keep it until the device is closed" },
    { CUDA_ERROR_INVALID_HANDLE, PTX_ERROR_DRIVER,
      "a stream, event or module was destroyed already, or belongs to another context" },
    { CUDA_ERROR_INVALID_IMAGE, PTX_ERROR_JIT, NULL },
    { CUDA_ERROR_NO_BINARY_FOR_GPU, PTX_ERROR_JIT, NULL },
    { CUDA_ERROR_INVALID_PTX, PTX_ERROR_JIT, NULL },
    { CUDA_ERROR_JIT_COMPILER_NOT_FOUND, PTX_ERROR_JIT, NULL },
    { CUDA_ERROR_UNSUPPORTED_PTX_VERSION, PTX_ERROR_JIT, NULL },
    { CUDA_ERROR_JIT_COMPILATION_DISABLED, PTX_ERROR_JIT, NULL },
    { CUDA_ERROR_INVALID_SOURCE, PTX_ERROR_JIT, NULL },
    { CUDA_ERROR_ILLEGAL_STATE, PTX_ERROR_CAPTURE, NULL },
    { CUDA_ERROR_NOT_FOUND, PTX_ERROR_NOT_FOUND, NULL },
    { CUDA_ERROR_NOT_READY, PTX_ERROR_DRIVER, "wait first: ptx_event_synchronize()" },
    { CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, PTX_ERROR_DRIVER,
      "the block needs more registers or shared memory than there are: use fewer threads or "
      "ptx_module_params.max_registers" },
    { CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, PTX_ERROR_INVALID,
      "not all blocks can be resident at the same time: use at most ptx_function_occupancy() times "
      "multiprocessors" },
    { CUDA_ERROR_NOT_SUPPORTED, PTX_ERROR_UNSUPPORTED, NULL },
    { CUDA_ERROR_SYSTEM_NOT_READY, PTX_ERROR_DRIVER,
      "the system is not ready yet: is nvidia-fabricmanager running?" },
    { CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, PTX_ERROR_DRIVER,
      "the library and the kernel module are of different driver versions: reboot after an "
      "update" },
    { CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, PTX_ERROR_DRIVER,
      "CUDA's compatibility package does not work with this GPU: remove it from the library path" },
    { CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, PTX_ERROR_CAPTURE,
      "do this before the capture begins" },
    { CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, PTX_ERROR_CAPTURE,
      "an earlier error spoilt the capture: end it and begin anew" },
    { CUDA_ERROR_STREAM_CAPTURE_MERGE, PTX_ERROR_CAPTURE,
      "two captures cannot be joined by an event: capture in one, or wait outside of both" },
    { CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, PTX_ERROR_CAPTURE,
      "the capture began on another stream: end it on that one" },
    { CUDA_ERROR_STREAM_CAPTURE_UNJOINED, PTX_ERROR_CAPTURE,
      "a stream that joined the capture by an event has not come back: record an event at its end "
      "and make the first stream wait for it" },
    { CUDA_ERROR_STREAM_CAPTURE_ISOLATION, PTX_ERROR_CAPTURE,
      "the event was recorded before the capture, which cannot wait for it: make the stream wait "
      "before the capture begins" },
    { CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, PTX_ERROR_CAPTURE,
      "another thread began the capture: end it there, or begin it with PTX_CAPTURE_RELAXED" },
    { CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, PTX_ERROR_CAPTURE,
      "the legacy default stream cannot be used while a blocking stream of the context is being "
      "captured: use another stream" },
    { CUDA_ERROR_CAPTURED_EVENT, PTX_ERROR_CAPTURE,
      "the event was recorded in a capture, so it has not happened yet: launch the graph, and time "
      "with events recorded around it" },
};

/// For libraries without cuGetErrorName, such as the toolkit's stub.
static const char *known_name(CUresult result)
{
    switch (result) {
#define NAME(name, value, text)                                                                    \
    case name:                                                                                     \
        return #name;
        CUDA_ABI_RESULTS(NAME)
#undef NAME
    }
    return "an unknown error";
}

const char *ptxd_result_name(const struct ptxd_library *library, CUresult result)
{
    const char *name = NULL;
    if (library->cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
        name = known_name(result);
    return name;
}

static void append(const char *format, va_list arguments)
{
    size_t room = sizeof(last.message) - last.length;
    int length = vsnprintf(last.message + last.length, room, format, arguments);
    if (length < 0)
        return;
    if ((size_t)length < room) {
        last.length += (size_t)length;
        return;
    }
    last.length = sizeof(last.message) - 1;
    memcpy(last.message + last.length - 3, "...", 3);
}

ptx_status ptxd_fail(ptx_status status, const char *format, ...)
{
    last.status = status;
    last.code = 0;
    last.length = 0;
    last.name = 0;
    va_list arguments;
    va_start(arguments, format);
    append(format, arguments);
    va_end(arguments);
    return status;
}

void ptxd_explain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    append(format, arguments);
    va_end(arguments);
}

/// Results of work that was launched earlier. Any later call may return them, whatever it does.
static bool is_kernel_fault(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
        return true;
    default:
        return false;
    }
}

/// `text` is the driver's. After a colon it has the emulator's report, which needs no more detail.
static ptx_status fail_for_kernel(const struct ptxd_library *library, CUresult result,
                                  const char *text)
{
    ptxd_fail(PTX_ERROR_DRIVER, "%s: an earlier kernel failed: %s (%d)%s%s", current_call,
              ptxd_result_name(library, result), (int)result, text ? ", " : "", text ? text : "");
    last.code = (int)result;
    last.name = strlen(current_call);
    ptxd_explain("\nthe context is lost with it");
    if (text && strstr(text, ": "))
        return PTX_ERROR_DRIVER;
    if (result == CUDA_ERROR_LAUNCH_TIMEOUT)
        ptxd_explain(": the kernel ran longer than the display's watchdog allows; use smaller "
                     "pieces, or a GPU without a display");
    else
        ptxd_explain("; the emulator says which access it was: run the program with "
                     "PTXGEN_LIBCUDA naming its libcuda.so.1");
    return PTX_ERROR_DRIVER;
}

void ptxd_set_call(const char *call)
{
    current_call = call;
}

const char *ptxd_call(void)
{
    return current_call;
}

/// Puts `call` in place of the first characters of the message.
static void replace_start(size_t length, const char *call, const char *behind)
{
    char rest[sizeof(last.message)];
    memcpy(rest, last.message + length, last.length + 1 - length);
    last.length = 0;
    ptxd_explain("%s%s%s", call, behind, rest);
}

ptx_status ptxd_named(ptx_status status, const char *call)
{
    size_t name = strspn(last.message, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (status == PTX_OK)
        return status;
    if (last.name != 0) {
        replace_start(last.name, call, "");
        last.name = strlen(call);
    } else if (strncmp(last.message, "ptx_", 4) == 0 && last.message[name] == ':')
        replace_start(name, call, "");
    else
        replace_start(0, call, ": ");
    return status;
}

bool ptxd_kernel_failed(void)
{
    return last.name != 0;
}

ptx_status ptxd_check(const struct ptxd_library *library, CUresult result, const char *call,
                      const char *purpose)
{
    if (result == CUDA_SUCCESS)
        return PTX_OK;
    ptx_status status = PTX_ERROR_DRIVER;
    const char *remedy = NULL;
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (results[i].result == result) {
            status = results[i].status;
            remedy = results[i].remedy;
        }
    const char *text = NULL;
    if (library->cuGetErrorString(result, &text) != CUDA_SUCCESS)
        text = NULL;
    if (is_kernel_fault(result))
        return fail_for_kernel(library, result, text);
    ptxd_fail(status, "%s: could not %s: %s failed with %s (%d)", current_call, purpose, call,
              ptxd_result_name(library, result), (int)result);
    last.code = (int)result;
    if (text)
        ptxd_explain(", %s", text);
    if (remedy)
        ptxd_explain("\n%s", remedy);
    return status;
}

const char *ptx_error_message(void)
{
    return last.message;
}

ptx_status ptx_error_status(void)
{
    return last.status;
}

int ptx_error_code(void)
{
    return last.code;
}

const char *ptx_status_name(ptx_status status)
{
    switch (status) {
#define NAME(name)                                                                                 \
    case name:                                                                                     \
        return #name
        NAME(PTX_OK);
        NAME(PTX_ERROR_INVALID);
        NAME(PTX_ERROR_OUT_OF_MEMORY);
        NAME(PTX_ERROR_NO_DRIVER);
        NAME(PTX_ERROR_NO_DEVICE);
        NAME(PTX_ERROR_DRIVER);
        NAME(PTX_ERROR_JIT);
        NAME(PTX_ERROR_NOT_FOUND);
        NAME(PTX_ERROR_UNSUPPORTED);
        NAME(PTX_ERROR_CAPTURE);
        NAME(PTX_ERROR_FORKED);
        NAME(PTX_ERROR_NONFINITE);
#undef NAME
    }
    return "unknown status";
}
