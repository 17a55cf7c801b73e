// SPDX-License-Identifier: MIT
// Reports of weights, and the largest weight alone: each thread notes the weights that it has
// stored, and each block leaves what its threads noted. The block of a tensor that is one tile
// writes its report or amax; for the others a launch that follows folds the tiles.
#include "common/common.h"
#include "norm_parts.h"
#include "step_fp8_blocks.h"
#include "step_tile.h"
#include "step_units.h"

#define TILE(member)   NORM_PLACE(double, struct step_tile_report, member)
#define TILE32(member) NORM_PLACE(float, struct step_tile_report, member)
#define REPORT(member) NORM_PLACE(double, struct ptx_weight_report, member)
#define FOLD(member)   NORM_PLACE(uint32_t, struct step_fold_row, member)

bool ptxk_step_reports(const struct ptxk_tile *s)
{
    return s->spec->reports_weights && !s->reduces;
}

bool ptxk_step_notes(const struct ptxk_tile *s)
{
    return (s->spec->reports_weights || s->spec->takes_amax) && !s->reduces;
}

bool ptxk_step_sees(const struct ptxk_tile *s)
{
    return ptxk_step_notes(s) || (s->spec->clips_units && !s->reduces);
}

bool ptxk_step_in_order(const struct ptxk_tile *s)
{
    return ptxk_step_reports(s) || s->spec->clips_units;
}

// `folds`: in the launch that does.
static void params(ptx_builder *b, struct ptxk_tile *s, bool folds)
{
    const char *const name = s->square ? "square_reports" : "tile_reports";

    s->tile_reports = ptx_param_ptr(b, PTX_F64, name, .writeonly = !folds,
                                    .meaning = "rows of 3, one a tile: sums of squares of the "
                                               "weights and of the change, largest (f32)");
    s->folds = ptx_param_ptr(b, PTX_U32, "folds", .writeonly = !folds,
                             .meaning = "rows of 2, one a tensor: 1 if its tiles have left "
                                        "something, parts through");
    if (s->spec->reports_weights)
        s->reports = ptx_param_ptr(b, PTX_F64, "weight_reports_at", .writeonly = true,
                                   .meaning = "rows of 3, one a tensor: norm, norm of the change, "
                                              "largest (f32) and absent (u32)");
}

void ptxk_step_report_param(ptx_builder *b, struct ptxk_tile *s)
{
    if (ptxk_step_notes(s))
        params(b, s, false);
}

// ---- elements -----------------------------------------------------------------------------------

static struct ptxk_weights_seen nothing_seen(ptx_builder *b, const struct ptxk_step_spec *spec)
{
    struct ptxk_weights_seen seen = { .largest = ptx_var(b, ptx_f32(0)) };

    if (spec->reports_weights) {
        seen.norm = ptx_var(b, ptx_f64(0));
        seen.change = ptx_var(b, ptx_f64(0));
    }
    return seen;
}

void ptxk_step_report_begin(ptx_builder *b, struct ptxk_tile *s)
{
    if (!ptxk_step_notes(s))
        return;
    s->seen = nothing_seen(b, s->spec);
}

void ptxk_step_report_old(ptx_builder *b, const struct ptxk_tile *s, unsigned lanes,
                          ptx_val value[ARRAYS][PTXK_LANES], ptx_val *old)
{
    const bool follows = !ptxk_step_reads(s->variant, ARRAY_PARAMETER);

    if (!ptxk_step_reports(s))
        return;
    for (unsigned k = 0; k < lanes; k++) {
        ptxk_comment_lanes(b, "the weight before the step", k, ptxk_comment_each(b) / 2, lanes);
        old[k] = follows ? ptxk_step_as_stored(b, s->variant->parameter, value[ARRAY_BESIDE][k])
                         : ptx_cvt(b, PTX_F32, value[ARRAY_PARAMETER][k]);
    }
}

void ptxk_step_report_new(ptx_builder *b, const struct ptxk_tile *s, unsigned lanes,
                          ptx_val value[ARRAYS][PTXK_LANES], const ptx_val *old)
{
    const struct ptxk_weights_seen *seen = &s->seen;

    if (!ptxk_step_sees(s))
        return;
    for (unsigned k = 0; k < lanes; k++) {
        ptxk_comment_lanes(b, "notes the weight", k, ptxk_comment_each(b) / 2, lanes);
        ptx_val is = ptxk_step_as_stored(b, s->variant->parameter, value[ARRAY_PARAMETER][k]);
        if (s->spec->clips_units)
            ptxk_units_note(b, s, is);
        if (!ptxk_step_notes(s))
            continue;
        if (ptxk_step_reports(s)) {
            ptx_val wide = ptx_cvt(b, PTX_F64, is);
            ptx_val change = ptx_sub(b, wide, ptx_cvt(b, PTX_F64, old[k]));
            ptx_set(b, seen->norm, ptx_fma(b, wide, wide, seen->norm));
            ptx_set(b, seen->change, ptx_fma(b, change, change, seen->change));
        }
        ptx_set(b, seen->largest, ptxk_larger(b, seen->largest, ptx_abs(b, is)));
    }
}

