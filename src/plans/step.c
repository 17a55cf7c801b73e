// SPDX-License-Identifier: MIT
// Step plans: the norms' core, and a last launch that steps. Beside the core's memory a plan has
// its own, for the rows that the step reads.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "driver/error.h"
#include "driver/nvtx.h"
#include "kernels/muon_parts.h"
#include "muon_program.h"
#include "step_addresses.h"
#include "step_plan.h"
#include "step_sums.h"

// ---- what the plan adds to the core -------------------------------------------------------------

static size_t values_of_step(const struct norm_plan *norm, bool sets, struct ptx_named_arg *values)
{
    const ptx_step_plan *plan = (const void *)norm;
    const struct ptx_named_arg all[] = {
        { "rows", PTX_ARG(*(sets ? &plan->set.rows : &plan->rows)) },
        { "clocks", PTX_ARG(plan->clock_rows) },
        { "clock_count", PTX_ARG(plan->layout.clock_count) },
        { "clock_blocks", PTX_ARG(norm->own_blocks) },
        { "coefficients", PTX_ARG(plan->coefficients) },
        { "seed", PTX_ARG(plan->seed) },
        { "tables", PTX_ARG(plan->tables) },
        { "step_tiles", PTX_ARG(plan->tiles) },
        { "tile_sums", PTX_ARG(plan->tile_sums) },
        { "first_tiles", PTX_ARG(plan->first_tiles) },
        { "tensor_sums", PTX_ARG(plan->info.rule_sums) },
        { "accumulators", PTX_ARG(plan->accumulators) },
        { "sum_parts", PTX_ARG(plan->sum_parts) },
        { "sum_turns", PTX_ARG(plan->sum_turns) },
        { "first_turn", PTX_ARG(plan->first_turn) },
        { "copies", PTX_ARG(plan->copies) },
        { "folds", PTX_ARG(plan->folds) },
        { "fold_parts", PTX_ARG(plan->fold_parts) },
        { "matrices", PTX_ARG(plan->matrices) },
        { "transpose_tiles", PTX_ARG(plan->transpose_tiles) },
        { "fp8_matrices", PTX_ARG(plan->fp8_matrices) },
        { "fp8_tiles", PTX_ARG(plan->fp8_tiles) },
        { "square_tiles", PTX_ARG(plan->square_tiles) },
        { "square_reports", PTX_ARG(plan->square_reports) },
        { "casts", PTX_ARG(plan->set.casts) },
        { "qk_rows", PTX_ARG(plan->qk_rows) },
        { "tile_reports", PTX_ARG(plan->tile_reports) },
        { "weight_reports_at", PTX_ARG(plan->params.weight_reports_at) },
        { "matrix_of", PTX_ARG(plan->matrix_of) },
        { "matrix_rows", PTX_ARG(plan->matrix_rows) },
        { "matrix_tiles", PTX_ARG(plan->part.tiles) },
        { "matrix_sums", PTX_ARG(plan->matrix_sums) },
        { "matrix_totals", PTX_ARG(plan->totals) },
        { "first_tile", PTX_ARG(plan->part.step_tile) },
        { "chips", PTX_ARG(plan->part.values.table) },
        { "products", PTX_ARG(plan->part.values.products) },
        { "tiles", PTX_ARG(plan->part.values.table) },
        { "turns", PTX_ARG(plan->part.values.turns) },
        { "done", PTX_ARG(plan->part.values.done) },
        { "tile_count", PTX_ARG(plan->part.values.tiles) },
        { "matrix_count", PTX_ARG(plan->part.values.matrices) },
        { "unit_rows", PTX_ARG(plan->unit_rows) },
        { "unit_blocks", PTX_ARG(plan->unit_blocks) },
        { "unit_tiles", PTX_ARG(plan->unit_tiles) },
        { "unit_sums", PTX_ARG(plan->unit_sums) },
        { "unit_weights", PTX_ARG(plan->unit_weights) },
        { "unit_factors", PTX_ARG(plan->unit_factors) },
        { "hyper", PTX_ARG(plan->set.hyper) },
        { "values",
          { plan->set.values, ptxk_step_set_scalars(&plan->spec) * sizeof *plan->set.values,
            PTX_ARG_UNTYPED } },
        { "words", PTX_ARG(plan->set.words) },
    };
    _Static_assert(sizeof all / sizeof *all <= NORM_MOST_OWN_VALUES, "there is room");

    memcpy(values, all, sizeof all);
    return sizeof all / sizeof *all;
}

