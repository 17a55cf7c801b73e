// SPDX-License-Identifier: MIT
// The results of one-call operations on a GPU, or on the emulator, compared with the plain-C
// reference.
#include <math.h>

#include "data.h"
#include "operation_fixture.h"
#include "reference/fp8.h"
#include "sanitized.h"

enum { MOST = 12000, BYTES = (MOST + 8) * 8 };

static const ptx_type dtypes[] = { PTX_F32, PTX_F64, PTX_F16, PTX_BF16 };

static void assert_tensor(enum ref_type type, const void *got, const void *want, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!ref_same(type, got, want, i))
            fail_msg("element %llu of %llu is %a, want %a", (unsigned long long)i,
                     (unsigned long long)n, ref_load(type, got, i), ref_load(type, want, i));
}

// ---- quantize -----------------------------------------------------------------------------------

enum form { BY_VALUE, BY_ADDRESS, CHANNELS, FORMS };
enum { SCALES = 64 };

/// Host and device memory of one trial. Elements start `offset` elements after the start of a
/// buffer.
struct trial {
    enum ref_type type;
    uint64_t n, offset;
    unsigned char x[BYTES], dy[BYTES], want[BYTES], got[BYTES];
    double scale[SCALES];
    float f32_scale[SCALES];
    int32_t zero_point[SCALES];
    ptx_buffer *x_buffer, *dy_buffer, *dx_buffer, *scales, *zero_points;
};

static void fill(struct trial *t, struct random *r, ptx_type dtype, int32_t q_min, int32_t q_max)
{
    t->type = gpu_ref_type(dtype);
    t->offset = random_below(r, 3);
    data_fill_ties(r, t->type, 0.03, t->x, MOST);
    data_fill(r, t->type, DATA_SPECIAL, t->dy, MOST);
    for (int k = 0; k < SCALES; k++) {
        t->f32_scale[k] = k % 3 ? 0.03f : 0.5f * (float)(k + 1);
        t->scale[k] = t->type == REF_F64 ? 0.03 + 0.01 * k : (double)t->f32_scale[k];
        t->zero_point[k] = q_min + (int32_t)random_below(r, (uint32_t)(q_max - q_min + 1));
    }
    const bool f64 = t->type == REF_F64;
    t->x_buffer = upload(t->x, BYTES);
    t->dy_buffer = upload(t->dy, BYTES);
    t->dx_buffer = upload(t->got, BYTES);
    t->scales = f64 ? upload(t->scale, sizeof t->scale) : upload(t->f32_scale, sizeof t->f32_scale);
    t->zero_points = upload(t->zero_point, sizeof t->zero_point);
}

static void empty(struct trial *t)
{
    ptx_buffer_destroy(&t->zero_points);
    ptx_buffer_destroy(&t->scales);
    ptx_buffer_destroy(&t->dx_buffer);
    ptx_buffer_destroy(&t->dy_buffer);
    ptx_buffer_destroy(&t->x_buffer);
}

/// Parameters with random shape and options.
static struct ptx_quantize_backward_params ask(struct trial *t, struct random *r, enum form form)
{
    struct ptx_quantize_backward_params p = { .reciprocal = random_below(r, 2),
                                              .fake_quantize = random_below(r, 2) };
    const size_t skip = t->offset * ref_bytes(t->type);
    uint64_t period = 1;
    if (form == CHANNELS) {
        p.channels = 1 + random_below(r, SCALES);
        p.inner = random_below(r, 2) ? 1 + random_below(r, 5) : 16 * random_below(r, 9);
        period = p.channels * (p.inner ? p.inner : 1);
    }
    t->n = random_below(r, MOST - 8) / period * period;
    p.count = t->n;
    p.x = ptx_buffer_address(t->x_buffer) + skip;
    p.d_output = ptx_buffer_address(t->dy_buffer) + skip;
    p.d_input = random_below(r, 2) ? p.d_output : ptx_buffer_address(t->dx_buffer) + skip;
    if (form == BY_VALUE) {
        p.scale = t->scale[0];
        p.zero_point = t->zero_point[0];
    } else {
        p.scales = ptx_buffer_address(t->scales);
        p.zero_points = ptx_buffer_address(t->zero_points);
    }
    return p;
}

