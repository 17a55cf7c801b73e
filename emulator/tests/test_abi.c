// SPDX-License-Identifier: MIT
/// Holds the emulator's reading of the driver's interface against NVIDIA's own cuda.h: every
/// signature, value and structure while compiling; that the library exports them, while running.
#ifdef HAVE_CUDA_H
#define __CUDA_API_VERSION_INTERNAL // every version of every function, under its own name
#include <cuda.h>
#include <cudaProfiler.h>
#endif

#include "cuda/functions.h"
#include "cuda/per_thread.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifdef HAVE_CUDA_H
#define SAME_SIGNATURE(symbol, name, since, needs, implementation, parameters, arguments)          \
    _Static_assert(__builtin_types_compatible_p(__typeof__(symbol), CUresult parameters), #symbol);
API_FUNCTIONS(SAME_SIGNATURE)
#define SAME_VARIANT(symbol, variant, parameters, arguments)                                       \
    _Static_assert(__builtin_types_compatible_p(__typeof__(variant), CUresult parameters),         \
                   #variant);
API_PER_THREAD(SAME_VARIANT)
#define SAME_VALUE(name, value) _Static_assert((int)(name) == (value), #name);
#define SAME_ENUM(type, values) values(SAME_VALUE)
API_ENUMS(SAME_ENUM)
#define SAME_RESULT(name, value, text) _Static_assert((int)(name) == (value), #name);
API_RESULTS(SAME_RESULT)
#define SAME_SIZE(name, ours) _Static_assert(sizeof(name) == sizeof(struct ours), #name);
API_STRUCTS(SAME_SIZE)

#define SAME_FIELD(type, ours, field)                                                              \
    _Static_assert(offsetof(type, field) == offsetof(struct ours, field), #type "." #field);       \
    _Static_assert(sizeof(((type *)0)->field) == sizeof(((struct ours *)0)->field),                \
                   #type "." #field);
#define FIELDS(X)                                                                                  \
    X(CUDA_MEMCPY2D, api_copy_2d, srcMemoryType)                                                   \
    X(CUDA_MEMCPY2D, api_copy_2d, srcPitch)                                                        \
    X(CUDA_MEMCPY2D, api_copy_2d, dstXInBytes)                                                     \
    X(CUDA_MEMCPY2D, api_copy_2d, dstDevice)                                                       \
    X(CUDA_MEMCPY2D, api_copy_2d, Height)                                                          \
    X(CUDA_MEMCPY3D, api_copy_3d, srcHost)                                                         \
    X(CUDA_MEMCPY3D, api_copy_3d, srcHeight)                                                       \
    X(CUDA_MEMCPY3D, api_copy_3d, dstMemoryType)                                                   \
    X(CUDA_MEMCPY3D, api_copy_3d, dstPitch)                                                        \
    X(CUDA_MEMCPY3D, api_copy_3d, Depth)                                                           \
    X(CUDA_KERNEL_NODE_PARAMS_v2, api_kernel_params, sharedMemBytes)                               \
    X(CUDA_KERNEL_NODE_PARAMS_v2, api_kernel_params, extra)                                        \
    X(CUDA_KERNEL_NODE_PARAMS_v2, api_kernel_params, ctx)                                          \
    X(CUDA_MEMSET_NODE_PARAMS, api_memset_params, elementSize)                                     \
    X(CUDA_MEMSET_NODE_PARAMS, api_memset_params, height)                                          \
    X(CUDA_HOST_NODE_PARAMS, api_host_params, userData)                                            \
    X(CUgraphExecUpdateResultInfo, api_update_info, errorNode)                                     \
    X(CUDA_GRAPH_INSTANTIATE_PARAMS, api_instantiate_params, result_out)                           \
    X(CUlaunchAttribute, api_launch_attribute, value.clusterDim.z)                                 \
    X(CUlaunchConfig, api_launch_config, hStream)                                                  \
    X(CUlaunchConfig, api_launch_config, numAttrs)
FIELDS(SAME_FIELD)
#endif

int main(int count, char **arguments)
{
    int missing = 0, exported = 0;
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        fprintf(stderr, "usage: test_emulator_abi LIBCUDA: %s\n", dlerror());
        return 1;
    }
#define LOOK(symbol)                                                                               \
    if (!dlsym(library, #symbol)) {                                                                \
        fprintf(stderr, "%s does not export %s\n", arguments[1], #symbol);                         \
        missing++;                                                                                 \
    } else {                                                                                       \
        exported++;                                                                                \
    }
#define LOOK_FUNCTION(symbol, name, since, needs, implementation, parameters, args) LOOK(symbol)
#define LOOK_VARIANT(symbol, variant, parameters, args)                             LOOK(variant)
    API_FUNCTIONS(LOOK_FUNCTION)
    API_PER_THREAD(LOOK_VARIANT)
    if (dlsym(library, "emu_run") || dlsym(library, "api_state")) {
        fprintf(stderr, "%s exports more than the driver's functions\n", arguments[1]);
        missing++;
    }
#ifdef HAVE_CUDA_H
    printf("%d functions exported, as in cuda.h %d\n", exported, CUDA_VERSION);
#else
    printf("%d functions exported; no cuda.h was found to compare them with\n", exported);
#endif
    return missing != 0;
}
