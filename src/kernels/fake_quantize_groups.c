// SPDX-License-Identifier: MIT
#include <float.h>
#include <math.h>

#include "common/division.h"
#include "common/groups.h"
#include "kernel_code.h"

enum { BLOCK = 128, CHUNK = 1024 };
enum { MOST_VECTORS = CHUNK / (BLOCK * 4) }; // of a thread, in f32

enum { OPTION_GROUP, OPTION_LEVELS, OPTION_BITS };
enum { LEVELS_SYMMETRIC, LEVELS_FULL, LEVELS_ASYMMETRIC, LEVELS_UNSIGNED };

// ---- levels -------------------------------------------------------------------------------------

// The scale is `span` / `steps`, where the span is the largest |x|, or the distance from the least
// to the greatest x or 0.
struct levels {
    bool by_extremes; // the scale comes from the least and greatest x
    float steps;
    int q_min, q_max;
};

static struct levels levels_of(const struct ptx_kernel_spec *spec)
{
    const int half = spec->option[OPTION_BITS] ? 128 : 8;

    switch (spec->option[OPTION_LEVELS]) {
    case LEVELS_SYMMETRIC:
        return (struct levels) { false, (float)(half - 1), 1 - half, half - 1 };
    case LEVELS_FULL:
        return (struct levels) { false, (float)half - 0.5f, -half, half - 1 };
    case LEVELS_ASYMMETRIC:
        return (struct levels) { true, (float)(2 * half - 1), -half, half - 1 };
    default:
        return (struct levels) { true, (float)(2 * half - 1), 0, 2 * half - 1 };
    }
}

// ---- a thread's work ----------------------------------------------------------------------------

struct group_work {
    const struct ptx_kernel_spec *spec;
    struct levels levels;
    struct group_tensors of;
    unsigned vectors; // of a thread
    ptx_ptr scale, zero_point;
    ptx_val scale_wanted, zero_point_wanted;
};

// The quantizer of a group; f32.
struct group_quantizer {
    ptx_val low, high; // the least and greatest x, or 0; of |x|, only `high`
    ptx_val span;      // what the scale is a part of
    ptx_val scale;
    ptx_val reciprocal;  // of the scale, where it is usual
    ptx_val bottom, top; // the levels of the least x and of the greatest
};

// ---- span ---------------------------------------------------------------------------------------

// The extreme of the lanes of a vector, then of the threads that share the group. Lanes of 16 bits
// are compared in pairs where the target can.
static ptx_val extreme(ptx_builder *b, const struct group_work *w, const ptx_vec *lanes,
                       ptxk_combine *choose)
{
    ptx_val most = lanes->lane[0];

    ptx_comment(b, "an extreme of the vector");

    for (unsigned k = 1; k < lanes->lanes; k++)
        most = choose(b, most, lanes->lane[k]);
    ptx_comment(b, "then of the threads that share the group");
    most = ptxk_lanes_combine_all(b, choose, most, w->of.group / w->of.lanes);
    if (lanes->lanes == w->of.lanes)
        return most;
    ptx_vec pair = ptx_unpack(b, w->spec->dtype, most);
    ptx_val left = ptx_cvt(b, PTX_F32, pair.lane[0]);
    return choose(b, left, ptx_cvt(b, PTX_F32, pair.lane[1]));
}

static ptx_vec as_floats(ptx_builder *b, const struct ptxk_lanes *x)
{
    ptx_vec lanes = ptxk_lanes_vec(b, x);

    for (unsigned k = 0; k < lanes.lanes; k++)
        lanes.lane[k] = ptx_cvt(b, PTX_F32, lanes.lane[k]);
    return lanes;
}

// span = max |x|, or max(x, 0) - min(x, 0).
static struct group_quantizer find_span(ptx_builder *b, const struct group_work *w,
                                        const struct ptxk_lanes *x)
{
    const ptx_type pair = x->type == PTX_F16 ? PTX_F16X2 : PTX_BF16X2;
    const bool pairs = w->of.lanes > x->words && ptx_builder_target(b).sm >= 80;
    ptx_vec lanes = pairs ? (ptx_vec) { .lanes = x->words } : as_floats(b, x);
    struct group_quantizer q = { .low = { 0 } };

    for (unsigned k = 0; k < lanes.lanes; k++) {
        if (pairs)
            lanes.lane[k] = ptx_bitcast(b, pair, x->word[k]);
        if (!w->levels.by_extremes)
            lanes.lane[k] = ptx_abs(b, lanes.lane[k]);
    }
    q.span = q.high = extreme(b, w, &lanes, ptxk_larger);
    if (!w->levels.by_extremes)
        return q;
    q.high = ptxk_larger(b, q.high, ptx_f32(0));
    q.low = extreme(b, w, &lanes, ptxk_smaller);
    q.low = ptxk_smaller(b, q.low, ptx_f32(0));
    q.span = ptx_sub(b, q.high, q.low);
    return q;
}

