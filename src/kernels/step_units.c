// SPDX-License-Identifier: MIT
#include "step_units.h"

#include "common/common.h"

#define ROW(member) NORM_PLACE(uint64_t, struct step_unit_row, member)

enum {
    BLOCK = NORM_BLOCK,
    CHAINS = 2,
    TAKEN_AT_ONCE = 2, // vectors of a thread, of an accumulator: more need registers
};

uint32_t ptxk_unit_kind(const struct ptxk_step_variant *v)
{
    return 2 * ptxk_norm_dtype_code(v->parameter) + (ptxk_step_lanes(v) > 4);
}

uint32_t ptxk_unit_magic(uint64_t columns)
{
    const uint32_t far = columns < STEP_UNIT_FAR ? (uint32_t)columns : STEP_UNIT_FAR;

    return ((UINT32_C(1) << 31) - 1) / far + 1; // rounded up
}

static ptx_ptr rows_param(ptx_builder *b)
{
    return ptx_param_ptr(b, PTX_U64, "unit_rows", .readonly = true,
                         .meaning = "rows of 12: columns, units, first sum, first of weights, "
                                    "clipping and eps (f64), then pairs of u32");
}

static ptx_ptr row_of(ptx_builder *b, ptx_ptr rows, ptx_val tensor)
{
    return ptx_at(b, rows, ptx_mul_wide(b, tensor, NORM_LENGTH(uint64_t, struct step_unit_row)));
}

// Two members of 32 bits.
static ptx_vec pair_of(ptx_builder *b, ptx_ptr row, uint32_t place)
{
    return ptx_unpack(b, PTX_U32, ptx_load(b, row, place));
}

// ---- gradients ----------------------------------------------------------------------------------

// The units of a chunk's tensor.
struct summing {
    struct norm_squares *n;
    const struct ptxk_unit_sums *to;
    ptx_val data;             // u64: address of the gradient, or of the accumulator
    ptx_val columns;          // u64
    ptx_val parts, team;      // u32
    ptx_val first_sum;        // u64
    ptx_val threads, at_team; // u32, s32: of a team, and this thread in it
};

static bool takes_up(const struct norm_squares *n)
{
    return n->accumulator.rows.type;
}

// A part: `length` (s32) elements from `x` on. `aligned`, a predicate: it begins where vectors do.
struct part {
    const struct norm_squares *n;
    ptx_ptr x;
    ptx_ptr y;                          // what x, an accumulator, takes up; poisoned: nothing
    ptx_val length, aligned, i, stride; // i: a variable, the thread's next element
    ptx_val sum[CHAINS];                // variables
    unsigned lanes;
};

// How many parts begin before element `i` (u64) of the tensor, u32. The quotients are exact, since
// no tensor has as many elements as f64 has whole numbers.
static ptx_val parts_before(ptx_builder *b, const struct summing *s, ptx_val i)
{
    ptx_val columns = ptx_cvt(b, PTX_F64, s->columns);
    ptx_val unit = ptx_cvt(b, PTX_U64, ptx_div(b, ptx_cvt(b, PTX_F64, i), columns));
    ptx_val within = ptx_sub(b, i, ptx_mul(b, unit, s->columns));
    ptx_val up = ptx_add(b, within, STEP_UNIT_PART - 1);
    ptx_val before = ptx_mul(b, unit, ptx_cvt(b, PTX_U64, s->parts));
    ptx_val of_unit = ptxk_over_power_of_two(b, up, STEP_UNIT_PART);

    return ptx_cvt(b, PTX_U32, ptx_add(b, before, of_unit));
}

// The first element (u64) of a part, and which of its unit's it is (u32).
static ptx_val start_of(ptx_builder *b, const struct summing *s, ptx_val part, ptx_val *which)
{
    ptx_val unit = ptx_div(b, part, s->parts);

    *which = ptx_sub(b, part, ptx_mul(b, unit, s->parts));
    ptx_val start = ptx_mul(b, ptx_cvt(b, PTX_U64, unit), s->columns);
    return ptx_add(b, start, ptx_mul_wide(b, *which, STEP_UNIT_PART));
}

static void add_vector(ptx_builder *b, const struct part *p, const struct ptxk_lanes *in)
{
    const ptx_vec v = ptxk_lanes_vec(b, in);

    for (unsigned k = 0; k < p->lanes; k++) {
        ptxk_comment_lanes(b, "its squares", k, 4, p->lanes);
        ptxk_add_square(b, p->sum[k % CHAINS], v.lane[k]);
    }
}

