// SPDX-License-Identifier: MIT
// What is built once for any processor: the choice of a build of the lane functions; floating-point
// formats and rounding to any of them; cvt between any two types, with any rounding and modifier,
// one lane at a time, by integer arithmetic and exact steps in double.
#define EMU_VARIANT plain
#include "family.h"

#include <math.h>
#ifdef EMU_HAVE_AVX2
#include <cpuid.h>
#include <stdatomic.h>
#endif

// ---- formats ------------------------------------------------------------------------------------

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
    // Shift the leading one to bit 63. The value is then significand * 2^(exponent - 63).
    int zeros = __builtin_clzll(significand);
    significand <<= zeros;
    exponent += 63 - zeros;
    int least = 1 - bias;
    // Round off all bits below bit 63 - fraction, and more if the result is subnormal.
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

// float has enough extra bits that rounding twice equals rounding once.
uint16_t emu_half_add(bool bf16, uint16_t x, uint16_t y)
{
    if (bf16)
        return (uint16_t)emu_f32_to_bf16(emu_f32_bits(emu_bf16_to_f32(x) + emu_bf16_to_f32(y)));
    return (uint16_t)emu_f32_to_f16(emu_f32_bits(emu_f16_to_f32(x) + emu_f16_to_f32(y)));
}

// ---- conversions --------------------------------------------------------------------------------

static bool is_float(enum emu_type type)
{
    return type == EMU_F16 || type == EMU_BF16 || type == EMU_F32 || type == EMU_F64;
}

static const struct emu_format *format_of(enum emu_type type)
{
    switch (type) {
    case EMU_F16:
        return &emu_format_f16;
    case EMU_BF16:
        return &emu_format_bf16;
    case EMU_F32:
        return &emu_format_f32;
    default:
        return &emu_format_f64;
    }
}

static uint64_t low_bits(uint64_t x, unsigned bits)
{
    return bits >= 64 ? x : x & ((UINT64_C(1) << bits) - 1);
}

static unsigned type_bits(enum emu_type type)
{
    switch (emu_plain(type)) {
    case EMU_U8:
        return 8;
    case EMU_U16:
        return 16;
    case EMU_U32:
        return 32;
    default:
        return 64;
    }
}

// Exact.
static double float_value(enum emu_type type, uint64_t bits)
{
    switch (type) {
    case EMU_F16:
        return (double)emu_f16_to_f32((uint16_t)bits);
    case EMU_BF16:
        return (double)emu_bf16_to_f32((uint16_t)bits);
    case EMU_F32:
        return (double)emu_f32((uint32_t)bits);
    default:
        return emu_f64(bits);
    }
}

static double to_integral(unsigned round, double x)
{
    switch (round) {
    case EMU_RNI:
    case EMU_RN: {
        double magnitude = fabs(x), whole = floor(magnitude), rest = magnitude - whole;
        if (rest > 0.5 || (rest == 0.5 && fmod(whole, 2) != 0))
            whole += 1;
        return copysign(whole, x);
    }
    case EMU_RMI:
    case EMU_RM:
        return floor(x);
    case EMU_RPI:
    case EMU_RP:
        return ceil(x);
    default:
        return trunc(x);
    }
}

// Out of range: the nearest end of the range. NaN, as the PTX manual says of cvt: 0, but only the
// top bit is set if the source is f64 or the result has 64 bits.
static uint64_t float_to_integer(const struct emu_insn *insn, double x)
{
    enum emu_type to = insn->type;
    unsigned bits = type_bits(to);
    if (isnan(x))
        return insn->source_type == EMU_F64 || bits == 64 ? UINT64_C(1) << (bits - 1) : 0;
    x = to_integral(insn->round, x);
    double end = ldexp(1, (int)bits - (emu_is_signed(to) ? 1 : 0));
    if (emu_is_signed(to)) {
        if (x >= end)
            return (UINT64_C(1) << (bits - 1)) - 1;
        if (x < -end)
            return UINT64_C(1) << (bits - 1);
        return low_bits((uint64_t)(int64_t)x, bits);
    }
    if (x >= end)
        return low_bits(UINT64_MAX, bits);
    return x <= 0 ? 0 : (uint64_t)x;
}

