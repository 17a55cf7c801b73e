// SPDX-License-Identifier: MIT
#include <string.h>

#include "common/channels.h"
#include "common/learned.h"
#include "common/pieces.h"
#include "kernel_code.h"

enum { OPTION_LAYOUT = LEARNED_OPTIONS };

// What the layouts share. Positions in a piece are s32.
struct learned_work {
    const struct ptx_kernel_spec *spec;
    bool learns; // the zero point
    ptx_ptr x, d_output, d_input, scale, zero_point;
    ptx_ptr scale_sums, zero_sums;
    ptx_val n, channels, inner;
    struct levels levels;
    ptx_val alike; // x, d_output and d_input have the same misalignment
    ptx_val tid, lane, warp;
};

static struct learned quantizer_at(ptx_builder *b, const struct learned_work *w, ptx_val channel)
{
    ptx_val scale = ptx_load(b, w->scale, channel, .nc = true);
    ptx_val zero_point = ptx_load(b, w->zero_point, channel, .nc = true);

    return ptxk_learned_of(b, w->spec, scale, zero_point, w->levels);
}

// The tensors from element `first` (u64) on.
static struct learned_work moved_to(ptx_builder *b, const struct learned_work *w, ptx_val first)
{
    struct learned_work moved = *w;

    moved.x = ptx_at(b, w->x, first);
    moved.d_output = ptx_at(b, w->d_output, first);
    moved.d_input = ptx_at(b, w->d_input, first);
    return moved;
}

// Whether the tensors can be read and written in vectors of this many bytes.
static ptx_val is_aligned(ptx_builder *b, const struct learned_work *w, unsigned bytes)
{
    ptx_val beyond = ptx_and(b, ptx_ptr_address(b, w->x), ptx_u64(bytes - 1));

    return ptx_and(b, w->alike, ptx_eq(b, beyond, ptx_u64(0)));
}

static ptx_vec load_each(ptx_builder *b, ptx_ptr p, ptx_val i, unsigned lanes)
{
    ptx_vec v = { .lanes = lanes };

    for (unsigned k = 0; k < lanes; k++)
        v.lane[k] = ptx_load(b, ptx_at(b, p, i), ptx_s32((int32_t)k));
    return v;
}

// `lanes` elements from i on; as one vector, or one by one.
static void pass_lanes(ptx_builder *b, const struct learned_work *w,
                       const struct learned_lanes *lanes, ptx_val i, unsigned count, bool vector)
{
    ptx_vec x = vector ? ptx_load_vec(b, w->x, i, count) : load_each(b, w->x, i, count);
    ptx_vec dy =
        vector ? ptx_load_vec(b, w->d_output, i, count) : load_each(b, w->d_output, i, count);
    ptx_vec dx = ptxk_learned_terms(b, w->spec, lanes, x, dy);

    if (vector)
        ptx_store_vec(b, w->d_input, i, dx);
    for (unsigned k = 0; !vector && k < count; k++)
        ptx_store(b, ptx_at(b, w->d_input, i), ptx_s32((int32_t)k), dx.lane[k]);
}

// The sum over teams of 2^k adjacent lanes, in the first lane of each: v[i] += v[i + d] for d =
// team / 2 ... 1. `team` is poisoned for whole warps.
static ptx_val team_sum(ptx_builder *b, ptx_val sum, ptx_val team)
{
    for (unsigned d = WARP / 2; d > 0; d /= 2) {
        ptx_val other = ptx_shfl_down(b, sum, ptx_u32(d));
        ptx_val both = ptx_add(b, sum, other);
        sum = team.kind == PTX_KIND_POISON ? both
                                           : ptx_select(b, ptx_gt(b, team, ptx_u32(d)), both, sum);
    }
    return sum;
}

// ---- rows ---------------------------------------------------------------------------------------

enum { AHEAD = 4 }; // vectors of each tensor that a thread loads before it computes

