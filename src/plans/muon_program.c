// SPDX-License-Identifier: MIT
#include "muon_program.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "driver/error.h"
#include "kernels/common/parts.h"
#include "muon_schedule.h"

enum { LEAST_SM = 80, TRIPLE = 3 };

static bool is_muon(const struct ptx_step_group *group)
{
    return ptxp_step_rule_of(group)->of_matrices != NULL;
}

static const struct ptx_step_group *group_of(const struct ptx_step_params *params, size_t t)
{
    return &params->groups[params->tensors[t].group];
}

bool ptxp_is_matrix(const struct ptx_step_params *params, size_t t)
{
    return params->tensors[t].count && is_muon(group_of(params, t));
}

static uint64_t rows_of(const struct ptx_step_tensor *tensor)
{
    return tensor->count / tensor->columns;
}

bool ptxp_matrix_is_cut(const struct ptx_step_params *params, size_t t)
{
    return is_muon(group_of(params, t)) && params->tensors[t].whole_rows;
}

uint64_t ptxp_matrix_update_bytes(const struct ptx_step_tensor *tensor)
{
    return tensor->count ? rows_of(tensor) * muon_pitch((uint32_t)tensor->columns) : 0;
}

// Those of all of its matrix.
static uint64_t all_rows_of(const struct ptx_step_tensor *tensor)
{
    return tensor->whole_rows ? tensor->whole_rows : rows_of(tensor);
}

// The matrix that its passes see. They go through one whose rows follow one another in X, too, in
// the order of memory, as if it had rows as long as those of a tile.
struct view {
    bool turns;
    uint64_t rows, columns, line;
};

static struct view view_of(const struct ptx_step_tensor *tensor)
{
    const uint64_t rows = rows_of(tensor), columns = tensor->columns;
    const bool turns = rows > columns && !tensor->whole_rows;
    const uint64_t line = muon_pitch((uint32_t)(turns ? rows : columns)) / sizeof(uint16_t);

    if (turns || line != columns || tensor->count % STEP_MATRIX_COLUMNS)
        return (struct view) { turns, rows, columns, line };
    return (struct view) { false, tensor->count / STEP_MATRIX_COLUMNS, STEP_MATRIX_COLUMNS,
                           STEP_MATRIX_COLUMNS };
}

static uint64_t tiles_of(const struct view *v)
{
    return v->turns
               ? parts_of(v->rows, STEP_MATRIX_TILE) * parts_of(v->columns, STEP_MATRIX_TILE)
               : parts_of(v->rows, STEP_MATRIX_ROWS) * parts_of(v->columns, STEP_MATRIX_COLUMNS);
}

// The tiles of a block. What it reads once takes as long as a tile or two, and small matrices are
// to have blocks for all multiprocessors.
static uint32_t each_of(const struct view *v)
{
    enum { MANY = 96, EACH = 4 };

    return tiles_of(v) >= MANY ? EACH : 1;
}

static uint32_t steps_of(const struct ptx_step_group *group)
{
    return !is_muon(group) ? 0 : group->muon ? group->muon->steps : (uint32_t)PTX_MUON_STEPS;
}

// Whether what makes the last product may step the matrix, by its sides. Blocks of small matrices
// and of squares are slower at it than a launch; only tiles are read transposed.
static bool has_sides_to_step(uint64_t rows, uint64_t columns)
{
    if (rows > columns)
        return columns > MUON_CHIP_MOST;
    return rows > (rows == columns ? MUON_SQUARE_MOST : MUON_CHIP_MOST / 2);
}

// Whether it does: all of the matrix is here, one element after the other, and there are products.
static bool is_stepped_by_products(const struct ptx_step_params *params, size_t t)
{
    const struct ptx_step_tensor *tensor = &params->tensors[t];

    return !tensor->whole_rows && !tensor->spread.run && steps_of(group_of(params, t)) &&
           has_sides_to_step(rows_of(tensor), tensor->columns) && tensor->count < UINT32_C(1) << 30;
}

// Whether the block makes its update, too: of a short matrix it would wait for memory alone. A Q
// that is kept takes at most 0.2 bytes an element.
static bool is_updated_on_chip(const struct ptx_step_params *params, size_t t)
{
    const uint64_t rows = rows_of(&params->tensors[t]);

    return is_stepped_by_products(params, t) && rows <= MUON_CHIP_MOST &&
           params->tensors[t].count >= 5 * MUON_KEPT;
}