static uint64_t integer_to_float(const struct emu_insn *insn, uint64_t bits)
{
    unsigned width = type_bits(insn->source_type);
    bool negative = emu_is_signed(insn->source_type) && bits >> (width - 1) & 1;
    uint64_t magnitude = negative ? low_bits(UINT64_C(0) - bits, width) : bits;
    return emu_round_pack(format_of(insn->type), insn->round, negative, 0, magnitude, false);
}

static uint64_t integer_to_integer(const struct emu_insn *insn, uint64_t bits)
{
    unsigned from = type_bits(insn->source_type), to = type_bits(insn->type);
    bool negative = emu_is_signed(insn->source_type) && bits >> (from - 1) & 1;
    uint64_t wide = negative && from < 64 ? bits | UINT64_MAX << from : bits;
    if (!insn->sat)
        return low_bits(wide, to);
    uint64_t most =
        emu_is_signed(insn->type) ? low_bits(UINT64_MAX, to - 1) : low_bits(UINT64_MAX, to);
    if (negative) {
        if (!emu_is_signed(insn->type))
            return 0;
        int64_t least = -(int64_t)most - 1;
        return low_bits((int64_t)wide < least ? (uint64_t)least : wide, to);
    }
    return wide > most ? most : wide;
}

static uint64_t flush(const struct emu_format *format, uint64_t bits)
{
    uint64_t exponent = ((UINT64_C(1) << format->exponent_bits) - 1) << format->fraction_bits;
    uint64_t sign = UINT64_C(1) << (format->exponent_bits + format->fraction_bits);
    return bits & exponent ? bits : bits & sign;
}

// Clamps to [0, 1]; NaN and -0 become +0.
static uint64_t saturate(const struct emu_format *format, uint64_t bits)
{
    uint64_t sign = UINT64_C(1) << (format->exponent_bits + format->fraction_bits);
    uint64_t infinity = ((UINT64_C(1) << format->exponent_bits) - 1) << format->fraction_bits;
    uint64_t one = ((UINT64_C(1) << (format->exponent_bits - 1)) - 1) << format->fraction_bits;
    if (bits & sign || bits > infinity)
        return 0;
    return bits > one ? one : bits;
}

// Conversions from and to f64 keep a NaN's sign and the upper bits of its payload, and make it
// quiet. With ftz, a conversion to f64 goes through f32, whose NaN is canonical. Every other
// conversion gives the canonical NaN.
static uint64_t convert_nan(const struct emu_insn *insn, uint64_t bits)
{
    const struct emu_format *from = format_of(insn->source_type), *to = format_of(insn->type);
    if (insn->ftz && insn->type == EMU_F64)
        return UINT64_C(0x7fffffffe0000000);
    if (insn->type != EMU_F64 && insn->source_type != EMU_F64)
        return to->nan;
    uint64_t sign = bits >> (from->exponent_bits + from->fraction_bits) & 1;
    uint64_t payload = bits << (64 - from->fraction_bits) >> (64 - to->fraction_bits);
    uint64_t exponent = (UINT64_C(1) << to->exponent_bits) - 1;
    return sign << (to->exponent_bits + to->fraction_bits) | exponent << to->fraction_bits |
           UINT64_C(1) << (to->fraction_bits - 1) | payload;
}

