// SPDX-License-Identifier: MIT
// The elements of a tile: read in vectors, stepped by the rule, written. Where states share a
// scale, a warp steps a block at a time.
#include "step_tile.h"
#include "step_units.h"

enum { BLOCK = NORM_BLOCK };

// Of variants that are staged.
enum { STAGED_STATES = 2 };

bool ptxk_step_is_staged(ptx_builder *b, const struct ptxk_step_variant *v)
{
    return ptxk_step_blocks_of(v) && ptxk_step_rule_states(v) <= STAGED_STATES &&
           ptxk_step_rule_states(v) == ptxk_step_format_states(v) &&
           ptx_builder_target(b).sm >= 80 && ptx_type_bytes(v->parameter) == 2 &&
           ptx_type_bytes(v->gradient) == 2;
}

// ---- elements -----------------------------------------------------------------------------------

static ptx_val *part(struct ptxk_step_stored *e, unsigned array)
{
    return array == ARRAY_PARAMETER ? &e->parameter
           : array == ARRAY_BESIDE  ? &e->beside
                                    : &e->state[array - ARRAY_STATE];
}

static bool is_written(const struct ptxk_tile *s, unsigned array)
{
    return ptxk_step_array_type(s->variant, array) != PTX_NONE &&
           (array != ARRAY_GRADIENT || s->spec->gradients != PTXK_STEP_GRADIENTS_RAW);
}

struct ptxk_step_element ptxk_tile_element(ptx_builder *b, const struct ptxk_tile *s,
                                           ptx_val value[ARRAYS][PTXK_LANES], unsigned k,
                                           ptx_val *scaled)
{
    const struct ptxk_step_variant *v = s->variant;
    struct ptxk_step_stored stored = { .type = v->parameter };

    for (unsigned a = 0; a < ARRAYS; a++)
        if (a != ARRAY_GRADIENT && ptxk_step_reads(v, a))
            *part(&stored, a) = value[a][k];
    struct ptxk_step_element e = ptxk_step_load(b, v, &stored);
    e.rule = v->rule;
    const ptx_val factor = s->spec->clips_units ? s->unit_factor[k] : s->factor;
    *scaled = ptx_mul(b, ptx_cvt(b, PTX_F32, value[ARRAY_GRADIENT][k]), factor);
    e.g = v->options & PTXK_STEP_MAXIMIZE ? ptx_neg(b, *scaled) : *scaled;
    return e;
}

// Replaces states by their roots, which are exact in f32 without their scale: none is that small.
static void states_by_roots(ptx_builder *b, const struct ptxk_step_rule *rule,
                            struct ptxk_step_element *e)
{
    for (unsigned k = 0; k < rule->states; k++)
        if (rule->roots >> k & 1)
            e->state[k] = e->quick ? ptx_mul(b, e->root[k], 1 / PTXK_QUICK_SCALE) : e->root[k];
}

// Steps one element: replaces lane `k` of the values read by those to write. In between they are
// f32, and the rule's.
static void step_element(ptx_builder *b, const struct ptxk_tile *s,
                         ptx_val value[ARRAYS][PTXK_LANES],
                         ptx_val random[PTXK_STREAMS][PTXK_LANES], const ptx_val qk[PTXK_LANES],
                         unsigned k, struct ptxk_quick *quick)
{
    const struct ptxk_step_variant *v = s->variant;
    ptx_val own[PTXK_STREAMS] = { { 0 } };
    ptx_val scaled;

    for (unsigned n = 0; n < ptxk_step_streams(v); n++)
        own[n] = random[n][k];
    ptx_comment(b, ptxk_step_lanes(v) > 1 && quick ? "element %u" : "an element", k);
    struct ptxk_step_element e = ptxk_tile_element(b, s, value, k, &scaled);
    e.quick = quick;
    v->rule->update(b, v->options, s->coefficient, &e);
    if (s->blocks && s->blocks->by_roots)
        states_by_roots(b, v->rule, &e);
    e.p = ptxk_step_qk_multiply(b, s, e.p, qk[k]);
    struct ptxk_step_stored stored = ptxk_step_store(b, v, &e, s->ema_rate, own);
    for (unsigned a = 0; a < ARRAYS; a++)
        if (a != ARRAY_GRADIENT && is_written(s, a))
            value[a][k] = *part(&stored, a);
    if (is_written(s, ARRAY_GRADIENT))
        value[ARRAY_GRADIENT][k] =
            s->spec->gradients == PTXK_STEP_GRADIENTS_WRITTEN ? scaled : ptx_zero(PTX_F32);
}

