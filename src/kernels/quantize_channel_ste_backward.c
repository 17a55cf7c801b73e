// SPDX-License-Identifier: MIT
#include "common/common.h"
#include "common/quantizer.h"
#include "kernel_code.h"

enum { CHANNEL_BLOCK = 128, CHANNEL_CHUNK = 4096 };

// ---- channels -----------------------------------------------------------------------------------

// Finds the channel of an element in a tensor seen as [outer, channels, inner], without dividing
// 64-bit integers.
struct channels {
    ptx_val count, inner;  // u64, above 0
    ptx_val inner_inverse; // f64
};

// An element's channel and its index among the `inner` adjacent elements of that channel; u64. The
// distance between two elements has the same form.
struct position {
    ptx_val channel, offset;
};

static ptx_val inverse_of(ptx_builder *b, ptx_val y)
{
    return ptx_rcp(b, ptx_cvt(b, PTX_F64, y));
}

static struct channels channels_of(ptx_builder *b, ptx_val count, ptx_val inner)
{
    return (struct channels) { count, inner, inverse_of(b, inner) };
}

// x / y rounded down, for x below 2^50, with the rounded inverse of y: after three roundings with a
// relative error of 2^-53 each, the product is within 1 of x / y.
static ptx_val quotient_by(ptx_builder *b, ptx_val x, ptx_val y, ptx_val inverse)
{
    ptx_val product = ptx_mul(b, ptx_cvt(b, PTX_F64, x), inverse);
    ptx_val rough = ptx_cvt(b, PTX_U64, product);
    ptx_val rest = ptx_bitcast(b, PTX_S64, ptx_sub(b, x, ptx_mul(b, rough, y)));
    ptx_val high = ptx_lt(b, rest, ptx_s64(0));
    ptx_val low = ptx_ge(b, rest, ptx_bitcast(b, PTX_S64, y));

    rough = ptx_add(b, rough, ptx_select(b, low, ptx_u64(1), ptx_u64(0)));
    return ptx_sub(b, rough, ptx_select(b, high, ptx_u64(1), ptx_u64(0)));
}

// The channel of element `place` - `skew`. If that is negative: of the element as far before the
// start of a row. `skew` is at most 8.
static struct position position_of(ptx_builder *b, const struct channels *c, ptx_val place,
                                   ptx_val skew)
{
    ptx_val period = ptx_mul(b, c->count, c->inner);
    ptx_val ahead = ptx_mul(b, period, ptx_u64(8));
    ptx_val before = ptx_lt(b, place, skew);
    ptx_val i = ptx_sub(b, place, skew);

    i = ptx_add(b, i, ptx_select(b, before, ahead, ptx_u64(0)));
    ptx_val row = ptx_var(b, quotient_by(b, i, c->inner, c->inner_inverse));
    ptx_val offset = ptx_sub(b, i, ptx_mul(b, row, c->inner));
    ptx_if (b, ptx_ge(b, row, c->count)) {
        ptx_val outer = quotient_by(b, row, c->count, inverse_of(b, c->count));
        ptx_set(b, row, ptx_sub(b, row, ptx_mul(b, outer, c->count)));
    }
    return (struct position) { row, offset };
}

// A distance of this many elements.
static struct position step_of(ptx_builder *b, const struct channels *c, uint32_t elements)
{
    struct position step = { ptx_var(b, ptx_u64(0)), ptx_var(b, ptx_u64(elements)) };

    ptx_if (b, ptx_le(b, c->inner, ptx_u64(elements))) {
        ptx_val inner = ptx_cvt(b, PTX_U32, c->inner);
        ptx_val rows = ptx_div(b, ptx_u32(elements), inner);
        ptx_val offset = ptx_sub(b, ptx_u32(elements), ptx_mul(b, rows, inner));
        ptx_set(b, step.offset, ptx_cvt(b, PTX_U64, offset));
        ptx_set(b, step.channel, ptx_rem(b, ptx_cvt(b, PTX_U64, rows), c->count));
    }
    return step;
}

