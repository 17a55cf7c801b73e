// SPDX-License-Identifier: MIT
// The pass over the elements of matrices before the products. In it and in that after them a block
// has a tile, a thread four adjacent elements of some of its rows at a time, which it reads and
// writes as vectors where the rows begin at multiples of four elements, else one by one, with the
// same bits. Where X is the matrix transposed, a tile goes through shared memory.
//
// Bytes of an element, with everything in f32 and X in f16:
//
//     kernel                reads              writes         in all
//     clip_norm             G 4, m 4                               8
//     step_matrix           G 4, m 4           m 4, X 2           14
//     (the products)
//     step_matrix_apply     p 4, X 2           p 4                10
//
// step_matrix_chips makes the products, too, and has the first and last X on the chip:
//
//     the first product     G 4, m 4           m 4, X 2           14
//     a restart             X 2                X 2, or 0           4 or 2
//     the last product      X 2, p 4           p 4                10
//
// G and m are read twice because the length of an update divides each of its elements.
#include "muon_chip.h"
#include "muon_panel.h"
#include "step_matrix_tile.h"

#include "common/common.h"
#include "common/division.h"

enum {
    BLOCK = NORM_BLOCK,
    LANES = PTXK_MATRIX_LANES,
    TILE = STEP_MATRIX_TILE,
    PITCH = STEP_MATRIX_PITCH,
    AT_ONCE = PTXK_MATRIX_AT_ONCE,
    TURNED_STRIDE = PTXK_MATRIX_TURNED_STRIDE,
};

#define ROW(member) NORM_PLACE(uint64_t, struct step_tensor_row, member)

ptx_ptr ptxk_matrices_param(ptx_builder *b)
{
    return ptx_param_ptr(b, PTX_U64, "matrix_rows", .readonly = true,
                         .meaning = "rows of 8: addresses of X and of the products' result, first "
                                    "of its sums, factor of lr (f64), tensor, rows, columns, line "
                                    "of X, options, tiles of a block");
}

ptx_ptr ptxk_matrix_at(ptx_builder *b, ptx_ptr matrices, ptx_val k)
{
    return ptx_at(b, matrices, ptx_mul_wide(b, k, NORM_LENGTH(uint64_t, struct step_matrix_row)));
}

ptx_val ptxk_matrix_has(ptx_builder *b, ptx_val options, uint32_t option)
{
    return ptx_ne(b, ptx_and(b, options, option), 0);
}

ptx_ptr ptxk_matrix_rows_param(ptx_builder *b, const struct ptxk_step_spec *spec)
{
    static const char *const meanings[] = { "rows of 12, one a tensor", "rows of 16, one a tensor",
                                            "rows of 20, one a tensor" };

    return ptx_param_ptr(b, PTX_U64, "rows", .readonly = true,
                         .meaning = ptxk_step_row_meaning(spec, meanings));
}

ptx_ptr ptxk_matrix_tensor_at(ptx_builder *b, const struct ptxk_step_spec *spec, ptx_ptr rows,
                              ptx_val tensor)
{
    return ptx_at(b, rows, ptx_mul_wide(b, tensor, ptxk_step_row_words(spec)));
}

// ---- before the products ------------------------------------------------------------------------

struct pass {
    const struct ptxk_step_spec *spec;
    const struct ptxk_step_variant *variant;
    struct ptxk_step_random random;
    ptx_val matrix, tensor, index, tid; // u32
    ptx_ptr row;                        // of the tensor
    ptx_val gradient;                   // u64
    ptx_ptr matrices, coefficients, records, guard_state, seed, totals, accumulators;
    ptx_ptr shared, shared_scale;
    ptx_val groups; // u32
    bool is_guarded;
    bool overlaps;                           // begins before the launch before it has ended
    const struct ptxk_matrix_panels *panels; // of a chip; NULL: tiles
    ptx_cache cache;                         // of gradients and momentum
    struct divisor divisor;                  // scale
    // Of the tile:
    struct ptxk_matrix_tile m;
    ptx_ptr g, state, x;
    ptx_ptr all_g, all_state, all_x; // of the matrix
    ptx_val factor, rest;            // f32
    ptx_val vectors;                 // a predicate: the arrays begin at multiples of 16 bytes
    ptx_val whole;
};