// Steps the elements of a vector, which begins at element `i` (s32) of the tile.
static void step_values(ptx_builder *b, const struct ptxk_tile *s, ptx_val i,
                        struct ptxk_quick *quick, ptx_val value[ARRAYS][PTXK_LANES])
{
    ptx_val random[PTXK_STREAMS][PTXK_LANES], qk[PTXK_LANES] = { { 0 } };
    struct ptxk_tile of = *s;

    ptxk_units_factors(b, &of, i, ptxk_step_lanes(s->variant));
    ptxk_step_random_vector(b, s->variant, &s->random, i, random);
    ptxk_step_qk_factors(b, s, i, ptxk_step_lanes(s->variant), qk);
    for (unsigned k = 0; k < ptxk_step_lanes(s->variant); k++)
        step_element(b, &of, value, random, qk, k, quick);
}

// The passes of a plan that sums gradients each go over arrays that the cache does not hold: what
// one leaves there costs the next more than it finds. But for a launch that reads the weights.
static ptx_cache cache_of(const struct ptxk_tile *s)
{
    const struct ptxk_step_spec *spec = s->spec;

    return spec->accumulates && !spec->transposes && !spec->fp8_blocks ? PTX_CACHE_STREAMING
                                                                       : PTX_CACHE_DEFAULT;
}

static void vector_write(ptx_builder *b, const struct ptxk_tile *s,
                         ptx_val value[ARRAYS][PTXK_LANES], ptx_val i)
{
    const struct ptxk_step_variant *v = s->variant;

    ptx_comment(b, "writes the vector");
    for (unsigned a = 0; a < ARRAYS; a++) {
        if (!is_written(s, a))
            continue;
        if (ptxk_step_is_average(v, a))
            ptx_comment(b, "and the average");
        ptx_ptr at = ptx_at(b, s->array[a], i);
        ptxk_lanes_write_as(b, ptxk_step_array_type(v, a), at, value[a], ptxk_step_lanes(v),
                            cache_of(s));
    }
    ptxk_step_copy_vector(b, s, i, value);
    ptxk_step_square_keep(b, s, value);
}

// Sets `bit` in `missing` if a quick quotient does not hold; nothing is written then.
static void step_vector(ptx_builder *b, const struct ptxk_tile *s,
                        const struct ptxk_lanes in[ARRAYS], ptx_val i, ptx_val missing, ptx_val bit)
{
    const bool is_quick = s->variant->rule->quick;
    struct ptxk_quick quick = ptxk_quick_begin();
    const unsigned lanes = ptxk_step_lanes(s->variant);
    ptx_val value[ARRAYS][PTXK_LANES], old[PTXK_LANES];

    ptx_comment(b, "a whole vector");
    for (unsigned a = 0; a < ARRAYS; a++) {
        if (!ptxk_step_reads(s->variant, a))
            continue;
        if (a == ARRAY_STATE)
            ptx_comment(b, "its states");
        if (ptxk_step_is_average(s->variant, a))
            ptx_comment(b, "its average");
        ptxk_lanes_of(b, &in[a], value[a]);
    }
    ptxk_step_report_old(b, s, lanes, value, old);
    step_values(b, s, i, is_quick ? &quick : NULL, value);
    if (!is_quick) {
        vector_write(b, s, value, i);
        ptxk_step_report_new(b, s, lanes, value, old);
        return;
    }
    ptx_comment(b, "left to the exact instructions if a quick quotient does not hold");
    ptx_if (b, ptxk_quick_failed(b, &quick))
        ptx_set(b, missing, ptx_or(b, missing, bit));
    ptx_else (b) {
        vector_write(b, s, value, i);
        ptxk_step_report_new(b, s, lanes, value, old);
    }
}

// The arrays in the order in which a single element is read and written: the gradient comes last.
static unsigned of_single(unsigned n)
{
    return n == ARRAYS - 1 ? ARRAY_GRADIENT : n + (n >= ARRAY_GRADIENT);
}

