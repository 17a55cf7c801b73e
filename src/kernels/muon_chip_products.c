// SPDX-License-Identifier: MIT
#include "muon_chip_products.h"

#include "common/common.h"

enum { MOST_PAIRS = 16 };

// ---- products -----------------------------------------------------------------------------------

// Where this lane has the pairs of columns of the first row of fragments, from a panel's beginning.
// Further rows are constants away.
static void place_pairs(ptx_builder *b, const struct ptxk_muon_chip *c,
                        const struct muon_warp *warp, ptx_val pairs[MOST_PAIRS])
{
    ptx_val panel =
        ptx_mul(b, ptxk_over_power_of_two(b, warp->column, MUON_DEPTH), c->size * MUON_ROW);
    ptx_val piece = ptx_and(b, ptx_shr(b, warp->column, 3), 7);
    ptx_val row = ptx_mad(b, ptx_add(b, warp->row, c->lane.row), MUON_ROW, panel);

    row = ptx_mad(b, c->lane.column, 2, row);
    for (unsigned n = 0; n < 2 * warp->across; n++) {
        ptx_val permuted = ptx_xor(b, ptx_add(b, piece, n), c->lane.row);
        pairs[n] = ptx_mad(b, permuted, MUON_PIECE, row);
    }
}

// The same of a warpgroup, whose warps have all columns.
static void place_all_pairs(ptx_builder *b, const struct ptxk_muon_chip *c,
                            const struct muon_warp *warp, ptx_val pairs[MOST_PAIRS])
{
    enum { PIECES = MUON_DEPTH / 8 };
    ptx_val row = ptx_mul(b, ptx_add(b, warp->row, c->lane.row), MUON_ROW);

    row = ptx_mad(b, c->lane.column, 2, row);
    for (unsigned n = 0; n < 2 * warp->across; n++) {
        if (n % PIECES == 0)
            ptx_comment(b, "pairs of panel %u", n / PIECES);
        if (n < PIECES)
            pairs[n] = ptx_mad(b, ptx_xor(b, c->lane.row, n), MUON_PIECE, row);
        else
            pairs[n] = ptx_add(b, pairs[n - PIECES], c->size * MUON_ROW);
    }
}

static ptx_ptr pair_at(ptx_builder *b, ptx_val base, ptx_val pair)
{
    return ptx_ptr_cast(b, PTX_F16X2, ptxk_muon_shared_at(b, ptx_add(b, base, pair)));
}

// Two rounded elements of a row, and their sum with the diagonal.
static ptx_val with_diagonal(ptx_builder *b, ptx_val rounded, ptx_val to_diagonal, ptx_val diagonal)
{
    ptx_vec z = ptx_unpack(b, PTX_F16, rounded);
    ptx_val x[2];

    for (unsigned w = 0; w < 2; w++) {
        ptx_val value = ptx_cvt(b, PTX_F32, z.lane[w]);
        ptx_val sum = ptx_add(b, value, diagonal);
        x[w] = ptx_select(b, ptx_eq(b, to_diagonal, w), sum, value);
    }
    return ptx_cvt_pack(b, PTX_F16X2, x[0], x[1]);
}

