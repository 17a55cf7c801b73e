// SPDX-License-Identifier: MIT
// The device of the launch fuzzer, and one launch on it.
#ifndef PTXGEN_TESTS_FUZZ_LAUNCH_H
#define PTXGEN_TESTS_FUZZ_LAUNCH_H

#include "cuda/extensions.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

// Call it for text that does not load. Another fuzzer tests the errors, and no mutation of such
// text loads either.
void fuzz_forget(void);

// Requires what must hold for every input.
static inline void require(bool holds)
{
    if (!holds)
        abort();
}

enum { BUFFERS = 16, BUFFER_BYTES = 1024 };

struct device {
    CUcontext context;
    CUstream stream;
    CUdeviceptr buffers[BUFFERS]; // one allocation each; the last is never written by the host
    CUdeviceptr freed;
    unsigned char *pinned; // BUFFER_BYTES
    size_t available;      // bytes of memory, with no module loaded
    bool module_lives;     // it was not destroyed with the context
};

struct recipe {
    const uint8_t *at, *end;
};

struct launch {
    const char *text;
    CUfunction function;
    uint8_t way;        // how it is launched: see launch_run()
    uint32_t attribute; // of cuLaunchKernelEx()
    uint32_t grid[3], block[3], shared;
    void *params[65];
    unsigned param_count;
    size_t param_bytes;
};

// The device, with its buffers as at the beginning of each input.
struct device *device_ready(void);
// After an input: requires that nothing allocated for it is left. `heap`: what kernels took with
// malloc() may be left, until its context ends.
void device_check(struct device *device, bool heap);
// A module, loaded in one of three ways: as text, from a library, through the linker.
struct loaded {
    CUmodule module;
    CUlibrary library;
};

bool load(struct loaded *loaded, unsigned way, const char *text);
// `lives`: the context of the module still exists.
void unload(const struct loaded *loaded, bool lives);

// Launches and waits. After a fault the context works again.
void launch_run(struct device *device, const struct launch *launch);

#endif
