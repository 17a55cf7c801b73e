// SPDX-License-Identifier: MIT
#include "trainer.h"

#include <stdio.h>
#include <stdlib.h>

// X(buffer, bytes), with W the width, R the rank and N the examples of a batch.
#define BUFFERS(X)                                                                                 \
    X(frozen, 2 * W * W * sizeof(float))                                                           \
    X(adapters, TRAIN_ADAPTERS *R *W * sizeof(float))                                              \
    X(gradients, TRAIN_ADAPTERS *R *W * 2)                                                         \
    X(mean, TRAIN_ADAPTERS *R *W * sizeof(float))                                                  \
    X(square, TRAIN_ADAPTERS *R *W * sizeof(float))                                                \
    X(data, options->batches * 2 * N * W * sizeof(float))                                          \
    X(batch, 2 * N * W * sizeof(float))                                                            \
    X(low1, N *R * sizeof(float))                                                                  \
    X(hidden, N *W * sizeof(float))                                                                \
    X(low2, N *R * sizeof(float))                                                                  \
    X(y, N *W * sizeof(float))                                                                     \
    X(d_y, N *W * sizeof(float))                                                                   \
    X(d_low2, N *R * sizeof(float))                                                                \
    X(d_hidden, N *W * sizeof(float))                                                              \
    X(d_low1, N *R * sizeof(float))                                                                \
    X(progress, sizeof(struct train_progress))                                                     \
    X(history, options->steps * sizeof(struct train_record))

struct trainer {
    struct train_options options;
    const float *first_adapters;
    ptx_device *device;
    CUstream stream;
    CUevent start, end;
    ptx_module *module;
    ptx_step_plan *plan;
    ptx_graph *graph;
    bool failed;
#define DECLARE(entry) ptx_function *entry##_kernel;
    TRAIN_KERNELS(DECLARE)
#undef DECLARE
#define DECLARE(name, bytes) ptx_buffer *name;
    BUFFERS(DECLARE)
#undef DECLARE
};

static const struct ptx_loss_scale_state first_loss_scale = { .scale = 65536 };
// PyTorch's interval is 2000; a short one shows the scale growing.
static const struct ptx_loss_scale_params loss_scale_update = { .interval = 50 };
static const struct ptx_step_group adam = {
    .rule = PTX_STEP_RULE_ADAM,
    .hyper = { .lr = 2e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8 },
};

// Errors are sticky: after one, calls do nothing, and its message stays the last.
static void check(struct trainer *t, bool ok)
{
    t->failed |= !ok;
}

// ---------------------------------------------------------------------------------------- launches

static void launch(struct trainer *t, const ptx_function *function, size_t threads,
                   const struct ptx_arg *args, size_t count)
{
    const struct ptx_launch_params params = {
        .grid = { (unsigned)((threads + TRAIN_BLOCK - 1) / TRAIN_BLOCK) },
        .stream = t->stream,
        .args = args,
        .arg_count = count,
    };
    if (!t->failed)
        check(t, ptx_launch(function, &params) == PTX_OK);
}
#define LAUNCH(t, kernel, threads, ...)                                                            \
    launch(t, (t)->kernel##_kernel, threads, (const struct ptx_arg[]) { __VA_ARGS__ },             \
           sizeof((const struct ptx_arg[]) { __VA_ARGS__ }) / sizeof(struct ptx_arg))

struct matrix {
    CUdeviceptr data;
    uint32_t rows, columns;
    uint32_t row_stride, column_stride; // in elements
};

// Matrix `k` of its size in a buffer.
static struct matrix matrix(const ptx_buffer *buffer, size_t k, size_t element, uint32_t rows,
                            uint32_t columns)
{
    const size_t bytes = element * rows * columns;
    return (struct matrix) { ptx_buffer_address(buffer) + k * bytes, rows, columns, columns, 1 };
}

static struct matrix transposed(struct matrix m)
{
    return (struct matrix) { m.data, m.columns, m.rows, m.column_stride, m.row_stride };
}