static void store_sums(ptx_builder *b, const struct ptxk_muon_chip *c, const struct muon_warp *warp,
                       const ptx_fragment *sums, struct muon_combined how)
{
    const unsigned across = 2 * warp->across;
    ptx_val pairs[MOST_PAIRS], to_diagonal = { 0 };

    ptx_comment(b, "rounded into shared memory");
    if (c->groups)
        place_all_pairs(b, c, warp, pairs);
    else
        place_pairs(b, c, warp, pairs);
    if (how.q.kind) {
        ptx_val row = ptx_add(b, warp->row, c->lane.row), column = c->lane.column;
        if (!c->groups)
            column = ptx_add(b, warp->column, column);
        to_diagonal = ptx_sub(b, row, column);
    }
    for (unsigned n = 0; n < across; n++) {
        ptx_ptr to = pair_at(b, how.to, pairs[n]), e = { 0 }, q = { 0 };
        ptx_comment(b, "columns %u and %u of 8, and those of the other lanes", n * 8, n * 8 + 1);
        if (how.e.kind)
            e = pair_at(b, how.e, pairs[n]);
        if (how.q.kind)
            q = pair_at(b, how.q, pairs[n]);
        for (unsigned k = 0; k < 2 * warp->down; k++) {
            const unsigned below = k / 2 * warp->apart + k % 2 * 8;
            const unsigned pairs_below = below * MUON_DEPTH / 2;
            ptx_vec words = ptx_fragment_words(b, sums[k / 2 * across + n]);
            ptx_val x[2] = { words.lane[k % 2 * 2], words.lane[k % 2 * 2 + 1] };
            if (how.e.kind) {
                if (how.q.kind || k % 2 == 0)
                    ptx_comment(b, "row %u", below);
                ptx_vec old = ptx_unpack(b, PTX_F16, ptx_load(b, e, pairs_below));
                for (unsigned w = 0; w < 2; w++) {
                    ptx_val scaled = how.beta.kind ? ptx_mul(b, x[w], how.beta) : x[w];
                    x[w] = ptx_fma(b, how.alpha, ptx_cvt(b, PTX_F32, old.lane[w]), scaled);
                }
            }
            ptx_val rounded = ptx_cvt_pack(b, PTX_F16X2, x[0], x[1]);
            ptx_store(b, to, pairs_below, rounded);
            if (how.q.kind) {
                ptx_val from = ptx_add(b, to_diagonal, below - n * 8);
                ptx_store(b, q, pairs_below, with_diagonal(b, rounded, from, how.diagonal));
            }
        }
    }
}

void ptxk_muon_chip_store(ptx_builder *b, struct ptxk_muon_chip *c, struct muon_combined how)
{
    store_sums(b, c, &c->square, c->sums, how);
}

void ptxk_muon_chip_meet(ptx_builder *b, const struct ptxk_muon_chip *c)
{
    if (c->groups)
        ptxk_muon_group_sees(b);
    ptx_barrier(b);
}

// Adds a product of panels, or begins to.
static void multiply(ptx_builder *b, const struct ptxk_muon_chip *c, const struct muon_warp *warp,
                     ptx_val left, ptx_val right, bool across, ptx_fragment *sums)
{
    if (c->groups)
        ptxk_muon_group_add(b, warp, left, right, across, sums);
    else
        ptxk_muon_multiply(b, warp, left, right, across, sums);
}

void ptxk_muon_chip_multiplied(ptx_builder *b, const struct ptxk_muon_chip *c)
{
    if (c->groups)
        ptxk_muon_group_wait(b, 0);
}

void ptxk_muon_chip_square(ptx_builder *b, struct ptxk_muon_chip *c, ptx_val left, ptx_val right)
{
    ptx_comment(b, "a product of %u x %u", c->size, c->size);
    ptxk_muon_zero(b, &c->square, c->sums, false);
    for (unsigned k = 0; k < c->panels; k++) {
        ptx_val beside = ptx_add(b, right, k * MUON_DEPTH * MUON_ROW);
        multiply(b, c, &c->square, ptx_add(b, left, k * c->size * MUON_ROW), beside, true, c->sums);
    }
    ptxk_muon_chip_multiplied(b, c);
}

void ptxk_muon_chip_replace(ptx_builder *b, struct ptxk_muon_chip *c, ptx_val left, ptx_val right,
                            struct muon_combined how)
{
    ptxk_muon_chip_square(b, c, left, right);
    ptx_barrier(b);
    ptxk_muon_chip_store(b, c, how);
    ptxk_muon_chip_meet(b, c);
}

void ptxk_muon_chip_pass(ptx_builder *b, struct ptxk_muon_chip *c, ptx_val q, ptx_val from,
                         ptx_val to, ptx_val replaces)
{
    ptxk_muon_zero(b, &c->passing, c->part, false);
    for (unsigned k = 0; k < c->panels; k++) {
        ptx_val beside = ptx_add(b, from, k * MUON_DEPTH * MUON_ROW);
        multiply(b, c, &c->passing, ptx_add(b, q, k * c->size * MUON_ROW), beside, true, c->part);
    }
    ptxk_muon_chip_multiplied(b, c);
    if (replaces.kind)
        ptx_if (b, replaces)
            ptx_barrier(b);
    store_sums(b, c, &c->passing, c->part, (struct muon_combined) { .to = to });
}

