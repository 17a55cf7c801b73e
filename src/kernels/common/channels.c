// SPDX-License-Identifier: MIT
#include "channels.h"

ptx_val ptxk_inverse_of(ptx_builder *b, ptx_val y)
{
    return ptx_rcp(b, ptx_cvt(b, PTX_F64, y));
}

struct channels ptxk_channels_of(ptx_builder *b, ptx_val count, ptx_val inner)
{
    return (struct channels) { count, inner, ptxk_inverse_of(b, inner) };
}

// After three roundings with a relative error of 2^-53 each, the product is within 1 of x / y.
ptx_val ptxk_quotient_by(ptx_builder *b, ptx_val x, ptx_val y, ptx_val inverse)
{
    ptx_val product = ptx_mul(b, ptx_cvt(b, PTX_F64, x), inverse);
    ptx_val rough = ptx_cvt(b, PTX_U64, product);
    ptx_val rest = ptx_bitcast(b, PTX_S64, ptx_sub(b, x, ptx_mul(b, rough, y)));
    ptx_val high = ptx_lt(b, rest, 0);
    ptx_val low = ptx_ge(b, rest, ptx_bitcast(b, PTX_S64, y));

    rough = ptx_add(b, rough, ptx_select(b, low, ptx_u64(1), 0));
    return ptx_sub(b, rough, ptx_select(b, high, ptx_u64(1), 0));
}

struct position ptxk_position_of(ptx_builder *b, const struct channels *c, ptx_val place,
                                 ptx_val skew)
{
    ptx_val period = ptx_mul(b, c->count, c->inner);
    ptx_val ahead = ptx_mul(b, period, 8);
    ptx_val before = ptx_lt(b, place, skew);
    ptx_val i = ptx_sub(b, place, skew);

    ptx_comment(b, "the row, and the place in it; then the channel of the row");
    i = ptx_add(b, i, ptx_select(b, before, ahead, 0));
    ptx_val row = ptx_var(b, ptxk_quotient_by(b, i, c->inner, c->inner_inverse));
    ptx_val offset = ptx_sub(b, i, ptx_mul(b, row, c->inner));
    ptx_if (b, ptx_ge(b, row, c->count)) {
        ptx_val outer = ptxk_quotient_by(b, row, c->count, ptxk_inverse_of(b, c->count));
        ptx_set(b, row, ptx_sub(b, row, ptx_mul(b, outer, c->count)));
    }
    return (struct position) { row, offset };
}

struct position ptxk_step_of(ptx_builder *b, const struct channels *c, uint32_t elements)
{
    struct position step = { ptx_var(b, ptx_u64(0)), ptx_var(b, ptx_u64(elements)) };

    ptx_if (b, ptx_le(b, c->inner, elements)) {
        ptx_val inner = ptx_cvt(b, PTX_U32, c->inner);
        ptx_val rows = ptx_div(b, elements, inner);
        ptx_val offset = ptx_sub(b, elements, ptx_mul(b, rows, inner));
        ptx_set(b, step.offset, ptx_cvt(b, PTX_U64, offset));
        ptx_set(b, step.channel, ptx_rem(b, ptx_cvt(b, PTX_U64, rows), c->count));
    }
    return step;
}

void ptxk_take_step(ptx_builder *b, const struct channels *c, struct position at,
                    struct position step)
{
    ptx_val offset = ptx_add(b, at.offset, step.offset);
    ptx_val carries = ptx_ge(b, offset, c->inner);
    ptx_val rest = ptx_sub(b, offset, c->inner);
    ptx_set(b, at.offset, ptx_select(b, carries, rest, offset));

    const bool within = step.channel.kind == PTX_KIND_IMMEDIATE && step.channel.bits == 0;
    ptx_val channel = within ? at.channel : ptx_add(b, at.channel, step.channel);
    channel = ptx_add(b, channel, ptx_select(b, carries, ptx_u64(1), 0));
    ptx_val wraps = ptx_ge(b, channel, c->count);
    rest = ptx_sub(b, channel, c->count);
    ptx_set(b, at.channel, ptx_select(b, wraps, rest, channel));
}

struct position ptxk_position_var(ptx_builder *b, struct position at)
{
    at.channel = ptx_var(b, at.channel);
    at.offset = ptx_var(b, at.offset);
    return at;
}
