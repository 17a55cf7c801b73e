// SPDX-License-Identifier: MIT
// Functions of modules, their attributes, parameters and occupancy; and launches.
#include "api.h"

#include <stdlib.h>
#include <string.h>

// ---- functions ----------------------------------------------------------------------------------

// Registers are not allocated: every kernel reports this number, which limits nothing.
enum { REGISTERS = 32 };

CUfunction api_function_find(CUfunction handle, CUcontext context, CUresult *result)
{
    CUfunction function = API_FIND(handle, API_FUNCTION);
    CUkernel kernel = API_FIND(handle, API_KERNEL);
    *result = CUDA_ERROR_INVALID_HANDLE;
    if (kernel)
        *result = api_kernel_function(&function, kernel, context ? context : api_current());
    else if (function && (!context || function->object.context == context))
        *result = CUDA_SUCCESS;
    return *result ? NULL : function;
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

int api_function_threads(CUfunction function)
{
    const uint32_t *most = function->entry->max_block;
    uint64_t threads = (uint64_t)most[0] * (most[1] ? most[1] : 1) * (most[2] ? most[2] : 1);
    return threads && threads < EMU_MAX_THREADS ? (int)threads : EMU_MAX_THREADS;
}

CUresult api_funcGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
    CUresult result = CUDA_SUCCESS;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    CUfunction function = api_function_find(handle, NULL, &result);
    if (!function)
        return result;
    const struct emu_module *program = function->module->program;
    switch ((unsigned)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = api_function_threads(function);
        break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)function->entry->shared_bytes;
        break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        *value = (int)program->const_bytes;
        break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = (int)function->entry->local_bytes;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = REGISTERS;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        *value = program->sm;
        break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = api_gpu()->sm;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = function->max_dynamic;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = function->carveout;
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = function->non_portable;
        break;
    default:
        if ((unsigned)attribute > CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE)
            return CUDA_ERROR_INVALID_VALUE;
        *value = 0;
    }
    return CUDA_SUCCESS;
}

CUresult api_funcSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
    CUresult result = CUDA_SUCCESS;
    CUfunction function = api_function_find(handle, NULL, &result);
    if (!function)
        return result;
    switch ((unsigned)attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || value > api_gpu()->shared_optin - (int)function->entry->shared_bytes)
            return CUDA_ERROR_INVALID_VALUE;
        function->max_dynamic = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        function->carveout = value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        function->non_portable = value != 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult api_funcSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
    CUresult result = CUDA_SUCCESS;
    CUfunction function = api_function_find(handle, NULL, &result);
    if (function && (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        result = CUDA_ERROR_INVALID_VALUE;
    return result;
}

CUresult api_funcGetModule(CUmodule *module, CUfunction handle)
{
    CUresult result = module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    CUfunction function = module ? api_function_find(handle, NULL, &result) : NULL;
    if (function)
        *module = function->module;
    return result;
}

CUresult api_funcGetName(const char **name, CUfunction handle)
{
    CUresult result = name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    CUfunction function = name ? api_function_find(handle, NULL, &result) : NULL;
    if (function)
        *name = function->entry->name;
    return result;
}

CUresult api_funcGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *bytes)
{
    CUresult result = offset ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    CUfunction function = offset ? api_function_find(handle, NULL, &result) : NULL;
    if (!function)
        return result;
    if (index >= function->entry->param_count)
        return CUDA_ERROR_INVALID_VALUE;
    const struct emu_symbol *symbol =
        &function->module->program->symbols[function->entry->params[index]];
    *offset = (size_t)symbol->offset;
    if (bytes)
        *bytes = (size_t)symbol->bytes;
    return CUDA_SUCCESS;
}

CUresult api_funcLoad(CUfunction handle)
{
    CUresult result = CUDA_SUCCESS;
    api_function_find(handle, NULL, &result);
    return result;
}

int api_function_blocks(CUfunction function, int threads, size_t shared)
{
    if (threads > EMU_MAX_THREADS || shared > (size_t)function->max_dynamic)
        return 0;
    return emu_blocks_per_sm(api_gpu(), (uint64_t)threads,
                             emu_shared_bytes(function->module->program, function->entry, shared));
}