static void gradients_clear(ptx_builder *b, const struct pass *p)
{
    ptx_val zero[LANES];

    for (unsigned n = 0; n < LANES; n++)
        zero[n] = ptx_zero(PTX_F32);
    ptx_val step = ptx_mul(b, p->m.stride, AT_ONCE);
    ptx_for (b, r, p->m.begin, p->m.height, step) {
        const struct ptxk_matrix_vectors v = ptxk_matrix_vectors_of(b, &p->m, r, p->whole);
        const struct ptxk_matrix_vectors of_g = p->spec->accumulates ? ptxk_matrix_in_order(&v) : v;
        for (unsigned k = 0; k < AT_ONCE; k++)
            ptx_if (b, v.there[k])
                ptxk_matrix_vector_write(b, &of_g, k, p->variant->gradient, p->g, zero);
    }
}

// Sets what belongs to a tile.
static void tile_begin(ptx_builder *b, struct pass *p, ptx_val index)
{
    if (p->panels)
        ptxk_matrix_panel_set(b, &p->m, ptx_mul(b, index, MUON_DEPTH));
    else
        ptxk_matrix_tile_set(b, &p->m, index);
    p->g = ptx_at(b, p->all_g, p->spec->accumulates ? p->m.first : p->m.memory_first);
    p->state = ptx_at(b, p->all_state, p->m.memory_first);
    if (!p->panels)
        p->x = ptx_at(b, p->all_x, p->m.x_first);
    p->random.first = p->m.first;
    p->whole = ptxk_matrix_is_whole(b, &p->m, p->vectors);
}

// Ends the kernel, for all threads. `overlaps`: with the launch before it, for which it has not
// waited.
static void end_if(ptx_builder *b, bool overlaps, ptx_val ends)
{
    if (overlaps)
        ptx_if (b, ends)
            ptxk_muon_follow(b);
    ptx_return_if(b, ends);
}

// The scalars of the step. Ends the kernel, for all threads, if the step must not write.
static void scalars_read(ptx_builder *b, struct pass *p)
{
    const struct ptxk_step_rules rules = ptxk_step_rules(p->spec);
    ptx_comment(b, "the scalars of the step");
    ptx_vec id_clock = ptx_unpack(b, PTX_U32, ptx_load(b, p->row, ROW(id)));
    ptx_val group = ptx_unpack(b, PTX_U32, ptx_load(b, p->row, ROW(variant))).lane[1];
    ptx_val of_clock = ptx_mul_wide(b, id_clock.lane[1], ptxk_step_coefficients_words(&rules));
    ptx_ptr c = ptx_at(b, p->coefficients, of_clock);
    p->rest = ptx_load(b, c, MUON_REST);
    p->factor = ptx_load(b, ptx_at(b, p->records, ptx_mul_wide(b, group, 4)), 0);
    if (ptxk_step_rounds_state(p->variant, 0)) {
        p->random = (struct ptxk_step_random) {
            .whole_first = ptx_load(b, p->row, ROW(first)),
            .run = ptx_load(b, p->row, ROW(run)),
            .stride = ptx_load(b, p->row, ROW(stride)),
            .t = ptx_load(b, ptx_ptr_cast(b, PTX_U32, c), PTXK_STEP_T),
            .id = id_clock.lane[0],
            .key = { ptx_load(b, p->seed, 0), ptx_load(b, p->seed, 1) },
        };
    }
    ptx_val found;
    if (p->is_guarded)
        found = ptxk_norm_guards_skipped(b, p->guard_state);
    else
        found = ptx_load(b, ptx_at(b, p->records, ptx_mul_wide(b, p->groups, 4)), 0);
    ptx_val skips = ptx_neu(b, found, 0);
    if (p->spec->gradients == PTXK_STEP_GRADIENTS_ZEROED)
        ptx_if (b, skips) {
            struct pass cleared = *p;
            ptx_comment(b, "gradients become 0 all the same");
            ptx_for (b, index, p->m.begins, p->m.ends, 1) {
                tile_begin(b, &cleared, index);
                gradients_clear(b, &cleared);
            }
        }
    ptx_comment(b, "nothing else is written where the step is skipped");
    end_if(b, p->panels != NULL, skips);
    ptx_if (b, ptx_eq(b, p->tid, 0)) {
        ptx_ptr totals = ptx_at(b, p->totals, ptx_mul_wide(b, p->tensor, STEP_MATRIX_SUMS));
        const struct ptxk_matrix_scale of = { c, p->factor, p->m.options, totals };
        ptx_store(b, p->shared_scale, 0, ptxk_matrix_scale(b, &of));
    }
    ptx_barrier(b);
    ptx_val scale = ptx_load(b, p->shared_scale, 0);
    p->divisor = ptxk_divisor_of_many(b, scale, PTX_F32, false);
}