// ---- tiles --------------------------------------------------------------------------------------

// What all threads have noted, in thread 0.
static struct ptxk_weights_seen of_block(ptx_builder *b, const struct ptxk_step_spec *spec,
                                         const struct ptxk_weights_seen *own, unsigned threads)
{
    struct ptxk_reduced r[] = { { own->largest, ptxk_larger, "the largest" },
                                { own->norm, ptx_add, "the squares of the weights" },
                                { own->change, ptx_add, "those of the change" } };

    ptxk_block_reduce(b, r, spec->reports_weights ? 3 : 1, threads);
    return (struct ptxk_weights_seen) { r[1].value, r[2].value, r[0].value };
}

static void report_write(ptx_builder *b, const struct ptxk_tile *s, ptx_val norm, ptx_val change,
                         ptx_val largest, uint32_t absent)
{
    const uint32_t length = NORM_LENGTH(double, struct ptx_weight_report);
    ptx_ptr to = ptx_at(b, s->reports, ptx_mul_wide(b, s->tensor, length));
    ptx_ptr words = ptx_ptr_cast(b, PTX_U32, to);

    ptx_store(b, to, REPORT(norm), norm);
    ptx_store(b, to, REPORT(change), change);
    ptx_store(b, words, NORM_PLACE(uint32_t, struct ptx_weight_report, largest),
              ptx_bitcast(b, PTX_U32, largest));
    ptx_store(b, words, NORM_PLACE(uint32_t, struct ptx_weight_report, absent), absent);
}

void ptxk_step_report_absent(ptx_builder *b, const struct ptxk_tile *s, ptx_val absent)
{
    ptx_val first = ptx_and(b, s->starts, ptx_eq(b, s->tid, 0));

    ptx_if (b, ptx_and(b, absent, first))
        report_write(b, s, ptx_f64(0), ptx_f64(0), ptx_f32(0), 1);
}

// Writes the tensor's amax, where it is wanted.
static void amax_write(ptx_builder *b, const struct ptxk_tile *s, ptx_val largest)
{
    ptx_comment(b, "the tensor's amax");
    ptx_if (b, ptx_ne(b, s->amax_at, 0))
        ptx_store(b, ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, s->amax_at), 0, largest);
}

// Writes what is known of the whole tensor. Executed by one thread.
static void tensor_write(ptx_builder *b, const struct ptxk_tile *s,
                         const struct ptxk_weights_seen *all)
{
    ptx_val largest = ptxk_one_nan(b, all->largest);

    if (s->spec->reports_weights) {
        ptx_comment(b, "the tensor's report");
        ptx_val norm = ptxk_one_nan(b, ptx_sqrt(b, all->norm));
        ptx_val change = ptxk_one_nan(b, ptx_sqrt(b, all->change));
        report_write(b, s, norm, change, largest, 0);
    }
    if (s->spec->takes_amax)
        amax_write(b, s, largest);
}

// The place of a member of the tensor's row in `folds`.
static ptx_val fold_of(ptx_builder *b, const struct ptxk_tile *s, uint32_t member)
{
    return ptx_mad(b, s->tensor, NORM_LENGTH(uint32_t, struct step_fold_row), member);
}

static ptx_ptr row_of(ptx_builder *b, const struct ptxk_tile *s, ptx_val tile)
{
    const uint32_t length = NORM_LENGTH(double, struct step_tile_report);

    return ptx_at(b, s->tile_reports, ptx_mul_wide(b, tile, length));
}

// Leaves what is known of a tile, or of several.
static void row_store(ptx_builder *b, const struct ptxk_tile *s, ptx_val tile,
                      const struct ptxk_weights_seen *all)
{
    ptx_ptr row = row_of(b, s, tile);

    if (s->spec->reports_weights) {
        ptx_store(b, row, TILE(norm), all->norm);
        ptx_store(b, row, TILE(change), all->change);
    }
    ptx_store(b, ptx_ptr_cast(b, PTX_F32, row), TILE32(largest), all->largest);
}

// Adds it.
static void row_take(ptx_builder *b, const struct ptxk_tile *s, ptx_val tile,
                     const struct ptxk_weights_seen *to)
{
    ptx_ptr row = row_of(b, s, tile);
    ptx_val largest = ptx_load(b, ptx_ptr_cast(b, PTX_F32, row), TILE32(largest));

    if (s->spec->reports_weights) {
        ptx_val norm = ptx_load(b, row, TILE(norm)), change = ptx_load(b, row, TILE(change));
        ptx_set(b, to->norm, ptx_add(b, to->norm, norm));
        ptx_set(b, to->change, ptx_add(b, to->change, change));
    }
    ptx_set(b, to->largest, ptxk_larger(b, to->largest, largest));
}