// Whole vectors, AHEAD at a time, as long as all of them end within `limit`.
static void pass_ahead(ptx_builder *b, const struct learned_work *w,
                       const struct learned_lanes *same, ptx_val i, ptx_val step, ptx_val limit)
{
    const ptx_type dtype = w->spec->dtype;
    const unsigned lanes = ptxk_vector_lanes(dtype);
    ptx_val reach = ptx_mad(b, step, ptx_s32(AHEAD - 1), ptx_s32((int32_t)lanes));
    ptx_val last = ptx_sub(b, limit, reach);
    ptx_vec x[AHEAD], dy[AHEAD];

    for (unsigned v = 0; v < AHEAD; v++) {
        x[v] = ptxk_words_var(b, dtype);
        dy[v] = ptxk_words_var(b, dtype);
    }
    ptx_while (b, ptx_le(b, i, last)) {
        ptx_val place[AHEAD];
        for (unsigned v = 0; v < AHEAD; v++) {
            place[v] = v ? ptx_add(b, place[v - 1], step) : ptx_copy(b, i);
            ptxk_words_read(b, x[v], w->x, place[v]);
            ptxk_words_read(b, dy[v], w->d_output, place[v]);
        }
        for (unsigned v = 0; v < AHEAD; v++) {
            ptx_vec in = ptxk_words_lanes(b, x[v], dtype);
            ptx_vec out = ptxk_words_lanes(b, dy[v], dtype);
            ptx_store_vec(b, w->d_input, place[v], ptxk_learned_terms(b, w->spec, same, in, out));
        }
        ptx_set(b, i, ptx_add(b, place[AHEAD - 1], step));
    }
}

// A thread's elements of a piece of `length` elements: the vectors `first`, `first` + `step` ...
static struct learned_sums pass_piece(ptx_builder *b, const struct learned_work *w,
                                      const struct learned *q, ptx_val first, ptx_val step,
                                      ptx_val length)
{
    const unsigned lanes = ptxk_vector_lanes(w->spec->dtype);
    struct learned_sums sums = ptxk_learned_sums_var(b, w->spec);
    struct learned_lanes same = { { NULL }, { NULL } };
    ptx_val i = ptx_var(b, first);

    for (unsigned k = 0; k < lanes; k++) {
        same.of[k] = q;
        same.sums[k] = &sums;
    }
    ptx_val aligned = is_aligned(b, w, VECTOR_BYTES);
    ptx_val limit = ptx_select(b, aligned, length, ptx_s32(0));
    ptx_comment(b, "whole vectors, %d at a time, then one at a time", AHEAD);
    pass_ahead(b, w, &same, i, step, limit);
    ptx_val whole = ptx_sub(b, length, ptx_s32((int32_t)lanes));
    ptx_while (b, ptx_le(b, i, whole)) {
        ptx_if (b, aligned)
            pass_lanes(b, w, &same, i, lanes, true);
        ptx_else (b)
            pass_lanes(b, w, &same, i, lanes, false);
        ptx_set(b, i, ptx_add(b, i, step));
    }
    ptx_comment(b, "the rest of the row");
    ptx_for (b, place, i, length, ptx_s32(1))
        pass_lanes(b, w, &same, place, 1, true);
    return sums;
}

static void store_sums(ptx_builder *b, const struct learned_work *w, ptx_val piece,
                       struct learned_sums sums)
{
    ptx_store(b, w->scale_sums, piece, ptxk_one_nan(b, sums.scale));
    if (w->learns)
        ptx_store(b, w->zero_sums, piece, ptxk_one_nan(b, sums.zero_point));
}

// The sums of a piece, from those of its team's threads.
static void finish_piece(ptx_builder *b, const struct learned_work *w, ptx_val piece,
                         ptx_val is_first, struct learned_sums sums, ptx_val team)
{
    sums.scale = team_sum(b, sums.scale, team);
    if (w->learns)
        sums.zero_point = team_sum(b, sums.zero_point, team);
    ptx_if (b, is_first)
        store_sums(b, w, piece, sums);
}

