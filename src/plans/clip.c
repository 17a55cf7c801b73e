// SPDX-License-Identifier: MIT
// Clip plans: the norms' core, and a last launch that scales the gradients.
#include <stdlib.h>

#include <ptxgen/clip.h>

#include "driver/error.h"
#include "driver/nvtx.h"
#include "kernels/clip_apply.h"
#include "norm_plan.h"

struct ptx_clip_plan {
    struct norm_plan norm;
    uint32_t last, tiles, fused; // values of clip_apply
    struct ptx_clip_plan_info info;
};

// ---- the last launch ----------------------------------------------------------------------------

static size_t values_of_apply(const struct norm_plan *norm, bool sets, struct ptx_named_arg *values)
{
    const ptx_clip_plan *plan = (const void *)norm;

    (void)sets;
    values[0] = (struct ptx_named_arg) { "last", PTX_ARG(plan->last) };
    values[1] = (struct ptx_named_arg) { "tiles", PTX_ARG(plan->tiles) };
    values[2] = (struct ptx_named_arg) { "fused", PTX_ARG(plan->fused) };
    return 3;
}

static ptx_status apply(struct norm_plan *norm, uint64_t first, uint64_t count, bool fused,
                        bool overlaps, CUstream stream)
{
    ptx_clip_plan *plan = (void *)norm;
    const uint32_t resident =
        CLIP_APPLY_BLOCKS * (uint32_t)ptx_device_get_info(norm->device)->multiprocessors;
    // A block that reaches a tile of another group would need that group's record, which may not be
    // written yet.
    const bool one_each = fused && norm->layout.group_count > 1;

    plan->last = (uint32_t)(first + count - 1);
    plan->tiles = (uint32_t)(count * ptxk_clip_tiles_of_chunk(&norm->layout.spec));
    plan->fused = fused;
    return ptxp_norm_plan_launch(norm, NORM_LAST,
                                 one_each || plan->tiles < resident ? plan->tiles : resident,
                                 overlaps, stream);
}

// Whether a run computes the factors in the last launch: each block adds the partials of its group,
// which is cheap for few groups or few blocks.
static bool is_fused(const struct norm_params *params, const struct norm_layout *layout)
{
    const uint64_t tiles = layout->chunk_count * ptxk_clip_tiles_of_chunk(&layout->spec);

    return !params->measure_only && !params->sums_at && !layout->spec.guards &&
           (layout->group_count == 1 || tiles <= CLIP_FUSED);
}

static ptx_status prepare(struct norm_plan *norm)
{
    norm->fused = is_fused(&norm->params, &norm->layout);
    return PTX_OK;
}

// The order of phases is the caller's: the sums may be, too, and applying is repeated for windows.
static const struct norm_hooks hooks = {
    .entries = ptxk_clip_entries,
    .name = "clip plan",
    .group = "group",
    .groups = "groups",
    .overlap = "each would be scaled twice there",
    .prepare = prepare,
    .values = values_of_apply,
    .last = apply,
};

// ---- parameters ---------------------------------------------------------------------------------

static ptx_status take_params(const struct ptx_clip_params *params, struct norm_params *norm)
{
    if (!params)
        return ptxd_fail(PTX_ERROR_INVALID, "params is NULL");
    *norm = (struct norm_params) {
        .tensors = params->tensors,
        .tensor_count = params->tensor_count,
        .group_count = params->group_count,
#define CLIP_FIELD(type, name) .name = params->name,
        PTX_NORM_PARAMS(CLIP_FIELD)
#undef CLIP_FIELD
            .nonfinite = params->nonfinite,
        .measure_only = params->measure_only,
        .may_pack = true,
    };
    return PTX_OK;
}

static ptx_status describe(const struct ptx_clip_params *params,
                           struct ptx_clip_description *description)
{
    struct norm_params norm;
    struct norm_layout layout;
    ptx_status status = take_params(params, &norm);

