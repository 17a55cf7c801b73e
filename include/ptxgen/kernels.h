// SPDX-License-Identifier: MIT
/// Layer 2: the kernels, as data and as text.
///
/// A kernel is a table row with a function that writes it through the builder. Everything a host
/// must know to launch it - parameters, geometry, options, guarantees - can be asked here, so that
/// no caller repeats it. Nothing here calls CUDA; every function may be called from any thread.
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

enum { PTX_KERNEL_MAX_OPTIONS = 4, PTX_KERNEL_MAX_CHOICES = 4 };

/// A choice made when the text is written. The first value is the default.
struct ptx_kernel_option {
    const char *name; ///< NULL ends the list
    const char *values[PTX_KERNEL_MAX_CHOICES];
    const char *summary;
};

/// Which text of a kernel: the tensors' type and the options. Zeros beside the dtype are the
/// defaults.
struct ptx_kernel_spec {
    ptx_type dtype;
    uint8_t option[PTX_KERNEL_MAX_OPTIONS]; ///< an index into that option's values
    const char *entry;                      ///< name of the entry; NULL: "<kernel>_<dtype>"
};

/// How blocks cover n elements.
typedef enum ptx_grid {
    PTX_GRID_VECTORS, ///< a thread has the elements of 16 bytes, wherever the data begins
    PTX_GRID_CHUNKS,  ///< a block has a chunk: ptx_kernel_chunk()
    PTX_GRID_ONE,     ///< one block has them all, and runs for n = 0 too
} ptx_grid;

typedef struct ptx_kernel ptx_kernel;
struct ptx_kernel {
    const char *name;
    const char *summary;
    const char *formula;
    uint32_t dtypes; ///< PTX_TYPE_BIT() bits
    struct ptx_kernel_option options[PTX_KERNEL_MAX_OPTIONS + 1];
    ptx_grid grid;
    uint32_t block;          ///< threads; exactly so many
    const char *accumulator; ///< type of the sums; NULL where there are none
    const char *guarantees;
    const struct ptx_kernel_code
        *code; ///< the library's own; ptx_kernel_emit() and the like use it
};

/// X(name): the kernels, in the order of ptx_kernel_at(). Each is ptx_kernel_<name>.
#define PTX_KERNELS(X)                                                                             \
    X(squared_sum)                                                                                 \
    X(clip_scale_reduce)                                                                           \
    X(gradient_clip_from_device_scale)                                                             \
    X(quantize_ste_backward)                                                                       \
    X(lerp_backward)                                                                               \
    X(loss_scale_update)                                                                           \
    X(quantize_channel_ste_backward)

#define PTX_DECLARE(name) PTXGEN_API extern const ptx_kernel ptx_kernel_##name;
PTX_KERNELS(PTX_DECLARE)
#undef PTX_DECLARE

/// The k-th kernel, or NULL past the last.
PTXGEN_API const ptx_kernel *ptx_kernel_at(size_t k);
/// The kernel of that name, or NULL.
PTXGEN_API const ptx_kernel *ptx_kernel_find(const char *name);
/// The index of the kernel's option of that name, or -1.
PTXGEN_API int ptx_kernel_find_option(const ptx_kernel *kernel, const char *name);
/// Chooses a value of an option by name. False, and *spec unchanged, if the kernel has no such
/// option or the option no such value.
PTXGEN_API bool ptx_kernel_spec_set(struct ptx_kernel_spec *spec, const ptx_kernel *kernel,
                                    const char *option, const char *value);

/// Adds the kernel to the builder's module as one entry. Errors (a dtype or option the kernel does
/// not have, say) are the builder's. *spec is read before the call returns.
PTXGEN_API void ptx_kernel_emit(ptx_builder *b, const ptx_kernel *kernel,
                                const struct ptx_kernel_spec *spec);
/// The entry's name: spec->entry, or "<kernel>_<dtype>" written into `name`. Returns it.
enum { PTX_ENTRY_NAME_SIZE = 64 };
PTXGEN_API const char *ptx_kernel_entry_name(const ptx_kernel *kernel,
                                             const struct ptx_kernel_spec *spec,
                                             char name[PTX_ENTRY_NAME_SIZE]);

/// A one-dimensional launch.
struct ptx_geometry {
    uint32_t grid; ///< blocks; 0: there is nothing to launch
    uint32_t block;
};

/// Of a kernel with PTX_GRID_CHUNKS, how many elements each block has when there are n in all, the
/// last block what is left; 0 for other kernels and for NULL. A partial of squared_sum is the sum
/// over so many, and there are as many partials as blocks.
PTXGEN_API uint32_t ptx_kernel_chunk(const ptx_kernel *kernel, uint64_t n);
/// The greatest n for which ptx_kernel_chunk() is shorter than for all above; 0 where it is the
/// same for every n, and for NULL.
PTXGEN_API uint64_t ptx_kernel_short_most(const ptx_kernel *kernel);
/// The launch that covers n elements: exactly so many blocks of so many threads. False, and
/// *geometry unchanged, if they need more blocks than a grid can have (2^31 - 1), or the kernel has
/// no such dtype.
PTXGEN_API bool ptx_kernel_geometry(const ptx_kernel *kernel, ptx_type dtype, uint64_t n,
                                    struct ptx_geometry *geometry);

PTXGEN_END

#endif
