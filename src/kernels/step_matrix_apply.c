// SPDX-License-Identifier: MIT
// What steps the parameters of matrices after the products, or within them: the tiles of a block,
// or 64 columns at a time of a matrix that the block has multiplied.
#include "muon_chip.h"
#include "muon_taken.h"
#include "step_matrix_tile.h"

#include "common/common.h"

enum {
    LANES = PTXK_MATRIX_LANES,
    PITCH = STEP_MATRIX_PITCH,
    AT_ONCE = PTXK_MATRIX_AT_ONCE,
    TURNED_STRIDE = PTXK_MATRIX_TURNED_STRIDE,
};

void ptxk_matrix_params(ptx_builder *b, struct ptxk_tile *s, bool of_products, bool of_chips)
{
    s->matrix_of = ptx_param_ptr(b, PTX_U32, "matrix_of", .readonly = true,
                                 .meaning = "one a tensor: 1 + its matrix; 0: it is none");
    s->matrices = ptxk_matrices_param(b);
    if (of_chips) {
        s->totals = ptxk_matrix_totals_param(b, false);
        s->scale_shared = ptx_shared(b, PTX_F32, 1);
    }
    if (of_products)
        return;
    s->first_tile = ptx_param(b, PTX_U32, "first_tile", .meaning = "that of block 0");
    s->tile_shared = ptx_shared(b, PTX_U32, STEP_MATRIX_SHARED / 4);
}

// Reads a tile of what they have left that is transposed into shared memory.
static void x_read(ptx_builder *b, const struct ptxk_matrix_tile *m, ptx_ptr x)
{
    const struct ptxk_matrix_turned t = ptxk_matrix_turned_of(m);

    ptx_comment(b, "reads the tile that the products have left");
    ptx_if (b, ptx_lt(b, t.along, m->x_line)) {
        ptx_for (b, r, t.begin, m->width, TURNED_STRIDE) {
            ptx_vec all = ptx_load_vec(b, x, ptxk_matrix_x_place(b, m, r, t.along), LANES);
            ptx_val to = ptx_mad(b, r, PITCH, t.along);
            for (uint32_t n = 0; n < LANES; n++)
                ptx_store(b, m->shared, n ? ptx_add(b, to, n) : to, all.lane[n]);
        }
    }
    ptx_barrier(b);
}

// What a thread reads of a tile, in variables.
struct inputs {
    struct ptxk_lanes array[ARRAYS][AT_ONCE];
    ptx_val x[AT_ONCE][LANES];
};

static struct inputs inputs_var(ptx_builder *b, const struct ptxk_tile *s)
{
    struct inputs in;

    for (unsigned a = 0; a < ARRAYS; a++)
        if (a != ARRAY_GRADIENT && ptxk_step_reads(s->variant, a))
            ptxk_matrix_lanes_var(b, ptxk_step_array_type(s->variant, a), in.array[a]);
    for (unsigned k = 0; k < AT_ONCE * LANES; k++)
        in.x[k / LANES][k % LANES] = ptx_var(b, ptx_zero(PTX_F16));
    return in;
}

static void arrays_read(ptx_builder *b, const struct ptxk_tile *s,
                        const struct ptxk_matrix_vectors *v, const struct inputs *to)
{
    for (unsigned a = 0; a < ARRAYS; a++)
        if (a != ARRAY_GRADIENT && ptxk_step_reads(s->variant, a)) {
            ptx_comment(b, "reads vectors of an array");
            ptxk_matrix_vectors_read(b, v, s->array[a], to->array[a]);
        }
}

static void inputs_read(ptx_builder *b, const struct ptxk_tile *s,
                        const struct ptxk_matrix_vectors *v, ptx_ptr x, const struct inputs *to)
{
    const struct ptxk_matrix_tile *m = v->m;

    arrays_read(b, s, v, to);
    ptx_comment(b, "and of X");
    ptx_if (b, m->turns)
        for (uint32_t k = 0; k < AT_ONCE * LANES; k++) {
            ptxk_comment_lanes(b, "transposed", k, LANES, AT_ONCE * LANES);
            ptx_val place = ptxk_matrix_shared_place(b, m, v->row[k / LANES], k % LANES);
            ptx_set(b, to->x[k / LANES][k % LANES], ptx_load(b, m->shared, place));
        }
    ptx_else (b)
        for (unsigned k = 0; k < AT_ONCE; k++) {
            ptx_comment(b, "a vector of a row");
            ptx_vec all = ptx_load_vec(b, x, ptxk_matrix_x_place(b, m, v->row[k], m->along), LANES);
            for (unsigned n = 0; n < LANES; n++)
                ptx_set(b, to->x[k][n], all.lane[n]);
        }
}

