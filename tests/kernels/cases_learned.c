// SPDX-License-Identifier: MIT
#include "cases.h"
#include "test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "reference/learned.h"

// ---- quantize_learned_backward ------------------------------------------------------------------

/// [outer, channels, inner], for any value of outer; the last row may be incomplete.
static const struct {
    uint64_t channels, inner;
} shapes[] = {
    { 3, 1 },    { 1, 1 },    { 64, 1 },    { 7, 1 },      { 1000, 1 },  { 5, 3 },
    { 16, 49 },  { 4, 8 },    { 31, 12 },   { 1, 700 },    { 2, 129 },   { 9, 256 },
    { 10, 768 }, { 3, 4096 }, { 13, 1025 }, { 2, 100000 }, { 20003, 1 }, { 8, 64 },
};

enum { ALL_SIZES = 1000000, WIDE = 20000 };
enum { SHAPES = sizeof shapes / sizeof *shapes, MOST_CHANNELS = 20003, TYPICAL = 5 };

/// The values of each channel as the device has them, and for the reference.
struct channels {
    double *scale, *zero_point;
    float *f32_scale, *f32_zero_point;
    int32_t *zero_fixed;
};

static void *room_for(size_t count, size_t size)
{
    void *room = calloc(count, size);
    assert_non_null(room);
    return room;
}

/// Mostly usual scales and zero points in range; a few of every other kind.
static void fill_channels(struct random *r, enum ref_type type, struct channels *c, uint64_t count,
                          const struct ref_learned *p)
{
    static const double scales[] = { 0.03,  0.7071,           1.0,        0.5,
                                     0.03,  0x1p-140,         3e38,       0.0,
                                     -0.03, (double)INFINITY, (double)NAN };
    static const double zero_points[] = { 0.5, 1.5, -1.5, 1e30, -1e30, (double)NAN, -0.0 };
    const uint32_t most = sizeof scales / sizeof *scales;
    const uint32_t kinds = sizeof zero_points / sizeof *zero_points;
    for (uint64_t k = 0; k < count; ++k) {
        const uint32_t span = (uint32_t)((int64_t)p->q_max - p->q_min);
        const bool wild = random_below(r, 16) == 0;
        const double scale = scales[random_below(r, random_below(r, 4) ? TYPICAL : most)];
        const uint32_t offset =
            span == UINT32_MAX ? (uint32_t)random_u64(r) : random_below(r, span + 1);
        const double level = (double)((int64_t)p->q_min + offset);
        const double zero_point =
            wild ? zero_points[random_below(r, kinds)] : level + (double)random_below(r, 9) / 8;
        c->f32_scale[k] = (float)scale;
        c->f32_zero_point[k] = (float)zero_point;
        c->scale[k] = type == REF_F64 ? scale : (double)c->f32_scale[k];
        c->zero_point[k] = type == REF_F64 ? zero_point : (double)c->f32_zero_point[k];
        c->zero_fixed[k] = wild ? (int32_t)(uint32_t)random_u64(r) : (int32_t)level;
    }
}

/// The trial's shape. For any n the columns of a whole row have their tiles, and an emulator takes
/// seconds for those of a wide row: where large sizes are left out, such rows are too.
static int shape_of(const struct suite *s, const struct gpu_kernel *loaded, int trial)
{
    const int shape = trial % SHAPES;
    const bool wide = shapes[shape].channels * shapes[shape].inner > WIDE &&
                      gpu_kernel_has(loaded, "layout", "columns");
    return wide && s->most < ALL_SIZES ? 0 : shape;
}

/// Whether variant v has a case of size i. Variants change the arithmetic. The addresses depend on
/// layout and shape. Where large sizes are left out, for time, a variant has a few of the sizes.
/// The steps of v and i are 1, so that no variant is left without a case.
static bool is_turn(const struct suite *s, int v, int i)
{
    const int few = gpu.variants == 0 ? 2 : 4;
    return (v + i) % (s->sizes[i] > 5000 ? 24 : s->most < ALL_SIZES ? few : 2) == 0;
}