// Steps an element of a tile alone.
static void step_single(ptx_builder *b, const struct ptxk_tile *s, ptx_val i)
{
    const struct ptxk_step_variant *v = s->variant;
    ptx_val value[ARRAYS][PTXK_LANES], random[PTXK_STREAMS][PTXK_LANES], old[PTXK_LANES];
    ptx_val qk[PTXK_LANES] = { { 0 } };

    for (unsigned n = 0; n < ARRAYS; n++)
        if (ptxk_step_reads(v, of_single(n)))
            value[of_single(n)][0] = ptx_load(b, s->array[of_single(n)], i);
    struct ptxk_tile of = *s;
    ptxk_step_report_old(b, s, 1, value, old);
    ptxk_units_factors(b, &of, i, 1);
    ptxk_step_random_element(b, v, &s->random, i, random);
    ptxk_step_qk_factors(b, s, i, 1, qk);
    step_element(b, &of, value, random, qk, 0, NULL);
    ptx_comment(b, "writes the element");
    for (unsigned n = 0; n < ARRAYS; n++) {
        const unsigned a = of_single(n);
        if (is_written(s, a))
            ptx_store(b, s->array[a], i, ptxk_narrow(b, ptxk_step_array_type(v, a), value[a][0]));
    }
    ptxk_step_copy_single(b, s, i, value);
    ptxk_step_report_new(b, s, 1, value, old);
}

void ptxk_tile_step_singles(ptx_builder *b, const struct ptxk_tile *s, ptx_val i)
{
    ptx_val end = ptx_add(b, i, ptxk_step_lanes(s->variant));

    ptx_for (b, k, i, ptx_min(b, end, s->length), 1)
        step_single(b, s, k);
}

// The scale of the block that has an element (u64 or s32) of the array.
static ptx_ptr scale_of(ptx_builder *b, const struct ptxk_tile *s, ptx_ptr scales, ptx_val i)
{
    uint32_t shift = 0;

    while (s->blocks->elements >> shift > 1)
        shift++;
    return ptx_at(b, scales, ptx_shr(b, i, shift));
}

void ptxk_tile_arrays(ptx_builder *b, struct ptxk_tile *s)
{
    for (unsigned a = 0; a < ARRAYS; a++) {
        const ptx_type type = ptxk_step_array_type(s->variant, a);
        if (type == PTX_NONE)
            continue;
        ptx_ptr p = ptx_ptr_from(b, type, PTX_SPACE_GLOBAL, s->address[a]);
        s->array[a] = ptx_at(b, p, s->tensor_first);
    }
    for (unsigned k = 0; s->blocks && k < ptxk_step_format_states(s->variant); k++) {
        ptx_ptr p = ptx_ptr_from(b, s->blocks->scale, PTX_SPACE_GLOBAL, s->scale_at[k]);
        s->scale[k] = scale_of(b, s, p, s->tensor_first);
    }
}

static void scales_read(ptx_builder *b, const struct ptxk_tile *s,
                        const struct ptxk_tile_vector *to)
{
    if (!to->scales)
        return;
    ptx_comment(b, "the scales of the block's states");
    ptx_if (b, ptx_lt(b, to->i, s->length))
        for (unsigned k = 0; k < to->scales; k++)
            ptx_set(b, to->scale[k],
                    ptx_cvt(b, PTX_F32, ptx_load(b, scale_of(b, s, s->scale[k], to->i), 0)));
}

// Reads a vector that cannot be read at once. Lanes that are not in the tile are stepped, and
// dropped.
static void edge_read(ptx_builder *b, const struct ptxk_tile *s, const struct ptxk_tile_vector *to)
{
    ptx_comment(b, "a vector that cannot be read at once");
    for (unsigned a = 0; a < ARRAYS; a++)
        if (ptxk_step_reads(s->variant, a))
            ptxk_lanes_read_some(b, &to->array[a], s->array[a], to->i, s->length);
}

ptx_val ptxk_tile_is_whole(ptx_builder *b, const struct ptxk_tile *s, ptx_val i)
{
    ptx_val end = ptx_add(b, i, ptxk_step_lanes(s->variant));

    return ptx_and(b, s->vectors, ptx_le(b, end, s->length));
}

