// SPDX-License-Identifier: MIT
#include "spread.h"

struct ptxk_spread ptxk_spread_from(ptx_builder *b, ptx_val run, ptx_val stride, ptx_val first)
{
    struct ptxk_spread s = { .run = run, .stride = stride };

    ptx_comment(b, "the first element's place in its run, and where that begins");
    ptx_val wide = ptx_cvt(b, PTX_U64, run);
    ptx_val turn = ptx_div(b, first, wide);
    ptx_val before = ptx_mul(b, turn, wide);
    s.rest = ptx_cvt(b, PTX_U32, ptx_sub(b, first, before));
    s.base = ptx_mul(b, turn, ptx_cvt(b, PTX_U64, stride));
    return s;
}

ptx_val ptxk_spread_at(ptx_builder *b, const struct ptxk_spread *s, ptx_val i)
{
    ptx_comment(b, "where it is in memory");
    ptx_val place = ptx_add(b, s->rest, ptx_bitcast(b, PTX_U32, i));
    ptx_val turn = ptx_div(b, place, s->run);
    ptx_val within = ptx_sub(b, place, ptx_mul(b, turn, s->run));

    return ptx_mad_wide(b, turn, s->stride, ptx_cvt(b, PTX_U64, within));
}

ptx_val ptxk_spread_has_vectors(ptx_builder *b, ptx_val run, ptx_val stride)
{
    ptx_val both = ptx_or(b, run, stride);

    return ptx_eq(b, ptx_and(b, both, 3), 0);
}
