// SPDX-License-Identifier: MIT
#include "internal.h"

#include <math.h>
#include <stdio.h>

const struct type_row ptxb_types[PTX_TYPE_COUNT] = { { "none", 0, 0 },
#define ROW(name, text, bits, file) { text, bits, FILE_##file },
                                                     PTX_TYPES(ROW)
#undef ROW
};

static const struct {
    struct ptx_target target;
    int isa;
} targets[] = {
#define ROW(sm, suffix, isa) { { sm, suffix }, isa },
    PTX_TARGETS(ROW)
#undef ROW
};

const char *ptx_type_name(ptx_type type)
{
    return (unsigned)type < PTX_TYPE_COUNT ? ptxb_types[type].name : ptxb_types[0].name;
}

ptx_type ptx_type_parse(const char *name)
{
    for (unsigned t = 1; name && t < PTX_TYPE_COUNT; t++)
        if (!strcmp(ptxb_types[t].name, name))
            return (ptx_type)t;
    return PTX_NONE;
}

unsigned ptx_type_bytes(ptx_type type)
{
    return ptxb_bits(type) / 8;
}

ptx_type ptxb_bits_type(ptx_type type)
{
    switch (ptxb_bits(type)) {
    case 1:
        return PTX_PRED;
    case 8:
    case 16:
        return PTX_B16;
    case 32:
        return PTX_B32;
    default:
        return PTX_B64;
    }
}

ptx_type ptxb_mov_type(ptx_type type)
{
    const bool typed = type == PTX_PRED || (ptxb_bits(type) > 8 && !(PTX_TYPES_BF16S >> type & 1) &&
                                            !(PTX_TYPES_F16S >> type & 1) && type < PTX_E4M3X2);
    return typed ? type : ptxb_bits_type(type);
}

const char *ptxb_memory_name(ptx_type type)
{
    switch (type) {
    case PTX_F16:
    case PTX_BF16:
    case PTX_E4M3X2:
    case PTX_E5M2X2:
        return "b16";
    case PTX_F16X2:
    case PTX_BF16X2:
    case PTX_TF32:
        return "b32";
    default:
        return ptx_type_name(type);
    }
}

const char *ptxb_type_list(uint32_t set, char out[160])
{
    size_t length = 0;
    unsigned left = 0;

    for (unsigned t = 1; t < PTX_TYPE_COUNT; t++)
        left += set >> t & 1;
    for (unsigned t = 1; t < PTX_TYPE_COUNT; t++) {
        if (!(set >> t & 1))
            continue;
        left--;
        const char *sep = left == 0 ? "" : left == 1 ? " or " : ", ";
        length += (size_t)snprintf(out + length, 160 - length, "%s%s", ptxb_types[t].name, sep);
    }
    return out;
}

static const char *const spaces[] = {
    ".generic", ".global", ".shared", ".local", ".param", ".const"
};

const char *ptxb_space_name(unsigned space)
{
    return space <= PTX_SPACE_CONST ? spaces[space] + 1 : "none";
}

const char *ptxb_space_text(unsigned space)
{
    return space != PTX_SPACE_GENERIC && space <= PTX_SPACE_CONST ? spaces[space] : "";
}

int ptxb_target_isa(struct ptx_target target)
{
    for (size_t k = 0; k < sizeof targets / sizeof *targets; k++)
        if (targets[k].target.sm == target.sm && targets[k].target.suffix == target.suffix)
            return targets[k].isa;
    return 0;
}

// The last versions of each major number; 9.5 is the newest known, and of 9 the last is not known
// yet.
bool ptx_isa_exists(int isa)
{
    return (isa >= 10 && isa < 60) || (isa >= 60 && isa <= 65) || (isa >= 70 && isa <= 78) ||
           (isa >= 80 && isa <= 88) || (isa >= 90 && isa <= 999);
}

bool ptx_target_at(size_t k, struct ptx_target *target, int *least_isa)
{
    if (k >= sizeof targets / sizeof *targets)
        return false;
    if (target)
        *target = targets[k].target;
    if (least_isa)
        *least_isa = targets[k].isa;
    return true;
}

bool ptx_target_newest(int sm, int isa, struct ptx_target *target)
{
    bool found = false;

    for (size_t k = 0; k < sizeof targets / sizeof *targets; k++) {
        if (targets[k].target.suffix || targets[k].target.sm > sm || (isa && targets[k].isa > isa))
            continue;
        *target = targets[k].target;
        found = true;
    }
    return found;
}

const char *ptx_target_name(struct ptx_target target, char name[PTX_TARGET_NAME_SIZE])
{
    const char suffix[] = { target.suffix, 0 };

    snprintf(name, PTX_TARGET_NAME_SIZE, "sm_%d%s", target.sm, suffix);
    return name;
}

bool ptx_target_parse(const char *name, struct ptx_target *target)
{
    char known[PTX_TARGET_NAME_SIZE];

    for (size_t k = 0; name && k < sizeof targets / sizeof *targets; k++) {
        if (strcmp(ptx_target_name(targets[k].target, known), name) != 0)
            continue;
        *target = targets[k].target;
        return true;
    }
    return false;
}

