// SPDX-License-Identifier: MIT
// Comparisons, minimum and maximum. A comparison gives a mask with one bit for each lane.
#include "family.h"

#include <stdalign.h>

// The lanes of which every bit is set.
#ifdef __AVX2__
#include <immintrin.h>

static inline uint32_t mask_of_uint32_t(const uint32_t *lanes)
{
    const __m256i *x = (const void *)lanes;
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i low = _mm256_packs_epi32(x[0], x[1]), high = _mm256_packs_epi32(x[2], x[3]);
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
    return (uint32_t)_mm256_movemask_epi8(bytes);
}

static inline uint32_t mask_of_uint64_t(const uint64_t *lanes)
{
    const double *x = (const void *)lanes;
    uint32_t mask = 0;
    for (unsigned i = 0; i < EMU_LANES; i += 4)
        mask |= (uint32_t)_mm256_movemask_pd(_mm256_load_pd(x + i)) << i;
    return mask;
}
#else
#define MASK_OF(S)                                                                                 \
    static inline uint32_t mask_of_##S(const S *lanes)                                             \
    {                                                                                              \
        uint32_t mask = 0;                                                                         \
        EMU_FOR_LANES mask |= lanes[i] ? bit_of_lane[i] : 0;                                       \
        return mask;                                                                               \
    }
MASK_OF(uint32_t)
MASK_OF(uint64_t)
#endif

#define COMPARE(name, S, read, condition)                                                          \
    EMU_LANE_FUNCTION(name)                                                                        \
    {                                                                                              \
        const S *a = src[0], *b = src[1];                                                          \
        alignas(32) S holds[EMU_LANES];                                                            \
        (void)insn;                                                                                \
        EMU_FOR_LANES holds[i] = condition(read(a[i]), read(b[i])) ? ~(S)0 : 0;                    \
        *(uint32_t *)out = mask_of_##S(holds);                                                     \
    }

#define EQ(x, y)   ((x) == (y))
#define NE(x, y)   ((x) != (y))
#define LT(x, y)   ((x) < (y))
#define LE(x, y)   ((x) <= (y))
#define GT(x, y)   ((x) > (y))
#define GE(x, y)   ((x) >= (y))
#define LG(x, y)   ((x) < (y) || (x) > (y)) /* ne, false for NaN */
#define EQU(x, y)  (!LG(x, y))
#define NEU(x, y)  ((x) != (y))
#define LTU(x, y)  (!((x) >= (y)))
#define LEU(x, y)  (!((x) > (y)))
#define GTU(x, y)  (!((x) <= (y)))
#define GEU(x, y)  (!((x) < (y)))
#define NUM(x, y)  ((x) == (x) && (y) == (y))
#define NAN_(x, y) ((x) != (x) || (y) != (y))

#define TO_U16(x)     ((uint16_t)(x))
#define TO_S16(x)     ((int16_t)(x))
#define TO_U32(x)     ((uint32_t)(x))
#define TO_S32(x)     ((int32_t)(x))
#define TO_U64(x)     ((uint64_t)(x))
#define TO_S64(x)     ((int64_t)(x))
#define TO_F16(x)     emu_f16_to_f32((uint16_t)(x))
#define TO_F16_FTZ(x) emu_f16_to_f32((uint16_t)((x)&0x7c00 ? (x) : (x)&0x8000))
#define TO_BF16(x)    emu_bf16_to_f32((uint16_t)(x))