void ptxk_tile_vector_read(ptx_builder *b, const struct ptxk_tile *s,
                           const struct ptxk_tile_vector *to)
{
    ptx_comment(b, "reads a vector of each array, if it is whole");
    ptx_set(b, to->whole, ptxk_tile_is_whole(b, s, to->i));
    ptx_if (b, to->whole)
        for (unsigned a = 0; a < ARRAYS; a++)
            if (ptxk_step_reads(s->variant, a))
                ptxk_lanes_read_as(b, &to->array[a], ptx_at(b, s->array[a], to->i), cache_of(s));
    if (s->units_known)
        ptxk_units_ahead(b, s, to->i, to->factor);
    if (!s->blocks && !s->reduces)
        return;
    scales_read(b, s, to);
    ptx_val edge = ptx_not(b, to->whole);
    ptx_if (b, ptx_and(b, ptx_lt(b, to->i, s->length), edge))
        edge_read(b, s, to);
}

struct ptxk_tile_vector ptxk_tile_vector_var(ptx_builder *b, const struct ptxk_tile *s, ptx_val i)
{
    struct ptxk_tile_vector v = { .i = ptx_var(b, i), .whole = ptx_var(b, ptx_bool(false)) };

    ptx_comment(b, "the thread's vector of each array");
    for (unsigned a = 0; a < ARRAYS; a++)
        if (ptxk_step_reads(s->variant, a))
            v.array[a] =
                ptxk_lanes_var(b, ptxk_step_array_type(s->variant, a), ptxk_step_lanes(s->variant));
    if (s->spec->clips_units)
        v.factor = ptx_var(b, ptx_f32(0));
    v.scales = s->blocks ? ptxk_step_format_states(s->variant) : 0;
    for (unsigned k = 0; k < v.scales; k++)
        v.scale[k] = ptx_var(b, ptx_f32(0));
    return v;
}

struct ptxk_tile_vector ptxk_tile_vector_begin(ptx_builder *b, const struct ptxk_tile *s, ptx_val i)
{
    struct ptxk_tile_vector v = ptxk_tile_vector_var(b, s, i);

    ptxk_tile_vector_read(b, s, &v);
    return v;
}

void ptxk_tile_vector_set(ptx_builder *b, const struct ptxk_tile_vector *to,
                          const struct ptxk_tile_vector *from)
{
    ptx_set(b, to->i, from->i);
    ptx_set(b, to->whole, from->whole);
    if (to->factor.type)
        ptx_set(b, to->factor, from->factor);
    for (unsigned a = 0; a < ARRAYS; a++)
        for (unsigned k = 0; k < to->array[a].words; k++)
            ptx_set(b, to->array[a].word[k], from->array[a].word[k]);
}

// ---- blocks -------------------------------------------------------------------------------------

static unsigned vector_bytes(const struct ptxk_step_variant *v, unsigned array)
{
    const ptx_type type = ptxk_step_array_type(v, array);

    return type == PTX_NONE ? 0 : PTXK_LANES * ptx_type_bytes(type);
}

// Where an array is in a stage, in bytes: parameters and gradients, of 16 bits, what is beside
// them, then the states.
static uint32_t place_in_stage(const struct ptxk_step_variant *v, unsigned array)
{
    unsigned before = 0;

    for (unsigned a = 0; a < array && a < ARRAY_STATE; a++)
        before += vector_bytes(v, a);
    if (array > ARRAY_STATE)
        before += (array - ARRAY_STATE) * PTXK_LANES *
                  ptx_type_bytes(ptxk_step_format_of(v->format)->state);
    return before * BLOCK;
}

uint32_t ptxk_step_stage_bytes(const struct ptxk_step_variant *v)
{
    return place_in_stage(v, ARRAY_STATE + STAGED_STATES);
}

// The thread's vector of an array in a stage. A thread reads only what it has copied.
static ptx_ptr staged(ptx_builder *b, const struct ptxk_tile *s, const struct ptxk_tile_vector *v,
                      unsigned array, unsigned bytes)
{
    ptx_val stage = ptx_add(b, ptx_ptr_address(b, s->stages), v->stage);
    ptx_val at = ptx_mad(b, s->tid, bytes, stage);
    at = ptx_add(b, at, place_in_stage(s->variant, array));

    return ptx_ptr_from(b, PTX_B32, PTX_SPACE_SHARED, at);
}

