// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L // strnlen
// The linker. Its "machine code" is the text of its one input behind a line of its own, which says
// for which GPU it was made and what the text adds up to.
#include "api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[] = "\177PTXEMU ";

enum { INPUT_TYPES = 6, LINE = sizeof(magic) - 1 + 3 + 1 + 16 + 1 + 16 + 1 };

struct CUlinkState_st {
    struct api_object object;
    CUjit_option *options;
    void **values; // the caller's: logs go there
    unsigned option_count;
    char *code;
};

static uint64_t sum(const char *text)
{
    uint64_t value = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        value = (value ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return value;
}

static void write_line(char *line, const char *text)
{
    snprintf(line, LINE + 1, "%s%03d %016llx %016llx\n", magic, api_state.config.sm,
             (unsigned long long)strlen(text), (unsigned long long)sum(text));
}

CUresult api_link_open(const char *image, const char **text)
{
    int sm = 0;
    unsigned long long length = 0, total = 0;
    *text = image;
    if (strncmp(image, magic, strlen(magic)) != 0)
        return CUDA_SUCCESS;
    if (strnlen(image, LINE) != LINE || image[LINE - 1] != '\n' ||
        sscanf(image + strlen(magic), "%3d %16llx %16llx", &sm, &length, &total) != 3 ||
        strlen(image + LINE) != length || sum(image + LINE) != total)
        return CUDA_ERROR_INVALID_IMAGE;
    if (sm / 10 != api_state.config.sm / 10 || sm > api_state.config.sm)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    *text = image + LINE;
    return CUDA_SUCCESS;
}

CUresult api_linkCreate(unsigned count, CUjit_option *options, void **values, CUlinkState *link)
{
    if (!link || (count && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    CUlinkState made = calloc(1, sizeof(*made));
    if (made)
        made->options = malloc((count + 1) * sizeof(*options));
    if (!made || !made->options) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (count)
        memcpy(made->options, options, count * sizeof(*options));
    made->values = values;
    made->option_count = count;
    api_object_add(&made->object, API_LINK, (uint64_t)(uintptr_t)made, NULL);
    *link = made;
    return CUDA_SUCCESS;
}

/// Compiles the text, to see that it does and for what the compiler says.
static CUresult compile(CUlinkState link, const char *text)
{
    CUmodule module = NULL;
    CUresult result =
        api_module_create(&module, text, link->option_count, link->options, link->values);
    if (!result)
        api_module_release(module);
    return result;
}

static CUresult add_text(CUlinkState link, const char *text)
{
    CUresult result = compile(link, text);
    if (!result)
        result = api_link_open(text, &text);
    if (result)
        return result;
    size_t bytes = LINE + strlen(text) + 1;
    link->code = malloc(bytes);
    if (!link->code)
        return CUDA_ERROR_OUT_OF_MEMORY;
    write_line(link->code, text);
    memcpy(link->code + LINE, text, bytes - LINE);
    return CUDA_SUCCESS;
}

CUresult api_linkAddData(CUlinkState handle, CUjitInputType type, void *data, size_t bytes,
                         const char *name, unsigned count, CUjit_option *options, void **values)
{
    CUlinkState link = API_FIND(handle, API_LINK);
    (void)name;
    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!data || bytes == 0 || (unsigned)type >= INPUT_TYPES || (count && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    if (link->code || (type != CU_JIT_INPUT_PTX && type != CU_JIT_INPUT_CUBIN))
        return api_refuse(CUDA_ERROR_NOT_SUPPORTED, "the emulator links one input, of PTX text");
    char *text = malloc(bytes + 1);
    if (!text)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    CUresult result = add_text(link, text);
    free(text);
    return result;
}

CUresult api_linkAddFile(CUlinkState link, CUjitInputType type, const char *path, unsigned count,
                         CUjit_option *options, void **values)
{
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    char *text = api_file_read(path);
    if (!text)
        return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult result =
        api_linkAddData(link, type, text, strlen(text) + 1, path, count, options, values);
    free(text);
    return result;
}

CUresult api_linkComplete(CUlinkState handle, void **code, size_t *bytes)
{
    CUlinkState link = API_FIND(handle, API_LINK);
    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!code || !link->code)
        return CUDA_ERROR_INVALID_VALUE;
    *code = link->code;
    if (bytes)
        *bytes = strlen(link->code) + 1;
    return CUDA_SUCCESS;
}

CUresult api_linkDestroy(CUlinkState handle)
{
    CUlinkState link = API_FIND(handle, API_LINK);
    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    api_object_remove(&link->object);
    free(link->options);
    free(link->code);
    free(link);
    return CUDA_SUCCESS;
}
