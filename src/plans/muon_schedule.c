// SPDX-License-Identifier: MIT
// What is computed of a matrix, product by product, and where it lies.
#include "muon_schedule.h"

#include "driver/error.h"

enum { BYTES_OF_ELEMENT = 6, SLICE_LEAST = 1024, SLICED_TILES = 16 };
enum { SQUARES = 5, PAIRS = 3 }; // with so many, steps go in pairs; with fewer, the form is plain

bool ptxp_muon_restarts(uint32_t step, uint32_t steps)
{
    return steps > 3 && step % 3 == 2 && step < steps;
}

bool ptxp_muon_on_chip(const struct muon_matrix *m, bool groups)
{
    return m->rows <= (groups && m->rows == m->columns ? MUON_SQUARE_MOST : MUON_CHIP_MOST);
}

// ---- memory -------------------------------------------------------------------------------------

static uint64_t square_bytes(const struct muon_matrix *m)
{
    return m->rows * muon_pitch(m->rows);
}

static uint64_t x_bytes(const struct muon_matrix *m)
{
    return m->rows * muon_pitch(m->columns);
}

static uint32_t tiles_of(uint32_t elements)
{
    return (elements + MUON_TILE - 1) / MUON_TILE;
}

// Where few tiles would have a long depth, each is cut.
static uint32_t slices_of(uint32_t rows, uint32_t depth)
{
    const uint32_t side = tiles_of(rows), tiles = side * (side + 1) / 2;
    const uint32_t most = SLICED_TILES / tiles, by_depth = depth / SLICE_LEAST;
    const uint32_t slices = most < by_depth ? most : by_depth;

    return slices ? slices : 1;
}

// How many fit beside X: R, Z, T and two of Q. Of four, T waits for the next Q, and lies where the
// one before was. Of three, T lies where Z was, and is made of Q.
static uint64_t squares_of(const struct muon_matrix *m)
{
    const uint64_t all = (uint64_t)BYTES_OF_ELEMENT * m->rows * m->columns;
    const uint64_t squares = (all - x_bytes(m)) / square_bytes(m);

    return squares < SQUARES ? squares : SQUARES;
}

static uint64_t partial_bytes(const struct muon_matrix *m)
{
    const uint64_t side = tiles_of(m->rows), slices = slices_of(m->rows, m->columns);

    return slices == 1 ? 0 : side * (side + 1) / 2 * slices * MUON_PARTIAL;
}

uint64_t ptxp_muon_kept(const struct muon_matrix *m, uint32_t steps)
{
    uint32_t restarts = 0;

    for (uint32_t k = 1; k <= steps; k++)
        restarts += ptxp_muon_restarts(k, steps);
    return m->given && restarts == 1 ? x_bytes(m) : 0;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// X lies at the beginning or at the end, and moves to the other place. Between two moves, the rest
// has the squares, and R and the sums of slices, which take less than X, before it has others.
static uint64_t matrix_bytes(const struct muon_matrix *m, uint32_t steps)
{
    const uint64_t x = x_bytes(m), square = square_bytes(m);

    if (ptxp_muon_on_chip(m, false))
        return x + (ptxp_muon_kept(m, steps) ? MUON_KEPT : 0);
    return x + larger(x + square, squares_of(m) * square);
}

// Whether X moves to the other place after this step, counted from 1.
static bool moves(const struct muon_matrix *m, uint32_t step, uint32_t steps)
{
    const uint64_t squares = squares_of(m);

    return step == steps || squares < PAIRS ||
           (squares == PAIRS ? step % 2 == 0 : ptxp_muon_restarts(step, steps));
}

static bool ends_apart(const struct muon_matrix *m, uint32_t steps)
{
    bool apart = false;

    if (ptxp_muon_on_chip(m, false))
        return false;
    for (uint32_t k = 1; k <= steps; k++)
        apart ^= moves(m, k, steps);
    return apart;
}

// Where the next matrix begins: a larger one where lines of a cache do, and others share them.
static uint64_t aligned(uint64_t at, uint64_t bytes)
{
    enum { PIECE = 16, LINES = 256, SMALL = 8192 };
    const uint64_t to = bytes < SMALL ? PIECE : LINES;

    return (at + to - 1) / to * to;
}

static ptx_status check(const struct muon_set *set, size_t k)
{
    const struct muon_matrix *m = &set->matrices[k];

    if (m->schedule >= set->schedule_count)
        return ptxd_fail(PTX_ERROR_INVALID, "matrix %zu has schedule %u of %u", k, m->schedule,
                         set->schedule_count);
    if (m->rows > m->columns)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "matrix %zu has %u rows and %u columns: X has the smaller side as rows", k,
                         m->rows, m->columns);
    if (m->rows > MUON_MOST_ROWS || m->columns > MUON_MOST_COLUMNS)
        return ptxd_fail(PTX_ERROR_INVALID,
                         "matrix %zu is %u x %u: the smaller side can be %d, the larger %d", k,
                         m->rows, m->columns, MUON_MOST_ROWS, MUON_MOST_COLUMNS);
    return PTX_OK;
}

