// SPDX-License-Identifier: MIT
// The one-call operations on a GPU, or on the emulator: results against the plain-C reference,
// compiling once, capture.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data.h"
#include "gpu.h"
#include "plans/operations.h"

enum { MOST = 12000, BYTES = (MOST + 8) * 8 };

static struct gpu gpu;
static const ptx_type dtypes[] = { PTX_F32, PTX_F64, PTX_F16, PTX_BF16 };

static void require(ptx_status status)
{
    if (status != PTX_OK)
        fail_msg("%s", ptx_error_message());
}

static ptx_operations *create(void)
{
    ptx_operations *operations = ptx_operations_create(gpu.device, NULL);
    if (!operations)
        fail_msg("%s", ptx_error_message());
    return operations;
}

static ptx_buffer *upload(const void *data, size_t bytes)
{
    ptx_buffer *buffer = ptx_buffer_create(gpu.device, bytes);
    assert_non_null(buffer);
    require(ptx_buffer_upload(buffer, 0, data, bytes, gpu.stream));
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
    return buffer;
}

static void download(const ptx_buffer *buffer, size_t offset, void *data, size_t bytes)
{
    require(ptx_buffer_download(buffer, offset, data, bytes, gpu.stream));
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
}

static void assert_tensor(enum ref_type type, const void *got, const void *want, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!ref_same(type, got, want, i))
            fail_msg("element %llu of %llu is %a, want %a", (unsigned long long)i,
                     (unsigned long long)n, ref_load(type, got, i), ref_load(type, want, i));
}

/// The rows of PLAN_KERNELS: how many values each option has.
static void test_every_variant_has_a_slot(void **state)
{
    (void)state;
    static const uint8_t values[][PTX_MAX_OPTIONS] = {
#define ROW(name, ...) { __VA_ARGS__ },
        PLAN_KERNELS(ROW)
#undef ROW
    };
    for (int k = 0; k < PLAN_KERNEL_COUNT; k++) {
        const struct ptx_option *option = plan_kernel((enum plan_kernel)k)->options;
        for (int o = 0; o < PTX_MAX_OPTIONS; o++) {
            int count = 0;
            while (option[o].name && count < PTX_MAX_CHOICES && option[o].values[count])
                count++;
            assert_int_equal(values[k][o], count ? count : 1);
        }
    }
}

// ---- quantize -----------------------------------------------------------------------------------

enum form { BY_VALUE, BY_ADDRESS, CHANNELS, FORMS };
enum { SCALES = 64 };

/// Host and device memory of one trial; elements lie `offset` into the buffers.
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

/// Parameters of random shape and options.
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

/// Random steps with more or fewer bad ones among them: the same bits on the device, on the host
/// and in the reference, after every step.
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

/// GradScaler's numbers: 65536, doubled after 2000 good steps, halved by a bad one.
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
    s = (struct ptx_loss_scale_state) { 0x1.8p127f, 1999 }; // twice that is infinite
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

// ---- compiling and capture ----------------------------------------------------------------------

struct caller {
    ptx_operations *operations;
    CUdeviceptr state, found;
    pthread_barrier_t *start;
    ptx_status status;
};

static void *call(void *argument)
{
    struct caller *c = argument;
    pthread_barrier_wait(c->start);
    c->status = ptx_loss_scale_update(c->operations, c->state, c->found, NULL, gpu.stream);
    return NULL;
}

static void test_two_threads_want_the_same_kernel(void **state)
{
    (void)state;
    enum { THREADS = 2 };
    for (int trial = 0; trial < 20; trial++) {
        ptx_operations *operations = create();
        struct ptx_loss_scale_state scale = { 1024.0f, 0 };
        ptx_buffer *state_buffer = upload(&scale, sizeof scale);
        ptx_buffer *found = upload(&(float) { 1 }, sizeof(float));
        pthread_barrier_t start;
        pthread_t threads[THREADS];
        struct caller callers[THREADS];
        assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
        for (int k = 0; k < THREADS; k++) {
            callers[k] = (struct caller) { operations, ptx_buffer_address(state_buffer),
                                           ptx_buffer_address(found), &start, PTX_ERROR_INVALID };
            assert_int_equal(pthread_create(&threads[k], NULL, call, &callers[k]), 0);
        }
        for (int k = 0; k < THREADS; k++) {
            pthread_join(threads[k], NULL);
            assert_int_equal(callers[k].status, PTX_OK);
        }
        download(state_buffer, 0, &scale, sizeof scale);
        assert_true(scale.scale == 256.0f);
        pthread_barrier_destroy(&start);
        ptx_buffer_destroy(&found);
        ptx_buffer_destroy(&state_buffer);
        ptx_operations_destroy(&operations);
    }
}