static ptx_type dtype_of(enum ref_type type)
{
    static const ptx_type of[] = {
        [REF_F32] = PTX_F32, [REF_F64] = PTX_F64, [REF_F16] = PTX_F16, [REF_BF16] = PTX_BF16
    };
    return of[type];
}

static void check_quantize(ptx_operations *operations, struct trial *t, struct random *r,
                           enum form form, int32_t q_min, int32_t q_max)
{
    struct ptx_quantize_backward_params p = ask(t, r, form);
    p.dtype = dtype_of(t->type);
    const bool usual = q_min == -128 && q_max == 127 && random_below(r, 2);
    p.q_min = usual ? 0 : q_min;
    p.q_max = usual ? 0 : q_max;
    const size_t skip = t->offset * ref_bytes(t->type);
    ref_quantize_channel_ste_backward(t->type, t->x + skip, t->dy + skip, t->want, t->n,
                                      (struct ref_channels) { p.channels ? p.channels : 1,
                                                              p.inner ? p.inner : 1, t->scale,
                                                              t->zero_point },
                                      (struct ref_quantize) { .reciprocal = p.reciprocal,
                                                              .fake_quantize = p.fake_quantize,
                                                              .q_min = q_min,
                                                              .q_max = q_max });
    require(ptx_quantize_backward(operations, &p, gpu.stream));
    download(p.d_input == p.d_output ? t->dy_buffer : t->dx_buffer, skip, t->got,
             (size_t)t->n * ref_bytes(t->type));
    assert_tensor(t->type, t->got, t->want, t->n);
}

TEST(test_quantize)
{
    static const int32_t bounds[][2] = { { -128, 127 }, { 0, 255 }, { -8, 7 }, { 3, 3 } };
    static struct trial trial;
    struct random r = gpu_random("quantize");
    ptx_operations *operations = create();
    for (int k = 0; k < 160; k += SANITIZED_EVERY(5)) {
        const int32_t *bound = bounds[k % 4];
        fill(&trial, &r, dtypes[k / 4 % 4], bound[0], bound[1]);
        check_quantize(operations, &trial, &r, (enum form)(k / 16 % FORMS), bound[0], bound[1]);
        empty(&trial);
    }
    ptx_operations_destroy(&operations);
    assert_null(operations);
}

// ---- lerp ---------------------------------------------------------------------------------------

enum { WANT_BOTH, WANT_A, WANT_B, A_IN_PLACE, B_IN_PLACE, WANTS };

static void check_lerp(ptx_operations *operations, struct random *r, ptx_type dtype, int want)
{
    static unsigned char dy[BYTES], a[BYTES], b[BYTES], got[BYTES];
    const enum ref_type type = gpu_ref_type(dtype);
    const uint64_t n = random_below(r, MOST);
    const double weight = random_unit(r);
    const size_t bytes = (size_t)n * ref_bytes(type);
    data_fill(r, type, DATA_SPECIAL, dy, MOST);
    ref_lerp_backward(type, dy, a, b, n, weight);
    ptx_buffer *dy_buffer = upload(dy, BYTES), *a_buffer = upload(got, BYTES);
    ptx_buffer *b_buffer = upload(got, BYTES), *weight_buffer = upload(&weight, sizeof weight);
    struct ptx_lerp_backward_params p = { .dtype = dtype, .count = n };
    p.d_output = ptx_buffer_address(dy_buffer);
    p.d_a = want == WANT_B ? 0 : ptx_buffer_address(want == A_IN_PLACE ? dy_buffer : a_buffer);
    p.d_b = want == WANT_A ? 0 : ptx_buffer_address(want == B_IN_PLACE ? dy_buffer : b_buffer);
    if (random_below(r, 2))
        p.weight = weight;
    else
        p.weight_at = ptx_buffer_address(weight_buffer);
    require(ptx_lerp_backward(operations, &p, gpu.stream));
    if (p.d_a) {
        download(want == A_IN_PLACE ? dy_buffer : a_buffer, 0, got, bytes);
        assert_tensor(type, got, a, n);
    }
    if (p.d_b) {
        download(want == B_IN_PLACE ? dy_buffer : b_buffer, 0, got, bytes);
        assert_tensor(type, got, b, n);
    }
    ptx_buffer_destroy(&weight_buffer);
    ptx_buffer_destroy(&b_buffer);
    ptx_buffer_destroy(&a_buffer);
    ptx_buffer_destroy(&dy_buffer);
}