static uint64_t float_to_float(const struct emu_insn *insn, uint64_t bits)
{
    const struct emu_format *format = format_of(insn->type);
    double x = float_value(insn->source_type, bits);
    uint64_t result;
    if (isnan(x))
        result = convert_nan(insn, bits);
    else if (insn->round >= EMU_RNI && insn->round <= EMU_RPI)
        result = emu_round_f64(format, EMU_RN, to_integral(insn->round, x));
    else
        result = emu_round_f64(format, insn->round, x);
    if (insn->ftz && insn->type == EMU_F32)
        result = flush(format, result);
    if (insn->sat)
        result = saturate(format, result);
    uint64_t sign = UINT64_C(1) << (format->exponent_bits + format->fraction_bits);
    uint64_t infinity = ((UINT64_C(1) << format->exponent_bits) - 1) << format->fraction_bits;
    if (insn->satfinite && (result & ~sign) == infinity)
        result--;
    if (insn->relu && result & sign && !isnan(x))
        result = 0;
    return result;
}

static uint64_t convert(const struct emu_insn *insn, uint64_t bits)
{
    bits = low_bits(bits, type_bits(insn->source_type));
    // A conversion to f16 does not flush its source, even with ftz.
    bool small = insn->source_type == EMU_F32 || insn->source_type == EMU_BF16;
    if (insn->ftz && small && insn->type != EMU_F16)
        bits = flush(format_of(insn->source_type), bits);
    if (is_float(insn->type))
        return is_float(insn->source_type) ? float_to_float(insn, bits)
               : insn->sat ? saturate(format_of(insn->type), integer_to_float(insn, bits))
                           : integer_to_float(insn, bits);
    return is_float(insn->source_type)
               ? float_to_integer(insn, float_value(insn->source_type, bits))
               : integer_to_integer(insn, bits);
}

EMU_LANE_FUNCTION(convert_lanes)
{
    const uint32_t *a = src[0];
    const uint64_t *wide = src[0];
    uint32_t *r = out;
    uint64_t *wide_r = out;
    bool from_64 = emu_lane_width(insn->source_type) == 8, to_64 = emu_lane_width(insn->type) == 8;
    EMU_FOR_LANES
    {
        uint64_t x = convert(insn, from_64 ? wide[i] : a[i]);
        if (to_64)
            wide_r[i] = x;
        else
            r[i] = (uint32_t)x;
    }
}

// Two f32 in one register: the first source in the upper half.
EMU_LANE_FUNCTION(convert_pack)
{
    const uint32_t *a = src[0], *b = src[1];
    uint32_t *r = out;
    struct emu_insn half = *insn;
    half.type = insn->type == EMU_F16X2 ? EMU_F16 : EMU_BF16;
    half.source_type = EMU_F32;
    EMU_FOR_LANES r[i] = (uint32_t)(convert(&half, a[i]) << 16 | convert(&half, b[i]));
}

// ---- floats of 8 bits, tf32 ---------------------------------------------------------------------

// The largest value is that of all exponents and fractions but NaN, and infinity in e5m2.
struct small_format {
    int exponent_bits, fraction_bits;
    unsigned most;
};

enum { FP8_NAN = 0x7f };

static const struct small_format *small_format(enum emu_type type)
{
    static const struct small_format e4m3 = { 4, 3, 0x7e }, e5m2 = { 5, 2, 0x7b };
    return type == EMU_E4M3X2 ? &e4m3 : &e5m2;
}

// To nearest even; what is too large, and infinity, becomes the largest value.
static uint32_t narrow(const struct emu_insn *insn, double x)
{
    const struct small_format *format = small_format(insn->type);
    const int least = 2 - (1 << (format->exponent_bits - 1));
    const unsigned sign = signbit(x) ? 0x80 : 0;
    int exponent;
    if (isnan(x))
        return FP8_NAN;
    if (insn->relu && sign)
        return 0;
    if (isinf(x))
        return sign | format->most;
    frexp(x, &exponent);
    exponent = x == 0 || exponent - 1 < least ? least : exponent - 1;
    // In units of the last place; the leading one, and a carry, add to the exponent field.
    double units = to_integral(EMU_RN, ldexp(fabs(x), format->fraction_bits - exponent));
    unsigned bits = ((unsigned)(exponent - least) << format->fraction_bits) + (unsigned)units;
    return sign | (bits > format->most ? format->most : bits);
}

