// SPDX-License-Identifier: MIT
/// What the ranks share: the numbers of the gradient, the results of each rank, and the checks.
#ifndef PTXGEN_EXAMPLES_SHARDED_WORLD_H
#define PTXGEN_EXAMPLES_SHARDED_WORLD_H

#include <pthread.h>
#include <stdatomic.h>

#include "rank.h"

enum { MAX_RANKS = 8, OWN_PARTS = 2, RANK_PARTS = OWN_PARTS + 1 };

/// Ways to clip, tried one after the other, each with the same gradients.
enum round {
    DIRECT,   ///< launched
    CAPTURED, ///< as a graph
    INFINITE, ///< launched, with an infinity among the last rank's gradients
    ROUNDS
};

struct world {
    int ranks;
    struct nccl nccl;
    pthread_barrier_t barrier;
    atomic_bool failed;
    /// Each rank's own parts, then its copy of the shared part, which has the same host memory.
    struct part parts[MAX_RANKS][RANK_PARTS];
};

/// The thread of a rank.
struct task {
    struct world *world;
    int ordinal;
    struct rank rank;
    double local_sum;
    struct outcome outcomes[ROUNDS];
    float microseconds[2]; ///< time of a clip: launched, captured
    char message[512];
};

/// Odd sizes, different on each rank. Returns false if memory runs out; call free_parts() in both
/// cases.
bool make_parts(struct world *world, uint64_t elements);
void free_parts(struct world *world);
size_t rank_bytes(const struct part *parts);
/// Of the whole gradient, with the shared part counted once. Relative error at most 2^-40.
long double exact_norm(const struct world *world);

/// Each check prints its result and returns whether it passed.
bool sums_right(const struct world *world, const struct task *tasks);
bool ranks_agree(const struct world *world, const struct task *tasks);
bool infinity_right(const struct world *world, const struct task *tasks);
/// Runs one GPU with the whole gradient, with its own sum and with the ranks' sum.
bool one_agrees(const struct world *world, const struct task *tasks);

#endif
