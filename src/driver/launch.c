// SPDX-License-Identifier: MIT
#include "launch.h"
#include "internal.h"

#include <ctype.h>
#include <string.h>

static const char axes[] = "xyz";

/// A launch with defaults filled in.
struct geometry {
    unsigned grid[3];
    unsigned block[3];
    unsigned cluster[3];
    bool clustered;
};

static bool any(const unsigned dimensions[3])
{
    return dimensions[0] || dimensions[1] || dimensions[2];
}

/// Checks the argument's C type against the parameter's type: floats for .f32 and .f64, integers
/// for .u and .s, anything for other types, but never a pointer to host memory.
static ptx_status check_type(const ptx_function *function, size_t i, const struct ptx_arg *argument)
{
    const struct ptx_function_param *param = &function->info.params[i];
    const char *kernel = function->info.name;
    const char first = param->type[0];
    bool takes_float = strcmp(param->type, "f32") == 0 || strcmp(param->type, "f64") == 0;
    bool takes_integer = first == 'u' || (first == 's' && isdigit((unsigned char)param->type[1]));
    if (takes_float && argument->type == PTX_ARG_INTEGER)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "kernel %s: args[%zu] (%s) is .%s and takes a %s, not an integer", kernel,
                         i, param->name, param->type, param->type[1] == '3' ? "float" : "double");
    if (takes_integer && argument->type == PTX_ARG_FLOAT)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "kernel %s: args[%zu] (%s) is .%s and takes an integer of %zu "
                         "bytes, not a %s",
                         kernel, i, param->name, param->type, param->size,
                         param->size == sizeof(float) ? "float" : "double");
    return PTX_OK;
}

static ptx_status check_arguments(const ptx_function *function,
                                  const struct ptx_launch_params *params, void **values)
{
    const struct ptx_function_info *info = &function->info;
    if (params->arg_count != info->param_count)
        return ptxd_fail(PTX_ERROR_INVALID, "kernel %s takes %zu argument%s, not %zu", info->name,
                         info->param_count, ptxd_plural(info->param_count), params->arg_count);
    if (!params->args && params->arg_count)
        return ptxd_fail(PTX_ERROR_INVALID, "kernel %s: args is NULL", info->name);
    for (size_t i = 0; i < params->arg_count; i++) {
        const struct ptx_arg *argument = &params->args[i];
        const struct ptx_function_param *param = &info->params[i];
        if (!argument->value)
            return ptxd_fail(PTX_ERROR_INVALID, "kernel %s: args[%zu] (%s) has no value",
                             info->name, i, param->name);
        if (argument->type == PTX_ARG_POINTER)
            return ptxd_fail(
                PTX_ERROR_INVALID,
                "kernel %s: args[%zu] (%s) is .%s, and the argument is a pointer of the host: pass "
                "the CUdeviceptr; ptx_buffer_address() returns that of a buffer",
                info->name, i, param->name, param->type);
        if (argument->size != param->size)
            return ptxd_fail(PTX_ERROR_INVALID,
                             "kernel %s: args[%zu] (%s) is .%s and takes %zu byte%s, not %zu",
                             info->name, i, param->name, param->type, param->size,
                             ptxd_plural(param->size), argument->size);
        ptx_status status = check_type(function, i, argument);
        if (status)
            return status;
        values[i] = (void *)argument->value;
    }
    return PTX_OK;
}

static ptx_status check_block(const ptx_function *function, const unsigned given[3],
                              unsigned block[3])
{
    const struct ptx_device_info *gpu = &function->module->device->info;
    const struct ptx_function_info *info = &function->info;
    bool required = info->required_block[0] != 0;
    if (!any(given) && !required)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "kernel %s: block is 0, and the kernel has no .reqntid to fill it in",
                         info->name);
    unsigned long long threads = 1;
    for (int i = 0; i < 3; i++) {
        block[i] = given[i] ? given[i] : 1;
        if (!any(given))
            block[i] = (unsigned)info->required_block[i];
        if (required && block[i] != (unsigned)info->required_block[i])
            return ptxd_fail(PTX_ERROR_INVALID,
                             "kernel %s: block.%c is %u, but the kernel's .reqntid is %d",
                             info->name, axes[i], block[i], info->required_block[i]);
        if (block[i] > (unsigned)gpu->max_block[i])
            return ptxd_fail(PTX_ERROR_INVALID, "kernel %s: block.%c is %u, the GPU allows %d",
                             info->name, axes[i], block[i], gpu->max_block[i]);
        threads *= block[i];
    }
    if (threads > (unsigned)info->max_threads_per_block)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "kernel %s: block is %u x %u x %u = %llu threads, the kernel runs with at "
                         "most %d (%d registers per thread)",
                         info->name, block[0], block[1], block[2], threads,
                         info->max_threads_per_block, info->registers);
    return PTX_OK;
}

