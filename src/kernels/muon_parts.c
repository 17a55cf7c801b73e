// SPDX-License-Identifier: MIT
#include "muon_parts.h"

#include "common/common.h"

enum {
    THREADS = MUON_PARTS_THREADS,
    TILE = MUON_PARTS_TILE,
    PITCH = TILE + 2,        // elements in shared memory from a row to the next
    STRIDE = THREADS / TILE, // rows between a thread's elements
    PADS = 8,                // at most so many zeros behind a row of X, less one
};

const char *const ptxk_muon_parts_entries[MUON_PARTS_ENTRIES] = { "muon_gather", "muon_scatter" };

#define PART(member) (uint32_t)(offsetof(struct muon_part_row, member) / sizeof(uint64_t))

// A tile: where it begins in the part and in X, its size in both, and in shared memory, whose rows
// are those of X.
struct tile {
    ptx_ptr part, x, shared;     // f16
    ptx_val height, width;       // s32
    ptx_val x_height, x_width;   //
    ptx_val line, x_line;        // s32
    ptx_val down, across;        // s32: in shared memory, of the part's rows and columns
    ptx_val along, begin;        // s32: the thread's column, and its first row
    ptx_val tid, last, is_right; // u32; zeros behind the tile; whether it is the part's last there
};

static ptx_val s32(ptx_builder *b, ptx_val x)
{
    return ptx_bitcast(b, PTX_S32, x);
}

// Of an element, u64.
static ptx_val place_of(ptx_builder *b, ptx_val row, ptx_val line, ptx_val column)
{
    ptx_val before = ptx_mul_wide(b, row, line), along = ptx_cvt(b, PTX_U64, column);

    return ptx_add(b, before, along);
}

static struct tile tile_read(ptx_builder *b)
{
    ptx_ptr parts = ptx_param_ptr(b, PTX_U64, "parts", .readonly = true,
                                  .meaning = "rows of 5: addresses of a part and of its place in "
                                             "the matrix, sizes, lines, transposed and zeros");
    ptx_ptr tiles =
        ptx_param_ptr(b, PTX_U32, "tiles", .readonly = true, .meaning = "rows of 2: part, place");
    struct tile t = { .tid = ptx_tid(b, PTX_X) };
    ptx_vec of = ptx_load_vec(b, tiles, ptx_mul_wide(b, ptx_ctaid(b, PTX_X), 2), 2);
    const uint32_t words = sizeof(struct muon_part_row) / sizeof(uint64_t);
    ptx_ptr row = ptx_at(b, parts, ptx_mul_wide(b, of.lane[0], words));

    ptx_comment(b, "the tile of the part");
    ptx_vec size = ptx_unpack(b, PTX_U32, ptx_load(b, row, PART(rows)));
    ptx_vec line = ptx_unpack(b, PTX_U32, ptx_load(b, row, PART(line)));
    ptx_vec options = ptx_unpack(b, PTX_U32, ptx_load(b, row, PART(transposed)));
    ptx_val wide = ptxk_over_power_of_two(b, ptx_add(b, size.lane[1], TILE - 1), TILE);
    ptx_val below = ptx_div(b, of.lane[1], wide);
    ptx_val right = ptx_sub(b, of.lane[1], ptx_mul(b, below, wide));
    ptx_val row_0 = ptx_mul(b, below, TILE), column_0 = ptx_mul(b, right, TILE);
    ptx_val left = ptx_sub(b, size.lane[0], row_0), beside = ptx_sub(b, size.lane[1], column_0);
    t.height = s32(b, ptx_min(b, left, TILE));
    t.width = s32(b, ptx_min(b, beside, TILE));
    ptx_comment(b, "where it begins");
    ptx_val first = place_of(b, row_0, line.lane[0], column_0);
    t.part = ptx_ptr_from(b, PTX_F16, PTX_SPACE_GLOBAL, ptx_load(b, row, PART(at)));
    t.part = ptx_at(b, t.part, first);
    ptx_comment(b, "and in the matrix, whose columns its rows may be");
    ptx_val turns = ptx_ne(b, options.lane[0], 0);
    ptx_val x_row = ptx_select(b, turns, column_0, row_0);
    ptx_val x_column = ptx_select(b, turns, row_0, column_0);
    first = place_of(b, x_row, line.lane[1], x_column);
    t.x = ptx_ptr_from(b, PTX_F16, PTX_SPACE_GLOBAL, ptx_load(b, row, PART(x)));
    t.x = ptx_at(b, t.x, first);
    t.x_height = ptx_select(b, turns, t.width, t.height);
    t.x_width = ptx_select(b, turns, t.height, t.width);
    t.line = s32(b, line.lane[0]);
    t.x_line = s32(b, line.lane[1]);
    t.down = ptx_select(b, turns, ptx_s32(1), PITCH);
    t.across = ptx_select(b, turns, ptx_s32(PITCH), 1);
    t.last = options.lane[1];
    t.is_right = ptx_le(b, ptx_select(b, turns, left, beside), TILE);
    t.shared = ptx_shared(b, PTX_F16, TILE * PITCH);
    t.along = s32(b, ptx_and(b, t.tid, TILE - 1));
    t.begin = s32(b, ptx_shr(b, t.tid, ptxk_log2(TILE)));
    return t;
}

