// SPDX-License-Identifier: MIT
#include "channel.h"
#include "quantizer.h"

enum { BLOCK = 128, CHUNK = 4096, WARP = 32, MANY_BLOCKS = 8192, LOG_MANY_STEPS = 6 };
enum { OPTION_LAYOUT = QUANTIZER_OPTIONS };
enum { LAYOUT_ROWS, LAYOUT_COLUMNS };

// Places are elements counted from the 16-byte boundary at or before x.
struct work {
    const struct ptx_spec *spec;
    unsigned lanes;
    ptx_ptr x, d_output, d_input, scale, zero_point;
    struct levels levels;
    struct channels channels;
    ptx_val skew, end; // the places of the tensor
    ptx_val alike;     // x, d_output and d_input are equally far from a 16-byte boundary
};

static struct quantizer quantizer_at(ptx_builder *b, const struct work *w, ptx_val channel)
{
    ptx_val scale = ptx_load(b, w->scale, channel, .nc = true);
    ptx_val zero_point = ptx_load(b, w->zero_point, channel, .nc = true);

    zero_point = ptx_cvt(b, PTX_S64, zero_point);
    return quantizer_of(b, w->spec, scale, zero_point, w->levels);
}

static void pass_through(ptx_builder *b, const struct work *w, const struct quantizers *q,
                         ptx_val place, unsigned lanes)
{
    const ptx_cache cache = lanes > 1 ? PTX_STREAM : PTX_CACHE_DEFAULT;
    ptx_val i = ptx_sub(b, place, w->skew);
    ptx_vec x = ptx_load_vec(b, w->x, i, lanes, .cache = cache);
    ptx_vec d_output = ptx_load_vec(b, w->d_output, i, lanes, .cache = cache);
    ptx_vec d_input = straight_through(b, w->spec, q, x, d_output);

    ptx_store_vec(b, w->d_input, i, d_input, .cache = cache);
}

// What the tensor has of the vector at `place`, element by element.
static void pass_each(ptx_builder *b, const struct work *w, ptx_val place, struct position start)
{
    const struct position one = { ptx_u64(0), ptx_u64(1) };
    struct position at = position_var(b, start);
    ptx_val stop = ptx_add(b, place, ptx_u64(w->lanes));

    ptx_for (b, i, place, ptx_min(b, stop, w->end), ptx_u64(1)) {
        ptx_if (b, ptx_ge(b, i, w->skew)) {
            struct quantizer q = quantizer_at(b, w, at.channel);
            pass_through(b, w, &(struct quantizers) { { &q } }, i, 1);
        }
        take_step(b, &w->channels, at, one);
    }
}

// Whether the vector at `place` lies in the tensor, and can be accessed at once.
static ptx_val is_whole(ptx_builder *b, const struct work *w, ptx_val place)
{
    ptx_val stop = ptx_add(b, place, ptx_u64(w->lanes));
    ptx_val begins = ptx_ge(b, place, w->skew);
    ptx_val ends = ptx_le(b, stop, w->end);

    return ptx_and(b, w->alike, ptx_and(b, begins, ends));
}

// One vector, in the rows of channels: mostly all of the channel whose quantizer is kept.
static void pass_row_vector(ptx_builder *b, const struct work *w, ptx_val place, struct position at,
                            ptx_val kept_channel, struct quantizer *kept)
{
    struct quantizers same = { { NULL } };
    ptx_val left = ptx_sub(b, w->channels.inner, at.offset);
    ptx_val single = ptx_ge(b, left, ptx_u64(w->lanes));

    for (unsigned k = 0; k < w->lanes; k++)
        same.of[k] = kept;
    ptx_if (b, ptx_and(b, single, is_whole(b, w, place))) {
        ptx_if (b, ptx_ne(b, at.channel, kept_channel)) {
            ptx_set(b, kept_channel, at.channel);
            quantizer_set(b, kept, quantizer_at(b, w, at.channel));
        }
        pass_through(b, w, &same, place, w->lanes);
    }
    ptx_else (b)
        pass_each(b, w, place, at);
}

// Elements of a channel lie next to each other in rows that are long: a warp has adjacent vectors
// and a thread every 32nd of them.
static void pass_rows(ptx_builder *b, struct work *w)
{
    const uint32_t step = WARP * w->lanes, steps = CHUNK / (BLOCK * w->lanes);

    w->channels = channels_of(b, w->channels.count, w->channels.inner);
    ptx_comment(b, "a warp has %u adjacent vectors, a thread every 32nd", WARP * steps);
    struct position stride = step_of(b, &w->channels, step);
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val warp = ptx_mul(b, ptx_shr(b, tid, ptx_u32(5)), ptx_u32(step * steps));
    ptx_val lane = ptx_and(b, tid, ptx_u32(WARP - 1));
    ptx_val mine = ptx_cvt(b, PTX_U64, ptx_mad(b, lane, ptx_u32(w->lanes), warp));
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val blocks = ptx_nctaid(b, PTX_X);
    ptx_val first = ptx_mul_wide(b, block, ptx_u32(CHUNK));

    ptx_for (b, chunk, first, w->end, ptx_mul_wide(b, blocks, ptx_u32(CHUNK))) {
        ptx_val place = ptx_var(b, ptx_add(b, chunk, mine));
        struct position at = position_var(b, position_of(b, &w->channels, place, w->skew));
        ptx_val kept_channel = ptx_var(b, at.channel);
        struct quantizer kept = quantizer_var(b, quantizer_at(b, w, at.channel));
        ptx_for (b, k, ptx_u32(0), ptx_u32(steps), ptx_u32(1)) {
            pass_row_vector(b, w, place, at, kept_channel, &kept);
            ptx_set(b, place, ptx_add(b, place, ptx_u64(step)));
            take_step(b, &w->channels, at, stride);
        }
    }
}

