// SPDX-License-Identifier: MIT
// Integer arithmetic.
#include "family.h"

// Columns: name, storage of a lane, the type itself, the unsigned type it is computed in, the
// unsigned type of its width.
#define INTEGERS(X)                                                                                \
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

// Division by zero gives ones for quotient and remainder alike, as the code that ptxas makes does;
// the most negative number by -1 gives itself, and no remainder.
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
INTEGERS(COMMON)

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
#define WIDE(n, S, V, T, P)                                                                        \
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
WIDE(u16, uint32_t, uint16_t, uint32_t, uint32_t)
WIDE(s16, uint32_t, int16_t, uint32_t, int32_t)
WIDE(u32, uint32_t, uint32_t, uint64_t, uint64_t)
WIDE(s32, uint32_t, int32_t, uint64_t, int64_t)

// Of 24 bits: the low or the high 32 bits of the 48 bits of a product.
static inline int32_t low24(uint32_t x)
{
    return (int32_t)((x & 0xffffff) ^ 0x800000) - 0x800000;
}

#define product24_u32(x, y) ((uint64_t)((x)&0xffffff) * ((y)&0xffffff))
#define product24_s32(x, y) ((uint64_t)((int64_t)low24((uint32_t)(x)) * low24((uint32_t)(y))))
#define FACTORS24(n, V)                                                                            \
    BINARY(mul24_lo_##n, uint32_t, V, uint32_t, uint32_t, product24_##n(x, y))                     \
    BINARY(mul24_hi_##n, uint32_t, V, uint32_t, uint32_t, product24_##n(x, y) >> 16)               \
    TERNARY(mad24_lo_##n, uint32_t, V, uint32_t, uint32_t, product24_##n(x, y) + (uint32_t)z)      \
    TERNARY(mad24_hi_##n, uint32_t, V, uint32_t, uint32_t,                                         \
            (product24_##n(x, y) >> 16) + (uint32_t)z)
FACTORS24(u32, uint32_t)
FACTORS24(s32, int32_t)
TERNARY(mad24_hi_sat_s32, uint32_t, int32_t, uint32_t, uint32_t,
        clamp_s32((int64_t)(int32_t)(uint32_t)(product24_s32(x, y) >> 16) + z))

// Bytes (or halves) of x times bytes of y, each signed or not, added to z.
static inline int32_t piece(uint32_t x, unsigned first, unsigned bits, bool is_signed)
{
    uint32_t part = x >> first & ((1u << bits) - 1);
    return is_signed && part >> (bits - 1) ? (int32_t)part - (1 << bits) : (int32_t)part;
}

EMU_LANE_FUNCTION(dp4a)
{
    const uint32_t *a = src[0], *b = src[1], *c = src[2];
    uint32_t *r = out;
    bool sa = insn->type == EMU_S32, sb = insn->source_type == EMU_S32;
    EMU_FOR_LANES
    {
        uint32_t sum = c[i];
        for (unsigned k = 0; k < 32; k += 8)
            sum += (uint32_t)(piece(a[i], k, 8, sa) * piece(b[i], k, 8, sb));
        r[i] = sum;
    }
}

EMU_LANE_FUNCTION(dp2a)
{
    const uint32_t *a = src[0], *b = src[1], *c = src[2];
    uint32_t *r = out;
    bool sa = insn->type == EMU_S32, sb = insn->source_type == EMU_S32;
    unsigned half = insn->mode == EMU_DP2A_HI ? 16 : 0;
    EMU_FOR_LANES
    {
        uint32_t sum = c[i];
        for (unsigned k = 0; k < 2; k++)
            sum += (uint32_t)(piece(a[i], 16 * k, 16, sa) * piece(b[i], half + 8 * k, 8, sb));
        r[i] = sum;
    }
}

static emu_lane_function *common(unsigned opcode, unsigned type)
{
#define CHOOSE(op, name)                                                                           \
    case EMU_OP_##op:                                                                              \
        switch (type) {                                                                            \
        case EMU_U16:                                                                              \
        case EMU_B16:                                                                              \
            return name##_u16;                                                                     \
        case EMU_S16:                                                                              \
            return name##_s16;                                                                     \
        case EMU_U32:                                                                              \
        case EMU_B32:                                                                              \
            return name##_u32;                                                                     \
        case EMU_S32:                                                                              \
            return name##_s32;                                                                     \
        case EMU_U64:                                                                              \
        case EMU_B64:                                                                              \
            return name##_u64;                                                                     \
        case EMU_S64:                                                                              \
            return name##_s64;                                                                     \
        default:                                                                                   \
            return NULL;                                                                           \
        }
    switch (opcode) {
        CHOOSE(ADD, add)
        CHOOSE(SUB, sub)
        CHOOSE(MUL_LO, mul_lo)
        CHOOSE(MAD_LO_CC, mul_lo)
        CHOOSE(MADC_LO, mul_lo)
        CHOOSE(MUL_HI, mul_hi)
        CHOOSE(MAD_HI_CC, mul_hi)
        CHOOSE(MADC_HI, mul_hi)
        CHOOSE(MAD_LO, mad_lo)
        CHOOSE(MAD_HI, mad_hi)
        CHOOSE(DIV, div)
        CHOOSE(REM, rem)
        CHOOSE(MIN, min)
        CHOOSE(MAX, max)
        CHOOSE(NEG, neg)
        CHOOSE(ABS, abs)
        CHOOSE(SAD, sad)
    default:
        return NULL;
    }
#undef CHOOSE
}

static emu_lane_function *wide(bool mad, unsigned type)
{
    switch (type) {
    case EMU_U16:
        return mad ? mad_wide_u16 : mul_wide_u16;
    case EMU_S16:
        return mad ? mad_wide_s16 : mul_wide_s16;
    case EMU_U32:
        return mad ? mad_wide_u32 : mul_wide_u32;
    case EMU_S32:
        return mad ? mad_wide_s32 : mul_wide_s32;
    default:
        return NULL;
    }
}

static emu_lane_function *factors24(const struct emu_insn *insn)
{
    bool is_signed = insn->type == EMU_S32;
    switch (insn->opcode) {
    case EMU_OP_MUL24_LO:
        return is_signed ? mul24_lo_s32 : mul24_lo_u32;
    case EMU_OP_MUL24_HI:
        return is_signed ? mul24_hi_s32 : mul24_hi_u32;
    case EMU_OP_MAD24_LO:
        return is_signed ? mad24_lo_s32 : mad24_lo_u32;
    default:
        return !is_signed ? mad24_hi_u32 : insn->sat ? mad24_hi_sat_s32 : mad24_hi_s32;
    }
}

static emu_lane_function *saturating(const struct emu_insn *insn)
{
    if (!insn->sat || insn->type != EMU_S32)
        return NULL;
    switch (insn->opcode) {
    case EMU_OP_ADD:
        return add_sat_s32;
    case EMU_OP_SUB:
        return sub_sat_s32;
    case EMU_OP_MAD_HI:
        return mad_hi_sat_s32;
    default:
        return NULL;
    }
}

bool EMU_NAMED(emu_find_integer)(const struct emu_insn *insn, struct emu_lane_info *info)
{
    uint8_t width = emu_lane_width(insn->type);
    *info = (struct emu_lane_info) { .out = width, .src = { width, width, width } };
    switch (insn->opcode) {
    case EMU_OP_MUL_WIDE:
    case EMU_OP_MAD_WIDE:
        info->fn = wide(insn->opcode == EMU_OP_MAD_WIDE, insn->type);
        info->out = info->src[2] = insn->type == EMU_U32 || insn->type == EMU_S32 ? 8 : 4;
        break;
    case EMU_OP_DP4A:
    case EMU_OP_DP2A:
        info->fn = insn->opcode == EMU_OP_DP4A ? dp4a : dp2a;
        break;
    case EMU_OP_MUL24_LO:
    case EMU_OP_MUL24_HI:
    case EMU_OP_MAD24_LO:
    case EMU_OP_MAD24_HI:
        info->fn = factors24(insn);
        break;
    default:
        info->fn = saturating(insn);
        if (!info->fn)
            info->fn = common(insn->opcode, insn->type);
    }
    return info->fn != NULL;
}
