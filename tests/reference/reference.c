// SPDX-License-Identifier: MIT
#include "reference/reference.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "reference/fp8.h"
#include "reference/half.h"
#include "reference/learned.h"
#include "reference/observer.h"

// A compiler that evaluates floats in a wider type would round twice.
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16
#error "the reference needs float arithmetic in float"
#endif

size_t ref_bytes(enum ref_type type)
{
    return type == REF_F64 ? 8 : type == REF_F32 ? 4 : type == REF_U8 ? 1 : 2;
}

double ref_load(enum ref_type type, const void *p, uint64_t i)
{
    const char *at = (const char *)p + i * ref_bytes(type);
    float f32;
    double f64;
    uint16_t half;
    switch (type) {
    case REF_F32:
        memcpy(&f32, at, sizeof f32);
        return (double)f32;
    case REF_F64:
        memcpy(&f64, at, sizeof f64);
        return f64;
    case REF_F16:
        memcpy(&half, at, sizeof half);
        return f16_to_f64(half);
    case REF_U8:
        return *(const unsigned char *)at;
    default:
        memcpy(&half, at, sizeof half);
        return bf16_to_f64(half);
    }
}

void ref_store(enum ref_type type, void *p, uint64_t i, double x)
{
    char *at = (char *)p + i * ref_bytes(type);
    if (type == REF_F64) {
        memcpy(at, &x, sizeof x);
    } else if (type == REF_F32) {
        uint32_t f32 = isnan(x) ? 0x7fffffff : bits_of_f32((float)x);
        memcpy(at, &f32, sizeof f32);
    } else {
        uint16_t half = type == REF_F16 ? f16_from_f64(x) : bf16_from_f64(x);
        memcpy(at, &half, sizeof half);
    }
}

bool ref_same(enum ref_type type, const void *p, const void *q, uint64_t i)
{
    size_t bytes = ref_bytes(type);
    if (memcmp((const char *)p + i * bytes, (const char *)q + i * bytes, bytes) == 0)
        return true;
    return type == REF_F64 && isnan(ref_load(type, p, i)) && isnan(ref_load(type, q, i));
}

// Arithmetic in the compute type: f64 for f64 tensors, else f32.

static double round_compute(enum ref_type type, double x)
{
    return type == REF_F64 ? x : (double)(float)x;
}

static double multiply(enum ref_type type, double x, double y)
{
    return type == REF_F64 ? x * y : (double)((float)x * (float)y);
}

static double divide(enum ref_type type, double x, double y)
{
    return type == REF_F64 ? x / y : (double)((float)x / (float)y);
}

// Sums, in the order that the threads use.

/// v[i] += v[i + d] for d = count / 2 ... 1, as warp shuffles add.
static double halving_sum(double *v, int count)
{
    for (int d = count / 2; d > 0; d /= 2)
        for (int i = 0; i < d; ++i)
            v[i] += v[i + d];
    return v[0];
}

/// Adds neighbours in pairs, then the pairs in pairs, and so on.
static double neighbour_sum(double *v, int count)
{
    for (; count > 1; count /= 2)
        for (int i = 0; i < count / 2; ++i)
            v[i] = v[2 * i] + v[2 * i + 1];
    return v[0];
}

double ref_block_sum(double *v, int threads)
{
    double warp[32];
    for (int w = 0; w < threads / 32; ++w)
        warp[w] = halving_sum(v + 32 * w, 32);
    return halving_sum(warp, threads / 32);
}

double ref_chunk_sum(enum ref_type type, const void *x, uint64_t begin, uint64_t end)
{
    enum { THREADS = 256, MOST_LANES = 8 };
    int lanes = 16 / (int)ref_bytes(type);
    double slot[THREADS * MOST_LANES] = { 0 };
    double thread[THREADS];
    for (uint64_t i = begin; i < end; ++i) {
        double *sum = &slot[(i - begin) % (uint64_t)(THREADS * lanes)];
        double value = ref_load(type, x, i);
        *sum = fma(value, value, *sum);
    }
    for (int t = 0; t < THREADS; ++t)
        thread[t] = neighbour_sum(slot + t * lanes, lanes);
    return ref_block_sum(thread, THREADS);
}

