// SPDX-License-Identifier: MIT
// Sets of gradients with known sums, and the check that a plan computes those sums and the right
// gradients.
#include "set.h"

#include "reference/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256, WINDOW = 1024 };

static const float check_scale = 1024; // of the loss

// ---- sums ---------------------------------------------------------------------------------------

static enum ref_type ref_of(ptx_type dtype)
{
    return dtype == PTX_BF16 ? REF_BF16 : REF_F32;
}

static double squares_of_word(ptx_type dtype, uint32_t word)
{
    double sum = 0;
    for (uint64_t lane = 0; lane < sizeof(word) / ptx_type_bytes(dtype); lane++) {
        const double x = ref_load(ref_of(dtype), &word, lane);
        sum += x * x;
    }
    return sum;
}

bool bench_sums_create(struct bench *b, struct bench_sums *sums, ptx_type dtype)
{
    const struct bench_random random = bench_random_of(dtype);
    sums->dtype = dtype;
    sums->sums = malloc((BENCH_PERIOD + 1) * sizeof(*sums->sums));
    if (!sums->sums)
        return message_set(&b->error, "out of memory");
    sums->sums[0] = 0;
    for (uint64_t i = 0; i < BENCH_PERIOD; i++)
        sums->sums[i + 1] = sums->sums[i] + squares_of_word(dtype, bench_random_word(random, i));
    return true;
}

void bench_sums_destroy(struct bench_sums *sums)
{
    free(sums->sums);
    sums->sums = NULL;
}

static double sum_to(const struct bench_sums *sums, uint64_t words)
{
    return (double)(words / BENCH_PERIOD) * sums->sums[BENCH_PERIOD] +
           sums->sums[words % BENCH_PERIOD];
}

/// The initial value of element i of the set's memory.
static double element(ptx_type dtype, uint64_t i)
{
    const uint64_t lanes = sizeof(uint32_t) / ptx_type_bytes(dtype);
    const uint32_t word = bench_random_word(bench_random_of(dtype), i / lanes);
    return ref_load(ref_of(dtype), &word, i % lanes);
}

static double tensor_sum(const struct bench_sums *sums, uint64_t first, uint64_t count)
{
    const uint64_t lanes = sizeof(uint32_t) / ptx_type_bytes(sums->dtype);
    const uint64_t words = count / lanes;
    double sum = sum_to(sums, first / lanes + words) - sum_to(sums, first / lanes);
    for (uint64_t i = words * lanes; i < count; i++) {
        const double x = element(sums->dtype, first + i);
        sum += x * x;
    }
    return sum;
}

// ---- sets ---------------------------------------------------------------------------------------

bool bench_set_create(struct bench *b, struct bench_set *set, const char *name, ptx_type dtype,
                      size_t tensors)
{
    *set = (struct bench_set) { .name = name, .dtype = dtype, .count = tensors };
    set->tensors = calloc(tensors, sizeof(*set->tensors));
    return set->tensors || message_set(&b->error, "out of memory");
}