void ptxk_step_report_tile(ptx_builder *b, const struct ptxk_tile *s)
{
    if (s->square)
        ptx_return_if(b, s->square->left);
    if (!s->spec->reports_weights)
        ptx_return_if(b, ptx_eq(b, s->amax_at, 0));
    const unsigned threads = s->square ? s->square->tile.threads : ptxk_step_threads(s->spec);
    struct ptxk_weights_seen all = of_block(b, s->spec, &s->seen, threads);
    ptx_val several = s->several.type ? s->several : ptx_gt(b, s->elements, s->spec->tile);

    ptx_return_if(b, ptx_ne(b, s->tid, 0));
    ptx_if (b, several) {
        ptx_comment(b, "of several tiles, what the block leaves");
        row_store(b, s, s->place, &all);
        ptx_if (b, s->starts)
            ptx_store(b, s->folds, fold_of(b, s, FOLD(left)), 1);
    }
    ptx_else (b)
        tensor_write(b, s, &all);
}

// ---- tensors of several tiles -------------------------------------------------------------------

// A block's row of `fold_parts`: tiles 256 * part to 256 * part + 255 of a tensor.
struct part {
    ptx_val index, first, tiles; // u32; first: the tensor's first tile
};

static void fold_end(ptx_builder *b, const struct ptxk_tile *s, const struct ptxk_weights_seen *all)
{
    tensor_write(b, s, all);
    ptx_store(b, s->folds, fold_of(b, s, FOLD(left)), 0);
}

// A thread takes a tile, and a tree over the threads follows. A part leaves its result in the row
// of its first tile, which no other one reads. The last of several adds them: thread t those of
// parts t, t + 256, ... in this order, and the tree.
static void fold(ptx_builder *b, const struct ptxk_tile *s, const struct part *part)
{
    struct ptxk_weights_seen own = nothing_seen(b, s->spec), all;
    ptx_val is_first = ptx_eq(b, s->tid, 0), begin = ptx_mul(b, part->index, NORM_BLOCK);
    ptx_val tile = ptx_add(b, begin, s->tid);

    ptx_if (b, ptx_lt(b, tile, part->tiles))
        row_take(b, s, ptx_add(b, part->first, tile), &own);
    all = of_block(b, s->spec, &own, NORM_BLOCK);
    ptx_val alone = ptx_le(b, part->tiles, NORM_BLOCK), last = ptx_var(b, ptx_bool(false));
    ptx_if (b, ptx_and(b, alone, is_first))
        fold_end(b, s, &all);
    ptx_return_if(b, alone);
    ptx_comment(b, "of several parts, what the block leaves");
    ptx_if (b, is_first) {
        row_store(b, s, ptx_add(b, part->first, begin), &all);
        ptx_val limit = ptxk_over_power_of_two(b, ptx_sub(b, part->tiles, 1), NORM_BLOCK);
        ptx_val before = ptx_atomic(b, PTX_ATOMIC_inc, s->folds, fold_of(b, s, FOLD(arrivals)),
                                    limit, .order = PTX_ORDER_ACQ_REL);
        ptx_set(b, last, ptx_eq(b, before, limit));
    }
    ptx_if (b, ptx_barrier_any(b, last)) {
        ptx_comment(b, "the last part of the tensor");
        own = nothing_seen(b, s->spec);
        ptx_for (b, k, ptx_mul(b, s->tid, NORM_BLOCK), part->tiles, NORM_BLOCK * NORM_BLOCK)
            row_take(b, s, ptx_add(b, part->first, k), &own);
        all = of_block(b, s->spec, &own, NORM_BLOCK);
        ptx_if (b, is_first)
            fold_end(b, s, &all);
    }
}

void ptxk_step_report_emit(ptx_builder *b, const struct norm_spec *norm)
{
    const uint32_t length = NORM_LENGTH(uint32_t, struct step_fold_part);
    struct ptxk_tile s = { .spec = norm->own };

    ptx_comment(b, "a block for each 256 tiles of a tensor of several: its report, or amax");
    ptx_ptr parts = ptx_param_ptr(b, PTX_U32, "fold_parts", .readonly = true,
                                  .meaning = "rows of 4, one a block: tensor, part of it, its "
                                             "first tile, its tiles");
    params(b, &s, true);
    if (s.spec->takes_amax)
        s.copies = ptxk_step_copies_param(b);
    s.tid = ptx_tid(b, PTX_X);
    ptx_vec row = ptx_load_vec(b, parts, ptx_mul_wide(b, ptx_ctaid(b, PTX_X), length), 4);
    s.tensor = row.lane[0];
    if (s.spec->takes_amax)
        s.amax_at = ptxk_step_amax_of(b, &s);
    const struct part part = { row.lane[1], row.lane[2], row.lane[3] };
    ptxk_norm_wait_for_last(b);
    ptx_comment(b, "nothing where the tensor was not stepped");
    ptx_val left = ptx_load(b, s.folds, fold_of(b, &s, FOLD(left)));
    ptx_return_if(b, ptx_eq(b, left, 0));
    fold(b, &s, &part);
}
