// SPDX-License-Identifier: MIT
// The writing of every kernel's text in every type, default options, for sm_90.
#include "bench/bench.h"
#include "bench/emit_time.h"

#include <stdio.h>

enum { SAMPLES = 501, BATCH = 16 };

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
