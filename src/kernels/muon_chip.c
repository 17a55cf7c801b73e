// SPDX-License-Identifier: MIT
// All products of a matrix of at most 64 or 128 rows, by one block: R, Z and Q stay in shared
// memory, and X passes through it, 64 columns at a time, and is written where it was. The last X
// may be taken in its place, and the first given, as muon_chip.h says. Then the X of a restart need
// not be written: its Q is kept, and at the end 64 columns of the first X are multiplied by both.
#include "muon_chip.h"
#include "muon_chip_products.h"

enum { STAGES = 3, THREADS = MUON_CHIP_THREADS };

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

uint32_t ptxk_muon_chip_shared(unsigned size)
{
    return passing_bytes(size) + square_bytes(size);
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

// ---- Q X ----------------------------------------------------------------------------------------

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
        ptxk_muon_chip_add_gram(b, c, from);
        return;
    }
    ptx_if (b, to->where)
        ptxk_muon_chip_add_gram(b, c, from);
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
        ptxk_muon_chip_meet(b, c);
        copy_stage(b, c, ptx_add(b, at, ahead), filled);
        ptx_comment(b, "64 columns of the kept Q and X");
        ptx_if (b, keeps) {
            ptxk_muon_chip_pass(b, c, of_two, read, read, keeps);
            ptxk_muon_chip_meet(b, c);
        }
        ptx_comment(b, "64 columns of Q X");
        ptx_val into = ptx_select(b, keeps, read, behind);
        ptxk_muon_chip_pass(b, c, c->q, read, into, keeps);
        ptxk_muon_chip_meet(b, c);
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
        ptxk_muon_chip_meet(b, c);
        copy_stage(b, c, ptx_add(b, at, (STAGES - 1) * MUON_ROW), filled);
        if (to) {
            ptx_comment(b, "64 columns of Q X");
            ptxk_muon_chip_pass(b, c, c->q, read, end, (ptx_val) { 0 });
            ptxk_muon_chip_meet(b, c);
            result_use(b, c, to, at, end);
        } else {
            ptxk_muon_chip_add_gram(b, c, read);
        }
        ptxk_muon_chip_multiplied(b, c);
        ptx_comment(b, "the next stage");
        ptx_set(b, filled, read);
        ptx_val next = ptx_add(b, read, c->stage);
        ptx_set(b, read, ptx_select(b, ptx_eq(b, next, end), c->shared, next));
    }
    ptx_cp_async_wait_all(b);
    ptx_barrier(b);
    ptxk_muon_chip_store_gram(b, c);
    ptxk_muon_chip_meet(b, c);
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
        ptxk_muon_chip_multiplied(b, c);
        ptxk_muon_chip_meet(b, c);
        ptxk_muon_chip_add_gram(b, c, panel);
        write(b, c, at, panel);
        ptx_set(b, panel, ptx_sub(b, both, panel));
    }
    ptxk_muon_chip_multiplied(b, c);
    ptx_barrier(b);
    ptxk_muon_chip_store_gram(b, c);
    ptxk_muon_chip_meet(b, c);
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
    ptxk_muon_chip_meet(b, c);
    ptx_for (b, k, ptx_u32(0), count, ptx_u32(1)) {
        struct step s = step_at(b, steps, k);
        ptxk_muon_zero(b, &c->square, c->sums, false);
        for (unsigned panel = 0; panel < c->panels; panel++)
            ptxk_muon_chip_add_gram(b, c, ptx_add(b, c->q, panel * c->size * MUON_ROW));
        ptxk_muon_chip_multiplied(b, c);
        ptx_barrier(b);
        ptxk_muon_chip_store_gram(b, c);
        ptxk_muon_chip_meet(b, c);
        ptxk_muon_chip_replace(
            b, c, c->r, c->r,
            (struct muon_combined) { .to = c->z, .e = c->r, .alpha = s.b, .beta = s.c });
        ptxk_muon_chip_replace(b, c, c->z, c->q,
                               (struct muon_combined) { .to = c->q, .e = c->q, .alpha = s.a });
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
        ptxk_muon_chip_square(b, c, c->r, c->r);
        struct muon_combined z = { .to = c->z, .e = c->r, .alpha = s.b, .beta = s.c };
        ptx_if (b, ptx_ne(b, fresh, 0)) {
            struct muon_combined both = z;
            both.q = c->q, both.diagonal = s.a;
            ptxk_muon_chip_store(b, c, both);
            ptxk_muon_chip_meet(b, c);
        }
        ptx_else (b) {
            ptxk_muon_chip_store(b, c, z);
            ptxk_muon_chip_meet(b, c);
            ptx_comment(b, "Q = a Q + Q Z");
            ptxk_muon_chip_replace(b, c, c->q, c->z,
                                   (struct muon_combined) { .to = c->q, .e = c->q, .alpha = s.a });
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
            struct muon_combined t = { .to = c->r, .e = c->r, .alpha = s.a };
            ptxk_muon_chip_replace(b, c, c->r, c->z, t);
            ptxk_muon_chip_replace(b, c, c->z, c->r, t);
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
    c.groups = ptxk_muon_has_groups(b);
    ptxk_muon_lead(b);
    const struct muon_block_matrix m = ptxk_muon_block_matrix(b);
    ptx_ptr words = m.words;
    c.x = m.x;
    c.rows = m.rows;
    c.columns = ptx_load(b, words, MUON_PLACE(uint32_t, muon_chip, columns));
    if (ends) {
        c.taken = ptx_load(b, words, MUON_PLACE(uint32_t, muon_chip, taken));
        c.given = ptx_load(b, words, MUON_PLACE(uint32_t, muon_chip, given));
        c.kept = ptx_load(b, m.row, MUON_PLACE(uint64_t, muon_chip, kept));
        c.keeps = ptx_ne(b, c.kept, 0);
    }
    c.pitch = ptx_load(b, words, MUON_PLACE(uint32_t, muon_chip, pitch));
    c.stage = size * MUON_ROW;
    c.copies = size * 8 / THREADS;
    c.tid = ptx_tid(b, PTX_X);
    c.shared = c.r = ptxk_muon_dynamic(b);
    c.z = ptx_add(b, c.shared, square_bytes(size));
    c.q = ptx_add(b, c.shared, passing_bytes(size));
    ptxk_muon_chip_begin(b, &c);
    ptx_comment(b, "one of the two forms");
    ptx_if (b, ptx_eq(b, c.rows, c.columns))
        plain(b, &c, m.steps, m.step_count);
    ptx_else (b)
        gram(b, &c, m.steps, m.step_count, ends);
    ptxk_muon_follow(b);
}