// One scale: a warp has a piece.
static void pass_tensor(ptx_builder *b, const struct learned_work *w)
{
    const uint32_t lanes = ptxk_vector_lanes(w->spec->dtype);
    const ptx_val team = { 0 };
    struct learned q = quantizer_at(b, w, ptx_u64(0));
    ptx_val few = ptx_le(b, w->n, ptx_u64(PIECES_SHORT_MOST));
    ptx_val size = ptx_select(b, few, ptx_u64(SHORT_PIECE), ptx_u64(PIECE));
    ptx_val chunk = ptx_mul(b, size, ptx_u64(PIECES_WARPS));
    ptx_val block = ptx_cvt(b, PTX_U64, ptx_ctaid(b, PTX_X));
    ptx_val stride = ptx_mul(b, ptx_cvt(b, PTX_U64, ptx_nctaid(b, PTX_X)), chunk);
    ptx_val mine = ptx_mul(b, size, ptx_cvt(b, PTX_U64, w->warp));
    ptx_val start = ptx_cvt(b, PTX_S32, ptx_mul(b, w->lane, ptx_u32(lanes)));
    ptx_val is_first = ptx_eq(b, w->lane, ptx_u32(0));
    ptx_val wide = ptx_select(b, few, ptx_u32(11), ptx_u32(13));

    ptx_for (b, chunk_start, ptx_mul(b, block, chunk), w->n, stride) {
        ptx_val first = ptx_add(b, chunk_start, mine);
        ptx_val within = ptx_lt(b, first, w->n);
        ptx_val left = ptx_select(b, within, ptx_sub(b, w->n, first), ptx_u64(0));
        ptx_val length = ptx_cvt(b, PTX_S32, ptx_min(b, left, size));
        struct learned_work moved = moved_to(b, w, first);
        struct learned_sums sums =
            pass_piece(b, &moved, &q, start, ptx_s32((int32_t)(WARP * lanes)), length);
        ptx_val writes = ptx_and(b, is_first, within);
        finish_piece(b, w, ptx_shr(b, first, wide), writes, sums, team);
    }
}

// A scale for each channel, whose elements are adjacent: a team of lanes has a piece of a row.
static void pass_rows(ptx_builder *b, const struct learned_work *w)
{
    const uint32_t lanes = ptxk_vector_lanes(w->spec->dtype);

    ptx_comment(b, "pieces of rows, and the lanes for each");
    struct row_pieces pieces = ptxk_row_pieces(b, w->n, w->inner);
    ptx_val channels_inverse = ptxk_inverse_of(b, w->channels);
    ptx_val team = ptxk_team_for(b, w->inner, lanes, WARP);
    ptx_val lane = ptx_and(b, w->lane, ptx_sub(b, team, ptx_u32(1)));
    ptx_val teams = ptx_div(b, ptx_u32(PIECES_BLOCK), team);
    ptx_val mine = ptx_cvt(b, PTX_U64, ptx_div(b, w->tid, team));
    ptx_val start = ptx_cvt(b, PTX_S32, ptx_mul(b, lane, ptx_u32(lanes)));
    ptx_val step = ptx_cvt(b, PTX_S32, ptx_mul(b, team, ptx_u32(lanes)));
    ptx_val is_first = ptx_eq(b, lane, ptx_u32(0));
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val stride = ptx_mul_wide(b, ptx_nctaid(b, PTX_X), teams);

    ptx_for (b, base, ptx_mul_wide(b, block, teams), pieces.count, stride) {
        ptx_val piece = ptx_add(b, base, mine);
        ptx_val row = ptxk_quotient_by(b, piece, pieces.per_row, pieces.per_row_inverse);
        ptx_val part = ptx_sub(b, piece, ptx_mul(b, row, pieces.per_row));
        ptx_val outer = ptxk_quotient_by(b, row, w->channels, channels_inverse);
        ptx_val channel = ptx_sub(b, row, ptx_mul(b, outer, w->channels));
        ptx_val place = ptx_mul(b, part, pieces.piece);
        ptx_val first = ptx_mad(b, row, w->inner, place);
        ptx_val within = ptx_lt(b, piece, pieces.count);
        ptx_val left = ptx_min(b, ptx_sub(b, w->inner, place), pieces.piece);
        ptx_val rest = ptx_sub(b, w->n, first);
        rest = ptx_select(b, ptx_lt(b, first, w->n), rest, ptx_u64(0));
        ptx_val length = ptx_cvt(b, PTX_S32, ptx_min(b, left, rest));
        struct learned_work moved = moved_to(b, w, first);
        struct learned q = quantizer_at(b, w, channel);
        struct learned_sums sums = pass_piece(b, &moved, &q, start, step, length);
        finish_piece(b, w, piece, ptx_and(b, is_first, within), sums, team);
    }
}

// ---- columns ------------------------------------------------------------------------------------

// A thread's vectors of a tile: `lanes` columns from `column` on, in every PIECES_WARPS-th row.
struct column_work {
    const struct learned_work *work;
    struct learned of[TILE_LANES];
    struct learned_sums sums[TILE_LANES];
    struct learned_lanes each;
    unsigned lanes;
    ptx_val stride; // elements between two rows of the thread, u64
};

static ptx_vec vector_var(ptx_builder *b, ptx_type dtype, unsigned lanes)
{
    ptx_vec v = { .lanes = lanes };

    for (unsigned k = 0; k < lanes; k++)
        v.lane[k] = ptx_var(b, ptx_zero(dtype));
    return v;
}