// The lanes of x, which take those of y up.
static void take_up(ptx_builder *b, const struct part *p, const struct ptxk_lanes *x,
                    const struct ptxk_lanes *y)
{
    const struct norm_accumulator *a = &p->n->accumulator;
    const struct chunk_addend addend = { .adds = a->adds, .onto = a->onto };
    ptx_val more[PTXK_LANES];

    ptxk_lanes_of(b, y, more);
    for (unsigned k = 0; k < p->lanes; k++) {
        ptx_val g = ptx_cvt(b, PTX_F32, more[k]);
        ptx_set(b, x->word[k], ptxk_chunk_taken_up(b, &addend, x->word[k], g));
    }
}

// Whole vectors, at most `most`, all read before the first is used.
static void add_whole(ptx_builder *b, const struct part *p, unsigned most)
{
    const struct norm_accumulator *a = &p->n->accumulator;
    struct ptxk_lanes in[STEP_UNIT_PART / WARP / 4], more[STEP_UNIT_PART / WARP / 4];
    const ptx_type type = (ptx_type)p->x.type;
    ptx_val whole[STEP_UNIT_PART / WARP / 4], at[STEP_UNIT_PART / WARP / 4];

    for (unsigned k = 0; k < most; k++) {
        in[k] = ptxk_lanes_var(b, type, p->lanes);
        if (p->y.type)
            more[k] = ptxk_lanes_var(b, (ptx_type)p->y.type, p->lanes);
    }
    for (unsigned k = 0; k < most; k++) {
        ptx_comment(b, "vector %u of the thread's, if it is whole", k);
        ptx_val end = ptx_add(b, p->i, p->lanes);
        whole[k] = ptx_and(b, p->aligned, ptx_le(b, end, p->length));
        if (p->y.type)
            at[k] = ptx_var(b, p->i);
        ptx_if (b, whole[k]) {
            if (p->y.type) {
                ptx_if (b, a->adds)
                    ptxk_lanes_read(b, &more[k], ptx_at(b, p->y, p->i));
                ptx_if (b, a->onto)
                    ptxk_lanes_read(b, &in[k], ptx_at(b, p->x, p->i));
            } else
                ptxk_lanes_read(b, &in[k], ptx_at(b, p->x, p->i));
            ptx_set(b, p->i, ptx_add(b, p->i, p->stride));
        }
    }
    for (unsigned k = 0; k < most; k++) {
        if (p->y.type) {
            take_up(b, p, &in[k], &more[k]);
            ptx_if (b, ptx_and(b, whole[k], a->adds))
                ptxk_lanes_write(b, PTX_F32, ptx_at(b, p->x, at[k]), in[k].word, p->lanes);
        }
        add_vector(b, p, &in[k]);
        if (!p->n->spec->reports)
            continue;
        const ptx_vec v = ptxk_lanes_vec(b, &in[k]);
        ptx_if (b, whole[k]) {
            for (unsigned n = 0; n < p->lanes; n++) {
                ptxk_comment_lanes(b, "sees it", n, 1, p->lanes);
                ptxk_chunk_see(b, &p->n->seen, v.lane[n]);
            }
        }
    }
}

// What is left: the same elements in the same order.
static void add_rest(ptx_builder *b, const struct part *p)
{
    const struct norm_accumulator *a = &p->n->accumulator;
    struct ptxk_lanes in = ptxk_lanes_var(b, (ptx_type)p->x.type, p->lanes), more;

    if (p->y.type)
        more = ptxk_lanes_var(b, (ptx_type)p->y.type, p->lanes);
    ptx_while (b, ptx_lt(b, p->i, p->length)) {
        ptx_comment(b, "what is no whole vector, or is unaligned");
        if (p->y.type) {
            for (unsigned k = 0; k < p->lanes; k++)
                ptx_set(b, in.word[k], 0);
            ptx_if (b, a->adds)
                ptxk_lanes_read_some(b, &more, p->y, p->i, p->length);
            ptx_if (b, a->onto)
                ptxk_lanes_read_some(b, &in, p->x, p->i, p->length);
            take_up(b, p, &in, &more);
            ptx_val end = ptx_select(b, a->adds, p->length, 0);
            for (unsigned k = 0; k < p->lanes; k++) {
                ptxk_comment_lanes(b, "leaves the sums", k, 2, p->lanes);
                ptx_val place = ptx_add(b, p->i, k);
                ptx_if (b, ptx_lt(b, place, end))
                    ptx_store(b, p->x, place, in.word[k]);
            }
        } else
            ptxk_lanes_read_some(b, &in, p->x, p->i, p->length);
        add_vector(b, p, &in);
        if (p->n->spec->reports) {
            const ptx_vec v = ptxk_lanes_vec(b, &in);
            for (uint32_t n = 0; n < p->lanes; n++) {
                ptxk_comment_lanes(b, "sees it", n, 1, p->lanes);
                ptx_if (b, ptx_lt(b, ptx_add(b, p->i, n), p->length))
                    ptxk_chunk_see(b, &p->n->seen, v.lane[n]);
            }
        }
        ptx_set(b, p->i, ptx_add(b, p->i, p->stride));
    }
}