// The factors of units, from the records.
static ptx_status clip_units(struct norm_plan *norm, bool overlaps, CUstream stream)
{
    const ptx_step_plan *plan = (const void *)norm;

    return ptxp_norm_plan_launch(norm, STEP_UNITS, plan->layout.unit_blocks.length, overlaps,
                                 stream);
}

// Part `k` of the matrices, which the launches are of from now on.
static struct matrix_part set_part(ptx_step_plan *plan, size_t k)
{
    const struct step_layout *l = &plan->layout;
    struct matrix_part part = { .step_tile = l->others, .step_tiles = l->tiles.length - l->others };

    if (l->set.count)
        part = ptxp_matrix_part(l, k);
    plan->part.tiles = plan->matrix_tiles + part.tile * sizeof(struct step_tile_row);
    plan->part.step_tile = (uint32_t)part.step_tile;
    return part;
}

static ptx_status reduce(struct norm_plan *norm, bool overlaps, CUstream stream)
{
    ptx_step_plan *plan = (void *)norm;
    const size_t tensors = plan->params.tensor_count;
    const bool sums = ptxk_step_has_sums(&plan->spec), clips = plan->spec.clips_units;
    ptx_status status = clips ? clip_units(norm, overlaps, stream) : PTX_OK;

    if (sums && !status)
        status = ptxp_norm_plan_launch(norm, STEP_REDUCE, plan->layout.others, overlaps || clips,
                                       stream);
    if (!status && sums && tensors)
        status = ptxp_norm_plan_launch(norm, STEP_SUMS, tensors, false, stream);
    if (status || !plan->spec.over_ranks)
        return status;
    const struct matrix_part part = set_part(plan, 0);
    return ptxp_matrix_update(norm, &part, false, stream);
}

static ptx_status total(struct norm_plan *norm, CUstream stream)
{
    const ptx_step_plan *plan = (const void *)norm;

    return plan->spec.over_ranks ? ptxp_norm_plan_launch(norm, STEP_MATRIX_TOTALS,
                                                         plan->params.tensor_count, false, stream)
                                 : PTX_OK;
}

// The step of the other tensors runs beside the first products. `overlaps`: the launch before is
// the one that leaves the records.
static ptx_status step_matrices(ptx_step_plan *plan, bool overlaps, CUstream stream)
{
    const bool beside = ptxk_step_beside_products(&plan->spec);
    const uint64_t others = plan->layout.others;
    const size_t parts = ptxp_matrix_parts(&plan->layout);
    ptx_status status = PTX_OK;

    for (size_t k = 0; k < parts && !status; k++) {
        const struct matrix_part part = set_part(plan, k);
        if (!plan->spec.over_ranks)
            status = ptxp_matrix_update(&plan->norm, &part, overlaps && !k, stream);
        if (!status && plan->products)
            status = ptxp_matrix_multiply(plan->products[k], stream);
        if (!status && beside && others && !k)
            status =
                ptxp_norm_plan_launch(&plan->norm, NORM_LAST, others + 1,
                                      part.tiles || ptxp_matrix_multiplies(&plan->layout), stream);
        if (!status && part.step_tiles)
            status = ptxp_norm_plan_launch(&plan->norm, STEP_MATRIX_LAST, part.step_tiles, false,
                                           stream);
    }
    return status;
}

