// SPDX-License-Identifier: MIT
/// The part of the CUDA driver's binary interface that ptxgen uses: types, values, functions.
///
/// Every list is an X-macro, and everything else comes from the lists: the enums, the table of
/// functions that library.c fills, prototypes for a library that stands in for libcuda, and
/// tests/driver/test_cuda_abi.c, which holds each row against NVIDIA's cuda.h where there is one.
/// With cuda.h included before, only the lists and our own structs are declared.
#ifndef PTXGEN_CUDA_ABI_H
#define PTXGEN_CUDA_ABI_H

#include <ptxgen/driver.h>

// X(name, value)
#define CUDA_ABI_RESULTS(X)                                                                        \
    X(CUDA_SUCCESS, 0)                                                                             \
    X(CUDA_ERROR_INVALID_VALUE, 1)                                                                 \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2)                                                                 \
    X(CUDA_ERROR_NOT_INITIALIZED, 3)                                                               \
    X(CUDA_ERROR_DEINITIALIZED, 4)                                                                 \
    X(CUDA_ERROR_STUB_LIBRARY, 34)                                                                 \
    X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46)                                                           \
    X(CUDA_ERROR_NO_DEVICE, 100)                                                                   \
    X(CUDA_ERROR_INVALID_DEVICE, 101)                                                              \
    X(CUDA_ERROR_INVALID_IMAGE, 200)                                                               \
    X(CUDA_ERROR_INVALID_CONTEXT, 201)                                                             \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                                                           \
    X(CUDA_ERROR_INVALID_PTX, 218)                                                                 \
    X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221)                                                      \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222)                                                     \
    X(CUDA_ERROR_JIT_COMPILATION_DISABLED, 223)                                                    \
    X(CUDA_ERROR_INVALID_SOURCE, 300)                                                              \
    X(CUDA_ERROR_INVALID_HANDLE, 400)                                                              \
    X(CUDA_ERROR_ILLEGAL_STATE, 401)                                                               \
    X(CUDA_ERROR_NOT_FOUND, 500)                                                                   \
    X(CUDA_ERROR_NOT_READY, 600)                                                                   \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                                                             \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701)                                                     \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702)                                                              \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)                                                        \
    X(CUDA_ERROR_ASSERT, 710)                                                                      \
    X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714)                                                        \
    X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715)                                                         \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716)                                                          \
    X(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717)                                                       \
    X(CUDA_ERROR_INVALID_PC, 718)                                                                  \
    X(CUDA_ERROR_LAUNCH_FAILED, 719)                                                               \
    X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720)                                                \
    X(CUDA_ERROR_NOT_PERMITTED, 800)                                                               \
    X(CUDA_ERROR_NOT_SUPPORTED, 801)                                                               \
    X(CUDA_ERROR_SYSTEM_NOT_READY, 802)                                                            \
    X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803)                                                      \
    X(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804)                                              \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)                                                  \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)                                                  \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902)                                                        \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903)                                                    \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904)                                                     \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905)                                                    \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906)                                                     \
    X(CUDA_ERROR_CAPTURED_EVENT, 907)                                                              \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908)                                                 \
    X(CUDA_ERROR_UNKNOWN, 999)

#define CUDA_ABI_DEVICE_ATTRIBUTES(X)                                                              \
    X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1)                                                \
    X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 2)                                                      \
    X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 3)                                                      \
    X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 4)                                                      \
    X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 5)                                                       \
    X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 6)                                                       \
    X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 7)                                                       \
    X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 8)                                          \
    X(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 10)                                                           \
    X(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 12)                                             \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                                                \
    X(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36)                                                   \
    X(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 37)                                             \
    X(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 38)                                                       \
    X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 39)                                      \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                                            \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                                            \
    X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 81)                                \
    X(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 95)                                                  \
    X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97)

#define CUDA_ABI_FUNCTION_ATTRIBUTES(X)                                                            \
    X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)                                                  \
    X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                                                      \
    X(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3)                                                       \
    X(CU_FUNC_ATTRIBUTE_NUM_REGS, 4)                                                               \
    X(CU_FUNC_ATTRIBUTE_BINARY_VERSION, 6)                                                         \
    X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)

