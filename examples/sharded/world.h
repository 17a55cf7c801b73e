// SPDX-License-Identifier: MIT
/// What the ranks have in common: the gradient's numbers, what each came to, and how it is checked.
#ifndef PTXGEN_EXAMPLES_SHARDED_WORLD_H
#define PTXGEN_EXAMPLES_SHARDED_WORLD_H

#include <pthread.h>
#include <stdatomic.h>

#include "rank.h"

enum { MAX_RANKS = 8, OWN_PARTS = 2, RANK_PARTS = OWN_PARTS + 1 };

/// Ways to clip, one after the other, each from the same gradients.
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
    /// Each rank's own parts, then its copy of the shared one, whose numbers are the same memory.
    struct part parts[MAX_RANKS][RANK_PARTS];
};

/// A rank's thread.
struct task {
    struct world *world;
    int ordinal;
    struct rank rank;
    double local_sum;
    struct outcome outcomes[ROUNDS];
    float microseconds[2]; ///< of a clip: launched, captured
    char message[512];
};

/// Odd sizes, which differ from rank to rank. False if memory runs out; free_parts() all the same.
bool make_parts(struct world *world, uint64_t elements);
void free_parts(struct world *world);
size_t rank_bytes(const struct part *parts);
/// Of the whole gradient, the shared part once. Exact to 2^-40 of it at the least.
long double exact_norm(const struct world *world);

/// Each says what is so, and returns whether it should be.
bool sums_right(const struct world *world, const struct task *tasks);
bool ranks_agree(const struct world *world, const struct task *tasks);
bool infinity_right(const struct world *world, const struct task *tasks);
/// Runs one GPU with all of the gradient, by its own sum and by the ranks'.
bool one_agrees(const struct world *world, const struct task *tasks);

#endif