static ptx_status take_step(struct norm_plan *norm, uint64_t first, uint64_t count, bool fused,
                            bool overlaps, CUstream stream)
{
    ptx_step_plan *plan = (void *)norm;
    const uint64_t others = plan->layout.others, parts = plan->layout.fold_parts.length;
    const bool clips = plan->spec.clips_units && !norm->reduces;
    const uint64_t squares = plan->layout.fp8.square_tiles;
    const uint64_t in_blocks = plan->layout.fp8_tiles.length - squares;
    ptx_status status = clips ? clip_units(norm, overlaps, stream) : PTX_OK;

    (void)first, (void)count, (void)fused; // always all of it, from the records
    if (squares && !status)
        status = ptxp_norm_plan_launch(norm, STEP_SQUARES, squares, overlaps, stream);
    if (others && !status && !ptxk_step_beside_products(&plan->spec))
        status = ptxp_norm_plan_launch(norm, NORM_LAST, others + (squares != 0),
                                       overlaps || clips || squares, stream);
    if (!status)
        status = step_matrices(plan, overlaps && !clips && !squares, stream);
    if (!status && parts)
        status = ptxp_norm_plan_launch(norm, STEP_REPORT, parts, true, stream);
    if (plan->spec.transposes && !status)
        status = ptxp_norm_plan_launch(norm, STEP_TRANSPOSE, plan->layout.transpose_tiles.length,
                                       false, stream);
    if (in_blocks && !status)
        status = ptxp_norm_plan_launch(norm, STEP_FP8_BLOCKS, in_blocks,
                                       !parts && !plan->spec.transposes, stream);
    return status;
}

static ptx_status prepare(struct norm_plan *norm);

static const struct norm_hooks hooks = {
    .entries = ptxk_step_entries,
    .name = "step plan",
    .group = "norm_group",
    .groups = "norm groups",
    .missing = { [NORM_LEFT_SUMS] = "the sums are not known: ptx_step_plan_norm_sq() comes first, "
                                    "for each finish",
                 [NORM_LEFT_RECORDS] = "the factors are not known: ptx_step_plan_norm_sq() comes "
                                       "first, then ptx_step_plan_finish(), for each step",
                 [NORM_LEFT_RULE_SUMS] =
                     "the sums of its rules, or the updates of its matrices, are "
                     "not known: "
                     "ptx_step_plan_reduce() comes first, after "
                     "ptx_step_plan_finish(), for each step" },
    .folds_reports = true,
    .prepare = prepare,
    .values = values_of_step,
    .total = total,
    .reduce = reduce,
    .last = take_step,
};

// ---- the norms ----------------------------------------------------------------------------------

// Whether nothing needs the norms of so many groups.
static bool takes_no_norm(const struct norm_params *params, uint32_t groups)
{
    const struct ptxk_step_spec *own = params->own;

    if (own->accumulates || own->clips_units || ptxk_step_has_matrices(own) || params->update ||
        params->max_norms_at || params->found_inf_to || params->sums_at || params->sum_rows > 1 ||
        params->reports_at || ptxp_norm_guards_measure(params->guards))
        return false;
    if (!params->group_max_norms)
        return isinf(params->max_norm);
    for (uint32_t g = 0; g < groups; g++)
        if (!isinf(params->group_max_norms[g]))
            return false;
    return true;
}

