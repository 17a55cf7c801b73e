// SPDX-License-Identifier: MIT
#include "channel_walk.h"

// ---- elements -----------------------------------------------------------------------------------

struct quantizer ptxk_channel_walk_quantizer(ptx_builder *b, const struct channel_walk *w,
                                             ptx_val channel)
{
    ptx_val scale = ptx_load(b, w->scale, channel, .nc = true);
    ptx_val zero_point = ptx_load(b, w->zero_point, channel, .nc = true);

    return w->quantizer_of(b, w->spec, scale, zero_point, w->levels);
}

void ptxk_channel_walk_quantizers(ptx_builder *b, const struct channel_walk *w, ptx_val place,
                                  struct lane_quantizers *q)
{
    const struct position one = { ptx_u64(0), ptx_u64(1) };
    ptx_comment(b, "the channel of the first element");
    struct position at = ptxk_position_var(b, ptxk_position_of(b, &w->channels, place, w->skew));

    q->each = (struct quantizers) { { NULL }, { NULL } };
    for (unsigned k = 0; k < w->lanes; k++) {
        ptx_comment(b, "the quantizer of lane %u", k);
        q->of[k] = ptxk_channel_walk_quantizer(b, w, at.channel);
        q->each.of[k] = &q->of[k];
        for (unsigned s = 0; s < w->sums; s++)
            q->sums[k][s] = ptx_var(b, ptx_f64(0));
        q->each.sums[k] = q->sums[k];
        if (k + 1 < w->lanes)
            ptxk_take_step(b, &w->channels, at, one);
    }
}

void ptxk_channel_walk_read(ptx_builder *b, const struct channel_walk *w,
                            const struct ptxk_lanes *in, ptx_val i)
{
    for (unsigned t = 0; t < w->inputs; t++)
        ptxk_lanes_read(b, &in[t], ptx_at(b, w->in[t], i));
}

ptx_vec ptxk_channel_walk_output(ptx_builder *b, const struct channel_walk *w,
                                 const struct quantizers *q, const struct ptxk_lanes *in)
{
    ptx_vec x[MAX_INPUTS];

    for (unsigned t = 0; t < w->inputs; t++)
        x[t] = ptxk_lanes_vec(b, &in[t]);
    return w->compute(b, w->spec, q, x);
}

void ptxk_channel_walk_pass(ptx_builder *b, const struct channel_walk *w,
                            const struct quantizers *q, ptx_val i, unsigned lanes)
{
    ptx_vec in[MAX_INPUTS];

    for (unsigned t = 0; t < w->inputs; t++)
        in[t] = ptx_load_vec(b, w->in[t], i, lanes);
    const ptx_vec out = w->compute(b, w->spec, q, in);
    if (lanes > 1)
        ptx_comment(b, "written at once");
    ptx_store_vec(b, w->out, i, out);
}

// The elements of the vector at `place` that are in the tensor, one by one.
static void pass_each(ptx_builder *b, const struct channel_walk *w, ptx_val place,
                      struct position start)
{
    const struct position one = { ptx_u64(0), ptx_u64(1) };
    ptx_comment(b, "unaligned, or several channels: one element after the other");
    struct position at = ptxk_position_var(b, start);
    ptx_val stop = ptx_add(b, place, w->lanes);

    ptx_for (b, i, place, ptx_min(b, stop, w->end), 1) {
        ptx_if (b, ptx_ge(b, i, w->skew)) {
            struct quantizer own = ptxk_channel_walk_quantizer(b, w, at.channel);
            const struct quantizers q = ptxk_quantizers_same(&own, NULL);
            ptxk_channel_walk_pass(b, w, &q, ptx_sub(b, i, w->skew), 1);
        }
        ptx_comment(b, "the channel of the next element");
        ptxk_take_step(b, &w->channels, at, one);
    }
}

// Whether the vector at `place` is in the tensor and can be accessed as a vector.
static ptx_val is_whole(ptx_builder *b, const struct channel_walk *w, ptx_val place)
{
    ptx_val stop = ptx_add(b, place, w->lanes);
    ptx_val begins = ptx_ge(b, place, w->skew);
    ptx_val ends = ptx_le(b, stop, w->end);

    return ptx_and(b, w->alike, ptx_and(b, begins, ends));
}

// ---- rows ---------------------------------------------------------------------------------------

// One vector in the row layout. Usually all its elements are of the channel whose quantizer is
// kept.
static void pass_row_vector(ptx_builder *b, const struct channel_walk *w, ptx_val place,
                            struct position at, ptx_val kept_channel, struct quantizer *kept)
{
    const struct quantizers same = ptxk_quantizers_same(kept, NULL);
    ptx_val left = ptx_sub(b, w->channels.inner, at.offset);
    ptx_val single = ptx_ge(b, left, w->lanes);

