// SPDX-License-Identifier: MIT
/// The binary interface of the CUDA driver, as far as this project speaks or answers to it: values,
/// structures and types here, functions in functions.def.
///
/// Everything is a table, and each user takes from it what it needs: the driver layer a pointer for
/// each function that it calls, the emulator and the libcuda of the tests what they define, the
/// tests prototypes. tests/driver/test_cuda_abi.c holds every row against NVIDIA's own cuda.h. With
/// that header included before, only the tables and our own structures are declared.
#ifndef PTXGEN_ABI_CUDA_H
#define PTXGEN_ABI_CUDA_H

#include <stddef.h>
#include <stdint.h>

// ----------------------------------------------------------------------------------------- values

// clang-format off
// X(name, value, what cuGetErrorString() says)
#define CUDA_ABI_RESULTS(X) \
    X(CUDA_SUCCESS, 0, "no error") \
    X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument") \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory") \
    X(CUDA_ERROR_NOT_INITIALIZED, 3, "initialization error") \
    X(CUDA_ERROR_DEINITIALIZED, 4, "driver shutting down") \
    X(CUDA_ERROR_PROFILER_DISABLED, 5, "profiler disabled while using external profiling tool") \
    X(CUDA_ERROR_PROFILER_NOT_INITIALIZED, 6, \
      "profiler not initialized: call cudaProfilerInitialize()") \
    X(CUDA_ERROR_PROFILER_ALREADY_STARTED, 7, "profiler already started") \
    X(CUDA_ERROR_PROFILER_ALREADY_STOPPED, 8, "profiler already stopped") \
    X(CUDA_ERROR_STUB_LIBRARY, 34, "CUDA driver is a stub library") \
    X(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, 36, \
      "API call is not supported in the installed CUDA driver") \
    X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46, "CUDA-capable device(s) is/are busy or unavailable") \
    X(CUDA_ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected") \
    X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal") \
    X(CUDA_ERROR_DEVICE_NOT_LICENSED, 102, "device doesn't have valid Grid license") \
    X(CUDA_ERROR_INVALID_IMAGE, 200, "device kernel image is invalid") \
    X(CUDA_ERROR_INVALID_CONTEXT, 201, "invalid device context") \
    X(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, 202, "context already current") \
    X(CUDA_ERROR_MAP_FAILED, 205, "mapping of buffer object failed") \
    X(CUDA_ERROR_UNMAP_FAILED, 206, "unmapping of buffer object failed") \
    X(CUDA_ERROR_ARRAY_IS_MAPPED, 207, "array is mapped") \
    X(CUDA_ERROR_ALREADY_MAPPED, 208, "resource already mapped") \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209, \
      "no kernel image is available for execution on the device") \
    X(CUDA_ERROR_ALREADY_ACQUIRED, 210, "resource already acquired") \
    X(CUDA_ERROR_NOT_MAPPED, 211, "resource not mapped") \
    X(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, 212, "resource not mapped as array") \
    X(CUDA_ERROR_NOT_MAPPED_AS_POINTER, 213, "resource not mapped as pointer") \
    X(CUDA_ERROR_ECC_UNCORRECTABLE, 214, "uncorrectable ECC error encountered") \
    X(CUDA_ERROR_UNSUPPORTED_LIMIT, 215, "limit is not supported on this architecture") \
    X(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, 216, \
      "exclusive-thread device already in use by a different thread") \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217, \
      "peer access is not supported between these two devices") \
    X(CUDA_ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed") \
    X(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, 219, "invalid OpenGL or DirectX context") \
    X(CUDA_ERROR_NVLINK_UNCORRECTABLE, 220, \
      "uncorrectable NVLink error detected during the execution") \
    X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221, "PTX JIT compiler library not found") \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222, \
      "the provided PTX was compiled with an unsupported toolchain.") \
    X(CUDA_ERROR_JIT_COMPILATION_DISABLED, 223, "PTX JIT compilation was disabled") \
    X(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, 224, \
      "the provided execution affinity is not supported") \
    X(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC, 225, \
      "the provided PTX contains unsupported call to cudaDeviceSynchronize") \
    X(CUDA_ERROR_CONTAINED, 226, \
      "Invalid access of peer GPU memory over nvlink or a hardware error") \
    X(CUDA_ERROR_INVALID_SOURCE, 300, "device kernel image is invalid") \
    X(CUDA_ERROR_FILE_NOT_FOUND, 301, "file not found") \
    X(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, 302, "shared object symbol not found") \
    X(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, 303, "shared object initialization failed") \
    X(CUDA_ERROR_OPERATING_SYSTEM, 304, "OS call failed or operation not supported on this OS") \
    X(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle") \
    X(CUDA_ERROR_ILLEGAL_STATE, 401, "the operation cannot be performed in the present state") \
    X(CUDA_ERROR_LOSSY_QUERY, 402, "attempted introspection would be semantically lossy") \
    X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found") \
    X(CUDA_ERROR_NOT_READY, 600, "device not ready") \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered") \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch") \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702, "the launch timed out and was terminated") \
    X(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, 703, "launch uses incompatible texturing mode") \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, "peer access is already enabled") \
    X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705, "peer access has not been enabled") \
    X(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708, "cannot set while device is active in this process") \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed") \
    X(CUDA_ERROR_ASSERT, 710, "device-side assert triggered") \
    X(CUDA_ERROR_TOO_MANY_PEERS, 711, "peer mapping resources exhausted") \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712, \
      "part or all of the requested memory range is already mapped") \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713, \
      "pointer does not correspond to a registered memory region") \
    X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714, "hardware stack error") \
    X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715, "an illegal instruction was encountered") \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716, "misaligned address") \
    X(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717, \
      "operation not supported on global/shared address space") \
    X(CUDA_ERROR_INVALID_PC, 718, "invalid program counter") \
    X(CUDA_ERROR_LAUNCH_FAILED, 719, "unspecified launch failure") \
    X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720, "too many blocks in cooperative launch") \
    X(CUDA_ERROR_TENSOR_MEMORY_LEAK, 721, "tensor memory not completely freed") \
    X(CUDA_ERROR_NOT_PERMITTED, 800, "operation not permitted") \
    X(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported") \
    X(CUDA_ERROR_SYSTEM_NOT_READY, 802, "system not yet initialized") \
    X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803, \
      "system has unsupported display driver / cuda driver combination") \
    X(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804, \
      "forward compatibility was attempted on non supported HW") \
    X(CUDA_ERROR_MPS_CONNECTION_FAILED, 805, \
      "MPS client failed to connect to the MPS control daemon or the MPS server") \
    X(CUDA_ERROR_MPS_RPC_FAILURE, 806, \
      "the remote procedural call between the MPS server and the MPS client failed") \
    X(CUDA_ERROR_MPS_SERVER_NOT_READY, 807, \
      "MPS server is not ready to accept new MPS client requests") \
    X(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, 808, \
      "the hardware resources required to create MPS client have been exhausted") \
    X(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, 809, \
      "the hardware resources required to support device connections have been exhausted") \
    X(CUDA_ERROR_MPS_CLIENT_TERMINATED, 810, "the MPS client has been terminated by the server") \
    X(CUDA_ERROR_CDP_NOT_SUPPORTED, 811, \
      "is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not support it") \
    X(CUDA_ERROR_CDP_VERSION_MISMATCH, 812, \
      "unsupported interaction between different versions of CUDA Dynamic Parallelism") \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, \
      "operation not permitted when stream is capturing") \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901, \
      "operation failed due to a previous error during capture") \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902, \
      "operation would result in a merge of separate capture sequences") \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903, \
      "capture was not ended in the same stream as it began") \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904, "capturing stream has unjoined work") \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905, \
      "dependency created on uncaptured work in another stream") \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906, \
      "operation would make the legacy stream depend on a capturing blocking stream") \
    X(CUDA_ERROR_CAPTURED_EVENT, 907, \
      "operation not permitted on an event last recorded in a capturing stream") \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908, \
      "attempt to terminate a thread-local capture sequence from another thread") \
    X(CUDA_ERROR_TIMEOUT, 909, "wait operation timed out") \
    X(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910, \
      "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update") \
    X(CUDA_ERROR_EXTERNAL_DEVICE, 911, \
      "an async error has occured in external entity outside of CUDA") \
    X(CUDA_ERROR_INVALID_CLUSTER_SIZE, 912, \
      "a kernel launch error has occurred due to cluster misconfiguration") \
    X(CUDA_ERROR_FUNCTION_NOT_LOADED, 913, \
      "the function handle is not loaded when calling an API that requires a loaded function") \
    X(CUDA_ERROR_INVALID_RESOURCE_TYPE, 914, \
      "one or more resources passed in are not valid resource types for the operation") \
    X(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, 915, \
      "one or more resources are insufficient or non-applicable for the operation") \
    X(CUDA_ERROR_KEY_ROTATION, 916, "an error happened during the key rotation sequence") \
    X(CUDA_ERROR_UNKNOWN, 999, "unknown error")

// X(name, value)
#define CUDA_ABI_DEVICE_ATTRIBUTES(X) \
    X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1) \
    X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 2) \
    X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 3) \
    X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 4) \
    X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 5) \
    X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 6) \
    X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 7) \
    X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 8) \
    X(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 9) \
    X(CU_DEVICE_ATTRIBUTE_WARP_SIZE, 10) \
    X(CU_DEVICE_ATTRIBUTE_MAX_PITCH, 11) \
    X(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 12) \
    X(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13) \
    X(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 14) \
    X(CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 15) \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16) \
    X(CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 19) \
    X(CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 30) \
    X(CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 31) \
    X(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 36) \
    X(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 37) \
    X(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 38) \
    X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 39) \
    X(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 40) \
    X(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41) \
    X(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 51) \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75) \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76) \
    X(CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 78) \
    X(CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 79) \
    X(CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 80) \
    X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 81) \
    X(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 82) \
    X(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 83) \
    X(CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 87) \
    X(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 88) \
    X(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 89) \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 90) \
    X(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 91) \
    X(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 95) \
    X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97) \
    X(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 99) \
    X(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 106) \
    X(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 111) \
    X(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115) \
    X(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 120) \
    X(CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 126) \
    X(CU_DEVICE_ATTRIBUTE_NUMA_ID, 131) \
    X(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 134) \
    X(CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED, 147)

