// SPDX-License-Identifier: MIT
// How a plan's time grows: with the bytes of one tensor, and with the number of tensors that the
// same bytes are in.
#include "bench/clip.h"

#include <inttypes.h>
#include <stdio.h>

/// What is measured, as powers of 2 and of 10.
struct range {
    unsigned smallest, largest; ///< log2 of the elements of one tensor
    unsigned total;             ///< log2 of the elements of many
    unsigned most;              ///< log10 of how many these are
    uint64_t copy;              ///< bytes of the yardstick
};

static const struct range on_gpu = { 20, 33, 27, 5, UINT64_C(1) << 30 };
static const struct range on_emulator = { 10, 16, 14, 2, UINT64_C(1) << 17 };

/// Counts a set, if it is wanted; measures it where there are sums.
static bool one(struct bench *b, size_t tensors, uint64_t elements, const struct bench_sums *sums,
                size_t *count)
{
    static const struct bench_clip_parts parts;
    char name[96];
    struct bench_set set;
    snprintf(name, sizeof(name), "%zu x %" PRIu64, tensors, elements);
    if (!bench_is_wanted(b, name))
        return true;
    *count += bench_clip_steps(parts);
    if (!sums)
        return true;
    bool done = bench_set_create(b, &set, name, sums->dtype, tensors);
    if (done) {
        for (size_t t = 0; t < tensors; t++)
            set.tensors[t].count = elements;
        bench_set_place(&set);
        done = bench_clip(b, &set, sums, parts);
    }
    bench_set_destroy(b, &set);
    return done;
}

static bool all(struct bench *b, const struct range *range, const struct bench_sums *sums,
                size_t *count)
{
    *count = 0;
    for (unsigned k = range->smallest; k <= range->largest; k++)
        if (!one(b, 1, UINT64_C(1) << k, sums, count))
            return false;
    // One tensor of as many elements is among the above.
    size_t tensors = 10;
    for (unsigned k = 1; k <= range->most; k++, tensors *= 10)
        if (!one(b, tensors, (UINT64_C(1) << range->total) / tensors, sums, count))
            return false;
    return true;
}

bool bench_suite_growth(struct bench *b)
{
    const struct range *range = b->emulated ? &on_emulator : &on_gpu;
    struct bench_sums sums = { 0 };
    size_t steps;
    all(b, range, NULL, &steps);
    if (steps == 0)
        return true;
    bench_steps(b, 1, steps);
    bool done = bench_copy(b, range->copy) && bench_sums_create(b, &sums, PTX_BF16) &&
                all(b, range, &sums, &steps);
    bench_sums_destroy(&sums);
    return done;
}