    if (!status)
        status = ptxp_norm_layout_create(&hooks, &norm, &layout);
    if (!status && !description)
        status = ptxd_fail(PTX_ERROR_INVALID, "description is NULL");
    if (status)
        return status;
    const int launches = params->measure_only || is_fused(&norm, &layout) ? 2 : 3;
    const int of_phases = params->measure_only ? 3 : 4;
    const int reports = layout.spec.reports && params->tensor_count;
    *description = (struct ptx_clip_description) {
        .elements = layout.element_count,
        .groups = layout.group_count,
        .chunk = layout.spec.chunk,
        .chunks = layout.chunk_count,
        .launches = (layout.sum_rows > 1 ? of_phases : launches) + reports,
        .bytes_measured = layout.gradient_bytes,
        .bytes_clipped = (params->measure_only ? 1 : 3) * layout.gradient_bytes,
        .workspace = layout.bytes,
        .accumulator = "f64",
        .determinism = "the same bits on every GPU, at any alignment, in any launch form; sums are "
                       "trees that depend on the tensors' sizes, types, groups and order alone",
    };
    return PTX_OK;
}

ptx_status ptx_clip_describe(const struct ptx_clip_params *params,
                             struct ptx_clip_description *description)
{
    return ptxd_named(describe(params, description), __func__);
}

ptx_status ptx_clip_emit(ptx_builder *b, const struct ptx_clip_params *params)
{
    struct norm_params norm;
    struct norm_layout layout;
    ptx_status status = take_params(params, &norm);

    if (!status)
        status = ptxp_norm_layout_create(&hooks, &norm, &layout);
    if (!status)
        ptxk_norm_emit(b, &layout.spec);
    return ptxd_named(status, __func__);
}

// ---- creation -----------------------------------------------------------------------------------

static ptx_status make(ptx_clip_plan *plan, const struct ptx_clip_params *params)
{
    struct norm_params norm;
    ptx_status status = take_params(params, &norm);

    return status ? status : ptxp_norm_plan_create(&plan->norm, &norm);
}

ptx_clip_plan *ptx_clip_plan_create(ptx_device *device, const struct ptx_clip_params *params)
{
    ptxd_range_begin(__func__);
    ptx_clip_plan *plan = ptxp_norm_plan_allocate(device, &hooks, sizeof *plan);

    if (ptxd_named(plan ? make(plan, params) : ptx_error_status(), __func__))
        ptx_clip_plan_destroy(&plan);
    else
        plan->info =
            (struct ptx_clip_plan_info) { plan->norm.all_sums, plan->norm.records,
                                          plan->norm.summary, plan->norm.layout.chunk_count,
                                          plan->norm.guard_state };
    ptxd_range_end();
    return plan;
}

void ptx_clip_plan_destroy(ptx_clip_plan **plan)
{
    if (!plan || !*plan)
        return;
    ptxp_norm_plan_clear(&(*plan)->norm);
    free(*plan);
    *plan = NULL;
}

// ---- runs ---------------------------------------------------------------------------------------

ptx_status ptx_clip_plan_run(ptx_clip_plan *plan, CUstream stream)
{
    return ptxp_norm_plan_run(NORM_OF(plan), __func__, stream);
}

ptx_status ptx_clip_plan_norm_sq(ptx_clip_plan *plan, CUstream stream)
{
    return ptxp_norm_plan_phase(NORM_OF(plan), __func__, NORM_PHASE_SQUARES, stream);
}

ptx_status ptx_clip_plan_finish(ptx_clip_plan *plan, CUstream stream)
{
    return ptxp_norm_plan_phase(NORM_OF(plan), __func__, NORM_PHASE_FINISH, stream);
}

ptx_status ptx_clip_plan_apply(ptx_clip_plan *plan, CUstream stream)
{
    return ptxp_norm_plan_phase(NORM_OF(plan), __func__, NORM_PHASE_LAST, stream);
}

const struct ptx_clip_plan_info *ptx_clip_plan_get_info(const ptx_clip_plan *plan)
{
    return plan ? &plan->info : NULL;
}