// Exact.
static uint32_t widen(const struct emu_insn *insn, uint32_t x)
{
    const struct small_format *format = small_format(insn->source_type);
    const int least = 2 - (1 << (format->exponent_bits - 1));
    const unsigned magnitude = x & 0x7f, fraction = magnitude % (1u << format->fraction_bits);
    const unsigned field = magnitude >> format->fraction_bits;
    const uint32_t sign = (x & 0x80) << 8;
    if (magnitude > format->most)
        return format->most == 0x7b && magnitude == 0x7c ? (insn->relu && sign ? 0 : sign | 0x7c00)
                                                         : EMU_F16_NAN;
    if (insn->relu && sign)
        return 0;
    const unsigned units = field ? fraction | 1u << format->fraction_bits : fraction;
    const int exponent = least + (field ? (int)field - 1 : 0) - format->fraction_bits;
    return sign | (uint32_t)emu_round_f64(&emu_format_f16, EMU_RN, ldexp(units, exponent));
}

// Two floats in one register: of two sources, the first goes to the upper half.
EMU_LANE_FUNCTION(narrow_pack)
{
    const uint32_t *a = src[0], *b = src[1];
    uint32_t *r = out;
    EMU_FOR_LANES r[i] =
        narrow(insn, (double)emu_f32(a[i])) << 8 | narrow(insn, (double)emu_f32(b[i]));
}

EMU_LANE_FUNCTION(narrow_halves)
{
    const uint32_t *a = src[0];
    uint32_t *r = out;
    EMU_FOR_LANES r[i] = narrow(insn, (double)emu_f16_to_f32((uint16_t)(a[i] >> 16))) << 8 |
                         narrow(insn, (double)emu_f16_to_f32((uint16_t)a[i]));
}

EMU_LANE_FUNCTION(widen_pair)
{
    const uint32_t *a = src[0];
    uint32_t *r = out;
    EMU_FOR_LANES r[i] = widen(insn, a[i] >> 8 & 0xff) << 16 | widen(insn, a[i] & 0xff);
}

// f32 without its last 13 bits. With .rna, an H200 takes NaNs for numbers: it cuts their bits off,
// so that some become infinite, and .satfinite makes each of them the one below it.
static uint32_t to_tf32(const struct emu_insn *insn, uint32_t x)
{
    const uint32_t half = 0x1000, last = 0x2000, infinity = UINT32_C(0x7f800000);
    const uint32_t sign = x & UINT32_C(0x80000000);
    uint32_t magnitude = x ^ sign;
    if (insn->round != EMU_RNA && magnitude > infinity)
        return EMU_TF32_NAN;
    if (insn->relu && sign)
        return 0;
    if (insn->round == EMU_RNA && magnitude < infinity)
        magnitude += half;
    else if (insn->round == EMU_RN)
        magnitude += half - 1 + (magnitude / last & 1);
    magnitude &= ~(last - 1);
    if (insn->satfinite && magnitude >= infinity)
        magnitude = insn->round == EMU_RNA ? magnitude - last : infinity - last;
    return sign | magnitude;
}

EMU_LANE_FUNCTION(round_tf32)
{
    const uint32_t *a = src[0];
    uint32_t *r = out;
    EMU_FOR_LANES r[i] = to_tf32(insn, a[i]);
}

static emu_lane_function *small_convert(const struct emu_insn *insn)
{
    const bool from = insn->source_type == EMU_E4M3X2 || insn->source_type == EMU_E5M2X2;
    if (insn->type == EMU_TF32)
        return insn->source_type == EMU_F32 && insn->src_count == 1 ? round_tf32 : NULL;
    if (insn->type == EMU_E4M3X2 || insn->type == EMU_E5M2X2)
        return insn->source_type == EMU_F32 && insn->src_count == 2     ? narrow_pack
               : insn->source_type == EMU_F16X2 && insn->src_count == 1 ? narrow_halves
                                                                        : NULL;
    return from && insn->type == EMU_F16X2 && insn->src_count == 1 ? widen_pair : NULL;
}