#define CUDA_ABI_FUNCTION_ATTRIBUTES(X) \
    X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0) \
    X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1) \
    X(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 2) \
    X(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3) \
    X(CU_FUNC_ATTRIBUTE_NUM_REGS, 4) \
    X(CU_FUNC_ATTRIBUTE_PTX_VERSION, 5) \
    X(CU_FUNC_ATTRIBUTE_BINARY_VERSION, 6) \
    X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8) \
    X(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 9) \
    X(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 14) \
    X(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 15)

#define CUDA_ABI_POINTER_ATTRIBUTES(X) \
    X(CU_POINTER_ATTRIBUTE_CONTEXT, 1) \
    X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2) \
    X(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 3) \
    X(CU_POINTER_ATTRIBUTE_HOST_POINTER, 4) \
    X(CU_POINTER_ATTRIBUTE_P2P_TOKENS, 5) \
    X(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 6) \
    X(CU_POINTER_ATTRIBUTE_BUFFER_ID, 7) \
    X(CU_POINTER_ATTRIBUTE_IS_MANAGED, 8) \
    X(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9) \
    X(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 10) \
    X(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 11) \
    X(CU_POINTER_ATTRIBUTE_RANGE_SIZE, 12) \
    X(CU_POINTER_ATTRIBUTE_MAPPED, 13) \
    X(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, 15) \
    X(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, 16) \
    X(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, 17) \
    X(CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, 21)