// A part by a team: thread t has vectors t, t + threads, ... of it, and the elements of a vector
// go to two sums in turn, which are added; a tree over the team follows.
static void sum_part(ptx_builder *b, const struct summing *s, ptx_type dtype, ptx_val part,
                     ptx_val is)
{
    struct norm_squares *n = s->n;
    const bool takes = takes_up(n);
    const ptx_type type = takes ? PTX_F32 : dtype;
    const unsigned lanes = ptxk_vector_lanes(type);
    struct part p = { .n = n, .lanes = lanes };
    ptx_val which;

    ptx_comment(b, "where the part is");
    ptx_val start = start_of(b, s, part, &which);
    ptx_val left = ptx_sub(b, s->columns, ptx_mul_wide(b, which, STEP_UNIT_PART));
    ptx_val length = ptx_cvt(b, PTX_S32, ptx_min(b, left, STEP_UNIT_PART));
    p.length = ptx_select(b, is, length, 0);
    p.x = ptx_at(b, ptx_ptr_from(b, type, PTX_SPACE_GLOBAL, s->data), start);
    ptx_val odd = ptx_and(b, ptx_ptr_address(b, p.x), VECTOR_BYTES - 1);
    if (takes) {
        p.y = ptx_at(b, ptx_ptr_from(b, dtype, PTX_SPACE_GLOBAL, n->tensor.data), start);
        const uint32_t bytes = lanes * ptx_type_bytes(dtype);
        odd = ptx_or(b, odd, ptx_and(b, ptx_ptr_address(b, p.y), bytes - 1));
    }
    p.aligned = ptx_eq(b, odd, 0);
    ptx_comment(b, "the first vector of the thread");
    p.i = ptx_var(b, ptx_mul(b, s->at_team, (int32_t)lanes));
    p.stride = ptx_bitcast(b, PTX_S32, ptx_mul(b, s->threads, lanes));
    for (unsigned k = 0; k < CHAINS; k++)
        p.sum[k] = ptx_var(b, ptx_f64(0));
    const unsigned most = STEP_UNIT_PART / WARP / lanes, at_once = takes ? TAKEN_AT_ONCE : most;
    for (unsigned k = 0; k < most; k += at_once)
        add_whole(b, &p, at_once);
    add_rest(b, &p);
    ptx_comment(b, "the sum of the part");
    ptx_val sum = ptxk_team_sum(b, ptx_add(b, p.sum[0], p.sum[1]), s->threads);
    ptx_comment(b, "which the first thread of the team leaves");
    ptx_val first = ptx_and(b, is, ptx_eq(b, s->at_team, 0));
    ptx_if (b, first) {
        ptx_ptr to = ptx_at(b, s->to->sums, ptx_add(b, s->first_sum, ptx_cvt(b, PTX_U64, part)));
        ptx_store(b, to, 0, ptxk_one_nan(b, sum));
        ptx_set(b, n->sum, ptx_add(b, n->sum, sum));
    }
}

// The parts that begin in the chunk, and the first one behind it. One may end in the next.
static void parts_of_chunk(ptx_builder *b, const struct summing *s, ptx_val *first, ptx_val *end)
{
    const struct norm_extent *extent = &s->n->extent;

    ptx_comment(b, "the parts that begin in the chunk, a team of threads for each");
    *first = parts_before(b, s, extent->first);
    ptx_val behind = ptx_add(b, extent->first, ptx_cvt(b, PTX_U64, extent->length));
    ptx_comment(b, "and the first one behind it");
    *end = parts_before(b, s, behind);
}

// Their elements.
static struct norm_extent extent_of(ptx_builder *b, const struct summing *s, ptx_val first,
                                    ptx_val end)
{
    ptx_val which;

    ptx_comment(b, "where they begin and end");
    ptx_val from = start_of(b, s, first, &which);
    ptx_comment(b, "the end");
    ptx_val to = ptx_min(b, start_of(b, s, end, &which), s->n->tensor.count);
    return (struct norm_extent) { from, ptx_cvt(b, PTX_S32, ptx_sub(b, to, from)) };
}