// Checks the parameters; sets the step's layout, what its text depends on, and the parameters of
// the norms, in this order. Addresses are checked together with the others. Returns norm->tensors,
// to be freed, as the layout is; NULL on an error.
static struct ptx_clip_tensor *lay_out(const struct ptx_step_params *params, int sm,
                                       struct step_layout *layout, struct ptxk_step_spec *spec,
                                       struct norm_params *norm)
{
    if (ptxp_step_check_params(params) || ptxp_step_layout_create(params, sm, layout))
        return NULL;
    *spec = (struct ptxk_step_spec) { .variants = layout->variants,
                                      .variant_count = layout->variant_count,
                                      .tile = layout->tile,
                                      .threads = layout->threads,
                                      .gradients = (enum ptxk_step_gradients)params->gradients,
                                      .accumulates = layout->accumulates,
                                      .takes_amax = layout->takes_amax,
                                      .transposes = layout->matrices.length != 0,
                                      .counts_empty = layout->counts_empty,
                                      .over_ranks = layout->over_ranks,
                                      .spreads = layout->spreads,
                                      .takes_turned = layout->set.takes_turned,
                                      .fp8_blocks = layout->fp8.kinds,
                                      .has_squares = layout->fp8.square_tiles != 0,
                                      .squares_whole = layout->fp8.squares_whole,
                                      .clips_units = layout->units.clips,
                                      .reads_units = layout->units.reads,
                                      .reports_weights = ptxp_step_reports_weights(params) };
    struct ptx_clip_tensor *gradients = calloc(params->tensor_count + 1, sizeof *gradients);
    if (!gradients) {
        ptxp_norm_out_of_host_memory(&hooks);
        ptxp_step_layout_free(layout);
        return NULL;
    }
    for (size_t t = 0; t < params->tensor_count; t++) {
        const struct ptx_step_tensor *tensor = &params->tensors[t];
        gradients[t] = (struct ptx_clip_tensor) { .data = tensor->gradient,
                                                  .count = tensor->count,
                                                  .dtype = ptxp_step_gradient_type(tensor),
                                                  .group = tensor->norm_group,
                                                  .weight = tensor->weight,
                                                  .uncounted = tensor->uncounted };
    }
    *norm = (struct norm_params) {
        .tensors = gradients,
        .tensor_count = params->tensor_count,
        .group_count = params->norm_group_count,
#define STEP_FIELD(type, name) .name = params->name,
        PTX_NORM_PARAMS(STEP_FIELD)
#undef STEP_FIELD
            .last_blocks = ptxk_step_blocks_per_sm(spec),
        .last_threads = spec->threads,
        .may_pack = !spec->accumulates && !spec->clips_units && !ptxk_step_has_matrices(spec),
        .has_turns = spec->accumulates,
        .writes_again = ptxp_step_calls_functions(params),
        .own = spec,
        .places = layout->places,
    };
    norm->any_address = true;
    return gradients;
}

// ---- creation -----------------------------------------------------------------------------------

static ptx_status upload(ptx_step_plan *plan)
{
    const CUdeviceptr base = ptx_buffer_address(plan->memory);
    const size_t bytes = (size_t)plan->layout.coefficients.offset;
    const CUstream stream = plan->params.stream;
    unsigned char *image = calloc(bytes, 1);

    if (!image)
        return ptxp_norm_out_of_host_memory(&hooks);
    ptxp_step_layout_fill(&plan->params, &plan->layout, base, image);
    ptx_status status = ptx_buffer_upload(plan->memory, 0, image, bytes, stream);
    if (!status)
        status = ptx_stream_synchronize(plan->norm.device, stream);
    free(image);
#define STEP_ADDRESS(member, type) plan->member = base + plan->layout.member.offset;
    STEP_ARRAYS(STEP_ADDRESS)
#undef STEP_ADDRESS
    plan->square_tiles =
        plan->fp8_tiles + (plan->layout.fp8_tiles.length - plan->layout.fp8.square_tiles) *
                              sizeof(struct step_fp8_tile_row);
    plan->square_reports =
        plan->tile_reports + plan->layout.tiles.length * sizeof(struct step_tile_report);
    return status;
}

static ptx_status copy_params(ptx_step_plan *plan, const struct ptx_step_params *params)
{
    plan->tensors = malloc((params->tensor_count + 1) * sizeof *plan->tensors);
    plan->groups = malloc(params->group_count * sizeof *plan->groups);
    plan->clips = malloc((params->qk_clip_count + 1) * sizeof *plan->clips);
    plan->hypers_set = calloc(params->group_count, sizeof *plan->hypers_set);
    if (!plan->tensors || !plan->groups || !plan->clips || !plan->hypers_set)
        return ptxp_norm_out_of_host_memory(&hooks);
    if (params->qk_clip_count)
        memcpy(plan->clips, params->qk_clips, params->qk_clip_count * sizeof *plan->clips);
    if (params->tensor_count)
        memcpy(plan->tensors, params->tensors, params->tensor_count * sizeof *plan->tensors);
    memcpy(plan->groups, params->groups, params->group_count * sizeof *plan->groups);
    plan->muon = ptxp_matrix_copy(plan->groups, params->group_count);
    if (!plan->muon)
        return ptxp_norm_out_of_host_memory(&hooks);
    plan->params = *params;
    plan->params.tensors = plan->tensors;
    plan->params.groups = plan->groups;
    plan->params.qk_clips = plan->clips;
    plan->params.group_max_norms = NULL;
    plan->params.update = NULL;
    plan->params.guards = NULL;
    plan->params.module = NULL;
    return PTX_OK;
}

