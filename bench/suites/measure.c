// SPDX-License-Identifier: MIT
// Measurements, and the lines of the report.
#include "bench.h"
#include "clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLES = 30,
    EMULATED_SAMPLES = 3,
    WARM_UP = 5,
    MOST_SAMPLES = 1000,
    HOST_SAMPLES = 5, // each of many calls
};
enum {
    HOLD_TURNS = 3000
}; // about 20 us, in which the host puts two events and a run on the stream

// ---- measuring ----------------------------------------------------------------------------------

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct bench_times bench_summary(double *seconds, unsigned samples)
{
    qsort(seconds, samples, sizeof(*seconds), by_size);
    return (struct bench_times) { seconds[samples / 2], seconds[0], seconds[samples - 1], samples };
}

unsigned bench_samples(const struct bench *b)
{
    if (b->options.samples)
        return b->options.samples < MOST_SAMPLES ? b->options.samples : MOST_SAMPLES;
    return b->emulated ? EMULATED_SAMPLES : SAMPLES;
}

static bool sweep(struct bench *b)
{
    const size_t bytes = 4 * (size_t)ptx_device_get_info(b->gpu.device)->l2_cache;
    if (!b->flushed)
        b->flushed = bench_buffer(b, bytes);
    return b->flushed &&
           bench_ok(b, ptx_buffer_fill(b->flushed, 0, 0, bytes, b->stream), "the L2 cache");
}

static bool hold(struct bench *b)
{
    const CUdeviceptr out = ptx_buffer_address(b->held);
    const uint32_t turns = b->emulated ? 1 : HOLD_TURNS;
    const struct ptx_arg args[] = { PTX_ARG(out), PTX_ARG(turns) };
    const struct ptx_launch_params launch = {
        .grid = { 1 }, .stream = b->stream, .args = args, .arg_count = 2
    };
    return bench_ok(b, ptx_launch(b->hold, &launch), "launch");
}

static bool measure_once(struct bench *b, const struct bench_work *work, double *seconds)
{
    float milliseconds = 0;
    if ((work->cold && !sweep(b)) ||
        (work->prepare && !bench_ok(b, work->prepare(b, work->state), "prepare")) || !hold(b) ||
        !bench_ok(b, ptx_event_record(b->gpu.device, b->start, b->stream), "event") ||
        !bench_ok(b, work->enqueue(b, work->state), "run") ||
        !bench_ok(b, ptx_event_record(b->gpu.device, b->stop, b->stream), "event") ||
        !bench_wait(b) ||
        !bench_ok(b, ptx_event_elapsed(b->gpu.device, b->start, b->stop, &milliseconds), "event"))
        return false;
    *seconds = (double)milliseconds / 1e3;
    return true;
}

/// After large frees an H200 has a tenth less bandwidth for about the time that writing the freed
/// memory takes at 500 GB/s, as if the driver wiped it: the effect of 16 GB lasted more than 20 ms.
static void settle(struct bench *b)
{
    const double seconds = b->emulated ? 0 : (double)b->freed / 2.5e11;
    const struct timespec pause = { .tv_sec = (time_t)seconds,
                                    .tv_nsec = (long)((seconds - floor(seconds)) * 1e9) };
    nanosleep(&pause, NULL);
    b->freed = 0;
}

bool bench_measure(struct bench *b, const struct bench_work *work, struct bench_times *times)
{
    double seconds[MOST_SAMPLES];
    const unsigned samples = bench_samples(b);
    const unsigned warm_up = b->emulated ? 0 : WARM_UP;

    settle(b);
    for (unsigned k = 0; k < warm_up; k++)
        if (!measure_once(b, work, &seconds[0]))
            return false;
    for (unsigned k = 0; k < samples; k++)
        if (!measure_once(b, work, &seconds[k]))
            return false;
    *times = bench_summary(seconds, samples);
    bench_step(b);
    return true;
}

bool bench_capture(struct bench *b, ptx_status (*enqueue)(struct bench *b, const void *state),
                   const void *state, ptx_graph **graph)
{
    ptx_device *device = b->gpu.device;

    if (!bench_ok(b, ptx_capture_begin(device, b->stream, PTX_CAPTURE_THREAD_LOCAL), "capture"))
        return false;
    if (!bench_ok(b, enqueue(b, state), "run")) {
        ptx_capture_abandon(device, b->stream);
        return false;
    }
    *graph = ptx_capture_end(device, b->stream);
    return *graph || bench_ok(b, ptx_error_status(), "capture");
}

bool bench_measure_host(struct bench *b, const struct bench_work *work, unsigned calls,
                        struct bench_times *times)
{
    double seconds[MOST_SAMPLES];
    const unsigned samples = b->emulated ? EMULATED_SAMPLES : HOST_SAMPLES;