    ptx_if (b, ptx_and(b, single, is_whole(b, w, place))) {
        ptx_if (b, ptx_ne(b, at.channel, kept_channel)) {
            ptx_set(b, kept_channel, at.channel);
            ptx_comment(b, "another channel than the last");
            ptxk_quantizer_set(b, kept, ptxk_channel_walk_quantizer(b, w, at.channel));
        }
        ptx_comment(b, "a vector of one channel");
        ptxk_channel_walk_pass(b, w, &same, ptx_sub(b, place, w->skew), w->lanes);
    }
    ptx_else (b)
        pass_each(b, w, place, at);
}

// The row layout: adjacent elements are of one channel, in long rows. A warp processes adjacent
// vectors, a thread every 32nd of them. Completes w->channels.
static void walk_rows(ptx_builder *b, struct channel_walk *w)
{
    const uint32_t step = WARP * w->lanes, steps = CHANNELS_CHUNK / (CHANNELS_BLOCK * w->lanes);

    w->channels = ptxk_channels_of(b, w->channels.count, w->channels.inner);
    ptx_comment(b, "a warp has %u adjacent vectors, a thread every 32nd", WARP * steps);
    struct position stride = ptxk_step_of(b, &w->channels, step);
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val warp = ptx_mul(b, ptx_shr(b, tid, 5), step * steps);
    ptx_val lane = ptx_and(b, tid, WARP - 1);
    ptx_val mine = ptx_cvt(b, PTX_U64, ptx_mad(b, lane, w->lanes, warp));
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val blocks = ptx_nctaid(b, PTX_X);
    ptx_val first = ptx_mul_wide(b, block, CHANNELS_CHUNK);

    ptx_comment(b, "chunk after chunk");
    ptx_for (b, chunk, first, w->end, ptx_mul_wide(b, blocks, CHANNELS_CHUNK)) {
        ptx_val place = ptx_var(b, ptx_add(b, chunk, mine));
        struct position at =
            ptxk_position_var(b, ptxk_position_of(b, &w->channels, place, w->skew));
        ptx_comment(b, "the quantizer of its channel, kept while the channel is the same");
        ptx_val kept_channel = ptx_var(b, at.channel);
        struct quantizer kept =
            ptxk_quantizer_var(b, ptxk_channel_walk_quantizer(b, w, at.channel));
        ptx_for (b, k, 0, steps, ptx_u32(1)) {
            pass_row_vector(b, w, place, at, kept_channel, &kept);
            ptx_set(b, place, ptx_add(b, place, step));
            ptx_comment(b, "the thread's next vector, and its channel");
            ptxk_take_step(b, &w->channels, at, stride);
        }
    }
}

// ---- columns ------------------------------------------------------------------------------------

enum { MANY_BLOCKS = 8192, LOG_MANY_STEPS = 6 };

// The spacing of vectors that have the same channels.
struct columns {
    ptx_val unit;  // in elements: a multiple of the vector and of the period of the channels
    ptx_val least; // minimum stride from vector to vector in elements, about end / steps
};

static struct columns columns_of(ptx_builder *b, const struct channel_walk *w)
{
    const unsigned steps = CHANNELS_CHUNK / (CHANNELS_BLOCK * w->lanes);
    ptx_val many = ptx_ge(b, ptx_nctaid(b, PTX_X), MANY_BLOCKS);
    ptx_val log_steps = ptx_select(b, many, ptx_u32(LOG_MANY_STEPS), ptxk_log2(steps));
    ptx_val period = ptx_mul(b, w->channels.count, w->channels.inner);
    ptx_val misfit = ptx_and(b, period, w->lanes - 1);
    ptx_val fits = ptx_eq(b, misfit, 0);
    ptx_val unit = ptx_select(b, fits, period, ptx_mul(b, period, w->lanes));

    return (struct columns) { unit, ptx_max(b, ptx_shr(b, w->end, log_steps), 1) };
}

// The least multiple of the unit that is at least `least`.
static ptx_val stride_of(ptx_builder *b, const struct columns *c)
{
    ptx_val up = ptx_add(b, c->least, ptx_sub(b, c->unit, 1));
    ptx_val units = ptxk_quotient_by(b, up, c->unit, ptxk_inverse_of(b, c->unit));

    return ptx_mul(b, units, c->unit);
}

