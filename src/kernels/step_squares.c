// SPDX-License-Identifier: MIT
// Steps of matrices in tiles of 128 x 128: the block keeps the weights that it writes in shared
// memory, and makes their codes in blocks of these.
#include "step_fp8_blocks.h"

#include "norm_parts.h"
#include "step_tile.h"

enum {
    TILE = STEP_CODES_TILE,
    EACH = STEP_CODES_EACH,
    WARPS = NORM_BLOCK / WARP,
    KEPT = STEP_FP8_SHARED_WORDS, // where the weights are, in words
};

_Static_assert(PTXK_STEP_SQUARE_VECTORS == TILE / WARPS, "a warp steps a row at a time");
_Static_assert(PTXK_STEP_SQUARE_SHARED == (KEPT + TILE * TILE) * sizeof(float), "as it is used");

bool ptxk_step_has_squares(const struct norm_spec *norm)
{
    const struct ptxk_step_spec *spec = norm->own;

    for (unsigned k = 0; k < spec->variant_count; k++)
        if (spec->variants[k].square)
            return true;
    return false;
}

struct ptxk_step_square_tables ptxk_step_square_params(ptx_builder *b)
{
    ptx_ptr tiles = ptxk_step_fp8_tiles_param(b, "square_tiles");

    return (struct ptxk_step_square_tables) { tiles, ptxk_step_fp8_matrices_param(b) };
}

ptx_val ptxk_step_square_read(ptx_builder *b, struct ptxk_tile *s,
                              const struct ptxk_step_square_tables *tables)
{
    struct ptxk_step_blocks_tile *t = s->square;

    t->tile.tid = s->tid;
    t->tile.lane = ptx_and(b, s->tid, WARP - 1);
    t->tile.warp = ptx_shr(b, s->tid, ptxk_log2(WARP));
    return ptxk_step_fp8_tile_read(b, t, tables->tiles, tables->matrices, s->place);
}

void ptxk_step_square_place(ptx_builder *b, struct ptxk_tile *s, ptx_val index)
{
    struct ptxk_step_blocks_tile *t = s->square;
    struct ptxk_codes *tile = &t->tile;

    ptxk_codes_place(b, tile, index);
    s->tensor_first = ptx_mad(b, tile->row, tile->columns, tile->column);
    ptx_val above = ptx_sub(b, tile->height, 1);
    ptx_val before = ptx_mul(b, above, ptx_cvt(b, PTX_U32, tile->columns));
    s->length = ptx_bitcast(b, PTX_S32, ptx_add(b, before, tile->width));
    ptx_ptr shared = ptx_shared_dynamic(b, PTX_F32);
    tile->shared = ptx_ptr_cast(b, PTX_B32, shared);
    t->kept = ptx_at(b, shared, KEPT);
}

struct ptxk_step_square_walk ptxk_step_square_walk_of(ptx_builder *b, const struct ptxk_tile *s)
{
    const struct ptxk_codes *tile = &s->square->tile;

    ptx_comment(b, "a warp steps a row at a time");
    ptx_val column = ptx_mul(b, tile->lane, EACH);
    ptx_val columns = ptx_cvt(b, PTX_U32, tile->columns);
    ptx_val there = ptx_lt(b, column, tile->width);
    ptx_val own = ptx_bitcast(b, PTX_S32, ptx_mad(b, tile->warp, columns, column));
    ptx_val pace = ptx_bitcast(b, PTX_S32, ptx_mul(b, columns, WARPS));
    ptx_val first = ptx_select(b, there, own, s->length);

    return (struct ptxk_step_square_walk) { first, ptx_select(b, there, pace, 0) };
}

void ptxk_step_square_keep(ptx_builder *b, const struct ptxk_tile *s,
                           ptx_val value[ARRAYS][PTXK_LANES])
{
    ptx_vec weights = { .lanes = EACH };

    if (!s->square)
        return;
    for (unsigned n = 0; n < EACH; n++)
        weights.lane[n] = ptxk_step_as_stored(b, s->variant->parameter, value[ARRAY_PARAMETER][n]);
    ptx_comment(b, "and keeps the weights");
    ptx_store_vec(b, s->slot, s->slot_at, weights);
}

void ptxk_step_square_keep_written(ptx_builder *b, const struct ptxk_tile *s, ptx_val i)
{
    ptx_ptr from = ptx_at(b, s->array[ARRAY_PARAMETER], i), to = ptx_at(b, s->slot, s->slot_at);

    ptx_if (b, ptx_lt(b, i, s->length))
        for (uint32_t n = 0; n < EACH; n++)
            ptx_store(b, to, n, ptx_load(b, from, n));
}

void ptxk_step_square_keep_none(ptx_builder *b, const struct ptxk_tile *s)
{
    const ptx_vec none = { .lanes = EACH,
                           .lane = { ptx_f32(0), ptx_f32(0), ptx_f32(0), ptx_f32(0) } };

    ptx_store_vec(b, s->slot, s->slot_at, none);
}

void ptxk_step_square_next(ptx_builder *b, const struct ptxk_tile *s)
{
    ptx_set(b, s->slot_at, ptx_add(b, s->slot_at, WARPS * TILE));
}

void ptxk_step_square_codes(ptx_builder *b, const struct ptxk_tile *s)
{
    enum { OF_F32 = 0xf };

    ptx_comment(b, "the codes of the weights");
    ptx_barrier(b);
    ptxk_step_fp8_make(b, s->square, s->spec->fp8_blocks & OF_F32);
}
