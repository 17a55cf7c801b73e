// SPDX-License-Identifier: MIT
// All products of a square matrix of 129 to 256 rows, by one block of three warpgroups: R = X X^T,
// Z = b R + c R R and X = a X + Z X stay in shared memory. There a matrix is squares of 128 x 128:
// X four of them, one below the other, then those of the next columns; R and Z the three below the
// diagonal and on it, since the fourth is the transpose of the second. A warpgroup has a square of
// each product. The bits are those of tiles.
#include "muon_panel.h"

#include "common/common.h"

enum {
    SIDE = MUON_CHIP_MOST,
    PANEL = SIDE * MUON_ROW,
    SQUARE = SIDE / MUON_DEPTH * PANEL, // bytes
    COLUMNS = 2 * SQUARE,               // from squares of X to those beside them
    PANELS = SIDE / MUON_DEPTH,
    SUMS = 32, // fragments
    ACROSS = 16,
    GROUP = 128,
};

struct square {
    ptx_val from, to; // addresses of X
    ptx_val rows, pitch, tid;
    ptx_val x, r;          // addresses of X's squares, and of those of R, later Z
    ptx_val first, last;   // predicates: of the three warpgroups
    ptx_val down, across;  // bytes to the square's row and column of squares
    ptx_val further;       // panels of a matrix behind its first 128 columns, in bytes of a panel
    ptx_val pairs[ACROSS]; // of a lane, in a square: where it has 16 columns of 16 rows
    struct muon_warp warp;
    ptx_fragment sums[SUMS];
};

// ---- X ------------------------------------------------------------------------------------------

enum { NEXT = MUON_SQUARE_THREADS / 8, ROWS = MUON_SQUARE_MOST }; // of a thread's pieces

static ptx_val place_in_panel(ptx_builder *b, ptx_val panel, ptx_val row, ptx_val piece)
{
    ptx_val square = ptx_mul(b, ptxk_over_power_of_two(b, row, SIDE), SQUARE);
    ptx_val within = ptxk_muon_piece(b, ptx_and(b, row, SIDE - 1), piece);

    return ptx_add(b, panel, ptx_add(b, square, within));
}

// What a thread does with a row's piece: it begins to copy it, 0 outside of X, or writes it.
static void pass_piece(ptx_builder *b, const struct square *s, bool writes, ptx_val row,
                       ptx_val column, ptx_val place)
{
    ptx_val within = ptx_lt(b, column, s->pitch);
    ptx_val there = ptx_and(b, within, ptx_lt(b, row, s->rows));
    ptx_ptr shared = ptxk_muon_shared_at(b, place);

    if (writes) {
        ptx_val x = ptx_add(b, s->to, ptx_cvt(b, PTX_U64, column));
        ptx_if (b, there) {
            ptx_ptr to = ptxk_muon_global(b, PTX_B32, ptx_mad_wide(b, row, s->pitch, x));
            ptx_store_vec(b, to, 0, ptx_load_vec(b, ptx_ptr_cast(b, PTX_B32, shared), 0, 4));
        }
        return;
    }
    ptx_val x = ptx_add(b, s->from, ptx_cvt(b, PTX_U64, column));
    ptx_val taken = ptx_select(b, there, ptx_u32(MUON_PIECE), ptx_u32(0));
    ptx_val source = ptx_select(b, there, ptx_mad_wide(b, row, s->pitch, x), s->from);
    ptx_cp_async(b, shared, ptxk_muon_global(b, PTX_F16, source), 16, .taken = taken,
                 .bypass = true);
}

static void pass_x(ptx_builder *b, const struct square *s, bool writes)
{
    ptx_val piece = ptx_and(b, s->tid, 7), first = ptx_shr(b, s->tid, 3);

    ptx_comment(b, writes ? "writes X" : "copies of X, 0 outside of it");
    for (unsigned p = 0; p < 2 * PANELS; p++) {
        ptx_val panel = ptx_add(b, s->x, p / PANELS * COLUMNS + p % PANELS * PANEL);
        ptx_val column = ptx_mad(b, piece, MUON_PIECE, ptx_u32(p * MUON_ROW));
        ptx_comment(b, "64 columns from %u on", p * MUON_DEPTH);
        ptx_for (b, row, first, ptx_u32(ROWS), NEXT)
            pass_piece(b, s, writes, row, column, place_in_panel(b, panel, row, piece));
    }
}

// ---- products -----------------------------------------------------------------------------------

// A barrier behind which all threads may multiply what any of them has written.
static void meet(ptx_builder *b)
{
    ptxk_muon_group_sees(b);
    ptx_barrier(b);
}

