// SPDX-License-Identifier: MIT
#include "step_sums.h"
#include "step_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "arrays.h"
#include "driver/error.h"
#include "kernels/common/parts.h"
#include "kernels/common/vector.h"
#include "kernels/step/formats/state_8bit.h"
#include "muon_program.h"
#include "rule.h"
#include "step_qk_clip.h"

ptx_status ptx_step_map(bool is_signed, float map[256])
{
    if (!map)
        return ptxd_fail(PTX_ERROR_INVALID, "ptx_step_map: map is NULL");
    ptxk_state_8bit_map(is_signed, map);
    return PTX_OK;
}

const struct ptxk_step_rule *ptxp_step_rule_of(const struct ptx_step_group *group)
{
    return group->own_rule ? &group->own_rule->own.rule : ptxk_step_rule_of(group->rule);
}

bool ptxp_step_calls_functions(const struct ptx_step_params *params)
{
    for (uint32_t g = 0; g < params->group_count; g++) {
        const ptx_rule *const rule = params->groups[g].own_rule;
        if (rule && !rule->own.params.program)
            return true;
    }
    return false;
}

ptx_type ptxp_step_gradient_type(const struct ptx_step_tensor *tensor)
{
    return tensor->gradient_dtype == PTX_NONE ? tensor->dtype : tensor->gradient_dtype;
}

bool ptxp_step_has_clock(const struct ptx_step_tensor *tensor)
{
    return tensor->count || tensor->counts_empty;
}

struct ptxk_step_variant ptxp_step_variant_of(const struct ptx_step_tensor *tensor,
                                              const struct ptx_step_group *group)
{
    const struct ptxk_step_rule *rule = ptxp_step_rule_of(group);
    const uint32_t momentum = rule->options & PTXK_STEP_MOMENTUM;

    return (struct ptxk_step_variant) {
        .rule = rule,
        .format = tensor->format,
        .parameter = tensor->dtype,
        .gradient = tensor->accumulator ? PTX_F32 : ptxp_step_gradient_type(tensor),
        .ema = tensor->ema_dtype,
        .copy = tensor->fp8 && !tensor->fp8_blocks ? 1 + (uint32_t)tensor->fp8_format : 0,
        .options = (group->hyper.momentum != 0 ? momentum : 0) |
                   (group->nesterov ? PTXK_STEP_NESTEROV : 0) |
                   (group->maximize ? PTXK_STEP_MAXIMIZE : 0),
    };
}

// ---- variants -----------------------------------------------------------------------------------

static unsigned place_of(const struct step_layout *layout, const struct ptxk_step_variant *v)
{
    unsigned k = 0;

    while (k < layout->variant_count && ptxk_step_variant_compare(&layout->variants[k], v) < 0)
        k++;
    return k;
}

static ptx_status add_variant(struct step_layout *layout, const struct ptxk_step_variant *v)
{
    const unsigned k = place_of(layout, v);

    if (k < layout->variant_count && ptxk_step_variant_compare(&layout->variants[k], v) == 0)
        return PTX_OK;
    if (layout->variant_count == PTXK_STEP_MOST_VARIANTS)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "the tensors have more than %d kinds of rule, format and types: make "
                         "several plans",
                         PTXK_STEP_MOST_VARIANTS);
    memmove(&layout->variants[k + 1], &layout->variants[k],
            (layout->variant_count - k) * sizeof *v);
    layout->variants[k] = *v;
    layout->variant_count++;
    return PTX_OK;
}

static ptx_status find_variants(const struct ptx_step_params *params, struct step_layout *layout)
{
    const struct ptxk_step_variant none = { .rule = ptxp_step_rule_of(&params->groups[0]),
                                            .format = PTX_STEP_FORMAT_FULL,
                                            .parameter = PTX_F32,
                                            .gradient = PTX_F32 };
    ptx_status status = PTX_OK;

    for (size_t t = 0; t < params->tensor_count && !status; t++) {
        const struct ptx_step_tensor *tensor = &params->tensors[t];
        struct ptxk_step_variant v = ptxp_step_variant_of(tensor, &params->groups[tensor->group]);
        v.qk_clip = ptxp_qk_has(&layout->qk, t);
        v.square = ptxp_copies_is_square(params, layout, t);
        status = add_variant(layout, &v);
    }
    return status || layout->variant_count ? status : add_variant(layout, &none);
}

// ---- clocks -------------------------------------------------------------------------------------

