// SPDX-License-Identifier: MIT
// The step kernel: one block for each tile; each thread steps one or more vectors of each array.
// The kernel that takes sums before it reads the same way, and writes only the sums of tiles.
#include "step_apply.h"

#include <string.h>

#include "norm_parts.h"
#include "step_fp8_blocks.h"
#include "step_matrix.h"
#include "step_tile.h"
#include "step_units.h"

enum { BLOCK = NORM_BLOCK };

// Word offsets in a tensor's step row.
#define ROW(member) NORM_PLACE(uint64_t, struct step_tensor_row, member)

// ---- a tile -------------------------------------------------------------------------------------

// The next backward pass adds to them, also after a step that wrote nothing.
static void gradients_clear(ptx_builder *b, const struct ptxk_tile *s)
{
    const ptx_val zero = ptxk_narrow(b, s->variant->gradient, ptx_zero(PTX_F32));

    ptx_for (b, i, ptx_bitcast(b, PTX_S32, s->tid), s->length, ptxk_step_threads(s->spec))
        ptx_store(b, s->array[ARRAY_GRADIENT], i, zero);
}

// Copies the tables to shared memory; a barrier must follow.
static void tables_copy(ptx_builder *b, const struct ptxk_tile *s)
{
    enum { WORDS = 4, BYTES = 4 * WORDS };
    const uint32_t vectors = (uint32_t)s->blocks->table_bytes / BYTES;
    const uint32_t before = ptxk_step_tables_before(s->spec, s->blocks) / sizeof(uint32_t);
    const ptx_ptr tables = before ? ptx_at(b, s->tables, before) : s->tables;
    const bool can_copy = ptx_builder_target(b).sm >= 80;

    ptx_comment(b, "the tables, into shared memory");
    ptx_for (b, k, s->tid, vectors, BLOCK) {
        ptx_val at = ptx_mul(b, k, WORDS);
        if (can_copy) {
            ptx_ptr to = ptx_at(b, s->shared, at);
            ptx_cp_async(b, to, ptx_at(b, tables, at), BYTES, .bypass = true);
        } else {
            ptx_store_vec(b, s->shared, at, ptx_load_vec(b, tables, at, WORDS));
        }
    }
    if (can_copy)
        ptx_cp_async_commit(b);
}

// Waits for the tables and for what the thread's vectors were begun with.
static void tables_wait(ptx_builder *b)
{
    if (ptx_builder_target(b).sm >= 80)
        ptx_cp_async_wait_all(b);
    ptx_barrier(b);
}

ptx_val ptxk_step_found(ptx_builder *b, const struct ptxk_tile *s)
{
    if (s->is_guarded)
        return ptxk_norm_guards_skipped(b, s->guard_state);
    ptx_val groups = ptx_mul_wide(b, s->groups, 4);

    return ptx_load(b, ptx_at(b, s->records, groups), 0);
}