// Advances the variables of `at` by the step.
static void take_step(ptx_builder *b, const struct channels *c, struct position at,
                      struct position step)
{
    ptx_val offset = ptx_add(b, at.offset, step.offset);
    ptx_val carries = ptx_ge(b, offset, c->inner);
    ptx_val rest = ptx_sub(b, offset, c->inner);
    ptx_set(b, at.offset, ptx_select(b, carries, rest, offset));

    const bool within = step.channel.kind == PTX_KIND_IMMEDIATE && step.channel.bits == 0;
    ptx_val channel = within ? at.channel : ptx_add(b, at.channel, step.channel);
    channel = ptx_add(b, channel, ptx_select(b, carries, ptx_u64(1), ptx_u64(0)));
    ptx_val wraps = ptx_ge(b, channel, c->count);
    rest = ptx_sub(b, channel, c->count);
    ptx_set(b, at.channel, ptx_select(b, wraps, rest, channel));
}

static struct position position_var(ptx_builder *b, struct position at)
{
    at.channel = ptx_var(b, at.channel);
    at.offset = ptx_var(b, at.offset);
    return at;
}

// ---- elements -----------------------------------------------------------------------------------

// Positions are elements counted from the 16-byte boundary at or before x.
struct channel_work {
    const struct ptx_kernel_spec *spec;
    unsigned lanes;
    ptx_ptr x, d_output, d_input, scale, zero_point;
    struct levels levels;
    struct channels channels;
    ptx_val skew, end; // the first position of the tensor, and the one after its last
    ptx_val alike;     // x, d_output and d_input have the same misalignment
};

static struct quantizer channel_quantizer(ptx_builder *b, const struct channel_work *w,
                                          ptx_val channel)
{
    ptx_val scale = ptx_load(b, w->scale, channel, .nc = true);
    ptx_val zero_point = ptx_load(b, w->zero_point, channel, .nc = true);

    zero_point = ptx_cvt(b, PTX_S64, zero_point);
    return ptxk_quantizer_of(b, w->spec, scale, zero_point, w->levels);
}

// `lanes` elements from `place` on; all must be in the tensor.
static void channel_pass_through(ptx_builder *b, const struct channel_work *w,
                                 const struct quantizers *q, ptx_val place, unsigned lanes)
{
    ptx_val i = ptx_sub(b, place, w->skew);
    ptx_vec x = ptx_load_vec(b, w->x, i, lanes);
    ptx_vec d_output = ptx_load_vec(b, w->d_output, i, lanes);
    ptx_vec d_input = ptxk_straight_through(b, w->spec, q, x, d_output);

    ptx_store_vec(b, w->d_input, i, d_input);
}

// The elements of the vector at `place` that are in the tensor, one by one.
static void channel_pass_each(ptx_builder *b, const struct channel_work *w, ptx_val place,
                              struct position start)
{
    const struct position one = { ptx_u64(0), ptx_u64(1) };
    struct position at = position_var(b, start);
    ptx_val stop = ptx_add(b, place, ptx_u64(w->lanes));

    ptx_for (b, i, place, ptx_min(b, stop, w->end), ptx_u64(1)) {
        ptx_if (b, ptx_ge(b, i, w->skew)) {
            struct quantizer q = channel_quantizer(b, w, at.channel);
            channel_pass_through(b, w, &(struct quantizers) { { &q } }, i, 1);
        }
        take_step(b, &w->channels, at, one);
    }
}

// Whether the vector at `place` is in the tensor and can be accessed as a vector.
static ptx_val channel_is_whole(ptx_builder *b, const struct channel_work *w, ptx_val place)
{
    ptx_val stop = ptx_add(b, place, ptx_u64(w->lanes));
    ptx_val begins = ptx_ge(b, place, w->skew);
    ptx_val ends = ptx_le(b, stop, w->end);

    return ptx_and(b, w->alike, ptx_and(b, begins, ends));
}

// ---- rows ---------------------------------------------------------------------------------------

// One vector in the row layout. Usually all its elements are of the channel whose quantizer is
// kept.
static void pass_row_vector(ptx_builder *b, const struct channel_work *w, ptx_val place,
                            struct position at, ptx_val kept_channel, struct quantizer *kept)
{
    struct quantizers same = { { NULL } };
    ptx_val left = ptx_sub(b, w->channels.inner, at.offset);
    ptx_val single = ptx_ge(b, left, ptx_u64(w->lanes));

