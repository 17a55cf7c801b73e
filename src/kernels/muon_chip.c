// SPDX-License-Identifier: MIT
// All products of a matrix of at most 64 or 128 rows, by one block: R, Z and Q stay in shared
// memory, and X passes through it, 64 columns at a time, and is written where it was. The last X
// may be taken in its place, and the first given, as muon_chip.h says. Then the X of a restart need
// not be written: its Q is kept, and at the end 64 columns of the first X are multiplied by both.
#include "muon_chip.h"
#include "muon_panel.h"

#include "common/common.h"

enum { STAGES = 3, THREADS = MUON_CHIP_THREADS, MOST_SUMS = 32, MOST_PART = 16, MOST_PAIRS = 16 };

// X X^T is symmetric to the last bit, and is computed on one side of the diagonal: by a warp whose
// square is on the diagonal, its own triangle; by the two others, half of the square below it each.
struct half {
    ptx_val on_diagonal; // a predicate
    ptx_val down, back;  // u32: bytes of a panel from the warp's own rows and columns to these
};

struct ptxk_muon_chip {
    bool groups;           // multiplied by a warpgroup
    unsigned size, panels; // rows that there is room for
    unsigned copies;       // of a thread, for a stage
    uint32_t stage;        // bytes of 64 columns
    ptx_val x;             // address of X
    ptx_val rows, columns, pitch;
    ptx_val taken, given, kept;       // of struct muon_chip
    ptx_val keeps;                    // a predicate: it has kept; poisoned where it cannot have
    ptx_val tid, shared, r, z, q;     // addresses of R, Z and Q
    struct muon_warp square, passing; // of R, Z and Q; of 64 columns of Q X
    struct half half;                 // of X X^T
    struct muon_lane lane;
    ptx_fragment sums[MOST_SUMS], part[MOST_PART];
};

static uint32_t square_bytes(unsigned size)
{
    return size * size * 2;
}

// R and Z, or the stages and what is written.
static uint32_t passing_bytes(unsigned size)
{
    const uint32_t stages = (STAGES + 1) * size * MUON_ROW, squares = 2 * square_bytes(size);

    return stages > squares ? stages : squares;
}

// ---- X ------------------------------------------------------------------------------------------

// Of 64 columns, `at` bytes from the first: the rows and the piece that a thread has.
struct part {
    ptx_val row, inside; // the first of the rows; whether X has the piece's columns
    ptx_val x;           // address of the piece in row 0 of X
    ptx_ptr panel;       // and of that in the first row, in shared memory
};
enum { NEXT = THREADS / 8 }; // rows from one to the next

static struct part part_of(ptx_builder *b, const struct ptxk_muon_chip *c, ptx_val at,
                           ptx_val panel)
{
    ptx_val piece = ptx_and(b, c->tid, 7), row = ptx_shr(b, c->tid, 3);
    ptx_val column = ptx_mad(b, piece, MUON_PIECE, at);
    ptx_val inside = ptx_lt(b, column, c->pitch);
    ptx_val x = ptx_add(b, c->x, ptx_cvt(b, PTX_U64, column));
    ptx_val place = ptx_add(b, panel, ptxk_muon_piece(b, row, piece));

    return (struct part) { row, inside, x, ptxk_muon_shared_at(b, place) };
}

// Begins to copy 64 columns; what is outside of X is 0.
static void copy(ptx_builder *b, const struct ptxk_muon_chip *c, ptx_val at, ptx_val to)
{
    struct part p = part_of(b, c, at, to);

    ptx_comment(b, "copies of 64 columns, 0 outside of X");
    for (unsigned k = 0; k < c->copies; k++) {
        if (k % 2 == 0)
            ptx_comment(b, "from row %u on", k * NEXT);
        ptx_val here = ptx_add(b, p.row, k * NEXT);
        ptx_val there = ptx_and(b, p.inside, ptx_lt(b, here, c->rows));
        ptx_val taken = ptx_select(b, there, ptx_u32(MUON_PIECE), ptx_u32(0));
        ptx_val source = ptx_select(b, there, ptx_mad_wide(b, here, c->pitch, p.x), c->x);
        ptx_cp_async(b, ptx_at(b, p.panel, k * NEXT * MUON_DEPTH),
                     ptxk_muon_global(b, PTX_F16, source), 16, .taken = taken, .bypass = true);
    }
}

