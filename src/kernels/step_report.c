// SPDX-License-Identifier: MIT
// Reports of weights, and the largest weight alone: each thread notes the weights that it has
// stored, each block leaves what its threads noted, and the last block of a tensor writes the
// tensor's report or amax.
#include "common/common.h"
#include "step_tile.h"

#define TILE(member)   NORM_PLACE(double, struct step_tile_report, member)
#define TILE32(member) NORM_PLACE(float, struct step_tile_report, member)
#define REPORT(member) NORM_PLACE(double, struct ptx_weight_report, member)

bool ptxk_step_reports(const struct ptxk_tile *s)
{
    return s->spec->reports_weights && !s->reduces;
}

bool ptxk_step_notes(const struct ptxk_tile *s)
{
    return (s->spec->reports_weights || s->spec->takes_amax) && !s->reduces;
}

void ptxk_step_report_param(ptx_builder *b, struct ptxk_tile *s)
{
    s->tile_reports = ptx_param_ptr(b, PTX_F64, "tile_reports",
                                    .meaning = "rows of 3, one a tile: sums of squares of the "
                                               "weights and of the change, largest (f32)");
    s->arrivals = ptx_param_ptr(b, PTX_U32, "arrivals", .meaning = "tiles through, one a tensor");
    s->reports = ptx_param_ptr(b, PTX_F64, "weight_reports_at", .writeonly = true,
                               .meaning = "rows of 3, one a tensor: norm, norm of the change, "
                                          "largest (f32) and absent (u32)");
}

// ---- elements -----------------------------------------------------------------------------------