struct reading {
    uint64_t step;
    uint32_t group;
    uint32_t tensor;
};

static int by_count(const void *left, const void *right)
{
    const struct reading *x = left, *y = right;

    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return (x->group > y->group) - (x->group < y->group);
}

// A clock's states are behind its count, and go on with their group's steps: no other group has the
// count.
static ptx_status check_clock_states(const struct ptx_step_params *params, struct reading *room)
{
    bool any = false;
    size_t count = 0;

    for (uint32_t g = 0; g < params->group_count; g++)
        any = any || ptxp_step_rule_of(&params->groups[g])->clock_states;
    for (size_t t = 0; t < params->tensor_count && any; t++) {
        const struct ptx_step_tensor *tensor = &params->tensors[t];
        if (ptxp_step_has_clock(tensor) && tensor->step)
            room[count++] = (struct reading) { tensor->step, tensor->group, (uint32_t)t };
    }
    qsort(room, count, sizeof *room, by_count);
    for (size_t k = 1; k < count; k++) {
        const struct reading *x = &room[k - 1], *y = &room[k];
        const bool first = ptxp_step_rule_of(&params->groups[x->group])->clock_states;
        if (x->step == y->step && x->group != y->group &&
            (first || ptxp_step_rule_of(&params->groups[y->group])->clock_states))
            return ptxd_fail(PTX_ERROR_INVALID,
                             "tensors %" PRIu32 " and %" PRIu32 " have the same step, in groups "
                             "%" PRIu32 " and %" PRIu32 ", and the rule of group %" PRIu32
                             " keeps more there than the count: give each group a step of its own",
                             x->tensor, y->tensor, x->group, y->group, first ? x->group : y->group);
    }
    return PTX_OK;
}