#define CUDA_ABI_JIT_OPTIONS(X) \
    X(CU_JIT_MAX_REGISTERS, 0) \
    X(CU_JIT_WALL_TIME, 2) \
    X(CU_JIT_INFO_LOG_BUFFER, 3) \
    X(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, 4) \
    X(CU_JIT_ERROR_LOG_BUFFER, 5) \
    X(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6) \
    X(CU_JIT_LOG_VERBOSE, 12) \
    X(CU_JIT_GENERATE_LINE_INFO, 13) \
    X(CU_JIT_SPLIT_COMPILE, 34)

#define CUDA_ABI_JIT_INPUTS(X) \
    X(CU_JIT_INPUT_CUBIN, 0) \
    X(CU_JIT_INPUT_PTX, 1) \
    X(CU_JIT_INPUT_FATBINARY, 2) \
    X(CU_JIT_INPUT_LIBRARY, 4)

#define CUDA_ABI_STREAM_FLAGS(X) \
    X(CU_STREAM_NON_BLOCKING, 1)

#define CUDA_ABI_EVENT_FLAGS(X) \
    X(CU_EVENT_DEFAULT, 0)

#define CUDA_ABI_CAPTURE_STATUSES(X) \
    X(CU_STREAM_CAPTURE_STATUS_NONE, 0) \
    X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1) \
    X(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)