size_t ptxp_matrix_many = 512; // twice as many blocks as an H200 has at once
uint32_t ptxp_matrix_side, ptxp_matrix_band;

enum matrix_chips ptxp_matrix_chips(const struct ptx_step_params *params)
{
    size_t updated = 0;

    if (params->weight_reports_at || params->qk_clip_count)
        return MATRIX_NO_CHIPS;
    for (size_t t = 0; t < params->tensor_count; t++) {
        if (params->tensors[t].amax || params->tensors[t].fp8)
            return MATRIX_NO_CHIPS;
        updated += ptxp_is_matrix(params, t) && is_updated_on_chip(params, t);
    }
    return updated >= ptxp_matrix_many ? MATRIX_CHIPS_UPDATED : MATRIX_CHIPS_STEPPED;
}

static uint64_t tiles_unless(const struct ptx_step_params *params, size_t t, bool by_products)
{
    const struct view v = view_of(&params->tensors[t]);

    return by_products ? 0 : parts_of(tiles_of(&v), each_of(&v));
}

uint64_t ptxp_matrix_tiles(const struct ptx_step_params *params, enum matrix_chips chips, size_t t)
{
    return tiles_unless(params, t, chips == MATRIX_CHIPS_UPDATED && is_updated_on_chip(params, t));
}

uint64_t ptxp_matrix_step_tiles(const struct ptx_step_params *params, enum matrix_chips chips,
                                size_t t)
{
    return tiles_unless(params, t, chips && is_stepped_by_products(params, t));
}

// ---- checks -------------------------------------------------------------------------------------

ptx_status ptxp_muon_check(const char *what, size_t k, const struct ptx_muon_params *muon)
{
    if (muon->steps > PTX_MUON_MOST_STEPS)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s %zu: muon->steps is %" PRIu32 "; there are at most %d", what, k,
                         muon->steps, PTX_MUON_MOST_STEPS);
    if ((unsigned)muon->adjust > PTX_MUON_ADJUST_MATCH_RMS_ADAMW)
        return ptxd_fail(PTX_ERROR_INVALID, "%s %zu: muon->adjust is %d; there are %d to %d", what,
                         k, (int)muon->adjust, PTX_MUON_ADJUST_ORIGINAL,
                         PTX_MUON_ADJUST_MATCH_RMS_ADAMW);
    for (uint32_t n = 0; muon->triples && n < TRIPLE * muon->steps; n++)
        if (!isfinite(muon->triples[n]))
            return ptxd_fail(PTX_ERROR_INVALID,
                             "%s %zu: muon->triples[%" PRIu32 "] is %g; the coefficients of a step "
                             "must be finite",
                             what, k, n, (double)muon->triples[n]);
    return PTX_OK;
}

ptx_status ptxp_muon_check_sides(const char *what, size_t k, uint64_t rows, uint64_t columns)
{
    if ((rows < columns ? rows : columns) > PTX_MUON_MOST_ROWS)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s %zu: it is a matrix of %" PRIu64 " x %" PRIu64 "; rule muon takes "
                         "a smaller side of at most %d",
                         what, k, rows, columns, PTX_MUON_MOST_ROWS);
    if ((rows > columns ? rows : columns) > PTX_MUON_MOST_COLUMNS)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "%s %zu: it is a matrix of %" PRIu64 " x %" PRIu64 "; rule muon takes "
                         "sides of at most 2^24",
                         what, k, rows, columns);
    return PTX_OK;
}

ptx_status ptxp_matrix_check_group(uint32_t g, const struct ptx_step_group *group)
{
    const struct ptx_muon_params *muon = group->muon;

    if (!muon)
        return PTX_OK;
    if (!is_muon(group))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "group %" PRIu32 ": muon is given, and its rule is %s: make it NULL", g,
                         ptxp_step_rule_of(group)->name);
    return ptxp_muon_check("group", g, muon);
}

// Of a tensor that has rows of a matrix.
static ptx_status check_cut(size_t t, const struct ptx_step_tensor *tensor)
{
    const uint64_t first = tensor->count ? tensor->whole.first : 0;

    if (tensor->whole.run || first % tensor->columns ||
        first / tensor->columns + rows_of(tensor) > tensor->whole_rows)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: whole_rows is %" PRIu64 ", and `whole` says first %" PRIu64
                         ", run %" PRIu64 ": it must have rows of that matrix, of %" PRIu64
                         " columns, one after the other",
                         t, tensor->whole_rows, tensor->whole.first, tensor->whole.run,
                         tensor->columns);
    if (tensor->count && (!tensor->update || tensor->update % 16))
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: update is 0x%llx, and the tensor has rows of a matrix: it "
                         "must be an address that is a multiple of 16",
                         t, (unsigned long long)tensor->update);
    return PTX_OK;
}