// What an element becomes.
struct stepped {
    ptx_val m, update, g; // in the form that ptxk_narrow() takes; f32; f32, times the factor
};

static struct stepped element(ptx_builder *b, const struct pass *p, ptx_val g, ptx_val m, ptx_val i)
{
    const struct ptxk_step_variant *v = p->variant;
    struct stepped to;

    to.g = ptx_mul(b, ptx_cvt(b, PTX_F32, g), p->factor);
    g = v->options & PTXK_STEP_MAXIMIZE ? ptx_neg(b, to.g) : to.g;
    m = ptx_cvt(b, PTX_F32, m);
    to.m = m = ptx_fma(b, p->rest, ptx_sub(b, g, m), m);
    ptx_val u = m;
    if (v->options & PTXK_STEP_NESTEROV) {
        ptx_val apart = ptx_sub(b, m, g);
        u = ptx_fma(b, ptx_neg(b, p->rest), apart, m);
    }
    to.update = u;
    if (ptxk_step_rounds_state(v, 0)) {
        ptx_val bits = ptxk_step_random_of(b, &p->random, i, PTXK_STREAM_FIRST_STATE);
        to.m = ptxk_step_round(b, m, bits, false);
    }
    return to;
}

// The updates of a vector, into X or, where it is transposed, into shared memory.
static void updates_write(ptx_builder *b, const struct pass *p, ptx_val row,
                          const ptx_val update[LANES])
{
    const struct ptxk_matrix_tile *m = &p->m;
    ptx_vec all = { .lanes = LANES };

    for (unsigned n = 0; n < LANES; n++)
        all.lane[n] = update[n];
    if (p->panels) {
        ptx_comment(b, "the updates, into shared memory");
        ptx_store_vec(b, p->x, ptxk_matrix_panel_place(b, row), all);
        return;
    }
    ptx_comment(b, "the updates, into X, or to be transposed");
    ptx_if (b, m->turns)
        for (uint32_t n = 0; n < LANES; n++)
            ptx_store(b, m->shared, ptxk_matrix_shared_place(b, m, row, n), update[n]);
    ptx_else (b) {
        ptx_comment(b, "a vector of a row of X");
        ptx_store_vec(b, p->x, ptxk_matrix_x_place(b, m, row, m->along), all);
    }
}