void ptxk_step_scalars_read(ptx_builder *b, struct ptxk_tile *s,
                            const struct ptxk_tile_vector *first)
{
    const struct ptxk_step_variant *v = s->variant;
    const struct ptxk_step_rule *rule = v->rule;
    const struct ptxk_step_rules rules = ptxk_step_rules(s->spec);
    const uint32_t words = ptxk_step_coefficients_words(&rules);

    ptx_comment(b, "the coefficients of the step, and the factor of the gradients");
    ptx_val row = ptx_mul_wide(b, s->clock, words);
    ptx_ptr c = ptx_at(b, s->coefficients, row);
    memset(s->coefficient, 0, sizeof s->coefficient); // those of another variant
    for (uint32_t k = 0; k < rule->coefficients; k++)
        if (ptxk_step_has_coefficient(rule, k))
            s->coefficient[k] = ptx_load(b, c, ptxk_step_coefficient_at(&rules, k));
    if (v->ema != PTX_NONE && !s->reduces)
        s->ema_rate = ptx_load(b, c, PTXK_STEP_EMA_RATE);
    ptx_ptr record = ptx_at(b, s->records, ptx_mul_wide(b, s->group, 4));
    s->factor = ptx_load(b, record, 0);
    if (s->spec->clips_units && !s->reduces) {
        ptxk_units_ahead(b, s, first->i, first->factor);
        s->units_known = true;
    }
    ptxk_step_copy_scale(b, s);
    ptx_val found = ptxk_step_found(b, s);
    if (ptxk_step_streams(v) && !s->reduces) {
        s->random.t = ptx_load(b, ptx_ptr_cast(b, PTX_U32, c), PTXK_STEP_T);
        ptx_vec key = ptx_load_vec(b, s->seed, 0, 2);
        s->random.key[0] = key.lane[0];
        s->random.key[1] = key.lane[1];
    }
    if (s->blocks && s->blocks->table_bytes)
        tables_wait(b);
    ptx_comment(b, "nothing is written where anything was not finite");
    ptx_val skips = ptx_neu(b, found, 0);
    if (s->spec->gradients == PTXK_STEP_GRADIENTS_ZEROED && !s->is_matrix)
        ptx_if (b, skips)
            gradients_clear(b, s);
    if (s->square)
        ptxk_step_square_leave(b, s, skips);
    else
        ptx_return_if(b, skips);
    if (s->reduces)
        return;
    if (rule->sums) {
        ptx_ptr of_tensor = ptx_at(b, s->sums, ptx_mul_wide(b, s->tensor, PTX_RULE_MAX_SUMS));
        ptx_val sum[PTX_RULE_MAX_SUMS];
        for (uint32_t k = 0; k < rule->sums; k++)
            sum[k] = ptx_load(b, of_tensor, k);
        rule->of_sums(b, rule, sum, s->coefficient);
    }
    ptx_comment(b, "the first tile of a tensor counts its step; tensors that share a count agree");
    ptx_val counts = ptx_and(b, s->starts, ptx_eq(b, s->tid, 0));
    ptx_if (b, counts) {
        ptx_ptr to = ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, s->count_at);
        ptx_val count = ptx_load(b, c, PTXK_STEP_COUNT);
        ptx_store(b, to, 0, count, .order = PTX_ORDER_RELAXED);
        for (uint32_t k = 0; k < rule->clock_states; k++) {
            ptx_ptr states = ptx_ptr_cast(b, PTX_F64, to);
            ptx_val state = ptx_load(b, ptx_ptr_cast(b, PTX_F64, c), PTXK_STEP_CLOCK_STATE + k);
            ptx_store(b, states, PTXK_STEP_CLOCK_STATE_AT + k, state, .order = PTX_ORDER_RELAXED);
        }
        ptxk_step_copy_inverse(b, s);
    }
    if (s->spec->counts_empty)
        ptx_return_if(b, ptx_eq(b, s->length, 0));
}

// ---- sums ---------------------------------------------------------------------------------------

// Adds the terms of a vector's elements, those behind the tile's last as 0.
static void vector_reduce(ptx_builder *b, const struct ptxk_tile *s,
                          const struct ptxk_tile_vector *v, const ptx_val sum[PTX_RULE_MAX_SUMS])
{
    const struct ptxk_step_rule *rule = s->variant->rule;
    ptx_val value[ARRAYS][PTXK_LANES], term[PTX_RULE_MAX_SUMS], scaled;
    struct ptxk_tile of = *s;

    ptxk_tile_vector_values(b, s, v, value);
    ptxk_units_factors(b, &of, v->i, ptxk_step_lanes(s->variant));
    for (unsigned k = 0; k < ptxk_step_lanes(s->variant); k++) {
        struct ptxk_step_element e = ptxk_tile_element(b, &of, value, k, &scaled);
        ptx_val is = ptx_lt(b, ptx_add(b, v->i, ptx_s32((int32_t)k)), s->length);
        rule->reduce(b, s->variant->options, s->coefficient, &e, term);
        for (unsigned n = 0; n < rule->sums; n++) {
            ptx_val own = ptx_select(b, is, term[n], ptx_f32(0));
            ptx_set(b, sum[n], ptx_add(b, sum[n], ptx_cvt(b, PTX_F64, own)));
        }
    }
}