static int by_clock(const void *left, const void *right)
{
    const struct reading *x = left, *y = right;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

// Numbers the distinct pairs of group and step count of the tensors that count, in order of group,
// then count.
static ptx_status find_clocks(const struct ptx_step_params *params, struct step_layout *layout)
{
    struct reading *all = malloc((params->tensor_count + 1) * sizeof *all);
    size_t count = 0;

    layout->clocks = calloc(params->tensor_count + 1, sizeof *layout->clocks);
    if (!all || !layout->clocks) {
        free(all);
        return ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for a step plan");
    }
    const ptx_status status = check_clock_states(params, all);
    if (status) {
        free(all);
        return status;
    }
    for (size_t t = 0; t < params->tensor_count; t++) {
        const struct ptx_step_tensor *tensor = &params->tensors[t];
        if (ptxp_step_has_clock(tensor))
            all[count++] = (struct reading) { tensor->step, tensor->group, (uint32_t)t };
    }
    qsort(all, count, sizeof *all, by_clock);
    for (size_t k = 0; k < count; k++) {
        if (k && by_clock(&all[k - 1], &all[k]) != 0)
            layout->clock_count++;
        layout->clocks[all[k].tensor] = layout->clock_count;
    }
    layout->clock_count += count != 0;
    free(all);
    return PTX_OK;
}

static ptx_status find_places(const struct ptx_step_params *params, struct step_layout *layout)
{
    layout->places = calloc(params->tensor_count + 1, sizeof *layout->places);
    if (!layout->places)
        return ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for a step plan");
    for (size_t t = 0; t < params->tensor_count; t++) {
        const struct ptx_step_whole *w = &params->tensors[t].whole;
        layout->places[t] = (struct norm_report_row) { .first = w->first,
                                                       .run = w->run ? w->run : 1,
                                                       .stride = w->run ? w->stride : 1 };
    }
    return PTX_OK;
}

bool ptxp_step_reports_weights(const struct ptx_step_params *params)
{
    return params->weight_reports_at && params->tensor_count;
}

// ---- layout -------------------------------------------------------------------------------------

static uint64_t place(struct step_array *array, uint64_t at, uint64_t length, size_t bytes)
{
    array->offset = (at + PLAN_ALIGNMENT - 1) / PLAN_ALIGNMENT * PLAN_ALIGNMENT;
    array->length = length;
    return array->offset + length * bytes;
}

static uint64_t bytes_moved(const struct ptx_step_params *params, const struct step_layout *layout,
                            size_t t)
{
    const struct ptx_step_tensor *tensor = &params->tensors[t];
    const struct ptxk_step_variant v = ptxp_step_variant_of(tensor, &params->groups[tensor->group]);
    const unsigned passes = v.rule->sums ? 2 : 1;
    uint64_t each = tensor->accumulator ? 2 * sizeof(float) : 0; // the norm's pass writes it

    for (unsigned a = 0; a < ARRAYS; a++) {
        const bool is_written = a != ARRAY_GRADIENT || params->gradients != PTX_STEP_GRADIENTS_RAW;
        const unsigned bytes = ptx_type_bytes(ptxk_step_array_type(&v, a));
        each += (uint64_t)(ptxk_step_reads(&v, a) * passes + is_written) * bytes;
    }
    if (v.rule->of_matrices) // the norm's pass reads it, too
        each += ptx_type_bytes(ptxk_step_array_type(&v, ARRAY_STATE));
    return tensor->count * each +
           ptxp_copies_bytes(tensor, ptxp_copies_is_square(params, layout, t)) +
           (passes + 1) * ptxk_step_format_states(&v) * ptxp_step_scales(tensor) *
               ptxp_step_scale_bytes(tensor);
}

CUdeviceptr ptxp_step_state_at(const struct ptx_step_tensor *tensor,
                               const struct ptxk_step_variant *v, unsigned k)
{
    const bool is_ema = v->ema != PTX_NONE && k == ptxk_step_rule_states(v);

    return is_ema ? tensor->ema : tensor->state[k];
}

uint64_t ptxp_step_scales(const struct ptx_step_tensor *tensor)
{
    const struct ptxk_step_blocks *blocks = ptxk_step_format_of(tensor->format)->by_block;

    return blocks ? tensor->count / blocks->elements + (tensor->count % blocks->elements != 0) : 0;
}

unsigned ptxp_step_scale_bytes(const struct ptx_step_tensor *tensor)
{
    const struct ptxk_step_blocks *blocks = ptxk_step_format_of(tensor->format)->by_block;

    return blocks ? ptx_type_bytes(blocks->scale) : 0;
}

// With reports of weights a tensor without elements has a tile, too, whose block reports it absent;
// and where it counts its steps.
static uint64_t tiles_of_tensor(const struct ptx_step_params *params,
                                const struct step_layout *layout, uint32_t tile, size_t t)
{
    const struct ptx_step_tensor *tensor = &params->tensors[t];
    const uint64_t tiles = ptxp_is_matrix(params, t)
                               ? ptxp_matrix_step_tiles(params, layout->chips, t)
                               : parts_of(tensor->count, tile);

    return (params->weight_reports_at || tensor->counts_empty) && !tensor->count ? 1 : tiles;
}

static bool has_rule_of_matrices(const struct ptx_step_params *params, size_t t)
{
    return ptxp_step_rule_of(&params->groups[params->tensors[t].group])->of_matrices != NULL;
}

// The tensors in the order of their tiles: those with a rule of matrices are the last. `n` counts
// to twice their number; SIZE_MAX: no tensor.
static size_t nth_tensor(const struct ptx_step_params *params, size_t n)
{
    const size_t t = n % params->tensor_count;

    return has_rule_of_matrices(params, t) == (n >= params->tensor_count) ? t : SIZE_MAX;
}

// Those of a tensor in the table of tiles.
static uint64_t listed_tiles(const struct ptx_step_params *params, const struct step_layout *layout,
                             size_t t)
{
    return ptxp_copies_is_square(params, layout, t)
               ? 0
               : tiles_of_tensor(params, layout, layout->tile, t);
}

static uint64_t tiles_of_all(const struct ptx_step_params *params, const struct step_layout *layout,
                             uint64_t *others)
{
    uint64_t tiles = 0;

    *others = 0;
    for (size_t t = 0; t < params->tensor_count; t++) {
        const uint64_t own = listed_tiles(params, layout, t);
        tiles += own;
        *others += has_rule_of_matrices(params, t) ? 0 : own;
    }
    return tiles;
}

// Writes the blocks that fold reports of weights, and the largest, of tensors of several tiles, and
// returns their number. `to`: NULL: only that.
static uint64_t fold_parts(const struct ptx_step_params *params, const struct step_layout *layout,
                           uint32_t tile, struct step_fold_part *to)
{
    uint64_t first = 0, parts = 0, squares = layout->tiles.length + layout->fp8.square_tiles;

    for (size_t n = 0; n < 2 * params->tensor_count; n++) {
        const size_t t = nth_tensor(params, n);
        if (t == SIZE_MAX)
            continue;
        const bool is_square = ptxp_copies_is_square(params, layout, t);
        const uint64_t tiles = is_square ? ptxp_copies_tiles(&params->tensors[t])
                                         : tiles_of_tensor(params, layout, tile, t);
        const bool notes = params->weight_reports_at || params->tensors[t].amax;
        squares -= is_square ? tiles : 0;
        const uint64_t own = is_square ? squares : first;
        for (uint64_t k = 0; notes && tiles > 1 && k < tiles; k += STEP_FOLD_TILES, parts++)
            if (to)
                to[parts] = (struct step_fold_part) { (uint32_t)t, (uint32_t)(k / STEP_FOLD_TILES),
                                                      (uint32_t)own, (uint32_t)tiles };
        first += is_square ? 0 : tiles;
    }
    return parts;
}

static bool has_elements(const struct ptx_step_params *params)
{
    for (size_t t = 0; t < params->tensor_count; t++)
        if (params->tensors[t].count)
            return true;
    return false;
}

// The length and the number of tiles. Small tensors get shorter ones, or most of a tile would be
// empty. Where there are no elements, one tile of the empty tensor is launched.
static ptx_status choose_tiles(const struct ptx_step_params *params, struct step_layout *layout,
                               uint64_t *tiles)
{
    enum { LEAST_THREADS = 64, FEW_TILES = 512 }; // resident at once on a large GPU
    const struct ptxk_step_spec spec = { .variants = layout->variants,
                                         .variant_count = layout->variant_count,
                                         .takes_amax = layout->takes_amax,
                                         .reports_weights = ptxp_step_reports_weights(params) };
    uint32_t least = ptxk_step_tile(&spec, 0);
    uint64_t elements = 0, of_matrices = 0, others;

    for (size_t t = 0; t < params->tensor_count; t++)
        if (ptxp_is_matrix(params, t))
            of_matrices += tiles_of_tensor(params, layout, 1, t);
        else if (!ptxp_copies_is_square(params, layout, t))
            elements += params->tensors[t].count;
    layout->tile = ptxk_step_tile(&spec, elements);
    *tiles = tiles_of_all(params, layout, &others);
    while (layout->tile > least &&
           *tiles - of_matrices > (elements + elements / 8) / layout->tile + 1) {
        layout->tile /= 2;
        *tiles = tiles_of_all(params, layout, &others);
    }
    // Where most threads of a block would have no vector: the more blocks are under way at once.
    // But no report or amax that one tile has written is folded.
    layout->threads = NORM_BLOCK;
    while (*tiles > FEW_TILES && ptxk_step_may_have_fewer_threads(&spec) &&
           layout->threads > LEAST_THREADS && layout->tile == least &&
           *tiles * layout->tile / 3 * 2 > elements &&
           fold_parts(params, layout, least / 2, NULL) == fold_parts(params, layout, least, NULL)) {
        layout->threads /= 2;
        layout->tile = least /= 2;
        *tiles = tiles_of_all(params, layout, &others);
    }
    if (*tiles > INT32_MAX)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "the tensors have more than 2^31 * %" PRIu32 " elements", layout->tile);
    layout->others = (uint32_t)others;
    if (!*tiles && !has_elements(params)) {
        *tiles = 1;
        layout->others = ptxk_step_has_others(&spec);
    }
    return PTX_OK;
}