uint64_t ref_chunk(uint64_t n)
{
    return n > 4194304 ? 16384 : 4096;
}

uint64_t ref_partial_count(uint64_t n)
{
    return (n + ref_chunk(n) - 1) / ref_chunk(n);
}

void ref_partials(enum ref_type type, const void *x, uint64_t n, uint64_t chunk, bool f32_partials,
                  void *partials)
{
    for (uint64_t k = 0; k * chunk < n; ++k) {
        uint64_t begin = k * chunk;
        uint64_t end = n - begin < chunk ? n : begin + chunk;
        double sum = ref_chunk_sum(type, x, begin, end);
        // Which of several NaNs propagates depends on the hardware, so all are replaced by one.
        if (isnan(sum))
            sum = f64_of_bits(UINT64_MAX >> 1);
        ref_store(f32_partials ? REF_F32 : REF_F64, partials, k, sum);
    }
}

void ref_squared_sum(enum ref_type type, const void *x, uint64_t n, bool f32_partials,
                     void *partials)
{
    ref_partials(type, x, n, ref_chunk(n), f32_partials, partials);
}

void ref_clip_scale_reduce(enum ref_type type, const void *partials, uint64_t count,
                           struct ref_clip clip, float out[3])
{
    enum { THREADS = 1024 };
    double thread[THREADS] = { 0 };
    for (uint64_t i = 0; i < count; ++i)
        thread[i % THREADS] += ref_load(type, partials, i);
    double total = ref_block_sum(thread, THREADS);

    double exact_norm = sqrt(total);
    float norm = (float)exact_norm, divisor = norm + clip.eps;
    float ratio = clip.max_norm / divisor;
    // The divisor of a finite total above 0 may be 0 in f32, or exceed it: the quotient is then
    // computed in f64.
    if (isfinite(total) && (divisor == 0.0f || isinf(divisor)))
        ratio = (float)((double)clip.max_norm / (exact_norm + (double)clip.eps));
    float scale = ratio < 1.0f || isnan(ratio) ? ratio : 1.0f;
    if (total == 0.0)
        scale = 1.0f;
    bool found = !isfinite(total) || isnan(scale);
    if (found && clip.nonfinite == REF_SKIP)
        scale = 1.0f;
    if (found && clip.nonfinite == REF_ZERO)
        scale = 0.0f;
    ref_store(REF_F32, out, 0, (double)scale);
    ref_store(REF_F32, out, 1, (double)norm);
    ref_store(REF_F32, out, 2, found ? 1.0 : 0.0);
}

void ref_gradient_clip_from_device_scale(enum ref_type type, void *gradient, uint64_t n,
                                         enum ref_nonfinite nonfinite, const float *record)
{
    if (nonfinite == REF_ZERO && record[2] != 0.0f) {
        memset(gradient, 0, (size_t)n * ref_bytes(type));
        return;
    }
    if (record[0] == 1.0f)
        return;
    for (uint64_t i = 0; i < n; ++i) {
        double g = ref_load(type, gradient, i);
        ref_store(type, gradient, i, multiply(type, g, (double)record[0]));
    }
}

void ref_quantize_ste_backward(enum ref_type type, const void *x, const void *d_output,
                               void *d_input, uint64_t n, struct ref_quantize quantize)
{
    // Integers of 33 bits and every f32 are exact in f64, so this comparison is exact.
    double low = (double)((int64_t)quantize.q_min - quantize.zero_point);
    double high = (double)((int64_t)quantize.q_max - quantize.zero_point);
    double inverse = divide(type, 1.0, quantize.scale);
    size_t bytes = ref_bytes(type);
    for (uint64_t i = 0; i < n; ++i) {
        double value = ref_load(type, x, i), dy = ref_load(type, d_output, i);
        double q = rint(quantize.reciprocal ? multiply(type, value, inverse)
                                            : divide(type, value, quantize.scale));
        if (!(q >= low && q <= high))
            ref_store(type, d_input, i, 0.0);
        else if (quantize.fake_quantize)
            memmove((char *)d_input + i * bytes, (const char *)d_output + i * bytes, bytes);
        else
            ref_store(type, d_input, i,
                      quantize.reciprocal ? multiply(type, dy, inverse)
                                          : divide(type, dy, quantize.scale));
    }
}