static ptx_status check_grid(const ptx_function *function, const struct ptx_launch_params *params,
                             struct geometry *geometry)
{
    const struct ptx_device_info *gpu = &function->module->device->info;
    const char *name = function->info.name;
    geometry->clustered = any(params->cluster);
    for (int i = 0; i < 3; i++) {
        geometry->grid[i] = params->grid[i] || i == 0 ? params->grid[i] : 1;
        geometry->cluster[i] = params->cluster[i] ? params->cluster[i] : 1;
        if (geometry->grid[i] > (unsigned)gpu->max_grid[i])
            return ptxd_fail(PTX_ERROR_INVALID, "kernel %s: grid.%c is %u, the GPU allows %d", name,
                             axes[i], geometry->grid[i], gpu->max_grid[i]);
        if (geometry->grid[i] % geometry->cluster[i] != 0)
            return ptxd_fail(PTX_ERROR_INVALID,
                             "kernel %s: grid.%c is %u, no multiple of cluster.%c, %u", name,
                             axes[i], geometry->grid[i], axes[i], geometry->cluster[i]);
    }
    return PTX_OK;
}

static ptx_status check_features(const ptx_function *function,
                                 const struct ptx_launch_params *params)
{
    const ptx_device *device = function->module->device;
    const struct ptx_device_info *gpu = &device->info;
    const char *feature = params->cooperative ? "cooperative" : "cluster";
    if (params->shared_bytes > (size_t)function->info.max_dynamic_shared)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "kernel %s: shared_bytes is %zu, but only %d are left on this GPU "
                         "besides the kernel's own %d",
                         function->info.name, params->shared_bytes,
                         function->info.max_dynamic_shared, function->info.static_shared);
    if (!params->cooperative && !any(params->cluster))
        return PTX_OK;
    if (!device->library.cuLaunchKernelEx)
        return ptxd_fail(PTX_ERROR_UNSUPPORTED,
                         "kernel %s: a %s launch needs cuLaunchKernelEx, which %s lacks: "
                         "update the driver to 520 (CUDA 11.8) or newer",
                         function->info.name, feature, device->library.path);
    if (params->cooperative && !gpu->cooperative_launch)
        return ptxd_fail(PTX_ERROR_UNSUPPORTED, "kernel %s: %s has no cooperative launches",
                         function->info.name, gpu->name);
    if (any(params->cluster) && gpu->sm < 90)
        return ptxd_fail(PTX_ERROR_UNSUPPORTED, "kernel %s: clusters need sm_90, and %s is sm_%d",
                         function->info.name, gpu->name, gpu->sm);
    return PTX_OK;
}

static CUresult launch_with_attributes(const ptx_function *function,
                                       const struct ptx_launch_params *params,
                                       const struct geometry *geometry, void **values)
{
    CUlaunchAttribute attributes[3] = { 0 };
    unsigned count = 0;
    if (params->cooperative) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attributes[count++].value.cooperative = 1;
    }
    if (geometry->clustered) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attributes[count].value.clusterDim.x = geometry->cluster[0];
        attributes[count].value.clusterDim.y = geometry->cluster[1];
        attributes[count++].value.clusterDim.z = geometry->cluster[2];
    }
    if (params->programmatic) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attributes[count++].value.programmaticStreamSerializationAllowed = 1;
    }
    const CUlaunchConfig config = {
        .gridDimX = geometry->grid[0],
        .gridDimY = geometry->grid[1],
        .gridDimZ = geometry->grid[2],
        .blockDimX = geometry->block[0],
        .blockDimY = geometry->block[1],
        .blockDimZ = geometry->block[2],
        .sharedMemBytes = (unsigned)params->shared_bytes,
        .hStream = params->stream,
        .attrs = attributes,
        .numAttrs = count,
    };
    return function->module->device->library.cuLaunchKernelEx(&config, function->handle, values,
                                                              NULL);
}