static void sum_parts(ptx_builder *b, ptx_type dtype, void *user)
{
    const struct summing *s = user;
    struct norm_squares *n = s->n;

    ptx_val first, end;
    parts_of_chunk(b, s, &first, &end);
    ptx_val own = ptx_shr(b, n->tid, s->team), teams = ptx_shr(b, ptx_u32(BLOCK), s->team);
    ptx_val at = ptx_var(b, first);
    ptx_while (b, ptx_lt(b, at, end)) {
        ptx_val part = ptx_add(b, at, own);
        sum_part(b, s, dtype, part, ptx_lt(b, part, end));
        ptx_set(b, at, ptx_add(b, at, teams));
    }
    if (!n->spec->reports)
        return;
    const struct norm_extent extent = extent_of(b, s, first, end);
    const struct chunk chunk = {
        .x = ptx_ptr_from(b, takes_up(n) ? PTX_F32 : dtype, PTX_SPACE_GLOBAL, s->data),
        .first = extent.first,
        .length = extent.length,
    };
    ptx_comment(b, "whether all of it is finite");
    ptxk_norm_find_nonfinite(b, n, &chunk);
    ptx_comment(b, "by its place in the chunk");
    ptx_val skip = ptx_cvt(b, PTX_U32, ptx_sub(b, extent.first, n->extent.first));
    ptx_val none = ptx_eq(b, n->first_bad, UINT32_MAX);
    ptx_val bad = ptx_add(b, n->first_bad, skip);
    ptx_set(b, n->first_bad, ptx_select(b, none, n->first_bad, bad));
}

static void sum_units(ptx_builder *b, struct norm_squares *n)
{
    const struct ptxk_unit_sums *to = n->own;
    struct summing s = { .n = n, .to = to };

    ptxk_norm_squares_read(b, n);
    ptx_comment(b, "the units of the tensor");
    ptx_ptr row = row_of(b, to->rows, n->chunk.tensor);
    s.parts = pair_of(b, row, ROW(parts)).lane[1];
    ptx_if (b, ptx_eq(b, s.parts, 0)) {
        ptx_comment(b, "it is not clipped by units");
        ptxk_norm_squares_chunk(b, n);
    }
    ptx_else (b) {
        ptx_comment(b, "each unit by itself");
        s.columns = ptx_load(b, row, ROW(columns));
        s.first_sum = ptx_load(b, row, ROW(first_sum));
        s.team = pair_of(b, row, ROW(team)).lane[0];
        s.threads = ptx_shl(b, ptx_u32(1), s.team);
        ptx_val within = ptx_and(b, n->tid, ptx_sub(b, s.threads, 1));
        s.at_team = ptx_bitcast(b, PTX_S32, within);
        s.data = takes_up(n) ? n->accumulator.at : n->tensor.data;
        ptxk_norm_for_dtype(b, n->spec, n->tensor.dtype, sum_parts, &s);
    }
}

void ptxk_unit_sums_param(ptx_builder *b, struct norm_squares *n, struct ptxk_unit_sums *u)
{
    ptx_comment(b, "the units of tensors that are clipped by them");
    u->rows = rows_param(b);
    u->sums = ptx_param_ptr(b, PTX_F64, "unit_sums", .writeonly = true,
                            .meaning = "sums of squares, one for each part of a unit");
    n->own_sum = sum_units;
    n->own = u;
}

// ---- factors ------------------------------------------------------------------------------------

// A tensor's units, for the launch that makes their factors.
struct factors {
    const struct ptxk_step_spec *spec;
    ptx_ptr row, of_gradients, of_weights, to; // of_...: at the unit's
    ptx_val lane, team, threads;               // u32: in the team, log2 of its threads, threads
    ptx_val is;                                // a predicate: there is such a unit
};

// The sum of `count` (u32) values from `from` on: thread t of a team adds values t, t + threads,
// ... in this order; a tree over the team follows. In the first thread of the team.
static ptx_val sum_of(ptx_builder *b, const struct factors *f, ptx_ptr from, ptx_val count)
{
    ptx_val sum = ptx_var(b, ptx_f64(0)), at = ptx_var(b, f->lane);
    ptx_val in[STEP_UNIT_AT_ONCE];

    ptx_comment(b, "the thread's sums, %d at a time", STEP_UNIT_AT_ONCE);
    for (unsigned k = 0; k < STEP_UNIT_AT_ONCE; k++)
        in[k] = ptx_var(b, ptx_f64(0));
    ptx_while (b, ptx_lt(b, at, count)) {
        for (unsigned k = 0; k < STEP_UNIT_AT_ONCE; k++) {
            ptxk_comment_lanes(b, "0 where there is none", k, 4, STEP_UNIT_AT_ONCE);
            ptx_set(b, in[k], 0);
            ptx_if (b, ptx_lt(b, at, count))
                ptx_set(b, in[k], ptx_load(b, from, at));
            ptx_set(b, at, ptx_add(b, at, f->threads));
        }
        for (unsigned k = 0; k < STEP_UNIT_AT_ONCE; k++)
            ptx_set(b, sum, ptx_add(b, sum, in[k]));
    }
    return ptxk_team_sum(b, sum, f->threads);
}

