// SPDX-License-Identifier: MIT
// Launches: what a device allows, and the parameters.
#include "launch.h"

#include "calls.h"
#include "capturing.h"
#include "function.h"
#include "stream.h"
#include "work.h"

#include <stdlib.h>
#include <string.h>

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

static bool asks_for_cluster(const struct emu_function *function, bool several)
{
    const uint8_t first = several ? EMU_CLUSTERID : EMU_IS_EXPLICIT_CLUSTER;
    for (uint32_t k = 0; k < function->operand_count; k++) {
        const struct emu_operand *operand = &function->operands[k];
        if (operand->kind == EMU_OPERAND_SPECIAL && operand->special >= first &&
            operand->special <= EMU_IS_EXPLICIT_CLUSTER)
            return true;
    }
    for (uint32_t k = 0; several && k < function->insn_count; k++)
        if (function->insns[k].mode == EMU_MODE_MAP || function->insns[k].mode == EMU_MODE_RANK)
            return true;
    return false;
}

/// Whether the kernel, or a function that it may call, asks for its block's place in a cluster.
static bool module_asks_for_cluster(const struct emu_module *program, bool several)
{
    for (uint32_t i = 0; i < program->function_count; i++)
        if (asks_for_cluster(&program->functions[i], several))
            return true;
    return false;
}

static CUresult check_cluster(const struct api_launch *launch)
{
    const unsigned *cluster = launch->cluster;
    const bool given = cluster[0] || cluster[1] || cluster[2];
    uint64_t blocks = 1;
    if (!given && !launch->function->entry->in_cluster)
        return CUDA_SUCCESS;
    if (api_gpu()->sm < 90)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; given && i < 3; i++) {
        if (cluster[i] == 0 || launch->grid[i] % cluster[i] != 0)
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        blocks *= cluster[i];
    }
    if (blocks > PORTABLE_CLUSTER)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    if (module_asks_for_cluster(launch->function->module->program, blocks > 1))
        return api_refuse(
            CUDA_ERROR_NOT_SUPPORTED,
            "kernel %s asks for its block's place in a cluster; the emulator does not support "
            "clusters of several blocks",
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
    work->as.kernel.programmatic = launch->programmatic;
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
    work.as.kernel.stream = stream->id;
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
    if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
        launch->programmatic = attribute->value.programmaticStreamSerializationAllowed != 0;
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
