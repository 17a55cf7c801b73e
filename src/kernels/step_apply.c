// SPDX-License-Identifier: MIT
// The step kernel: one block for each tile; each thread steps one or more vectors of each array.
// The kernel that takes sums before it reads the same way, and writes only the sums of tiles.
#include "step_apply.h"

#include "step/random.h"

enum { BLOCK = NORM_BLOCK };

// Word offsets in a tensor's step row.
#define ROW(member) NORM_PLACE(uint64_t, struct step_tensor_row, member)

// ---- a tile -------------------------------------------------------------------------------------

struct step {
    const struct ptxk_step_spec *spec;
    const struct ptxk_step_variant *variant;
    bool reduces; // takes the sums
    ptx_ptr sums; // of tiles if it takes them, else of tensors; if a rule has some
    ptx_val tid;
    ptx_val tensor;       // u32
    ptx_val tensor_first; // u64: index of the tile's first element
    ptx_val length;       // s32: number of elements of the tile
    ptx_val address[ARRAYS], scale_at[PTX_STEP_MAX_STATES];
    ptx_val clock; // u32
    struct ptxk_step_random random;
    ptx_val vectors;  // a predicate: whole vectors can be accessed
    ptx_val group;    // u32: norm group
    ptx_val count_at; // u64
    ptx_val starts;   // a predicate: this is the first tile of the tensor
    ptx_ptr records, coefficients, seed;
    ptx_ptr tables, shared; // of a format with blocks, if it has some
    ptx_ptr stages;         // what threads have read ahead; declared if a variant is staged
    ptx_val groups;         // u32
    // Set anew for each body:
    const struct ptxk_step_blocks *blocks; // NULL: the variant has none
    ptx_ptr array[ARRAYS];                 // offset to the tile
    ptx_ptr scale[PTX_STEP_MAX_STATES];    // of the tile's blocks
    ptx_val factor, coefficient[PTXK_STEP_COEFFICIENTS];
};

enum { STAGED_STATES = 2 };

// Whether blocks are read ahead into shared memory: registers would leave room for fewer warps, or
// have ptxas compute a thread's elements one after the other.
static bool is_staged(ptx_builder *b, const struct ptxk_step_variant *v)
{
    return ptxk_step_blocks_of(v) && ptxk_step_states(v) <= STAGED_STATES &&
           ptxk_step_states(v) == ptxk_step_format_states(v) && ptx_builder_target(b).sm >= 80 &&
           ptx_type_bytes(v->parameter) == 2 && ptx_type_bytes(v->gradient) == 2;
}

// The next backward pass adds to them, also after a step that wrote nothing.
static void gradients_clear(ptx_builder *b, const struct step *s)
{
    const ptx_val zero = ptxk_narrow(b, s->variant->gradient, ptx_zero(PTX_F32));

    ptx_for (b, i, ptx_bitcast(b, PTX_S32, s->tid), s->length, BLOCK)
        ptx_store(b, s->array[ARRAY_GRADIENT], i, zero);
}

