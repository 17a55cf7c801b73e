// SPDX-License-Identifier: MIT
/// Sets of gradients with known sums, and the check that a plan computes those sums and the right
/// gradients.
#ifndef PTXGEN_BENCH_SET_H
#define PTXGEN_BENCH_SET_H

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
    struct ptx_clip_tensor *tensors;
    size_t count;
    uint32_t groups;
    uint64_t elements, bytes;
    uint64_t span; ///< bytes of the tensors, including the gaps between them
    ptx_buffer *memory;
};

/// A set of tensors. The caller fills in their counts and groups before bench_set_place().
bool bench_set_create(struct bench *b, struct bench_set *set, const char *name, ptx_type dtype,
                      size_t tensors);
/// Assigns offsets to the tensors; allocates nothing. Each tensor begins at a multiple of 256
/// bytes.
void bench_set_place(struct bench_set *set);
void bench_set_destroy(struct bench *b, struct bench_set *set);

/// Runs the plan once, with a loss scale and with half of the gradients' norm as the limit.
/// Compares norms and factors of all groups and some elements with values that the host computes
/// from the same random numbers. The set's memory must be as bench_randomize() left it; afterwards
/// the gradients are clipped.
bool bench_set_check(struct bench *b, const struct bench_set *set, ptx_clip_plan *plan,
                     const struct bench_sums *made);

#endif
