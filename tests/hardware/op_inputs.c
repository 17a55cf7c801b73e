// SPDX-License-Identifier: MIT
#include "op_inputs.h"

static const uint64_t integers[OP_CORNERS] = {
    0,
    1,
    2,
    3,
    7,
    8,
    31,
    32,
    33,
    63,
    64,
    100,
    127,
    128,
    255,
    256,
    0x7fff,
    0x8000,
    0xffff,
    0x10000,
    0x7fffffff,
    0x80000000,
    0xffffffff,
    0x100000000,
    0x7fffffffffffffff,
    0x8000000000000000,
    UINT64_MAX,
    UINT64_MAX - 1,
    0xff80,
    0xffffffffffff8000,
    12345,
    0xdeadbeefcafef00d,
};
static const uint64_t doubles[OP_CORNERS] = {
    0,
    0x8000000000000000,
    1,
    0x8000000000000001,
    0x000fffffffffffff,
    0x0010000000000000,
    0x3ff0000000000000,
    0xbff0000000000000,
    0x3fe0000000000000,
    0x3ff8000000000000,
    0x4004000000000000,
    0xc004000000000000,
    0x7fefffffffffffff,
    0xffefffffffffffff,
    0x7ff0000000000000,
    0xfff0000000000000,
    0x7ff8000000000000,
    0xfff8000000000123,
    0x7ff0000000000001,
    0x7fffffffffffffff,
    0x41dfffffffc00000,
    0x41e0000000000000,
    0xc1e0000000000000,
    0x43e0000000000000,
    0x36a0000000000000,
    0x3690000000000000,
    0x47efffffe0000000,
    0x47effffff0000000,
    0x3ff0000010000000,
    0x3fd5555555555555,
    0x4008000000000000,
    0x40effc0000000000,
};

static const ptx_type types[OP_TYPES] = {
    PTX_NONE, PTX_PRED, PTX_U8,  PTX_U16, PTX_U32,   PTX_U64,    PTX_S8,
    PTX_S16,  PTX_S32,  PTX_S64, PTX_B8,  PTX_B16,   PTX_B32,    PTX_B64,
    PTX_F16,  PTX_BF16, PTX_F32, PTX_F64, PTX_F16X2, PTX_BF16X2,
};

ptx_type op_type(unsigned number)
{
    return types[number];
}

unsigned op_type_number(ptx_type type)
{
    unsigned hash = 0;

    for (unsigned k = 0; k < OP_TYPES; k++)
        if (types[k] == type)
            return k;
    for (const char *c = ptx_type_name(type); *c; c++)
        hash = hash * 31 + (unsigned char)*c;
    return OP_TYPES + hash % 1000;
}

const uint32_t op_corners_f32[OP_CORNERS] = {
    0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x3f800000, 0xbf800000,
    0x3f000000, 0x3fc00000, 0x40200000, 0xc0200000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
    0x7fc00000, 0xffc01234, 0x7f800001, 0x7fffffff, 0x4effffff, 0x4f000000, 0xcf000000, 0x5f000000,
    0x33000000, 0x33000001, 0x477fefff, 0x477ff000, 0x3f808000, 0x3f818000, 0x3eaaaaab, 0x42ff8000,
};
const uint16_t op_corners_half[OP_CORNERS] = {
    0,      0x8000, 1,      0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00, 0x3800, 0x3e00, 0x4100,
    0xc100, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe12, 0x7c01, 0x7fff, 0x3f80, 0x3fc0,
    0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0x0080, 0x007f, 0x3555, 0x6400, 0x5801,
};

static uint64_t corner(ptx_type type, unsigned k)
{
    switch (type) {
    case PTX_F64:
        return doubles[k];
    case PTX_F32:
        return op_corners_f32[k];
    case PTX_F16:
    case PTX_BF16:
        return op_corners_half[k];
    case PTX_F16X2:
    case PTX_BF16X2:
        return op_corners_half[k] | (uint64_t)op_corners_half[(k * 11 + 3) % OP_CORNERS] << 16;
    default:
        return integers[k];
    }
}

uint64_t op_input(struct random *r, ptx_type type, unsigned operand, unsigned i)
{
    const unsigned pick[] = { i % OP_CORNERS, i / OP_CORNERS % OP_CORNERS,
                              (i * 7 + i / 32 * 5) % OP_CORNERS, (i * 3 + i / 32) % OP_CORNERS };
    const uint64_t bits = random_u64(r);

    if (i < OP_CORNERS * OP_CORNERS)
        return corner(type, pick[operand]);
    if (i & 1)
        return bits;
    if (type == PTX_F64)
        return (bits & UINT64_C(0x801fffffffffffff)) | UINT64_C(0x3fe0000000000000);
    if (type == PTX_F32)
        return (bits & 0x80ffffff) | 0x3f000000;
    return bits >> (bits >> 58);
}
