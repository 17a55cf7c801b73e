// SPDX-License-Identifier: MIT
// Integer arithmetic.
#include "family.h"

// Columns: name, storage of a lane, the type itself, the unsigned type it is computed in, the
// unsigned type of its width.
#define TYPES(X)                                                                                   \
    X(u16, uint32_t, uint16_t, uint32_t, uint16_t)                                                 \
    X(s16, uint32_t, int16_t, uint32_t, uint16_t)                                                  \
    X(u32, uint32_t, uint32_t, uint32_t, uint32_t)                                                 \
    X(s32, uint32_t, int32_t, uint32_t, uint32_t)                                                  \
    X(u64, uint64_t, uint64_t, uint64_t, uint64_t)                                                 \
    X(s64, uint64_t, int64_t, uint64_t, uint64_t)

#define UNARY(name, S, V, U, W, expression)   EMU_UNARY(name, S, V, (V), (W)(expression))
#define BINARY(name, S, V, U, W, expression)  EMU_BINARY(name, S, V, (V), (W)(expression))
#define TERNARY(name, S, V, U, W, expression) EMU_TERNARY(name, S, V, (V), (W)(expression))

static inline uint64_t high_u64(uint64_t x, uint64_t y)
{
    uint64_t a = x >> 32, b = (uint32_t)x, c = y >> 32, d = (uint32_t)y;
    uint64_t middle = a * d + (b * d >> 32);
    return a * c + (middle >> 32) + ((b * c + (uint32_t)middle) >> 32);
}

static inline uint64_t high_s64(int64_t x, int64_t y)
{
    uint64_t high = high_u64((uint64_t)x, (uint64_t)y);
    return high - (x < 0 ? (uint64_t)y : 0) - (y < 0 ? (uint64_t)x : 0);
}

#define high_u16(x, y) ((uint32_t)(x) * (uint32_t)(y) >> 16)
#define high_s16(x, y) ((uint32_t)((int32_t)(x) * (int32_t)(y)) >> 16)
#define high_u32(x, y) ((uint64_t)(x) * (uint64_t)(y) >> 32)
#define high_s32(x, y) ((uint64_t)((int64_t)(x) * (int64_t)(y)) >> 32)

// Division by zero gives a quotient and a remainder of all ones, as the code of ptxas does. The
// most negative number divided by -1 is itself, with remainder 0.
#define QUOTIENT_U(V, W, x, y)  ((y) ? (x) / (y) : (V)-1)
#define REMAINDER_U(V, W, x, y) ((y) ? (x) % (y) : (V)-1)
#define QUOTIENT_S(V, W, x, y)  ((y) == 0 ? (V)-1 : (y) == -1 ? (V)(W)(0u - (W)(x)) : (x) / (y))
#define REMAINDER_S(V, W, x, y) ((y) == 0 ? (V)-1 : (y) == -1 ? (V)0 : (x) % (y))