// Copies the tables to shared memory; a barrier must follow.
static void tables_copy(ptx_builder *b, const struct step *s)
{
    enum { WORDS = 4, BYTES = 4 * WORDS };
    const uint32_t vectors = (uint32_t)s->blocks->table_bytes / BYTES;
    const bool can_copy = ptx_builder_target(b).sm >= 80;

    ptx_for (b, k, s->tid, vectors, BLOCK) {
        ptx_val at = ptx_mul(b, k, WORDS);
        if (can_copy) {
            ptx_ptr to = ptx_at(b, s->shared, at);
            ptx_cp_async(b, to, ptx_at(b, s->tables, at), BYTES, .bypass = true);
        } else {
            ptx_store_vec(b, s->shared, at, ptx_load_vec(b, s->tables, at, WORDS));
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

// Reads the factor and coefficients of this step, all before the first is used. Ends the kernel,
// for all threads, if the step must not write.
static void scalars_read(ptx_builder *b, struct step *s)
{
    const struct ptxk_step_variant *v = s->variant;
    const struct ptxk_step_rule *rule = ptxk_step_rule_of(v->rule);
    const uint32_t words = ptxk_step_coefficients_words(ptxk_step_rules(s->spec));

    ptx_val row = ptx_mul_wide(b, s->clock, words);
    ptx_ptr c = ptx_at(b, s->coefficients, row);
    for (unsigned k = 0; k < rule->coefficients; k++)
        s->coefficient[k] = ptx_load(b, c, k);
    ptx_ptr record = ptx_at(b, s->records, ptx_mul_wide(b, s->group, 4));
    s->factor = ptx_load(b, record, 0);
    ptx_val groups = ptx_mul_wide(b, s->groups, 4);
    ptx_val found = ptx_load(b, ptx_at(b, s->records, groups), 0);
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
    if (s->spec->gradients == PTXK_STEP_GRADIENTS_ZEROED)
        ptx_if (b, skips)
            gradients_clear(b, s);
    ptx_return_if(b, skips);
    if (s->reduces)
        return;
    if (rule->sums) {
        ptx_ptr of_tensor = ptx_at(b, s->sums, ptx_mul_wide(b, s->tensor, PTXK_STEP_SUMS));
        ptx_val sum[PTXK_STEP_SUMS];
        for (uint32_t k = 0; k < rule->sums; k++)
            sum[k] = ptx_load(b, of_tensor, k);
        rule->of_sums(b, sum, s->coefficient);
    }
    ptx_comment(b, "the first tile of a tensor counts its step; tensors that share a count agree");
    ptx_val first = ptx_and(b, s->starts, ptx_eq(b, s->tid, 0));
    ptx_if (b, first) {
        ptx_ptr to = ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, s->count_at);
        ptx_val count = ptx_load(b, c, PTXK_STEP_COUNT);
        ptx_store(b, to, 0, count, .order = PTX_ORDER_RELAXED);
        for (uint32_t k = 0; k < rule->clock_states; k++) {
            ptx_ptr states = ptx_ptr_cast(b, PTX_F64, to);
            ptx_val state = ptx_load(b, ptx_ptr_cast(b, PTX_F64, c), PTXK_STEP_CLOCK_STATE + k);
            ptx_store(b, states, PTXK_STEP_CLOCK_STATE_AT + k, state, .order = PTX_ORDER_RELAXED);
        }
    }
}

// ---- elements -----------------------------------------------------------------------------------

static ptx_val *part(struct ptxk_step_stored *e, unsigned array)
{
    return array == ARRAY_PARAMETER ? &e->parameter
           : array == ARRAY_BESIDE  ? &e->beside
                                    : &e->state[array - ARRAY_STATE];
}

static bool is_written(const struct step *s, unsigned array)
{
    return ptxk_step_array_type(s->variant, array) != PTX_NONE &&
           (array != ARRAY_GRADIENT || s->spec->gradients != PTXK_STEP_GRADIENTS_RAW);
}

// Lane `k` of the values read, as the rule gets it. `scaled`: its gradient but for the sign.
static struct ptxk_step_element element_of(ptx_builder *b, const struct step *s,
                                           ptx_val value[ARRAYS][PTXK_LANES], unsigned k,
                                           ptx_val *scaled)
{
    const struct ptxk_step_variant *v = s->variant;
    struct ptxk_step_stored stored = { { 0 } };

    for (unsigned a = 0; a < ARRAYS; a++)
        if (a != ARRAY_GRADIENT && ptxk_step_reads(v, a))
            *part(&stored, a) = value[a][k];
    struct ptxk_step_element e = ptxk_step_load(b, v, &stored);
    *scaled = ptx_mul(b, ptx_cvt(b, PTX_F32, value[ARRAY_GRADIENT][k]), s->factor);
    e.g = v->options & PTXK_STEP_MAXIMIZE ? ptx_neg(b, *scaled) : *scaled;
    return e;
}

// Steps one element: replaces lane `k` of the values read by those to write. In between they are
// f32, and the rule's.
static void step_element(ptx_builder *b, const struct step *s, ptx_val value[ARRAYS][PTXK_LANES],
                         ptx_val random[PTXK_STREAMS][PTXK_LANES], unsigned k,
                         struct ptxk_quick *quick)
{
    const struct ptxk_step_variant *v = s->variant;
    ptx_val own[PTXK_STREAMS] = { { 0 } };
    ptx_val scaled;

    for (unsigned n = 0; n < ptxk_step_streams(v); n++)
        own[n] = random[n][k];
    struct ptxk_step_element e = element_of(b, s, value, k, &scaled);
    e.quick = quick;
    ptxk_step_rule_of(v->rule)->update(b, v->options, s->coefficient, &e);
    struct ptxk_step_stored stored = ptxk_step_store(b, v, &e, own);
    for (unsigned a = 0; a < ARRAYS; a++)
        if (a != ARRAY_GRADIENT && is_written(s, a))
            value[a][k] = *part(&stored, a);
    if (is_written(s, ARRAY_GRADIENT))
        value[ARRAY_GRADIENT][k] =
            s->spec->gradients == PTXK_STEP_GRADIENTS_WRITTEN ? scaled : ptx_zero(PTX_F32);
}

// Steps the elements of a vector, which begins at element `i` (s32) of the tile.
static void step_values(ptx_builder *b, const struct step *s, ptx_val i, struct ptxk_quick *quick,
                        ptx_val value[ARRAYS][PTXK_LANES])
{
    ptx_val random[PTXK_STREAMS][PTXK_LANES];

    ptxk_step_random_vector(b, s->variant, &s->random, i, random);
    for (unsigned k = 0; k < ptxk_step_lanes(s->variant); k++)
        step_element(b, s, value, random, k, quick);
}

static void vector_write(ptx_builder *b, const struct step *s, ptx_val value[ARRAYS][PTXK_LANES],
                         ptx_val i)
{
    const struct ptxk_step_variant *v = s->variant;

    for (unsigned a = 0; a < ARRAYS; a++) {
        if (!is_written(s, a))
            continue;
        ptx_ptr at = ptx_at(b, s->array[a], i);
        ptxk_lanes_write(b, ptxk_step_array_type(v, a), at, value[a], ptxk_step_lanes(v));
    }
}

// Sets `bit` in `missing` if a quick quotient does not hold; nothing is written then.
static void step_vector(ptx_builder *b, const struct step *s, const struct ptxk_lanes in[ARRAYS],
                        ptx_val i, ptx_val missing, ptx_val bit)
{
    const bool is_quick = ptxk_step_rule_of(s->variant->rule)->quick;
    struct ptxk_quick quick = ptxk_quick_begin();
    ptx_val value[ARRAYS][PTXK_LANES];

    for (unsigned a = 0; a < ARRAYS; a++)
        if (ptxk_step_reads(s->variant, a))
            ptxk_lanes_of(b, &in[a], value[a]);
    step_values(b, s, i, is_quick ? &quick : NULL, value);
    if (!is_quick) {
        vector_write(b, s, value, i);
        return;
    }
    ptx_if (b, ptxk_quick_failed(b, &quick))
        ptx_set(b, missing, ptx_or(b, missing, bit));
    ptx_else (b)
        vector_write(b, s, value, i);
}

// The arrays in the order in which a single element is read and written: the gradient comes last.
static unsigned of_single(unsigned n)
{
    return n == ARRAYS - 1 ? ARRAY_GRADIENT : n + (n >= ARRAY_GRADIENT);
}

// Steps an element of a tile alone.
static void step_single(ptx_builder *b, const struct step *s, ptx_val i)
{
    const struct ptxk_step_variant *v = s->variant;
    ptx_val value[ARRAYS][PTXK_LANES], random[PTXK_STREAMS][PTXK_LANES];

    for (unsigned n = 0; n < ARRAYS; n++)
        if (ptxk_step_reads(v, of_single(n)))
            value[of_single(n)][0] = ptx_load(b, s->array[of_single(n)], i);
    ptxk_step_random_element(b, v, &s->random, i, random);
    step_element(b, s, value, random, 0, NULL);
    for (unsigned n = 0; n < ARRAYS; n++) {
        const unsigned a = of_single(n);
        if (is_written(s, a))
            ptx_store(b, s->array[a], i, ptxk_narrow(b, ptxk_step_array_type(v, a), value[a][0]));
    }
}

// The elements of a vector that are in the tile, one by one.
static void step_singles(ptx_builder *b, const struct step *s, ptx_val i)
{
    ptx_val end = ptx_add(b, i, ptxk_step_lanes(s->variant));

    ptx_for (b, k, i, ptx_min(b, end, s->length), 1)
        step_single(b, s, k);
}

// The scale of the block that has an element (u64 or s32) of the array.
static ptx_ptr scale_of(ptx_builder *b, const struct step *s, ptx_ptr scales, ptx_val i)
{
    uint32_t shift = 0;

    while (s->blocks->elements >> shift > 1)
        shift++;
    return ptx_at(b, scales, ptx_shr(b, i, shift));
}

static void arrays_at_tile(ptx_builder *b, struct step *s)
{
    for (unsigned a = 0; a < ARRAYS; a++) {
        const ptx_type type = ptxk_step_array_type(s->variant, a);
        if (type == PTX_NONE)
            continue;
        ptx_ptr p = ptx_ptr_from(b, type, PTX_SPACE_GLOBAL, s->address[a]);
        s->array[a] = ptx_at(b, p, s->tensor_first);
    }
    for (unsigned k = 0; s->blocks && k < ptxk_step_format_states(s->variant); k++) {
        ptx_ptr p = ptx_ptr_from(b, PTX_F32, PTX_SPACE_GLOBAL, s->scale_at[k]);
        s->scale[k] = scale_of(b, s, p, s->tensor_first);
    }
}

// A vector of each array, in variables: read ahead of its use.
struct vector {
    ptx_val i;     // s32: index of its first element in the tile
    ptx_val whole; // a predicate: the tile has all of it, and it can be read at once
    struct ptxk_lanes array[ARRAYS];
    ptx_val scale[PTX_STEP_MAX_STATES]; // f32, of states in blocks
    unsigned scales;
    ptx_val stage; // u32: where the thread's is, in bytes from `stages` on, if it is staged
};

static void scales_read(ptx_builder *b, const struct step *s, const struct vector *to)
{
    if (!to->scales)
        return;
    ptx_if (b, ptx_lt(b, to->i, s->length))
        for (unsigned k = 0; k < to->scales; k++)
            ptx_set(b, to->scale[k], ptx_load(b, scale_of(b, s, s->scale[k], to->i), 0));
}

// Reads a vector that cannot be read at once. Lanes that are not in the tile are stepped, and
// dropped.
static void edge_read(ptx_builder *b, const struct step *s, const struct vector *to)
{
    for (unsigned a = 0; a < ARRAYS; a++)
        if (ptxk_step_reads(s->variant, a))
            ptxk_lanes_read_some(b, &to->array[a], s->array[a], to->i, s->length);
}

static ptx_val is_whole(ptx_builder *b, const struct step *s, ptx_val i)
{
    ptx_val end = ptx_add(b, i, ptxk_step_lanes(s->variant));

    return ptx_and(b, s->vectors, ptx_le(b, end, s->length));
}

static void vector_read(ptx_builder *b, const struct step *s, const struct vector *to)
{
    ptx_set(b, to->whole, is_whole(b, s, to->i));
    ptx_if (b, to->whole)
        for (unsigned a = 0; a < ARRAYS; a++)
            if (ptxk_step_reads(s->variant, a))
                ptxk_lanes_read(b, &to->array[a], ptx_at(b, s->array[a], to->i));
    if (!s->blocks && !s->reduces)
        return;
    scales_read(b, s, to);
    ptx_val edge = ptx_not(b, to->whole);
    ptx_if (b, ptx_and(b, ptx_lt(b, to->i, s->length), edge))
        edge_read(b, s, to);
}

static struct vector vector_var(ptx_builder *b, const struct step *s, ptx_val i)
{
    struct vector v = { .i = ptx_var(b, i), .whole = ptx_var(b, ptx_bool(false)) };

    for (unsigned a = 0; a < ARRAYS; a++)
        if (ptxk_step_reads(s->variant, a))
            v.array[a] =
                ptxk_lanes_var(b, ptxk_step_array_type(s->variant, a), ptxk_step_lanes(s->variant));
    v.scales = s->blocks ? ptxk_step_format_states(s->variant) : 0;
    for (unsigned k = 0; k < v.scales; k++)
        v.scale[k] = ptx_var(b, ptx_f32(0));
    return v;
}

static struct vector vector_begin(ptx_builder *b, const struct step *s, ptx_val i)
{
    struct vector v = vector_var(b, s, i);

    vector_read(b, s, &v);
    return v;
}

static void vector_set(ptx_builder *b, const struct vector *to, const struct vector *from)
{
    ptx_set(b, to->i, from->i);
    ptx_set(b, to->whole, from->whole);
    for (unsigned a = 0; a < ARRAYS; a++)
        for (unsigned k = 0; k < to->array[a].words; k++)
            ptx_set(b, to->array[a].word[k], from->array[a].word[k]);
}

// ---- blocks -------------------------------------------------------------------------------------

enum { STAGES = 2 };

static unsigned vector_bytes(const struct ptxk_step_variant *v, unsigned array)
{
    return PTXK_LANES * ptx_type_bytes(ptxk_step_array_type(v, array));
}

// Where an array is in a stage, in bytes: parameters and gradients, of 16 bits, then the states.
static uint32_t place_in_stage(const struct ptxk_step_variant *v, unsigned array)
{
    const unsigned before =
        array < ARRAY_STATE ? (array == ARRAY_GRADIENT) * vector_bytes(v, ARRAY_PARAMETER)
                            : vector_bytes(v, ARRAY_PARAMETER) + vector_bytes(v, ARRAY_GRADIENT) +
                                  (array - ARRAY_STATE) * vector_bytes(v, ARRAY_STATE);
    return before * BLOCK;
}

// The bytes of a stage.
static uint32_t stage_of(const struct ptxk_step_variant *v)
{
    return place_in_stage(v, ARRAY_STATE + STAGED_STATES);
}

// The thread's vector of an array in a stage. A thread reads only what it has copied.
static ptx_ptr staged(ptx_builder *b, const struct step *s, const struct vector *v, unsigned array,
                      unsigned bytes)
{
    ptx_val stage = ptx_add(b, ptx_ptr_address(b, s->stages), v->stage);
    ptx_val at = ptx_mad(b, s->tid, bytes, stage);
    at = ptx_add(b, at, place_in_stage(s->variant, array));

    return ptx_ptr_from(b, PTX_B32, PTX_SPACE_SHARED, at);
}

// Begins to read the thread's part of a block.
static void block_read(ptx_builder *b, const struct step *s, const struct vector *to)
{
    if (!is_staged(b, s->variant)) {
        vector_read(b, s, to);
        return;
    }
    ptx_set(b, to->whole, is_whole(b, s, to->i));
    ptx_if (b, to->whole) {
        for (unsigned a = 0; a < ARRAYS; a++) {
            if (!ptxk_step_reads(s->variant, a))
                continue;
            const unsigned bytes = vector_bytes(s->variant, a);
            ptx_ptr from = ptx_ptr_cast(b, PTX_B32, ptx_at(b, s->array[a], to->i));
            ptx_cp_async(b, staged(b, s, to, a, bytes), from, bytes, .bypass = bytes == 16);
        }
    }
    ptx_cp_async_commit(b);
    scales_read(b, s, to);
}

static struct vector block_begin(ptx_builder *b, const struct step *s, ptx_val i)
{
    struct vector v = vector_var(b, s, i);

    if (is_staged(b, s->variant))
        v.stage = ptx_var(b, ptx_u32(0));
    block_read(b, s, &v);
    return v;
}

// Waits for what was begun.
static void block_take(ptx_builder *b, const struct step *s, const struct vector *v)
{
    if (!is_staged(b, s->variant))
        return;
    ptx_cp_async_wait(b, 0);
    ptx_if (b, v->whole)
        for (unsigned a = 0; a < ARRAYS; a++)
            if (ptxk_step_reads(s->variant, a))
                ptxk_lanes_read(b, &v->array[a], staged(b, s, v, a, vector_bytes(s->variant, a)));
    ptx_else (b)
        edge_read(b, s, v);
}

// Begins to read the thread's part of the next block, into the other stage.
static void block_read_next(ptx_builder *b, const struct step *s, const struct vector *v)
{
    ptx_set(b, v->i, ptx_add(b, v->i, BLOCK * PTXK_LANES));
    if (is_staged(b, s->variant))
        ptx_set(b, v->stage, ptx_sub(b, stage_of(s->variant), v->stage));
    block_read(b, s, v);
}

// The values of a vector, states of blocks in f32: to step.
static void vector_values(ptx_builder *b, const struct step *s, const struct vector *in,
                          ptx_val value[ARRAYS][PTXK_LANES])
{
    const struct ptxk_step_variant *v = s->variant;
    const struct ptxk_step_rule *rule = ptxk_step_rule_of(v->rule);
    const unsigned states = in->scales, lanes = ptxk_step_lanes(v);

    for (unsigned a = 0; a < ARRAYS; a++) {
        const bool in_blocks = a >= ARRAY_STATE && a - ARRAY_STATE < states;
        if (in_blocks || !ptxk_step_reads(v, a))
            continue;
        ptxk_lanes_of(b, &in->array[a], value[a]);
        for (unsigned k = 0; k < lanes && ptx_type_bytes(ptxk_step_array_type(v, a)) == 4; k++)
            value[a][k] = ptx_var(b, value[a][k]);
    }
    for (unsigned k = 0; k < states; k++)
        s->blocks->decode(b, s->shared, &rule->state[k], &in->array[ARRAY_STATE + k], in->scale[k],
                          value[ARRAY_STATE + k]);
}

// Replaces values, which are variables, by those of the exact instructions. The block is read
// again, so that nothing is kept for this.
static void block_values_exact(ptx_builder *b, const struct step *s, ptx_val i,
                               ptx_val value[ARRAYS][PTXK_LANES])
{
    ptx_val exact[ARRAYS][PTXK_LANES];
    struct vector in = vector_begin(b, s, i);

    vector_values(b, s, &in, exact);
    step_values(b, s, i, NULL, exact);
    for (unsigned a = 0; a < ARRAYS; a++)
        for (unsigned k = 0; k < PTXK_LANES && is_written(s, a); k++)
            ptx_set(b, value[a][k], exact[a][k]);
}

// Steps a warp's block, whole or not, and reads the thread's next.
static void block_step(ptx_builder *b, const struct step *s, struct vector *in)
{
    const struct ptxk_step_rule *rule = ptxk_step_rule_of(s->variant->rule);
    const unsigned states = ptxk_step_format_states(s->variant);
    struct ptxk_quick quick = ptxk_quick_begin();
    ptx_val value[ARRAYS][PTXK_LANES], scale[PTX_STEP_MAX_STATES];
    ptx_val i = ptx_var(b, in->i), whole = ptx_var(b, in->whole);

    block_take(b, s, in);
    vector_values(b, s, in, value);
    if (s->spec->tile > BLOCK * PTXK_LANES)
        block_read_next(b, s, in);
    step_values(b, s, i, rule->quick ? &quick : NULL, value);
    for (unsigned a = 0; a < ARRAYS; a++)
        for (unsigned k = 0; k < PTXK_LANES && is_written(s, a); k++)
            value[a][k] = ptx_var(b, value[a][k]);
    if (rule->quick)
        ptx_if (b, ptxk_quick_failed(b, &quick))
            block_values_exact(b, s, i, value);
    ptx_if (b, ptx_not(b, whole)) {
        for (uint32_t n = 0; n < PTXK_LANES; n++) {
            ptx_val is = ptx_lt(b, ptx_add(b, i, n), s->length);
            for (unsigned k = 0; k < states; k++) {
                const ptx_val state = value[ARRAY_STATE + k][n];
                ptx_set(b, state, ptx_select(b, is, state, 0));
            }
        }
    }
    s->blocks->encode(b, s->shared, rule, states, value + ARRAY_STATE, scale);
    ptx_if (b, whole)
        vector_write(b, s, value, i);
    ptx_else (b)
        for (unsigned a = 0; a < ARRAYS; a++)
            if (is_written(s, a))
                ptxk_lanes_write_some(b, ptxk_step_array_type(s->variant, a), s->array[a], i,
                                      s->length, value[a]);
    ptx_val lane = ptx_and(b, s->tid, s->blocks->elements / PTXK_LANES - 1);
    ptx_val within = ptx_lt(b, i, s->length);
    ptx_val lane_0 = ptx_eq(b, lane, 0);
    ptx_val first = ptx_and(b, lane_0, within);
    ptx_if (b, first)
        for (unsigned k = 0; k < states; k++)
            ptx_store(b, scale_of(b, s, s->scale[k], i), 0, scale[k]);
}

// Steps vector `k` (u32) of the thread's. Of a variant with blocks, that is the warp's block, if
// there is one; of others, the vector, or bit k of `missing` is set.
static void vector_step(ptx_builder *b, const struct step *s, struct vector *v, ptx_val k,
                        ptx_val missing)
{
    if (s->blocks) {
        ptx_val is = ptx_lt(b, v->i, s->length);
        ptx_if (b, ptx_vote_any(b, is, ptx_full_warp()))
            block_step(b, s, v);
        return;
    }
    ptx_val bit = ptx_shl(b, ptx_u32(1), k);
    ptx_if (b, v->whole)
        step_vector(b, s, v->array, v->i, missing, bit);
    ptx_else (b)
        ptx_set(b, missing, ptx_or(b, missing, bit));
}

// All vectors of the thread's, `span` elements apart. Each is read while the one before it is
// stepped: block_step() does it for itself.
static void vectors_step(ptx_builder *b, const struct step *s, struct vector *v, uint32_t span,
                         ptx_val missing)
{
    const uint32_t vectors = s->spec->tile / span;
    struct vector next;

    if (vectors == 1) {
        vector_step(b, s, v, ptx_u32(0), missing);
        return;
    }
    if (!s->blocks)
        next = vector_begin(b, s, ptx_add(b, v->i, span));
    ptx_for (b, k, 0, vectors, ptx_u32(1)) {
        vector_step(b, s, v, k, missing);
        if (!s->blocks) {
            vector_set(b, v, &next);
            ptx_set(b, next.i, ptx_add(b, next.i, span));
            vector_read(b, s, &next);
        }
    }
}

// ---- sums ---------------------------------------------------------------------------------------

// Adds the terms of a vector's elements, those behind the tile's last as 0.
static void vector_reduce(ptx_builder *b, const struct step *s, const struct vector *v,
                          const ptx_val sum[PTXK_STEP_SUMS])
{
    const struct ptxk_step_rule *rule = ptxk_step_rule_of(s->variant->rule);
    ptx_val value[ARRAYS][PTXK_LANES], term[PTXK_STEP_SUMS], scaled;

    vector_values(b, s, v, value);
    for (unsigned k = 0; k < ptxk_step_lanes(s->variant); k++) {
        struct ptxk_step_element e = element_of(b, s, value, k, &scaled);
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
static void reduce_tile(ptx_builder *b, const struct step *s, struct vector *v, uint32_t span)
{
    const unsigned sums = ptxk_step_rule_of(s->variant->rule)->sums;
    ptx_val sum[PTXK_STEP_SUMS];

    for (unsigned k = 0; k < sums; k++)
        sum[k] = ptx_var(b, ptx_f64(0));
    ptx_while (b, ptx_lt(b, v->i, s->length)) {
        vector_reduce(b, s, v, sum);
        ptx_set(b, v->i, ptx_add(b, v->i, ptx_s32((int32_t)span)));
        vector_read(b, s, v);
    }
    ptxk_step_sums_store(b, sum, sums, s->tid, s->sums, ptx_ctaid(b, PTX_X));
}

// ---- tiles --------------------------------------------------------------------------------------

// This thread's part of the tile. The vectors of `missing` are stepped element by element at the
// end.
static void step_tile(ptx_builder *b, struct step *s)
{
    const uint32_t lanes = ptxk_step_lanes(s->variant), span = BLOCK * lanes;
    ptx_val missing = { 0 };

    s->blocks = ptxk_step_blocks_of(s->variant);
    arrays_at_tile(b, s);
    ptx_val first = ptx_bitcast(b, PTX_S32, ptx_mul(b, s->tid, lanes));
    struct vector v =
        s->blocks && !s->reduces ? block_begin(b, s, first) : vector_begin(b, s, first);
    if (s->blocks && s->blocks->table_bytes)
        tables_copy(b, s);
    if (ptx_builder_target(b).sm >= 90)
        ptx_griddepcontrol_wait(b);
    scalars_read(b, s);
    if (s->reduces) {
        reduce_tile(b, s, &v, span);
        return;
    }
    if (!s->blocks)
        missing = ptx_var(b, ptx_u32(0));
    vectors_step(b, s, &v, span, missing);
    if (s->blocks)
        return;
    ptx_comment(b, "edges, and where a quick quotient does not hold");
    ptx_while (b, ptx_ne(b, missing, 0)) {
        ptx_val k = ptx_bfind(b, missing);
        ptx_set(b, missing, ptx_xor(b, missing, ptx_shl(b, ptx_u32(1), k)));
        ptx_val i = ptx_mad(b, k, span, ptx_bitcast(b, PTX_U32, first));
        step_singles(b, s, ptx_bitcast(b, PTX_S32, i));
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

// The tile of this block, and everything that does not depend on the results of the norm launch.
static void tile_read(ptx_builder *b, struct step *s, ptx_ptr tensors, ptx_ptr tiles, ptx_ptr rows,
                      ptx_val *variant)
{
    const uint32_t size = s->spec->tile, words = ptxk_step_row_words(s->spec);
    const bool has_blocks = ptxk_step_has_blocks(s->spec);
    ptx_val block = ptx_ctaid(b, PTX_X);

    ptx_vec tile = ptx_load_vec(b, tiles, ptx_mul_wide(b, block, 2), 2);
    ptx_val tensor = tile.lane[0], index = tile.lane[1];
    s->tensor = tensor;
    ptx_vec extent = ptx_load_vec(b, tensors, ptx_mul_wide(b, tensor, 4), 2);
    ptx_ptr row = ptx_at(b, rows, ptx_mul_wide(b, tensor, words));
    ptx_val word[STEP_ROW_WORDS];
    for (unsigned k = 0; k < words; k += 2) {
        if ((k == ROW(run) && !ptxk_step_draws(s->spec)) ||
            ((k == ROW(absmax) || k == ROW(more_absmax)) && !has_blocks))
            continue;
        ptx_vec pair = ptx_load_vec(b, row, k, 2);
        word[k] = pair.lane[0];
        word[k + 1] = pair.lane[1];
    }
    s->address[ARRAY_PARAMETER] = word[ROW(parameter)];
    s->address[ARRAY_GRADIENT] = extent.lane[0];
    s->address[ARRAY_BESIDE] = word[ROW(beside)];
    for (unsigned k = 0; k < STEP_ROW_STATES; k++) {
        s->address[ARRAY_STATE + k] = word[ROW(state) + k];
        if (has_blocks)
            s->scale_at[k] = word[ROW(absmax) + k];
    }
    for (unsigned k = STEP_ROW_STATES; k < PTX_STEP_MAX_STATES && words > ROW(more_states); k++) {
        s->address[ARRAY_STATE + k] = word[ROW(more_states) + k - STEP_ROW_STATES];
        if (has_blocks)
            s->scale_at[k] = word[ROW(more_absmax) + k - STEP_ROW_STATES];
    }
    s->count_at = word[ROW(step)];
    if (ptxk_step_draws(s->spec)) {
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
    ptx_val skew = ptx_and(b, extent.lane[0], 15); // gradients may move
    s->vectors = ptx_and(b, vectors, ptx_eq(b, skew, 0));

    s->tensor_first = ptx_mul_wide(b, index, size);
    s->random.first = s->tensor_first;
    s->starts = ptx_eq(b, index, 0);
    ptx_comment(b, "a tensor without a gradient is left out");
    ptx_val absent = ptx_eq(b, extent.lane[0], 0);
    ptx_return_if(b, ptx_or(b, absent, ptx_ge(b, s->tensor_first, extent.lane[1])));
    ptx_val left = ptx_sub(b, extent.lane[1], s->tensor_first);
    s->length = ptx_cvt(b, PTX_S32, ptx_min(b, left, size));
}

static void tiles_emit(ptx_builder *b, const struct ptxk_step_spec *spec, bool reduces)
{
    struct step s = { .spec = spec, .reduces = reduces };

    ptx_ptr tensors = ptx_param_ptr(b, PTX_U64, "tensors", .readonly = true,
                                    .meaning = "rows of 4: gradient, count, weight, type");
    ptx_ptr tiles = ptx_param_ptr(b, PTX_U32, "step_tiles", .readonly = true,
                                  .meaning = "rows of 2: tensor, place in it");
    ptx_ptr rows =
        ptx_param_ptr(b, PTX_U64, "rows", .readonly = true,
                      .meaning = ptxk_step_row_words(spec) == STEP_ROW_WORDS
                                     ? "rows of 16: as those of 12, and more states, absmax"
                                     : "rows of 12: parameter, master or remainder, states, "
                                       "count, place in the whole, id, clock, variant, "
                                       "norm group, absmax");
    s.coefficients =
        ptx_param_ptr(b, PTX_F32, "coefficients", .readonly = true,
                      .meaning = ptxk_step_coefficients_meaning(ptxk_step_rules(spec)));
    s.records = ptx_param_ptr(b, PTX_F32, "records", .readonly = true,
                              .meaning = "rows of 4: factor, norm, found_inf, max_norm; then "
                                         "found_inf of all");
    s.groups = ptx_param(b, PTX_U32, "group_count");
    if (reduces)
        s.sums = ptx_param_ptr(b, PTX_F64, "tile_sums", .writeonly = true,
                               .meaning = "rows of 4, one a tile");
    else if (ptxk_step_has_sums(spec))
        s.sums = ptx_param_ptr(b, PTX_F64, "tensor_sums", .readonly = true,
                               .meaning = "rows of 4, one a tensor");
    if (ptxk_step_draws(spec) && !reduces)
        s.seed = ptx_param_ptr(b, PTX_U32, "seed", .readonly = true, .length = "2");
    if (ptxk_step_tables(spec)) {
        s.tables = ptx_param_ptr(b, PTX_U32, "tables", .readonly = true,
                                 .meaning = ptxk_step_tables(spec)->tables_meaning);
        s.shared = ptx_shared(b, PTX_U32, (uint32_t)ptxk_step_tables(spec)->table_bytes / 4);
    }
    uint32_t stage = 0;
    for (unsigned k = 0; k < spec->variant_count && !reduces; k++)
        if (is_staged(b, &spec->variants[k]) && stage_of(&spec->variants[k]) > stage)
            stage = stage_of(&spec->variants[k]);
    if (stage)
        s.stages = ptx_shared(b, PTX_U32, STAGES * stage / 4);
    s.tid = ptx_tid(b, PTX_X);
    ptx_val variant;
    tile_read(b, &s, tensors, tiles, rows, &variant);
    for (unsigned k = 0; k < spec->variant_count; k++) {
        s.variant = &spec->variants[k];
        if (reduces && !ptxk_step_rule_of(s.variant->rule)->sums)
            continue;
        ptxk_step_comment(b, s.variant);
        if (spec->variant_count == 1) {
            step_tile(b, &s);
            continue;
        }
        ptx_if (b, ptx_eq(b, variant, k))
            step_tile(b, &s);
    }
}

void ptxk_step_apply_emit(ptx_builder *b, const struct norm_spec *norm)
{
    ptx_comment(b, "a block for each tile: gradients scaled, and the rule's step");
    tiles_emit(b, norm->own, false);
}

void ptxk_step_reduce_emit(ptx_builder *b, const struct norm_spec *norm)
{
    ptx_comment(b, "a block for each tile: the sums that the rule's step needs");
    tiles_emit(b, norm->own, true);
}
