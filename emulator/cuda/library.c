// SPDX-License-Identifier: MIT
// Libraries: an image that becomes a module in each context that uses it.
#include "library.h"

#include "calls.h"
#include "image.h"
#include "module.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

struct CUlib_st {
    struct api_object object;
    char *image;
    size_t bytes;
    CUkernel kernels;
};

/// The library's module in a context. It belongs to the context, which may be destroyed first.
struct use {
    struct use *next;
    CUlibrary library;
    CUcontext context;
    unsigned long long context_id;
    CUmodule module;
};

static struct use *uses;

static CUresult load(CUlibrary *library, const void *code, size_t bytes)
{
    const void *image = api_image_find(code, &bytes);
    if (!image)
        return CUDA_ERROR_INVALID_IMAGE;
    CUlibrary made = calloc(1, sizeof(*made));
    if (made)
        made->image = calloc(1, bytes + 8);
    if (!made || !made->image) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(made->image, image, bytes);
    made->bytes = bytes;
    api_object_add(&made->object, API_LIBRARY, (uint64_t)(uintptr_t)made, NULL);
    *library = made;
    return CUDA_SUCCESS;
}

static bool arguments_are_wrong(unsigned count, CUjit_option *options, void **values,
                                unsigned library_count, CUlibraryOption *library_options,
                                void **library_values)
{
    return (count && (!options || !values)) ||
           (library_count && (!library_options || !library_values));
}

CUresult api_libraryLoadData(CUlibrary *library, const void *code, CUjit_option *options,
                             void **values, unsigned count, CUlibraryOption *library_options,
                             void **library_values, unsigned library_count)
{
    if (!library || !code ||
        arguments_are_wrong(count, options, values, library_count, library_options, library_values))
        return CUDA_ERROR_INVALID_VALUE;
    return load(library, code, API_UNKNOWN_BYTES);
}

CUresult api_libraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *options,
                                 void **values, unsigned count, CUlibraryOption *library_options,
                                 void **library_values, unsigned library_count)
{
    size_t bytes = 0;
    if (!library || !path)
        return CUDA_ERROR_INVALID_VALUE;
    char *text = api_file_read(path, &bytes);
    if (!text)
        return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult result =
        arguments_are_wrong(count, options, values, library_count, library_options, library_values)
            ? CUDA_ERROR_INVALID_VALUE
            : load(library, text, bytes);
    free(text);
    return result;
}

CUresult api_libraryUnload(CUlibrary handle)
{
    CUlibrary library = API_FIND(handle, API_LIBRARY);
    if (!library)
        return CUDA_ERROR_INVALID_HANDLE;
    api_object_remove(&library->object);
    for (struct use **at = &uses; *at;) {
        struct use *use = *at;
        if (use->library != library) {
            at = &use->next;
            continue;
        }
        *at = use->next;
        if (use->context->alive && use->context->id == use->context_id) {
            use->module->of_library = false;
            api_moduleUnload(use->module);
        }
        free(use);
    }
    while (library->kernels) {
        CUkernel kernel = library->kernels;
        library->kernels = kernel->next;
        api_object_remove(&kernel->object);
        free(kernel);
    }
    free(library->image);
    free(library);
    return CUDA_SUCCESS;
}

static CUmodule module_of(CUlibrary library, CUcontext context, CUresult *result)
{
    *result = !context                                ? CUDA_ERROR_INVALID_CONTEXT
              : !context->alive                       ? CUDA_ERROR_CONTEXT_IS_DESTROYED
              : api_thread.depth >= API_MAX_DEPTH - 1 ? CUDA_ERROR_OUT_OF_MEMORY
                                                      : CUDA_SUCCESS;
    if (*result)
        return NULL;
    for (struct use *use = uses; use; use = use->next)
        if (use->library == library && use->context == context && use->context_id == context->id)
            return use->module;
    struct use *made = calloc(1, sizeof(*made));
    api_thread.stack[api_thread.depth++] = context;
    *result = made ? api_module_load(&made->module, library->image, library->bytes)
                   : CUDA_ERROR_OUT_OF_MEMORY;
    api_thread.depth--;
    if (*result) {
        free(made);
        return NULL;
    }
    made->module->of_library = true;
    made->library = library;
    made->context = context;
    made->context_id = context->id;
    made->next = uses;
    uses = made;
    return made->module;
}

CUresult api_libraryGetModule(CUmodule *module, CUlibrary handle)
{
    CUresult result = CUDA_SUCCESS;
    CUlibrary library = API_FIND(handle, API_LIBRARY);
    if (!library)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!module)
        return CUDA_ERROR_INVALID_VALUE;
    CUmodule found = module_of(library, api_current(), &result);
    if (found)
        *module = found;
    return result;
}

CUresult api_libraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library,
                              const char *name)
{
    CUmodule module = NULL;
    CUresult result = api_libraryGetModule(&module, library);
    return result ? result : api_moduleGetGlobal(address, bytes, module, name);
}

/// Whether the library has the kernel. A kernel belongs to no context, so there need be none.
static CUresult look_up(CUlibrary library, const char *name)
{
    CUmodule module = NULL;
    const bool current = api_current() != NULL;
    CUresult result =
        current ? api_libraryGetModule(&module, library)
                : api_module_create(&module, library->image, library->bytes, false, 0, NULL, NULL);
    if (result)
        return result;
    result = name[0] && emu_module_entry(module->program, name) ? CUDA_SUCCESS
             : name[0]                                          ? CUDA_ERROR_NOT_FOUND
                                                                : CUDA_ERROR_INVALID_VALUE;
    if (!current)
        api_module_release(module);
    return result;
}

CUresult api_libraryGetKernel(CUkernel *kernel, CUlibrary handle, const char *name)
{
    CUlibrary library = API_FIND(handle, API_LIBRARY);
    if (!library)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!kernel || !name)
        return CUDA_ERROR_INVALID_VALUE;
    for (CUkernel known = library->kernels; known; known = known->next)
        if (strcmp(known->name, name) == 0) {
            *kernel = known;
            return CUDA_SUCCESS;
        }
    CUresult result = api_current() ? api_require(API_NEEDS_CONTEXT) : CUDA_SUCCESS;
    if (!result)
        result = look_up(library, name);
    if (result)
        return result;
    size_t size = strlen(name) + 1;
    CUkernel made = calloc(1, sizeof(*made) + size);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(made->name, name, size);
    made->library = library;
    made->next = library->kernels;
    library->kernels = made;
    api_object_add(&made->object, API_KERNEL, (uint64_t)(uintptr_t)made, NULL);
    *kernel = made;
    return CUDA_SUCCESS;
}

CUresult api_kernel_function(CUfunction *function, CUkernel kernel, CUcontext context)
{
    CUresult result = CUDA_SUCCESS;
    CUmodule module = module_of(kernel->library, context, &result);
    return module ? api_moduleGetFunction(function, module, kernel->name) : result;
}
