// SPDX-License-Identifier: MIT
// The tiles that gradients are scaled by: numbered from the last of the last chunk to the first.
#ifndef PTXGEN_KERNELS_CLIP_TILE_H
#define PTXGEN_KERNELS_CLIP_TILE_H

#include "common/clip_parts.h"

// A tile and where it lies, X(name, type): variables, so that the next one's can be read ahead.
//
//     data, first     of the tensor; the chunk's first element
//     start, length   of the tile in its chunk; 0 or less: it has no elements
#define CLIP_PLACE_OF_TENSOR(X)                                                                    \
    X(chunk, u32)                                                                                  \
    X(group, u32)                                                                                  \
    X(dtype, u32)                                                                                  \
    X(data, u64)                                                                                   \
    X(first, u64)                                                                                  \
    X(start, s32)                                                                                  \
    X(length, s32)

// The same of a tile of a packed chunk: struct clip_share. `data`, `dtype` and `count` are those of
// the piece whose row this lane has read; `first`, `start` and `length` mean nothing.
#define CLIP_PLACE_OF_PIECES(X)                                                                    \
    X(team, u32)                                                                                   \
    X(unit, u32)                                                                                   \
    X(units, u32)                                                                                  \
    X(pieces, u32)                                                                                 \
    X(count, u64)

struct clip_place {
    ptx_val ticket; // its number, from 0
#define CLIP_DECLARE(name, type) ptx_val name;
    CLIP_PLACE_OF_TENSOR(CLIP_DECLARE)
    CLIP_PLACE_OF_PIECES(CLIP_DECLARE)
#undef CLIP_DECLARE
};

// The tables that say where tiles lie.
struct clip_tiles {
    const struct clip_spec *spec;
    ptx_val tid;
    struct clip_tables tables;
    ptx_val last; // chunk of tile 0
};

struct clip_place ptxk_clip_place_variables(ptx_builder *b, const struct clip_spec *spec,
                                            ptx_val ticket);
// Sets all from the ticket.
void ptxk_clip_place_read(ptx_builder *b, const struct clip_tiles *tiles,
                          const struct clip_place *place);
void ptxk_clip_place_copy(ptx_builder *b, const struct clip_spec *spec, const struct clip_place *to,
                          const struct clip_place *from);

#endif