TEST(test_lerp)
{
    struct random r = gpu_random("lerp");
    OWNED(ptx_operations) *operations = create();
    for (int k = 0; k < 60; k += SANITIZED_EVERY(3))
        check_lerp(operations, &r, dtypes[k % 4], k / 4 % WANTS);
}

// ---- floats of 8 bits ---------------------------------------------------------------------------

enum { FP8_TENSORS = 11, FP8_ROWS = 4, FP8_ENTRIES = FP8_TENSORS * FP8_ROWS, FP8_MOST = 3000 };

/// The scales of a few tensors, here and on the device.
struct scaling {
    float history[FP8_ENTRIES], scale[FP8_TENSORS], scale_inv[FP8_TENSORS];
    uint32_t formats[FP8_TENSORS];
    ptx_buffer *on_device;
    CUdeviceptr at;
};

/// Casts one tensor with its scale, and merges its amax into row 0 of the history.
static void check_cast(ptx_operations *operations, struct random *r, struct scaling *s, unsigned t)
{
    static unsigned char x[FP8_MOST * 4], y[FP8_MOST], got[FP8_MOST];
    static const ptx_type types[] = { PTX_F32, PTX_F16, PTX_BF16 };
    const ptx_type dtype = types[random_below(r, 3)];
    const enum ref_type type = gpu_ref_type(dtype);
    const uint64_t n = random_below(r, FP8_MOST - 8), offset = random_below(r, 8);
    const bool by_value = random_below(r, 2), measures = random_below(r, 8);
    float *amax = &s->history[t], *scale = &s->scale[t];
    data_fill(r, type, random_below(r, 4) ? DATA_PLAIN : DATA_SPECIAL, x, FP8_MOST);
    ref_cast_fp8(type, x + offset * ref_bytes(type), n, s->formats[t] ? REF_E5M2 : REF_E4M3, *scale,
                 y, measures ? amax : NULL);
    ptx_buffer *x_buffer = upload(x, sizeof x), *y_buffer = upload(got, sizeof got);
    const struct ptx_fp8_cast_params p = {
        .dtype = dtype,
        .count = n,
        .x = ptx_buffer_address(x_buffer) + offset * ref_bytes(type),
        .y = ptx_buffer_address(y_buffer) + offset,
        .format = s->formats[t] ? PTX_FP8_E5M2 : PTX_FP8_E4M3,
        .scale = by_value ? (double)*scale : 0,
        .scale_at = by_value ? 0 : s->at + offsetof(struct scaling, scale) + t * sizeof(float),
        .amax = measures ? s->at + offsetof(struct scaling, history) + t * sizeof(float) : 0,
    };
    require(ptx_fp8_cast(operations, &p, gpu.stream));
    download(y_buffer, offset, got, n);
    assert_memory_equal(got, y, n);
    ptx_buffer_destroy(&y_buffer);
    ptx_buffer_destroy(&x_buffer);
}