static ptx_status check_spread(size_t t, const struct ptx_step_tensor *tensor)
{
    const struct ptx_muon_spread *s = &tensor->spread;

    if (s->run >= STEP_MATRIX_NO_RUN || s->stride < s->run || s->stride >> 31)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: spread has a run of %" PRIu64 " elements and a stride of "
                         "%" PRIu64 "; a run is below 2^30, a stride no less than the run and "
                         "below 2^31",
                         t, s->run, s->stride);
    if (s->run % tensor->columns && tensor->columns % s->run)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: spread.run is %" PRIu64 ", neither whole rows of its matrix, "
                         "of %" PRIu64 " columns, nor such a part of one that there are whole ones",
                         t, s->run, tensor->columns);
    if (tensor->fp8_blocks || tensor->fp8_transposed)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: %s is given, and its elements are not consecutive, as spread "
                         "says: make it 0",
                         t, tensor->fp8_blocks ? "fp8_blocks" : "fp8_transposed");
    return PTX_OK;
}

static ptx_status check_matrix(size_t t, const struct ptx_step_tensor *tensor)
{
    const uint64_t columns = tensor->columns;

    if (!columns || tensor->count % columns)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: columns is %" PRIu64 ", and the tensor has %" PRIu64
                         " elements%s: its rule, muon, steps matrices; give the length of their "
                         "rows",
                         t, columns, tensor->count, columns ? ", which is no multiple" : "");
    ptx_status status = ptxp_muon_check_sides("tensor", t, all_rows_of(tensor), columns);
    if (!status && tensor->spread.run)
        status = check_spread(t, tensor);
    return status || !tensor->whole_rows ? status : check_cut(t, tensor);
}

ptx_status ptxp_matrix_check_tensor(size_t t, const struct ptx_step_tensor *tensor,
                                    const struct ptx_step_group *group)
{
    if (!is_muon(group) && tensor->spread.run)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: spread.run is %" PRIu64 ", and its rule is %s: only muon's "
                         "matrices may be rows or columns of a parameter",
                         t, tensor->spread.run, ptxp_step_rule_of(group)->name);
    if ((!is_muon(group) || !tensor->whole_rows) && tensor->update)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: update is given, and the tensor has no rows of a matrix "
                         "whose others are elsewhere: whole_rows and rule muon belong to it",
                         t);
    if (!is_muon(group))
        return tensor->whole_rows ? ptxd_fail(PTX_ERROR_INVALID,
                                              "tensor %zu: whole_rows is %" PRIu64
                                              ", and its rule is %s: only muon has matrices",
                                              t, tensor->whole_rows, ptxp_step_rule_of(group)->name)
                                  : PTX_OK;
    if (ptxk_step_format_of(tensor->format)->by_block)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: its rule is muon, and its format, %s, stores states in "
                         "blocks: take one without blocks",
                         t, ptxk_step_format_of(tensor->format)->name);
    if ((tensor->whole.first || tensor->whole.run) && !tensor->whole_rows)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: its rule, muon, steps whole matrices, and `whole` says that "
                         "the tensor is a shard: give all of it, or the matrix's whole_rows",
                         t);
    if (!tensor->count && tensor->counts_empty)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "tensor %zu: counts_empty is set, and its rule is muon: a rank with rows "
                         "of the matrix counts its steps",
                         t);
    return tensor->count ? check_matrix(t, tensor) : PTX_OK;
}

ptx_status ptxp_matrix_check_target(const struct step_layout *layout, int sm)
{
    if (layout->matrix_rows.length && sm < LEAST_SM)
        return ptxd_fail(PTX_ERROR_UNSUPPORTED,
                         "rule muon needs sm_%d or newer, whose products take f16; this is sm_%d",
                         LEAST_SM, sm);
    return PTX_OK;
}

// ---- copies -------------------------------------------------------------------------------------