// Copies the tile between the part and shared memory.
static void part_copy(ptx_builder *b, const struct tile *t, bool reads)
{
    ptx_comment(b, reads ? "reads the tile of the part" : "writes the tile of the part");
    ptx_if (b, ptx_lt(b, t->along, t->width)) {
        ptx_val aside = ptx_mul(b, t->along, t->across);
        ptx_for (b, r, t->begin, t->height, STRIDE) {
            ptx_val at = ptx_mad_wide(b, r, t->line, ptx_cvt(b, PTX_S64, t->along));
            ptx_val place = ptx_mad(b, r, t->down, aside);
            if (reads)
                ptx_store(b, t->shared, place, ptx_load(b, t->part, at));
            else
                ptx_store(b, t->part, at, ptx_load(b, t->shared, place));
        }
    }
}

// The same between the matrix and shared memory.
static void x_copy(ptx_builder *b, const struct tile *t, bool reads)
{
    ptx_comment(b, reads ? "reads the tile of the matrix" : "writes the tile of the matrix");
    ptx_if (b, ptx_lt(b, t->along, t->x_width)) {
        ptx_for (b, r, t->begin, t->x_height, STRIDE) {
            ptx_val at = ptx_mad_wide(b, r, t->x_line, ptx_cvt(b, PTX_S64, t->along));
            ptx_val place = ptx_mad(b, r, PITCH, t->along);
            if (reads)
                ptx_store(b, t->shared, place, ptx_load(b, t->x, at));
            else
                ptx_store(b, t->x, at, ptx_load(b, t->shared, place));
        }
    }
}

// Zeros behind the last part of rows of X.
static void x_end(ptx_builder *b, const struct tile *t)
{
    ptx_comment(b, "zeros behind the matrix's rows");
    ptx_if (b, t->is_right) {
        ptx_val k = s32(b, ptx_and(b, t->tid, PADS - 1));
        ptx_val first = s32(b, ptx_shr(b, t->tid, ptxk_log2(PADS)));
        ptx_if (b, ptx_lt(b, k, s32(b, t->last))) {
            ptx_val column = ptx_cvt(b, PTX_S64, ptx_add(b, t->x_width, k));
            ptx_for (b, r, first, t->x_height, THREADS / PADS)
                ptx_store(b, t->x, ptx_mad_wide(b, r, t->x_line, column), ptx_zero(PTX_F16));
        }
    }
}

void ptxk_muon_parts_emit(ptx_builder *b)
{
    ptx_entry (b, ptxk_muon_parts_entries[MUON_GATHER], .block = { THREADS }) {
        struct tile t = tile_read(b);
        part_copy(b, &t, true);
        ptx_barrier(b);
        x_copy(b, &t, false);
        x_end(b, &t);
    }
    ptx_entry (b, ptxk_muon_parts_entries[MUON_SCATTER], .block = { THREADS }) {
        struct tile t = tile_read(b);
        x_copy(b, &t, true);
        ptx_barrier(b);
        part_copy(b, &t, false);
    }
}
