// SPDX-License-Identifier: MIT
#include "muon.h"
#include "muon_chip.h"
#include "muon_panel.h"

const char *const ptxk_muon_entries[MUON_ENTRIES] = { "muon_tiles", "muon_chip_64", "muon_chip_128",
                                                      "muon_tiles_64", "muon_square" };

uint32_t ptxk_muon_stages(uint32_t side, bool groups)
{
    return groups && side == MUON_SMALL ? MUON_ALL_STAGES : MUON_STAGES;
}

unsigned ptxk_muon_blocks(uint32_t side, bool groups)
{
    return side == MUON_TILE ? 2 : groups ? 3 : 4;
}

uint32_t ptxk_muon_shared(unsigned entry, bool groups)
{
    const unsigned size = entry == MUON_CHIP_64 ? 64 : 128;
    const uint32_t aligned = groups ? MUON_ALIGNED : 0;

    if (entry == MUON_TILES || entry == MUON_SMALL_TILES) {
        const uint32_t side = entry == MUON_TILES ? MUON_TILE : MUON_SMALL;
        const uint32_t stages = ptxk_muon_stages(side, groups);
        return stages * 2 * side * MUON_DEPTH * 2 + MUON_PIECE + aligned; // stages, a turn
    }
    if (entry == MUON_SQUARE) // X, and R or Z on one side of the diagonal
        return (4 + 3) * 2 * MUON_CHIP_MOST * MUON_CHIP_MOST + aligned;
    return ptxk_muon_chip_shared(size) + aligned;
}

void ptxk_muon_emit(ptx_builder *b, unsigned entries)
{
    const char *const *name = ptxk_muon_entries;
    const unsigned small = ptxk_muon_blocks(MUON_SMALL, ptxk_muon_has_groups(b));

    if (entries & 1 << MUON_TILES)
        ptx_entry (b, name[MUON_TILES], .block = { MUON_THREADS }, .min_blocks = 2)
            ptxk_muon_tiles_emit(b, MUON_TILE, NULL);
    if (entries & 1 << MUON_CHIP_64)
        ptx_entry (b, name[MUON_CHIP_64], .block = { MUON_CHIP_THREADS })
            ptxk_muon_chip_emit(b, 64);
    if (entries & 1 << MUON_CHIP_128)
        ptx_entry (b, name[MUON_CHIP_128], .block = { MUON_CHIP_THREADS }, .min_blocks = 2)
            ptxk_muon_chip_emit(b, 128);
    if (entries & 1 << MUON_SMALL_TILES)
        ptx_entry (b, name[MUON_SMALL_TILES], .block = { MUON_THREADS }, .min_blocks = small)
            ptxk_muon_tiles_emit(b, MUON_SMALL, NULL);
    if (entries & 1 << MUON_SQUARE && ptxk_muon_has_groups(b))
        ptx_entry (b, name[MUON_SQUARE], .block = { MUON_SQUARE_THREADS }, .min_blocks = 1)
            ptxk_muon_square_emit(b);
}