ptx_status ptxp_step_layout_create(const struct ptx_step_params *params, int sm,
                                   struct step_layout *layout)
{
    ptx_status status;
    uint64_t at = 0, tiles;

    *layout = (struct step_layout) { .tensor_count = params->tensor_count,
                                     .chips = ptxp_matrix_chips(params) };
    layout->squares = ptxp_copies_may_be_square(params, sm);
    status = ptxp_qk_create(params, &layout->qk);
    if (!status)
        status = find_variants(params, layout);
    if (!status && params->reports_at)
        status = find_places(params, layout);
    if (!status)
        status = find_clocks(params, layout);
    for (size_t t = 0; t < params->tensor_count; t++) {
        layout->accumulates |= params->tensors[t].accumulator != 0;
        layout->takes_amax |= params->tensors[t].amax != 0;
    }
    if (!status)
        status = choose_tiles(params, layout, &tiles);
    if (!status)
        status = ptxp_copies_count(params, layout, &layout->fp8);
    if (!status)
        status = ptxp_matrix_measure(params, layout->chips, &layout->set);
    if (!status)
        status = ptxp_units_count(params, &layout->units);
    if (status) {
        ptxp_step_layout_free(layout);
        return status;
    }
    for (size_t t = 0; t < params->tensor_count; t++) {
        layout->over_ranks |= ptxp_matrix_is_cut(params, t);
        layout->spreads |= ptxp_is_matrix(params, t) && params->tensors[t].spread.run;
        layout->counts_empty |= !params->tensors[t].count && params->tensors[t].counts_empty;
    }
    const struct ptxk_step_spec spec = { .variants = layout->variants,
                                         .variant_count = layout->variant_count,
                                         .takes_amax = layout->takes_amax };
    layout->row_words = ptxk_step_row_words(&spec);
    at = place(&layout->rows, at, (params->tensor_count + 1) * layout->row_words, sizeof(uint64_t));
    at = place(&layout->clock_rows, at, layout->clock_count, sizeof(struct step_clock_row));
    at = place(&layout->hypers, at, params->group_count, sizeof(struct ptx_step_hyper));
    at = place(&layout->seed, at, 1, sizeof(uint64_t));
    at = place(&layout->tables, at, ptxk_step_tables_before(&spec, NULL), 1);
    at = place(&layout->tiles, at, tiles, sizeof(struct step_tile_row));
    const uint64_t sums = ptxk_step_has_sums(&spec) ? PTX_RULE_MAX_SUMS : 0;
    at = place(&layout->first_tiles, at, sums ? params->tensor_count + 1 : 0, sizeof(uint32_t));
    at = place(&layout->tile_sums, at, sums * tiles, sizeof(double));
    at = place(&layout->tensor_sums, at, sums * (params->tensor_count + 1), sizeof(double));
    at = place(&layout->accumulators, at, layout->accumulates ? params->tensor_count + 1 : 0,
               sizeof(struct step_accumulator_row));
    const uint64_t parts = layout->accumulates ? ptxp_sum_parts(params, NULL) : 0;
    at = place(&layout->sum_parts, at, parts, sizeof(struct step_tile_row));
    at = place(&layout->sum_turns, at, parts, sizeof(uint32_t));
    at = place(&layout->copies, at, ptxk_step_has_copy_rows(&spec) ? params->tensor_count + 1 : 0,
               sizeof(struct step_copy_row));
    const struct copy_counts *fp8 = &layout->fp8;
    at = place(&layout->matrices, at, fp8->transposed, sizeof(struct step_transpose_row));
    at = place(&layout->transpose_tiles, at, fp8->transpose_tiles,
               sizeof(struct step_transpose_tile_row));
    at = place(&layout->fp8_matrices, at, fp8->in_blocks, sizeof(struct step_fp8_row));
    at = place(&layout->fp8_tiles, at, fp8->block_tiles, sizeof(struct step_fp8_tile_row));
    at = place(&layout->qk_rows, at, layout->qk.count ? params->tensor_count : 0,
               sizeof(struct step_qk_row));
    at = place(&layout->qk_factors, at, layout->qk.count, sizeof(uint64_t));
    at = place(&layout->qk_one, at, layout->qk.count != 0, sizeof(float));
    const bool notes = ptxp_step_reports_weights(params) || layout->takes_amax;
    at = place(&layout->fold_parts, at, notes ? fold_parts(params, layout, layout->tile, NULL) : 0,
               sizeof(struct step_fold_part));
    at = place(&layout->folds, at, notes ? params->tensor_count + 1 : 0,
               sizeof(struct step_fold_row));
    const bool of_matrices = ptxk_step_has_matrices(&spec) || layout->over_ranks;
    at =
        place(&layout->matrix_of, at, of_matrices ? params->tensor_count + 1 : 0, sizeof(uint32_t));
    at = place(&layout->matrix_rows, at, layout->set.count, sizeof(struct step_matrix_row));
    at = place(&layout->matrix_tiles, at, layout->set.tiles, sizeof(struct step_tile_row));
    const bool clips = layout->units.clips;
    at = place(&layout->unit_rows, at, clips ? params->tensor_count + 1 : 0,
               sizeof(struct step_unit_row));
    at = place(&layout->unit_blocks, at, layout->units.blocks, sizeof(struct step_tile_row));
    at = place(&layout->unit_tiles, at, clips ? tiles : 0, sizeof(struct step_unit_tile));
    const struct ptxk_step_rules rules = ptxk_step_rules(&spec);
    const uint32_t words = ptxk_step_coefficients_words(&rules);
    at = place(&layout->coefficients, at, layout->clock_count * (uint64_t)words, sizeof(float));
    at = place(&layout->matrix_sums, at, layout->set.sums * STEP_MATRIX_SUMS, sizeof(double));
    at = place(&layout->matrix_totals, at,
               of_matrices ? STEP_MATRIX_SUMS * (params->tensor_count + 1) : 0, sizeof(double));
    at = place(&layout->matrix_work, at, layout->set.bytes, 1);
    at = place(&layout->unit_sums, at, layout->units.sums, sizeof(double));
    at = place(&layout->unit_weights, at, layout->units.weights, sizeof(double));
    at = place(&layout->unit_factors, at, layout->units.units, sizeof(float));
    layout->bytes = place(&layout->tile_reports, at, notes ? tiles + fp8->square_tiles : 0,
                          sizeof(struct step_tile_report));
    for (size_t t = 0; t < params->tensor_count; t++)
        layout->bytes_moved += bytes_moved(params, layout, t);
    return PTX_OK;
}