CUresult api_occupancyBlocksFlags(int *blocks, CUfunction handle, int threads, size_t shared,
                                  unsigned flags)
{
    CUresult result = CUDA_SUCCESS;
    CUfunction function = api_function_find(handle, NULL, &result);
    if (!function)
        return result;
    if (!blocks || threads <= 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    *blocks = api_function_blocks(function, threads, shared);
    return CUDA_SUCCESS;
}

CUresult api_occupancyBlocks(int *blocks, CUfunction function, int threads, size_t shared)
{
    return api_occupancyBlocksFlags(blocks, function, threads, shared, 0);
}

/// The threads of a block of i + 1 warps; the last warp may be partial.
static int threads_of(int i, int most)
{
    return (i + 1) * EMU_LANES < most ? (i + 1) * EMU_LANES : most;
}

CUresult api_occupancyBlockSizeFlags(int *grid, int *block, CUfunction handle,
                                     CUoccupancyB2DSize shared_of, size_t shared, int limit,
                                     unsigned flags)
{
    CUresult result = CUDA_SUCCESS;
    CUfunction function = api_function_find(handle, NULL, &result);
    if (!function)
        return result;
    if (!grid || !block || limit < 0 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    size_t bytes[EMU_MAX_THREADS / EMU_LANES];
    int most = api_function_threads(function), resident = 0;
    if (limit > 0 && limit < most)
        most = limit;
    int warps = (most + EMU_LANES - 1) / EMU_LANES;
    if (shared_of)
        pthread_mutex_unlock(&api_state.lock); // the callback may call the driver
    for (int i = 0; i < warps; i++)
        bytes[i] = shared_of ? shared_of(threads_of(i, most)) : shared;
    if (shared_of) {
        pthread_mutex_lock(&api_state.lock);
        function = api_function_find(handle, NULL, &result);
    }
    if (!function)
        return result;
    *grid = *block = 0;
    for (int i = warps - 1; i >= 0; i--) {
        int threads = threads_of(i, most),
            blocks = api_function_blocks(function, threads, bytes[i]);
        if (blocks * threads <= resident)
            continue;
        resident = blocks * threads;
        *block = threads;
        *grid = blocks * api_state.config.multiprocessors;
    }
    return CUDA_SUCCESS;
}

CUresult api_occupancyBlockSize(int *grid, int *block, CUfunction function,
                                CUoccupancyB2DSize shared_of, size_t shared, int limit)
{
    return api_occupancyBlockSizeFlags(grid, block, function, shared_of, shared, limit, 0);
}

CUresult api_occupancyShared(size_t *bytes, CUfunction handle, int blocks, int threads)
{
    CUresult result = CUDA_SUCCESS;
    CUfunction function = api_function_find(handle, NULL, &result);
    if (!function)
        return result;
    if (!bytes || blocks <= 0 || threads <= 0 || blocks > api_function_blocks(function, threads, 0))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t each = emu_shared_for_blocks(api_gpu(), (uint64_t)blocks);
    uint64_t start = emu_dynamic_start(function->module->program, function->entry);
    each = each > start ? each - start : 0;
    *bytes = each < (uint64_t)function->max_dynamic ? (size_t)each : (size_t)function->max_dynamic;
    return CUDA_SUCCESS;
}

// ---- launches -----------------------------------------------------------------------------------

enum { PORTABLE_CLUSTER = 8 };

static const unsigned most_grid[3] = { EMU_MAX_GRID_X, EMU_MAX_GRID_YZ, EMU_MAX_GRID_YZ };
static const unsigned most_block[3] = { EMU_MAX_THREADS, EMU_MAX_THREADS, EMU_MAX_BLOCK_Z };

static CUresult check_geometry(const struct api_launch *launch)
{
    const struct CUfunc_st *function = launch->function;
    const struct emu_function *entry = function->entry;
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        if (launch->grid[i] == 0 || launch->grid[i] > most_grid[i] || launch->block[i] == 0 ||
            launch->block[i] > most_block[i])
            return CUDA_ERROR_INVALID_VALUE;
        uint32_t required = entry->required_block[i] ? entry->required_block[i] : 1;
        if (entry->required_block[0] && launch->block[i] != required)
            return CUDA_ERROR_INVALID_VALUE;
        threads *= launch->block[i];
    }
    if (threads > (uint64_t)api_function_threads(launch->function) ||
        launch->shared > (unsigned)function->max_dynamic)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    uint64_t resident =
        (uint64_t)api_function_blocks(launch->function, (int)threads, launch->shared) *
        (uint64_t)api_state.config.multiprocessors;
    return launch->cooperative && blocks > resident ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
                                                    : CUDA_SUCCESS;
}

/// Whether the kernel, or a function that it may call, reads cluster registers.
static bool reads_cluster_registers(const struct emu_module *program)
{
    for (uint32_t i = 0; i < program->function_count; i++)
        for (uint32_t k = 0; k < program->functions[i].operand_count; k++) {
            const struct emu_operand *operand = &program->functions[i].operands[k];
            if (operand->kind == EMU_OPERAND_SPECIAL && operand->special >= EMU_CLUSTERID)
                return true;
        }
    return false;
}

static CUresult check_cluster(const struct api_launch *launch)
{
    const unsigned *cluster = launch->cluster;
    if (!cluster[0] && !cluster[1] && !cluster[2])
        return CUDA_SUCCESS;
    if (api_gpu()->sm < 90)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < 3; i++)
        if (cluster[i] == 0 || launch->grid[i] % cluster[i] != 0)
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    if ((uint64_t)cluster[0] * cluster[1] * cluster[2] > PORTABLE_CLUSTER)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    if (reads_cluster_registers(launch->function->module->program))
        return api_refuse(
            CUDA_ERROR_NOT_SUPPORTED,
            "kernel %s reads cluster registers; the emulator does not support clusters",
            launch->function->entry->name);
    return CUDA_SUCCESS;
}

