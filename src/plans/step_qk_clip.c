// SPDX-License-Identifier: MIT
// The factors of a step plan's rows and columns: checks, and the tables that the step reads.
#include "step_qk_clip.h"

#include <inttypes.h>
#include <stdlib.h>

#include "driver/error.h"

// ---- checks -------------------------------------------------------------------------------------

static uint64_t lines_of(const struct ptx_step_tensor *tensor, bool by_columns)
{
    return by_columns ? tensor->columns : tensor->count / tensor->columns;
}

static const char *kind_of(bool by_columns)
{
    return by_columns ? "columns" : "rows";
}

static ptx_status check_tensor(size_t k, const struct ptx_qk_clip *clip,
                               const struct ptx_step_tensor *tensor)
{
    if (!tensor->columns || tensor->count % tensor->columns)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "qk_clips[%zu]: columns of tensor %zu is %" PRIu64 ", and it has %" PRIu64
                         " elements: give the length of its rows; a shard has whole rows",
                         k, clip->tensor, tensor->columns, tensor->count);
    if (tensor->count > INT32_MAX)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "qk_clips[%zu]: tensor %zu has %" PRIu64
                         " elements; one with factors has at most 2^31 - 1",
                         k, clip->tensor, tensor->count);
    return PTX_OK;
}

static ptx_status check_range(size_t k, const struct ptx_qk_clip *clip,
                              const struct ptx_step_tensor *tensor)
{
    const struct ptx_muon_range *r = &clip->range;
    const uint64_t lines = lines_of(tensor, r->columns);

    if (!r->run || r->first >= lines || r->run > lines - r->first)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "qk_clips[%zu]: first %" PRIu64 " and run %" PRIu64
                         " are not within the %" PRIu64 " %s of tensor %zu",
                         k, r->first, r->run, lines, kind_of(r->columns), clip->tensor);
    if (r->stride && r->stride < r->first + r->run)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "qk_clips[%zu]: its stride is %" PRIu64 ", below first + run, %" PRIu64, k,
                         r->stride, r->first + r->run);
    return PTX_OK;
}

static ptx_status check(const struct ptx_step_params *params, size_t k)
{
    const struct ptx_qk_clip *clip = &params->qk_clips[k];

    if (clip->tensor >= params->tensor_count)
        return ptxd_fail(PTX_ERROR_INVALID, "qk_clips[%zu]: its tensor is %zu; the plan has %zu", k,
                         clip->tensor, params->tensor_count);
    if (!clip->factor_at || clip->factor_at % sizeof(float))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "qk_clips[%zu]: factor_at is 0x%llx; it must be the address of an f32, a "
                         "multiple of 4",
                         k, (unsigned long long)clip->factor_at);
    const struct ptx_step_tensor *tensor = &params->tensors[clip->tensor];
    if (!tensor->count)
        return PTX_OK;
    const ptx_status status = check_tensor(k, clip, tensor);
    return status ? status : check_range(k, clip, tensor);
}

// ---- which line has which entry -----------------------------------------------------------------

// Room for the lines of each tensor that has an entry, and one behind them.
static ptx_status place(const struct ptx_step_params *params, struct qk_set *set)
{
    for (size_t k = 0; k < params->qk_clip_count; k++) {
        const struct ptx_qk_clip *clip = &params->qk_clips[k];
        const struct ptx_step_tensor *tensor = &params->tensors[clip->tensor];
        struct qk_tensor *of = &set->tensors[clip->tensor];
        if (!tensor->count)
            continue;
        if (of->lines && of->by_columns != clip->range.columns)
            return ptxd_fail(PTX_ERROR_INVALID,
                             "qk_clips[%zu] is of %s of tensor %zu, and qk_clips[%zu] of %s: they "
                             "overlap",
                             k, kind_of(clip->range.columns), clip->tensor, of->entry,
                             kind_of(of->by_columns));
        if (of->lines)
            continue;
        *of = (struct qk_tensor) { .first = set->count,
                                   .lines = (uint32_t)lines_of(tensor, clip->range.columns),
                                   .by_columns = clip->range.columns,
                                   .entry = k };
        set->count += of->lines + UINT64_C(1);
    }
    return PTX_OK;
}