static void multiply_gram(ptx_builder *b, struct square *s)
{
    ptx_comment(b, "R = X X^T: rows of X by rows of X");
    ptxk_muon_zero(b, &s->warp, s->sums, false);
    for (unsigned half = 0; half < 2; half++) {
        ptx_val x = ptx_add(b, s->x, half * COLUMNS);
        ptx_val end = half ? s->further : ptx_u32(SQUARE);
        ptx_val left = ptx_add(b, x, s->down), right = ptx_add(b, x, s->across);
        ptx_for (b, at, ptx_u32(0), end, PANEL) {
            ptx_val rows = ptx_add(b, left, at), others = ptx_add(b, right, at);
            ptxk_muon_group_add(b, &s->warp, rows, others, false, s->sums);
        }
    }
    ptxk_muon_group_wait(b, 0);
}

// The sums of a square of A B, A being R or Z. Its row is that of A's squares, and `across` bytes
// behind `right` is what B has to the right of the first ones, or to the left. `symmetric`: B is as
// A, and the last group needs the square that is not there.
static void multiply_across(ptx_builder *b, struct square *s, ptx_val right, ptx_val across,
                            bool symmetric)
{
    enum { DOWN = MUON_DEPTH * MUON_ROW };
    ptx_val left = ptx_add(b, s->r, s->down), beside = ptx_add(b, right, across);

    ptxk_muon_zero(b, &s->warp, s->sums, false);
    ptx_comment(b, "the first 128 of the depth");
    ptx_for (b, at, ptx_u32(0), ptx_u32(SQUARE), PANEL) {
        // 64 rows of B are half of a panel's bytes.
        ptx_val a = ptx_add(b, left, at);
        ptx_val rows = ptx_add(b, beside, ptxk_over_power_of_two(b, at, PANEL / DOWN));
        if (symmetric) {
            ptx_if (b, s->last) {
                ptx_comment(b, "the square above the diagonal: the transpose of the one below");
                ptxk_muon_group_add(b, &s->warp, a, ptx_add(b, beside, at), false, s->sums);
            }
            ptx_else (b)
                ptxk_muon_group_add(b, &s->warp, a, rows, true, s->sums);
        } else {
            ptxk_muon_group_add(b, &s->warp, a, rows, true, s->sums);
        }
    }
    ptx_comment(b, "and the others");
    left = ptx_add(b, left, SQUARE);
    beside = ptx_add(b, beside, SQUARE);
    ptx_for (b, at, ptx_u32(0), s->further, PANEL) {
        ptx_val half = ptxk_over_power_of_two(b, at, PANEL / DOWN);
        ptx_val rows = ptx_add(b, beside, half);
        ptx_if (b, s->first) {
            ptx_comment(b, "A's square above the diagonal");
            ptxk_muon_group_add_turned(b, &s->warp, ptx_add(b, left, half), rows, s->sums);
        }
        ptx_else (b)
            ptxk_muon_group_add(b, &s->warp, ptx_add(b, left, at), rows, true, s->sums);
    }
    ptxk_muon_group_wait(b, 0);
}

// What is stored in a square: the sums, or alpha * what is there + beta * the sums.
struct combined {
    bool adds;
    ptx_val alpha, beta;
};

static void combine(ptx_builder *b, struct combined how, ptx_val old, const ptx_fragment *sum,
                    unsigned half, ptx_val x[2])
{
    ptx_vec words = ptx_fragment_words(b, *sum), e = { 0 };

    if (how.adds)
        e = ptx_unpack(b, PTX_F16, old);
    for (unsigned w = 0; w < 2; w++) {
        x[w] = words.lane[2 * half + w];
        if (!how.adds)
            continue;
        ptx_val scaled = how.beta.kind ? ptx_mul(b, x[w], how.beta) : x[w];
        x[w] = ptx_fma(b, how.alpha, ptx_cvt(b, PTX_F32, e.lane[w]), scaled);
    }
}

static void store(ptx_builder *b, const struct square *s, ptx_val square, struct combined how)
{
    ptx_comment(b, "rounded into shared memory, 16 x 16 of a warp at a time");
    for (unsigned n = 0; n < ACROSS; n += 2) {
        ptx_ptr at = ptxk_muon_shared_at(b, ptx_add(b, square, s->pairs[n]));
        for (unsigned m = 0; m < s->warp.down; m++) {
            ptx_ptr here = ptx_at(b, at, m * s->warp.apart * MUON_DEPTH);
            ptx_vec old = { 0 };
            ptx_val pairs[4];
            ptx_comment(b, "rows from %u on, columns from %u on", m * s->warp.apart, 8 * n);
            if (how.adds)
                old = ptx_ldmatrix(b, here, 4);
            for (unsigned k = 0; k < 4; k++) {
                const ptx_fragment *sum = &s->sums[m * ACROSS + n + k / 2];
                ptx_val x[2];
                if (how.adds && k == 2)
                    ptx_comment(b, "the next 8 columns");
                combine(b, how, how.adds ? old.lane[k] : (ptx_val) { 0 }, sum, k % 2, x);
                pairs[k] = ptx_cvt_pack(b, PTX_F16X2, x[0], x[1]);
            }
            ptx_stmatrix(b, here, ptx_vec4(pairs[0], pairs[1], pairs[2], pairs[3]));
        }
    }
}