static void check_delayed_scale(ptx_operations *operations, struct random *r, struct scaling *s)
{
    const uint32_t format = random_below(r, 3);
    struct ptx_delayed_scale_update_params p = {
        .tensors = FP8_TENSORS,
        .rows = FP8_ROWS,
        .history = s->at + offsetof(struct scaling, history),
        .scale = s->at + offsetof(struct scaling, scale),
        .scale_inv = s->at + offsetof(struct scaling, scale_inv),
        .most_recent = random_below(r, 2),
        .margin = (int32_t)random_below(r, 3) - 1,
    };
    struct ref_delayed_scale rule = { .most_recent = p.most_recent, .margin = p.margin };
    if (format == 2) {
        p.formats = s->at + offsetof(struct scaling, formats);
        rule.formats = s->formats;
    } else {
        p.format = format ? PTX_FP8_E5M2 : PTX_FP8_E4M3;
        rule.format = format ? REF_E5M2 : REF_E4M3;
    }
    struct scaling got;
    require(ptx_delayed_scale_update(operations, &p, gpu.stream));
    ref_delayed_scale_update(&rule, FP8_TENSORS, FP8_ROWS, s->history, s->scale, s->scale_inv);
    download(s->on_device, 0, &got, offsetof(struct scaling, on_device));
    assert_memory_equal(&got, s, offsetof(struct scaling, on_device));
}

/// Some steps of training: casts with the scales of the step before, then the update.
TEST(test_delayed_scaling)
{
    struct random r = gpu_random("fp8");
    OWNED(ptx_operations) *operations = create();
    struct scaling s = { .history = { 0 } };
    for (unsigned t = 0; t < FP8_TENSORS; t++) {
        s.scale[t] = s.scale_inv[t] = 1;
        s.formats[t] = t % 3 == 0;
    }
    s.on_device = upload(&s, offsetof(struct scaling, on_device));
    s.at = ptx_buffer_address(s.on_device);
    for (int step = 0; step < 12; step++) {
        for (unsigned t = 0; t < FP8_TENSORS; t++)
            check_cast(operations, &r, &s, t);
        check_delayed_scale(operations, &r, &s);
    }
    ptx_buffer_destroy(&s.on_device);
}

// ---- fake quantize ------------------------------------------------------------------------------

/// The zero points as the floats that training learns, rounded.
static ptx_buffer *learned_zero_points(struct trial *t, struct random *r, int32_t q_min,
                                       int32_t q_max)
{
    static double room[SCALES];
    const enum ref_type compute = t->type == REF_F64 ? REF_F64 : REF_F32;
    for (int k = 0; k < SCALES; k++) {
        ref_store(compute, room, (uint64_t)k, t->zero_point[k] + random_below(r, 7) * 0.25);
        t->zero_point[k] = ref_nearest_level(ref_load(compute, room, (uint64_t)k), q_min, q_max);
    }
    return upload(room, sizeof room);
}

static void check_fake_quantize(ptx_operations *operations, struct trial *t, struct random *r,
                                enum form form, int32_t q_min, int32_t q_max)
{
    const struct ptx_quantize_backward_params asked = ask(t, r, form);
    struct ptx_fake_quantize_params p = {
        .dtype = dtype_of(t->type),
        .count = t->n,
        .x = asked.x,
        .y = random_below(r, 2) ? asked.x : ptx_buffer_address(t->dx_buffer),
        .scale = asked.scale,
        .zero_point = asked.zero_point,
        .scales = asked.scales,
        .zero_points = asked.zero_points,
        .channels = asked.channels,
        .inner = asked.inner,
        .q_min = q_min,
        .q_max = q_max,
        .reciprocal = asked.reciprocal,
        .learned_zero_points = form != BY_VALUE && random_below(r, 2),
    };
    const size_t skip = t->offset * ref_bytes(t->type);
    OWNED(ptx_buffer) *learned = NULL;
    if (p.learned_zero_points) {
        learned = learned_zero_points(t, r, q_min, q_max);
        p.zero_points = ptx_buffer_address(learned);
    }
    ref_fake_quantize_channel(
        t->type, t->x + skip, t->want, t->n,
        (struct ref_channels) { p.channels ? p.channels : 1, p.inner ? p.inner : 1, t->scale,
                                t->zero_point },
        (struct ref_quantize) { .reciprocal = p.reciprocal, .q_min = q_min, .q_max = q_max });
    require(ptx_fake_quantize(operations, &p, gpu.stream));
    const bool in_place = p.y == p.x;
    download(in_place ? t->x_buffer : t->dx_buffer, in_place ? skip : 0, t->got,
             (size_t)t->n * ref_bytes(t->type));
    assert_tensor(t->type, t->got, t->want, t->n);
}