// The sum of squares of a unit's weights, where no step leaves it: `at` (u64) is the parameter's
// address, and `start` (u64) the unit's first element.
static void read_weights(ptx_builder *b, const struct factors *f, ptx_val kind, ptx_val at,
                         ptx_val start, ptx_val columns, ptx_val to)
{
    uint32_t done = 0;

    for (unsigned k = 0; k < f->spec->variant_count; k++) {
        const ptx_type type = f->spec->variants[k].parameter;
        const uint32_t code = ptxk_norm_dtype_code(type);
        if (done >> code & 1)
            continue;
        done |= UINT32_C(1) << code;
        ptx_if (b, ptx_eq(b, ptx_shr(b, kind, 1), code)) {
            ptx_comment(b, "the weights of the unit");
            ptx_ptr x = ptx_at(b, ptx_ptr_from(b, type, PTX_SPACE_GLOBAL, at), start);
            ptx_val threads = ptx_cvt(b, PTX_U64, f->threads);
            ptx_for (b, i, ptx_cvt(b, PTX_U64, f->lane), columns, threads)
                ptxk_add_square(b, to, ptx_load(b, ptx_at(b, x, i), 0));
        }
    }
    ptx_set(b, to, ptxk_team_sum(b, to, f->threads));
}

// timm's formula in f64: |g| is that of the gradient times its norm group's factor.
static ptx_val factor_of(ptx_builder *b, ptx_val gradient, ptx_val weights, ptx_val clipping,
                         ptx_val eps, ptx_val factor)
{
    ptx_val wide = ptx_cvt(b, PTX_F64, factor);
    ptx_val g = ptx_mul(b, ptx_sqrt(b, gradient), wide);
    ptx_val w = ptx_sqrt(b, weights);
    w = ptx_select(b, ptx_lt(b, w, eps), eps, w);
    ptx_val most = ptx_mul(b, clipping, w);
    ptx_val least = ptx_f64(1e-6);
    ptx_val norm = ptx_select(b, ptx_lt(b, g, least), least, g);
    ptx_val clipped = ptx_cvt(b, PTX_F32, ptx_mul(b, wide, ptx_div(b, most, norm)));

    return ptx_select(b, ptx_lt(b, g, most), factor, ptxk_one_nan(b, clipped));
}