/// Parameters from an `extra` list: one buffer, laid out for the kernel.
static CUresult unpack(const struct emu_function *entry, void **extra, unsigned char *params)
{
    const void *buffer = NULL;
    const size_t *size = NULL;
    for (; (uintptr_t)extra[0] != CUDA_ABI_LAUNCH_PARAM_END; extra += 2) {
        if ((uintptr_t)extra[0] == CUDA_ABI_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if ((uintptr_t)extra[0] == CUDA_ABI_LAUNCH_PARAM_BUFFER_SIZE)
            size = extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (!buffer || !size)
        return CUDA_ERROR_INVALID_VALUE;
    if (*size > entry->param_bytes)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    memcpy(params, buffer, *size);
    return CUDA_SUCCESS;
}

static CUresult read_params(struct api_work *work, const struct api_launch *launch)
{
    const struct emu_function *entry = launch->function->entry;
    const struct emu_symbol *symbols = launch->function->module->program->symbols;
    unsigned char *bytes = work->as.kernel.params;
    for (uint32_t i = 0; i < entry->param_count; i++)
        work->as.kernel.pointers[i] = bytes + symbols[entry->params[i]].offset;
    if (entry->param_count == 0)
        return CUDA_SUCCESS;
    if (!launch->params && !launch->extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (launch->extra)
        return unpack(entry, launch->extra, bytes);
    for (uint32_t i = 0; i < entry->param_count; i++) {
        if (!launch->params[i])
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(work->as.kernel.pointers[i], launch->params[i],
               (size_t)symbols[entry->params[i]].bytes);
    }
    return CUDA_SUCCESS;
}

CUresult api_kernel_work(struct api_work *work, const struct api_launch *launch)
{
    const struct emu_function *entry = launch->function->entry;
    CUresult result = check_geometry(launch);
    if (!result)
        result = check_cluster(launch);
    if (!result && launch->params && launch->extra)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    *work = (struct api_work) { .type = CU_GRAPH_NODE_TYPE_KERNEL };
    work->as.kernel.function = launch->function;
    memcpy(work->as.kernel.grid, launch->grid, sizeof(launch->grid));
    memcpy(work->as.kernel.block, launch->block, sizeof(launch->block));
    work->as.kernel.shared = launch->shared;
    work->as.kernel.cooperative = launch->cooperative;
    work->as.kernel.params = calloc(1, entry->param_bytes + (size_t)16);
    work->as.kernel.pointers = calloc(entry->param_count + (size_t)1, sizeof(void *));
    launch->function->module->references++;
    result = work->as.kernel.params && work->as.kernel.pointers ? read_params(work, launch)
                                                                : CUDA_ERROR_OUT_OF_MEMORY;
    if (result)
        api_work_clear(work);
    return result;
}

static CUresult submit(struct api_launch *launch, CUfunction function, CUstream handle)
{
    struct api_work work;
    CUstream stream = NULL;
    CUresult result = CUDA_SUCCESS;
    launch->function = api_function_find(function, NULL, &result);
    if (result)
        return result;
    result = api_stream_find(handle, &stream);
    if (!result && launch->function->object.context != stream->context)
        launch->function = api_function_find(function, stream->context, &result);
    if (result)
        return result;
    if (stream->capture && stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    result = api_kernel_work(&work, launch);
    if (result)
        return stream->capture ? api_capture_fail(stream->capture, result) : result;
    return api_submit(stream, &work);
}

CUresult api_launchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                          CUstream stream, void **params, void **extra)
{
    struct api_launch launch = { .grid = { grid_x, grid_y, grid_z },
                                 .block = { block_x, block_y, block_z },
                                 .shared = shared,
                                 .params = params,
                                 .extra = extra };
    return submit(&launch, function, stream);
}

CUresult api_launchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                     unsigned grid_z, unsigned block_x, unsigned block_y,
                                     unsigned block_z, unsigned shared, CUstream stream,
                                     void **params)
{
    struct api_launch launch = { .grid = { grid_x, grid_y, grid_z },
                                 .block = { block_x, block_y, block_z },
                                 .shared = shared,
                                 .params = params,
                                 .cooperative = true };
    return submit(&launch, function, stream);
}

static CUresult read_attribute(struct api_launch *launch, const CUlaunchAttribute *attribute)
{
    if (attribute->id > CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING)
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        launch->cooperative = attribute->value.cooperative != 0;
    if (attribute->id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        return CUDA_SUCCESS;
    launch->cluster[0] = attribute->value.clusterDim.x;
    launch->cluster[1] = attribute->value.clusterDim.y;
    launch->cluster[2] = attribute->value.clusterDim.z;
    return launch->cluster[0] && launch->cluster[1] && launch->cluster[2]
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

CUresult api_launchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                            void **extra)
{
    if (!config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    struct api_launch launch = {
        .grid = { config->gridDimX, config->gridDimY, config->gridDimZ },
        .block = { config->blockDimX, config->blockDimY, config->blockDimZ },
        .shared = config->sharedMemBytes,
        .params = params,
        .extra = extra,
    };
    for (unsigned i = 0; i < config->numAttrs; i++) {
        CUresult result = read_attribute(&launch, &config->attrs[i]);
        if (result)
            return result;
    }
    return submit(&launch, function, config->hStream);
}
