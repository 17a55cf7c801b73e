// SPDX-License-Identifier: MIT
/// Part of driver.h: GPUs and their properties. The rules of driver.h apply.
#ifndef PTXGEN_DEVICE_H
#define PTXGEN_DEVICE_H

#include <ptxgen/error.h>

PTXGEN_BEGIN

// The driver's handle types, as cuda.h declares them.
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
#if UINTPTR_MAX > 0xffffffffu
typedef unsigned long long CUdeviceptr;
#else
typedef unsigned int CUdeviceptr;
#endif

/// A GPU and the context used on it.
typedef struct ptx_device ptx_device;

/// Selects a GPU and a context. All zero: the calling thread's current context, or the first GPU if
/// it has none.
struct ptx_device_params {
    /// Use this context. The caller keeps it alive until the device is closed.
    CUcontext context;
    /// GPU number from 0, in the driver's order (CUDA_VISIBLE_DEVICES applies). With a number above
    /// 0, the thread's current context is used only if it is on this GPU. 0 is the first GPU only
    /// for a thread without a current context: set `primary` to have the first in any case.
    int ordinal;
    /// Ignore the thread's current context, also for ordinal 0, and retain the primary context of
    /// GPU `ordinal`, which the CUDA runtime shares.
    bool primary;
};

/// Counts the GPUs. *count is 0 on an error. Errors: NO_DRIVER, NO_DEVICE (the driver sees no GPU
/// at all), DRIVER.
PTXGEN_API ptx_status ptx_device_count(int *count);

/// Finds libcuda, initialises it and selects a context. `params` may be NULL for the defaults.
///
/// The context is the first of: `params->context`; the calling thread's current context (adopted,
/// so it must outlive the device); the primary context of `params->ordinal`, retained until the
/// device is closed. The context is not made current.
///
/// The library is the first of: a libcuda.so.1 that the process has loaded already, because the
/// handles of one libcuda mean nothing to another; the file that $PTXGEN_LIBCUDA names, and then no
/// other; libcuda.so.1 found by the usual search; libcuda.so.1 where distributions, WSL and Jetson
/// install it. The toolkit's stub library is skipped. $PTXGEN_LIBCUDA therefore has no effect in a
/// process that already uses CUDA. ptx_device_info.library_path names the library in use.
///
/// Errors (NULL): NO_DRIVER, NO_DEVICE, INVALID, DRIVER, OUT_OF_MEMORY.
PTXGEN_API ptx_device *ptx_device_open(const struct ptx_device_params *params);

/// Closes the device and sets *device to NULL. A retained context is released when the last module
/// and buffer of the device is destroyed, too. Destroy the device's streams and events first.
PTXGEN_API void ptx_device_close(ptx_device **device);

/// Properties of a device. All sizes are in bytes.
struct ptx_device_info {
    const char *library_path;   ///< the libcuda in use
    int driver_version;         ///< of that libcuda, in CUDA's encoding: 12040 is 12.4
    int isa;                    ///< newest PTX ISA that this driver is known to accept: 84 is 8.4
    int ordinal;                ///< GPU number
    char name[128];             ///< "NVIDIA H200"
    int sm;                     ///< compute capability: 90 is 9.0, .target sm_90
    size_t memory;              ///< total device memory
    int multiprocessors;        ///< number of SMs
    int warp_size;              ///< threads
    int l2_cache;               ///< bytes
    int max_grid[3];            ///< blocks in x, y, z
    int max_block[3];           ///< threads in x, y, z
    int max_threads_per_block;  ///< threads
    int max_threads_per_sm;     ///< resident threads
    int shared_per_block;       ///< available to every kernel
    int shared_per_block_optin; ///< maximum that a launch may request
    int shared_per_sm;          ///< total of the resident blocks
    int registers_per_block;    ///< 32-bit registers
    int cooperative_launch;     ///< 1 if grid-wide synchronisation is possible
    int memory_clock;           ///< kHz; 0 if the driver does not report it
    int memory_bus_width;       ///< bits
};

/// The properties of the device, owned by the device. Makes no driver call. Returns NULL for NULL.
PTXGEN_API const struct ptx_device_info *ptx_device_get_info(const ptx_device *device);

/// The context of the device, for callers that make driver calls of their own. Returns NULL for
/// NULL.
PTXGEN_API CUcontext ptx_device_context(const ptx_device *device);

/// Free and total device memory in bytes; either pointer may be NULL. Errors: DRIVER, FORKED,
/// INVALID.
PTXGEN_API ptx_status ptx_device_memory(ptx_device *device, size_t *available, size_t *total);

PTXGEN_END

#endif
