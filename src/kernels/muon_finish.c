// SPDX-License-Identifier: MIT
// What becomes of a tile's sums: those of slices are added up, alpha E is added, and C and Q are
// written, on both sides of the diagonal where they are symmetric.
#include "muon_tile.h"

#include "common/common.h"

enum { MOST_ACROSS = 16 };

ptx_val ptxk_muon_word(ptx_builder *b, ptx_ptr product, ptx_type type, uint32_t place)
{
    return ptx_load(b, ptx_ptr_cast(b, type, product), place);
}

struct part ptxk_muon_part_of(ptx_builder *b, const struct tile *t)
{
    ptx_val piece = ptx_and(b, t->tid, t->shape->row_pieces - 1);
    ptx_val row = ptxk_over_power_of_two(b, t->tid, t->shape->row_pieces);

    return (struct part) { row, piece, ptx_mad(b, piece, MUON_PIECE, ptx_mul(b, t->column, 2)) };
}

ptx_val ptxk_muon_place_of_addend(ptx_builder *b, const struct tile *t, ptx_val row, ptx_val piece)
{
    ptx_val at = ptx_xor(b, piece, ptx_and(b, row, 7));

    return ptx_mad(b, row, 2 * t->shape->side, ptx_mul(b, at, MUON_PIECE));
}

// ---- slices of a long depth ---------------------------------------------------------------------

// The sums of all slices, in their order.
static void read_slices(ptx_builder *b, const struct tile *t, ptx_ptr partials, ptx_fragment *sums)
{
    ptx_fence(b, PTX_ORDER_ACQ_REL, PTX_SCOPE_GPU);
    ptx_comment(b, "the last block of the tile: all slices in their order");
    for (unsigned k = 0; k < t->shape->sums; k++) {
        if (k % 4 == 0)
            ptx_comment(b, "fragments from %u on", k);
        ptx_vec words = ptx_load_vec(b, partials, k * 4 * MUON_THREADS, 4);
        ptx_fragment_set(b, sums[k], ptx_fragment_from(b, PTX_FRAGMENT_C, PTX_F32, 0, words));
    }
    ptx_for (b, slice, ptx_u32(1), t->slices, 1) {
        ptx_ptr from = ptx_at(b, partials, ptx_mul_wide(b, slice, t->shape->partial / 4));
        for (unsigned k = 0; k < t->shape->sums; k++) {
            if (k % 4 == 0)
                ptx_comment(b, "fragments from %u on", k);
            ptx_vec more = ptx_load_vec(b, from, k * 4 * MUON_THREADS, 4);
            ptx_vec words = ptx_fragment_words(b, sums[k]);
            for (unsigned w = 0; w < 4; w++)
                words.lane[w] = ptx_add(b, words.lane[w], more.lane[w]);
            ptx_fragment_set(b, sums[k], ptx_fragment_from(b, PTX_FRAGMENT_C, PTX_F32, 0, words));
        }
    }
}

ptx_val ptxk_muon_add_slices(ptx_builder *b, const struct tile *t, ptx_fragment *sums)
{
    const uint32_t words_of_tile = t->shape->partial / 4;
    // All have left the stages when it is written. An array of its own would move the stages from
    // the boundaries of 128 bytes, across which copies take twice the time.
    ptx_ptr last = ptx_ptr_cast(b, PTX_U32, ptxk_muon_shared_at(b, t->shared));
    ptx_val finishes = ptx_var(b, ptx_bool(true));

    ptx_if (b, ptx_gt(b, t->slices, 1)) {
        ptx_comment(b, "this slice's sums, in the order of the threads");
        struct tile rest = *t;
        rest.partials =
            ptxk_muon_word(b, t->product, PTX_U64, MUON_PLACE(uint64_t, muon_product, partials));
        rest.counters =
            ptxk_muon_word(b, t->product, PTX_U64, MUON_PLACE(uint64_t, muon_product, counters));
        ptx_val first = ptx_mul(b, t->place, t->slices);
        ptx_ptr partials =
            ptx_at(b, ptxk_muon_global(b, PTX_F32, rest.partials),
                   ptx_mad_wide(b, first, words_of_tile, ptx_mul_wide(b, t->tid, 4)));
        ptx_ptr own = ptx_at(b, partials, ptx_mul_wide(b, t->slice, words_of_tile));
        for (unsigned k = 0; k < t->shape->sums; k++) {
            if (k % 16 == 0)
                ptx_comment(b, "fragments from %u on", k);
            ptx_store_vec(b, own, k * 4 * MUON_THREADS, ptx_fragment_words(b, sums[k]));
        }
        ptx_fence(b, PTX_ORDER_ACQ_REL, PTX_SCOPE_GPU);
        ptx_barrier(b);
        ptx_if (b, ptx_eq(b, t->tid, 0)) {
            ptx_ptr counter = ptx_at(b, ptxk_muon_global(b, PTX_U32, rest.counters), t->place);
            ptx_val before = ptx_atomic(b, PTX_ATOMIC_add, counter, 0, 1,
                                        .order = PTX_ORDER_ACQ_REL, .scope = PTX_SCOPE_GPU);
            ptx_val is_last = ptx_eq(b, ptx_add(b, before, 1), t->slices);
            ptx_store(b, last, 0, ptx_select(b, is_last, ptx_u32(1), ptx_u32(0)));
            ptx_if (b, is_last)
                ptx_store(b, counter, 0, ptx_u32(0));
        }
        ptx_barrier(b);
        ptx_set(b, finishes, ptx_ne(b, ptx_load(b, last, 0), 0));
        ptx_if (b, finishes)
            read_slices(b, t, partials, sums);
    }
    return finishes;
}

