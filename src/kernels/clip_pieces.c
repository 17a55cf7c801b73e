// SPDX-License-Identifier: MIT
// Packed chunks: a team of threads processes one piece (a whole tensor) after the other.
#include "clip_parts.h"
#include "common/common.h"

enum { BLOCK_LOG2 = 8, IN_FLIGHT = CLIP_PIECE_VECTORS, SUMS = 2 };

// A piece, and this thread's index in its team.
struct piece {
    ptx_val data, weight; // u64, f64
    ptx_val count;        // s32
    ptx_val thread;       // s32, index in the team
    ptx_val team;         // log2 of the number of threads
    void *user;
};

struct clip_share ptxk_clip_share_of(ptx_builder *b, const struct clip_chunk *chunk, ptx_val tid,
                                     ptx_val part, uint32_t parts)
{
    struct clip_share share = { .team = chunk->team, .count = chunk->index };
    ptx_val teams = ptx_sub(b, ptx_u32(BLOCK_LOG2), chunk->team); // log2

    share.unit = ptx_shr(b, tid, chunk->team);
    if (part.kind != PTX_KIND_POISON)
        share.unit = ptx_add(b, share.unit, ptx_shl(b, part, teams));
    share.units = ptx_shl(b, ptx_u32(parts), teams);
    return share;
}

ptx_val ptxk_clip_share_tensor(ptx_builder *b, const struct clip_tables *tables,
                               const struct clip_chunk *chunk, const struct clip_share *share,
                               ptx_val tid)
{
    ptx_val lane = ptx_and(b, tid, ptx_u32(WARP - 1));
    ptx_val own = ptx_mad(b, lane, share->units, share->unit);
    ptx_val last = ptx_sub(b, share->count, ptx_u32(1));
    own = ptx_min(b, own, last);
    return ptx_load(b, tables->pieces, ptx_add(b, chunk->tensor, own));
}

// Executes the body for each piece of the share, specialised for the type of its elements.
static void for_pieces(ptx_builder *b, const struct clip_spec *spec, const struct clip_share *share,
                       ptx_val tid, void (*body)(ptx_builder *b, ptx_type dtype, void *piece),
                       struct piece *piece)
{
    const bool mixed = spec->dtypes & (spec->dtypes - 1);
    ptx_val threads = ptx_shl(b, ptx_u32(1), share->team);
    ptx_val place = ptx_and(b, tid, ptx_sub(b, threads, ptx_u32(1)));
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
        ptxk_clip_for_dtype(b, spec, dtype, body, piece);
        ptx_set(b, at, ptx_add(b, at, share->units));
        ptx_set(b, lane, ptx_add(b, lane, ptx_u32(1)));
    }
}

// The whole vectors of a piece: thread t of the team processes vectors t, t + team, ...
struct vectors {
    ptx_ptr x;
    unsigned lanes;
    ptx_val i; // a variable: index of this thread's next element
    ptx_val end;
    ptx_val stride; // in elements
};

static struct vectors vectors_of(ptx_builder *b, const struct piece *piece, ptx_ptr x, ptx_val end)
{
    struct vectors v = { .x = x, .lanes = ptxk_vector_lanes((ptx_type)x.type), .end = end };

    v.i = ptx_var(b, ptx_mul(b, piece->thread, ptx_s32((int32_t)v.lanes)));
    v.stride = ptx_shl(b, ptx_s32((int32_t)v.lanes), piece->team);
    return v;
}

// Reads several vectors, the first of which exists; reads the first one again in place of vectors
// past the end.
static void read_vectors(ptx_builder *b, const struct vectors *v, bool nc, ptx_val *place,
                         ptx_val *within, ptx_vec *in)
{
    place[0] = v->i;
    in[0] = ptx_load_vec(b, v->x, v->i, v->lanes, .nc = nc, .cache = PTX_CACHE_STREAMING);
    for (unsigned k = 1; k < IN_FLIGHT; k++) {
        place[k] = ptx_add(b, place[k - 1], v->stride);
        within[k] = ptx_lt(b, place[k], v->end);
        ptx_val at = ptx_select(b, within[k], place[k], v->i);
        in[k] = ptx_load_vec(b, v->x, at, v->lanes, .nc = nc, .cache = PTX_CACHE_STREAMING);
    }
}

