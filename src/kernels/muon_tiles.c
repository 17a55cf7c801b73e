// SPDX-License-Identifier: MIT
// All products of many matrices, in one launch. Blocks take tiles of 128 x 128, or slices of their
// depth, in the order of a table, in which a matrix's products follow one another; a tile waits
// until all of the products before it are done. It waits for tiles that were taken before it alone,
// so that some block always goes on, however many are resident. The last block of a tile to end
// adds up the slices in their order. Of a symmetric product the tiles below the diagonal are
// computed, and written on both sides.
#include "muon_panel.h"

#include "common/common.h"

// A tile of `side` rows and columns, and what follows from it.
struct shape {
    uint32_t side;
    uint32_t bytes, stage;           // of one operand's part of a stage, and of all of it
    uint32_t copies;                 // of a thread and an operand
    unsigned down, pairs;            // fragments of a warp's rows, and pairs of its columns
    unsigned across, wide;           // fragments, and warps beside each other
    unsigned sums;                   //
    uint32_t pitch;                  // of a row of the finished tile in shared memory
    uint32_t row_pieces, rows_apart; // and from a thread's row to its next
    uint32_t partial;                // bytes of partial sums
    uint32_t in_square;              // tiles of a side of a square that is not mirrored within
};

enum { MOST_SUMS = 32, MOST_ACROSS = 8 };

static struct shape shape_of(uint32_t side)
{
    struct shape s = { .side = side, .bytes = side * MUON_DEPTH * 2 };

    s.stage = 2 * s.bytes;
    s.copies = s.bytes / MUON_PIECE / MUON_THREADS;
    s.down = side / 32;
    s.pairs = side / 32;
    s.across = 2 * s.pairs;
    s.wide = side / (16 * s.pairs);
    s.sums = s.down * s.across;
    s.pitch = 2 * side + MUON_PIECE;
    s.row_pieces = side / 8;
    s.rows_apart = MUON_THREADS / s.row_pieces;
    s.partial = side * side * 4;
    s.in_square = MUON_TILE / side;
    return s;
}

struct tile {
    const struct shape *shape;
    ptx_ptr product;
    ptx_val a, b, c, e, q, partials, counters; // addresses
    ptx_val rows, columns, pitch_a, pitch_b, pitch_c, depth;
    ptx_val alpha, beta, diagonal;
    ptx_val across, symmetric, slices, slice, place;
    ptx_val row, column;    // the first, in elements
    ptx_val begin, end;     // of the depth, in bytes
    ptx_val tid, shared;    // the address of dynamic shared memory
    ptx_val aside;          // it is not on the diagonal
    ptx_val off_diagonal;   // nor in a square there, whose tiles are not mirrored
    ptx_val two;            // the rows of A and of B differ: not so on the diagonal of X X^T
    ptx_val wanted, addend; // whether E is still to be copied, and the stage that it is in
};

// What all blocks take their tiles from.
struct queue {
    const struct shape *shape;
    ptx_ptr products, tiles, turns, done; // global
    ptx_val tiles_count, matrices, tid, shared;
    ptx_ptr turn; // shared: the block's next tile
    ptx_val next; // of thread 0: that one, while the tile before it is computed
};

// ---- the tables ---------------------------------------------------------------------------------

static ptx_val word(ptx_builder *b, ptx_ptr product, ptx_type type, uint32_t place)
{
    return ptx_load(b, ptx_ptr_cast(b, type, product), place);
}

#define ADDRESS(member) word(b, t.product, PTX_U64, MUON_PLACE(uint64_t, muon_product, member))
#define NUMBER(member)  word(b, t.product, PTX_U32, MUON_PLACE(uint32_t, muon_product, member))
#define NUMBER_OF(t, member)                                                                       \
    word(b, (t)->product, PTX_U32, MUON_PLACE(uint32_t, muon_product, member))
#define SCALAR(member) word(b, t.product, PTX_F32, MUON_PLACE(float, muon_product, member))