#define CUDA_ABI_JIT_OPTIONS(X)                                                                    \
    X(CU_JIT_MAX_REGISTERS, 0)                                                                     \
    X(CU_JIT_INFO_LOG_BUFFER, 3)                                                                   \
    X(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, 4)                                                        \
    X(CU_JIT_ERROR_LOG_BUFFER, 5)                                                                  \
    X(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)                                                       \
    X(CU_JIT_LOG_VERBOSE, 12)                                                                      \
    X(CU_JIT_GENERATE_LINE_INFO, 13)

#define CUDA_ABI_CAPTURE_STATUSES(X)                                                               \
    X(CU_STREAM_CAPTURE_STATUS_NONE, 0)                                                            \
    X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)                                                          \
    X(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)

#define CUDA_ABI_CAPTURE_MODES(X)                                                                  \
    X(CU_STREAM_CAPTURE_MODE_GLOBAL, 0)                                                            \
    X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                                                      \
    X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)

#define CUDA_ABI_POINTER_ATTRIBUTES(X)                                                             \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2)                                                         \
    X(CU_POINTER_ATTRIBUTE_IS_MANAGED, 8)                                                          \
    X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9)                                                      \
    X(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11)                                                   \
    X(CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12)

#define CUDA_ABI_MEMORY_TYPES(X)                                                                   \
    X(CU_MEMORYTYPE_HOST, 1)                                                                       \
    X(CU_MEMORYTYPE_DEVICE, 2)

#define CUDA_ABI_NODE_TYPES(X)                                                                     \
    X(CU_GRAPH_NODE_TYPE_KERNEL, 0)                                                                \
    X(CU_GRAPH_NODE_TYPE_MEMCPY, 1)                                                                \
    X(CU_GRAPH_NODE_TYPE_MEMSET, 2)                                                                \
    X(CU_GRAPH_NODE_TYPE_HOST, 3)                                                                  \
    X(CU_GRAPH_NODE_TYPE_EMPTY, 5)

#define CUDA_ABI_STREAM_FLAGS(X) X(CU_STREAM_NON_BLOCKING, 1)
#define CUDA_ABI_EVENT_FLAGS(X)  X(CU_EVENT_DEFAULT, 0)

#define CUDA_ABI_LAUNCH_ATTRIBUTES(X)                                                              \
    X(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 2)                                                          \
    X(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 4)                                                    \
    X(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 6)

// X(type, its list of values)
#define CUDA_ABI_ENUMS(X)                                                                          \
    X(CUresult, CUDA_ABI_RESULTS)                                                                  \
    X(CUdevice_attribute, CUDA_ABI_DEVICE_ATTRIBUTES)                                              \
    X(CUfunction_attribute, CUDA_ABI_FUNCTION_ATTRIBUTES)                                          \
    X(CUjit_option, CUDA_ABI_JIT_OPTIONS)                                                          \
    X(CUstreamCaptureStatus, CUDA_ABI_CAPTURE_STATUSES)                                            \
    X(CUstreamCaptureMode, CUDA_ABI_CAPTURE_MODES)                                                 \
    X(CUpointer_attribute, CUDA_ABI_POINTER_ATTRIBUTES)                                            \
    X(CUmemorytype, CUDA_ABI_MEMORY_TYPES)                                                         \
    X(CUgraphNodeType, CUDA_ABI_NODE_TYPES)                                                        \
    X(CUstream_flags, CUDA_ABI_STREAM_FLAGS)                                                       \
    X(CUevent_flags, CUDA_ABI_EVENT_FLAGS)                                                         \
    X(CUlaunchAttributeID, CUDA_ABI_LAUNCH_ATTRIBUTES)

#define CUDA_ABI_MEMHOSTALLOC_PORTABLE 1u
#define CUDA_ABI_STREAM_LEGACY         1u ///< a CUstream; NULL is the same one

typedef int CUdevice;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;

struct cuda_abi_launch_attribute {
    unsigned id;
    char pad[4];
    union {
        char pad[64];
        int cooperative;
        struct {
            unsigned x, y, z;
        } clusterDim;
        int programmaticStreamSerializationAllowed;
    } value;
};

