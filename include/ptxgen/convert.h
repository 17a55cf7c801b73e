// SPDX-License-Identifier: MIT
/// Part of builder.h: conversions between types, and reinterpretation of bits. The rules of
/// builder.h apply.
#ifndef PTXGEN_CONVERT_H
#define PTXGEN_CONVERT_H

#if defined(__cplusplus) && defined(__GNUC__) // struct.h says why
#pragma GCC system_header
#endif

#include <ptxgen/ops.h>
#include <ptxgen/types.h>

PTXGEN_BEGIN

struct ptx_cvt_params {
    ptx_val x;
    ptx_round round; ///< float to integer: default towards zero; otherwise default nearest even
    bool ftz;        ///< subnormal inputs and results become zero
    bool sat;        ///< floats: clamped to [0, 1], NaN to +0; integers: to the range of the result
    bool relu;       ///< negative results become +0; with the formats of 8 bits and tf32
    bool satfinite;  ///< to tf32: the largest finite value in place of infinity; 8 bits: always so
    ptx_val hi; ///< the upper half, where two f32 go into one packed result and x is the lower;
                ///< ptx_f32(0.5), not a plain number
};

/// Converts to another type. Float to integer clamps to the range of the result; NaN gives what PTX
/// defines. A conversion to the same type returns the value itself. f32 to bf16 and bf16 to f32
/// work on every target: below sm_80 they use integer arithmetic, and conversions from bf16 to
/// other types go through f32, which is exact.
///
/// PTX_E4M3X2 and PTX_E5M2X2 come from an f16x2, or from two f32, as in `ptx_cvt(b, PTX_E4M3X2, lo,
/// .hi = hi)`, to nearest even; a finite or infinite x beyond the largest value gives that value,
/// and NaN the NaN 0x7f. They convert to f16x2, exactly. sm_89 and up. PTX_TF32 comes from f32: to
/// nearest, ties away from zero, by default (sm_80 and up), PTX_ROUND_RN and PTX_ROUND_RZ from
/// sm_90 on, with .satfinite from sm_100 on. These give 0x7fffe000 for NaN. The default takes a NaN
/// for a number: its last 13 bits are cut off, so that NaNs up to 0x7f801fff become infinite, and
/// .satfinite takes the next lower value (results of an H200). tf32 to f32 is exact.
PTXGEN_API ptx_val ptx_cvt_emit(ptx_builder *b, ptx_type type, struct ptx_cvt_params params);
#define ptx_cvt(b, type, ...)                                                                      \
    ptx_cvt_emit(b, type, PTXGEN_STRUCT(ptx_cvt_params, PTXGEN_FIELDS(x, __VA_ARGS__)))
/// Rounds two f32 to nearest even and packs them as PTX_F16X2, PTX_BF16X2, PTX_E4M3X2 or
/// PTX_E5M2X2, `lo` in the lower half.
PTXGEN_API ptx_val ptx_cvt_pack(ptx_builder *b, ptx_type type, ptx_val lo, ptx_val hi);
/// Reinterprets the bits as another type of the same width.
PTXGEN_API ptx_val ptx_bitcast(ptx_builder *b, ptx_type type, ptx_val x);
/// Packs lanes of 16 or 32 bits into one value of 32 or 64 bits, lane 0 lowest.
PTXGEN_API ptx_val ptx_pack(ptx_builder *b, ptx_type type, ptx_vec lanes);
/// The inverse of ptx_pack(): splits `x` into lanes of `type`.
PTXGEN_API ptx_vec ptx_unpack(ptx_builder *b, ptx_type type, ptx_val x);
/// Vectors of values of one type, for ptx_store_vec() and ptx_pack(). They emit nothing, and take
/// no builder. C numbers among the values get the type when the vector is used.
static inline ptx_vec ptx_vec2(ptx_val x, ptx_val y)
{
    ptx_vec v = { { x, y }, 2 };
    return v;
}
static inline ptx_vec ptx_vec4(ptx_val x, ptx_val y, ptx_val z, ptx_val w)
{
    ptx_vec v = { { x, y, z, w }, 4 };
    return v;
}
/// Eight lanes: 16-bit types, and 32-bit types in global memory on sm_100 and up.
static inline ptx_vec ptx_vec8(ptx_val x0, ptx_val x1, ptx_val x2, ptx_val x3, ptx_val x4,
                               ptx_val x5, ptx_val x6, ptx_val x7)
{
    ptx_vec v = { { x0, x1, x2, x3, x4, x5, x6, x7 }, 8 };
    return v;
}

PTXGEN_END

#endif