ptx_status ptxp_muon_layout(const struct muon_set *set, uint64_t *bytes)
{
    uint64_t at = 0;

    for (uint32_t k = 0; k < set->schedule_count; k++)
        if (set->schedules[k].steps > MUON_MOST_STEPS)
            return ptxd_fail(PTX_ERROR_INVALID, "schedule %u has %u steps: %d at most", k,
                             set->schedules[k].steps, MUON_MOST_STEPS);
    for (size_t k = 0; k < set->count; k++) {
        struct muon_matrix *m = &set->matrices[k];
        const ptx_status status = check(set, k);
        if (status)
            return status;
        const uint32_t steps = set->schedules[m->schedule].steps;
        const uint64_t needed = m->rows ? matrix_bytes(m, steps) : 0;
        m->x = m->out = aligned(at, needed);
        at = m->x + needed;
        if (needed && ends_apart(m, steps))
            m->out = at - x_bytes(m);
    }
    *bytes = at;
    return PTX_OK;
}

// ---- products -----------------------------------------------------------------------------------

struct walk {
    const struct muon_matrix *m;
    CUdeviceptr x[2]; // the first and the last place in its memory
    unsigned now;     // where X is
    uint32_t level;
    muon_visit *visit;
    void *to;
    ptx_status status;
};

static void visit(struct walk *w, struct muon_product p)
{
    if (!w->status)
        w->status = w->visit(w->to, w->level, &p);
}

// A place beside X, `before` bytes from it.
static CUdeviceptr beside(const struct walk *w, uint64_t before, uint64_t bytes)
{
    return w->now ? w->x[1] - before - bytes : w->x[0] + x_bytes(w->m) + before;
}

// C = alpha E + beta A B, of rows x rows.
static struct muon_product square(const struct walk *w, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c)
{
    const uint32_t rows = w->m->rows, pitch = (uint32_t)muon_pitch(rows);

    return (struct muon_product) { .a = a,
                                   .b = b,
                                   .c = c,
                                   .rows = rows,
                                   .columns = rows,
                                   .pitch_a = pitch,
                                   .pitch_b = pitch,
                                   .pitch_c = pitch,
                                   .depth = pitch,
                                   .slice = pitch / 2,
                                   .slices = 1,
                                   .beta = 1,
                                   .across = 1,
                                   .symmetric = 1 };
}

static struct muon_product plus(struct muon_product p, float alpha, CUdeviceptr e)
{
    p.alpha = alpha;
    p.e = e;
    return p;
}

// R = X X^T.
static void first(struct walk *w, CUdeviceptr r)
{
    struct muon_product p = square(w, w->x[w->now], w->x[w->now], r);
    const uint32_t depth = (uint32_t)(muon_pitch(w->m->columns) / 2);

    p.across = 0;
    p.pitch_a = p.pitch_b = p.depth = 2 * depth;
    p.slices = slices_of(w->m->rows, w->m->columns);
    p.slice = (depth + p.slices - 1) / p.slices;
    p.slice = (p.slice + MUON_DEPTH - 1) / MUON_DEPTH * MUON_DEPTH;
    p.slices = (depth + p.slice - 1) / p.slice;
    p.partials = p.slices > 1 ? beside(w, 0, partial_bytes(w->m)) : 0;
    visit(w, p);
    w->level++;
}

