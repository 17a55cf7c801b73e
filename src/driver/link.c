// SPDX-License-Identifier: MIT
#include "cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Registers are given out in eights, and no limit is taken below the least.
enum { REGISTERS_STEP = 8, LEAST_REGISTERS = 24, HINT_BYTES = 24 };

/// Where an attempt writes why it failed.
struct attempt {
    const ptx_module *module;
    char *reason;
    size_t reason_size;
};

static bool give_up(const struct attempt *attempt, const char *call, CUresult result)
{
    snprintf(attempt->reason, attempt->reason_size, "%s failed with %s (%d)", call,
             ptx_driver_result_name(&attempt->module->device->library, result), (int)result);
    return false;
}

/// A driver call of an attempt, true if it went well.
#define TRY(attempt, function, ...)                                                                \
    try_call(attempt, #function, (attempt)->module->device->library.function(__VA_ARGS__))

static bool try_call(const struct attempt *attempt, const char *call, CUresult result)
{
    return result == CUDA_SUCCESS || give_up(attempt, call, result);
}

static bool out_of_memory(const struct attempt *attempt)
{
    snprintf(attempt->reason, attempt->reason_size, "out of host memory");
    return false;
}

/// As many as the module's own code takes of an SM.
static int limit_of(const ptx_function *function)
{
    int limit = (function->info.registers + REGISTERS_STEP - 1) / REGISTERS_STEP * REGISTERS_STEP;
    return limit > LEAST_REGISTERS ? limit : LEAST_REGISTERS;
}

/// The text with a limit of registers for each kernel. What the linker compiles is to be linked
/// with other code, so it does not choose registers for the most blocks on an SM, as the compiler
/// does for a whole program; the difference is up to 10% of a kernel's time.
static char *limit_registers(const ptx_module *module, const char *source)
{
    size_t count = module->text.entry_count;
    char *text = malloc(strlen(source) + count * HINT_BYTES + 1);
    char *to = text;
    size_t from = 0;
    for (size_t i = 0; text && i < count; i++) {
        size_t body = module->text.entries[i].body;
        if (!module->functions[i].handle || source[body] != '{')
            continue;
        memcpy(to, source + from, body - from);
        to += body - from;
        to += snprintf(to, HINT_BYTES, ".maxnreg %d ", limit_of(&module->functions[i]));
        from = body;
    }
    if (text)
        strcpy(to, source + from);
    return text;
}

/// Registers and spills no worse than those of the module's own code. A kernel that calls something
/// long, a division for one, may come to spill under the limit.
static bool is_as_good(const struct attempt *attempt, CUmodule linked, bool *worse)
{
    for (size_t i = 0; i < attempt->module->text.entry_count; i++) {
        const ptx_function *function = &attempt->module->functions[i];
        CUfunction other = NULL;
        int registers = 0;
        int local = 0;
        if (!function->handle)
            continue;
        if (!TRY(attempt, cuModuleGetFunction, &other, linked, function->info.name) ||
            !TRY(attempt, cuFuncGetAttribute, &registers, CU_FUNC_ATTRIBUTE_NUM_REGS, other) ||
            !TRY(attempt, cuFuncGetAttribute, &local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, other))
            return false;
        *worse = registers > limit_of(function) || local > function->info.local;
        if (*worse) {
            snprintf(attempt->reason, attempt->reason_size,
                     "the linker's code for kernel %.100s takes %d registers and %d bytes of local "
                     "memory, not %d and %d",
                     function->info.name, registers, local, function->info.registers,
                     function->info.local);
            return false;
        }
    }
    return true;
}

static bool check_code(const struct attempt *attempt, const void *code, bool *worse)
{
    CUmodule linked = NULL;
    if (!TRY(attempt, cuModuleLoadDataEx, &linked, code, 0, NULL, NULL))
        return false;
    bool good = is_as_good(attempt, linked, worse);
    attempt->module->device->library.cuModuleUnload(linked);
    return good;
}

static bool link_text(const struct attempt *attempt, char *text,
                      const struct ptx_module_params *params, struct ptx_driver_entry *entry,
                      bool *worse)
{
    CUjit_option options[2];
    void *values[2];
    unsigned count = 0;
    if (params->line_info) {
        options[count] = CU_JIT_GENERATE_LINE_INFO;
        values[count++] = (void *)(uintptr_t)1;
    }
    if (params->max_registers) {
        options[count] = CU_JIT_MAX_REGISTERS;
        values[count++] = (void *)(uintptr_t)params->max_registers;
    }
    CUlinkState state = NULL;
    void *code = NULL;
    size_t bytes = 0;
    if (!TRY(attempt, cuLinkCreate_v2, count, options, values, &state))
        return false;
    bool linked = TRY(attempt, cuLinkAddData_v2, state, CU_JIT_INPUT_PTX, text, strlen(text) + 1,
                      "application ptx input", 0, NULL, NULL) &&
                  TRY(attempt, cuLinkComplete, state, &code, &bytes) &&
                  check_code(attempt, code, worse);
    if (linked && !ptx_driver_entry_create(entry, code, bytes, attempt->module->log))
        linked = out_of_memory(attempt);
    attempt->module->device->library.cuLinkDestroy(state); // and with it the code
    return linked;
}

bool ptx_driver_link(const ptx_module *module, const char *source,
                     const struct ptx_module_params *params, struct ptx_driver_entry *entry,
                     bool *worse, char *reason, size_t reason_size)
{
    const struct ptx_driver_library *library = &module->device->library;
    const struct attempt attempt = { module, reason, reason_size };
    *worse = false;
    if (!library->cuLinkCreate_v2 || !library->cuLinkAddData_v2 || !library->cuLinkComplete ||
        !library->cuLinkDestroy) {
        snprintf(reason, reason_size, "%.200s has no linker", library->path);
        return false;
    }
    char *text = limit_registers(module, source);
    if (!text)
        return out_of_memory(&attempt);
    bool linked = link_text(&attempt, text, params, entry, worse);
    free(text);
    return linked;
}