// An element, and what it becomes.
struct single {
    ptx_val was[ARRAYS][PTXK_LANES], is[ARRAYS][PTXK_LANES]; // lane 0
};

static void step_element(ptx_builder *b, const struct ptxk_tile *s, ptx_val x, ptx_val i,
                         ptx_val qk, struct single *one)
{
    const struct ptxk_step_variant *v = s->variant;
    ptx_val random[PTXK_STREAMS][PTXK_LANES] = { { { 0 } } }, own[PTXK_STREAMS] = { { 0 } };
    struct ptxk_step_stored stored = { .type = v->parameter };

    if (ptxk_step_reads(v, ARRAY_PARAMETER))
        stored.parameter = one->was[ARRAY_PARAMETER][0];
    if (ptxk_step_reads(v, ARRAY_BESIDE))
        stored.beside = one->was[ARRAY_BESIDE][0];
    if (v->ema != PTX_NONE)
        stored.state[0] = one->was[ARRAY_STATE][0];
    ptxk_step_random_element(b, v, &s->random, i, random);
    for (unsigned n = 0; n < ptxk_step_streams(v); n++)
        own[n] = random[n][0];
    struct ptxk_step_element e = ptxk_step_load(b, v, &stored);
    e.rule = v->rule;
    e.g = ptx_cvt(b, PTX_F32, x);
    v->rule->update(b, v->options, s->coefficient, &e);
    e.p = ptxk_step_qk_multiply(b, s, e.p, qk);
    stored = ptxk_step_store(b, v, &e, s->ema_rate, own);
    one->is[ARRAY_PARAMETER][0] = stored.parameter;
    one->is[ARRAY_BESIDE][0] = stored.beside;
    one->is[ARRAY_STATE][0] = stored.state[0];
}

// The weight of an element that is in the tile: noted, and its copy written.
static void element_note(ptx_builder *b, const struct ptxk_tile *s,
                         const struct ptxk_matrix_vectors *v, ptx_val within, ptx_val i,
                         struct single *one)
{
    ptx_val old[PTXK_LANES] = { { 0 } };

    if (!ptxk_step_notes(s) && !s->variant->copy)
        return;
    ptx_if (b, within) {
        ptxk_step_report_old(b, s, 1, one->was, old);
        if (v->at[0].type && s->variant->copy)
            i = ptxk_spread_at(b, &v->m->spread, i);
        ptxk_step_copy_single(b, s, i, one->is);
        ptxk_step_report_new(b, s, 1, one->is, old);
    }
}

// Steps vector `k`.
static void vector_apply(ptx_builder *b, const struct ptxk_tile *s,
                         const struct ptxk_matrix_vectors *v, unsigned k, const struct inputs *in)
{
    ptx_val was[ARRAYS][PTXK_LANES], is[ARRAYS][LANES], qk[PTXK_LANES] = { { 0 } };
    ptx_val i = ptx_add(b, v->base[k], v->m->along);

    for (unsigned a = 0; a < ARRAYS; a++)
        if (a != ARRAY_GRADIENT && ptxk_step_reads(s->variant, a))
            ptxk_lanes_of(b, &in->array[a][k], was[a]);
    ptxk_step_qk_factors(b, s, i, LANES, qk);
    for (uint32_t n = 0; n < LANES; n++) {
        struct single one;
        ptx_comment(b, "element %u", n);
        ptx_val place = n ? ptx_add(b, i, n) : i;
        ptx_val within = ptx_lt(b, ptx_add(b, v->m->along, n), v->m->width);
        for (unsigned a = 0; a < ARRAYS; a++)
            one.was[a][0] = was[a][n];
        step_element(b, s, in->x[k][n], place, qk[n], &one);
        element_note(b, s, v, within, place, &one);
        for (unsigned a = 0; a < ARRAYS; a++)
            is[a][n] = one.is[a][0];
    }
    ptx_comment(b, "writes them");
    for (unsigned a = 0; a < ARRAYS; a++) {
        const ptx_type type = ptxk_step_array_type(s->variant, a);
        if (a != ARRAY_GRADIENT && type != PTX_NONE)
            ptxk_matrix_vector_write(b, v, k, type, s->array[a], is[a]);
    }
}

