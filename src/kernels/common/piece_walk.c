// SPDX-License-Identifier: MIT
#include "piece_walk.h"

enum { AHEAD = 4 };  // vectors of each tensor that a thread has read before it computes
enum { COPIED = 8 }; // vectors that are copied into shared memory before: a multiple of AHEAD

// The vectors that a thread has read.
struct ahead {
    struct ptxk_lanes in[AHEAD][MAX_INPUTS];
};

static struct ahead ahead_var(ptx_builder *b, const struct channel_walk *w)
{
    struct ahead ahead;

    for (unsigned v = 0; v < AHEAD; v++)
        for (unsigned t = 0; t < w->inputs; t++)
            ahead.in[v][t] = ptxk_lanes_var(b, w->spec->dtype, w->lanes);
    return ahead;
}

// Whether the tensors can be read and written in vectors.
static ptx_val is_aligned(ptx_builder *b, const struct channel_walk *w)
{
    const uint64_t bytes = w->lanes * ptx_type_bytes(w->spec->dtype);
    ptx_val beyond = ptx_and(b, ptx_ptr_address(b, w->in[0]), bytes - 1);

    return ptx_and(b, w->alike, ptx_eq(b, beyond, 0));
}

// ---- rows ---------------------------------------------------------------------------------------

// A thread's vectors of a piece of `length` elements: every `step` elements from i on. All s32.
struct row {
    struct channel_walk of; // at the piece's first element
    ptx_val i;              // a variable
    ptx_val step, length;
    ptx_val aligned, last; // AHEAD vectors are whole up to i = last
    ptx_val early;         // short rows: where a vector was read alone; -1: nowhere
    struct ahead ahead;
};

// Reads the first vectors of the piece that begins at element `first` (u64). Of a `short_row` that
// has fewer, the first one, so that it is there when the quantizer is. A condition for each: behind
// a branch, the reads would come after what waits for the quantizer's.
static struct row row_begin(ptx_builder *b, const struct channel_walk *w, ptx_val first,
                            ptx_val start, ptx_val step, ptx_val length, bool short_row)
{
    struct row r = { .of = *w, .step = step, .length = length };

    for (unsigned t = 0; t < w->inputs; t++)
        r.of.in[t] = ptx_at(b, w->in[t], first);
    r.of.out = ptx_at(b, w->out, first);
    r.i = ptx_var(b, start);
    r.aligned = is_aligned(b, &r.of);
    ptx_val limit = ptx_select(b, r.aligned, length, 0);
    ptx_val reach = ptx_mad(b, step, AHEAD - 1, w->lanes);
    r.last = ptx_sub(b, limit, reach);
    ptx_comment(b, "the vectors read ahead; 0 where there is none");
    r.ahead = ahead_var(b, w);
    ptx_val all = ptx_le(b, r.i, r.last), first_whole = all, place = r.i;
    if (short_row) {
        ptx_val whole = ptx_le(b, r.i, ptx_sub(b, length, w->lanes));
        first_whole = ptx_and(b, r.aligned, whole);
        ptx_val alone = ptx_and(b, first_whole, ptx_not(b, all));
        r.early = ptx_select(b, alone, start, -1);
    }
    for (unsigned v = 0; v < AHEAD; v++) {
        ptxk_comment_lanes(b, "reads the first vectors", v, 2, AHEAD);
        ptx_if (b, v ? all : first_whole)
            ptxk_channel_walk_read(b, &r.of, r.ahead.in[v], place);
        if (v + 1 < AHEAD)
            place = ptx_add(b, place, step);
    }
    return r;
}

