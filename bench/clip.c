// SPDX-License-Identifier: MIT
// Times clip plans over the gradient sets of docs/performance.md, as replays of a captured run,
// with a device-to-device copy of the same run as the yardstick.
//
//     clip [-s SET] [-o FILE]
#include <ptxgen/ptxgen.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gradient_sets.h"

enum { REPETITIONS = 50, WARM_UP = 10 };

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
    fprintf(stderr, "clip: %s: %s\n", what, ptx_error_message());
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

static struct times measure(struct bench *b, ptx_status (*enqueue)(struct bench *, const void *),
                            const void *work)
{
    double seconds[REPETITIONS];
    float milliseconds;

    for (int k = -WARM_UP; k < REPETITIONS; k++) {
        check(ptx_event_record(b->gpu, b->start, b->stream), "event");
        check(enqueue(b, work), "run");
        check(ptx_event_record(b->gpu, b->stop, b->stream), "event");
        check(ptx_stream_synchronize(b->gpu, b->stream), "run");
        check(ptx_event_elapsed(b->gpu, b->start, b->stop, &milliseconds), "event");
        if (k >= 0)
            seconds[k] = (double)milliseconds / 1e3;
    }
    qsort(seconds, REPETITIONS, sizeof *seconds, by_size);
    return (struct times) { seconds[REPETITIONS / 2], seconds[0], seconds[REPETITIONS - 1] };
}

static ptx_status enqueue_graph(struct bench *b, const void *work)
{
    return ptx_graph_launch(work, b->stream);
}

struct copy {
    ptx_buffer *from, *to;
};

static ptx_status enqueue_copy(struct bench *b, const void *work)
{
    const struct copy *copy = work;
    return ptx_buffer_copy(copy->to, 0, copy->from, 0, ptx_buffer_size(copy->from), b->stream);
}

static void time_copy(struct bench *b)
{
    const size_t bytes = (size_t)1 << 30;
    struct copy copy = { ptx_buffer_create(b->gpu, bytes), ptx_buffer_create(b->gpu, bytes) };
    if (!copy.from || !copy.to)
        die("memory");
    check(ptx_buffer_fill(copy.from, 0, 0x3c, bytes, b->stream), "fill");
    struct times t = measure(b, enqueue_copy, &copy);
    b->copy_rate = 2.0 * (double)bytes / t.median;
    printf("device copy %.3f TB/s\n", b->copy_rate / 1e12);
    ptx_buffer_destroy(&copy.from);
    ptx_buffer_destroy(&copy.to);
}

// ---- random gradients ---------------------------------------------------------------------------

static ptx_module *load_random(struct bench *b)
{
    struct ptx_builder_params params = { .target = { .sm = 80 } };
    ptx_builder *p = ptx_builder_create(&params);

    ptx_entry (p, "random", .block = { 256 }) {
        ptx_ptr out = ptx_param_ptr(p, PTX_U32, "out", .length = "n", .writeonly = true);
        ptx_val n = ptx_param(p, PTX_U64, "n");
        ptx_val mask = ptx_param(p, PTX_U32, "mask");
        ptx_val ones = ptx_param(p, PTX_U32, "ones");
        ptx_val tid = ptx_cvt(p, PTX_U64, ptx_tid(p, PTX_X));
        ptx_val block = ptx_ctaid(p, PTX_X);
        ptx_val i = ptx_mad_wide(p, block, ptx_u32(256), tid);
        ptx_return_if(p, ptx_ge(p, i, n));
        ptx_comment(p, "the bits of i, stirred: multiply, fold, multiply");
        ptx_val hash = ptx_mul(p, i, ptx_u64(UINT64_C(0x9e3779b97f4a7c15)));
        hash = ptx_xor(p, hash, ptx_shr(p, hash, ptx_u32(32)));
        hash = ptx_mul(p, hash, ptx_u64(UINT64_C(0xd6e8feb86659fd93)));
        ptx_val word = ptx_cvt(p, PTX_U32, ptx_shr(p, hash, ptx_u32(32)));
        ptx_comment(p, "sign and mantissa at random, the exponent that of 1");
        ptx_val bits = ptx_or(p, ptx_and(p, word, mask), ones);
        ptx_store(p, out, i, bits);
    }
    const char *text = ptx_builder_finish(p);
    if (!text) {
        fprintf(stderr, "clip: %s\n", ptx_builder_error(p));
        exit(1);
    }
    ptx_module *module = ptx_module_load(b->gpu, text, NULL);
    if (!module)
        die("load");
    ptx_builder_destroy(&p);
    return module;
}

static void randomize(struct bench *b, const ptx_module *random, CUdeviceptr at, uint64_t bytes,
                      bool half)
{
    const uint32_t mask = half ? 0x807f807f : 0x807fffff, ones = half ? 0x3f803f80 : 0x3f800000;
    const uint64_t n = bytes / 4;
    const struct ptx_arg args[] = { PTX_ARG(at), PTX_ARG(n), PTX_ARG(mask), PTX_ARG(ones) };
    check(ptx_launch(ptx_module_function((ptx_module *)random, "random"),
                     &(struct ptx_launch_params) { .grid = { (unsigned)((n + 255) / 256) },
                                                   .stream = b->stream,
                                                   .args = args,
                                                   .arg_count = 4 }),
          "random data");
}

// ---- plans --------------------------------------------------------------------------------------

struct set {
    struct ptx_tensor *tensors;
    size_t count;
    uint32_t groups;
    uint64_t elements, bytes;
    ptx_buffer *memory;
};

