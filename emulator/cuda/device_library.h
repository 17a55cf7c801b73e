// SPDX-License-Identifier: MIT
// NVIDIA's library for kernels, libcudadevrt.a: machine code that compilers link with what they
// make.
#ifndef PTXGEN_EMULATOR_CUDA_DEVICE_LIBRARY_H
#define PTXGEN_EMULATOR_CUDA_DEVICE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

// Whether the bytes are libcudadevrt.a, of whatever version: an archive with its object.
bool api_is_device_library(const void *bytes, size_t length);
// PTX that stands for it: those of its functions that the emulator has.
extern const char api_device_library[];

#endif
