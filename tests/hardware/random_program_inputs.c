// SPDX-License-Identifier: MIT
#include "op_inputs.h"
#include "random_program.h"

static const uint64_t doubles[] = {
    0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x8000000000000001,
    0x000fffffffffffff, 0x0010000000000000, 0x3ff0000000000000, 0xbff0000000000000,
    0x3fe0000000000000, 0x3ff8000000000000, 0x4004000000000000, 0xc004000000000000,
    0x7fefffffffffffff, 0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000,
    0x7ff8000000000000, 0xfff8000000000123, 0x7ff0000000000001, 0x41dfffffffc00000,
    0x41e0000000000000, 0xc1e0000000000000, 0x43e0000000000000, 0x36a0000000000000,
    0x3690000000000000, 0x47efffffe0000000, 0x47effffff0000000, 0x3ff0000010000000,
    0x3fd5555555555555, 0x4008000000000000, 0x40effc0000000000, 0x0008000000000000,
};

// Close to a power of two: 2^k - 1, 2^k, 2^k + 1 and their complements.
static uint64_t integer_corner(uint64_t bits)
{
    const uint64_t v = (UINT64_C(1) << (bits & 63)) + (bits >> 8 & 0xffff) % 3 - 1;
    return bits >> 32 & 1 ? ~v : v;
}

static uint64_t corner(ptx_type type, uint64_t bits)
{
    switch (type) {
    case PTX_F64:
        return doubles[bits % 32];
    case PTX_F32:
        return op_corners_f32[bits % 32];
    case PTX_F16:
    case PTX_BF16:
        return op_corners_half[bits % 32];
    case PTX_F16X2:
    case PTX_BF16X2:
        return op_corners_half[bits % 32] | (uint32_t)op_corners_half[bits >> 5 & 31] << 16;
    default:
        return integer_corner(bits);
    }
}

// Values of one magnitude, so that sums cancel and comparisons are close.
static uint64_t ordinary(ptx_type type, uint64_t bits)
{
    switch (type) {
    case PTX_F64:
        return (bits & UINT64_C(0x801fffffffffffff)) | UINT64_C(0x3fe0000000000000);
    case PTX_F32:
        return (bits & 0x80ffffff) | 0x3f000000;
    case PTX_F16:
    case PTX_F16X2:
        return (bits & 0x87ff87ff) | 0x38003800;
    case PTX_BF16:
    case PTX_BF16X2:
        return (bits & 0x80ff80ff) | 0x3f003f00;
    default:
        return bits >> (bits >> 58);
    }
}

uint64_t program_value(struct random *r, ptx_type type)
{
    const uint32_t way = random_below(r, 8);
    const uint64_t bits = random_u64(r);
    const unsigned width = type == PTX_PRED ? 1 : 8 * ptx_type_bytes(type);
    uint64_t v = way < 3 ? corner(type, bits) : way < 6 ? ordinary(type, bits) : bits;

    if (width < 64)
        v &= (UINT64_C(1) << width) - 1;
    if (type == PTX_F64 && (v << 1) > UINT64_C(0xffe0000000000000))
        v = UINT64_C(0x7ff8000000000000);
    return v;
}

void program_inputs(unsigned char in[PROGRAM_IN_BYTES])
{
    struct random r = { 20260 };

    for (unsigned k = 0; k < PROGRAM_IN_BYTES; k++)
        in[k] = (unsigned char)random_u64(&r);
    for (unsigned t = 1; t < OP_TYPES; t++)
        for (unsigned i = 0, size = ptx_type_bytes(op_type(t)); i < PROGRAM_INPUTS; i++) {
            const uint64_t v = program_value(&r, op_type(t));
            for (unsigned k = 0; k < size; k++)
                in[t * PROGRAM_INPUTS * 8 + i * size + k] = (unsigned char)(v >> 8 * k);
        }
}