// ---- the finished tile --------------------------------------------------------------------------

// alpha E + beta * the sums, E being f16.
static void add_addend(ptx_builder *b, const struct tile *t, const struct muon_warp *warp,
                       const struct muon_lane *lane, ptx_fragment *sums)
{
    ptx_val row = ptx_add(b, warp->row, lane->row), first = { 0 };
    if (!t->shape->groups)
        first = ptx_shr(b, warp->column, 3);
    ptx_val within = ptx_mad(b, lane->column, 2, t->addend);

    ptx_comment(b, "alpha E");
    ptx_barrier(b);
    for (unsigned n = 0; n < t->shape->across; n++) {
        ptx_val piece = t->shape->groups ? ptx_u32(n) : ptx_add(b, first, n);
        ptx_val place = ptxk_muon_place_of_addend(b, t, row, piece);
        ptx_val at = ptx_add(b, within, place);
        ptx_ptr from = ptx_ptr_cast(b, PTX_B32, ptxk_muon_shared_at(b, at));
        for (unsigned m = 0; m < t->shape->down; m++) {
            ptx_comment(b, "rows %u and 8 below, column %u", warp->apart * m, 8 * n);
            ptx_fragment *sum = &sums[m * t->shape->across + n];
            ptx_vec words = ptx_fragment_words(b, *sum);
            for (unsigned half = 0; half < 2; half++) {
                const unsigned below = warp->apart * m + 8 * half;
                ptx_val both = ptx_load(b, from, below * t->shape->side / 2);
                ptx_vec e = ptx_unpack(b, PTX_F16, both);
                for (unsigned k = 0; k < 2; k++) {
                    ptx_val *x = &words.lane[2 * half + k];
                    ptx_val scaled = ptx_mul(b, *x, t->beta);
                    *x = ptx_fma(b, t->alpha, ptx_cvt(b, PTX_F32, e.lane[k]), scaled);
                }
            }
            ptx_fragment_set(b, *sum, ptx_fragment_from(b, PTX_FRAGMENT_C, PTX_F32, 0, words));
        }
    }
}

// Where piece `piece` of row `row` of the finished tile is: no two of a store's or load's rows, nor
// of those that a transposed load takes together, are in one bank.
static ptx_val place_of(ptx_builder *b, const struct tile *t, ptx_val row, ptx_val piece)
{
    ptx_val key = ptx_and(b, ptx_shr(b, row, 2), 6);

    return ptx_mad(b, row, t->shape->pitch, ptx_mul(b, ptx_xor(b, piece, key), MUON_PIECE));
}

