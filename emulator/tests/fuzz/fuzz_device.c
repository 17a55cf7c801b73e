// SPDX-License-Identifier: MIT
#include "fuzz_device.h"

static struct device the_device;

static void device_open(struct device *device)
{
    require(cuDevicePrimaryCtxRetain(&device->context, 0) == CUDA_SUCCESS);
    require(cuCtxSetCurrent(device->context) == CUDA_SUCCESS);
    require(cuStreamCreate(&device->stream, 1) == CUDA_SUCCESS);
    for (int i = 0; i < BUFFERS; i++)
        require(cuMemAlloc_v2(&device->buffers[i], BUFFER_BYTES) == CUDA_SUCCESS);
    require(cuMemAllocHost_v2((void **)&device->pinned, BUFFER_BYTES) == CUDA_SUCCESS);
    require(cuMemAlloc_v2(&device->freed, 256) == CUDA_SUCCESS);
    require(cuMemFree_v2(device->freed) == CUDA_SUCCESS);
}

struct device *device_ready(void)
{
    struct device *device = &the_device;
    uint32_t words[BUFFER_BYTES / 4];
    if (!device->context) {
        require(cuInit(0) == CUDA_SUCCESS);
        device_open(device);
        size_t total = 0;
        require(cuMemGetInfo_v2(&device->available, &total) == CUDA_SUCCESS);
    }
    for (uint32_t i = 0; i < BUFFER_BYTES / 4; i++)
        words[i] = i % 2 ? i : UINT32_C(0x3f800000) + (i << 16);
    for (int i = 0; i < 4; i++)
        require(cuMemcpyHtoD_v2(device->buffers[i], words, BUFFER_BYTES) == CUDA_SUCCESS);
    memset(device->pinned, 1, BUFFER_BYTES);
    device->module_lives = true;
    return device;
}

// A second .version begins a second input.
static CUresult load_linked(CUmodule *module, const char *text)
{
    CUlinkState link = NULL;
    void *code = NULL;
    size_t bytes = 0;
    const char *second = text[0] ? strstr(text + 1, ".version") : NULL;
    const size_t first = second ? (size_t)(second - text) : strlen(text) + 1;
    require(cuLinkCreate_v2(0, NULL, NULL, &link) == CUDA_SUCCESS);
    CUresult result = cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)text, first,
                                       "text", 0, NULL, NULL);
    if (result == CUDA_SUCCESS && second)
        result = cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)second,
                                  strlen(second) + 1, "second", 0, NULL, NULL);
    if (result == CUDA_SUCCESS)
        result = cuLinkComplete(link, &code, &bytes);
    if (result == CUDA_SUCCESS) {
        result = cuModuleLoadData(module, code);
        require(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
    }
    require(cuLinkDestroy(link) == CUDA_SUCCESS);
    return result;
}

static CUresult load_library(struct loaded *loaded, const char *text)
{
    CUresult result = cuLibraryLoadData(&loaded->library, text, NULL, NULL, 0, NULL, NULL, 0);
    if (result == CUDA_SUCCESS)
        result = cuLibraryGetModule(&loaded->module, loaded->library);
    if (result && loaded->library)
        require(cuLibraryUnload(loaded->library) == CUDA_SUCCESS);
    return result;
}

static CUresult load_text(CUmodule *module, const char *text, bool verbose)
{
    char error[2048] = "", info[256];
    CUjit_option options[] = { CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                               CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                               CU_JIT_LOG_VERBOSE };
    void *values[] = { error, (void *)(uintptr_t)sizeof(error), info,
                       (void *)(uintptr_t)sizeof(info), (void *)(uintptr_t)verbose };
    CUresult result = cuModuleLoadDataEx(module, text, 5, options, values);
    require(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY ||
            (error[0] && strlen(error) < sizeof(error)));
    return result;
}

bool load(struct loaded *loaded, unsigned way, const char *text)
{
    CUresult result = way == 1   ? load_linked(&loaded->module, text)
                      : way == 2 ? load_library(loaded, text)
                                 : load_text(&loaded->module, text, way == 3);
    return result == CUDA_SUCCESS;
}

void unload(const struct loaded *loaded, bool lives)
{
    if (loaded->library)
        require(cuLibraryUnload(loaded->library) == CUDA_SUCCESS);
    else if (lives)
        require(cuModuleUnload(loaded->module) == CUDA_SUCCESS);
}

static CUresult launch_with_attributes(const struct device *device, const struct launch *launch)
{
    CUlaunchAttribute attributes[2] = { { .id = launch->attribute & 31 } };
    CUlaunchConfig config = {
        .gridDimX = launch->grid[0],
        .gridDimY = launch->grid[1],
        .gridDimZ = launch->grid[2],
        .blockDimX = launch->block[0],
        .blockDimY = launch->block[1],
        .blockDimZ = launch->block[2],
        .sharedMemBytes = launch->shared,
        .hStream = device->stream,
        .attrs = attributes,
        .numAttrs = 2,
    };
    attributes[0].value.clusterDim.x = launch->attribute >> 5 & 3;
    attributes[0].value.clusterDim.y = launch->attribute >> 7 & 3;
    attributes[0].value.clusterDim.z = launch->attribute >> 9 & 3;
    return cuLaunchKernelEx(&config, launch->function, (void **)launch->params, NULL);
}