// out = a b, by one of the product kernels; `where` is 0 except for the kernel that uses it.
static void multiply(struct trainer *t, const ptx_function *kernel, struct matrix out,
                     struct matrix a, struct matrix b, CUdeviceptr where)
{
    const struct ptx_arg args[] = {
        PTX_ARG(a.data),    PTX_ARG(a.row_stride), PTX_ARG(a.column_stride),
        PTX_ARG(b.data),    PTX_ARG(b.row_stride), PTX_ARG(b.column_stride),
        PTX_ARG(out.data),  PTX_ARG(out.rows),     PTX_ARG(out.columns),
        PTX_ARG(a.columns), PTX_ARG(where),
    };
    launch(t, kernel, (size_t)out.rows * out.columns * 32, args, where ? 11 : 10);
}

static void take_batch(struct trainer *t)
{
    const CUdeviceptr progress = ptx_buffer_address(t->progress);
    const CUdeviceptr data = ptx_buffer_address(t->data), batch = ptx_buffer_address(t->batch);
    const uint32_t batches = t->options.batches, n = 2 * t->options.batch * t->options.width;
    LAUNCH(t, take_batch, n, PTX_ARG(progress), PTX_ARG(data), PTX_ARG(batches), PTX_ARG(batch),
           PTX_ARG(n));
}

static void take_loss(struct trainer *t)
{
    const uint32_t n = t->options.batch * t->options.width, spoilt = t->options.spoilt;
    const CUdeviceptr target = ptx_buffer_address(t->batch) + n * sizeof(float);
    const CUdeviceptr y = ptx_buffer_address(t->y), d_y = ptx_buffer_address(t->d_y);
    const CUdeviceptr summary = ptx_step_plan_get_info(t->plan)->summary;
    const CUdeviceptr progress = ptx_buffer_address(t->progress);
    const CUdeviceptr history = ptx_buffer_address(t->history);
    LAUNCH(t, loss, 1, PTX_ARG(y), PTX_ARG(target), PTX_ARG(d_y), PTX_ARG(n), PTX_ARG(summary),
           PTX_ARG(progress), PTX_ARG(spoilt), PTX_ARG(history));
}

static void advance(struct trainer *t)
{
    const CUdeviceptr record = ptx_step_plan_get_info(t->plan)->records;
    const CUdeviceptr summary = ptx_step_plan_get_info(t->plan)->summary;
    const CUdeviceptr progress = ptx_buffer_address(t->progress);
    const CUdeviceptr history = ptx_buffer_address(t->history);
    LAUNCH(t, advance, 1, PTX_ARG(record), PTX_ARG(summary), PTX_ARG(progress), PTX_ARG(history));
}

// A step: forward, backward, the step plan.
static void step(struct trainer *t)
{
    const uint32_t W = t->options.width, R = t->options.rank, N = t->options.batch;
    const struct matrix x = matrix(t->batch, 0, 4, N, W);
    const struct matrix w1 = matrix(t->frozen, 0, 4, W, W), w2 = matrix(t->frozen, 1, 4, W, W);
    const struct matrix a1 = matrix(t->adapters, 0, 4, R, W), b1 = matrix(t->adapters, 1, 4, W, R);
    const struct matrix a2 = matrix(t->adapters, 2, 4, R, W), b2 = matrix(t->adapters, 3, 4, W, R);
    const struct matrix low1 = matrix(t->low1, 0, 4, N, R), low2 = matrix(t->low2, 0, 4, N, R);
    const struct matrix hidden = matrix(t->hidden, 0, 4, N, W), y = matrix(t->y, 0, 4, N, W);

    take_batch(t);
    multiply(t, t->product_kernel, low1, x, transposed(a1), 0);
    multiply(t, t->product_kernel, hidden, x, transposed(w1), 0);
    multiply(t, t->product_add_relu_kernel, hidden, low1, transposed(b1), 0);
    multiply(t, t->product_kernel, low2, hidden, transposed(a2), 0);
    multiply(t, t->product_kernel, y, hidden, transposed(w2), 0);
    multiply(t, t->product_add_kernel, y, low2, transposed(b2), 0);
    take_loss(t);

    const struct matrix d_y = matrix(t->d_y, 0, 4, N, W), d_low2 = matrix(t->d_low2, 0, 4, N, R);
    const struct matrix d_hidden = matrix(t->d_hidden, 0, 4, N, W);
    const struct matrix d_low1 = matrix(t->d_low1, 0, 4, N, R);
    const ptx_function *to_f16 = t->product_f16_kernel;
    multiply(t, to_f16, matrix(t->gradients, 3, 2, W, R), transposed(d_y), low2, 0);
    multiply(t, t->product_kernel, d_low2, d_y, b2, 0);
    multiply(t, to_f16, matrix(t->gradients, 2, 2, R, W), transposed(d_low2), hidden, 0);
    multiply(t, t->product_kernel, d_hidden, d_y, w2, 0);
    multiply(t, t->product_add_where_kernel, d_hidden, d_low2, a2, hidden.data);
    multiply(t, to_f16, matrix(t->gradients, 1, 2, W, R), transposed(d_hidden), low1, 0);
    multiply(t, t->product_kernel, d_low1, d_hidden, b1, 0);
    multiply(t, to_f16, matrix(t->gradients, 0, 2, R, W), transposed(d_low1), x, 0);

    if (!t->failed)
        check(t, ptx_step_plan_run(t->plan, t->stream) == PTX_OK);
    advance(t);
}

