// SPDX-License-Identifier: MIT
#include "qk_clip_fixture.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

unsigned qk_clips_slot(const struct qk_clips *clips, const struct ptx_qk_clip *clip)
{
    return (unsigned)((clip->factor_at - ptx_buffer_address(clips->memory)) / sizeof(float));
}

bool qk_clips_has(const struct ptx_muon_range *r, uint64_t lines, uint64_t line)
{
    const uint64_t stride = r->stride ? r->stride : lines;
    const uint64_t turn = line / stride, place = line % stride;

    return place >= r->first && place < r->first + r->run &&
           turn * stride + r->first + r->run <= lines;
}

// The factor of each element, of the entries as they are said to be.
static void spread(struct qk_clips *clips, const struct step_set *set)
{
    for (size_t k = 0; k < clips->count; k++) {
        const size_t t = clips->entry[k].tensor;
        for (uint64_t i = 0; i < set->tensors[t].count; i++)
            clips->of[t][i] = 1;
    }
    for (size_t k = 0; k < clips->count; k++) {
        const struct ptx_qk_clip *clip = &clips->entry[k];
        const struct ptx_step_tensor *tensor = &set->tensors[clip->tensor];
        const uint64_t columns = tensor->columns, rows = tensor->count / columns;
        for (uint64_t i = 0; i < tensor->count; i++)
            if (qk_clips_has(&clip->range, clip->range.columns ? columns : rows,
                             clip->range.columns ? i % columns : i / columns))
                clips->of[clip->tensor][i] = clips->factor[qk_clips_slot(clips, clip)];
    }
}

void qk_clips_add(struct qk_clips *clips, struct random *r, size_t t, uint64_t first, uint64_t run,
                  uint64_t stride, bool columns)
{
    assert_true(clips->count < QK_MOST_CLIPS);
    clips->entry[clips->count++] = (struct ptx_qk_clip) {
        .tensor = t,
        .range = { first, run, stride, columns },
        .factor_at =
            ptx_buffer_address(clips->memory) + sizeof(float) * random_below(r, QK_FACTORS),
    };
}

// Runs of lines with gaps, or two ranges that take turns.
static void add_of_tensor(struct qk_clips *clips, struct step_set *set, struct random *r, size_t t)
{
    struct ptx_step_tensor *tensor = &set->tensors[t];
    uint64_t width = 1 + random_below(r, (uint32_t)(tensor->count < 700 ? tensor->count : 700));

    while (tensor->count % width)
        width--;
    if (tensor->columns)
        width = tensor->columns;
    tensor->columns = width;
    const bool columns = random_below(r, 2);
    const uint64_t lines = columns ? width : tensor->count / width;
    clips->of[t] = malloc(tensor->count * sizeof(float));
    assert_non_null(clips->of[t]);
    set->factors[t] = clips->of[t];
    if (lines > 8 && random_below(r, 2)) {
        const uint64_t run = 1 + random_below(r, (uint32_t)lines / 4);
        qk_clips_add(clips, r, t, 0, run, 3 * run, columns);
        qk_clips_add(clips, r, t, 2 * run, run, 3 * run, columns);
        return;
    }
    for (uint64_t at = 0, n = 0; at < lines && n < 6; n++) {
        const uint64_t run = 1 + random_below(r, (uint32_t)(lines - at));
        qk_clips_add(clips, r, t, at, run, 0, columns);
        at += run + random_below(r, 3);
    }
}

void qk_clips_create(struct qk_clips *clips, struct step_set *set, struct random *r,
                     ptx_buffer *memory)
{
    *clips = (struct qk_clips) { .memory = memory };
    for (size_t t = 0; t < set->count && clips->count < QK_MOST_CLIPS - 8; t++)
        if (set->tensors[t].count && random_below(r, 4))
            add_of_tensor(clips, set, r, t);
}

void qk_clips_destroy(struct qk_clips *clips)
{
    for (size_t t = 0; t < STEP_MOST_TENSORS; t++)
        free(clips->of[t]);
    clips->count = 0;
}

void qk_clips_set(struct qk_clips *clips, const struct step_set *set, struct random *r, bool any)
{
    const float some[] = { 1, 1, 0.5f, 0.70710677f, 0.9990005f, 1.25f };
    const float others[] = { 1, 0, -0.0f, -1.5f, NAN, INFINITY, 0x1p-149f, 0x1p127f };

    for (unsigned k = 0; k < QK_FACTORS; k++)
        clips->factor[k] = any ? others[random_below(r, sizeof others / sizeof *others)]
                               : some[random_below(r, sizeof some / sizeof *some)];
    require_done(
        ptx_buffer_upload(clips->memory, 0, clips->factor, sizeof clips->factor, gpu.stream));
    spread(clips, set);
}
