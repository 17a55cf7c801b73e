// SPDX-License-Identifier: MIT
#include "clip_tile.h"

#include "common/common.h"

struct clip_place ptxk_clip_place_variables(ptx_builder *b, const struct clip_spec *spec,
                                            ptx_val ticket)
{
    struct clip_place place = { .ticket = ptx_var(b, ticket) };

#define CLIP_VARIABLE(name, type) place.name = ptx_var(b, ptx_##type(0));
    CLIP_PLACE_OF_TENSOR(CLIP_VARIABLE)
    if (spec->packs) {
        CLIP_PLACE_OF_PIECES(CLIP_VARIABLE)
    }
#undef CLIP_VARIABLE
    return place;
}

void ptxk_clip_place_copy(ptx_builder *b, const struct clip_spec *spec, const struct clip_place *to,
                          const struct clip_place *from)
{
    ptx_set(b, to->ticket, from->ticket);
#define CLIP_COPY(name, type) ptx_set(b, to->name, from->name);
    CLIP_PLACE_OF_TENSOR(CLIP_COPY)
    if (spec->packs) {
        CLIP_PLACE_OF_PIECES(CLIP_COPY)
    }
#undef CLIP_COPY
}

// Of a packed chunk, what part of it the tile is. The tensor whose row this thread is to read.
static ptx_val read_share(ptx_builder *b, const struct clip_tiles *tiles,
                          const struct clip_place *place, const struct clip_chunk *c,
                          ptx_val number)
{
    const uint32_t parts = ptxk_clip_tiles_of_chunk(tiles->spec);
    const ptx_val part = parts > 1 ? number : (ptx_val) { 0 };
    ptx_val tensor = ptx_var(b, c->tensor);

    ptx_set(b, place->team, c->team);
    ptx_if (b, ptx_ne(b, c->team, ptx_u32(0))) {
        struct clip_share share = ptxk_clip_share_of(b, c, tiles->tid, part, parts);
        ptx_set(b, place->unit, share.unit);
        ptx_set(b, place->units, share.units);
        ptx_set(b, place->pieces, share.count);
        ptx_set(b, tensor, ptxk_clip_share_tensor(b, &tiles->tables, c, &share, tiles->tid));
    }
    return tensor;
}

void ptxk_clip_place_read(ptx_builder *b, const struct clip_tiles *tiles,
                          const struct clip_place *place)
{
    const struct clip_spec *spec = tiles->spec;
    const uint32_t size = ptxk_clip_tile(spec), parts = ptxk_clip_tiles_of_chunk(spec);
    ptx_val back = ptxk_over_power_of_two(b, place->ticket, parts);
    ptx_val number = ptx_and(b, place->ticket, ptx_u32(parts - 1)); // from the chunk's end

    ptx_set(b, place->chunk, ptx_sub(b, tiles->last, back));
    struct clip_chunk c = ptxk_clip_chunk_read(b, &tiles->tables, place->chunk);
    ptx_val tensor = spec->packs ? read_share(b, tiles, place, &c, number) : c.tensor;
    struct clip_tensor t = ptxk_clip_tensor_read(b, &tiles->tables, tensor);
    struct clip_extent extent = ptxk_clip_extent_of(b, c.index, t.count, spec->chunk);
    ptx_val before = ptx_sub(b, ptx_u32(parts - 1), number);
    ptx_set(b, place->start, ptx_cvt(b, PTX_S32, ptx_mul(b, before, ptx_u32(size))));
    ptx_val left = ptx_sub(b, extent.length, place->start);
    ptx_set(b, place->length, ptx_min(b, left, ptx_s32((int32_t)size)));
    ptx_set(b, place->group, c.group);
    ptx_set(b, place->dtype, t.dtype);
    ptx_set(b, place->data, t.data);
    ptx_set(b, place->first, extent.first);
    if (spec->packs)
        ptx_set(b, place->count, t.count);
}
