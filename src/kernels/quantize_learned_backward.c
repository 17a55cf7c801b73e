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
// team / 2 ... 1.
static ptx_val team_sum(ptx_builder *b, ptx_val sum, ptx_val team)
{
    for (unsigned d = WARP / 2; d > 0; d /= 2) {
        ptx_val other = ptx_shfl_down(b, sum, ptx_u32(d));
        ptx_val both = ptx_add(b, sum, other);
        sum = ptx_select(b, ptx_gt(b, team, ptx_u32(d)), both, sum);
    }
    return sum;
}

// ---- what is read ahead -------------------------------------------------------------------------

enum { AHEAD = 4 }; // vectors of each tensor that a thread has read before it computes

// Parts of x and d_output, of adjacent elements: 16-bit lanes are held as words of two, and ptxas
// moves no load past a branch to the first use of its value.
struct parts {
    ptx_vec x[AHEAD], d_output[AHEAD];
};

static ptx_vec part_var(ptx_builder *b, ptx_type dtype, unsigned lanes)
{
    const unsigned bytes = ptx_type_bytes(dtype);
    const ptx_type type = bytes == 2 ? PTX_B32 : dtype;
    ptx_vec v = { .lanes = lanes * bytes / ptx_type_bytes(type) };

    for (unsigned k = 0; k < v.lanes; k++)
        v.lane[k] = ptx_var(b, ptx_zero(type));
    return v;
}

static struct parts parts_var(ptx_builder *b, ptx_type dtype, unsigned lanes)
{
    struct parts p;

    for (unsigned k = 0; k < AHEAD; k++) {
        p.x[k] = part_var(b, dtype, lanes);
        p.d_output[k] = part_var(b, dtype, lanes);
    }
    return p;
}

static void part_read(ptx_builder *b, ptx_vec to, ptx_ptr p)
{
    ptx_ptr from = ptx_ptr_cast(b, (ptx_type)to.lane[0].type, p);
    ptx_vec read = ptx_load_vec(b, from, ptx_u32(0), to.lanes);

    for (unsigned k = 0; k < to.lanes; k++)
        ptx_set(b, to.lane[k], read.lane[k]);
}

static ptx_vec part_lanes(ptx_builder *b, ptx_vec part, ptx_type dtype)
{
    ptx_vec v = { .lanes = 2 * part.lanes };

    if (ptx_type_bytes(dtype) != 2)
        return part;
    for (unsigned k = 0; k < part.lanes; k++) {
        ptx_vec pair = ptx_unpack(b, dtype, part.lane[k]);
        v.lane[2 * k] = pair.lane[0];
        v.lane[2 * k + 1] = pair.lane[1];
    }
    return v;
}

// d_input of part `k`.
static ptx_vec part_terms(ptx_builder *b, const struct learned_work *w,
                          const struct learned_lanes *lanes, const struct parts *p, unsigned k)
{
    ptx_vec x = part_lanes(b, p->x[k], w->spec->dtype);
    ptx_vec d_output = part_lanes(b, p->d_output[k], w->spec->dtype);

    return ptxk_learned_terms(b, w->spec, lanes, x, d_output);
}

// ---- rows ---------------------------------------------------------------------------------------

// A thread's vectors of a piece of `length` elements: every `step` elements from i on. All s32.
struct walk {
    struct learned_work of; // at the piece's first element
    ptx_val i;              // a variable
    ptx_val step, length;
    ptx_val aligned, last; // AHEAD vectors are whole up to i = last
    struct parts parts;
};

static void walk_read(ptx_builder *b, const struct walk *k, unsigned part, ptx_val i)
{
    part_read(b, k->parts.x[part], ptx_at(b, k->of.x, i));
    part_read(b, k->parts.d_output[part], ptx_at(b, k->of.d_output, i));
}

// Reads the first vectors.
static struct walk walk_begin(ptx_builder *b, const struct learned_work *w, ptx_val first,
                              ptx_val start, ptx_val step, ptx_val length)
{
    const unsigned lanes = ptxk_vector_lanes(w->spec->dtype);
    struct walk k = { .of = moved_to(b, w, first), .step = step, .length = length };

    k.i = ptx_var(b, start);
    k.aligned = is_aligned(b, &k.of, VECTOR_BYTES);
    ptx_val limit = ptx_select(b, k.aligned, length, ptx_s32(0));
    ptx_val reach = ptx_mad(b, step, ptx_s32(AHEAD - 1), ptx_s32((int32_t)lanes));
    k.last = ptx_sub(b, limit, reach);
    k.parts = parts_var(b, w->spec->dtype, lanes);
    ptx_if (b, ptx_le(b, k.i, k.last)) {
        ptx_val place = k.i;
        for (unsigned v = 0; v < AHEAD; v++) {
            walk_read(b, &k, v, place);
            place = ptx_add(b, place, step);
        }
    }
    return k;
}

