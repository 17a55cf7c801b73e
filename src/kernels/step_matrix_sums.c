// SPDX-License-Identifier: MIT
// Sums of matrices. The norm's launch reads G and m once, and has G * G, m * m and m * G of each
// part of a matrix; the launch of the groups' sums adds those of its parts. From the three follows
// what the update is divided by.
#include "step_matrix.h"

#include <math.h>

#include "common/common.h"

enum {
    BLOCK = NORM_BLOCK,
    LANES = PTXK_MATRIX_LANES,
    SPAN = WARP * LANES, // elements that a warp reads in a row
    MOST_AT_ONCE = 4,    // of these
};
enum { SUM_GG, SUM_MM, SUM_MG, SUMS };
_Static_assert((int)SUMS == (int)STEP_MATRIX_SUMS, "of a row");
_Static_assert(STEP_MATRIX_PART % (SPAN * MOST_AT_ONCE) == 0,
               "whole parts have no single elements");

#define ROW(member) NORM_PLACE(uint64_t, struct step_tensor_row, member)

static ptx_ptr sums_param(ptx_builder *b, bool writes)
{
    return ptx_param_ptr(b, PTX_F64, "matrix_sums", .writeonly = writes, .readonly = !writes,
                         .meaning = "rows of 3, one for 1024 elements of a matrix: G * G, m * m, "
                                    "m * G");
}

static bool has_own_rules(const struct ptxk_step_spec *spec)
{
    for (unsigned k = 0; k < spec->variant_count; k++)
        if (spec->variants[k].rule->own)
            return true;
    return false;
}

// Twice as many blocks with half as many vectors of a lane in flight hide more of what a block
// reads before its elements, where sums of f32 alone have room in 32 registers, and multiprocessors
// have 2,048 threads.
unsigned ptxk_matrix_sums_blocks(const struct norm_spec *norm, int sm)
{
    const struct ptxk_step_spec *spec = norm->own;
    const bool only_sums = !norm->reports && !spec->accumulates && !spec->clips_units &&
                           !spec->spreads && !has_own_rules(spec);
    const bool has_room = (sm < 86 || sm > 89) && sm < 110;

    return has_room && only_sums && norm->dtypes == PTX_TYPE_BIT(F32) ? 8 : 4;
}

static unsigned at_once(const ptx_builder *b, const struct norm_spec *norm)
{
    const int sm = ptx_builder_target(b).sm;

    return ptxk_matrix_sums_blocks(norm, sm) > 4 ? MOST_AT_ONCE / 2 : MOST_AT_ONCE;
}

// ---- parts --------------------------------------------------------------------------------------

// A warp's sums over part of a chunk.
struct summing {
    struct norm_squares *n;
    ptx_type state;
    ptx_val at;                                      // u64: of the momentum
    ptx_val to;                                      // u32: the chunk's first row of sums
    ptx_ptr sums;                                    // f64
    const struct ptxk_spread *spread, *spread_state; // of G and m that are not consecutive, or NULL
    ptx_val has_vectors;                             // then: a predicate
};

// A part: its arrays, in the chunk, and their elements `i` (a variable, s32) to `end`.
struct part {
    const struct summing *of;
    ptx_ptr x, state;
    ptx_val i, end;
    ptx_val sum[SUMS]; // variables
};

static void add_products(ptx_builder *b, const struct part *p, ptx_val g, ptx_val m)
{
    g = ptx_cvt(b, PTX_F64, g);
    m = ptx_cvt(b, PTX_F64, m);
    ptx_set(b, p->sum[SUM_GG], ptx_fma(b, g, g, p->sum[SUM_GG]));
    ptx_set(b, p->sum[SUM_MM], ptx_fma(b, m, m, p->sum[SUM_MM]));
    ptx_set(b, p->sum[SUM_MG], ptx_fma(b, m, g, p->sum[SUM_MG]));
}

// Reads a vector of elements from `i` on, `skip` elements further.
static ptx_vec vector_at(ptx_builder *b, const struct ptxk_spread *spread, ptx_ptr x, ptx_val i,
                         uint32_t skip)
{
    ptx_val place = ptxk_spread_at(b, spread, skip ? ptx_add(b, i, skip) : i);

    return ptx_load_vec(b, x, place, LANES);
}

