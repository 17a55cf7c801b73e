// SPDX-License-Identifier: MIT
/// The gradients of models people train, as lists of tensors.
#ifndef PTXGEN_TOOLS_BENCH_GRADIENT_SETS_H
#define PTXGEN_TOOLS_BENCH_GRADIENT_SETS_H

#include <ptxgen/clip.h>

struct gradient_set {
    const char *name;
    size_t (*list)(struct ptx_clip_tensor *tensors, int first, int second);
    int first, second; ///< what `list` is given
};

/// The k-th set, or NULL past the last.
const struct gradient_set *gradient_set_at(size_t k);
/// Fills count and group of each tensor; with NULL, only counts them. Returns how many.
size_t gradient_set_list(const struct gradient_set *set, struct ptx_clip_tensor *tensors);
/// The elements of all its tensors.
uint64_t gradient_set_elements(const struct gradient_set *set);

#endif