static void explain_launch(const ptx_function *function, const struct ptx_launch_params *params,
                           const struct geometry *geometry)
{
    const unsigned *grid = geometry->grid;
    const unsigned *block = geometry->block;
    if (ptxd_kernel_failed()) // a kernel launched earlier
        return;
    ptxd_explain("\nkernel %s, grid %u x %u x %u, block %u x %u x %u, %zu bytes of dynamic "
                 "shared memory",
                 function->info.name, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                 params->shared_bytes);
}

static ptx_status launch(const ptx_function *function, const struct ptx_launch_params *params,
                         const struct geometry *geometry, void **values)
{
    const ptx_device *device = function->module->device;
    const struct ptxd_library *library = &device->library;
    struct ptxd_scope scope;
    const char *purpose = "launch the kernel";
    ptx_status status = ptxd_enter_stream(&scope, device, params->stream, "ptx_launch", purpose);
    if (status) {
        explain_launch(function, params, geometry);
        return status;
    }
    // Programmatic launch only permits an overlap: without it the result is the same.
    bool programmatic = params->programmatic && device->info.sm >= 90 && library->cuLaunchKernelEx;
    const unsigned *grid = geometry->grid;
    const unsigned *block = geometry->block;
    if (params->cooperative || geometry->clustered || programmatic)
        status = ptxd_check(library, launch_with_attributes(function, params, geometry, values),
                            "cuLaunchKernelEx", purpose);
    else
        status = PTXD_CALL(library, purpose, cuLaunchKernel, function->handle, grid[0], grid[1],
                           grid[2], block[0], block[1], block[2], (unsigned)params->shared_bytes,
                           params->stream, values, NULL);
    if (status)
        explain_launch(function, params, geometry);
    return ptxd_leave(&scope, status);
}

static ptx_status check_function(const ptx_function *function)
{
    if (!function)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "the function is NULL: see what ptx_module_function() said");
    return ptxd_usable(function->module->device);
}

ptx_status ptx_launch(const ptx_function *function, const struct ptx_launch_params *params)
{
    ptx_status status = check_function(function);
    if (status)
        return status;
    if (!params)
        return ptxd_fail(PTX_ERROR_INVALID, "kernel %s: params is NULL", function->info.name);
    void *values[PTXD_MAX_PARAMS];
    struct geometry geometry;
    status = check_arguments(function, params, values);
    if (!status)
        status = check_block(function, params->block, geometry.block);
    if (!status)
        status = check_grid(function, params, &geometry);
    if (!status)
        status = check_features(function, params);
    if (status || geometry.grid[0] == 0)
        return status;
    return launch(function, params, &geometry, values);
}

ptx_status ptxd_launch_again(const ptx_function *function, uint32_t grid, bool programmatic,
                             CUstream stream, void **values)
{
    const int *block = function->info.required_block;
    const struct geometry geometry = {
        .grid = { grid, 1, 1 },
        .block = { (unsigned)block[0], (unsigned)block[1], (unsigned)block[2] },
    };

    return launch(function,
                  &(struct ptx_launch_params) { .stream = stream, .programmatic = programmatic },
                  &geometry, values);
}

const struct ptx_function_info *ptx_function_get_info(const ptx_function *function)
{
    return function ? &function->info : NULL;
}

ptx_status ptx_function_occupancy(const ptx_function *function, int threads, size_t shared_bytes,
                                  int *blocks_per_sm)
{
    ptx_status status = check_function(function);
    if (status)
        return status;
    if (!blocks_per_sm || threads <= 0)
        return ptxd_fail(PTX_ERROR_INVALID, "ptx_function_occupancy: %s",
                         blocks_per_sm ? "threads is not positive" : "blocks_per_sm is NULL");
    struct ptxd_scope scope;
    status = ptxd_enter(&scope, function->module->device, __func__);
    if (status)
        return status;
    status = PTXD_CALL(scope.library, "compute the occupancy",
                       cuOccupancyMaxActiveBlocksPerMultiprocessor, blocks_per_sm, function->handle,
                       threads, shared_bytes);
    return ptxd_leave(&scope, status);
}