void ptxk_step_units_emit(ptx_builder *b, const struct norm_spec *norm)
{
    struct factors f = { .spec = norm->own };
    const bool accumulates = f.spec->accumulates;
    ptx_ptr tensors = { 0 }, accumulators = { 0 };

    ptx_comment(b, "a team of threads for each unit: the factor of its gradient");
    if (accumulates)
        accumulators = ptxk_norm_accumulators_param(b);
    else
        tensors = ptx_param_ptr(b, PTX_U64, "tensors", .readonly = true,
                                .meaning = "rows of 4: gradient, count, weight, type");
    ptx_ptr rows = rows_param(b);
    ptx_ptr blocks = ptx_param_ptr(b, PTX_U32, "unit_blocks", .readonly = true,
                                   .meaning = "rows of 2, one a block: tensor, place in it");
    ptx_ptr parameters = { 0 };
    if (f.spec->reads_units)
        parameters = ptx_param_ptr(b, PTX_U64, "rows", .readonly = true,
                                   .meaning = "of tensors: the first word is the parameter");
    ptx_ptr records = ptx_param_ptr(b, PTX_F32, "records", .readonly = true,
                                    .meaning = "rows of 4: factor, norm, found_inf, max_norm");
    ptx_ptr sums = ptx_param_ptr(b, PTX_F64, "unit_sums", .readonly = true);
    ptx_ptr weights = ptx_param_ptr(b, PTX_F64, "unit_weights", .readonly = true);
    ptx_ptr factors =
        ptx_param_ptr(b, PTX_F32, "unit_factors", .writeonly = true, .meaning = "one a unit");
    ptxk_norm_let_next_start(b);
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_vec block = ptx_load_vec(b, blocks, ptx_mul_wide(b, ptx_ctaid(b, PTX_X), 2), 2);
    ptx_val tensor = block.lane[0];
    ptx_ptr row = row_of(b, rows, tensor);
    ptx_val units = ptx_load(b, row, ROW(units)), columns = ptx_load(b, row, ROW(columns));
    ptx_val clipping = ptx_load(b, ptx_ptr_cast(b, PTX_F64, row), ROW(clipping));
    ptx_val eps = ptx_load(b, ptx_ptr_cast(b, PTX_F64, row), ROW(eps));
    ptx_vec first = pair_of(b, row, ROW(first_unit)), run = pair_of(b, row, ROW(run));
    ptx_vec group = pair_of(b, row, ROW(norm_group));
    ptx_val data = { 0 };
    if (!accumulates)
        data = ptx_load(b, ptx_at(b, tensors, ptx_mul_wide(b, tensor, 4)), 0);

    ptx_comment(b, "the unit of the thread's team; of a tensor without a gradient none");
    f.team = pair_of(b, row, ROW(team)).lane[1];
    f.threads = ptx_shl(b, ptx_u32(1), f.team);
    f.lane = ptx_and(b, tid, ptx_sub(b, f.threads, 1));
    ptx_val teams = ptx_shr(b, ptx_u32(BLOCK), f.team);
    ptx_val unit = ptx_mad(b, block.lane[1], teams, ptx_shr(b, tid, f.team));
    ptx_val wide = ptx_cvt(b, PTX_U64, unit);
    ptx_val within = ptx_lt(b, wide, units);
    if (!accumulates)
        f.is = ptx_and(b, within, ptx_ne(b, data, 0));
    ptxk_norm_wait_for_last(b);
    if (accumulates) {
        ptx_comment(b, "whether the norm has taken a sum of gradients");
        f.is = ptx_and(b, within, ptxk_norm_has_accumulated(b, accumulators, tensor));
    }
    ptx_val factor = ptx_load(b, ptx_at(b, records, ptx_mul_wide(b, group.lane[0], 4)), 0);
    ptx_val own = ptx_var(b, factor);
    ptx_if (b, ptx_ne(b, first.lane[1], 0)) {
        ptx_val parts = ptx_select(b, f.is, first.lane[1], ptx_u32(0));
        ptx_val sum_at =
            ptx_add(b, ptx_load(b, row, ROW(first_sum)), ptx_mul_wide(b, unit, first.lane[1]));
        ptx_val gradient = sum_of(b, &f, ptx_at(b, sums, sum_at), parts);
        ptx_comment(b, "and of the weights");
        ptx_val count = ptx_select(b, f.is, run.lane[1], ptx_u32(0));
        ptx_val weight_at =
            ptx_add(b, ptx_load(b, row, ROW(first_weight)), ptx_mul_wide(b, unit, run.lane[1]));
        ptx_val of_weights = ptx_var(b, sum_of(b, &f, ptx_at(b, weights, weight_at), count));
        if (f.spec->reads_units) {
            ptx_comment(b, "or the weights themselves");
            ptx_if (b, ptx_eq(b, run.lane[0], STEP_UNIT_READ)) {
                ptx_val words = ptx_mul_wide(b, tensor, ptxk_step_row_words(f.spec));
                ptx_val at = ptx_load(b, ptx_at(b, parameters, words), 0);
                ptx_val length = ptx_select(b, f.is, columns, ptx_u64(0));
                ptx_val start = ptx_mul(b, wide, columns);
                read_weights(b, &f, group.lane[1], at, start, length, of_weights);
            }
        }
        ptx_comment(b, "the factor");
        ptx_set(b, own, factor_of(b, gradient, of_weights, clipping, eps, factor));
    }
    ptx_val writes = ptx_and(b, f.is, ptx_eq(b, f.lane, 0));
    ptx_if (b, writes)
        ptx_store(b, factors, ptx_add(b, first.lane[0], unit), own);
}

// ---- the step -----------------------------------------------------------------------------------

static ptx_ptr weights_param(ptx_builder *b)
{
    return ptx_param_ptr(b, PTX_F64, "unit_weights", .writeonly = true,
                         .meaning = "sums of squares of weights, in the order of the elements");
}

void ptxk_units_param(ptx_builder *b, struct ptxk_tile *s)
{
    if (!s->spec->clips_units)
        return;
    s->unit_rows = rows_param(b);
    s->unit_tiles = ptx_param_ptr(b, PTX_U32, "unit_tiles", .readonly = true,
                                  .meaning = "rows of 2, one a tile: the first element's unit, "
                                             "elements until the next one");
    s->unit_factors =
        ptx_param_ptr(b, PTX_F32, "unit_factors", .readonly = true, .meaning = "one a unit");
    if (!s->reduces)
        s->unit_weights = weights_param(b);
}

