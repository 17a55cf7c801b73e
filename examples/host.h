// SPDX-License-Identifier: MIT
/// What the examples share: everything from a written kernel to a checked result.
///
/// host.c has main(). With `--emit` it prints the PTX. Otherwise it runs the example; the exit
/// status is 0 if the result is right, 1 if not, 77 if there is no GPU. Errors are sticky: after
/// the first one the calls do nothing.
#ifndef PTXGEN_EXAMPLES_HOST_H
#define PTXGEN_EXAMPLES_HOST_H

#include <ptxgen/ptxgen.h>

struct host;

struct example {
    const char *entry;
    void (*build)(ptx_builder *b);
    /// Runs the kernel and returns whether the result equals that of plain C.
    bool (*run)(struct host *host);
};

/// Writes the kernel of the example.
extern const struct example example;

/// Device memory with a copy of `data`; freed at exit.
CUdeviceptr host_upload(struct host *host, const void *data, size_t bytes);
/// Device memory filled with zeros; freed at exit.
CUdeviceptr host_zeros(struct host *host, size_t bytes);
/// Launches the example's kernel.
void host_launch(struct host *host, unsigned blocks, const struct ptx_arg *args, size_t count);
/// Waits for the GPU and copies memory of host_upload() or host_zeros() to the host, from its
/// start.
bool host_download(struct host *host, CUdeviceptr from, void *data, size_t bytes);

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
