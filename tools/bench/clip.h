// SPDX-License-Identifier: MIT
/// The time that a clip plan takes for a set of gradients.
#ifndef PTXGEN_TOOLS_BENCH_CLIP_H
#define PTXGEN_TOOLS_BENCH_CLIP_H

#include "bench/set.h"

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