// ---- the chips of the products, with the step of their matrices ---------------------------------

static void emit_taker(void *user, ptx_builder *b, unsigned entry)
{
    const ptx_step_plan *plan = user;
    const struct norm_spec *spec = &plan->norm.layout.spec;

    ptxk_step_products_emit(b, spec, entry);
}

static ptx_status bind_taker(void *user, const ptx_builder *b, unsigned entry, unsigned place)
{
    ptx_step_plan *plan = user;

    return ptxp_norm_plan_bind(&plan->norm, b, place, false, &plan->takers[entry]);
}

static const struct ptx_arg *args_of_taker(void *user, unsigned entry,
                                           const struct muon_values *values, size_t *count)
{
    ptx_step_plan *plan = user;

    plan->part.values = *values;
    *count = plan->takers[entry].arg_count;
    return plan->takers[entry].args;
}

static ptx_status prepare(struct norm_plan *norm)
{
    ptx_step_plan *plan = (void *)norm;
    const uint32_t clocks = plan->layout.clock_count;
    ptx_status status = PTX_OK;

    norm->no_norm = takes_no_norm(&norm->params, norm->layout.group_count);
    norm->reduces = ptxk_step_has_sums(&plan->spec) || plan->spec.over_ranks;
    norm->own_blocks = clocks ? (clocks - 1) / NORM_BLOCK + 1 : 1;
    norm->own_sums = plan->spec.over_ranks ? 0 : plan->layout.matrix_rows.length;
    status = ptxp_matrix_check_target(&plan->layout, ptx_device_get_info(norm->device)->sm);
    if (status)
        return status;
    plan->memory = ptx_buffer_create(norm->device, (size_t)plan->layout.bytes);
    if (!plan->memory)
        return ptx_error_status();
    if (!plan->params.any_address)
        status = ptxp_step_check_addresses(plan, 0, plan->params.tensor_count);
    if (!status && !plan->params.any_address)
        status = ptxp_step_check_scales(norm, &plan->params);
    if (!status)
        status = ptxp_matrix_products(
            norm, &plan->params, &plan->layout, ptx_buffer_address(plan->memory),
            &(struct muon_taker) { { NULL }, plan, emit_taker, bind_taker, args_of_taker },
            &plan->products);
    plan->first_turn = plan->spec.accumulates ? ptxp_sum_first_turn() : 0;
    if (!status)
        status = upload(plan);
    // Kernels take it from here, before the rest of the info is known.
    plan->info.rule_sums = !ptxk_step_has_sums(&plan->spec) ? 0
                           : plan->params.rule_sums_at      ? plan->params.rule_sums_at
                                                            : plan->tensor_sums;
    plan->info.matrix_sums = !plan->spec.over_ranks        ? 0
                             : plan->params.matrix_sums_at ? plan->params.matrix_sums_at
                                                           : plan->matrix_totals;
    plan->totals = plan->spec.over_ranks ? plan->info.matrix_sums : plan->matrix_totals;
    return status;
}

static ptx_status make(ptx_step_plan *plan, const struct ptx_step_params *params)
{
    struct norm_params norm;
    const int sm = ptx_device_get_info(plan->norm.device)->sm;
    struct ptx_clip_tensor *gradients = lay_out(params, sm, &plan->layout, &plan->spec, &norm);
    plan->layout.groups = ptxp_muon_has_groups(plan->norm.device);
    ptx_status status = gradients ? copy_params(plan, params) : ptx_error_status();

    if (!status)
        status = ptxp_norm_plan_create(&plan->norm, &norm);
    free(gradients);
    return status;
}