// Whole vectors, AHEAD at a time. Each is followed by the reads of the vector that is in its place
// the next time.
static void row_ahead(ptx_builder *b, const struct row *r, const struct quantizers *q)
{
    ptx_val span = ptx_mul(b, r->step, AHEAD);

    ptx_while (b, ptx_le(b, r->i, r->last)) {
        ptx_val place = ptx_copy(b, r->i);
        ptx_set(b, r->i, ptx_add(b, r->i, span));
        ptx_val more = ptx_le(b, r->i, r->last);
        for (unsigned v = 0; v < AHEAD; v++) {
            ptx_comment(b, "vector %u of %u; then the one in its place the next time", v, AHEAD);
            ptx_vec out = ptxk_channel_walk_output(b, &r->of, q, r->ahead.in[v]);
            ptx_comment(b, "written at once");
            ptx_store_vec(b, r->of.out, place, out);
            ptx_if (b, more)
                ptxk_channel_walk_read(b, &r->of, r->ahead.in[v], ptx_add(b, place, span));
            place = ptx_add(b, place, r->step);
        }
    }
}

// A vector at i between boundaries, one element after the other.
static void pass_each(ptx_builder *b, const struct channel_walk *w, const struct quantizers *q,
                      ptx_val i)
{
    ptx_vec in[MAX_INPUTS];

    ptx_comment(b, "unaligned: one element after the other");
    for (unsigned t = 0; t < w->inputs; t++) {
        in[t] = (ptx_vec) { .lanes = w->lanes };
        for (unsigned k = 0; k < w->lanes; k++)
            in[t].lane[k] = ptx_load(b, ptx_at(b, w->in[t], i), k);
    }
    ptx_vec out = w->compute(b, w->spec, q, in);
    ptx_comment(b, "written one by one");
    for (unsigned k = 0; k < w->lanes; k++)
        ptx_store(b, ptx_at(b, w->out, i), k, out.lane[k]);
}

// The vector at i, which may have been read alone.
static void row_vector(ptx_builder *b, const struct row *r, const struct quantizers *q)
{
    if (r->early.kind == PTX_KIND_POISON) {
        ptxk_channel_walk_pass(b, &r->of, q, r->i, r->of.lanes);
        return;
    }
    ptx_if (b, ptx_ne(b, r->i, r->early))
        ptxk_channel_walk_read(b, &r->of, r->ahead.in[0], r->i);
    ptx_vec out = ptxk_channel_walk_output(b, &r->of, q, r->ahead.in[0]);
    ptx_comment(b, "written at once");
    ptx_store_vec(b, r->of.out, r->i, out);
}

// Computes the thread's elements; `sums` become theirs.
static void row_pass(ptx_builder *b, const struct row *r, const struct quantizer *quantizer,
                     ptx_val *sums)
{
    const struct channel_walk *w = &r->of;
    const struct quantizers q = ptxk_quantizers_same(quantizer, sums);

    for (unsigned s = 0; s < w->sums; s++)
        sums[s] = ptx_var(b, ptx_f64(0));
    ptx_comment(b, "whole vectors, %d at a time, then one at a time", AHEAD);
    row_ahead(b, r, &q);
    ptx_val whole = ptx_sub(b, r->length, w->lanes);
    ptx_while (b, ptx_le(b, r->i, whole)) {
        ptx_comment(b, "a vector");
        ptx_if (b, r->aligned)
            row_vector(b, r, &q);
        ptx_else (b)
            pass_each(b, w, &q, r->i);
        ptx_set(b, r->i, ptx_add(b, r->i, r->step));
    }
    ptx_comment(b, "the rest of the row");
    ptx_for (b, place, r->i, r->length, 1)
        ptxk_channel_walk_pass(b, w, &q, place, 1);
}

static void store_sums(ptx_builder *b, const struct channel_walk *w, ptx_val piece,
                       const ptx_val *sums)
{
    for (unsigned s = 0; s < w->sums; s++)
        ptx_store(b, w->sums_to[s], piece, ptxk_one_nan(b, sums[s]));
}