// Rounds the sums to f16 in shared memory, 0 outside of the matrix.
static void finish(ptx_builder *b, const struct tile *t, const struct muon_warp *warp,
                   const struct muon_lane *lane, const ptx_fragment *sums)
{
    ptx_val in_tile = ptx_add(b, warp->column, lane->column);
    ptx_val rows = ptx_sub(b, t->rows, t->row), columns = ptx_sub(b, t->columns, t->column);
    ptx_val inside[MOST_ACROSS][2];

    ptx_comment(b, "rounded to f16, 0 outside of the matrix");
    for (unsigned n = 0; n < t->shape->across; n++)
        for (unsigned k = 0; k < 2; k++)
            inside[n][k] = ptx_lt(b, ptx_add(b, in_tile, 8 * n + k), columns);
    for (unsigned m = 0; m < 2 * t->shape->down; m++) {
        const unsigned below = m / 2 * warp->apart + m % 2 * 8;
        ptx_val row = ptx_add(b, ptx_add(b, warp->row, lane->row), below);
        ptx_val there = ptx_lt(b, row, rows);
        ptx_val within = ptx_mul(b, ptx_and(b, in_tile, 7), 2);
        for (unsigned n = 0; n < t->shape->across; n++) {
            ptx_vec words = ptx_fragment_words(b, sums[m / 2 * t->shape->across + n]);
            ptx_val x[2];
            if (n % 2 == 0)
                ptx_comment(b, "row %u, columns from %u on", below, 8 * n);
            for (unsigned k = 0; k < 2; k++)
                x[k] = ptx_select(b, ptx_and(b, there, inside[n][k]), words.lane[m % 2 * 2 + k],
                                  ptx_f32(0));
            ptx_val piece = ptx_add(b, ptx_shr(b, in_tile, 3), n);
            ptx_val at = ptx_add(b, ptx_add(b, t->shared, place_of(b, t, row, piece)), within);
            ptx_val both = ptx_cvt_pack(b, PTX_F16X2, x[0], x[1]);
            ptx_store(b, ptx_ptr_cast(b, PTX_F16X2, ptxk_muon_shared_at(b, at)), 0, both);
        }
    }
}

// 0 outside of the matrix, of a tile at its edge.
static void clear_outside(ptx_builder *b, const struct tile *t, const struct muon_warp *warp,
                          const struct muon_lane *lane, const ptx_fragment *sums)
{
    ptx_val rows = ptx_sub(b, t->rows, t->row), columns = ptx_sub(b, t->columns, t->column);
    ptx_val row = ptx_add(b, warp->row, lane->row);

    ptx_if (b, ptx_lt(b, ptx_min(b, rows, columns), t->shape->side)) {
        for (unsigned k = 0; k < t->shape->sums; k++) {
            const unsigned m = k / t->shape->across * warp->apart, n = k % t->shape->across * 8;
            ptx_vec words = ptx_fragment_words(b, sums[k]);
            ptx_comment(b, "outside of the matrix: rows %u and 8 below, column %u", m, n);
            for (unsigned w = 0; w < 4; w++) {
                ptx_val below = ptx_lt(b, ptx_add(b, row, m + w / 2 * 8), rows);
                ptx_val beside = ptx_lt(b, ptx_add(b, lane->column, n + w % 2), columns);
                ptx_set(b, words.lane[w],
                        ptx_select(b, ptx_and(b, below, beside), words.lane[w], ptx_f32(0)));
            }
        }
    }
}

// The same of a warpgroup's sums: a warp stores four tiles of 8 x 8 at a time.
static void finish_group(ptx_builder *b, const struct tile *t, const struct muon_warp *warp,
                         const struct muon_lane *lane, const ptx_fragment *sums)
{
    clear_outside(b, t, warp, lane, sums);
    ptx_comment(b, "rounded to f16");
    ptx_val number = ptx_laneid(b), low = ptx_and(b, number, 15);
    ptx_val row = ptx_add(b, warp->row, low), second = ptx_shr(b, number, 4);
    for (unsigned n = 0; n < t->shape->across; n += 2) {
        ptx_val piece = ptx_add(b, second, n);
        ptx_val at = ptx_add(b, t->shared, place_of(b, t, row, piece));
        ptx_ptr to = ptxk_muon_shared_at(b, at);
        for (unsigned m = 0; m < t->shape->down; m++) {
            ptx_val pairs[4];
            ptx_comment(b, "rows from %u on, columns from %u on", m * warp->apart, 8 * n);
            for (unsigned k = 0; k < 4; k++) {
                ptx_vec words = ptx_fragment_words(b, sums[m * t->shape->across + n + k / 2]);
                const unsigned first = k % 2 * 2;
                pairs[k] = ptx_cvt_pack(b, PTX_F16X2, words.lane[first], words.lane[first + 1]);
            }
            ptx_stmatrix(b, ptx_at(b, to, m * warp->apart * t->shape->pitch / 2),
                         ptx_vec4(pairs[0], pairs[1], pairs[2], pairs[3]));
        }
    }
}