// ---- steps --------------------------------------------------------------------------------------

static void take_step(ptx_builder *b, struct square *s, ptx_vec triple)
{
    ptx_val own = ptx_add(b, s->r, ptx_add(b, s->down, s->across));

    multiply_gram(b, s);
    store(b, s, own, (struct combined) { .adds = false });
    meet(b);
    ptx_comment(b, "Z = b R + c R R, where R is");
    multiply_across(b, s, s->r, s->across, true);
    ptx_barrier(b);
    store(b, s, own,
          (struct combined) { .adds = true, .alpha = triple.lane[1], .beta = triple.lane[2] });
    meet(b);
    ptx_comment(b, "X = a X + Z X, 128 columns at a time, by two of the groups");
    ptx_for (b, columns, s->x, ptx_add(b, s->x, 2 * COLUMNS), COLUMNS) {
        ptx_if (b, ptx_not(b, s->last))
            multiply_across(b, s, columns, ptx_u32(0), false);
        ptx_barrier(b);
        ptx_if (b, ptx_not(b, s->last))
            store(b, s, ptx_add(b, columns, s->down),
                  (struct combined) { .adds = true, .alpha = triple.lane[0] });
    }
    meet(b);
}

// Which square a warpgroup has: on the diagonal, below it, on the diagonal again.
static void divide(ptx_builder *b, struct square *s)
{
    ptx_val number = ptxk_over_power_of_two(b, s->tid, GROUP), low = ptx_and(b, ptx_laneid(b), 15);
    ptx_val second = ptx_shr(b, ptx_laneid(b), 4);

    ptx_comment(b, "the warpgroup's square");
    s->first = ptx_eq(b, number, 0);
    s->last = ptx_eq(b, number, 2);
    s->down = ptx_select(b, s->first, ptx_u32(0), ptx_u32(SQUARE));
    s->across = ptx_select(b, s->last, ptx_u32(SQUARE), ptx_u32(0));
    s->warp = ptxk_muon_group(b, SIDE / 64, SIDE / 16, PANEL);
    s->warp.row = ptx_and(b, s->warp.row, 63);
    ptx_val row = ptx_add(b, s->warp.row, low);
    for (unsigned n = 0; n < ACROSS; n += 2) {
        const unsigned pieces = MUON_DEPTH / 8;
        if (n < pieces)
            s->pairs[n] = ptxk_muon_piece(b, row, ptx_add(b, second, n));
        else
            s->pairs[n] = ptx_add(b, s->pairs[n - pieces], PANEL);
    }
}

void ptxk_muon_square_emit(ptx_builder *b)
{
    struct square s = { .tid = ptx_tid(b, PTX_X) };

    ptxk_muon_lead(b);
    const struct muon_block_matrix m = ptxk_muon_block_matrix(b);
    ptx_ptr words = m.words;
    s.from = m.x;
    s.rows = m.rows;
    s.pitch = ptx_load(b, words, MUON_PLACE(uint32_t, muon_chip, pitch));
    s.to = ptx_add(b, s.from,
                   ptx_cvt(b, PTX_U64, ptx_load(b, words, MUON_PLACE(uint32_t, muon_chip, to))));
    s.x = ptxk_muon_dynamic(b);
    s.r = ptx_add(b, s.x, 2 * COLUMNS);
    ptx_val most = ptx_select(b, ptx_gt(b, s.rows, SIDE + MUON_DEPTH), ptx_u32(2), ptx_u32(1));
    s.further = ptx_mul(b, most, PANEL);
    divide(b, &s);
    ptx_comment(b, "its sums");
    ptxk_muon_zero(b, &s.warp, s.sums, true);
    pass_x(b, &s, false);
    ptx_cp_async_wait_all(b);
    meet(b);
    ptx_for (b, k, ptx_u32(0), m.step_count, ptx_u32(1)) {
        ptx_comment(b, "a step");
        ptx_ptr triple = ptx_at(b, ptxk_muon_global(b, PTX_F32, m.steps),
                                ptx_mul(b, k, sizeof(struct muon_step) / 4));
        take_step(b, &s, ptx_load_vec(b, triple, 0, 4));
    }
    pass_x(b, &s, true);
    ptxk_muon_follow(b);
}
