// SPDX-License-Identifier: MIT
// Compares the results of a kernel with plain C.
#include "kernels.h"

#include "reference/reference.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)KERNEL_COLUMNS <= (int)REF_MOST_CHANNELS, "a window may have so many channels");
enum { WINDOW = KERNEL_COLUMNS, WINDOWS = 3, MOST = REF_MOST_TENSORS };

/// A window of elements: values before the launch, after it, and expected. Starts at a multiple of
/// WINDOW.
struct window {
    const struct kernel_run *run;
    enum ref_type type;
    uint64_t first, count;
    double in[MOST][WINDOW]; // no type is wider
    double out[MOST][WINDOW];
    double expected[MOST][WINDOW];
};

bool bench_can_check(const ptx_kernel *kernel)
{
    return ref_kernel_find(kernel->name) != NULL;
}

static const struct ptx_param_info *find_param(const struct kernel_run *run, const char *name,
                                               unsigned *index)
{
    for (*index = 0; *index < run->count; ++*index)
        if (strcmp(run->params[*index].name, name) == 0)
            return &run->params[*index];
    return NULL;
}

static enum ref_type ref_of(uint8_t type)
{
    switch (type) {
    case PTX_F64:
        return REF_F64;
    case PTX_F16:
        return REF_F16;
    case PTX_BF16:
        return REF_BF16;
    case PTX_U8:
        return REF_U8;
    default:
        return REF_F32; // for S32, too: bits are compared
    }
}

/// The least or the greatest of the random elements of a tensor: they repeat.
static double extreme_of(const struct kernel_run *run, bool greatest)
{
    const enum ref_type type = ref_of((uint8_t)run->spec.dtype);
    const struct bench_random random = bench_random_of(run->spec.dtype);
    const uint64_t in_period = BENCH_PERIOD * sizeof(uint32_t) / ref_bytes(type);
    const uint64_t count = run->n < in_period ? run->n : in_period;
    double most = -INFINITY;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t word = i * ref_bytes(type) / sizeof(uint32_t);
        const uint32_t words[2] = { bench_random_word(random, word),
                                    bench_random_word(random, word + 1) };
        const uint64_t lanes = ref_bytes(type) < sizeof(uint32_t) ? 2 : 1;
        const double x = ref_load(type, words, i % lanes);
        most = fmax(most, greatest ? x : -x);
    }
    return greatest ? most : -most;
}

static double value_of(const void *user, const char *name, uint64_t k)
{
    const struct kernel_run *run = user;
    unsigned index;
    if (strcmp(name, "extreme of x") == 0)
        return extreme_of(run, k);
    const struct ptx_param_info *param = find_param(run, name, &index);
    return param ? kernel_value(run, param, k) : NAN;
}

static void compute(const struct ref_kernel *of, struct window *w)
{
    const struct kernel_run *run = w->run;
    struct ref_stretch stretch = {
        .type = w->type,
        .n = run->n,
        .first = w->first,
        .count = w->count,
        .channels = run->channels,
        .inner = run->inner,
        .value = value_of,
        .user = run,
    };
    for (int k = 0; k < MOST; k++) {
        stretch.in[k] = w->in[k];
        stretch.out[k] = w->expected[k];
    }
    of->compute(&stretch);
}

// ---- what is there and what should be -----------------------------------------------------------

/// The elements of the tensor in the window.
static uint64_t part_of(const struct window *w, const struct ptx_param_info *param, uint64_t *first)
{
    const uint64_t length = kernel_length(w->run, param);
    uint64_t count = length;
    *first = 0;
    if (kernel_is_large(param)) {
        *first = w->first;
        count = w->count;
    } else if (strcmp(param->length, "blocks") == 0) {
        const uint32_t chunk = ptx_kernel_chunk(w->run->kernel, w->run->n);
        *first = w->first / chunk;
        count = (w->count - 1) / chunk + 1;
    }
    return count;
}

