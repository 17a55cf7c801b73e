// SPDX-License-Identifier: MIT
#include "fp8.h"

struct format {
    ptx_type pair;       // the builder's type of two codes
    float max;           // the largest value
    uint32_t max_bits;   // its bits in f32
    uint32_t least_bits; // the bits of the least normal value
    uint32_t drops;      // bits of an f32's fraction that the format does not have
    uint32_t bias;       // what an f32's exponent has more, at the place of the format's exponent
    double unit;         // 2^23 times the least subnormal value
    uint32_t unit_bits;
};

static const struct format formats[] = {
    [FP8_E4M3] = { PTX_E4M3X2, 448, 0x43e00000, 0x3c800000, 20, (127 - 7) << 3, 0x1p14,
                   0x46800000 },
    [FP8_E5M2] = { PTX_E5M2X2, 57344, 0x47600000, 0x38800000, 21, (127 - 15) << 2, 0x1p7,
                   0x43000000 },
};

float ptxk_fp8_max(enum fp8_format format)
{
    return formats[format].max;
}

// sm_89 has the instruction too, but only from PTX ISA 8.1 on, and its text would not load with
// every driver that knows sm_89. Integer arithmetic is faster than the memory of these GPUs.
static bool has_instruction(const ptx_builder *b)
{
    return ptx_builder_target(b).sm >= 90;
}

// The code of x in integer arithmetic, u32. Adding `unit` to a value below the least normal one
// rounds it to a multiple of the least subnormal one, and leaves the multiple in the fraction.
static ptx_val code_of(ptx_builder *b, const struct format *f, ptx_val x)
{
    ptx_comment(b, "the code of an element, in integer arithmetic");
    ptx_val bits = ptx_bitcast(b, PTX_U32, x);
    ptx_val magnitude = ptx_and(b, bits, 0x7fffffff);
    ptx_val limited = ptx_min(b, magnitude, f->max_bits);

    ptx_val odd = ptx_bfe(b, limited, f->drops, 1);
    ptx_val half = ptx_add(b, odd, (UINT32_C(1) << (f->drops - 1)) - 1);
    ptx_val rounded = ptx_shr(b, ptx_add(b, limited, half), f->drops);
    ptx_val normal = ptx_sub(b, rounded, f->bias);
    ptx_val sum = ptx_add(b, ptx_bitcast(b, PTX_F32, limited), f->unit);
    ptx_val subnormal = ptx_sub(b, ptx_bitcast(b, PTX_U32, sum), f->unit_bits);
    ptx_val is_subnormal = ptx_lt(b, limited, f->least_bits);
    ptx_val code = ptx_select(b, is_subnormal, subnormal, normal);

    ptx_val sign = ptx_and(b, ptx_shr(b, bits, 24), 0x80);
    ptx_val is_number = ptx_le(b, magnitude, 0x7f800000);
    return ptx_select(b, is_number, ptx_or(b, code, sign), 0x7f);
}

ptx_val ptxk_fp8_code(ptx_builder *b, enum fp8_format format, ptx_val x)
{
    const struct format *f = &formats[format];

    if (!has_instruction(b))
        return ptx_cvt(b, PTX_U8, code_of(b, f, x));
    ptx_val pair = ptx_cvt_pack(b, f->pair, x, ptx_f32(0));
    return ptx_cvt(b, PTX_U8, ptx_bitcast(b, PTX_U16, pair));
}

ptx_val ptxk_fp8_word(ptx_builder *b, enum fp8_format format, const ptx_val x[4])
{
    const struct format *f = &formats[format];
    ptx_val pair[2];

    for (unsigned k = 0; k < 2; k++) {
        if (has_instruction(b)) {
            pair[k] = ptx_cvt_pack(b, f->pair, x[2 * k], x[2 * k + 1]);
        } else {
            ptx_val low = code_of(b, f, x[2 * k]);
            ptx_val high = code_of(b, f, x[2 * k + 1]);
            pair[k] = ptx_prmt(b, low, high, 0x0040);
        }
    }
    if (has_instruction(b))
        return ptx_pack(b, PTX_B32, ptx_vec2(pair[0], pair[1]));
    return ptx_bitcast(b, PTX_B32, ptx_prmt(b, pair[0], pair[1], 0x5410));
}