static struct ref_learned parameters(struct suite *s, const struct gpu_kernel *loaded,
                                     const struct channels *c, int trial)
{
    const int shape = shape_of(s, loaded, trial);
    const bool fixed = gpu_kernel_has(loaded, "zero_point", "fixed");
    const bool widest = random_below(&s->random, 8) == 0, wide = random_below(&s->random, 2) == 0;
    return (struct ref_learned) {
        .reciprocal = gpu_kernel_has(loaded, "division", "reciprocal"),
        .quotient_range = gpu_kernel_has(loaded, "range", "quotient"),
        .q_min = widest ? INT32_MIN
                 : wide ? -128
                        : -8,
        .q_max = widest ? INT32_MAX
                 : wide ? 127
                        : 7,
        .layout = gpu_kernel_has(loaded, "layout", "tensor")  ? REF_TENSOR
                  : gpu_kernel_has(loaded, "layout", "rows")  ? REF_ROWS
                  : gpu_kernel_has(loaded, "layout", "whole") ? REF_WHOLE
                                                              : REF_COLUMNS,
        .channels = shapes[shape].channels,
        .inner = shapes[shape].inner,
        .scale = c->scale,
        .zero_point = fixed ? NULL : c->zero_point,
        .zero_fixed = fixed ? c->zero_fixed : NULL,
    };
}

struct learned_data {
    const void *x, *d_output;
    void *d_input;
    double *scale_sums, *zero_sums;
    void *gradients[2]; ///< of whole rows
};

static void add_scalars(struct gpu_case *g, struct suite *s, const struct channels *c,
                        const struct ref_learned *p)
{
    const bool f64 = s->type == REF_F64, tensor = p->layout == REF_TENSOR;
    const enum ref_type type = f64 ? REF_F64 : REF_F32;
    const uint64_t count = tensor ? 1 : p->channels;
    gpu_case_tensor(g, "scale", type, count, f64 ? (const void *)c->scale : c->f32_scale, NULL);
    if (p->zero_fixed)
        gpu_case_tensor(g, "zero_point", REF_F32, count, c->zero_fixed, NULL);
    else
        gpu_case_tensor(g, "zero_point", type, count,
                        f64 ? (const void *)c->zero_point : c->f32_zero_point, NULL);
    if (!tensor) {
        gpu_case_value(g, &p->channels, sizeof p->channels);
        gpu_case_value(g, &p->inner, sizeof p->inner);
    }
    gpu_case_value(g, &p->q_min, sizeof p->q_min);
    gpu_case_value(g, &p->q_max, sizeof p->q_max);
}

/// The gradients of whole rows. A sum is not added to 0, so -0 of products that underflow stays.
static void gradients_of(enum ref_type type, const double *sums, uint64_t channels, double factor,
                         void *gradients)
{
    for (uint64_t c = 0; c < channels; c++)
        ref_store(type, gradients, c, sums[c] * factor);
}

static void add_gradients(struct gpu_case *g, const struct suite *s, const struct ref_learned *p,
                          const struct learned_data *d)
{
    static const double factor = 0.1;
    const enum ref_type type = s->type == REF_F64 ? REF_F64 : REF_F32;
    gpu_case_value(g, &factor, sizeof factor);
    gradients_of(type, d->scale_sums, p->channels, factor, d->gradients[0]);
    gpu_case_tensor(g, "d_scale", type, p->channels, NULL, d->gradients[0]);
    if (p->zero_fixed)
        return;
    gradients_of(type, d->zero_sums, p->channels, factor, d->gradients[1]);
    gpu_case_tensor(g, "d_zero_point", type, p->channels, NULL, d->gradients[1]);
}

static void check_learned(struct suite *s, const struct gpu_kernel *loaded,
                          const struct channels *c, const struct ref_learned *p,
                          const struct learned_data *d, uint64_t n, bool in_place, unsigned grid)
{
    const struct ptx_kernel_sizes sizes = { n, p->channels, p->inner };
    const uint64_t pieces = ref_learned_pieces(s->type, n, p);
    const bool whole = p->layout == REF_WHOLE;
    uint64_t count = 0;
    struct gpu_case g;
    assert_true(ptx_kernel_length(loaded->kernel, &loaded->spec, &sizes, "pieces", &count) !=
                whole);
    assert_true(whole || count == pieces);
    ref_learned_backward(s->type, d->x, d->d_output, d->d_input, n, p, d->scale_sums, d->zero_sums);
    gpu_case_begin(&g, loaded, n);
    g.grid = n ? grid : whole; // rows without elements have gradients
    struct gpu_tensor *dx = suite_quantized(s, &g, d->x, d->d_output, d->d_input, n, in_place);
    dx->exact = true;
    gpu_case_value(&g, &n, sizeof n);
    add_scalars(&g, s, c, p);
    if (whole) {
        add_gradients(&g, s, p, d);
    } else {
        gpu_case_tensor(&g, "scale_sums", REF_F64, pieces, NULL, d->scale_sums);
        if (!p->zero_fixed)
            gpu_case_tensor(&g, "zero_sums", REF_F64, pieces, NULL, d->zero_sums);
    }
    snprintf(g.note, sizeof g.note,
             "%" PRIu64 " channels, inner = %" PRIu64 ", %d to %d, grid = %u", p->channels,
             p->inner, p->q_min, p->q_max, g.grid);
    gpu_check(&s->random, &g);
}

