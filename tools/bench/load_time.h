// SPDX-License-Identifier: MIT
/// How long a program waits for its first result: from opening the device, in a process that has
/// the primary context already, until the sums of squared_sum are on the host.
///
/// What a process has once loaded stays loaded, so each sample is a process of its own, forked by
/// the caller's: which must not have used CUDA yet.
#ifndef PTXGEN_TOOLS_BENCH_LOAD_TIME_H
#define PTXGEN_TOOLS_BENCH_LOAD_TIME_H

#include <ptxgen/ptxgen.h>

/// Ways to machine code: X(name, key, what it is)
#define LOAD_WAYS(X)                                                                               \
    X(LOAD_COMPILED, "compiled", "ptxgen, compiled anew")                                          \
    X(LOAD_DRIVER_CACHE, "driver cache", "ptxgen, found in the driver's cache")                    \
    X(LOAD_NVRTC, "nvrtc", "CUDA C++ by NVRTC to machine code")

enum load_way {
#define LOAD_WAY(name, key, what) name,
    LOAD_WAYS(LOAD_WAY)
#undef LOAD_WAY
        LOAD_WAY_COUNT
};

/// Milliseconds of one process.
struct load_sample {
    double open;   ///< ptx_device_open()
    double text;   ///< writing the PTX; for NVRTC compiling to machine code
    double load;   ///< ptx_module_load(), until kernels can be launched
    double first;  ///< memory, data, launch, result
    double total;  ///< all of it
    bool compiler; ///< the driver's compiler library was loaded in the end
    int registers; ///< of the kernel, per thread
};

struct load_summary {
    struct load_sample median; ///< of each time by itself
    double least, most;        ///< of the total
    int samples;
    bool compiler; ///< in any sample
    bool no_gpu;   ///< why nothing was measured
};

enum { LOAD_MOST_SAMPLES = 100 };

/// Takes samples on GPU `ordinal`. `scratch` is an empty folder for the driver's cache, which is
/// emptied again. False: it could not be done; `error` says why, and summary->no_gpu whether it is
/// for want of a GPU.
bool load_measure(enum load_way way, int ordinal, int samples, const char *scratch,
                  struct load_summary *summary, char *error, size_t error_size);

/// The timed part for NVRTC, from compiling on: the rest of load.c is the same for all.
struct load_nvrtc;
struct load_nvrtc *load_nvrtc_compile(ptx_device *gpu, char *error, size_t error_size);
bool load_nvrtc_load(struct load_nvrtc *program, char *error, size_t error_size);
bool load_nvrtc_launch(struct load_nvrtc *program, CUdeviceptr x, uint64_t n, CUdeviceptr partials,
                       unsigned grid, char *error, size_t error_size);
void load_nvrtc_destroy(struct load_nvrtc **program);

#endif
