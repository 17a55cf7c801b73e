// SPDX-License-Identifier: MIT
// Which small tensors share a chunk, and how its threads share them.
#include "clip_layout.h"

enum { LEAST_TEAM = 5 }; // log2: of a warp, which then has one piece, of one type

bool ptxp_clip_pack_add(struct clip_pack *pack, uint64_t count, uint32_t chunk)
{
    if (pack->pieces && pack->pieces < CLIP_PIECES && pack->elements + count <= chunk) {
        pack->pieces++;
        pack->elements += count;
        return true;
    }
    *pack = (struct clip_pack) { count, 1 };
    return false;
}

// How often the busiest of the teams reads: a thread reads some vectors at once, of one piece.
static uint64_t turns(const struct ptx_clip_tensor *tensors, const uint32_t *pieces, uint32_t count,
                      uint32_t team)
{
    const uint32_t teams = CLIP_BLOCK >> team;
    uint64_t most = 0;

    for (uint32_t t = 0; t < teams; t++) {
        uint64_t turns = 0;
        for (uint32_t k = t; k < count; k += teams) {
            const struct ptx_clip_tensor *piece = &tensors[pieces[k]];
            const uint64_t bytes = piece->count * ptx_type_bytes(piece->dtype);
            turns += (bytes - 1) / ((uint64_t)16 * CLIP_PIECE_VECTORS << team) + 1;
        }
        most = turns > most ? turns : most;
    }
    return most;
}

// Of teams that are equally good the smallest: there are more pieces on their way at a time.
uint32_t ptxp_clip_pack_team(const struct ptx_clip_tensor *tensors, const uint32_t *pieces,
                             uint32_t count)
{
    uint32_t best = LEAST_TEAM;
    uint64_t least = turns(tensors, pieces, count, best);

    for (uint32_t team = LEAST_TEAM + 1; CLIP_BLOCK >> team; team++) {
        const uint64_t others = turns(tensors, pieces, count, team);
        if (others < least) {
            best = team;
            least = others;
        }
    }
    return best;
}
