// SPDX-License-Identifier: MIT
// Constants in the types that they are wanted in.
#include "parse.h"

#include <string.h>

bool emu_parse_count(struct emu_parser *p, uint64_t least, uint64_t most, uint64_t *count)
{
    struct emu_constant constant;
    const struct emu_token at = p->token;

    if (!emu_parse_constant(p, &constant))
        return false;
    const bool negative = !constant.is_unsigned && constant.bits >> 63;
    if (constant.kind != EMU_TOKEN_INTEGER || negative || constant.bits < least ||
        constant.bits > most)
        return emu_error(p, &at, "An integer from %llu to %llu is expected here",
                         (unsigned long long)least, (unsigned long long)most);
    *count = constant.bits;
    return true;
}

static double float_value(const struct emu_constant *constant)
{
    float single;
    double wide;

    if (constant->kind == EMU_TOKEN_FLOAT32) {
        const uint32_t word = (uint32_t)constant->bits;
        memcpy(&single, &word, sizeof single);
        return (double)single;
    }
    memcpy(&wide, &constant->bits, sizeof wide);
    return wide;
}

static bool float_in(const struct emu_constant *constant, enum emu_type type, uint64_t *bits)
{
    const bool exact32 = constant->kind == EMU_TOKEN_FLOAT32;
    const bool exact64 = constant->kind == EMU_TOKEN_FLOAT64;

    if ((exact32 && (type == EMU_F32 || type == EMU_B32)) ||
        (exact64 && (type == EMU_F64 || type == EMU_B64))) {
        *bits = constant->bits; // NaNs as they are
        return true;
    }
    if (type == EMU_F64) {
        const double wide = float_value(constant);
        memcpy(bits, &wide, sizeof wide);
        return true;
    }
    if (type != EMU_F32)
        return false;
    const float single = (float)float_value(constant);
    uint32_t word;
    memcpy(&word, &single, sizeof word);
    *bits = word;
    return true;
}

bool emu_constant_in(const struct emu_constant *constant, enum emu_type type, uint64_t *bits)
{
    if (constant->kind != EMU_TOKEN_INTEGER)
        return float_in(constant, type, bits);
    switch (type) {
    case EMU_PRED:
        *bits = constant->bits != 0;
        return true;
    case EMU_F16:
    case EMU_BF16:
    case EMU_F32:
    case EMU_F64:
    case EMU_F16X2:
    case EMU_BF16X2:
    case EMU_NONE:
        return false;
    default:
        *bits = constant->bits & (UINT64_MAX >> (64 - emu_bits(type)));
        return true;
    }
}