// Vectors, as long as the lane has so many of them before `limit` (s32).
static void add_vectors(ptx_builder *b, const struct norm_squares *n, const struct part *p,
                        ptx_val limit)
{
    const unsigned count = at_once(b, n->spec);
    ptx_val last = ptx_sub(b, limit, (count - 1) * SPAN + LANES);
    const bool spreads = p->of->spread_state;

    ptx_while (b, ptx_le(b, p->i, last)) {
        ptx_vec g[MOST_AT_ONCE], m[MOST_AT_ONCE];
        ptx_ptr x = p->x, state = p->state;
        if (!p->of->spread)
            x = ptx_at(b, x, p->i);
        if (!spreads)
            state = ptx_at(b, state, p->i);
        for (unsigned k = 0; k < count; k++) {
            if (!k || spreads)
                ptx_comment(b, "%u vector%s of G and of m", spreads ? 1 : count,
                            spreads ? "" : "s");
            g[k] = p->of->spread ? vector_at(b, p->of->spread, p->x, p->i, k * SPAN)
                                 : ptx_load_vec(b, x, k * SPAN, LANES);
            m[k] = spreads ? vector_at(b, p->of->spread_state, p->state, p->i, k * SPAN)
                           : ptx_load_vec(b, state, k * SPAN, LANES);
        }
        for (unsigned k = 0; k < count * LANES; k++) {
            ptxk_comment_lanes(b, "products", k, n->spec->reports ? 1 : LANES, count * LANES);
            const ptx_val one = g[k / LANES].lane[k % LANES];
            if (n->spec->reports)
                ptxk_chunk_see(b, &n->seen, one);
            add_products(b, p, one, m[k / LANES].lane[k % LANES]);
        }
        ptx_set(b, p->i, ptx_add(b, p->i, count * SPAN));
    }
}

static ptx_val element_at(ptx_builder *b, const struct ptxk_spread *spread, ptx_ptr x, ptx_val i)
{
    return ptx_load(b, x, spread ? ptxk_spread_at(b, spread, i) : i);
}

// The lane's other elements, one by one: the same, in the same order.
static void add_elements(ptx_builder *b, const struct norm_squares *n, const struct part *p)
{
    ptx_while (b, ptx_lt(b, p->i, p->end)) {
        ptx_val end = ptx_min(b, ptx_add(b, p->i, LANES), p->end);
        ptx_comment(b, "single elements");
        ptx_for (b, k, p->i, end, 1) {
            ptx_val g = element_at(b, p->of->spread, p->x, k);
            ptx_val m = element_at(b, p->of->spread_state, p->state, k);
            if (n->spec->reports)
                ptxk_chunk_see(b, &n->seen, g);
            add_products(b, p, g, m);
        }
        ptx_set(b, p->i, ptx_add(b, p->i, SPAN));
    }
}

// Lane l has elements 4 l to 4 l + 3 of each 128 of the part, in this order; a tree over the lanes
// follows. Without it they are the thread's own part of the chunk's sum.
static void sum_part(ptx_builder *b, const struct summing *s, ptx_ptr x, ptx_ptr state,
                     ptx_val vectors, ptx_val number)
{
    const struct norm_squares *n = s->n;
    ptx_val lane = ptx_and(b, n->tid, WARP - 1);
    ptx_val first = ptx_bitcast(b, PTX_S32, ptx_mul(b, number, STEP_MATRIX_PART));
    struct part p = { .of = s, .x = x, .state = state };

    p.end = ptx_min(b, ptx_add(b, first, STEP_MATRIX_PART), n->extent.length);
    ptx_val own = ptx_bitcast(b, PTX_S32, ptx_mul(b, lane, LANES));
    p.i = ptx_var(b, ptx_add(b, first, own));
    for (unsigned k = 0; k < SUMS; k++)
        p.sum[k] = ptx_var(b, ptx_f64(0));
    add_vectors(b, n, &p, ptx_select(b, vectors, p.end, 0));
    add_elements(b, n, &p);
    ptx_comment(b, "the warp's sums");
    ptx_set(b, n->sum, ptx_add(b, n->sum, p.sum[SUM_GG]));
    ptx_val total[SUMS];
    for (unsigned k = 0; k < SUMS; k++) {
        ptx_comment(b, "over the lanes");
        total[k] = ptxk_team_sum(b, p.sum[k], ptx_u32(WARP));
    }
    ptx_comment(b, "the first lane writes them");
    ptx_if (b, ptx_eq(b, lane, 0)) {
        ptx_ptr to = ptx_at(b, s->sums, ptx_mul_wide(b, ptx_add(b, s->to, number), SUMS));
        for (uint32_t k = 0; k < SUMS; k++)
            ptx_store(b, to, k, total[k]);
    }
}

