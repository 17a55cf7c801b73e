// SPDX-License-Identifier: MIT
// f32 and f64, each operation rounded once as the calling thread rounds.
#include "family.h"

#include <math.h>

static inline uint32_t canonical(float x)
{
    return x == x ? emu_f32_bits(x) : EMU_F32_NAN;
}

// `x` unless it is NaN, then one made of the operands, in the order of their claim.
static inline uint64_t pack_f64(double x, uint64_t first, uint64_t second)
{
    return x == x ? emu_f64_bits(x) : emu_nan64(first, second);
}

static inline uint64_t pack_fma_f64(double x, uint64_t first, uint64_t second, uint64_t third)
{
    return x == x                ? emu_f64_bits(x)
           : emu_is_nan64(first) ? emu_quiet64(first)
                                 : emu_nan64(second, third);
}

#define pack_f32(x, first, second)            canonical(x)
#define pack_fma_f32(x, first, second, third) canonical(x)
#define nan_f32(x)                            EMU_F32_NAN
#define nan_f64(x)                            emu_quiet64(x)

#define UNARY(name, S, F, expression)   EMU_UNARY(name, S, F, emu_##F, expression)
#define BINARY(name, S, F, expression)  EMU_BINARY(name, S, F, emu_##F, expression)
#define TERNARY(name, S, F, expression) EMU_TERNARY(name, S, F, emu_##F, expression)

// The smaller of two numbers; -0 is below +0.
#define MINIMUM(S, x, y, a, b) ((x) < (y) || ((x) == (y) && (a) > (b)) ? (a) : (b))
#define MAXIMUM(S, x, y, a, b) ((x) > (y) || ((x) == (y) && (a) < (b)) ? (a) : (b))
// A NaN gives way to a number, or with .NaN the other way round.
#define EXTREME(op, a, b, x, y, S, none)                                                           \
    ((x) != (x)   ? ((y) != (y) || insn->nan ? (none) : (b))                                       \
     : (y) != (y) ? (insn->nan ? (none) : (a))                                                     \
                  : op(S, x, y, a, b))

static inline bool test(unsigned kind, uint64_t magnitude, uint64_t normal, uint64_t infinity)
{
    switch (kind) {
    case EMU_FINITE:
        return magnitude < infinity;
    case EMU_INFINITE:
        return magnitude == infinity;
    case EMU_NUMBER:
        return magnitude <= infinity;
    case EMU_NOTANUMBER:
        return magnitude > infinity;
    case EMU_NORMAL:
        return magnitude == 0 || (magnitude >= normal && magnitude < infinity);
    default: // zero counts as normal
        return magnitude > 0 && magnitude < normal;
    }
}

#define emu_float  emu_f32
#define emu_double emu_f64

#define FAMILY(n, S, F, SIGN, NORMAL, INFINITY_BITS, root, fused)                                  \
    BINARY(add_##n, S, F, pack_##n(x + y, b[i], a[i]))                                             \
    BINARY(sub_##n, S, F, pack_##n(x - y, b[i], a[i]))                                             \
    BINARY(mul_##n, S, F, pack_##n(x *y, b[i], a[i]))                                              \
    BINARY(div_##n, S, F, pack_##n(x / y, a[i], b[i]))                                             \
    TERNARY(fma_##n, S, F, pack_fma_##n(fused(x, y, z), b[i], c[i], a[i]))                         \
    UNARY(sqrt_##n, S, F, pack_##n(root(x), a[i], a[i]))                                           \
    UNARY(rcp_##n, S, F, pack_##n(1 / x, a[i], a[i]))                                              \
    UNARY(neg_##n, S, F, x == x ? a[i] ^ SIGN : nan_##n(a[i]))                                     \
    UNARY(abs_##n, S, F, x == x ? a[i] & ~SIGN : nan_##n(a[i]))                                    \
    BINARY(min_##n, S, F, EXTREME(MINIMUM, a[i], b[i], x, y, S, nan_##n(b[i])))                    \
    BINARY(max_##n, S, F, EXTREME(MAXIMUM, a[i], b[i], x, y, S, nan_##n(b[i])))                    \
    EMU_LANE_FUNCTION(copysign_##n) /* of the first, with the second's magnitude */                \
    {                                                                                              \
        const S *a = src[0], *b = src[1];                                                          \
        S *r = out;                                                                                \
        (void)insn;                                                                                \
        EMU_FOR_LANES r[i] = (a[i] & SIGN) | (b[i] & ~SIGN);                                       \
    }                                                                                              \
    EMU_LANE_FUNCTION(testp_##n)                                                                   \
    {                                                                                              \
        const S *a = src[0];                                                                       \
        uint32_t mask = 0;                                                                         \
        EMU_FOR_LANES if (test(insn->test, a[i] & ~SIGN, NORMAL, INFINITY_BITS)) mask |= 1u << i;  \
        *(uint32_t *)out = mask;                                                                   \
    }

FAMILY(f32, uint32_t, float, UINT32_C(0x80000000), UINT32_C(0x00800000), UINT32_C(0x7f800000),
       sqrtf, fmaf)
FAMILY(f64, uint64_t, double, UINT64_C(0x8000000000000000), UINT64_C(0x0010000000000000),
       UINT64_C(0x7ff0000000000000), sqrt, fma)

static emu_lane_function *find(const struct emu_insn *insn)
{
    const bool wide = insn->type == EMU_F64;
    switch (insn->opcode) {
#define INSTRUCTION(opcode, mnemonic, handler, lanes, ...)                                         \
    case EMU_OP_##opcode:                                                                          \
        lanes break;
#define FLOATS(stem) return wide ? stem##_f64 : stem##_f32;
#include "isa.def"
    default:
        break;
    }
    return NULL;
}

bool EMU_NAMED(emu_find_float)(const struct emu_insn *insn, struct emu_lane_info *info)
{
    if ((insn->type != EMU_F32 && insn->type != EMU_F64) || insn->approx || insn->full)
        return false;
    *info = (struct emu_lane_info) { find(insn), true };
    return info->fn != NULL;
}