TEST(test_fake_quantize)
{
    static const int32_t bounds[][2] = { { -128, 127 }, { 0, 255 }, { -8, 7 }, { 3, 3 } };
    static struct trial trial;
    struct random r = gpu_random("fake quantize");
    OWNED(ptx_operations) *operations = create();
    for (int k = 0; k < 160; k += SANITIZED_EVERY(5)) {
        const int32_t *bound = bounds[k % 4];
        fill(&trial, &r, dtypes[k / 4 % 4], bound[0], bound[1]);
        check_fake_quantize(operations, &trial, &r, (enum form)(k / 16 % FORMS), bound[0],
                            bound[1]);
        empty(&trial);
    }
}

static void check_groups(ptx_operations *operations, struct trial *t, struct random *r)
{
    static float scale[MOST / 32];
    static int32_t zero_point[MOST / 32];
    const struct ref_groups g = { .group = UINT64_C(32) << random_below(r, 3),
                                  .levels = (enum ref_levels)random_below(r, 4),
                                  .bits = random_below(r, 2) ? 4 : 8 };
    const bool has_zero_points = g.levels >= REF_LEVELS_ASYMMETRIC, usual = g.group == 32;
    const uint64_t columns = g.group * (1 + random_below(r, 3));
    const uint64_t n = random_below(r, MOST - 8) / columns * columns, groups = n / g.group;
    const struct ptx_fake_quantize_groups_params p = {
        .dtype = dtype_of(t->type),
        .count = n,
        .columns = random_below(r, 2) ? columns : 0,
        .group = usual ? 0 : (uint32_t)g.group,
        .bits = g.bits == 4 ? 0 : 8,
        .levels = (ptx_levels)g.levels,
        .x = ptx_buffer_address(t->x_buffer),
        .y = ptx_buffer_address(t->dx_buffer),
        .scales = ptx_buffer_address(t->scales),
        .zero_points = has_zero_points ? ptx_buffer_address(t->zero_points) : 0,
    };
    static unsigned char got[sizeof scale];
    ref_fake_quantize_groups(t->type, t->x, t->want, n, g, scale, zero_point);
    require(ptx_fake_quantize_groups(operations, &p, gpu.stream));
    download(t->dx_buffer, 0, t->got, (size_t)n * ref_bytes(t->type));
    assert_tensor(t->type, t->got, t->want, n);
    download(t->scales, 0, got, (size_t)groups * sizeof(float));
    assert_tensor(REF_F32, got, scale, groups);
    if (has_zero_points) {
        download(t->zero_points, 0, got, (size_t)groups * sizeof(int32_t));
        assert_tensor(REF_F32, got, zero_point, groups);
    }
}

TEST(test_fake_quantize_groups)
{
    static const ptx_type narrow[] = { PTX_F32, PTX_F16, PTX_BF16 };
    static struct trial trial;
    struct random r = gpu_random("groups");
    OWNED(ptx_operations) *operations = create();
    for (int k = 0; k < 60; k += SANITIZED_EVERY(4)) {
        fill(&trial, &r, narrow[k % 3], -8, 7);
        ptx_buffer_destroy(&trial.scales);
        ptx_buffer_destroy(&trial.zero_points);
        trial.scales = upload(trial.got, MOST / 32 * sizeof(float));
        trial.zero_points = upload(trial.got, MOST / 32 * sizeof(int32_t));
        check_groups(operations, &trial, &r);
        empty(&trial);
    }
}

// ---- loss scale ---------------------------------------------------------------------------------