// The sums of the tile, as its row: those of each thread's vectors in the order of the elements,
// then a tree over the threads.
static void reduce_tile(ptx_builder *b, const struct ptxk_tile *s, struct ptxk_tile_vector *v,
                        uint32_t span)
{
    const unsigned sums = s->variant->rule->sums;
    ptx_val sum[PTX_RULE_MAX_SUMS];

    for (unsigned k = 0; k < sums; k++)
        sum[k] = ptx_var(b, ptx_f64(0));
    ptx_while (b, ptx_lt(b, v->i, s->length)) {
        vector_reduce(b, s, v, sum);
        ptx_set(b, v->i, ptx_add(b, v->i, ptx_s32((int32_t)span)));
        ptxk_tile_vector_read(b, s, v);
    }
    ptxk_step_sums_store(b, sum, sums, s->tid, s->sums, ptx_ctaid(b, PTX_X));
}

// ---- tiles --------------------------------------------------------------------------------------

struct ptxk_step_variant ptxk_step_applied(const struct ptxk_step_variant *v)
{
    struct ptxk_step_variant to = *v;

    if (v->rule->of_matrices)
        to.rule = v->rule->of_matrices;
    return to;
}

// Whether the kernel runs beside Muon's products, or the tiles of 128 x 128.
static bool is_beside(const struct ptxk_tile *s)
{
    return !s->is_matrix && !s->reduces && !s->square &&
           (ptxk_step_beside_products(s->spec) || s->spec->has_squares);
}

// This thread's part of the tile of a matrix. The pass before has written gradients and momentum.
static void step_matrix_tile(ptx_builder *b, const struct ptxk_tile *of)
{
    const struct ptxk_step_variant second = ptxk_step_applied(of->variant);
    struct ptxk_tile s = *of;
    ptx_val matrix = ptx_sub(b, ptx_load(b, s.matrix_of, s.tensor), 1);
    const struct ptxk_matrix_tile m =
        ptxk_matrix_read(b, s.spec->spreads, s.matrices, matrix, s.index, s.tid, s.tile_shared);
    const unsigned ema = ARRAY_STATE + ptxk_step_rule_states(of->variant);

    s.variant = &second;
    s.blocks = NULL;
    s.address[ARRAY_STATE] = s.address[ema]; // this pass has no other state
    ptxk_step_qk_begin(b, &s);
    ptx_set(b, s.several, m.several);
    ptxk_step_scalars_read(b, &s, NULL);
    ptxk_matrix_step(b, &s, &m);
}

// Waits for the norm, which plans with accumulators have done. The next launch needs that, too, and
// nothing of this one: a block that ends must have waited.
static void square_wait(ptx_builder *b, const struct ptxk_tile *s)
{
    if (ptx_builder_target(b).sm >= 90 && !s->spec->accumulates)
        ptx_griddepcontrol_wait(b);
    ptxk_norm_let_next_start(b);
}

// This thread's part of a tile of 128 x 128.
static void step_square(ptx_builder *b, const struct ptxk_tile *of)
{
    struct ptxk_tile s = *of;

    s.blocks = NULL;
    s.units_known = false;
    ptxk_tile_arrays(b, &s);
    struct ptxk_step_square_walk walk = ptxk_step_square_begin(b, &s);
    square_wait(b, &s);
    ptxk_step_scalars_read(b, &s, &walk.now);
    ptxk_step_square_step(b, &s, &walk);
}

