// SPDX-License-Identifier: MIT
// Tiles of 64 x 64 of a product A B beside each other, one after the other. Their 64 rows of A stay
// in registers, and B of the next tile is copied while a tile is multiplied and finished: as tiles
// of their own they would each copy A and wait for B.
#include "muon_tile.h"

#include "common/common.h"

enum {
    PANELS = MUON_BAND_DEPTH / MUON_DEPTH, // of A, and of a tile's columns of B
    PANEL = MUON_SMALL * MUON_ROW,         // bytes
    HALF = PANELS * PANEL,                 // of the stages
};

// Begins to copy the tile's columns of B.
static void copy_b(ptx_builder *b, const struct tile *t, ptx_val to)
{
    ptx_comment(b, "64 columns of B");
    ptx_for (b, depth, ptx_u32(0), t->end, MUON_ROW)
        ptxk_muon_copy_columns(b, t, depth, ptx_mad(b, depth, PANEL / MUON_ROW, to));
}

// Copies the first columns of B, and A into the other half. Returns the rows that a warp
// multiplies.
static void begin(ptx_builder *b, const struct tile *t, const struct muon_warp *warp,
                  ptx_vec kept[PANELS][MUON_STEPS])
{
    ptx_val a = ptx_add(b, t->shared, HALF);

    ptx_comment(b, "64 rows of A");
    ptx_for (b, depth, ptx_u32(0), t->end, MUON_ROW)
        ptxk_muon_copy_a(b, t, depth, ptx_mad(b, depth, PANEL / MUON_ROW, a));
    copy_b(b, t, t->shared);
    ptx_cp_async_wait_all(b);
    ptx_barrier(b);
    ptx_comment(b, "the warp's rows of A");
    ptx_val lane = ptx_laneid(b), row = ptx_add(b, warp->row, ptx_and(b, lane, 15));
    for (unsigned step = 0; step < MUON_STEPS; step++) {
        ptx_comment(b, "columns from %u on", 16 * step);
        ptx_val piece = ptx_add(b, ptx_shr(b, lane, 4), 2 * step);
        ptx_ptr at = ptxk_muon_shared_at(b, ptx_add(b, a, ptxk_muon_piece(b, row, piece)));
        for (unsigned p = 0; p < PANELS; p++)
            kept[p][step] = ptx_ldmatrix(b, ptx_at(b, at, p * PANEL / 2), 4);
    }
}

// Where tiles are taken: what the next one is taken by reads ahead.
static void look_ahead(ptx_builder *b, const struct tile *next, const struct ptxk_muon_takes *takes)
{
    ptx_val taken = NUMBER_OF(next, taken);

    ptx_if (b, ptx_ne(b, taken, 0)) {
        const struct ptxk_muon_taken from = ptxk_muon_taken_of(next, taken);
        takes->ahead(b, takes->user, &from);
    }
}

void ptxk_muon_band_emit(ptx_builder *b, const struct tile *t, ptx_val band,
                         const struct muon_warp *warp, ptx_fragment *sums,
                         const struct ptxk_muon_takes *takes)
{
    ptx_comment(b, "a band of tiles");
    ptx_val end = ptx_mad(b, band, MUON_SMALL, t->column), here = ptx_var(b, t->shared);
    ptx_vec kept[PANELS][MUON_STEPS];

    begin(b, t, warp, kept);
    ptx_for (b, column, t->column, end, MUON_SMALL) {
        ptx_val both = ptx_add(b, ptx_mul(b, t->shared, 2), HALF);
        struct tile one = *t, next = *t;
        one.column = column;
        one.shared = here;
        next.column = ptx_add(b, column, MUON_SMALL);
        next.shared = ptx_sub(b, both, here);
        ptxk_muon_zero(b, warp, sums, false);
        ptx_cp_async_wait_all(b);
        ptx_comment(b, "the tile's columns are there for all, and all have left the other half");
        ptxk_muon_group_sees(b);
        ptx_barrier(b);
        ptx_if (b, ptx_lt(b, next.column, end)) {
            copy_b(b, &next, next.shared);
            if (takes)
                look_ahead(b, &next, takes);
        }
        for (unsigned p = 0; p < PANELS; p++)
            ptx_if (b, ptx_gt(b, t->end, p * MUON_ROW))
                ptxk_muon_group_add_kept(b, warp, kept[p], ptx_add(b, here, p * PANEL), sums);
        ptxk_muon_group_wait(b, 0);
        ptxk_muon_finish_tile(b, &one, warp, sums, takes);
        ptx_set(b, here, next.shared);
    }
}