static struct tile read_tables(ptx_builder *b, const struct queue *q, ptx_val turn)
{
    struct tile t = { .shape = q->shape, .tid = q->tid, .shared = q->shared };

    ptx_comment(b, "the tile, and the product that it belongs to");
    const uint32_t words = sizeof(struct muon_tile) / 4;
    ptx_ptr own = ptx_at(b, q->tiles, ptx_mul_wide(b, turn, words));
    ptx_val product = ptx_load(b, own, MUON_PLACE(uint32_t, muon_tile, product));
    const uint32_t length = sizeof(struct muon_product) / 8;
    t.product = ptx_at(b, q->products, ptx_mul_wide(b, product, length));
    ptx_val row = ptx_load(b, own, MUON_PLACE(uint32_t, muon_tile, row));
    ptx_val column = ptx_load(b, own, MUON_PLACE(uint32_t, muon_tile, column));
    t.slice = ptx_load(b, own, MUON_PLACE(uint32_t, muon_tile, slice));
    t.place = ptx_load(b, own, MUON_PLACE(uint32_t, muon_tile, place));
    t.row = ptx_mul(b, row, q->shape->side);
    t.column = ptx_mul(b, column, q->shape->side);
    t.aside = ptx_ne(b, row, column);
    t.off_diagonal = t.aside;
    if (t.shape->in_square > 1) {
        const uint32_t square = t.shape->in_square;
        t.off_diagonal = ptx_ne(b, ptxk_over_power_of_two(b, row, square),
                                ptxk_over_power_of_two(b, column, square));
    }
    ptx_comment(b, "the product");
    t.a = ADDRESS(a);
    t.b = ADDRESS(b);
    t.e = ADDRESS(e);
    t.rows = NUMBER(rows);
    t.columns = NUMBER(columns);
    t.pitch_a = NUMBER(pitch_a);
    t.pitch_b = NUMBER(pitch_b);
    t.depth = NUMBER(depth);
    t.across = ptx_ne(b, NUMBER(across), 0);
    t.symmetric = ptx_ne(b, NUMBER(symmetric), 0);
    t.two = ptx_or(b, t.aside, ptx_not(b, t.symmetric));
    t.slices = NUMBER(slices);
    ptx_val slice = ptx_mul(b, NUMBER(slice), 2);
    t.begin = ptx_mul(b, t.slice, slice);
    t.end = ptx_min(b, ptx_add(b, t.begin, slice), t.depth);
    return t;
}

// What only the last part needs is read there: registers are scarce before.
static void read_rest(ptx_builder *b, struct tile *to)
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

// ---- copies -------------------------------------------------------------------------------------

static ptx_ptr global(ptx_builder *b, ptx_type type, ptx_val address)
{
    return ptx_ptr_from(b, type, PTX_SPACE_GLOBAL, address);
}

// 128 rows of 64 elements. Rows past the last are the last: nothing of them is written. Pieces past
// the depth are 0.
static void copy_rows(ptx_builder *b, const struct tile *t, ptx_val from, ptx_val first,
                      ptx_val rows, ptx_val pitch, ptx_val at, ptx_val taken, ptx_val to)
{
    enum { STEP = MUON_THREADS / 8 };
    ptx_val row = ptx_add(b, first, ptx_shr(b, t->tid, 3)), last = ptx_sub(b, rows, 1);
    ptx_val source = ptx_add(b, from, ptx_cvt(b, PTX_U64, at));
    ptx_ptr target = ptxk_muon_shared_at(b, to);

    for (unsigned k = 0; k < t->shape->copies; k++) {
        if (k % 2 == 0)
            ptx_comment(b, "copies from row %u on", k * STEP);
        ptx_val here = ptx_min(b, ptx_add(b, row, k * STEP), last);
        ptx_ptr piece = global(b, PTX_F16, ptx_mad_wide(b, here, pitch, source));
        ptx_cp_async(b, ptx_at(b, target, k * STEP * MUON_DEPTH), piece, 16, .taken = taken,
                     .bypass = true);
    }
}