static void add_diagonal(ptx_builder *b, const struct tile *t)
{
    ptx_comment(b, "Q: the diagonal");
    ptx_val there = ptx_lt(b, ptx_add(b, t->row, t->tid), t->rows);
    if (t->shape->side < MUON_THREADS)
        there = ptx_and(b, there, ptx_lt(b, t->tid, t->shape->side));
    ptx_if (b, there) {
        ptx_val at = ptx_add(b, t->shared, place_of(b, t, t->tid, ptx_shr(b, t->tid, 3)));
        ptx_ptr x = ptx_at(b, ptxk_muon_shared_at(b, at), ptx_and(b, t->tid, 7));
        ptx_val sum = ptx_add(b, ptx_cvt(b, PTX_F32, ptx_load(b, x, 0)), t->diagonal);
        ptx_store(b, x, 0, ptx_cvt(b, PTX_F16, sum));
    }
}

static void write_rows(ptx_builder *b, const struct tile *t, ptx_val to)
{
    struct part p = ptxk_muon_part_of(b, t);

    to = ptx_add(b, to, ptx_cvt(b, PTX_U64, p.at));
    ptx_val inside = ptx_lt(b, p.at, t->pitch_c);
    for (unsigned k = 0; k < t->shape->side; k += t->shape->rows_apart) {
        if (k / t->shape->rows_apart % 2 == 0)
            ptx_comment(b, "rows from %u on", k);
        ptx_val local = ptx_add(b, p.row, k), here = ptx_add(b, t->row, local);
        ptx_if (b, ptx_and(b, inside, ptx_lt(b, here, t->rows))) {
            ptx_val from = ptx_add(b, t->shared, place_of(b, t, local, p.piece));
            ptx_ptr words = ptx_ptr_cast(b, PTX_B32, ptxk_muon_shared_at(b, from));
            ptx_ptr target = ptxk_muon_global(b, PTX_B32, ptx_mad_wide(b, here, t->pitch_c, to));
            ptx_store_vec(b, target, 0, ptx_load_vec(b, words, 0, 4));
        }
    }
}

// The transposed tile: a warp has 8 of its rows and 32 of its columns at a time. Row i of the four
// tiles of 8 x 8 is such that a lane gets 8 columns that follow each other.
static void write_mirrored(ptx_builder *b, const struct tile *t, ptx_val to)
{
    const uint32_t parts = t->shape->side / 32, step = MUON_THREADS / 32 / parts;
    ptx_comment(b, "the transposed tile");
    ptx_val lane = ptx_laneid(b), warp = ptx_shr(b, t->tid, 5);
    ptx_val low = ptx_and(b, lane, 7), quarter = ptx_shr(b, lane, 3);
    ptx_val part = ptx_mul(b, ptx_and(b, warp, parts - 1), 32);
    ptx_val row = ptx_add(b, ptx_mul(b, ptx_shr(b, low, 1), 8), ptx_and(b, low, 1));
    row = ptx_add(b, ptx_add(b, row, ptx_mul(b, quarter, 2)), part);
    ptx_val column = ptx_mad(b, ptx_and(b, lane, 3), 8, part);
    ptx_val at = ptx_mul(b, ptx_add(b, t->row, column), 2);
    ptx_val inside = ptx_lt(b, at, t->pitch_c);
    ptx_val first = ptxk_over_power_of_two(b, warp, parts);

    to = ptx_add(b, to, ptx_cvt(b, PTX_U64, at));
    for (unsigned k = 0; k < t->shape->row_pieces; k += step) {
        ptx_val piece = ptx_add(b, first, k);
        if (k / step % 2 == 0)
            ptx_comment(b, "rows from %u on", 8 * k);
        ptx_val from = ptx_add(b, t->shared, place_of(b, t, row, piece));
        ptx_vec words = ptx_ldmatrix(b, ptxk_muon_shared_at(b, from), 4, .trans = true);
        ptx_val here = ptx_mad(b, piece, 8, ptx_add(b, t->column, ptx_shr(b, lane, 2)));
        ptx_if (b, ptx_and(b, inside, ptx_lt(b, here, t->columns)))
            ptx_store_vec(b, ptxk_muon_global(b, PTX_B32, ptx_mad_wide(b, here, t->pitch_c, to)), 0,
                          words);
    }
}

