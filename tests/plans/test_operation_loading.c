// SPDX-License-Identifier: MIT
// The kernels of one-call operations, on a GPU or on the emulator: compiled once, by one thread,
// and before a capture.
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "operation_fixture.h"
#include "plans/operations/engine.h"

/// Whether a launch of this kernel, in the operation, has the value of the option.
static bool is_reached(const struct plan_operation *operation, const ptx_kernel *kernel,
                       const struct ptx_kernel_option *option, unsigned value)
{
    for (int k = 0; operation->launches[k].kernel; k++) {
        const struct plan_launch *launch = &operation->launches[k];
        bool named = false;
        for (int o = 0; launch->kernel == kernel && o < PTX_KERNEL_MAX_OPTIONS; o++) {
            const struct plan_option *own = &launch->options[o];
            for (unsigned v = 1; own->name && v < ptxp_option_values(own); v++)
                if (strcmp(own->name, option->name) == 0 &&
                    strcmp(own->choices[v - 1].value, option->values[value]) == 0)
                    named = true;
        }
        if (named || (launch->kernel == kernel && value == 0))
            return true;
    }
    return false;
}

/// An operation reaches every value of its kernels' options, and names no others.
TEST(test_every_variant_has_a_slot)
{
    for (int id = 0; id < PTX_OPERATION_COUNT; id++) {
        const struct plan_operation *operation = ptxp_operations[id];
        for (int k = 0; operation->launches[k].kernel; k++) {
            const struct plan_launch *launch = &operation->launches[k];
            const struct ptx_kernel_option *options = launch->kernel->options;
            struct ptx_kernel_spec spec = { .dtype = PTX_F32 };
            for (int o = 0; options[o].name; o++)
                for (unsigned v = 0; v < PTX_KERNEL_MAX_CHOICES && options[o].values[v]; v++)
                    if (!is_reached(operation, launch->kernel, &options[o], v))
                        fail_msg("%s: %s = %s", launch->kernel->name, options[o].name,
                                 options[o].values[v]);
            for (int o = 0; launch->options[o].name; o++)
                for (unsigned v = 1; v < ptxp_option_values(&launch->options[o]); v++)
                    assert_true(ptx_kernel_spec_set(&spec, launch->kernel, launch->options[o].name,
                                                    launch->options[o].choices[v - 1].value));
        }
    }
}

/// Members lie in the structs that rows read them from, and lists end before their arrays do.
TEST(test_rows_are_whole)
{
    for (int id = 0; id < PTX_OPERATION_COUNT; id++) {
        const struct plan_operation *operation = ptxp_operations[id];
        enum { REFUSALS = sizeof operation->refusals / sizeof *operation->refusals };
        assert_null(operation->refusals[REFUSALS - 1].remedy);
        assert_non_null(operation->launches[0].kernel);
        assert_null(operation->launches[PLAN_MOST_LAUNCHES].kernel);
        assert_int_equal(operation->fields[PLAN_MOST_FIELDS].member.kind, KIND_NONE);
        for (int k = 0; operation->fields[k].member.kind; k++) {
            const struct plan_field *field = &operation->fields[k];
            assert_non_null(field->member.name);
            assert_true(field->member.offset < sizeof(struct plan_call));
            assert_true(!field->access || field->member.kind == KIND_ADDRESS);
            assert_true(!field->must || field->least <= field->greatest);
            if (k > 0) { // numbers, arrays, values
                const struct plan_field *last = field - 1;
                assert_true(!field->must || last->must);
                assert_true(!field->access || last->must || last->access);
            }
        }
    }
}

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
    const struct ptx_loss_scale_update_params params = { c->state, c->found, { 0 } };
    c->status = ptx_loss_scale_update(c->operations, &params, gpu.stream);
    return NULL;
}

TEST(test_two_threads_want_the_same_kernel)
{
    enum { THREADS = 2 };
    for (int trial = 0; trial < 20; trial++) {
        OWNED(ptx_operations) *operations = create();
        struct ptx_loss_scale_state scale = { 1024.0f, 0 };
        OWNED(ptx_buffer) *state_buffer = upload(&scale, sizeof scale);
        OWNED(ptx_buffer) *found = upload(&(float) { 1 }, sizeof(float));
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
    }
}

static void assert_message(const char *part)
{
    if (!strstr(ptx_error_message(), part))
        fail_msg("\"%s\" is not in: %s", part, ptx_error_message());
}