/// Rows of n elements, the last incomplete; where there would be too many, or by turns, one row.
static void fit_rows(struct ref_learned *p, uint64_t n, int trial)
{
    enum { MOST_IN_ROW = 1 << 16 };
    const uint64_t rows = n / p->inner + (n % p->inner != 0);
    const bool one = trial % 4 == 0 && n <= MOST_IN_ROW;
    p->channels = one ? 1 : rows;
    if (one || p->channels > MOST_CHANNELS) {
        p->channels = one || n <= MOST_IN_ROW ? 1 : n / MOST_IN_ROW + 1;
        p->inner = p->channels == 1 ? n : MOST_IN_ROW;
    }
    if (!p->channels)
        p->channels = 1;
    if (!p->inner)
        p->inner = 1;
}

/// As many sums as the largest size and any shape can have.
static double *sums_room(const struct suite *s)
{
    return room_for((size_t)s->most + 100000 + 8 * MOST_CHANNELS, sizeof(double));
}

static bool is_default(const struct gpu_kernel *loaded)
{
    return gpu_kernel_has(loaded, "division", "exact") &&
           gpu_kernel_has(loaded, "zero_point", "learned") &&
           gpu_kernel_has(loaded, "range", "level");
}

/// Long pieces, of several warps, and longer tiles: in each layout once.
static void check_long_pieces(struct suite *s, struct channels *c)
{
    enum { LONG = (1 << 22) + 4099, SUMS = LONG / 16 };
    static const struct {
        const char *layout;
        uint64_t channels, inner;
    } trials[] = { { "tensor", 1, 1 }, { "rows", 13, 70001 }, { "columns", 1000, 1 } };
    if (gpu.max_size < LONG)
        return;
    void *x = room_for(LONG, sizeof(double)), *dy = room_for(LONG, sizeof(double));
    const struct learned_data d = { .x = x,
                                    .d_output = dy,
                                    .d_input = room_for(LONG, sizeof(double)),
                                    .scale_sums = room_for(SUMS, sizeof(double)),
                                    .zero_sums = room_for(SUMS, sizeof(double)) };
    data_fill_ties(&s->random, s->type, s->type == REF_F64 ? 0.03 : (double)0.03f, x, LONG);
    data_fill(&s->random, s->type, DATA_PLAIN, dy, LONG);
    for (int v = 0; v < s->count; ++v)
        for (int k = 0; k < 3 && is_default(&s->loaded[v]); ++k) {
            if (!gpu_kernel_has(&s->loaded[v], "layout", trials[k].layout))
                continue;
            struct ref_learned p = parameters(s, &s->loaded[v], c, 0);
            p.channels = trials[k].channels;
            p.inner = trials[k].inner;
            fill_channels(&s->random, s->type, c, p.layout == REF_TENSOR ? 1 : p.channels, &p);
            check_learned(s, &s->loaded[v], c, &p, &d, LONG, false, 0);
        }
    free(d.zero_sums);
    free(d.scale_sums);
    free(d.d_input);
    free(dy);
    free(x);
}

void check_quantize_learned_backward(ptx_type dtype)
{
    struct suite s;
    int trial = 0;
    suite_begin(&s, &ptx_kernel_quantize_learned_backward, dtype);
    void *x_room = suite_room(&s), *dy_room = suite_room(&s);
    struct learned_data d = { .d_input = suite_room(&s),
                              .scale_sums = sums_room(&s),
                              .zero_sums = sums_room(&s),
                              .gradients = { room_for(MOST_CHANNELS, sizeof(double)),
                                             room_for(MOST_CHANNELS, sizeof(double)) } };
    struct channels c = { room_for(MOST_CHANNELS, sizeof(double)),
                          room_for(MOST_CHANNELS, sizeof(double)),
                          room_for(MOST_CHANNELS, sizeof(float)),
                          room_for(MOST_CHANNELS, sizeof(float)),
                          room_for(MOST_CHANNELS, sizeof(int32_t)) };
    data_fill_ties(&s.random, s.type, s.type == REF_F64 ? 0.03 : (double)0.03f, x_room, s.most);
    for (int v = 0; v < s.count; ++v) {
        // Special values make most sums NaN, and would hide their order.
        data_fill(&s.random, s.type, v % 5 ? DATA_PLAIN : DATA_SPECIAL, dy_room, s.most);
        for (int i = 0; i < s.size_count; ++i) {
            const uint64_t n = s.sizes[i];
            if (!is_turn(&s, v, i))
                continue;
            struct ref_learned p = parameters(&s, &s.loaded[v], &c, trial);
            if (p.layout == REF_WHOLE)
                fit_rows(&p, n, trial);
            fill_channels(&s.random, s.type, &c, p.layout == REF_TENSOR ? 1 : p.channels, &p);
            d.x = suite_window(&s, x_room, n);
            d.d_output = suite_window(&s, dy_room, n);
            check_learned(&s, &s.loaded[v], &c, &p, &d, n, trial % 2, trial % 5 == 3 ? 1 : 0);
            trial++;
        }
    }
    check_long_pieces(&s, &c);
    free(d.gradients[1]);
    free(d.gradients[0]);
    free(c.zero_fixed);
    free(c.f32_zero_point);
    free(c.f32_scale);
    free(c.zero_point);
    free(c.scale);
    free(d.zero_sums);
    free(d.scale_sums);
    free(d.d_input);
    free(dy_room);
    free(x_room);
    suite_end(&s);
}