// How vectors lie that have the same channels.
struct columns {
    ptx_val unit;  // a multiple of the vector that is one of the channels' period too, in elements
    ptx_val least; // elements that the stride from vector to vector is to have, about end / steps
};

static struct columns columns_of(ptx_builder *b, const struct work *w)
{
    const unsigned steps = CHUNK / (BLOCK * w->lanes);
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

    return ptx_mul(b, quotient_by(b, up, c->unit, inverse), c->unit);
}

// A vector of x and of d_output, as memory has them.
struct words {
    ptx_vec x, d_output;
};

static ptx_type word_type(const struct work *w)
{
    return ptx_type_bytes(w->spec->dtype) == 2 ? PTX_B32 : w->spec->dtype;
}

static unsigned word_count(const struct work *w)
{
    return word_type(w) == PTX_B32 ? w->lanes / 2 : w->lanes;
}

static ptx_vec load_words(ptx_builder *b, const struct work *w, ptx_ptr tensor, ptx_val i)
{
    ptx_ptr words = ptx_ptr_cast(b, word_type(w), ptx_at(b, tensor, i));

    return ptx_load_vec(b, words, ptx_u32(0), word_count(w), .cache = PTX_STREAM);
}

static ptx_vec lanes_of(ptx_builder *b, const struct work *w, ptx_vec words)
{
    ptx_vec lanes = { .lanes = w->lanes };

    if (words.lanes == w->lanes)
        return words;
    for (unsigned k = 0; k < words.lanes; k++) {
        ptx_vec pair = ptx_unpack(b, w->spec->dtype, words.lane[k]);
        lanes.lane[2 * k] = pair.lane[0];
        lanes.lane[2 * k + 1] = pair.lane[1];
    }
    return lanes;
}

static ptx_vec each_word(ptx_builder *b, ptx_vec words, ptx_val (*copy)(ptx_builder *b, ptx_val x))
{
    for (unsigned k = 0; k < words.lanes; k++)
        words.lane[k] = copy(b, words.lane[k]);
    return words;
}

static struct words words_var(ptx_builder *b, const struct work *w)
{
    ptx_vec zeros = { .lanes = word_count(w) };

    for (unsigned k = 0; k < zeros.lanes; k++)
        zeros.lane[k] = ptx_zero(word_type(w));
    ptx_vec x = each_word(b, zeros, ptx_var);
    return (struct words) { x, each_word(b, zeros, ptx_var) };
}

// Sets the variables to the vector at `place`, if it is a whole one; whether it is.
static ptx_val fetch(ptx_builder *b, const struct work *w, const struct words *var, ptx_val place)
{
    ptx_val whole = is_whole(b, w, place);

    ptx_if (b, whole) {
        ptx_val i = ptx_sub(b, place, w->skew);
        ptx_vec x = load_words(b, w, w->x, i);
        ptx_vec d_output = load_words(b, w, w->d_output, i);
        for (unsigned k = 0; k < x.lanes; k++) {
            ptx_set(b, var->x.lane[k], x.lane[k]);
            ptx_set(b, var->d_output.lane[k], d_output.lane[k]);
        }
    }
    return whole;
}

// The vectors at `column` and a stride apart, each fetched while the one before is computed: a
// quantizer a lane takes the registers that other warps would hide the latency with.
static void pass_column(ptx_builder *b, const struct work *w, const struct quantizers *each,
                        ptx_val column, ptx_val stride)
{
    struct words ahead = words_var(b, w);
    ptx_val whole = ptx_var(b, fetch(b, w, &ahead, column));

    ptx_for (b, place, column, w->end, stride) {
        ptx_vec x = each_word(b, ahead.x, ptx_copy);
        ptx_vec d_output = each_word(b, ahead.d_output, ptx_copy);
        ptx_val fetched = ptx_copy(b, whole);
        ptx_val next = ptx_add(b, place, stride);
        ptx_set(b, whole, fetch(b, w, &ahead, next));
        ptx_if (b, fetched) {
            x = lanes_of(b, w, x);
            d_output = lanes_of(b, w, d_output);
            ptx_vec d_input = straight_through(b, w->spec, each, x, d_output);
            ptx_val i = ptx_sub(b, place, w->skew);
            ptx_store_vec(b, w->d_input, i, d_input, .cache = PTX_STREAM);
        }
        ptx_else (b)
            pass_each(b, w, place, position_of(b, &w->channels, place, w->skew));
    }
}