// Whether vectors of an array can be read at once.
static ptx_val is_aligned(ptx_builder *b, ptx_ptr x)
{
    ptx_val low = ptx_and(b, ptx_ptr_address(b, x), LANES * ptx_type_bytes((ptx_type)x.type) - 1);

    return ptx_eq(b, low, 0);
}

static void sum_parts(ptx_builder *b, ptx_type dtype, void *user)
{
    const struct summing *s = user;
    struct norm_squares *n = s->n;
    const bool accumulates = n->accumulator.rows.type;
    ptx_ptr x = ptx_ptr_from(b, accumulates ? PTX_F32 : dtype, PTX_SPACE_GLOBAL,
                             accumulates ? n->accumulator.at : n->tensor.data);
    ptx_ptr state = ptx_ptr_from(b, s->state, PTX_SPACE_GLOBAL, s->at);
    ptx_val length = ptx_bitcast(b, PTX_U32, n->extent.length);
    ptx_val up = ptx_add(b, length, STEP_MATRIX_PART - 1);
    ptx_val parts = ptxk_over_power_of_two(b, up, STEP_MATRIX_PART);
    ptx_val g_aligned = is_aligned(b, x), m_aligned = is_aligned(b, state);
    ptx_val vectors = ptx_and(b, g_aligned, m_aligned);
    if (s->spread_state)
        vectors = ptx_and(b, vectors, s->has_vectors);
    const struct chunk chunk = {
        .x = x, .first = n->extent.first, .length = n->extent.length, .tid = n->tid
    };

    x = ptx_at(b, x, s->spread ? s->spread->base : n->extent.first);
    state = ptx_at(b, state, s->spread_state ? s->spread_state->base : n->extent.first);
    ptx_val part = ptx_var(b, ptx_shr(b, n->tid, ptxk_log2(WARP)));
    ptx_assume_warp_uniform(b, part);
    ptx_while (b, ptx_lt(b, part, parts)) {
        sum_part(b, s, x, state, vectors, part);
        ptx_set(b, part, ptx_add(b, part, BLOCK / WARP));
    }
    if (n->spec->reports)
        ptxk_norm_find_nonfinite(b, n, &chunk);
}

static void sum_of_dtype(ptx_builder *b, struct summing *s)
{
    if (s->n->accumulator.rows.type)
        sum_parts(b, PTX_F32, s);
    else
        ptxk_norm_for_dtype(b, s->n->spec, s->n->tensor.dtype, sum_parts, s);
}

// The types of the matrices' momentum, as PTX_TYPE_BIT().
static uint32_t state_types(const struct ptxk_step_spec *spec)
{
    const struct ptxk_step_matrices matrices = ptxk_step_matrices(spec);
    uint32_t types = 0;

    for (unsigned k = matrices.first; k < matrices.first + matrices.count; k++)
        types |= UINT32_C(1) << ptxk_step_array_type(&spec->variants[k], ARRAY_STATE);
    return types;
}

static void sum_of_state(ptx_builder *b, struct summing *s, ptx_type state)
{
    ptx_comment(b, state == PTX_F32 ? "momentum in f32" : "momentum in bf16");
    s->state = state;
    sum_of_dtype(b, s);
}

// Takes a gradient up, then sums. `half`: of several types, a predicate: the momentum is bf16.
static void sum_summing(ptx_builder *b, struct summing *s, uint32_t types, ptx_val half)
{
    struct norm_squares *n = s->n;

    if (n->accumulator.rows.type) {
        ptxk_norm_accumulate_chunk(b, n, false);
        ptx_barrier(b);
        n->spread = NULL; // sums of gradients are consecutive
    }
    if (!half.type) {
        sum_of_state(b, s, types == PTX_TYPE_BIT(F32) ? PTX_F32 : PTX_BF16);
        return;
    }
    ptx_if (b, half)
        sum_of_state(b, s, PTX_BF16);
    ptx_else (b)
        sum_of_state(b, s, PTX_F32);
}