void ptxp_step_layout_free(struct step_layout *layout)
{
    free(layout->clocks);
    free(layout->places);
    ptxp_matrix_set_free(&layout->set);
    ptxp_qk_free(&layout->qk);
    layout->clocks = NULL;
    layout->places = NULL;
}

// ---- descriptions -------------------------------------------------------------------------------

void ptxp_step_describe_kernel(const struct ptx_function_info *kernel,
                               struct ptx_step_description *to)
{
    if (!kernel)
        return;
    to->registers = kernel->registers > to->registers ? kernel->registers : to->registers;
    to->local = kernel->local > to->local ? kernel->local : to->local;
    if (to->local)
        to->warning = "a kernel keeps values of its threads in local memory, because a rule has "
                      "more at one time than there are registers: steps take longer";
}

// ---- the image ----------------------------------------------------------------------------------

// Whether the eight elements that a thread processes at once share one Philox counter.
static bool eights_in_a_row(const struct ptx_step_whole *w)
{
    return w->first % 8 == 0 &&
           (w->run == 0 || w->run == w->stride || (w->run % 8 == 0 && w->stride % 8 == 0));
}

static bool takes_vectors(const struct ptx_step_tensor *tensor, const struct ptxk_step_variant *v)
{
    CUdeviceptr bits = tensor->parameter | tensor->beside | tensor->ema;

    for (unsigned k = 0; k < PTX_STEP_MAX_STATES; k++)
        bits |= tensor->state[k];
    if (v->copy)
        bits |= tensor->fp8 * (VECTOR_BYTES / ptxk_step_lanes(v));
    return bits % VECTOR_BYTES == 0 &&
           (ptxk_step_streams(v) == 0 || eights_in_a_row(&tensor->whole));
}