// A poisoned value that records what did not fit; see ptxb_fail_unusable().
static ptx_val unfit(ptx_type type, double x)
{
    ptx_val v = { .kind = PTX_KIND_POISON, .type = (uint8_t)type };
    memcpy(&v.bits, &x, sizeof v.bits);
    return v;
}

static ptx_val f32_immediate(double x)
{
    const double rounds_to_infinity = 0x1.ffffffp127; // and larger numbers
    uint32_t bits;

    if (isfinite(x) && fabs(x) >= rounds_to_infinity)
        return unfit(PTX_F32, x);
    const float single = (float)x;
    memcpy(&bits, &single, sizeof bits);
    return ptx_imm_bits(PTX_F32, bits);
}

static ptx_val f64_immediate(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return ptx_imm_bits(PTX_F64, bits);
}

// A finite `x` rounded to nearest even to a float with this many fraction and exponent bits. What
// is too large carries into bits that the format does not have.
static uint64_t round_finite(double x, int fraction, int exponent_bits)
{
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const uint64_t sign = (uint64_t)(signbit(x) != 0) << (fraction + exponent_bits);
    int exponent;
    const double magnitude = fabs(x);

    frexp(magnitude, &exponent);
    if (magnitude == 0)
        return sign;
    if (exponent - 1 < 1 - bias)
        exponent = 2 - bias; // subnormal: exponent of the least normal number
    // In units of the last place; the addition carries into the exponent if needed.
    uint64_t units = (uint64_t)nearbyint(ldexp(magnitude, fraction + 1 - exponent));
    uint64_t field = (uint64_t)(exponent - 1 + bias - 1);
    return sign | ((field << fraction) + units);
}

// The same with infinity, which is also what is too large, and NaN, whose bits are all ones.
static uint64_t round_to_small(double x, int fraction, int exponent_bits)
{
    const uint64_t sign = UINT64_C(1) << (fraction + exponent_bits);
    const uint64_t infinity = ((UINT64_C(1) << exponent_bits) - 1) << fraction;
    int exponent;

    if (isnan(x))
        return sign - 1;
    frexp(x, &exponent);
    if (isinf(x) || exponent > 1 << (exponent_bits - 1))
        return (signbit(x) ? sign : 0) | infinity;
    return round_finite(x, fraction, exponent_bits);
}

static bool fits(ptx_type type, double x)
{
    const double limit = ldexp(1, (int)ptxb_bits(type));
    const bool is_signed = type >= PTX_S8 && type <= PTX_S64;

    if (type == PTX_PRED)
        return x == 0 || x == 1;
    if (!(x == floor(x)))
        return false;
    return is_signed ? x >= -limit / 2 && x < limit / 2 : x >= 0 && x < limit;
}

// In one float, or in both halves of a packed type.
static ptx_val small_immediate(ptx_type type, double x, int fraction, int exponent_bits)
{
    const uint64_t sign = UINT64_C(1) << (fraction + exponent_bits);
    const uint64_t infinity = ((UINT64_C(1) << exponent_bits) - 1) << fraction;
    const uint64_t half = round_to_small(x, fraction, exponent_bits);
    const int bits = 1 + fraction + exponent_bits;

    if (isfinite(x) && (half & (sign - 1)) == infinity)
        return unfit(type, x);
    return ptx_imm_bits(type, (int)ptxb_bits(type) == 2 * bits ? half << bits | half : half);
}

// e4m3 has no infinity: its values go up to 448, and 464 is the last that rounds to it.
static ptx_val e4m3_immediate(double x)
{
    if (fabs(x) > 464) // infinity too
        return unfit(PTX_E4M3X2, x);
    const uint64_t half = isnan(x) ? 0x7f : round_finite(x, 3, 4);
    return ptx_imm_bits(PTX_E4M3X2, half << 8 | half);
}

// Ties to even, as every immediate; zeros in the last 13 bits.
static ptx_val tf32_immediate(double x)
{
    ptx_val v = small_immediate(PTX_TF32, x, 10, 8);

    if (v.kind == PTX_KIND_IMMEDIATE)
        v.bits = isnan(x) ? 0x7fffffff : v.bits << 13;
    return v;
}

ptx_val ptx_imm(ptx_type type, double x)
{
    switch (type) {
    case PTX_NONE:
    case PTX_TYPE_COUNT:
        return (ptx_val) { 0 };
    case PTX_F64:
        return f64_immediate(x);
    case PTX_F32:
        return f32_immediate(x);
    case PTX_F16:
    case PTX_F16X2:
        return small_immediate(type, x, 10, 5);
    case PTX_BF16:
    case PTX_BF16X2:
        return small_immediate(type, x, 7, 8);
    case PTX_E4M3X2:
        return e4m3_immediate(x);
    case PTX_E5M2X2:
        return small_immediate(type, x, 2, 5);
    case PTX_TF32:
        return tf32_immediate(x);
    default:
        if (!fits(type, x))
            return unfit(type, x);
        return ptx_imm_bits(type,
                            x < 0 ? (uint64_t)(int64_t)x & (UINT64_MAX >> (64 - ptxb_bits(type)))
                                  : (uint64_t)x);
    }
}