// Of a chunk of a matrix.
static void sum_matrix(ptx_builder *b, struct norm_squares *n, ptx_val of)
{
    const struct ptxk_matrix_sums *to = n->own;
    const struct ptxk_step_spec *spec = n->spec->own;
    const uint32_t types = state_types(spec), parts = n->spec->chunk / STEP_MATRIX_PART;
    ptx_ptr row = ptxk_matrix_at(b, to->matrices, ptx_sub(b, of, 1));
    ptx_ptr of_tensor = ptxk_matrix_tensor_at(b, spec, to->rows, n->chunk.tensor);
    ptx_val first = ptx_cvt(b, PTX_U32, ptx_load(b, row, MATRIX_ROW(sums)));
    struct summing s = { .n = n,
                         .at = ptx_load(b, of_tensor, ROW(state)),
                         .to = ptx_mad(b, n->chunk.index, parts, first),
                         .sums = to->sums };
    ptx_val half = { 0 };

    if (types & (types - 1)) {
        ptx_val options = ptx_cvt(b, PTX_U32, ptx_load(b, row, MATRIX_ROW(options)));
        half = ptxk_matrix_has(b, options, STEP_MATRIX_BF16);
    }
    if (!spec->spreads) {
        sum_summing(b, &s, types, half);
        return;
    }
    ptx_vec apart = ptx_unpack(b, PTX_U32, ptx_load(b, row, MATRIX_ROW(run)));
    ptx_val is = ptx_ne(b, apart.lane[0], 0);
    ptx_if (b, is) {
        const struct ptxk_spread spread =
            ptxk_spread_from(b, apart.lane[0], apart.lane[1], n->extent.first);
        s.has_vectors = ptxk_spread_has_vectors(b, apart.lane[0], apart.lane[1]);
        s.spread_state = &spread;
        s.spread = n->accumulator.rows.type ? NULL : &spread;
        n->spread = &spread;
        ptx_comment(b, "elements that are not consecutive");
        sum_summing(b, &s, types, half);
        n->spread = NULL;
    }
    ptx_else (b) {
        s.spread = s.spread_state = NULL;
        ptx_comment(b, "consecutive elements");
        sum_summing(b, &s, types, half);
    }
}

static void sum_chunk(ptx_builder *b, struct norm_squares *n)
{
    const struct ptxk_matrix_sums *to = n->own;

    ptx_comment(b, "of a matrix, also the sums that the length of its update follows from");
    ptx_val of = ptx_load(b, to->of, n->chunk.tensor);
    ptx_if (b, ptx_eq(b, of, 0))
        ptxk_norm_squares_chunk(b, n);
    ptx_else (b)
        sum_matrix(b, n, of);
}

static ptx_ptr matrix_of_param(ptx_builder *b)
{
    return ptx_param_ptr(b, PTX_U32, "matrix_of", .readonly = true,
                         .meaning = "one a tensor: 1 + its matrix; 0: it is none");
}

struct ptxk_matrix_spreads ptxk_matrix_spreads_param(ptx_builder *b)
{
    struct ptxk_matrix_spreads from;

    from.of = matrix_of_param(b);
    from.matrices = ptxk_matrices_param(b);
    return from;
}

void ptxk_matrix_accumulate(ptx_builder *b, const struct ptxk_matrix_spreads *from,
                            struct norm_squares *n)
{
    ptx_val run = ptx_var(b, ptx_u32(0)), stride = ptx_var(b, ptx_u32(0));
    ptx_val of = ptx_load(b, from->of, n->chunk.tensor);

    ptx_comment(b, "whether the gradient's elements are consecutive");
    ptx_if (b, ptx_ne(b, of, 0)) {
        ptx_ptr row = ptxk_matrix_at(b, from->matrices, ptx_sub(b, of, 1));
        ptx_vec apart = ptx_unpack(b, PTX_U32, ptx_load(b, row, MATRIX_ROW(run)));
        ptx_set(b, run, apart.lane[0]);
        ptx_set(b, stride, apart.lane[1]);
    }
    ptx_if (b, ptx_ne(b, run, 0)) {
        const struct ptxk_spread spread = ptxk_spread_from(b, run, stride, n->extent.first);
        n->spread = &spread;
        ptxk_norm_accumulate_chunk(b, n, false);
        n->spread = NULL;
    }
    ptx_else (b)
        ptxk_norm_accumulate_chunk(b, n, false);
}

