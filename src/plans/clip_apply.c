// SPDX-License-Identifier: MIT
// Gradients times their group's factor, in place.
#include "clip_text.h"
#include "kernels/common.h"

enum { IN_FLIGHT = 4 }; // vectors a thread

// Words of struct clip_totals.
enum { TICKET = 2, THROUGH = 3 };

struct apply {
    const struct clip_spec *spec;
    ptx_val tid;
    struct clip_chunk chunk;
    ptx_val start, length; // s32: of the tile, in its chunk
    ptx_val factor, zeros; // f32; a predicate: store 0. Both are variables
};

struct vectors {
    ptx_type dtype;
    ptx_val factor; // in the compute type
    ptx_val zeros;
    ptx_ptr data;
};

static uint32_t tile_of(const struct clip_spec *spec)
{
    return spec->chunk < CLIP_TILE ? spec->chunk : CLIP_TILE;
}

static ptx_vec scaled(ptx_builder *b, const struct vectors *v, const ptx_vec *in)
{
    const ptx_type compute = (ptx_type)v->factor.type;
    ptx_vec out = *in;

    for (unsigned k = 0; k < in->lanes; k++) {
        ptx_val product = ptx_mul(b, ptx_cvt(b, compute, in->lane[k]), v->factor);
        if (v->zeros.kind != PTX_POISON)
            product = ptx_select(b, v->zeros, ptx_zero(compute), product);
        out.lane[k] = ptx_cvt(b, v->dtype, product);
    }
    return out;
}

// The elements of the vector at `i` that lie within the chunk.
static void apply_edge(ptx_builder *b, const struct vectors *v, ptx_val i, ptx_val length)
{
    const unsigned lanes = vector_lanes(v->dtype);
    ptx_val lo = ptx_max(b, i, ptx_s32(0));
    ptx_val hi = ptx_min(b, ptx_add(b, i, ptx_s32((int32_t)lanes)), length);

    ptx_for (b, k, lo, hi, ptx_s32(1)) {
        ptx_vec one = ptx_load_vec(b, v->data, k, 1);
        one = scaled(b, v, &one);
        ptx_store_vec(b, v->data, k, one);
    }
}

// So many rows at a time while they lie within the chunk.
static void apply_rows(ptx_builder *b, const struct vectors *v, ptx_val i, ptx_val length,
                       unsigned rows)
{
    const unsigned lanes = vector_lanes(v->dtype);
    const int32_t row = (int32_t)(CLIP_BLOCK * lanes);
    const int32_t reach = (int32_t)(rows - 1) * row + (int32_t)lanes;
    ptx_val last = ptx_sub(b, length, ptx_s32(reach));

    ptx_while (b, ptx_le(b, i, last)) {
        ptx_vec in[IN_FLIGHT];
        ptx_ptr p = ptx_at(b, v->data, i);
        for (unsigned k = 0; k < rows; k++)
            in[k] = ptx_load_vec(b, p, ptx_s32((int32_t)k * row), lanes, .cache = PTX_STREAM);
        for (unsigned k = 0; k < rows; k++) {
            ptx_vec out = scaled(b, v, &in[k]);
            ptx_store_vec(b, p, ptx_s32((int32_t)k * row), out, .cache = PTX_STREAM);
        }
        ptx_set(b, i, ptx_add(b, i, ptx_s32((int32_t)rows * row)));
    }
}