// ------------------------------------------------------------------------------------------- runs

static void upload(struct trainer *t, ptx_buffer *buffer, const void *source)
{
    if (!t->failed)
        check(t,
              ptx_buffer_upload(buffer, 0, source, ptx_buffer_size(buffer), t->stream) == PTX_OK);
}

static void download(struct trainer *t, const ptx_buffer *buffer, void *target)
{
    if (!t->failed)
        check(t,
              ptx_buffer_download(buffer, 0, target, ptx_buffer_size(buffer), t->stream) == PTX_OK);
}

static void zero(struct trainer *t, ptx_buffer *buffer)
{
    if (!t->failed)
        check(t, ptx_buffer_fill(buffer, 0, 0, ptx_buffer_size(buffer), t->stream) == PTX_OK);
}

static void start_over(struct trainer *t, const struct train_progress *progress)
{
    upload(t, t->adapters, t->first_adapters);
    upload(t, t->progress, progress);
    zero(t, t->mean);
    zero(t, t->square);
    zero(t, t->history);
    if (!t->failed)
        check(t, ptx_step_plan_set_loss_scale(t->plan, first_loss_scale, t->stream) == PTX_OK);
}

bool trainer_run(struct trainer *t, enum train_form form, unsigned first, unsigned count,
                 struct train_outcome *outcome)
{
    const struct train_progress progress = { .step = first };

    t->failed = false;
    start_over(t, &progress);
    if (!t->failed)
        check(t, ptx_event_record(t->device, t->start, t->stream) == PTX_OK);
    for (unsigned k = 0; !t->failed && k < count; k++) {
        if (form == TRAIN_CAPTURED)
            check(t, ptx_graph_launch(t->graph, t->stream) == PTX_OK);
        else
            step(t);
    }
    if (!t->failed)
        check(t, ptx_event_record(t->device, t->end, t->stream) == PTX_OK);

    download(t, t->history, outcome->history);
    download(t, t->adapters, outcome->adapters);
    download(t, t->progress, &outcome->progress);
    if (!t->failed)
        check(t, ptx_stream_synchronize(t->device, t->stream) == PTX_OK);
    if (!t->failed)
        check(t, ptx_event_elapsed(t->device, t->start, t->end, &outcome->milliseconds) == PTX_OK);
    return !t->failed;
}

const struct ptx_graph_info *trainer_graph_info(const struct trainer *trainer)
{
    return ptx_graph_get_info(trainer->graph);
}

// ---------------------------------------------------------------------------- creation and its end