static void next_vectors(ptx_builder *b, const struct vectors *v)
{
    ptx_set(b, v->i, ptx_mad(b, v->stride, ptx_s32(IN_FLIGHT), v->i));
}

// ---- sums ---------------------------------------------------------------------------------------

static void add_square(ptx_builder *b, ptx_val sum, ptx_val x)
{
    x = ptx_cvt(b, PTX_F64, x);
    ptx_set(b, sum, ptx_fma(b, x, x, sum));
}

static void add_vectors(ptx_builder *b, const struct vectors *v, const ptx_val sums[SUMS])
{
    ptx_while (b, ptx_lt(b, v->i, v->end)) {
        ptx_val place[IN_FLIGHT], within[IN_FLIGHT];
        ptx_vec in[IN_FLIGHT];
        read_vectors(b, v, true, place, within, in);
        for (unsigned k = 0; k < IN_FLIGHT * v->lanes; k++) {
            ptx_val x = in[k / v->lanes].lane[k % v->lanes];
            if (k >= v->lanes)
                x = ptx_select(b, within[k / v->lanes], x, ptx_zero((ptx_type)x.type));
            add_square(b, sums[k % SUMS], x);
        }
        next_vectors(b, v);
    }
}

// The same for single elements, at any address.
static void add_elements(ptx_builder *b, const struct vectors *v, const ptx_val sums[SUMS])
{
    ptx_while (b, ptx_lt(b, v->i, v->end)) {
        ptx_val end = ptx_add(b, v->i, ptx_s32((int32_t)v->lanes));
        ptx_for (b, k, v->i, end, ptx_s32(SUMS)) {
            ptx_ptr p = ptx_at(b, v->x, k);
            ptx_val x[SUMS];
            for (unsigned n = 0; n < SUMS; n++)
                x[n] = ptx_load(b, p, ptx_s32((int32_t)n), .nc = true);
            for (unsigned n = 0; n < SUMS; n++)
                add_square(b, sums[n], x[n]);
        }
        ptx_set(b, v->i, ptx_add(b, v->i, v->stride));
    }
}

// The elements after the whole vectors: one per thread, read in advance.
static void sum_piece(ptx_builder *b, ptx_type dtype, void *user)
{
    const struct piece *piece = user;
    const ptx_val total = *(const ptx_val *)piece->user;
    const int32_t lanes = (int32_t)ptxk_vector_lanes(dtype);
    ptx_ptr x = ptx_ptr_from(b, dtype, PTX_SPACE_GLOBAL, piece->data);
    ptx_val whole = ptx_and(b, piece->count, ptx_s32(-lanes));
    ptx_val left = ptx_var(b, ptx_zero(dtype));
    ptx_val place = ptx_add(b, whole, piece->thread);
    ptx_if (b, ptx_lt(b, place, piece->count))
        ptx_set(b, left, ptx_load(b, x, place, .nc = true));

    struct vectors v = vectors_of(b, piece, x, whole);
    ptx_val low = ptx_and(b, ptx_cvt(b, PTX_U32, piece->data), ptx_u32(15));
    ptx_val sums[SUMS];
    for (unsigned k = 0; k < SUMS; k++)
        sums[k] = ptx_var(b, ptx_f64(0));
    ptx_if (b, ptx_eq(b, low, ptx_u32(0)))
        add_vectors(b, &v, sums);
    ptx_else (b)
        add_elements(b, &v, sums);
    add_square(b, sums[0], left);
    ptx_val sum = ptx_mul(b, ptx_add(b, sums[0], sums[1]), piece->weight);
    ptx_set(b, total, ptx_add(b, total, sum));
}

