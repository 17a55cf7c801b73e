// SPDX-License-Identifier: MIT
/// A clip plan in plain C, with the bits that a GPU must give. Written from the formulas in clip.h
/// and docs/plans.md; shares no code with the library.
#ifndef PTXGEN_TESTS_CLIP_REFERENCE_H
#define PTXGEN_TESTS_CLIP_REFERENCE_H

#include "reference/units.h"

struct ref_gradient {
    enum ref_type type;
    void *data;
    uint64_t count;
    uint32_t group;
    double weight;    ///< 0: the tensor does not count
    uint64_t columns; ///< of units that a step clips; 0: none are
};

struct ref_clip_plan {
    const struct ref_gradient *tensors;
    size_t tensor_count;
    uint32_t group_count;
    const float *max_norms; ///< one for each group
    float eps;
    float found_inf; ///< an input; if not 0, found_inf is set in every group
    enum ref_nonfinite nonfinite;
    bool reports; ///< of a step plan: a warp has a piece of a chunk alone
};

enum { REF_CLIP_PIECES = 32 }; ///< the greatest number of tensors in a chunk

/// The greatest number of elements that a partial sum of the plan covers.
uint64_t ref_clip_chunk(const struct ref_clip_plan *plan);
/// True if small tensors share chunks. Also the number of chunks in that case and in the other.
bool ref_clip_packs(const struct ref_clip_plan *plan);
uint64_t ref_clip_chunk_count(const struct ref_clip_plan *plan, bool packs);
/// Whether a tensor shares its chunk with others; and then, with reports, its sum of squares.
bool ref_clip_shares(const struct ref_clip_plan *plan, size_t t);
double ref_clip_piece_sum(const struct ref_gradient *x);
/// The sum of weighted squares of each group.
void ref_clip_sums(const struct ref_clip_plan *plan, double *sums);
/// record = { factor, norm, found_inf } of one group.
void ref_clip_record(const struct ref_clip_plan *plan, uint32_t group, double sum, float loss_scale,
                     float record[3]);
/// Multiplies the group's tensors.
void ref_clip_apply(const struct ref_clip_plan *plan, uint32_t group, const float record[3]);

#endif
