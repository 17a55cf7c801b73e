// SPDX-License-Identifier: MIT
// The calls of math.h: their checks, and their rows as data.
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