struct step_tensor_row ptxp_step_row_of(const struct ptx_step_params *params,
                                        const struct step_layout *layout, size_t t)
{
    const struct ptx_step_tensor *tensor = &params->tensors[t];
    struct ptxk_step_variant v = ptxp_step_variant_of(tensor, &params->groups[tensor->group]);
    const bool in_a_row = tensor->whole.run == 0;

    v.qk_clip = ptxp_qk_has(&layout->qk, t);
    v.square = ptxp_copies_is_square(params, layout, t);
    struct step_tensor_row row = {
        .parameter = tensor->parameter,
        .beside = tensor->beside,
        .step = ptxp_step_has_clock(tensor) ? tensor->step : 0,
        .first = tensor->whole.first,
        .run = in_a_row ? 1 : tensor->whole.run,
        .stride = in_a_row ? 1 : tensor->whole.stride,
        .id = tensor->id,
        .clock = layout->clocks[t],
        .variant = 2 * place_of(layout, &v) + takes_vectors(tensor, &v),
        .norm_group = tensor->norm_group,
    };
    CUdeviceptr states[PTX_STEP_MAX_STATES];

    for (unsigned k = 0; k < PTX_STEP_MAX_STATES; k++)
        states[k] = ptxp_step_state_at(tensor, &v, k);
    memcpy(row.state, states, sizeof row.state);
    memcpy(row.more_states, states + STEP_ROW_STATES, sizeof row.more_states);
    memcpy(row.last_states, states + PTX_RULE_MAX_STATES, sizeof row.last_states);
    memcpy(row.absmax, tensor->absmax, sizeof row.absmax);
    memcpy(row.more_absmax, tensor->absmax + STEP_ROW_STATES, sizeof row.more_absmax);
    return row;
}