static ptx_status own(const struct ptx_step_params *params, struct qk_set *set, size_t k)
{
    const struct ptx_qk_clip *clip = &params->qk_clips[k];
    const struct ptx_muon_range *r = &clip->range;
    const struct qk_tensor *of = &set->tensors[clip->tensor];
    const uint64_t runs =
        r->stride && of->lines ? (of->lines - r->first - r->run) / r->stride + 1 : of->lines != 0;

    for (uint64_t n = 0; n < runs; n++)
        for (uint64_t i = 0; i < r->run; i++) {
            const uint64_t line = r->first + n * r->stride + i;
            uint32_t *entry = &set->entry[of->first + line];
            if (*entry)
                return ptxd_fail(PTX_ERROR_INVALID,
                                 "qk_clips[%" PRIu32 "] and qk_clips[%zu] overlap: both have %s "
                                 "%" PRIu64 " of tensor %zu",
                                 *entry - 1, k, of->by_columns ? "column" : "row", line,
                                 clip->tensor);
            *entry = (uint32_t)k + 1;
        }
    return PTX_OK;
}

ptx_status ptxp_qk_create(const struct ptx_step_params *params, struct qk_set *set)
{
    const size_t count = params->qk_clip_count;
    ptx_status status = PTX_OK;

    *set = (struct qk_set) { 0 };
    if (!count)
        return PTX_OK;
    if (!params->qk_clips)
        return ptxd_fail(PTX_ERROR_INVALID, "qk_clips is NULL, and qk_clip_count is %zu", count);
    if (count >= INT32_MAX)
        return ptxd_fail(PTX_ERROR_INVALID, "qk_clip_count is %zu; a plan takes 2^31 - 2", count);
    for (size_t k = 0; k < count && !status; k++)
        status = check(params, k);
    if (status)
        return status;
    set->tensors = calloc(params->tensor_count, sizeof *set->tensors);
    status = set->tensors
                 ? place(params, set)
                 : ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for a step plan");
    if (!status && set->count) {
        set->entry = calloc((size_t)set->count, sizeof *set->entry);
        if (!set->entry)
            status = ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for a step plan");
    }
    for (size_t k = 0; k < count && !status; k++)
        status = own(params, set, k);
    if (status)
        ptxp_qk_free(set);
    return status;
}

void ptxp_qk_free(struct qk_set *set)
{
    free(set->tensors);
    free(set->entry);
    *set = (struct qk_set) { 0 };
}

bool ptxp_qk_has(const struct qk_set *set, size_t t)
{
    return set->tensors && set->tensors[t].lines;
}

// ---- tables -------------------------------------------------------------------------------------

void ptxp_qk_fill(const struct ptx_step_params *params, const struct step_layout *layout,
                  CUdeviceptr memory, unsigned char *image)
{
    const struct qk_set *set = &layout->qk;
    const CUdeviceptr one = memory + layout->qk_one.offset;
    struct step_qk_row *rows = (void *)(image + layout->qk_rows.offset);
    uint64_t *factors = (void *)(image + layout->qk_factors.offset);

    if (!set->count)
        return;
    *(float *)(void *)(image + layout->qk_one.offset) = 1;
    for (size_t t = 0; t < params->tensor_count; t++) {
        const struct qk_tensor *of = &set->tensors[t];
        if (of->lines)
            rows[t] = (struct step_qk_row) {
                .factors = memory + layout->qk_factors.offset + of->first * sizeof *factors,
                .columns = (uint32_t)params->tensors[t].columns,
                .lines = 2 * of->lines + of->by_columns,
            };
    }
    for (uint64_t k = 0; k < set->count; k++)
        factors[k] = set->entry[k] ? params->qk_clips[set->entry[k] - 1].factor_at : one;
}

size_t ptxp_qk_arrays(const struct ptx_step_params *params, struct plan_array *to)
{
    size_t n = 0;

    for (size_t k = 0; k < params->qk_clip_count; k++)
        if (params->tensors[params->qk_clips[k].tensor].count)
            to[n++] = (struct plan_array) { .at = params->qk_clips[k].factor_at,
                                            .count = 1,
                                            .bytes = sizeof(float),
                                            .tensor = ARRAY_OF_QK_CLIP,
                                            .group = (uint32_t)k,
                                            .field = "factor_at",
                                            .effect = "the step would overwrite the factor",
                                            .read_only = true };
    return n;
}
