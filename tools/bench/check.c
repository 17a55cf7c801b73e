// SPDX-License-Identifier: MIT
// What a kernel computed, against plain C.
#include "bench/kernels.h"

#include "reference/reference.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = KERNEL_COLUMNS, WINDOWS = 3, MOST = 3 };

/// Elements of one place: what was there before a launch, after it, and what should be. Of a place
/// at a multiple of WINDOW.
struct window {
    const struct kernel_run *run;
    enum ref_type type;
    uint64_t first, count;
    double in[MOST][WINDOW]; // of any type, none of which is wider
    double out[MOST][WINDOW];
    double expected[MOST][WINDOW];
};

static double scalar(const struct window *w, const char *name)
{
    for (unsigned k = 0; k < w->run->count; k++)
        if (strcmp(w->run->params[k].name, name) == 0)
            return kernel_scalar(&w->run->params[k]);
    return NAN;
}

// ---- the kernels --------------------------------------------------------------------------------

static void squared_sum(struct window *w)
{
    ref_partials(w->type, w->in[0], w->count, ref_chunk(w->run->n), false, w->expected[0]);
}

static void clip_scale_reduce(struct window *w)
{
    const struct ref_clip clip = {
        .max_norm = (float)scalar(w, "max_norm"),
        .eps = (float)scalar(w, "eps"),
    };
    ref_clip_scale_reduce(w->type, w->in[0], w->count, clip, (float *)w->expected[0]);
}

static void gradient_clip(struct window *w)
{
    const float record[3] = { KERNEL_CLIP_SCALE, 1, 0 };
    memcpy(w->expected[0], w->in[0], sizeof(w->in[0]));
    ref_gradient_clip_from_device_scale(w->type, w->expected[0], w->count, REF_PROPAGATE, record);
}

static double rounded_scale(const struct window *w, double scale)
{
    return w->type == REF_F64 ? scale : (double)(float)scale;
}

static void quantize(struct window *w)
{
    const struct ref_quantize quantize = {
        .scale = rounded_scale(w, scalar(w, "scale")),
        .zero_point = (int32_t)scalar(w, "zero_point"),
        .q_min = -128,
        .q_max = 127,
    };
    ref_quantize_ste_backward(w->type, w->in[0], w->in[1], w->expected[0], w->count, quantize);
}

static void quantize_channel(struct window *w)
{
    static const struct ref_quantize quantize = { .q_min = -128, .q_max = 127 };
    const struct kernel_run *run = w->run;
    double scales[KERNEL_COLUMNS];
    int32_t zero_points[KERNEL_COLUMNS];
    // A window begins with a channel's row, or with the first channel of a row.
    const uint64_t begin = w->first / run->inner % run->channels;
    const uint64_t end = begin + (run->inner == 1 ? run->channels : 1);
    for (uint64_t c = begin; c < end; c++) {
        scales[c - begin] = rounded_scale(w, kernel_channel_scale(c, run->channels));
        zero_points[c - begin] = kernel_channel_zero_point(c);
    }
    const struct ref_channels channels = { end - begin, run->inner, scales, zero_points };
    ref_quantize_channel_ste_backward(w->type, w->in[0], w->in[1], w->expected[0], w->count,
                                      channels, quantize);
}

static void lerp(struct window *w)
{
    ref_lerp_backward(w->type, w->in[0], w->expected[0], w->expected[1], w->count,
                      scalar(w, "weight"));
}

static void loss_scale(struct window *w)
{
    const struct ref_loss_scale rule = {
        .growth = (float)scalar(w, "growth"),
        .backoff = (float)scalar(w, "backoff"),
        .interval = (int32_t)scalar(w, "interval"),
        .min_scale = (float)scalar(w, "min_scale"),
        .max_scale = (float)scalar(w, "max_scale"),
        .hysteresis = (int32_t)scalar(w, "hysteresis"),
    };
    float found;
    memcpy(&found, w->in[2], sizeof(found));
    memcpy(w->expected[0], w->in[0], sizeof(float));
    memcpy(w->expected[1], w->in[1], sizeof(int32_t));
    ref_loss_scale_update((float *)w->expected[0], (int32_t *)w->expected[1], found != 0, rule);
}

static const struct plain {
    const char *kernel;
    const char *in[MOST], *out[MOST]; // names of tensors
    void (*compute)(struct window *w);
} plain[] = {
    { "squared_sum", { "x" }, { "partials" }, squared_sum },
    { "clip_scale_reduce", { "partials" }, { "out" }, clip_scale_reduce },
    { "gradient_clip_from_device_scale", { "gradient" }, { "gradient" }, gradient_clip },
    { "quantize_ste_backward", { "x", "d_output" }, { "d_input" }, quantize },
    { "quantize_channel_ste_backward", { "x", "d_output" }, { "d_input" }, quantize_channel },
    { "lerp_backward", { "d_output" }, { "d_a", "d_b" }, lerp },
    { "loss_scale_update",
      { "scale", "growth_tracker", "found_inf" },
      { "scale", "growth_tracker" },
      loss_scale },
};

static const struct plain *find_plain(const char *kernel)
{
    for (size_t k = 0; k < sizeof(plain) / sizeof(plain[0]); k++)
        if (strcmp(plain[k].kernel, kernel) == 0)
            return &plain[k];
    return NULL;
}

bool bench_can_check(const ptx_kernel *kernel)
{
    return find_plain(kernel->name) != NULL;
}

