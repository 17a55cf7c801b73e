// SPDX-License-Identifier: MIT
#include "../format.h"

enum { NAN_BITS = 0x7fc0 << 16 };

// The f32 that a parameter and its remainder represent. Its size is below 0x7f7f8000 where the
// remainder counts: 0 and a negative remainder borrow from the sign and make a NaN; infinity or NaN
// and any remainder are at that size or beyond, or a NaN.
static ptx_val join(ptx_builder *b, const struct ptxk_step_stored *from)
{
    ptx_val high = ptx_cvt(b, PTX_F32, from->parameter);
    ptx_val low = ptx_bitcast(b, PTX_U32, ptx_cvt(b, PTX_S32, from->beside));
    ptx_val sum = ptx_add(b, ptx_bitcast(b, PTX_U32, high), low);
    ptx_val whole = ptx_bitcast(b, PTX_F32, sum);

    return ptx_select(b, ptx_lt(b, ptx_abs(b, whole), 0x1.ffp127), whole, high);
}

static void split(ptx_builder *b, ptx_val x, struct ptxk_step_stored *to)
{
    ptx_val nan = ptx_is_nan(b, x);
    ptx_val bits = ptx_bitcast(b, PTX_U32, x);
    ptx_val rounded = ptx_add(b, bits, 0x8000);
    ptx_val low = ptx_cvt(b, PTX_S16, bits);

    to->parameter = ptx_select(b, nan, NAN_BITS, rounded);
    to->beside = ptx_select(b, nan, ptx_s16(0), low);
}

const struct ptxk_step_format ptxk_step_format_remainder = {
    .name = "remainder",
    .parameters = { PTX_BF16 },
    .state = PTX_F32,
    .beside = PTX_S16,
    .beside_name = "remainder (beside)",
    .vectors = 1,
    .blocks = 4,
    .blocks_if_short = 4,
    .load = join,
    .store = split,
};