// ---- quantize_learned_groups --------------------------------------------------------------------

static uint64_t group_of(const struct gpu_kernel *loaded)
{
    return gpu_kernel_has(loaded, "group", "32")   ? 32
           : gpu_kernel_has(loaded, "group", "64") ? 64
                                                   : 128;
}

/// The gradients of each group, which are those of a row of a group's elements.
static void reduce_groups(const double *sums, uint64_t groups, double factor, float *gradients)
{
    if (groups)
        ref_learned_reduce(REF_F32, sums, groups, groups, 1, factor, gradients);
}

struct groups_room {
    float *d_scale, *d_zero_point;
};

static void check_groups(struct suite *s, const struct gpu_kernel *loaded, const struct channels *c,
                         const struct ref_learned *p, const struct learned_data *d,
                         const struct groups_room *room, bool in_place)
{
    static const double factors[] = { 1, 0.1, -3e-5 };
    const uint64_t groups = p->channels, n = groups * p->inner;
    const double factor = factors[random_below(&s->random, 3)];
    struct gpu_case g;
    ref_learned_backward(s->type, d->x, d->d_output, d->d_input, n, p, d->scale_sums, d->zero_sums);
    reduce_groups(d->scale_sums, groups, factor, room->d_scale);
    gpu_case_begin(&g, loaded, n);
    suite_quantized(s, &g, d->x, d->d_output, d->d_input, n, in_place)->exact = true;
    gpu_case_value(&g, &n, sizeof n);
    gpu_case_tensor(&g, "scale", REF_F32, groups, c->f32_scale, NULL);
    gpu_case_tensor(&g, "zero_point", REF_F32, groups,
                    p->zero_fixed ? (const void *)c->zero_fixed : c->f32_zero_point, NULL);
    gpu_case_value(&g, &p->q_min, sizeof p->q_min);
    gpu_case_value(&g, &p->q_max, sizeof p->q_max);
    gpu_case_value(&g, &factor, sizeof factor);
    gpu_case_tensor(&g, "d_scale", REF_F32, groups, NULL, room->d_scale);
    if (!p->zero_fixed) {
        reduce_groups(d->zero_sums, groups, factor, room->d_zero_point);
        gpu_case_tensor(&g, "d_zero_point", REF_F32, groups, NULL, room->d_zero_point);
    }
    snprintf(g.note, sizeof g.note, "groups of %" PRIu64 ", %d to %d, factor = %a", p->inner,
             p->q_min, p->q_max, factor);
    gpu_check(&s->random, &g);
}

