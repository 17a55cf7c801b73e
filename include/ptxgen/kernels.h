// SPDX-License-Identifier: MIT
/// Layer 2: the kernels, as data and as text.
///
/// A kernel is a table row and a function that writes it through the builder. The row has
/// everything a host needs to launch the kernel (parameters, geometry, options, guarantees), so
/// that no caller has to repeat it. Nothing here calls CUDA; every function may be called from any
/// thread.
///
///     struct ptx_kernel_spec spec = { .dtype = PTX_F32 };
///     ptx_builder *b = ptx_builder_create(NULL);
///     ptx_kernel_emit(b, ptx_kernel_find("squared_sum"), &spec);
///     const char *text = ptx_builder_finish(b);
///
/// docs/kernels.md gives the formulas.
#ifndef PTXGEN_KERNELS_H
#define PTXGEN_KERNELS_H

#include <ptxgen/builder.h>

PTXGEN_BEGIN

/// The most options of a kernel, and values of an option.
enum { PTX_KERNEL_MAX_OPTIONS = 4, PTX_KERNEL_MAX_CHOICES = 4 };

/// A compile-time option of a kernel. The first value is the default.
struct ptx_kernel_option {
    const char *name; ///< NULL ends the list
    const char *values[PTX_KERNEL_MAX_CHOICES];
    const char *summary;
};

/// Selects a variant of a kernel: the type of the tensors and the options. Fields left 0 are the
/// defaults, except `dtype`, which is required.
struct ptx_kernel_spec {
    ptx_type dtype;
    uint8_t option[PTX_KERNEL_MAX_OPTIONS]; ///< an index into that option's values
    const char *entry;                      ///< name of the entry; NULL: "<kernel>_<dtype>"
};

/// How the blocks cover n elements.
typedef enum ptx_grid {
    PTX_GRID_VECTORS, ///< each thread has 16 bytes of elements, at any alignment of the data
    PTX_GRID_CHUNKS,  ///< each block has one chunk: ptx_kernel_chunk()
    PTX_GRID_ONE,     ///< one block has all elements, and runs for n = 0 too
} ptx_grid;

/// A kernel of the library: what it computes, its variants, and how it is launched. A constant; its
/// text comes from ptx_kernel_emit().
typedef struct ptx_kernel ptx_kernel;
struct ptx_kernel {
    const char *name;
    const char *summary;
    const char *formula;                                          ///< what it computes, in a line
    uint32_t dtypes;                                              ///< PTX_TYPE_BIT() bits
    struct ptx_kernel_option options[PTX_KERNEL_MAX_OPTIONS + 1]; ///< up to one without a name
    ptx_grid grid;
    uint32_t block;       ///< exact number of threads of a block
    uint32_t chunk;       ///< PTX_GRID_CHUNKS: elements of a block, but for a small n; else 0
    uint32_t short_chunk; ///< the same for n up to short_most; 0: `chunk` for every n
    uint64_t short_most;
    const char *accumulator; ///< type of the sums; NULL for no sums
    const char *guarantees;  ///< what holds of the bits, as a sentence
    const struct ptx_kernel_code
        *code; ///< private to the library; used by ptx_kernel_emit() and others
};

/// X(name): the kernels, in the order of ptx_kernel_at(). Each is declared as ptx_kernel_<name>.
#define PTX_KERNELS(X)                                                                             \
    X(squared_sum)                                                                                 \
    X(clip_scale_reduce)                                                                           \
    X(gradient_clip_from_device_scale)                                                             \
    X(quantize_ste_backward)                                                                       \
    X(lerp_backward)                                                                               \
    X(loss_scale_update)                                                                           \
    X(quantize_channel_ste_backward)                                                               \
    X(cast_fp8)                                                                                    \
    X(delayed_scale_update)                                                                        \
    X(fake_quantize_groups)                                                                        \
    X(quantize_learned_backward)                                                                   \
    X(quantize_learned_reduce)                                                                     \
    X(fake_quantize)                                                                               \
    X(fake_quantize_channel)                                                                       \
    X(quantize_learned_groups)                                                                     \
    X(observe_min_max)                                                                             \
    X(moving_average_update)

