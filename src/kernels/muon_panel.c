// SPDX-License-Identifier: MIT
#include "muon_panel.h"

#include "common/common.h"

ptx_ptr ptxk_muon_global(ptx_builder *b, ptx_type type, ptx_val address)
{
    return ptx_ptr_from(b, type, PTX_SPACE_GLOBAL, address);
}

ptx_ptr ptxk_muon_shared_at(ptx_builder *b, ptx_val address)
{
    return ptx_ptr_from(b, PTX_F16, PTX_SPACE_SHARED, address);
}

ptx_val ptxk_muon_dynamic(ptx_builder *b)
{
    ptx_val shared = ptx_ptr_address(b, ptx_shared_dynamic(b, PTX_F16));

    if (!ptxk_muon_has_groups(b))
        return shared;
    ptx_comment(b, "from a multiple of %d bytes on", MUON_ALIGNED);
    return ptx_and(b, ptx_add(b, shared, MUON_ALIGNED - 1), ~(uint32_t)(MUON_ALIGNED - 1));
}

ptx_val ptxk_muon_piece(ptx_builder *b, ptx_val row, ptx_val piece)
{
    ptx_val at = ptx_xor(b, piece, ptx_and(b, row, 7));

    return ptx_mad(b, row, MUON_ROW, ptx_mul(b, at, MUON_PIECE));
}

struct muon_lane ptxk_muon_lane(ptx_builder *b)
{
    ptx_val lane = ptx_laneid(b), row = ptx_shr(b, lane, 2);

    return (struct muon_lane) { row, ptx_shl(b, ptx_and(b, lane, 3), 1) };
}

struct muon_warp ptxk_muon_warp(ptx_builder *b, unsigned down, unsigned across, unsigned wide,
                                uint32_t panel)
{
    struct muon_warp w = { .down = down, .across = across, .apart = 16 };
    ptx_val lane = ptx_laneid(b), number = ptx_shr(b, ptx_tid(b, PTX_X), 5);
    ptx_val low = ptx_and(b, lane, 7), half = ptx_and(b, ptx_shr(b, lane, 3), 1);
    ptx_val upper = ptx_shr(b, lane, 4);

    ptx_comment(b, "where this lane reads the warp's part of panels");
    w.row = ptx_mul(b, ptxk_over_power_of_two(b, number, wide), 16 * down);
    w.column = ptx_mul(b, ptx_and(b, number, wide - 1), 16 * across);
    // Tiles of 8 x 8 in the order of a fragment's words. Of A, and of B by rows: the second tile
    // has the next 8 rows, the third the next 8 columns. Of B^T it is the other way round.
    ptx_val row = ptx_add(b, low, ptx_mul(b, half, 8));
    ptx_val of_piece = ptx_mul(b, ptx_xor(b, upper, low), MUON_PIECE);
    ptx_val column = ptx_add(b, low, ptx_mul(b, upper, 8));
    ptx_val of_half = ptx_mul(b, ptx_xor(b, half, low), MUON_PIECE);
    ptx_val row_at = ptx_mul(b, ptx_add(b, w.row, row), MUON_ROW);
    ptx_val column_at = ptx_mul(b, ptx_add(b, w.column, column), MUON_ROW);
    ptx_val of_panel = ptx_mul(b, ptxk_over_power_of_two(b, w.column, MUON_DEPTH), panel);
    ptx_val across_at = ptx_mad(b, row, MUON_ROW, of_panel);
    ptx_val first = ptx_mul(b, ptx_and(b, w.column, MUON_DEPTH - 1), 2);
    for (unsigned k = 0; k < MUON_STEPS; k++) {
        if (k % 2 == 0)
            ptx_comment(b, "step %u of the depth, columns from %u on", k, 16 * k);
        w.of_rows[k] = ptx_add(b, row_at, ptx_xor(b, of_piece, 32 * k));
        w.of_columns[k] = ptx_add(b, column_at, ptx_xor(b, of_half, 32 * k));
        if (k < across) {
            ptx_val at = ptx_add(b, first, 32 * k);
            w.of_across[k] = ptx_add(b, across_at, ptx_xor(b, of_piece, at));
        }
    }
    return w;
}

void ptxk_muon_zero(ptx_builder *b, const struct muon_warp *warp, ptx_fragment *sums, bool first)
{
    for (unsigned k = 0; k < 2 * warp->down * warp->across; k++) {
        ptx_fragment zero = ptx_fragment_fill(b, ptx_f32(0));
        if (k % 4 == 0)
            ptx_comment(b, "4 fragments of 0");
        if (first)
            sums[k] = ptx_fragment_var(b, zero);
        else
            ptx_fragment_set(b, sums[k], zero);
    }
}

static ptx_fragment fragment(ptx_builder *b, ptx_fragment_role role, ptx_ptr at, unsigned words)
{
    return ptx_fragment_from(b, role, PTX_F16, 16, ptx_ldmatrix(b, at, words));
}

// Two fragments of B.
static void pair(ptx_builder *b, ptx_ptr at, bool trans, ptx_fragment to[2])
{
    ptx_vec w = ptx_ldmatrix(b, at, 4, .trans = trans);

    to[0] = ptx_fragment_from(b, PTX_FRAGMENT_B, PTX_F16, 16, ptx_vec2(w.lane[0], w.lane[1]));
    to[1] = ptx_fragment_from(b, PTX_FRAGMENT_B, PTX_F16, 16, ptx_vec2(w.lane[2], w.lane[3]));
}

