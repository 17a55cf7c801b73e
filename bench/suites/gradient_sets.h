// SPDX-License-Identifier: MIT
/// Gradients of common models, as lists of tensors.
#ifndef PTXGEN_BENCH_GRADIENT_SETS_H
#define PTXGEN_BENCH_GRADIENT_SETS_H

#include <ptxgen/clip.h>

struct gradient_list;

struct gradient_set {
    const char *name;
    void (*list)(struct gradient_list *list, int first, int second); ///< adds the tensors
    int first, second;                                               ///< arguments of `list`
};

/// Set `k`, or NULL past the last.
const struct gradient_set *gradient_set_at(size_t k);
/// Fills count and group of each tensor; with NULL only counts them. Returns the number of tensors.
size_t gradient_set_list(const struct gradient_set *set, struct ptx_clip_tensor *tensors);
/// The number of elements of all its tensors.
uint64_t gradient_set_elements(const struct gradient_set *set);

#endif
