// SPDX-License-Identifier: MIT
// Bits: logic, shifts and choices; fields, counts, permutations, dot products.
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
        (void)insn; /* -0 and, under ftz, negative subnormals count as zero; NaN selects b */      \
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

// ---- fields -------------------------------------------------------------------------------------

EMU_LANE_FUNCTION(lop3)
{
    const uint32_t *a = src[0], *b = src[1], *c = src[2], *table = src[3];
    uint32_t *r = out;
    (void)insn;
    EMU_FOR_LANES
    {
        uint32_t bits = 0;
        for (unsigned k = 0; k < 8; k++)
            if (table[i] >> k & 1)
                bits |= (k & 4 ? a[i] : ~a[i]) & (k & 2 ? b[i] : ~b[i]) & (k & 1 ? c[i] : ~c[i]);
        r[i] = bits;
    }
}

static inline uint32_t funnel_count(const struct emu_insn *insn, uint32_t n)
{
    return insn->mode == EMU_MODE_WRAP ? n & 31 : n < 32 ? n : 32;
}

EMU_LANE_FUNCTION(shf_l)
{
    const uint32_t *a = src[0], *b = src[1], *c = src[2];
    uint32_t *r = out;
    EMU_FOR_LANES
    {
        uint64_t both = (uint64_t)b[i] << 32 | a[i];
        r[i] = (uint32_t)(both << funnel_count(insn, c[i]) >> 32);
    }
}

EMU_LANE_FUNCTION(shf_r)
{
    const uint32_t *a = src[0], *b = src[1], *c = src[2];
    uint32_t *r = out;
    EMU_FOR_LANES
    {
        uint64_t both = (uint64_t)b[i] << 32 | a[i];
        r[i] = (uint32_t)(both >> funnel_count(insn, c[i]));
    }
}

// The four selectors of a mode, one nibble each.
static inline uint32_t permutation(unsigned mode, uint32_t selector)
{
    static const uint16_t tables[][4] = {
        [EMU_MODE_PRMT_F4E] = { 0x3210, 0x4321, 0x5432, 0x6543 },
        [EMU_MODE_PRMT_B4E] = { 0x5670, 0x6701, 0x7012, 0x0123 },
        [EMU_MODE_PRMT_RC8] = { 0x0000, 0x1111, 0x2222, 0x3333 },
        [EMU_MODE_PRMT_ECL] = { 0x3210, 0x3211, 0x3222, 0x3333 },
        [EMU_MODE_PRMT_ECR] = { 0x0000, 0x1110, 0x2210, 0x3210 },
        [EMU_MODE_PRMT_RC16] = { 0x1010, 0x3232, 0x1010, 0x3232 },
    };
    return mode >= EMU_MODE_PRMT_F4E && mode <= EMU_MODE_PRMT_RC16 ? tables[mode][selector & 3]
                                                                   : selector;
}

EMU_LANE_FUNCTION(prmt)
{
    const uint32_t *a = src[0], *b = src[1], *c = src[2];
    uint32_t *r = out;
    EMU_FOR_LANES
    {
        uint64_t bytes = (uint64_t)b[i] << 32 | a[i];
        uint32_t selectors = permutation(insn->mode, c[i]), bits = 0;
        for (unsigned k = 0; k < 4; k++) {
            uint32_t nibble = selectors >> (4 * k) & 15;
            uint32_t byte = (uint32_t)(bytes >> (8 * (nibble & 7))) & 0xff;
            if (nibble & 8)
                byte = byte & 0x80 ? 0xff : 0;
            bits |= byte << (8 * k);
        }
        r[i] = bits;
    }
}

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
    unsigned half = insn->mode == EMU_MODE_DP2A_HI ? 16 : 0;
    EMU_FOR_LANES
    {
        uint32_t sum = c[i];
        for (unsigned k = 0; k < 2; k++)
            sum += (uint32_t)(piece(a[i], 16 * k, 16, sa) * piece(b[i], half + 8 * k, 8, sb));
        r[i] = sum;
    }
}