void ptxk_matrix_sums_param(ptx_builder *b, struct norm_squares *n, struct ptxk_matrix_sums *to)
{
    to->of = matrix_of_param(b);
    to->matrices = ptxk_matrices_param(b);
    to->rows = ptxk_matrix_rows_param(b, n->spec->own);
    to->sums = sums_param(b, true);
    n->own_sum = sum_chunk;
    n->own = to;
}

// ---- matrices -----------------------------------------------------------------------------------

// Where a tensor of no matrix, or one without a gradient, has zeros, of matrices over ranks.
ptx_ptr ptxk_matrix_totals_param(ptx_builder *b, bool writes)
{
    return ptx_param_ptr(b, PTX_F64, "matrix_totals", .readonly = !writes, .writeonly = writes,
                         .meaning = "rows of 3, one a tensor: G * G, m * m, m * G");
}

struct ptxk_matrix_totals ptxk_matrix_total_params(ptx_builder *b)
{
    struct ptxk_matrix_totals t;

    t.matrices = ptxk_matrices_param(b);
    t.sums = sums_param(b, false);
    t.totals = ptxk_matrix_totals_param(b, true);
    return t;
}

// The sums of a matrix, which thread 0 has: thread t adds those of parts t, t + 256, ...; a tree
// over the threads follows.
static void sums_of(ptx_builder *b, ptx_ptr row, ptx_ptr sums, ptx_val tid, ptx_val sum[SUMS])
{
    ptx_val rows = ptx_unpack(b, PTX_U32, ptx_load(b, row, MATRIX_ROW(tensor))).lane[1];
    ptx_val columns = ptx_unpack(b, PTX_U32, ptx_load(b, row, MATRIX_ROW(columns))).lane[0];
    ptx_val count = ptx_mul_wide(b, rows, columns);
    ptx_val up = ptx_add(b, count, STEP_MATRIX_PART - 1);
    ptx_val parts = ptxk_over_power_of_two(b, up, STEP_MATRIX_PART);
    ptx_val first = ptx_mul(b, ptx_load(b, row, MATRIX_ROW(sums)), SUMS);
    ptx_ptr from = ptx_at(b, sums, first);

    ptx_comment(b, "thread t adds those of parts t, t + 256, ...");
    for (unsigned k = 0; k < SUMS; k++)
        sum[k] = ptx_var(b, ptx_f64(0));
    ptx_for (b, n, ptx_cvt(b, PTX_U64, tid), parts, BLOCK) {
        ptx_ptr of_part = ptx_at(b, from, ptx_mul(b, n, SUMS));
        for (uint32_t k = 0; k < SUMS; k++)
            ptx_set(b, sum[k], ptx_add(b, sum[k], ptx_load(b, of_part, k)));
    }
    for (unsigned k = 0; k < SUMS; k++) {
        ptx_comment(b, "over the threads");
        sum[k] = ptxk_block_sum(b, sum[k], BLOCK);
    }
    ptx_comment(b, "the first thread writes them");
}

void ptxk_matrix_total(ptx_builder *b, const struct ptxk_matrix_totals *t, ptx_val tid,
                       ptx_val matrix)
{
    ptx_comment(b, "the sums of a matrix");
    ptx_ptr row = ptxk_matrix_at(b, t->matrices, matrix);
    ptx_val tensor = ptx_unpack(b, PTX_U32, ptx_load(b, row, MATRIX_ROW(tensor))).lane[0];
    ptx_val sum[SUMS];

    sums_of(b, row, t->sums, tid, sum);
    ptx_if (b, ptx_eq(b, tid, 0)) {
        ptx_ptr to = ptx_at(b, t->totals, ptx_mul_wide(b, tensor, SUMS));
        for (uint32_t k = 0; k < SUMS; k++)
            ptx_store(b, to, k, sum[k]);
    }
}

// ---- over ranks ---------------------------------------------------------------------------------

// Whether a tensor has a gradient, or a sum of gradients: a predicate.
static ptx_val is_present(ptx_builder *b, ptx_ptr rows, bool accumulates, ptx_val tensor)
{
    if (accumulates)
        return ptxk_norm_has_accumulated(b, rows, tensor);
    const uint32_t length = NORM_LENGTH(uint64_t, struct norm_tensor_row);
    return ptx_ne(b, ptx_load(b, ptx_at(b, rows, ptx_mul_wide(b, tensor, length)), 0), 0);
}

