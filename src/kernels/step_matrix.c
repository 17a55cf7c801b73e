// SPDX-License-Identifier: MIT
// Steps of matrices. The norm's launch also sums m * m and m * G. From these follows what the
// update is divided by; the next kernel writes momentum and update, in f16, as the products take
// it. The step's kernel reads what they leave. Tiles go through shared memory, where a matrix is
// transposed on the way.
#include "step_matrix.h"

#include <math.h>

#include "common/common.h"

enum {
    BLOCK = NORM_BLOCK,
    TILE = STEP_MATRIX_TILE,
    PITCH = TILE + 2,      // elements in shared memory from a row to the next
    STRIDE = BLOCK / TILE, // rows between a thread's elements
    EACH = 4,              // of which so many are read at once
    IN_FLIGHT = 8,         // elements of a sum that a lane reads at once
};
enum { SUM_GG, SUM_MM, SUM_MG, SUMS };
_Static_assert((int)SUMS == (int)STEP_MATRIX_SUMS, "of a row");

#define ROW(member)    NORM_PLACE(uint64_t, struct step_tensor_row, member)
#define MATRIX(member) NORM_PLACE(uint64_t, struct step_matrix_row, member)

static ptx_ptr matrices_param(ptx_builder *b)
{
    return ptx_param_ptr(b, PTX_U64, "matrix_rows", .readonly = true,
                         .meaning = "rows of 8: addresses of X and of the products' result, first "
                                    "of its sums, factor of lr (f64), tensor, rows, columns, line "
                                    "of X, options");
}

static ptx_ptr matrix_at(ptx_builder *b, ptx_ptr matrices, ptx_val k)
{
    return ptx_at(b, matrices, ptx_mul_wide(b, k, NORM_LENGTH(uint64_t, struct step_matrix_row)));
}

static ptx_val has(ptx_builder *b, ptx_val options, uint32_t option)
{
    return ptx_ne(b, ptx_and(b, options, option), 0);
}

static ptx_ptr rows_param(ptx_builder *b, const struct ptxk_step_spec *spec)
{
    return ptx_param_ptr(b, PTX_U64, "rows", .readonly = true,
                         .meaning = ptxk_step_row_words(spec) == STEP_ROW_WORDS
                                        ? "rows of 16, one a tensor"
                                        : "rows of 12, one a tensor");
}

static ptx_ptr row_of_tensor(ptx_builder *b, const struct ptxk_step_spec *spec, ptx_ptr rows,
                             ptx_val tensor)
{
    return ptx_at(b, rows, ptx_mul_wide(b, tensor, ptxk_step_row_words(spec)));
}

// ---- sums ---------------------------------------------------------------------------------------

struct ptxk_matrix_sums ptxk_matrix_sums_param(ptx_builder *b, const struct norm_spec *spec)
{
    struct ptxk_matrix_sums p;

    p.of = ptx_param_ptr(b, PTX_U32, "matrix_of", .readonly = true,
                         .meaning = "one a tensor: 1 + its matrix; 0: it is none");
    p.matrices = matrices_param(b);
    p.rows = rows_param(b, spec->own);
    p.sums = ptx_param_ptr(b, PTX_F64, "matrix_sums", .writeonly = true,
                           .meaning = "rows of 3, one for 2048 elements of a matrix: G * G, "
                                      "m * m, m * G");
    return p;
}

// A warp's sums over part of a chunk.
struct summing {
    const struct norm_squares *n;
    ptx_type state;
    ptx_val at;   // u64: of the momentum
    ptx_val to;   // u32: the chunk's first row of sums
    ptx_ptr sums; // f64
};

static void add_products(ptx_builder *b, const ptx_val sum[SUMS], ptx_val within, ptx_val g,
                         ptx_val m)
{
    ptx_val zero = ptx_f64(0);

    ptx_comment(b, "an element's products");
    g = ptx_select(b, within, ptx_cvt(b, PTX_F64, g), zero);
    m = ptx_select(b, within, ptx_cvt(b, PTX_F64, m), zero);
    ptx_set(b, sum[SUM_GG], ptx_fma(b, g, g, sum[SUM_GG]));
    ptx_set(b, sum[SUM_MM], ptx_fma(b, m, m, sum[SUM_MM]));
    ptx_set(b, sum[SUM_MG], ptx_fma(b, m, g, sum[SUM_MG]));
}

