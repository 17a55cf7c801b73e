// SPDX-License-Identifier: MIT
#include "exec/half.h"

#define EMU_VARIANT plain
#include "family.h"

#ifdef EMU_HAVE_AVX2
bool emu_find_integer_avx2(const struct emu_insn *insn, struct emu_lane_info *info);
bool emu_find_bits_avx2(const struct emu_insn *insn, struct emu_lane_info *info);
bool emu_find_fields_avx2(const struct emu_insn *insn, struct emu_lane_info *info);
bool emu_find_compare_avx2(const struct emu_insn *insn, struct emu_lane_info *info);
bool emu_find_float_avx2(const struct emu_insn *insn, struct emu_lane_info *info);
bool emu_find_half_avx2(const struct emu_insn *insn, struct emu_lane_info *info);
bool emu_find_convert_avx2(const struct emu_insn *insn, struct emu_lane_info *info);

static bool find_avx2(const struct emu_insn *insn, struct emu_lane_info *info)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return false;
    return emu_find_convert_avx2(insn, info) || emu_find_compare_avx2(insn, info) ||
           emu_find_float_avx2(insn, info) || emu_find_half_avx2(insn, info) ||
           emu_find_integer_avx2(insn, info) || emu_find_bits_avx2(insn, info) ||
           emu_find_fields_avx2(insn, info);
}
#else
static bool find_avx2(const struct emu_insn *insn, struct emu_lane_info *info)
{
    (void)insn;
    (void)info;
    return false;
}
#endif

bool emu_lane_find(const struct emu_insn *insn, struct emu_lane_info *info)
{
    return find_avx2(insn, info) || emu_find_convert_plain(insn, info) ||
           emu_find_any_convert(insn, info) || emu_find_compare_plain(insn, info) ||
           emu_find_float_plain(insn, info) || emu_find_approximate(insn, info) ||
           emu_find_half_plain(insn, info) || emu_find_integer_plain(insn, info) ||
           emu_find_bits_plain(insn, info) || emu_find_fields_plain(insn, info);
}