// Whole vectors, AHEAD at a time. Each is followed by the reads of the vector that is in its place
// the next time.
static void walk_ahead(ptx_builder *b, const struct walk *k, const struct learned_lanes *same)
{
    ptx_val span = ptx_mul(b, k->step, ptx_s32(AHEAD));

    ptx_while (b, ptx_le(b, k->i, k->last)) {
        ptx_val place = ptx_copy(b, k->i);
        ptx_set(b, k->i, ptx_add(b, k->i, span));
        ptx_val more = ptx_le(b, k->i, k->last);
        for (unsigned v = 0; v < AHEAD; v++) {
            ptx_vec d_input = part_terms(b, &k->of, same, &k->parts, v);
            ptx_store_vec(b, k->of.d_input, place, d_input);
            ptx_if (b, more)
                walk_read(b, k, v, ptx_add(b, place, span));
            place = ptx_add(b, place, k->step);
        }
    }
}

// The sums of the thread's elements.
static struct learned_sums walk_sums(ptx_builder *b, const struct walk *k, const struct learned *q)
{
    const struct learned_work *w = &k->of;
    const unsigned lanes = ptxk_vector_lanes(w->spec->dtype);
    struct learned_sums sums = ptxk_learned_sums_var(b, w->spec);
    struct learned_lanes same = { { NULL }, { NULL } };