static CUresult launch_plain(CUstream stream, const struct launch *launch, void **extra)
{
    return cuLaunchKernel(launch->function, launch->grid[0], launch->grid[1], launch->grid[2],
                          launch->block[0], launch->block[1], launch->block[2], launch->shared,
                          stream, extra ? NULL : (void **)launch->params, extra);
}

static CUresult launch_with_buffer(const struct launch *launch)
{
    // A buffer that is too small leaves zeros; one that is too large is refused.
    size_t size = launch->attribute & 1 ? launch->attribute >> 1 : launch->param_bytes;
    unsigned char *buffer = calloc(1, size ? size : 1);
    require(buffer);
    for (unsigned k = 0; k < launch->param_count; k++) {
        size_t offset = 0, bytes = 0;
        require(cuFuncGetParamInfo(launch->function, k, &offset, &bytes) == CUDA_SUCCESS);
        if (offset + bytes <= size)
            memcpy(buffer + offset, launch->params[k], bytes);
    }
    void *extra[] = { (void *)1, buffer, (void *)2, &size, NULL };
    CUresult result = launch_plain(NULL, launch, extra);
    free(buffer);
    return result;
}

static CUresult launch_cooperatively(const struct launch *launch)
{
    return cuLaunchCooperativeKernel(
        launch->function, launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0],
        launch->block[1], launch->block[2], launch->shared, NULL, (void **)launch->params);
}

// What a captured kernel leaves. It outlives the context.
struct captured {
    CUgraph graph;
    CUgraphExec executable;
};

static CUresult launch_captured(const struct device *device, const struct launch *launch,
                                struct captured *captured)
{
    require(cuStreamBeginCapture_v2(device->stream, CU_STREAM_CAPTURE_MODE_RELAXED) ==
            CUDA_SUCCESS);
    CUresult result = launch_plain(device->stream, launch, NULL);
    CUresult ended = cuStreamEndCapture(device->stream, &captured->graph);
    require((result == CUDA_SUCCESS) == (ended == CUDA_SUCCESS));
    if (ended == CUDA_SUCCESS) {
        require(cuGraphInstantiateWithFlags(&captured->executable, captured->graph, 0) ==
                CUDA_SUCCESS);
        result = cuGraphLaunch(captured->executable, device->stream);
    }
    return result;
}

static CUresult launch_by_way(const struct device *device, const struct launch *launch,
                              struct captured *captured)
{
    // More than the 48 KiB that need no attribute.
    if (launch->way & 8)
        cuFuncSetAttribute(launch->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                           (int)(launch->shared & INT32_MAX));
    switch (launch->way & 7) {
    case 1:
        return launch_cooperatively(launch);
    case 2:
        return launch_with_attributes(device, launch);
    case 3:
        return launch_with_buffer(launch);
    case 4:
        return launch_captured(device, launch, captured);
    case 5:
        return launch_plain(device->stream, launch, NULL);
    default:
        return launch_plain(NULL, launch, NULL);
    }
}

// The errors with which a kernel can end. Others are returned before it runs.
static bool is_fault(CUresult result)
{
    return result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_LAUNCH_TIMEOUT ||
           result == CUDA_ERROR_HARDWARE_STACK_ERROR || result == CUDA_ERROR_ILLEGAL_INSTRUCTION ||
           result == CUDA_ERROR_MISALIGNED_ADDRESS || result == CUDA_ERROR_LAUNCH_FAILED ||
           result == CUDA_ERROR_ASSERT;
}

static void device_reset(struct device *device)
{
    require(cuDevicePrimaryCtxReset_v2(0) == CUDA_SUCCESS);
    require(cuEmulatorClearError() == CUDA_SUCCESS);
    require(cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
    device->module_lives = false;
    device_open(device);
}

void device_check(struct device *device, bool heap)
{
    size_t available = 0, total = 0;
    require(cuCtxSynchronize() == CUDA_SUCCESS);
    require(cuMemGetInfo_v2(&available, &total) == CUDA_SUCCESS);
    if (heap && available != device->available) {
        device_reset(device);
        require(cuMemGetInfo_v2(&available, &total) == CUDA_SUCCESS);
    }
    require(available == device->available);
}

void launch_run(struct device *device, const struct launch *launch)
{
    struct captured captured = { 0 };
    const char *report = NULL, *name = NULL;
    CUresult launched = launch_by_way(device, launch, &captured);
    CUresult result = cuStreamSynchronize(device->stream);
    require(cuGetErrorName(launched, &name) == CUDA_SUCCESS && name);
    require(launched == CUDA_SUCCESS || result == CUDA_SUCCESS || launched == result);
    if (result) {
        require(is_fault(result));
        require(cuEmulatorReport(&report) == CUDA_SUCCESS && report[0]);
        require(cuEmulatorClearError() == CUDA_SUCCESS);
    }
    if (launch->way & 128)
        device_reset(device);
    if (captured.executable)
        require(cuGraphExecDestroy(captured.executable) == CUDA_SUCCESS);
    if (captured.graph)
        require(cuGraphDestroy(captured.graph) == CUDA_SUCCESS);
}