// Rows begin at the 16-byte boundary at or before the tile; a thread has a vector of each.
static void apply_tile(ptx_builder *b, ptx_type dtype, void *user)
{
    const struct apply *a = user;
    const unsigned lanes = vector_lanes(dtype);
    const unsigned rows = tile_of(a->spec) / (CLIP_BLOCK * lanes);
    const unsigned unroll = rows < IN_FLIGHT ? rows : IN_FLIGHT;
    struct vectors v = { .dtype = dtype };

    if (a->spec->nonfinite == PTX_NONFINITE_ZERO)
        v.zeros = a->zeros;
    v.factor = ptx_cvt(b, compute_type(dtype), a->factor);
    ptx_ptr x = ptx_pointer(b, dtype, PTX_GLOBAL, a->chunk.data);
    v.data = ptx_at(b, ptx_at(b, x, a->chunk.first), a->start);
    ptx_val address = ptx_cvt(b, PTX_U32, a->chunk.data);
    ptx_val skew = ptx_and(b, address, ptx_u32(15));
    skew = ptx_div(b, skew, ptx_u32(ptx_type_bytes(dtype)));
    ptx_val mine = ptx_mul(b, a->tid, ptx_u32(lanes));
    ptx_val i = ptx_var(b, ptx_bitcast(b, PTX_S32, ptx_sub(b, mine, skew)));

    ptx_if (b, ptx_lt(b, i, ptx_s32(0))) {
        apply_edge(b, &v, i, a->length);
        ptx_set(b, i, ptx_add(b, i, ptx_s32((int32_t)(CLIP_BLOCK * lanes))));
    }
    if (unroll > 1)
        apply_rows(b, &v, i, a->length, unroll);
    apply_rows(b, &v, i, a->length, 1);
    apply_edge(b, &v, i, a->length);
}

// What a block must know of a group before it scales: from the partials, each block for itself, or
// from the record.
struct source {
    struct clip_partials partials;
    struct clip_results results;
    ptx_val fused; // a predicate: from the partials
};

// Sets factor and zeros from the group's partials. The block that takes the group's last tile,
// which is the first to be taken, writes the record.
static void take_partials(ptx_builder *b, const struct apply *a, const struct source *from,
                          ptx_val chunk, ptx_val first_tile)
{
    ptx_ptr shared = ptx_shared(b, PTX_F32, 2);
    ptx_val at = ptx_mul_wide(b, a->chunk.group, ptx_u32(2));
    ptx_vec row = ptx_load_vec(b, from->partials.groups, at, 2);
    ptx_val sum = clip_group_total(b, &from->partials, a->tid, row);

    ptx_if (b, ptx_eq(b, a->tid, ptx_u32(0))) {
        struct clip_record record = clip_record_of(b, &from->results, a->chunk.group, sum);
        ptx_store(b, shared, ptx_u32(0), record.factor);
        ptx_store(b, shared, ptx_u32(1),
                  ptx_select(b, record.finite, ptx_f32(0.0f), ptx_f32(1.0f)));
        ptx_val end = ptx_add(b, row.lane[0], row.lane[1]);
        ptx_val last = ptx_eq(b, ptx_add(b, chunk, ptx_u32(1)), end);
        ptx_if (b, ptx_and(b, last, first_tile))
            clip_record_write(b, &from->results, a->chunk.group, &record);
    }
    ptx_barrier(b);
    ptx_set(b, a->factor, ptx_load(b, shared, ptx_u32(0)));
    ptx_val found = ptx_load(b, shared, ptx_u32(1));
    ptx_set(b, a->zeros, ptx_ne(b, found, ptx_f32(0.0f)));
}

static void take_record(ptx_builder *b, const struct apply *a, const struct source *from)
{
    ptx_val at = ptx_mul_wide(b, a->chunk.group, ptx_u32(4));
    ptx_vec record = ptx_load_vec(b, from->results.records, at, 4);
    ptx_set(b, a->factor, record.lane[0]);
    ptx_set(b, a->zeros, ptx_ne(b, record.lane[2], ptx_f32(0.0f)));
}

// The next tile for this block: thread 0 draws a number, the barrier shows it to all.
static ptx_val next_ticket(ptx_builder *b, const struct apply *a, ptx_ptr totals, ptx_ptr shared)
{
    ptx_barrier(b);
    ptx_if (b, ptx_eq(b, a->tid, ptx_u32(0))) {
        ptx_val drawn = ptx_atomic_add(b, totals, ptx_u32(TICKET), ptx_u32(1));
        ptx_store(b, shared, ptx_u32(0), ptx_add(b, drawn, ptx_nctaid(b, PTX_X)));
    }
    ptx_barrier(b);
    return ptx_load(b, shared, ptx_u32(0));
}

