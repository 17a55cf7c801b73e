// SPDX-License-Identifier: MIT
#include "quantizer.h"

#include <float.h>
#include <math.h>

enum { GRADIENT_QUANTIZE, GRADIENT_FAKE_QUANTIZE };

static const struct {
    const char *low, *high;
    int q_min, q_max;
} targets[] = {
#define BOUNDS(id, name, least, greatest) [TARGET_##id] = { #least, #greatest, least, greatest },
    QUANTIZER_TARGETS(BOUNDS)
#undef BOUNDS
        [TARGET_ANY] = { "q_min", "q_max", 0, 0 },
};

void ptxk_backward_params(ptx_builder *b, ptx_type dtype, ptx_ptr in[2], ptx_ptr *d_input)
{
    in[0] = ptx_param_ptr(b, dtype, "x", .meaning = "what was quantized", .length = "n",
                          .readonly = true);
    in[1] = ptx_param_ptr(b, dtype, "d_output", .meaning = "gradient of the output", .length = "n",
                          .readonly = true);
    *d_input = ptx_param_ptr(b, dtype, "d_input", .meaning = "gradient of x; may be d_output",
                             .length = "n", .writeonly = true);
}

struct ptx_param_info ptxk_zero_point_info(const struct ptx_kernel_spec *spec)
{
    const unsigned target = spec->option[QUANTIZER_TARGET];

    return (struct ptx_param_info) { .name = "zero_point",
                                     .meaning = "what 0 is quantized to",
                                     .preset = "0",
                                     .low = targets[target].low,
                                     .high = targets[target].high };
}

struct levels ptxk_target_levels(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    const unsigned target = spec->option[QUANTIZER_TARGET];

    if (target != TARGET_ANY)
        return (struct levels) { ptx_s64(targets[target].q_min), ptx_s64(targets[target].q_max) };
    return ptxk_any_levels(b);
}

struct levels ptxk_any_levels(ptx_builder *b)
{
    ptx_val q_min = ptx_param(b, PTX_S32, "q_min", .meaning = "least quantized value",
                              .preset = "-128", .high = "q_max");
    ptx_val q_max = ptx_param(b, PTX_S32, "q_max", .meaning = "greatest quantized value",
                              .preset = "127", .low = "q_min");
    q_min = ptx_cvt(b, PTX_S64, q_min);
    return (struct levels) { q_min, ptx_cvt(b, PTX_S64, q_max) };
}

// |scale| = value * power; the power of two keeps products with `value` exact.
struct magnitude {
    ptx_val value, power;
    ptx_val infinite;
};

static struct magnitude magnitude_of(ptx_builder *b, ptx_val scale)
{
    const ptx_type type = (ptx_type)scale.type;
    const double power = type == PTX_F64 ? 0x1p512 : 0x1p64;
    ptx_val value = ptx_abs(b, scale);
    ptx_val small = ptx_lt(b, value, 1);
    const ptx_val large = ptx_imm(type, power), inverse = ptx_imm(type, 1 / power);
    ptx_val up = ptx_select(b, small, large, inverse);
    ptx_val down = ptx_select(b, small, inverse, large);
    ptx_val infinite = ptx_is_infinite(b, value);

    return (struct magnitude) { ptx_mul(b, value, up), down, infinite };
}

// The greatest finite x for which rint(x / scale) is at most `level`, an integer. Rounded quotients
// are at most c = level + 1/2, or just below c if c rounds to the even number above; unrounded
// quotients reach half a unit in the last place further, to c + d. No quotient of two floats can
// equal c + d. One fma gives scale * (c + d) rounded down, because scale * d is exact.
static ptx_val greatest(ptx_builder *b, const struct magnitude *scale, ptx_val level)
{
    const ptx_type type = (ptx_type)level.type, bits = type == PTX_F64 ? PTX_S64 : PTX_S32;
    ptx_val c = ptx_add(b, level, 0.5);
    ptx_val towards_zero = ptx_xor(b, ptx_le(b, ptx_rint(b, c), level), ptx_gt(b, c, 0));
    ptx_val unit = ptx_select(b, towards_zero, ptx_imm(bits, -1), 1);
    ptx_val next = ptx_bitcast(b, type, ptx_add(b, ptx_bitcast(b, bits, c), unit));
    ptx_val d = ptx_mul(b, ptx_sub(b, next, c), 0.5);

    d = ptx_select(b, scale->infinite, 0, ptx_mul(b, scale->value, d));
    ptx_val x = ptx_op(b, PTX_OP_fma, scale->value, c, d, .round = PTX_ROUND_RM);
    x = ptx_op(b, PTX_OP_mul, x, scale->power, .round = PTX_ROUND_RM);
    return ptx_min(b, x, type == PTX_F64 ? DBL_MAX : (double)FLT_MAX);
}

