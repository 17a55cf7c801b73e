// SPDX-License-Identifier: MIT
// Logic, shifts, choices.
#include "family.h"

// Columns: name, storage of a lane, bits.
#define SIZES(X)                                                                                   \
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
    EMU_LANE_FUNCTION(shr_u##BITS)                                                                 \
    {                                                                                              \
        const S *a = src[0];                                                                       \
        const uint32_t *b = src[1];                                                                \
        S *r = out;                                                                                \
        (void)insn;                                                                                \
        EMU_FOR_LANES r[i] = b[i] < BITS ? a[i] >> b[i] : 0;                                       \
    }
SIZES(LOGIC)

// Shifted up to the sign of int64_t and back, so that the result's upper bits can be dropped.
#define SHIFT_SIGNED(n, S, BITS)                                                                   \
    EMU_LANE_FUNCTION(shr_s##BITS)                                                                 \
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
SIZES(SHIFT_SIGNED)

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

static emu_lane_function *find(const struct emu_insn *insn)
{
    const enum emu_type type = emu_plain(insn->type);
    const bool is_signed = emu_is_signed(insn->type), by_float = insn->source_type == EMU_F32;
    switch (insn->opcode) {
#define INSTRUCTION(opcode, mnemonic, handler, lanes, ...)                                         \
    case EMU_OP_##opcode:                                                                          \
        lanes break;
#define BY_SIZE(of_16, of_32, of_64)                                                               \
    if (type == EMU_U16)                                                                           \
        return of_16;                                                                              \
    if (type == EMU_U32)                                                                           \
        return of_32;                                                                              \
    if (type == EMU_U64)                                                                           \
        return of_64;
#define WIDTHS(stem) BY_SIZE(stem##_b16, stem##_b32, stem##_b64)
#define SHIFTS(stem)                                                                               \
    BY_SIZE(is_signed ? stem##_s16 : stem##_u16, is_signed ? stem##_s32 : stem##_u32,              \
            is_signed ? stem##_s64 : stem##_u64)
#define CHOICES(stem)                                                                              \
    BY_SIZE(by_float ? stem##_f32_b16 : stem##_s32_b16,                                            \
            by_float ? stem##_f32_b32 : stem##_s32_b32,                                            \
            by_float ? stem##_f32_b64 : stem##_s32_b64)
#define PREDICATES(stem)                                                                           \
    if (type == EMU_PRED)                                                                          \
        return stem##_pred;
#include "isa.def"
    default:
        break;
    }
    return NULL;
}

bool EMU_NAMED(emu_find_bits)(const struct emu_insn *insn, struct emu_lane_info *info)
{
    info->fn = find(insn);
    return info->fn != NULL;
}