// What the sums of the tensor's weights are: `row` is the tensor's.
static void read_weights_row(ptx_builder *b, struct ptxk_tile *s, ptx_ptr row)
{
    ptx_val parts = pair_of(b, row, ROW(parts)).lane[1];
    ptx_val run = pair_of(b, row, ROW(run)).lane[0];
    ptx_val first = ptx_load(b, row, ROW(first_weight));

    s->unit_leaves = ptx_and(b, ptx_ne(b, parts, 0), ptx_ne(b, run, STEP_UNIT_READ));
    s->unit_run = run;
    ptx_comment(b, "where those of the tile begin");
    ptx_val place = ptx_shr(b, s->tensor_first, run);
    s->unit_weights = ptx_at(b, s->unit_weights, ptx_add(b, first, place));
    s->unit_sum = ptx_var(b, ptx_f32(0));
}

void ptxk_units_read(ptx_builder *b, struct ptxk_tile *s)
{
    if (!s->spec->clips_units)
        return;
    ptx_comment(b, "the units of the tile");
    ptx_ptr row = row_of(b, s->unit_rows, s->tensor);
    ptx_vec tile = ptx_load_vec(b, s->unit_tiles, ptx_mul_wide(b, s->place, 2), 2);
    ptx_vec magic = pair_of(b, row, ROW(magic));

    s->unit_until = tile.lane[1];
    s->unit_magic = magic.lane[0];
    s->unit_odd = ptx_eq(b, magic.lane[1], 0);
    s->unit_factors = ptx_at(b, s->unit_factors, tile.lane[0]);
    if (!s->reduces)
        read_weights_row(b, s, row);
}

// The factor of element `i` (s32); of one that is not there, that of the last.
static ptx_val factor_at(ptx_builder *b, const struct ptxk_tile *s, ptx_val i)
{
    ptx_val last = ptx_sub(b, s->length, 1);
    ptx_val at = ptx_bitcast(b, PTX_U32, ptx_min(b, i, last));
    ptx_val beyond = ptx_shl(b, ptx_sub(b, at, s->unit_until), 1);
    ptx_val unit = ptx_add(b, ptx_mul_hi(b, beyond, s->unit_magic), 1);

    unit = ptx_select(b, ptx_lt(b, at, s->unit_until), 0, unit);
    return ptx_load(b, s->unit_factors, unit);
}

void ptxk_units_ahead(ptx_builder *b, const struct ptxk_tile *s, ptx_val i, ptx_val to)
{
    ptx_comment(b, "the factor of its first element's unit");
    ptx_set(b, to, factor_at(b, s, i));
}

void ptxk_units_factors(ptx_builder *b, struct ptxk_tile *s, ptx_val i, unsigned lanes)
{
    if (!s->spec->clips_units)
        return;
    ptx_comment(b, "the factor of its unit");
    ptx_val first = lanes > 1 && s->unit_ahead.type ? s->unit_ahead : factor_at(b, s, i);
    for (unsigned k = 0; k < lanes; k++)
        s->unit_factor[k] = k ? ptx_var(b, first) : first;
    if (lanes == 1)
        return;
    ptx_if (b, s->unit_odd) {
        for (unsigned k = 1; k < lanes; k++) {
            ptx_comment(b, "that of element %u", k);
            ptx_set(b, s->unit_factor[k], factor_at(b, s, ptx_add(b, i, (int32_t)k)));
        }
    }
}

void ptxk_units_note(ptx_builder *b, const struct ptxk_tile *s, ptx_val weight)
{
    weight = ptx_cvt(b, PTX_F32, weight);
    ptx_set(b, s->unit_sum, ptx_fma(b, weight, weight, s->unit_sum));
}

void ptxk_units_leave(ptx_builder *b, const struct ptxk_tile *s, ptx_val i)
{
    uint32_t lanes = 0;

    while (ptxk_step_lanes(s->variant) >> lanes > 1)
        lanes++;
    ptx_if (b, s->unit_leaves) {
        ptx_comment(b, "the sum of the weights of a run");
        ptx_val threads = ptx_shl(b, ptx_u32(1), ptx_sub(b, s->unit_run, lanes));
        ptx_val sum = ptx_var(b, s->unit_sum);
        ptx_if (b, ptx_eq(b, threads, WARP))
            ptx_set(b, sum, ptxk_team_sum(b, sum, ptx_u32(WARP)));
        ptx_else (b)
            ptx_set(b, sum, ptxk_team_sum(b, sum, threads));
        ptx_comment(b, "which the first of its lanes leaves");
        ptx_val lane = ptx_and(b, s->tid, ptx_sub(b, threads, 1));
        ptx_val first = ptx_and(b, ptx_eq(b, lane, 0), ptx_lt(b, i, s->length));
        ptx_if (b, first) {
            ptx_val place = ptx_shr(b, ptx_bitcast(b, PTX_U32, i), s->unit_run);
            ptx_store(b, s->unit_weights, place, ptxk_one_nan(b, ptx_cvt(b, PTX_F64, sum)));
        }
    }
    ptx_set(b, s->unit_sum, 0);
}