void ref_quantize_channel_ste_backward(enum ref_type type, const void *x, const void *d_output,
                                       void *d_input, uint64_t n, struct ref_channels channels,
                                       struct ref_quantize quantize)
{
    size_t bytes = ref_bytes(type);
    for (uint64_t i = 0; i < n; ++i) {
        uint64_t channel = i / channels.inner % channels.count;
        quantize.scale = channels.scale[channel];
        quantize.zero_point = channels.zero_point[channel];
        ref_quantize_ste_backward(type, (const char *)x + i * bytes,
                                  (const char *)d_output + i * bytes, (char *)d_input + i * bytes,
                                  1, quantize);
    }
}

void ref_loss_scale_update(float *scale, int32_t *tracker, bool found, struct ref_loss_scale rule)
{
    if (found) {
        int64_t bad = (*tracker < 0 ? -(int64_t)*tracker : 0) + 1;
        if (bad >= rule.hysteresis) {
            *scale *= rule.backoff;
            bad = 0;
        }
        *tracker = (int32_t)-bad;
    } else {
        int64_t good = (*tracker > 0 ? (int64_t)*tracker : 0) + 1;
        if (good >= rule.interval) {
            if (*scale * rule.growth <= FLT_MAX)
                *scale *= rule.growth;
            good = 0;
        }
        *tracker = (int32_t)good;
    }
    if (*scale < rule.min_scale)
        *scale = rule.min_scale;
    if (*scale > rule.max_scale)
        *scale = rule.max_scale;
}

void ref_lerp_backward(enum ref_type type, const void *d_output, void *d_a, void *d_b, uint64_t n,
                       double weight)
{
    double a = round_compute(type, 1.0 - weight), b = round_compute(type, weight);
    for (uint64_t i = 0; i < n; ++i) {
        double dy = ref_load(type, d_output, i);
        if (d_a)
            ref_store(type, d_a, i, multiply(type, a, dy));
        if (d_b)
            ref_store(type, d_b, i, multiply(type, b, dy));
    }
}

// ---- by name ------------------------------------------------------------------------------------

static double value(const struct ref_stretch *s, const char *name)
{
    return s->value(s->user, name, 0);
}

static double rounded_scale(const struct ref_stretch *s, uint64_t channel)
{
    const double scale = s->value(s->user, "scale", channel);
    return s->type == REF_F64 ? scale : (double)(float)scale;
}

static void squared_sum(const struct ref_stretch *s)
{
    ref_partials(s->type, s->in[0], s->count, ref_chunk(s->n), false, s->out[0]);
}

static void clip_scale_reduce(const struct ref_stretch *s)
{
    const struct ref_clip clip = { .max_norm = (float)value(s, "max_norm"),
                                   .eps = (float)value(s, "eps") };
    ref_clip_scale_reduce(s->type, s->in[0], s->count, clip, s->out[0]);
}

static void gradient_clip(const struct ref_stretch *s)
{
    const float record[3] = { (float)value(s, "record"), 1, 0 };
    memcpy(s->out[0], s->in[0], (size_t)s->count * ref_bytes(s->type));
    ref_gradient_clip_from_device_scale(s->type, s->out[0], s->count, REF_PROPAGATE, record);
}

static void quantize(const struct ref_stretch *s)
{
    const struct ref_quantize quantize = { .scale = rounded_scale(s, 0),
                                           .zero_point = (int32_t)value(s, "zero_point"),
                                           .q_min = -128,
                                           .q_max = 127 };
    ref_quantize_ste_backward(s->type, s->in[0], s->in[1], s->out[0], s->count, quantize);
}

