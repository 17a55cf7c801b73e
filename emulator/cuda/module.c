// SPDX-License-Identifier: MIT
// Modules: PTX text in, functions and variables out.
#define _DEFAULT_SOURCE // clock_gettime, strnlen, MAP_ANONYMOUS
#include "module.h"

#include "calls.h"
#include "image.h"
#include "parsed.h"
#include "trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { JIT_OPTIONS = 35, LOG = 16000 };

/// The options of a load that have an effect here.
struct jit {
    char *info, *error;
    size_t info_size, error_size;
    void **info_written, **error_written, **wall_time;
    bool verbose;
};

static CUresult read_options(struct jit *jit, unsigned count, const CUjit_option *options,
                             void **values)
{
    *jit = (struct jit) { 0 };
    if (count && (!options || !values))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        switch ((unsigned)options[i]) {
        case CU_JIT_WALL_TIME:
            jit->wall_time = &values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER:
            jit->info = values[i];
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            jit->info_size = (unsigned)(uintptr_t)values[i];
            jit->info_written = &values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER:
            jit->error = values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            jit->error_size = (unsigned)(uintptr_t)values[i];
            jit->error_written = &values[i];
            break;
        case CU_JIT_LOG_VERBOSE:
            jit->verbose = values[i] != NULL;
            break;
        default:
            if ((unsigned)options[i] >= JIT_OPTIONS)
                return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

/// Copies the log to the caller, cut to the buffer, and returns the number of bytes used.
static void give_log(const char *log, char *buffer, size_t size, void **written)
{
    size_t length = buffer ? strlen(log) : 0;
    while (length && log[length - 1] == '\n')
        length--;
    if (length > size)
        length = size;
    if (buffer && size) {
        size_t shown = length < size ? length : size - 1;
        memcpy(buffer, log, shown);
        buffer[shown] = '\0';
    }
    if (written)
        *written = (void *)(uintptr_t)length;
}

/// An injected log. As with a real driver, there may be no NUL.
static void give_injected(const char *log, char *buffer, size_t size)
{
    const size_t length = log ? strlen(log) : 0;
    if (buffer && log)
        memcpy(buffer, log, length < size ? length : size);
}

static uint64_t address_of(CUmodule module, uint32_t index)
{
    const struct emu_symbol *symbol = &module->program->symbols[index];
    return (symbol->space == EMU_CONST ? module->const_base : module->global_base) + symbol->offset;
}

/// Writes addresses of variables and functions into initial values.
static void relocate(CUmodule module)
{
    const struct emu_module *program = module->program;
    unsigned char *shadow = NULL;
    enum emu_access_fault fault;
    for (uint32_t i = 0; i < program->relocation_count; i++) {
        const struct emu_relocation *r = &program->relocations[i];
        uint64_t value = emu_relocated(program, r, module->global_base, module->const_base);
        unsigned char *at = emu_memory_access(
            api_state.memory, address_of(module, r->symbol) + r->offset, r->bytes, &shadow, &fault);
        for (unsigned k = 0; at && k < r->bytes; k++)
            at[k] = (unsigned char)(value >> 8 * k);
    }
}

/// Memory for variables. If one is managed, the host uses all of the module's at their addresses.
static uint64_t variable_memory(uint64_t bytes, bool managed)
{
    uint64_t available = 0, total = 0;
    if (!managed)
        return emu_memory_alloc(api_state.memory, bytes);
    emu_memory_info(api_state.memory, &available, &total);
    if (bytes > total)
        return 0;
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return 0;
    if (emu_memory_map_host(api_state.memory, pages, bytes))
        return (uint64_t)(uintptr_t)pages;
    munmap(pages, bytes);
    return 0;
}

static void free_variable_memory(uint64_t base, uint64_t bytes, bool managed)
{
    void *pages = (void *)(uintptr_t)base;
    if (!managed) {
        emu_memory_free(api_state.memory, base);
        return;
    }
    emu_memory_unmap_host(api_state.memory, pages);
    munmap(pages, bytes);
}

static CUresult place_variables(CUmodule module)
{
    const struct emu_module *program = module->program;
    struct emu_memory *memory = api_state.memory;
    uint64_t sizes[2] = { program->global_bytes, program->const_bytes };
    uint64_t *bases[2] = { &module->global_base, &module->const_base };
    unsigned char *shadow = NULL;
    enum emu_access_fault fault;
    for (int i = 0; i < 2; i++) {
        *bases[i] = sizes[i] ? variable_memory(sizes[i], i == 0 && program->managed) : 0;
        if (sizes[i] && !*bases[i])
            return CUDA_ERROR_OUT_OF_MEMORY;
        module->memory[i].module = module;
        if (sizes[i])
            api_object_add(&module->memory[i].object, API_MODULE_MEMORY, *bases[i], NULL);
        unsigned char *bytes =
            sizes[i] ? emu_memory_access(memory, *bases[i], sizes[i], &shadow, &fault) : NULL;
        if (bytes && !(i == 0 && program->managed)) // fresh pages are zeros
            memset(bytes, 0, (size_t)sizes[i]);
        if (bytes && shadow)
            memset(shadow, 1, (size_t)sizes[i]);
    }
    for (uint32_t i = 0; i < program->symbol_count; i++) {
        const struct emu_symbol *symbol = &program->symbols[i];
        bool constant = symbol->space == EMU_CONST;
        if ((!constant && symbol->space != EMU_GLOBAL) || !symbol->init || symbol->bytes == 0)
            continue;
        unsigned char *bytes = emu_memory_access(memory, *bases[constant] + symbol->offset,
                                                 symbol->bytes, &shadow, &fault);
        if (bytes)
            memcpy(bytes, symbol->init, (size_t)symbol->bytes);
    }
    relocate(module);
    return CUDA_SUCCESS;
}

bool api_module_variable(CUmodule module, uint64_t address, uint64_t *start, uint64_t *bytes,
                         bool *managed)
{
    const struct emu_module *program = module->program;
    for (uint32_t i = 0; i < program->symbol_count; i++) {
        const struct emu_symbol *symbol = &program->symbols[i];
        if (symbol->space != EMU_GLOBAL && symbol->space != EMU_CONST)
            continue;
        *start = address_of(module, i);
        *bytes = symbol->bytes;
        *managed = symbol->managed;
        if (address - *start < symbol->bytes)
            return true;
    }
    return false;
}

static CUresult make_functions(CUmodule module)
{
    const struct emu_module *program = module->program;
    const int most = EMU_SHARED_DEFAULT;
    module->functions = calloc(program->function_count + 1, sizeof(*module->functions));
    if (!module->functions)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < program->function_count; i++) {
        CUfunction function = &module->functions[i];
        function->module = module;
        function->entry = &program->functions[i];
        int left = most - (int)function->entry->shared_bytes;
        function->max_dynamic = left > 0 ? left : 0;
        function->carveout = -1;
        if (function->entry->is_entry)
            api_object_add(&function->object, API_FUNCTION, (uint64_t)(uintptr_t)function,
                           api_current());
    }
    return CUDA_SUCCESS;
}

static void retire_functions(CUmodule module)
{
    for (uint32_t i = 0; module->functions && i < module->program->function_count; i++)
        if (module->functions[i].entry->is_entry)
            api_object_remove(&module->functions[i].object);
}

void api_module_retire(CUmodule module)
{
    api_object_remove(&module->object);
    retire_functions(module);
}

void api_module_release(CUmodule module)
{
    if (--module->references > 0)
        return;
    retire_functions(module);
    free(module->functions);
    uint64_t bases[2] = { module->global_base, module->const_base };
    for (int i = 0; i < 2; i++)
        if (bases[i]) {
            api_object_remove(&module->memory[i].object);
            free_variable_memory(bases[i], module->program->global_bytes,
                                 i == 0 && module->program->managed);
        }
    emu_programs_destroy(&module->programs);
    api_parsed_drop(module->program);
    free(module);
}

static CUresult load(CUmodule module, const void *image, size_t bytes, bool partial, char *log,
                     size_t log_size)
{
    const struct api_config *config = &api_state.config;
    struct emu_parse_limits limits = { .isa = config->isa,
                                       .sm = config->gpu->sm,
                                       .sm_suffix = config->gpu->sm >= 90 ? 'a' : '\0',
                                       .partial = partial };
    struct api_image opened;
    int result = 0;
    CUresult made = api_image_open(image, bytes, &opened, log, log_size);
    if (made)
        return made;
    module->program = api_parsed_get(opened.texts, opened.count, &limits, log, log_size, &result);
    api_image_close(&opened);
    if (!module->program)
        return result ? (CUresult)result : CUDA_ERROR_INVALID_PTX;
    if (partial)
        return make_functions(module);
    module->programs = emu_programs_create(module->program);
    made = module->programs ? make_functions(module) : CUDA_ERROR_OUT_OF_MEMORY;
    if (made) {
        snprintf(log, log_size, "error   : out of host memory");
        return made;
    }
    made = place_variables(module);
    if (made)
        snprintf(
            log, log_size, "error   : no device memory for %llu bytes of variables",
            (unsigned long long)(module->program->global_bytes + module->program->const_bytes));
    return made;
}

static void describe(CUmodule module, char *log, size_t size)
{
    size_t length = strlen(log);
    for (uint32_t i = 0; i < module->program->function_count && length < size; i++) {
        const struct emu_function *entry = module->functions[i].entry;
        if (entry->is_entry)
            length += (size_t)snprintf(
                log + length, size - length,
                "%sptxas info    : Compiling entry function '%s' for 'sm_%d'\n"
                "ptxas info    : Used %u virtual registers, %u bytes smem, %u bytes lmem",
                length ? "\n" : "", entry->name, api_gpu()->sm, entry->register_count,
                entry->shared_bytes, entry->local_bytes);
    }
}

static CUresult create(CUmodule *module, const void *image, size_t bytes, bool partial,
                       const struct jit *jit)
{
    struct timespec start, end;
    char *log = calloc(1, LOG);
    CUmodule made = calloc(1, sizeof(*made));
    if (!log || !made) {
        free(log);
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    clock_gettime(CLOCK_MONOTONIC, &start);
    made->references = 1;
    CUresult result = load(made, image, bytes, partial, log, LOG);
    if (!result && jit->verbose)
        describe(made, log, LOG);
    clock_gettime(CLOCK_MONOTONIC, &end);
    give_log(result ? log : "", jit->error, jit->error_size, jit->error_written);
    if (result && !(jit->error && jit->error_size))
        api_refuse(result, "%s",
                   log[0] ? log : "out of host memory"); // the caller has no log buffer
    give_log(result ? "" : log, jit->info, jit->info_size, jit->info_written);
    if (jit->wall_time) {
        float wall = (float)(end.tv_sec - start.tv_sec) * 1e3f +
                     (float)(end.tv_nsec - start.tv_nsec) * 1e-6f;
        memcpy(jit->wall_time, &wall, sizeof(wall));
    }
    free(log);
    if (result) {
        api_module_release(made);
        return result;
    }
    *module = made;
    return CUDA_SUCCESS;
}

CUresult api_module_create(CUmodule *module, const void *image, size_t bytes, bool partial,
                           unsigned count, const CUjit_option *options, void **values)
{
    struct jit jit = { 0 };
    const struct emulator_fault *fault = api_fault_with_logs();
    CUresult result = module && image ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = read_options(&jit, count, options, values);
    if (!result)
        result = api_fails_late();
    if (!result)
        result = create(module, image, bytes, partial, &jit);
    if (fault) {
        give_injected(fault->error_log, jit.error, jit.error_size);
        give_injected(fault->info_log, jit.info, jit.info_size);
    }
    return result;
}

static CUresult load_data(CUmodule *module, const void *image, size_t bytes, unsigned count,
                          CUjit_option *options, void **values)
{
    CUmodule made = NULL;
    CUresult result = module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = api_module_create(&made, image, bytes, false, count, options, values);
    if (result)
        return result;
    api_object_add(&made->object, API_MODULE, (uint64_t)(uintptr_t)made, api_current());
    *module = made;
    return CUDA_SUCCESS;
}

CUresult api_moduleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                              CUjit_option *options, void **values)
{
    return load_data(module, image, API_UNKNOWN_BYTES, count, options, values);
}

CUresult api_moduleLoadData(CUmodule *module, const void *image)
{
    return api_moduleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult api_moduleLoadFatBinary(CUmodule *module, const void *image)
{
    return api_moduleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult api_module_load(CUmodule *module, const void *image, size_t bytes)
{
    return load_data(module, image, bytes, 0, NULL, NULL);
}

CUresult api_moduleGetFunction(CUfunction *function, CUmodule handle, const char *name)
{
    CUmodule module = API_FIND(handle, API_MODULE);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!function || !name || !name[0])
        return CUDA_ERROR_INVALID_VALUE;
    const struct emu_function *entry = emu_module_entry(module->program, name);
    if (!entry)
        return CUDA_ERROR_NOT_FOUND;
    *function = &module->functions[entry - module->program->functions];
    return CUDA_SUCCESS;
}

CUresult api_moduleGetFunctionCount(unsigned *count, CUmodule handle)
{
    CUmodule module = API_FIND(handle, API_MODULE);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = 0;
    for (uint32_t i = 0; i < module->program->function_count; i++)
        *count += module->program->functions[i].is_entry;
    return CUDA_SUCCESS;
}

CUresult api_moduleEnumerateFunctions(CUfunction *functions, unsigned count, CUmodule handle)
{
    CUmodule module = API_FIND(handle, API_MODULE);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!functions)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned found = 0;
    for (uint32_t i = 0; i < module->program->function_count && found < count; i++)
        if (module->program->functions[i].is_entry)
            functions[found++] = &module->functions[i];
    return CUDA_SUCCESS;
}

char *api_file_read(const char *path, size_t *bytes)
{
    FILE *file = path ? fopen(path, "rb") : NULL;
    char *text = NULL;
    size_t size = 0;
    for (size_t room = 1 << 16; file; room *= 2) {
        char *larger = realloc(text, room);
        if (!larger)
            break;
        text = larger;
        size += fread(text + size, 1, room - size - 1, file);
        text[size] = '\0';
        if (size < room - 1) {
            fclose(file);
            *bytes = size;
            return text;
        }
    }
    if (file)
        fclose(file);
    free(text);
    return NULL;
}

CUresult api_moduleLoad(CUmodule *module, const char *path)
{
    if (!module || !path)
        return CUDA_ERROR_INVALID_VALUE;
    size_t bytes = 0;
    char *text = api_file_read(path, &bytes);
    if (!text)
        return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult result = api_module_load(module, text, bytes);
    free(text);
    return result;
}

CUresult api_moduleUnload(CUmodule handle)
{
    CUmodule module = API_FIND(handle, API_MODULE);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    if (module->of_library)
        return CUDA_ERROR_NOT_PERMITTED;
    api_module_retire(module);
    api_drain();
    api_module_release(module);
    return CUDA_SUCCESS;
}

CUresult api_moduleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
}

CUresult api_moduleGetGlobal(CUdeviceptr *address, size_t *bytes, CUmodule handle, const char *name)
{
    CUmodule module = API_FIND(handle, API_MODULE);
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    if ((!address && !bytes) || !name)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < module->program->symbol_count; i++) {
        const struct emu_symbol *symbol = &module->program->symbols[i];
        bool constant = symbol->space == EMU_CONST;
        if ((!constant && symbol->space != EMU_GLOBAL) || strcmp(symbol->name, name) != 0)
            continue;
        if (address)
            *address = (constant ? module->const_base : module->global_base) + symbol->offset;
        if (bytes)
            *bytes = (size_t)symbol->bytes;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}
