// SPDX-License-Identifier: MIT
/// A kernel of the library with random tensors of its own, for any number of launches.
#ifndef PTXGEN_BENCH_KERNELS_H
#define PTXGEN_BENCH_KERNELS_H

#include "bench.h"

enum { KERNEL_MOST_PARAMS = 12, KERNEL_COLUMNS = 16384 };

struct kernel_run {
    const ptx_kernel *kernel;
    struct ptx_kernel_spec spec;
    uint64_t n;
    /// For kernels with channels the tensor is a matrix of KERNEL_COLUMNS columns; the channels are
    /// its rows or its columns.
    uint64_t channels, inner;
    ptx_builder *builder; ///< kept for the names of the parameters
    ptx_module *module;
    const ptx_function *function;
    struct ptx_geometry geometry;
    unsigned count; ///< number of parameters
    struct ptx_param_info params[KERNEL_MOST_PARAMS];
    struct ptx_arg args[KERNEL_MOST_PARAMS];
    union {
        uint64_t u64;
        int32_t s32;
        float f32;
        double f64;
        CUdeviceptr address;
    } values[KERNEL_MOST_PARAMS];
    ptx_buffer *buffers[KERNEL_MOST_PARAMS]; ///< for pointer parameters
    double bytes; ///< the least number of bytes that a launch reads and writes
};

/// The value of a scalar parameter, or element `k` of a small tensor.
double kernel_value(const struct kernel_run *run, const struct ptx_param_info *param, uint64_t k);

/// Whether the parameter is a tensor of the measured size. Such a tensor is random before a launch,
/// unless the kernel only writes it.
bool kernel_is_large(const struct ptx_param_info *param);
/// The number of elements of the parameter.
uint64_t kernel_length(const struct kernel_run *run, const struct ptx_param_info *param);
ptx_status kernel_launch(struct bench *b, const void *run);

/// Whether there is a plain C reference for the kernel.
bool bench_can_check(const ptx_kernel *kernel);
/// Launches once and compares up to three windows of 16384 elements with plain C, bit for bit. Sets
/// the error if they differ.
bool bench_check_kernel(struct bench *b, const struct kernel_run *run);

#endif