ptx_step_plan *ptx_step_plan_create(ptx_device *device, const struct ptx_step_params *params)
{
    ptxd_range_begin(__func__);
    ptx_step_plan *plan = ptxp_norm_plan_allocate(device, &hooks, sizeof *plan);

    if (ptxd_named(plan ? make(plan, params) : ptx_error_status(), __func__))
        ptx_step_plan_destroy(&plan);
    else
        plan->info = (struct ptx_step_plan_info) { plan->norm.all_sums,  plan->norm.records,
                                                   plan->norm.summary,   plan->norm.guard_state,
                                                   plan->info.rule_sums, plan->info.matrix_sums };
    ptxd_range_end();
    return plan;
}

void ptx_step_plan_destroy(ptx_step_plan **plan)
{
    if (!plan || !*plan)
        return;
    ptx_step_plan *old = *plan;
    *plan = NULL;
    ptxp_norm_plan_clear(&old->norm);
    ptxp_matrix_products_free(&old->layout, old->products);
    ptx_buffer_destroy(&old->memory);
    ptxp_step_layout_free(&old->layout);
    free(old->tensors);
    free(old->groups);
    free(old->clips);
    free(old->hypers_set);
    free(old->muon);
    free(old);
}

// ---- runs ---------------------------------------------------------------------------------------

// A tensor that is known to be a shard and has a rule that looks at all of it, which one run cannot
// take.
static const struct ptx_step_tensor *shard_with_sums(const ptx_step_plan *plan)
{
    for (size_t t = 0; t < plan->params.tensor_count && plan->norm.reduces; t++) {
        const struct ptx_step_tensor *tensor = &plan->tensors[t];
        const bool sums = ptxp_step_rule_of(&plan->groups[tensor->group])->sums;
        if (tensor->whole_rows || ((tensor->whole.first || tensor->whole.run) && sums))
            return tensor;
    }
    return NULL;
}

static ptx_status check_units(const ptx_step_plan *plan, const char *call)
{
    return !plan || !plan->spec.clips_units || plan->units_known
               ? PTX_OK
               : ptxd_fail(PTX_ERROR_INVALID,
                           "%s: the norms of the weights, by which agc clips, are not known: "
                           "ptx_step_plan_weights_changed() comes first, and again after "
                           "parameters have moved or were written by something else",
                           call);
}

ptx_status ptx_step_plan_run(ptx_step_plan *plan, CUstream stream)
{
    const struct ptx_step_tensor *shard = plan ? shard_with_sums(plan) : NULL;

    if (check_units(plan, __func__))
        return ptx_error_status();
    if (shard && shard->whole_rows)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: tensor %zu: it has rows of a matrix of %" PRIu64 ": use the phases, "
                         "and a Muon plan for its products",
                         __func__, (size_t)(shard - plan->tensors), shard->whole_rows);
    if (shard)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: tensor %zu: its rule, %s, takes sums over the whole parameter, of "
                         "which `whole` says that the tensor is a shard: use the phases, and add "
                         "the sums of ptx_step_plan_reduce() over the ranks",
                         __func__, (size_t)(shard - plan->tensors),
                         ptxp_step_rule_of(&plan->groups[shard->group])->name);
    return ptxp_norm_plan_run(NORM_OF(plan), __func__, stream);
}

ptx_status ptx_step_plan_norm_sq(ptx_step_plan *plan, CUstream stream)
{
    if (check_units(plan, __func__))
        return ptx_error_status();
    return ptxp_norm_plan_phase(NORM_OF(plan), __func__, NORM_PHASE_SQUARES, stream);
}

ptx_status ptx_step_plan_finish(ptx_step_plan *plan, CUstream stream)
{
    return ptxp_norm_plan_phase(NORM_OF(plan), __func__, NORM_PHASE_FINISH, stream);
}