/// A kernel; docs/kernels.md has its formula, its parameters and its options.
#define PTX_DECLARE(name) PTXGEN_API_DATA extern const ptx_kernel ptx_kernel_##name;
PTX_KERNELS(PTX_DECLARE)
#undef PTX_DECLARE

/// Kernel `k`, or NULL past the last.
PTXGEN_API const ptx_kernel *ptx_kernel_at(size_t k);
/// The kernel of that name, or NULL.
PTXGEN_API const ptx_kernel *ptx_kernel_find(const char *name);
/// The index of the kernel's option of that name, or -1.
PTXGEN_API int ptx_kernel_find_option(const ptx_kernel *kernel, const char *name);
/// Sets an option of `spec` by name. Returns false, with *spec unchanged, if the kernel has no such
/// option or the option has no such value.
PTXGEN_API bool ptx_kernel_spec_set(struct ptx_kernel_spec *spec, const ptx_kernel *kernel,
                                    const char *option, const char *value);

/// Adds the kernel to the builder's module as one entry. Errors (a dtype or option that the kernel
/// does not have, say) go to the builder; with NULL as a builder nothing is done. *spec is not
/// needed after the call.
PTXGEN_API void ptx_kernel_emit(ptx_builder *b, const ptx_kernel *kernel,
                                const struct ptx_kernel_spec *spec);
/// Size of the buffer for ptx_kernel_entry_name(), including the NUL.
enum { PTX_ENTRY_NAME_SIZE = 64 };
/// The name of the entry: spec->entry, or "<kernel>_<dtype>", which is written to `name`.
PTXGEN_API const char *ptx_kernel_entry_name(const ptx_kernel *kernel,
                                             const struct ptx_kernel_spec *spec,
                                             char name[PTX_ENTRY_NAME_SIZE]);

/// A one-dimensional launch.
struct ptx_geometry {
    uint32_t grid; ///< blocks; 0: nothing to launch
    uint32_t block;
};

/// The number of elements of each block for n elements in all, for kernels with PTX_GRID_CHUNKS;
/// the last block has the remainder. Returns 0 for other kernels and NULL. squared_sum writes one
/// partial sum for each block.
static inline uint32_t ptx_kernel_chunk(const ptx_kernel *kernel, uint64_t n)
{
    if (!kernel)
        return 0;
    return kernel->short_chunk && n <= kernel->short_most ? kernel->short_chunk : kernel->chunk;
}
/// The launch geometry for n elements; the launch must use exactly this grid and block. Returns
/// false, with *geometry unchanged, if the grid would exceed 2^31 - 1 blocks or the kernel does not
/// have the dtype.
PTXGEN_API bool ptx_kernel_geometry(const ptx_kernel *kernel, ptx_type dtype, uint64_t n,
                                    struct ptx_geometry *geometry);

/// The sizes that a launch is for. Kernels without channels read `n` alone.
struct ptx_kernel_sizes {
    uint64_t n;        ///< elements, as for ptx_kernel_geometry()
    uint64_t channels; ///< above 0 for a kernel with channels
    uint64_t inner;    ///< adjacent elements of one channel, above 0
};

/// Sets *count to the number of elements that a pointer parameter with this `length` (struct
/// ptx_param_info) has in a launch: a number, "n", "channels", "inner", "blocks" (the grid of
/// ptx_kernel_geometry()), or a length of the kernel's own (docs/kernels.md). `spec` is needed
/// because the kernel's own lengths may depend on the dtype and the options. Returns false, with
/// *count unchanged, if an argument is NULL, the kernel does not know the length, or a size is 0
/// that the length is divided by, or no launch can be so large.
PTXGEN_API bool ptx_kernel_length(const ptx_kernel *kernel, const struct ptx_kernel_spec *spec,
                                  const struct ptx_kernel_sizes *sizes, const char *length,
                                  uint64_t *count);

PTXGEN_END

// Errors name the caller's line; see places.h.
#ifdef PTXGEN_PLACED
#define ptx_kernel_emit(b, ...) PTXGEN_PLACED_VOID(b, ptx_kernel_emit(b, __VA_ARGS__))
#endif

#endif