// One scale: a block has a piece, so that its accesses are adjacent.
static void walk_tensor(ptx_builder *b, const struct channel_walk *w)
{
    const ptx_val step = ptx_s32((int32_t)(PIECES_BLOCK * w->lanes));
    struct tensor_pieces pieces = ptxk_tensor_pieces(b, w->spec->dtype, w->end);
    ptx_val block = ptx_cvt(b, PTX_U64, ptx_ctaid(b, PTX_X));
    ptx_val blocks = ptx_cvt(b, PTX_U64, ptx_nctaid(b, PTX_X));
    ptx_val stride = ptx_mul(b, blocks, pieces.piece);
    ptx_val start = ptx_cvt(b, PTX_S32, ptx_mul(b, w->tid, w->lanes));
    ptx_val sums[MAX_SUMS];

    ptx_for (b, first, ptx_mul(b, block, pieces.piece), w->end, stride) {
        ptx_val left = ptx_min(b, ptx_sub(b, w->end, first), pieces.piece);
        ptx_val length = ptx_cvt(b, PTX_S32, left);
        ptx_comment(b, "the block's piece: its first vectors, and the quantizer");
        struct row row = row_begin(b, w, first, start, step, length, false);
        struct quantizer q = ptxk_channel_walk_quantizer(b, w, ptx_u64(0));
        row_pass(b, &row, &q, sums);
        for (unsigned s = 0; s < w->sums; s++)
            sums[s] = ptxk_block_sum(b, sums[s], PIECES_BLOCK);
        ptx_if (b, ptx_eq(b, w->tid, 0))
            store_sums(b, w, ptx_shr(b, first, pieces.log2), sums);
        ptx_barrier(b); // the next sums are written where these are read
    }
}

// A scale for each channel, whose elements are adjacent: a team of lanes has a piece of a row.
static void walk_rows(ptx_builder *b, const struct channel_walk *w)
{
    const struct channels *channels = &w->channels;

    ptx_comment(b, "pieces of rows, and the lanes for each");
    struct row_pieces pieces = ptxk_row_pieces(b, w->end, channels->inner);
    ptx_comment(b, "the team of lanes for a row, and its place in the block");
    ptx_val channels_inverse = ptxk_inverse_of(b, channels->count);
    ptx_val team = ptxk_team_for(b, channels->inner, w->lanes, WARP);
    ptx_val lane = ptx_and(b, w->lane, ptx_sub(b, team, 1));
    ptx_val teams = ptx_div(b, PIECES_BLOCK, team);
    ptx_val mine = ptx_cvt(b, PTX_U64, ptx_div(b, w->tid, team));
    ptx_val start = ptx_cvt(b, PTX_S32, ptx_mul(b, lane, w->lanes));
    ptx_val step = ptx_cvt(b, PTX_S32, ptx_mul(b, team, w->lanes));
    ptx_val is_first = ptx_eq(b, lane, 0);
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val stride = ptx_mul_wide(b, ptx_nctaid(b, PTX_X), teams);
    ptx_val sums[MAX_SUMS];

    ptx_for (b, base, ptx_mul_wide(b, block, teams), pieces.count, stride) {
        ptx_comment(b, "this team's piece: its channel, and its elements");
        ptx_val piece = ptx_add(b, base, mine);
        ptx_val row = ptxk_quotient_by(b, piece, pieces.per_row, pieces.per_row_inverse);
        ptx_val part = ptx_sub(b, piece, ptx_mul(b, row, pieces.per_row));
        ptx_val outer = ptxk_quotient_by(b, row, channels->count, channels_inverse);
        ptx_val channel = ptx_sub(b, row, ptx_mul(b, outer, channels->count));
        ptx_val place = ptx_mul(b, part, pieces.piece);
        ptx_val first = ptx_mad(b, row, channels->inner, place);
        ptx_val within = ptx_lt(b, piece, pieces.count);
        ptx_val left = ptx_min(b, ptx_sub(b, channels->inner, place), pieces.piece);
        ptx_val rest = ptx_sub(b, w->end, first);
        rest = ptx_select(b, ptx_lt(b, first, w->end), rest, 0);
        ptx_val length = ptx_cvt(b, PTX_S32, ptx_min(b, left, rest));
        ptx_comment(b, "its first vectors, and its quantizer");
        struct row own = row_begin(b, w, first, start, step, length, false);
        struct quantizer q = ptxk_channel_walk_quantizer(b, w, channel);
        row_pass(b, &own, &q, sums);
        ptxk_team_sums(b, sums, w->sums, team);
        ptx_comment(b, "the team's first lane writes the sums");
        ptx_if (b, ptx_and(b, is_first, within))
            store_sums(b, w, piece, sums);
    }
}