ptx_status ptx_clip_plan_read(const ptx_clip_plan *plan, uint32_t first, uint32_t count,
                              struct ptx_clip_record *records, struct ptx_clip_summary *summary,
                              CUstream stream)
{
    return ptxd_named(ptxp_norm_plan_read(NORM_OF(plan), first, count, records, summary, stream),
                      __func__);
}

ptx_status ptx_clip_plan_error_if_nonfinite(ptx_clip_plan *plan, const char *const *names,
                                            CUstream stream)
{
    return ptxp_norm_plan_check_finite(NORM_OF(plan), __func__, names, stream);
}

ptx_status ptx_clip_plan_set_max_norm(ptx_clip_plan *plan, uint32_t group, float max_norm,
                                      CUstream stream)
{
    return ptxp_norm_plan_set_max_norm(NORM_OF(plan), __func__, group, max_norm, stream);
}

ptx_status ptx_clip_plan_set_loss_scale(ptx_clip_plan *plan, struct ptx_loss_scale_state state,
                                        CUstream stream)
{
    return ptxp_norm_plan_set_loss_scale(NORM_OF(plan), __func__, state, stream);
}

ptx_status ptx_clip_plan_set_data(ptx_clip_plan *plan, size_t first, size_t count,
                                  const CUdeviceptr *data, CUstream stream)
{
    struct norm_plan *norm = NORM_OF(plan);
    ptx_status status = ptxp_norm_plan_begin(norm, __func__);

    return status ? status
                  : ptxp_norm_plan_end(norm, __func__,
                                       ptxp_norm_plan_set_data(norm, first, count, data, stream));
}

// ---- windows ------------------------------------------------------------------------------------

static ptx_status launch_window(ptx_clip_plan *plan, const char *call, uint64_t first,
                                uint64_t count, bool applies, CUstream stream)
{
    struct norm_plan *norm = NORM_OF(plan);
    ptx_status status = ptxp_norm_plan_begin(norm, call);

    if (status)
        return status;
    const uint64_t chunks = norm->layout.chunk_count;
    if (first > chunks || count > chunks - first)
        status = ptxd_fail(PTX_ERROR_INVALID, "%llu chunk%s from %llu on: the plan has %llu",
                           (unsigned long long)count, ptxd_plural(count), (unsigned long long)first,
                           (unsigned long long)chunks);
    else if (count)
        status = applies ? apply(norm, first, count, false, false, stream)
                         : ptxp_norm_plan_squares(norm, first, count, stream);
    return ptxp_norm_plan_end(norm, call, status);
}

ptx_status ptx_clip_plan_norm_sq_chunks(ptx_clip_plan *plan, uint64_t first, uint64_t count,
                                        CUstream stream)
{
    return launch_window(plan, __func__, first, count, false, stream);
}

ptx_status ptx_clip_plan_apply_chunks(ptx_clip_plan *plan, uint64_t first, uint64_t count,
                                      CUstream stream)
{
    return launch_window(plan, __func__, first, count, true, stream);
}

bool ptx_clip_plan_piece(const ptx_clip_plan *plan, uint64_t chunk, uint32_t index,
                         struct ptx_clip_piece *piece)
{
    const struct norm_plan *norm = NORM_OF(plan);

    if (!plan || !piece || chunk >= norm->layout.chunk_count)
        return false;
    size_t low = 0, high = norm->start_count; // starts[low].chunk <= chunk < starts[high].chunk
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (norm->starts[middle].chunk <= chunk)
            low = middle;
        else
            high = middle;
    }
    const struct norm_start *start = &norm->starts[low];
    if (start->pieces) {
        if (index >= start->pieces)
            return false;
        const uint32_t tensor = norm->piece_tensors[start->tensor + index];
        *piece = (struct ptx_clip_piece) { tensor, 0, norm->rows[tensor].count };
        return true;
    }
    const uint64_t first = (chunk - start->chunk) * norm->layout.spec.chunk;
    const uint64_t left = norm->rows[start->tensor].count - first;
    if (index > 0 || left == 0)
        return false;
    *piece =
        (struct ptx_clip_piece) { start->tensor, first,
                                  left < norm->layout.spec.chunk ? left : norm->layout.spec.chunk };
    return true;
}
