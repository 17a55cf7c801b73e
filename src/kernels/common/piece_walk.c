// SPDX-License-Identifier: MIT
#include "piece_walk.h"

struct ptxk_ahead ptxk_ahead_var(ptx_builder *b, const struct channel_walk *w)
{
    struct ptxk_ahead ahead;

    for (unsigned v = 0; v < PIECES_AHEAD; v++)
        for (unsigned t = 0; t < w->inputs; t++)
            ahead.in[v][t] = ptxk_lanes_var(b, w->spec->dtype, w->lanes);
    return ahead;
}

ptx_val ptxk_piece_aligned(ptx_builder *b, const struct channel_walk *w)
{
    const uint64_t bytes = w->lanes * ptx_type_bytes(w->spec->dtype);
    ptx_val beyond = ptx_and(b, ptx_ptr_address(b, w->in[0]), bytes - 1);

    return ptx_and(b, w->alike, ptx_eq(b, beyond, 0));
}

ptx_val ptxk_piece_sum_of_warps(ptx_builder *b, ptx_ptr sums, ptx_val i, uint32_t apart)
{
    ptx_val v[PIECES_WARPS];

    for (unsigned k = 0; k < PIECES_WARPS; k++)
        v[k] = ptx_load(b, ptx_at(b, sums, i), k * apart);
    return ptxk_one_nan(b, ptxk_team_sum_of(b, v, PIECES_WARPS));
}

// ---- rows ---------------------------------------------------------------------------------------

// A thread's vectors of a piece of `length` elements: every `step` elements from i on. All s32.
struct row {
    struct channel_walk of; // at the piece's first element
    ptx_val i;              // a variable
    ptx_val step, length;
    ptx_val aligned, last; // PIECES_AHEAD vectors are whole up to i = last
    ptx_val early;         // short rows: where a vector was read alone; -1: nowhere
    struct ptxk_ahead ahead;
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
    r.aligned = ptxk_piece_aligned(b, &r.of);
    ptx_val limit = ptx_select(b, r.aligned, length, 0);
    ptx_val reach = ptx_mad(b, step, PIECES_AHEAD - 1, w->lanes);
    r.last = ptx_sub(b, limit, reach);
    ptx_comment(b, "the vectors read ahead; 0 where there is none");
    r.ahead = ptxk_ahead_var(b, w);
    ptx_val all = ptx_le(b, r.i, r.last), first_whole = all, place = r.i;
    if (short_row) {
        ptx_val whole = ptx_le(b, r.i, ptx_sub(b, length, w->lanes));
        first_whole = ptx_and(b, r.aligned, whole);
        ptx_val alone = ptx_and(b, first_whole, ptx_not(b, all));
        r.early = ptx_select(b, alone, start, -1);
    }
    for (unsigned v = 0; v < PIECES_AHEAD; v++) {
        ptxk_comment_lanes(b, "reads the first vectors", v, 2, PIECES_AHEAD);
        ptx_if (b, v ? all : first_whole)
            ptxk_channel_walk_read(b, &r.of, r.ahead.in[v], place);
        if (v + 1 < PIECES_AHEAD)
            place = ptx_add(b, place, step);
    }
    return r;
}