#define SIX(n, S, read, ne)                                                                        \
    COMPARE(eq_##n, S, read, EQ)                                                                   \
    COMPARE(ne_##n, S, read, ne)                                                                   \
    COMPARE(lt_##n, S, read, LT)                                                                   \
    COMPARE(le_##n, S, read, LE)                                                                   \
    COMPARE(gt_##n, S, read, GT)                                                                   \
    COMPARE(ge_##n, S, read, GE)
#define FOURTEEN(n, S, read)                                                                       \
    SIX(n, S, read, LG)                                                                            \
    COMPARE(equ_##n, S, read, EQU)                                                                 \
    COMPARE(neu_##n, S, read, NEU)                                                                 \
    COMPARE(ltu_##n, S, read, LTU)                                                                 \
    COMPARE(leu_##n, S, read, LEU)                                                                 \
    COMPARE(gtu_##n, S, read, GTU)                                                                 \
    COMPARE(geu_##n, S, read, GEU)                                                                 \
    COMPARE(num_##n, S, read, NUM)                                                                 \
    COMPARE(nan_##n, S, read, NAN_)

SIX(u16, uint32_t, TO_U16, NE)
SIX(s16, uint32_t, TO_S16, NE)
SIX(u32, uint32_t, TO_U32, NE)
SIX(s32, uint32_t, TO_S32, NE)
SIX(u64, uint64_t, TO_U64, NE)
SIX(s64, uint64_t, TO_S64, NE)
FOURTEEN(f16, uint32_t, TO_F16)
FOURTEEN(f16_ftz, uint32_t, TO_F16_FTZ)
FOURTEEN(bf16, uint32_t, TO_BF16)
FOURTEEN(f32, uint32_t, emu_f32)
FOURTEEN(f64, uint64_t, emu_f64)

#define SIX_CASES(n)                                                                               \
    case EMU_EQ:                                                                                   \
        return eq_##n;                                                                             \
    case EMU_NE:                                                                                   \
        return ne_##n;                                                                             \
    case EMU_LT:                                                                                   \
    case EMU_LO:                                                                                   \
        return lt_##n;                                                                             \
    case EMU_LE:                                                                                   \
    case EMU_LS:                                                                                   \
        return le_##n;                                                                             \
    case EMU_GT:                                                                                   \
    case EMU_HI:                                                                                   \
        return gt_##n;                                                                             \
    case EMU_GE:                                                                                   \
    case EMU_HS:                                                                                   \
        return ge_##n;

#define INTEGER(n)                                                                                 \
    static emu_lane_function *find_##n(unsigned compare)                                           \
    {                                                                                              \
        switch (compare) {                                                                         \
            SIX_CASES(n)                                                                           \
        default:                                                                                   \
            return NULL;                                                                           \
        }                                                                                          \
    }
#define FLOAT(n)                                                                                   \
    static emu_lane_function *find_##n(unsigned compare)                                           \
    {                                                                                              \
        switch (compare) {                                                                         \
            SIX_CASES(n)                                                                           \
        case EMU_EQU:                                                                              \
            return equ_##n;                                                                        \
        case EMU_NEU:                                                                              \
            return neu_##n;                                                                        \
        case EMU_LTU:                                                                              \
            return ltu_##n;                                                                        \
        case EMU_LEU:                                                                              \
            return leu_##n;                                                                        \
        case EMU_GTU:                                                                              \
            return gtu_##n;                                                                        \
        case EMU_GEU:                                                                              \
            return geu_##n;                                                                        \
        case EMU_NUM:                                                                              \
            return num_##n;                                                                        \
        case EMU_NAN:                                                                              \
            return nan_##n;                                                                        \
        default:                                                                                   \
            return NULL;                                                                           \
        }                                                                                          \
    }
INTEGER(u16)
INTEGER(s16)
INTEGER(u32)
INTEGER(s32)
INTEGER(u64)
INTEGER(s64)
FLOAT(f16)
FLOAT(f16_ftz)
FLOAT(bf16)
FLOAT(f32)
FLOAT(f64)

static emu_lane_function *find(enum emu_type type, unsigned compare, bool ftz)
{
    bool is_unsigned = compare >= EMU_LO && compare <= EMU_HS;
    switch (type) {
    case EMU_S16:
        return is_unsigned ? find_u16(compare) : find_s16(compare);
    case EMU_S32:
        return is_unsigned ? find_u32(compare) : find_s32(compare);
    case EMU_S64:
        return is_unsigned ? find_u64(compare) : find_s64(compare);
    case EMU_U16:
    case EMU_B16:
        return find_u16(compare);
    case EMU_U32:
    case EMU_B32:
        return find_u32(compare);
    case EMU_U64:
    case EMU_B64:
        return find_u64(compare);
    case EMU_F16:
    case EMU_F16X2: // the caller separates the halves
        return ftz ? find_f16_ftz(compare) : find_f16(compare);
    case EMU_BF16:
    case EMU_BF16X2:
        return find_bf16(compare);
    case EMU_F32:
        return find_f32(compare);
    case EMU_F64:
        return find_f64(compare);
    default:
        return NULL;
    }
}

static bool is_comparison(const struct emu_insn *insn)
{
    switch (insn->opcode) {
#define INSTRUCTION(opcode, mnemonic, handler, lanes, ...)                                         \
    case EMU_OP_##opcode:                                                                          \
        lanes break;
#define COMPARISONS return true;
#include "isa.def"
    default:
        break;
    }
    return false;
}

// setp and set: the caller combines the mask with the predicate and makes the result.
bool EMU_NAMED(emu_find_compare)(const struct emu_insn *insn, struct emu_lane_info *info)
{
    const enum emu_type type = insn->source_type;
    if (!is_comparison(insn))
        return false;
    *info = (struct emu_lane_info) { find(type, insn->compare, insn->ftz), type == EMU_F32 };
    return info->fn != NULL;
}
