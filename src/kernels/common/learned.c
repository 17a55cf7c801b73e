// SPDX-License-Identifier: MIT
#include "learned.h"

enum { ZERO_POINT_LEARNED, ZERO_POINT_FIXED };
enum { RANGE_LEVEL, RANGE_QUOTIENT };

bool ptxk_learns_zero_point(const struct ptx_kernel_spec *spec)
{
    return spec->option[LEARNED_ZERO_POINT] == ZERO_POINT_LEARNED;
}

struct learned ptxk_learned_of(ptx_builder *b, const struct ptx_kernel_spec *spec, ptx_val scale,
                               ptx_val zero_point, struct levels levels)
{
    const bool learns = ptxk_learns_zero_point(spec);
    struct learned q = { .minus_scale = { 0 } };

    q.scale = ptxk_divisor_of(b, scale, spec->dtype,
                              spec->option[LEARNED_DIVISION] == DIVISION_RECIPROCAL);
    ptx_val level =
        learns ? ptxk_nearest_level(b, zero_point, levels) : ptx_cvt(b, PTX_S64, zero_point);
    q.around = ptxk_levels_around(b, ptxk_compute_type(spec->dtype), level, levels);
    if (learns)
        q.minus_scale = ptx_cvt(b, PTX_F64, ptx_neg(b, scale));
    return q;
}

static ptx_val of_lane(ptx_builder *b, ptx_val x, ptx_val lane)
{
    return x.kind == PTX_KIND_POISON ? x : ptx_shfl_idx(b, x, lane);
}

struct learned ptxk_learned_of_lane(ptx_builder *b, const struct ptx_kernel_spec *spec,
                                    const struct learned *q, ptx_val lane)
{
    ptx_val reciprocal = of_lane(b, q->scale.reciprocal, lane);
    struct learned other = { .minus_scale = { 0 } };

    if (q->scale.by_reciprocal && !ptxk_learns_zero_point(spec))
        other.scale.value = q->scale.value; // not used, but for its type
    else
        other.scale.value = of_lane(b, q->scale.value, lane);
    if (q->scale.by_reciprocal) {
        other.scale.reciprocal = reciprocal;
        other.scale.by_reciprocal = true;
    } else {
        other.scale = ptxk_divisor_from(b, other.scale.value, reciprocal);
    }
    other.around.q_min = of_lane(b, q->around.q_min, lane);
    other.around.q_max = of_lane(b, q->around.q_max, lane);
    if (ptxk_learns_zero_point(spec))
        other.minus_scale = ptx_cvt(b, PTX_F64, ptx_neg(b, other.scale.value));
    return other;
}

struct learned_sums ptxk_learned_sums_var(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    struct learned_sums sums = { ptx_var(b, ptx_f64(0)), { 0 } };

    if (ptxk_learns_zero_point(spec))
        sums.zero_point = ptx_var(b, ptx_f64(0));
    return sums;
}

// PTX's min and max drop a NaN, so the level of a NaN is the least.
static ptx_val nearest_within(ptx_builder *b, ptx_val level, struct levels around)
{
    return ptx_min(b, ptx_max(b, level, around.q_min), around.q_max);
}

// Whether x is in range: its level is, and so the nearest level within the range is the same. None
// is in a range without a level. A NaN is equal to none.
static ptx_val is_in_range(ptx_builder *b, const struct ptx_kernel_spec *spec, ptx_val quotient,
                           ptx_val level, ptx_val within, struct levels around)
{
    if (spec->option[LEARNED_RANGE] == RANGE_QUOTIENT) {
        ptx_val above = ptx_gt(b, quotient, around.q_min);
        return ptx_and(b, above, ptx_lt(b, quotient, around.q_max));
    }
    ptx_val some = ptx_le(b, around.q_min, around.q_max);
    return ptx_and(b, ptx_eq(b, within, level), some);
}

static void add_terms(ptx_builder *b, const struct learned *q, const struct learned_sums *sums,
                      ptx_val inside, ptx_val residual, ptx_val d_output)
{
    ptx_val factor = ptx_cvt(b, PTX_F64, d_output);

    ptx_set(b, sums->scale, ptx_fma(b, factor, ptx_cvt(b, PTX_F64, residual), sums->scale));
    if (sums->zero_point.kind == PTX_KIND_POISON)
        return;
    ptx_if (b, ptx_not(b, inside)) // one instruction with a predicate
        ptx_set(b, sums->zero_point, ptx_fma(b, factor, q->minus_scale, sums->zero_point));
}

ptx_vec ptxk_learned_terms(ptx_builder *b, const struct ptx_kernel_spec *spec,
                           const struct learned_lanes *lanes, ptx_vec x, ptx_vec d_output)
{
    struct divisors scales = { { NULL } };
    ptx_vec d_input = d_output;

    for (unsigned k = 0; k < x.lanes; k++)
        scales.of[k] = &lanes->of[k]->scale;
    ptx_vec quotients = ptxk_quotients(b, &scales, x);
    for (unsigned k = 0; k < x.lanes; k++) {
        const struct learned *q = lanes->of[k];
        const ptx_val quotient = quotients.lane[k];
        ptx_val level = ptx_rint(b, quotient);
        ptx_val within = nearest_within(b, level, q->around);
        ptx_val inside = is_in_range(b, spec, quotient, level, within, q->around);
        ptx_val residual = ptx_var(b, within);
        ptx_if (b, inside)
            ptx_set(b, residual, ptx_sub(b, within, quotient));
        add_terms(b, q, lanes->sums[k], inside, residual, d_output.lane[k]);
        d_input.lane[k] = ptx_select(b, inside, d_output.lane[k], ptx_zero(spec->dtype));
    }
    return d_input;
}