static void apply_tile(ptx_builder *b, const struct ptxk_tile *s, const struct ptxk_matrix_tile *m,
                       ptx_ptr x)
{
    ptx_if (b, m->turns)
        x_read(b, m, x);
    ptx_comment(b, "the rows of the thread");
    ptx_val whole = ptxk_matrix_is_whole(b, m, s->vectors);
    ptx_val end = ptx_select(b, ptx_lt(b, m->along, m->width), m->height, 0);
    ptx_val step = ptx_mul(b, m->stride, AT_ONCE);
    ptx_for (b, r, m->begin, end, step) {
        const struct ptxk_matrix_vectors rows = ptxk_matrix_vectors_of(b, m, r, whole);
        const struct inputs in = inputs_var(b, s);
        inputs_read(b, s, &rows, x, &in);
        for (unsigned k = 0; k < AT_ONCE; k++)
            ptx_if (b, rows.there[k])
                vector_apply(b, s, &rows, k, &in);
    }
    ptx_if (b, m->turns)
        ptx_barrier(b);
}

static void rate_read(ptx_builder *b, struct ptxk_tile *s, ptx_ptr row)
{
    ptx_comment(b, "lr times the matrix's factor");
    ptx_val adjust = ptx_bitcast(b, PTX_F64, ptx_load(b, row, MATRIX_ROW(adjust)));
    ptx_val rate = ptx_mul(b, ptx_cvt(b, PTX_F64, s->coefficient[MUON_LR]), adjust);
    s->coefficient[MUON_RATE] = ptx_cvt(b, PTX_F32, rate);
}

void ptxk_matrix_step(ptx_builder *b, struct ptxk_tile *s, const struct ptxk_matrix_tile *of)
{
    struct ptxk_matrix_tile m = *of;
    const ptx_ptr codes = s->codes;

    rate_read(b, s, m.row);
    ptx_val to = ptx_load(b, m.row, MATRIX_ROW(to));
    ptx_ptr x = ptx_ptr_from(b, PTX_F16, PTX_SPACE_GLOBAL, to);
    ptx_for (b, index, m.begins, m.ends, 1) {
        ptxk_matrix_tile_set(b, &m, index);
        s->random.first = m.first;
        s->tensor_first = m.memory_first;
        ptxk_tile_arrays(b, s);
        if (s->variant->copy)
            s->codes = ptx_at(b, codes, m.memory_first);
        apply_tile(b, s, &m, ptx_at(b, x, m.x_first));
    }
}

// ---- within the products ------------------------------------------------------------------------

// Reads 4 elements of a row of a tile in shared memory, at the thread's columns, into variables.
// `by_warps`: all lanes of a warp do so, with rows of a group of eight that begins at a multiple of
// eight.
struct x_source {
    void (*read)(ptx_builder *b, const void *of, const struct ptxk_matrix_tile *m, ptx_val row,
                 const ptx_val to[LANES]);
    const void *of;
    bool by_warps;
};