    for (unsigned k = 0; k < samples; k++) {
        const double begun = clock_now();
        for (unsigned call = 0; call < calls; call++)
            if (!bench_ok(b, work->enqueue(b, work->state), "run"))
                return false;
        seconds[k] = (clock_now() - begun) / calls;
        if (!bench_wait(b))
            return false;
    }
    *times = bench_summary(seconds, samples);
    bench_step(b);
    return true;
}

// ---- the yardstick ------------------------------------------------------------------------------

struct copy {
    ptx_buffer *from, *to;
};

static ptx_status enqueue_copy(struct bench *b, const void *state)
{
    const struct copy *copy = state;
    return ptx_buffer_copy(copy->to, 0, copy->from, 0, ptx_buffer_size(copy->from), b->stream);
}

bool bench_copy(struct bench *b, uint64_t bytes)
{
    struct bench_times times;
    struct copy copy = { bench_buffer(b, bytes), bench_buffer(b, bytes) };
    const struct bench_work work = { enqueue_copy, &copy, false };
    bool done = copy.from && copy.to &&
                bench_randomize(b, ptx_buffer_address(copy.from), bytes, PTX_F32) &&
                bench_measure(b, &work, &times);
    bench_free(b, &copy.from);
    bench_free(b, &copy.to);
    if (!done)
        return false;
    const double moved = 2.0 * (double)bytes;
    char label[64];
    b->copy_rate = moved / times.median;
    snprintf(label, sizeof(label), "copy of %" PRIu64 " bytes", bytes);
    return bench_report_times(b, json_pack("{s:s}", "name", "device copy"), label, &times, moved);
}

// ---- the report ---------------------------------------------------------------------------------

bool bench_is_wanted(const struct bench *b, const char *name)
{
    return !b->options.only || strstr(name, b->options.only);
}

void bench_steps(struct bench *b, size_t copies, size_t measurements)
{
    b->chosen += measurements;
    progress_end(&b->progress);
    progress_begin_steps(&b->progress, copies + measurements, b->suite, b->options.quiet);
}

void bench_step(struct bench *b)
{
    progress_add(&b->progress, 1);
}

json_t *bench_with(json_t *facts, const char *key, json_t *value)
{
    json_object_set_new(facts, key, value);
    return facts;
}

json_t *bench_with_all(json_t *facts, json_t *more)
{
    json_object_update(facts, more);
    json_decref(more);
    return facts;
}

bool bench_write(struct bench *b, json_t *facts)
{
    char *line = json_text(facts, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(7));
    if (!line)
        return message_set(&b->error, "out of memory");
    if (b->json) {
        output_write(b->json, line, strlen(line));
        output_write(b->json, "\n", 1);
    }
    free(line);
    return true;
}

bool bench_report(struct bench *b, json_t *facts, const char *format, ...)
{
    va_list arguments;
    facts = bench_with(facts, "suite", json_string(b->suite));
    facts = bench_with(facts, "emulator", json_boolean(b->emulated));
    progress_hide(&b->progress);
    va_start(arguments, format);
    vfprintf(b->text, format, arguments);
    va_end(arguments);
    fputs(b->emulated ? "  (emulator)\n" : "\n", b->text);
    fflush(b->text);
    return bench_write(b, facts);
}

bool bench_report_times(struct bench *b, json_t *facts, const char *label,
                        const struct bench_times *times, double bytes)
{
    char rate[RATE_SIZE], of_copy[32] = "";
    json_t *figures = json_pack("{s:f, s:f, s:f, s:i, s:f}", "median_us", times->median * 1e6,
                                "min_us", times->least * 1e6, "max_us", times->most * 1e6,
                                "samples", (int)times->samples, "bytes", bytes);

    if (times->median > 0) {
        const double speed = bytes / times->median;
        figures = bench_with_all(figures, json_pack("{s:f, s:f}", "bytes_per_second", speed,
                                                    "of_copy", speed / b->copy_rate));
        snprintf(of_copy, sizeof(of_copy), " %6.3f of the copy", speed / b->copy_rate);
    }
    return bench_report(b, bench_with_all(facts, figures), "%-58s %10.2f us (%.2f to %.2f) %14s%s",
                        label, times->median * 1e6, times->least * 1e6, times->most * 1e6,
                        rate_of(rate, bytes, times->median), of_copy);
}

bool bench_report_missing(struct bench *b, json_t *facts, const char *label, const char *reason)
{
    return bench_report(b, bench_with(facts, "not_measured", json_string(reason)),
                        "%-58s not measured: %s", label, reason);
}