// ---- quantizers ---------------------------------------------------------------------------------

// The thread with a group's first element writes its quantizer, where it is wanted.
static void write_quantizer(ptx_builder *b, const struct group_work *w,
                            const struct group_vector *v, const struct group_quantizer *q)
{
    ptx_comment(b, "the thread with the group's first element writes its quantizer");
    ptx_val place = ptx_and(b, ptx_cvt(b, PTX_U32, v->i), w->of.group - 1);
    ptx_val begins = ptx_eq(b, place, 0);
    ptx_val group = ptxk_over_power_of_two(b, v->i, w->of.group);

    ptx_if (b, ptx_and(b, begins, w->scale_wanted))
        ptx_store(b, w->scale, group, q->scale);
    if (w->levels.by_extremes) {
        ptx_if (b, ptx_and(b, begins, w->zero_point_wanted)) {
            ptx_val zero = ptx_sub(b, w->levels.q_min, q->bottom);
            ptx_store(b, w->zero_point, group, ptx_cvt(b, PTX_S32, zero));
        }
    }
}

// q->bottom to q->top: q_min to q_max, or from the level of the least x on.
static void set_levels(ptx_builder *b, const struct levels *levels, struct group_quantizer *q,
                       ptx_val lowest)
{
    const float q_min = (float)levels->q_min, q_max = (float)levels->q_max;

    q->bottom = levels->by_extremes ? lowest : ptx_f32(q_min);
    q->top = levels->by_extremes ? ptx_add(b, lowest, q_max - q_min) : ptx_f32(q_max);
}

// ---- usual scales -------------------------------------------------------------------------------

// x / y, rounded, from a reciprocal within one unit in the last place: the exact remainder of the
// rough quotient corrects it.
static ptx_val corrected(ptx_builder *b, ptx_val x, ptx_val y, ptx_val reciprocal)
{
    ptx_val rough = ptx_mul(b, x, reciprocal);
    ptx_val excess = ptx_fma(b, rough, y, ptx_neg(b, x));
    return ptx_fma(b, excess, ptx_neg(b, reciprocal), rough);
}

// rint(x / scale) below 2^22; +0 for a zero.
static ptx_val quick_level(ptx_builder *b, const struct group_quantizer *q, ptx_val x)
{
    const float unit = 0x1.8p23f;
    ptx_val quotient = corrected(b, x, q->scale, q->reciprocal);

    return ptx_sub(b, ptx_add(b, quotient, unit), unit);
}

// scale = span / steps, or 1, if it is usual; otherwise something that is not, or NaN.
static void find_quick_scale(ptx_builder *b, const struct group_work *w, struct group_quantizer *q)
{
    const float steps = w->levels.steps;
    ptx_val scale = corrected(b, q->span, ptx_f32(steps), ptx_f32(1.0f / steps));
    ptx_val empty = ptx_eq(b, q->span, 0);

    q->scale = ptx_select(b, empty, 1, scale);
    q->reciprocal = ptxk_quick_rcp(b, q->scale);
}

// Whether quick levels are right: far from the ends of f32's range, and unless every bit of the
// significand is set, for which the reciprocal may be the wrong neighbour.
static ptx_val is_usual(ptx_builder *b, const struct group_quantizer *q)
{
    const uint32_t significand = (1 << 23) - 1;
    ptx_val within = ptx_and(b, ptx_ge(b, q->scale, 0x1p-60), ptx_le(b, q->scale, 0x1p60));
    ptx_val low = ptx_and(b, ptx_bitcast(b, PTX_U32, q->scale), significand);
    return ptx_and(b, within, ptx_ne(b, low, significand));
}

