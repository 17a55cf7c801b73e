// SPDX-License-Identifier: MIT
#include "learned.h"

enum { ZERO_POINT_LEARNED, ZERO_POINT_FIXED };
enum { RANGE_LEVEL, RANGE_QUOTIENT };

bool ptxk_learns_zero_point(const struct ptx_kernel_spec *spec)
{
    return spec->option[LEARNED_ZERO_POINT] == ZERO_POINT_LEARNED;
}

unsigned ptxk_learned_sums(const struct ptx_kernel_spec *spec)
{
    return ptxk_learns_zero_point(spec) ? 2 : 1;
}

// Of a learned zero point in f32, rounded and clamped: from q_min to q_max, so that no level is
// further from it than a u32 says. PTX's max drops a NaN, whose level is the least.
static void levels_around_learned(ptx_builder *b, struct quantizer *q, ptx_val zero_point,
                                  struct levels levels)
{
    ptx_val least = ptx_cvt(b, PTX_S32, levels.q_min);
    ptx_val greatest = ptx_cvt(b, PTX_S32, levels.q_max);
    ptx_val above = ptx_max(b, zero_point, -0x1p31); // what is greater than an s32 is so at last
    ptx_val nearest = ptx_cvt(b, PTX_S32, above, .round = PTX_ROUND_RN);
    ptx_val level = ptx_min(b, ptx_max(b, nearest, least), greatest);
    ptx_val below = ptx_bitcast(b, PTX_U32, ptx_sub(b, level, least));
    ptx_val beyond = ptx_bitcast(b, PTX_U32, ptx_sub(b, greatest, level));

    q->lo = ptx_sub(b, 0, ptx_cvt(b, PTX_F32, below, .round = PTX_ROUND_RZ));
    q->hi = ptx_cvt(b, PTX_F32, beyond, .round = PTX_ROUND_RZ);
}

struct quantizer ptxk_learned_of(ptx_builder *b, const struct ptx_kernel_spec *spec, ptx_val scale,
                                 ptx_val zero_point, struct levels levels)
{
    const bool learns = ptxk_learns_zero_point(spec);
    const bool by_reciprocal = spec->option[LEARNED_DIVISION] == DIVISION_RECIPROCAL;
    const ptx_type compute = ptxk_compute_type(spec->dtype);
    struct quantizer q = { .scale = ptxk_divisor_of_many(b, scale, spec->dtype, by_reciprocal) };

    ptx_comment(b, "the quantizer: its divisor, and its levels around the zero point");
    if (learns)
        q.minus_scale = ptx_cvt(b, PTX_F64, ptx_neg(b, scale));
    if (learns && compute == PTX_F32) {
        levels_around_learned(b, &q, zero_point, levels);
        return q;
    }
    ptx_val least = ptx_cvt(b, PTX_F64, levels.q_min); // all are of 32 bits, so f64 is exact
    ptx_val greatest = ptx_cvt(b, PTX_F64, levels.q_max);
    ptx_val level = ptx_cvt(b, PTX_F64, learns ? ptx_rint(b, zero_point) : zero_point);
    if (learns) // max gives the other operand for a NaN
        level = ptx_min(b, ptx_max(b, level, least), greatest);
    q.lo = ptx_sub(b, least, level);
    q.hi = ptx_sub(b, greatest, level);
    if (compute == PTX_F32) {
        q.lo = ptx_cvt(b, PTX_F32, q.lo, .round = PTX_ROUND_RP);
        q.hi = ptx_cvt(b, PTX_F32, q.hi, .round = PTX_ROUND_RM);
    }
    return q;
}

static ptx_val of_lane(ptx_builder *b, ptx_val x, ptx_val lane)
{
    return x.kind == PTX_KIND_POISON ? x : ptx_shfl_idx(b, x, lane);
}