/// Random steps, a different share of them bad: after every step, device, host and reference have
/// the same bits.
static void check_steps(ptx_operations *operations, struct random *r,
                        const struct ptx_loss_scale_params *params, struct ref_loss_scale rule,
                        int steps)
{
    struct ptx_loss_scale_state host = { 65536.0f, 0 }, got, want = host;
    OWNED(ptx_buffer) *state = upload(&host, sizeof host);
    OWNED(ptx_buffer) *found = upload(&(float) { 0 }, sizeof(float));
    const struct ptx_loss_scale_update_params update = {
        ptx_buffer_address(state), ptx_buffer_address(found),
        params ? *params : (struct ptx_loss_scale_params) { 0 }
    };
    uint32_t rate = 8;
    for (int k = 0; k < steps / SANITIZED_EVERY(10); k++) {
        if (k % 500 == 0)
            rate = 2u << random_below(r, 9);
        const float bad = random_below(r, rate) ? 0.0f : random_below(r, 2) ? 1.0f : NAN;
        require(ptx_buffer_upload(found, 0, &bad, sizeof bad, gpu.stream));
        require(ptx_loss_scale_update(operations, &update, gpu.stream));
        download(state, 0, &got, sizeof got);
        require(ptx_loss_scale_step(&host, bad != 0.0f, params));
        ref_loss_scale_update(&want.scale, &want.growth_tracker, bad != 0.0f, rule);
        if (memcmp(&got, &host, sizeof got) != 0 || memcmp(&got, &want, sizeof got) != 0)
            fail_msg("step %d: device %a %d, host %a %d, reference %a %d", k, (double)got.scale,
                     got.growth_tracker, (double)host.scale, host.growth_tracker,
                     (double)want.scale, want.growth_tracker);
    }
}

TEST(test_loss_scale)
{
    struct random r = gpu_random("loss scale");
    OWNED(ptx_operations) *operations = create();
    check_steps(operations, &r, NULL,
                (struct ref_loss_scale) { 2.0f, 0.5f, 2000, 0.0f, INFINITY, 1 }, 500);
    check_steps(operations, &r, &(struct ptx_loss_scale_params) { .interval = 20 },
                (struct ref_loss_scale) { 2.0f, 0.5f, 20, 0.0f, INFINITY, 1 }, 5000);
    const struct ptx_loss_scale_params all = { 1.7f, 0.3f, 7, 0.001f, 1e6f, 3 };
    check_steps(operations, &r, &all, (struct ref_loss_scale) { 1.7f, 0.3f, 7, 0.001f, 1e6f, 3 },
                5000);
}

/// The numbers of GradScaler: 65536, doubled after 2000 good steps, halved by a bad one.
TEST(test_loss_scale_is_that_of_gradscaler)
{
    struct ptx_loss_scale_state s = { 65536.0f, 0 };
    for (int k = 0; k < 1999; k++)
        require(ptx_loss_scale_step(&s, false, NULL));
    assert_true(s.scale == 65536.0f && s.growth_tracker == 1999);
    require(ptx_loss_scale_step(&s, false, NULL));
    assert_true(s.scale == 131072.0f && s.growth_tracker == 0);
    require(ptx_loss_scale_step(&s, false, NULL));
    require(ptx_loss_scale_step(&s, true, NULL));
    assert_true(s.scale == 65536.0f && s.growth_tracker == 0);
    s = (struct ptx_loss_scale_state) { 0x1.8p127f, 1999 }; // its double is infinite
    require(ptx_loss_scale_step(&s, false, NULL));
    assert_true(s.scale == 0x1.8p127f && s.growth_tracker == 0);
    const struct ptx_loss_scale_params lenient = { .hysteresis = 2 };
    s = (struct ptx_loss_scale_state) { 8.0f, 5 };
    require(ptx_loss_scale_step(&s, true, &lenient));
    assert_true(s.scale == 8.0f && s.growth_tracker == -1);
    require(ptx_loss_scale_step(&s, false, &lenient));
    assert_true(s.scale == 8.0f && s.growth_tracker == 1);
    require(ptx_loss_scale_step(&s, true, &lenient));
    require(ptx_loss_scale_step(&s, true, &lenient));
    assert_true(s.scale == 4.0f && s.growth_tracker == 0);
}

GPU_MAIN