void ptxk_muon_read_rest(ptx_builder *b, struct tile *to)
{
    struct tile t = *to;

    t.c = ADDRESS(c);
    t.q = ADDRESS(q);
    t.pitch_c = NUMBER(pitch_c);
    t.alpha = SCALAR(alpha);
    t.beta = SCALAR(beta);
    t.diagonal = SCALAR(diagonal);
    *to = t;
}

ptx_val ptxk_muon_taken_at(ptx_builder *b, const struct ptxk_muon_taken *from, ptx_val row,
                           ptx_val along)
{
    const struct tile *t = from->tile;
    ptx_val place = place_of(b, t, row, ptx_shr(b, along, 3));
    ptx_val within = ptx_mul(b, ptx_and(b, along, 7), 2);

    return ptx_add(b, ptx_add(b, t->shared, place), within);
}

void ptxk_muon_taken_column(ptx_builder *b, const struct ptxk_muon_taken *from, ptx_val column,
                            ptx_val along, ptx_val to[4])
{
    // Of the 16 rows the first tile of 8 x 8 has 0, 1, 4, 5, 8, 9, 12 and 13, the second the
    // others, so that the two rows that a lane gets of each follow one another.
    ptx_val lane = ptx_laneid(b), low = ptx_and(b, lane, 7), tile = ptx_shr(b, lane, 3);
    ptx_val first = ptx_sub(b, along, ptx_mul(b, ptx_and(b, lane, 3), 4));
    ptx_val row = ptx_mad(b, ptx_shr(b, low, 1), 4, ptx_and(b, low, 1));
    row = ptx_add(b, ptx_mad(b, ptx_and(b, tile, 1), 2, row), first);
    ptx_val place = place_of(b, from->tile, row, ptx_shr(b, column, 3));
    ptx_ptr at = ptxk_muon_shared_at(b, ptx_add(b, from->tile->shared, place));
    ptx_vec words = ptx_ldmatrix(b, at, 2, .trans = true);

    for (unsigned k = 0; k < 4; k++)
        to[k] = ptx_unpack(b, PTX_F16, words.lane[k / 2]).lane[k % 2];
}

struct ptxk_muon_taken ptxk_muon_taken_of(const struct tile *t, ptx_val taken)
{
    return (struct ptxk_muon_taken) { .taken = taken,
                                      .rows = t->rows,
                                      .columns = t->columns,
                                      .row = t->row,
                                      .column = t->column,
                                      .tid = t->tid,
                                      .side = t->shape->side,
                                      .tile = t };
}

static void write_tile(ptx_builder *b, const struct tile *t)
{
    ptx_val to = ptx_var(b, t->c), mirrored = ptx_and(b, t->symmetric, t->off_diagonal);

    ptx_comment(b, "C, and then Q");
    ptx_loop (b) {
        write_rows(b, t, to);
        ptx_if (b, mirrored)
            write_mirrored(b, t, to);
        ptx_comment(b, "ends without a Q, and after it");
        ptx_break_if(b, ptx_or(b, ptx_eq(b, t->q, 0), ptx_eq(b, to, t->q)));
        ptx_barrier(b);
        ptx_if (b, ptx_not(b, t->aside))
            add_diagonal(b, t);
        ptx_barrier(b);
        ptx_set(b, to, t->q);
    }
}

void ptxk_muon_finish_tile(ptx_builder *b, struct tile *t, const struct muon_warp *warp,
                           ptx_fragment *sums, const struct ptxk_muon_takes *takes)
{
    ptx_comment(b, "what becomes of the sums");
    struct muon_lane lane = ptxk_muon_lane(b);
    if (!t->c.kind)
        ptxk_muon_read_rest(b, t);
    ptx_if (b, ptx_ne(b, t->e, 0))
        add_addend(b, t, warp, &lane, sums);
    ptx_barrier(b);
    if (t->shape->groups)
        finish_group(b, t, warp, &lane, sums);
    else
        finish(b, t, warp, &lane, sums);
    ptx_barrier(b);
    if (!takes) {
        write_tile(b, t);
        return;
    }
    ptx_val taken = NUMBER_OF(t, taken);
    ptx_if (b, ptx_ne(b, taken, 0)) {
        ptx_comment(b, "the tile is taken");
        const struct ptxk_muon_taken from = ptxk_muon_taken_of(t, taken);
        takes->take(b, takes->user, &from);
    }
    ptx_else (b) {
        ptx_comment(b, "the tile is written");
        write_tile(b, t);
    }
}
