// SPDX-License-Identifier: MIT
#include "random_program_run.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "approximate.h"
#include "owned.h"

enum { BATCH = 32 };
static const struct ptx_target target = { .sm = 90 };

// Shared by the workers.
struct work {
    struct program_run *run;
    ptx_buffer *in;
    pthread_mutex_t lock;
    unsigned next;
};

ptx_builder *program_builder(void)
{
    const struct ptx_builder_params params = { .target = target };
    return ptx_builder_create(&params);
}

void program_make(struct program *p, uint64_t seed)
{
    char error[400];

    program_plan(p, seed);
    if (p->later && !program_fit(p, target, error, sizeof error))
        die("builder", error);
}

static uint64_t hash_words(const uint64_t *w, size_t count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t k = 0; k < count; k++) {
        hash = (hash ^ w[k]) * UINT64_C(0x9fb21c651e98df25);
        hash ^= hash >> 32;
    }
    return hash;
}

// Compares each result with what PTX documents, if the thread reached the instruction. Then removes
// it from the words to hash.
static void take_approximate(struct program_result *result, uint64_t *words)
{
    const uint64_t untouched = UINT64_C(0xcccccccccccccccc);

    for (unsigned k = 0; k < result->approximates * PROGRAM_THREADS; k++) {
        const struct op_case *c = &result->approximate[k / PROGRAM_THREADS];
        const unsigned width = 8 * ptx_type_bytes(c->type);
        const uint64_t mask = width < 64 ? (UINT64_C(1) << width) - 1 : UINT64_MAX;
        uint64_t *at = words + PROGRAM_APPROXIMATE + 3 * k;

        if (at[0] == untouched && at[1] == untouched && at[2] == untouched)
            continue;
        result->held++;
        const uint64_t x = at[0] & mask, y = at[1] & mask, z = at[2] & mask;
        at[2] = 0;
        if (approximate_error(c, x, y, z).right || result->wrong++)
            continue;
        result->first.c = *c;
        memcpy(result->first.word, (const uint64_t[]) { x, y, z }, sizeof result->first.word);
    }
}

// A failed launch destroys the device's context: no later program can run.
static void launched(uint64_t seed, ptx_status status)
{
    if (status == PTX_OK)
        return;
    fprintf(stderr, "program %" PRIu64 ": ", seed);
    check(status);
}

static void run_program(const struct work *w, const ptx_function *function, ptx_buffer *out,
                        CUstream stream, unsigned index)
{
    const struct program_run *run = w->run;
    const uint64_t seed = run->seed + index;
    struct program_result *result = &run->results[index];
    uint64_t words[PROGRAM_WORDS];
    const CUdeviceptr in = ptx_buffer_address(w->in), to = ptx_buffer_address(out);
    const struct ptx_arg args[] = { PTX_ARG(in), PTX_ARG(to) };
    const struct ptx_launch_params launch = {
        .grid = { PROGRAM_GRID }, .stream = stream, .args = args, .arg_count = 2
    };

    check(ptx_buffer_fill(out, 0, 0xcc, sizeof words, stream));
    launched(seed, ptx_launch(function, &launch));
    launched(seed, ptx_buffer_download(out, 0, words, sizeof words, stream));
    launched(seed, ptx_stream_synchronize(run->device, stream));
    if (run->words && fseek(run->words, (long)(index * sizeof words), SEEK_SET) == 0)
        fwrite(words, sizeof words, 1, run->words);
    take_approximate(result, words);
    result->hash = hash_words(words, PROGRAM_WORDS);
    for (unsigned k = 0; k < PROGRAM_STEPS; k++)
        result->step[k] = hash_words(words + k * PROGRAM_THREADS, PROGRAM_THREADS);
}

static void run_batch(const struct work *w, unsigned first, struct program *p, ptx_buffer *out,
                      CUstream stream)
{
    const struct program_run *run = w->run;
    const unsigned left = run->count - first, count = left < BATCH ? left : BATCH;
    OWNED(ptx_builder) *b = program_builder();
    char name[16];

    for (unsigned k = 0; k < count; k++) {
        struct program_result *result = &run->results[first + k];
        snprintf(name, sizeof name, "program_%u", k);
        program_make(p, run->seed + first + k);
        if (run->last < PROGRAM_STEPS)
            program_cut(p, run->last);
        program_emit(b, p, name);
        result->steps = p->steps;
        result->approximates = p->approximates;
        memcpy(result->approximate, p->approximate, sizeof p->approximate);
    }
    const char *text = ptx_builder_finish(b);
    if (!text)
        die("builder", ptx_builder_error(b));
    OWNED(ptx_module) *module =
        ptx_module_load(run->device, text, &(struct ptx_module_params) { .stream = stream });
    if (!module)
        die("load", ptx_error_message());
    for (unsigned k = 0; k < count; k++) {
        snprintf(name, sizeof name, "program_%u", k);
        const ptx_function *function = ptx_module_function(module, name);
        if (!function)
            die(name, ptx_error_message());
        run_program(w, function, out, stream, first + k);
    }
}

static void *work(void *user)
{
    struct work *w = user;
    ptx_device *device = w->run->device;
    ALLOCATED(struct program) *p = calloc(1, sizeof *p);
    OWNED(ptx_buffer) *out = ptx_buffer_create(device, PROGRAM_WORDS * 8);
    CUstream stream = ptx_stream_create(device);

    if (!p || !out || !stream)
        die("memory", ptx_error_message());
    for (;;) {
        pthread_mutex_lock(&w->lock);
        const unsigned first = w->next;
        w->next += BATCH;
        pthread_mutex_unlock(&w->lock);
        if (first >= w->run->count)
            break;
        run_batch(w, first, p, out, stream);
    }
    ptx_stream_destroy(device, &stream);
    return NULL;
}

void program_run_all(struct program_run *run)
{
    static unsigned char in[PROGRAM_IN_BYTES];
    pthread_t thread[PROGRAM_MAX_WORKERS];
    struct work w = { .run = run, .in = ptx_buffer_create(run->device, sizeof in) };

    program_inputs(in);
    if (!w.in)
        die("memory", ptx_error_message());
    check(ptx_buffer_upload(w.in, 0, in, sizeof in, NULL));
    check(ptx_stream_synchronize(run->device, NULL));
    pthread_mutex_init(&w.lock, NULL);
    for (unsigned k = 0; k < run->workers; k++)
        if (pthread_create(&thread[k], NULL, work, &w))
            die("threads", "cannot be started");
    for (unsigned k = 0; k < run->workers; k++)
        pthread_join(thread[k], NULL);
    pthread_mutex_destroy(&w.lock);
    ptx_buffer_destroy(&w.in);
}