void ptxk_step_matrix_totals_emit(ptx_builder *b, const struct norm_spec *norm)
{
    const struct ptxk_step_spec *spec = norm->own;

    ptx_comment(b, "a block for each tensor: the sums of the rows that are here");
    ptx_ptr tensors = spec->accumulates
                          ? ptxk_norm_accumulators_param(b)
                          : ptx_param_ptr(b, PTX_U64, "tensors", .readonly = true,
                                          .meaning = "rows of 4: gradient, count, weight, type");
    ptx_ptr of = matrix_of_param(b);
    const struct ptxk_matrix_totals t = ptxk_matrix_total_params(b);
    ptx_val tensor = ptx_ctaid(b, PTX_X), tid = ptx_tid(b, PTX_X);
    ptx_ptr to = ptx_at(b, t.totals, ptx_mul_wide(b, tensor, SUMS));
    ptx_val matrix = ptx_load(b, of, tensor), first = ptx_eq(b, tid, 0);

    ptx_if (b, ptx_eq(b, matrix, 0)) {
        ptx_if (b, first)
            for (uint32_t k = 0; k < SUMS; k++)
                ptx_store(b, to, k, ptx_f64(0));
    }
    ptx_else (b) {
        ptx_val present = is_present(b, tensors, spec->accumulates, tensor);
        ptx_ptr row = ptxk_matrix_at(b, t.matrices, ptx_sub(b, matrix, 1));
        ptx_val sum[SUMS];
        sums_of(b, row, t.sums, tid, sum);
        ptx_if (b, first)
            for (uint32_t k = 0; k < SUMS; k++)
                ptx_store(b, to, k, ptx_select(b, present, sum[k], ptx_f64(0)));
    }
}

// ---- scales -------------------------------------------------------------------------------------

// What the length of an update follows from, f64: those of m and G in it, and the sums.
struct lengths {
    ptx_val of_m, of_g;
    ptx_val sum[SUMS];
};

// The larger of the length and 2^-20 of the sum of its parts' lengths.
static ptx_val length_of(ptx_builder *b, const struct lengths *l)
{
    ptx_val m_m = ptx_mul(b, ptx_mul(b, l->of_m, l->of_m), l->sum[SUM_MM]);
    ptx_val m_g = ptx_mul(b, ptx_mul(b, l->of_m, l->of_g), l->sum[SUM_MG]);
    ptx_val g_g = ptx_mul(b, ptx_mul(b, l->of_g, l->of_g), l->sum[SUM_GG]);
    ptx_val twice = ptx_mul(b, 2, m_g);
    ptx_val square = ptx_add(b, ptx_add(b, m_m, twice), g_g);

    ptx_comment(b, "the update's length, where it does not cancel");
    ptx_val root = ptx_sqrt(b, ptx_max(b, square, 0));
    ptx_val of_m = ptx_sqrt(b, m_m);
    ptx_val parts = ptx_add(b, of_m, ptx_sqrt(b, g_g));
    return ptx_max(b, root, ptx_mul(b, parts, 0x1p-20));
}

ptx_val ptxk_matrix_scale(ptx_builder *b, const struct ptxk_matrix_scale *of)
{
    struct lengths l;

    ptx_comment(b, "how much of m and of G the update has, and its length");
    for (uint32_t k = 0; k < SUMS; k++)
        l.sum[k] = ptx_load(b, of->totals, k);
    ptx_val mu = ptx_cvt(b, PTX_F64, ptx_load(b, of->coefficients, MUON_MOMENTUM));
    ptx_val eps = ptx_cvt(b, PTX_F64, ptx_load(b, of->coefficients, MUON_EPS));
    ptx_val nesterov = ptxk_matrix_has(b, of->options, STEP_MATRIX_NESTEROV);
    ptx_val f = ptx_cvt(b, PTX_F64, of->factor);
    ptx_val maximize = ptxk_matrix_has(b, of->options, STEP_MATRIX_MAXIMIZE);
    f = ptx_select(b, maximize, ptx_neg(b, f), f);
    l.of_m = ptx_select(b, nesterov, ptx_mul(b, mu, mu), mu);
    l.of_g = ptx_mul(b, ptx_sub(b, 1, l.of_m), f);
    ptx_val length = length_of(b, &l);
    ptx_val scale = ptx_cvt(b, PTX_F32, ptx_max(b, length, eps));

    ptx_comment(b, "an update that is shorter than any f32 becomes 0");
    return ptx_select(b, ptx_eq(b, scale, 0), ptx_f32(INFINITY), scale);
}