// Whole vectors, PIECES_AHEAD at a time. Each is followed by the reads of the vector that is in its
// place the next time.
static void row_ahead(ptx_builder *b, const struct row *r, const struct quantizers *q)
{
    ptx_val span = ptx_mul(b, r->step, PIECES_AHEAD);

    ptx_while (b, ptx_le(b, r->i, r->last)) {
        ptx_val place = ptx_copy(b, r->i);
        ptx_set(b, r->i, ptx_add(b, r->i, span));
        ptx_val more = ptx_le(b, r->i, r->last);
        for (unsigned v = 0; v < PIECES_AHEAD; v++) {
            ptx_comment(b, "vector %u of %u; then the one in its place the next time", v,
                        PIECES_AHEAD);
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
    ptx_comment(b, "whole vectors, %d at a time, then one at a time", PIECES_AHEAD);
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

// ---- a single short row ------------------------------------------------------------------------

static ptx_val gradient_of(ptx_builder *b, const struct channel_walk *w, ptx_val sum)
{
    const ptx_type type = ptxk_compute_type(w->spec->dtype);

    return ptxk_one_nan(b, ptx_cvt(b, type, ptx_mul(b, sum, w->factor)));
}

// The elements from i on (s32) that are below n, one after the other.
static void single_each(ptx_builder *b, const struct channel_walk *w, const struct quantizers *q,
                        ptx_val i, ptx_val n)
{
    ptx_comment(b, "no whole vector: one element after the other");
    ptx_val stop = ptx_min(b, ptx_add(b, i, w->lanes), n);

    ptx_for (b, place, i, stop, 1)
        ptxk_channel_walk_pass(b, w, q, place, 1);
}

// The sums over the lanes of the warp, in the first lane of each of as many parts of it. Two sums
// are shared out: each half of the lanes gives one away, for what the other half has of its own.
static ptx_val single_sum(ptx_builder *b, const struct channel_walk *w, const ptx_val *sums)
{
    const uint32_t half = WARP / 2;

    ptx_comment(b, "the sums over the lanes of the warp");
    if (w->sums == 1)
        return ptxk_lanes_combine(b, ptx_add, sums[0], WARP, 1);
    ptx_val upper = ptx_ge(b, w->lane, half);
    ptx_val given = ptx_select(b, upper, sums[0], sums[1]);
    ptx_val kept = ptx_select(b, upper, sums[1], sums[0]);
    ptx_val both = ptx_add(b, kept, ptx_shfl_bfly(b, given, half));
    return ptxk_lanes_combine(b, ptx_add, both, half, 1);
}

// The first threads write a gradient each.
static void single_gradients(ptx_builder *b, const struct channel_walk *w, ptx_val sum)
{
    const uint32_t part = WARP / w->sums; // lanes
    ptx_ptr shared = ptx_shared(b, PTX_F64, PIECES_WARPS * w->sums);

    ptx_if (b, ptx_eq(b, ptx_and(b, w->lane, part - 1), 0))
        ptx_store(b, shared, ptxk_over_power_of_two(b, w->tid, part), sum);
    ptx_barrier(b);
    ptx_if (b, ptx_lt(b, w->tid, w->sums)) {
        ptx_comment(b, "the sum over the warps, and the gradient");
        ptx_val gradient = gradient_of(b, w, ptxk_piece_sum_of_warps(b, shared, w->tid, w->sums));
        for (unsigned s = 0; s < w->sums; s++)
            ptx_if (b, ptx_eq(b, w->tid, s))
                ptx_store(b, w->sums_to[s], 0, gradient);
    }
}

// A row of n elements (s32), at most a vector for each thread. All reads are on their way before
// anything waits. The bits are those of walk_whole_rows().
static void walk_single(ptx_builder *b, const struct channel_walk *w, ptx_val n)
{
    struct ptxk_lanes in[MAX_INPUTS];
    ptx_val sums[MAX_SUMS];

    ptx_comment(b, "the scale, and the thread's vectors");
    ptx_val scale = ptx_load(b, w->scale, 0, .nc = true);
    ptx_val zero_point = ptx_load(b, w->zero_point, 0, .nc = true);
    ptx_val i = ptx_cvt(b, PTX_S32, ptx_mul(b, w->tid, w->lanes));
    ptx_val fits = ptx_le(b, i, ptx_sub(b, n, w->lanes));
    ptx_val whole = ptx_and(b, ptxk_piece_aligned(b, w), fits);
    for (unsigned t = 0; t < w->inputs; t++)
        in[t] = ptxk_lanes_var(b, w->spec->dtype, w->lanes);
    ptx_if (b, whole)
        ptxk_channel_walk_read(b, w, in, i);
    const struct quantizer quantizer = w->quantizer_of(b, w->spec, scale, zero_point, w->levels);
    const struct quantizers q = ptxk_quantizers_same(&quantizer, sums);
    for (unsigned s = 0; s < w->sums; s++)
        sums[s] = ptx_var(b, ptx_f64(0));
    ptx_if (b, whole) {
        ptx_vec out = ptxk_channel_walk_output(b, w, &q, in);
        ptx_comment(b, "written at once");
        ptx_store_vec(b, w->out, i, out);
    }
    ptx_else (b)
        single_each(b, w, &q, i, n);
    single_gradients(b, w, single_sum(b, w, sums));
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
        ptx_set(b, sums[s], ptxk_piece_sum_of_warps(b, shared, ptx_u32(s), w->sums));
    }
}

static void store_gradients(ptx_builder *b, const struct channel_walk *w, ptx_val channel,
                            const ptx_val *sums)
{
    for (unsigned s = 0; s < w->sums; s++)
        ptx_store(b, w->sums_to[s], channel, gradient_of(b, w, sums[s]));
}

// A row for each channel: its sums are complete when its team ends.
static void walk_whole_rows(ptx_builder *b, const struct channel_walk *w, ptx_val alone)
{
    const struct channels *channels = &w->channels;

    ptx_comment(b, "the team of threads for a row, and its place in the block");
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

static void walk_whole(ptx_builder *b, const struct channel_walk *w)
{
    ptx_comment(b, "one short row, or others");
    ptx_val alone = ptx_le(b, w->channels.count, 1);
    ptx_val length = ptx_min(b, w->channels.inner, w->end);
    ptx_val is_short = ptx_le(b, length, PIECES_BLOCK * w->lanes);

    ptx_if (b, ptx_and(b, alone, is_short))
        walk_single(b, w, ptx_cvt(b, PTX_S32, length));
    ptx_else (b)
        walk_whole_rows(b, w, alone);
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
        ptxk_piece_columns(b, w);
}
