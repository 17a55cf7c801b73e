// SPDX-License-Identifier: MIT
#include "quantize_channel.h"

enum { WARP = 32 };

// One vector, in the rows of channels: mostly all of the channel whose quantizer is kept.
static void pass_row_vector(ptx_builder *b, const struct channel_work *w, ptx_val place,
                            struct position at, ptx_val kept_channel, struct quantizer *kept)
{
    struct quantizers same = { { NULL } };
    ptx_val left = ptx_sub(b, w->channels.inner, at.offset);
    ptx_val single = ptx_ge(b, left, ptx_u64(w->lanes));

    for (unsigned k = 0; k < w->lanes; k++)
        same.of[k] = kept;
    ptx_if (b, ptx_and(b, single, ptxk_channel_is_whole(b, w, place))) {
        ptx_if (b, ptx_ne(b, at.channel, kept_channel)) {
            ptx_set(b, kept_channel, at.channel);
            ptxk_quantizer_set(b, kept, ptxk_channel_quantizer(b, w, at.channel));
        }
        ptxk_channel_pass_through(b, w, &same, place, w->lanes);
    }
    ptx_else (b)
        ptxk_channel_pass_each(b, w, place, at);
}

void ptxk_channel_pass_rows(ptx_builder *b, struct channel_work *w)
{
    const uint32_t step = WARP * w->lanes, steps = CHANNEL_CHUNK / (CHANNEL_BLOCK * w->lanes);

    w->channels = ptxk_channels_of(b, w->channels.count, w->channels.inner);
    ptx_comment(b, "a warp has %u adjacent vectors, a thread every 32nd", WARP * steps);
    struct position stride = ptxk_step_of(b, &w->channels, step);
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val warp = ptx_mul(b, ptx_shr(b, tid, ptx_u32(5)), ptx_u32(step * steps));
    ptx_val lane = ptx_and(b, tid, ptx_u32(WARP - 1));
    ptx_val mine = ptx_cvt(b, PTX_U64, ptx_mad(b, lane, ptx_u32(w->lanes), warp));
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val blocks = ptx_nctaid(b, PTX_X);
    ptx_val first = ptx_mul_wide(b, block, ptx_u32(CHANNEL_CHUNK));

    ptx_for (b, chunk, first, w->end, ptx_mul_wide(b, blocks, ptx_u32(CHANNEL_CHUNK))) {
        ptx_val place = ptx_var(b, ptx_add(b, chunk, mine));
        struct position at =
            ptxk_position_var(b, ptxk_position_of(b, &w->channels, place, w->skew));
        ptx_val kept_channel = ptx_var(b, at.channel);
        struct quantizer kept = ptxk_quantizer_var(b, ptxk_channel_quantizer(b, w, at.channel));
        ptx_for (b, k, ptx_u32(0), ptx_u32(steps), ptx_u32(1)) {
            pass_row_vector(b, w, place, at, kept_channel, &kept);
            ptx_set(b, place, ptx_add(b, place, ptx_u64(step)));
            ptxk_take_step(b, &w->channels, at, stride);
        }
    }
}
