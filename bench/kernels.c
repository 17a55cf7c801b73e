// SPDX-License-Identifier: MIT
// Times every kernel in every type on large random tensors, with a device-to-device copy of the
// same run as the yardstick. Prints a table; with a file name, writes the same as JSON lines.
//
//     kernels [-n ELEMENTS] [-k PART_OF_A_NAME] [-o FILE]
#include <ptxgen/ptxgen.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPETITIONS = 30, WARM_UP = 5, MAX_PARAMS = 10 };

struct bench {
    ptx_device *gpu;
    CUstream stream;
    CUevent start, stop;
    FILE *json;
    double copy_rate; // bytes a second, both directions counted
};

struct times {
    double median, least, most; // seconds
};

static void die(const char *what)
{
    fprintf(stderr, "kernels: %s: %s\n", what, ptx_error_message());
    exit(1);
}

static void check(ptx_status status, const char *what)
{
    if (status != PTX_OK)
        die(what);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// `enqueue` puts the work on the stream once.
static struct times measure(struct bench *b, void (*enqueue)(struct bench *, const void *),
                            const void *work)
{
    double seconds[REPETITIONS];
    float milliseconds;

    for (int k = -WARM_UP; k < REPETITIONS; k++) {
        check(ptx_event_record(b->gpu, b->start, b->stream), "event");
        enqueue(b, work);
        check(ptx_event_record(b->gpu, b->stop, b->stream), "event");
        check(ptx_stream_synchronize(b->gpu, b->stream), "run");
        check(ptx_event_elapsed(b->gpu, b->start, b->stop, &milliseconds), "event");
        if (k >= 0)
            seconds[k] = (double)milliseconds / 1e3;
    }
    qsort(seconds, REPETITIONS, sizeof *seconds, by_size);
    return (struct times) { seconds[REPETITIONS / 2], seconds[0], seconds[REPETITIONS - 1] };
}

static void report(struct bench *b, const char *name, const char *dtype, uint64_t n, double bytes,
                   struct times t)
{
    const double rate = bytes / t.median;

    printf("%-40s %-5s %9.1f us (%.1f to %.1f)  %6.3f TB/s  %.3f of the copy\n", name, dtype,
           t.median * 1e6, t.least * 1e6, t.most * 1e6, rate / 1e12, rate / b->copy_rate);
    if (b->json)
        fprintf(b->json,
                "{\"name\": \"%s\", \"dtype\": \"%s\", \"n\": %" PRIu64 ", \"median_us\": %.3f, "
                "\"min_us\": %.3f, \"max_us\": %.3f, \"bytes\": %.0f, \"of_copy\": %.4f}\n",
                name, dtype, n, t.median * 1e6, t.least * 1e6, t.most * 1e6, bytes,
                rate / b->copy_rate);
}

// ---- random data, made on the device ------------------------------------------------------------

static void write_random(ptx_builder *b, ptx_type dtype)
{
    ptx_entry (b, "random", .block = { 256 }) {
        ptx_ptr out = ptx_param_ptr(b, dtype, "out", .length = "n", .writeonly = true);
        ptx_val n = ptx_param(b, PTX_U64, "n");
        ptx_val tid = ptx_cvt(b, PTX_U64, ptx_tid(b, PTX_X));
        ptx_val block = ptx_ctaid(b, PTX_X);
        ptx_val i = ptx_mad_wide(b, block, ptx_u32(256), tid);
        ptx_return_if(b, ptx_ge(b, i, n));
        ptx_comment(b, "the bits of i, stirred: multiply, fold, multiply");
        ptx_val hash = ptx_mul(b, i, ptx_u64(UINT64_C(0x9e3779b97f4a7c15)));
        hash = ptx_xor(b, hash, ptx_shr(b, hash, ptx_u32(32)));
        hash = ptx_mul(b, hash, ptx_u64(UINT64_C(0xd6e8feb86659fd93)));
        ptx_val word = ptx_cvt(b, PTX_S32, ptx_shr(b, hash, ptx_u32(32)));
        ptx_val x = ptx_mul(b, ptx_cvt(b, PTX_F32, word), ptx_f32(0x1p-29f));
        ptx_store(b, out, i, ptx_cvt(b, dtype, x));
    }
}

static ptx_module *load(struct bench *b, ptx_builder *builder)
{
    const char *text = ptx_builder_finish(builder);
    ptx_module *module;

    if (!text) {
        fprintf(stderr, "kernels: %s\n", ptx_builder_error(builder));
        exit(1);
    }
    module = ptx_module_load(b->gpu, text, NULL);
    if (!module)
        die("load");
    ptx_builder_destroy(&builder);
    return module;
}

static ptx_builder *new_builder(struct bench *b)
{
    // The newest plain target that the device runs.
    struct ptx_target target, best = { 0 };
    for (size_t k = 0; ptx_target_at(k, &target, NULL); k++)
        if (!target.suffix && target.sm <= ptx_device_get_info(b->gpu)->sm)
            best = target;
    return ptx_builder_create(&(struct ptx_builder_params) { .target = best });
}

static void randomize(struct bench *b, ptx_buffer *buffer, ptx_type dtype, uint64_t n)
{
    ptx_builder *builder = new_builder(b);
    write_random(builder, dtype);
    ptx_module *module = load(b, builder);
    CUdeviceptr address = ptx_buffer_address(buffer);
    const struct ptx_arg args[] = { PTX_ARG(address), PTX_ARG(n) };
    check(ptx_launch(ptx_module_function(module, "random"),
                     &(struct ptx_launch_params) { .grid = { (unsigned)((n + 255) / 256) },
                                                   .stream = b->stream,
                                                   .args = args,
                                                   .arg_count = 2 }),
          "random data");
    check(ptx_stream_synchronize(b->gpu, b->stream), "random data");
    ptx_module_unload(&module);
}

// ---- kernels ------------------------------------------------------------------------------------

struct run {
    const ptx_function *function;
    struct ptx_geometry geometry;
    struct ptx_arg args[MAX_PARAMS];
    unsigned count;
    CUdeviceptr pointers[MAX_PARAMS];
    ptx_buffer *buffers[MAX_PARAMS];
    uint64_t n, channels, inner;
    double bytes;
};

static void enqueue_kernel(struct bench *b, const void *work)
{
    const struct run *run = work;
    check(ptx_launch(run->function, &(struct ptx_launch_params) { .grid = { run->geometry.grid },
                                                                  .stream = b->stream,
                                                                  .args = run->args,
                                                                  .arg_count = run->count }),
          "launch");
}

static struct ptx_arg scalar(struct run *run, const struct ptx_param_info *p)
{
    static const float max_norm = 1.0f, eps = 0.0f, scale = 0.05f;
    static const double weight = 0.3, wide_scale = 0.05;
    static const int32_t zero_point = 3;

    if (!strcmp(p->name, "channels"))
        return (struct ptx_arg)PTX_ARG(run->channels);
    if (!strcmp(p->name, "inner"))
        return (struct ptx_arg)PTX_ARG(run->inner);
    if (p->type == PTX_U64)
        return (struct ptx_arg)PTX_ARG(run->n);
    if (!strcmp(p->name, "max_norm"))
        return (struct ptx_arg)PTX_ARG(max_norm);
    if (!strcmp(p->name, "eps"))
        return (struct ptx_arg)PTX_ARG(eps);
    if (!strcmp(p->name, "weight"))
        return (struct ptx_arg)PTX_ARG(weight);
    if (p->type == PTX_S32)
        return (struct ptx_arg)PTX_ARG(zero_point);
    return p->type == PTX_F64 ? (struct ptx_arg)PTX_ARG(wide_scale)
                              : (struct ptx_arg)PTX_ARG(scale);
}

static void fill_channels(struct bench *b, ptx_buffer *buffer, const struct ptx_param_info *p,
                          uint64_t count)
{
    const size_t bytes = count * ptx_type_bytes((ptx_type)p->type);
    unsigned char *host = ptx_host_alloc(b->gpu, bytes);

    if (!host)
        die("memory");
    for (uint64_t k = 0; k < count; k++) {
        const double scale = 0.03 + 0.04 * (double)k / (double)count;
        const float narrow = (float)scale;
        const int32_t zero_point = (int32_t)(k % 7);
        if (p->type == PTX_F64)
            memcpy(host + k * sizeof scale, &scale, sizeof scale);
        else if (p->type == PTX_F32)
            memcpy(host + k * sizeof narrow, &narrow, sizeof narrow);
        else
            memcpy(host + k * sizeof zero_point, &zero_point, sizeof zero_point);
    }
    check(ptx_buffer_upload(buffer, 0, host, bytes, b->stream), "channels");
    check(ptx_stream_synchronize(b->gpu, b->stream), "channels");
    ptx_host_free(b->gpu, &host);
}

static void make_tensor(struct bench *b, struct run *run, const struct ptx_param_info *p)
{
    static const float record[3] = { 0.5f, 2.0f, 0.0f };
    const bool per_element = !strcmp(p->length, "n") || !strcmp(p->length, "count");
    const bool per_channel = !strcmp(p->length, "channels");
    const uint64_t length = per_element   ? run->n
                            : per_channel ? run->channels
                                          : run->geometry.grid + 3;
    const uint64_t bytes = length * ptx_type_bytes((ptx_type)p->type);
    const unsigned k = run->count;

    run->buffers[k] = ptx_buffer_create(b->gpu, bytes);
    if (!run->buffers[k])
        die("memory");
    if (per_element) {
        randomize(b, run->buffers[k], (ptx_type)p->type, length);
        run->bytes += (double)bytes * (p->readonly || p->writeonly ? 1 : 2);
    } else if (per_channel) {
        fill_channels(b, run->buffers[k], p, length);
        run->bytes += (double)bytes;
    } else {
        check(ptx_buffer_upload(run->buffers[k], 0, record, sizeof record, b->stream), "record");
    }
    run->pointers[k] = ptx_buffer_address(run->buffers[k]);
    run->args[k] = (struct ptx_arg)PTX_ARG(run->pointers[k]);
}

// Where there are channels, the tensor is a matrix of so many columns.
enum { COLUMNS = 16384 };

static void time_kernel(struct bench *b, const ptx_kernel *kernel, ptx_type dtype, uint64_t n,
                        bool last_axis)
{
    struct ptx_spec spec = { .dtype = dtype, .entry = "timed" };
    struct ptx_param_info p;
    struct run run = { .n = n,
                       .channels = last_axis ? COLUMNS : n / COLUMNS + 1,
                       .inner = last_axis ? 1 : COLUMNS };
    ptx_builder *builder = new_builder(b);

    if (last_axis)
        ptx_spec_set(&spec, kernel, "layout", "columns");
    ptx_kernel_emit(builder, kernel, &spec);
    if (!ptx_kernel_geometry(kernel, dtype, n, &run.geometry))
        die("geometry");
    for (; ptx_builder_param(builder, 0, run.count, &p); run.count++) {
        if (p.is_pointer)
            make_tensor(b, &run, &p);
        else
            run.args[run.count] = scalar(&run, &p);
    }
    ptx_module *module = load(b, builder);
    run.function = ptx_module_function(module, "timed");
    char name[64];
    snprintf(name, sizeof name, "%s%s", kernel->name, last_axis ? ", last axis" : "");
    report(b, name, ptx_type_name(dtype), n, run.bytes, measure(b, enqueue_kernel, &run));
    for (unsigned k = 0; k < run.count; k++)
        ptx_buffer_destroy(&run.buffers[k]);
    ptx_module_unload(&module);
}

struct copy {
    ptx_buffer *from, *to;
};

static void enqueue_copy(struct bench *b, const void *work)
{
    const struct copy *copy = work;
    check(ptx_buffer_copy(copy->to, 0, copy->from, 0, ptx_buffer_size(copy->from), b->stream),
          "copy");
}

static void time_copy(struct bench *b, uint64_t n)
{
    struct copy copy = { ptx_buffer_create(b->gpu, n * 4), ptx_buffer_create(b->gpu, n * 4) };
    if (!copy.from || !copy.to)
        die("memory");
    randomize(b, copy.from, PTX_F32, n);
    struct times t = measure(b, enqueue_copy, &copy);
    b->copy_rate = (double)n * 8 / t.median;
    report(b, "device copy", "f32", n, (double)n * 8, t);
    ptx_buffer_destroy(&copy.from);
    ptx_buffer_destroy(&copy.to);
}

int main(int argc, char **argv)
{
    static const ptx_type dtypes[] = { PTX_F32, PTX_F64, PTX_F16, PTX_BF16 };
    struct bench b = { .gpu = ptx_device_open(NULL) };
    uint64_t n = UINT64_C(1) << 28;
    const ptx_kernel *kernel;
    const char *only = NULL;

    if (!b.gpu) {
        fprintf(stderr, "kernels: nothing to run on: %s\n", ptx_error_message());
        return 77;
    }
    for (int k = 1; k + 1 < argc; k += 2) {
        if (!strcmp(argv[k], "-n"))
            n = strtoull(argv[k + 1], NULL, 0);
        else if (!strcmp(argv[k], "-k"))
            only = argv[k + 1];
        else if (!strcmp(argv[k], "-o"))
            b.json = fopen(argv[k + 1], "w");
    }
    b.stream = ptx_stream_create(b.gpu);
    b.start = ptx_event_create(b.gpu);
    b.stop = ptx_event_create(b.gpu);
    const struct ptx_device_info *info = ptx_device_get_info(b.gpu);
    printf("%s, driver %d, %" PRIu64 " elements, median of %d\n", info->name, info->driver_version,
           n, REPETITIONS);
    if (b.json)
        fprintf(b.json, "{\"device\": \"%s\", \"driver\": %d, \"ptxgen\": \"%s\"}\n", info->name,
                info->driver_version, ptxgen_version());
    time_copy(&b, n);
    for (size_t k = 0; (kernel = ptx_kernel_at(k)); k++) {
        for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++) {
            const bool one_block = kernel->grid == PTX_GRID_ONE;
            if (!(kernel->dtypes >> dtypes[t] & 1) || (only && !strstr(kernel->name, only)))
                continue;
            time_kernel(&b, kernel, dtypes[t], one_block ? 1 << 14 : n, false);
            if (ptx_kernel_option(kernel, "layout") >= 0)
                time_kernel(&b, kernel, dtypes[t], n, true);
        }
    }
    if (b.json)
        fclose(b.json);
    ptx_event_destroy(b.gpu, &b.start);
    ptx_event_destroy(b.gpu, &b.stop);
    ptx_stream_destroy(b.gpu, &b.stream);
    ptx_device_close(&b.gpu);
    return 0;
}