#define CUDA_ABI_CAPTURE_MODES(X) \
    X(CU_STREAM_CAPTURE_MODE_GLOBAL, 0) \
    X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1) \
    X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)

#define CUDA_ABI_LIMITS(X) \
    X(CU_LIMIT_STACK_SIZE, 0) \
    X(CU_LIMIT_PRINTF_FIFO_SIZE, 1) \
    X(CU_LIMIT_MALLOC_HEAP_SIZE, 2) \
    X(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 4) \
    X(CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 5) \
    X(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 6) \
    X(CU_LIMIT_SHMEM_SIZE, 7) \
    X(CU_LIMIT_CIG_ENABLED, 8)

#define CUDA_ABI_CACHE_CONFIGS(X) \
    X(CU_FUNC_CACHE_PREFER_NONE, 0) \
    X(CU_FUNC_CACHE_PREFER_EQUAL, 3)

#define CUDA_ABI_MEMORY_TYPES(X) \
    X(CU_MEMORYTYPE_HOST, 1) \
    X(CU_MEMORYTYPE_DEVICE, 2) \
    X(CU_MEMORYTYPE_ARRAY, 3) \
    X(CU_MEMORYTYPE_UNIFIED, 4)

#define CUDA_ABI_LOCATIONS(X) \
    X(CU_MEM_LOCATION_TYPE_DEVICE, 1) \
    X(CU_MEM_LOCATION_TYPE_HOST, 2)

#define CUDA_ABI_ALLOCATION_TYPES(X) \
    X(CU_MEM_ALLOCATION_TYPE_PINNED, 1)

#define CUDA_ABI_HANDLE_TYPES(X) \
    X(CU_MEM_HANDLE_TYPE_NONE, 0)

#define CUDA_ABI_ACCESS_FLAGS(X) \
    X(CU_MEM_ACCESS_FLAGS_PROT_NONE, 0) \
    X(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 3)

#define CUDA_ABI_POOL_ATTRIBUTES(X) \
    X(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1) \
    X(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 2) \
    X(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 3) \
    X(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4) \
    X(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 5) \
    X(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 6) \
    X(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, 7) \
    X(CU_MEMPOOL_ATTR_USED_MEM_HIGH, 8)

#define CUDA_ABI_USER_OBJECT_FLAGS(X) \
    X(CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, 1)

#define CUDA_ABI_RETAIN_FLAGS(X) \
    X(CU_GRAPH_USER_OBJECT_MOVE, 1)

#define CUDA_ABI_NODE_TYPES(X) \
    X(CU_GRAPH_NODE_TYPE_KERNEL, 0) \
    X(CU_GRAPH_NODE_TYPE_MEMCPY, 1) \
    X(CU_GRAPH_NODE_TYPE_MEMSET, 2) \
    X(CU_GRAPH_NODE_TYPE_HOST, 3) \
    X(CU_GRAPH_NODE_TYPE_EMPTY, 5) \
    X(CU_GRAPH_NODE_TYPE_WAIT_EVENT, 6) \
    X(CU_GRAPH_NODE_TYPE_EVENT_RECORD, 7)

#define CUDA_ABI_UPDATE_RESULTS(X) \
    X(CU_GRAPH_EXEC_UPDATE_SUCCESS, 0) \
    X(CU_GRAPH_EXEC_UPDATE_ERROR, 1) \
    X(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 2) \
    X(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, 3)

#define CUDA_ABI_QUERY_RESULTS(X) \
    X(CU_GET_PROC_ADDRESS_SUCCESS, 0) \
    X(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, 1) \
    X(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, 2)

#define CUDA_ABI_LAUNCH_ATTRIBUTES(X) \
    X(CU_LAUNCH_ATTRIBUTE_IGNORE, 0) \
    X(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 2) \
    X(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 4) \
    X(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 6) \
    X(CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING, 16)

#define CUDA_ABI_LOADING_MODES(X) \
    X(CU_MODULE_EAGER_LOADING, 1) \
    X(CU_MODULE_LAZY_LOADING, 2)

#define CUDA_ABI_LIBRARY_OPTIONS(X) \
    X(CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE, 0) \
    X(CU_LIBRARY_BINARY_IS_PRESERVED, 1)