// Steps a tile of X in shared memory. `together`, at most MOST_TOGETHER: times AT_ONCE rows of a
// thread, which are read before any is stepped.
enum { MOST_TOGETHER = 4 };
static void shared_step(ptx_builder *b, struct ptxk_tile *s, const struct ptxk_matrix_tile *m,
                        const struct x_source *x, unsigned together)
{
    s->random.first = s->tensor_first = m->first;
    ptxk_tile_arrays(b, s);
    ptx_val whole = ptxk_matrix_is_whole(b, m, s->vectors);
    ptx_val has = ptx_lt(b, m->along, m->width);
    ptx_val begin = x->by_warps ? ptx_s32(0) : m->begin;
    ptx_val end = x->by_warps ? m->height : ptx_select(b, has, m->height, 0);
    ptx_val step = ptx_mul(b, m->stride, AT_ONCE);
    ptx_for (b, r, begin, end, ptx_mul(b, step, together)) {
        struct ptxk_matrix_vectors rows[MOST_TOGETHER];
        struct inputs in[MOST_TOGETHER];
        ptx_val first = x->by_warps ? ptx_add(b, r, m->begin) : r, row = first;
        for (unsigned n = 0; n < together; n++) {
            rows[n] = ptxk_matrix_vectors_of(b, m, row, whole);
            for (unsigned k = 0; k < AT_ONCE && x->by_warps; k++)
                rows[n].there[k] = ptx_and(b, rows[n].there[k], has);
            in[n] = inputs_var(b, s);
            arrays_read(b, s, &rows[n], &in[n]);
            row = ptx_add(b, row, step);
        }
        for (unsigned n = 0; n < together * AT_ONCE; n++) {
            const unsigned k = n % AT_ONCE;
            const struct ptxk_matrix_vectors *v = &rows[n / AT_ONCE];
            ptx_comment(b, "a vector of Q X");
            row = x->by_warps ? ptx_mad(b, m->stride, (int)n, first) : v->row[k];
            x->read(b, x->of, m, row, in[n / AT_ONCE].x[k]);
            ptx_if (b, v->there[k])
                vector_apply(b, s, v, k, &in[n / AT_ONCE]);
        }
    }
}

static void x_set(ptx_builder *b, ptx_ptr x, const ptx_val to[LANES])
{
    ptx_vec all = ptx_load_vec(b, x, 0, LANES);

    for (unsigned lane = 0; lane < LANES; lane++)
        ptx_set(b, to[lane], all.lane[lane]);
}

// ---- the last product of a chip -----------------------------------------------------------------

struct of_chip {
    struct ptxk_tile *s;
    struct ptxk_matrix_panels panels;
};

// Brings the weights of the next panel near: a row for each thread.
static void panel_prefetch(ptx_builder *b, const struct of_chip *c, ptx_val column)
{
    const struct ptxk_matrix_panels *of = &c->panels;
    ptx_val next = ptx_add(b, column, MUON_DEPTH);
    ptx_val there = ptx_lt(b, next, of->columns);
    ptx_val has_row = ptx_lt(b, of->tid, of->m.rows);

    ptx_if (b, ptx_and(b, there, has_row)) {
        const ptx_type type = c->s->variant->parameter;
        ptx_ptr p = ptx_ptr_from(b, type, PTX_SPACE_GLOBAL, c->s->address[ARRAY_PARAMETER]);
        ptx_val row = ptx_mul_wide(b, of->tid, of->columns);
        ptx_val place = ptx_add(b, row, ptx_cvt(b, PTX_U64, next));
        ptx_prefetch(b, p, place, PTX_PREFETCH_L2);
        if (ptx_type_bytes(type) > 2) {
            ptx_val half = ptx_add(b, next, MUON_DEPTH / 2);
            ptx_if (b, ptx_lt(b, half, of->columns))
                ptx_prefetch(b, ptx_at(b, p, place), MUON_DEPTH / 2, PTX_PREFETCH_L2);
        }
    }
}

static void panel_read(ptx_builder *b, const void *of, const struct ptxk_matrix_tile *m,
                       ptx_val row, const ptx_val to[LANES])
{
    const ptx_ptr *x = of;

    (void)m;
    x_set(b, ptx_at(b, *x, ptxk_matrix_panel_place(b, row)), to);
}

static void panel_step(ptx_builder *b, void *user, ptx_val column, ptx_val panel)
{
    const struct of_chip *c = user;
    struct ptxk_tile s = *c->s;
    struct ptxk_matrix_tile m = c->panels.m;

    panel_prefetch(b, c, column);
    ptx_comment(b, "steps 64 columns");
    ptxk_matrix_panel_set(b, &m, column);
    const ptx_ptr x =
        ptx_ptr_from(b, PTX_F16, PTX_SPACE_SHARED, ptx_add(b, panel, c->panels.in_panel));
    shared_step(b, &s, &m, &(struct x_source) { panel_read, &x, false }, MOST_TOGETHER);
}

