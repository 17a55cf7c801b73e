// SPDX-License-Identifier: MIT
// The 16-bit floating-point formats, and rounding to any format by integer arithmetic alone.
#ifndef PTXGEN_EMULATOR_EXEC_FORMATS_H
#define PTXGEN_EMULATOR_EXEC_FORMATS_H

#include "exec/lanes/lanes.h"

struct emu_format {
    int exponent_bits, fraction_bits;
    uint64_t nan;
};

extern const struct emu_format emu_format_f16, emu_format_bf16, emu_format_f32, emu_format_f64;

// The value of significand * 2^exponent in the format; `sticky` says that something not zero lies
// below the significand's last bit. Beyond the largest value: infinity, or the largest where the
// rounding mode has it so. A zero significand gives a zero of that sign, sticky or not.
uint64_t emu_round_pack(const struct emu_format *format, enum emu_round round, bool negative,
                        int exponent, uint64_t significand, bool sticky);
// Rounds any double; a NaN becomes the NaN of the format.
uint64_t emu_round_f64(const struct emu_format *format, enum emu_round round, double x);

// Exact. Subnormals without a number of float's that is one, which processors are slow with.
static inline float emu_f16_to_f32(uint16_t h)
{
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, exponent = h & 0x7c00;
    uint32_t normal = magnitude + (UINT32_C(112) << 23);
    uint32_t small = emu_f32_bits(emu_f32(magnitude + (UINT32_C(113) << 23)) - 0x1p-14f);
    uint32_t bits = exponent == 0 ? small & UINT32_C(0x7fffffff) : normal;
    bits = exponent == 0x7c00 ? magnitude | UINT32_C(0x7f800000) : bits;
    return emu_f32(bits | (uint32_t)(h & 0x8000) << 16);
}

static inline float emu_bf16_to_f32(uint16_t h)
{
    return emu_f32((uint32_t)h << 16);
}

// To nearest even, the usual case, without branches.
static inline uint32_t emu_f32_to_bf16(uint32_t x)
{
    uint32_t rounded = (x + 0x7fff + (x >> 16 & 1)) >> 16;
    return (x & UINT32_C(0x7fffffff)) > UINT32_C(0x7f800000) ? EMU_F16_NAN : rounded;
}

static inline uint32_t emu_f32_to_f16(uint32_t x)
{
    uint32_t sign = x >> 16 & 0x8000, magnitude = x & UINT32_C(0x7fffffff);
    // Normal results: the exponent is rebiased and 13 bits are rounded off; a carry runs into the
    // exponent as it should.
    uint32_t normal = (magnitude - (UINT32_C(112) << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    // Subnormal ones: added to a number whose last bit is the format's, the sum is rounded there.
    uint32_t small = emu_f32_bits(emu_f32(magnitude) + 0.5f) - UINT32_C(0x3f000000);
    uint32_t h = magnitude < UINT32_C(0x38800000) ? small : normal;
    h = magnitude >= UINT32_C(0x477ff000) ? 0x7c00 : h;
    return magnitude > UINT32_C(0x7f800000) ? EMU_F16_NAN : h | sign;
}

// Conversions that no lane family has.
bool emu_find_any_convert(const struct emu_insn *insn, struct emu_lane_info *info);
// Old value and operand of an atomic add.
uint16_t emu_half_add(bool bf16, uint16_t x, uint16_t y);

#endif
