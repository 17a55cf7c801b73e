// SPDX-License-Identifier: MIT
#include "lanes.h"

#define EMU_VARIANT plain
#include "family.h"

static emu_lane_finder *const plain[] = {
    emu_find_integer_plain, emu_find_bits_plain,    emu_find_compare_plain, emu_find_float_plain,
    emu_find_half_plain,    emu_find_convert_plain, emu_find_any_convert,
};

#ifdef EMU_HAVE_AVX2
emu_lane_finder emu_find_integer_avx2, emu_find_bits_avx2, emu_find_compare_avx2,
    emu_find_float_avx2, emu_find_half_avx2, emu_find_convert_avx2;

static emu_lane_finder *const avx2[] = {
    emu_find_integer_avx2, emu_find_bits_avx2,    emu_find_compare_avx2, emu_find_float_avx2,
    emu_find_half_avx2,    emu_find_convert_avx2, emu_find_any_convert,
};

enum emu_lane_build emu_lane_build(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? EMU_LANES_AVX2
                                                                           : EMU_LANES_PLAIN;
}
#else
#define avx2 plain

enum emu_lane_build emu_lane_build(void)
{
    return EMU_LANES_PLAIN;
}
#endif

bool emu_lane_find(enum emu_lane_build build, const struct emu_insn *insn,
                   struct emu_lane_info *info)
{
    emu_lane_finder *const *finders = build == EMU_LANES_AVX2 ? avx2 : plain;
    for (unsigned k = 0; k < sizeof(plain) / sizeof(*plain); k++) {
        *info = (struct emu_lane_info) { NULL, false };
        if (finders[k](insn, info))
            return true;
    }
    return false;
}
