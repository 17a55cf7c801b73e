// SPDX-License-Identifier: MIT
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/// The last three limits keep a message short enough that the remedy at its end is not cut.
enum {
    MOST_OPTIONS = 7,
    LOG_BYTES = 16384,
    SHOWN_BYTES = 2500,
    MOST_QUOTES = 8,
    QUOTE_BYTES = 160,
    MOST_CALLS = 8, // of a place
};

/// The compiler's output buffers: one byte longer than the compiler is told, so that they always
/// end with a NUL.
struct logs {
    char error[LOG_BYTES + 1];
    char info[LOG_BYTES + 1];
};

struct options {
    unsigned count;
    CUjit_option keys[MOST_OPTIONS];
    void *values[MOST_OPTIONS];
};

static void add_number(struct options *options, CUjit_option key, size_t value)
{
    // The driver reads a number from the pointer value or from its first bytes: both are the same
    // on little-endian machines.
    options->keys[options->count] = key;
    options->values[options->count++] = (void *)(uintptr_t)value;
}

static void add_pointer(struct options *options, CUjit_option key, void *value)
{
    options->keys[options->count] = key;
    options->values[options->count++] = value;
}

static bool has_source_lines(const char *text)
{
    return strncmp(text, ".file ", 6) == 0 || strstr(text, "\n.file ");
}

static struct options options_of(const struct ptx_module_params *params, const char *text,
                                 struct logs *logs)
{
    struct options options = { 0 };
    add_pointer(&options, CU_JIT_ERROR_LOG_BUFFER, logs->error);
    add_number(&options, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, LOG_BYTES);
    add_pointer(&options, CU_JIT_INFO_LOG_BUFFER, logs->info);
    add_number(&options, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, LOG_BYTES);
    if (params->verbose)
        add_number(&options, CU_JIT_LOG_VERBOSE, 1);
    if (params->line_info || has_source_lines(text))
        add_number(&options, CU_JIT_GENERATE_LINE_INFO, 1);
    if (params->max_registers)
        add_number(&options, CU_JIT_MAX_REGISTERS, (size_t)params->max_registers);
    return options;
}

static void trim(char *log)
{
    size_t length = strlen(log);
    while (length && strchr("\n\r\t ", log[length - 1]))
        log[--length] = '\0';
}

static void show(const char *log)
{
    if (log[0])
        ptxd_explain("\n%.*s%s", SHOWN_BYTES, log, strlen(log) > SHOWN_BYTES ? " [and so on]" : "");
}

/// Skips blanks and the word. NULL: the word is not there.
static const char *after_word(const char *at, const char *word)
{
    at += strspn(at, " \t");
    size_t length = strlen(word);
    return strncmp(at, word, length) == 0 && strchr(" \t", at[length]) ? at + length : NULL;
}

static const char *next_line(const char *at)
{
    at += strcspn(at, "\n");
    return *at ? at + 1 : NULL;
}

/// Adds the path of the file `number` of the text and the line; false: the text names no such file.
static bool name_place(const char *source, const char *before, unsigned long number,
                       unsigned long line)
{
    for (const char *at = source; at; at = next_line(at)) {
        const char *file = after_word(at, ".file");
        char *path;
        if (!file || strtoul(file, &path, 10) != number)
            continue;
        path += strspn(path, " \t\"");
        size_t length = strcspn(path, "\"\r\n");
        ptxd_explain("%s%.*s:%lu", before, length < QUOTE_BYTES ? (int)length : QUOTE_BYTES, path,
                     line);
        return true;
    }
    return false;
}

/// A .loc: what follows the word, its file and line, and those of the call that it was inlined at.
struct location {
    const char *at;
    unsigned long file, line, call_file, call_line; ///< call_file 0: it was not inlined
};

static struct location read_location(const char *at)
{
    struct location loc = { .at = at };
    char *end;

    loc.file = strtoul(at, &end, 10);
    loc.line = strtoul(end, NULL, 10);
    const char *call = strstr(at, "inlined_at");
    if (!call || call > at + strcspn(at, "\n"))
        return loc;
    loc.call_file = strtoul(call + strlen("inlined_at"), &end, 10);
    loc.call_line = strtoul(end, NULL, 10);
    return loc;
}

/// The last .loc before `end`, in its entry; that of a call, if `call` is not NULL. `at` NULL:
/// none.
static struct location find_location(const char *source, const char *end,
                                     const struct location *call)
{
    struct location last = { 0 };

    for (const char *at = source; at && at <= end; at = next_line(at)) {
        const char *found = after_word(at, ".loc");
        if (*at == '}') // the end of an entry
            last.at = NULL;
        if (!found)
            continue;
        const struct location loc = read_location(found);
        if (!call || (loc.file == call->call_file && loc.line == call->call_line))
            last = loc;
    }
    return last;
}