// A thread's piece of a row of the tile, 128 columns, and the first row that it has.
struct part {
    ptx_val row, piece;
    ptx_val at; // of the piece in a row of the matrix, in bytes
};

static struct part part_of(ptx_builder *b, const struct tile *t)
{
    ptx_val piece = ptx_and(b, t->tid, t->shape->row_pieces - 1);
    ptx_val row = ptxk_over_power_of_two(b, t->tid, t->shape->row_pieces);

    return (struct part) { row, piece, ptx_mad(b, piece, MUON_PIECE, ptx_mul(b, t->column, 2)) };
}

// Where piece `piece` of row `row` of E is in its stage: the rows of a load are in all banks.
static ptx_val place_of_addend(ptx_builder *b, const struct tile *t, ptx_val row, ptx_val piece)
{
    ptx_val at = ptx_xor(b, piece, ptx_and(b, row, 7));

    return ptx_mad(b, row, 2 * t->shape->side, ptx_mul(b, at, MUON_PIECE));
}

// Begins to copy the tile of E into a stage. Outside of E another row or piece of it is taken: what
// becomes of it is not written.
static void copy_addend(ptx_builder *b, const struct tile *t, ptx_val to)
{
    struct part p = part_of(b, t);
    const uint32_t in_product = MUON_PLACE(uint32_t, muon_product, pitch_c);
    ptx_val pitch = word(b, t->product, PTX_U32, in_product), last = ptx_sub(b, t->rows, 1);
    ptx_val at = ptx_min(b, p.at, ptx_sub(b, pitch, MUON_PIECE));
    ptx_val source = ptx_add(b, t->e, ptx_cvt(b, PTX_U64, at));
    ptx_val place = place_of_addend(b, t, p.row, p.piece);
    ptx_ptr target = ptxk_muon_shared_at(b, ptx_add(b, to, place));

    ptx_comment(b, "E, into the stage that no panel needs");
    ptx_val row = ptx_add(b, t->row, p.row);
    for (unsigned k = 0; k < t->shape->side; k += t->shape->rows_apart) {
        if (k / t->shape->rows_apart % 4 == 0)
            ptx_comment(b, "copies from row %u on", k);
        ptx_val here = ptx_min(b, ptx_add(b, row, k), last);
        ptx_ptr from = global(b, PTX_F16, ptx_mad_wide(b, here, pitch, source));
        ptx_cp_async(b, ptx_at(b, target, k * t->shape->side), from, 16, .bypass = true);
    }
}

// 64 rows of 128 columns, as two panels.
static void copy_columns(ptx_builder *b, const struct tile *t, ptx_val first, ptx_val to)
{
    struct part p = part_of(b, t);
    ptx_val most = ptx_sub(b, t->pitch_b, MUON_PIECE), count = ptx_shr(b, t->depth, 1);
    ptx_val column = ptx_min(b, p.at, most);
    ptx_val source = ptx_add(b, t->b, ptx_cvt(b, PTX_U64, column));
    ptx_val panel = ptx_mul(b, ptx_shr(b, p.piece, 3), MUON_DEPTH * MUON_ROW);
    ptx_val in_panel = ptxk_muon_piece(b, p.row, ptx_and(b, p.piece, 7));
    ptx_ptr target = ptxk_muon_shared_at(b, ptx_add(b, to, ptx_add(b, panel, in_panel)));
    ptx_val last = ptx_sub(b, ptx_min(b, count, t->rows), 1);

    ptx_val row = ptx_add(b, p.row, ptx_shr(b, first, 1));
    for (unsigned k = 0; k < MUON_DEPTH; k += t->shape->rows_apart) {
        if (k / t->shape->rows_apart % 2 == 0)
            ptx_comment(b, "copies from row %u on", k);
        ptx_val here = ptx_min(b, ptx_add(b, row, k), last);
        ptx_ptr from = global(b, PTX_F16, ptx_mad_wide(b, here, t->pitch_b, source));
        ptx_cp_async(b, ptx_at(b, target, k * MUON_DEPTH), from, 16, .bypass = true);
    }
}