// ---- columns ------------------------------------------------------------------------------------

// A thread's vectors of a tile: in every PIECES_WARPS-th row, from element i (u64, a variable) on.
struct tile {
    const struct channel_walk *of;
    ptx_val stride; // elements between two rows of the thread, u64
    ptx_val i, end;
    ptx_val limit, reach;              // AHEAD rows are whole up to i + reach < limit
    ptx_val bytes;                     // between rows
    ptx_val in_at[MAX_INPUTS], out_at; // addresses of the next vectors: variables
    struct ahead ahead;
    ptx_ptr copies; // the thread's, in shared memory: `copied` alone
    ptx_val half;   // where those are that are next: an offset in elements, a variable
    struct lane_quantizers q;
};

// Whether a thread's vectors go through shared memory. In 16 bits AHEAD vectors in registers are
// too few bytes on their way, and quantizers leave no room for more.
static bool is_copied(ptx_builder *b, const struct channel_walk *w)
{
    return ptx_type_bytes(w->spec->dtype) == 2 && ptx_builder_target(b).sm >= 80;
}

static uint32_t copied_bytes(const struct channel_walk *w)
{
    return ptxk_tile_lanes(w->spec->dtype) * ptx_type_bytes(w->spec->dtype);
}

// A copy of vector `v` from `half` on, of input t.
static ptx_ptr copy_of(ptx_builder *b, const struct tile *tile, unsigned v, unsigned t)
{
    const uint32_t apart = PIECES_BLOCK * tile->of->lanes;

    return ptx_at(b, ptx_at(b, tile->copies, tile->half), (v * tile->of->inputs + t) * apart);
}

// Begins the copies of the next AHEAD rows, a group each; `some`: whether there are any.
static void tile_copy(ptx_builder *b, const struct tile *tile, ptx_val some, unsigned v)
{
    const struct channel_walk *w = tile->of;

    ptx_if (b, some) {
        for (unsigned t = 0; t < w->inputs; t++) {
            ptx_ptr from = ptx_ptr_from(b, w->spec->dtype, PTX_SPACE_GLOBAL, tile->in_at[t]);
            ptx_cp_async(b, copy_of(b, tile, v, t), from, copied_bytes(w));
        }
        for (unsigned t = 0; t < w->inputs; t++)
            ptx_set(b, tile->in_at[t], ptx_add(b, tile->in_at[t], tile->bytes));
    }
    ptx_cp_async_commit(b);
}

static ptx_ptr pointer_to(ptx_builder *b, const struct tile *tile, ptx_val address)
{
    return ptx_ptr_from(b, tile->of->spec->dtype, PTX_SPACE_GLOBAL, address);
}

static ptx_val address_var(ptx_builder *b, ptx_ptr p, ptx_val i)
{
    return ptx_var(b, ptx_ptr_address(b, ptx_at(b, p, i)));
}

static void tile_read(ptx_builder *b, const struct tile *tile, unsigned v)
{
    for (unsigned t = 0; t < tile->of->inputs; t++)
        ptxk_lanes_read(b, &tile->ahead.in[v][t], pointer_to(b, tile, tile->in_at[t]));
    for (unsigned t = 0; t < tile->of->inputs; t++)
        ptx_set(b, tile->in_at[t], ptx_add(b, tile->in_at[t], tile->bytes));
}

// Whether AHEAD rows are whole from i on.
static ptx_val are_whole(ptx_builder *b, const struct tile *tile, ptx_val i)
{
    return ptx_lt(b, ptx_add(b, i, tile->reach), tile->limit);
}

static ptx_val is_ahead(ptx_builder *b, const struct tile *tile)
{
    return are_whole(b, tile, tile->i);
}

