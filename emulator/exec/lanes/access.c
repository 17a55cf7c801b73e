// SPDX-License-Identifier: MIT
// What the lanes of a warp access together: how far apart their addresses are, loads of what lies
// there, and whether all of it is defined. As the lane functions, this is compiled once for any
// processor and once for AVX2, and written so that compilers vectorise it.
#include "family.h"

typedef uint16_t __attribute__((may_alias, aligned(1))) half;
typedef uint32_t __attribute__((may_alias, aligned(1))) word;
typedef uint64_t __attribute__((may_alias, aligned(1))) wide;

// Each lane's distance from the first address, 0 for a lane without an access; whether it is less
// than `low` or more than `high`, or not a multiple of `step`, in the sign bit and the low bits of
// `bad`.
#define REACH(name, T, S)                                                                          \
    static bool name(int32_t *restrict away, const T *restrict address, uint32_t mask,             \
                     uint32_t step, S low, S high, bool *in_row)                                   \
    {                                                                                              \
        const T first = address[__builtin_ctz(mask)], sign = (T)1 << (8 * sizeof(T) - 1);          \
        T bad = 0;                                                                                 \
        uint32_t off = ~mask;                                                                      \
        if (mask == UINT32_MAX)                                                                    \
            EMU_FOR_LANES                                                                          \
            {                                                                                      \
                T x = address[i] - first;                                                          \
                bad |= ((x - (T)low) | ((T)high - x)) & sign;                                      \
                bad |= x & (step - 1);                                                             \
                off |= (uint32_t)x ^ i * step;                                                     \
                away[i] = (int32_t)(uint32_t)x;                                                    \
            }                                                                                      \
        else                                                                                       \
            EMU_FOR_LANES                                                                          \
            {                                                                                      \
                T x = mask & bit_of_lane[i] ? address[i] - first : 0;                              \
                bad |= ((x - (T)low) | ((T)high - x)) & sign;                                      \
                bad |= x & (step - 1);                                                             \
                away[i] = (int32_t)(uint32_t)x;                                                    \
            }                                                                                      \
        *in_row = off == 0;                                                                        \
        return bad == 0;                                                                           \
    }
REACH(reach_words, uint32_t, int32_t)
REACH(reach_longs, uint64_t, int64_t)

#define LOAD(bits, T, R)                                                                           \
    static void load_##bits(void *restrict out, const unsigned char *from, const int32_t *away)    \
    {                                                                                              \
        R *r = out;                                                                                \
        EMU_FOR_LANES r[i] = *(const T *)(from + away[i]);                                         \
    }
LOAD(8, unsigned char, uint32_t)
LOAD(16, half, uint32_t)
LOAD(32, word, uint32_t)
LOAD(64, wide, uint64_t)

static void load(void *restrict out, const unsigned char *from, const int32_t *away, unsigned bytes)
{
    switch (bytes) {
    case 1:
        load_8(out, from, away);
        break;
    case 2:
        load_16(out, from, away);
        break;
    case 4:
        load_32(out, from, away);
        break;
    default:
        load_64(out, from, away);
    }
}

static bool all_ones(const unsigned char *from, uint32_t bytes)
{
    unsigned char other = 0;
    for (uint32_t i = 0; i < bytes; i++)
        other |= from[i] ^ 1;
    return other == 0;
}

#define EACH_ONES(T, ones)                                                                         \
    {                                                                                              \
        T other = 0;                                                                               \
        EMU_FOR_LANES other |= *(const T *)(from + away[i]) ^ (T)(ones);                           \
        return other == 0;                                                                         \
    }

static bool each_ones(const unsigned char *from, const int32_t *away, uint32_t bytes)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    bool all = true;
    switch (bytes) {
    case 1:
        EACH_ONES(unsigned char, ones)
    case 2:
        EACH_ONES(half, ones)
    case 4:
        EACH_ONES(word, ones)
    case 8:
        EACH_ONES(wide, ones)
    default:
        for (uint32_t part = 0; part < bytes; part += 8)
            all = all && each_ones(from + part, away, 8);
        return all;
    }
}

extern const struct emu_access_build EMU_NAMED(emu_access);
const struct emu_access_build EMU_NAMED(emu_access) = { reach_words, reach_longs, load, all_ones,
                                                        each_ones };
