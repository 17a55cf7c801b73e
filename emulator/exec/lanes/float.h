// SPDX-License-Identifier: MIT
// f32 and f64: the operations that round once, in the rounding mode of the calling thread. float.c
// has them for nearest even, where compilers may assume that mode; directed.c for the other modes,
// where they may not (-frounding-math), which keeps them from vectorising.
#ifndef PTXGEN_EMULATOR_EXEC_LANES_FLOAT_H
#define PTXGEN_EMULATOR_EXEC_LANES_FLOAT_H

#include "family.h"

static inline uint32_t canonical(float x)
{
    return x == x ? emu_f32_bits(x) : EMU_F32_NAN;
}

// `x` unless it is NaN; then a NaN made from the operands, in order of precedence. Each step is a
// choice, not a branch, so that compilers vectorise it.
static inline uint64_t pack_fma_f64(double x, uint64_t first, uint64_t second, uint64_t third)
{
    uint64_t nan = emu_is_nan64(third) ? third : EMU_F64_NAN;
    nan = emu_is_nan64(second) ? second : nan;
    nan = emu_is_nan64(first) ? first : nan;
    return x == x ? emu_f64_bits(x) : emu_quiet64(nan);
}

static inline uint64_t pack_f64(double x, uint64_t first, uint64_t second)
{
    return pack_fma_f64(x, first, second, second);
}

#define pack_f32(x, first, second)            canonical(x)
#define pack_fma_f32(x, first, second, third) canonical(x)

#define UNARY(name, S, F, expression)   EMU_UNARY(name, S, F, emu_##F, expression)
#define BINARY(name, S, F, expression)  EMU_BINARY(name, S, F, emu_##F, expression)
#define TERNARY(name, S, F, expression) EMU_TERNARY(name, S, F, emu_##F, expression)

#define emu_float  emu_f32
#define emu_double emu_f64

#define ROUNDED_ONCE(n, S, F, root, fused)                                                         \
    BINARY(add_##n, S, F, pack_##n(x + y, b[i], a[i]))                                             \
    BINARY(sub_##n, S, F, pack_##n(x - y, b[i], a[i]))                                             \
    BINARY(mul_##n, S, F, pack_##n(x *y, b[i], a[i]))                                              \
    BINARY(div_##n, S, F, pack_##n(x / y, a[i], b[i]))                                             \
    TERNARY(fma_##n, S, F, pack_fma_##n(fused(x, y, z), b[i], c[i], a[i]))                         \
    UNARY(sqrt_##n, S, F, pack_##n(root(x), a[i], a[i]))                                           \
    UNARY(rcp_##n, S, F, pack_##n(1 / x, a[i], a[i]))

#endif