static void make_set(struct bench *b, const ptx_module *random, const struct gradient_set *of,
                     ptx_type dtype, struct set *set)
{
    size_t at = 0;
    *set = (struct set) { .count = gradient_set_list(of, NULL) };
    set->tensors = calloc(set->count, sizeof *set->tensors);
    if (!set->tensors)
        exit(1);
    gradient_set_list(of, set->tensors);
    for (size_t t = 0; t < set->count; t++) {
        struct ptx_tensor *tensor = &set->tensors[t];
        tensor->dtype = dtype;
        tensor->data = at; // moved to the memory below
        at = (at + (size_t)tensor->count * ptx_type_bytes(dtype) + 255) / 256 * 256;
        set->elements += tensor->count;
        if (tensor->group >= set->groups)
            set->groups = tensor->group + 1;
    }
    set->bytes = set->elements * ptx_type_bytes(dtype);
    set->memory = ptx_buffer_create(b->gpu, at + 256);
    if (!set->memory)
        die("memory");
    for (size_t t = 0; t < set->count; t++)
        set->tensors[t].data += ptx_buffer_address(set->memory);
    randomize(b, random, ptx_buffer_address(set->memory), at, dtype == PTX_BF16);
}

// A plan captured and replayed. `clips`: the factor is a little below 1, which stays so for all the
// turns; else there is nothing to clip.
static void time_plan(struct bench *b, const struct gradient_set *of, ptx_type dtype,
                      const struct set *set, bool clips)
{
    struct ptx_clip_params params = { .tensors = set->tensors,
                                      .tensor_count = set->count,
                                      .max_norm = INFINITY };
    struct ptx_clip_record record;
    ptx_clip_plan *plan = ptx_clip_plan_create(b->gpu, &params);
    if (!plan)
        die("plan");
    // 1 - 2^-10 each turn would wear bf16 away: the loss scale undoes what the norm does.
    if (clips)
        check(ptx_clip_plan_set_loss_scale(
                  plan, (struct ptx_loss_scale_state) { .scale = 1.0f + 0x1p-23f }, b->stream),
              "loss scale");
    check(ptx_capture_begin(b->gpu, b->stream, PTX_CAPTURE_THREAD_LOCAL), "capture");
    check(ptx_clip_plan_run(plan, b->stream), "run");
    ptx_graph *graph = ptx_capture_end(b->gpu, b->stream);
    if (!graph)
        die("capture");
    struct times t = measure(b, enqueue_graph, graph);
    check(ptx_clip_plan_read(plan, 0, 1, &record, NULL, b->stream), "read");
    check(ptx_stream_synchronize(b->gpu, b->stream), "read");
    const double moved = (clips ? 3.0 : 1.0) * (double)set->bytes;
    printf("%-22s %-5s %-9s %9.2f us (%.2f to %.2f)  %6.3f TB/s  %.3f of the copy; floor %.2f us; "
           "factor %.9g\n",
           of->name, ptx_type_name(dtype), clips ? "clipped" : "unclipped", t.median * 1e6,
           t.least * 1e6, t.most * 1e6, moved / t.median / 1e12, moved / t.median / b->copy_rate,
           moved / b->copy_rate * 1e6, (double)record.factor);
    fflush(stdout);
    if (b->json)
        fprintf(b->json,
                "{\"set\": \"%s\", \"dtype\": \"%s\", \"clipped\": %s, \"tensors\": %zu, "
                "\"groups\": %u, \"elements\": %" PRIu64
                ", \"median_us\": %.3f, \"min_us\": %.3f, \"max_us\": %.3f, \"of_copy\": %.4f}\n",
                of->name, ptx_type_name(dtype), clips ? "true" : "false", set->count, set->groups,
                set->elements, t.median * 1e6, t.least * 1e6, t.most * 1e6,
                moved / t.median / b->copy_rate);
    ptx_graph_destroy(&graph);
    ptx_clip_plan_destroy(&plan);
}

int main(int argc, char **argv)
{
    static const ptx_type dtypes[] = { PTX_F32, PTX_BF16 };
    struct bench b = { .gpu = ptx_device_open(NULL) };
    const char *wanted = NULL;

    if (!b.gpu) {
        fprintf(stderr, "clip: nothing to run on: %s\n", ptx_error_message());
        return 77;
    }
    for (int k = 1; k + 1 < argc; k += 2) {
        if (!strcmp(argv[k], "-s"))
            wanted = argv[k + 1];
        else if (!strcmp(argv[k], "-o"))
            b.json = fopen(argv[k + 1], "w");
    }
    b.stream = ptx_stream_create(b.gpu);
    b.start = ptx_event_create(b.gpu);
    b.stop = ptx_event_create(b.gpu);
    const struct ptx_device_info *info = ptx_device_get_info(b.gpu);
    printf("%s, driver %d, median of %d\n", info->name, info->driver_version, REPETITIONS);
    time_copy(&b);
    ptx_module *random = load_random(&b);
    for (size_t s = 0; gradient_set_at(s); s++) {
        const struct gradient_set *of = gradient_set_at(s);
        for (size_t d = 0; d < 2 && (!wanted || strstr(of->name, wanted)); d++) {
            struct set set;
            make_set(&b, random, of, dtypes[d], &set);
            time_plan(&b, of, dtypes[d], &set, true);
            time_plan(&b, of, dtypes[d], &set, false);
            ptx_buffer_destroy(&set.memory);
            free(set.tensors);
        }
    }
    if (b.json)
        fclose(b.json);
    ptx_module_unload(&random);
    ptx_event_destroy(b.gpu, &b.start);
    ptx_event_destroy(b.gpu, &b.stop);
    ptx_stream_destroy(b.gpu, &b.stream);
    ptx_device_close(&b.gpu);
    return 0;
}