// y = min(rint(x / scale), top) * scale. No level is below the bottom, and with symmetric levels
// none is above the top.
static void quantize_quickly(ptx_builder *b, const struct group_work *w,
                             const struct group_vector *v, struct group_quantizer *q)
{
    const bool symmetric = w->spec->option[OPTION_LEVELS] == LEVELS_SYMMETRIC;
    ptx_vec y = as_floats(b, &v->x[0]);

    set_levels(b, &w->levels, q, w->levels.by_extremes ? quick_level(b, q, q->low) : q->low);
    for (unsigned k = 0; k < y.lanes; k++) {
        ptxk_comment_lanes(b, "levels times the scale", k, ptxk_comment_each(b), y.lanes);
        ptx_val level = quick_level(b, q, y.lane[k]);
        if (!symmetric)
            level = ptx_min(b, level, q->top);
        y.lane[k] = ptx_mul(b, level, q->scale);
    }
    for (unsigned k = 0; k < y.lanes; k++) {
        if (y.lanes > 4 && (k == 0 || ptx_builder_target(b).sm < 80))
            ptxk_comment_lanes(b, "as 16 bits", k, 2, y.lanes);
        y.lane[k] = ptx_cvt(b, w->spec->dtype, y.lane[k]);
    }
    ptx_if (b, v->in) {
        ptxk_groups_write(b, &w->of, v->i, y);
        write_quantizer(b, w, v, q);
    }
}

// ---- any scale ----------------------------------------------------------------------------------

// scale = span / steps, at least the least float; 1 for a span of 0.
static void find_scale(ptx_builder *b, const struct group_work *w, struct group_quantizer *q)
{
    const float steps = w->levels.steps;
    ptx_val scale = ptx_div(b, q->span, steps);

    if (w->levels.by_extremes) { // the difference of finite x may overflow, its part does not
        ptx_val half = ptx_mul(b, q->high, 0.5);
        half = ptx_sub(b, half, ptx_mul(b, q->low, 0.5));
        ptx_val large = ptx_is_infinite(b, q->span);
        scale = ptx_select(b, large, ptx_div(b, half, steps / 2), scale);
    }
    ptx_val vanishes = ptx_eq(b, scale, 0);
    scale = ptx_select(b, vanishes, FLT_TRUE_MIN, scale);
    ptx_val empty = ptx_eq(b, q->span, 0);
    q->scale = ptx_select(b, empty, 1, scale);
}

// The level of the least x: from -range to 0, and 0 without a finite scale.
static ptx_val lowest_level(ptx_builder *b, const struct levels *levels,
                            const struct group_quantizer *q)
{
    const ptx_val range = ptx_f32((float)levels->q_max - (float)levels->q_min);
    ptx_val level = ptx_rint(b, ptx_div(b, q->low, q->scale));

    level = ptx_max(b, level, ptx_neg(b, range));
    return ptx_select(b, ptx_is_finite(b, q->scale), level, 0);
}

