// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include "bench/emit_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double processor_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
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

// A line a statement; declarations begin with a point.
static size_t count_instructions(const char *text)
{
    size_t count = 0;

    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        count += starts_instruction(line);
    }
    return count;
}

// One text with its allocations counted, which the timed ones are not.
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
        result->peak_bytes = ptx_builder_peak_bytes(b);
    } else {
        snprintf(result->error, sizeof result->error, "%s", ptx_builder_error(b));
    }
    ptx_builder_destroy(&b);
    return !result->error[0];
}

bool emit_time(const ptx_kernel *kernel, const struct ptx_kernel_spec *spec,
               struct ptx_target target, unsigned samples, unsigned batch, struct emit_time *result)
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
    qsort(seconds, samples, sizeof *seconds, by_size);
    result->best = seconds[0];
    result->median = seconds[samples / 2];
    free(seconds);
    return true;
}