static void vector_step(ptx_builder *b, const struct pass *p, const struct ptxk_matrix_vectors *v,
                        unsigned k, const struct ptxk_lanes *in_g, const struct ptxk_lanes *in_m)
{
    const ptx_type type = ptxk_step_array_type(p->variant, ARRAY_STATE);
    ptx_val g[PTXK_LANES], m[PTXK_LANES], state[LANES], update[LANES], scaled[LANES];
    ptx_val i = ptx_add(b, v->base[k], p->m.along);
    const struct divisors by = { { &p->divisor, &p->divisor, &p->divisor, &p->divisor } };
    ptx_vec updates = { .lanes = LANES };

    ptxk_lanes_of(b, in_g, g);
    ptxk_lanes_of(b, in_m, m);
    for (uint32_t n = 0; n < LANES; n++) {
        ptx_comment(b, "element %u: momentum and update", n);
        const struct stepped to = element(b, p, g[n], m[n], n ? ptx_add(b, i, n) : i);
        state[n] = to.m;
        updates.lane[n] = to.update;
        scaled[n] = p->spec->gradients == PTXK_STEP_GRADIENTS_ZEROED ? ptx_zero(PTX_F32) : to.g;
    }
    updates = ptxk_quotients(b, &by, updates);
    for (unsigned n = 0; n < LANES; n++)
        update[n] = ptx_cvt(b, PTX_F16, updates.lane[n]);
    ptx_comment(b, "writes them");
    ptxk_matrix_vector_write(b, v, k, type, p->state, state);
    const struct ptxk_matrix_vectors of_g = p->spec->accumulates ? ptxk_matrix_in_order(v) : *v;
    if (p->spec->gradients != PTXK_STEP_GRADIENTS_RAW)
        ptxk_matrix_vector_write(b, &of_g, k, p->variant->gradient, p->g, scaled);
    updates_write(b, p, v->row[k], update);
}

// Writes a tile of X that is transposed; what pads its rows is 0.
static void x_write(ptx_builder *b, const struct pass *p)
{
    const struct ptxk_matrix_tile *m = &p->m;
    const struct ptxk_matrix_turned t = ptxk_matrix_turned_of(m);

    ptx_comment(b, "writes the tile of X");
    ptx_if (b, ptx_lt(b, t.along, m->x_line)) {
        ptx_for (b, r, t.begin, m->width, TURNED_STRIDE) {
            ptx_vec all = { .lanes = LANES };
            for (uint32_t n = 0; n < LANES; n++) {
                ptxk_comment_lanes(b, "of a row of X", n, 2, LANES);
                ptx_val column = ptx_add(b, t.along, n);
                ptx_val is = ptx_lt(b, column, m->height);
                ptx_val from = ptx_load(b, m->shared, ptx_mad(b, r, PITCH, column));
                ptx_val bits = ptx_bitcast(b, PTX_U16, from);
                bits = ptx_select(b, is, bits, 0);
                all.lane[n] = ptx_bitcast(b, PTX_F16, bits);
            }
            ptx_store_vec(b, p->x, ptxk_matrix_x_place(b, m, r, t.along), all);
        }
    }
}

// Executed by all threads of the block, which have left the shared memory.
static void pass_tile(ptx_builder *b, const struct pass *p)
{
    const struct ptxk_step_variant *v = p->variant;
    const struct ptxk_matrix_tile *m = &p->m;

    ptx_comment(b, "the rows of the thread; those of X are padded");
    ptx_val broad = ptx_select(b, m->turns, m->width, m->x_line);
    ptx_val end = ptx_select(b, ptx_lt(b, m->along, broad), m->height, 0);
    ptx_val step = ptx_mul(b, m->stride, AT_ONCE);
    ptx_for (b, r, m->begin, end, step) {
        struct ptxk_matrix_vectors rows = ptxk_matrix_vectors_of(b, m, r, p->whole);
        rows.cache = p->cache;
        struct ptxk_lanes in_g[AT_ONCE], in_m[AT_ONCE];
        ptx_comment(b, "reads gradients and momentum");
        ptxk_matrix_lanes_var(b, v->gradient, in_g);
        ptxk_matrix_lanes_var(b, ptxk_step_array_type(v, ARRAY_STATE), in_m);
        const struct ptxk_matrix_vectors of_g =
            p->spec->accumulates ? ptxk_matrix_in_order(&rows) : rows;
        ptxk_matrix_vectors_read(b, &of_g, p->g, in_g);
        ptxk_matrix_vectors_read(b, &rows, p->state, in_m);
        for (unsigned k = 0; k < AT_ONCE; k++)
            ptx_if (b, rows.there[k])
                vector_step(b, p, &rows, k, &in_g[k], &in_m[k]);
    }
    ptx_if (b, m->turns) {
        ptx_barrier(b);
        x_write(b, p);
        ptx_barrier(b);
    }
}

