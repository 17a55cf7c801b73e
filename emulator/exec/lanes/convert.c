// SPDX-License-Identifier: MIT
// The common conversions, as loops that compilers vectorise. common.c has all others.
#include "family.h"

#define CONVERT(name, S, T, expression)                                                            \
    EMU_LANE_FUNCTION(name)                                                                        \
    {                                                                                              \
        const S *a = src[0];                                                                       \
        T *r = out;                                                                                \
        (void)insn;                                                                                \
        EMU_FOR_LANES                                                                              \
        {                                                                                          \
            S x = a[i];                                                                            \
            r[i] = (T)(expression);                                                                \
        }                                                                                          \
    }

// A NaN keeps its sign and payload and becomes quiet. Only a conversion from bf16 leaves it alone.
static inline uint64_t widen_f32(uint32_t x)
{
    uint64_t nan = (uint64_t)(x & UINT32_C(0x80000000)) << 32 | UINT64_C(0x7ff8000000000000) |
                   (uint64_t)(x & UINT32_C(0x7fffff)) << 29;
    double y = (double)emu_f32(x);
    return y == y ? emu_f64_bits(y) : nan;
}

static inline uint32_t narrow_f64(uint64_t x)
{
    uint32_t nan = (uint32_t)(x >> 32) & UINT32_C(0x80000000);
    float y = (float)emu_f64(x);
    nan |= UINT32_C(0x7fc00000) | ((uint32_t)(x >> 29) & UINT32_C(0x7fffff));
    return y == y ? emu_f32_bits(y) : nan;
}

CONVERT(f64_f32, uint32_t, uint64_t, widen_f32(x))
CONVERT(f32_f64, uint64_t, uint32_t, narrow_f64(x))
CONVERT(f32_bf16, uint32_t, uint32_t, x << 16)
CONVERT(f32_f16, uint32_t, uint32_t,
        (x & 0x7fff) > 0x7c00 ? EMU_F32_NAN : emu_f32_bits(emu_f16_to_f32((uint16_t)x)))
CONVERT(bf16_f32, uint32_t, uint32_t, emu_f32_to_bf16(x))
CONVERT(f16_f32, uint32_t, uint32_t, emu_f32_to_f16(x))
CONVERT(f32_s32, uint32_t, uint32_t, emu_f32_bits((float)(int32_t)x))
CONVERT(f32_u32, uint32_t, uint32_t, emu_f32_bits((float)x))
CONVERT(f64_s32, uint32_t, uint64_t, emu_f64_bits((double)(int32_t)x))
CONVERT(f64_u32, uint32_t, uint64_t, emu_f64_bits((double)x))
CONVERT(u32_u64, uint64_t, uint32_t, x)
CONVERT(u64_u32, uint32_t, uint64_t, x)
CONVERT(s64_s32, uint32_t, uint64_t, (int64_t)(int32_t)x)
CONVERT(same_32, uint32_t, uint32_t, x)
CONVERT(same_64, uint64_t, uint64_t, x)
CONVERT(low_16, uint32_t, uint32_t, x & 0xffff)
CONVERT(u64_u16, uint32_t, uint64_t, x & 0xffff)

static emu_lane_function *integers(enum emu_type to, enum emu_type from)
{
    bool to_32 = to == EMU_U32 || to == EMU_S32, to_64 = to == EMU_U64 || to == EMU_S64;
    bool from_32 = from == EMU_U32 || from == EMU_S32, from_64 = from == EMU_U64 || from == EMU_S64;
    if (to_32 && from_64)
        return u32_u64;
    if (to_32 && from_32)
        return same_32;
    if (to_32 && from == EMU_U16)
        return low_16;
    if (to_64 && from_64)
        return same_64;
    if (to_64 && from_32)
        return from == EMU_S32 ? s64_s32 : u64_u32;
    if (to_64 && from == EMU_U16)
        return u64_u16;
    if ((to == EMU_U16 || to == EMU_S16) && from_32)
        return low_16;
    return NULL;
}

static emu_lane_function *find(enum emu_type to, enum emu_type from)
{
    switch (to) {
    case EMU_F64:
        return from == EMU_F32   ? f64_f32
               : from == EMU_S32 ? f64_s32
               : from == EMU_U32 ? f64_u32
                                 : NULL;
    case EMU_F32:
        return from == EMU_F64    ? f32_f64
               : from == EMU_F16  ? f32_f16
               : from == EMU_BF16 ? f32_bf16
               : from == EMU_S32  ? f32_s32
               : from == EMU_U32  ? f32_u32
                                  : NULL;
    case EMU_F16:
        return from == EMU_F32 ? f16_f32 : NULL;
    case EMU_BF16:
        return from == EMU_F32 ? bf16_f32 : NULL;
    default:
        return integers(to, from);
    }
}

bool EMU_NAMED(emu_find_convert)(const struct emu_insn *insn, struct emu_lane_info *info)
{
    const bool plain = insn->round == EMU_ROUND_NONE || insn->round == EMU_RN;
    if (!emu_is_conversion(insn) || insn->src_count != 1 || insn->ftz || insn->sat ||
        insn->satfinite || insn->relu || !plain)
        return false;
    info->fn = find(insn->type, insn->source_type);
    return info->fn != NULL;
}
