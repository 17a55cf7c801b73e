// SPDX-License-Identifier: MIT
#include "step_model.h"

#include <stdlib.h>
#include <string.h>

#include "reference/fp8.h"
#include "reference/step.h"

enum { WINDOW = 1024, WINDOWS = 3 };

/// The last elements of a tensor, from a multiple of BLOCK on, copied to the host.
struct window {
    size_t tensor;
    uint64_t first, count; ///< index and number of elements in the tensor
    unsigned char *array[ARRAYS];
};

static bool window_read(struct bench *b, const struct model *m, struct window *w)
{
    for (unsigned a = 0; a < ARRAYS; a++) {
        const size_t bytes = m->kind->bytes[a];
        if (!bytes)
            continue;
        if (!bench_ok(b,
                      ptx_buffer_download(
                          m->array[a],
                          (size_t)elements_of(m->kind, a, m->first[w->tensor] + w->first) * bytes,
                          w->array[a], (size_t)elements_of(m->kind, a, w->count) * bytes,
                          b->stream),
                      "parameters"))
            return false;
    }
    return bench_wait(b);
}

static bool window_create(struct bench *b, const struct model *m, size_t t, struct window *w)
{
    const uint64_t count = m->tensors[t].count;

    *w = (struct window) { .tensor = t };
    w->first = count < WINDOW ? 0 : (count - WINDOW + BLOCK - 1) / BLOCK * BLOCK;
    w->count = count - w->first;
    for (unsigned a = 0; a < ARRAYS; a++) {
        w->array[a] = calloc(WINDOW, sizeof(float));
        if (!w->array[a])
            return message_set(&b->error, "out of memory");
    }
    return true;
}

static void window_destroy(struct window *w)
{
    for (unsigned a = 0; a < ARRAYS; a++)
        free(w->array[a]);
}

static enum ref_type ref_of(ptx_type dtype)
{
    return dtype == PTX_BF16 ? REF_BF16 : REF_F32;
}

/// The sum of so many equal gradients.
static void window_expect_sums(const struct model *m, const struct window *w, double gradients)
{
    for (uint64_t i = 0; i < w->count && m->kind->part; i++)
        ref_store(REF_F32, w->array[SUM], i,
                  gradients * ref_load(ref_of(gradient_type(m->kind)), w->array[GRADIENT], i));
}

/// The first step of the window, in plain C.
static void window_expect(const struct model *m, const struct window *w, float factor)
{
    const struct ptx_step_hyper *h = &m->group.hyper;
    const struct ref_step_tensor tensor = {
        .rule = (enum ref_step_rule)m->kind->rule,
        .format = (enum ref_step_format)m->kind->format,
        .parameter_type = ref_of(m->kind->dtype),
        .gradient_type = ref_of(gradient_type(m->kind)),
        .parameter = w->array[PARAMETER],
        .gradient = w->array[GRADIENT],
        .beside = w->array[BESIDE],
        .state = { w->array[STATE], w->array[STATE + 1] },
        .absmax = { w->array[ABSMAX], w->array[ABSMAX + 1] },
        .count = w->count,
        .ema = m->kind->bytes[EMA] ? w->array[EMA] : NULL,
        .ema_type = m->kind->bytes[EMA] == 2 ? REF_BF16 : REF_F32,
        .hyper = { h->lr, h->beta1, h->beta2, h->eps, h->weight_decay, h->momentum, h->dampening,
                   h->ema_decay },
        .id = (uint32_t)w->tensor,
        .first = w->first,
    };
    ref_step(&tensor, 1, factor, REF_GRADIENTS_RAW);
    if (m->kind->bytes[CODES])
        ref_cast_fp8(ref_of(m->kind->dtype), w->array[PARAMETER], w->count, REF_E4M3, CODES_SCALE,
                     w->array[CODES], NULL);
    window_expect_sums(m, w, 1);
}

static bool window_check(struct bench *b, const struct model *m, const struct window *expected)
{
    struct window got;
    bool done = window_create(b, m, expected->tensor, &got) && window_read(b, m, &got);

    for (unsigned a = 0; a < ARRAYS && done; a++)
        if (memcmp(got.array[a], expected->array[a],
                   (size_t)elements_of(m->kind, a, expected->count) * m->kind->bytes[a]))
            done = message_set(
                &b->error,
                "%s %s, tensor %zu: a step differs from plain C: wrong results are not timed",
                m->name, m->kind->name, expected->tensor);
    window_destroy(&got);
    return done;
}