static void arrays_of(ptx_builder *b, struct pass *p)
{
    const struct ptxk_step_variant *v = p->variant;
    ptx_val state = ptx_load(b, p->row, ROW(state));

    p->all_g = ptx_ptr_from(b, v->gradient, PTX_SPACE_GLOBAL, p->gradient);
    p->all_state = ptx_ptr_from(b, ptxk_step_array_type(v, ARRAY_STATE), PTX_SPACE_GLOBAL, state);
    ptx_val low = ptx_and(b, ptx_or(b, p->gradient, state), 15);
    p->vectors = ptx_eq(b, low, 0);
}

static void pass_matrix(ptx_builder *b, struct pass *p)
{
    ptxk_step_comment(b, p->variant);
    p->m =
        ptxk_matrix_read(b, p->spec->spreads, p->matrices, p->matrix, p->index, p->tid, p->shared);
    ptx_val x = ptx_load(b, p->m.row, MATRIX_ROW(x));
    p->all_x = ptx_ptr_from(b, PTX_F16, PTX_SPACE_GLOBAL, x);
    arrays_of(b, p);
    if (p->overlaps)
        ptxk_norm_wait_for_last(b);
    scalars_read(b, p);
    ptx_for (b, index, p->m.begins, p->m.ends, 1) {
        tile_begin(b, p, index);
        pass_tile(b, p);
    }
}

// Sets the gradient's address, that of the sum where there are accumulators. Returns whether it is
// absent: a predicate.
static ptx_val gradient_read(ptx_builder *b, struct pass *p, ptx_ptr tensors)
{
    if (p->spec->accumulates) {
        ptx_vec sum = ptx_load_vec(b, p->accumulators, ptx_mul_wide(b, p->tensor, 2), 2);
        ptx_val taken = ptxk_norm_accumulated(b, sum.lane[1]);
        p->gradient = sum.lane[0];
        return ptx_eq(b, taken, 0);
    }
    const uint32_t length = NORM_LENGTH(uint64_t, struct norm_tensor_row);
    p->gradient = ptx_load(b, ptx_at(b, tensors, ptx_mul_wide(b, p->tensor, length)), 0);
    return ptx_eq(b, p->gradient, 0);
}

// The rows of X of a matrix that may have a gradient on other ranks. Such a matrix is not turned.
static void x_clear(ptx_builder *b, struct pass *p)
{
    const ptx_val zero = ptx_zero(PTX_F16);
    const ptx_vec all = { .lanes = LANES, .lane = { zero, zero, zero, zero } };

    p->m = ptxk_matrix_read(b, false, p->matrices, p->matrix, p->index, p->tid, p->shared);
    ptx_val at = ptx_load(b, p->m.row, MATRIX_ROW(x));
    p->all_x = ptx_ptr_from(b, PTX_F16, PTX_SPACE_GLOBAL, at);
    ptx_for (b, index, p->m.begins, p->m.ends, 1) {
        ptxk_matrix_tile_set(b, &p->m, index);
        p->x = ptx_at(b, p->all_x, p->m.x_first);
        ptx_val within = ptx_lt(b, p->m.along, p->m.x_line);
        ptx_val is = ptx_and(b, within, ptx_not(b, p->m.turns));
        ptx_val end = ptx_select(b, is, p->m.height, 0);
        ptx_for (b, r, p->m.begin, end, p->m.stride)
            ptx_store_vec(b, p->x, ptxk_matrix_x_place(b, &p->m, r, p->m.along), all);
    }
}

// `each` for the tensor's variant, which is set.
static void for_variant(ptx_builder *b, struct pass *p,
                        void (*each)(ptx_builder *b, struct pass *p))
{
    const struct ptxk_step_matrices variants = ptxk_step_matrices(p->spec);
    ptx_val variant = ptx_unpack(b, PTX_U32, ptx_load(b, p->row, ROW(variant))).lane[0];

    variant = ptx_shr(b, variant, 1);
    for (unsigned k = variants.first; k < variants.first + variants.count; k++) {
        p->variant = &p->spec->variants[k];
        if (variants.count == 1)
            each(b, p);
        else
            ptx_if (b, ptx_eq(b, variant, k))
                each(b, p);
    }
}

