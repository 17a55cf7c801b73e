// SPDX-License-Identifier: MIT
// Gradients times their group's factor, in place.
#include "clip_tile.h"
#include "common/common.h"

enum { MOST_IN_FLIGHT = 8 }; // vectors a thread
enum { TICKET = CLIP_TOTALS_WORD(ticket), THROUGH = CLIP_TOTALS_WORD(through) };

struct apply {
    const struct clip_spec *spec;
    ptx_val tid;
    struct clip_tiles tiles;
    struct clip_place now, next;
    ptx_val factor, zeros; // variables: f32; a predicate: store 0
};

ptx_vec ptxk_clip_scaled(ptx_builder *b, const struct clip_scaling *v, const ptx_vec *in)
{
    const ptx_type compute = (ptx_type)v->factor.type;
    ptx_vec out = *in;

    for (unsigned k = 0; k < in->lanes; k++) {
        ptx_val product = ptx_mul(b, ptx_cvt(b, compute, in->lane[k]), v->factor);
        if (v->zeros.kind != PTX_KIND_POISON)
            product = ptx_select(b, v->zeros, ptx_zero(compute), product);
        out.lane[k] = ptx_cvt(b, v->dtype, product);
    }
    return out;
}

static void scale_element(ptx_builder *b, const struct clip_scaling *v, ptx_val i)
{
    ptx_vec in = ptx_load_vec(b, v->data, i, 1, .cache = PTX_CACHE_STREAMING);
    ptx_vec out = ptxk_clip_scaled(b, v, &in);
    ptx_store_vec(b, v->data, i, out, .cache = PTX_CACHE_STREAMING);
}

// So many rows at a time while they lie within the chunk.
static void apply_rows(ptx_builder *b, const struct clip_scaling *v, ptx_val i, ptx_val length,
                       unsigned rows)
{
    const unsigned lanes = ptxk_vector_lanes(v->dtype);
    const int32_t row = (int32_t)(CLIP_BLOCK * lanes);
    const int32_t reach = (int32_t)(rows - 1) * row + (int32_t)lanes;
    ptx_val last = ptx_sub(b, length, ptx_s32(reach));

    ptx_while (b, ptx_le(b, i, last)) {
        ptx_vec in[MOST_IN_FLIGHT];
        ptx_ptr p = ptx_at(b, v->data, i);
        for (unsigned k = 0; k < rows; k++)
            in[k] =
                ptx_load_vec(b, p, ptx_s32((int32_t)k * row), lanes, .cache = PTX_CACHE_STREAMING);
        for (unsigned k = 0; k < rows; k++) {
            ptx_vec out = ptxk_clip_scaled(b, v, &in[k]);
            ptx_store_vec(b, p, ptx_s32((int32_t)k * row), out, .cache = PTX_CACHE_STREAMING);
        }
        ptx_set(b, i, ptx_add(b, i, ptx_s32((int32_t)rows * row)));
    }
}

// The rows left, fewer than so many, of whole vectors alone.
static void apply_last_rows(ptx_builder *b, const struct clip_scaling *v, ptx_val i, ptx_val length,
                            unsigned rows)
{
    const unsigned lanes = ptxk_vector_lanes(v->dtype);
    const int32_t row = (int32_t)(CLIP_BLOCK * lanes);

    ptx_if (b, ptx_lt(b, i, length)) {
        ptx_val place[MOST_IN_FLIGHT], within[MOST_IN_FLIGHT];
        ptx_vec in[MOST_IN_FLIGHT];
        for (unsigned k = 0; k < rows; k++) {
            place[k] = k ? ptx_add(b, i, ptx_s32((int32_t)k * row)) : i;
            within[k] = ptx_lt(b, place[k], length);
            place[k] = ptx_select(b, within[k], place[k], i);
            in[k] = ptx_load_vec(b, v->data, place[k], lanes, .cache = PTX_CACHE_STREAMING);
        }
        for (unsigned k = 0; k < rows; k++) {
            ptx_vec out = ptxk_clip_scaled(b, v, &in[k]);
            ptx_if (b, within[k])
                ptx_store_vec(b, v->data, place[k], out, .cache = PTX_CACHE_STREAMING);
        }
    }
}

