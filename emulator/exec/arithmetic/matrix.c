// SPDX-License-Identifier: MIT
// ldmatrix and stmatrix, which move tiles of 8 x 8 between shared memory and the lanes of a warp;
// all 32 lanes take part.
#include "exec/access/access.h"
#include "exec/base/handlers.h"
#include "exec/base/value.h"
#include "exec/check/race.h"
#include "exec/check/report.h"
#include "exec/check/undefined.h"

#include <stdalign.h>

enum { ROWS = 8, ROW_BYTES = 16, ELEMENT_BYTES = 2 };

static bool require_warp(struct emu_warp *warp, const struct emu_op *op, uint32_t lanes)
{
    return lanes == UINT32_MAX ||
           emu_fault(warp, op->insn, emu_first(lanes), EMU_ILLEGAL_INSTRUCTION,
                     "it needs all 32 lanes of a warp; lanes 0x%08x are not there",
                     (unsigned)~lanes);
}

// ---- ldmatrix, stmatrix -------------------------------------------------------------------------

// Where lane `lane` has its element `half`, 0 or 1, of a tile.
struct place {
    unsigned row, column;
};

static struct place place_of(const struct emu_op *op, unsigned lane, unsigned half)
{
    const unsigned group = lane / 4, element = lane % 4 * 2 + half;
    return op->insn->mode == EMU_MODE_TRANSPOSED ? (struct place) { element, group }
                                                 : (struct place) { group, element };
}

// The bytes of each row, whose address lane 8 * tile + row has.
static bool find_rows(struct emu_warp *warp, unsigned char *frame, const struct emu_op *op,
                      enum emu_use use, unsigned tiles, struct emu_access rows[EMU_LANES],
                      uint64_t addresses[EMU_LANES])
{
    alignas(64) uint64_t scratch[EMU_LANES];
    struct emu_op access = *op;
    access.handler = use == EMU_USE_LOAD ? EMU_DO_LOAD : EMU_DO_STORE;
    memcpy(addresses, emu_addresses(warp, frame, &access, scratch), sizeof(scratch));
    for (unsigned i = 0; i < tiles * ROWS; i++) {
        if (!emu_lane_access(warp, &access, i, addresses[i], ROW_BYTES, use, &rows[i]))
            return false;
        if (!rows[i].shared)
            return emu_fault(warp, op->insn, i, EMU_ILLEGAL_ADDRESS,
                             "the row at 0x%llx is not in shared memory",
                             (unsigned long long)addresses[i]);
    }
    return true;
}

static bool row_is_ordered(struct emu_warp *warp, const struct emu_op *op, unsigned lane,
                           const struct emu_access *row, enum emu_use use, bool same)
{
    return !warp->block->race ||
           emu_race_access(warp, op, lane, (uint32_t)(row->host - warp->block->shared), ROW_BYTES,
                           use, same);
}

static bool load_tiles(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                       uint32_t *init)
{
    struct emu_access rows[EMU_LANES];
    uint64_t addresses[EMU_LANES];
    uint16_t tiles[EMU_LANES][ROWS];
    const unsigned count = op->dst_count;
    if (!find_rows(warp, frame, op, EMU_USE_LOAD, count, rows, addresses))
        return false;
    for (unsigned i = 0; i < count * ROWS; i++) {
        if (!row_is_ordered(warp, op, i, &rows[i], EMU_USE_LOAD, false))
            return false;
        memcpy(tiles[i], rows[i].host, ROW_BYTES);
    }
    for (unsigned k = 0; k < count; k++) {
        struct emu_undefined_lanes u = { 0 };
        uint32_t words[EMU_LANES] = { 0 }, open = 0;
        for (unsigned i = 0; i < 2 * EMU_LANES; i++) {
            const unsigned lane = i / 2, half = i % 2;
            const struct place at = place_of(op, lane, half);
            const struct emu_access *row = &rows[k * ROWS + at.row];
            words[lane] |= (uint32_t)tiles[k * ROWS + at.row][at.column] << 16 * half;
            unsigned char *shadow = row->shadow ? row->shadow + at.column * ELEMENT_BYTES : NULL;
            if (!shadow || emu_shadow_set(shadow, ELEMENT_BYTES))
                continue;
            const struct emu_undefined part = emu_undefined_load(
                warp, op, addresses[k * ROWS + at.row] + at.column * ELEMENT_BYTES, shadow,
                ELEMENT_BYTES);
            u.lane[lane].bits |= part.bits << 16 * half;
            u.lane[lane].computed |= part.computed << 16 * half;
            u.lane[lane].origin = u.lane[lane].origin ? u.lane[lane].origin : part.origin;
            open |= 1u << lane;
        }
        emu_put(frame, init, &op->dst[k], UINT32_MAX, words);
        if (open)
            emu_undefined_put(warp, init, &op->dst[k], open, &u);
    }
    return true;
}