// The last block to be through sets the tickets back.
static void leave(ptx_builder *b, const struct apply *a, ptx_ptr totals)
{
    ptx_if (b, ptx_eq(b, a->tid, ptx_u32(0))) {
        ptx_val limit = ptx_sub(b, ptx_nctaid(b, PTX_X), ptx_u32(1));
        ptx_val before =
            ptx_atomic(b, PTX_ATOMIC_inc, totals, ptx_u32(THROUGH), limit, .order = PTX_ACQ_REL);
        ptx_if (b, ptx_eq(b, before, limit))
            ptx_store(b, totals, ptx_u32(TICKET), ptx_u32(0));
    }
}

void clip_apply_emit(ptx_builder *b, const struct clip_spec *spec)
{
    struct apply a = { .spec = spec };
    struct source from;
    const uint32_t tiles_of_chunk = spec->chunk / tile_of(spec);

    ptx_comment(b, "tile after tile, from the last to the first: what was read last may still be "
                   "in the cache");
    struct clip_tables tables = clip_tables_param(b);
    from.partials = clip_partials_param(b);
    from.results = clip_results_param(b, spec);
    ptx_val last = ptx_param(b, PTX_U32, "last", .meaning = "chunk of the first tile");
    ptx_val tiles = ptx_param(b, PTX_U32, "tiles");
    ptx_val one_factor = ptx_param(b, PTX_U32, "one_factor", .meaning = "1: there is one group");
    from.fused = ptx_param(b, PTX_U32, "fused",
                           .meaning = "1: factors from the partials; 0: from the records");

    a.tid = ptx_tid(b, PTX_X);
    a.factor = ptx_var(b, ptx_f32(1.0f));
    a.zeros = ptx_var(b, ptx_bool(false));
    from.fused = ptx_ne(b, from.fused, ptx_u32(0));
    ptx_ptr shared = ptx_shared(b, PTX_U32, 1);
    ptx_val ticket = ptx_var(b, ptx_ctaid(b, PTX_X));
    ptx_val group = ptx_var(b, ptx_u32(UINT32_MAX));
    clip_wait_for_last(b);
    ptx_loop (b) {
        ptx_val back = ptx_div(b, ticket, ptx_u32(tiles_of_chunk));
        ptx_val place = ptx_rem(b, ticket, ptx_u32(tiles_of_chunk));
        ptx_val k = ptx_sub(b, last, back);
        a.chunk = clip_chunk_read(b, &tables, k, spec->chunk);
        ptx_if (b, ptx_ne(b, a.chunk.group, group)) {
            ptx_if (b, from.fused)
                take_partials(b, &a, &from, k, ptx_eq(b, place, ptx_u32(0)));
            ptx_else (b)
                take_record(b, &a, &from);
            ptx_set(b, group, a.chunk.group);
        }
        ptx_val changes = ptx_neu(b, a.factor, ptx_f32(1.0f));
        ptx_comment(b, "nothing to scale, and nothing elsewhere either");
        ptx_val nothing = ptx_and(b, ptx_not(b, changes), ptx_ne(b, one_factor, ptx_u32(0)));
        ptx_return_if(b, nothing);
        ptx_val before = ptx_sub(b, ptx_u32(tiles_of_chunk - 1), place);
        before = ptx_mul(b, before, ptx_u32(tile_of(spec)));
        a.start = ptx_bitcast(b, PTX_S32, before);
        ptx_val left = ptx_sub(b, a.chunk.length, a.start);
        a.length = ptx_min(b, left, ptx_s32((int32_t)tile_of(spec)));
        ptx_if (b, ptx_and(b, changes, ptx_gt(b, left, ptx_s32(0))))
            clip_for_dtype(b, spec, a.chunk.dtype, apply_tile, &a);
        ptx_break_if(b, ptx_eq(b, tiles, ptx_nctaid(b, PTX_X)));
        ptx_set(b, ticket, next_ticket(b, &a, from.results.totals, shared));
        ptx_break_if(b, ptx_ge(b, ticket, tiles));
    }
    ptx_comment(b, "where each tile had its block, there were no tickets");
    ptx_if (b, ptx_ne(b, tiles, ptx_nctaid(b, PTX_X)))
        leave(b, &a, from.results.totals);
}