// Moves X to the other place: alpha X + left X.
static void move(struct walk *w, CUdeviceptr left, float alpha, uint32_t taken)
{
    const CUdeviceptr from = w->x[w->now], to = w->x[!w->now];
    struct muon_product p = square(w, left, from, to);

    p.columns = w->m->columns;
    p.pitch_b = p.pitch_c = (uint32_t)muon_pitch(w->m->columns);
    p.symmetric = 0;
    p.taken = taken;
    visit(w, alpha == 0 ? p : plus(p, alpha, from));
    w->now = !w->now;
    w->level++;
}

// Z = b R + c R R, and where `q` is, Z + a I there.
static void polynomial(struct walk *w, const float *triple, CUdeviceptr r, CUdeviceptr z,
                       CUdeviceptr q)
{
    struct muon_product p = plus(square(w, r, r, z), triple[1], r);

    p.beta = triple[2];
    p.q = q;
    p.diagonal = triple[0];
    visit(w, p);
    w->level++;
}

static void plain(struct walk *w, const struct muon_schedule *schedule)
{
    for (uint32_t k = 0; k < schedule->steps; k++) {
        const CUdeviceptr r = w->x[!w->now], z = beside(w, 0, square_bytes(w->m));
        first(w, r);
        polynomial(w, schedule->triples[k], r, z, 0);
        move(w, z, schedule->triples[k][0], k + 1 == schedule->steps ? w->m->taken : 0);
    }
}

// From step `k` up to a restart or the end; returns the next step.
static uint32_t segment(struct walk *w, const struct muon_schedule *schedule, uint32_t k)
{
    const uint64_t bytes = square_bytes(w->m), all = w->x[1] - w->x[0];
    const bool own = squares_of(w->m) == SQUARES, pairs = squares_of(w->m) == PAIRS;
    uint32_t end = k + 1;

    while (!moves(w->m, end, schedule->steps))
        end++;
    // The last Q is not where X goes, nor R where the sums of slices are.
    const CUdeviceptr q[2] = { beside(w, 0, bytes), beside(w, bytes, bytes) };
    unsigned now = (end - k - 1) % 2;
    const CUdeviceptr z = beside(w, 2 * bytes, bytes);
    const CUdeviceptr r = pairs ? q[!now] : beside(w, all - bytes, bytes);
    first(w, r);
    for (const uint32_t begin = k; k < end; k++) {
        const float *triple = schedule->triples[k], a = triple[0];
        polynomial(w, triple, r, z, k == begin ? q[now] : 0);
        if (k > begin) {
            visit(w, plus(square(w, q[now], z, q[!now]), a, q[now]));
            now = !now;
            w->level += k + 1 < end && !own;
        }
        const CUdeviceptr t = own ? beside(w, 3 * bytes, bytes) : pairs ? z : q[!now];
        if (k + 1 < end)
            visit(w, pairs ? square(w, r, q[now], t) : plus(square(w, r, z, t), a, r));
        w->level += k > begin || k + 1 < end;
        if (k + 1 < end) {
            visit(w, pairs ? square(w, q[now], t, r) : plus(square(w, z, t, r), a, t));
            w->level++;
        }
    }
    move(w, q[now], 0, end == schedule->steps ? w->m->taken : 0);
    return end;
}

ptx_status ptxp_muon_visit(const struct muon_matrix *m, const struct muon_schedule *schedule,
                           CUdeviceptr workspace, muon_visit *visit_one, void *to)
{
    struct walk w = { .m = m, .visit = visit_one, .to = to };

    if (!m->rows || !schedule->steps || ptxp_muon_on_chip(m, false))
        return PTX_OK;
    w.x[0] = workspace + m->x;
    w.x[1] = w.x[0] + matrix_bytes(m, schedule->steps) - x_bytes(m);
    const bool is_plain = squares_of(m) < PAIRS;
    if (is_plain)
        plain(&w, schedule);
    for (uint32_t k = 0; !is_plain && k < schedule->steps;)
        k = segment(&w, schedule, k);
    return w.status;
}
