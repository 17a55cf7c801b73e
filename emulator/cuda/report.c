// SPDX-License-Identifier: MIT
// Reports: results and functions by name, the log, and why a call failed.
#include "calls.h"
#include "state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ROW(symbol, name, since, variant, parameters, arguments)                                   \
    [API_ID_##symbol] = { #symbol, #name, since },
const struct api_row api_rows[API_FUNCTION_COUNT] = {
#define CUDA_FUNCTION ROW
#include "abi/functions.def"
    EMULATOR_FUNCTIONS(ROW)
};

bool api_row_has_name(const struct api_row *row, const char *name)
{
    return strcmp(name, row->symbol) == 0 || strcmp(name, row->name) == 0;
}

const char *api_result_name(CUresult result)
{
#define NAME(code, value, text)                                                                    \
    if ((unsigned)result == value)                                                                 \
        return #code;
    CUDA_ABI_RESULTS(NAME)
#undef NAME
    return NULL;
}

const char *api_result_text(CUresult result)
{
#define TEXT(code, value, text)                                                                    \
    if ((unsigned)result == value)                                                                 \
        return text;
    CUDA_ABI_RESULTS(TEXT)
#undef TEXT
    return NULL;
}

/// False: errno says why not.
static bool append(const char *path, const char *text)
{
    FILE *file = fopen(path, "a");
    if (!file)
        return false;
    const bool written = fprintf(file, "ptxgen emulator: %s\n", text) >= 0;
    const int error = errno;
    const bool closed = fclose(file) == 0; // writes what is left
    if (!written)
        errno = error;
    return written && closed;
}

void api_log(const char *text)
{
    const char *path = api_state.config.log;
    if (path[0] && append(path, text))
        return;
    if (path[0])
        fprintf(stderr, "ptxgen emulator: PTXGEN_EMU_LOG='%s' cannot be written: %s\n", path,
                strerror(errno));
    fprintf(stderr, "ptxgen emulator: %s\n", text);
}

void api_report(const char *text)
{
    snprintf(api_state.report, sizeof(api_state.report), "%s", text);
    api_log(text);
}

/// Leaves out the middle of a long text of cuGetErrorString(). Programs copy it into an array on
/// the stack, Triton into one of 1,024 bytes, because a GPU's driver has none of 200.
static void shorten(char *text)
{
    enum { MOST = 980, BEGIN = 660 };
    static const char dots[] = " ... ";
    const size_t length = strlen(text);
    if (length <= MOST)
        return;
    size_t begin = BEGIN, end = length - (MOST - BEGIN - sizeof(dots));
    while (((unsigned char)text[begin] & 0xC0) == 0x80) // whole characters of UTF-8
        begin--;
    while (((unsigned char)text[end] & 0xC0) == 0x80)
        end++;
    memcpy(text + begin, dots, sizeof(dots) - 1);
    memmove(text + begin + sizeof(dots) - 1, text + end, length - end + 1);
}

void api_explain(CUresult result, const char *text)
{
    const char *plain = api_result_text(result);
    snprintf(api_thread.why, sizeof(api_thread.why), "%.150s: %.1890s", plain ? plain : "refused",
             text);
    shorten(api_thread.why);
    api_thread.told = result;
    api_thread.told_now = true;
    api_report(text);
}

CUresult api_refuse(CUresult result, const char *format, ...)
{
    char text[sizeof(api_state.report)];
    int length =
        snprintf(text, sizeof(text), "%s failed (%d %s): ", api_rows[api_thread.call].symbol,
                 (int)result, api_result_name(result));
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, sizeof(text) - (size_t)length, format, arguments);
    va_end(arguments);
    api_explain(result, text);
    return result;
}

void api_fail(CUcontext context, CUresult result, const char *report)
{
    const char *plain = api_result_text(result);
    snprintf(api_state.fault, sizeof(api_state.fault), "%s%s%s", plain ? plain : "a kernel failed",
             report[0] ? ": " : "", report);
    shorten(api_state.fault);
    api_state.failed = context;
    atomic_store(&api_state.error,
                 result); // stored after the text: a thread that sees the error reads the text
}

CUresult api_emulatorReport(const char **text)
{
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    *text = api_state.report;
    return CUDA_SUCCESS;
}

CUresult api_emulatorClearError(void)
{
    atomic_store(&api_state.error, CUDA_SUCCESS);
    api_thread.told = CUDA_SUCCESS;
    api_state.report[0] = '\0';
    return CUDA_SUCCESS;
}

CUresult api_getErrorName(CUresult result, const char **name)
{
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = api_result_name(result);
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult api_getErrorString(CUresult result, const char **text)
{
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    *text = api_result_text(result);
    // A malformed variable makes cuInit() return this: name the variable.
    if (result == CUDA_ERROR_INVALID_VALUE && api_state.config.error[0])
        *text = api_state.config.error;
    else if (result && result == api_thread.told)
        *text = api_thread.why;
    else if (result && result == atomic_load(&api_state.error))
        *text = api_state.fault;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
