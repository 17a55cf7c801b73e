// SPDX-License-Identifier: MIT
// The results of one-call operations on a GPU, or on the emulator, compared with the plain-C
// reference.
#include <math.h>

#include "data.h"
#include "operation_fixture.h"

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
static struct ptx_quantize_params ask(struct trial *t, struct random *r, enum form form)
{
    struct ptx_quantize_params p = { .reciprocal = random_below(r, 2),
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

static void check_quantize(ptx_operations *operations, struct trial *t, struct random *r,
                           enum form form, int32_t q_min, int32_t q_max)
{
    struct ptx_quantize_params p = ask(t, r, form);
    p.dtype = t->type == REF_F64   ? PTX_F64
              : t->type == REF_F16 ? PTX_F16
              : t->type == REF_F32 ? PTX_F32
                                   : PTX_BF16;
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

static void test_quantize(void **state)
{
    (void)state;
    static const int32_t bounds[][2] = { { -128, 127 }, { 0, 255 }, { -8, 7 }, { 3, 3 } };
    static struct trial trial;
    struct random r = gpu_random(&gpu, "quantize");
    ptx_operations *operations = create();
    for (int k = 0; k < 160; k++) {
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
    struct ptx_lerp_params p = { .dtype = dtype, .count = n };
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

static void test_lerp(void **state)
{
    (void)state;
    struct random r = gpu_random(&gpu, "lerp");
    ptx_operations *operations = create();
    for (int k = 0; k < 60; k++)
        check_lerp(operations, &r, dtypes[k % 4], k / 4 % WANTS);
    ptx_operations_destroy(&operations);
}

// ---- loss scale ---------------------------------------------------------------------------------

/// Random steps, a different share of them bad: after every step, device, host and reference have
/// the same bits.
static void check_steps(ptx_operations *operations, struct random *r,
                        const struct ptx_loss_scale_params *params, struct ref_loss_scale rule,
                        int steps)
{
    struct ptx_loss_scale_state host = { 65536.0f, 0 }, got, want = host;
    ptx_buffer *state = upload(&host, sizeof host);
    ptx_buffer *found = upload(&(float) { 0 }, sizeof(float));
    uint32_t rate = 8;
    for (int k = 0; k < steps; k++) {
        if (k % 500 == 0)
            rate = 2u << random_below(r, 9);
        const float bad = random_below(r, rate) ? 0.0f : random_below(r, 2) ? 1.0f : NAN;
        require(ptx_buffer_upload(found, 0, &bad, sizeof bad, gpu.stream));
        require(ptx_loss_scale_update(operations, ptx_buffer_address(state),
                                      ptx_buffer_address(found), params, gpu.stream));
        download(state, 0, &got, sizeof got);
        require(ptx_loss_scale_step(&host, bad != 0.0f, params));
        ref_loss_scale_update(&want.scale, &want.growth_tracker, bad != 0.0f, rule);
        if (memcmp(&got, &host, sizeof got) != 0 || memcmp(&got, &want, sizeof got) != 0)
            fail_msg("step %d: device %a %d, host %a %d, reference %a %d", k, (double)got.scale,
                     got.growth_tracker, (double)host.scale, host.growth_tracker,
                     (double)want.scale, want.growth_tracker);
    }
    ptx_buffer_destroy(&found);
    ptx_buffer_destroy(&state);
}

static void test_loss_scale(void **state)
{
    (void)state;
    struct random r = gpu_random(&gpu, "loss scale");
    ptx_operations *operations = create();
    check_steps(operations, &r, NULL,
                (struct ref_loss_scale) { 2.0f, 0.5f, 2000, 0.0f, INFINITY, 1 }, 500);
    check_steps(operations, &r, &(struct ptx_loss_scale_params) { .interval = 20 },
                (struct ref_loss_scale) { 2.0f, 0.5f, 20, 0.0f, INFINITY, 1 }, 5000);
    const struct ptx_loss_scale_params all = { 1.7f, 0.3f, 7, 0.001f, 1e6f, 3 };
    check_steps(operations, &r, &all, (struct ref_loss_scale) { 1.7f, 0.3f, 7, 0.001f, 1e6f, 3 },
                5000);
    ptx_operations_destroy(&operations);
}

/// The numbers of GradScaler: 65536, doubled after 2000 good steps, halved by a bad one.
static void test_loss_scale_is_that_of_gradscaler(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantize),
        cmocka_unit_test(test_lerp),
        cmocka_unit_test(test_loss_scale),
        cmocka_unit_test(test_loss_scale_is_that_of_gradscaler),
    };
    gpu_open(&gpu);
    int failed = cmocka_run_group_tests_name("operations", tests, NULL, NULL);
    gpu_close(&gpu);
    return failed;
}