void ptxk_matrix_step_chip(ptx_builder *b, struct ptxk_tile *s, ptx_val matrix,
                           struct ptxk_muon_chip *chip)
{
    ptx_ptr row = ptxk_matrix_at(b, s->matrices, matrix);
    struct of_chip c = { .s = s, .panels = ptxk_matrix_panels_of(b, row, chip) };

    rate_read(b, s, row);
    ptxk_muon_chip_last(b, chip, panel_step, &c);
}

// ---- what is taken of a last product ------------------------------------------------------------

// Where the tile is in the matrix: u32s. `turns`, a predicate: the products have that transposed;
// poisoned where none of the plan's is.
struct in_matrix {
    ptx_val turns;
    ptx_val rows, columns, row, column;
};

static struct in_matrix in_matrix_of(ptx_builder *b, const struct ptxk_step_spec *spec,
                                     const struct ptxk_muon_taken *t)
{
    struct in_matrix p = { { 0 }, t->rows, t->columns, t->row, t->column };

    if (!spec->takes_turned)
        return p;
    p.turns = ptx_ne(b, ptx_and(b, t->taken, STEP_TAKEN_TURNED), 0);
    p.rows = ptx_select(b, p.turns, t->columns, t->rows);
    p.columns = ptx_select(b, p.turns, t->rows, t->columns);
    p.row = ptx_select(b, p.turns, t->column, t->row);
    p.column = ptx_select(b, p.turns, t->row, t->column);
    return p;
}

// A thread has 4 elements of a row. Where the products have the matrix transposed a warp has 8 rows
// of 16 elements, and the block 64 elements of each row.
enum { TURNED_COLUMNS = MUON_THREADS / 32 * 16, TURNED_ROWS = 8 };
_Static_assert((int)TURNED_COLUMNS == (int)MUON_SMALL, "small tiles are read at once");
static struct ptxk_matrix_tile taken_tile(ptx_builder *b, const struct ptxk_muon_taken *t,
                                          const struct in_matrix *p, ptx_ptr row)
{
    const uint32_t vectors = t->side / LANES, down = MUON_THREADS / vectors;
    struct ptxk_matrix_tile m = { .row = row };

    ptx_val along = ptx_mul(b, ptx_and(b, t->tid, vectors - 1), LANES);
    ptx_val begin = ptx_shr(b, t->tid, ptxk_log2(vectors)), stride = ptx_u32(down);
    if (p->turns.type) {
        ptx_val lane = ptx_laneid(b), warp = ptx_shr(b, t->tid, 5);
        ptx_val four = ptx_mad(b, warp, 4, ptx_and(b, lane, 3));
        along = ptx_select(b, p->turns, ptx_mul(b, four, LANES), along);
        begin = ptx_select(b, p->turns, ptx_shr(b, lane, 2), begin);
        stride = ptx_select(b, p->turns, ptx_u32(TURNED_ROWS), stride);
    }
    m.along = ptx_bitcast(b, PTX_S32, along);
    m.begin = ptx_bitcast(b, PTX_S32, begin);
    m.stride = p->turns.type ? ptx_bitcast(b, PTX_S32, stride) : ptx_s32((int32_t)down);
    m.rows = p->rows;
    m.columns = ptx_bitcast(b, PTX_S32, p->columns);
    m.regular = ptx_eq(b, ptx_and(b, p->columns, LANES - 1), 0);
    ptx_val below = ptx_sub(b, p->rows, p->row), beside = ptx_sub(b, p->columns, p->column);
    m.height = ptx_bitcast(b, PTX_S32, ptx_min(b, below, t->side));
    m.width = ptx_bitcast(b, PTX_S32, ptx_min(b, beside, t->side));
    ptx_val before = ptx_mul_wide(b, p->row, p->columns);
    m.memory_first = m.first = ptx_add(b, before, ptx_cvt(b, PTX_U64, p->column));
    return m;
}

// The type of all matrices' parameters; PTX_NONE: there are several.
static ptx_type parameter_type(const struct ptxk_step_spec *spec)
{
    const struct ptxk_step_matrices variants = ptxk_step_matrices(spec);
    const ptx_type type = spec->variants[variants.first].parameter;

    for (unsigned k = 1; k < variants.count; k++)
        if (spec->variants[variants.first + k].parameter != type)
            return PTX_NONE;
    return type;
}