bool ptxk_step_updates_early(const struct norm_spec *norm)
{
    enum { CHUNK = 8192 }; // of the norm, in elements
    const struct ptxk_step_spec *spec = norm->own;

    return norm->chunk <= CHUNK && !spec->accumulates && !spec->over_ranks;
}

void ptxk_step_matrix_emit(ptx_builder *b, const struct norm_spec *norm)
{
    const bool early = ptxk_step_updates_early(norm);
    const struct ptxk_step_spec *spec = norm->own;
    const struct ptxk_step_rules rules = ptxk_step_rules(spec);
    const struct ptxk_step_matrices variants = ptxk_step_matrices(spec);
    struct pass p = { .spec = spec, .is_guarded = norm->guards, .overlaps = early };
    bool draws = false;

    p.cache = early ? PTX_CACHE_STREAMING : PTX_CACHE_DEFAULT;
    ptx_comment(b, "a block for each tile of a matrix: momentum, and the update for the products");
    ptx_ptr tensors = { 0 };
    if (!spec->accumulates)
        tensors = ptx_param_ptr(b, PTX_U64, "tensors", .readonly = true,
                                .meaning = "rows of 4: gradient, count, weight, type");
    ptx_ptr tiles = ptx_param_ptr(b, PTX_U32, "matrix_tiles", .readonly = true,
                                  .meaning = "rows of 2: matrix, place in it");
    p.matrices = ptxk_matrices_param(b);
    ptx_ptr rows = ptxk_matrix_rows_param(b, spec);
    p.coefficients = ptx_param_ptr(b, PTX_F32, "coefficients", .readonly = true,
                                   .meaning = ptxk_step_coefficients_meaning(&rules));
    p.records = ptx_param_ptr(b, PTX_F32, "records", .readonly = true,
                              .meaning = "rows of 4: factor, norm, found_inf, max_norm; then "
                                         "found_inf of all");
    p.totals = ptxk_matrix_totals_param(b, false);
    if (p.is_guarded)
        p.guard_state = ptx_param_ptr(b, PTX_U32, "guard_state", .readonly = true,
                                      .meaning = "struct ptx_guard_state: skipped");
    else
        p.groups = ptx_param(b, PTX_U32, "group_count");
    for (unsigned k = variants.first; k < variants.first + variants.count; k++)
        draws |= ptxk_step_rounds_state(&spec->variants[k], 0);
    if (draws)
        p.seed = ptx_param_ptr(b, PTX_U32, "seed", .readonly = true, .length = "2");
    if (spec->accumulates)
        p.accumulators = ptxk_norm_accumulators_param(b);
    p.shared = ptx_shared(b, PTX_U32, STEP_MATRIX_SHARED / 4);
    p.shared_scale = ptx_shared(b, PTX_F32, 1);
    p.tid = ptx_tid(b, PTX_X);
    ptx_vec tile = ptx_load_vec(b, tiles, ptx_mul_wide(b, ptx_ctaid(b, PTX_X), 2), 2);
    p.matrix = tile.lane[0];
    p.index = tile.lane[1];
    ptx_ptr of_matrix = ptxk_matrix_at(b, p.matrices, p.matrix);
    p.tensor = ptx_unpack(b, PTX_U32, ptx_load(b, of_matrix, MATRIX_ROW(tensor))).lane[0];
    p.row = ptxk_matrix_tensor_at(b, spec, rows, p.tensor);
    ptx_comment(b, "a matrix without a gradient is left out");
    ptx_val absent = gradient_read(b, &p, tensors);
    if (spec->over_ranks) {
        ptx_if (b, absent) {
            struct pass cleared = p;
            ptx_comment(b, "its rows here are 0 for the ranks that have others");
            x_clear(b, &cleared);
        }
    }
    end_if(b, early, absent);
    for_variant(b, &p, pass_matrix);
}