static void swap_halves(ptx_builder *b, const struct tile *tile)
{
    const uint32_t half = COPIED / 2 * tile->of->inputs * PIECES_BLOCK * tile->of->lanes;

    ptx_set(b, tile->half, ptx_xor(b, tile->half, half));
}

// Reads the first rows.
static void tile_begin(ptx_builder *b, struct tile *tile, ptx_val start, ptx_val end)
{
    const struct channel_walk *w = tile->of;

    ptx_comment(b, "the thread's part of the tile, and its first vectors");
    tile->i = ptx_var(b, start);
    tile->end = end;
    ptx_val aligned = is_aligned(b, w);
    ptx_comment(b, "where whole rows of vectors end");
    ptx_val whole = ptx_sub(b, w->end, w->lanes - 1);
    whole = ptx_select(b, ptx_ge(b, w->end, w->lanes), whole, 0);
    whole = ptx_min(b, whole, end);
    tile->limit = ptx_select(b, aligned, whole, 0);
    tile->reach = ptx_mul(b, tile->stride, AHEAD - 1);
    tile->bytes = ptx_mul(b, tile->stride, ptx_type_bytes(w->spec->dtype));
    for (unsigned t = 0; t < w->inputs; t++)
        tile->in_at[t] = address_var(b, w->in[t], start);
    tile->out_at = address_var(b, w->out, start);
    if (is_copied(b, w)) {
        ptx_val i = tile->i;
        for (unsigned group = 0; group < COPIED / AHEAD; group++) {
            ptx_val some = are_whole(b, tile, i);
            for (unsigned v = 0; v < AHEAD; v++) {
                ptxk_comment_lanes(b, "begins the copies of rows", group * AHEAD + v, 2, COPIED);
                tile_copy(b, tile, some, v);
            }
            swap_halves(b, tile);
            i = ptx_add(b, i, ptx_mul(b, tile->stride, AHEAD));
        }
        return;
    }
    ptx_comment(b, "the vectors read ahead; 0 where there is none");
    tile->ahead = ahead_var(b, w);
    ptx_comment(b, "reads the first rows");
    ptx_if (b, is_ahead(b, tile)) {
        for (unsigned v = 0; v < AHEAD; v++)
            tile_read(b, tile, v);
    }
}

// Rows of whole vectors, AHEAD at a time, each from its copy. Then the copy of a row begins that is
// in its place later.
static void tile_copied(ptx_builder *b, const struct tile *tile)
{
    const struct channel_walk *w = tile->of;
    ptx_val span = ptx_mul(b, tile->stride, AHEAD);

    ptx_while (b, is_ahead(b, tile)) {
        ptx_set(b, tile->i, ptx_add(b, tile->i, span));
        ptx_val more = are_whole(b, tile, ptx_mad(b, tile->stride, COPIED - AHEAD, tile->i));
        for (unsigned v = 0; v < AHEAD; v++) {
            struct ptxk_lanes in[MAX_INPUTS];
            ptx_comment(b, "row %u of %u; then the copy of the one in its place later", v, AHEAD);
            ptx_cp_async_wait(b, COPIED - 1);
            for (unsigned t = 0; t < w->inputs; t++)
                in[t] = ptxk_lanes_load(b, w->spec->dtype, w->lanes, copy_of(b, tile, v, t));
            ptx_vec out = ptxk_channel_walk_output(b, w, &tile->q.each, in);
            ptx_comment(b, "written at once");
            ptx_store_vec(b, pointer_to(b, tile, tile->out_at), 0, out);
            ptx_set(b, tile->out_at, ptx_add(b, tile->out_at, tile->bytes));
            tile_copy(b, tile, more, v);
        }
        swap_halves(b, tile);
    }
}

