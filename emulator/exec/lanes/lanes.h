// SPDX-License-Identifier: MIT
// Arithmetic over the 32 lanes of a warp: one function for each instruction and type. A function
// computes every lane, active or not, and never faults or traps. The caller keeps the lanes that it
// needs.
#ifndef PTXGEN_EMULATOR_EXEC_LANES_LANES_H
#define PTXGEN_EMULATOR_EXEC_LANES_LANES_H

#include "ptx/program.h"

#include <string.h>

// Sources and result are lanes of uint32_t, or of uint64_t for 64-bit types; a predicate is one
// mask. Float arithmetic uses the rounding mode of the calling thread.
typedef void emu_lane_function(void *restrict out, const void *const *src,
                               const struct emu_insn *insn);

struct emu_lane_info {
    emu_lane_function *fn;
    bool is_float; // ftz, sat and rounding modes apply to it, from outside
};

// Builds of the functions: for any processor, and for one with AVX2 and FMA.
enum emu_lane_build { EMU_LANES_PLAIN, EMU_LANES_AVX2 };

// The best that this processor runs.
enum emu_lane_build emu_lane_build(void);
// The function for an instruction, by its row in isa.def; false if the row has none for its type.
bool emu_lane_find(enum emu_lane_build build, const struct emu_insn *insn,
                   struct emu_lane_info *info);

// NaN results, as on an H200. f32 and the 16-bit formats: always the canonical NaN. f64: a NaN
// operand, made quiet, with its sign and payload; EMU_F64_NAN if no operand was NaN. Of several
// NaNs, add, sub, mul, min and max take that of the second operand, div of the first, fma of y, z,
// x in this order.
#define EMU_F16_NAN UINT32_C(0x7fff)
#define EMU_F32_NAN UINT32_C(0x7fffffff)
#define EMU_F64_NAN UINT64_C(0xfff8000000000000)

static inline float emu_f32(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline uint32_t emu_f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline double emu_f64(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline uint64_t emu_f64_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline bool emu_is_nan64(uint64_t x)
{
    return (x & UINT64_C(0x7fffffffffffffff)) > UINT64_C(0x7ff0000000000000);
}

static inline uint64_t emu_quiet64(uint64_t x)
{
    return x | UINT64_C(0x0008000000000000);
}

// The bits of a NaN result: those of the first NaN operand.
static inline uint64_t emu_nan64(uint64_t first, uint64_t second)
{
    return emu_is_nan64(first)    ? emu_quiet64(first)
           : emu_is_nan64(second) ? emu_quiet64(second)
                                  : EMU_F64_NAN;
}

#endif