static void vector_read(ptx_builder *b, ptx_vec to, ptx_ptr p, ptx_val i)
{
    ptx_vec read = ptx_load_vec(b, p, i, to.lanes);

    for (unsigned k = 0; k < to.lanes; k++)
        ptx_set(b, to.lane[k], read.lane[k]);
}

// Rows of whole vectors, AHEAD at a time, while the last of them begins before `limit` (u64).
static void columns_ahead(ptx_builder *b, const struct column_work *c, ptx_val i, ptx_val limit)
{
    const struct learned_work *w = c->work;
    ptx_vec x[AHEAD], dy[AHEAD];
    ptx_val reach = ptx_mul(b, c->stride, ptx_u64(AHEAD - 1));

    for (unsigned v = 0; v < AHEAD; v++) {
        x[v] = vector_var(b, w->spec->dtype, c->lanes);
        dy[v] = vector_var(b, w->spec->dtype, c->lanes);
    }
    ptx_while (b, ptx_lt(b, ptx_add(b, i, reach), limit)) {
        ptx_val place[AHEAD];
        for (unsigned v = 0; v < AHEAD; v++) {
            place[v] = v ? ptx_add(b, place[v - 1], c->stride) : ptx_copy(b, i);
            vector_read(b, x[v], w->x, place[v]);
            vector_read(b, dy[v], w->d_output, place[v]);
        }
        for (unsigned v = 0; v < AHEAD; v++)
            ptx_store_vec(b, w->d_input, place[v],
                          ptxk_learned_terms(b, w->spec, &c->each, x[v], dy[v]));
        ptx_set(b, i, ptx_add(b, place[AHEAD - 1], c->stride));
    }
}

// One row, which may end within the vector.
static void columns_each(ptx_builder *b, const struct column_work *c, ptx_val i)
{
    for (unsigned k = 0; k < c->lanes; k++) {
        const struct learned_lanes one = { { c->each.of[k] }, { c->each.sums[k] } };
        ptx_val place = k ? ptx_add(b, i, ptx_u64(k)) : i;
        ptx_if (b, ptx_lt(b, place, c->work->n))
            pass_lanes(b, c->work, &one, place, 1, true);
    }
}

// Element `i` and every element a stride after it, before `end`.
static void pass_columns_of_tile(ptx_builder *b, const struct column_work *c, ptx_val start,
                                 ptx_val end)
{
    const unsigned bytes = c->lanes * ptx_type_bytes(c->work->spec->dtype);
    ptx_val i = ptx_var(b, start);
    ptx_val aligned = is_aligned(b, c->work, bytes);
    ptx_val whole = ptx_sub(b, c->work->n, ptx_u64(c->lanes - 1));

    whole = ptx_select(b, ptx_ge(b, c->work->n, ptx_u64(c->lanes)), whole, ptx_u64(0));
    whole = ptx_min(b, whole, end);
    columns_ahead(b, c, i, ptx_select(b, aligned, whole, ptx_u64(0)));
    ptx_while (b, ptx_lt(b, i, end)) {
        columns_each(b, c, i);
        ptx_set(b, i, ptx_add(b, i, c->stride));
    }
}

// The sums of the tile's columns: those of the warps, as a tree.
static void finish_tile(ptx_builder *b, const struct learned_work *w, ptx_ptr shared,
                        const struct column_work *c, ptx_val piece, ptx_val unit_left)
{
    const uint32_t columns = ptxk_tile_columns(w->spec->dtype);
    const uint32_t both = w->learns ? 2 * columns : columns;
    ptx_val mine = ptx_mad(b, w->warp, ptx_u32(both), ptx_mul(b, w->lane, ptx_u32(c->lanes)));

    for (unsigned k = 0; k < c->lanes; k++) {
        ptx_store(b, ptx_at(b, shared, mine), ptx_u32(k), c->sums[k].scale);
        if (w->learns)
            ptx_store(b, ptx_at(b, shared, mine), ptx_u32(columns + k), c->sums[k].zero_point);
    }
    ptx_barrier(b);
    ptx_val column = ptx_and(b, w->tid, ptx_u32(columns - 1));
    ptx_val within = ptx_lt(b, ptx_cvt(b, PTX_U64, column), unit_left);
    ptx_if (b, ptx_and(b, within, ptx_lt(b, w->tid, ptx_u32(both)))) {
        ptx_val v[PIECES_WARPS], sums[PIECES_WARPS];
        for (unsigned k = 0; k < PIECES_WARPS; k++)
            v[k] = ptx_load(b, ptx_at(b, shared, w->tid), ptx_u32(k * both));
        // In the order of ptxk_tree_sum(), v[k] + v[k + 4] come first.
        for (unsigned k = 0; k < PIECES_WARPS; k++)
            sums[k] = v[(k & 1) << 2 | (k & 2) | k >> 2];
        ptx_val total = ptxk_one_nan(b, ptxk_tree_sum(b, sums, PIECES_WARPS));
        ptx_val to = ptx_add(b, piece, ptx_cvt(b, PTX_U64, column));
        ptx_val is_scale = ptx_lt(b, w->tid, ptx_u32(columns));
        ptx_if (b, is_scale)
            ptx_store(b, w->scale_sums, to, total);
        if (w->learns) {
            ptx_if (b, ptx_not(b, is_scale))
                ptx_store(b, w->zero_sums, to, total);
        }
    }
    ptx_barrier(b);
}