// The channels of a stretch, which begins at the row of a channel, or at the first channel of a
// row.
struct stretch_channels {
    double scale[REF_MOST_CHANNELS];
    int32_t zero_point[REF_MOST_CHANNELS];
};

static struct ref_channels channels_of(const struct ref_stretch *s, struct stretch_channels *room)
{
    const uint64_t begin = s->first / s->inner % s->channels;
    const uint64_t end = begin + (s->inner == 1 ? s->channels : 1);
    for (uint64_t c = begin; c < end; c++) {
        room->scale[c - begin] = rounded_scale(s, c);
        room->zero_point[c - begin] = (int32_t)s->value(s->user, "zero_point", c);
    }
    return (struct ref_channels) { end - begin, s->inner, room->scale, room->zero_point };
}

static void quantize_channel(const struct ref_stretch *s)
{
    static const struct ref_quantize quantize = { .q_min = -128, .q_max = 127 };
    struct stretch_channels room;
    ref_quantize_channel_ste_backward(s->type, s->in[0], s->in[1], s->out[0], s->count,
                                      channels_of(s, &room), quantize);
}

static void fake_quantize_channel(const struct ref_stretch *s)
{
    const struct ref_quantize quantize = { .q_min = (int32_t)value(s, "q_min"),
                                           .q_max = (int32_t)value(s, "q_max") };
    struct stretch_channels room;
    ref_fake_quantize_channel(s->type, s->in[0], s->out[0], s->count, channels_of(s, &room),
                              quantize);
}

static void fake_quantize(const struct ref_stretch *s)
{
    const struct ref_quantize quantize = { .scale = rounded_scale(s, 0),
                                           .zero_point = (int32_t)value(s, "zero_point"),
                                           .q_min = (int32_t)value(s, "q_min"),
                                           .q_max = (int32_t)value(s, "q_max") };
    ref_fake_quantize(s->type, s->in[0], s->out[0], s->count, quantize);
}

static void groups(const struct ref_stretch *s)
{
    const struct ref_groups groups = { .group = 32, .levels = REF_LEVELS_SYMMETRIC, .bits = 4 };
    ref_fake_quantize_groups(s->type, s->in[0], s->out[0], s->count, groups, NULL, NULL);
}

/// All groups have one scale, so that d_input is that of the tensor.
static void learned_groups(const struct ref_stretch *s)
{
    const double scale = rounded_scale(s, 0), zero_point = value(s, "zero_point");
    const struct ref_learned learned = { .q_min = (int32_t)value(s, "q_min"),
                                         .q_max = (int32_t)value(s, "q_max"),
                                         .layout = REF_TENSOR,
                                         .scale = &scale,
                                         .zero_point = &zero_point };
    ref_learned_backward(s->type, s->in[0], s->in[1], s->out[0], s->count, &learned, NULL, NULL);
}

/// One scale, or one a channel.
static void learned(const struct ref_stretch *s)
{
    if (isnan(value(s, "channels"))) {
        learned_groups(s);
        return;
    }
    struct stretch_channels room;
    double zero_point[REF_MOST_CHANNELS];
    const struct ref_channels channels = channels_of(s, &room);
    for (uint64_t c = 0; c < channels.count; c++)
        zero_point[c] = (double)channels.zero_point[c];
    const struct ref_learned learned = { .q_min = (int32_t)value(s, "q_min"),
                                         .q_max = (int32_t)value(s, "q_max"),
                                         .layout = REF_ROWS,
                                         .channels = channels.count,
                                         .inner = channels.inner,
                                         .scale = channels.scale,
                                         .zero_point = zero_point };
    ref_learned_backward(s->type, s->in[0], s->in[1], s->out[0], s->count, &learned, NULL, NULL);
}

static void observe(const struct ref_stretch *s)
{
    for (uint64_t k = 0; k < 2; k++)
        ref_store(REF_F32, s->out[0], k, s->value(s->user, "extreme of x", k));
}