// Lane l has elements l, l + 32, ... of the part; a tree over the lanes follows.
static void sum_part(ptx_builder *b, const struct summing *s, ptx_ptr x, ptx_ptr state,
                     ptx_val part)
{
    const struct norm_squares *n = s->n;
    ptx_val lane = ptx_and(b, n->tid, WARP - 1), sum[SUMS];
    ptx_val first = ptx_bitcast(b, PTX_S32, ptx_mul(b, part, STEP_MATRIX_PART));
    ptx_val end = ptx_min(b, ptx_add(b, first, STEP_MATRIX_PART), n->extent.length);

    for (unsigned k = 0; k < SUMS; k++)
        sum[k] = ptx_var(b, ptx_f64(0));
    ptx_for (b, i, ptx_add(b, first, ptx_bitcast(b, PTX_S32, lane)), end, WARP * IN_FLIGHT) {
        ptx_val within[IN_FLIGHT], g[IN_FLIGHT], m[IN_FLIGHT];
        for (unsigned k = 0; k < IN_FLIGHT; k++) {
            ptxk_comment_lanes(b, "reads G and m", k, 4, IN_FLIGHT);
            ptx_val at = ptx_add(b, i, k * WARP);
            within[k] = ptx_lt(b, at, end);
            at = ptx_select(b, within[k], at, i);
            g[k] = ptx_load(b, x, at);
            m[k] = ptx_load(b, state, at);
        }
        for (unsigned k = 0; k < IN_FLIGHT; k++)
            add_products(b, sum, within[k], g[k], m[k]);
    }
    ptx_comment(b, "the warp's sums");
    ptx_val total[SUMS];
    for (unsigned k = 0; k < SUMS; k++) {
        ptx_comment(b, "over the lanes");
        total[k] = ptxk_team_sum(b, sum[k], ptx_u32(WARP));
    }
    ptx_comment(b, "the first lane writes them");
    ptx_if (b, ptx_eq(b, lane, 0)) {
        ptx_ptr to = ptx_at(b, s->sums, ptx_mul_wide(b, ptx_add(b, s->to, part), SUMS));
        for (uint32_t k = 0; k < SUMS; k++)
            ptx_store(b, to, k, total[k]);
    }
}

