// SPDX-License-Identifier: MIT
// Video instructions: on a byte, a half or the whole of each source, or on all halves or bytes of
// both. GPUs since sm_50 compute them with several instructions of their own.
#include "family.h"

static inline int64_t clamped(int64_t x, int64_t least, int64_t most)
{
    return x < least ? least : x > most ? most : x;
}

// To the range of a part of the result.
static inline int64_t saturated(int64_t x, bool is_signed, unsigned bits)
{
    const int64_t half = INT64_C(1) << (bits - 1);
    return is_signed ? clamped(x, -half, half - 1) : clamped(x, 0, 2 * half - 1);
}

static inline int64_t field(uint32_t x, unsigned first, unsigned bits, bool is_signed)
{
    const int64_t part = x >> first & (UINT32_MAX >> (32 - bits));
    return is_signed && part >> (bits - 1) ? part - (INT64_C(1) << bits) : part;
}

// What the instruction reads of a source: the part that is named, or all.
static inline int64_t part_of(uint32_t x, uint32_t select, bool is_signed)
{
    const unsigned bits = select ? emu_select_bits(select) : 32;
    return field(x, select ? emu_select_part(select, 0) * bits : 0, bits, is_signed);
}

static inline int64_t average(int64_t x, int64_t y)
{
    const int64_t sum = x + y;
    return sum >= 0 ? (sum + 1) / 2 : -((1 - sum) / 2); // ties away from zero
}

static inline int64_t compared(const struct emu_insn *insn, int64_t x, int64_t y)
{
    switch (insn->compare) {
    case EMU_EQ:
        return x == y;
    case EMU_NE:
        return x != y;
    case EMU_LT:
        return x < y;
    case EMU_LE:
        return x <= y;
    case EMU_GT:
        return x > y;
    default:
        return x >= y;
    }
}

static inline int64_t shift_count(const struct emu_insn *insn, int64_t y)
{
    return insn->mode == EMU_MODE_WRAP ? y & 31 : y > 32 ? 32 : y;
}

// Without a type of its own, the result is that of a comparison.
struct signs {
    bool result, x, y;
};

static inline struct signs signs_of(const struct emu_insn *insn)
{
    if (insn->factor_type == EMU_NONE)
        return (struct signs) { false, insn->type == EMU_S32, insn->source_type == EMU_S32 };
    return (struct signs) { insn->type == EMU_S32, insn->source_type == EMU_S32,
                            insn->factor_type == EMU_S32 };
}

// ---- one part -----------------------------------------------------------------------------------

// GPUs compute the code that ptxas makes, and that departs from the PTX manual. These are the rules
// of the code of ptxas 13.0 for sm_75 to sm_100, which computes with 64 bits:
//
//   .sat to a part     of a negative value gives the greatest one of the part
//   .sat to .u32       does not change a value above the range, of which the low bits remain
//   .sat of a shift    takes 34 bits, saturates both ways, to a part as to a word, and .u32 counts
//                      as signed in .min and .max
//   .min, .max         compare 64 bits; those of a sum only its low 32 bits with their sign
//   .h1 of the result  is the upper half of the value, not the lower one
enum kind { PLAIN, SUM, SHIFT };

static inline int64_t saturated_word(int64_t x, bool is_signed, enum kind kind)
{
    if (kind == SHIFT)
        x = (int64_t)((uint64_t)x << 30) >> 30;
    if (is_signed)
        return saturated(x, true, 32);
    return kind == SHIFT ? (int32_t)saturated(x, false, 32) : x < 0 ? 0 : x;
}

static inline int64_t saturated_part(int64_t x, bool is_signed, unsigned bits)
{
    const uint32_t most = UINT32_MAX >> (32 - bits + is_signed);
    return (uint64_t)x > most ? most : x;
}

