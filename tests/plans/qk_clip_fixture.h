// SPDX-License-Identifier: MIT
/// Random factors of rows and columns for a set of tensors, and what they make of each element.
#ifndef PTXGEN_TESTS_QK_CLIP_FIXTURE_H
#define PTXGEN_TESTS_QK_CLIP_FIXTURE_H

#include "step_fixture.h"

enum { QK_MOST_CLIPS = 64, QK_FACTORS = 8 };

struct qk_clips {
    ptx_buffer *memory; ///< begins with the factors, which entries share
    struct ptx_qk_clip entry[QK_MOST_CLIPS];
    size_t count;
    float factor[QK_FACTORS];
    float *of[STEP_MOST_TENSORS]; ///< of the elements; NULL: the tensor has no entry
};

/// Entries for some of the set's tensors, whose `columns` it sets where they are 0.
void qk_clips_create(struct qk_clips *clips, struct step_set *set, struct random *r,
                     ptx_buffer *memory);
void qk_clips_destroy(struct qk_clips *clips);
/// One entry.
void qk_clips_add(struct qk_clips *clips, struct random *r, size_t t, uint64_t first, uint64_t run,
                  uint64_t stride, bool columns);
/// The index of an entry's factor.
unsigned qk_clips_slot(const struct qk_clips *clips, const struct ptx_qk_clip *clip);
/// Whether a range has that line of so many.
bool qk_clips_has(const struct ptx_muon_range *r, uint64_t lines, uint64_t line);
/// New factors, on the device and for the set's elements. `any`: NaN, infinity and negative ones,
/// too.
void qk_clips_set(struct qk_clips *clips, const struct step_set *set, struct random *r, bool any);

#endif