void *ptxp_matrix_copy(struct ptx_step_group *groups, uint32_t count)
{
    const size_t room = sizeof(struct ptx_muon_params);
    size_t triples = 0;

    for (uint32_t g = 0; g < count; g++)
        triples += groups[g].muon && groups[g].muon->triples ? TRIPLE * groups[g].muon->steps : 0;
    struct ptx_muon_params *copy = malloc((count + 1) * room + triples * sizeof(float));
    if (!copy)
        return NULL;
    float *at = (void *)(copy + count + 1);
    for (uint32_t g = 0; g < count; g++) {
        if (!groups[g].muon)
            continue;
        copy[g] = *groups[g].muon;
        groups[g].muon = &copy[g];
        if (!copy[g].triples)
            continue;
        memcpy(at, copy[g].triples, copy[g].steps * TRIPLE * sizeof *at);
        copy[g].triples = at;
        at += copy[g].steps * TRIPLE;
    }
    return copy;
}

// ---- layout -------------------------------------------------------------------------------------

static uint64_t sums_of(const struct ptx_step_tensor *tensor)
{
    return parts_of(tensor->count, STEP_MATRIX_PART);
}

struct muon_schedule ptxp_muon_schedule(const struct ptx_muon_params *muon, float (*triples)[3])
{
    static const float usual[TRIPLE] = { 3.4445f, -4.7750f, 2.0315f };
    const float *given = muon ? muon->triples : NULL;
    const uint32_t steps = muon ? muon->steps : (uint32_t)PTX_MUON_STEPS;

    for (uint32_t k = 0; k < steps; k++)
        memcpy(triples[k], given ? given + TRIPLE * k : usual, sizeof *triples);
    return (struct muon_schedule) { steps, (const float(*)[TRIPLE])triples };
}

// A schedule for each group, with triples of its own.
static void fill_schedules(const struct ptx_step_params *params, struct matrix_set *set)
{
    float(*at)[TRIPLE] = set->triples;

    for (uint32_t g = 0; g < params->group_count; g++) {
        if (is_muon(&params->groups[g]))
            set->schedules[g] = ptxp_muon_schedule(params->groups[g].muon, at);
        at += set->schedules[g].steps;
    }
}

static ptx_status allocate(const struct ptx_step_params *params, size_t matrices,
                           struct matrix_set *set)
{
    size_t steps = 0;

    for (uint32_t g = 0; g < params->group_count; g++)
        steps += steps_of(&params->groups[g]);
    set->matrices = calloc(matrices, sizeof *set->matrices);
    set->schedules = calloc(params->group_count, sizeof *set->schedules);
    set->triples = calloc(steps + 1, sizeof *set->triples);
    if (!set->matrices || !set->schedules || !set->triples)
        return ptxd_fail(PTX_ERROR_OUT_OF_MEMORY, "out of host memory for a step plan");
    return PTX_OK;
}

void ptxp_matrix_set_free(struct matrix_set *set)
{
    free(set->matrices);
    free(set->schedules);
    free(set->triples);
    free(set->windows);
    *set = (struct matrix_set) { 0 };
}

static struct muon_set products_of(const struct ptx_step_params *params,
                                   const struct matrix_set *set)
{
    return (struct muon_set) { .matrices = set->matrices,
                               .count = set->count,
                               .schedules = set->schedules,
                               .schedule_count = params->group_count,
                               .side = ptxp_matrix_side,
                               .band = ptxp_matrix_band };
}

// The entries of products, as bits, whose kernels may take it.
static unsigned takes_of(const struct muon_matrix *m)
{
    if (!m->taken)
        return 0;
    return m->rows <= MUON_CHIP_MOST ? 1u << MUON_CHIP_128
                                     : 1u << MUON_TILES | 1u << MUON_SMALL_TILES;
}

ptx_status ptxp_matrix_measure(const struct ptx_step_params *params, enum matrix_chips chips,
                               struct matrix_set *set)
{
    size_t matrices = 0;

