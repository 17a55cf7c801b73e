// SPDX-License-Identifier: MIT
// Packed chunks: a team of threads processes one piece (a whole tensor) after the other.
#include "common/common.h"
#include "norm_parts.h"

enum { BLOCK_LOG2 = 8, IN_FLIGHT = NORM_PIECE_VECTORS, SUMS = 2 };

struct norm_share ptxk_norm_share_of(ptx_builder *b, const struct norm_chunk *chunk, ptx_val tid,
                                     ptx_val part, uint32_t parts)
{
    struct norm_share share = { .team = chunk->team, .count = chunk->index };
    ptx_val teams = ptx_sub(b, BLOCK_LOG2, chunk->team); // log2

    share.unit = ptx_shr(b, tid, chunk->team);
    if (part.kind != PTX_KIND_POISON)
        share.unit = ptx_add(b, share.unit, ptx_shl(b, part, teams));
    share.units = ptx_shl(b, ptx_u32(parts), teams);
    return share;
}

ptx_val ptxk_norm_share_tensor(ptx_builder *b, const struct norm_tables *tables,
                               const struct norm_chunk *chunk, const struct norm_share *share,
                               ptx_val tid)
{
    ptx_val lane = ptx_and(b, tid, WARP - 1);
    ptx_val own = ptx_mad(b, lane, share->units, share->unit);
    ptx_val last = ptx_sub(b, share->count, 1);
    own = ptx_min(b, own, last);
    return ptx_load(b, tables->pieces, ptx_add(b, chunk->tensor, own));
}

void ptxk_norm_for_pieces(ptx_builder *b, const struct norm_spec *spec,
                          const struct norm_share *share, ptx_val tid,
                          void (*body)(ptx_builder *b, ptx_type dtype, void *piece),
                          struct norm_piece *piece)
{
    const bool mixed = spec->dtypes & (spec->dtypes - 1);
    ptx_comment(b, "the team's pieces, one after the other");
    ptx_val threads = ptx_shl(b, ptx_u32(1), share->team);
    ptx_val place = ptx_and(b, tid, ptx_sub(b, threads, 1));
    ptx_val count = ptx_cvt(b, PTX_S32, share->row.count);
    ptx_val at = ptx_var(b, share->unit);
    ptx_val lane = ptx_var(b, ptx_u32(0));

    piece->thread = ptx_bitcast(b, PTX_S32, place);
    piece->team = share->team;
    ptx_assume_warp_uniform(b, at); // a team has whole warps
    ptx_while (b, ptx_lt(b, at, share->count)) {
        ptx_val dtype = mixed ? ptx_shfl_idx(b, share->row.dtype, lane) : share->row.dtype;
        piece->data = ptx_shfl_idx(b, share->row.data, lane);
        piece->count = ptx_shfl_idx(b, count, lane);
        if (share->row.weight.kind != PTX_KIND_POISON)
            piece->weight = ptx_shfl_idx(b, share->row.weight, lane);
        if (share->tensor.kind != PTX_KIND_POISON)
            piece->tensor = ptx_shfl_idx(b, share->tensor, lane);
        ptxk_norm_for_dtype(b, spec, dtype, body, piece);
        ptx_set(b, at, ptx_add(b, at, share->units));
        ptx_set(b, lane, ptx_add(b, lane, 1));
    }
}

struct norm_vectors ptxk_norm_vectors_of(ptx_builder *b, const struct norm_piece *piece, ptx_ptr x,
                                         ptx_val end)
{
    struct norm_vectors v = { .x = x, .lanes = ptxk_vector_lanes((ptx_type)x.type), .end = end };

    v.i = ptx_var(b, ptx_mul(b, piece->thread, v.lanes));
    v.stride = ptx_shl(b, ptx_s32((int32_t)v.lanes), piece->team);
    return v;
}

void ptxk_norm_vectors_read(ptx_builder *b, const struct norm_vectors *v, bool nc, ptx_val *place,
                            ptx_val *within, ptx_vec *in)
{
    ptx_comment(b, "reads %u vectors; for one that is not there, the first again", IN_FLIGHT);
    place[0] = v->i;
    in[0] = ptx_load_vec(b, v->x, v->i, v->lanes, .nc = nc, .cache = PTX_CACHE_STREAMING);
    for (unsigned k = 1; k < IN_FLIGHT; k++) {
        place[k] = ptx_add(b, place[k - 1], v->stride);
        within[k] = ptx_lt(b, place[k], v->end);
        ptx_val at = ptx_select(b, within[k], place[k], v->i);
        in[k] = ptx_load_vec(b, v->x, at, v->lanes, .nc = nc, .cache = PTX_CACHE_STREAMING);
    }
}

void ptxk_norm_vectors_next(ptx_builder *b, const struct norm_vectors *v)
{
    ptx_set(b, v->i, ptx_mad(b, v->stride, IN_FLIGHT, v->i));
}

// ---- sums ---------------------------------------------------------------------------------------

struct piece_sum {
    const struct norm_squares *n;
    ptx_val total; // a variable
};

