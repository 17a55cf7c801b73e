// SPDX-License-Identifier: MIT
/// Runs a kernel on the GPU, with guard bytes around its memory, and compares every byte.
///
/// PTXGEN_LIBCUDA may name any libcuda, the emulator's too. Environment:
///   PTXGEN_TEST_SEED      seed of the random data, sizes and alignments; printed at the start
///   PTXGEN_TEST_LARGE     0 excludes more than 10^6 elements
///   PTXGEN_TEST_MAX_SIZE  the greatest number of elements
///   PTXGEN_TEST_VARIANTS  of a kernel's options: 0: each value; 1, the default: each combination;
///                         2: each value beside each of every other in f32 and bf16, each value in
///                         the other types
///   PTXGEN_TEST_FILTER    names of tests to run, with * and ?
///   PTXGEN_TEST_BUFFERS   own: each tensor has a buffer of its own, some without guard bytes, so
///   that a
///                         memory checker sees the ends; shared: the runs of a case share a buffer,
///                         and are copied and waited for once. Default: own on the emulator
#ifndef PTXGEN_TESTS_GPU_H
#define PTXGEN_TESTS_GPU_H

#include <ptxgen/ptxgen.h>

#include "random.h"
#include "reference/reference.h"
#include "variants.h"

/// The one that a program opens.
extern struct gpu {
    ptx_device *device;
    CUstream stream;
    uint64_t seed;
    uint64_t max_size;
    uint64_t variants; // PTXGEN_TEST_VARIANTS
    const char *limit; // the variable that limits them
    bool own_buffers;
    // What the runs of a case share, of so many bytes:
    ptx_buffer *shared;
    void *host; // pinned
    size_t shared_bytes;
    struct {
        void *object;
        void (*destroy)(void *object);
    } owned[32];
    size_t owns;
} gpu;

/// Without a GPU, exits with 77 and one line. If there is a GPU that cannot be used, exits with 1.
void gpu_open(void);
/// The same, for tests of what a GPU has from this target on: ends the program as skipped below it.
void gpu_open_from(int least_sm);
void gpu_close(void);
/// gpu_close() is to destroy what the object has, at an address that stays. Of one that it owns
/// already, this destroys what it has now.
void gpu_owns(void *object, void (*destroy)(void *object));
/// Makes a buffer, which the GPU owns, or ends the program.
void gpu_buffer(ptx_buffer **buffer, size_t bytes);
/// Opens it unless it is open, runs the program's tests (test.h), and closes it. Returns what
/// tests_run() does.
int gpu_tests_run(void);
/// The main() of a program that does no more.
#define GPU_MAIN                                                                                   \
    int main(void)                                                                                 \
    {                                                                                              \
        return gpu_tests_run();                                                                    \
    }
/// A generator that depends only on the seed and the name.
struct random gpu_random(const char *name);

/// A loaded variant of a kernel.
struct gpu_kernel {
    const ptx_kernel *kernel;
    struct ptx_kernel_spec spec;
    struct ptx_target target;
    enum ref_type type;
    char name[VARIANT_NAME_SIZE];
    char *text;
    ptx_module *module;
    const ptx_function *function;
    bool *launched; ///< over at least one element
};

/// The target of the device: the newest one without a suffix that both it and its driver accept.
struct ptx_target gpu_target(void);
/// Fails the test if the kernel cannot be built or loaded.
void gpu_kernel_load(const ptx_kernel *kernel, const struct ptx_kernel_spec *spec,
                     struct ptx_target target, struct gpu_kernel *loaded);
void gpu_kernel_unload(struct gpu_kernel *loaded);
/// Loads the variants of a dtype. For bf16 and for kernels with floats of 8 bits also those for
/// sm_70, with integer arithmetic in place of conversions. Returns the number.
enum { GPU_MOST_VARIANTS = 64 };
int gpu_load_variants(const ptx_kernel *kernel, ptx_type dtype,
                      struct gpu_kernel loaded[GPU_MOST_VARIANTS]);
/// Writes the text to a file that remains after the test, and prints its path on standard error.
void gpu_report_text(const struct gpu_kernel *loaded);
enum ref_type gpu_ref_type(ptx_type dtype);
/// Element `i` of an array of f32, f16 or bf16 on the host, every bit of it; and sets it.
float gpu_element(ptx_type type, const void *from, uint64_t i);
void gpu_set_element(ptx_type type, void *to, uint64_t i, float x);
bool gpu_kernel_has(const struct gpu_kernel *loaded, const char *option, const char *value);
/// Launches the kernel over n elements on the stream; does not wait.
ptx_status gpu_launch(const struct gpu_kernel *loaded, uint64_t n, const struct ptx_arg *args,
                      size_t count);
/// The same with a given number of blocks.
ptx_status gpu_launch_grid(const struct gpu_kernel *loaded, unsigned grid,
                           const struct ptx_arg *args, size_t count);

/// A pointer argument.
struct gpu_tensor {
    const char *name;
    enum ref_type type; ///< how elements are compared; REF_F32 also for other 32-bit types
    uint64_t length;
    const void *before;  ///< contents; NULL: a fixed pattern, and every element must be written
    const void *after;   ///< contents after the run; NULL: unchanged
    bool exact;          ///< the bits of f64 NaNs must be equal too
    CUdeviceptr address; ///< gpu_check() sets it
};

enum { GPU_MOST_TENSORS = 8, GPU_MOST_ARGS = 16 };

/// One launch. Arguments point into it, so it must stay where it is.
struct gpu_case {
    const struct gpu_kernel *kernel;
    uint64_t n;
    unsigned grid; ///< blocks; 0: the kernel's geometry decides
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
/// Adds the pointer of an earlier tensor as the next argument.
void gpu_case_alias(struct gpu_case *c, const struct gpu_tensor *tensor);
/// Adds a scalar. The variable must live as long as the case.
void gpu_case_value(struct gpu_case *c, const void *value, size_t size);

/// Runs the case at many alignments of its tensors (at three for a large case). Fails the test with
/// a full report if any byte is wrong.
void gpu_check(struct random *r, struct gpu_case *c);

/// The sizes to test, without those that the environment excludes. Returns the number.
enum { GPU_MOST_SIZES = 13 };
int gpu_sizes(struct random *r, uint64_t sizes[GPU_MOST_SIZES]);

#endif