// Converts bounds of the level to bounds of x. No x is within the bounds of a scale of 0 or NaN.
static void bound_x(ptx_builder *b, struct quantizer *q)
{
    const ptx_val scale = q->scale.value;
    ptx_comment(b, "|scale| as a value times a power of two, which keeps products exact");
    struct magnitude magnitude = magnitude_of(b, scale);
    ptx_val negative = ptx_lt(b, scale, 0);
    ptx_val below = ptx_neg(b, q->lo);
    ptx_val top = ptx_select(b, negative, below, q->hi);
    ptx_val bottom = ptx_select(b, negative, q->hi, below);
    ptx_val divides = ptx_ne(b, scale, 0);

    ptx_comment(b, "the least x in range");
    q->lo = ptx_neg(b, greatest(b, &magnitude, bottom));
    ptx_comment(b, "the greatest x in range");
    ptx_val hi = greatest(b, &magnitude, top);
    q->hi = ptx_select(b, divides, hi, -INFINITY);
}

static bool divides_by_reciprocal(const struct ptx_kernel_spec *spec)
{
    return spec->option[QUANTIZER_DIVISION] == DIVISION_RECIPROCAL;
}

// The difference of two s32 fits in s64; rounding it inwards changes no comparison with an integer.
struct levels ptxk_levels_around(ptx_builder *b, ptx_type compute, ptx_val zero_point,
                                 struct levels levels)
{
    ptx_val lo = ptx_cvt(b, compute, ptx_sub(b, levels.q_min, zero_point), .round = PTX_ROUND_RP);
    ptx_val hi = ptx_cvt(b, compute, ptx_sub(b, levels.q_max, zero_point), .round = PTX_ROUND_RM);

    return (struct levels) { lo, hi };
}

// PTX's max gives the other operand for a NaN.
ptx_val ptxk_nearest_level(ptx_builder *b, ptx_val zero_point, struct levels levels)
{
    ptx_val level = ptx_cvt(b, PTX_F64, ptx_rint(b, zero_point));

    level = ptx_max(b, level, ptx_cvt(b, PTX_F64, levels.q_min));
    level = ptx_min(b, level, ptx_cvt(b, PTX_F64, levels.q_max));
    return ptx_cvt(b, PTX_S64, level);
}

// Sets lo and hi; q->scale.value is already set.
static void set_bounds(ptx_builder *b, const struct ptx_kernel_spec *spec, struct quantizer *q,
                       ptx_val zero_point, struct levels levels)
{
    const ptx_type compute = ptxk_compute_type(spec->dtype);
    struct levels around = ptxk_levels_around(b, compute, zero_point, levels);

    q->lo = around.q_min;
    q->hi = around.q_max;
    if (!divides_by_reciprocal(spec))
        bound_x(b, q);
}

struct quantizer ptxk_quantizer_of(ptx_builder *b, const struct ptx_kernel_spec *spec,
                                   ptx_val scale, ptx_val zero_point, struct levels levels)
{
    struct quantizer q = { .scale = ptxk_divisor_of(b, scale, spec->dtype,
                                                    divides_by_reciprocal(spec)) };

    set_bounds(b, spec, &q, zero_point, levels);
    return q;
}

