// SPDX-License-Identifier: MIT
// The last kernel of a clip plan, which scales the gradients.
#ifndef PTXGEN_KERNELS_CLIP_APPLY_H
#define PTXGEN_KERNELS_CLIP_APPLY_H

#include "norm.h"

enum {
    CLIP_APPLY_BLOCKS = 3,   // per SM, if blocks take several tiles
    CLIP_SHORT_CHUNK = 8192, // longest chunk that is one tile
    CLIP_TILE_WIDE = 4096,   // elements of a tile of a longer chunk
    CLIP_TILE_HALF = 8192,   // the same if all types have 16 bits
    CLIP_TILE_PACKED = 8192, // the same with packed chunks: fewer parts, some of which are empty
    CLIP_FUSED = 2048, // maximum number of tiles at which blocks compute the factors of several
                       // groups from partials
};

extern const struct norm_entry ptxk_clip_entries[NORM_ENTRIES];

// The elements of a tile, which a block scales at a time, and the tiles of a whole chunk: powers of
// two.
uint32_t ptxk_clip_tile(const struct norm_spec *spec);
uint32_t ptxk_clip_tiles_of_chunk(const struct norm_spec *spec);

#endif
