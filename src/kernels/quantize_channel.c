// SPDX-License-Identifier: MIT
#include "quantize_channel.h"

struct quantizer ptxk_channel_quantizer(ptx_builder *b, const struct channel_work *w,
                                        ptx_val channel)
{
    ptx_val scale = ptx_load(b, w->scale, channel, .nc = true);
    ptx_val zero_point = ptx_load(b, w->zero_point, channel, .nc = true);

    zero_point = ptx_cvt(b, PTX_S64, zero_point);
    return ptxk_quantizer_of(b, w->spec, scale, zero_point, w->levels);
}

void ptxk_channel_pass_through(ptx_builder *b, const struct channel_work *w,
                               const struct quantizers *q, ptx_val place, unsigned lanes)
{
    ptx_val i = ptx_sub(b, place, w->skew);
    ptx_vec x = ptx_load_vec(b, w->x, i, lanes);
    ptx_vec d_output = ptx_load_vec(b, w->d_output, i, lanes);
    ptx_vec d_input = ptxk_straight_through(b, w->spec, q, x, d_output);

    ptx_store_vec(b, w->d_input, i, d_input);
}

void ptxk_channel_pass_each(ptx_builder *b, const struct channel_work *w, ptx_val place,
                            struct position start)
{
    const struct position one = { ptx_u64(0), ptx_u64(1) };
    struct position at = ptxk_position_var(b, start);
    ptx_val stop = ptx_add(b, place, ptx_u64(w->lanes));

    ptx_for (b, i, place, ptx_min(b, stop, w->end), ptx_u64(1)) {
        ptx_if (b, ptx_ge(b, i, w->skew)) {
            struct quantizer q = ptxk_channel_quantizer(b, w, at.channel);
            ptxk_channel_pass_through(b, w, &(struct quantizers) { { &q } }, i, 1);
        }
        ptxk_take_step(b, &w->channels, at, one);
    }
}

ptx_val ptxk_channel_is_whole(ptx_builder *b, const struct channel_work *w, ptx_val place)
{
    ptx_val stop = ptx_add(b, place, ptx_u64(w->lanes));
    ptx_val begins = ptx_ge(b, place, w->skew);
    ptx_val ends = ptx_le(b, stop, w->end);

    return ptx_and(b, w->alike, ptx_and(b, begins, ends));
}