/// Whether the window's codes are where the transpose has them.
static bool transpose_check(struct bench *b, const struct model *m, const struct window *expected)
{
    const struct ptx_step_tensor *tensor = &m->tensors[expected->tensor];
    if (!tensor->fp8_transposed || m->kind->blocks)
        return true;
    unsigned char *got = malloc(tensor->count);
    const uint64_t rows = tensor->count / COLUMNS;
    bool done = (got || message_set(&b->error, "out of memory")) &&
                bench_ok(b,
                         ptx_buffer_download(m->transposed, (size_t)m->first[expected->tensor], got,
                                             (size_t)tensor->count, b->stream),
                         "codes") &&
                bench_wait(b);
    for (uint64_t k = 0; k < expected->count && done; k++) {
        const uint64_t i = expected->first + k;
        if (got[i % COLUMNS * rows + i / COLUMNS] != expected->array[CODES][k])
            done = message_set(&b->error,
                               "%s %s, tensor %zu: a transpose differs from plain C: wrong results "
                               "are not timed",
                               m->name, m->kind->name, expected->tensor);
    }
    free(got);
    return done;
}

/// Whether a matrix has the codes in blocks, of it and of its transpose, that plain C makes of its
/// parameters as they are.
static bool blocks_check(struct bench *b, const struct model *m, size_t t)
{
    const struct ptx_step_tensor *tensor = &m->tensors[t];
    const size_t count = (size_t)tensor->count, first = (size_t)m->first[t];
    const struct ref_fp8_blocks how = { m->kind->blocks == PTX_FP8_BLOCKS_1X128, REF_E4M3, true,
                                        false };
    if (!m->kind->blocks || !tensor->fp8)
        return true;
    float *x = malloc(count * sizeof(float)), *factors = malloc(count * sizeof(float));
    unsigned char *codes = malloc(3 * count); // of the matrix, transposed, and expected
    bool done = (x && factors && codes) || message_set(&b->error, "out of memory");

    done = done &&
           bench_ok(b,
                    ptx_buffer_download(m->array[PARAMETER], first * sizeof(float), x,
                                        count * sizeof(float), b->stream),
                    "parameters") &&
           bench_ok(b, ptx_buffer_download(m->blocks, first, codes, count, b->stream), "codes") &&
           bench_ok(b,
                    ptx_buffer_download(m->blocks, (size_t)m->room + first, codes + count, count,
                                        b->stream),
                    "codes") &&
           bench_wait(b);
    for (unsigned turned = 0; turned < 2 && done; turned++) {
        ref_cast_fp8_blocks(&how, REF_F32, x, count / COLUMNS, COLUMNS, turned, codes + 2 * count,
                            factors);
        if (memcmp(codes + turned * count, codes + 2 * count, count))
            done = message_set(&b->error,
                               "%s %s, tensor %zu: codes in blocks differ from plain C: wrong "
                               "results are not timed",
                               m->name, m->kind->name, t);
    }
    free(x);
    free(factors);
    free(codes);
    return done;
}

bool step_check(struct bench *b, const struct model *m)
{
    const size_t places[WINDOWS] = { 0, m->count / 2, m->count - 1 };
    struct window windows[WINDOWS] = { { 0 } };
    struct ptx_clip_record record[64];
    bool done = true;

    for (unsigned k = 0; k < WINDOWS && done; k++)
        done = window_create(b, m, places[k], &windows[k]) && window_read(b, m, &windows[k]);
    done = done && bench_ok(b, ptx_step_plan_run(m->plan, b->stream), "step");
    for (unsigned k = 0; k < WINDOWS && done; k++) {
        const uint32_t group = m->tensors[places[k]].norm_group;
        done =
            bench_ok(b, ptx_step_plan_read(m->plan, group, 1, record, NULL, b->stream), "read") &&
            bench_wait(b);
        if (done && !(record[0].factor > 0 && record[0].factor < 1))
            done = message_set(&b->error, "%s %s: nothing is clipped: factor %g", m->name,
                               m->kind->name, (double)record[0].factor);
        if (done)
            window_expect(m, &windows[k], record[0].factor);
        done = done && window_check(b, m, &windows[k]) && transpose_check(b, m, &windows[k]) &&
               blocks_check(b, m, places[k]);
    }
    for (unsigned k = 0; k < 2 && done && m->kind->part; k++)
        done = bench_ok(b, ptx_step_plan_accumulate(m->plan, b->stream), "micro-batch");
    for (unsigned k = 0; k < WINDOWS && done && m->kind->part; k++) {
        window_expect_sums(m, &windows[k], 2);
        done = window_check(b, m, &windows[k]);
    }
    for (unsigned k = 0; k < WINDOWS; k++)
        window_destroy(&windows[k]);
    return done;
}