static void apply_tile(ptx_builder *b, ptx_type dtype, void *user)
{
    const struct apply *a = user;
    const unsigned lanes = ptxk_vector_lanes(dtype);
    const unsigned rows = ptxk_clip_tile(a->spec) / (CLIP_BLOCK * lanes);
    const unsigned most = a->spec->chunk > CLIP_SHORT_CHUNK ? MOST_IN_FLIGHT / 2 : MOST_IN_FLIGHT;
    const unsigned unroll = rows < most ? rows : most;
    const ptx_val length = a->now.length;
    struct clip_scaling v = { .dtype = dtype };

    if (a->spec->nonfinite == PTX_NONFINITE_ZERO)
        v.zeros = a->zeros;
    v.factor = ptx_cvt(b, ptxk_compute_type(dtype), a->factor);
    ptx_ptr x = ptx_ptr_from(b, dtype, PTX_SPACE_GLOBAL, a->now.data);
    v.data = ptx_at(b, ptx_at(b, x, a->now.first), a->now.start);
    ptx_val skew = ptxk_skew_of_address(b, a->now.data, dtype);
    ptx_comment(b, "whole vectors, from the first 16-byte boundary on");
    ptx_val head =
        ptx_and(b, ptx_neg(b, ptx_bitcast(b, PTX_S32, skew)), ptx_s32((int32_t)lanes - 1));
    head = ptx_min(b, head, length);
    ptx_val rest = ptx_sub(b, length, head);
    ptx_val body = ptx_and(b, rest, ptx_s32(-(int32_t)lanes));
    v.data = ptx_at(b, v.data, head);
    ptx_val mine = ptx_mul(b, a->tid, ptx_u32(lanes));
    ptx_val i = ptx_var(b, ptx_bitcast(b, PTX_S32, mine));
    apply_rows(b, &v, i, body, unroll);
    apply_last_rows(b, &v, i, body, unroll);
    ptx_comment(b, "the elements before them and after, one a thread");
    ptx_val place = ptx_sub(b, ptx_bitcast(b, PTX_S32, a->tid), head);
    ptx_val after = ptx_add(b, body, place);
    place = ptx_select(b, ptx_lt(b, place, ptx_s32(0)), place, after);
    ptx_if (b, ptx_lt(b, place, rest))
        scale_element(b, &v, place);
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
                          ptx_vec row)
{
    ptx_ptr shared = ptx_shared(b, PTX_F32, 2);
    struct clip_inputs inputs = ptxk_clip_inputs_read(b, &from->results, a->now.group);
    ptx_val sum = ptxk_clip_group_total(b, &from->partials, a->tid, row);

    ptx_if (b, ptx_eq(b, a->tid, ptx_u32(0))) {
        struct clip_record record = ptxk_clip_record_of(b, &from->results, &inputs, sum);
        ptx_val found = ptx_select(b, record.finite, ptx_f32(0.0f), ptx_f32(1.0f));
        ptx_store_vec(b, shared, ptx_u32(0), ptx_vec2(record.factor, found));
        ptx_val end = ptx_add(b, row.lane[0], row.lane[1]);
        ptx_val last_chunk = ptx_eq(b, ptx_add(b, a->now.chunk, ptx_u32(1)), end);
        const uint32_t tiles_of_chunk = ptxk_clip_tiles_of_chunk(a->spec);
        ptx_val place = ptx_and(b, a->now.ticket, ptx_u32(tiles_of_chunk - 1));
        ptx_val last_tile = ptx_eq(b, place, ptx_u32(0));
        ptx_if (b, ptx_and(b, last_chunk, last_tile))
            ptxk_clip_record_write(b, &from->results, a->now.group, &record);
    }
    ptx_barrier(b);
    ptx_vec result = ptx_load_vec(b, shared, ptx_u32(0), 2);
    ptx_set(b, a->factor, result.lane[0]);
    ptx_set(b, a->zeros, ptx_ne(b, result.lane[1], ptx_f32(0.0f)));
}

static void take_record(ptx_builder *b, const struct apply *a, const struct source *from)
{
    ptx_val at = ptx_mul_wide(b, a->now.group, ptx_u32(4));
    ptx_vec record = ptx_load_vec(b, from->results.records, at, 4);
    ptx_set(b, a->factor, record.lane[0]);
    ptx_set(b, a->zeros, ptx_ne(b, record.lane[2], ptx_f32(0.0f)));
}

// The last block to be through sets the tickets back. For one thread.
static void leave(ptx_builder *b, ptx_ptr totals, ptx_val blocks)
{
    ptx_val limit = ptx_sub(b, blocks, ptx_u32(1));
    ptx_val before =
        ptx_atomic(b, PTX_ATOMIC_inc, totals, ptx_u32(THROUGH), limit, .order = PTX_ORDER_ACQ_REL);

    ptx_if (b, ptx_eq(b, before, limit))
        ptx_store(b, totals, ptx_u32(TICKET), ptx_u32(0));
}

static void scale_tile(ptx_builder *b, struct apply *a)
{
    ptx_val changes = ptx_neu(b, a->factor, ptx_f32(1.0f));
    ptx_val some = ptx_gt(b, a->now.length, ptx_s32(0));

    if (!a->spec->packs) {
        ptx_if (b, ptx_and(b, changes, some))
            ptxk_clip_for_dtype(b, a->spec, a->now.dtype, apply_tile, a);
        return;
    }
    ptx_if (b, changes) {
        ptx_if (b, ptx_ne(b, a->now.team, ptx_u32(0))) {
            const struct clip_share share = {
                .team = a->now.team,
                .unit = a->now.unit,
                .units = a->now.units,
                .count = a->now.pieces,
                .row = { .data = a->now.data, .count = a->now.count, .dtype = a->now.dtype },
            };
            const bool zero = a->spec->nonfinite == PTX_NONFINITE_ZERO;
            const ptx_val zeros = zero ? a->zeros : (ptx_val) { 0 };
            ptxk_clip_share_scale(b, a->spec, &share, a->tid, a->factor, zeros);
        }
        ptx_else (b) {
            ptx_if (b, some)
                ptxk_clip_for_dtype(b, a->spec, a->now.dtype, apply_tile, a);
        }
    }
}