// Begins to copy a stage if there is one, and makes a group of the copies.
static void copy_stage(ptx_builder *b, const struct tile *t, bool across, ptx_val depth,
                       ptx_val stage)
{
    ptx_if (b, ptx_lt(b, depth, t->end)) {
        ptx_comment(b, "a stage: its part of A");
        ptx_val piece = ptx_and(b, t->tid, 7);
        ptx_val at = ptx_mad(b, piece, MUON_PIECE, depth);
        ptx_val inside = ptx_lt(b, at, t->end);
        ptx_val taken = ptx_select(b, inside, ptx_u32(MUON_PIECE), ptx_u32(0));
        at = ptx_select(b, inside, at, ptx_u32(0));
        ptx_val to = ptx_add(b, stage, ptxk_muon_piece(b, ptx_shr(b, t->tid, 3), piece));
        copy_rows(b, t, t->a, t->row, t->rows, t->pitch_a, at, taken, to);
        ptx_comment(b, "its part of B");
        if (across)
            copy_columns(b, t, depth, ptx_add(b, stage, t->shape->bytes));
        else
            ptx_if (b, t->two)
                copy_rows(b, t, t->b, t->column, t->columns, t->pitch_b, at, taken,
                          ptx_add(b, to, t->shape->bytes));
    }
    ptx_cp_async_commit(b);
}

