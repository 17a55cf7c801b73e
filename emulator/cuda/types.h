// SPDX-License-Identifier: MIT
// Types and values of the CUDA driver's binary interface, as far as the emulator answers to it.
// Written down again rather than taken from src/driver: an independent reading. With cuda.h
// included before, only the lists and our own structs are declared, for
// emulator/tests/test_abi.c to compare.
#ifndef PTXGEN_EMULATOR_CUDA_TYPES_H
#define PTXGEN_EMULATOR_CUDA_TYPES_H

#include "results.h"

#include <stddef.h>
#include <stdint.h>

// clang-format off
#define API_FUNCTION_ATTRIBUTES(X)                                                                 \
    X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)                                                  \
    X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                                                      \
    X(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 2)                                                       \
    X(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3)                                                       \
    X(CU_FUNC_ATTRIBUTE_NUM_REGS, 4)                                                               \
    X(CU_FUNC_ATTRIBUTE_PTX_VERSION, 5)                                                            \
    X(CU_FUNC_ATTRIBUTE_BINARY_VERSION, 6)                                                         \
    X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)                                          \
    X(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 9)                                       \
    X(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 14)                                     \
    X(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 15)

#define API_JIT_OPTIONS(X)                                                                         \
    X(CU_JIT_MAX_REGISTERS, 0)                                                                     \
    X(CU_JIT_WALL_TIME, 2)                                                                         \
    X(CU_JIT_INFO_LOG_BUFFER, 3)                                                                   \
    X(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, 4)                                                        \
    X(CU_JIT_ERROR_LOG_BUFFER, 5)                                                                  \
    X(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)                                                       \
    X(CU_JIT_LOG_VERBOSE, 12)                                                                      \
    X(CU_JIT_SPLIT_COMPILE, 34)

#define API_JIT_INPUTS(X)                                                                          \
    X(CU_JIT_INPUT_CUBIN, 0)                                                                       \
    X(CU_JIT_INPUT_PTX, 1)                                                                         \
    X(CU_JIT_INPUT_LIBRARY, 4)

#define API_CAPTURE_STATUSES(X)                                                                    \
    X(CU_STREAM_CAPTURE_STATUS_NONE, 0)                                                            \
    X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)                                                          \
    X(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)

#define API_CAPTURE_MODES(X)                                                                       \
    X(CU_STREAM_CAPTURE_MODE_GLOBAL, 0)                                                            \
    X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                                                      \
    X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)

#define API_LIMITS(X)                                                                              \
    X(CU_LIMIT_STACK_SIZE, 0)                                                                      \
    X(CU_LIMIT_PRINTF_FIFO_SIZE, 1)                                                                \
    X(CU_LIMIT_MALLOC_HEAP_SIZE, 2)                                                                \
    X(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 4)                                                \
    X(CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 5)                                                        \
    X(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 6)                                                        \
    X(CU_LIMIT_SHMEM_SIZE, 7)                                                                      \
    X(CU_LIMIT_CIG_ENABLED, 8)

#define API_CACHE_CONFIGS(X)                                                                       \
    X(CU_FUNC_CACHE_PREFER_NONE, 0)                                                                \
    X(CU_FUNC_CACHE_PREFER_EQUAL, 3)

#define API_POINTER_ATTRIBUTES(X)                                                                  \
    X(CU_POINTER_ATTRIBUTE_CONTEXT, 1)                                                             \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                                         \
    X(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 3)                                                      \
    X(CU_POINTER_ATTRIBUTE_HOST_POINTER, 4)                                                        \
    X(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 6)                                                         \
    X(CU_POINTER_ATTRIBUTE_BUFFER_ID, 7)                                                           \
    X(CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)                                                          \
    X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                                                      \
    X(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)                                                   \
    X(CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12)                                                         \
    X(CU_POINTER_ATTRIBUTE_MAPPED, 13)

#define API_MEMORY_TYPES(X)                                                                        \
    X(CU_MEMORYTYPE_HOST, 1)                                                                       \
    X(CU_MEMORYTYPE_DEVICE, 2)                                                                     \
    X(CU_MEMORYTYPE_ARRAY, 3)                                                                      \
    X(CU_MEMORYTYPE_UNIFIED, 4)

#define API_NODE_TYPES(X)                                                                          \
    X(CU_GRAPH_NODE_TYPE_KERNEL, 0)                                                                \
    X(CU_GRAPH_NODE_TYPE_MEMCPY, 1)                                                                \
    X(CU_GRAPH_NODE_TYPE_MEMSET, 2)                                                                \
    X(CU_GRAPH_NODE_TYPE_HOST, 3)                                                                  \
    X(CU_GRAPH_NODE_TYPE_EMPTY, 5)                                                                 \
    X(CU_GRAPH_NODE_TYPE_WAIT_EVENT, 6)                                                            \
    X(CU_GRAPH_NODE_TYPE_EVENT_RECORD, 7)

#define API_UPDATE_RESULTS(X)                                                                      \
    X(CU_GRAPH_EXEC_UPDATE_SUCCESS, 0)                                                             \
    X(CU_GRAPH_EXEC_UPDATE_ERROR, 1)                                                               \
    X(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 2)                                              \
    X(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, 3)

#define API_QUERY_RESULTS(X)                                                                       \
    X(CU_GET_PROC_ADDRESS_SUCCESS, 0)                                                              \
    X(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, 1)                                                     \
    X(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, 2)