// ---- X X^T --------------------------------------------------------------------------------------

static struct muon_half half_of(ptx_builder *b, unsigned size)
{
    ptx_val number = ptx_shr(b, ptx_tid(b, PTX_X), 5);
    ptx_val above = ptx_eq(b, number, 1), middle = ptx_eq(b, number, 2);
    struct muon_half half;

    ptx_comment(b, "what this warp computes of X X^T");
    half.on_diagonal = ptx_not(b, ptx_or(b, above, middle));
    half.down = ptx_select(b, above, ptx_u32(3 * size / 4 * MUON_ROW), ptx_u32(0));
    half.back = ptx_select(b, above, ptx_u32(size / 2 * MUON_ROW), ptx_u32(0));
    return half;
}

// The warp's part of the lower square.
static struct muon_warp lower_of(ptx_builder *b, const struct ptxk_muon_chip *c)
{
    struct muon_warp w = c->square;

    w.down /= 2;
    w.row = ptx_add(b, w.row, ptxk_over_power_of_two(b, c->half.down, MUON_ROW));
    w.column = ptx_sub(b, w.column, ptxk_over_power_of_two(b, c->half.back, MUON_ROW));
    return w;
}

// Fragments of rows are those of columns, too.
static void multiply_triangle(ptx_builder *b, struct ptxk_muon_chip *c, ptx_val panel)
{
    const struct muon_warp *warp = &c->square;
    ptx_fragment x[MUON_MOST_DOWN], y[MUON_MOST_ACROSS];

    for (unsigned step = 0; step < MUON_STEPS; step++) {
        ptx_comment(b, "columns %u to %u", step * 16, step * 16 + 15);
        ptx_ptr rows = ptxk_muon_shared_at(b, ptx_add(b, panel, warp->of_rows[step]));
        for (unsigned m = 0; m < warp->down; m++) {
            ptx_vec w = ptx_ldmatrix(b, ptx_at(b, rows, m * 16 * MUON_DEPTH), 4);
            x[m] = ptx_fragment_from(b, PTX_FRAGMENT_A, PTX_F16, 16, w);
            for (unsigned n = 0; n < 2; n++)
                y[2 * m + n] = ptx_fragment_from(b, PTX_FRAGMENT_B, PTX_F16, 16,
                                                 ptx_vec2(w.lane[n], w.lane[n + 2]));
        }
        for (unsigned m = 0; m < warp->down; m++) {
            ptx_comment(b, "products of rows %u to %u", m * 16, m * 16 + 15);
            for (unsigned n = 0; n < 2 * m + 2; n++) {
                ptx_fragment *sum = &c->sums[m * 2 * warp->across + n];
                ptx_fragment_set(b, *sum, ptx_mma(b, x[m], y[n], *sum));
            }
        }
    }
}

void ptxk_muon_chip_add_gram(ptx_builder *b, struct ptxk_muon_chip *c, ptx_val panel)
{
    if (c->groups) {
        multiply(b, c, &c->square, panel, panel, false, c->sums);
        return;
    }
    ptx_if (b, c->half.on_diagonal) {
        ptx_comment(b, "the triangle of a square on the diagonal");
        multiply_triangle(b, c, panel);
    }
    ptx_else (b) {
        ptx_comment(b, "half of the square below it");
        struct muon_warp lower = c->square;
        lower.down /= 2;
        ptx_val left = ptx_add(b, panel, c->half.down);
        ptxk_muon_multiply(b, &lower, left, ptx_sub(b, panel, c->half.back), false, c->sums);
    }
}

// Where this lane has the first pair of a fragment's rows, as a column, and the pair beside it:
// those of the fragments to the right of it are constants away. `tile`: 8 rows each.
struct mirrored {
    ptx_ptr of[2];
};

