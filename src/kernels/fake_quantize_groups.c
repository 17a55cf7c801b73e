// SPDX-License-Identifier: MIT
#include <float.h>
#include <math.h>

#include "common/division.h"
#include "common/groups.h"
#include "kernel_code.h"

enum { BLOCK = 128, CHUNK = 1024 };
enum { MOST_VECTORS = 16 };

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
    uint32_t group;
    unsigned lanes, vectors; // of a vector, and of a thread
    ptx_ptr x, y, scale, zero_point;
    ptx_val aligned; // whether x and y begin at a 16-byte boundary
    ptx_val scale_wanted, zero_point_wanted;
    ptx_val first; // u64: the index of the thread's first element
    ptx_val end;   // u64: the end of the last whole group
};

// A vector of a thread and the quantizer of its group.
struct part {
    ptx_val i;          // u64: the index of its first element
    ptx_val in;         // whether it is in the tensor
    ptx_vec words;      // its elements
    ptx_val low, high;  // the least and greatest x of the group, or 0; of |x|, only `high`
    ptx_val span;       // what the scale is a part of
    ptx_val scale;      // f32
    ptx_val reciprocal; // of the scale, where it is usual
    ptx_val bottom;     // f32: the level of the least x
};

// ---- extremes -----------------------------------------------------------------------------------

typedef ptx_val either(ptx_builder *b, ptx_val x, ptx_val y);

// The extreme of the lanes of a vector, then of the threads that share the group. Lanes of 16 bits
// are compared in pairs where the target can.
static ptx_val extreme(ptx_builder *b, const struct group_work *w, const ptx_vec *lanes,
                       either *choose)
{
    ptx_val most = lanes->lane[0];

    for (unsigned k = 1; k < lanes->lanes; k++)
        most = choose(b, most, lanes->lane[k]);
    for (uint32_t apart = w->group / w->lanes / 2; apart; apart /= 2) {
        ptx_val other = ptx_shfl_bfly(b, most, ptx_u32(apart));
        most = choose(b, most, other);
    }
    if (lanes->lanes == w->lanes)
        return most;
    ptx_vec pair = ptx_unpack(b, w->spec->dtype, most);
    ptx_val left = ptx_cvt(b, PTX_F32, pair.lane[0]);
    return choose(b, left, ptx_cvt(b, PTX_F32, pair.lane[1]));
}

// The elements as f32.
static ptx_vec floats_of(ptx_builder *b, const struct group_work *w, const struct part *p)
{
    ptx_vec lanes = ptxk_words_lanes(b, p->words, w->spec->dtype);

    for (unsigned k = 0; k < lanes.lanes; k++)
        lanes.lane[k] = ptx_cvt(b, PTX_F32, lanes.lane[k]);
    return lanes;
}

static void find_span(ptx_builder *b, const struct group_work *w, struct part *p)
{
    const bool pairs = w->lanes > p->words.lanes && ptx_builder_target(b).sm >= 80;
    ptx_vec lanes = pairs ? p->words : floats_of(b, w, p);

    for (unsigned k = 0; k < lanes.lanes; k++) {
        if (pairs)
            lanes.lane[k] =
                ptx_bitcast(b, w->spec->dtype == PTX_F16 ? PTX_F16X2 : PTX_BF16X2, lanes.lane[k]);
        if (!w->levels.by_extremes)
            lanes.lane[k] = ptx_abs(b, lanes.lane[k]);
    }
    p->high = extreme(b, w, &lanes, ptxk_larger);
    p->span = p->high;
    if (!w->levels.by_extremes)
        return;
    p->high = ptxk_larger(b, p->high, ptx_f32(0));
    p->low = extreme(b, w, &lanes, ptxk_smaller);
    p->low = ptxk_smaller(b, p->low, ptx_f32(0));
    p->span = ptx_sub(b, p->high, p->low);
}

// ---- memory -------------------------------------------------------------------------------------

static void read_parts(ptx_builder *b, const struct group_work *w, const struct part *parts)
{
    ptx_if (b, w->aligned) {
        for (unsigned v = 0; v < w->vectors; v++)
            ptx_if (b, parts[v].in)
                ptxk_words_read(b, parts[v].words, w->x, parts[v].i);
    }
    ptx_else (b) {
        for (unsigned v = 0; v < w->vectors; v++)
            ptx_if (b, parts[v].in)
                ptxk_words_read_each(b, parts[v].words, w->x, parts[v].i);
    }
}

// The thread with a group's first element writes its quantizer, where it is wanted.
static void write_quantizer(ptx_builder *b, const struct group_work *w, const struct part *p)
{
    ptx_val place = ptx_and(b, ptx_cvt(b, PTX_U32, p->i), ptx_u32(w->group - 1));
    ptx_val begins = ptx_eq(b, place, ptx_u32(0));
    ptx_val group = ptxk_over_power_of_two(b, p->i, w->group);

    ptx_if (b, ptx_and(b, begins, w->scale_wanted))
        ptx_store(b, w->scale, group, p->scale);
    if (w->levels.by_extremes) {
        ptx_if (b, ptx_and(b, begins, w->zero_point_wanted)) {
            ptx_val zero = ptx_sub(b, ptx_f32((float)w->levels.q_min), p->bottom);
            ptx_store(b, w->zero_point, group, ptx_cvt(b, PTX_S32, zero));
        }
    }
}