// With the third source.
static inline uint32_t second_operation(const struct emu_insn *insn, bool is_signed, int64_t x,
                                        uint32_t c)
{
    // vset has no type of its own: its first one counts.
    const bool of_c = insn->factor_type == EMU_NONE ? insn->type == EMU_S32 : is_signed;
    const bool least = insn->atomic == EMU_ATOMIC_MIN;
    if (insn->atomic == EMU_ATOMIC_ADD)
        return (uint32_t)x + c;
    if (of_c)
        return (least ? x < (int32_t)c : x > (int32_t)c) ? (uint32_t)x : c;
    return (least ? (uint64_t)x < c : (uint64_t)x > c) ? (uint32_t)x : c;
}

// Saturates, and merges into the third source or combines with it.
static inline uint32_t finish(const struct emu_insn *insn, enum kind kind, bool is_signed,
                              int64_t x, uint32_t c)
{
    const uint32_t select = insn->select[0];
    const unsigned bits = select ? emu_select_bits(select) : 32;
    if (insn->sat)
        x = select && kind != SHIFT ? saturated_part(x, is_signed, bits)
                                    : saturated_word(x, is_signed, kind);
    if (insn->secondary)
        return second_operation(insn, is_signed, kind == SUM ? (int32_t)x : x, c);
    if (!select)
        return (uint32_t)x;
    const unsigned first = emu_select_part(select, 0) * bits;
    const uint32_t mask = (UINT32_MAX >> (32 - bits)) << first;
    const uint32_t there = bits == 16 ? (uint32_t)x : (uint32_t)x << first;
    return (c & ~mask) | (there & mask);
}

#define OF_PARTS(name, kind, expression)                                                           \
    EMU_LANE_FUNCTION(name)                                                                        \
    {                                                                                              \
        const uint32_t *a = src[0], *b = src[1], *c = insn->src_count > 2 ? src[2] : src[0];       \
        const struct signs s = signs_of(insn);                                                     \
        uint32_t *r = out;                                                                         \
        EMU_FOR_LANES                                                                              \
        {                                                                                          \
            const int64_t x = part_of(a[i], insn->select[1], s.x);                                 \
            const int64_t y = part_of(b[i], insn->select[2], s.y);                                 \
            r[i] = finish(insn, kind, s.result, expression, c[i]);                                 \
        }                                                                                          \
    }

OF_PARTS(vadd, SUM, x + y)
OF_PARTS(vsub, SUM, x - y)
OF_PARTS(vabsdiff, PLAIN, x < y ? y - x : x - y)
OF_PARTS(vmin, PLAIN, x < y ? x : y)
OF_PARTS(vmax, PLAIN, x < y ? y : x)
OF_PARTS(vset, PLAIN, compared(insn, x, y))
OF_PARTS(vshl, SHIFT, (int64_t)((uint64_t)x << shift_count(insn, y)))
OF_PARTS(vshr, SHIFT, x >> shift_count(insn, y))

// Factors and the addend count as signed, also a whole .u32. The result is that of its type in the
// manual: unsigned only if both factors are and nothing is negated.
static inline uint32_t product_sum(const struct emu_insn *insn, struct signs s, uint32_t a,
                                   uint32_t b, uint32_t c)
{
    const bool is_signed = s.x || s.y || insn->negates_product || insn->negates_addend;
    const int64_t x = (int32_t)part_of(a, insn->select[1], s.x);
    const int64_t y = (int32_t)part_of(b, insn->select[2], s.y);
    const int64_t product = insn->negates_product ? ~(x * y) : x * y;
    const int64_t addend = (int32_t)(insn->negates_addend ? ~c : c);
    const bool one = insn->plus_one || insn->negates_product || insn->negates_addend;
    const uint64_t sum = (uint64_t)product + (uint64_t)addend + one;
    const int64_t scaled = is_signed ? (int64_t)sum >> insn->scale : (int64_t)(sum >> insn->scale);
    return (uint32_t)(insn->sat ? saturated(scaled, is_signed, 32) : scaled);
}