ptx_val ptxk_clip_share_sum(ptx_builder *b, const struct clip_spec *spec,
                            const struct clip_share *share, ptx_val tid)
{
    ptx_val total = ptx_var(b, ptx_f64(0));
    struct piece piece = { .user = &total };

    for_pieces(b, spec, share, tid, sum_piece, &piece);
    return total;
}

// ---- scaling ------------------------------------------------------------------------------------

struct scale {
    ptx_val factor; // f32
    ptx_val zeros;
};

static void scale_vectors(ptx_builder *b, const struct vectors *v, const struct clip_scaling *s)
{
    ptx_while (b, ptx_lt(b, v->i, v->end)) {
        ptx_val place[IN_FLIGHT], within[IN_FLIGHT];
        ptx_vec in[IN_FLIGHT];
        read_vectors(b, v, false, place, within, in);
        ptx_vec out = ptxk_clip_scaled(b, s, &in[0]);
        ptx_store_vec(b, v->x, place[0], out, .cache = PTX_CACHE_STREAMING);
        for (unsigned k = 1; k < IN_FLIGHT; k++) {
            out = ptxk_clip_scaled(b, s, &in[k]);
            ptx_if (b, within[k])
                ptx_store_vec(b, v->x, place[k], out, .cache = PTX_CACHE_STREAMING);
        }
        next_vectors(b, v);
    }
}

// The whole vectors from the first 16-byte boundary on. The elements before and after them, fewer
// than there are threads, are read in advance.
static void scale_piece(ptx_builder *b, ptx_type dtype, void *user)
{
    const struct piece *piece = user;
    const struct scale *scale = piece->user;
    const uint32_t lanes = ptxk_vector_lanes(dtype);
    struct clip_scaling s = { .dtype = dtype, .zeros = scale->zeros };

    s.factor = ptx_cvt(b, ptxk_compute_type(dtype), scale->factor);
    ptx_ptr x = ptx_ptr_from(b, dtype, PTX_SPACE_GLOBAL, piece->data);
    ptx_val beyond = ptxk_skew_of_address(b, piece->data, dtype);
    ptx_val before = ptx_and(b, ptx_sub(b, ptx_u32(lanes), beyond), ptx_u32(lanes - 1));
    ptx_val head = ptx_min(b, ptx_bitcast(b, PTX_S32, before), piece->count);
    ptx_val whole = ptx_and(b, ptx_sub(b, piece->count, head), ptx_s32(-(int32_t)lanes));

    ptx_vec left = { { ptx_var(b, ptx_zero(dtype)) }, 1 };
    ptx_val behind = ptx_add(b, piece->thread, whole);
    ptx_val in_head = ptx_lt(b, piece->thread, head);
    ptx_val place = ptx_select(b, in_head, piece->thread, behind);
    ptx_val has_left = ptx_lt(b, behind, piece->count);
    ptx_if (b, has_left)
        ptx_set(b, left.lane[0], ptx_load(b, x, place));
    struct vectors v = vectors_of(b, piece, ptx_at(b, x, head), whole);
    scale_vectors(b, &v, &s);
    ptx_if (b, has_left)
        ptx_store(b, x, place, ptxk_clip_scaled(b, &s, &left).lane[0]);
}

void ptxk_clip_share_scale(ptx_builder *b, const struct clip_spec *spec,
                           const struct clip_share *share, ptx_val tid, ptx_val factor,
                           ptx_val zeros)
{
    struct scale scale = { factor, zeros };
    struct piece piece = { .user = &scale };
    struct clip_share present = *share;
    ptx_val absent = ptx_eq(b, share->row.data, ptx_u64(0));

    present.row.count = ptx_select(b, absent, ptx_u64(0), share->row.count);
    for_pieces(b, spec, &present, tid, scale_piece, &piece);
}