// X(type, its values)
#define CUDA_ABI_ENUMS(X) \
    X(CUdevice_attribute, CUDA_ABI_DEVICE_ATTRIBUTES) \
    X(CUfunction_attribute, CUDA_ABI_FUNCTION_ATTRIBUTES) \
    X(CUpointer_attribute, CUDA_ABI_POINTER_ATTRIBUTES) \
    X(CUjit_option, CUDA_ABI_JIT_OPTIONS) \
    X(CUjitInputType, CUDA_ABI_JIT_INPUTS) \
    X(CUstream_flags, CUDA_ABI_STREAM_FLAGS) \
    X(CUevent_flags, CUDA_ABI_EVENT_FLAGS) \
    X(CUstreamCaptureStatus, CUDA_ABI_CAPTURE_STATUSES) \
    X(CUstreamCaptureMode, CUDA_ABI_CAPTURE_MODES) \
    X(CUlimit, CUDA_ABI_LIMITS) \
    X(CUfunc_cache, CUDA_ABI_CACHE_CONFIGS) \
    X(CUmemorytype, CUDA_ABI_MEMORY_TYPES) \
    X(CUmemLocationType, CUDA_ABI_LOCATIONS) \
    X(CUmemAllocationType, CUDA_ABI_ALLOCATION_TYPES) \
    X(CUmemAllocationHandleType, CUDA_ABI_HANDLE_TYPES) \
    X(CUmemAccess_flags, CUDA_ABI_ACCESS_FLAGS) \
    X(CUmemPool_attribute, CUDA_ABI_POOL_ATTRIBUTES) \
    X(CUuserObject_flags, CUDA_ABI_USER_OBJECT_FLAGS) \
    X(CUuserObjectRetain_flags, CUDA_ABI_RETAIN_FLAGS) \
    X(CUgraphNodeType, CUDA_ABI_NODE_TYPES) \
    X(CUgraphExecUpdateResult, CUDA_ABI_UPDATE_RESULTS) \
    X(CUdriverProcAddressQueryResult, CUDA_ABI_QUERY_RESULTS) \
    X(CUlaunchAttributeID, CUDA_ABI_LAUNCH_ATTRIBUTES) \
    X(CUmoduleLoadingMode, CUDA_ABI_LOADING_MODES) \
    X(CUlibraryOption, CUDA_ABI_LIBRARY_OPTIONS)
// clang-format on

// Flags that cuda.h has as macros: X(its name, our value)
#define CUDA_ABI_FLAGS(X)                                                                          \
    X(CU_MEMHOSTALLOC_PORTABLE, CUDA_ABI_MEMHOSTALLOC_PORTABLE)                                    \
    X(CU_STREAM_LEGACY, CUDA_ABI_STREAM_LEGACY)                                                    \
    X(CU_STREAM_PER_THREAD, CUDA_ABI_STREAM_PER_THREAD)                                            \
    X(CU_LAUNCH_PARAM_END, CUDA_ABI_LAUNCH_PARAM_END)                                              \
    X(CU_LAUNCH_PARAM_BUFFER_POINTER, CUDA_ABI_LAUNCH_PARAM_BUFFER_POINTER)                        \
    X(CU_LAUNCH_PARAM_BUFFER_SIZE, CUDA_ABI_LAUNCH_PARAM_BUFFER_SIZE)

#define CUDA_ABI_MEMHOSTALLOC_PORTABLE       1u
#define CUDA_ABI_STREAM_LEGACY               1u ///< a CUstream; NULL is the same one
#define CUDA_ABI_STREAM_PER_THREAD           2u ///< a CUstream
#define CUDA_ABI_LAUNCH_PARAM_END            0u ///< the keys of the `extra` list of a launch
#define CUDA_ABI_LAUNCH_PARAM_BUFFER_POINTER 1u
#define CUDA_ABI_LAUNCH_PARAM_BUFFER_SIZE    2u

// ------------------------------------------------------------------------------------------ types