// ---- weights that something else has written ----------------------------------------------------

// The sums of a tile as the step leaves them.
static void tile_weights(ptx_builder *b, struct ptxk_tile *s, ptx_val at)
{
    const unsigned lanes = ptxk_step_lanes(s->variant);
    const uint32_t span = BLOCK * lanes;
    const ptx_type type = s->variant->parameter;
    ptx_ptr x = ptx_at(b, ptx_ptr_from(b, type, PTX_SPACE_GLOBAL, at), s->tensor_first);
    ptx_val own = ptx_bitcast(b, PTX_S32, ptx_mul(b, s->tid, lanes));
    struct ptxk_lanes in = ptxk_lanes_var(b, type, lanes);

    ptx_for (b, begin, ptx_s32(0), s->length, span) {
        ptx_val i = ptx_add(b, begin, own);
        ptx_val end = ptx_add(b, i, (int32_t)lanes);
        ptx_val odd = ptx_and(b, ptx_ptr_address(b, x), VECTOR_BYTES - 1);
        ptx_val whole = ptx_and(b, ptx_eq(b, odd, 0), ptx_le(b, end, s->length));
        ptx_if (b, whole)
            ptxk_lanes_read(b, &in, ptx_at(b, x, i));
        ptx_else (b)
            ptxk_lanes_read_some(b, &in, x, i, s->length);
        const ptx_vec v = ptxk_lanes_vec(b, &in);
        for (unsigned k = 0; k < lanes; k++) {
            ptxk_comment_lanes(b, "its squares", k, 4, lanes);
            ptxk_units_note(b, s, v.lane[k]);
        }
        ptxk_units_leave(b, s, i);
    }
}

void ptxk_step_unit_weights_emit(ptx_builder *b, const struct norm_spec *norm)
{
    struct ptxk_tile s = { .spec = norm->own };
    uint32_t done = 0;

    ptx_comment(b, "a block for each tile: the sums of the weights as they are");
    ptx_ptr tensors = ptx_param_ptr(b, PTX_U64, "tensors", .readonly = true,
                                    .meaning = "rows of 4: gradient, count, weight, type");
    ptx_ptr tiles = ptx_param_ptr(b, PTX_U32, "step_tiles", .readonly = true,
                                  .meaning = "rows of 2: tensor, place in it");
    ptx_ptr parameters = ptx_param_ptr(b, PTX_U64, "rows", .readonly = true,
                                       .meaning = "of tensors: the first word is the parameter");
    ptx_ptr rows = rows_param(b);
    s.unit_weights = weights_param(b);
    s.tid = ptx_tid(b, PTX_X);
    ptx_vec tile = ptx_load_vec(b, tiles, ptx_mul_wide(b, ptx_ctaid(b, PTX_X), 2), 2);
    s.tensor = tile.lane[0];
    s.tensor_first = ptx_mul_wide(b, tile.lane[1], s.spec->tile);
    ptx_ptr row = row_of(b, rows, s.tensor);
    ptx_val count = ptx_load(b, ptx_at(b, tensors, ptx_mul_wide(b, s.tensor, 4)), 1);
    ptx_val words = ptx_mul_wide(b, s.tensor, ptxk_step_row_words(s.spec));
    ptx_val at = ptx_load(b, ptx_at(b, parameters, words), 0);
    ptx_val kind = pair_of(b, row, ROW(norm_group)).lane[1];
    read_weights_row(b, &s, row);
    ptx_val skips = ptx_or(b, ptx_not(b, s.unit_leaves), ptx_ge(b, s.tensor_first, count));
    ptx_return_if(b, skips);
    ptx_val left = ptx_sub(b, count, s.tensor_first);
    s.length = ptx_cvt(b, PTX_S32, ptx_min(b, left, s.spec->tile));
    for (unsigned k = 0; k < s.spec->variant_count; k++) {
        s.variant = &s.spec->variants[k];
        const uint32_t own = ptxk_unit_kind(s.variant);
        if (done >> own & 1)
            continue;
        done |= UINT32_C(1) << own;
        ptx_if (b, ptx_eq(b, kind, own)) {
            ptx_comment(b, "of one type and number of lanes");
            tile_weights(b, &s, at);
        }
    }
}