#define COMMON(n, S, V, U, W)                                                                      \
    BINARY(add_##n, S, V, U, W, (U)x + (U)y)                                                       \
    BINARY(sub_##n, S, V, U, W, (U)x - (U)y)                                                       \
    BINARY(mul_lo_##n, S, V, U, W, (U)x *(U)y)                                                     \
    BINARY(mul_hi_##n, S, V, U, W, high_##n(x, y))                                                 \
    BINARY(min_##n, S, V, U, W, x < y ? x : y)                                                     \
    BINARY(max_##n, S, V, U, W, x > y ? x : y)                                                     \
    UNARY(neg_##n, S, V, U, W, (U)0 - (U)x)                                                        \
    TERNARY(mad_lo_##n, S, V, U, W, (U)x *(U)y + (U)z)                                             \
    TERNARY(mad_hi_##n, S, V, U, W, (U)high_##n(x, y) + (U)z)                                      \
    TERNARY(sad_##n, S, V, U, W, (x < y ? (U)y - (U)x : (U)x - (U)y) + (U)z)
TYPES(COMMON)

#define UNSIGNED(n, S, V, U, W)                                                                    \
    BINARY(div_##n, S, V, U, W, QUOTIENT_U(V, W, x, y))                                            \
    BINARY(rem_##n, S, V, U, W, REMAINDER_U(V, W, x, y))                                           \
    UNARY(abs_##n, S, V, U, W, x)
#define SIGNED(n, S, V, U, W)                                                                      \
    BINARY(div_##n, S, V, U, W, QUOTIENT_S(V, W, x, y))                                            \
    BINARY(rem_##n, S, V, U, W, REMAINDER_S(V, W, x, y))                                           \
    UNARY(abs_##n, S, V, U, W, x < 0 ? (U)0 - (U)x : (U)x)
UNSIGNED(u16, uint32_t, uint16_t, uint32_t, uint16_t)
UNSIGNED(u32, uint32_t, uint32_t, uint32_t, uint32_t)
UNSIGNED(u64, uint64_t, uint64_t, uint64_t, uint64_t)
SIGNED(s16, uint32_t, int16_t, uint32_t, uint16_t)
SIGNED(s32, uint32_t, int32_t, uint32_t, uint32_t)
SIGNED(s64, uint64_t, int64_t, uint64_t, uint64_t)

static inline int32_t clamp_s32(int64_t x)
{
    return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x;
}

BINARY(add_sat_s32, uint32_t, int32_t, uint32_t, uint32_t, clamp_s32((int64_t)x + y))
BINARY(sub_sat_s32, uint32_t, int32_t, uint32_t, uint32_t, clamp_s32((int64_t)x - y))
TERNARY(mad_hi_sat_s32, uint32_t, int32_t, uint32_t, uint32_t,
        clamp_s32((int64_t)(int32_t)high_s32(x, y) + z))

// Twice the width: columns name, storage and type of the factors, storage and type of the product.
#define TWICE(n, S, V, T, P)                                                                       \
    EMU_LANE_FUNCTION(mul_wide_##n)                                                                \
    {                                                                                              \
        const S *a = src[0], *b = src[1];                                                          \
        T *r = out;                                                                                \
        (void)insn;                                                                                \
        EMU_FOR_LANES r[i] = (T)((P)(V)a[i] * (P)(V)b[i]);                                         \
    }                                                                                              \
    EMU_LANE_FUNCTION(mad_wide_##n)                                                                \
    {                                                                                              \
        const S *a = src[0], *b = src[1];                                                          \
        const T *c = src[2];                                                                       \
        T *r = out;                                                                                \
        (void)insn;                                                                                \
        EMU_FOR_LANES r[i] = (T)((P)(V)a[i] * (P)(V)b[i]) + c[i];                                  \
    }
TWICE(u16, uint32_t, uint16_t, uint32_t, uint32_t)
TWICE(s16, uint32_t, int16_t, uint32_t, int32_t)
TWICE(u32, uint32_t, uint32_t, uint64_t, uint64_t)
TWICE(s32, uint32_t, int32_t, uint64_t, int64_t)

// Factors of 24 bits: the low or the high 32 of the 48 bits of their product.
static inline int32_t low24(uint32_t x)
{
    return (int32_t)((x & 0xffffff) ^ 0x800000) - 0x800000;
}

#define product24_u32(x, y) ((uint64_t)((x)&0xffffff) * ((y)&0xffffff))
#define product24_s32(x, y) ((uint64_t)((int64_t)low24((uint32_t)(x)) * low24((uint32_t)(y))))
#define OF_24_BITS(n, V)                                                                           \
    BINARY(mul24_lo_##n, uint32_t, V, uint32_t, uint32_t, product24_##n(x, y))                     \
    BINARY(mul24_hi_##n, uint32_t, V, uint32_t, uint32_t, product24_##n(x, y) >> 16)               \
    TERNARY(mad24_lo_##n, uint32_t, V, uint32_t, uint32_t, product24_##n(x, y) + (uint32_t)z)      \
    TERNARY(mad24_hi_##n, uint32_t, V, uint32_t, uint32_t,                                         \
            (product24_##n(x, y) >> 16) + (uint32_t)z)
OF_24_BITS(u32, uint32_t)
OF_24_BITS(s32, int32_t)
TERNARY(mad24_hi_sat_s32, uint32_t, int32_t, uint32_t, uint32_t,
        clamp_s32((int64_t)(int32_t)(uint32_t)(product24_s32(x, y) >> 16) + z))

// Pairs of 16-bit integers.
#define LOW(x)  ((x)&0xffff)
#define HIGH(x) ((x) >> 16)
#define PAIR(name, T, expression)                                                                  \
    static inline uint32_t name##_half(uint32_t a, uint32_t b)                                     \
    {                                                                                              \
        const T x = (T)a, y = (T)b;                                                                \
        return (uint16_t)(expression);                                                             \
    }                                                                                              \
    BINARY(name, uint32_t, uint32_t, uint32_t, uint32_t,                                           \
           name##_half(LOW(x), LOW(y)) | name##_half(HIGH(x), HIGH(y)) << 16)
PAIR(add_u16x2, uint16_t, x + y)
PAIR(min_u16x2, uint16_t, x < y ? x : y)
PAIR(max_u16x2, uint16_t, x > y ? x : y)
PAIR(min_s16x2, int16_t, x < y ? x : y)
PAIR(max_s16x2, int16_t, x > y ? x : y)
PAIR(min_relu_s16x2, int16_t, x < 0 || y < 0 ? 0 : x < y ? x : y)
PAIR(max_relu_s16x2, int16_t, x < 0 && y < 0 ? 0 : x > y ? x : y)
#define add_s16x2      add_u16x2
#define add_relu_s16x2 NULL // no form has it

BINARY(min_relu_s32, uint32_t, int32_t, uint32_t, uint32_t, x < 0 || y < 0 ? 0 : x < y ? x : y)
BINARY(max_relu_s32, uint32_t, int32_t, uint32_t, uint32_t, x < 0 && y < 0 ? 0 : x > y ? x : y)

static emu_lane_function *find(const struct emu_insn *insn)
{
    switch (insn->opcode) {
#define INSTRUCTION(opcode, mnemonic, handler, lanes, ...)                                         \
    case EMU_OP_##opcode:                                                                          \
        lanes break;
#define INTEGERS(stem)                                                                             \
    switch (insn->type) {                                                                          \
    case EMU_U16:                                                                                  \
        return stem##_u16;                                                                         \
    case EMU_S16:                                                                                  \
        return stem##_s16;                                                                         \
    case EMU_U32:                                                                                  \
        return stem##_u32;                                                                         \
    case EMU_S32:                                                                                  \
        return stem##_s32;                                                                         \
    case EMU_U64:                                                                                  \
        return stem##_u64;                                                                         \
    case EMU_S64:                                                                                  \
        return stem##_s64;                                                                         \
    default:                                                                                       \
        break;                                                                                     \
    }
#define PAIRS(stem)                                                                                \
    if (insn->type == EMU_U16X2)                                                                   \
        return stem##_u16x2;                                                                       \
    if (insn->type == EMU_S16X2)                                                                   \
        return insn->relu ? stem##_relu_s16x2 : stem##_s16x2;
#define RECTIFIED(stem)                                                                            \
    if (insn->relu && insn->type == EMU_S32)                                                       \
        return stem##_relu_s32;
#define SATURATING(stem)                                                                           \
    if (insn->sat && insn->type == EMU_S32)                                                        \
        return stem##_sat_s32;
#define WIDE(stem)                                                                                 \
    return insn->type == EMU_U16   ? stem##_u16                                                    \
           : insn->type == EMU_S16 ? stem##_s16                                                    \
           : insn->type == EMU_U32 ? stem##_u32                                                    \
                                   : stem##_s32;
#define FACTORS24(stem) return insn->type == EMU_S32 ? stem##_s32 : stem##_u32;
#include "isa.def"
    default:
        break;
    }
    return NULL;
}

bool EMU_NAMED(emu_find_integer)(const struct emu_insn *insn, struct emu_lane_info *info)
{
    info->fn = find(insn);
    return info->fn != NULL;
}