static void store_undefined(struct emu_warp *warp, const struct emu_op *op, const uint32_t *init,
                            unsigned tile, const struct emu_access rows[EMU_LANES])
{
    const struct emu_value *value = &op->src[1 + tile];
    struct emu_undefined_lanes u = { 0 };
    if (emu_undefined_in(init, value, UINT32_MAX))
        emu_undefined_fetch(warp, init, op, value, UINT32_MAX, &u);
    for (unsigned i = 0; i < 2 * EMU_LANES; i++) {
        const unsigned lane = i / 2, half = i % 2;
        const struct place at = place_of(op, lane, half);
        const struct emu_undefined part = { u.lane[lane].bits >> 16 * half & 0xffff,
                                            u.lane[lane].computed >> 16 * half & 0xffff,
                                            u.lane[lane].origin };
        unsigned char *shadow = rows[tile * ROWS + at.row].shadow;
        if (shadow)
            emu_undefined_store(warp, shadow + at.column * ELEMENT_BYTES, ELEMENT_BYTES, part);
    }
}

static bool store_tiles(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                        const uint32_t *init)
{
    struct emu_access rows[EMU_LANES];
    uint64_t addresses[EMU_LANES];
    uint16_t tiles[EMU_LANES][ROWS];
    const unsigned count = op->src_count - 1u;
    if (!find_rows(warp, frame, op, EMU_USE_STORE, count, rows, addresses))
        return false;
    for (unsigned k = 0; k < count; k++) {
        alignas(64) uint32_t scratch[EMU_LANES];
        const uint32_t *words = emu_fetch(warp, frame, &op->src[1 + k], scratch);
        for (unsigned i = 0; i < 2 * EMU_LANES; i++) {
            const struct place at = place_of(op, i / 2, i % 2);
            tiles[k * ROWS + at.row][at.column] = (uint16_t)(words[i / 2] >> 16 * (i % 2));
        }
    }
    for (unsigned i = 0; i < count * ROWS; i++) {
        const bool same = memcmp(rows[i].host, tiles[i], ROW_BYTES) == 0;
        if (!row_is_ordered(warp, op, i, &rows[i], EMU_USE_STORE, same))
            return false;
        memcpy(rows[i].host, tiles[i], ROW_BYTES);
    }
    for (unsigned k = 0; k < count; k++)
        store_undefined(warp, op, init, k, rows);
    return true;
}

// movmatrix: the transpose of a tile of 8 x 8. Lane 4 * row + k has elements 2 * k and 2 * k + 1.
static bool move_tile(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                      uint32_t *init)
{
    alignas(64) uint32_t scratch[EMU_LANES];
    const uint32_t *words = emu_fetch(warp, frame, &op->src[0], scratch);
    struct emu_undefined_lanes from = { 0 }, u = { 0 };
    uint32_t moved[EMU_LANES] = { 0 }, open = 0;
    if (emu_undefined_in(init, &op->src[0], UINT32_MAX))
        emu_undefined_fetch(warp, init, op, &op->src[0], UINT32_MAX, &from);
    for (unsigned i = 0; i < 2 * EMU_LANES; i++) {
        const unsigned lane = i / 2, half = i % 2, row = lane / 4, column = lane % 4 * 2 + half;
        const unsigned source = column * 4 + row / 2, shift = row % 2 * 16;
        const struct emu_undefined *part = &from.lane[source];
        moved[lane] |= (words[source] >> shift & 0xffff) << 16 * half;
        if (!(part->bits >> shift & 0xffff))
            continue;
        u.lane[lane].bits |= (part->bits >> shift & 0xffff) << 16 * half;
        u.lane[lane].computed |= (part->computed >> shift & 0xffff) << 16 * half;
        u.lane[lane].origin = part->origin;
        open |= 1u << lane;
    }
    emu_put(frame, init, &op->dst[0], UINT32_MAX, moved);
    if (open)
        emu_undefined_put(warp, init, &op->dst[0], open, &u);
    return true;
}

bool emu_matrix_operation(struct emu_warp *warp, const struct emu_op *op, unsigned char *frame,
                          uint32_t *init, uint32_t lanes)
{
    if (!require_warp(warp, op, lanes))
        return false;
    switch (op->handler) {
    case EMU_DO_MATRIX_LOAD:
        return load_tiles(warp, op, frame, init);
    case EMU_DO_MATRIX_MOVE:
        return move_tile(warp, op, frame, init);
    case EMU_DO_MATRIX_STORE:
        return store_tiles(warp, op, frame, init);
    case EMU_DO_TILE_LOAD:
        return emu_tile_load(warp, op, frame, init);
    case EMU_DO_TILE_STORE:
        return emu_tile_store(warp, op, frame, init);
    case EMU_DO_WARPGROUP:
        return emu_wgmma(warp, op, frame, init);
    default:
        return emu_mma(warp, op, frame, init);
    }
}