static void copy_stage(ptx_builder *b, const struct ptxk_muon_chip *c, ptx_val at, ptx_val to)
{
    ptx_if (b, ptx_lt(b, at, c->pitch))
        copy(b, c, at, to);
    ptx_cp_async_commit(b);
}

// Writes 64 columns from shared memory.
static void write(ptx_builder *b, const struct ptxk_muon_chip *c, ptx_val at, ptx_val from)
{
    struct part p = part_of(b, c, at, from);

    ptx_comment(b, "writes 64 columns of X");
    for (unsigned k = 0; k < c->copies; k++) {
        if (k % 2 == 0)
            ptx_comment(b, "from row %u on", k * NEXT);
        ptx_val here = ptx_add(b, p.row, k * NEXT);
        ptx_if (b, ptx_and(b, p.inside, ptx_lt(b, here, c->rows))) {
            ptx_ptr words = ptx_ptr_cast(b, PTX_B32, ptx_at(b, p.panel, k * NEXT * MUON_DEPTH));
            ptx_ptr target = ptxk_muon_global(b, PTX_B32, ptx_mad_wide(b, here, c->pitch, p.x));
            ptx_store_vec(b, target, 0, ptx_load_vec(b, words, 0, 4));
        }
    }
}

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

// What is stored of the sums: alpha E + beta * sums in `to`, rounded; and that + diagonal I in `q`.
struct combined {
    ptx_val to, e, alpha, beta;
    ptx_val q, diagonal;
};

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
                       const ptx_fragment *sums, struct combined how)
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

// A barrier behind which all threads may multiply what any of them has written.
static void meet(ptx_builder *b, const struct ptxk_muon_chip *c)
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

static void multiplied(ptx_builder *b, const struct ptxk_muon_chip *c)
{
    if (c->groups)
        ptxk_muon_group_wait(b, 0);
}

// The sums of a product of R, Z, Q or X, of size x size.
static void square(ptx_builder *b, struct ptxk_muon_chip *c, ptx_val left, ptx_val right)
{
    ptx_comment(b, "a product of %u x %u", c->size, c->size);
    ptxk_muon_zero(b, &c->square, c->sums, false);
    for (unsigned k = 0; k < c->panels; k++) {
        ptx_val beside = ptx_add(b, right, k * MUON_DEPTH * MUON_ROW);
        multiply(b, c, &c->square, ptx_add(b, left, k * c->size * MUON_ROW), beside, true, c->sums);
    }
    multiplied(b, c);
}

// ---- X X^T --------------------------------------------------------------------------------------