EMU_LANE_FUNCTION(fns)
{
    const uint32_t *a = src[0], *b = src[1], *c = src[2];
    uint32_t *r = out;
    (void)insn;
    EMU_FOR_LANES
    {
        int64_t offset = (int32_t)c[i], left = offset < 0 ? -offset : offset;
        int64_t step = offset < 0 ? -1 : 1;
        r[i] = UINT32_MAX;
        if (left == 0) {
            if (b[i] < 32 && a[i] >> b[i] & 1)
                r[i] = b[i];
            continue;
        }
        for (int64_t at = b[i]; at >= 0 && at < 32 && r[i] == UINT32_MAX; at += step)
            if (a[i] >> at & 1 && --left == 0)
                r[i] = (uint32_t)at;
    }
}

// A mask of b bits from bit a on. With .wrap, both are taken modulo 32.
EMU_LANE_FUNCTION(bmsk)
{
    const uint32_t *a = src[0], *b = src[1];
    uint32_t *r = out;
    uint32_t keep = insn->mode == EMU_MODE_WRAP ? 31 : UINT32_MAX;
    EMU_FOR_LANES
    {
        uint32_t first = a[i] & keep, width = b[i] & keep;
        uint32_t bits = width < 32 ? (UINT32_C(1) << width) - 1 : UINT32_MAX;
        r[i] = first < 32 ? bits << first : 0;
    }
}

// The low b bits of a, extended by their sign or by zeros. With .wrap, b is taken modulo 32.
EMU_LANE_FUNCTION(szext)
{
    const uint32_t *a = src[0], *b = src[1];
    uint32_t *r = out;
    uint32_t keep = insn->mode == EMU_MODE_WRAP ? 31 : UINT32_MAX;
    bool is_signed = insn->type == EMU_S32;
    EMU_FOR_LANES
    {
        uint32_t width = b[i] & keep, above = width < 32 ? UINT32_MAX << width : 0;
        bool sign = is_signed && width > 0 && width < 32 && a[i] >> (width - 1) & 1;
        r[i] = (a[i] & ~above) | (sign ? above : 0);
    }
}

static inline uint32_t ones(uint64_t x)
{
    return (uint32_t)__builtin_popcountll(x);
}

static inline uint32_t leading(uint64_t x, unsigned bits)
{
    return x ? (uint32_t)__builtin_clzll(x) - (64 - bits) : bits;
}

