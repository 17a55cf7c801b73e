// SPDX-License-Identifier: MIT
/// What the examples share: the way from a written kernel to a checked result.
///
/// main() is here: `--emit` prints the PTX; without it the example runs, and the exit status is 0
/// if its result is right, 1 if not, 77 if there is no GPU. Errors stick: after the first one the
/// calls do nothing.
#ifndef PTXGEN_EXAMPLES_HOST_H
#define PTXGEN_EXAMPLES_HOST_H

#include <ptxgen/ptxgen.h>

struct host;

struct example {
    const char *entry;
    void (*build)(ptx_builder *b);
    /// Runs the kernel and says whether it gave what plain C gives.
    bool (*run)(struct host *host);
};

/// The file's kernel.
extern const struct example example;

/// Device memory with a copy of `data`, freed at the end.
CUdeviceptr host_upload(struct host *host, const void *data, size_t bytes);
/// Device memory filled with zeros, freed at the end.
CUdeviceptr host_zeros(struct host *host, size_t bytes);
/// Launches the example's kernel.
void host_launch(struct host *host, unsigned blocks, const struct ptx_arg *args, size_t count);
/// Waits for the GPU and copies memory of host_upload() or host_zeros() back, from its start.
bool host_download(struct host *host, CUdeviceptr from, void *data, size_t bytes);

/// The next of a fixed series of pseudo-random numbers.
static inline uint32_t host_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/// n numbers from `low` up to `high`.
static inline void host_random_floats(float *x, size_t n, float low, float high)
{
    uint32_t state = (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        x[i] = low + (high - low) * 0x1p-24f * (float)host_random(&state);
}

#endif