static struct half half_of(ptx_builder *b, unsigned size)
{
    ptx_val number = ptx_shr(b, ptx_tid(b, PTX_X), 5);
    ptx_val above = ptx_eq(b, number, 1), middle = ptx_eq(b, number, 2);
    struct half half;

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

// Adds the products of 64 columns of X.
static void multiply_half(ptx_builder *b, struct ptxk_muon_chip *c, ptx_val panel)
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

static void store_gram(ptx_builder *b, struct ptxk_muon_chip *c)
{
    if (c->groups) {
        store_sums(b, c, &c->square, c->sums, (struct combined) { .to = c->r });
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

// A product that is stored where one of its factors, or E, is.
static void replace(ptx_builder *b, struct ptxk_muon_chip *c, ptx_val left, ptx_val right,
                    struct combined how)
{
    square(b, c, left, right);
    ptx_barrier(b);
    store_sums(b, c, &c->square, c->sums, how);
    meet(b, c);
}

// 64 columns of Q X, into shared memory at `to`; where `replaces` (a predicate, or poisoned) holds,
// that is where they are read.
static void pass(ptx_builder *b, struct ptxk_muon_chip *c, ptx_val q, ptx_val from, ptx_val to,
                 ptx_val replaces)
{
    ptxk_muon_zero(b, &c->passing, c->part, false);
    for (unsigned k = 0; k < c->panels; k++) {
        ptx_val beside = ptx_add(b, from, k * MUON_DEPTH * MUON_ROW);
        multiply(b, c, &c->passing, ptx_add(b, q, k * c->size * MUON_ROW), beside, true, c->part);
    }
    multiplied(b, c);
    if (replaces.kind)
        ptx_if (b, replaces)
            ptx_barrier(b);
    store_sums(b, c, &c->passing, c->part, (struct combined) { .to = to });
}

// What is done with 64 columns of Q X.
struct result {
    bool sums;     // R = X X^T is added up
    ptx_val where; // then, a predicate: only there; or poisoned
    ptxk_muon_take *take;
    void *user;
};

static void sums_add(ptx_builder *b, struct ptxk_muon_chip *c, const struct result *to,
                     ptx_val from)
{
    if (!to->sums)
        return;
    if (!to->where.kind) {
        multiply_half(b, c, from);
        return;
    }
    ptx_if (b, to->where)
        multiply_half(b, c, from);
}

// A warpgroup multiplies while its threads write.
static void result_use(ptx_builder *b, struct ptxk_muon_chip *c, const struct result *to,
                       ptx_val at, ptx_val from)
{
    if (c->groups)
        sums_add(b, c, to, from);
    if (to->take) {
        to->take(b, to->user, ptx_shr(b, at, 1), from);
    } else if (c->keeps.kind) {
        ptx_if (b, ptx_not(b, c->keeps))
            write(b, c, at, from);
    } else {
        write(b, c, at, from);
    }
    if (!c->groups)
        sums_add(b, c, to, from);
}

// Where a thread has its pieces of Q in shared memory and where it is kept, `k` pieces of all
// threads further.
struct kept {
    ptx_ptr shared, global;
};

static struct kept kept_at(ptx_builder *b, const struct ptxk_muon_chip *c, ptx_val shared,
                           unsigned k)
{
    ptx_val at = ptx_mad(b, c->tid, MUON_PIECE, k * THREADS * MUON_PIECE);
    ptx_val to = ptx_add(b, c->kept, ptx_cvt(b, PTX_U64, at));

    return (struct kept) { ptxk_muon_shared_at(b, ptx_add(b, shared, at)),
                           ptxk_muon_global(b, PTX_F16, to) };
}

static void keep(ptx_builder *b, const struct ptxk_muon_chip *c)
{
    ptx_comment(b, "keeps Q, with which X is multiplied again at the end");
    for (unsigned k = 0; k < square_bytes(c->size) / (THREADS * MUON_PIECE); k++) {
        if (k % 4 == 0)
            ptx_comment(b, "pieces from %u on", k);
        const struct kept at = kept_at(b, c, c->q, k);
        ptx_store_vec(b, ptx_ptr_cast(b, PTX_B32, at.global), 0,
                      ptx_load_vec(b, ptx_ptr_cast(b, PTX_B32, at.shared), 0, 4));
    }
}

static void read_kept(ptx_builder *b, const struct ptxk_muon_chip *c, ptx_val to)
{
    ptx_comment(b, "the Q that was kept");
    for (unsigned k = 0; k < square_bytes(c->size) / (THREADS * MUON_PIECE); k++) {
        if (k % 4 == 0)
            ptx_comment(b, "pieces from %u on", k);
        const struct kept at = kept_at(b, c, to, k);
        ptx_cp_async(b, at.shared, at.global, MUON_PIECE, .bypass = true);
    }
}

// X and Q X at the end: where the Q of a restart is kept, there are two stages, which the products
// replace, and behind them is that Q.
static void stream_last(ptx_builder *b, struct ptxk_muon_chip *c, const struct result *to)
{
    ptx_comment(b, "X = Q X, of X as the restart has left it, or with the kept Q before");
    const ptx_val keeps = c->keeps, of_two = ptx_add(b, c->shared, 2 * c->stage);
    ptx_val behind = ptx_add(b, c->shared, STAGES * c->stage);
    ptx_val end = ptx_select(b, keeps, of_two, behind);
    ptx_val ahead = ptx_select(b, keeps, ptx_u32(MUON_ROW), ptx_u32(2 * MUON_ROW));
    ptx_barrier(b);
    ptx_if (b, keeps)
        read_kept(b, c, of_two);
    copy_stage(b, c, ptx_u32(0), c->shared);
    ptx_comment(b, "the second stage, where there are three");
    ptx_if (b, ptx_not(b, keeps))
        ptx_if (b, ptx_lt(b, ptx_u32(MUON_ROW), c->pitch))
            copy(b, c, ptx_u32(MUON_ROW), ptx_add(b, c->shared, c->stage));
    ptx_cp_async_commit(b);
    ptx_comment(b, "the stages: that which is read, and that which is filled");
    ptx_val read = ptx_var(b, c->shared);
    ptx_val filled = ptx_var(b, ptx_sub(b, end, c->stage));
    ptx_for (b, at, ptx_u32(0), c->pitch, ptx_u32(MUON_ROW)) {
        ptx_cp_async_wait(b, STAGES - 2);
        ptx_if (b, keeps)
            ptx_cp_async_wait_all(b);
        meet(b, c);
        copy_stage(b, c, ptx_add(b, at, ahead), filled);
        ptx_comment(b, "64 columns of the kept Q and X");
        ptx_if (b, keeps) {
            pass(b, c, of_two, read, read, keeps);
            meet(b, c);
        }
        ptx_comment(b, "64 columns of Q X");
        ptx_val into = ptx_select(b, keeps, read, behind);
        pass(b, c, c->q, read, into, keeps);
        meet(b, c);
        result_use(b, c, to, at, into);
        ptx_comment(b, "the next stage");
        ptx_set(b, filled, read);
        ptx_val next = ptx_add(b, read, c->stage);
        ptx_set(b, read, ptx_select(b, ptx_eq(b, next, end), c->shared, next));
    }
    ptx_cp_async_wait_all(b);
}

// Passes X through shared memory: the sums of X X^T, or X = Q X, and its result.
static void stream(ptx_builder *b, struct ptxk_muon_chip *c, const struct result *to)
{
    ptx_comment(b, to ? "X = Q X" : "the sums of R = X X^T");
    ptx_barrier(b);
    for (unsigned k = 0; k < STAGES - 1; k++)
        copy_stage(b, c, ptx_u32(k * MUON_ROW), ptx_add(b, c->shared, k * c->stage));
    ptx_comment(b, "the stages: that which is read, and that which is filled");
    ptx_val end = ptx_add(b, c->shared, STAGES * c->stage), read = ptx_var(b, c->shared);
    ptx_val filled = ptx_var(b, ptx_add(b, c->shared, (STAGES - 1) * c->stage));
    ptxk_muon_zero(b, &c->square, c->sums, false);
    ptx_for (b, at, ptx_u32(0), c->pitch, ptx_u32(MUON_ROW)) {
        ptx_cp_async_wait(b, STAGES - 2);
        meet(b, c);
        copy_stage(b, c, ptx_add(b, at, (STAGES - 1) * MUON_ROW), filled);
        if (to) {
            ptx_comment(b, "64 columns of Q X");
            pass(b, c, c->q, read, end, (ptx_val) { 0 });
            meet(b, c);
            result_use(b, c, to, at, end);
        } else {
            multiply_half(b, c, read);
        }
        multiplied(b, c);
        ptx_comment(b, "the next stage");
        ptx_set(b, filled, read);
        ptx_val next = ptx_add(b, read, c->stage);
        ptx_set(b, read, ptx_select(b, ptx_eq(b, next, end), c->shared, next));
    }
    ptx_cp_async_wait_all(b);
    ptx_barrier(b);
    store_gram(b, c);
    meet(b, c);
}

// The sums of X X^T of columns as they are given, which are written while a warpgroup multiplies.
// Two panels take turns: the products of one have ended when all threads have filled the other.
static void stream_given(ptx_builder *b, struct ptxk_muon_chip *c, ptxk_muon_give *give, void *user)
{
    ptx_comment(b, "the sums of R = X X^T, of columns as they are given");
    ptx_val panel = ptx_var(b, c->shared);
    ptx_val both = ptx_add(b, ptx_mul(b, c->shared, 2), c->stage);
    ptxk_muon_zero(b, &c->square, c->sums, false);
    ptx_for (b, at, ptx_u32(0), c->pitch, ptx_u32(MUON_ROW)) {
        give(b, user, ptx_shr(b, at, 1), panel);
        multiplied(b, c);
        meet(b, c);
        multiply_half(b, c, panel);
        write(b, c, at, panel);
        ptx_set(b, panel, ptx_sub(b, both, panel));
    }
    multiplied(b, c);
    ptx_barrier(b);
    store_gram(b, c);
    meet(b, c);
}

void ptxk_muon_chip_first(ptx_builder *b, struct ptxk_muon_chip *chip, ptxk_muon_give *give,
                          void *user)
{
    if (give)
        stream_given(b, chip, give, user);
    else
        stream(b, chip, NULL);
}

struct ptxk_muon_chip_matrix ptxk_muon_chip_matrix(ptx_builder *b,
                                                   const struct ptxk_muon_chip *chip)
{
    return (struct ptxk_muon_chip_matrix) {
        chip->rows,  chip->columns, chip->tid,
        chip->taken, chip->given,   ptx_add(b, chip->shared, 2 * chip->stage)
    };
}

void ptxk_muon_chip_last(ptx_builder *b, struct ptxk_muon_chip *chip, ptxk_muon_take *take,
                         void *user)
{
    stream_last(b, chip, &(struct result) { .take = take, .user = user });
}

// ---- the two forms ------------------------------------------------------------------------------

struct step {
    ptx_val a, b, c, restart;
};

static struct step step_at(ptx_builder *b, ptx_val steps, ptx_val k)
{
    ptx_ptr row =
        ptx_at(b, ptxk_muon_global(b, PTX_F32, steps), ptx_mul(b, k, sizeof(struct muon_step) / 4));
    ptx_vec words = ptx_load_vec(b, row, 0, 4);
    ptx_val restart = ptx_ne(b, ptx_bitcast(b, PTX_U32, words.lane[3]), 0);

    return (struct step) { words.lane[0], words.lane[1], words.lane[2], restart };
}

// X has as many columns as rows, and is where Q is otherwise.
static void plain(ptx_builder *b, struct ptxk_muon_chip *c, ptx_val steps, ptx_val count)
{
    ptx_comment(b, "plain: R = X X^T, Z = b R + c R R, X = a X + Z X");
    for (unsigned k = 0; k < c->panels; k++)
        copy(b, c, ptx_u32(k * MUON_ROW), ptx_add(b, c->q, k * c->size * MUON_ROW));
    ptx_cp_async_wait_all(b);
    meet(b, c);
    ptx_for (b, k, ptx_u32(0), count, ptx_u32(1)) {
        struct step s = step_at(b, steps, k);
        ptxk_muon_zero(b, &c->square, c->sums, false);
        for (unsigned panel = 0; panel < c->panels; panel++)
            multiply_half(b, c, ptx_add(b, c->q, panel * c->size * MUON_ROW));
        multiplied(b, c);
        ptx_barrier(b);
        store_gram(b, c);
        meet(b, c);
        replace(b, c, c->r, c->r,
                (struct combined) { .to = c->z, .e = c->r, .alpha = s.b, .beta = s.c });
        replace(b, c, c->z, c->q, (struct combined) { .to = c->q, .e = c->q, .alpha = s.a });
    }
    for (unsigned k = 0; k < c->panels; k++)
        write(b, c, ptx_u32(k * MUON_ROW), ptx_add(b, c->q, k * c->size * MUON_ROW));
}

// `ends`: NULL: the first X is read, and the last written, as those of a restart are.
static void gram(ptx_builder *b, struct ptxk_muon_chip *c, ptx_val steps, ptx_val count,
                 const struct ptxk_muon_ends *ends)
{
    ptx_comment(b, "Gram: the steps on R alone, and X = Q X at a restart and at the end");
    if (ends)
        ends->first(b, ends->user, c);
    else
        stream(b, c, NULL);
    ptx_val fresh = ptx_var(b, ptx_u32(1));
    ptx_for (b, k, ptx_u32(0), count, ptx_u32(1)) {
        struct step s = step_at(b, steps, k);
        ptx_comment(b, "a step");
        ptx_val is_last = ptx_eq(b, ptx_add(b, k, 1), count);
        ptx_comment(b, "Z = b R + c R R, and Q = Z + a I at first");
        square(b, c, c->r, c->r);
        struct combined z = { .to = c->z, .e = c->r, .alpha = s.b, .beta = s.c };
        ptx_if (b, ptx_ne(b, fresh, 0)) {
            struct combined both = z;
            both.q = c->q, both.diagonal = s.a;
            store_sums(b, c, &c->square, c->sums, both);
            meet(b, c);
        }
        ptx_else (b) {
            store_sums(b, c, &c->square, c->sums, z);
            meet(b, c);
            ptx_comment(b, "Q = a Q + Q Z");
            replace(b, c, c->q, c->z, (struct combined) { .to = c->q, .e = c->q, .alpha = s.a });
        }
        ptx_set(b, fresh, 0);
        ptx_val passes = ptx_or(b, is_last, s.restart);
        ptx_if (b, passes) {
            struct result again = { .sums = true };
            ptx_val goes_on = ptx_not(b, is_last);
            if (ends) {
                ptx_if (b, goes_on) {
                    ptx_if (b, c->keeps)
                        keep(b, c);
                    stream(b, c, &again);
                }
            } else {
                again.where = goes_on;
                stream(b, c, &again);
            }
            ptx_set(b, fresh, 1);
        }
        ptx_else (b) {
            ptx_comment(b, "T = a R + R Z and R = a T + Z T, both where R is");
            struct combined t = { .to = c->r, .e = c->r, .alpha = s.a };
            replace(b, c, c->r, c->z, t);
            replace(b, c, c->z, c->r, t);
        }
    }
    if (ends) {
        ptxk_muon_follow(b);
        ends->last(b, ends->user, c);
    }
}

void ptxk_muon_chip_emit(ptx_builder *b, unsigned size)
{
    ptxk_muon_chip_emit_with(b, size, NULL);
}

void ptxk_muon_chip_emit_with(ptx_builder *b, unsigned size, const struct ptxk_muon_ends *ends)
{
    struct ptxk_muon_chip c = { .size = size, .panels = size / MUON_DEPTH };
    const unsigned down = size / 32;
    c.groups = ptxk_muon_has_groups(b);
    ptxk_muon_lead(b);
    ptx_ptr chips = ptx_param_ptr(b, PTX_U64, "chips", .readonly = true,
                                  .meaning = "a row of struct muon_chip for each block");
    ptx_ptr row =
        ptx_at(b, chips, ptx_mul_wide(b, ptx_ctaid(b, PTX_X), sizeof(struct muon_chip) / 8));
    ptx_ptr words = ptx_ptr_cast(b, PTX_U32, row);

    ptx_comment(b, "the block's matrix");
    c.x = ptx_load(b, row, MUON_PLACE(uint64_t, muon_chip, x));
    ptx_val steps = ptx_load(b, row, MUON_PLACE(uint64_t, muon_chip, steps));
    ptx_val count = ptx_load(b, words, MUON_PLACE(uint32_t, muon_chip, step_count));
    c.rows = ptx_load(b, words, MUON_PLACE(uint32_t, muon_chip, rows));
    c.columns = ptx_load(b, words, MUON_PLACE(uint32_t, muon_chip, columns));
    if (ends) {
        c.taken = ptx_load(b, words, MUON_PLACE(uint32_t, muon_chip, taken));
        c.given = ptx_load(b, words, MUON_PLACE(uint32_t, muon_chip, given));
        c.kept = ptx_load(b, row, MUON_PLACE(uint64_t, muon_chip, kept));
        c.keeps = ptx_ne(b, c.kept, 0);
    }
    c.pitch = ptx_load(b, words, MUON_PLACE(uint32_t, muon_chip, pitch));
    c.stage = size * MUON_ROW;
    c.copies = size * 8 / THREADS;
    c.tid = ptx_tid(b, PTX_X);
    c.shared = c.r = ptxk_muon_dynamic(b);
    c.z = ptx_add(b, c.shared, square_bytes(size));
    c.q = ptx_add(b, c.shared, passing_bytes(size));
    if (c.groups) {
        c.square = ptxk_muon_group(b, down / 2, 2 * down, size * MUON_ROW);
        c.passing = ptxk_muon_group(b, down / 2, MUON_DEPTH / 16, size * MUON_ROW);
    } else {
        c.square = ptxk_muon_warp(b, down, down, 2, size * MUON_ROW);
        c.passing = ptxk_muon_warp(b, down, 2, 2, size * MUON_ROW);
    }
    c.lane = ptxk_muon_lane(b);
    if (!c.groups)
        c.half = half_of(b, size);
    ptx_comment(b, "sums, of squares and of 64 columns of Q X");
    ptxk_muon_zero(b, &c.square, c.sums, true);
    ptxk_muon_zero(b, &c.passing, c.part, true);
    ptx_comment(b, "one of the two forms");
    ptx_if (b, ptx_eq(b, c.rows, c.columns))
        plain(b, &c, steps, count);
    ptx_else (b)
        gram(b, &c, steps, count, ends);
    ptxk_muon_follow(b);
}

// ---- the module ---------------------------------------------------------------------------------

const char *const ptxk_muon_entries[MUON_ENTRIES] = { "muon_tiles", "muon_chip_64", "muon_chip_128",
                                                      "muon_tiles_64", "muon_square" };

uint32_t ptxk_muon_shared(unsigned entry, bool groups)
{
    const unsigned size = entry == MUON_CHIP_64 ? 64 : 128;
    const uint32_t aligned = groups ? MUON_ALIGNED : 0;

    if (entry == MUON_TILES || entry == MUON_SMALL_TILES) {
        const uint32_t side = entry == MUON_TILES ? MUON_TILE : MUON_SMALL;
        return MUON_STAGES * 2 * side * MUON_DEPTH * 2 + MUON_PIECE + aligned; // stages, a turn
    }
    if (entry == MUON_SQUARE) // X, and R or Z on one side of the diagonal
        return (4 + 3) * square_bytes(MUON_CHIP_MOST) + aligned;
    return passing_bytes(size) + square_bytes(size) + aligned;
}

void ptxk_muon_emit(ptx_builder *b, unsigned entries)
{
    const char *const *name = ptxk_muon_entries;

    if (entries & 1 << MUON_TILES)
        ptx_entry (b, name[MUON_TILES], .block = { MUON_THREADS }, .min_blocks = 2)
            ptxk_muon_tiles_emit(b, MUON_TILE);
    if (entries & 1 << MUON_CHIP_64)
        ptx_entry (b, name[MUON_CHIP_64], .block = { THREADS })
            ptxk_muon_chip_emit(b, 64);
    if (entries & 1 << MUON_CHIP_128)
        ptx_entry (b, name[MUON_CHIP_128], .block = { THREADS }, .min_blocks = 2)
            ptxk_muon_chip_emit(b, 128);
    if (entries & 1 << MUON_SMALL_TILES)
        ptx_entry (b, name[MUON_SMALL_TILES], .block = { MUON_THREADS }, .min_blocks = 4)
            ptxk_muon_tiles_emit(b, MUON_SMALL);
    if (entries & 1 << MUON_SQUARE && ptxk_muon_has_groups(b))
        ptx_entry (b, name[MUON_SQUARE], .block = { MUON_SQUARE_THREADS }, .min_blocks = 1)
            ptxk_muon_square_emit(b);
}