void ptxk_matrix_taken_prefetch(ptx_builder *b, const struct ptxk_tile *s, ptx_ptr rows,
                                const struct ptxk_muon_taken *t)
{
    enum { LINE = 128 }; // bytes
    const ptx_type type = parameter_type(s->spec);

    if (type == PTX_NONE)
        return;
    const uint32_t line = LINE / ptx_type_bytes(type), lines = t->side / line;
    ptx_comment(b, "brings the weights near, a line for a thread");
    ptx_ptr of = ptxk_matrix_tensor_at(b, s->spec, rows, s->tensor);
    ptx_val at = ptx_load(b, of, NORM_PLACE(uint64_t, struct step_tensor_row, parameter));
    ptx_ptr p = ptx_ptr_from(b, type, PTX_SPACE_GLOBAL, at);
    const struct in_matrix of_tile = in_matrix_of(b, s->spec, t);
    ptx_val right = ptx_mad(b, ptx_and(b, t->tid, lines - 1), line, of_tile.column);
    ptx_val first = ptx_shr(b, t->tid, ptxk_log2(lines));
    ptx_for (b, k, first, ptx_u32(t->side), MUON_THREADS / lines) {
        ptx_val row = ptx_add(b, of_tile.row, k), is_row = ptx_lt(b, row, of_tile.rows);
        ptx_if (b, ptx_and(b, is_row, ptx_lt(b, right, of_tile.columns))) {
            ptx_val before = ptx_mul_wide(b, row, of_tile.columns);
            ptx_prefetch(b, p, ptx_add(b, before, ptx_cvt(b, PTX_U64, right)), PTX_PREFETCH_L2);
        }
    }
}

struct taken {
    const struct ptxk_muon_taken *from;
    struct in_matrix place;
};

static void row_read(ptx_builder *b, const struct ptxk_muon_taken *from, ptx_val row, ptx_val along,
                     const ptx_val to[LANES])
{
    x_set(b, ptx_ptr_from(b, PTX_F16, PTX_SPACE_SHARED, ptxk_muon_taken_at(b, from, row, along)),
          to);
}

static void taken_read(ptx_builder *b, const void *of, const struct ptxk_matrix_tile *m,
                       ptx_val row, const ptx_val to[LANES])
{
    const struct taken *t = of;
    ptx_val along = ptx_bitcast(b, PTX_U32, m->along), column[LANES];

    row = ptx_bitcast(b, PTX_U32, row);
    if (!t->place.turns.type) {
        row_read(b, t->from, row, along, to);
        return;
    }
    ptx_if (b, t->place.turns) {
        ptx_comment(b, "of a column of X");
        ptxk_muon_taken_column(b, t->from, row, along, column);
        for (unsigned lane = 0; lane < LANES; lane++)
            ptx_set(b, to[lane], column[lane]);
    }
    ptx_else (b) {
        ptx_comment(b, "of a row of X");
        row_read(b, t->from, row, along, to);
    }
}

void ptxk_matrix_step_taken(ptx_builder *b, struct ptxk_tile *s, ptx_val matrix,
                            const struct ptxk_muon_taken *from)
{
    ptx_ptr row = ptxk_matrix_at(b, s->matrices, matrix);
    const struct taken taken = { from, in_matrix_of(b, s->spec, from) };
    struct ptxk_matrix_tile m = taken_tile(b, from, &taken.place, row);
    const struct x_source x = { taken_read, &taken, taken.place.turns.type };
    const bool small = from->side == MUON_SMALL; // its kernel has few registers
    const unsigned together = small ? MOST_TOGETHER / 2 : MOST_TOGETHER;

    rate_read(b, s, row);
    if (!x.by_warps || small) {
        shared_step(b, s, &m, &x, together);
        return;
    }
    ptx_comment(b, "columns of X: 64 of them at a time");
    ptx_val along = m.along, all = ptx_s32((int32_t)from->side);
    ptx_val step = ptx_select(b, taken.place.turns, ptx_s32(TURNED_COLUMNS), all);
    ptx_for (b, k, ptx_s32(0), m.width, step) {
        m.along = ptx_add(b, along, k);
        shared_step(b, s, &m, &x, together);
    }
}
