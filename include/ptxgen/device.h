// SPDX-License-Identifier: MIT
/// Part of driver.h, which says what holds for all of it: GPUs and their contexts.
#ifndef PTXGEN_DEVICE_H
#define PTXGEN_DEVICE_H

#include <ptxgen/error.h>

PTXGEN_BEGIN

// The driver's handles, as cuda.h has them.
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

/// A GPU with the context that work on it happens in.
typedef struct ptx_device ptx_device;

/// Which GPU and which context. All zero: whatever the calling thread is working with, else the
/// first GPU.
struct ptx_device_params {
    /// This context is used as it is. The caller keeps it alive until the device is closed.
    CUcontext context;
    /// GPU number, from 0, in the driver's order (CUDA_VISIBLE_DEVICES applies). A number above 0
    /// takes up the thread's current context only if that one is on this GPU.
    int ordinal;
    /// Leave the thread's current context alone, also for ordinal 0: retain the primary context
    /// of GPU `ordinal`, the one that the CUDA runtime shares.
    bool primary;
};

/// How many GPUs there are. Sets *count to 0 unless it returns PTX_OK.
/// Errors: NO_DRIVER, NO_DEVICE (the driver sees no GPU at all), DRIVER.
PTXGEN_API ptx_status ptx_device_count(int *count);

/// Finds libcuda, initialises it and takes up a context. `params` may be NULL, for the defaults.
///
/// The context is, in this order: `params->context`; the calling thread's current one (adopted: it
/// must outlive the device); the primary context of `params->ordinal`, retained until the device
/// is closed. The context is not made current.
///
/// The library is, in this order: the libcuda.so.1 already in the process, since handles of one
/// libcuda mean nothing to another; the file $PTXGEN_LIBCUDA names, and then only that one;
/// libcuda.so.1 by the usual search; the places where distributions, WSL and Jetson keep it. The
/// toolkit's stub library is passed over. So $PTXGEN_LIBCUDA has no effect in a process that uses
/// CUDA already: ptx_device_info.library_path says which library serves.
///
/// Errors (NULL): NO_DRIVER, NO_DEVICE, INVALID, DRIVER, OUT_OF_MEMORY.
PTXGEN_API ptx_device *ptx_device_open(const struct ptx_device_params *params);

/// Gives the device up and sets *device to NULL. The context is released, if it was retained, as
/// soon as the last module and buffer of the device is destroyed too. Streams and events of the
/// device must be destroyed before.
PTXGEN_API void ptx_device_close(ptx_device **device);

/// What a device is. All sizes are in bytes.
struct ptx_device_info {
    const char *library_path;   ///< the libcuda that serves
    int driver_version;         ///< of that libcuda, as CUDA counts: 12040 is 12.4
    int isa;                    ///< newest PTX ISA it is known to accept: 84 is 8.4
    int ordinal;                ///< GPU number
    char name[128];             ///< "NVIDIA H200"
    int sm;                     ///< compute capability: 90 is 9.0, .target sm_90
    size_t memory;              ///< device memory in all
    int multiprocessors;        ///< how many SMs
    int warp_size;              ///< threads
    int l2_cache;               ///< bytes
    int max_grid[3];            ///< blocks, by dimension
    int max_block[3];           ///< threads, by dimension
    int max_threads_per_block;  ///< threads in all
    int max_threads_per_sm;     ///< resident threads
    int shared_per_block;       ///< that every kernel may use
    int shared_per_block_optin; ///< that a launch may ask for
    int shared_per_sm;          ///< of all resident blocks together
    int registers_per_block;    ///< 32-bit registers
    int cooperative_launch;     ///< 1 if grid-wide synchronisation is possible
    int memory_clock;           ///< kHz; 0 if the driver does not say
    int memory_bus_width;       ///< bits
};

/// The device's particulars, owned by the device. Makes no driver call. NULL for NULL.
PTXGEN_API const struct ptx_device_info *ptx_device_get_info(const ptx_device *device);

/// The context that the device works in, to be made current by callers who have driver calls of
/// their own to make. NULL for NULL.
PTXGEN_API CUcontext ptx_device_context(const ptx_device *device);

/// Device memory that is free now, and in all, in bytes; either pointer may be NULL.
/// Errors: DRIVER, FORKED, INVALID.
PTXGEN_API ptx_status ptx_device_memory(ptx_device *device, size_t *available, size_t *total);

PTXGEN_END

#endif
