// SPDX-License-Identifier: MIT
// Inside the lane functions. Their sources are compiled once for any processor and, on x86-64,
// again for AVX2 and FMA. EMU_VARIANT distinguishes the two.
#ifndef PTXGEN_EMULATOR_EXEC_LANES_FAMILY_H
#define PTXGEN_EMULATOR_EXEC_LANES_FAMILY_H

#include "lanes.h"

#define EMU_PASTE_(x, y) x##_##y
#define EMU_PASTE(x, y)  EMU_PASTE_(x, y)
#define EMU_NAMED(name)  EMU_PASTE(name, EMU_VARIANT)

#define EMU_LANE_FUNCTION(name)                                                                    \
    __attribute__((always_inline)) static inline void name##_of(void *out, const void *const *src, \
                                                                const struct emu_insn *insn);      \
    static bool name(void *out, const void *x, const void *y, const void *z, const void *w,        \
                     const struct emu_insn *insn)                                                  \
    {                                                                                              \
        name##_of(out, (const void *const[]) { x, y, z, w }, insn);                                \
        return true;                                                                               \
    }                                                                                              \
    static inline void name##_of(void *out, const void *const *src, const struct emu_insn *insn)
// A loop over lanes of which none depends on another one, though the result may take the place of a
// source. Without that word, and where it is unrolled before, compilers would not vectorise it.
#ifdef __clang__
#define EMU_FOR_LANES                                                                              \
    _Pragma("clang loop vectorize(assume_safety) unroll(disable)") for (unsigned i = 0;            \
                                                                        i < EMU_LANES; i++)
#else
#define EMU_FOR_LANES _Pragma("GCC ivdep") for (unsigned i = 0; i < EMU_LANES; i++)
#endif

static const uint32_t bit_of_lane[EMU_LANES] = {
#define BITS(k) 1u << (k), 1u << ((k) + 1), 1u << ((k) + 2), 1u << ((k) + 3)
    BITS(0), BITS(4), BITS(8), BITS(12), BITS(16), BITS(20), BITS(24), BITS(28),
#undef BITS
};

// Functions of one, two and three sources, stored in lanes of STORAGE. `read` makes x, y and z of
// the sources; the result is `expression`.
#define EMU_UNARY(name, STORAGE, TYPE, read, expression)                                           \
    EMU_LANE_FUNCTION(name)                                                                        \
    {                                                                                              \
        const STORAGE *a = src[0];                                                                 \
        STORAGE *r = out;                                                                          \
        (void)insn;                                                                                \
        EMU_FOR_LANES                                                                              \
        {                                                                                          \
            TYPE x = read(a[i]);                                                                   \
            r[i] = (STORAGE)(expression);                                                          \
        }                                                                                          \
    }
#define EMU_BINARY(name, STORAGE, TYPE, read, expression)                                          \
    EMU_LANE_FUNCTION(name)                                                                        \
    {                                                                                              \
        const STORAGE *a = src[0], *b = src[1];                                                    \
        STORAGE *r = out;                                                                          \
        (void)insn;                                                                                \
        EMU_FOR_LANES                                                                              \
        {                                                                                          \
            TYPE x = read(a[i]), y = read(b[i]);                                                   \
            r[i] = (STORAGE)(expression);                                                          \
        }                                                                                          \
    }
#define EMU_TERNARY(name, STORAGE, TYPE, read, expression)                                         \
    EMU_LANE_FUNCTION(name)                                                                        \
    {                                                                                              \
        const STORAGE *a = src[0], *b = src[1], *c = src[2];                                       \
        STORAGE *r = out;                                                                          \
        (void)insn;                                                                                \
        EMU_FOR_LANES                                                                              \
        {                                                                                          \
            TYPE x = read(a[i]), y = read(b[i]), z = read(c[i]);                                   \
            r[i] = (STORAGE)(expression);                                                          \
        }                                                                                          \
    }

// Find the function of a family for an instruction. The last one is built once, the others in every
// build.
typedef bool emu_lane_finder(const struct emu_insn *insn, struct emu_lane_info *info);

emu_lane_finder EMU_NAMED(emu_find_integer);
emu_lane_finder EMU_NAMED(emu_find_bits);
emu_lane_finder EMU_NAMED(emu_find_compare);
emu_lane_finder EMU_NAMED(emu_find_directed);
emu_lane_finder EMU_NAMED(emu_find_float);
emu_lane_finder EMU_NAMED(emu_find_half);
emu_lane_finder EMU_NAMED(emu_find_video);
emu_lane_finder EMU_NAMED(emu_find_convert);
emu_lane_finder emu_find_any_convert;
bool emu_is_conversion(const struct emu_insn *insn);

// The unsigned or bit type of the same width, for instructions that only depend on the width.
static inline enum emu_type emu_plain(enum emu_type type)
{
    switch (type) {
    case EMU_U8:
    case EMU_S8:
    case EMU_B8:
        return EMU_U8;
    case EMU_U16:
    case EMU_S16:
    case EMU_B16:
    case EMU_F16:
    case EMU_BF16:
    case EMU_E4M3X2:
    case EMU_E5M2X2:
        return EMU_U16;
    case EMU_U32:
    case EMU_S32:
    case EMU_B32:
    case EMU_F32:
    case EMU_F16X2:
    case EMU_BF16X2:
    case EMU_U16X2:
    case EMU_S16X2:
    case EMU_TF32:
        return EMU_U32;
    case EMU_U64:
    case EMU_S64:
    case EMU_B64:
    case EMU_F64:
    case EMU_F32X2:
        return EMU_U64;
    default:
        return type;
    }
}

#endif