void check_quantize_learned_groups(ptx_type dtype)
{
    struct suite s;
    suite_begin(&s, &ptx_kernel_quantize_learned_groups, dtype);
    const size_t most = (size_t)s.most / 32 + 1;
    void *x_room = suite_room(&s), *dy_room = suite_room(&s);
    const struct groups_room room = { room_for(most, sizeof(float)),
                                      room_for(most, sizeof(float)) };
    struct learned_data d = { .d_input = suite_room(&s),
                              .scale_sums = room_for(most, sizeof(double)),
                              .zero_sums = room_for(most, sizeof(double)) };
    struct channels c = { room_for(most, sizeof(double)), room_for(most, sizeof(double)),
                          room_for(most, sizeof(float)), room_for(most, sizeof(float)),
                          room_for(most, sizeof(int32_t)) };
    data_fill_ties(&s.random, s.type, (double)0.03f, x_room, s.most);
    for (int v = 0; v < s.count; ++v) {
        data_fill(&s.random, s.type, v % 5 ? DATA_PLAIN : DATA_SPECIAL, dy_room, s.most);
        for (int i = 0; i < s.size_count; ++i) {
            // Variants change the arithmetic, not the addresses.
            if (!is_turn(&s, v, i))
                continue;
            struct ref_learned p = parameters(&s, &s.loaded[v], &c, 0);
            p.layout = REF_ROWS;
            p.inner = group_of(&s.loaded[v]);
            p.channels = s.sizes[i] / p.inner;
            fill_channels(&s.random, s.type, &c, p.channels, &p);
            d.x = suite_window(&s, x_room, s.sizes[i]);
            d.d_output = suite_window(&s, dy_room, s.sizes[i]);
            check_groups(&s, &s.loaded[v], &c, &p, &d, &room, (v + i) % 2);
        }
    }
    void *const rooms[] = { c.zero_fixed, c.f32_zero_point, c.f32_scale,  c.zero_point,
                            c.scale,      d.zero_sums,      d.scale_sums, d.d_input,
                            dy_room,      x_room,           room.d_scale, room.d_zero_point };
    for (size_t k = 0; k < sizeof rooms / sizeof *rooms; ++k)
        free(rooms[k]);
    suite_end(&s);
}

// ---- quantize_learned_reduce --------------------------------------------------------------------

/// Sums [outer, channels, width].
static const struct {
    uint64_t outer, channels, width;
} reductions[] = {
    { 1, 1, 1 },    { 1, 1, 8 },    { 1, 1, 9 },   { 1, 1, 1000 }, { 1, 1, 20000 }, { 3, 5, 1 },
    { 1, 3000, 1 }, { 100, 77, 1 }, { 2, 300, 7 }, { 9, 64, 16 },  { 1, 1025, 3 },  { 70, 3, 129 },
};

static void check_reduce(struct suite *s, const struct gpu_kernel *loaded, const double *sums,
                         uint64_t outer, uint64_t channels, uint64_t width, double factor)
{
    const uint64_t pieces = outer * channels * width;
    const bool both = gpu_kernel_has(loaded, "gradients", "both");
    ALLOCATED(double) *zero_sums = room_for((size_t)pieces, sizeof(double));
    void *d_scale = room_for((size_t)channels, 8), *d_zero = room_for((size_t)channels, 8);
    struct gpu_case g;
    for (uint64_t k = 0; k < pieces; ++k)
        zero_sums[k] = sums[pieces - 1 - k];
    ref_learned_reduce(s->type, sums, pieces, channels, width, factor, d_scale);
    ref_learned_reduce(s->type, zero_sums, pieces, channels, width, factor, d_zero);
    gpu_case_begin(&g, loaded, pieces);
    gpu_case_tensor(&g, "scale_sums", REF_F64, pieces, sums, NULL);
    if (both)
        gpu_case_tensor(&g, "zero_sums", REF_F64, pieces, zero_sums, NULL);
    gpu_case_value(&g, &pieces, sizeof pieces);
    gpu_case_value(&g, &channels, sizeof channels);
    gpu_case_value(&g, &width, sizeof width);
    gpu_case_value(&g, &factor, sizeof factor);
    gpu_case_tensor(&g, "d_scale", s->type, channels, NULL, d_scale);
    if (both)
        gpu_case_tensor(&g, "d_zero_point", s->type, channels, NULL, d_zero);
    snprintf(g.note, sizeof g.note, "[%" PRIu64 ", %" PRIu64 ", %" PRIu64 "], factor = %a", outer,
             channels, width, factor);
    gpu_check(&s->random, &g);
    free(d_zero);
    free(d_scale);
}

void check_quantize_learned_reduce(ptx_type dtype)
{
    static const double factors[] = { 1, 0.1, -3e-5, 0, 1e300 };
    enum { MOST = 70 * 3 * 129 };
    struct suite s;
    suite_begin(&s, &ptx_kernel_quantize_learned_reduce, dtype);
    double *sums = room_for(MOST, sizeof *sums);
    int trial = 0;
    for (int v = 0; v < s.count; ++v)
        for (size_t k = 0; k < sizeof reductions / sizeof *reductions; ++k) {
            const uint64_t pieces =
                reductions[k].outer * reductions[k].channels * reductions[k].width;
            if (pieces > gpu.max_size)
                continue;
            data_fill(&s.random, REF_F64, trial % 7 == 6 ? DATA_SPECIAL : DATA_PLAIN, sums, pieces);
            check_reduce(&s, &s.loaded[v], sums, reductions[k].outer, reductions[k].channels,
                         reductions[k].width, factors[trial % 5]);
            trial++;
        }
    free(sums);
    suite_end(&s);
}
