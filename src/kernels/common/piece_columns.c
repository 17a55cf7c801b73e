// SPDX-License-Identifier: MIT
#include "piece_walk.h"

enum { COPIED = 8 }; // vectors copied into shared memory before: a multiple of PIECES_AHEAD

// A thread's vectors of a tile: in every PIECES_WARPS-th row, from element i (u64, a variable) on.
struct tile {
    const struct channel_walk *of;
    ptx_val stride; // elements between two rows of the thread, u64
    ptx_val i, end;
    ptx_val left;                      // rows of whole vectors, s32, a variable
    ptx_val bytes;                     // between rows
    ptx_val in_at[MAX_INPUTS], out_at; // addresses of the next vectors: variables
    struct ptxk_ahead ahead;
    ptx_ptr copies; // the thread's, in shared memory: `copied` alone
    ptx_val half;   // where those are that are next: an offset in elements, a variable
    struct lane_quantizers q;
};

// Whether a thread's vectors go through shared memory. In 16 bits PIECES_AHEAD vectors in registers
// are too few bytes on their way, and quantizers leave no room for more.
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

// Begins the copies of the next PIECES_AHEAD rows, a group each; `some`: whether there are any.
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

// Whether the thread's next rows are whole, so many.
static ptx_val are_whole(ptx_builder *b, const struct tile *tile, int32_t rows)
{
    return ptx_ge(b, tile->left, rows);
}

// PIECES_AHEAD rows are done with.
static void tile_pass(ptx_builder *b, const struct tile *tile)
{
    ptx_set(b, tile->left, ptx_sub(b, tile->left, PIECES_AHEAD));
}

static void swap_halves(ptx_builder *b, const struct tile *tile)
{
    const uint32_t half = COPIED / 2 * tile->of->inputs * PIECES_BLOCK * tile->of->lanes;

    ptx_set(b, tile->half, ptx_xor(b, tile->half, half));
}

// Reads the first of `rows` rows of whole vectors (s32).
static void tile_begin(ptx_builder *b, struct tile *tile, ptx_val start, ptx_val end, ptx_val rows)
{
    const struct channel_walk *w = tile->of;

    ptx_comment(b, "the thread's part of the tile, and its first vectors");
    tile->end = end;
    tile->left = ptx_var(b, rows);
    // The rest begins after whole rows, PIECES_AHEAD at a time.
    ptx_val ahead = ptx_and(b, rows, -PIECES_AHEAD);
    tile->i = ptx_var(b, ptx_mad(b, ptx_cvt(b, PTX_U64, ahead), tile->stride, start));
    tile->bytes = ptx_mul(b, tile->stride, ptx_type_bytes(w->spec->dtype));
    for (unsigned t = 0; t < w->inputs; t++)
        tile->in_at[t] = address_var(b, w->in[t], start);
    tile->out_at = address_var(b, w->out, start);
    if (is_copied(b, w)) {
        for (unsigned group = 0; group < COPIED / PIECES_AHEAD; group++) {
            ptx_val some = are_whole(b, tile, (int32_t)((group + 1) * PIECES_AHEAD));
            for (unsigned v = 0; v < PIECES_AHEAD; v++) {
                ptxk_comment_lanes(b, "begins the copies of rows", group * PIECES_AHEAD + v, 2,
                                   COPIED);
                tile_copy(b, tile, some, v);
            }
            swap_halves(b, tile);
        }
        return;
    }
    ptx_comment(b, "the vectors read ahead; 0 where there is none");
    tile->ahead = ptxk_ahead_var(b, w);
    ptx_comment(b, "reads the first rows");
    ptx_if (b, are_whole(b, tile, PIECES_AHEAD)) {
        for (unsigned v = 0; v < PIECES_AHEAD; v++)
            tile_read(b, tile, v);
    }
}

// Rows of whole vectors, PIECES_AHEAD at a time, each from its copy. Then the copy of a row begins
// that is in its place later.
static void tile_copied(ptx_builder *b, const struct tile *tile)
{
    const struct channel_walk *w = tile->of;

    ptx_while (b, are_whole(b, tile, PIECES_AHEAD)) {
        tile_pass(b, tile);
        ptx_val more = are_whole(b, tile, COPIED);
        for (unsigned v = 0; v < PIECES_AHEAD; v++) {
            struct ptxk_lanes in[MAX_INPUTS];
            ptx_comment(b, "row %u of %u; then the copy of the one in its place later", v,
                        PIECES_AHEAD);
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

// Rows of whole vectors, PIECES_AHEAD at a time, as row_ahead().
static void tile_ahead(ptx_builder *b, const struct tile *tile)
{
    ptx_while (b, are_whole(b, tile, PIECES_AHEAD)) {
        tile_pass(b, tile);
        ptx_val more = are_whole(b, tile, PIECES_AHEAD);
        for (unsigned v = 0; v < PIECES_AHEAD; v++) {
            ptx_comment(b, "row %u of %u; then the one in its place the next time", v,
                        PIECES_AHEAD);
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
        ptx_val total = ptxk_piece_sum_of_warps(b, shared, w->tid, all);
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

// The rows of whole vectors that a thread has, from row `first` on and before row `bottom`; s32.
// The last row of all may end before the vector at `column` does.
static ptx_val whole_rows(ptx_builder *b, const struct channel_walk *w,
                          const struct column_tiles *tiles, ptx_val column, ptx_val first,
                          ptx_val bottom)
{
    ptx_comment(b, "the thread's rows of whole vectors");
    ptx_val last = ptx_sub(b, tiles->rows, 1);
    ptx_val stop = ptx_mad(b, last, tiles->unit, ptx_add(b, column, w->lanes));
    ptx_val whole = ptx_min(b, bottom, ptx_select(b, ptx_le(b, stop, w->end), tiles->rows, last));
    ptx_val aligned = ptxk_piece_aligned(b, w);
    ptx_val inside = ptx_lt(b, column, tiles->unit);
    whole = ptx_select(b, ptx_and(b, aligned, inside), whole, 0);
    ptx_val count = ptx_cvt(b, PTX_S32, ptx_sub(b, whole, first));
    count = ptx_shr(b, ptx_add(b, count, PIECES_WARPS - 1), ptxk_log2(PIECES_WARPS));
    return ptx_select(b, ptx_lt(b, first, whole), count, 0);
}

void ptxk_piece_columns(ptx_builder *b, struct channel_walk *w)
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
        ptx_val row = ptx_add(b, top, warp);
        ptx_val start = ptx_mad(b, row, tiles.unit, column);
        tile_begin(b, &tile, start, end, whole_rows(b, w, &tiles, column, row, bottom));
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
