// SPDX-License-Identifier: MIT
#include "common/words.h"
#include "quantize_channel.h"

enum { MANY_BLOCKS = 8192, LOG_MANY_STEPS = 6 };

// How vectors lie that have the same channels.
struct columns {
    ptx_val unit;  // a multiple of the vector that is one of the channels' period too, in elements
    ptx_val least; // elements that the stride from vector to vector is to have, about end / steps
};

static struct columns columns_of(ptx_builder *b, const struct channel_work *w)
{
    const unsigned steps = CHANNEL_CHUNK / (CHANNEL_BLOCK * w->lanes);
    unsigned shift = 0;
    while (1u << shift < steps)
        shift++;
    ptx_val many = ptx_ge(b, ptx_nctaid(b, PTX_X), ptx_u32(MANY_BLOCKS));
    ptx_val log_steps = ptx_select(b, many, ptx_u32(LOG_MANY_STEPS), ptx_u32(shift));
    ptx_val period = ptx_mul(b, w->channels.count, w->channels.inner);
    ptx_val misfit = ptx_and(b, period, ptx_u64(w->lanes - 1));
    ptx_val fits = ptx_eq(b, misfit, ptx_u64(0));
    ptx_val unit = ptx_select(b, fits, period, ptx_mul(b, period, ptx_u64(w->lanes)));

    return (struct columns) { unit, ptx_max(b, ptx_shr(b, w->end, log_steps), ptx_u64(1)) };
}

// The least multiple of the unit that is not less.
static ptx_val stride_of(ptx_builder *b, const struct columns *c)
{
    ptx_val up = ptx_add(b, c->least, ptx_sub(b, c->unit, ptx_u64(1)));
    ptx_val inverse = ptx_rcp(b, ptx_cvt(b, PTX_F64, c->unit));

    return ptx_mul(b, ptxk_quotient_by(b, up, c->unit, inverse), c->unit);
}

// A vector of x and of d_output, read ahead.
struct ahead {
    ptx_vec x, d_output;
};

// Sets the variables to the vector at `place`, if it is a whole one; whether it is.
static ptx_val fetch(ptx_builder *b, const struct channel_work *w, const struct ahead *ahead,
                     ptx_val place)
{
    ptx_val whole = ptxk_channel_is_whole(b, w, place);

    ptx_if (b, whole) {
        ptx_val i = ptx_sub(b, place, w->skew);
        ptxk_words_read(b, ahead->x, w->x, i);
        ptxk_words_read(b, ahead->d_output, w->d_output, i);
    }
    return whole;
}

// The vectors at `column` and a stride apart, each fetched while the one before is computed: a
// quantizer a lane takes the registers that other warps would hide the latency with.
static void pass_column(ptx_builder *b, const struct channel_work *w, const struct quantizers *each,
                        ptx_val column, ptx_val stride)
{
    const ptx_type dtype = w->spec->dtype;
    struct ahead ahead;

    ahead.x = ptxk_words_var(b, dtype);
    ahead.d_output = ptxk_words_var(b, dtype);
    ptx_val whole = ptx_var(b, fetch(b, w, &ahead, column));

    ptx_for (b, place, column, w->end, stride) {
        ptx_vec x = ptxk_words_copy(b, ahead.x);
        ptx_vec d_output = ptxk_words_copy(b, ahead.d_output);
        ptx_val fetched = ptx_copy(b, whole);
        ptx_val next = ptx_add(b, place, stride);
        ptx_set(b, whole, fetch(b, w, &ahead, next));
        ptx_if (b, fetched) {
            x = ptxk_words_lanes(b, x, dtype);
            d_output = ptxk_words_lanes(b, d_output, dtype);
            ptx_vec d_input = ptxk_straight_through(b, w->spec, each, x, d_output);
            ptx_val i = ptx_sub(b, place, w->skew);
            ptx_store_vec(b, w->d_input, i, d_input);
        }
        ptx_else (b)
            ptxk_channel_pass_each(b, w, place, ptxk_position_of(b, &w->channels, place, w->skew));
    }
}

// One flag for all lanes: predicates are few.
static void share_unusual(ptx_builder *b, struct quantizer *of, unsigned lanes)
{
    ptx_val any = of[0].scale.unusual;

    if (any.kind == PTX_KIND_POISON)
        return;
    for (unsigned k = 1; k < lanes; k++)
        any = ptx_or(b, any, of[k].scale.unusual);
    for (unsigned k = 0; k < lanes; k++)
        of[k].scale.unusual = any;
}

void ptxk_channel_pass_columns(ptx_builder *b, struct channel_work *w)
{
    const uint32_t span = CHANNEL_BLOCK * w->lanes;
    const struct position one = { ptx_u64(0), ptx_u64(1) };

    ptx_comment(b, "a thread has vectors a stride apart, a multiple of channels * inner");
    struct columns c = columns_of(b, w);
    ptx_val mine = ptx_mul(b, ptx_tid(b, PTX_X), ptx_u32(w->lanes));
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val blocks = ptx_nctaid(b, PTX_X);
    ptx_val first = ptx_mad_wide(b, block, ptx_u32(span), ptx_cvt(b, PTX_U64, mine));
    ptx_comment(b, "blocks beyond any stride end before the arithmetic begins");
    ptx_return_if(b, ptx_ge(b, first, ptx_add(b, c.least, c.unit)));
    w->channels = ptxk_channels_of(b, w->channels.count, w->channels.inner);
    ptx_val stride = stride_of(b, &c);
    ptx_val columns = ptx_min(b, stride, w->end);

    ptx_for (b, column, first, columns, ptx_mul_wide(b, blocks, ptx_u32(span))) {
        struct position at =
            ptxk_position_var(b, ptxk_position_of(b, &w->channels, column, w->skew));
        struct quantizer of[8];
        struct quantizers each = { { NULL } };
        for (unsigned k = 0; k < w->lanes; k++) {
            of[k] = ptxk_channel_quantizer(b, w, at.channel);
            each.of[k] = &of[k];
            if (k + 1 < w->lanes)
                ptxk_take_step(b, &w->channels, at, one);
        }
        share_unusual(b, of, w->lanes);
        pass_column(b, w, &each, column, stride);
    }
}