// Whether an array goes through the stages: the average does not. It is read into registers.
static bool in_stage(const struct ptxk_step_variant *v, unsigned array)
{
    return ptxk_step_reads(v, array) && array < ARRAY_STATE + ptxk_step_format_states(v);
}

// Begins to read the thread's part of a block.
static void block_read(ptx_builder *b, const struct ptxk_tile *s, const struct ptxk_tile_vector *to)
{
    if (!ptxk_step_is_staged(b, s->variant)) {
        ptxk_tile_vector_read(b, s, to);
        return;
    }
    ptx_comment(b, "begins to copy the thread's part of a block, if it is whole");
    ptx_set(b, to->whole, ptxk_tile_is_whole(b, s, to->i));
    ptx_if (b, to->whole) {
        for (unsigned a = 0; a < ARRAYS; a++) {
            if (!in_stage(s->variant, a)) {
                if (ptxk_step_reads(s->variant, a))
                    ptxk_lanes_read(b, &to->array[a], ptx_at(b, s->array[a], to->i));
                continue;
            }
            const unsigned bytes = vector_bytes(s->variant, a);
            ptx_ptr from = ptx_ptr_cast(b, PTX_B32, ptx_at(b, s->array[a], to->i));
            ptx_cp_async(b, staged(b, s, to, a, bytes), from, bytes, .bypass = bytes == 16);
        }
    }
    ptx_cp_async_commit(b);
    if (s->units_known)
        ptxk_units_ahead(b, s, to->i, to->factor);
    scales_read(b, s, to);
}

struct ptxk_tile_vector ptxk_tile_block_begin(ptx_builder *b, const struct ptxk_tile *s, ptx_val i)
{
    struct ptxk_tile_vector v = ptxk_tile_vector_var(b, s, i);

    if (ptxk_step_is_staged(b, s->variant))
        v.stage = ptx_var(b, ptx_u32(0));
    block_read(b, s, &v);
    return v;
}

// Waits for what was begun.
static void block_take(ptx_builder *b, const struct ptxk_tile *s, const struct ptxk_tile_vector *v)
{
    if (!ptxk_step_is_staged(b, s->variant))
        return;
    ptx_comment(b, "the thread's part of the block");
    ptx_cp_async_wait(b, 0);
    ptx_if (b, v->whole)
        for (unsigned a = 0; a < ARRAYS; a++)
            if (in_stage(s->variant, a))
                ptxk_lanes_read(b, &v->array[a], staged(b, s, v, a, vector_bytes(s->variant, a)));
    ptx_else (b)
        edge_read(b, s, v);
}

// Begins to read the thread's part of the next block, into the other stage.
static void block_read_next(ptx_builder *b, const struct ptxk_tile *s,
                            const struct ptxk_tile_vector *v)
{
    ptx_set(b, v->i, ptx_add(b, v->i, BLOCK * PTXK_LANES));
    if (ptxk_step_is_staged(b, s->variant))
        ptx_set(b, v->stage, ptx_sub(b, ptxk_step_stage_bytes(s->variant), v->stage));
    block_read(b, s, v);
}

void ptxk_tile_vector_values(ptx_builder *b, const struct ptxk_tile *s,
                             const struct ptxk_tile_vector *in, ptx_val value[ARRAYS][PTXK_LANES])
{
    const struct ptxk_step_variant *v = s->variant;
    const struct ptxk_step_rule *rule = v->rule;
    const unsigned states = in->scales, lanes = ptxk_step_lanes(v);

    ptx_comment(b, "the values of the thread's vector");
    for (unsigned a = 0; a < ARRAYS; a++) {
        const bool in_blocks = a >= ARRAY_STATE && a - ARRAY_STATE < states;
        if (in_blocks || !ptxk_step_reads(v, a))
            continue;
        if (ptxk_step_is_average(v, a))
            ptx_comment(b, "of the average");
        if (a == ARRAY_BESIDE && s->blocks && s->blocks->beside_of) {
            s->blocks->beside_of(b, &in->array[a], value[a]);
            continue;
        }
        ptxk_lanes_of(b, &in->array[a], value[a]);
        for (unsigned k = 0; k < lanes && ptx_type_bytes(ptxk_step_array_type(v, a)) == 4; k++)
            value[a][k] = ptx_var(b, value[a][k]);
    }
    for (unsigned k = 0; k < states; k++) {
        ptx_comment(b, "state %u, decoded", k);
        s->blocks->decode(b, s->shared, &rule->state[k], &in->array[ARRAY_STATE + k], in->scale[k],
                          value[ARRAY_STATE + k]);
    }
}

