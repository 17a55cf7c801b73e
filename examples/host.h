// SPDX-License-Identifier: MIT
/// What the examples share: everything from a written kernel to a checked result.
///
/// host.c has main(). The arguments are sizes, in the order of struct example, and a type of
/// elements where the example takes one: `softmax bf16 100 4096`. With `--emit` it prints the PTX.
/// Otherwise it runs the example; the exit status is 0 if the result is right, 1 if not, 2 for
/// wrong arguments, 77 if there is no GPU. Errors are sticky: after the first one the calls do
/// nothing.
#ifndef PTXGEN_EXAMPLES_HOST_H
#define PTXGEN_EXAMPLES_HOST_H

#include <ptxgen/ptxgen.h>

enum { HOST_MAX_SIZES = 3 };

struct host;

struct example {
    const char *name;
    void (*build)(ptx_builder *b);
    /// Runs the kernels and returns whether the results equal those of plain C.
    bool (*run)(struct host *host);
    /// Sizes: their names, ended by NULL, and what they are by default.
    const char *size_names[HOST_MAX_SIZES + 1];
    uint32_t sizes[HOST_MAX_SIZES];
    /// The type of elements by default, PTX_F32 or PTX_BF16; PTX_NONE: it has one and takes none.
    ptx_type type;
};

/// The example; main() replaces sizes and type by those of the command line before build().
extern struct example example;

/// Device memory with a copy of `data`; freed at exit.
CUdeviceptr host_upload(struct host *host, const void *data, size_t bytes);
/// Device memory filled with zeros; freed at exit.
CUdeviceptr host_zeros(struct host *host, size_t bytes);
/// The same for n elements of PTX_F32 or PTX_BF16; `x` is rounded to the type first.
CUdeviceptr host_upload_floats(struct host *host, ptx_type type, float *x, size_t n);
/// Launches an entry of the example's module.
void host_launch(struct host *host, const char *entry, const struct ptx_launch_params *params);
/// Waits for the GPU and copies memory of host_upload() or host_zeros() to the host, from its
/// start.
bool host_download(struct host *host, CUdeviceptr from, void *data, size_t bytes);
/// The same for n elements of the type.
bool host_download_floats(struct host *host, ptx_type type, CUdeviceptr from, float *x, size_t n);

/// Memory on the host, zeros; freed at exit. NULL, and an error, if there is none.
void *host_alloc(struct host *host, size_t count, size_t bytes);
/// n pseudo-random numbers between `low` and `high`, in memory of host_alloc().
float *host_random_array(struct host *host, size_t n, float low, float high);

/// The next number of a fixed pseudo-random sequence.
static inline uint32_t host_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/// n pseudo-random numbers between `low` and `high`.
static inline void host_random_floats(float *x, size_t n, float low, float high)
{
    uint32_t state = (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        x[i] = low + (high - low) * 0x1p-24f * (float)host_random(&state);
}

#endif