static void sum(ptx_builder *b, const struct tile *t, const struct muon_warp *warp, bool across,
                const struct muon_part part[2], ptx_fragment *sums)
{
    ptx_comment(b, across ? "sums of A B: B by its rows" : "sums of A B^T: B by its columns");
    for (unsigned k = 0; k < MUON_STAGES - 1; k++) {
        ptx_val depth = ptx_add(b, t->begin, k * MUON_ROW);
        copy_stage(b, t, across, depth, ptx_add(b, t->shared, k * t->shape->stage));
    }
    // A warp whose part is outside of the matrix multiplies nothing.
    ptx_val has_rows = ptx_lt(b, ptx_add(b, t->row, warp->row), t->rows);
    ptx_val has = ptx_and(b, has_rows, ptx_lt(b, ptx_add(b, t->column, warp->column), t->columns));
    ptx_val end = ptx_add(b, t->shared, MUON_STAGES * t->shape->stage);
    ptx_val read = ptx_var(b, t->shared);
    ptx_val filled = ptx_var(b, ptx_add(b, t->shared, (MUON_STAGES - 1) * t->shape->stage));
    ptx_val right = ptx_u32(t->shape->bytes); // the part of B in a stage
    if (!across)
        right = ptx_select(b, t->two, right, ptx_u32(0));
    ptx_comment(b, "the first stage, and its first part");
    ptx_cp_async_wait(b, MUON_STAGES - 2);
    ptx_barrier(b);
    ptx_if (b, has)
        ptxk_muon_load_var(b, warp, read, ptx_add(b, read, right), across, 0, &part[0]);
    ptx_for (b, depth, t->begin, t->end, MUON_ROW) {
        ptx_val next_depth = ptx_add(b, depth, (MUON_STAGES - 1) * MUON_ROW);
        if (across)
            ptx_if (b, ptx_and(b, t->wanted, ptx_ge(b, next_depth, t->end))) {
                copy_addend(b, t, filled);
                ptx_set(b, t->addend, filled);
                ptx_set(b, t->wanted, ptx_bool(false));
            }
        copy_stage(b, t, across, next_depth, filled);
        ptx_comment(b, "a panel of 64 of the depth: each part is loaded before the last is used");
        ptx_val beside = ptx_add(b, read, right);
        ptx_if (b, has)
            for (unsigned step = 0; step + 1 < MUON_STEPS; step++) {
                const struct muon_part *next = &part[(step + 1) % 2];
                ptxk_muon_load_var(b, warp, read, beside, across, step + 1, next);
                ptxk_muon_add(b, warp, &part[step % 2], sums);
            }
        ptx_cp_async_wait(b, MUON_STAGES - 2);
        ptx_comment(b, "the next stage is there for all, and all have read the one filled next");
        ptx_barrier(b);
        ptx_set(b, filled, read);
        ptx_val next = ptx_add(b, read, t->shape->stage);
        ptx_set(b, read, ptx_select(b, ptx_eq(b, next, end), t->shared, next));
        beside = ptx_add(b, read, right);
        ptx_if (b, has) {
            ptxk_muon_load_var(b, warp, read, beside, across, 0, &part[0]);
            ptxk_muon_add(b, warp, &part[(MUON_STEPS - 1) % 2], sums);
        }
    }
    ptx_cp_async_wait_all(b);
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

// Stores this slice's sums. The last block of the tile adds up all of them. Returns whether this
// one is: a predicate.
static ptx_val add_slices(ptx_builder *b, const struct tile *t, ptx_fragment *sums)
{
    const uint32_t words_of_tile = t->shape->partial / 4;
    // All have left the stages when it is written. An array of its own would move the stages from
    // the boundaries of 128 bytes, across which copies take twice the time.
    ptx_ptr last = ptx_ptr_cast(b, PTX_U32, ptxk_muon_shared_at(b, t->shared));
    ptx_val finishes = ptx_var(b, ptx_bool(true));

    ptx_if (b, ptx_gt(b, t->slices, 1)) {
        ptx_comment(b, "this slice's sums, in the order of the threads");
        struct tile rest = *t;
        rest.partials = word(b, t->product, PTX_U64, MUON_PLACE(uint64_t, muon_product, partials));
        rest.counters = word(b, t->product, PTX_U64, MUON_PLACE(uint64_t, muon_product, counters));
        ptx_val first = ptx_mul(b, t->place, t->slices);
        ptx_ptr partials =
            ptx_at(b, global(b, PTX_F32, rest.partials),
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
            ptx_ptr counter = ptx_at(b, global(b, PTX_U32, rest.counters), t->place);
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
    ptx_val row = ptx_add(b, warp->row, lane->row), piece = ptx_shr(b, warp->column, 3);
    ptx_val within = ptx_mad(b, lane->column, 2, t->addend);

    ptx_comment(b, "alpha E");
    ptx_barrier(b);
    for (unsigned n = 0; n < t->shape->across; n++) {
        ptx_val place = place_of_addend(b, t, row, ptx_add(b, piece, n));
        ptx_val at = ptx_add(b, within, place);
        ptx_ptr from = ptx_ptr_cast(b, PTX_B32, ptxk_muon_shared_at(b, at));
        for (unsigned m = 0; m < t->shape->down; m++) {
            ptx_comment(b, "rows %u and 8 below, column %u", 16 * m, 8 * n);
            ptx_fragment *sum = &sums[m * t->shape->across + n];
            ptx_vec words = ptx_fragment_words(b, *sum);
            for (unsigned half = 0; half < 2; half++) {
                const unsigned below = 16 * m + 8 * half;
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
        ptx_val row = ptx_add(b, ptx_add(b, warp->row, lane->row), 8 * m);
        ptx_val there = ptx_lt(b, row, rows);
        ptx_val within = ptx_mul(b, ptx_and(b, in_tile, 7), 2);
        for (unsigned n = 0; n < t->shape->across; n++) {
            ptx_vec words = ptx_fragment_words(b, sums[m / 2 * t->shape->across + n]);
            ptx_val x[2];
            if (n % 2 == 0)
                ptx_comment(b, "row %u, columns from %u on", 8 * m, 8 * n);
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
    struct part p = part_of(b, t);

    to = ptx_add(b, to, ptx_cvt(b, PTX_U64, p.at));
    ptx_val inside = ptx_lt(b, p.at, t->pitch_c);
    for (unsigned k = 0; k < t->shape->side; k += t->shape->rows_apart) {
        if (k / t->shape->rows_apart % 2 == 0)
            ptx_comment(b, "rows from %u on", k);
        ptx_val local = ptx_add(b, p.row, k), here = ptx_add(b, t->row, local);
        ptx_if (b, ptx_and(b, inside, ptx_lt(b, here, t->rows))) {
            ptx_val from = ptx_add(b, t->shared, place_of(b, t, local, p.piece));
            ptx_ptr words = ptx_ptr_cast(b, PTX_B32, ptxk_muon_shared_at(b, from));
            ptx_ptr target = global(b, PTX_B32, ptx_mad_wide(b, here, t->pitch_c, to));
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
            ptx_store_vec(b, global(b, PTX_B32, ptx_mad_wide(b, here, t->pitch_c, to)), 0, words);
    }
}

static void finish_tile(ptx_builder *b, struct tile *t, const struct muon_warp *warp,
                        ptx_fragment *sums)
{
    ptx_comment(b, "what becomes of the sums");
    struct muon_lane lane = ptxk_muon_lane(b);
    read_rest(b, t);
    ptx_if (b, ptx_ne(b, t->e, 0))
        add_addend(b, t, warp, &lane, sums);
    ptx_barrier(b);
    finish(b, t, warp, &lane, sums);
    ptx_barrier(b);
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

// ---- turns --------------------------------------------------------------------------------------

static struct queue queue_params(ptx_builder *b, const struct shape *shape)
{
    struct queue q = { .shape = shape, .tid = ptx_tid(b, PTX_X) };

    q.products = ptx_param_ptr(b, PTX_U64, "products", .readonly = true,
                               .meaning = "rows of struct muon_product");
    q.tiles = ptx_param_ptr(b, PTX_U32, "tiles", .readonly = true,
                            .meaning = "rows of struct muon_tile, in the order of their turns");
    q.turns = ptx_param_ptr(b, PTX_U32, "turns", .length = "2",
                            .meaning = "turns taken, blocks that have ended; 0 before and after");
    q.done = ptx_param_ptr(b, PTX_U32, "done",
                           .meaning = "a matrix's tiles that are done; 0 before and after");
    q.tiles_count = ptx_param(b, PTX_U32, "tile_count");
    q.matrices = ptx_param(b, PTX_U32, "matrix_count");
    q.shared = ptx_ptr_address(b, ptx_shared_dynamic(b, PTX_F16));
    ptx_val behind = ptx_add(b, q.shared, MUON_STAGES * shape->stage);
    q.turn = ptx_ptr_cast(b, PTX_U32, ptxk_muon_shared_at(b, behind));
    q.next = ptx_var(b, ptx_u32(0));
    return q;
}

// Executed by thread 0.
static ptx_val take_turn(ptx_builder *b, const struct queue *q)
{
    return ptx_atomic_add(b, q->turns, 0, 1);
}

// Waits until the products before the tile's are done, and takes the turn after it.
static void wait_for_others(ptx_builder *b, const struct queue *q, const struct tile *t)
{
    ptx_val matrix = NUMBER_OF(t, matrix), needed = NUMBER_OF(t, needed);

    ptx_if (b, ptx_eq(b, q->tid, 0)) {
        ptx_comment(b, "until the products before it are done");
        ptx_ptr done = ptx_at(b, q->done, matrix);
        ptx_loop (b) {
            ptx_val now = ptx_load(b, done, 0, .order = PTX_ORDER_ACQUIRE, .scope = PTX_SCOPE_GPU);
            ptx_break_if(b, ptx_ge(b, now, needed));
        }
        ptx_set(b, q->next, take_turn(b, q));
    }
    ptx_barrier(b);
}

// Executed by all threads: says that the tile is done, and hands on the next turn.
static void tell_others(ptx_builder *b, const struct queue *q, const struct tile *t, ptx_val done)
{
    ptx_val matrix = NUMBER_OF(t, matrix);

    ptx_barrier(b);
    ptx_if (b, ptx_eq(b, q->tid, 0)) {
        ptx_store(b, q->turn, 0, q->next);
        ptx_if (b, done) {
            ptx_comment(b, "what the block has written comes before it");
            ptx_fence(b, PTX_ORDER_ACQ_REL, PTX_SCOPE_GPU);
            ptx_atomic(b, PTX_ATOMIC_add, ptx_at(b, q->done, matrix), 0, 1,
                       .order = PTX_ORDER_RELEASE, .scope = PTX_SCOPE_GPU);
        }
    }
}

// The last block to end leaves the counters as they were.
static void end_queue(ptx_builder *b, const struct queue *q)
{
    ptx_if (b, ptx_eq(b, q->tid, 0)) {
        ptx_val before = ptx_atomic(b, PTX_ATOMIC_add, q->turns, 1, 1, .order = PTX_ORDER_ACQ_REL,
                                    .scope = PTX_SCOPE_GPU);
        ptx_val last = ptx_eq(b, ptx_add(b, before, 1), ptx_nctaid(b, PTX_X));
        ptx_store(b, q->turn, 0, ptx_select(b, last, ptx_u32(1), ptx_u32(0)));
    }
    ptx_barrier(b);
    ptx_if (b, ptx_ne(b, ptx_load(b, q->turn, 0), 0)) {
        ptx_comment(b, "the last block to end: counters become 0");
        ptx_if (b, ptx_lt(b, q->tid, 2))
            ptx_store(b, q->turns, q->tid, ptx_u32(0));
        ptx_for (b, k, q->tid, q->matrices, MUON_THREADS)
            ptx_store(b, q->done, k, ptx_u32(0));
    }
}

void ptxk_muon_tiles_emit(ptx_builder *b, uint32_t side)
{
    const struct shape shape = shape_of(side);
    ptxk_muon_lead(b);
    struct queue q = queue_params(b, &shape);
    struct muon_warp warp =
        ptxk_muon_warp(b, shape.down, shape.pairs, shape.wide, MUON_DEPTH * MUON_ROW);
    ptx_fragment sums[MOST_SUMS];
    struct muon_part part[2];

    ptxk_muon_zero(b, &warp, sums, true);
    for (unsigned k = 0; k < 2; k++)
        ptxk_muon_part_var(b, &warp, &part[k]);
    ptx_if (b, ptx_eq(b, q.tid, 0))
        ptx_store(b, q.turn, 0, take_turn(b, &q));
    ptx_loop (b) {
        ptx_comment(b, "the block's next tile; all have left the last one");
        ptx_barrier(b);
        ptx_val turn = ptx_load(b, q.turn, 0);
        ptx_break_if(b, ptx_ge(b, turn, q.tiles_count));
        struct tile t = read_tables(b, &q, turn);
        ptxk_muon_zero(b, &warp, sums, false);
        t.wanted = ptx_var(b, ptx_ne(b, t.e, 0));
        t.addend = ptx_var(b, t.shared);
        wait_for_others(b, &q, &t);
        ptx_if (b, t.across)
            sum(b, &t, &warp, true, part, sums);
        ptx_else (b)
            sum(b, &t, &warp, false, part, sums);
        ptx_val finishes = add_slices(b, &t, sums);
        ptx_if (b, finishes)
            finish_tile(b, &t, &warp, sums);
        tell_others(b, &q, &t, finishes);
    }
    ptx_barrier(b);
    end_queue(b, &q);
    ptxk_muon_follow(b);
}
