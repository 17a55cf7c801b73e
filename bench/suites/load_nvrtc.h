// SPDX-License-Identifier: MIT
#ifndef PTXGEN_BENCH_LOAD_NVRTC_H
#define PTXGEN_BENCH_LOAD_NVRTC_H

#include <ptxgen/driver.h>

/// The timed part for NVRTC, from compiling on; the rest of load.c is common to all ways.
struct load_nvrtc;
struct load_nvrtc *load_nvrtc_compile(ptx_device *gpu, char *error, size_t error_size);
bool load_nvrtc_load(struct load_nvrtc *program, char *error, size_t error_size);
bool load_nvrtc_launch(struct load_nvrtc *program, CUdeviceptr x, uint64_t n, CUdeviceptr partials,
                       unsigned grid, char *error, size_t error_size);
void load_nvrtc_destroy(struct load_nvrtc **program);

#endif