ptx_status ptx_step_plan_reduce(ptx_step_plan *plan, CUstream stream)
{
    if (plan && !plan->norm.reduces)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s: no rule of the plan has sums, and no tensor whole_rows: leave this "
                         "phase out",
                         __func__);
    return ptxp_norm_plan_phase(NORM_OF(plan), __func__, NORM_PHASE_REDUCE, stream);
}

ptx_status ptx_step_plan_step(ptx_step_plan *plan, CUstream stream)
{
    return ptxp_norm_plan_phase(NORM_OF(plan), __func__, NORM_PHASE_LAST, stream);
}

ptx_status ptx_step_plan_accumulate(ptx_step_plan *plan, CUstream stream)
{
    ptx_status status = ptxp_norm_plan_begin(NORM_OF(plan), __func__);
    if (status)
        return status;
    // A rank whose shards are all empty has no accumulator, and nothing to add.
    if (!plan->spec.accumulates && plan->norm.layout.element_count)
        status = ptxd_fail(PTX_ERROR_INVALID,
                           "no tensor of the plan has an accumulator: give each one at creation");
    else
        status = ptxp_norm_plan_check_idle(
            &plan->norm,
            "the step of the sums so far is not taken: ptx_step_plan_step() comes first", stream);
    if (!status && plan->spec.accumulates)
        status = ptxp_norm_plan_launch(&plan->norm, STEP_ACCUMULATE, plan->layout.sum_parts.length,
                                       false, stream);
    return ptxp_norm_plan_end(&plan->norm, __func__, status);
}

ptx_status ptx_step_plan_cast(ptx_step_plan *plan, CUstream stream)
{
    ptx_status status = ptxp_norm_plan_begin(NORM_OF(plan), __func__);
    if (status)
        return status;
    plan->set.casts = 1;
    status = plan->spec.fp8_blocks
                 ? ptxp_norm_plan_launch(&plan->norm, STEP_FP8_BLOCKS,
                                         plan->layout.fp8_tiles.length, false, stream)
                 : ptxd_fail(PTX_ERROR_INVALID,
                             "no tensor of the plan has codes in blocks: give each one fp8_blocks "
                             "at creation");
    plan->set.casts = 0;
    return ptxp_norm_plan_end(&plan->norm, __func__, status);
}

ptx_status ptx_step_plan_weights_changed(ptx_step_plan *plan, CUstream stream)
{
    ptx_status status = ptxp_norm_plan_begin(NORM_OF(plan), __func__);
    if (status)
        return status;
    if (plan->spec.clips_units)
        status = ptxp_norm_plan_launch(&plan->norm, STEP_UNIT_WEIGHTS, plan->layout.others, false,
                                       stream);
    else if (!ptxp_units_are_clipped(&plan->params)) // else all tensors of such groups are empty
        status = ptxd_fail(PTX_ERROR_INVALID,
                           "no group of the plan has agc, which alone needs this call: leave it "
                           "out");
    plan->units_known |= !status;
    return ptxp_norm_plan_end(&plan->norm, __func__, status);
}

const struct ptx_step_plan_info *ptx_step_plan_get_info(const ptx_step_plan *plan)
{
    return plan ? &plan->info : NULL;
}

ptx_status ptx_step_plan_read(const ptx_step_plan *plan, uint32_t first, uint32_t count,
                              struct ptx_clip_record *records, struct ptx_clip_summary *summary,
                              CUstream stream)
{
    return ptxd_named(ptxp_norm_plan_read(NORM_OF(plan), first, count, records, summary, stream),
                      __func__);
}

ptx_status ptx_step_plan_error_if_nonfinite(ptx_step_plan *plan, const char *const *names,
                                            CUstream stream)
{
    return ptxp_norm_plan_check_finite(NORM_OF(plan), __func__, names, stream);
}

// ---- descriptions -------------------------------------------------------------------------------

#define ALSO                                                                                       \
    ", launched or captured, in phases, at any alignment; and for any shards of a parameter, if "  \
    "the sums are the same"