// This thread's part of the tile. The vectors of `missing` are stepped element by element at the
// end.
static void step_tile(ptx_builder *b, struct ptxk_tile *s)
{
    const uint32_t lanes = ptxk_step_lanes(s->variant), span = ptxk_step_threads(s->spec) * lanes;
    ptx_val missing = { 0 };

    if (s->is_matrix) {
        step_matrix_tile(b, s);
        return;
    }
    if (s->square) {
        step_square(b, s);
        return;
    }
    s->blocks = ptxk_step_blocks_of(s->variant);
    s->units_known = false;
    ptxk_tile_arrays(b, s);
    ptxk_step_qk_begin(b, s);
    ptx_val first = ptx_bitcast(b, PTX_S32, ptx_mul(b, s->tid, lanes));
    struct ptxk_tile_vector v = s->blocks && !s->reduces ? ptxk_tile_block_begin(b, s, first)
                                                         : ptxk_tile_vector_begin(b, s, first);
    if (s->blocks && s->blocks->table_bytes)
        tables_copy(b, s);
    if (ptx_builder_target(b).sm >= 90 && !s->spec->accumulates && !is_beside(s))
        ptx_griddepcontrol_wait(b);
    ptxk_step_scalars_read(b, s, &v);
    if (s->reduces) {
        reduce_tile(b, s, &v, span);
        return;
    }
    if (!s->blocks)
        missing = ptx_var(b, ptx_u32(0));
    ptxk_tile_step(b, s, &v, span, missing);
    if (s->blocks || ptxk_step_in_order(s))
        return;
    ptx_comment(b, "edges, and where a quick quotient does not hold");
    ptx_while (b, ptx_ne(b, missing, 0)) {
        ptx_val k = ptx_bfind(b, missing);
        ptx_set(b, missing, ptx_xor(b, missing, ptx_shl(b, ptx_u32(1), k)));
        ptx_val i = ptx_mad(b, k, span, ptx_bitcast(b, PTX_U32, first));
        ptxk_tile_step_singles(b, s, ptx_bitcast(b, PTX_S32, i));
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

// Whether the kernel steps a variant. Matrices have a kernel of their own.
static bool has_variant(const struct ptxk_tile *s, const struct ptxk_step_variant *v)
{
    return (v->rule->of_matrices != NULL) == s->is_matrix && v->square == (s->square != NULL) &&
           (!s->reduces || v->rule->sums);
}

// Whether any of its variants uses random bits; of chips, for their momentum, too.
static bool draws(const struct ptxk_tile *s, bool of_chips)
{
    for (unsigned k = 0; k < s->spec->variant_count; k++) {
        const struct ptxk_step_variant v = ptxk_step_applied(&s->spec->variants[k]);
        if (has_variant(s, &s->spec->variants[k]) &&
            (ptxk_step_streams(&v) ||
             (of_chips && ptxk_step_rounds_state(&s->spec->variants[k], 0))))
            return true;
    }
    return false;
}

// Whether conversions of any of its variants read tables.
static bool reads_tables(const struct ptxk_tile *s)
{
    for (unsigned k = 0; k < s->spec->variant_count; k++) {
        const struct ptxk_step_blocks *blocks = ptxk_step_blocks_of(&s->spec->variants[k]);
        if (has_variant(s, &s->spec->variants[k]) && blocks && blocks->table_bytes)
            return true;
    }
    return false;
}

// Whether any of its variants has factors.
static bool has_qk_clips(const struct ptxk_tile *s)
{
    for (unsigned k = 0; k < s->spec->variant_count; k++)
        if (has_variant(s, &s->spec->variants[k]) && s->spec->variants[k].qk_clip)
            return true;
    return false;
}

// The tile of this block.
static void place_read(ptx_builder *b, struct ptxk_tile *s, ptx_ptr tiles,
                       const struct ptxk_step_square_tables *squares)
{
    ptx_comment(b, "the tile, and the row of its tensor");
    s->place = ptx_ctaid(b, PTX_X);
    if (s->is_matrix)
        s->place = ptx_add(b, s->place, s->first_tile);

    if (s->square) {
        s->index = ptxk_step_square_read(b, s, squares);
        s->tensor = s->square->tensor;
        return;
    }
    ptx_vec tile = ptx_load_vec(b, tiles, ptx_mul_wide(b, s->place, 2), 2);
    s->tensor = tile.lane[0];
    s->index = tile.lane[1];
}

void ptxk_step_tile_read(ptx_builder *b, struct ptxk_tile *s, ptx_ptr tensors, ptx_ptr rows,
                         ptx_val *variant)
{
    const uint32_t size = s->spec->tile, words = ptxk_step_row_words(s->spec);
    const bool has_blocks = ptxk_step_has_blocks(s->spec) && !s->is_matrix,
               random = draws(s, false);
    ptx_val tensor = s->tensor, index = s->index;
    ptx_vec extent = ptx_load_vec(b, tensors, ptx_mul_wide(b, tensor, 4), 2);
    ptx_ptr row = ptx_at(b, rows, ptx_mul_wide(b, tensor, words));
    ptx_val word[STEP_ROW_WORDS];
    for (unsigned k = 0; k < words; k += 2) {
        if ((k == ROW(run) && !random) ||
            ((k == ROW(absmax) || k == ROW(more_absmax)) && !has_blocks))
            continue;
        ptx_vec pair = ptx_load_vec(b, row, k, 2);
        word[k] = pair.lane[0];
        word[k + 1] = pair.lane[1];
    }
    s->address[ARRAY_PARAMETER] = word[ROW(parameter)];
    ptx_val gradient = extent.lane[0], absent = { 0 };
    if (s->spec->accumulates) {
        ptx_comment(b, "the accumulator, which the norm's launch has completed");
        ptx_vec sum = ptx_load_vec(b, s->accumulators, ptx_mul_wide(b, tensor, 2), 2);
        ptx_val taken = ptx_var(b, ptx_u32(0));
        gradient = sum.lane[0];
        ptx_if (b, ptx_ne(b, gradient, 0))
            ptx_set(b, taken, ptxk_norm_accumulated(b, sum.lane[1]));
        absent = ptx_eq(b, taken, 0);
    }
    s->address[ARRAY_GRADIENT] = gradient;
    s->address[ARRAY_BESIDE] = word[ROW(beside)];
    for (unsigned k = 0; k < STEP_ROW_STATES; k++) {
        s->address[ARRAY_STATE + k] = word[ROW(state) + k];
        if (has_blocks)
            s->scale_at[k] = word[ROW(absmax) + k];
    }
    for (unsigned k = 0; k < STEP_MORE_STATES && words > ROW(more_states); k++) {
        s->address[ARRAY_STATE + STEP_ROW_STATES + k] = word[ROW(more_states) + k];
        if (has_blocks)
            s->scale_at[STEP_ROW_STATES + k] = word[ROW(more_absmax) + k];
    }
    for (unsigned k = PTX_RULE_MAX_STATES; k < PTX_STEP_MAX_STATES && words > ROW(last_states); k++)
        s->address[ARRAY_STATE + k] = word[ROW(last_states) + k - PTX_RULE_MAX_STATES];
    s->count_at = word[ROW(step)];
    if (random) {
        s->random.whole_first = word[ROW(first)];
        s->random.run = word[ROW(run)];
        s->random.stride = word[ROW(stride)];
    }
    ptx_vec id_clock = ptx_unpack(b, PTX_U32, word[ROW(id)]);
    s->random.id = id_clock.lane[0];
    s->clock = id_clock.lane[1];
    ptx_vec variant_group = ptx_unpack(b, PTX_U32, word[ROW(variant)]);
    *variant = ptx_shr(b, variant_group.lane[0], 1);
    ptx_val odd = ptx_and(b, variant_group.lane[0], 1);
    ptx_val vectors = ptx_ne(b, odd, 0);
    s->group = variant_group.lane[1];
    ptx_val skew = ptx_and(b, gradient, 15); // gradients may move
    s->vectors = ptx_and(b, vectors, ptx_eq(b, skew, 0));

    if (s->is_matrix) {
        s->tensor_first = ptx_u64(0); // until its tile is known
        s->several = ptx_var(b, ptx_bool(false));
    } else if (s->square) {
        ptxk_step_square_place(b, s, index);
    } else {
        s->tensor_first = ptx_mul_wide(b, index, size);
    }
    s->random.first = s->tensor_first;
    s->starts = ptx_eq(b, index, 0);
    ptx_comment(b, "a tensor without a gradient is left out");
    if (!s->spec->accumulates)
        absent = ptx_eq(b, gradient, 0);
    ptx_val none = ptx_or(b, absent, ptx_ge(b, s->tensor_first, extent.lane[1]));
    s->elements = extent.lane[1];
    ptxk_step_copy_row(b, s);
    if (ptxk_step_reports(s))
        ptxk_step_report_absent(b, s, none);
    if (s->spec->counts_empty) {
        ptx_comment(b, "but for one without elements that counts its steps");
        ptx_val empty = ptx_eq(b, extent.lane[1], 0);
        none = ptx_and(b, none, ptx_not(b, ptx_and(b, empty, ptx_ne(b, s->count_at, 0))));
    }
    if (s->square && s->square->turns) {
        ptxk_step_square_leave(b, s, none);
        return;
    }
    if (s->square)
        ptx_if (b, none)
            square_wait(b, s);
    ptx_return_if(b, none);
    if (s->square)
        return;
    ptx_val left = ptx_sub(b, extent.lane[1], s->tensor_first);
    s->length = ptx_cvt(b, PTX_S32, ptx_min(b, left, size));
    if (!s->is_matrix)
        ptxk_units_read(b, s);
}

// What the kernel reads is there before the products or tiles begin. The last block has no tile: it
// ends after them, and with it the launch.
static void begin_beside(ptx_builder *b)
{
    ptx_comment(b, "the last block: the launch ends after the one that it runs beside");
    ptx_val last = ptx_eq(b, ptx_add(b, ptx_ctaid(b, PTX_X), 1), ptx_nctaid(b, PTX_X));
    if (ptx_builder_target(b).sm >= 90)
        ptx_if (b, last)
            ptx_griddepcontrol_wait(b);
    ptx_return_if(b, last);
}

// What a kernel does with the tiles.
enum kernel { STEPS, REDUCES, STEPS_MATRICES, STEPS_CHIPS, STEPS_SQUARES, STEPS_TAKEN };

static void tiles_emit(ptx_builder *b, const struct norm_spec *norm, enum kernel kernel,
                       unsigned entry)
{
    static const char few[] = "rows of 12: parameter, master or remainder, states, count, place in "
                              "the whole, id, clock, variant, norm group, absmax";
    static const char *const meanings[] = { few,
                                            "rows of 16: as those of 12, and more states, absmax",
                                            "rows of 20: as those of 16, and more states" };
    const struct ptxk_step_spec *const spec = norm->own;
    const struct ptxk_step_rules rules = ptxk_step_rules(spec);
    const bool reduces = kernel == REDUCES, of_chips = kernel == STEPS_CHIPS;
    const bool of_products = of_chips || kernel == STEPS_TAKEN;
    const bool of_matrices = kernel == STEPS_MATRICES || of_products;
    struct ptxk_step_blocks_tile square = { .format = FP8_E4M3 };
    struct ptxk_step_square_tables squares = { 0 };
    struct ptxk_tile s = { .spec = spec,
                           .reduces = reduces,
                           .is_guarded = norm->guards,
                           .is_matrix = of_matrices,
                           .square = kernel == STEPS_SQUARES ? &square : NULL };

    ptx_ptr tensors = ptx_param_ptr(b, PTX_U64, "tensors", .readonly = true,
                                    .meaning = "rows of 4: gradient, count, weight, type");
    ptx_ptr tiles = { 0 };
    if (s.square)
        squares = ptxk_step_square_params(b);
    else if (!of_products)
        tiles = ptx_param_ptr(b, PTX_U32, "step_tiles", .readonly = true,
                              .meaning = "rows of 2: tensor, place in it");
    ptx_ptr rows = ptx_param_ptr(b, PTX_U64, "rows", .readonly = true,
                                 .meaning = ptxk_step_row_meaning(spec, meanings));
    s.coefficients = ptx_param_ptr(b, PTX_F32, "coefficients", .readonly = true,
                                   .meaning = ptxk_step_coefficients_meaning(&rules));
    s.records = ptx_param_ptr(b, PTX_F32, "records", .readonly = true,
                              .meaning = "rows of 4: factor, norm, found_inf, max_norm; then "
                                         "found_inf of all");
    if (s.is_guarded)
        s.guard_state = ptx_param_ptr(b, PTX_U32, "guard_state", .readonly = true,
                                      .meaning = "struct ptx_guard_state: skipped");
    else
        s.groups = ptx_param(b, PTX_U32, "group_count");
    if (reduces)
        s.sums = ptx_param_ptr(b, PTX_F64, "tile_sums", .writeonly = true,
                               .meaning = "rows of 4, one a tile");
    else if (ptxk_step_has_sums(spec) && !of_matrices && !s.square)
        s.sums = ptx_param_ptr(b, PTX_F64, "tensor_sums", .readonly = true,
                               .meaning = "rows of 4, one a tensor");
    ptxk_step_report_param(b, &s);
    ptxk_step_copy_param(b, &s);
    if (has_qk_clips(&s) && !reduces)
        ptxk_step_qk_param(b, &s);
    if (!of_matrices)
        ptxk_units_param(b, &s);
    if (draws(&s, of_chips) && !reduces)
        s.seed = ptx_param_ptr(b, PTX_U32, "seed", .readonly = true, .length = "2");
    if (reads_tables(&s)) {
        s.tables = ptx_param_ptr(b, PTX_U32, "tables", .readonly = true,
                                 .meaning = ptxk_step_tables_meaning(spec));
        s.shared = ptx_shared(b, PTX_U32, ptxk_step_tables_most(spec) / 4);
    }
    uint32_t stage = 0;
    for (unsigned k = 0; k < spec->variant_count && kernel == STEPS; k++)
        if (ptxk_step_is_staged(b, &spec->variants[k]) &&
            ptxk_step_stage_bytes(&spec->variants[k]) > stage)
            stage = ptxk_step_stage_bytes(&spec->variants[k]);
    if (stage)
        s.stages = ptx_shared(b, PTX_U32, PTXK_STEP_STAGES * stage / 4);
    if (spec->accumulates)
        s.accumulators = ptxk_norm_accumulators_param(b);
    if (of_matrices)
        ptxk_matrix_params(b, &s, of_products, of_chips);
    s.tid = ptx_tid(b, PTX_X);
    if (of_products) {
        ptxk_step_products_body(b, &(struct ptxk_step_products) { &s, tensors, rows }, entry);
        return;
    }
    if (is_beside(&s))
        begin_beside(b);
    else if (spec->accumulates && ptx_builder_target(b).sm >= 90)
        ptx_griddepcontrol_wait(b);
    ptx_val variant;
    place_read(b, &s, tiles, &squares);
    ptxk_step_tile_read(b, &s, tensors, rows, &variant);
    ptxk_step_report_begin(b, &s);
    unsigned variants = 0;
    for (unsigned k = 0; k < spec->variant_count; k++)
        variants += (spec->variants[k].rule->of_matrices != NULL) == of_matrices &&
                    spec->variants[k].square == (s.square != NULL);
    for (unsigned k = 0; k < spec->variant_count; k++) {
        s.variant = &spec->variants[k];
        if (!has_variant(&s, s.variant))
            continue;
        ptxk_step_comment(b, s.variant);
        if (variants == 1) {
            step_tile(b, &s);
            continue;
        }
        ptx_if (b, ptx_eq(b, variant, k))
            step_tile(b, &s);
    }
    if (s.square)
        ptxk_step_square_codes(b, &s);
    if (ptxk_step_notes(&s))
        ptxk_step_report_tile(b, &s);
}

void ptxk_step_apply_emit(ptx_builder *b, const struct norm_spec *norm)
{
    const struct ptxk_step_spec *spec = norm->own;

    ptx_comment(b, "a block for each tile: gradients scaled, and the rule's step");
    if (ptxk_step_beside_products(spec) || spec->has_squares)
        ptx_comment(b, "and one more, which ends after the launch that the others run beside");
    tiles_emit(b, norm, STEPS, 0);
}

void ptxk_step_matrix_apply_emit(ptx_builder *b, const struct norm_spec *norm)
{
    ptx_comment(b, "a block for each tile of a matrix: the parameters, from the products");
    tiles_emit(b, norm, STEPS_MATRICES, 0);
}

void ptxk_step_products_with(ptx_builder *b, const struct norm_spec *norm, unsigned entry)
{
    tiles_emit(b, norm, entry == MUON_CHIP_128 ? STEPS_CHIPS : STEPS_TAKEN, entry);
}

void ptxk_step_squares_emit(ptx_builder *b, const struct norm_spec *norm)
{
    ptx_comment(b, "a block for each 128 x 128 weights of a matrix: their step, and their codes");
    tiles_emit(b, norm, STEPS_SQUARES, 0);
}

bool ptxk_step_has_others(const struct ptxk_step_spec *spec)
{
    for (unsigned k = 0; k < spec->variant_count; k++)
        if (!spec->variants[k].rule->of_matrices && !spec->variants[k].square)
            return true;
    return false;
}

void ptxk_step_reduce_emit(ptx_builder *b, const struct norm_spec *norm)
{
    ptx_comment(b, "a block for each tile: the sums that the rule's step needs");
    tiles_emit(b, norm, REDUCES, 0);
}