// Rows of whole vectors, AHEAD at a time, as row_ahead().
static void tile_ahead(ptx_builder *b, const struct tile *tile)
{
    ptx_val span = ptx_mul(b, tile->stride, AHEAD);

    ptx_while (b, is_ahead(b, tile)) {
        ptx_set(b, tile->i, ptx_add(b, tile->i, span));
        ptx_val more = is_ahead(b, tile);
        for (unsigned v = 0; v < AHEAD; v++) {
            ptx_comment(b, "row %u of %u; then the one in its place the next time", v, AHEAD);
            ptx_vec out = ptxk_channel_walk_output(b, tile->of, &tile->q.each, tile->ahead.in[v]);
            ptx_comment(b, "written at once");
            ptx_store_vec(b, pointer_to(b, tile, tile->out_at), 0, out);
            ptx_set(b, tile->out_at, ptx_add(b, tile->out_at, tile->bytes));
            ptx_if (b, more)
                tile_read(b, tile, v);
        }
    }
}

// The other rows, which may end within the vector: one element after the other.
static void tile_rest(ptx_builder *b, const struct tile *tile)
{
    ptx_while (b, ptx_lt(b, tile->i, tile->end)) {
        for (unsigned k = 0; k < tile->of->lanes; k++) {
            const struct quantizers one = ptxk_quantizers_same(&tile->q.of[k], tile->q.sums[k]);
            ptx_comment(b, "the rest of the tile's rows: column %u", k);
            ptx_val place = k ? ptx_add(b, tile->i, k) : tile->i;
            ptx_if (b, ptx_lt(b, place, tile->of->end))
                ptxk_channel_walk_pass(b, tile->of, &one, place, 1);
        }
        ptx_set(b, tile->i, ptx_add(b, tile->i, tile->stride));
    }
}

// The sum of a column over the warps, whose sums are `apart` elements.
static ptx_val sum_of_warps(ptx_builder *b, ptx_ptr sums, ptx_val i, uint32_t apart)
{
    ptx_val v[PIECES_WARPS];

    for (unsigned k = 0; k < PIECES_WARPS; k++)
        v[k] = ptx_load(b, ptx_at(b, sums, i), k * apart);
    return ptxk_one_nan(b, ptxk_team_sum_of(b, v, PIECES_WARPS));
}

// Writes the sums of the tile's columns, from `piece` on. `left`: the columns of the unit from the
// tile's first on.
static void tile_end(ptx_builder *b, const struct tile *tile, ptx_ptr shared, ptx_val piece,
                     ptx_val left)
{
    const struct channel_walk *w = tile->of;
    const uint32_t columns = ptxk_tile_columns(w->spec->dtype), all = w->sums * columns;
    ptx_comment(b, "the sums of the columns, over the warps");
    ptx_val mine = ptx_mad(b, w->warp, all, ptx_mul(b, w->lane, w->lanes));

    for (unsigned k = 0; k < w->lanes; k += 2)
        for (unsigned s = 0; s < w->sums; s++) {
            ptx_vec two = ptx_vec2(tile->q.sums[k][s], tile->q.sums[k + 1][s]);
            ptx_store_vec(b, ptx_at(b, shared, mine), s * columns + k, two);
        }
    ptx_barrier(b);
    ptx_comment(b, "a thread for each column and sum");
    ptx_val column = ptx_and(b, w->tid, columns - 1);
    ptx_val within = ptx_lt(b, ptx_cvt(b, PTX_U64, column), left);
    ptx_if (b, ptx_and(b, within, ptx_lt(b, w->tid, all))) {
        ptx_val total = sum_of_warps(b, shared, w->tid, all);
        ptx_comment(b, "writes it");
        ptx_val to = ptx_add(b, piece, ptx_cvt(b, PTX_U64, column));
        ptx_val is_first = ptx_lt(b, w->tid, columns);
        ptx_if (b, is_first)
            ptx_store(b, w->sums_to[0], to, total);
        if (w->sums > 1) {
            ptx_if (b, ptx_not(b, is_first))
                ptx_store(b, w->sums_to[1], to, total);
        }
    }
    ptx_barrier(b);
}

