// SPDX-License-Identifier: MIT
#include "exec/lanes/formats.h"

const struct emu_format emu_format_f16 = { 5, 10, EMU_F16_NAN };
const struct emu_format emu_format_bf16 = { 8, 7, EMU_F16_NAN };
const struct emu_format emu_format_f32 = { 8, 23, EMU_F32_NAN };
const struct emu_format emu_format_f64 = { 11, 52, EMU_F64_NAN };

static bool rounds_up(enum emu_round round, bool negative, bool odd, bool half, bool below)
{
    switch (round) {
    case EMU_RZ:
    case EMU_RZI:
        return false;
    case EMU_RM:
    case EMU_RMI:
        return negative && (half || below);
    case EMU_RP:
    case EMU_RPI:
        return !negative && (half || below);
    default:
        return half && (below || odd);
    }
}

uint64_t emu_round_pack(const struct emu_format *format, enum emu_round round, bool negative,
                        int exponent, uint64_t significand, bool sticky)
{
    int fraction = format->fraction_bits;
    int bias = (1 << (format->exponent_bits - 1)) - 1;
    uint64_t sign = (uint64_t)negative << (format->exponent_bits + fraction);
    uint64_t infinity = ((UINT64_C(1) << format->exponent_bits) - 1) << fraction;
    if (significand == 0)
        return sign;
    // The leading one to bit 63: the value is significand * 2^(exponent - 63).
    int zeros = __builtin_clzll(significand);
    significand <<= zeros;
    exponent += 63 - zeros;
    int least = 1 - bias;
    // Below bit 63 - fraction all is rounded off; more of it where the result is subnormal.
    int dropped = 63 - fraction + (exponent < least ? least - exponent : 0);
    uint64_t kept = 0;
    bool half = false, below = sticky;
    if (dropped < 64) {
        kept = significand >> dropped;
        half = significand >> (dropped - 1) & 1;
        below = below || (significand & ((UINT64_C(1) << (dropped - 1)) - 1)) != 0;
    } else {
        half = dropped == 64;
        below = below || dropped > 64 || significand << 1 != 0;
    }
    kept += rounds_up(round, negative, kept & 1, half, below);
    // The leading one, and a carry out of the fraction, add to the exponent field.
    uint64_t field = exponent < least ? 0 : (uint64_t)(exponent - least);
    uint64_t bits = exponent > bias ? infinity : (field << fraction) + kept;
    if (bits < infinity)
        return sign | bits;
    bool finite =
        round == EMU_RZ || (round == EMU_RM && !negative) || (round == EMU_RP && negative);
    return sign | (finite ? infinity - 1 : infinity);
}

uint64_t emu_round_f64(const struct emu_format *format, enum emu_round round, double x)
{
    uint64_t bits = emu_f64_bits(x);
    bool negative = bits >> 63;
    int field = (int)(bits >> 52 & 0x7ff);
    uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    if (field == 0x7ff) {
        uint64_t infinity = ((UINT64_C(1) << format->exponent_bits) - 1) << format->fraction_bits;
        uint64_t sign = (uint64_t)negative << (format->exponent_bits + format->fraction_bits);
        return fraction ? format->nan : sign | infinity;
    }
    uint64_t significand = field ? fraction | UINT64_C(1) << 52 : fraction;
    return emu_round_pack(format, round, negative, (field ? field : 1) - 1075, significand, false);
}

// Float has so many bits more that rounding twice is rounding once.
uint16_t emu_half_add(bool bf16, uint16_t x, uint16_t y)
{
    if (bf16)
        return (uint16_t)emu_f32_to_bf16(emu_f32_bits(emu_bf16_to_f32(x) + emu_bf16_to_f32(y)));
    return (uint16_t)emu_f32_to_f16(emu_f32_bits(emu_f16_to_f32(x) + emu_f16_to_f32(y)));
}
