// SPDX-License-Identifier: MIT
// The calls of math.h: their checks, their rows as data, and what their formulas share.
#include "internal.h"
#include "math_parts.h"

// ---- the calls ----------------------------------------------------------------------------------

// Whether an operand can be used; it is then in a register.
static bool operand(ptx_builder *b, const char *call, const char *name, ptx_val *x)
{
    *x = ptxb_typed(b, call, name, *x, PTX_F32);
    if (!ptxb_usable(b, call, name, *x))
        return false;
    if (x->type != PTX_F32)
        ptxb_fail(b, call, "%s is %s; it must be f32: ptx_cvt() converts", name,
                  ptx_type_name((ptx_type)x->type));
    else
        *x = ptxb_in_register(b, *x);
    return !b->failed;
}

#define CALL(name, ...)                                                                            \
    ptx_val ptx_math_##name(ptx_builder *b, ptx_val x)                                             \
    {                                                                                              \
        static const char call[] = "math_" #name;                                                  \
        if (!ptxb_ready(b, call) || !operand(b, call, "x", &x))                                    \
            return (ptx_val) { 0 };                                                                \
        return ptxb_math_##name(b, x);                                                             \
    }
PTX_MATH_UNARY(CALL)
#undef CALL
#define CALL(name, ...)                                                                            \
    ptx_val ptx_math_##name(ptx_builder *b, ptx_val x, ptx_val y)                                  \
    {                                                                                              \
        static const char call[] = "math_" #name;                                                  \
        if (!ptxb_ready(b, call) || !operand(b, call, "x", &x) || !operand(b, call, "y", &y))      \
            return (ptx_val) { 0 };                                                                \
        return ptxb_math_##name(b, x, y);                                                          \
    }
PTX_MATH_BINARY(CALL)
#undef CALL

static const struct ptx_math_info rows[] = {
#define ROW(name, ulp, meaning, source) { #name, meaning, source, 1, (float)(ulp) },
    PTX_MATH_UNARY(ROW)
#undef ROW
#define ROW(name, ulp, meaning, source) { #name, meaning, source, 2, (float)(ulp) },
        PTX_MATH_BINARY(ROW)
#undef ROW
};

const struct ptx_math_info *ptx_math_get_info(size_t index)
{
    return index < sizeof rows / sizeof *rows ? &rows[index] : NULL;
}

// ---- parts --------------------------------------------------------------------------------------

ptx_val ptxb_math_horner(ptx_builder *b, ptx_val x, size_t n, const float *coefficients)
{
    ptx_val sum = ptx_f32((double)coefficients[0]);

    for (size_t k = 1; k < n; k++)
        sum = ptx_fma(b, sum, x, ptx_f32((double)coefficients[k]));
    return sum;
}

ptx_val ptxb_math_at_most(ptx_builder *b, ptx_val x, float most)
{
    ptx_val above = ptx_gt(b, x, ptx_f32((double)most));
    return ptx_select(b, above, ptx_f32((double)most), x);
}

ptx_val ptxb_math_within(ptx_builder *b, ptx_val x, float least, float most)
{
    ptx_val below = ptx_lt(b, x, ptx_f32((double)least));
    x = ptx_select(b, below, ptx_f32((double)least), x);
    return ptxb_math_at_most(b, x, most);
}

ptx_val ptxb_math_power_of_2(ptx_builder *b, ptx_val n)
{
    ptx_val bits = ptx_mad(b, n, ptx_s32(1 << 23), ptx_s32(127 << 23));
    return ptx_bitcast(b, PTX_F32, bits);
}

ptx_val ptxb_math_scaled(ptx_builder *b, ptx_val x, ptx_val n)
{
    ptx_val half = ptx_shr(b, n, ptx_u32(1));
    ptx_val rest = ptx_sub(b, n, half);

    x = ptx_mul(b, x, ptxb_math_power_of_2(b, half));
    return ptx_mul(b, x, ptxb_math_power_of_2(b, rest));
}

ptx_val ptxb_math_signed(ptx_builder *b, ptx_val magnitude, ptx_val sign)
{
    ptx_val bit = ptx_and(b, sign, ptx_u32(0x80000000));
    ptx_val one = ptx_or(b, bit, ptx_u32(0x3f800000));
    return ptx_mul(b, magnitude, ptx_bitcast(b, PTX_F32, one));
}

ptx_val ptxb_math_nearest(ptx_builder *b, ptx_val x, float y, ptx_val *bits)
{
    const ptx_val shifter = ptx_f32(0x1.8p23); // the sum has no bits below 1
    ptx_val shifted = ptx_fma(b, x, ptx_f32((double)y), shifter);

    *bits = ptx_bitcast(b, PTX_U32, shifted);
    return ptx_sub(b, shifted, shifter);
}