static void write_part(ptx_builder *b, const struct group_work *w, const struct part *p, ptx_vec y)
{
    for (unsigned k = 0; k < y.lanes; k++)
        y.lane[k] = ptx_cvt(b, w->spec->dtype, y.lane[k]);
    ptx_if (b, p->in) {
        ptx_if (b, w->aligned)
            ptx_store_vec(b, w->y, p->i, y);
        ptx_else (b) {
            for (unsigned k = 0; k < y.lanes; k++)
                ptx_store(b, ptx_at(b, w->y, p->i), ptx_u32(k), y.lane[k]);
        }
        write_quantizer(b, w, p);
    }
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

// rint(x) for |x| < 2^22; +0 for a zero.
static ptx_val quick_rint(ptx_builder *b, ptx_val x)
{
    const ptx_val unit = ptx_f32(0x1.8p23f);

    return ptx_sub(b, ptx_add(b, x, unit), unit);
}

static ptx_val quick_level(ptx_builder *b, const struct part *p, ptx_val x)
{
    return quick_rint(b, corrected(b, x, p->scale, p->reciprocal));
}

// The scale if it is usual; otherwise something that is not, or NaN.
static void find_quick_scale(ptx_builder *b, const struct group_work *w, struct part *p)
{
    const float steps = w->levels.steps;
    ptx_val scale = corrected(b, p->span, ptx_f32(steps), ptx_f32(1.0f / steps));
    ptx_val empty = ptx_eq(b, p->span, ptx_f32(0));

    p->scale = ptx_select(b, empty, ptx_f32(1.0f), scale);
    p->reciprocal = ptxk_quick_rcp(b, p->scale);
}

// Whether quick levels are right: far from the ends of f32's range, and unless every bit of the
// significand is set, for which the reciprocal may be the wrong neighbour.
static ptx_val is_usual(ptx_builder *b, const struct part *p)
{
    const uint32_t significand = (1 << 23) - 1;
    ptx_val above = ptx_ge(b, p->scale, ptx_f32(0x1p-60f));
    ptx_val within = ptx_and(b, above, ptx_le(b, p->scale, ptx_f32(0x1p60f)));
    ptx_val low = ptx_and(b, ptx_bitcast(b, PTX_U32, p->scale), ptx_u32(significand));
    return ptx_and(b, within, ptx_ne(b, low, ptx_u32(significand)));
}

static void quick_part(ptx_builder *b, const struct group_work *w, struct part *p)
{
    const struct levels *levels = &w->levels;
    ptx_vec y = floats_of(b, w, p);
    ptx_val top = ptx_f32((float)levels->q_max);

    if (levels->by_extremes) {
        p->bottom = quick_level(b, p, p->low);
        top = ptx_add(b, p->bottom, ptx_f32((float)(levels->q_max - levels->q_min)));
    }
    for (unsigned k = 0; k < y.lanes; k++) {
        ptx_val level = quick_level(b, p, y.lane[k]);
        if (w->spec->option[OPTION_LEVELS] != LEVELS_SYMMETRIC)
            level = ptx_min(b, level, top);
        y.lane[k] = ptx_mul(b, level, p->scale);
    }
    write_part(b, w, p, y);
}

// ---- any scale ----------------------------------------------------------------------------------

// The formulas themselves.
static void find_scale(ptx_builder *b, const struct group_work *w, struct part *p)
{
    const float steps = w->levels.steps;
    ptx_val scale = ptx_div(b, p->span, ptx_f32(steps));

    if (w->levels.by_extremes) { // the difference of finite x may overflow, its part does not
        ptx_val half = ptx_mul(b, p->high, ptx_f32(0.5f));
        half = ptx_sub(b, half, ptx_mul(b, p->low, ptx_f32(0.5f)));
        ptx_val large = ptx_is_infinite(b, p->span);
        scale = ptx_select(b, large, ptx_div(b, half, ptx_f32(steps / 2)), scale);
    }
    ptx_val vanishes = ptx_eq(b, scale, ptx_f32(0));
    scale = ptx_select(b, vanishes, ptx_f32(FLT_TRUE_MIN), scale);
    ptx_val empty = ptx_eq(b, p->span, ptx_f32(0));
    p->scale = ptx_select(b, empty, ptx_f32(1.0f), scale);
}

// Levels from `bottom` to `top`.
struct bounds {
    ptx_val bottom, top;
};

static struct bounds exact_bounds(ptx_builder *b, const struct group_work *w, struct part *p)
{
    const float q_min = (float)w->levels.q_min, q_max = (float)w->levels.q_max;
    const ptx_val range = ptx_f32(q_max - q_min);

    if (!w->levels.by_extremes)
        return (struct bounds) { ptx_f32(q_min), ptx_f32(q_max) };
    ptx_val bottom = ptx_rint(b, ptx_div(b, p->low, p->scale));
    bottom = ptx_max(b, bottom, ptx_neg(b, range));
    p->bottom = ptx_select(b, ptx_is_finite(b, p->scale), bottom, ptx_f32(0));
    return (struct bounds) { p->bottom, ptx_add(b, p->bottom, range) };
}

// The formulas themselves, an element at a time. Without a finite scale every y is NaN.
static void exact_part(ptx_builder *b, const struct group_work *w, struct part *p)
{
    find_scale(b, w, p);
    struct bounds bounds = exact_bounds(b, w, p);
    ptx_val factor = ptx_select(b, ptx_is_finite(b, p->scale), p->scale, ptx_f32(NAN));

    ptx_if (b, p->in) {
        ptx_ptr from = ptx_at(b, w->x, p->i);
        ptx_ptr to = ptx_at(b, w->y, p->i);
        ptx_for (b, k, ptx_u32(0), ptx_u32(w->lanes), ptx_u32(1)) {
            ptx_val x = ptx_cvt(b, PTX_F32, ptx_load(b, from, k));
            ptx_val level = ptx_rint(b, ptx_div(b, x, p->scale));
            level = ptx_min(b, ptx_max(b, level, bounds.bottom), bounds.top);
            ptx_val y = ptx_fma(b, level, factor, ptx_f32(0));
            ptx_store(b, to, k, ptx_cvt(b, w->spec->dtype, y));
        }
        write_quantizer(b, w, p);
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

static void quantize(ptx_builder *b, const struct group_work *w)
{
    struct part parts[MOST_VECTORS];
    ptx_val usual = { 0 };

    for (unsigned v = 0; v < w->vectors; v++) {
        struct part *p = &parts[v];
        *p = (struct part) { .words = ptxk_words_var(b, w->spec->dtype) };
        p->i = ptx_add(b, w->first, ptx_u64(v * BLOCK * w->lanes));
        p->in = ptx_lt(b, p->i, w->end);
    }
    read_parts(b, w, parts);
    for (unsigned v = 0; v < w->vectors; v++)
        find_span(b, w, &parts[v]);
    for (unsigned v = 0; v < w->vectors; v++) {
        find_quick_scale(b, w, &parts[v]);
        ptx_val own = is_usual(b, &parts[v]);
        usual = v ? ptx_and(b, usual, own) : own;
    }
    ptx_if (b, usual) {
        for (unsigned v = 0; v < w->vectors; v++)
            quick_part(b, w, &parts[v]);
    }
    ptx_else (b) {
        for (unsigned v = 0; v < w->vectors; v++)
            exact_part(b, w, &parts[v]);
    }
}

static ptx_val is_given(ptx_builder *b, ptx_ptr p)
{
    return ptx_ne(b, ptx_ptr_address(b, p), ptx_u64(0));
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    struct group_work w = { .spec = spec,
                            .levels = levels_of(spec),
                            .group = ptxk_group_of(spec, OPTION_GROUP),
                            .lanes = ptxk_vector_lanes(spec->dtype) };

    w.vectors = CHUNK / (BLOCK * w.lanes);
    w.x = ptx_param_ptr(b, spec->dtype, "x", .meaning = "to be quantized", .length = "n",
                        .readonly = true);
    w.y = ptx_param_ptr(b, spec->dtype, "y", .meaning = "the quantized x, scaled back; may be x",
                        .length = "n", .writeonly = true);
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements, a multiple of the group");
    w.scale = ptx_param_ptr(b, PTX_F32, "scale", .meaning = "of each group; 0: not wanted",
                            .length = "groups", .writeonly = true);
    if (w.levels.by_extremes)
        w.zero_point =
            ptx_param_ptr(b, PTX_S32, "zero_point", .meaning = "of each group; 0: not wanted",
                          .length = "groups", .writeonly = true);
    w.scale_wanted = is_given(b, w.scale);
    if (w.levels.by_extremes)
        w.zero_point_wanted = is_given(b, w.zero_point);
    ptx_val addresses = ptx_ptr_address(b, w.y);
    addresses = ptx_or(b, ptx_ptr_address(b, w.x), addresses);
    w.aligned = ptx_eq(b, ptx_and(b, addresses, ptx_u64(VECTOR_BYTES - 1)), ptx_u64(0));
    w.end = ptx_and(b, n, ptx_u64(~(uint64_t)(w.group - 1)));
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val mine = ptx_mul(b, ptx_tid(b, PTX_X), ptx_u32(w.lanes));
    w.first = ptx_mad_wide(b, block, ptx_u32(CHUNK), ptx_cvt(b, PTX_U64, mine));
    quantize(b, &w);
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
    .code = &(const struct ptx_kernel_code) { .build = build, .chunk = CHUNK, .length = length },
};