static void read_next(ptx_builder *b, const struct apply *a, ptx_val tiles)
{
    ptx_if (b, ptx_lt(b, a->next.ticket, tiles))
        ptxk_clip_place_read(b, &a->tiles, &a->next);
}

// Where blocks take several tiles and there are several groups, factors come from the records.
//
// A block's first two tiles are its own; the third and all others are drawn, two ahead, so that
// neither the number nor the rows that it leads to are waited for. To count who is through takes up
// to 0.8 us on an H200, since it waits for all that was written: it is left out where there is no
// third.
static void scale_tiles(ptx_builder *b, struct apply *a, const struct source *from, ptx_val tiles)
{
    ptx_val blocks = ptx_nctaid(b, PTX_X);
    ptx_ptr drawn = ptx_shared(b, PTX_U32, 2);
    ptx_val slot = ptx_var(b, ptx_u32(0));
    ptx_val group = ptx_var(b, a->now.group);
    ptx_val own = ptx_shl(b, blocks, ptx_u32(1));
    ptx_val some_left = ptx_gt(b, tiles, own);
    ptx_val draws = ptx_and(b, some_left, ptx_eq(b, a->tid, ptx_u32(0)));

    ptx_loop (b) {
        ptx_val more = ptx_lt(b, a->next.ticket, tiles);
        ptx_val number = ptx_var(b, ptx_u32(0));
        ptx_if (b, ptx_and(b, more, draws))
            ptx_set(b, number,
                    ptx_atomic_add(b, from->results.totals, ptx_u32(TICKET), ptx_u32(1)));
        scale_tile(b, a);
        ptx_break_if(b, ptx_not(b, more));
        ptx_if (b, ptx_eq(b, a->tid, ptx_u32(0)))
            ptx_store(b, drawn, slot, number);
        ptx_barrier(b);
        ptxk_clip_place_copy(b, a->spec, &a->now, &a->next);
        ptx_val second = ptx_add(b, ptx_load(b, drawn, slot), own);
        ptx_set(b, a->next.ticket, second);
        ptx_set(b, slot, ptx_xor(b, slot, ptx_u32(1)));
        read_next(b, a, tiles);
        ptx_if (b, ptx_ne(b, a->now.group, group)) {
            take_record(b, a, from);
            ptx_set(b, group, a->now.group);
        }
    }
    ptx_if (b, draws)
        leave(b, from->results.totals, blocks);
}

void ptxk_clip_apply_emit(ptx_builder *b, const struct clip_spec *spec)
{
    struct apply a = { .spec = spec };
    struct source from;

    ptx_comment(b, "tile after tile, from the last to the first: what was read last may still be "
                   "in the cache");
    a.tiles = (struct clip_tiles) { .spec = spec, .tables = ptxk_clip_tables_param(b, spec) };
    from.partials = ptxk_clip_partials_param(b);
    from.results = ptxk_clip_results_param(b, spec);
    a.tiles.last = ptx_param(b, PTX_U32, "last", .meaning = "chunk of the first tile");
    ptx_val tiles = ptx_param(b, PTX_U32, "tiles");
    from.fused = ptx_param(b, PTX_U32, "fused",
                           .meaning = "1: factors from the partials; 0: from the records");

    a.tid = a.tiles.tid = ptx_tid(b, PTX_X);
    ptx_val block = ptx_ctaid(b, PTX_X);
    a.now = ptxk_clip_place_variables(b, spec, block);
    a.next = ptxk_clip_place_variables(b, spec, ptx_add(b, block, ptx_nctaid(b, PTX_X)));
    a.factor = ptx_var(b, ptx_f32(1.0f));
    a.zeros = ptx_var(b, ptx_bool(false));
    from.fused = ptx_ne(b, from.fused, ptx_u32(0));
    ptxk_clip_place_read(b, &a.tiles, &a.now);
    ptx_val at = ptx_mul_wide(b, a.now.group, ptx_u32(2));
    ptx_vec row = ptx_load_vec(b, from.partials.groups, at, 2);
    read_next(b, &a, tiles);
    ptxk_clip_wait_for_last(b);
    ptx_if (b, from.fused)
        take_partials(b, &a, &from, row);
    ptx_else (b)
        take_record(b, &a, &from);

    ptx_comment(b, "nothing to scale, and nothing elsewhere either");
    ptx_val unchanged = ptx_eq(b, a.factor, ptx_f32(1.0f));
    ptx_val only = ptx_eq(b, from.results.groups, ptx_u32(1));
    ptx_return_if(b, ptx_and(b, unchanged, only));
    scale_tiles(b, &a, &from, tiles);
}
