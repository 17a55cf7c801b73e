// SPDX-License-Identifier: MIT
/// Part of builder.h: named arrays of the module. The rules of builder.h apply.
///
///     static const float weights[] = { 0.25f, 0.5f, 0.25f };
///     ptx_ptr w = ptx_const(b, PTX_F32, "weights", .values = weights, .bytes = sizeof weights);
///     ptx_ptr hits = ptx_global(b, PTX_U64, "hits", .count = 1);
///
/// They belong to the module, not to an entry: declared before an entry or in one, every entry and
/// function that follows can use them. The host finds them by name: ptx_module_global().
#ifndef PTXGEN_DATA_H
#define PTXGEN_DATA_H

#ifdef __GNUC__ // struct.h says why
#pragma GCC system_header
#endif

#include <ptxgen/types.h>

PTXGEN_BEGIN

/// A named array. It has `count` elements, or as many as `values` has; `values` may have fewer, and
/// the other elements are zero. All zero but the name is an error: an array has elements.
struct ptx_data_params {
    const char *name;   ///< a PTX identifier, unique in the module
    const void *values; ///< the first elements, as C has them in memory; copied; NULL: all zero
    size_t bytes;       ///< size of `values` in bytes: whole elements
    uint32_t count;     ///< number of elements; 0: those of `values`
    uint32_t align;     ///< of the first element in bytes: 16, 32, 64, 128 or 256; 0: 16
};

/// An array in global memory, below 2 GiB, which keeps what kernels store to it from launch to
/// launch.
PTXGEN_API ptx_ptr ptx_global_emit(ptx_builder *b, ptx_type type, struct ptx_data_params params);
#define ptx_global(b, type, ...)                                                                   \
    ptx_global_emit(b, type, PTXGEN_NAMED(ptx_data_params, __VA_ARGS__))
/// An array in constant memory, which kernels only read, fastest where all threads of a warp read
/// the same element. A module has at most 64 KiB of it.
PTXGEN_API ptx_ptr ptx_const_emit(ptx_builder *b, ptx_type type, struct ptx_data_params params);
#define ptx_const(b, type, ...) ptx_const_emit(b, type, PTXGEN_NAMED(ptx_data_params, __VA_ARGS__))
/// The text and its NUL as u8 in global memory, read only, without a name for the host. Equal texts
/// are one array.
PTXGEN_API ptx_ptr ptx_string(ptx_builder *b, const char *text);

PTXGEN_END

#endif
