// SPDX-License-Identifier: MIT
// The linker. Its "machine code" is the texts of its inputs, after a line with the GPU that it was
// made for and a checksum. Before each text stands a line with its length.
#define _POSIX_C_SOURCE 200809L // strnlen
#include "calls.h"
#include "device_library.h"
#include "image.h"
#include "module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_TYPES = 6, LOG = 1000 };

struct CUlinkState_st {
    struct api_object object;
    CUjit_option *options;
    void **values; // the caller's, where lengths of logs are returned
    void **given;  // what they were: the sizes of buffers hold for every input
    unsigned option_count;
    char *code; // after the line, the inputs so far
    size_t bytes;
    bool complete;
};

CUresult api_linkCreate(unsigned count, CUjit_option *options, void **values, CUlinkState *link)
{
    if (!link || (count && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    CUlinkState made = calloc(1, sizeof(*made));
    if (made) {
        made->options = malloc((count + 1) * sizeof(*options));
        made->given = malloc((count + 1) * sizeof(*values));
    }
    if (!made || !made->options || !made->given) {
        if (made)
            free(made->options);
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (count) {
        memcpy(made->options, options, count * sizeof(*options));
        memcpy(made->given, values, count * sizeof(*values));
    }
    made->values = values;
    made->option_count = count;
    api_object_add(&made->object, API_LINK, (uint64_t)(uintptr_t)made, NULL);
    *link = made;
    return CUDA_SUCCESS;
}

/// Compiles for the errors and the log; `partial`: one input, which may need others.
static CUresult compile(CUlinkState link, const void *image, size_t bytes, bool partial)
{
    CUmodule module = NULL;
    if (link->option_count)
        memcpy(link->values, link->given, link->option_count * sizeof(*link->values));
    CUresult result = api_module_create(&module, image, bytes, partial, link->option_count,
                                        link->options, link->values);
    if (!result)
        api_module_release(module);
    return result;
}

static bool append(CUlinkState link, const char *text, size_t length)
{
    const size_t before = link->bytes ? link->bytes : API_LINK_LINE;
    char *larger = realloc(link->code, before + API_LINK_LENGTH_LINE + length + 1);
    if (!larger)
        return false;
    link->code = larger;
    snprintf(larger + before, API_LINK_LENGTH_LINE + 1, "%016llx\n", (unsigned long long)length);
    memcpy(larger + before + API_LINK_LENGTH_LINE, text, length);
    link->bytes = before + API_LINK_LENGTH_LINE + length;
    larger[link->bytes] = '\0';
    return true;
}

/// Adds what an image holds, or nothing.
static CUresult add_image(CUlinkState link, const void *image, size_t bytes)
{
    struct api_image opened;
    char log[LOG];
    const size_t before = link->bytes;
    CUresult result = compile(link, image, bytes, true);
    if (!result)
        result = api_image_open(image, bytes, &opened, log, sizeof(log));
    if (result)
        return result;
    for (unsigned k = 0; k < opened.count && !result; k++) {
        const struct emu_text *text = &opened.texts[k];
        if (!append(link, text->at, strnlen(text->at, text->length)))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    api_image_close(&opened);
    if (result) {
        link->bytes = before;
        if (link->code && before)
            link->code[before] = '\0';
    }
    return result;
}

CUresult api_linkAddData(CUlinkState handle, CUjitInputType type, void *data, size_t bytes,
                         const char *name, unsigned count, CUjit_option *options, void **values)
{
    CUlinkState link = API_FIND(handle, API_LINK);
    (void)name;
    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!data || bytes == 0 || (unsigned)type >= INPUT_TYPES || (count && (!options || !values)) ||
        link->complete)
        return CUDA_ERROR_INVALID_VALUE;
    if (type == CU_JIT_INPUT_LIBRARY && api_is_device_library(data, bytes))
        return add_image(link, api_device_library, strlen(api_device_library) + 1);
    if (type != CU_JIT_INPUT_PTX && type != CU_JIT_INPUT_CUBIN && type != CU_JIT_INPUT_FATBINARY)
        return api_refuse(CUDA_ERROR_NOT_SUPPORTED,
                          "the emulator's linker takes PTX text, fat binaries with PTX and its own "
                          "code; objects, libraries and LTO-IR must be made into PTX first "
                          "(nvcc -ptx, nvJitLink -lto -ptx)");
    char *copy = malloc(bytes + 1);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(copy, data, bytes);
    copy[bytes] = '\0';
    CUresult result = add_image(link, copy, bytes);
    free(copy);
    return result;
}

CUresult api_linkAddFile(CUlinkState link, CUjitInputType type, const char *path, unsigned count,
                         CUjit_option *options, void **values)
{
    size_t bytes = 0;
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    char *text = api_file_read(path, &bytes);
    if (!text)
        return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult result = api_linkAddData(link, type, text, bytes + 1, path, count, options, values);
    free(text);
    return result;
}

CUresult api_linkComplete(CUlinkState handle, void **code, size_t *bytes)
{
    CUlinkState link = API_FIND(handle, API_LINK);
    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!code || !link->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    api_link_seal(link->code);
    CUresult result = link->complete ? CUDA_SUCCESS : compile(link, link->code, link->bytes, false);
    if (result)
        return result;
    link->complete = true;
    *code = link->code;
    if (bytes)
        *bytes = link->bytes + 1;
    return CUDA_SUCCESS;
}

CUresult api_linkDestroy(CUlinkState handle)
{
    CUlinkState link = API_FIND(handle, API_LINK);
    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    api_object_remove(&link->object);
    free(link->options);
    free(link->given);
    free(link->code);
    free(link);
    return CUDA_SUCCESS;
}