// A scale for each channel, which changes from element to element: a thread sums down columns.
// Completes w->channels.
static void walk_columns(ptx_builder *b, struct channel_walk *w)
{
    const ptx_type dtype = w->spec->dtype;
    const uint32_t columns = ptxk_tile_columns(dtype);
    struct tile tile = { .of = w };

    ptx_comment(b, "tiles of a matrix whose columns have one channel each");
    ptx_ptr shared = ptx_shared(b, PTX_F64, PIECES_WARPS * columns * w->sums);
    struct column_tiles tiles =
        ptxk_column_tiles(b, dtype, w->end, w->channels.count, w->channels.inner);
    w->channels = ptxk_channels_of(b, w->channels.count, w->channels.inner);
    w->lanes = ptxk_tile_lanes(dtype);
    ptx_comment(b, "the thread's place in a tile; a block has every tile of its number on");
    ptx_val mine = ptx_cvt(b, PTX_U64, ptx_mul(b, w->lane, w->lanes));
    ptx_val warp = ptx_cvt(b, PTX_U64, w->warp);
    ptx_val block = ptx_cvt(b, PTX_U64, ptx_ctaid(b, PTX_X));
    ptx_val blocks = ptx_cvt(b, PTX_U64, ptx_nctaid(b, PTX_X));
    tile.stride = ptx_mul(b, tiles.unit, PIECES_WARPS);
    if (is_copied(b, w)) {
        ptx_ptr all = ptx_shared(b, dtype, COPIED * w->inputs * PIECES_BLOCK * w->lanes);
        tile.copies = ptx_at(b, all, ptx_mul(b, w->tid, w->lanes));
        tile.half = ptx_var(b, ptx_u32(0));
    }

    ptx_for (b, k, block, tiles.count, blocks) {
        ptx_comment(b, "where the tile is");
        ptx_val down = ptxk_quotient_by(b, k, tiles.across, tiles.across_inverse);
        ptx_val side = ptx_sub(b, k, ptx_mul(b, down, tiles.across));
        ptx_val left = ptx_mul(b, side, columns);
        ptx_val column = ptx_add(b, left, mine);
        ptx_val top = ptx_mul(b, down, tiles.tile_rows);
        ptx_val bottom = ptx_min(b, ptx_add(b, top, tiles.tile_rows), tiles.rows);
        ptx_val beyond = ptx_ge(b, column, tiles.unit);
        ptx_val end = ptx_min(b, ptx_mul(b, bottom, tiles.unit), w->end);
        end = ptx_select(b, beyond, 0, end);
        ptx_val start = ptx_mad(b, ptx_add(b, top, warp), tiles.unit, column);
        tile_begin(b, &tile, start, end);
        ptxk_channel_walk_quantizers(b, w, column, &tile.q);
        if (is_copied(b, w))
            tile_copied(b, &tile);
        else
            tile_ahead(b, &tile);
        tile_rest(b, &tile);
        ptx_val piece = ptx_mad(b, down, tiles.unit, left);
        tile_end(b, &tile, shared, piece, ptx_sub(b, tiles.unit, left));
    }
}

// ---- whole rows ---------------------------------------------------------------------------------

// A block has the one row: the sums of its warps, in its first thread.
static void add_warps(ptx_builder *b, const struct channel_walk *w, const ptx_val *sums)
{
    ptx_ptr shared = ptx_shared(b, PTX_F64, PIECES_WARPS * w->sums);

    ptx_comment(b, "the sums of the warps");
    ptx_if (b, ptx_eq(b, w->lane, 0)) {
        ptx_val mine = ptx_mul(b, w->warp, w->sums);
        for (unsigned s = 0; s < w->sums; s++)
            ptx_store(b, ptx_at(b, shared, mine), s, sums[s]);
    }
    ptx_barrier(b);
    for (unsigned s = 0; s < w->sums; s++) {
        ptx_comment(b, "sum %u over the warps", s);
        ptx_set(b, sums[s], sum_of_warps(b, shared, ptx_u32(s), w->sums));
    }
}