// `seen`: NULL without reports. `there`: a predicate; poisoned: x is an element.
static void add_square(ptx_builder *b, const struct chunk_seen *seen, ptx_val sum, ptx_val x,
                       ptx_val there)
{
    if (seen)
        ptxk_chunk_see_some(b, seen, x, there);
    ptxk_add_square(b, sum, x);
}

static void add_vectors(ptx_builder *b, const struct norm_vectors *v, const struct chunk_seen *seen,
                        const ptx_val sums[SUMS])
{
    const ptx_val always = { 0 };

    ptx_while (b, ptx_lt(b, v->i, v->end)) {
        ptx_val place[IN_FLIGHT], within[IN_FLIGHT];
        ptx_vec in[IN_FLIGHT];
        ptxk_norm_vectors_read(b, v, true, place, within, in);
        for (unsigned k = 0; k < IN_FLIGHT * v->lanes; k++) {
            ptxk_comment_lanes(b, "squares", k, seen ? 1 : 4, IN_FLIGHT * v->lanes);
            ptx_val x = in[k / v->lanes].lane[k % v->lanes];
            if (k >= v->lanes)
                x = ptx_select(b, within[k / v->lanes], x, 0);
            add_square(b, seen, sums[k % SUMS], x, k >= v->lanes ? within[k / v->lanes] : always);
        }
        ptxk_norm_vectors_next(b, v);
    }
}

// The same for single elements, at any address.
static void add_elements(ptx_builder *b, const struct norm_vectors *v,
                         const struct chunk_seen *seen, const ptx_val sums[SUMS])
{
    const ptx_val always = { 0 };

    ptx_comment(b, "single elements, as many as a vector has");
    ptx_while (b, ptx_lt(b, v->i, v->end)) {
        ptx_val end = ptx_add(b, v->i, v->lanes);
        ptx_for (b, k, v->i, end, SUMS) {
            ptx_ptr p = ptx_at(b, v->x, k);
            ptx_val x[SUMS];
            for (unsigned n = 0; n < SUMS; n++)
                x[n] = ptx_load(b, p, n, .nc = true);
            if (seen)
                ptx_comment(b, "and their squares");
            for (unsigned n = 0; n < SUMS; n++)
                add_square(b, seen, sums[n], x[n], always);
        }
        ptx_set(b, v->i, ptx_add(b, v->i, v->stride));
    }
}

// The elements after the whole vectors: one per thread, read in advance.
static void sum_piece(ptx_builder *b, ptx_type dtype, void *user)
{
    const struct norm_piece *piece = user;
    const struct piece_sum *const to = piece->user;
    const bool reports = to->n->spec->reports;
    struct chunk_seen own, *const seen = reports ? &own : NULL;
    const int32_t lanes = (int32_t)ptxk_vector_lanes(dtype);
    ptx_comment(b, "a piece: its last elements are read first");
    ptx_ptr x = ptx_ptr_from(b, dtype, PTX_SPACE_GLOBAL, piece->data);
    ptx_val whole = ptx_and(b, piece->count, -lanes);
    ptx_val left = ptx_var(b, ptx_zero(dtype));
    ptx_val place = ptx_add(b, whole, piece->thread);
    ptx_val is_left = ptx_lt(b, place, piece->count);
    ptx_if (b, is_left)
        ptx_set(b, left, ptx_load(b, x, place, .nc = true));
    if (reports) {
        ptx_comment(b, "what is seen of it");
        own.largest = ptx_var(b, ptx_f32(0));
        own.zeros = ptx_var(b, ptx_u32(0));
    }

    ptx_comment(b, "whole vectors, or single elements where it is unaligned");
    struct norm_vectors v = ptxk_norm_vectors_of(b, piece, x, whole);
    ptx_val low = ptx_and(b, ptx_cvt(b, PTX_U32, piece->data), 15);
    ptx_val sums[SUMS];
    for (unsigned k = 0; k < SUMS; k++)
        sums[k] = ptx_var(b, ptx_f64(0));
    ptx_if (b, ptx_eq(b, low, 0))
        add_vectors(b, &v, seen, sums);
    ptx_else (b)
        add_elements(b, &v, seen, sums);
    ptx_comment(b, "the last element, and the weight");
    add_square(b, seen, sums[0], left, is_left);
    ptx_val sum = ptx_add(b, sums[0], sums[1]);
    ptx_val weighted = ptxk_norm_weighted(b, to->n->spec, sum, piece->weight);
    ptx_set(b, to->total, ptx_add(b, to->total, weighted));
    if (reports)
        ptxk_norm_piece_report(b, to->n, piece, x, seen, sum);
}

ptx_val ptxk_norm_share_sum(ptx_builder *b, const struct norm_squares *n,
                            const struct norm_share *share)
{
    struct piece_sum sum = { n, ptx_var(b, ptx_f64(0)) };
    struct norm_piece piece = { .user = &sum };

    ptxk_norm_for_pieces(b, n->spec, share, n->tid, sum_piece, &piece);
    return sum.total;
}