#define API_LAUNCH_ATTRIBUTES(X)                                                                   \
    X(CU_LAUNCH_ATTRIBUTE_IGNORE, 0)                                                               \
    X(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 2)                                                          \
    X(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 4)                                                    \
    X(CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING, 16)

#define API_LOADING_MODES(X)                                                                       \
    X(CU_MODULE_EAGER_LOADING, 1)                                                                  \
    X(CU_MODULE_LAZY_LOADING, 2)

#define API_LIBRARY_OPTIONS(X)                                                                     \
    X(CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE, 0)                                        \
    X(CU_LIBRARY_BINARY_IS_PRESERVED, 1)

// X(type, its list)
#define API_ENUMS(X)                                                                               \
    X(CUfunction_attribute, API_FUNCTION_ATTRIBUTES)                                               \
    X(CUjit_option, API_JIT_OPTIONS)                                                               \
    X(CUjitInputType, API_JIT_INPUTS)                                                              \
    X(CUstreamCaptureStatus, API_CAPTURE_STATUSES)                                                 \
    X(CUstreamCaptureMode, API_CAPTURE_MODES)                                                      \
    X(CUlimit, API_LIMITS)                                                                         \
    X(CUfunc_cache, API_CACHE_CONFIGS)                                                             \
    X(CUpointer_attribute, API_POINTER_ATTRIBUTES)                                                 \
    X(CUmemorytype, API_MEMORY_TYPES)                                                              \
    X(CUgraphNodeType, API_NODE_TYPES)                                                             \
    X(CUgraphExecUpdateResult, API_UPDATE_RESULTS)                                                 \
    X(CUdriverProcAddressQueryResult, API_QUERY_RESULTS)                                           \
    X(CUlaunchAttributeID, API_LAUNCH_ATTRIBUTES)                                                  \
    X(CUmoduleLoadingMode, API_LOADING_MODES)                                                      \
    X(CUlibraryOption, API_LIBRARY_OPTIONS)
// clang-format on

#ifndef CUDA_VERSION // cuda.h has not been here
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef uint64_t cuuint64_t;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUlinkState_st *CUlinkState;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUarray_st *CUarray;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUexecAffinityParam_st CUexecAffinityParam;
#define API_RESULT(name, value, text) name = value,
typedef enum { API_RESULTS(API_RESULT) } CUresult;
#undef API_RESULT
#define API_ENUMERATOR(name, value) name = value,
#define API_ENUM(type, values)      typedef enum { values(API_ENUMERATOR) } type;
API_ENUMS(API_ENUM)
#undef API_ENUM
#undef API_ENUMERATOR
typedef unsigned CUdevice_attribute; // values: api_device.c
typedef void (*CUhostFn)(void *);
typedef void (*CUstreamCallback)(CUstream, CUresult, void *);
typedef size_t (*CUoccupancyB2DSize)(int);
typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;
#endif

struct api_context_params {
    void *execAffinityParams;
    int numExecAffinityParams;
    void *cigParams;
};

struct api_copy_2d {
    size_t srcXInBytes, srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
};

struct api_copy_3d {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    void *reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    void *reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
};

struct api_kernel_params_1 {
    CUfunction func;
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    void **kernelParams;
    void **extra;
};

struct api_kernel_params {
    CUfunction func;
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    void **kernelParams;
    void **extra;
    CUkernel kern;
    CUcontext ctx;
};

struct api_memset_params {
    CUdeviceptr dst;
    size_t pitch;
    unsigned value, elementSize;
    size_t width, height;
};

struct api_host_params {
    CUhostFn fn;
    void *userData;
};

struct api_edge {
    unsigned char from_port, to_port, type, reserved[5];
};

struct api_update_info {
    CUgraphExecUpdateResult result;
    CUgraphNode errorNode, errorFromNode;
};

struct api_instantiate_params {
    cuuint64_t flags;
    CUstream hUploadStream;
    CUgraphNode hErrNode_out;
    int result_out;
};

struct api_launch_attribute {
    unsigned id;
    char pad[4];
    union {
        char pad[64];
        int cooperative;
        struct {
            unsigned x, y, z;
        } clusterDim;
    } value;
};

struct api_launch_config {
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    CUstream hStream;
    struct api_launch_attribute *attrs;
    unsigned numAttrs;
};

// X(the interface's name, ours)
#define API_STRUCTS(X)                                                                             \
    X(CUctxCreateParams, api_context_params)                                                       \
    X(CUDA_MEMCPY2D, api_copy_2d)                                                                  \
    X(CUDA_MEMCPY3D, api_copy_3d)                                                                  \
    X(CUDA_KERNEL_NODE_PARAMS_v1, api_kernel_params_1)                                             \
    X(CUDA_KERNEL_NODE_PARAMS_v2, api_kernel_params)                                               \
    X(CUDA_MEMSET_NODE_PARAMS, api_memset_params)                                                  \
    X(CUDA_HOST_NODE_PARAMS, api_host_params)                                                      \
    X(CUgraphEdgeData, api_edge)                                                                   \
    X(CUgraphExecUpdateResultInfo, api_update_info)                                                \
    X(CUDA_GRAPH_INSTANTIATE_PARAMS, api_instantiate_params)                                       \
    X(CUlaunchAttribute, api_launch_attribute)                                                     \
    X(CUlaunchConfig, api_launch_config)

#ifndef CUDA_VERSION
#define API_STRUCT(name, ours) typedef struct ours name;
API_STRUCTS(API_STRUCT)
#undef API_STRUCT
#endif

#endif