// y = clamp(rint(x / scale), bottom, top) * scale, an element at a time. Without a finite scale
// every y is NaN.
static void quantize_exactly(ptx_builder *b, const struct group_work *w,
                             const struct group_vector *v, struct group_quantizer *q)
{
    ptx_comment(b, "any scale, by the exact instructions");
    find_scale(b, w, q);
    set_levels(b, &w->levels, q, w->levels.by_extremes ? lowest_level(b, &w->levels, q) : q->low);
    ptx_val factor = ptx_select(b, ptx_is_finite(b, q->scale), q->scale, NAN);

    ptx_if (b, v->in) {
        ptx_ptr from = ptx_at(b, w->of.in[0], v->i);
        ptx_ptr to = ptx_at(b, w->of.out, v->i);
        ptx_comment(b, "one element after the other");
        ptx_for (b, k, 0, w->of.lanes, ptx_u32(1)) {
            ptx_val x = ptx_cvt(b, PTX_F32, ptx_load(b, from, k));
            ptx_val level = ptx_rint(b, ptx_div(b, x, q->scale));
            level = ptx_min(b, ptx_max(b, level, q->bottom), q->top);
            ptx_val y = ptx_fma(b, level, factor, 0);
            ptx_store(b, to, k, ptx_cvt(b, w->spec->dtype, y));
        }
        write_quantizer(b, w, v, q);
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

// The vectors from element `first` (u64) on.
static void quantize(ptx_builder *b, const struct group_work *w, ptx_val first)
{
    const unsigned lanes = w->of.lanes;
    struct group_vector vectors[MOST_VECTORS];
    struct group_quantizer q[MOST_VECTORS];
    ptx_val usual = { 0 };

    ptx_comment(b, "the vectors of the thread; 0 where there is none");
    for (unsigned v = 0; v < w->vectors; v++) {
        vectors[v].x[0] = ptxk_lanes_var(b, w->spec->dtype, lanes);
        vectors[v].i = ptx_add(b, first, v * BLOCK * lanes);
        vectors[v].in = ptx_lt(b, vectors[v].i, w->of.end);
    }
    ptxk_groups_read(b, &w->of, vectors, w->vectors);
    for (unsigned v = 0; v < w->vectors; v++) {
        ptx_comment(b, "the span of the group of vector %u", v);
        q[v] = find_span(b, w, &vectors[v].x[0]);
    }
    for (unsigned v = 0; v < w->vectors; v++) {
        ptx_comment(b, "its scale, and whether quick levels are right with it");
        find_quick_scale(b, w, &q[v]);
        ptx_val own = is_usual(b, &q[v]);
        usual = v ? ptx_and(b, usual, own) : own;
    }
    ptx_if (b, usual) {
        for (unsigned v = 0; v < w->vectors; v++)
            quantize_quickly(b, w, &vectors[v], &q[v]);
    }
    ptx_else (b) {
        for (unsigned v = 0; v < w->vectors; v++)
            quantize_exactly(b, w, &vectors[v], &q[v]);
    }
}

static ptx_val is_given(ptx_builder *b, ptx_ptr p)
{
    return ptx_ne(b, ptx_ptr_address(b, p), 0);
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    struct group_work w = { .spec = spec,
                            .levels = levels_of(spec),
                            .of = { .inputs = 1,
                                    .group = ptxk_group_of(spec, OPTION_GROUP),
                                    .lanes = ptxk_vector_lanes(spec->dtype) } };

    w.vectors = CHUNK / (BLOCK * w.of.lanes);
    w.of.in[0] = ptx_param_ptr(b, spec->dtype, "x", .meaning = "to be quantized", .length = "n",
                               .readonly = true);
    w.of.out =
        ptx_param_ptr(b, spec->dtype, "y", .meaning = "the quantized x, scaled back; may be x",
                      .length = "n", .writeonly = true);
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements, a multiple of the group");
    w.scale = ptx_param_ptr(b, PTX_F32, "scale", .meaning = "of each group; 0: not wanted",
                            .length = "groups", .computed_length = true, .writeonly = true);
    if (w.levels.by_extremes)
        w.zero_point =
            ptx_param_ptr(b, PTX_S32, "zero_point", .meaning = "of each group; 0: not wanted",
                          .length = "groups", .computed_length = true, .writeonly = true);
    w.scale_wanted = is_given(b, w.scale);
    if (w.levels.by_extremes)
        w.zero_point_wanted = is_given(b, w.zero_point);
    w.of.aligned = ptxk_groups_aligned(b, &w.of);
    w.of.end = ptx_and(b, n, ~(uint64_t)(w.of.group - 1));
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val mine = ptx_mul(b, ptx_tid(b, PTX_X), w.of.lanes);
    quantize(b, &w, ptx_mad_wide(b, block, CHUNK, ptx_cvt(b, PTX_U64, mine)));
}

static bool length(const struct ptx_kernel_spec *spec, const struct ptx_kernel_sizes *sizes,
                   const char *name, uint64_t *count)
{
    return ptxk_group_count(ptxk_group_of(spec, OPTION_GROUP), sizes, name, count);
}

const ptx_kernel ptx_kernel_fake_quantize_groups = {
    .name = "fake_quantize_groups",
    .summary = "quantizes and scales back, with a scale from each group of elements",
    .formula = "y = clamp(rint(x / scale), q_min - zero_point, q_max - zero_point) * scale",
    .dtypes = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16),
    .options = { [OPTION_GROUP] = GROUP_OPTION_ROW,
                 [OPTION_LEVELS] = { "levels",
                                     { "symmetric", "full", "asymmetric", "unsigned" },
                                     "-q_max..q_max; one more below 0; from the least to the "
                                     "greatest x, signed or from 0 up" },
                 [OPTION_BITS] = { "bits", { "4", "8" }, "of a level" } },
    .grid = PTX_GRID_CHUNKS,
    .block = BLOCK,
    .guarantees = "deterministic; correctly rounded; a group with NaN or infinity gives NaN",
    .chunk = CHUNK,
    .code = &(const struct ptx_kernel_code) { .build = build, .length = length },
};