static bool read_tensor(struct bench *b, const struct window *w, const char *name, void *to)
{
    unsigned k;
    uint64_t first;
    const struct ptx_param_info *param = find_param(w->run, name, &k);
    if (!param)
        return message_set(&b->error, "%s has no parameter %s", w->run->kernel->name, name);
    const uint64_t count = part_of(w, param, &first);
    const size_t element = ptx_type_bytes((ptx_type)param->type);
    return bench_ok(b,
                    ptx_buffer_download(w->run->buffers[k], (size_t)first * element, to,
                                        (size_t)count * element, b->stream),
                    name) &&
           bench_wait(b);
}

static bool compare(struct bench *b, const struct window *w, const char *name, const void *out,
                    const void *expected)
{
    unsigned k;
    uint64_t first;
    const struct ptx_param_info *param = find_param(w->run, name, &k);
    const uint64_t count = part_of(w, param, &first);
    for (uint64_t i = 0; i < count; i++)
        if (!ref_same(ref_of(param->type), out, expected, i))
            return message_set(&b->error,
                               "%s %s: %s[%" PRIu64 "] is %.17g and should be %.17g: wrong "
                               "results are not timed",
                               w->run->kernel->name, ptx_type_name(w->run->spec.dtype), name,
                               first + i, ref_load(ref_of(param->type), out, i),
                               ref_load(ref_of(param->type), expected, i));
    return true;
}

/// Otherwise zeros in and zeros out would pass.
static bool check_input(struct bench *b, const struct window *w, const char *name, const void *in)
{
    unsigned k;
    const struct ptx_param_info *param = find_param(w->run, name, &k);
    const struct bench_random random = bench_random_of((ptx_type)param->type);
    const size_t element = ptx_type_bytes((ptx_type)param->type);
    const uint64_t bytes = w->count * element, word_bytes = sizeof(uint32_t);
    bool same = true;
    for (uint64_t at = 0; kernel_is_large(param) && at < bytes && same; at += word_bytes) {
        const uint32_t word = bench_random_word(random, (w->first * element + at) / word_bytes);
        const uint64_t part = bytes - at < word_bytes ? bytes - at : word_bytes;
        same = memcmp((const char *)in + at, &word, (size_t)part) == 0;
    }
    return same || message_set(&b->error,
                               "%s: %s is not the random data that the device should have written",
                               w->run->kernel->name, name);
}

static bool read_all(struct bench *b, struct window *w, const char *const names[MOST],
                     double to[MOST][WINDOW])
{
    for (int k = 0; k < MOST && names[k]; k++)
        if (!read_tensor(b, w, names[k], to[k]))
            return false;
    return true;
}

static bool read_inputs(struct bench *b, struct window *w, const char *const names[MOST])
{
    bool done = read_all(b, w, names, w->in);
    for (int k = 0; k < MOST && names[k] && done; k++)
        done = check_input(b, w, names[k], w->in[k]);
    return done;
}

bool bench_check_kernel(struct bench *b, const struct kernel_run *run)
{
    const struct ref_kernel *of = ref_kernel_find(run->kernel->name);
    const uint64_t last = (run->n - 1) / WINDOW;
    const uint64_t places[WINDOWS] = { 0, last / 2, last };
    struct window *windows = calloc(WINDOWS, sizeof(*windows));
    bool done = windows || message_set(&b->error, "out of memory");
    for (int k = 0; k < WINDOWS && done; k++) {
        struct window *w = &windows[k];
        const uint64_t first = places[k] * WINDOW;
        w->run = run;
        w->type = ref_of((uint8_t)run->spec.dtype);
        w->first = first;
        w->count = run->n - first < WINDOW ? run->n - first : WINDOW;
        done = read_inputs(b, w, of->in);
    }
    done = done && bench_ok(b, kernel_launch(b, run), "launch") && bench_wait(b);
    for (int k = 0; k < WINDOWS && done; k++) {
        struct window *w = &windows[k];
        compute(of, w);
        done = read_all(b, w, of->out, w->out);
        for (int o = 0; o < MOST && of->out[o] && done; o++)
            done = compare(b, w, of->out[o], w->out[o], w->expected[o]);
    }
    free(windows);
    return done;
}