static void check_capture(enum ptx_capture_mode mode)
{
    OWNED(ptx_operations) *operations = create();
    struct ptx_loss_scale_state scale = { 1024.0f, 0 };
    OWNED(ptx_buffer) *state = upload(&scale, sizeof scale);
    OWNED(ptx_buffer) *found = upload(&(float) { 1 }, sizeof(float));
    const CUdeviceptr at = ptx_buffer_address(state), found_at = ptx_buffer_address(found);
    const struct ptx_loss_scale_update_params update = { at, found_at, { 0 } };
    // The stream is non-blocking, so its capture does not affect prepare.
    require(ptx_capture_begin(gpu.device, gpu.stream, mode));
    assert_int_equal(ptx_loss_scale_update(operations, &update, gpu.stream), PTX_ERROR_CAPTURE);
    assert_message("ptx_loss_scale_update_prepare()");
    const struct ptx_quantize_backward_params cold = {
        .dtype = PTX_F32, .count = 1, .x = found_at, .d_output = at, .d_input = at, .scale = 1
    };
    assert_int_equal(ptx_quantize_backward(operations, &cold, gpu.stream), PTX_ERROR_CAPTURE);
    assert_message("ptx_quantize_backward_prepare()");
    require(ptx_loss_scale_update_prepare(operations, &update));
    require(ptx_loss_scale_update(operations, &update, gpu.stream));
    OWNED(ptx_graph) *graph = end_capture(gpu.stream);
    const struct ptx_graph_info *info = ptx_graph_get_info(graph);
    assert_int_equal(info->kernel_nodes, 1);
    assert_int_equal(info->nodes, 1);
    for (int k = 0; k < 3; k++)
        require(ptx_graph_launch(graph, gpu.stream));
    download(state, 0, &scale, sizeof scale);
    assert_true(scale.scale == 128.0f);
}

TEST(test_capture)
{
    check_capture(PTX_CAPTURE_THREAD_LOCAL);
    check_capture(PTX_CAPTURE_GLOBAL);
    check_capture(PTX_CAPTURE_RELAXED);
}

/// A call with the same options as prepare uses its kernel, whatever the shape.
TEST(test_prepared_calls_can_be_captured)
{
    enum { COUNT = 600 };
    static const uint16_t zeros[COUNT + 2];
    OWNED(ptx_operations) *operations = create();
    ptx_buffer *x = upload(zeros, sizeof zeros), *dy = upload(zeros, sizeof zeros);
    OWNED(ptx_buffer) *scales = upload((const float[]) { 1, 2, 3 }, 3 * sizeof(float));
    OWNED(ptx_buffer) *zero_points = upload((const int32_t[]) { 0, 1, 2 }, 3 * sizeof(int32_t));
    struct ptx_quantize_backward_params p = { .dtype = PTX_BF16, .channels = 3, .inner = 1 };
    p.scales = ptx_buffer_address(scales);
    p.zero_points = ptx_buffer_address(zero_points);
    require(ptx_quantize_backward_prepare(operations, &p));
    require(ptx_lerp_backward_prepare(operations,
                                      &(struct ptx_lerp_backward_params) { .dtype = PTX_BF16 }));
    struct ptx_fp8_cast_params c = { .dtype = PTX_BF16, .scale_at = 4, .amax = 4 };
    struct ptx_delayed_scale_update_params s = { .formats = 4 };
    require(ptx_fp8_cast_prepare(operations, &c));
    require(ptx_delayed_scale_update_prepare(operations, &s));
    struct ptx_fake_quantize_params f = { .dtype = PTX_F32, .scale = 1 };
    struct ptx_fake_quantize_groups_params g = { .dtype = PTX_F32, .levels = PTX_LEVELS_FULL };
    require(ptx_fake_quantize_prepare(operations, &f));
    require(ptx_fake_quantize_groups_prepare(operations, &g));
    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
    f.x = f.y = g.x = g.y = ptx_buffer_address(x);
    f.count = 5;
    require(ptx_fake_quantize(operations, &f, gpu.stream));
    require(ptx_fake_quantize_groups(operations, &g, gpu.stream)); // no elements, no launch
    p.d_output = p.d_input = ptx_buffer_address(dy);
    p.x = ptx_buffer_address(x);
    p.count = COUNT;
    require(ptx_quantize_backward(operations, &p, gpu.stream));
    p.inner = 200;
    require(ptx_quantize_backward(operations, &p, gpu.stream));
    p.x += 2;
    require(ptx_quantize_backward(operations, &p, gpu.stream));
    require(ptx_lerp_backward(
        operations,
        &(struct ptx_lerp_backward_params) {
            .dtype = PTX_BF16, .count = 5, .d_output = p.d_output, .d_a = p.d_output },
        gpu.stream));
    c.count = COUNT;
    c.x = ptx_buffer_address(x);
    c.scale_at = p.scales;
    c.amax = ptx_buffer_address(scales) + 4;
    c.y = ptx_buffer_address(dy);
    require(ptx_fp8_cast(operations, &c, gpu.stream));
    s.tensors = s.rows = 1;
    s.history = c.amax;
    s.scale = c.scale_at;
    s.scale_inv = c.amax + 4;
    s.formats = p.zero_points;
    require(ptx_delayed_scale_update(operations, &s, gpu.stream));
    OWNED(ptx_graph) *graph = end_capture(gpu.stream);
    assert_int_equal(ptx_graph_get_info(graph)->kernel_nodes, 7);
    ptx_buffer_destroy(&dy);
    ptx_buffer_destroy(&x);
}

GPU_MAIN
