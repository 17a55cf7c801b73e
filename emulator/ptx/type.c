// SPDX-License-Identifier: MIT
// Types, and the sizes of products of matrices.
#include "type.h"

unsigned emu_bits(enum emu_type type)
{
    static const uint8_t bits[] = {
        [EMU_NONE] = 0,    [EMU_PRED] = 1,    [EMU_U8] = 8,    [EMU_U16] = 16,   [EMU_U32] = 32,
        [EMU_U64] = 64,    [EMU_S8] = 8,      [EMU_S16] = 16,  [EMU_S32] = 32,   [EMU_S64] = 64,
        [EMU_B8] = 8,      [EMU_B16] = 16,    [EMU_B32] = 32,  [EMU_B64] = 64,   [EMU_F16] = 16,
        [EMU_BF16] = 16,   [EMU_F32] = 32,    [EMU_F64] = 64,  [EMU_F16X2] = 32, [EMU_BF16X2] = 32,
        [EMU_E4M3X2] = 16, [EMU_E5M2X2] = 16, [EMU_TF32] = 32, [EMU_F32X2] = 64, [EMU_U16X2] = 32,
        [EMU_S16X2] = 32,  [EMU_E4M3] = 8,    [EMU_E5M2] = 8,  [EMU_U4] = 4,     [EMU_S4] = 4,
        [EMU_B1] = 1,      [EMU_U2] = 2,      [EMU_S2] = 2,    [EMU_B128] = 128,
    };
    return (unsigned)type < sizeof bits ? bits[type] : 0;
}

enum emu_type emu_twice(enum emu_type type)
{
    switch (type) {
    case EMU_B16:
        return EMU_B32;
    case EMU_U16:
        return EMU_U32;
    case EMU_S16:
        return EMU_S32;
    case EMU_U32:
        return EMU_U64;
    case EMU_S32:
        return EMU_S64;
    default:
        return EMU_NONE;
    }
}

bool emu_is_integer(enum emu_type type)
{
    return type >= EMU_U8 && type <= EMU_S64;
}

bool emu_is_bits(enum emu_type type)
{
    return type >= EMU_B8 && type <= EMU_B64;
}

bool emu_is_float(enum emu_type type)
{
    return type >= EMU_F16 && type <= EMU_BF16X2;
}

bool emu_fits(enum emu_type declared, enum emu_type wanted, bool relaxed)
{
    const unsigned have = emu_bits(declared), need = emu_bits(wanted);

    if (declared == EMU_PRED || wanted == EMU_PRED)
        return declared == wanted;
    if (relaxed ? have < need : have != need)
        return false;
    if (emu_is_bits(wanted))
        return true;
    if (emu_is_integer(wanted))
        return !emu_is_float(declared);
    return declared == wanted || emu_is_bits(declared);
}

struct emu_sizes emu_sizes_of(enum emu_shape shape)
{
    static const struct emu_sizes sizes[] = {
        [EMU_M8N8K4] = { 8, 8, 4 },       [EMU_M8N8K16] = { 8, 8, 16 },
        [EMU_M8N8K32] = { 8, 8, 32 },     [EMU_M8N8K128] = { 8, 8, 128 },
        [EMU_M16N8K64] = { 16, 8, 64 },   [EMU_M16N8K128] = { 16, 8, 128 },
        [EMU_M16N8K256] = { 16, 8, 256 }, [EMU_M16N8K4] = { 16, 8, 4 },
        [EMU_M16N8K8] = { 16, 8, 8 },     [EMU_M16N8K16] = { 16, 8, 16 },
        [EMU_M16N8K32] = { 16, 8, 32 },   [EMU_M16N16K16] = { 16, 16, 16 },
        [EMU_M8N32K16] = { 8, 32, 16 },   [EMU_M32N8K16] = { 32, 8, 16 },
        [EMU_M16N16K8] = { 16, 16, 8 },   [EMU_M64K8] = { 16, 8, 8 },
        [EMU_M64K16] = { 16, 8, 16 },     [EMU_M64K32] = { 16, 8, 32 },
    };

    return sizes[shape];
}

unsigned emu_fragment_registers(const struct emu_insn *insn, char letter)
{
    const struct emu_sizes size = emu_sizes_of((enum emu_shape)insn->shape);
    const unsigned factor = emu_bits((enum emu_type)insn->source_type);
    const unsigned whole = 32 * (factor == 64 ? 64 : 32); // bits of a register in all lanes
    const bool halves = insn->source_type == EMU_F16 && emu_is_opaque((enum emu_shape)insn->shape);

    const unsigned columns = size.n * (insn->eighths ? insn->eighths : 1);

    switch (letter) { // for each of the 32 lanes an equal part
    case 'F':
        return insn->lanes;
    case 'A':
        return halves ? 8 // f16: elements are there repeatedly
                      : size.m * size.k * factor / whole / (emu_is_sparse(insn) ? 2 : 1);
    case 'B':
        return halves ? 8 : size.n * size.k * factor / whole;
    case 'C':
        return size.m * columns * emu_bits((enum emu_type)insn->sum_type) / whole;
    default:
        return size.m * columns * emu_bits((enum emu_type)insn->type) / whole;
    }
}
