// SPDX-License-Identifier: MIT
/// Controls the fake libcuda (fake_libcuda.c): the GPU and driver that it pretends to be, and the
/// calls that it recorded. To make calls fail, use the emulator (emulator_faults.h).
#ifndef PTXGEN_TESTS_FAKE_LIBCUDA_H
#define PTXGEN_TESTS_FAKE_LIBCUDA_H

#include "abi/cuda.h"

#include <stdatomic.h>
#include <stdbool.h>

/// Set the settings before the first call; fake->reset() restores the defaults.
struct fake_cuda {
    int device_count;
    int driver_version;
    int sm;
    int shared_optin;
    int cooperative;
    CUdeviceptr foreign;    ///< 4096 bytes that are memory of GPU 1
    CUdeviceptr registered; ///< 4096 bytes that are host memory
    int static_shared;
    int block_threads;        ///< the most that a kernel runs with
    size_t argument_sizes[4]; ///< bytes that a launch records of each argument; 0 ends

    atomic_int calls;      ///< of all functions but those that explain errors
    atomic_int alive;      ///< allocations, streams, events, modules, retained contexts
    atomic_int loads;      ///< modules loaded
    atomic_int launches;   ///< kernels launched
    atomic_int graphs;     ///< graphs launched
    atomic_int violations; ///< calls in a wrong context, or with an invalid handle

    CUlaunchConfig launch; ///< the launch that made `launches` 1
    CUlaunchAttribute attributes[4];
    unsigned char arguments[4][16];
    CUjit_option options[16]; ///< the load that made `loads` 1
    void *values[16];
    unsigned option_count;

    void (*reset)(void);
    int (*context_depth)(void); ///< of the calling thread's stack
    void (*context_pop)(void);
    CUstreamCaptureMode (*capture_mode)(void);
    CUcontext (*context_create)(CUdevice device); ///< made current; the caller frees it
    CUstream (*stream_create)(CUcontext context, bool blocking); ///< the caller frees it
    void (*capture_begin)(CUstream stream, CUstreamCaptureMode mode);
    CUstreamCaptureStatus (*capture_end)(CUstream stream);
    CUstreamCaptureStatus (*capture_status)(CUstream stream);
    CUstreamCaptureMode (*capture_mode_of)(CUstream stream);
    void (*capture_spoil)(CUstream stream);
};

/// Exported beside the functions of CUDA.
struct fake_cuda *fake_cuda(void);

#endif
