// SPDX-License-Identifier: MIT
/// Runs a kernel on the GPU between guard bytes and holds every byte against what it should be.
///
/// Any libcuda will do, also one without a GPU behind it ($PTXGEN_LIBCUDA). Environment:
///   PTXGEN_TEST_SEED      seed of the random data, sizes and alignments; printed at the start
///   PTXGEN_TEST_LARGE     0 leaves out everything above 10^6 elements
///   PTXGEN_TEST_MAX_SIZE  leaves out everything above so many elements
///   PTXGEN_TEST_FILTER    names of tests to run, with * and ?
#ifndef PTXGEN_TESTS_GPU_H
#define PTXGEN_TESTS_GPU_H

#include <ptxgen/ptxgen.h>

#include "random.h"
#include "reference/reference.h"
#include "variants.h"

struct gpu {
    ptx_device *device;
    CUstream stream;
    uint64_t seed;
    uint64_t max_size;
    const char *limit; // the variable that says so
};

/// Exits with 77 and one line if there is no GPU, with 1 if there is one that cannot be used.
void gpu_open(struct gpu *gpu);
void gpu_close(struct gpu *gpu);
/// A generator that depends on the seed and the name alone.
struct random gpu_random(const struct gpu *gpu, const char *name);

/// A variant of a kernel, loaded.
struct gpu_kernel {
    const ptx_kernel *kernel;
    struct ptx_kernel_spec spec;
    struct ptx_target target;
    enum ref_type type;
    char name[VARIANT_NAME_SIZE];
    char *text;
    ptx_module *module;
    const ptx_function *function;
};

/// The target of the device: the newest plain one that it and its driver take.
struct ptx_target gpu_target(const struct gpu *gpu);
/// Fails the test if the kernel cannot be built or loaded.
void gpu_kernel_load(struct gpu *gpu, const ptx_kernel *kernel, const struct ptx_kernel_spec *spec,
                     struct ptx_target target, struct gpu_kernel *loaded);
void gpu_kernel_unload(struct gpu_kernel *loaded);
/// Loads every variant of a dtype; for bf16 also as sm_70 has it, with integer arithmetic in place
/// of conversions. Returns how many.
enum { GPU_MOST_VARIANTS = 64 };
int gpu_load_variants(struct gpu *gpu, const ptx_kernel *kernel, ptx_type dtype,
                      struct gpu_kernel loaded[GPU_MOST_VARIANTS]);
/// Writes the text to a file that outlives the test, and says on standard error where.
void gpu_report_text(const struct gpu_kernel *loaded);
enum ref_type gpu_ref_type(ptx_type dtype);
bool gpu_kernel_has(const struct gpu_kernel *loaded, const char *option, const char *value);
/// Launches over n elements on the stream; does not wait.
ptx_status gpu_launch(const struct gpu *gpu, const struct gpu_kernel *loaded, uint64_t n,
                      const struct ptx_arg *args, size_t count);
/// The same with as many blocks as are given.
ptx_status gpu_launch_grid(const struct gpu *gpu, const struct gpu_kernel *loaded, unsigned grid,
                           const struct ptx_arg *args, size_t count);

/// A pointer argument.
struct gpu_tensor {
    const char *name;
    enum ref_type type; ///< how elements compare; REF_F32 serves for other 32-bit types
    uint64_t length;
    const void *before; ///< contents; NULL: poisoned, and every element must be written
    const void *after;  ///< contents wanted after the run; NULL: unchanged
    bool exact;         ///< f64 NaNs must have the bits wanted, too
    unsigned offset;    ///< elements beyond a 256-byte boundary; gpu_check() sets it
    ptx_buffer *buffer;
    CUdeviceptr address;
};

enum { GPU_MOST_TENSORS = 5, GPU_MOST_ARGS = 10 };

/// One launch. Arguments point into it, so it must stay where it is.
struct gpu_case {
    const struct gpu_kernel *kernel;
    uint64_t n;
    unsigned grid; ///< blocks; 0: as many as the kernel's geometry says
    struct gpu_tensor tensor[GPU_MOST_TENSORS];
    size_t tensors;
    struct ptx_arg arg[GPU_MOST_ARGS];
    size_t args;
    char note[160]; ///< scalars, for the report
};

void gpu_case_begin(struct gpu_case *c, const struct gpu_kernel *kernel, uint64_t n);
/// Adds a tensor and its pointer as the next argument.
struct gpu_tensor *gpu_case_tensor(struct gpu_case *c, const char *name, enum ref_type type,
                                   uint64_t length, const void *before, const void *after);
/// The pointer of a tensor that was added before, as the next argument too.
void gpu_case_alias(struct gpu_case *c, const struct gpu_tensor *tensor);
/// A scalar; the variable must live as long as the case.
void gpu_case_value(struct gpu_case *c, const void *value, size_t size);

/// Runs the case at many alignments of its tensors (at three if it is a big one) and fails the test
/// with a full report if a byte is not what it should be.
void gpu_check(struct gpu *gpu, struct random *r, struct gpu_case *c);

/// Sizes to test, those that the environment leaves out removed; returns how many.
enum { GPU_MOST_SIZES = 13 };
int gpu_sizes(const struct gpu *gpu, struct random *r, uint64_t sizes[GPU_MOST_SIZES]);

#endif