    for (unsigned k = 0; k < w->lanes; k++)
        same.of[k] = kept;
    ptx_if (b, ptx_and(b, single, channel_is_whole(b, w, place))) {
        ptx_if (b, ptx_ne(b, at.channel, kept_channel)) {
            ptx_set(b, kept_channel, at.channel);
            ptxk_quantizer_set(b, kept, channel_quantizer(b, w, at.channel));
        }
        channel_pass_through(b, w, &same, place, w->lanes);
    }
    ptx_else (b)
        channel_pass_each(b, w, place, at);
}

// The row layout: adjacent elements are of one channel, in long rows. A warp processes adjacent
// vectors, a thread every 32nd of them. Completes w->channels.
static void channel_pass_rows(ptx_builder *b, struct channel_work *w)
{
    const uint32_t step = WARP * w->lanes, steps = CHANNEL_CHUNK / (CHANNEL_BLOCK * w->lanes);

    w->channels = channels_of(b, w->channels.count, w->channels.inner);
    ptx_comment(b, "a warp has %u adjacent vectors, a thread every 32nd", WARP * steps);
    struct position stride = step_of(b, &w->channels, step);
    ptx_val tid = ptx_tid(b, PTX_X);
    ptx_val warp = ptx_mul(b, ptx_shr(b, tid, ptx_u32(5)), ptx_u32(step * steps));
    ptx_val lane = ptx_and(b, tid, ptx_u32(WARP - 1));
    ptx_val mine = ptx_cvt(b, PTX_U64, ptx_mad(b, lane, ptx_u32(w->lanes), warp));
    ptx_val block = ptx_ctaid(b, PTX_X);
    ptx_val blocks = ptx_nctaid(b, PTX_X);
    ptx_val first = ptx_mul_wide(b, block, ptx_u32(CHANNEL_CHUNK));

    ptx_for (b, chunk, first, w->end, ptx_mul_wide(b, blocks, ptx_u32(CHANNEL_CHUNK))) {
        ptx_val place = ptx_var(b, ptx_add(b, chunk, mine));
        struct position at = position_var(b, position_of(b, &w->channels, place, w->skew));
        ptx_val kept_channel = ptx_var(b, at.channel);
        struct quantizer kept = ptxk_quantizer_var(b, channel_quantizer(b, w, at.channel));
        ptx_for (b, k, ptx_u32(0), ptx_u32(steps), ptx_u32(1)) {
            pass_row_vector(b, w, place, at, kept_channel, &kept);
            ptx_set(b, place, ptx_add(b, place, ptx_u64(step)));
            take_step(b, &w->channels, at, stride);
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

// The least multiple of the unit that is at least `least`.
static ptx_val stride_of(ptx_builder *b, const struct columns *c)
{
    ptx_val up = ptx_add(b, c->least, ptx_sub(b, c->unit, ptx_u64(1)));
    ptx_val inverse = ptx_rcp(b, ptx_cvt(b, PTX_F64, c->unit));

    return ptx_mul(b, quotient_by(b, up, c->unit, inverse), c->unit);
}

// A vector of x and of d_output, loaded in advance.
struct ahead {
    ptx_vec x, d_output;
};

// Loads the vector at `place` if it is a whole one; returns whether it is.
static ptx_val fetch(ptx_builder *b, const struct channel_work *w, const struct ahead *ahead,
                     ptx_val place)
{
    ptx_val whole = channel_is_whole(b, w, place);

    ptx_if (b, whole) {
        ptx_val i = ptx_sub(b, place, w->skew);
        ptxk_words_read(b, ahead->x, w->x, i);
        ptxk_words_read(b, ahead->d_output, w->d_output, i);
    }
    return whole;
}

// The vectors at `column` and at multiples of the stride after it. Each is loaded while the
// previous one is computed: one quantizer per lane takes so many registers that too few warps are
// resident to hide the latency.
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
            channel_pass_each(b, w, place, position_of(b, &w->channels, place, w->skew));
    }
}

// One flag for all lanes, because predicate registers are few.
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

// The column layout: channels change from element to element. A thread processes vectors that have
// the same channels, with one quantizer per lane. Completes w->channels.
static void channel_pass_columns(ptx_builder *b, struct channel_work *w)
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
    w->channels = channels_of(b, w->channels.count, w->channels.inner);
    ptx_val stride = stride_of(b, &c);
    ptx_val columns = ptx_min(b, stride, w->end);

    ptx_for (b, column, first, columns, ptx_mul_wide(b, blocks, ptx_u32(span))) {
        struct position at = position_var(b, position_of(b, &w->channels, column, w->skew));
        struct quantizer of[8];
        struct quantizers each = { { NULL } };
        for (unsigned k = 0; k < w->lanes; k++) {
            of[k] = channel_quantizer(b, w, at.channel);
            each.of[k] = &of[k];
            if (k + 1 < w->lanes)
                take_step(b, &w->channels, at, one);
        }
        share_unusual(b, of, w->lanes);
        pass_column(b, w, &each, column, stride);
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

enum { OPTION_LAYOUT = QUANTIZER_OPTIONS };
enum { LAYOUT_ROWS, LAYOUT_COLUMNS };

static ptx_ptr tensor_param(ptx_builder *b, const struct ptx_kernel_spec *spec, const char *name,
                            const char *meaning, bool written)
{
    return ptx_param_ptr(b, spec->dtype, name, .meaning = meaning, .length = "n",
                         .readonly = !written, .writeonly = written);
}

static void build(ptx_builder *b, const struct ptx_kernel_spec *spec)
{
    struct channel_work w = { .spec = spec, .lanes = ptxk_vector_lanes(spec->dtype) };

    w.x = tensor_param(b, spec, "x", "what was quantized", false);
    w.d_output = tensor_param(b, spec, "d_output", "gradient of the output", false);
    w.d_input = tensor_param(b, spec, "d_input", "gradient of x; may be d_output", true);
    ptx_val n = ptx_param(b, PTX_U64, "n", .meaning = "elements of each tensor");
    w.scale = ptx_param_ptr(b, ptxk_compute_type(spec->dtype), "scale",
                            .meaning = "step of each channel's quantizer", .length = "channels",
                            .readonly = true, .range = PTX_RANGE_FINITE | PTX_RANGE_POSITIVE);
    struct ptx_param_info zero_point = ptxk_zero_point_info(spec);
    zero_point.length = "channels";
    zero_point.readonly = true;
    w.zero_point = ptx_param_ptr_emit(b, PTX_S32, zero_point);
    w.channels.count = ptx_param(b, PTX_U64, "channels", .meaning = "1 or more", .low = "1");
    w.channels.inner = ptx_param(b, PTX_U64, "inner", .preset = "1", .low = "1",
                                 .meaning = "adjacent elements of one channel");
    w.levels = ptxk_target_levels(b, spec);

    ptx_comment(b, "places: elements from the 16-byte boundary at or before x");
    w.skew = ptxk_elements_beyond_boundary(b, w.x);
    w.end = ptx_add(b, n, w.skew);
    w.alike = ptxk_aligned_alike(b, (ptx_ptr[]) { w.x, w.d_output, w.d_input }, 3);
    if (spec->option[OPTION_LAYOUT] == LAYOUT_COLUMNS)
        channel_pass_columns(b, &w);
    else
        channel_pass_rows(b, &w);
}

const ptx_kernel ptx_kernel_quantize_channel_ste_backward = {
    .name = "quantize_channel_ste_backward",
    .summary = "straight-through gradient of a quantizer with a scale for each channel",
    .formula = "as quantize_ste_backward, with scale and zero_point [i / inner % channels]",
    .dtypes = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16),
    .options = { QUANTIZER_OPTION_ROWS,
                 [OPTION_LAYOUT] = { "layout",
                                     { "rows", "columns" },
                                     "fast where inner is large, or where it is small; the same "
                                     "bits" } },
    .grid = PTX_GRID_CHUNKS,
    .block = CHANNEL_BLOCK,
    .guarantees = "deterministic; correctly rounded; NaN and infinite x give +0",
    .code = &(const struct ptx_kernel_code) { .build = build, .chunk = CHANNEL_CHUNK },
};