struct cuda_abi_launch_config {
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    CUstream hStream;
    struct cuda_abi_launch_attribute *attrs;
    unsigned numAttrs;
};

// X(type, our struct, field): what must be at the same place in both.
#define CUDA_ABI_FIELDS(X)                                                                         \
    X(CUlaunchAttribute, cuda_abi_launch_attribute, id)                                            \
    X(CUlaunchAttribute, cuda_abi_launch_attribute, value)                                         \
    X(CUlaunchAttribute, cuda_abi_launch_attribute, value.cooperative)                             \
    X(CUlaunchAttribute, cuda_abi_launch_attribute, value.clusterDim.x)                            \
    X(CUlaunchAttribute, cuda_abi_launch_attribute, value.clusterDim.y)                            \
    X(CUlaunchAttribute, cuda_abi_launch_attribute, value.clusterDim.z)                            \
    X(CUlaunchAttribute, cuda_abi_launch_attribute, value.programmaticStreamSerializationAllowed)  \
    X(CUlaunchConfig, cuda_abi_launch_config, gridDimX)                                            \
    X(CUlaunchConfig, cuda_abi_launch_config, gridDimY)                                            \
    X(CUlaunchConfig, cuda_abi_launch_config, gridDimZ)                                            \
    X(CUlaunchConfig, cuda_abi_launch_config, blockDimX)                                           \
    X(CUlaunchConfig, cuda_abi_launch_config, blockDimY)                                           \
    X(CUlaunchConfig, cuda_abi_launch_config, blockDimZ)                                           \
    X(CUlaunchConfig, cuda_abi_launch_config, sharedMemBytes)                                      \
    X(CUlaunchConfig, cuda_abi_launch_config, hStream)                                             \
    X(CUlaunchConfig, cuda_abi_launch_config, attrs)                                               \
    X(CUlaunchConfig, cuda_abi_launch_config, numAttrs)

#ifndef CUDA_VERSION // cuda.h has not been here
#define CUDA_ABI_ENUMERATOR(name, value) name = value,
#define CUDA_ABI_ENUM(type, values)      typedef enum { values(CUDA_ABI_ENUMERATOR) } type;
CUDA_ABI_ENUMS(CUDA_ABI_ENUM)
typedef struct cuda_abi_launch_attribute CUlaunchAttribute;
typedef struct cuda_abi_launch_config CUlaunchConfig;
#endif

