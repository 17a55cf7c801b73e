// SPDX-License-Identifier: MIT
/// Each kernel on the GPU against the reference, bit for bit: every option, size and alignment.
#ifndef PTXGEN_TESTS_CASES_H
#define PTXGEN_TESTS_CASES_H

#include "gpu.h"

#define DECLARE(name) void check_##name(ptx_type dtype);
PTX_KERNELS(DECLARE)
#undef DECLARE

/// The largest number of elements that is cut into short chunks, and one more. Both functions skip
/// the test and say so if the environment excludes these sizes.
void check_squared_sum_at_switch(ptx_type dtype);
/// The largest number of elements that is read before the scale is, and one more.
void check_gradient_clip_at_switch(ptx_type dtype);

/// More than 2^32 elements of f16, each checked on the device. Skips the test and says so if memory
/// is too small or the environment excludes such sizes.
void check_beyond_32_bits(void);

/// Shared by the cases: all variants of a dtype, and memory for tensors of the largest size.
struct suite {
    struct random random;
    enum ref_type type;
    struct gpu_kernel loaded[GPU_MOST_VARIANTS];
    int count;
    uint64_t sizes[GPU_MOST_SIZES];
    int size_count;
    uint64_t most; ///< the largest size
};

void suite_begin(struct suite *s, const ptx_kernel *kernel, ptx_type dtype);
/// Fails the test if no case has launched one of the variants.
void suite_end(struct suite *s);
/// Memory for `most` elements of the dtype, and never less than one.
void *suite_room(const struct suite *s);
/// An address in that memory from which n elements can be read; aligned to the element only.
const void *suite_window(struct suite *s, const void *room, uint64_t n);
/// An elementwise kernel's tensors x and y, with the wanted values `y`. In place they are one.
void suite_mapped(const struct suite *s, struct gpu_case *c, const void *x, const void *y,
                  uint64_t n, bool in_place);
/// The tensors of a quantizer's gradient: x, d_output and d_input. In place, d_output and d_input
/// are one. Returns d_input, with the wanted values `d_input`.
struct gpu_tensor *suite_quantized(const struct suite *s, struct gpu_case *c, const void *x,
                                   const void *d_output, const void *d_input, uint64_t n,
                                   bool in_place);

#endif