EMU_LANE_FUNCTION(vmad)
{
    const uint32_t *a = src[0], *b = src[1], *c = src[2];
    const struct signs s = signs_of(insn);
    uint32_t *r = out;
    EMU_FOR_LANES
    {
        r[i] = product_sum(insn, s, a[i], b[i], c[i]);
    }
}

// ---- all parts ----------------------------------------------------------------------------------

// Part k of the parts that are named of both sources: those of b follow those of a.
static inline int64_t lane_of(uint32_t a, uint32_t b, uint32_t select, unsigned k, unsigned bits,
                              bool is_signed)
{
    const unsigned parts = 32 / bits, part = emu_select_part(select, k);
    return field(part < parts ? a : b, part % parts * bits, bits, is_signed);
}

static inline bool has_part(const struct emu_insn *insn, unsigned part)
{
    const unsigned count = emu_select_count(insn->select[0]);
    for (unsigned k = 0; k < count; k++)
        if (emu_select_part(insn->select[0], k) == part)
            return true;
    return count == 0;
}

// Part k of the result: added to the sum, or merged into the third source.
static inline uint32_t with_part(const struct emu_insn *insn, bool is_signed, unsigned k,
                                 unsigned bits, int64_t x, uint32_t so_far)
{
    const uint32_t mask = (UINT32_MAX >> (32 - bits)) << k * bits;
    if (!has_part(insn, k))
        return so_far;
    if (insn->secondary)
        return so_far + (uint32_t)x;
    x = insn->sat ? saturated(x, is_signed, bits) : x;
    return (so_far & ~mask) | ((uint32_t)x << k * bits & mask);
}

#define OF_ALL_PARTS(name, BITS, expression)                                                       \
    EMU_LANE_FUNCTION(name)                                                                        \
    {                                                                                              \
        const uint32_t *a = src[0], *b = src[1], *c = src[2];                                      \
        const uint32_t of_x = insn->select[1] ? insn->select[1] : BITS == 16 ? 0x10 : 0x3210;      \
        const uint32_t of_y = insn->select[2] ? insn->select[2] : BITS == 16 ? 0x32 : 0x7654;      \
        const struct signs s = signs_of(insn);                                                     \
        uint32_t *r = out;                                                                         \
        EMU_FOR_LANES                                                                              \
        {                                                                                          \
            uint32_t so_far = c[i];                                                                \
            for (unsigned k = 0; k < 32 / BITS; k++) {                                             \
                const int64_t x = lane_of(a[i], b[i], of_x, k, BITS, s.x);                         \
                const int64_t y = lane_of(a[i], b[i], of_y, k, BITS, s.y);                         \
                so_far = with_part(insn, s.result, k, BITS, expression, so_far);                   \
            }                                                                                      \
            r[i] = so_far;                                                                         \
        }                                                                                          \
    }
#define OF_HALVES_AND_BYTES(name, expression)                                                      \
    OF_ALL_PARTS(name##2, 16, expression)                                                          \
    OF_ALL_PARTS(name##4, 8, expression)

OF_HALVES_AND_BYTES(vadd, x + y)
OF_HALVES_AND_BYTES(vsub, x - y)
OF_HALVES_AND_BYTES(vavrg, average(x, y))
OF_HALVES_AND_BYTES(vabsdiff, x < y ? y - x : x - y)
OF_HALVES_AND_BYTES(vmin, x < y ? x : y)
OF_HALVES_AND_BYTES(vmax, x < y ? y : x)
OF_HALVES_AND_BYTES(vset, compared(insn, x, y))

// ---- by row -------------------------------------------------------------------------------------

bool EMU_NAMED(emu_find_video)(const struct emu_insn *insn, struct emu_lane_info *info)
{
    switch (insn->opcode) {
#define INSTRUCTION(opcode, mnemonic, handler, lanes, ...)                                         \
    case EMU_OP_##opcode:                                                                          \
        lanes break;
#define VIDEO(stem)                                                                                \
    info->fn = stem;                                                                               \
    return true;
#include "isa.def"
    default:
        break;
    }
    return false;
}