// ---- the function for a conversion --------------------------------------------------------------

bool emu_is_conversion(const struct emu_insn *insn)
{
    switch (insn->opcode) {
#define INSTRUCTION(opcode, mnemonic, handler, lanes, ...)                                         \
    case EMU_OP_##opcode:                                                                          \
        lanes break;
#define CONVERSIONS return true;
#include "isa.def"
    default:
        break;
    }
    return false;
}

bool emu_find_any_convert(const struct emu_insn *insn, struct emu_lane_info *info)
{
    const bool packed = insn->type == EMU_F16X2 || insn->type == EMU_BF16X2;
    if (!emu_is_conversion(insn))
        return false;
    if (insn->type > EMU_BF16X2 || insn->source_type > EMU_BF16X2) {
        info->fn = small_convert(insn);
        return info->fn != NULL;
    }
    info->fn = packed ? convert_pack : convert_lanes;
    if (packed)
        return insn->src_count == 2 && insn->source_type == EMU_F32;
    return insn->src_count == 1 && insn->type != EMU_PRED && insn->type != EMU_NONE &&
           insn->source_type != EMU_PRED && insn->source_type != EMU_NONE &&
           insn->source_type < EMU_F16X2;
}

// ---- the functions of a build -------------------------------------------------------------------

static emu_lane_finder *const plain[] = {
    emu_find_integer_plain,  emu_find_bits_plain,    emu_find_compare_plain,
    emu_find_directed_plain, emu_find_float_plain,   emu_find_half_plain,
    emu_find_video_plain,    emu_find_convert_plain, emu_find_any_convert,
};

extern const struct emu_access_build emu_access_plain;
emu_tile_function emu_tile_plain;

#ifdef EMU_HAVE_AVX2
extern const struct emu_access_build emu_access_avx2;
emu_tile_function emu_tile_avx2;
emu_lane_finder emu_find_integer_avx2, emu_find_bits_avx2, emu_find_compare_avx2,
    emu_find_directed_avx2, emu_find_float_avx2, emu_find_half_avx2, emu_find_video_avx2,
    emu_find_convert_avx2;

static emu_lane_finder *const avx2[] = {
    emu_find_integer_avx2,  emu_find_bits_avx2,    emu_find_compare_avx2,
    emu_find_directed_avx2, emu_find_float_avx2,   emu_find_half_avx2,
    emu_find_video_avx2,    emu_find_convert_avx2, emu_find_any_convert,
};

// Not by __builtin_cpu_supports(), which needs a runtime library of the compiler. Zig's has an
// fma() of its own, which then takes the place of libm's and ignores the rounding mode.
static enum emu_lane_build build_for_processor(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_FMA) || !(c & bit_OSXSAVE))
        return EMU_LANES_PLAIN;
    unsigned saved, high;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    const unsigned sse_and_avx = 6; // what the system saves of the registers
    if ((saved & sse_and_avx) != sse_and_avx || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return EMU_LANES_PLAIN;
    return b & bit_AVX2 ? EMU_LANES_AVX2 : EMU_LANES_PLAIN;
}

enum emu_lane_build emu_lane_build(void)
{
    static _Atomic int known; // 1 + the build; asking the processor is slow on virtual machines
    int build = atomic_load_explicit(&known, memory_order_relaxed);
    if (build == 0) {
        build = 1 + (int)build_for_processor();
        atomic_store_explicit(&known, build, memory_order_relaxed);
    }
    return (enum emu_lane_build)(build - 1);
}
#else
#define avx2            plain
#define emu_access_avx2 emu_access_plain
#define emu_tile_avx2   emu_tile_plain

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

const struct emu_access_build *emu_access_of(enum emu_lane_build build)
{
    return build == EMU_LANES_AVX2 ? &emu_access_avx2 : &emu_access_plain;
}

emu_tile_function *emu_tile_of(enum emu_lane_build build)
{
    return build == EMU_LANES_AVX2 ? emu_tile_avx2 : emu_tile_plain;
}