static void describe_layouts(const struct ptx_step_params *params, const struct step_layout *step,
                             const struct ptxk_step_spec *spec, bool no_norm,
                             const struct norm_layout *layout, struct ptx_step_description *to)
{
    *to = (struct ptx_step_description) {
        .elements = layout->element_count,
        .groups = params->group_count,
        .norm_groups = layout->group_count,
        .clocks = step->clock_count,
        .variants = step->variant_count,
        .launches = (params->sum_rows > 1 ? 3 : 2) + (step->others != 0) +
                    (!step->set.window_count && step->tiles.length != step->others) +
                    (ptxk_step_has_sums(spec) ? 2 : 0) + (step->fold_parts.length ? 1 : 0) +
                    spec->transposes + ptxp_matrix_launches(step) + spec->over_ranks +
                    (step->fp8.square_tiles ? 1 : 0) +
                    (step->fp8_tiles.length > step->fp8.square_tiles) + spec->clips_units,
        .bytes = step->bytes_moved + (no_norm ? 0 : layout->gradient_bytes),
        .workspace = layout->bytes + step->bytes,
        .determinism = ptxk_step_has_matrices(spec)
                           ? "the same bits on devices of one generation and "
                             "on the emulator that presents it" ALSO
                           : "the same bits on every GPU and on the "
                             "emulator" ALSO,
        .tile = step->tile,
    };
}

// Writes the description or the text; either may be NULL.
static ptx_status describe(const struct ptx_step_params *params,
                           struct ptx_step_description *description, ptx_builder *b)
{
    struct step_layout step;
    struct ptxk_step_spec spec;
    struct norm_params norm;
    struct norm_layout layout;
    struct ptx_clip_tensor *gradients =
        lay_out(params, b ? ptx_builder_target(b).sm : 0, &step, &spec, &norm);

    if (!gradients)
        return ptx_error_status();
    ptx_status status = ptxp_norm_layout_create(&hooks, &norm, &layout);
    if (!status && b)
        status = ptxp_matrix_check_target(&step, ptx_builder_target(b).sm);
    if (!status && b)
        ptxk_norm_emit(b, &layout.spec);
    if (!status && b && (spec.over_ranks || ptxp_matrix_multiplies(&step)))
        ptxk_muon_emit(b, MUON_ALL);
    for (unsigned k = 0; k < MUON_ENTRIES && !status && b; k++)
        if (step.set.takes >> k & 1)
            ptxk_step_products_emit(b, &layout.spec, k);
    if (!status && b && spec.over_ranks)
        ptxk_muon_parts_emit(b);
    if (!status && description)
        describe_layouts(params, &step, &spec, takes_no_norm(&norm, layout.group_count), &layout,
                         description);
    free(gradients);
    ptxp_step_layout_free(&step);
    return status;
}

ptx_status ptx_step_describe(const struct ptx_step_params *params,
                             struct ptx_step_description *description)
{
    ptx_status status = describe(params, description, NULL);

    if (!status && !description)
        status = ptxd_fail(PTX_ERROR_INVALID, "description is NULL");
    return ptxd_named(status, __func__);
}

ptx_status ptx_step_plan_describe(const ptx_step_plan *plan,
                                  struct ptx_step_description *description)
{
    static const unsigned kernels[] = { NORM_SQUARES,     STEP_REDUCE,  STEP_MATRIX,
                                        STEP_MATRIX_LAST, STEP_SQUARES, NORM_LAST };

    if (!plan || !description)
        return ptxd_fail(PTX_ERROR_INVALID, "%s: %s is NULL", __func__,
                         plan ? "description" : "plan");
    describe_layouts(&plan->params, &plan->layout, &plan->spec, plan->norm.no_norm,
                     &plan->norm.layout, description);
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
        ptxp_step_describe_kernel(ptx_function_get_info(plan->norm.kernels[kernels[k]].function),
                                  description);
    return PTX_OK;
}

ptx_status ptx_step_emit(ptx_builder *b, const struct ptx_step_params *params)
{
    return ptxd_named(describe(params, NULL, b), __func__);
}
