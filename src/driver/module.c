// SPDX-License-Identifier: MIT
#include "internal.h"

#include <stdlib.h>
#include <string.h>

// X(field of ptx_function_info, function attribute)
#define FUNCTION_FACTS(X)                                                                          \
    X(max_threads_per_block, MAX_THREADS_PER_BLOCK)                                                \
    X(registers, NUM_REGS)                                                                         \
    X(static_shared, SHARED_SIZE_BYTES)                                                            \
    X(local, LOCAL_SIZE_BYTES)                                                                     \
    X(binary_version, BINARY_VERSION)

static ptx_status read_info(const struct ptxd_library *library, ptx_function *function)
{
    ptx_status status = PTX_OK;
#define READ(field, attribute)                                                                     \
    if (!status)                                                                                   \
        status =                                                                                   \
            PTXD_CALL(library, "ask for the kernel's " #attribute, cuFuncGetAttribute,             \
                      &function->info.field, CU_FUNC_ATTRIBUTE_##attribute, function->handle);
    FUNCTION_FACTS(READ)
#undef READ
    return status;
}

/// Allows launches to use all available shared memory; the driver's limit is 48 KiB otherwise.
/// Memory that a launch does not request remains available to the L1 cache.
static ptx_status open_shared_memory(const ptx_device *device, ptx_function *function)
{
    int most = device->info.shared_per_block;
    if (most >= device->info.shared_per_block_optin) {
        function->info.max_dynamic_shared = most - function->info.static_shared;
        return PTX_OK;
    }
    most = device->info.shared_per_block_optin - function->info.static_shared;
    function->info.max_dynamic_shared = most;
    return PTXD_CALL(&device->library, "raise the kernel's limit of shared memory",
                     cuFuncSetAttribute, function->handle,
                     CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most);
}

/// Does now what the driver would otherwise do at the first launch, which may be under capture.
static ptx_status prepare(ptx_module *module, ptx_function *function,
                          const struct ptxd_signature *signature)
{
    const struct ptxd_library *library = &module->device->library;
    function->module = module;
    function->info.name = signature->name;
    function->info.params = signature->params;
    function->info.param_count = signature->param_count;
    memcpy(function->info.required_block, signature->required_block,
           sizeof(function->info.required_block));
    CUresult result =
        library->cuModuleGetFunction(&function->handle, module->handle, signature->name);
    if (result == CUDA_ERROR_NOT_FOUND) { // not .visible: a kernel that only the module uses
        function->handle = NULL;
        return PTX_OK;
    }
    ptx_status status = ptxd_check(library, result, "cuModuleGetFunction", "find the kernel");
    if (!status && library->cuFuncLoad)
        status = PTXD_CALL(library, "load the kernel", cuFuncLoad, function->handle);
    if (!status)
        status = read_info(library, function);
    if (!status)
        status = open_shared_memory(module->device, function);
    if (status)
        ptxd_explain("\nkernel: %s", signature->name);
    return status;
}

static ptx_status load(ptx_module *module, const char *text, const struct ptx_module_params *params)
{
    ptx_status status = ptxd_refuse_capture(&module->device->library, params->stream,
                                            "compile and load the PTX text");
    if (!status)
        status = ptxd_jit(module->device, text, params, &module->handle, &module->log);
    if (!status)
        status = ptxd_text_read(&module->text, text, true);
    if (status)
        return status;
    module->functions = calloc(module->text.entry_count + 1, sizeof(*module->functions));
    if (!module->functions)
        return ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory while loading PTX");
    for (size_t i = 0; i < module->text.entry_count && !status; i++)
        status = prepare(module, &module->functions[i], &module->text.entries[i]);
    return status;
}

ptx_module *ptx_module_load(ptx_device *device, const char *text,
                            const struct ptx_module_params *params)
{
    static const struct ptx_module_params defaults;
    if (!params)
        params = &defaults;
    if (!text || params->max_registers < 0) {
        ptxd_fail(PTX_ERROR_INVALID, "ptx_module_load: %s",
                  text ? "max_registers is negative" : "the text is NULL");
        return NULL;
    }
    struct ptxd_scope scope;
    if (ptxd_enter_cold(&scope, device, __func__))
        return NULL;
    ptx_module *module = calloc(1, sizeof(*module));
    ptx_status status = PTX_OK;
    if (module) {
        ptxd_device_retain(device);
        module->device = device;
        status = load(module, text, params);
    } else {
        status = ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory while loading PTX");
    }
    if (ptxd_leave(&scope, status))
        ptx_module_unload(&module);
    return module;
}

void ptx_module_unload(ptx_module **module)
{
    if (!module || !*module)
        return;
    ptx_module *old = *module;
    *module = NULL;
    struct ptxd_scope scope;
    if (old->handle && ptxd_enter_release(&scope, old->device)) {
        scope.library->cuModuleUnload(old->handle);
        ptxd_leave_release(&scope);
    }
    ptxd_device_release(old->device);
    ptxd_text_free(&old->text);
    free(old->functions);
    free(old->log);
    free(old);
}

ptx_function *ptx_module_function(ptx_module *module, const char *name)
{
    if (!module || !name) {
        ptxd_fail(PTX_ERROR_INVALID, "ptx_module_function: the %s is NULL",
                  module ? "name" : "module");
        return NULL;
    }
    if (ptxd_usable(module->device))
        return NULL;
    bool hidden = false;
    for (size_t i = 0; i < module->text.entry_count; i++) {
        ptx_function *function = &module->functions[i];
        if (strcmp(function->info.name, name) != 0)
            continue;
        if (function->handle)
            return function;
        hidden = true;
    }
    if (hidden) {
        ptxd_fail(PTX_ERROR_NOT_FOUND,
                  "kernel %s is not to be had from outside: put "
                  ".visible before its .entry",
                  name);
        return NULL;
    }
    ptxd_fail(PTX_ERROR_NOT_FOUND, "the module has no kernel %s; it has:", name);
    for (size_t i = 0; i < module->text.entry_count; i++)
        ptxd_explain("%s %s", i ? "," : "", module->text.entries[i].name);
    if (module->text.entry_count == 0)
        ptxd_explain(" none");
    return NULL;
}

ptx_function *ptx_module_function_at(ptx_module *module, size_t k)
{
    for (size_t i = 0; module && i < module->text.entry_count; i++)
        if (module->functions[i].handle && k-- == 0)
            return &module->functions[i];
    return NULL;
}

ptx_status ptx_module_global(ptx_module *module, const char *name, CUdeviceptr *address,
                             size_t *bytes)
{
    if (!module || !name)
        return ptxd_fail(PTX_ERROR_INVALID, "ptx_module_global: the %s is NULL",
                         module ? "name" : "module");
    struct ptxd_scope scope;
    ptx_status status = ptxd_enter_cold(&scope, module->device, __func__);
    if (status)
        return status;
    CUdeviceptr found = 0;
    size_t size = 0;
    status = PTXD_CALL(scope.library, "find the variable", cuModuleGetGlobal_v2, &found, &size,
                       module->handle, name);
    if (status)
        ptxd_explain("\nvariable: %s", name);
    status = ptxd_leave(&scope, status);
    if (!status && address)
        *address = found;
    if (!status && bytes)
        *bytes = size;
    return status;
}

const char *ptx_module_log(const ptx_module *module)
{
    return module && module->log ? module->log : "";
}