// Replaces values, which are variables, by those of the exact instructions. The block is read
// again, so that nothing is kept for this.
static void block_values_exact(ptx_builder *b, const struct ptxk_tile *s, ptx_val i,
                               ptx_val value[ARRAYS][PTXK_LANES])
{
    ptx_val exact[ARRAYS][PTXK_LANES];
    struct ptxk_tile_vector in = ptxk_tile_vector_begin(b, s, i);

    ptxk_tile_vector_values(b, s, &in, exact);
    step_values(b, s, i, NULL, exact);
    ptx_comment(b, "these replace the values of the quick instructions");
    for (unsigned a = 0; a < ARRAYS; a++)
        for (unsigned k = 0; k < PTXK_LANES && is_written(s, a); k++)
            ptx_set(b, value[a][k], exact[a][k]);
}

// Notes the weights of the thread's part of a block, but for elements that are not there. `old`:
// the parameters as they were read.
static void block_report(ptx_builder *b, const struct ptxk_tile *s, ptx_val i,
                         ptx_val value[ARRAYS][PTXK_LANES], const struct ptxk_lanes *old)
{
    ptx_val was[ARRAYS][PTXK_LANES], is[ARRAYS][PTXK_LANES], before;

    if (!ptxk_step_sees(s))
        return;
    if (ptxk_step_reports(s)) {
        ptx_comment(b, "the weights before the step");
        ptxk_lanes_of(b, old, was[ARRAY_PARAMETER]);
    }
    for (uint32_t n = 0; n < PTXK_LANES; n++) {
        is[ARRAY_PARAMETER][0] = value[ARRAY_PARAMETER][n];
        if (ptxk_step_reports(s))
            was[ARRAY_PARAMETER][0] = was[ARRAY_PARAMETER][n];
        ptx_if (b, ptx_lt(b, ptx_add(b, i, n), s->length)) {
            ptxk_step_report_old(b, s, 1, was, &before);
            ptxk_step_report_new(b, s, 1, is, &before);
        }
    }
}