static struct mirrored mirror(ptx_builder *b, const struct ptxk_muon_chip *c,
                              const struct muon_warp *warp, ptx_val to, unsigned tile)
{
    ptx_val panel =
        ptx_mul(b, ptxk_over_power_of_two(b, warp->row, MUON_DEPTH), c->size * MUON_ROW);
    ptx_val row = ptx_mad(b, ptx_add(b, warp->column, c->lane.column), MUON_ROW, panel);
    ptx_val piece = ptx_add(b, ptx_and(b, ptx_shr(b, warp->row, 3), 7), tile);
    ptx_val at = ptx_mad(b, c->lane.row, 2, ptx_add(b, to, row));
    struct mirrored m;

    piece = ptx_xor(b, piece, c->lane.column);
    m.of[0] = ptxk_muon_shared_at(b, ptx_mad(b, piece, MUON_PIECE, at));
    piece = ptx_xor(b, piece, 1);
    m.of[1] = ptxk_muon_shared_at(b, ptx_mad(b, piece, MUON_PIECE, ptx_add(b, at, MUON_ROW)));
    return m;
}

// Stores a warp's sums, rounded, and the same on the other side of the diagonal.
static void store_half(ptx_builder *b, struct ptxk_muon_chip *c, const struct muon_warp *warp,
                       bool triangle, ptx_val to)
{
    enum { ROWS = 8 * MUON_DEPTH / 2 };
    const unsigned across = 2 * warp->across;
    ptx_val pairs[MOST_PAIRS];

    ptx_comment(b, triangle ? "a triangle" : "half of a square");
    place_pairs(b, c, warp, pairs);
    for (unsigned k = 0; k < 2 * warp->down; k++) {
        const unsigned whole = triangle ? k / 2 * 2 : across; // fragments off the diagonal
        struct mirrored there = { 0 };
        ptx_comment(b, "row %u of 8, and those of the other lanes", k * 8);
        if (whole)
            there = mirror(b, c, warp, to, k);
        for (unsigned n = 0; n < whole + 2 * triangle; n++) {
            if (n % 2 == 0)
                ptx_comment(b, "columns from %u on", n * 8);
            ptx_vec words = ptx_fragment_words(b, c->sums[k / 2 * across + n]);
            ptx_val rounded =
                ptx_cvt_pack(b, PTX_F16X2, words.lane[k % 2 * 2], words.lane[k % 2 * 2 + 1]);
            ptx_store(b, pair_at(b, to, pairs[n]), k * ROWS, rounded);
            if (n >= whole)
                continue;
            ptx_vec apart = ptx_unpack(b, PTX_F16, rounded);
            for (unsigned w = 0; w < 2; w++)
                ptx_store(b, there.of[w], n * 8 * MUON_DEPTH, apart.lane[w]);
        }
    }
}

void ptxk_muon_chip_store_gram(ptx_builder *b, struct ptxk_muon_chip *c)
{
    if (c->groups) {
        ptxk_muon_chip_store(b, c, (struct muon_combined) { .to = c->r });
        return;
    }
    ptx_comment(b, "R = X X^T, rounded into shared memory, on both sides of the diagonal");
    ptx_if (b, c->half.on_diagonal)
        store_half(b, c, &c->square, true, c->r);
    ptx_else (b) {
        const struct muon_warp lower = lower_of(b, c);
        store_half(b, c, &lower, false, c->r);
    }
}

// ---- what a block has ---------------------------------------------------------------------------

void ptxk_muon_chip_begin(ptx_builder *b, struct ptxk_muon_chip *c)
{
    const unsigned down = c->size / 32;

    if (c->groups) {
        c->square = ptxk_muon_group(b, down / 2, 2 * down, c->size * MUON_ROW);
        c->passing = ptxk_muon_group(b, down / 2, MUON_DEPTH / 16, c->size * MUON_ROW);
    } else {
        c->square = ptxk_muon_warp(b, down, down, 2, c->size * MUON_ROW);
        c->passing = ptxk_muon_warp(b, down, 2, 2, c->size * MUON_ROW);
    }
    c->lane = ptxk_muon_lane(b);
    if (!c->groups)
        c->half = half_of(b, c->size);
    ptx_comment(b, "sums, of squares and of 64 columns of Q X");
    ptxk_muon_zero(b, &c->square, c->sums, true);
    ptxk_muon_zero(b, &c->passing, c->part, true);
}