#ifndef CUDA_VERSION // cuda.h has not been here
typedef int CUdevice;
#if UINTPTR_MAX > 0xffffffffu
typedef unsigned long long CUdeviceptr;
#else
typedef unsigned int CUdeviceptr;
#endif
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
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUuserObject_st *CUuserObject;
#define CUDA_ABI_ENUMERATOR(name, value)   name = value,
#define CUDA_ABI_RESULT(name, value, text) name = value,
#define CUDA_ABI_ENUM(type, values)        typedef enum { values(CUDA_ABI_ENUMERATOR) } type;
typedef enum { CUDA_ABI_RESULTS(CUDA_ABI_RESULT) } CUresult;
CUDA_ABI_ENUMS(CUDA_ABI_ENUM)
typedef void (*CUhostFn)(void *);
typedef void (*CUstreamCallback)(CUstream, CUresult, void *);
typedef size_t (*CUoccupancyB2DSize)(int);
typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;
#endif

// ------------------------------------------------------------------------------------- structures

// Each is a list of its fields in order: X(type, field).
// clang-format off
#define CUDA_ABI_CONTEXT_PARAMS(X) \
    X(void *, execAffinityParams) X(int, numExecAffinityParams) X(void *, cigParams)

#define CUDA_ABI_COPY_2D(X) \
    X(size_t, srcXInBytes) X(size_t, srcY) X(CUmemorytype, srcMemoryType) X(const void *, srcHost) \
    X(CUdeviceptr, srcDevice) X(CUarray, srcArray) X(size_t, srcPitch) X(size_t, dstXInBytes) \
    X(size_t, dstY) X(CUmemorytype, dstMemoryType) X(void *, dstHost) X(CUdeviceptr, dstDevice) \
    X(CUarray, dstArray) X(size_t, dstPitch) X(size_t, WidthInBytes) X(size_t, Height)

#define CUDA_ABI_COPY_3D(X) \
    X(size_t, srcXInBytes) X(size_t, srcY) X(size_t, srcZ) X(size_t, srcLOD) \
    X(CUmemorytype, srcMemoryType) X(const void *, srcHost) X(CUdeviceptr, srcDevice) \
    X(CUarray, srcArray) X(void *, reserved0) X(size_t, srcPitch) X(size_t, srcHeight) \
    X(size_t, dstXInBytes) X(size_t, dstY) X(size_t, dstZ) X(size_t, dstLOD) \
    X(CUmemorytype, dstMemoryType) X(void *, dstHost) X(CUdeviceptr, dstDevice) \
    X(CUarray, dstArray) X(void *, reserved1) X(size_t, dstPitch) X(size_t, dstHeight) \
    X(size_t, WidthInBytes) X(size_t, Height) X(size_t, Depth)

#define CUDA_ABI_KERNEL_PARAMS_1(X) \
    X(CUfunction, func) X(unsigned, gridDimX) X(unsigned, gridDimY) X(unsigned, gridDimZ) \
    X(unsigned, blockDimX) X(unsigned, blockDimY) X(unsigned, blockDimZ) \
    X(unsigned, sharedMemBytes) X(void **, kernelParams) X(void **, extra)

#define CUDA_ABI_KERNEL_PARAMS(X) \
    CUDA_ABI_KERNEL_PARAMS_1(X) X(CUkernel, kern) X(CUcontext, ctx)

#define CUDA_ABI_MEMSET_PARAMS(X) \
    X(CUdeviceptr, dst) X(size_t, pitch) X(unsigned, value) X(unsigned, elementSize) \
    X(size_t, width) X(size_t, height)

#define CUDA_ABI_HOST_PARAMS(X) \
    X(CUhostFn, fn) X(void *, userData)

#define CUDA_ABI_LOCATION(X) \
    X(CUmemLocationType, type) X(int, id)

#define CUDA_ABI_ACCESS(X) \
    X(struct cuda_location, location) X(CUmemAccess_flags, flags)

#define CUDA_ABI_POOL_PROPS(X) \
    X(CUmemAllocationType, allocType) X(CUmemAllocationHandleType, handleTypes) \
    X(struct cuda_location, location) X(void *, win32SecurityAttributes) X(size_t, maxSize) \
    X(unsigned short, usage) X(cuda_abi_pool_reserved, reserved)

#define CUDA_ABI_EDGE(X) \
    X(unsigned char, from_port) X(unsigned char, to_port) X(unsigned char, type) \
    X(cuda_abi_reserved, reserved)

#define CUDA_ABI_UPDATE_INFO(X) \
    X(CUgraphExecUpdateResult, result) X(CUgraphNode, errorNode) X(CUgraphNode, errorFromNode)