// Steps a warp's block, whole or not, and reads the thread's next.
static void block_step(ptx_builder *b, const struct ptxk_tile *of, struct ptxk_tile_vector *in)
{
    struct ptxk_tile ahead = *of;
    const struct ptxk_tile *const s = &ahead;
    const struct ptxk_step_rule *rule = s->variant->rule;
    const unsigned states = ptxk_step_format_states(s->variant);
    struct ptxk_quick quick = ptxk_quick_begin();
    ptx_val value[ARRAYS][PTXK_LANES], scale[PTX_STEP_MAX_STATES];
    struct ptxk_lanes old = { 0 };
    ptx_val i = ptx_var(b, in->i);
    ptx_val whole = ptx_var(b, in->whole);
    if (in->factor.type)
        ahead.unit_ahead = ptx_var(b, in->factor);

    block_take(b, s, in);
    ptxk_tile_vector_values(b, s, in, value);
    if (ptxk_step_reports(s))
        old = ptxk_lanes_copy(b, &in->array[ARRAY_PARAMETER]);
    if (s->spec->tile > BLOCK * PTXK_LANES)
        block_read_next(b, s, in);
    step_values(b, s, i, rule->quick ? &quick : NULL, value);
    ptx_comment(b, "the new values, unless a quick quotient does not hold");
    for (unsigned a = 0; a < ARRAYS; a++) {
        if (a == ARRAY_STATE && is_written(s, ARRAY_BESIDE))
            ptx_comment(b, "and those of states");
        for (unsigned k = 0; k < PTXK_LANES && is_written(s, a); k++)
            value[a][k] = ptx_var(b, value[a][k]);
    }
    if (rule->quick)
        ptx_if (b, ptxk_quick_failed(b, &quick))
            block_values_exact(b, s, i, value);
    block_report(b, s, i, value, &old);
    if (s->spec->clips_units)
        ptxk_units_leave(b, s, i);
    ptx_comment(b, "the states of elements that are not there do not count");
    ptx_if (b, ptx_not(b, whole)) {
        for (uint32_t n = 0; n < PTXK_LANES; n++) {
            ptxk_comment_lanes(b, "0 where there is none", n, 4, PTXK_LANES);
            ptx_val is = ptx_lt(b, ptx_add(b, i, n), s->length);
            for (unsigned k = 0; k < states; k++) {
                const ptx_val state = value[ARRAY_STATE + k][n];
                ptx_set(b, state, ptx_select(b, is, state, 0));
            }
        }
    }
    s->blocks->encode(b, s->shared, rule, states, value + ARRAY_STATE, scale);
    if (s->blocks->beside_as_words)
        s->blocks->beside_as_words(b, value[ARRAY_BESIDE]);
    ptx_if (b, whole)
        vector_write(b, s, value, i);
    ptx_else (b) {
        for (unsigned a = 0; a < ARRAYS; a++)
            if (is_written(s, a))
                ptxk_lanes_write_some(b, ptxk_step_array_type(s->variant, a), s->array[a], i,
                                      s->length, value[a]);
        ptxk_step_copy_some(b, s, i, value);
    }
    ptx_comment(b, "the block's first lane writes the scales");
    ptx_val lane = ptx_and(b, s->tid, s->blocks->elements / PTXK_LANES - 1);
    ptx_val within = ptx_lt(b, i, s->length);
    ptx_val lane_0 = ptx_eq(b, lane, 0);
    ptx_val first = ptx_and(b, lane_0, within);
    ptx_if (b, first)
        for (unsigned k = 0; k < states; k++)
            ptx_store(b, scale_of(b, s, s->scale[k], i), 0, ptx_cvt(b, s->blocks->scale, scale[k]));
}

void ptxk_tile_vector_step(ptx_builder *b, const struct ptxk_tile *s, struct ptxk_tile_vector *v,
                           ptx_val k, ptx_val missing)
{
    if (s->blocks) {
        ptx_val is = ptx_lt(b, v->i, s->length);
        ptx_if (b, ptx_vote_any(b, is, ptx_full_warp()))
            block_step(b, s, v);
        return;
    }
    ptx_val bit = ptx_shl(b, ptx_u32(1), k);
    struct ptxk_tile ahead = *s;
    ahead.unit_ahead = v->factor;
    ptx_if (b, v->whole)
        step_vector(b, &ahead, v->array, v->i, missing, bit);
    ptx_else (b)
        ptx_set(b, missing, ptx_or(b, missing, bit));
    if (!ptxk_step_in_order(s))
        return;
    ptx_comment(b, "in the order of the elements, which the sums depend on");
    ptx_if (b, ptx_ne(b, missing, 0)) {
        ptx_set(b, missing, 0);
        ptxk_tile_step_singles(b, s, v->i);
    }
    if (s->spec->clips_units)
        ptxk_units_leave(b, s, v->i);
}

// Each vector is read while the one before it is stepped: block_step() does it for itself.
void ptxk_tile_step(ptx_builder *b, const struct ptxk_tile *s, struct ptxk_tile_vector *v,
                    uint32_t span, ptx_val missing)
{
    const uint32_t vectors = s->spec->tile / span;
    struct ptxk_tile_vector next;

    if (vectors == 1) {
        ptxk_tile_vector_step(b, s, v, ptx_u32(0), missing);
        return;
    }
    if (!s->blocks)
        next = ptxk_tile_vector_begin(b, s, ptx_add(b, v->i, span));
    ptx_for (b, k, 0, vectors, ptx_u32(1)) {
        ptxk_tile_vector_step(b, s, v, k, missing);
        if (!s->blocks) {
            ptxk_tile_vector_set(b, v, &next);
            ptx_set(b, next.i, ptx_add(b, next.i, span));
            ptxk_tile_vector_read(b, s, &next);
        }
    }
}