static void assert_message(const char *part)
{
    if (!strstr(ptx_error_message(), part))
        fail_msg("\"%s\" is not in: %s", part, ptx_error_message());
}

static void check_capture(enum ptx_capture_mode mode)
{
    ptx_operations *operations = create();
    struct ptx_loss_scale_state scale = { 1024.0f, 0 };
    ptx_buffer *state = upload(&scale, sizeof scale);
    ptx_buffer *found = upload(&(float) { 1 }, sizeof(float));
    const CUdeviceptr at = ptx_buffer_address(state), found_at = ptx_buffer_address(found);
    // The stream is a non-blocking one: its capture is no hindrance to prepare.
    require(ptx_capture_begin(gpu.device, gpu.stream, mode));
    assert_int_equal(ptx_loss_scale_update(operations, at, found_at, NULL, gpu.stream),
                     PTX_ERROR_CAPTURE);
    assert_message("ptx_loss_scale_prepare()");
    const struct ptx_quantize_params cold = {
        .dtype = PTX_F32, .count = 1, .x = found_at, .d_output = at, .d_input = at, .scale = 1
    };
    assert_int_equal(ptx_quantize_backward(operations, &cold, gpu.stream), PTX_ERROR_CAPTURE);
    assert_message("ptx_quantize_prepare()");
    require(ptx_loss_scale_prepare(operations));
    require(ptx_loss_scale_update(operations, at, found_at, NULL, gpu.stream));
    ptx_graph *graph = ptx_capture_end(gpu.device, gpu.stream);
    if (!graph)
        fail_msg("%s", ptx_error_message());
    const struct ptx_graph_info *info = ptx_graph_get_info(graph);
    assert_int_equal(info->kernel_nodes, 1);
    assert_int_equal(info->nodes, 1);
    for (int k = 0; k < 3; k++)
        require(ptx_graph_launch(graph, gpu.stream));
    download(state, 0, &scale, sizeof scale);
    assert_true(scale.scale == 128.0f);
    ptx_graph_destroy(&graph);
    ptx_buffer_destroy(&found);
    ptx_buffer_destroy(&state);
    ptx_operations_destroy(&operations);
}

static void test_capture(void **state)
{
    (void)state;
    check_capture(PTX_CAPTURE_THREAD_LOCAL);
    check_capture(PTX_CAPTURE_GLOBAL);
    check_capture(PTX_CAPTURE_RELAXED);
}

/// What prepare compiles is what a call with such parameters takes, whatever the shape.
static void test_prepared_calls_can_be_captured(void **state)
{
    (void)state;
    static struct trial t;
    struct random r = gpu_random(&gpu, "prepared");
    fill(&t, &r, PTX_BF16, -128, 127);
    ptx_operations *operations = create();
    struct ptx_quantize_params p = { .dtype = PTX_BF16, .channels = 3, .inner = 1 };
    p.scales = ptx_buffer_address(t.scales);
    p.zero_points = ptx_buffer_address(t.zero_points);
    require(ptx_quantize_prepare(operations, &p));
    require(ptx_lerp_prepare(operations, &(struct ptx_lerp_params) { .dtype = PTX_BF16 }));
    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
    p.d_output = p.d_input = ptx_buffer_address(t.dy_buffer);
    p.x = ptx_buffer_address(t.x_buffer);
    p.count = 600;
    require(ptx_quantize_backward(operations, &p, gpu.stream));
    p.inner = 200;
    require(ptx_quantize_backward(operations, &p, gpu.stream));
    p.x += 2;
    require(ptx_quantize_backward(operations, &p, gpu.stream));
    require(ptx_lerp_backward(
        operations,
        &(struct ptx_lerp_params) {
            .dtype = PTX_BF16, .count = 5, .d_output = p.d_output, .d_a = p.d_output },
        gpu.stream));
    ptx_graph *graph = ptx_capture_end(gpu.device, gpu.stream);
    assert_non_null(graph);
    assert_int_equal(ptx_graph_get_info(graph)->kernel_nodes, 4);
    ptx_graph_destroy(&graph);
    ptx_operations_destroy(&operations);
    empty(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_variant_has_a_slot),
        cmocka_unit_test(test_quantize),
        cmocka_unit_test(test_lerp),
        cmocka_unit_test(test_loss_scale),
        cmocka_unit_test(test_loss_scale_is_that_of_gradscaler),
        cmocka_unit_test(test_two_threads_want_the_same_kernel),
        cmocka_unit_test(test_capture),
        cmocka_unit_test(test_prepared_calls_can_be_captured),
    };
    gpu_open(&gpu);
    int failed = cmocka_run_group_tests_name("operations", tests, NULL, NULL);
    gpu_close(&gpu);
    return failed;
}
