// SPDX-License-Identifier: MIT
#include "cases.h"
#include "test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "data.h"

/// [outer, channels, inner], for any value of outer; the last row may be incomplete.
struct shape {
    uint64_t channels, inner;
};

static const struct shape shapes[] = {
    { 3, 1 },    { 1, 1 },    { 64, 1 },    { 7, 1 },      { 1000, 1 },   { 5, 3 },
    { 16, 49 },  { 4, 8 },    { 31, 12 },   { 1, 700 },    { 2, 129 },    { 9, 256 },
    { 10, 768 }, { 3, 4096 }, { 13, 1025 }, { 2, 100000 }, { 100003, 1 }, { 40000, 2 },
};

enum { SHAPES = sizeof shapes / sizeof *shapes, MOST_CHANNELS = 100003, TYPICAL = 5 };

/// The values of each channel, for the reference and for the device.
struct channels {
    double *scale;
    float *f32_scale;
    int32_t *zero_point;
    void *learned; ///< floats that are rounded to zero_point
    uint64_t inner;
    uint64_t count;
};

static void *room_for(size_t bytes)
{
    void *room = malloc(bytes);
    assert_non_null(room);
    return room;
}

/// Mostly usual scales and zero points in range; a few of every other kind.
static void fill_channels(struct random *r, enum ref_type type, struct channels *c, int32_t q_min,
                          int32_t q_max)
{
    static const double scales[] = { 0.03,  0.7071,           1.0,        0.5,
                                     0.03,  0x1p-140,         3e38,       0.0,
                                     -0.03, (double)INFINITY, (double)NAN };
    const uint32_t most = sizeof scales / sizeof *scales;
    for (uint64_t k = 0; k < c->count; ++k) {
        uint32_t span = (uint32_t)((int64_t)q_max - q_min);
        bool wild = random_below(r, 16) == 0;
        double scale = scales[random_below(r, random_below(r, 4) ? TYPICAL : most)];
        c->f32_scale[k] = (float)scale;
        c->scale[k] = type == REF_F64 ? scale : (double)c->f32_scale[k];
        uint32_t offset = span == UINT32_MAX ? (uint32_t)random_u64(r) : random_below(r, span + 1);
        c->zero_point[k] =
            wild ? (int32_t)(uint32_t)random_u64(r) : (int32_t)((int64_t)q_min + offset);
    }
}

/// Floats of the compute type, most a little beside the zero points, and the zero points they give.
static void learn(struct random *r, enum ref_type type, struct channels *c, int32_t q_min,
                  int32_t q_max)
{
    const enum ref_type compute = type == REF_F64 ? REF_F64 : REF_F32;
    for (uint64_t k = 0; k < c->count; ++k) {
        const double beside = (double)c->zero_point[k] + random_below(r, 5) * 0.25 - 0.5;
        ref_store(compute, c->learned, k, random_below(r, 16) ? beside : (double)NAN);
        c->zero_point[k] = ref_nearest_level(ref_load(compute, c->learned, k), q_min, q_max);
    }
}

static struct ref_quantize parameters(struct suite *s, const struct gpu_kernel *loaded)
{
    struct ref_quantize p = { .reciprocal = gpu_kernel_has(loaded, "division", "reciprocal"),
                              .fake_quantize = gpu_kernel_has(loaded, "gradient", "fake_quantize"),
                              .q_min = -128,
                              .q_max = 127 };
    if (gpu_kernel_has(loaded, "target", "u8")) {
        p.q_min = 0;
        p.q_max = 255;
    } else if (gpu_kernel_has(loaded, "target", "any")) {
        bool widest = random_below(&s->random, 4) == 0;
        p.q_min = widest ? INT32_MIN : -8;
        p.q_max = widest ? INT32_MAX : 7;
    }
    return p;
}

static void check_channels(struct suite *s, const struct gpu_kernel *loaded, struct channels *c,
                           const void *x, const void *d_output, void *d_input, uint64_t n,
                           bool in_place, unsigned grid)
{
    const struct ref_quantize p = parameters(s, loaded);
    fill_channels(&s->random, s->type, c, p.q_min, p.q_max);
    const bool f64 = s->type == REF_F64;
    const void *scale = f64 ? (const void *)c->scale : (const void *)c->f32_scale;
    ref_quantize_channel_ste_backward(
        s->type, x, d_output, d_input, n,
        (struct ref_channels) { c->count, c->inner, c->scale, c->zero_point }, p);
    struct gpu_case g;
    gpu_case_begin(&g, loaded, n);
    g.grid = grid;
    struct gpu_tensor *dx = suite_quantized(s, &g, x, d_output, d_input, n, in_place);
    dx->exact = p.fake_quantize;
    gpu_case_value(&g, &n, sizeof n);
    gpu_case_tensor(&g, "scale", f64 ? REF_F64 : REF_F32, c->count, scale, NULL);
    gpu_case_tensor(&g, "zero_point", REF_F32, c->count, c->zero_point, NULL);
    gpu_case_value(&g, &c->count, sizeof c->count);
    gpu_case_value(&g, &c->inner, sizeof c->inner);
    if (gpu_kernel_has(loaded, "target", "any")) {
        gpu_case_value(&g, &p.q_min, sizeof p.q_min);
        gpu_case_value(&g, &p.q_max, sizeof p.q_max);
    }
    snprintf(g.note, sizeof g.note,
             "%" PRIu64 " channels, inner = %" PRIu64 ", %d to %d, grid = %u", c->count, c->inner,
             p.q_min, p.q_max, grid);
    gpu_check(&s->random, &g);
}