static void moving_average(const struct ref_stretch *s)
{
    const struct ref_observer rule = { .averaging_constant = (float)value(s, "averaging_constant"),
                                       .eps = (float)value(s, "eps"),
                                       .q_min = (int32_t)value(s, "q_min"),
                                       .q_max = (int32_t)value(s, "q_max") };
    float extremes[2];
    memcpy(extremes, s->in[0], sizeof extremes);
    memcpy(s->out[0], s->in[1], sizeof extremes);
    ref_moving_average_update(&rule, extremes, s->out[0], s->out[1], s->out[2]);
}

static void lerp(const struct ref_stretch *s)
{
    ref_lerp_backward(s->type, s->in[0], s->out[0], s->out[1], s->count, value(s, "weight"));
}

static void loss_scale(const struct ref_stretch *s)
{
    const struct ref_loss_scale rule = {
        .growth = (float)value(s, "growth"),
        .backoff = (float)value(s, "backoff"),
        .interval = (int32_t)value(s, "interval"),
        .min_scale = (float)value(s, "min_scale"),
        .max_scale = (float)value(s, "max_scale"),
        .hysteresis = (int32_t)value(s, "hysteresis"),
    };
    float found;
    memcpy(&found, s->in[2], sizeof found);
    memcpy(s->out[0], s->in[0], sizeof(float));
    memcpy(s->out[1], s->in[1], sizeof(int32_t));
    ref_loss_scale_update(s->out[0], s->out[1], found != 0, rule);
}

static void cast_fp8(const struct ref_stretch *s)
{
    ref_cast_fp8(s->type, s->in[0], s->count, REF_E4M3, (float)value(s, "scale"), s->out[0], NULL);
}

/// With as many entries as tensors, the history has one row.
static void delayed_scale(const struct ref_stretch *s)
{
    const struct ref_delayed_scale rule = { .margin = (int32_t)value(s, "margin") };
    memcpy(s->out[0], s->in[0], (size_t)s->count * sizeof(float));
    memcpy(s->out[1], s->in[1], (size_t)s->count * sizeof(float));
    ref_delayed_scale_update(&rule, s->count, 1, s->out[0], s->out[1], s->out[2]);
}

const struct ref_kernel *ref_kernel_find(const char *name)
{
    static const struct ref_kernel kernels[] = {
        { "squared_sum", { "x" }, { "partials" }, squared_sum },
        { "clip_scale_reduce", { "partials" }, { "out" }, clip_scale_reduce },
        { "gradient_clip_from_device_scale", { "gradient" }, { "gradient" }, gradient_clip },
        { "quantize_ste_backward", { "x", "d_output" }, { "d_input" }, quantize },
        { "quantize_channel_ste_backward", { "x", "d_output" }, { "d_input" }, quantize_channel },
        { "fake_quantize", { "x" }, { "y" }, fake_quantize },
        { "fake_quantize_channel", { "x" }, { "y" }, fake_quantize_channel },
        { "fake_quantize_groups", { "x" }, { "y" }, groups },
        { "quantize_learned_backward", { "x", "d_output" }, { "d_input" }, learned },
        { "observe_min_max", { "x" }, { "extremes" }, observe },
        { "moving_average_update",
          { "extremes", "averages" },
          { "averages", "scale", "zero_point" },
          moving_average },
        { "quantize_learned_groups", { "x", "d_output" }, { "d_input" }, learned_groups },
        { "lerp_backward", { "d_output" }, { "d_a", "d_b" }, lerp },
        { "loss_scale_update",
          { "scale", "growth_tracker", "found_inf" },
          { "scale", "growth_tracker" },
          loss_scale },
        { "cast_fp8", { "x" }, { "y" }, cast_fp8 },
        { "delayed_scale_update",
          { "history", "scale" },
          { "history", "scale", "scale_inv" },
          delayed_scale },
    };
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
        if (strcmp(kernels[k].name, name) == 0)
            return &kernels[k];
    return NULL;
}