// Loads the vectors at `place` if they are whole; returns whether they are.
static ptx_val fetch(ptx_builder *b, const struct channel_walk *w, const struct ptxk_lanes *ahead,
                     ptx_val place)
{
    ptx_val whole = is_whole(b, w, place);

    ptx_if (b, whole)
        ptxk_channel_walk_read(b, w, ahead, ptx_sub(b, place, w->skew));
    return whole;
}

// The vectors at `column` and at multiples of the stride after it. Each is loaded while the
// previous one is computed: one quantizer per lane takes so many registers that too few warps are
// resident to hide the latency.
static void pass_column(ptx_builder *b, const struct channel_walk *w, const struct quantizers *each,
                        ptx_val column, ptx_val stride)
{
    struct ptxk_lanes ahead[MAX_INPUTS], now[MAX_INPUTS];

    ptx_comment(b, "the first vector, if it is whole");
    for (unsigned t = 0; t < w->inputs; t++)
        ahead[t] = ptxk_lanes_var(b, w->spec->dtype, w->lanes);
    ptx_val whole = ptx_var(b, fetch(b, w, ahead, column));

    ptx_for (b, place, column, w->end, stride) {
        ptx_comment(b, "this vector is kept, and the next read");
        for (unsigned t = 0; t < w->inputs; t++)
            now[t] = ptxk_lanes_copy(b, &ahead[t]);
        ptx_val fetched = ptx_copy(b, whole);
        ptx_val next = ptx_add(b, place, stride);
        ptx_set(b, whole, fetch(b, w, ahead, next));
        ptx_if (b, fetched) {
            ptx_comment(b, "a whole vector");
            ptx_vec out = ptxk_channel_walk_output(b, w, each, now);
            ptx_comment(b, "written at once");
            ptx_store_vec(b, w->out, ptx_sub(b, place, w->skew), out);
        }
        ptx_else (b) {
            ptx_comment(b, "no whole vector: where it begins");
            pass_each(b, w, place, ptxk_position_of(b, &w->channels, place, w->skew));
        }
    }
}

// The column layout: channels change from element to element. A thread processes vectors that have
// the same channels, with one quantizer per lane. Completes w->channels.
static void walk_columns(ptx_builder *b, struct channel_walk *w)
{
    const uint32_t span = CHANNELS_BLOCK * w->lanes;

    ptx_comment(b, "a thread has vectors a stride apart, a multiple of channels * inner");
    struct columns c = columns_of(b, w);
    ptx_val mine = ptx_mul(b, ptx_tid(b, PTX_X), w->lanes);
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val blocks = ptx_nctaid(b, PTX_X);
    ptx_val first = ptx_mad_wide(b, block, span, ptx_cvt(b, PTX_U64, mine));
    ptx_comment(b, "blocks beyond any stride end before the arithmetic begins");
    ptx_return_if(b, ptx_ge(b, first, ptx_add(b, c.least, c.unit)));
    ptx_comment(b, "the stride");
    w->channels = ptxk_channels_of(b, w->channels.count, w->channels.inner);
    ptx_val stride = stride_of(b, &c);
    ptx_val columns = ptx_min(b, stride, w->end);

    ptx_for (b, column, first, columns, ptx_mul_wide(b, blocks, span)) {
        struct lane_quantizers q;
        ptxk_channel_walk_quantizers(b, w, column, &q);
        pass_column(b, w, &q.each, column, stride);
    }
}

// ---- both ---------------------------------------------------------------------------------------

void ptxk_channel_walk_params(ptx_builder *b, struct channel_walk *w)
{
    w->channels.count = ptx_param(b, PTX_U64, "channels", .meaning = "1 or more", .low = "1");
    w->channels.inner = ptx_param(b, PTX_U64, "inner", .preset = "1", .low = "1",
                                  .meaning = "adjacent elements of one channel");
}

ptx_val ptxk_channel_walk_alike(ptx_builder *b, const struct channel_walk *w)
{
    ptx_ptr tensors[MAX_INPUTS + 1];

    for (unsigned t = 0; t < w->inputs; t++)
        tensors[t] = w->in[t];
    tensors[w->inputs] = w->out;
    return ptxk_aligned_alike(b, tensors, w->inputs + 1);
}

void ptxk_channel_walk(ptx_builder *b, struct channel_walk *w, ptx_val n, bool columns)
{
    ptx_comment(b, "places: elements from the 16-byte boundary at or before x");
    w->lanes = ptxk_vector_lanes(w->spec->dtype);
    w->skew = ptxk_elements_beyond_boundary(b, w->in[0]);
    w->end = ptx_add(b, n, w->skew);
    w->alike = ptxk_channel_walk_alike(b, w);
    if (columns)
        walk_columns(b, w);
    else
        walk_rows(b, w);
}
