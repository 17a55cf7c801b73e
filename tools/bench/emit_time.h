// SPDX-License-Identifier: MIT
// What it takes to write a kernel's text: the time of the processor, memory and allocations from
// ptx_builder_create() to ptx_builder_destroy().
#ifndef PTXGEN_TOOLS_BENCH_EMIT_TIME_H
#define PTXGEN_TOOLS_BENCH_EMIT_TIME_H

#include <ptxgen/kernels.h>

struct emit_time {
    double best, median;  // seconds of this thread's processor time for one text
    size_t instructions;  // in the text
    size_t text_bytes;    // without the terminating NUL
    size_t peak_bytes;    // ptx_builder_peak_bytes()
    unsigned allocations; // calls that asked for memory, the builder's own block included
    char error[256];      // of the builder, if there is no result
};

// Writes the kernel `samples` times `batch` times: `best` and `median` are of the samples, each the
// mean of its batch, since a clock's own time is not small beside a text's. False, with `error`, if
// the kernel cannot be written.
bool emit_time(const ptx_kernel *kernel, const struct ptx_kernel_spec *spec,
               struct ptx_target target, unsigned samples, unsigned batch, struct emit_time *time);

#endif