    for (unsigned v = 0; v < lanes; v++) {
        same.of[v] = q;
        same.sums[v] = &sums;
    }
    ptx_comment(b, "whole vectors, %d at a time, then one at a time", AHEAD);
    walk_ahead(b, k, &same);
    ptx_val whole = ptx_sub(b, k->length, ptx_s32((int32_t)lanes));
    ptx_while (b, ptx_le(b, k->i, whole)) {
        ptx_if (b, k->aligned)
            pass_lanes(b, w, &same, k->i, lanes, true);
        ptx_else (b)
            pass_lanes(b, w, &same, k->i, lanes, false);
        ptx_set(b, k->i, ptx_add(b, k->i, k->step));
    }
    ptx_comment(b, "the rest of the row");
    ptx_for (b, place, k->i, k->length, ptx_s32(1))
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

// One scale: a block has a piece, so that its accesses are adjacent.
static void pass_tensor(ptx_builder *b, const struct learned_work *w)
{
    const uint32_t lanes = ptxk_vector_lanes(w->spec->dtype);
    const ptx_val step = ptx_s32((int32_t)(PIECES_BLOCK * lanes));
    struct tensor_pieces pieces = ptxk_tensor_pieces(b, w->spec->dtype, w->n);
    ptx_val block = ptx_cvt(b, PTX_U64, ptx_ctaid(b, PTX_X));
    ptx_val blocks = ptx_cvt(b, PTX_U64, ptx_nctaid(b, PTX_X));
    ptx_val stride = ptx_mul(b, blocks, pieces.piece);
    ptx_val start = ptx_cvt(b, PTX_S32, ptx_mul(b, w->tid, ptx_u32(lanes)));

    ptx_for (b, first, ptx_mul(b, block, pieces.piece), w->n, stride) {
        ptx_val left = ptx_min(b, ptx_sub(b, w->n, first), pieces.piece);
        ptx_val length = ptx_cvt(b, PTX_S32, left);
        struct walk k = walk_begin(b, w, first, start, step, length);
        struct learned q = quantizer_at(b, w, ptx_u64(0));
        struct learned_sums sums = walk_sums(b, &k, &q);
        sums.scale = ptxk_block_sum(b, sums.scale, PIECES_BLOCK);
        if (w->learns)
            sums.zero_point = ptxk_block_sum(b, sums.zero_point, PIECES_BLOCK);
        ptx_if (b, ptx_eq(b, w->tid, ptx_u32(0)))
            store_sums(b, w, ptx_shr(b, first, pieces.log2), sums);
        ptx_barrier(b); // the next sums are written where these are read
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
        struct walk k = walk_begin(b, w, first, start, step, length);
        struct learned q = quantizer_at(b, w, channel);
        struct learned_sums sums = walk_sums(b, &k, &q);
        sums.scale = team_sum(b, sums.scale, team);
        if (w->learns)
            sums.zero_point = team_sum(b, sums.zero_point, team);
        ptx_if (b, ptx_and(b, is_first, within))
            store_sums(b, w, piece, sums);
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

// The rows of a thread in a tile, from element i (u64, a variable) on.
struct tile_rows {
    ptx_val i, end;
    ptx_val limit, reach;                  // AHEAD rows are whole up to i + reach < limit
    ptx_val bytes;                         // between rows
    ptx_val x_at, d_output_at, d_input_at; // addresses of the next vectors: variables
    struct parts parts;
};

static void read_row(ptx_builder *b, const struct column_work *c, const struct tile_rows *r,
                     unsigned part)
{
    const ptx_type dtype = c->work->spec->dtype;

    part_read(b, r->parts.x[part], ptx_ptr_from(b, dtype, PTX_SPACE_GLOBAL, r->x_at));
    part_read(b, r->parts.d_output[part], ptx_ptr_from(b, dtype, PTX_SPACE_GLOBAL, r->d_output_at));
    ptx_set(b, r->x_at, ptx_add(b, r->x_at, r->bytes));
    ptx_set(b, r->d_output_at, ptx_add(b, r->d_output_at, r->bytes));
}

static ptx_val address_var(ptx_builder *b, ptx_ptr p, ptx_val i)
{
    return ptx_var(b, ptx_ptr_address(b, ptx_at(b, p, i)));
}

// Reads the first rows.
static struct tile_rows begin_rows(ptx_builder *b, const struct column_work *c, ptx_val start,
                                   ptx_val end)
{
    const struct learned_work *w = c->work;
    const ptx_type dtype = w->spec->dtype;
    struct tile_rows r = { .end = end };

    r.i = ptx_var(b, start);
    ptx_val aligned = is_aligned(b, w, c->lanes * ptx_type_bytes(dtype));
    ptx_val whole = ptx_sub(b, w->n, ptx_u64(c->lanes - 1));
    whole = ptx_select(b, ptx_ge(b, w->n, ptx_u64(c->lanes)), whole, ptx_u64(0));
    whole = ptx_min(b, whole, end);
    r.limit = ptx_select(b, aligned, whole, ptx_u64(0));
    r.reach = ptx_mul(b, c->stride, ptx_u64(AHEAD - 1));
    r.bytes = ptx_mul(b, c->stride, ptx_u64(ptx_type_bytes(dtype)));
    r.x_at = address_var(b, w->x, start);
    r.d_output_at = address_var(b, w->d_output, start);
    r.d_input_at = address_var(b, w->d_input, start);
    r.parts = parts_var(b, dtype, c->lanes);
    ptx_if (b, ptx_lt(b, ptx_add(b, r.i, r.reach), r.limit)) {
        for (unsigned v = 0; v < AHEAD; v++)
            read_row(b, c, &r, v);
    }
    return r;
}

// Rows of whole vectors, AHEAD at a time, as walk_ahead().
static void rows_ahead(ptx_builder *b, const struct column_work *c, const struct tile_rows *r)
{
    const ptx_type dtype = c->work->spec->dtype;
    ptx_val span = ptx_mul(b, c->stride, ptx_u64(AHEAD));

    ptx_while (b, ptx_lt(b, ptx_add(b, r->i, r->reach), r->limit)) {
        ptx_set(b, r->i, ptx_add(b, r->i, span));
        ptx_val more = ptx_lt(b, ptx_add(b, r->i, r->reach), r->limit);
        for (unsigned v = 0; v < AHEAD; v++) {
            ptx_vec d_input = part_terms(b, c->work, &c->each, &r->parts, v);
            ptx_ptr to = ptx_ptr_from(b, dtype, PTX_SPACE_GLOBAL, r->d_input_at);
            ptx_store_vec(b, to, ptx_u32(0), d_input);
            ptx_set(b, r->d_input_at, ptx_add(b, r->d_input_at, r->bytes));
            ptx_if (b, more)
                read_row(b, c, r, v);
        }
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

static void pass_tile(ptx_builder *b, const struct column_work *c, const struct tile_rows *r)
{
    rows_ahead(b, c, r);
    ptx_while (b, ptx_lt(b, r->i, r->end)) {
        columns_each(b, c, r->i);
        ptx_set(b, r->i, ptx_add(b, r->i, c->stride));
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
        ptx_val beyond = ptx_ge(b, column, tiles.unit);
        ptx_val end = ptx_min(b, ptx_mul(b, bottom, tiles.unit), w->n);
        end = ptx_select(b, beyond, ptx_u64(0), end);
        ptx_val start = ptx_mad(b, ptx_add(b, top, warp), tiles.unit, column);
        struct tile_rows rows = begin_rows(b, &c, start, end);
        start_columns(b, &c, &channels, column);
        pass_tile(b, &c, &rows);
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
    if (ptx_builder_target(b).sm >= 90)
        ptx_griddepcontrol_launch_dependents(b);
    if (spec->option[OPTION_LAYOUT] == PIECES_TENSOR)
        pass_tensor(b, &w);
    else if (spec->option[OPTION_LAYOUT] == PIECES_ROWS)
        pass_rows(b, &w);
    else
        pass_columns(b, &w);
}

// With more registers, ptxas keeps the loads of rows ahead of the arithmetic.
static uint32_t min_blocks_of(const struct ptx_kernel_spec *spec)
{
    return spec->option[OPTION_LAYOUT] == PIECES_ROWS ? 2 : 0;
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
                                              .min_blocks = min_blocks_of,
                                              .chunk = TILE,
                                              .short_chunk = SHORT_TILE,
                                              .short_most = SHORT_TILE_MOST,
                                              .length = length_of },
};