struct quantizer ptxk_learned_of_lane(ptx_builder *b, const struct ptx_kernel_spec *spec,
                                      const struct quantizer *q, ptx_val lane)
{
    ptx_comment(b, "the quantizer, from the lane that has it");
    ptx_val reciprocal = of_lane(b, q->scale.reciprocal, lane);
    struct quantizer other = { .minus_scale = { 0 } };

    if (q->scale.by_reciprocal && !ptxk_learns_zero_point(spec))
        other.scale.value = q->scale.value; // not used, but for its type
    else
        other.scale.value = of_lane(b, q->scale.value, lane);
    if (q->scale.by_reciprocal) {
        other.scale.reciprocal = reciprocal;
        other.scale.by_reciprocal = true;
    } else {
        other.scale = ptxk_divisor_from(b, other.scale.value, reciprocal);
        other.scale.for_many = q->scale.for_many;
    }
    other.lo = of_lane(b, q->lo, lane);
    other.hi = of_lane(b, q->hi, lane);
    if (ptxk_learns_zero_point(spec))
        other.minus_scale = ptx_cvt(b, PTX_F64, ptx_neg(b, other.scale.value));
    return other;
}

// PTX's min and max drop a NaN, so the level of a NaN is the least.
static ptx_val nearest_within(ptx_builder *b, const struct quantizer *q, ptx_val level)
{
    return ptx_min(b, ptx_max(b, level, q->lo), q->hi);
}

// Whether x is in range: its level is, and so the nearest level within the range is the same. None
// is in a range without a level, which none is around a learned zero point: that is from q_min to
// q_max, and so 0 is a level. A NaN is equal to none.
static ptx_val is_in_range(ptx_builder *b, const struct ptx_kernel_spec *spec,
                           const struct quantizer *q, ptx_val quotient, ptx_val level,
                           ptx_val within)
{
    if (spec->option[LEARNED_RANGE] == RANGE_QUOTIENT)
        return ptx_and(b, ptx_gt(b, quotient, q->lo), ptx_lt(b, quotient, q->hi));
    ptx_val equal = ptx_eq(b, within, level);
    return ptxk_learns_zero_point(spec) ? equal : ptx_and(b, equal, ptx_le(b, q->lo, q->hi));
}

static void add_terms(ptx_builder *b, const struct ptx_kernel_spec *spec, const struct quantizer *q,
                      const ptx_val *sums, ptx_val inside, ptx_val residual, ptx_val d_output)
{
    ptx_val factor = ptx_cvt(b, PTX_F64, d_output), wide = ptx_cvt(b, PTX_F64, residual);

    ptx_set(b, sums[SUM_SCALE], ptx_fma(b, factor, wide, sums[SUM_SCALE]));
    if (!ptxk_learns_zero_point(spec))
        return;
    ptx_val zero_point = sums[SUM_ZERO_POINT];
    ptx_if (b, ptx_not(b, inside)) // one instruction with a predicate
        ptx_set(b, zero_point, ptx_fma(b, factor, q->minus_scale, zero_point));
}

ptx_vec ptxk_learned_terms(ptx_builder *b, const struct ptx_kernel_spec *spec,
                           const struct quantizers *lanes, const ptx_vec *in)
{
    const ptx_vec quotients = ptxk_over_scales(b, lanes, in[0]), d_output = in[1];
    ptx_vec d_input = d_output;

    for (unsigned k = 0; k < quotients.lanes; k++) {
        const struct quantizer *q = lanes->of[k];
        const ptx_val quotient = quotients.lane[k];
        ptxk_comment_lanes(b, "terms of the gradients", k, 2, quotients.lanes);
        ptx_val level = ptx_rint(b, quotient);
        ptx_val within = nearest_within(b, q, level);
        ptx_val inside = is_in_range(b, spec, q, quotient, level, within);
        ptx_val residual = ptx_var(b, within);
        ptx_if (b, inside)
            ptx_set(b, residual, ptx_sub(b, within, quotient));
        add_terms(b, spec, q, lanes->sums[k], inside, residual, d_output.lane[k]);
        d_input.lane[k] = ptx_select(b, inside, d_output.lane[k], 0);
    }
    return d_input;
}