static void load_kernels(struct trainer *t)
{
    ptx_builder *b = ptx_builder_create(NULL);
    train_emit(b);
    const char *text = ptx_builder_finish(b);
    if (!text)
        fprintf(stderr, "%s\n", b ? ptx_builder_error(b) : "out of memory");
    t->module = text ? ptx_module_load(t->device, text, NULL) : NULL;
    ptx_builder_destroy(&b);
    check(t, t->module != NULL);
#define FIND(entry)                                                                                \
    if (!t->failed)                                                                                \
        check(t, (t->entry##_kernel = ptx_module_function(t->module, #entry)) != NULL);
    TRAIN_KERNELS(FIND)
#undef FIND
}

static void allocate(struct trainer *t)
{
    const struct train_options *options = &t->options;
    const size_t W = options->width, R = options->rank, N = options->batch;
#define CREATE(name, bytes)                                                                        \
    if (!t->failed)                                                                                \
        check(t, (t->name = ptx_buffer_create(t->device, bytes)) != NULL);
    BUFFERS(CREATE)
#undef CREATE
}

static void plan(struct trainer *t)
{
    const uint32_t W = t->options.width, R = t->options.rank;
    struct ptx_step_tensor tensors[TRAIN_ADAPTERS];
    for (size_t k = 0; k < TRAIN_ADAPTERS; k++)
        tensors[k] = (struct ptx_step_tensor) {
            .parameter = matrix(t->adapters, k, 4, R, W).data,
            .gradient = matrix(t->gradients, k, 2, R, W).data,
            .state = { matrix(t->mean, k, 4, R, W).data, matrix(t->square, k, 4, R, W).data },
            .step = ptx_buffer_address(t->progress) + offsetof(struct train_progress, taken),
            .count = train_adapter_elements(&t->options),
            .dtype = PTX_F32,
            .gradient_dtype = PTX_F16,
        };
    if (t->failed)
        return;
    t->plan = ptx_step_plan_create(t->device, &(struct ptx_step_params) {
                                                  .tensors = tensors,
                                                  .tensor_count = TRAIN_ADAPTERS,
                                                  .groups = &adam,
                                                  .group_count = 1,
                                                  .max_norm = t->options.max_norm,
                                                  .eps = 1e-6f,
                                                  .loss_scale = first_loss_scale.scale,
                                                  .update = &loss_scale_update,
                                                  .stream = t->stream,
                                              });
    check(t, t->plan != NULL);
}

// The first launch may be captured: everything is compiled already.
static void capture(struct trainer *t)
{
    if (t->failed)
        return;
    check(t, ptx_capture_begin(t->device, t->stream, PTX_CAPTURE_THREAD_LOCAL) == PTX_OK);
    step(t);
    if (t->failed)
        ptx_capture_abandon(t->device, t->stream);
    else
        check(t, (t->graph = ptx_capture_end(t->device, t->stream)) != NULL);
}

struct trainer *trainer_create(ptx_device *device, const struct train_options *options,
                               const struct train_data *data)
{
    struct trainer *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->options = *options;
    t->first_adapters = data->adapters;
    t->device = device;
    check(t, (t->stream = ptx_stream_create(device)) != NULL);
    if (!t->failed)
        check(t, (t->start = ptx_event_create(device)) != NULL);
    if (!t->failed)
        check(t, (t->end = ptx_event_create(device)) != NULL);
    if (!t->failed)
        load_kernels(t);
    allocate(t);
    upload(t, t->frozen, data->frozen);
    upload(t, t->data, data->batches);
    plan(t);
    capture(t);
    if (!t->failed)
        check(t, ptx_stream_synchronize(device, t->stream) == PTX_OK);
    if (t->failed)
        trainer_destroy(&t);
    return t;
}

void trainer_destroy(struct trainer **trainer)
{
    struct trainer *t = *trainer;
    if (!t)
        return;
    ptx_graph_destroy(&t->graph);
    ptx_step_plan_destroy(&t->plan);
#define DESTROY(name, bytes) ptx_buffer_destroy(&t->name);
    BUFFERS(DESTROY)
#undef DESTROY
    ptx_module_unload(&t->module);
    ptx_event_destroy(t->device, &t->end);
    ptx_event_destroy(t->device, &t->start);
    ptx_stream_destroy(t->device, &t->stream);
    free(t);
    *trainer = NULL;
}