// popc, clz and bfind return u32 for every source. FIELD: the bits of the start and length that bfe
// and bfi read. The PTX manual says the low 8 bits; for 64-bit types, a GPU uses all of them.
#define COUNTS(n, S, BITS, FIELD)                                                                  \
    EMU_LANE_FUNCTION(popc_##n)                                                                    \
    {                                                                                              \
        const S *a = src[0];                                                                       \
        uint32_t *r = out;                                                                         \
        (void)insn;                                                                                \
        EMU_FOR_LANES r[i] = ones(a[i]);                                                           \
    }                                                                                              \
    EMU_LANE_FUNCTION(clz_##n)                                                                     \
    {                                                                                              \
        const S *a = src[0];                                                                       \
        uint32_t *r = out;                                                                         \
        (void)insn;                                                                                \
        EMU_FOR_LANES r[i] = leading(a[i], BITS);                                                  \
    }                                                                                              \
    EMU_LANE_FUNCTION(bfind_##n)                                                                   \
    {                                                                                              \
        const S *a = src[0];                                                                       \
        uint32_t *r = out;                                                                         \
        bool is_signed = insn->type == EMU_S32 || insn->type == EMU_S64;                           \
        EMU_FOR_LANES                                                                              \
        {                                                                                          \
            S x = is_signed && a[i] >> (BITS - 1) ? ~a[i] : a[i];                                  \
            uint32_t place = BITS - 1 - leading(x, BITS);                                          \
            r[i] = insn->mode == EMU_MODE_SHIFTAMT && x ? BITS - 1 - place : place;                \
        }                                                                                          \
    }                                                                                              \
    EMU_LANE_FUNCTION(brev_##n)                                                                    \
    {                                                                                              \
        const S *a = src[0];                                                                       \
        S *r = out;                                                                                \
        (void)insn;                                                                                \
        EMU_FOR_LANES                                                                              \
        {                                                                                          \
            S x = 0;                                                                               \
            for (unsigned k = 0; k < BITS; k++)                                                    \
                x |= (a[i] >> k & 1) << (BITS - 1 - k);                                            \
            r[i] = x;                                                                              \
        }                                                                                          \
    }                                                                                              \
    EMU_LANE_FUNCTION(bfe_##n)                                                                     \
    {                                                                                              \
        const S *a = src[0];                                                                       \
        const uint32_t *b = src[1], *c = src[2];                                                   \
        S *r = out;                                                                                \
        bool is_signed = insn->type == EMU_S32 || insn->type == EMU_S64;                           \
        EMU_FOR_LANES                                                                              \
        {                                                                                          \
            uint32_t first = b[i] & FIELD, length = c[i] & FIELD;                                  \
            uint64_t end = (uint64_t)first + length - 1;                                           \
            uint32_t top = end < BITS - 1 ? (uint32_t)end : BITS - 1;                              \
            S sign = is_signed && length ? (S)0 - (a[i] >> top & 1) : 0;                           \
            S field = first < BITS ? a[i] >> first : 0;                                            \
            uint32_t kept = first >= BITS ? 0 : length < BITS - first ? length : BITS - first;     \
            S mask = kept >= BITS ? (S)-1 : ((S)1 << kept) - 1;                                    \
            r[i] = (field & mask) | (sign & ~mask);                                                \
        }                                                                                          \
    }                                                                                              \
    EMU_LANE_FUNCTION(bfi_##n)                                                                     \
    {                                                                                              \
        const S *a = src[0], *b = src[1];                                                          \
        const uint32_t *c = src[2], *d = src[3];                                                   \
        S *r = out;                                                                                \
        (void)insn;                                                                                \
        EMU_FOR_LANES                                                                              \
        {                                                                                          \
            uint32_t first = c[i] & FIELD, length = d[i] & FIELD;                                  \
            S mask = length >= BITS ? (S)-1 : ((S)1 << length) - 1;                                \
            mask = first < BITS ? mask << first : 0;                                               \
            S field = first < BITS ? a[i] << first : 0;                                            \
            r[i] = (field & mask) | (b[i] & ~mask);                                                \
        }                                                                                          \
    }
COUNTS(b32, uint32_t, 32, 0xff)
COUNTS(b64, uint64_t, 64, UINT32_MAX)

// cvt.pack: saturates two integers and puts the second, the first and the third, from the right on.
EMU_LANE_FUNCTION(pack)
{
    const int32_t *a = src[0], *b = src[1];
    const uint32_t *c = insn->src_count > 2 ? src[2] : NULL;
    const unsigned bits = emu_bits(insn->type);
    const bool is_signed =
        emu_is_signed(insn->type) || insn->type == EMU_S4 || insn->type == EMU_S2;
    const int32_t most = (1 << (bits - is_signed)) - 1, least = is_signed ? -most - 1 : 0;
    const uint32_t low = UINT32_MAX >> (32 - bits);
    uint32_t *r = out;
    EMU_FOR_LANES
    {
        const int32_t x = a[i] > most ? most : a[i] < least ? least : a[i];
        const int32_t y = b[i] > most ? most : b[i] < least ? least : b[i];
        r[i] = ((uint32_t)x & low) << bits | ((uint32_t)y & low) | (c ? c[i] << 2 * bits : 0);
    }
}

// ---- by row -------------------------------------------------------------------------------------

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
#define LENGTHS(stem) return type == EMU_U64 ? stem##_b64 : stem##_b32;
#define WORDS(stem)   return stem;
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
