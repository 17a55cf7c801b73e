// SPDX-License-Identifier: MIT
// Writes the text of every kernel in every type, with default options, for sm_90.
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 501, BATCH = 16 };

/// The cost of writing a kernel's text, from ptx_builder_create() to ptx_builder_destroy().
struct emit_time {
    double best, median;  ///< seconds of processor time of this thread for one text
    size_t instructions;  ///< in the text
    size_t text_bytes;    ///< without the terminating NUL
    size_t peak_bytes;    ///< ptx_builder_get_info().peak_bytes
    unsigned allocations; ///< number of allocations, including the builder object
    char error[256];      ///< of the builder, if it failed
};

static double processor_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void *counting_resize(void *user, void *memory, size_t bytes)
{
    unsigned *allocations = user;

    if (bytes) {
        ++*allocations;
        return realloc(memory, bytes);
    }
    free(memory);
    return NULL;
}

static bool starts_instruction(const char *line)
{
    line += strspn(line, " ");
    return (*line >= 'a' && *line <= 'z') || *line == '@';
}

/// Each statement is one line; directives begin with a point.
static size_t count_instructions(const char *text)
{
    size_t count = 0;

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        count += starts_instruction(line);
    }
    return count;
}

/// Writes one text and counts its allocations, which the timed runs do not do.
static bool look(const ptx_kernel *kernel, const struct ptx_kernel_spec *spec,
                 const struct ptx_builder_params *params, struct emit_time *result)
{
    struct ptx_builder_params counting = *params;
    counting.resize = counting_resize;
    counting.user = &result->allocations;
    ptx_builder *b = ptx_builder_create(&counting);

    ptx_kernel_emit(b, kernel, spec);
    const char *text = ptx_builder_finish(b);
    if (text) {
        result->instructions = count_instructions(text);
        result->text_bytes = strlen(text);
        result->peak_bytes = ptx_builder_get_info(b).peak_bytes;
    } else {
        snprintf(result->error, sizeof result->error, "%s", ptx_builder_error(b));
    }
    ptx_builder_destroy(&b);
    return !result->error[0];
}

/// Writes the kernel `samples` times `batch` times. `best` and `median` are over the samples; each
/// sample is the mean of its batch, because the clock's own cost is not small compared to one text.
/// False, with `error`, if the kernel cannot be written.
static bool emit_time(const ptx_kernel *kernel, const struct ptx_kernel_spec *spec,
                      struct ptx_target target, unsigned samples, unsigned batch,
                      struct emit_time *result)
{
    const struct ptx_builder_params params = { .target = target };

    memset(result, 0, sizeof *result);
    if (!look(kernel, spec, &params, result))
        return false;
    double *seconds = malloc(samples * sizeof *seconds);
    if (!seconds) {
        snprintf(result->error, sizeof result->error, "out of memory");
        return false;
    }
    for (unsigned s = 0; s < samples; s++) {
        const double start = processor_seconds();
        for (unsigned k = 0; k < batch; k++) {
            ptx_builder *b = ptx_builder_create(&params);
            ptx_kernel_emit(b, kernel, spec);
            ptx_builder_finish(b);
            ptx_builder_destroy(&b);
        }
        seconds[s] = (processor_seconds() - start) / batch;
    }
    const struct bench_times times = bench_summary(seconds, samples);
    result->best = times.least;
    result->median = times.median;
    free(seconds);
    return true;
}

static bool report(struct bench *b, const char *kernel, const char *dtype,
                   const struct emit_time *t)
{
    char label[96];
    const double nanoseconds = t->best * 1e9 / (double)t->instructions;
    snprintf(label, sizeof(label), "%s %s", kernel, dtype);
    json_t *facts = json_pack(
        "{s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:I, s:i}", "name", kernel, "dtype", dtype,
        "instructions", (json_int_t)t->instructions, "text_bytes", (json_int_t)t->text_bytes,
        "best_us", t->best * 1e6, "median_us", t->median * 1e6, "ns_an_instruction", nanoseconds,
        "peak_bytes", (json_int_t)t->peak_bytes, "allocations", (int)t->allocations);
    return bench_report(b, facts,
                        "%-58s %10.2f us (least %.2f) %4zu instructions, %zu bytes of text, %zu "
                        "of memory in %u allocations",
                        label, t->median * 1e6, t->best * 1e6, t->instructions, t->text_bytes,
                        t->peak_bytes, t->allocations);
}

static bool measure(struct bench *b, const ptx_kernel *kernel, size_t *count)
{
    static const struct ptx_target target = { .sm = 90 };
    const unsigned samples = b->options.samples ? b->options.samples : SAMPLES;
    for (unsigned type = 1; type < PTX_TYPE_COUNT; type++) {
        const struct ptx_kernel_spec spec = { .dtype = (ptx_type)type };
        struct emit_time t;
        if (!(kernel->dtypes >> type & 1))
            continue;
        if (count) {
            ++*count;
            continue;
        }
        if (!emit_time(kernel, &spec, target, samples, BATCH, &t))
            return message_set(&b->error, "%s %s: %s", kernel->name, ptx_type_name(spec.dtype),
                               t.error);
        bench_step(b);
        if (!report(b, kernel->name, ptx_type_name(spec.dtype), &t))
            return false;
    }
    return true;
}

static bool all(struct bench *b, size_t *count)
{
    const ptx_kernel *kernel;
    for (size_t k = 0; (kernel = ptx_kernel_at(k)); k++)
        if (bench_is_wanted(b, kernel->name) && !measure(b, kernel, count))
            return false;
    return true;
}

bool bench_suite_emit(struct bench *b)
{
    size_t steps = 0;
    all(b, &steps);
    bench_steps(b, 0, steps);
    return all(b, NULL);
}