void ptxk_step_report_begin(ptx_builder *b, struct ptxk_tile *s)
{
    if (!ptxk_step_notes(s))
        return;
    if (ptxk_step_reports(s)) {
        s->seen.norm = ptx_var(b, ptx_f64(0));
        s->seen.change = ptx_var(b, ptx_f64(0));
    } else {
        s->seen.before = ptx_var(b, ptx_u32(0));
    }
    s->seen.largest = ptx_var(b, ptx_f32(0));
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

    if (!ptxk_step_notes(s))
        return;
    for (unsigned k = 0; k < lanes; k++) {
        ptxk_comment_lanes(b, "notes the weight", k, ptxk_comment_each(b) / 2, lanes);
        ptx_val is = ptxk_step_as_stored(b, s->variant->parameter, value[ARRAY_PARAMETER][k]);
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
static struct ptxk_weights_seen of_block(ptx_builder *b, const struct ptxk_weights_seen *own)
{
    struct ptxk_reduced r[] = { { own->norm, ptx_add, "the squares of the weights" },
                                { own->change, ptx_add, "those of the change" },
                                { own->largest, ptxk_larger, "the largest" } };

    ptxk_block_reduce(b, r, sizeof r / sizeof *r, NORM_BLOCK);
    return (struct ptxk_weights_seen) { r[0].value, r[1].value, r[2].value, { 0 } };
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

static void report_sums(ptx_builder *b, const struct ptxk_tile *s,
                        const struct ptxk_weights_seen *all)
{
    ptx_comment(b, "the tensor's report");
    ptx_val norm = ptxk_one_nan(b, ptx_sqrt(b, all->norm));
    ptx_val change = ptxk_one_nan(b, ptx_sqrt(b, all->change));
    ptx_val largest = ptxk_one_nan(b, all->largest);
    report_write(b, s, norm, change, largest, 0);
    if (s->spec->takes_amax)
        amax_write(b, s, largest);
}

// The number of the tensor's tiles, u32.
static ptx_val tiles_of(ptx_builder *b, const struct ptxk_tile *s)
{
    ptx_val up = ptx_add(b, s->elements, s->spec->tile - 1);

    return ptx_cvt(b, PTX_U32, ptxk_over_power_of_two(b, up, s->spec->tile));
}

// The sums of tiles t, t + 256, ... for thread t, in this order.
static struct ptxk_weights_seen fold_tiles(ptx_builder *b, const struct ptxk_tile *s, ptx_val first,
                                           ptx_val tiles)
{
    const uint32_t length = NORM_LENGTH(double, struct step_tile_report);
    struct ptxk_weights_seen f = {
        ptx_var(b, ptx_f64(0)), ptx_var(b, ptx_f64(0)), ptx_var(b, ptx_f32(0)), { 0 }
    };

    ptx_comment(b, "the last block of the tensor: tiles t, t + %d, ... for thread t", NORM_BLOCK);
    ptx_for (b, k, s->tid, tiles, NORM_BLOCK) {
        ptx_val place = ptx_mul_wide(b, ptx_add(b, first, k), length);
        ptx_ptr row = ptx_at(b, s->tile_reports, place);
        ptx_val norm = ptx_load(b, row, TILE(norm)), change = ptx_load(b, row, TILE(change));
        ptx_val largest = ptx_load(b, ptx_ptr_cast(b, PTX_F32, row), TILE32(largest));
        ptx_set(b, f.norm, ptx_add(b, f.norm, norm));
        ptx_set(b, f.change, ptx_add(b, f.change, change));
        ptx_set(b, f.largest, ptxk_larger(b, f.largest, largest));
    }
    return f;
}

void ptxk_step_report_tile(ptx_builder *b, const struct ptxk_tile *s)
{
    const uint32_t length = NORM_LENGTH(double, struct step_tile_report);
    struct ptxk_weights_seen all = of_block(b, &s->seen);
    ptx_val tiles = tiles_of(b, s);
    ptx_val alone = ptx_eq(b, tiles, 1), is_first = ptx_eq(b, s->tid, 0);
    ptx_val block = ptx_ctaid(b, PTX_X);

    ptx_if (b, ptx_and(b, alone, is_first))
        report_sums(b, s, &all);
    ptx_return_if(b, alone);
    ptx_comment(b, "of several tiles, what the block leaves");
    ptx_val last = ptx_var(b, ptx_bool(false));
    ptx_if (b, is_first) {
        ptx_ptr row = ptx_at(b, s->tile_reports, ptx_mul_wide(b, block, length));
        ptx_store(b, row, TILE(norm), all.norm);
        ptx_store(b, row, TILE(change), all.change);
        ptx_store(b, ptx_ptr_cast(b, PTX_F32, row), TILE32(largest), all.largest);
        ptx_val limit = ptx_sub(b, tiles, 1);
        ptx_val before = ptx_atomic(b, PTX_ATOMIC_inc, s->arrivals, s->tensor, limit,
                                    .order = PTX_ORDER_ACQ_REL);
        ptx_set(b, last, ptx_eq(b, before, limit));
    }
    ptx_if (b, ptx_barrier_any(b, last)) {
        struct ptxk_weights_seen own = fold_tiles(b, s, ptx_sub(b, block, s->index), tiles);
        struct ptxk_weights_seen folded = of_block(b, &own);
        ptx_if (b, is_first)
            report_sums(b, s, &folded);
    }
}

// ---- the largest alone --------------------------------------------------------------------------

void ptxk_step_amax_before(ptx_builder *b, const struct ptxk_tile *s)
{
    if (!ptxk_step_notes(s) || ptxk_step_reports(s))
        return;
    ptx_val before = ptx_load(b, s->largest, s->tensor, .order = PTX_ORDER_RELAXED);
    ptx_set(b, s->seen.before, before);
}

// Most blocks find that another one has left a largest that is no less, and only count themselves.
// One that leaves its own orders that before its arrival, and the last block reads it after all
// arrivals. Magnitudes are ordered as integers, NaN above all.
void ptxk_step_amax_tile(ptx_builder *b, const struct ptxk_tile *s)
{
    ptx_return_if(b, ptx_eq(b, s->amax_at, 0));
    ptx_val largest = ptxk_block_extreme(b, s->seen.largest, NORM_BLOCK, true);
    ptx_val tiles = tiles_of(b, s);

    ptx_return_if(b, ptx_ne(b, s->tid, 0));
    largest = ptxk_one_nan(b, largest);
    ptx_val alone = ptx_eq(b, tiles, 1);
    ptx_if (b, alone)
        amax_write(b, s, largest);
    ptx_return_if(b, alone);
    ptx_comment(b, "of several tiles, the largest so far, and how many are through");
    ptx_val bits = ptx_bitcast(b, PTX_U32, largest), limit = ptx_sub(b, tiles, 1);
    ptx_if (b, ptx_gt(b, bits, s->seen.before)) {
        ptx_atomic_max(b, s->largest, s->tensor, bits);
        ptx_fence(b, PTX_ORDER_ACQ_REL, PTX_SCOPE_GPU);
    }
    ptx_val through = ptx_atomic_inc(b, s->arrivals, s->tensor, limit);
    ptx_if (b, ptx_eq(b, through, limit)) {
        ptx_fence(b, PTX_ORDER_ACQ_REL, PTX_SCOPE_GPU);
        ptx_val of_all = ptx_atomic_exch(b, s->largest, s->tensor, ptx_u32(0));
        amax_write(b, s, ptx_bitcast(b, PTX_F32, of_all));
    }
}