#define CUDA_ABI_INSTANTIATE_PARAMS(X) \
    X(cuuint64_t, flags) X(CUstream, hUploadStream) X(CUgraphNode, hErrNode_out) \
    X(int, result_out)

#define CUDA_ABI_LAUNCH_ATTRIBUTE(X) \
    X(CUlaunchAttributeID, id) X(cuda_abi_pad, pad) X(union cuda_launch_value, value)

#define CUDA_ABI_LAUNCH_CONFIG(X) \
    X(unsigned, gridDimX) X(unsigned, gridDimY) X(unsigned, gridDimZ) X(unsigned, blockDimX) \
    X(unsigned, blockDimY) X(unsigned, blockDimZ) X(unsigned, sharedMemBytes) X(CUstream, hStream) \
    X(CUlaunchAttribute *, attrs) X(unsigned, numAttrs)

// X(cuda.h's name, ours, its fields)
#define CUDA_ABI_STRUCTS(X) \
    X(CUctxCreateParams, cuda_context_params, CUDA_ABI_CONTEXT_PARAMS) \
    X(CUDA_MEMCPY2D, cuda_copy_2d, CUDA_ABI_COPY_2D) \
    X(CUDA_MEMCPY3D, cuda_copy_3d, CUDA_ABI_COPY_3D) \
    X(CUDA_KERNEL_NODE_PARAMS_v1, cuda_kernel_params_1, CUDA_ABI_KERNEL_PARAMS_1) \
    X(CUDA_KERNEL_NODE_PARAMS_v2, cuda_kernel_params, CUDA_ABI_KERNEL_PARAMS) \
    X(CUDA_MEMSET_NODE_PARAMS, cuda_memset_params, CUDA_ABI_MEMSET_PARAMS) \
    X(CUDA_HOST_NODE_PARAMS, cuda_host_params, CUDA_ABI_HOST_PARAMS) \
    X(CUmemLocation, cuda_location, CUDA_ABI_LOCATION) \
    X(CUmemAccessDesc, cuda_access, CUDA_ABI_ACCESS) \
    X(CUmemPoolProps, cuda_pool_props, CUDA_ABI_POOL_PROPS) \
    X(CUgraphEdgeData, cuda_edge, CUDA_ABI_EDGE) \
    X(CUgraphExecUpdateResultInfo, cuda_update_info, CUDA_ABI_UPDATE_INFO) \
    X(CUDA_GRAPH_INSTANTIATE_PARAMS, cuda_instantiate_params, CUDA_ABI_INSTANTIATE_PARAMS) \
    X(CUlaunchAttribute, cuda_launch_attribute, CUDA_ABI_LAUNCH_ATTRIBUTE) \
    X(CUlaunchConfig, cuda_launch_config, CUDA_ABI_LAUNCH_CONFIG)
// clang-format on

typedef char cuda_abi_pad[4];
typedef unsigned char cuda_abi_reserved[5];
typedef unsigned char cuda_abi_pool_reserved[54];
union cuda_launch_value {
    char pad[64];
    int cooperative;
    struct {
        unsigned x, y, z;
    } clusterDim;
    int programmaticStreamSerializationAllowed;
};

#ifndef CUDA_VERSION
#define CUDA_ABI_TYPEDEF(name, ours, fields) typedef struct ours name;
CUDA_ABI_STRUCTS(CUDA_ABI_TYPEDEF)
#endif
#define CUDA_ABI_FIELD(type, field) type field;
#define CUDA_ABI_STRUCT(name, ours, fields)                                                        \
    struct ours {                                                                                  \
        fields(CUDA_ABI_FIELD)                                                                     \
    };
CUDA_ABI_STRUCTS(CUDA_ABI_STRUCT)

// -------------------------------------------------------------------------------------- functions

#ifndef CUDA_VERSION
#define CUDA_ABI_VARIANT_none(symbol, parameters)
#define CUDA_ABI_VARIANT_ptsz(symbol, parameters) CUresult symbol##_ptsz parameters;
#define CUDA_ABI_VARIANT_ptds(symbol, parameters) CUresult symbol##_ptds parameters;
#define CUDA_FUNCTION(symbol, name, since, variant, parameters, arguments)                         \
    CUresult symbol parameters;                                                                    \
    CUDA_ABI_VARIANT_##variant(symbol, parameters)
#include "abi/functions.def"
#endif

#endif