// ---- what is there and what should be -----------------------------------------------------------

/// The tensor's elements that belong to the window.
static uint64_t part_of(const struct window *w, const struct ptx_param_info *param, uint64_t *first)
{
    const uint64_t length = kernel_length(w->run, param);
    uint64_t count = length;
    *first = 0;
    if (kernel_is_large(param)) {
        *first = w->first;
        count = w->count;
    } else if (strcmp(param->length, "blocks") == 0) {
        const uint32_t chunk = ptx_kernel_chunk(w->run->kernel, w->run->n);
        *first = w->first / chunk;
        count = (w->count - 1) / chunk + 1;
    }
    return count;
}

static const struct ptx_param_info *find_param(const struct kernel_run *run, const char *name,
                                               unsigned *index)
{
    for (*index = 0; *index < run->count; ++*index)
        if (strcmp(run->params[*index].name, name) == 0)
            return &run->params[*index];
    return NULL;
}

static bool read_tensor(struct bench *b, const struct window *w, const char *name, void *to)
{
    unsigned k;
    uint64_t first;
    const struct ptx_param_info *param = find_param(w->run, name, &k);
    if (!param)
        return message_set(&b->error, "%s has no parameter %s", w->run->kernel->name, name);
    const uint64_t count = part_of(w, param, &first);
    const size_t element = ptx_type_bytes((ptx_type)param->type);
    return bench_ok(b,
                    ptx_buffer_download(w->run->buffers[k], (size_t)first * element, to,
                                        (size_t)count * element, b->stream),
                    name) &&
           bench_wait(b);
}

static enum ref_type ref_of(uint8_t type)
{
    switch (type) {
    case PTX_F64:
        return REF_F64;
    case PTX_F16:
        return REF_F16;
    case PTX_BF16:
        return REF_BF16;
    default:
        return REF_F32; // S32 too: bits are compared
    }
}

static bool compare(struct bench *b, const struct window *w, const char *name, const void *out,
                    const void *expected)
{
    unsigned k;
    uint64_t first;
    const struct ptx_param_info *param = find_param(w->run, name, &k);
    const uint64_t count = part_of(w, param, &first);
    for (uint64_t i = 0; i < count; i++)
        if (!ref_same(ref_of(param->type), out, expected, i))
            return message_set(&b->error,
                               "%s %s: %s[%" PRIu64 "] is %.17g and should be %.17g: wrong "
                               "results are not timed",
                               w->run->kernel->name, ptx_type_name(w->run->spec.dtype), name,
                               first + i, ref_load(ref_of(param->type), out, i),
                               ref_load(ref_of(param->type), expected, i));
    return true;
}

/// Without this, zeros in and zeros out would do.
static bool check_input(struct bench *b, const struct window *w, const char *name, const void *in)
{
    unsigned k;
    const struct ptx_param_info *param = find_param(w->run, name, &k);
    const struct bench_random random = bench_random_of((ptx_type)param->type);
    const size_t element = ptx_type_bytes((ptx_type)param->type);
    const uint64_t bytes = w->count * element, word_bytes = sizeof(uint32_t);
    bool same = true;
    for (uint64_t at = 0; kernel_is_large(param) && at < bytes && same; at += word_bytes) {
        const uint32_t word = bench_random_word(random, (w->first * element + at) / word_bytes);
        const uint64_t part = bytes - at < word_bytes ? bytes - at : word_bytes;
        same = memcmp((const char *)in + at, &word, (size_t)part) == 0;
    }
    return same || message_set(&b->error,
                               "%s: %s is not the random data that the device was told "
                               "to make",
                               w->run->kernel->name, name);
}

static bool read_all(struct bench *b, struct window *w, const char *const names[MOST],
                     double to[MOST][WINDOW])
{
    for (int k = 0; k < MOST && names[k]; k++)
        if (!read_tensor(b, w, names[k], to[k]))
            return false;
    return true;
}

static bool read_inputs(struct bench *b, struct window *w, const char *const names[MOST])
{
    bool done = read_all(b, w, names, w->in);
    for (int k = 0; k < MOST && names[k] && done; k++)
        done = check_input(b, w, names[k], w->in[k]);
    return done;
}

bool bench_check_kernel(struct bench *b, const struct kernel_run *run)
{
    const struct plain *of = find_plain(run->kernel->name);
    const uint64_t last = (run->n - 1) / WINDOW;
    const uint64_t places[WINDOWS] = { 0, last / 2, last };
    struct window *windows = calloc(WINDOWS, sizeof(*windows));
    bool done = windows || message_set(&b->error, "out of memory");
    for (int k = 0; k < WINDOWS && done; k++) {
        struct window *w = &windows[k];
        const uint64_t first = places[k] * WINDOW;
        w->run = run;
        w->type = ref_of((uint8_t)run->spec.dtype);
        w->first = first;
        w->count = run->n - first < WINDOW ? run->n - first : WINDOW;
        done = read_inputs(b, w, of->in);
    }
    done = done && bench_ok(b, kernel_launch(b, run), "launch") && bench_wait(b);
    for (int k = 0; k < WINDOWS && done; k++) {
        struct window *w = &windows[k];
        of->compute(w);
        done = read_all(b, w, of->out, w->out);
        for (int o = 0; o < MOST && of->out[o] && done; o++)
            done = compare(b, w, of->out[o], w->out[o], w->expected[o]);
    }
    free(windows);
    return done;
}
