// SPDX-License-Identifier: MIT
#include "quantizer.h"

enum { DIVISION_EXACT, DIVISION_RECIPROCAL };
enum { GRADIENT_QUANTIZE, GRADIENT_FAKE_QUANTIZE };
enum { TARGET_S8, TARGET_U8, TARGET_ANY };

static const struct {
    const char *low, *high;
    int q_min, q_max;
} targets[] = { [TARGET_S8] = { "-128", "127", -128, 127 },
                [TARGET_U8] = { "0", "255", 0, 255 },
                [TARGET_ANY] = { "q_min", "q_max", 0, 0 } };

struct ptx_param_info zero_point_info(const struct ptx_spec *spec)
{
    const unsigned target = spec->option[QUANTIZER_TARGET];

    return (struct ptx_param_info) { .name = "zero_point",
                                     .meaning = "what 0 is quantized to",
                                     .preset = "0",
                                     .low = targets[target].low,
                                     .high = targets[target].high };
}

struct levels target_levels(ptx_builder *b, const struct ptx_spec *spec)
{
    const unsigned target = spec->option[QUANTIZER_TARGET];

    if (target != TARGET_ANY)
        return (struct levels) { ptx_s64(targets[target].q_min), ptx_s64(targets[target].q_max) };
    ptx_val q_min = ptx_param(b, PTX_S32, "q_min", .meaning = "least quantized value",
                              .preset = "-128", .high = "q_max");
    ptx_val q_max = ptx_param(b, PTX_S32, "q_max", .meaning = "greatest quantized value",
                              .preset = "127", .low = "q_min");
    q_min = ptx_cvt(b, PTX_S64, q_min);
    return (struct levels) { q_min, ptx_cvt(b, PTX_S64, q_max) };
}

// The bounds of x / scale: q_min - zero_point rounded up, q_max - zero_point rounded down. The
// difference of two s32 fits s64; rounding it inwards changes no comparison with an integer.
struct quantizer quantizer_of(ptx_builder *b, const struct ptx_spec *spec, ptx_val scale,
                              ptx_val zero_point, struct levels levels)
{
    const ptx_type compute = compute_type(spec->dtype);
    const bool by_reciprocal = spec->option[QUANTIZER_DIVISION] == DIVISION_RECIPROCAL;
    struct quantizer q;

    q.lo = ptx_cvt(b, compute, ptx_sub(b, levels.q_min, zero_point), .round = PTX_RP);
    q.hi = ptx_cvt(b, compute, ptx_sub(b, levels.q_max, zero_point), .round = PTX_RM);
    q.scale = divisor_of(b, scale, by_reciprocal);
    return q;
}

// The values of one; those that its type and options leave out are poisoned.
enum { QUANTIZER_VALUES = 6 };
static void values_of(struct quantizer *q, ptx_val *values[QUANTIZER_VALUES])
{
    values[0] = &q->scale.value;
    values[1] = &q->scale.negated;
    values[2] = &q->scale.reciprocal;
    values[3] = &q->scale.unusual;
    values[4] = &q->lo;
    values[5] = &q->hi;
}

struct quantizer quantizer_var(ptx_builder *b, struct quantizer init)
{
    ptx_val *values[QUANTIZER_VALUES];

    values_of(&init, values);
    for (int k = 0; k < QUANTIZER_VALUES; k++)
        if (values[k]->kind != PTX_POISON)
            *values[k] = ptx_var(b, *values[k]);
    return init;
}

void quantizer_set(ptx_builder *b, const struct quantizer *var, struct quantizer q)
{
    struct quantizer copy = *var;
    ptx_val *to[QUANTIZER_VALUES], *from[QUANTIZER_VALUES];

    values_of(&copy, to);
    values_of(&q, from);
    for (int k = 0; k < QUANTIZER_VALUES; k++)
        if (to[k]->kind != PTX_POISON)
            ptx_set(b, *to[k], *from[k]);
}

ptx_vec straight_through(ptx_builder *b, const struct ptx_spec *spec, const struct quantizers *q,
                         ptx_vec x, ptx_vec d_output)
{
    const bool fake = spec->option[QUANTIZER_GRADIENT] == GRADIENT_FAKE_QUANTIZE;
    struct divisors scales = { { NULL } };

    for (unsigned k = 0; k < x.lanes; k++)
        scales.of[k] = &q->of[k]->scale;
    ptx_vec level = nearest_multiples(b, &scales, x);
    ptx_vec gradient = fake ? d_output : quotients(b, &scales, d_output);
    for (unsigned k = 0; k < x.lanes; k++) {
        ptx_val above = ptx_ge(b, level.lane[k], q->of[k]->lo);
        ptx_val below = ptx_le(b, level.lane[k], q->of[k]->hi);
        ptx_val inside = ptx_and(b, above, below);
        gradient.lane[k] = ptx_select(b, inside, gradient.lane[k], ptx_zero(spec->dtype));
    }
    return gradient;
}
