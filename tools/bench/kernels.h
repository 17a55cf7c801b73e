// SPDX-License-Identifier: MIT
/// A kernel of the library with random tensors of its own, to be launched as often as one likes.
#ifndef PTXGEN_TOOLS_BENCH_KERNELS_H
#define PTXGEN_TOOLS_BENCH_KERNELS_H

#include "bench/bench.h"

enum { KERNEL_MOST_PARAMS = 12, KERNEL_COLUMNS = 16384 };

struct kernel_run {
    const ptx_kernel *kernel;
    struct ptx_kernel_spec spec;
    uint64_t n;
    /// Where there are channels, the tensor is a matrix of KERNEL_COLUMNS columns, whose rows are
    /// the channels, or whose columns are.
    uint64_t channels, inner;
    ptx_builder *builder; ///< has the parameters' names
    ptx_module *module;
    const ptx_function *function;
    struct ptx_geometry geometry;
    unsigned count; ///< of parameters
    struct ptx_param_info params[KERNEL_MOST_PARAMS];
    struct ptx_arg args[KERNEL_MOST_PARAMS];
    union {
        uint64_t u64;
        int32_t s32;
        float f32;
        double f64;
        CUdeviceptr address;
    } values[KERNEL_MOST_PARAMS];
    ptx_buffer *buffers[KERNEL_MOST_PARAMS]; ///< of pointers
    double bytes;                            ///< that a launch has to read and write at least
};

/// The number that a scalar parameter is given, or the k-th element of a small tensor.
double kernel_value(const struct kernel_run *run, const struct ptx_param_info *param, uint64_t k);

/// Whether the parameter is a tensor of the size that is measured, and so random before a launch
/// unless the kernel only writes it.
bool kernel_is_large(const struct ptx_param_info *param);
/// The parameter's elements.
uint64_t kernel_length(const struct kernel_run *run, const struct ptx_param_info *param);
ptx_status kernel_launch(struct bench *b, const void *run);

/// Whether there is plain C for the kernel.
bool bench_can_check(const ptx_kernel *kernel);
/// Launches once and holds the results of up to three places of 16384 elements against plain C,
/// bit for bit. Sets the error where they differ.
bool bench_check_kernel(struct bench *b, const struct kernel_run *run);

#endif
