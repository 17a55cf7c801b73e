// SPDX-License-Identifier: MIT
// Logic, shifts, choices.
#include "family.h"

// Columns: name, storage of a lane, bits.
#define WIDTHS(X)                                                                                  \
    X(b16, uint32_t, 16)                                                                           \
    X(b32, uint32_t, 32)                                                                           \
    X(b64, uint64_t, 64)

#define LOGIC(n, S, BITS)                                                                          \
    EMU_BINARY(and_##n, S, S, , x &y)                                                              \
    EMU_BINARY(or_##n, S, S, , x | y)                                                              \
    EMU_BINARY(xor_##n, S, S, , x ^ y)                                                             \
    EMU_UNARY(not_##n, S, S, , x ^ ((S)-1 >> (sizeof(S) * 8 - BITS)))                              \
    EMU_UNARY(cnot_##n, S, S, , x == 0)                                                            \
    EMU_LANE_FUNCTION(selp_##n)                                                                    \
    {                                                                                              \
        const S *a = src[0], *b = src[1];                                                          \
        const uint32_t *p = src[2];                                                                \
        S *r = out;                                                                                \
        (void)insn;                                                                                \
        EMU_FOR_LANES r[i] = *p >> i & 1 ? a[i] : b[i];                                            \
    }                                                                                              \
    EMU_LANE_FUNCTION(slct_s32_##n)                                                                \
    {                                                                                              \
        const S *a = src[0], *b = src[1];                                                          \
        const uint32_t *c = src[2];                                                                \
        S *r = out;                                                                                \
        (void)insn;                                                                                \
        EMU_FOR_LANES r[i] = (int32_t)c[i] >= 0 ? a[i] : b[i];                                     \
    }                                                                                              \
    EMU_LANE_FUNCTION(slct_f32_##n)                                                                \
    {                                                                                              \
        const S *a = src[0], *b = src[1];                                                          \
        const uint32_t *c = src[2];                                                                \
        S *r = out;                                                                                \
        (void)insn; /* -0 and, under ftz, negative subnormals count as zero; NaN takes b */        \
        EMU_FOR_LANES                                                                              \
        {                                                                                          \
            uint32_t x = c[i], least = insn->ftz ? UINT32_C(0x7fffff) : 0;                         \
            r[i] = x <= UINT32_C(0x7f800000) ||                                                    \
                           (x >= UINT32_C(0x80000000) && x <= UINT32_C(0x80000000) + least)        \
                       ? a[i]                                                                      \
                       : b[i];                                                                     \
        }                                                                                          \
    }                                                                                              \
    EMU_LANE_FUNCTION(shl_##n)                                                                     \
    {                                                                                              \
        const S *a = src[0];                                                                       \
        const uint32_t *b = src[1];                                                                \
        S *r = out;                                                                                \
        (void)insn;                                                                                \
        EMU_FOR_LANES r[i] = b[i] < BITS ? a[i] << b[i] & ((S)-1 >> (sizeof(S) * 8 - BITS)) : 0;   \
    }                                                                                              \
    EMU_LANE_FUNCTION(shr_u_##n)                                                                   \
    {                                                                                              \
        const S *a = src[0];                                                                       \
        const uint32_t *b = src[1];                                                                \
        S *r = out;                                                                                \
        (void)insn;                                                                                \
        EMU_FOR_LANES r[i] = b[i] < BITS ? a[i] >> b[i] : 0;                                       \
    }
WIDTHS(LOGIC)

// Shifted up to the sign of int64_t and back, so that the result's upper bits can be dropped.
#define SHIFT_SIGNED(n, S, BITS)                                                                   \
    EMU_LANE_FUNCTION(shr_s_##n)                                                                   \
    {                                                                                              \
        const S *a = src[0];                                                                       \
        const uint32_t *b = src[1];                                                                \
        S *r = out;                                                                                \
        (void)insn;                                                                                \
        EMU_FOR_LANES                                                                              \
        {                                                                                          \
            uint64_t top = (uint64_t)a[i] << (64 - BITS);                                          \
            uint32_t n_ = b[i] < BITS ? b[i] : BITS - 1;                                           \
            uint64_t x = top >> 63 ? ~(~top >> n_) : top >> n_;                                    \
            r[i] = (S)(x >> (64 - BITS));                                                          \
        }                                                                                          \
    }
WIDTHS(SHIFT_SIGNED)

#define MASKS(name, expression)                                                                    \
    EMU_LANE_FUNCTION(name)                                                                        \
    {                                                                                              \
        const uint32_t *a = src[0], *b = src[1];                                                   \
        uint32_t *r = out;                                                                         \
        (void)insn;                                                                                \
        (void)b;                                                                                   \
        *r = expression;                                                                           \
    }
MASKS(and_pred, *a &*b)
MASKS(or_pred, *a | *b)
MASKS(xor_pred, *a ^ *b)
MASKS(not_pred, ~*a)

static emu_lane_function *by_width(const struct emu_insn *insn)
{
    enum emu_type type = emu_plain(insn->type);
    bool is_signed = insn->type == EMU_S16 || insn->type == EMU_S32 || insn->type == EMU_S64;
    bool by_float = insn->source_type == EMU_F32;
#define THREE(name)                                                                                \
    (type == EMU_U16   ? name##_b16                                                                \
     : type == EMU_U32 ? name##_b32                                                                \
     : type == EMU_U64 ? name##_b64                                                                \
                       : NULL)
    switch (insn->opcode) {
    case EMU_OP_AND:
        return THREE(and);
    case EMU_OP_OR:
        return THREE(or);
    case EMU_OP_XOR:
        return THREE(xor);
    case EMU_OP_NOT:
        return THREE(not );
    case EMU_OP_CNOT:
        return THREE(cnot);
    case EMU_OP_SELP:
        return THREE(selp);
    case EMU_OP_SLCT:
        return by_float ? THREE(slct_f32) : THREE(slct_s32);
    case EMU_OP_SHL:
        return THREE(shl);
    case EMU_OP_SHR:
        return is_signed ? THREE(shr_s) : THREE(shr_u);
    default:
        return NULL;
    }
#undef THREE
}

static emu_lane_function *predicates(unsigned opcode)
{
    switch (opcode) {
    case EMU_OP_AND:
        return and_pred;
    case EMU_OP_OR:
        return or_pred;
    case EMU_OP_XOR:
        return xor_pred;
    case EMU_OP_NOT:
        return not_pred;
    default:
        return NULL;
    }
}

bool EMU_NAMED(emu_find_bits)(const struct emu_insn *insn, struct emu_lane_info *info)
{
    uint8_t width = emu_lane_width(insn->type);
    *info = (struct emu_lane_info) { .out = width, .src = { width, width, 4, 4 } };
    if (insn->type == EMU_PRED) {
        info->fn = predicates(insn->opcode);
        return info->fn != NULL;
    }
    info->fn = by_width(insn);
    switch (insn->opcode) {
    case EMU_OP_SELP:
        info->src[2] = 0;
        break;
    case EMU_OP_SHL:
    case EMU_OP_SHR:
        info->src[1] = 4;
        break;
    default:
        break;
    }
    return info->fn != NULL;
}
