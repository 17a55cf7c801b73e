// SPDX-License-Identifier: MIT
/// Gradients of known sum, and the time that clip plans take for them.
#ifndef PTXGEN_TOOLS_BENCH_SET_H
#define PTXGEN_TOOLS_BENCH_SET_H

#include "bench.h"

/// The sums of squares of the first k random words, for k from 0 to BENCH_PERIOD.
struct bench_sums {
    ptx_type dtype;
    double *sums;
};

bool bench_sums_create(struct bench *b, struct bench_sums *sums, ptx_type dtype);
void bench_sums_destroy(struct bench_sums *sums);

struct bench_set {
    const char *name;
    ptx_type dtype;
    struct ptx_tensor *tensors;
    size_t count;
    uint32_t groups;
    uint64_t elements, bytes;
    uint64_t span; ///< bytes that the tensors take with what is between them
    ptx_buffer *memory;
};

/// A set of tensors whose counts and groups the caller fills in before bench_set_place().
bool bench_set_create(struct bench *b, struct bench_set *set, const char *name, ptx_type dtype,
                      size_t tensors);
/// Lays the tensors out, without memory as yet. Each begins at a multiple of 256 bytes.
void bench_set_place(struct bench_set *set);
void bench_set_destroy(struct bench *b, struct bench_set *set);

/// What is measured of a plan, besides replays of its graph.
struct bench_clip_parts {
    bool eager;  ///< runs, without a graph
    bool host;   ///< what the host takes for a run and for a graph's launch
    bool cold;   ///< replays with L2 swept before, if the set may fit into it
    bool update; ///< replays that update a loss scale
};

/// How many times bench_step() is called by it.
size_t bench_clip_steps(struct bench_clip_parts parts);
/// Allocates the set's memory, checks a run against sums and products made on the host, and
/// measures and reports: with everything scaled, and with nothing to clip. Reports that there is
/// not enough memory, if so.
bool bench_clip(struct bench *b, struct bench_set *set, const struct bench_sums *sums,
                struct bench_clip_parts parts);

#endif