/// Blocks: 0 for the usual number; a few, which take several chunks each; or as many as for a large
/// tensor.
static unsigned odd_grid(int trial)
{
    return trial % 97 == 50 ? 8192 : trial % 5 == 3 ? 1 : trial % 11 == 5 ? 7 : 0;
}

static struct channels channels_room(void)
{
    return (struct channels) { .scale = room_for(MOST_CHANNELS * sizeof(double)),
                               .f32_scale = room_for(MOST_CHANNELS * sizeof(float)),
                               .zero_point = room_for(MOST_CHANNELS * sizeof(int32_t)),
                               .learned = room_for(MOST_CHANNELS * sizeof(double)) };
}

static void channels_free(struct channels *c)
{
    free(c->learned);
    free(c->zero_point);
    free(c->f32_scale);
    free(c->scale);
}

void check_quantize_channel_ste_backward(ptx_type dtype)
{
    struct suite s;
    int trial = 0;
    suite_begin(&s, &ptx_kernel_quantize_channel_ste_backward, dtype);
    void *x_room = suite_room(&s), *dy_room = suite_room(&s), *d_input = suite_room(&s);
    struct channels c = channels_room();
    data_fill(&s.random, s.type, DATA_SPECIAL, dy_room, s.most);
    data_fill_ties(&s.random, s.type, s.type == REF_F64 ? 0.03 : (double)0.03f, x_room, s.most);
    for (int v = 0; v < s.count; ++v)
        for (int i = 0; i < s.size_count; ++i) {
            const uint64_t n = s.sizes[i];
            // Variants change the arithmetic. The addresses depend on layout and shape.
            if (n > 5000 && (v + i) % 8 > 0)
                continue;
            const struct shape *shape = &shapes[trial % SHAPES];
            c.count = shape->channels;
            c.inner = shape->inner;
            check_channels(&s, &s.loaded[v], &c, suite_window(&s, x_room, n),
                           suite_window(&s, dy_room, n), d_input, n, trial % 2, odd_grid(trial));
            trial++;
        }
    channels_free(&c);
    free(d_input);
    free(dy_room);
    free(x_room);
    suite_end(&s);
}

// ---- fake_quantize_channel ----------------------------------------------------------------------

static void check_fake_channels(struct suite *s, const struct gpu_kernel *loaded,
                                struct channels *c, const void *x, void *y, uint64_t n,
                                bool in_place, unsigned grid)
{
    const bool f64 = s->type == REF_F64, widest = random_below(&s->random, 4) == 0;
    const bool learned = gpu_kernel_has(loaded, "zero_point", "learned");
    const struct ref_quantize p = { .reciprocal = gpu_kernel_has(loaded, "division", "reciprocal"),
                                    .q_min = widest ? INT32_MIN : -8,
                                    .q_max = widest ? INT32_MAX : 7 };
    struct gpu_case g;
    fill_channels(&s->random, s->type, c, p.q_min, p.q_max);
    if (learned)
        learn(&s->random, s->type, c, p.q_min, p.q_max);
    const void *scale = f64 ? (const void *)c->scale : (const void *)c->f32_scale;
    ref_fake_quantize_channel(
        s->type, x, y, n, (struct ref_channels) { c->count, c->inner, c->scale, c->zero_point }, p);
    gpu_case_begin(&g, loaded, n);
    g.grid = grid;
    suite_mapped(s, &g, x, y, n, in_place);
    gpu_case_value(&g, &n, sizeof n);
    gpu_case_tensor(&g, "scale", f64 ? REF_F64 : REF_F32, c->count, scale, NULL);
    gpu_case_tensor(&g, "zero_point", learned && f64 ? REF_F64 : REF_F32, c->count,
                    learned ? c->learned : c->zero_point, NULL);
    gpu_case_value(&g, &c->count, sizeof c->count);
    gpu_case_value(&g, &c->inner, sizeof c->inner);
    gpu_case_value(&g, &p.q_min, sizeof p.q_min);
    gpu_case_value(&g, &p.q_max, sizeof p.q_max);
    snprintf(g.note, sizeof g.note,
             "%" PRIu64 " channels, inner = %" PRIu64 ", %d to %d, grid = %u", c->count, c->inner,
             p.q_min, p.q_max, grid);
    gpu_check(&s->random, &g);
}

void check_fake_quantize_channel(ptx_type dtype)
{
    struct suite s;
    int trial = 0;
    suite_begin(&s, &ptx_kernel_fake_quantize_channel, dtype);
    void *x_room = suite_room(&s), *y = suite_room(&s);
    struct channels c = channels_room();
    data_fill_ties(&s.random, s.type, s.type == REF_F64 ? 0.03 : (double)0.03f, x_room, s.most);
    for (int v = 0; v < s.count; ++v)
        for (int i = 0; i < s.size_count; ++i) {
            const uint64_t n = s.sizes[i];
            if (n > 5000 && (v + i) % 8 > 0)
                continue;
            const struct shape *shape = &shapes[trial % SHAPES];
            c.count = shape->channels;
            c.inner = shape->inner;
            check_fake_channels(&s, &s.loaded[v], &c, suite_window(&s, x_room, n), y, n, trial % 2,
                                odd_grid(trial));
            trial++;
        }
    channels_free(&c);
    free(y);
    free(x_room);
    suite_end(&s);
}