/// Adds where the text says that its line at `end` comes from, and the calls around it.
static void name_source(const char *source, const char *end)
{
    struct location loc = find_location(source, end, NULL);

    if (!loc.at || !name_place(source, " (from ", loc.file, loc.line))
        return;
    for (int calls = 0; calls < MOST_CALLS && loc.at && loc.call_file; calls++) {
        if (!name_place(source, ", inlined at ", loc.call_file, loc.call_line))
            break;
        loc = find_location(source, loc.at, &loc);
    }
    ptxd_explain(")");
}

static void quote(const char *source, long line)
{
    const char *at = source;
    for (long i = 1; i < line && at; i++)
        at = next_line(at);
    if (!at)
        return;
    size_t length = strcspn(at, "\r\n");
    ptxd_explain("\nline %ld is: %.*s", line, length < QUOTE_BYTES ? (int)length : QUOTE_BYTES, at);
    name_source(source, at);
}

/// Adds the text of each line that the log mentions as "line N".
static void quote_lines(const char *source, const char *log)
{
    long quoted[MOST_QUOTES];
    size_t count = 0;
    for (const char *p = log; count < MOST_QUOTES && (p = strstr(p, "line ")); p += 5) {
        long line = strtol(p + 5, NULL, 10);
        bool known = line <= 0;
        for (size_t i = 0; i < count; i++)
            known = known || quoted[i] == line;
        if (known)
            continue;
        quoted[count++] = line;
        quote(source, line);
    }
}

static void explain_remedy(CUresult result, const struct ptxd_text *text,
                           const struct ptx_device_info *gpu, const char *log)
{
    char suffix = text->target[0] ? text->target[strlen(text->target) - 1] : '\0';
    if (result == CUDA_ERROR_JIT_COMPILER_NOT_FOUND)
        ptxd_explain("\nlibnvidia-ptxjitcompiler.so.1 is missing: install all of the driver; "
                     "in a container, NVIDIA_DRIVER_CAPABILITIES must have compute");
    else if (result == CUDA_ERROR_JIT_COMPILATION_DISABLED)
        ptxd_explain("\nunset CUDA_DISABLE_PTX_JIT");
    else if (text->isa == 0)
        ptxd_explain("\nthe text has no .version: is it PTX?");
    else if (text->isa > gpu->isa || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
        ptxd_explain("\nthe text's .version is newer than the driver: write it for PTX ISA "
                     "%d.%d or older, or update the driver",
                     gpu->isa / 10, gpu->isa % 10);
    else if (text->sm > gpu->sm)
        ptxd_explain("\nthe text's .target is above the GPU: write it for sm_%d or lower", gpu->sm);
    else if (text->sm != gpu->sm && (suffix == 'a' || suffix == 'f'))
        ptxd_explain("\n.target %s is not for this GPU: write the text for sm_%d or lower, "
                     "without a letter",
                     text->target, gpu->sm);
    else if (strstr(log, " is not supported by the emulator"))
        ptxd_explain("\nload it on a GPU, or write it without that: docs/limits.md lists what the "
                     "emulator does not run");
    else
        ptxd_explain("\ncorrect the text");
}

static ptx_status explain_failure(const ptx_device *device, const char *source, CUresult result,
                                  struct logs *logs)
{
    ptx_status status =
        ptxd_check(&device->library, result, "cuModuleLoadDataEx", "compile and load the PTX text");
    if (ptxd_kernel_failed()) // an earlier kernel failed, not this text
        return status;
    trim(logs->error);
    trim(logs->info);
    show(logs->error);
    show(logs->info);
    quote_lines(source, logs->error);

    const struct ptx_device_info *gpu = &device->info;
    struct ptxd_text text;
    ptxd_text_read(&text, source, false);
    ptxd_explain("\ntext: .version %d.%d, .target %s; GPU: %s, sm_%d; driver: CUDA %d.%d, "
                 "PTX ISA up to %d.%d; library: %s",
                 text.isa / 10, text.isa % 10, text.target, gpu->name, gpu->sm,
                 gpu->driver_version / 1000, gpu->driver_version % 1000 / 10, gpu->isa / 10,
                 gpu->isa % 10, gpu->library_path);
    if (status == PTX_ERROR_JIT)
        explain_remedy(result, &text, gpu, logs->error);
    return status;
}

ptx_status ptxd_jit(const ptx_device *device, const char *source,
                    const struct ptx_module_params *params, CUmodule *module, char **log)
{
    struct logs *logs = calloc(1, sizeof(*logs));
    if (!logs)
        return ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory while loading PTX");
    struct options options = options_of(params, source, logs);
    CUresult result = device->library.cuModuleLoadDataEx(module, source, options.count,
                                                         options.keys, options.values);
    ptx_status status = PTX_OK;
    if (result != CUDA_SUCCESS) {
        *module = NULL;
        status = explain_failure(device, source, result, logs);
    } else {
        trim(logs->info);
        *log = malloc(strlen(logs->info) + 1);
        if (*log)
            strcpy(*log, logs->info);
        else
            status = ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory");
    }
    free(logs);
    return status;
}