static void sum_parts(ptx_builder *b, ptx_type dtype, void *user)
{
    const struct summing *s = user;
    const struct norm_squares *n = s->n;
    const bool accumulates = n->accumulator.rows.type;
    ptx_ptr x = ptx_ptr_from(b, accumulates ? PTX_F32 : dtype, PTX_SPACE_GLOBAL,
                             accumulates ? n->accumulator.at : n->tensor.data);
    ptx_ptr state = ptx_ptr_from(b, s->state, PTX_SPACE_GLOBAL, s->at);
    ptx_val length = ptx_bitcast(b, PTX_U32, n->extent.length);
    ptx_val up = ptx_add(b, length, STEP_MATRIX_PART - 1);
    ptx_val parts = ptxk_over_power_of_two(b, up, STEP_MATRIX_PART);

    x = ptx_at(b, x, n->extent.first);
    state = ptx_at(b, state, n->extent.first);
    ptx_val part = ptx_var(b, ptx_shr(b, n->tid, ptxk_log2(WARP)));
    ptx_assume_warp_uniform(b, part);
    ptx_while (b, ptx_lt(b, part, parts)) {
        sum_part(b, s, x, state, part);
        ptx_set(b, part, ptx_add(b, part, BLOCK / WARP));
    }
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

void ptxk_matrix_sums(ptx_builder *b, const struct ptxk_matrix_sums *to,
                      const struct norm_squares *n)
{
    const struct ptxk_step_spec *spec = n->spec->own;
    const uint32_t types = state_types(spec), parts = n->spec->chunk / STEP_MATRIX_PART;

    ptx_comment(b, "the sums of a matrix, for the length of its update");
    ptx_val of = ptx_load(b, to->of, n->chunk.tensor);
    ptx_if (b, ptx_ne(b, of, 0)) {
        if (n->accumulator.rows.type)
            ptx_barrier(b);
        ptx_ptr row = matrix_at(b, to->matrices, ptx_sub(b, of, 1));
        ptx_ptr of_tensor = row_of_tensor(b, spec, to->rows, n->chunk.tensor);
        ptx_val first = ptx_cvt(b, PTX_U32, ptx_load(b, row, MATRIX(sums)));
        struct summing s = { .n = n,
                             .at = ptx_load(b, of_tensor, ROW(state)),
                             .to = ptx_mad(b, n->chunk.index, parts, first),
                             .sums = to->sums };
        ptx_val options = ptx_cvt(b, PTX_U32, ptx_load(b, row, MATRIX(options)));
        ptx_val half = has(b, options, STEP_MATRIX_BF16);
        if (types & PTX_TYPE_BIT(F32)) {
            s.state = PTX_F32;
            ptx_comment(b, "momentum in f32");
            ptx_if (b, ptx_not(b, half))
                sum_of_dtype(b, &s);
        }
        if (types & PTX_TYPE_BIT(BF16)) {
            s.state = PTX_BF16;
            ptx_comment(b, "momentum in bf16");
            ptx_if (b, half)
                sum_of_dtype(b, &s);
        }
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
    ptx_val parts = ptx_add(b, ptx_sqrt(b, m_m), ptx_sqrt(b, g_g));
    return ptx_max(b, root, ptx_mul(b, parts, 0x1p-20));
}

static void scale_store(ptx_builder *b, ptx_ptr coefficients, ptx_val options, ptx_val factor,
                        const ptx_val sum[SUMS], ptx_ptr to)
{
    ptx_comment(b, "how much of m and of G the update has");
    ptx_val mu = ptx_cvt(b, PTX_F64, ptx_load(b, coefficients, MUON_MOMENTUM));
    ptx_val eps = ptx_cvt(b, PTX_F64, ptx_load(b, coefficients, MUON_EPS));
    ptx_val nesterov = has(b, options, STEP_MATRIX_NESTEROV);
    ptx_val f = ptx_cvt(b, PTX_F64, factor);
    f = ptx_select(b, has(b, options, STEP_MATRIX_MAXIMIZE), ptx_neg(b, f), f);
    ptx_val a = ptx_select(b, nesterov, ptx_mul(b, mu, mu), mu);
    struct lengths l = { .of_m = a, .of_g = ptx_mul(b, ptx_sub(b, 1, a), f) };
    for (unsigned k = 0; k < SUMS; k++)
        l.sum[k] = sum[k];
    ptx_val length = length_of(b, &l);
    ptx_val scale = ptx_cvt(b, PTX_F32, ptx_max(b, length, eps));

    ptx_comment(b, "an update of zeros stays so");
    ptx_val none = ptx_eq(b, length, 0);
    ptx_store(b, to, 0, ptx_select(b, none, ptx_f32(INFINITY), scale));
}

// The tensor, rows, columns of a matrix; its sums, which thread 0 has.
struct totals {
    ptx_val tensor;
    ptx_val sum[SUMS];
};

static struct totals sum_parts_of(ptx_builder *b, ptx_ptr row, ptx_ptr sums, ptx_val tid)
{
    ptx_vec size = ptx_unpack(b, PTX_U32, ptx_load(b, row, MATRIX(tensor)));
    ptx_vec more = ptx_unpack(b, PTX_U32, ptx_load(b, row, MATRIX(columns)));
    ptx_val count = ptx_mul_wide(b, size.lane[1], more.lane[0]);
    ptx_val up = ptx_add(b, count, STEP_MATRIX_PART - 1);
    ptx_val parts = ptxk_over_power_of_two(b, up, STEP_MATRIX_PART);
    ptx_ptr from = ptx_at(b, sums, ptx_mul(b, ptx_load(b, row, MATRIX(sums)), SUMS));
    struct totals t = { .tensor = size.lane[0] };

    ptx_comment(b, "thread t adds the sums of parts t, t + 256, ...");
    for (unsigned k = 0; k < SUMS; k++)
        t.sum[k] = ptx_var(b, ptx_f64(0));
    ptx_for (b, n, ptx_cvt(b, PTX_U64, tid), parts, BLOCK) {
        ptx_ptr of_part = ptx_at(b, from, ptx_mul(b, n, SUMS));
        for (uint32_t k = 0; k < SUMS; k++)
            ptx_set(b, t.sum[k], ptx_add(b, t.sum[k], ptx_load(b, of_part, k)));
    }
    for (unsigned k = 0; k < SUMS; k++) {
        ptx_comment(b, "over the threads");
        t.sum[k] = ptxk_block_sum(b, t.sum[k], BLOCK);
    }
    return t;
}

static ptx_ptr sums_param(ptx_builder *b)
{
    return ptx_param_ptr(b, PTX_F64, "matrix_sums", .readonly = true,
                         .meaning = "rows of 3, one for 2048 elements of a matrix: G * G, m * m, "
                                    "m * G");
}

// Where a tensor of no matrix, or one without a gradient, has zeros.
static ptx_ptr totals_param(ptx_builder *b, bool writes)
{
    return ptx_param_ptr(b, PTX_F64, "matrix_totals", .readonly = !writes, .writeonly = writes,
                         .meaning = "rows of 3, one a tensor: G * G, m * m, m * G");
}

// Whether a tensor has a gradient, or a sum of gradients: a predicate.
static ptx_val is_present(ptx_builder *b, ptx_ptr rows, bool accumulates, ptx_val tensor)
{
    if (accumulates) {
        ptx_val at = ptx_load_vec(b, rows, ptx_mul_wide(b, tensor, 2), 2).lane[1];
        return ptx_ne(b, ptxk_norm_accumulated(b, at), 0);
    }
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
    ptx_ptr of = ptx_param_ptr(b, PTX_U32, "matrix_of", .readonly = true,
                               .meaning = "one a tensor: 1 + its matrix; 0: it is none");
    ptx_ptr matrices = matrices_param(b);
    ptx_ptr sums = sums_param(b);
    ptx_ptr totals = totals_param(b, true);
    ptx_val tensor = ptx_ctaid(b, PTX_X), tid = ptx_tid(b, PTX_X);
    ptx_ptr to = ptx_at(b, totals, ptx_mul_wide(b, tensor, SUMS));
    ptx_val matrix = ptx_load(b, of, tensor), first = ptx_eq(b, tid, 0);

    ptx_if (b, ptx_eq(b, matrix, 0)) {
        ptx_if (b, first)
            for (uint32_t k = 0; k < SUMS; k++)
                ptx_store(b, to, k, ptx_f64(0));
    }
    ptx_else (b) {
        ptx_val present = is_present(b, tensors, spec->accumulates, tensor);
        ptx_ptr row = matrix_at(b, matrices, ptx_sub(b, matrix, 1));
        struct totals t = sum_parts_of(b, row, sums, tid);
        ptx_if (b, first)
            for (uint32_t k = 0; k < SUMS; k++)
                ptx_store(b, to, k, ptx_select(b, present, t.sum[k], ptx_f64(0)));
    }
}

void ptxk_step_matrix_scales_emit(ptx_builder *b, const struct norm_spec *norm)
{
    const struct ptxk_step_spec *spec = norm->own;
    const struct ptxk_step_rules rules = ptxk_step_rules(spec);
    struct totals t;

    ptx_comment(b, "a block for each matrix: what its update is divided by");
    ptx_ptr matrices = matrices_param(b);
    ptx_ptr rows = rows_param(b, spec);
    ptx_ptr coefficients = ptx_param_ptr(b, PTX_F32, "coefficients", .readonly = true,
                                         .meaning = ptxk_step_coefficients_meaning(&rules));
    ptx_ptr records = ptx_param_ptr(b, PTX_F32, "records", .readonly = true,
                                    .meaning = "rows of 4: factor, norm, found_inf, max_norm");
    ptx_ptr sums = spec->over_ranks ? totals_param(b, false) : sums_param(b);
    ptx_ptr scales =
        ptx_param_ptr(b, PTX_F32, "matrix_scales", .writeonly = true, .meaning = "one a matrix");
    ptx_val block = ptx_ctaid(b, PTX_X), tid = ptx_tid(b, PTX_X);
    ptx_ptr row = matrix_at(b, matrices, block);
    if (spec->over_ranks) {
        ptx_comment(b, "the sums of all ranks");
        t.tensor = ptx_unpack(b, PTX_U32, ptx_load(b, row, MATRIX(tensor))).lane[0];
        ptx_ptr of_all = ptx_at(b, sums, ptx_mul_wide(b, t.tensor, SUMS));
        for (uint32_t k = 0; k < SUMS; k++)
            t.sum[k] = ptx_load(b, of_all, k);
    } else {
        t = sum_parts_of(b, row, sums, tid);
    }
    ptx_comment(b, "the first thread has them: the scalars of the matrix");
    ptx_if (b, ptx_eq(b, tid, 0)) {
        ptx_ptr of_tensor = row_of_tensor(b, spec, rows, t.tensor);
        ptx_vec id_clock = ptx_unpack(b, PTX_U32, ptx_load(b, of_tensor, ROW(id)));
        ptx_vec variant_group = ptx_unpack(b, PTX_U32, ptx_load(b, of_tensor, ROW(variant)));
        ptx_val of_clock = ptx_mul_wide(b, id_clock.lane[1], ptxk_step_coefficients_words(&rules));
        ptx_ptr record = ptx_at(b, records, ptx_mul_wide(b, variant_group.lane[1], 4));
        ptx_val options = ptx_cvt(b, PTX_U32, ptx_load(b, row, MATRIX(options)));
        ptx_val factor = ptx_load(b, record, 0);
        ptx_ptr to = ptx_at(b, scales, ptx_cvt(b, PTX_U64, block));
        scale_store(b, ptx_at(b, coefficients, of_clock), options, factor, t.sum, to);
    }
}

// ---- tiles --------------------------------------------------------------------------------------

struct ptxk_matrix_tile ptxk_matrix_tile_read(ptx_builder *b, ptx_ptr matrices, ptx_val matrix,
                                              ptx_val index, ptx_val tid, ptx_ptr shared)
{
    struct ptxk_matrix_tile m = { .row = matrix_at(b, matrices, matrix) };

    ptx_comment(b, "the tile of the matrix");
    ptx_val rows = ptx_unpack(b, PTX_U32, ptx_load(b, m.row, MATRIX(tensor))).lane[1];
    ptx_vec size = ptx_unpack(b, PTX_U32, ptx_load(b, m.row, MATRIX(columns)));
    m.columns = size.lane[0];
    m.line = size.lane[1];
    m.options = ptx_cvt(b, PTX_U32, ptx_load(b, m.row, MATRIX(options)));
    ptx_val wide = ptxk_over_power_of_two(b, ptx_add(b, m.columns, TILE - 1), TILE);
    ptx_val high = ptxk_over_power_of_two(b, ptx_add(b, rows, TILE - 1), TILE);
    ptx_val down = ptx_div(b, index, wide);
    ptx_val right = ptx_sub(b, index, ptx_mul(b, down, wide));
    ptx_comment(b, "its first row and column, and its size");
    ptx_val row_0 = ptx_mul(b, down, TILE), column_0 = ptx_mul(b, right, TILE);
    m.several = ptx_gt(b, ptx_or(b, wide, high), 1);
    ptx_val left = ptx_sub(b, rows, row_0), beside = ptx_sub(b, m.columns, column_0);
    m.height = ptx_bitcast(b, PTX_S32, ptx_min(b, left, TILE));
    m.width = ptx_bitcast(b, PTX_S32, ptx_min(b, beside, TILE));
    m.first = ptx_add(b, ptx_mul_wide(b, row_0, m.columns), ptx_cvt(b, PTX_U64, column_0));

    ptx_comment(b, "its place in X, and in shared memory, whose rows are those of X");
    ptx_val turns = has(b, m.options, STEP_MATRIX_TRANSPOSED);
    ptx_comment(b, "where it begins there");
    ptx_val x_row = ptx_select(b, turns, column_0, row_0);
    ptx_val x_column = ptx_select(b, turns, row_0, column_0);
    m.x_first = ptx_add(b, ptx_mul_wide(b, x_row, m.line), ptx_cvt(b, PTX_U64, x_column));
    m.x_height = ptx_select(b, turns, m.width, m.height);
    m.x_width = ptx_select(b, turns, m.height, m.width);
    ptx_comment(b, "and how its rows are cut");
    ptx_val in_line = ptx_min(b, ptx_sub(b, m.line, x_column), TILE);
    m.x_line = ptx_bitcast(b, PTX_S32, in_line);
    m.down = ptx_select(b, turns, ptx_s32(1), PITCH);
    m.across = ptx_select(b, turns, ptx_s32(PITCH), 1);
    m.shared = ptx_ptr_cast(b, PTX_F16, shared);
    m.along = ptx_bitcast(b, PTX_S32, ptx_and(b, tid, TILE - 1));
    m.begin = ptx_bitcast(b, PTX_S32, ptx_shr(b, tid, ptxk_log2(TILE)));
    return m;
}

// Of a thread's elements in a tile: so many, from row `r` (s32) on.
struct elements {
    ptx_val within[EACH], i[EACH]; // i: s32, the element from the tile's first on
    ptx_val place[EACH];           // in shared memory
};

static struct elements elements_of(ptx_builder *b, const struct ptxk_matrix_tile *m, ptx_val r)
{
    struct elements e;
    ptx_val columns = ptx_bitcast(b, PTX_S32, m->columns);
    ptx_val in_row = ptx_lt(b, m->along, m->width);
    ptx_val aside = ptx_mul(b, m->along, m->across);

    for (unsigned k = 0; k < EACH; k++) {
        ptxk_comment_lanes(b, "where elements are", k, 2, EACH);
        ptx_val row = ptx_add(b, r, k * STRIDE);
        e.within[k] = ptx_and(b, in_row, ptx_lt(b, row, m->height));
        ptx_val i = ptx_mad(b, row, columns, m->along);
        e.i[k] = ptx_select(b, e.within[k], i, 0);
        e.place[k] = ptx_mad(b, row, m->down, aside);
    }
    return e;
}

// ---- before the products ------------------------------------------------------------------------

struct pass {
    const struct ptxk_step_spec *spec;
    const struct ptxk_step_variant *variant;
    struct ptxk_step_random random;
    ptx_val matrix, tensor, index, tid; // u32
    ptx_ptr row;                        // of the tensor
    ptx_val gradient;                   // u64
    ptx_ptr matrices, coefficients, records, guard_state, seed, scales, accumulators;
    ptx_ptr shared;
    ptx_val groups; // u32
    bool is_guarded;
    // Of the tile:
    struct ptxk_matrix_tile m;
    ptx_ptr g, state;
    ptx_val factor, rest, scale; // f32
};

static void gradients_clear(ptx_builder *b, const struct pass *p)
{
    ptx_for (b, r, p->m.begin, p->m.height, STRIDE * EACH) {
        struct elements e = elements_of(b, &p->m, r);
        for (unsigned k = 0; k < EACH; k++)
            ptx_if (b, e.within[k])
                ptx_store(b, p->g, e.i[k], ptxk_narrow(b, p->variant->gradient, ptx_zero(PTX_F32)));
    }
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
    p->scale = ptx_load(b, ptx_at(b, p->scales, ptx_cvt(b, PTX_U64, p->matrix)), 0);
    if (ptxk_step_rounds_state(p->variant, 0)) {
        p->random = (struct ptxk_step_random) {
            .first = p->m.first,
            .whole_first = ptx_load(b, p->row, ROW(first)),
            .run = ptx_load(b, p->row, ROW(run)),
            .stride = ptx_load(b, p->row, ROW(stride)),
            .t = ptx_load(b, ptx_ptr_cast(b, PTX_U32, c), PTXK_STEP_T),
            .id = id_clock.lane[0],
            .key = { ptx_load(b, p->seed, 0), ptx_load(b, p->seed, 1) },
        };
    }
    ptx_ptr all = ptx_at(b, p->records, ptx_mul_wide(b, p->groups, 4));
    ptx_val found =
        p->is_guarded ? ptxk_norm_guards_skipped(b, p->guard_state) : ptx_load(b, all, 0);
    ptx_val skips = ptx_neu(b, found, 0);
    if (p->spec->gradients == PTXK_STEP_GRADIENTS_ZEROED)
        ptx_if (b, skips)
            gradients_clear(b, p);
    ptx_comment(b, "nothing else is written where the step is skipped");
    ptx_return_if(b, skips);
}

// An element: its momentum, and its update, in f16.
static void element(ptx_builder *b, const struct pass *p, ptx_val g, ptx_val m, ptx_val i,
                    ptx_val within, ptx_val place)
{
    const struct ptxk_step_variant *v = p->variant;
    const ptx_type type = ptxk_step_array_type(v, ARRAY_STATE);
    ptx_comment(b, "an element: momentum and update");
    ptx_val scaled = ptx_mul(b, ptx_cvt(b, PTX_F32, g), p->factor);
    g = v->options & PTXK_STEP_MAXIMIZE ? ptx_neg(b, scaled) : scaled;
    m = ptx_cvt(b, PTX_F32, m);
    m = ptx_fma(b, p->rest, ptx_sub(b, g, m), m);
    ptx_val u = m;
    if (v->options & PTXK_STEP_NESTEROV)
        u = ptx_fma(b, ptx_neg(b, p->rest), ptx_sub(b, m, g), m);
    ptx_store(b, p->m.shared, place, ptx_cvt(b, PTX_F16, ptx_div(b, u, p->scale)));
    ptx_if (b, within) {
        ptx_val stored = m;
        if (ptxk_step_rounds_state(v, 0)) {
            ptx_val bits = ptxk_step_random_of(b, &p->random, i, PTXK_STREAM_FIRST_STATE);
            stored = ptxk_step_round(b, m, bits, false);
        }
        ptx_store(b, p->state, i, ptxk_narrow(b, type, stored));
        if (p->spec->gradients == PTXK_STEP_GRADIENTS_WRITTEN)
            ptx_store(b, p->g, i, ptxk_narrow(b, v->gradient, scaled));
        if (p->spec->gradients == PTXK_STEP_GRADIENTS_ZEROED)
            ptx_store(b, p->g, i, ptxk_narrow(b, v->gradient, ptx_zero(PTX_F32)));
    }
}

// Writes the tile of X; what pads its rows is 0.
static void x_write(ptx_builder *b, const struct pass *p)
{
    const struct ptxk_matrix_tile *m = &p->m;
    ptx_comment(b, "writes the tile of X");
    ptx_ptr x = ptx_ptr_from(b, PTX_F16, PTX_SPACE_GLOBAL, ptx_load(b, m->row, MATRIX(x)));
    x = ptx_at(b, x, m->x_first);
    ptx_val own = ptx_lt(b, m->along, m->x_width);
    ptx_if (b, ptx_lt(b, m->along, m->x_line)) {
        ptx_for (b, r, m->begin, m->x_height, STRIDE) {
            ptx_val from = ptx_load(b, m->shared, ptx_mad(b, r, PITCH, m->along));
            ptx_val at =
                ptx_mad_wide(b, r, ptx_bitcast(b, PTX_S32, m->line), ptx_cvt(b, PTX_S64, m->along));
            ptx_val bits = ptx_bitcast(b, PTX_U16, from);
            bits = ptx_select(b, own, bits, ptx_bitcast(b, PTX_U16, ptx_zero(PTX_F16)));
            ptx_store(b, x, at, ptx_bitcast(b, PTX_F16, bits));
        }
    }
}

static void pass_tile(ptx_builder *b, struct pass *p)
{
    const struct ptxk_step_variant *v = p->variant;

    ptxk_step_comment(b, v);
    p->m = ptxk_matrix_tile_read(b, p->matrices, p->matrix, p->index, p->tid, p->shared);
    p->g = ptx_at(b, ptx_ptr_from(b, v->gradient, PTX_SPACE_GLOBAL, p->gradient), p->m.first);
    ptx_val state = ptx_load(b, p->row, ROW(state));
    p->state = ptx_ptr_from(b, ptxk_step_array_type(v, ARRAY_STATE), PTX_SPACE_GLOBAL, state);
    p->state = ptx_at(b, p->state, p->m.first);
    scalars_read(b, p);
    ptx_for (b, r, p->m.begin, p->m.height, STRIDE * EACH) {
        struct elements e = elements_of(b, &p->m, r);
        ptx_val g[EACH], m[EACH];
        ptx_comment(b, "reads gradients and momentum");
        for (unsigned k = 0; k < EACH; k++) {
            g[k] = ptx_load(b, p->g, e.i[k]);
            m[k] = ptx_load(b, p->state, e.i[k]);
        }
        for (unsigned k = 0; k < EACH; k++)
            element(b, p, g[k], m[k], e.i[k], e.within[k], e.place[k]);
    }
    ptx_barrier(b);
    x_write(b, p);
}

static void accumulator_read(ptx_builder *b, struct pass *p)
{
    ptx_vec sum = ptx_load_vec(b, p->accumulators, ptx_mul_wide(b, p->tensor, 2), 2);
    ptx_val taken = ptxk_norm_accumulated(b, sum.lane[1]);
    ptx_return_if(b, ptx_eq(b, taken, 0));
    p->gradient = sum.lane[0];
}

void ptxk_step_matrix_emit(ptx_builder *b, const struct norm_spec *norm)
{
    const struct ptxk_step_spec *spec = norm->own;
    const struct ptxk_step_rules rules = ptxk_step_rules(spec);
    const struct ptxk_step_matrices variants = ptxk_step_matrices(spec);
    struct pass p = { .spec = spec, .is_guarded = norm->guards };
    bool draws = false;

    ptx_comment(b, "a block for each tile of a matrix: momentum, and the update for the products");
    ptx_ptr tensors = { 0 };
    if (!spec->accumulates)
        tensors = ptx_param_ptr(b, PTX_U64, "tensors", .readonly = true,
                                .meaning = "rows of 4: gradient, count, weight, type");
    ptx_ptr tiles = ptx_param_ptr(b, PTX_U32, "matrix_tiles", .readonly = true,
                                  .meaning = "rows of 2: matrix, place in it");
    p.matrices = matrices_param(b);
    ptx_ptr rows = rows_param(b, spec);
    p.coefficients = ptx_param_ptr(b, PTX_F32, "coefficients", .readonly = true,
                                   .meaning = ptxk_step_coefficients_meaning(&rules));
    p.records = ptx_param_ptr(b, PTX_F32, "records", .readonly = true,
                              .meaning = "rows of 4: factor, norm, found_inf, max_norm; then "
                                         "found_inf of all");
    p.scales = ptx_param_ptr(b, PTX_F32, "matrix_scales", .readonly = true,
                             .meaning = "one a matrix: what its update is divided by");
    p.groups = ptx_param(b, PTX_U32, "group_count");
    if (p.is_guarded)
        p.guard_state = ptx_param_ptr(b, PTX_U32, "guard_state", .readonly = true,
                                      .meaning = "struct ptx_guard_state: skipped");
    for (unsigned k = variants.first; k < variants.first + variants.count; k++)
        draws |= ptxk_step_rounds_state(&spec->variants[k], 0);
    if (draws)
        p.seed = ptx_param_ptr(b, PTX_U32, "seed", .readonly = true, .length = "2");
    if (spec->accumulates)
        p.accumulators = ptxk_norm_accumulators_param(b);
    p.shared = ptx_shared(b, PTX_U32, STEP_MATRIX_SHARED / 4);
    p.tid = ptx_tid(b, PTX_X);
    ptx_vec tile = ptx_load_vec(b, tiles, ptx_mul_wide(b, ptx_ctaid(b, PTX_X), 2), 2);
    p.matrix = tile.lane[0];
    p.index = tile.lane[1];
    ptx_ptr of_matrix = matrix_at(b, p.matrices, p.matrix);
    p.tensor = ptx_unpack(b, PTX_U32, ptx_load(b, of_matrix, MATRIX(tensor))).lane[0];
    p.row = row_of_tensor(b, spec, rows, p.tensor);
    ptx_comment(b, "a matrix without a gradient is left out");
    if (spec->accumulates) {
        accumulator_read(b, &p);
    } else {
        const uint32_t length = NORM_LENGTH(uint64_t, struct norm_tensor_row);
        p.gradient = ptx_load(b, ptx_at(b, tensors, ptx_mul_wide(b, p.tensor, length)), 0);
        ptx_return_if(b, ptx_eq(b, p.gradient, 0));
    }
    ptx_val variant = ptx_unpack(b, PTX_U32, ptx_load(b, p.row, ROW(variant))).lane[0];
    variant = ptx_shr(b, variant, 1);
    for (unsigned k = variants.first; k < variants.first + variants.count; k++) {
        p.variant = &spec->variants[k];
        if (variants.count == 1)
            pass_tile(b, &p);
        else
            ptx_if (b, ptx_eq(b, variant, k))
                pass_tile(b, &p);
    }
}

// ---- after the products -------------------------------------------------------------------------

void ptxk_matrix_params(ptx_builder *b, struct ptxk_tile *s)
{
    s->matrix_of = ptx_param_ptr(b, PTX_U32, "matrix_of", .readonly = true,
                                 .meaning = "one a tensor: 1 + its matrix; 0: it is none");
    s->matrices = matrices_param(b);
    s->tile_shared = ptx_shared(b, PTX_U32, STEP_MATRIX_SHARED / 4);
}

// Reads the tile of what they have left into shared memory.
static void x_read(ptx_builder *b, const struct ptxk_matrix_tile *m)
{
    ptx_comment(b, "reads the tile that the products have left");
    ptx_ptr x = ptx_ptr_from(b, PTX_F16, PTX_SPACE_GLOBAL, ptx_load(b, m->row, MATRIX(to)));
    x = ptx_at(b, x, m->x_first);
    ptx_if (b, ptx_lt(b, m->along, m->x_width)) {
        ptx_for (b, r, m->begin, m->x_height, STRIDE) {
            ptx_val at =
                ptx_mad_wide(b, r, ptx_bitcast(b, PTX_S32, m->line), ptx_cvt(b, PTX_S64, m->along));
            ptx_store(b, m->shared, ptx_mad(b, r, PITCH, m->along), ptx_load(b, x, at));
        }
    }
    ptx_barrier(b);
}

// Steps an element, of which `value` has what the arrays have.
static void step_element(ptx_builder *b, const struct ptxk_tile *s, ptx_val x, ptx_val i,
                         ptx_val value[ARRAYS][PTXK_LANES])
{
    const struct ptxk_step_variant *v = s->variant;
    ptx_val random[PTXK_STREAMS][PTXK_LANES] = { { { 0 } } }, own[PTXK_STREAMS] = { { 0 } };
    ptx_val old[PTXK_LANES] = { { 0 } };
    struct ptxk_step_stored stored = { .type = v->parameter };

    ptx_comment(b, "an element");
    if (ptxk_step_reads(v, ARRAY_PARAMETER))
        stored.parameter = value[ARRAY_PARAMETER][0];
    if (ptxk_step_reads(v, ARRAY_BESIDE))
        stored.beside = value[ARRAY_BESIDE][0];
    if (v->ema != PTX_NONE)
        stored.state[0] = value[ARRAY_STATE][0];
    ptxk_step_report_old(b, s, 1, value, old);
    ptxk_step_random_element(b, v, &s->random, i, random);
    for (unsigned n = 0; n < ptxk_step_streams(v); n++)
        own[n] = random[n][0];
    struct ptxk_step_element e = ptxk_step_load(b, v, &stored);
    e.rule = v->rule;
    e.g = ptx_cvt(b, PTX_F32, x);
    v->rule->update(b, v->options, s->coefficient, &e);
    stored = ptxk_step_store(b, v, &e, s->ema_rate, own);
    value[ARRAY_PARAMETER][0] = stored.parameter;
    value[ARRAY_BESIDE][0] = stored.beside;
    value[ARRAY_STATE][0] = stored.state[0];
    for (unsigned a = 0; a < ARRAYS; a++)
        if (a != ARRAY_GRADIENT && ptxk_step_array_type(v, a) != PTX_NONE)
            ptx_store(b, s->array[a], i, ptxk_narrow(b, ptxk_step_array_type(v, a), value[a][0]));
    ptxk_step_copy_single(b, s, i, value);
    ptxk_step_report_new(b, s, 1, value, old);
}

void ptxk_matrix_step(ptx_builder *b, struct ptxk_tile *s, const struct ptxk_matrix_tile *m)
{
    ptx_comment(b, "lr times the matrix's factor, and the tile");
    ptx_val adjust = ptx_bitcast(b, PTX_F64, ptx_load(b, m->row, MATRIX(adjust)));
    ptx_val rate = ptx_mul(b, ptx_cvt(b, PTX_F64, s->coefficient[MUON_LR]), adjust);
    s->coefficient[MUON_RATE] = ptx_cvt(b, PTX_F32, rate);
    x_read(b, m);
    ptx_for (b, r, m->begin, m->height, STRIDE * EACH) {
        struct elements e = elements_of(b, m, r);
        ptx_val read[ARRAYS][EACH] = { { { 0 } } };
        for (unsigned k = 0; k < EACH; k++)
            for (unsigned a = 0; a < ARRAYS; a++)
                if (a != ARRAY_GRADIENT && ptxk_step_reads(s->variant, a))
                    read[a][k] = ptx_load(b, s->array[a], e.i[k]);
        for (unsigned k = 0; k < EACH; k++) {
            ptx_if (b, e.within[k]) {
                ptx_val value[ARRAYS][PTXK_LANES];
                for (unsigned a = 0; a < ARRAYS; a++)
                    value[a][0] = read[a][k];
                step_element(b, s, ptx_load(b, m->shared, e.place[k]), e.i[k], value);
            }
        }
    }
}