/// The functions: X(since, name, parameters). All return CUresult. `since` is 0 for a function
/// without which the library is of no use; else the CUDA version that brought it (12040 is 12.4),
/// and without it a feature is missing. Names are the ones in the library, _v2 and all.
// clang-format off
#define CUDA_ABI_FUNCTIONS(X)                                                                      \
    X(0, cuInit,               (unsigned flags))                                                   \
    X(0, cuDriverGetVersion,   (int *version))                                                     \
    X(0, cuGetErrorName,       (CUresult result, const char **name))                               \
    X(0, cuGetErrorString,     (CUresult result, const char **text))                               \
    X(0, cuDeviceGetCount,     (int *count))                                                       \
    X(0, cuDeviceGet,          (CUdevice *device, int ordinal))                                    \
    X(0, cuDeviceGetName,      (char *name, int size, CUdevice device))                            \
    X(0, cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device))        \
    X(0, cuDeviceTotalMem_v2,  (size_t *bytes, CUdevice device))                                   \
    X(0, cuDevicePrimaryCtxRetain,     (CUcontext *context, CUdevice device))                      \
    X(0, cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                          \
    X(0, cuCtxGetCurrent,      (CUcontext *context))                                               \
    X(0, cuCtxPushCurrent_v2,  (CUcontext context))                                                \
    X(0, cuCtxPopCurrent_v2,   (CUcontext *context))                                               \
    X(0, cuCtxGetDevice,       (CUdevice *device))                                                 \
    X(0, cuMemGetInfo_v2,      (size_t *available, size_t *total))                                 \
    X(0, cuMemAlloc_v2,        (CUdeviceptr *address, size_t bytes))                               \
    X(0, cuMemFree_v2,         (CUdeviceptr address))                                              \
    X(0, cuMemHostAlloc,       (void **memory, size_t bytes, unsigned flags))                      \
    X(0, cuMemFreeHost,        (void *memory))                                                     \
    X(0, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))  \
    X(0, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))        \
    X(0, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))  \
    X(0, cuMemsetD8Async,      (CUdeviceptr to, unsigned char value, size_t bytes,                 \
                                CUstream stream))                                                  \
    X(0, cuStreamCreate,       (CUstream *stream, unsigned flags))                                 \
    X(0, cuStreamDestroy_v2,   (CUstream stream))                                                  \
    X(0, cuStreamSynchronize,  (CUstream stream))                                                  \
    X(0, cuStreamIsCapturing,  (CUstream stream, CUstreamCaptureStatus *status))                   \
    X(0, cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                     \
    X(0, cuStreamEndCapture,   (CUstream stream, CUgraph *graph))                                  \
    X(0, cuStreamWaitEvent,    (CUstream stream, CUevent event, unsigned flags))                   \
    X(0, cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *mode))                           \
    X(0, cuEventCreate,        (CUevent *event, unsigned flags))                                   \
    X(0, cuEventDestroy_v2,    (CUevent event))                                                    \
    X(0, cuEventRecord,        (CUevent event, CUstream stream))                                   \
    X(0, cuEventSynchronize,   (CUevent event))                                                    \
    X(0, cuEventElapsedTime,   (float *milliseconds, CUevent start, CUevent end))                  \
    X(0, cuPointerGetAttributes, (unsigned count, CUpointer_attribute *attributes, void **values,  \
                                CUdeviceptr address))                                              \
    X(0, cuGraphGetNodes,      (CUgraph graph, CUgraphNode *nodes, size_t *count))                 \
    X(0, cuGraphNodeGetType,   (CUgraphNode node, CUgraphNodeType *type))                          \
    X(11040, cuGraphInstantiateWithFlags,                                                          \
                               (CUgraphExec *executable, CUgraph graph, unsigned long long flags)) \
    X(11010, cuGraphUpload,    (CUgraphExec executable, CUstream stream))                          \
    X(0, cuGraphLaunch,        (CUgraphExec executable, CUstream stream))                          \
    X(0, cuGraphExecDestroy,   (CUgraphExec executable))                                           \
    X(0, cuGraphDestroy,       (CUgraph graph))                                                    \
    X(0, cuModuleLoadDataEx,   (CUmodule *module, const void *image, unsigned option_count,        \
                                CUjit_option *options, void **values))                             \
    X(0, cuModuleUnload,       (CUmodule module))                                                  \
    X(0, cuModuleGetFunction,  (CUfunction *function, CUmodule module, const char *name))          \
    X(0, cuModuleGetGlobal_v2, (CUdeviceptr *address, size_t *bytes, CUmodule module,              \
                                const char *name))                                                 \
    X(0, cuFuncGetAttribute,   (int *value, CUfunction_attribute attribute, CUfunction function))  \
    X(0, cuFuncSetAttribute,   (CUfunction function, CUfunction_attribute attribute, int value))   \
    X(12040, cuFuncLoad,       (CUfunction function))                                              \
    X(0, cuOccupancyMaxActiveBlocksPerMultiprocessor,                                              \
                               (int *blocks, CUfunction function, int threads, size_t shared))     \
    X(0, cuLaunchKernel,       (CUfunction function,                                               \
                                unsigned grid_x, unsigned grid_y, unsigned grid_z,                 \
                                unsigned block_x, unsigned block_y, unsigned block_z,              \
                                unsigned shared_bytes, CUstream stream,                            \
                                void **arguments, void **extra))                                   \
    X(11080, cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction function,                 \
                                void **arguments, void **extra))
// clang-format on

/// CUDA_ABI_FUNCTIONS(CUDA_ABI_MEMBER) declares the members of a table of functions, and
/// CUDA_ABI_FUNCTIONS(CUDA_ABI_PROTOTYPE) the functions themselves.
#define CUDA_ABI_MEMBER(since, name, parameters)    CUresult(*name) parameters;
#define CUDA_ABI_PROTOTYPE(since, name, parameters) CUresult name parameters;

#endif