void ptxk_muon_load(ptx_builder *b, const struct muon_warp *warp, ptx_val left, ptx_val right,
                    bool across, unsigned step, struct muon_part *to)
{
    enum { ELEMENTS = 16 * MUON_DEPTH };

    ptx_comment(b, "columns %u to %u", step * 16, step * 16 + 15);
    ptx_ptr rows = ptxk_muon_shared_at(b, ptx_add(b, left, warp->of_rows[step]));
    for (unsigned m = 0; m < warp->down; m++)
        to->x[m] = fragment(b, PTX_FRAGMENT_A, ptx_at(b, rows, m * ELEMENTS), 4);
    if (!across) {
        ptx_ptr from = ptxk_muon_shared_at(b, ptx_add(b, right, warp->of_columns[step]));
        for (unsigned n = 0; n < warp->across; n++)
            pair(b, ptx_at(b, from, n * ELEMENTS), false, to->y + 2 * n);
    }
    for (unsigned n = 0; across && n < warp->across; n++) {
        ptx_ptr from = ptxk_muon_shared_at(b, ptx_add(b, right, warp->of_across[n]));
        pair(b, ptx_at(b, from, step * ELEMENTS), true, to->y + 2 * n);
    }
}

void ptxk_muon_part_var(ptx_builder *b, const struct muon_warp *warp, struct muon_part *to)
{
    ptx_val zero[4];

    ptx_comment(b, "what a step multiplies");
    for (unsigned k = 0; k < 4; k++)
        zero[k] = ptx_u32(0);
    const ptx_vec four = ptx_vec4(zero[0], zero[1], zero[2], zero[3]);
    const ptx_vec two = ptx_vec2(zero[0], zero[1]);
    for (unsigned m = 0; m < warp->down; m++) {
        ptx_fragment x = ptx_fragment_from(b, PTX_FRAGMENT_A, PTX_F16, 16, four);
        to->x[m] = ptx_fragment_var(b, x);
    }
    for (unsigned n = 0; n < 2 * warp->across; n++) {
        ptx_fragment y = ptx_fragment_from(b, PTX_FRAGMENT_B, PTX_F16, 16, two);
        to->y[n] = ptx_fragment_var(b, y);
    }
}

void ptxk_muon_load_var(ptx_builder *b, const struct muon_warp *warp, ptx_val left, ptx_val right,
                        bool across, unsigned step, const struct muon_part *to)
{
    struct muon_part loaded;

    ptxk_muon_load(b, warp, left, right, across, step, &loaded);
    ptx_comment(b, "kept until they are multiplied");
    for (unsigned m = 0; m < warp->down; m++)
        ptx_fragment_set(b, to->x[m], loaded.x[m]);
    for (unsigned n = 0; n < 2 * warp->across; n++)
        ptx_fragment_set(b, to->y[n], loaded.y[n]);
}

void ptxk_muon_add(ptx_builder *b, const struct muon_warp *warp, const struct muon_part *part,
                   ptx_fragment *sums)
{
    const unsigned across = 2 * warp->across;

    for (unsigned k = 0; k < warp->down * across; k++) {
        // There and back, so that a product shares a factor with the one before it.
        const unsigned m = k / across, n = m % 2 ? across - 1 - k % across : k % across;
        ptx_fragment *sum = &sums[m * across + n];
        if (k % 16 == 0)
            ptx_comment(b, "products of 16 x 16 by 16 x 8, from %u on of %u", k,
                        warp->down * across);
        ptx_fragment_set(b, *sum, ptx_mma(b, part->x[m], part->y[n], *sum));
    }
}

void ptxk_muon_multiply(ptx_builder *b, const struct muon_warp *warp, ptx_val left, ptx_val right,
                        bool across, ptx_fragment *sums)
{
    struct muon_part part;

    for (unsigned step = 0; step < MUON_STEPS; step++) {
        ptxk_muon_load(b, warp, left, right, across, step, &part);
        ptxk_muon_add(b, warp, &part, sums);
    }
}

void ptxk_muon_lead(ptx_builder *b)
{
    if (ptx_builder_target(b).sm >= 90)
        ptx_griddepcontrol_launch_dependents(b);
}

void ptxk_muon_follow(ptx_builder *b)
{
    if (ptx_builder_target(b).sm < 90)
        return;
    ptx_comment(b, "ends after the launch before it");
    ptx_griddepcontrol_wait(b);
}

struct muon_block_matrix ptxk_muon_block_matrix(ptx_builder *b)
{
    ptx_ptr chips = ptx_param_ptr(b, PTX_U64, "chips", .readonly = true,
                                  .meaning = "a row of struct muon_chip for each block");
    ptx_val place = ptx_mul_wide(b, ptx_ctaid(b, PTX_X), sizeof(struct muon_chip) / 8);
    struct muon_block_matrix m = { .row = ptx_at(b, chips, place) };

    m.words = ptx_ptr_cast(b, PTX_U32, m.row);
    ptx_comment(b, "the block's matrix");
    m.x = ptx_load(b, m.row, MUON_PLACE(uint64_t, muon_chip, x));
    m.steps = ptx_load(b, m.row, MUON_PLACE(uint64_t, muon_chip, steps));
    m.step_count = ptx_load(b, m.words, MUON_PLACE(uint32_t, muon_chip, step_count));
    m.rows = ptx_load(b, m.words, MUON_PLACE(uint32_t, muon_chip, rows));
    return m;
}