void bench_set_place(struct bench_set *set)
{
    const size_t element_bytes = ptx_type_bytes(set->dtype);
    for (size_t t = 0; t < set->count; t++) {
        struct ptx_clip_tensor *tensor = &set->tensors[t];
        tensor->dtype = set->dtype;
        tensor->data =
            set->span; // an offset from the start of the memory, until the memory is allocated
        set->span += (tensor->count * element_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        set->elements += tensor->count;
        if (tensor->group >= set->groups)
            set->groups = tensor->group + 1;
    }
    set->bytes = set->elements * element_bytes;
}

void bench_set_destroy(struct bench *b, struct bench_set *set)
{
    bench_free(b, &set->memory);
    free(set->tensors);
    set->tensors = NULL;
}

// ---- the check ----------------------------------------------------------------------------------

static bool near(double x, double expected)
{
    return fabs(x - expected) <= 1e-6 * fabs(expected);
}

static uint64_t first_of(const struct bench_set *set, size_t t)
{
    return (set->tensors[t].data - ptx_buffer_address(set->memory)) / ptx_type_bytes(set->dtype);
}

static bool check_records(struct bench *b, const struct bench_set *set,
                          const struct ptx_clip_record *records, const double *sums, float max_norm)
{
    for (uint32_t g = 0; g < set->groups; g++) {
        const double norm = sqrt(sums[g]) / (double)check_scale;
        const double factor = fmin(1, (double)max_norm / norm) / (double)check_scale;
        if (!near((double)records[g].norm, norm) || !near((double)records[g].factor, factor))
            return message_set(&b->error,
                               "%s %s, group %u: norm %.9g and factor %.9g should be %.9g and "
                               "%.9g: wrong results are not timed",
                               set->name, ptx_type_name(set->dtype), g, (double)records[g].norm,
                               (double)records[g].factor, norm, factor);
    }
    return true;
}

/// The last elements of a tensor.
static bool check_tensor(struct bench *b, const struct bench_set *set, size_t t, float factor)
{
    const enum ref_type type = ref_of(set->dtype);
    const struct ptx_clip_tensor *tensor = &set->tensors[t];
    const uint64_t count = tensor->count < WINDOW ? tensor->count : WINDOW;
    const uint64_t first = first_of(set, t) + tensor->count - count;
    const size_t element_bytes = ptx_type_bytes(set->dtype);
    float got[WINDOW], expected; // no type is wider
    if (!bench_ok(b,
                  ptx_buffer_download(set->memory, (size_t)first * element_bytes, got,
                                      (size_t)count * element_bytes, b->stream),
                  "gradients") ||
        !bench_wait(b))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        const double product = element(set->dtype, first + i) * (double)factor;
        ref_store(type, &expected, 0, product);
        if (ref_load(type, got, i) != ref_load(type, &expected, 0))
            return message_set(&b->error,
                               "%s %s, tensor %zu: an element is %.9g and should be %.9g: wrong "
                               "results are not timed",
                               set->name, ptx_type_name(set->dtype), t, ref_load(type, got, i),
                               ref_load(type, &expected, 0));
    }
    return true;
}

static bool check_run(struct bench *b, const struct bench_set *set, ptx_clip_plan *plan,
                      struct ptx_clip_record *records, double *sums, const struct bench_sums *made)
{
    for (size_t t = 0; t < set->count; t++)
        sums[set->tensors[t].group] += tensor_sum(made, first_of(set, t), set->tensors[t].count);
    const float max_norm = (float)(0.5 * sqrt(sums[0]) / (double)check_scale);
    const struct ptx_loss_scale_state state = { .scale = check_scale };
    if (!bench_ok(b, ptx_clip_plan_set_max_norm(plan, PTX_CLIP_ALL_GROUPS, max_norm, b->stream),
                  "max_norm") ||
        !bench_ok(b, ptx_clip_plan_set_loss_scale(plan, state, b->stream), "loss scale") ||
        !bench_ok(b, ptx_clip_plan_run(plan, b->stream), "run") ||
        !bench_ok(b, ptx_clip_plan_read(plan, 0, set->groups, records, NULL, b->stream), "read") ||
        !bench_wait(b) || !check_records(b, set, records, sums, max_norm))
        return false;
    const size_t places[] = { 0, set->count / 2, set->count - 1 };
    for (size_t k = 0; k < sizeof(places) / sizeof(places[0]); k++)
        if (!check_tensor(b, set, places[k], records[set->tensors[places[k]].group].factor))
            return false;
    return true;
}

bool bench_set_check(struct bench *b, const struct bench_set *set, ptx_clip_plan *plan,
                     const struct bench_sums *made)
{
    struct ptx_clip_record *records = calloc(set->groups, sizeof(*records));
    double *sums = calloc(set->groups, sizeof(*sums));
    bool done = records && sums ? check_run(b, set, plan, records, sums, made)
                                : message_set(&b->error, "out of memory");
    free(records);
    free(sums);
    return done;
}
