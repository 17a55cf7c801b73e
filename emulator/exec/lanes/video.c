// SPDX-License-Identifier: MIT
// Video instructions: on a byte, a half or the whole of each source, or on all halves or bytes of
// both. GPUs since sm_50 compute them with several instructions of their own.
#include "family.h"

__extension__ typedef __int128 wide;

#define THIRTY_FOUR_BITS ((UINT64_C(1) << 34) - 1)

static inline wide clamped(wide x, wide least, wide most)
{
    return x < least ? least : x > most ? most : x;
}

// To the range of a part of the result.
static inline int64_t saturated(wide x, bool is_signed, unsigned bits)
{
    const wide half = (wide)1 << (bits - 1);
    return (int64_t)(is_signed ? clamped(x, -half, half - 1) : clamped(x, 0, 2 * half - 1));
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

// The PTX manual saturates to 32 bits and compares 32 bits. What ptxas 13.0 makes of it for sm_90
// computes with 34 bits: saturation does not change a u32 above its range, of which the low bits
// remain, and min and max compare before the rest is cut off.
static inline int64_t saturated_word(wide x, bool is_signed)
{
    const uint64_t low = (uint64_t)x & THIRTY_FOUR_BITS;
    const int64_t value = (int64_t)low - (low >> 33 ? INT64_C(1) << 34 : 0);
    return is_signed ? saturated(value, true, 32) : value < 0 ? 0 : value;
}

static inline uint32_t second_operation(const struct emu_insn *insn, bool is_signed, wide x,
                                        uint32_t c)
{
    // vset has no type of its own: its first one counts.
    const bool of_c = insn->factor_type == EMU_NONE ? insn->type == EMU_S32 : is_signed;
    const wide y = of_c ? (wide)(int32_t)c : (wide)c;
    if (insn->atomic == EMU_ATOMIC_ADD)
        return (uint32_t)x + c;
    x = is_signed ? x : (wide)((uint64_t)x & THIRTY_FOUR_BITS);
    return (x < y) == (insn->atomic == EMU_ATOMIC_MIN) ? (uint32_t)x : c;
}

// Saturates, and merges into the third source or combines with it.
static inline uint32_t finish(const struct emu_insn *insn, bool is_signed, wide x, uint32_t c)
{
    const uint32_t select = insn->select[0];
    const unsigned bits = select ? emu_select_bits(select) : 32;
    if (insn->sat)
        x = select ? saturated(x, is_signed, bits) : saturated_word(x, is_signed);
    if (insn->secondary)
        return second_operation(insn, is_signed, x, c);
    if (!select)
        return (uint32_t)x;
    const unsigned first = emu_select_part(select, 0) * bits;
    const uint32_t mask = (UINT32_MAX >> (32 - bits)) << first;
    return (c & ~mask) | ((uint32_t)x << first & mask);
}

#define OF_PARTS(name, expression)                                                                 \
    EMU_LANE_FUNCTION(name)                                                                        \
    {                                                                                              \
        const uint32_t *a = src[0], *b = src[1], *c = insn->src_count > 2 ? src[2] : src[0];       \
        const struct signs s = signs_of(insn);                                                     \
        uint32_t *r = out;                                                                         \
        EMU_FOR_LANES                                                                              \
        {                                                                                          \
            const int64_t x = part_of(a[i], insn->select[1], s.x);                                 \
            const int64_t y = part_of(b[i], insn->select[2], s.y);                                 \
            r[i] = finish(insn, s.result, expression, c[i]);                                       \
        }                                                                                          \
    }

OF_PARTS(vadd, x + y)
OF_PARTS(vsub, x - y)
OF_PARTS(vabsdiff, x < y ? y - x : x - y)
OF_PARTS(vmin, x < y ? x : y)
OF_PARTS(vmax, x < y ? y : x)
OF_PARTS(vset, compared(insn, x, y))
OF_PARTS(vshl, (wide)x *((wide)1 << shift_count(insn, y)))
OF_PARTS(vshr, x >> shift_count(insn, y))

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