    *set = (struct matrix_set) { 0 };
    for (size_t t = 0; t < params->tensor_count; t++) {
        if (!ptxp_is_matrix(params, t))
            continue;
        matrices++;
        set->tiles += ptxp_matrix_tiles(params, chips, t);
        set->sums += sums_of(&params->tensors[t]);
    }
    if (set->tiles > INT32_MAX)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "the matrices have more than 2^31 tiles of %d x %d elements: make several "
                         "plans",
                         STEP_MATRIX_ROWS, STEP_MATRIX_COLUMNS);
    if (!matrices)
        return PTX_OK;
    ptx_status status = allocate(params, matrices, set);
    if (status)
        return status;
    fill_schedules(params, set);
    for (size_t t = 0; t < params->tensor_count; t++) {
        const struct ptx_step_tensor *tensor = &params->tensors[t];
        if (!ptxp_is_matrix(params, t))
            continue;
        const uint64_t rows = rows_of(tensor), columns = tensor->columns;
        const bool turns = rows > columns;
        if (tensor->whole_rows) { // its products are made where the matrix is whole
            set->matrices[set->count++] =
                (struct muon_matrix) { .columns = (uint32_t)columns, .schedule = tensor->group };
            continue;
        }
        set->matrices[set->count++] = (struct muon_matrix) {
            .rows = (uint32_t)(turns ? columns : rows),
            .columns = (uint32_t)(turns ? rows : columns),
            .schedule = tensor->group,
            .taken = chips && is_stepped_by_products(params, t)
                         ? ((uint32_t)t + 1) | (turns ? STEP_TAKEN_TURNED : 0)
                         : 0,
            .given = chips == MATRIX_CHIPS_UPDATED && is_updated_on_chip(params, t)
        };
    }
    for (size_t k = 0; k < set->count; k++) {
        set->takes |= takes_of(&set->matrices[k]);
        set->takes_turned |= (set->matrices[k].taken & STEP_TAKEN_TURNED) != 0;
    }
    const struct muon_set products = products_of(params, set);
    status = ptxp_muon_layout(&products, &set->bytes);
    return status ? status : ptxp_matrix_windows(params, chips, set);
}

// What lr is multiplied by.
static double adjust_of(const struct ptx_muon_params *muon, const struct ptx_step_tensor *tensor)
{
    const bool swaps = muon && muon->in_by_out;
    const uint64_t rows = all_rows_of(tensor);
    const double a = (double)(swaps ? tensor->columns : rows);
    const double b = (double)(swaps ? rows : tensor->columns);

    if (muon && muon->adjust == PTX_MUON_ADJUST_MATCH_RMS_ADAMW)
        return 0.2 * sqrt(a > b ? a : b);
    return sqrt(a > b ? a / b : 1);
}

static struct step_matrix_row row_of(const struct ptx_step_params *params, size_t t)
{
    const struct ptx_step_tensor *tensor = &params->tensors[t];
    const struct ptx_step_group *group = group_of(params, t);
    const struct ptxk_step_variant v = ptxp_step_variant_of(tensor, group);
    const struct view view = view_of(tensor);

    return (struct step_matrix_row) {
        .adjust = adjust_of(group->muon, tensor),
        .tensor = (uint32_t)t,
        .rows = (uint32_t)view.rows,
        .columns = (uint32_t)view.columns,
        .line = (uint32_t)view.line,
        .each = each_of(&view),
        .run = (uint32_t)tensor->spread.run,
        .stride = (uint32_t)tensor->spread.stride,
        .options = (view.turns ? STEP_MATRIX_TRANSPOSED : 0u) |
                   (group->nesterov ? STEP_MATRIX_NESTEROV : 0u) |
                   (group->maximize ? STEP_MATRIX_MAXIMIZE : 0u) |
                   (ptxk_step_array_type(&v, ARRAY_STATE) == PTX_BF16 ? STEP_MATRIX_BF16 : 0u),
    };
}

// The last tiles first: the norm's launch has read them last, and some are in the L2 cache. Where
// it sums micro-batches it begins with the last.
static void turn_round(struct step_tile_row *tiles, uint64_t count)
{
    for (uint64_t k = 0; k < count / 2; k++) {
        const struct step_tile_row one = tiles[k];
        tiles[k] = tiles[count - 1 - k];
        tiles[count - 1 - k] = one;
    }
}

void ptxp_matrix_fill(const struct ptx_step_params *params, const struct step_layout *layout,
                      CUdeviceptr memory, unsigned char *image)
{
    uint32_t *of = (void *)(image + layout->matrix_of.offset);
    struct step_matrix_row *rows = (void *)(image + layout->matrix_rows.offset);
    struct step_tile_row *const first = (void *)(image + layout->matrix_tiles.offset);
    struct step_tile_row *tiles = first;
    const CUdeviceptr work = memory + layout->matrix_work.offset;
    uint64_t sums = 0;
    uint32_t matrix = 0;

    for (size_t t = 0; t < params->tensor_count; t++) {
        const struct ptx_step_tensor *tensor = &params->tensors[t];
        const struct muon_matrix *m = &layout->set.matrices[matrix];
        if (!ptxp_is_matrix(params, t))
            continue;
        rows[matrix] = row_of(params, t);
        rows[matrix].x = tensor->whole_rows ? tensor->update : work + m->x;
        rows[matrix].to = tensor->whole_rows ? tensor->update : work + m->out;
        rows[matrix].sums = sums;
        sums += sums_of(tensor);
        for (uint32_t k = 0; k < ptxp_matrix_tiles(params, layout->chips, t); k++)
            *tiles++ = (struct step_tile_row) { matrix, k };
        of[t] = ++matrix;
    }
    for (size_t w = 0; w < layout->set.window_count && !layout->accumulates; w++) {
        const struct matrix_part part = ptxp_matrix_part(layout, w);
        turn_round(first + part.tile, part.tiles);
    }
}