static void store_gradients(ptx_builder *b, const struct channel_walk *w, ptx_val channel,
                            const ptx_val *sums)
{
    const ptx_type type = ptxk_compute_type(w->spec->dtype);

    for (unsigned s = 0; s < w->sums; s++) {
        ptx_val gradient = ptx_cvt(b, type, ptx_mul(b, sums[s], w->factor));
        ptx_store(b, w->sums_to[s], channel, ptxk_one_nan(b, gradient));
    }
}

// A row for each channel: its sums are complete when its team ends.
static void walk_whole(ptx_builder *b, const struct channel_walk *w)
{
    const struct channels *channels = &w->channels;

    ptx_comment(b, "the team of threads for a row, and its place in the block");
    ptx_val alone = ptx_le(b, channels->count, 1);
    ptx_val lanes = ptxk_team_for(b, channels->inner, w->lanes, WARP);
    ptx_val team = ptx_select(b, alone, PIECES_BLOCK, lanes);
    ptx_val log2 = ptx_bfind(b, team);
    ptx_val place = ptx_and(b, w->tid, ptx_sub(b, team, 1));
    ptx_val teams = ptx_shr(b, ptx_u32(PIECES_BLOCK), log2);
    ptx_val mine = ptx_cvt(b, PTX_U64, ptx_shr(b, w->tid, log2));
    ptx_val start = ptx_cvt(b, PTX_S32, ptx_mul(b, place, w->lanes));
    ptx_val step = ptx_cvt(b, PTX_S32, ptx_mul(b, team, w->lanes));
    ptx_val is_first = ptx_eq(b, place, 0);
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val stride = ptx_mul_wide(b, ptx_nctaid(b, PTX_X), teams);
    ptx_val sums[MAX_SUMS];

    ptx_for (b, base, ptx_mul_wide(b, block, teams), channels->count, stride) {
        ptx_comment(b, "this team's row: its first vectors, and its quantizer");
        ptx_val row = ptx_add(b, base, mine);
        ptx_val within = ptx_lt(b, row, channels->count);
        ptx_val channel = ptx_select(b, within, row, 0);
        ptx_val first = ptx_mul(b, row, channels->inner);
        ptx_val rest = ptx_sub(b, w->end, first);
        rest = ptx_select(b, ptx_lt(b, first, w->end), rest, 0);
        rest = ptx_select(b, within, rest, 0);
        ptx_val length = ptx_cvt(b, PTX_S32, ptx_min(b, channels->inner, rest));
        struct row own = row_begin(b, w, first, start, step, length, true);
        struct quantizer q = ptxk_channel_walk_quantizer(b, w, channel);
        row_pass(b, &own, &q, sums);
        ptxk_team_sums(b, sums, w->sums, team);
        for (unsigned s = 0; s < w->sums; s++)
            sums[s] = ptx_var(b, sums[s]);
        ptx_if (b, alone)
            add_warps(b, w, sums);
        ptx_comment(b, "the team's first thread writes the gradients");
        ptx_if (b, ptx_and(b, is_first, within))
            store_gradients(b, w, channel, sums);
    }
}

// ---- all ----------------------------------------------------------------------------------------

void ptxk_piece_walk(ptx_builder *b, struct channel_walk *w, ptx_val n, enum pieces_layout layout)
{
    w->lanes = ptxk_vector_lanes(w->spec->dtype);
    w->skew = ptx_u64(0);
    w->end = n;
    w->alike = ptxk_channel_walk_alike(b, w);
    w->tid = ptx_tid(b, PTX_X);
    w->lane = ptx_and(b, w->tid, WARP - 1);
    w->warp = ptx_shr(b, w->tid, 5);
    if (layout == PIECES_WHOLE) {
        walk_whole(b, w);
        return;
    }
    if (ptx_builder_target(b).sm >= 90) // the kernel that adds the sums of pieces waits for them
        ptx_griddepcontrol_launch_dependents(b);
    if (layout == PIECES_TENSOR)
        walk_tensor(b, w);
    else if (layout == PIECES_ROWS)
        walk_rows(b, w);
    else
        walk_columns(b, w);
}
