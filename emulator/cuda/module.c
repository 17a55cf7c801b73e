// SPDX-License-Identifier: MIT
// Modules: PTX text in, functions and variables out. The linker.
#define _POSIX_C_SOURCE 200809L // clock_gettime, strnlen
#include "api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/// Writes addresses of variables into the initial values of others.
static void relocate(CUmodule module)
{
    const struct emu_module *program = module->program;
    unsigned char *shadow = NULL;
    enum emu_access_fault fault;
    for (uint32_t i = 0; i < program->relocation_count; i++) {
        const struct emu_relocation *r = &program->relocations[i];
        uint64_t value = address_of(module, r->target) + (uint64_t)r->addend;
        unsigned char *at = emu_memory_access(
            api_state.memory, address_of(module, r->symbol) + r->offset, r->bytes, &shadow, &fault);
        for (unsigned k = 0; at && k < r->bytes; k++)
            at[k] = (unsigned char)(value >> 8 * k);
    }
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
        *bases[i] = sizes[i] ? emu_memory_alloc(memory, sizes[i]) : 0;
        if (sizes[i] && !*bases[i])
            return CUDA_ERROR_OUT_OF_MEMORY;
        module->memory[i].module = module;
        if (sizes[i])
            api_object_add(&module->memory[i].object, API_MODULE_MEMORY, *bases[i], NULL);
        unsigned char *bytes =
            sizes[i] ? emu_memory_access(memory, *bases[i], sizes[i], &shadow, &fault) : NULL;
        if (bytes)
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

bool api_module_variable(CUmodule module, uint64_t address, uint64_t *start, uint64_t *bytes)
{
    const struct emu_module *program = module->program;
    for (uint32_t i = 0; i < program->symbol_count; i++) {
        const struct emu_symbol *symbol = &program->symbols[i];
        if (symbol->space != EMU_GLOBAL && symbol->space != EMU_CONST)
            continue;
        *start = address_of(module, i);
        *bytes = symbol->bytes;
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
            emu_memory_free(api_state.memory, bases[i]);
        }
    emu_programs_destroy(&module->programs);
    emu_module_destroy(&module->program);
    free(module);
}

static bool is_binary(const char *image)
{
    return strncmp(image, "\177ELF", 4) == 0 || strncmp(image, "\x50\xed\x55\xba", 4) == 0 ||
           strncmp(image, "\xb1\x43\x62\x46", 4) == 0; // ELF, a fat binary, nvcc's wrapper of one
}

/// PTX text begins with comments and then .version. Nothing else is parsed.
static bool is_text(const char *image)
{
    for (const char *at = image; *at;) {
        if (strchr(" \t\r\n", *at))
            at++;
        else if (at[0] == '/' && at[1] == '/')
            at += strcspn(at, "\n");
        else if (at[0] == '/' && at[1] == '*' && strstr(at + 2, "*/"))
            at = strstr(at + 2, "*/") + 2;
        else
            return *at == '.';
    }
    return false;
}

static CUresult load(CUmodule module, const char *image, char *log, size_t log_size)
{
    const struct api_config *config = &api_state.config;
    struct emu_parse_limits limits = { .isa = config->isa,
                                       .sm = config->gpu->sm,
                                       .sm_suffix = config->gpu->sm >= 90 ? 'a' : '\0' };
    int result = 0;
    CUresult opened = api_link_open(image, &image);
    if (opened) {
        snprintf(log, log_size,
                 "error   : the linked code is damaged, or was linked for another GPU");
        return opened;
    }
    if (is_binary(image)) {
        snprintf(log, log_size, "error   : the image is machine code; the emulator runs PTX text");
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (!is_text(image)) {
        snprintf(log, log_size, "error   : Binary format for key='0', ident='' is not recognized");
        return CUDA_ERROR_INVALID_IMAGE;
    }
    module->program = emu_module_parse(image, strlen(image), &limits, log, log_size, &result);
    if (!module->program)
        return result ? (CUresult)result : CUDA_ERROR_INVALID_PTX;
    module->programs = emu_programs_create(module->program);
    if (!module->programs)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult made = make_functions(module);
    if (!made)
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

static CUresult create(CUmodule *module, const char *image, const struct jit *jit)
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
    CUresult result = load(made, image, log, LOG);
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

CUresult api_module_create(CUmodule *module, const char *image, unsigned count,
                           const CUjit_option *options, void **values)
{
    struct jit jit = { 0 };
    const struct emulator_fault *fault = api_fault_with_logs();
    CUresult result = module && image ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = read_options(&jit, count, options, values);
    if (!result)
        result = api_fails_late();
    if (!result)
        result = create(module, image, &jit);
    if (fault) {
        give_injected(fault->error_log, jit.error, jit.error_size);
        give_injected(fault->info_log, jit.info, jit.info_size);
    }
    return result;
}

CUresult api_moduleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                              CUjit_option *options, void **values)
{
    CUmodule made = NULL;
    CUresult result = module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = api_module_create(&made, image, count, options, values);
    if (result)
        return result;
    api_object_add(&made->object, API_MODULE, (uint64_t)(uintptr_t)made, api_current());
    *module = made;
    return CUDA_SUCCESS;
}

CUresult api_moduleLoadData(CUmodule *module, const void *image)
{
    return api_moduleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult api_moduleLoadFatBinary(CUmodule *module, const void *image)
{
    return api_moduleLoadDataEx(module, image, 0, NULL, NULL);
}

char *api_file_read(const char *path)
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
    char *text = api_file_read(path);
    if (!text)
        return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult result = api_moduleLoadData(module, text);
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

// -------------------------------------------------------------------------------------- the linker

// The linker's "machine code" is the text of its one input, after a line with the GPU that it was
// made for and a checksum of the text.

static const char magic[] = "\177PTXEMU ";

enum { INPUT_TYPES = 6, LINE = sizeof(magic) - 1 + 3 + 1 + 16 + 1 + 16 + 1 };

struct CUlinkState_st {
    struct api_object object;
    CUjit_option *options;
    void **values; // the caller's, where logs are returned
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
    snprintf(line, LINE + 1, "%s%03d %016llx %016llx\n", magic, api_gpu()->sm,
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
    if (sm / 10 != api_gpu()->sm / 10 || sm > api_gpu()->sm)
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

/// Compiles the text for its errors and log.
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
        return api_refuse(CUDA_ERROR_NOT_SUPPORTED,
                          "the emulator's linker takes one input, which must be PTX text");
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