static void start_columns(ptx_builder *b, struct column_work *c, const struct channels *channels,
                          ptx_val column)
{
    const struct position one = { ptx_u64(0), ptx_u64(1) };
    struct position at = ptxk_position_var(b, ptxk_position_of(b, channels, column, ptx_u64(0)));

    for (unsigned k = 0; k < c->lanes; k++) {
        c->of[k] = quantizer_at(b, c->work, at.channel);
        c->sums[k] = ptxk_learned_sums_var(b, c->work->spec);
        c->each.of[k] = &c->of[k];
        c->each.sums[k] = &c->sums[k];
        if (k + 1 < c->lanes)
            ptxk_take_step(b, channels, at, one);
    }
}

// A scale for each channel, which changes from element to element: a thread sums down columns.
static void pass_columns(ptx_builder *b, const struct learned_work *w)
{
    const ptx_type dtype = w->spec->dtype;
    const uint32_t columns = ptxk_tile_columns(dtype);
    struct column_work c = { .work = w, .lanes = ptxk_tile_lanes(dtype) };

    ptx_comment(b, "tiles of a matrix whose columns have one channel each");
    ptx_ptr shared = ptx_shared(b, PTX_F64, PIECES_WARPS * columns * (w->learns ? 2 : 1));
    struct column_tiles tiles = ptxk_column_tiles(b, dtype, w->n, w->channels, w->inner);
    struct channels channels = ptxk_channels_of(b, w->channels, w->inner);
    ptx_val mine = ptx_cvt(b, PTX_U64, ptx_mul(b, w->lane, ptx_u32(c.lanes)));
    ptx_val warp = ptx_cvt(b, PTX_U64, w->warp);
    ptx_val block = ptx_cvt(b, PTX_U64, ptx_ctaid(b, PTX_X));
    ptx_val blocks = ptx_cvt(b, PTX_U64, ptx_nctaid(b, PTX_X));
    c.stride = ptx_mul(b, tiles.unit, ptx_u64(PIECES_WARPS));

    ptx_for (b, tile, block, tiles.count, blocks) {
        ptx_val down = ptxk_quotient_by(b, tile, tiles.across, tiles.across_inverse);
        ptx_val side = ptx_sub(b, tile, ptx_mul(b, down, tiles.across));
        ptx_val left = ptx_mul(b, side, ptx_u64(columns));
        ptx_val column = ptx_add(b, left, mine);
        ptx_val top = ptx_mul(b, down, tiles.tile_rows);
        ptx_val bottom = ptx_min(b, ptx_add(b, top, tiles.tile_rows), tiles.rows);
        start_columns(b, &c, &channels, column);
        ptx_val beyond = ptx_ge(b, column, tiles.unit);
        ptx_val end = ptx_min(b, ptx_mul(b, bottom, tiles.unit), w->n);
        end = ptx_select(b, beyond, ptx_u64(0), end);
        ptx_val start = ptx_mad(b, ptx_add(b, top, warp), tiles.unit, column);
        pass_columns_of_tile(b, &c, start, end);
        ptx_val piece = ptx_mad(b, down, tiles.unit, left);
        finish_tile(b, w, shared, &c, piece, ptx_sub(b, tiles.unit, left));
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

static ptx_ptr tensor_param(ptx_builder *b, const struct ptx_kernel_spec *spec, const char *name,
                            const char *meaning, bool written)
{
    return ptx_param_ptr(b, spec->dtype, name, .meaning = meaning, .length = "n",
                         .readonly = !written, .writeonly = written);
}

static ptx_ptr sums_param(ptx_builder *b, const char *name, const char *meaning)
{
    return ptx_param_ptr(b, PTX_F64, name, .meaning = meaning, .length = "pieces",
                         .writeonly = true);
}

static void take_params(ptx_builder *b, struct learned_work *w)
{
    const struct ptx_kernel_spec *spec = w->spec;
    const bool per_tensor = spec->option[OPTION_LAYOUT] == PIECES_TENSOR;
    const char *length = per_tensor ? "1" : "channels";
    const ptx_type compute = ptxk_compute_type(spec->dtype);

    w->x = tensor_param(b, spec, "x", "what was quantized", false);
    w->d_output = tensor_param(b, spec, "d_output", "gradient of the output", false);
    w->d_input = tensor_param(b, spec, "d_input", "gradient of x; may be d_output", true);
    w->n = ptx_param(b, PTX_U64, "n", .meaning = "elements of each tensor");
    w->scale =
        ptx_param_ptr(b, compute, "scale", .meaning = "step of the quantizer", .length = length,
                      .readonly = true, .range = PTX_RANGE_FINITE | PTX_RANGE_POSITIVE);
    w->zero_point =
        ptx_param_ptr(b, w->learns ? compute : PTX_S32, "zero_point",
                      .meaning = w->learns ? "what 0 is quantized to; rounded and clamped"
                                           : "what 0 is quantized to",
                      .length = length, .readonly = true);
    if (!per_tensor) {
        w->channels = ptx_param(b, PTX_U64, "channels", .meaning = "1 or more", .low = "1");
        w->inner = ptx_param(b, PTX_U64, "inner", .preset = "1", .low = "1",
                             .meaning = "adjacent elements of one channel");
    }
    w->levels = ptxk_any_levels(b);
    w->scale_sums = sums_param(b, "scale_sums", "sums of the scale's gradient");
    if (w->learns)
        w->zero_sums = sums_param(b, "zero_sums", "sums of the zero point's gradient");
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    struct learned_work w = { .spec = spec, .learns = ptxk_learns_zero_point(spec) };

    take_params(b, &w);
    w.alike = ptxk_aligned_alike(b, (ptx_ptr[]) { w.x, w.d_output, w.d_input }, 3);
    w.tid = ptx_tid(b, PTX_X);
    w.lane = ptx_and(b, w.tid, ptx_u32(WARP - 1));
    w.warp = ptx_shr(b, w.tid, ptx_u32(5));
    if (spec->option[OPTION_LAYOUT] == PIECES_TENSOR)
        pass_tensor(b, &w);
    else if (spec->option[OPTION_LAYOUT] == PIECES_ROWS)
        pass_rows(b, &w);
    else
        pass_columns(b, &w);
}

static bool length_of(const struct ptx_kernel_spec *spec, const struct ptx_kernel_sizes *sizes,
                      const char *name, uint64_t *count)
{
    const enum pieces_layout layout = (enum pieces_layout)spec->option[OPTION_LAYOUT];

    return strcmp(name, "pieces") == 0 && ptxk_pieces(sizes, spec->dtype, layout, count);
}

const ptx_kernel ptx_kernel_quantize_learned_backward = {
    .name = "quantize_learned_backward",
    .summary = "gradients of a fake quantizer's input, scale and zero point",
    .formula = "d_input = in range ? d_output : 0; sums of d_output * (in range ? q - z - x / "
               "scale : q - z) and of -scale * d_output out of range",
    .dtypes = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16),
    .options = { LEARNED_OPTION_ROWS,
                 [OPTION_LAYOUT] = { "layout",
                                     { "tensor", "rows", "columns" },
                                     "one scale; one a channel, fast where inner is large, or "
                                     "where it is small" } },
    .grid = PTX_GRID_CHUNKS,
    .block = PIECES_BLOCK,
    .accumulator = "f64",
    .guarantees = "deterministic; bit-stable at any alignment; NaN x gives +0 and counts as the "
                  "least level",
    .code = &(const struct ptx_kernel_code) { .build = build,
                                              .chunk = PIECES_CHUNK,
                                              .short_chunk = PIECES_SHORT_CHUNK,
                                              .short_most = PIECES_SHORT_MOST,
                                              .length = length_of },
};
