// SPDX-License-Identifier: MIT
/// Part of builder.h, which says what holds for all of it: conversions between types, and the same
/// bits seen as another type.
#ifndef PTXGEN_CONVERT_H
#define PTXGEN_CONVERT_H

#include <ptxgen/ops.h>
#include <ptxgen/types.h>

PTXGEN_BEGIN

struct ptx_cvt_params {
    ptx_val x;
    ptx_round round; ///< float to integer: default towards zero; else nearest even
    bool ftz;        ///< subnormal inputs and results become zero
    bool sat;        ///< floats: clamped to [0, 1], NaN to +0; integers: to the range of the result
};

/// Converts to another type. Float to integer clamps to the range; NaN gives what PTX gives. A
/// conversion to the type it has is the value itself. bf16 to f32 and f32 to bf16 work on every
/// target; below sm_80 they are written with integer arithmetic, and bf16 to other types goes
/// through f32, exactly.
PTXGEN_API ptx_val ptx_cvt_emit(ptx_builder *b, ptx_type type, struct ptx_cvt_params params);
#define ptx_cvt(b, type, ...) ptx_cvt_emit(b, type, PTXGEN_STRUCT(ptx_cvt_params, .x = __VA_ARGS__))
/// Two f32 rounded to nearest even into PTX_F16X2 or PTX_BF16X2, `lo` in the lower half.
PTXGEN_API ptx_val ptx_cvt_pack(ptx_builder *b, ptx_type type, ptx_val lo, ptx_val hi);
/// The same bits as another type of the same width.
PTXGEN_API ptx_val ptx_bitcast(ptx_builder *b, ptx_type type, ptx_val x);
/// Lanes of 16 or 32 bits side by side as one value of 32 or 64 bits, lane 0 lowest.
PTXGEN_API ptx_val ptx_pack(ptx_builder *b, ptx_type type, ptx_vec lanes);
/// The reverse: `x` cut into lanes of `type`.
PTXGEN_API ptx_vec ptx_unpack(ptx_builder *b, ptx_type type, ptx_val x);
/// A vector of the given values; for ptx_pack() and ptx_store_vec().
static inline ptx_vec ptx_vec2(ptx_val x, ptx_val y)
{
    ptx_vec v = { { x, y }, 2 };
    return v;
}

PTXGEN_END

#endif