// ---- within the first product of a chip ---------------------------------------------------------

// Vectors of the thread's are copied ahead into shared memory, a panel in all: as many rows as are
// processed at once are a group of copies, which follow each other in the order of the rows.
enum {
    SLOT = MUON_CHIP_THREADS * LANES * 4,
    PANEL_ROWS = MUON_CHIP_MOST * MUON_DEPTH / LANES / MUON_CHIP_THREADS, // of a thread
    ROW_GROUPS = PANEL_ROWS / AT_ONCE,
};

struct ahead {
    ptx_ptr g[AT_ONCE], m[AT_ONCE];
};

// Where the thread has the rows from `r` on.
static struct ahead ahead_at(ptx_builder *b, const struct pass *p, ptx_val r)
{
    enum { APART = MUON_CHIP_MOST / PANEL_ROWS };
    const ptx_type type = ptxk_step_array_type(p->variant, ARRAY_STATE);
    ptx_val rows = ptx_bitcast(b, PTX_U32, ptx_sub(b, r, p->m.begin));
    ptx_val own = ptx_mad(b, p->tid, LANES * 4, p->panels->room);
    ptx_val at = ptx_mad(b, rows, 2 * SLOT / APART, own);
    struct ahead to;

    for (unsigned k = 0; k < AT_ONCE; k++) {
        ptx_val slot = ptx_add(b, at, 2 * k * SLOT);
        to.g[k] = ptx_ptr_from(b, p->variant->gradient, PTX_SPACE_SHARED, slot);
        to.m[k] = ptx_ptr_from(b, type, PTX_SPACE_SHARED, ptx_add(b, slot, SLOT));
    }
    return to;
}

// Begins to copy rows of the tile.
static void ahead_copy(ptx_builder *b, const struct pass *p, ptx_val r, const struct ahead *to)
{
    const struct ptxk_matrix_vectors rows = ptxk_matrix_vectors_of(b, &p->m, r, p->whole);
    const struct ptxk_matrix_vectors of_g =
        p->spec->accumulates ? ptxk_matrix_in_order(&rows) : rows;

    ptx_comment(b, "copies gradients and momentum of these rows");
    ptxk_matrix_vectors_copy(b, &of_g, p->g, to->g);
    ptxk_matrix_vectors_copy(b, &rows, p->state, to->m);
    ptx_cp_async_commit(b);
}

static void first_panel_copy(ptx_builder *b, const struct pass *of)
{
    struct pass p = *of;

    tile_begin(b, &p, ptx_u32(0));
    ptx_for (b, r, p.m.begin, ptx_s32(MUON_CHIP_MOST), ptx_mul(b, p.m.stride, AT_ONCE)) {
        const struct ahead to = ahead_at(b, &p, r);
        ahead_copy(b, &p, r, &to);
    }
}

// Reads rows that were copied, or were not because vectors are not whole.
static void rows_read(ptx_builder *b, const struct pass *p, const struct ptxk_matrix_vectors *rows,
                      const struct ahead *from, const struct ptxk_lanes in_g[AT_ONCE],
                      const struct ptxk_lanes in_m[AT_ONCE])
{
    const struct ptxk_matrix_vectors of_g =
        p->spec->accumulates ? ptxk_matrix_in_order(rows) : *rows;

    ptx_comment(b, "gradients and momentum that were copied");
    ptx_if (b, p->whole)
        for (unsigned k = 0; k < AT_ONCE; k++) {
            ptxk_lanes_read(b, &in_g[k], from->g[k]);
            ptxk_lanes_read(b, &in_m[k], from->m[k]);
        }
    ptx_else (b) {
        ptx_comment(b, "and those that were not");
        ptxk_matrix_vectors_read(b, &of_g, p->g, in_g);
        ptxk_matrix_vectors_read(b, rows, p->state, in_m);
    }
}