// One flag for all lanes: predicates are few.
static void share_unusual(ptx_builder *b, struct quantizer *of, unsigned lanes)
{
    ptx_val any = of[0].scale.unusual;

    if (any.kind == PTX_POISON)
        return;
    for (unsigned k = 1; k < lanes; k++)
        any = ptx_or(b, any, of[k].scale.unusual);
    for (unsigned k = 0; k < lanes; k++)
        of[k].scale.unusual = any;
}

// Channels change from element to element: a thread has the vectors below each other that have the
// same channels, and a quantizer for each lane.
static void pass_columns(ptx_builder *b, struct work *w)
{
    const uint32_t span = BLOCK * w->lanes;
    const struct position one = { ptx_u64(0), ptx_u64(1) };

    ptx_comment(b, "a thread has vectors a stride apart, a multiple of channels * inner");
    struct columns c = columns_of(b, w);
    ptx_val mine = ptx_mul(b, ptx_tid(b, PTX_X), ptx_u32(w->lanes));
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val blocks = ptx_nctaid(b, PTX_X);
    ptx_val first = ptx_mad_wide(b, block, ptx_u32(span), ptx_cvt(b, PTX_U64, mine));
    ptx_comment(b, "blocks beyond any stride end before the arithmetic begins");
    ptx_return_if(b, ptx_ge(b, first, ptx_add(b, c.least, c.unit)));
    w->channels = channels_of(b, w->channels.count, w->channels.inner);
    ptx_val stride = stride_of(b, &c);
    ptx_val columns = ptx_min(b, stride, w->end);

    ptx_for (b, column, first, columns, ptx_mul_wide(b, blocks, ptx_u32(span))) {
        struct position at = position_var(b, position_of(b, &w->channels, column, w->skew));
        struct quantizer of[8];
        struct quantizers each = { { NULL } };
        for (unsigned k = 0; k < w->lanes; k++) {
            of[k] = quantizer_at(b, w, at.channel);
            each.of[k] = &of[k];
            if (k + 1 < w->lanes)
                take_step(b, &w->channels, at, one);
        }
        share_unusual(b, of, w->lanes);
        pass_column(b, w, &each, column, stride);
    }
}

static ptx_ptr tensor_param(ptx_builder *b, const struct ptx_spec *spec, const char *name,
                            const char *meaning, bool written)
{
    return ptx_param_ptr(b, spec->dtype, name, .meaning = meaning, .length = "n",
                         .readonly = !written, .writeonly = written);
}

static void build(ptx_builder *b, const struct ptx_spec *spec)
{
    struct work w = { .spec = spec, .lanes = vector_lanes(spec->dtype) };

    w.x = tensor_param(b, spec, "x", "what was quantized", false);
    w.d_output = tensor_param(b, spec, "d_output", "gradient of the output", false);
    w.d_input = tensor_param(b, spec, "d_input", "gradient of x; may be d_output", true);
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements of each tensor");
    w.scale = ptx_param_ptr(b, compute_type(spec->dtype), "scale",
                            .meaning = "step of each channel's quantizer", .length = "channels",
                            .readonly = true, .range = PTX_FINITE | PTX_POSITIVE);
    struct ptx_param_info zero_point = zero_point_info(spec);
    zero_point.length = "channels";
    zero_point.readonly = true;
    w.zero_point = ptx_param_pointer(b, PTX_S32, zero_point);
    w.channels.count = ptx_param(b, PTX_U64, "channels", .meaning = "1 or more", .low = "1");
    w.channels.inner = ptx_param(b, PTX_U64, "inner", .preset = "1", .low = "1",
                                 .meaning = "adjacent elements of one channel");
    w.levels = target_levels(b, spec);

    ptx_comment(b, "places: elements from the 16-byte boundary at or before x");
    w.skew = elements_beyond_boundary(b, w.x);
    w.end = ptx_add(b, n, w.skew);
    w.alike = aligned_alike(b, (ptx_ptr[]) { w.x, w.d_output, w.d_input }, 3);
    if (spec->option[OPTION_LAYOUT] == LAYOUT_COLUMNS)
        pass_columns(b, &w);
    else
        pass_rows(b, &w);
}

const ptx_kernel ptx_kernel_quantize_channel_ste_backward = {
    .name = "quantize_channel_ste_backward",
    .summary = "straight-through gradient of a quantizer with a scale for each channel",
    .formula = "as quantize_ste_backward, with scale and zero_point [i / inner % channels]",
    .dtypes = PTX_SET(F32) | PTX_SET(F64) | PTX_SET(F16) | PTX_SET(BF16),
    .options = { QUANTIZER_OPTION_ROWS,
                 [OPTION_LAYOUT] = { "layout",
                                     { "rows", "columns" },
                                     "fast where inner is large, or where it is small; the same "
                                     "bits" } },
    .grid = PTX_GRID_CHUNKS,
    .block = BLOCK,
    .chunk = CHUNK,
    .guarantees = "deterministic; correctly rounded; NaN and infinite x give +0",
    .build = build,
};