// ---- products and launches ----------------------------------------------------------------------

ptx_status ptxp_matrix_products(const struct norm_plan *norm, const struct ptx_step_params *params,
                                const struct step_layout *layout, CUdeviceptr memory,
                                const struct muon_taker *taker, struct muon_products ***products)
{
    struct muon_set all = products_of(params, &layout->set);

    uint64_t others = 0; // elements

    *products = NULL;
    if (!layout->set.count)
        return PTX_OK;
    for (size_t t = 0; t < params->tensor_count; t++)
        others += is_muon(group_of(params, t)) ? 0 : params->tensors[t].count;
    *products = calloc(layout->set.window_count, sizeof **products);
    if (!*products)
        return ptxp_norm_out_of_host_memory(norm->hooks);
    all.taker = *taker;
    for (unsigned k = 0; k < MUON_ENTRIES; k++)
        all.taker.name[k] = layout->set.takes >> k & 1 ? ptxk_step_products_names[k] : NULL;
    for (size_t w = 0; w < layout->set.window_count; w++) {
        struct muon_set set = all;
        set.matrices += layout->set.windows[w].first;
        set.count = layout->set.windows[w].count;
        set.beside = w ? 0 : others;
        (*products)[w] = ptxp_muon_create_like(w ? (*products)[w - 1] : NULL, norm->device, &set,
                                               memory + layout->matrix_work.offset,
                                               norm->params.module, norm->params.stream);
        if (!(*products)[w])
            return ptx_error_status();
    }
    return PTX_OK;
}

void ptxp_matrix_products_free(const struct step_layout *layout, struct muon_products **products)
{
    for (size_t w = layout->set.window_count; w-- > 0 && products;)
        ptxp_muon_destroy(products[w]);
    free(products);
}

ptx_status ptxp_matrix_update(const struct norm_plan *norm, const struct matrix_part *part,
                              bool overlaps, CUstream stream)
{
    const bool early = overlaps && ptxk_step_updates_early(&norm->layout.spec);

    return part->tiles ? ptxp_norm_plan_launch(norm, STEP_MATRIX, part->tiles, early, stream)
                       : PTX_OK;
}

ptx_status ptxp_matrix_multiply(const struct muon_products *products, CUstream stream)
{
    return products ? ptxp_muon_run(products, stream) : PTX_OK;
}

bool ptxp_matrix_multiplies(const struct step_layout *layout)
{
    for (size_t k = 0; k < layout->set.count; k++)
        if (layout->set.matrices[k].rows &&
            layout->set.schedules[layout->set.matrices[k].schedule].steps)
            return true;
    return false;
}

static int launches_of(const struct step_layout *layout, const struct matrix_window *window)
{
    bool in_tiles = false, on_chips[3] = { false };

    for (size_t k = window->first; k < window->first + window->count; k++) {
        const struct muon_matrix *m = &layout->set.matrices[k];
        if (!m->rows || !layout->set.schedules[m->schedule].steps)
            continue;
        if (ptxp_muon_on_chip(m, layout->groups))
            on_chips[(m->rows > MUON_CHIP_MOST / 2) + (m->rows > MUON_CHIP_MOST)] = true;
        else
            in_tiles = true;
    }
    return in_tiles + on_chips[0] + on_chips[1] + on_chips[2];
}

int ptxp_matrix_launches(const struct step_layout *layout)
{
    int launches = 0;

    for (size_t w = 0; w < layout->set.window_count; w++) {
        const struct matrix_part part = ptxp_matrix_part(layout, w);
        launches += (part.tiles != 0) + launches_of(layout, &layout->set.windows[w]);
        launches += part.step_tiles != 0;
    }
    return launches;
}