static void panel_update(ptx_builder *b, void *user, ptx_val column, ptx_val panel)
{
    struct pass p = *(const struct pass *)user, next = p;
    const ptx_type type = ptxk_step_array_type(p.variant, ARRAY_STATE);
    const ptx_val zero = ptx_zero(PTX_F16);
    const ptx_vec zeros = { .lanes = LANES, .lane = { zero, zero, zero, zero } };

    ptx_comment(b, "momentum and update of 64 columns, and the columns behind them");
    ptx_val index = ptx_shr(b, column, ptxk_log2(MUON_DEPTH)), after = ptx_add(b, index, 1);
    tile_begin(b, &p, index);
    tile_begin(b, &next, after);
    next.whole = ptx_and(b, next.whole, ptx_lt(b, after, p.m.ends));
    p.x = ptx_ptr_from(b, PTX_F16, PTX_SPACE_SHARED, ptx_add(b, panel, p.panels->in_panel));
    ptx_val is_within = ptx_lt(b, p.m.along, p.m.width);
    ptx_for (b, row, p.m.begin, ptx_s32(MUON_CHIP_MOST), ptx_mul(b, p.m.stride, AT_ONCE)) {
        struct ptxk_lanes in_g[AT_ONCE], in_m[AT_ONCE];
        ptx_val to = row;
        ptx_cp_async_wait(b, ROW_GROUPS - 1);
        const struct ahead at = ahead_at(b, &p, row);
        const struct ptxk_matrix_vectors rows = ptxk_matrix_vectors_of(b, &p.m, row, p.whole);
        ptxk_matrix_lanes_var(b, p.variant->gradient, in_g);
        ptxk_matrix_lanes_var(b, type, in_m);
        rows_read(b, &p, &rows, &at, in_g, in_m);
        ahead_copy(b, &next, row, &at);
        for (unsigned k = 0; k < AT_ONCE; k++) {
            ptx_if (b, ptx_and(b, rows.there[k], is_within))
                vector_step(b, &p, &rows, k, &in_g[k], &in_m[k]);
            ptx_else (b)
                ptx_store_vec(b, p.x, ptxk_matrix_panel_place(b, to), zeros);
            to = ptx_add(b, to, p.m.stride);
        }
    }
}

struct of_chip {
    struct pass pass; // the first
    struct ptxk_muon_chip *chip;
};

static void pass_chip(ptx_builder *b, struct pass *p)
{
    const struct of_chip *of = (const struct of_chip *)p;

    ptxk_step_comment(b, p->variant);
    arrays_of(b, p);
    scalars_read(b, p);
    first_panel_copy(b, p);
    ptxk_muon_chip_first(b, of->chip, panel_update, p);
}

void ptxk_matrix_update_chip(ptx_builder *b, const struct ptxk_tile *s,
                             const struct ptxk_matrix_update *with, struct ptxk_muon_chip *chip)
{
    struct of_chip of = { .pass = { .spec = s->spec,
                                    .is_guarded = s->is_guarded,
                                    .tensor = s->tensor,
                                    .tid = s->tid,
                                    .row = ptxk_matrix_tensor_at(b, s->spec, with->rows, s->tensor),
                                    .matrices = s->matrices,
                                    .coefficients = s->coefficients,
                                    .records = s->records,
                                    .guard_state = s->guard_state,
                                    .seed = s->seed,
                                    .totals = s->totals,
                                    .accumulators = s->accumulators,
                                    .shared_scale = s->scale_shared,
                                    .groups = s->groups },
                          .chip = chip };
    struct pass *p = &of.pass;

    p->matrix = ptx_sub(b, ptx_load(b, s->matrix_of, s->tensor), 1);
    const struct ptxk_matrix_panels panels =
        ptxk_matrix_panels_of(b, ptxk_matrix_at(b, p->matrices, p->matrix), chip);
    p->panels = &panels;
    p->m = panels.m;
    p->m.begins = ptx_u32(0);
    ptx_val up = ptx_add(b, panels.columns, MUON_DEPTH - 1);
    p->m.ends = ptxk_over_power_of_two(b, up, MUON_DEPTH);
    ptx_comment(b, "a matrix without a gradient is left out");
    end_if(b, true, gradient_read(b, p, with->tensors));
    for_variant(b, p, pass_chip);
}
