// SPDX-License-Identifier: MIT
// The same sums in CUDA C++, compiled to machine code by NVRTC, as a program with the toolkit's
// library does it. No NVIDIA header is needed.
#include "load_nvrtc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char source[] =
    "extern \"C\" __global__ void squared_sum(const float *x, unsigned long long n, double *out)\n"
    "{\n"
    "    __shared__ double sums[8];\n"
    "    unsigned long long first = blockIdx.x * 4096ull, end = min(first + 4096ull, n);\n"
    "    double sum = 0;\n"
    "    for (unsigned long long i = first + threadIdx.x; i < end; i += 256)\n"
    "        sum += (double)x[i] * (double)x[i];\n"
    "    for (int d = 16; d > 0; d /= 2)\n"
    "        sum += __shfl_down_sync(~0u, sum, d);\n"
    "    if (threadIdx.x % 32 == 0)\n"
    "        sums[threadIdx.x / 32] = sum;\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x == 0) {\n"
    "        for (int i = 1; i < 8; i++)\n"
    "            sum += sums[i];\n"
    "        out[blockIdx.x] = sum;\n"
    "    }\n"
    "}\n";

static const char *const libraries[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so" };

typedef struct program *nvrtc_program;

// X(function, parameters)
#define NVRTC(X)                                                                                   \
    X(nvrtcCreateProgram, (nvrtc_program *, const char *, const char *, int, const char *const *,  \
                           const char *const *))                                                   \
    X(nvrtcCompileProgram, (nvrtc_program, int, const char *const *))                              \
    X(nvrtcGetCUBINSize, (nvrtc_program, size_t *))                                                \
    X(nvrtcGetCUBIN, (nvrtc_program, char *))                                                      \
    X(nvrtcDestroyProgram, (nvrtc_program *))

#define LIBCUDA(X)                                                                                 \
    X(cuCtxPushCurrent_v2, (CUcontext))                                                            \
    X(cuCtxPopCurrent_v2, (CUcontext *))                                                           \
    X(cuModuleLoadData, (CUmodule *, const void *))                                                \
    X(cuModuleUnload, (CUmodule))                                                                  \
    X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                                 \
    X(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,     \
                       unsigned, CUstream, void **, void **))

struct load_nvrtc {
    CUcontext context;
    int sm;
    char *code;
    CUmodule module;
    CUfunction function;
#define MEMBER(name, parameters) int(*name) parameters;
    NVRTC(MEMBER) LIBCUDA(MEMBER)
#undef MEMBER
};

static bool fail(char *error, size_t size, const char *what, int code)
{
    snprintf(error, size, "%s: %d", what, code);
    return false;
}

static bool find(struct load_nvrtc *program, const char *libcuda, char *error, size_t size)
{
    void *nvrtc = NULL;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]) && !nvrtc; i++)
        nvrtc = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    void *cuda = dlopen(libcuda, RTLD_NOW | RTLD_LOCAL);
    void *symbol = NULL;
    if (!nvrtc || !cuda) {
        snprintf(error, size, "%s", dlerror());
        return false;
    }
#define FIND(library, name)                                                                        \
    symbol = dlsym(library, #name);                                                                \
    if (!symbol)                                                                                   \
        return fail(error, size, "there is no " #name, 0);                                         \
    memcpy(&program->name, &symbol, sizeof(symbol));
#define FIND_NVRTC(name, parameters)   FIND(nvrtc, name)
#define FIND_LIBCUDA(name, parameters) FIND(cuda, name)
    NVRTC(FIND_NVRTC)
    LIBCUDA(FIND_LIBCUDA)
    return true;
}

static bool compile(struct load_nvrtc *program, char *error, size_t size)
{
    char architecture[32];
    const char *options[] = { architecture };
    nvrtc_program made = NULL;
    size_t bytes = 0;
    snprintf(architecture, sizeof(architecture), "-arch=sm_%d", program->sm);
    int code = program->nvrtcCreateProgram(&made, source, "squared_sum.cu", 0, NULL, NULL);
    if (!code)
        code = program->nvrtcCompileProgram(made, 1, options);
    if (!code)
        code = program->nvrtcGetCUBINSize(made, &bytes);
    if (!code && !(program->code = malloc(bytes)))
        return fail(error, size, "out of memory", 0);
    if (!code)
        code = program->nvrtcGetCUBIN(made, program->code);
    program->nvrtcDestroyProgram(&made);
    return code ? fail(error, size, "NVRTC", code) : true;
}

struct load_nvrtc *load_nvrtc_compile(ptx_device *gpu, char *error, size_t error_size)
{
    const struct ptx_device_info *info = ptx_device_get_info(gpu);
    struct load_nvrtc *program = calloc(1, sizeof(*program));
    if (!program)
        return NULL;
    program->context = ptx_device_context(gpu);
    program->sm = info->sm;
    if (!find(program, info->library_path, error, error_size) ||
        !compile(program, error, error_size))
        load_nvrtc_destroy(&program);
    return program;
}

bool load_nvrtc_load(struct load_nvrtc *program, char *error, size_t error_size)
{
    CUcontext popped = NULL;
    int code = program->cuCtxPushCurrent_v2(program->context);
    if (code)
        return fail(error, error_size, "cuCtxPushCurrent_v2", code);
    code = program->cuModuleLoadData(&program->module, program->code);
    if (!code)
        code = program->cuModuleGetFunction(&program->function, program->module, "squared_sum");
    program->cuCtxPopCurrent_v2(&popped);
    return code ? fail(error, error_size, "loading the machine code", code) : true;
}

bool load_nvrtc_launch(struct load_nvrtc *program, CUdeviceptr x, uint64_t n, CUdeviceptr partials,
                       unsigned grid, char *error, size_t error_size)
{
    CUcontext popped = NULL;
    void *arguments[] = { &x, &n, &partials };
    int code = program->cuCtxPushCurrent_v2(program->context);
    if (code)
        return fail(error, error_size, "cuCtxPushCurrent_v2", code);
    code =
        program->cuLaunchKernel(program->function, grid, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL);
    program->cuCtxPopCurrent_v2(&popped);
    return code ? fail(error, error_size, "cuLaunchKernel", code) : true;
}

void load_nvrtc_destroy(struct load_nvrtc **program)
{
    struct load_nvrtc *old = program ? *program : NULL;
    CUcontext popped = NULL;
    if (!old)
        return;
    *program = NULL;
    if (old->module && old->cuCtxPushCurrent_v2(old->context) == 0) {
        old->cuModuleUnload(old->module);
        old->cuCtxPopCurrent_v2(&popped);
    }
    free(old->code);
    free(old);
}