struct quantizer ptxk_quantizer_of_block(ptx_builder *b, const struct ptx_kernel_spec *spec,
                                         ptx_val scale, ptx_val zero_point, struct levels levels)
{
    enum { LO, HI, RECIPROCAL, VALUES = 4 };
    const bool fake = spec->option[QUANTIZER_GRADIENT] == GRADIENT_FAKE_QUANTIZE;
    const bool narrow = spec->dtype == PTX_F16 || spec->dtype == PTX_BF16;
    const bool has_reciprocal = narrow && !fake; // fake quantization does not use it

    if (divides_by_reciprocal(spec)) {
        ptx_comment(b, "the divisor, and what is in range");
        return ptxk_quantizer_of(b, spec, scale, zero_point, levels);
    }
    ptx_comment(b, "the divisor, and what is in range: found by one thread, for all of the block");
    ptx_ptr shared = ptx_shared(b, ptxk_compute_type(spec->dtype), VALUES);
    ptx_if (b, ptx_eq(b, ptx_tid(b, PTX_X), 0)) {
        struct quantizer q = { .scale.value = scale };
        set_bounds(b, spec, &q, zero_point, levels);
        ptx_store_vec(b, shared, LO, ptx_vec2(q.lo, q.hi));
        if (has_reciprocal)
            ptx_store(b, shared, RECIPROCAL, ptxk_reciprocal_of(b, scale));
    }
    ptx_barrier(b);
    ptx_vec bounds = ptx_load_vec(b, shared, LO, 2);
    ptx_val reciprocal = { 0 };
    if (has_reciprocal)
        reciprocal = ptx_load(b, shared, RECIPROCAL);
    return (struct quantizer) { .scale = ptxk_divisor_from(b, scale, reciprocal),
                                .lo = bounds.lane[0],
                                .hi = bounds.lane[1] };
}

// The variables of a quantizer; those that its type and options do not use are poisoned.
enum { QUANTIZER_VALUES = 6 };
static void values_of(struct quantizer *q, ptx_val *values[QUANTIZER_VALUES])
{
    values[0] = &q->scale.value;
    values[1] = &q->scale.negated;
    values[2] = &q->scale.reciprocal;
    values[3] = &q->lo;
    values[4] = &q->hi;
    values[5] = &q->minus_scale;
}

struct quantizer ptxk_quantizer_var(ptx_builder *b, struct quantizer init)
{
    ptx_val *values[QUANTIZER_VALUES];

    values_of(&init, values);
    for (int k = 0; k < QUANTIZER_VALUES; k++)
        if (values[k]->kind != PTX_KIND_POISON)
            *values[k] = ptx_var(b, *values[k]);
    return init;
}

void ptxk_quantizer_set(ptx_builder *b, const struct quantizer *var, struct quantizer q)
{
    struct quantizer copy = *var;
    ptx_val *to[QUANTIZER_VALUES], *from[QUANTIZER_VALUES];

    values_of(&copy, to);
    values_of(&q, from);
    for (int k = 0; k < QUANTIZER_VALUES; k++)
        if (to[k]->kind != PTX_KIND_POISON)
            ptx_set(b, *to[k], *from[k]);
}

struct quantizers ptxk_quantizers_same(const struct quantizer *q, const ptx_val *sums)
{
    return (struct quantizers) { { q, q, q, q, q, q, q, q },
                                 { sums, sums, sums, sums, sums, sums, sums, sums } };
}

ptx_vec ptxk_over_scales(ptx_builder *b, const struct quantizers *q, ptx_vec x)
{
    struct divisors scales = { { NULL } };

    for (unsigned k = 0; k < x.lanes; k++)
        scales.of[k] = &q->of[k]->scale;
    return ptxk_quotients(b, &scales, x);
}

// Whether the quantized x is in range: compares x itself, or its level.
static ptx_val in_range(ptx_builder *b, const struct quantizer *q, ptx_val x)
{
    x = ptx_cvt(b, (ptx_type)q->lo.type, x);
    if (q->scale.by_reciprocal)
        x = ptx_rint(b, ptx_mul(b, x, q->scale.reciprocal));
    return ptx_and(b, ptx_ge(b, x, q->lo), ptx_le(b, x, q->hi));
}

ptx_vec ptxk_straight_through(ptx_builder *b, const struct ptx_kernel_spec *spec,
                              const struct quantizers *q, const ptx_vec *in)
{
    const bool fake = spec->option[QUANTIZER_GRADIENT] == GRADIENT_FAKE_QUANTIZE;
    const ptx_vec x = in[0], d_output = in[1];
    ptx_vec gradient = fake ? d_output : ptxk_over_scales(b, q, d_output);
    for (unsigned k = 0; k < x.lanes; k++) {
        ptxk_comment_lanes(b, "the gradient where x is in range, else 0", k, 2, x.lanes);
        ptx_val inside = in_range(b, q->of[k], x.lane[k]);
        gradient.lane[k] = ptx_select(b, inside, gradient.lane[k], 0);
        gradient.lane[k] = ptx_cvt(b, spec->dtype, gradient.lane[k]);
    }
    return gradient;
}
