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
// The result may take the place of a source: a function writes a lane after it has read it, and
// reads no lane of a source after that.
//
// Returns true, so that a step (exec/step.h) may end with the call.
typedef bool emu_lane_function(void *out, const void *x, const void *y, const void *z,
                               const void *w, const struct emu_insn *insn);

// The function on these sources. Those that it does not have may be anything.
static inline void emu_apply(emu_lane_function *fn, void *out, const void *const src[4],
                             const struct emu_insn *insn)
{
    fn(out, src[0], src[1], src[2], src[3], insn);
}

struct emu_lane_info {
    emu_lane_function *fn;
    bool is_float; // ftz, sat and rounding modes apply to it, from outside
};

// Builds of the functions: for any processor, and for one with AVX2 and FMA.
enum emu_lane_build { EMU_LANES_PLAIN, EMU_LANES_AVX2 };

// The fastest build that this processor runs.
enum emu_lane_build emu_lane_build(void);
// The function for an instruction, by its row in isa.def; false if the row has none for its type.
bool emu_lane_find(enum emu_lane_build build, const struct emu_insn *insn,
                   struct emu_lane_info *info);

// How the lanes of a warp access memory together, `step` bytes each, a power of two.
struct emu_access_build {
    // The distance of each lane's address from that of the first lane of the mask; 0 for lanes that
    // are not in it. False if one is below `low` or above `high` (low <= 0 <= high, both int32_t),
    // or not a multiple of `step`. `in_row`: all lanes access memory, one after the other.
    bool (*reach_words)(int32_t *restrict away, const uint32_t *restrict address, uint32_t mask,
                        uint32_t step, int32_t low, int32_t high, bool *in_row);
    bool (*reach_longs)(int32_t *restrict away, const uint64_t *restrict address, uint32_t mask,
                        uint32_t step, int64_t low, int64_t high, bool *in_row);
    // Loads 1, 2 or 4 bytes into words, 8 into longs.
    void (*load)(void *restrict out, const unsigned char *from, const int32_t *away,
                 unsigned bytes);
    // Whether the bytes are all 1: in a row; those of each lane.
    bool (*all_ones)(const unsigned char *from, uint32_t bytes);
    bool (*each_ones)(const unsigned char *from, const int32_t *away, uint32_t bytes);
};
const struct emu_access_build *emu_access_of(enum emu_lane_build build);

// Products of matrices that a vector unit makes quickly: m16n8 of f16, with sums in f32. Elements
// of a row of A; registers of C.
enum { EMU_TILE_MOST = 16, EMU_TILE_SUMS = 4 };

// How a generation sums: `step` products at once, aligned to the largest exponent or to `least`,
// and cut off behind so many bits of fraction.
struct emu_tile_sums {
    int fraction, least;
    unsigned step; // 8 or 16
};

// Sets d, or returns false, where there are infinities, NaNs, sums beyond f32's normal numbers and
// the like. Registers are those of mma, of all lanes; `depth` is 8 or 16.
typedef bool emu_tile_function(const struct emu_tile_sums *g, unsigned depth,
                               const uint32_t *const *a, const uint32_t *const *b,
                               const uint32_t *const *c, uint32_t d[EMU_TILE_SUMS][EMU_LANES]);
emu_tile_function *emu_tile_of(enum emu_lane_build build);

// Bytes that a value of the type takes for each lane.
static inline uint8_t emu_lane_width(enum emu_type type)
{
    switch (type) {
    case EMU_PRED:
        return 0;
    case EMU_U64:
    case EMU_S64:
    case EMU_B64:
    case EMU_F64:
    case EMU_F32X2:
        return 8;
    default:
        return 4;
    }
}

// NaN results, as on an H200. f32 and the 16-bit formats: always the canonical NaN. f64: a NaN
// operand, made quiet, with its sign and payload; EMU_F64_NAN if no operand was NaN. Of several
// NaNs, add, sub, mul, min and max take that of the second operand, div of the first, fma of y, z,
// x in this order.
#define EMU_F16_NAN  UINT32_C(0x7fff)
#define EMU_F32_NAN  UINT32_C(0x7fffffff)
#define EMU_TF32_NAN UINT32_C(0x7fffe000)
#define EMU_F64_NAN  UINT64_C(0xfff8000000000000)

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

// ---- formats: of 16 bits, and rounding to any by integer arithmetic alone -----------------------

struct emu_format {
    int exponent_bits, fraction_bits;
    uint64_t nan;
};

extern const struct emu_format emu_format_f16, emu_format_bf16, emu_format_f32, emu_format_f64;

// The value of significand * 2^exponent in the format. `sticky`: bits below the significand's last
// one are not all zero. Beyond the largest value the result is infinity, or the largest value,
// whichever the rounding mode gives. A zero significand gives a zero with that sign, sticky or not.
uint64_t emu_round_pack(const struct emu_format *format, enum emu_round round, bool negative,
                        int exponent, uint64_t significand, bool sticky);
// Rounds any double; a NaN becomes the NaN of the format.
uint64_t emu_round_f64(const struct emu_format *format, enum emu_round round, double x);

// Exact. Computes with no subnormal float, because processors are slow with them.
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
    // Normal results: rebias the exponent and round off 13 bits. A carry goes into the exponent,
    // which is right.
    uint32_t normal = (magnitude - (UINT32_C(112) << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    // Subnormal results: add a number whose last bit is that of the format. The sum rounds there.
    uint32_t small = emu_f32_bits(emu_f32(magnitude) + 0.5f) - UINT32_C(0x3f000000);
    uint32_t h = magnitude < UINT32_C(0x38800000) ? small : normal;
    h = magnitude >= UINT32_C(0x477ff000) ? 0x7c00 : h;
    return magnitude > UINT32_C(0x7f800000) ? EMU_F16_NAN : h | sign;
}

// The sum of an atomic add.
uint16_t emu_half_add(bool bf16, uint16_t x, uint16_t y);

#endif