static void fill_tiles(const struct ptx_step_params *params, const struct step_layout *layout,
                       struct step_tile_row *tiles)
{
    size_t count = 0;

    for (size_t n = 0; n < 2 * params->tensor_count; n++) {
        const size_t t = nth_tensor(params, n);
        for (uint32_t k = 0; t != SIZE_MAX && k < listed_tiles(params, layout, t); k++)
            tiles[count++] = (struct step_tile_row) { (uint32_t)t, k };
    }
    if (count == 0 && layout->tiles.length)
        tiles[0] = (struct step_tile_row) { (uint32_t)params->tensor_count, 0 };
}

static void fill_first_tiles(const struct ptx_step_params *params, const struct step_layout *layout,
                             uint32_t *first)
{
    uint32_t at = 0;

    for (size_t n = 0; n < 2 * params->tensor_count; n++) {
        const size_t t = nth_tensor(params, n);
        if (t == SIZE_MAX)
            continue;
        first[t] = ptxp_copies_is_square(params, layout, t) ? STEP_NO_TILES : at;
        at += (uint32_t)listed_tiles(params, layout, t);
    }
}

void ptxp_step_layout_fill(const struct ptx_step_params *params, const struct step_layout *layout,
                           CUdeviceptr memory, unsigned char *image)
{
    uint64_t *rows = (void *)(image + layout->rows.offset);
    struct step_clock_row *clocks = (void *)(image + layout->clock_rows.offset);
    struct ptx_step_hyper *hypers = (void *)(image + layout->hypers.offset);
    struct step_accumulator_row *sums = (void *)(image + layout->accumulators.offset);
    struct step_copy_row *copies = (void *)(image + layout->copies.offset);
    const struct ptxk_step_spec spec = { .variants = layout->variants,
                                         .variant_count = layout->variant_count };
    const struct ptxk_step_rules rules = ptxk_step_rules(&spec);

    for (size_t t = 0; t < params->tensor_count; t++) {
        const struct ptx_step_tensor *tensor = &params->tensors[t];
        const struct ptx_step_group *group = &params->groups[tensor->group];
        const CUdeviceptr own =
            memory + layout->hypers.offset + tensor->group * (CUdeviceptr)sizeof *hypers;
        const struct step_tensor_row row = ptxp_step_row_of(params, layout, t);
        memcpy(rows + t * layout->row_words, &row, layout->row_words * sizeof *rows);
        if (layout->accumulates)
            sums[t] = (struct step_accumulator_row) { tensor->accumulator, tensor->accumulated };
        if (layout->copies.length)
            copies[t] = (struct step_copy_row) { tensor->amax, tensor->fp8, tensor->fp8_scale,
                                                 tensor->fp8_scale_inv };
        if (!ptxp_step_has_clock(tensor))
            continue;
        clocks[layout->clocks[t]] = (struct step_clock_row) {
            .step = tensor->step,
            .hyper = group->hyper_at ? group->hyper_at : own,
            .lr = group->lr_at,
            .rule = ptxk_step_rule_number(&rules, ptxp_step_rule_of(group)),
        };
    }
    for (uint32_t g = 0; g < params->group_count; g++)
        hypers[g] = params->groups[g].hyper;
    memcpy(image + layout->seed.offset, &params->seed, sizeof params->seed);
    fill_tiles(params, layout, (void *)(image + layout->tiles.offset));
    if (layout->first_tiles.length)
        fill_first_tiles(params, layout, (void *)(image + layout->first_tiles.offset));
    if (layout->fold_parts.length)
        fold_parts(params, layout, layout->tile, (void *)(image + layout->fold_parts.offset));
    if (layout->accumulates)
        ptxp_sum_parts(params, (void *)(image + layout->sum_parts.offset));
    ptxp_copies_fill(params, layout, image);
    ptxp_matrix_fill(params, layout, memory, image);
    ptxp_qk_fill(params, layout, memory, image);
    ptxp_units_fill(params, layout, image);
    if (layout->tables.length)
        ptxk_step_tables_fill(&spec, image + layout->tables.offset);
}
