// SPDX-License-Identifier: MIT
// Block plans against plain C, bit for bit: lists of every format, type and rounding, with what
// blocks may hold; and what is refused.
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_calls.h"
#include "reference/blocks.h"
#include "sanitized.h"
#include "test.h"

// ---- what there is ------------------------------------------------------------------------------

struct way {
    ptx_block_format format;
    ptx_block_like like;
    ptx_block_scale scale;
    bool two_dimensional;
    struct ref_blocks expected;
};
#define E2M1     1, 0, 2, 6
#define E3M2     2, -2, 4, 28
#define E2M3     3, 0, 2, 7.5f
#define E4M3     3, -6, 8, 448
#define E5M2     2, -14, 15, 57344
#define D(field) PTX_BLOCK_##field##_DEFAULT
static const struct way ways[] = {
    { PTX_BLOCK_FORMAT_NVFP4, D(LIKE), D(SCALE), false, { E2M1, 16, 1, REF_NVFP4_TE } },
    { PTX_BLOCK_FORMAT_NVFP4, PTX_BLOCK_LIKE_TE, D(SCALE), true, { E2M1, 16, 16, REF_NVFP4_TE } },
    { PTX_BLOCK_FORMAT_NVFP4,
      PTX_BLOCK_LIKE_TORCHAO,
      D(SCALE),
      false,
      { E2M1, 16, 1, REF_NVFP4_TORCHAO } },
    { PTX_BLOCK_FORMAT_NVFP4,
      PTX_BLOCK_LIKE_TORCHAO,
      D(SCALE),
      true,
      { E2M1, 16, 16, REF_NVFP4_TORCHAO } },
    { PTX_BLOCK_FORMAT_MXFP4, D(LIKE), D(SCALE), false, { E2M1, 32, 1, REF_MX_FLOOR } },
    { PTX_BLOCK_FORMAT_MXFP4,
      D(LIKE),
      PTX_BLOCK_SCALE_RCEIL,
      false,
      { E2M1, 32, 1, REF_MX_RCEIL } },
    { PTX_BLOCK_FORMAT_MXFP6_E3M2,
      PTX_BLOCK_LIKE_TORCHAO,
      D(SCALE),
      false,
      { E3M2, 32, 1, REF_MX_FLOOR } },
    { PTX_BLOCK_FORMAT_MXFP6_E2M3,
      D(LIKE),
      PTX_BLOCK_SCALE_RCEIL,
      false,
      { E2M3, 32, 1, REF_MX_RCEIL } },
    { PTX_BLOCK_FORMAT_MXFP6_E2M3, D(LIKE), D(SCALE), false, { E2M3, 32, 1, REF_MX_FLOOR } },
    { PTX_BLOCK_FORMAT_MXFP8_E4M3, D(LIKE), D(SCALE), false, { E4M3, 32, 1, REF_MX_FLOOR } },
    { PTX_BLOCK_FORMAT_MXFP8_E4M3,
      PTX_BLOCK_LIKE_TE,
      D(SCALE),
      false,
      { E4M3, 32, 1, REF_MX_RCEIL_TE } },
    { PTX_BLOCK_FORMAT_MXFP8_E5M2,
      PTX_BLOCK_LIKE_TORCHAO,
      PTX_BLOCK_SCALE_RCEIL,
      false,
      { E5M2, 32, 1, REF_MX_RCEIL } },
    { PTX_BLOCK_FORMAT_FP8_1X128, D(LIKE), D(SCALE), false, { E4M3, 128, 1, REF_FP8_TE_POWER } },
    { PTX_BLOCK_FORMAT_FP8_1X128,
      D(LIKE),
      PTX_BLOCK_SCALE_F32,
      false,
      { E4M3, 128, 1, REF_FP8_TE } },
    { PTX_BLOCK_FORMAT_FP8_1X128,
      PTX_BLOCK_LIKE_DEEPGEMM,
      D(SCALE),
      false,
      { E4M3, 128, 1, REF_FP8_DEEPGEMM } },
    { PTX_BLOCK_FORMAT_FP8_128X128,
      D(LIKE),
      PTX_BLOCK_SCALE_F32,
      false,
      { E4M3, 128, 128, REF_FP8_TE } },
    { PTX_BLOCK_FORMAT_FP8_128X128,
      PTX_BLOCK_LIKE_DEEPGEMM,
      PTX_BLOCK_SCALE_POWER_OF_2,
      false,
      { E4M3, 128, 128, REF_FP8_DEEPGEMM_POWER } },
};
enum { WAYS = sizeof ways / sizeof *ways };

static const ptx_type types[] = { PTX_BF16, PTX_F32, PTX_F16 };

// ---- a tensor -----------------------------------------------------------------------------------

// Numbers of one size in each block of 16, and some blocks of what numbers may be otherwise.
static float number(struct random *r, uint64_t i, int *kind, double *size)
{
    static const float others[] = { 0,         -0.0f,     NAN,    INFINITY, -INFINITY, FLT_TRUE_MIN,
                                    0x1p-127f, 0x1p-133f, FLT_MAX };

    if (i % 16 == 0) {
        *kind = (int)random_below(r, 12);
        *size = ldexp(1, (int)random_below(r, *kind == 3 ? 250 : 12) - (*kind == 3 ? 130 : 6));
    }
    if (*kind == 0)
        return others[random_below(r, 2)];
    if (*kind == 1 && random_below(r, 8) == 0)
        return others[random_below(r, sizeof others / sizeof *others)];
    if (*kind == 2) // between floats
        return (float)(*size * (double)((int)random_below(r, 49) - 24) / 4);
    return (float)(*size * random_unit(r));
}

struct tensor {
    struct ptx_block_tensor of;
    uint64_t count;
    float amax;
    float *x;          // as the type has it
    uint64_t at, y_at; // in the buffer, in bytes
    bool in_place;
};

enum { MOST = 70, FILL = 0xa5, GAP = 64 };

struct list {
    const struct way *way;
    ptx_type type;
    bool stochastic, hadamard;
    struct tensor tensor[MOST];
    size_t count;
    uint64_t bytes;
};

static void make(struct list *l, struct random *r, uint64_t most)
{
    const struct ref_blocks *e = &l->way->expected;
    const unsigned bytes = ptx_type_bytes(l->type);

    l->bytes = 0;
    for (size_t k = 0; k < l->count; k++) {
        struct tensor *t = &l->tensor[k];
        const uint64_t unit = e->height > 16 ? 8 : e->width, rows = e->height > 16 ? 1 : e->height;
        t->of.columns = unit * random_below(r, (uint32_t)(most / unit));
        t->of.rows = rows * random_below(r, (uint32_t)(e->height > 1 ? 160 / rows : 24));
        t->count = t->of.rows * t->of.columns;
        t->x = calloc(t->count + 1, sizeof *t->x);
        assert_non_null(t->x);
        int kind = 0;
        double size = 0;
        t->amax = 0;
        for (uint64_t i = 0; i < t->count; i++) {
            uint32_t room;
            gpu_set_element(l->type, &room, 0, number(r, i, &kind, &size));
            t->x[i] = gpu_element(l->type, &room, 0);
            if (isfinite(t->x[i]) && fabsf(t->x[i]) > t->amax)
                t->amax = fabsf(t->x[i]);
        }
        if (random_below(r, 4) == 0) {
            static const float amaxes[] = { 0, 1e-44f, 1e-36f, 1, INFINITY, NAN };
            t->amax = amaxes[random_below(r, sizeof amaxes / sizeof *amaxes)];
        }
        // Guard bytes are around each, and some are at no boundary of vectors.
        const uint64_t skew = random_below(r, 3) ? 0 : bytes * random_below(r, 16);
        const uint64_t room = (t->count * bytes + GAP + 63) / 64 * 64 + 64;
        t->in_place = random_below(r, 4) == 0;
        t->at = l->bytes + GAP + skew;
        t->y_at = t->in_place ? t->at : t->at + room;
        l->bytes += (t->in_place ? 1 : 2) * room + GAP;
    }
    l->bytes += GAP;
}

static void fill(const struct list *l, uint8_t *memory, bool after, const struct ref_blocks *how)
{
    uint64_t first = 0;

    memset(memory, FILL, l->bytes);
    for (size_t k = 0; k < l->count; k++) {
        const struct tensor *t = &l->tensor[k];
        float *y = calloc(t->count + 1, sizeof *y);
        assert_non_null(y);
        float *x = calloc(t->count + 1, sizeof *x);
        assert_non_null(x);
        memcpy(x, t->x, t->count * sizeof *x);
        if (l->hadamard)
            ref_hadamard(x, t->count, x);
        if (after)
            ref_blocks(how, x, t->of.rows, t->of.columns, t->amax, first, y);
        for (uint64_t i = 0; i < t->count; i++)
            gpu_set_element(l->type, memory + t->at, i, t->x[i]);
        for (uint64_t i = 0; i < t->count && after; i++)
            gpu_set_element(l->type, memory + t->y_at, i, y[i]);
        free(x);
        free(y);
        first += t->count;
    }
}

// Every byte, but that all NaN are one.
static void compare(const struct list *l, const uint8_t *found, const uint8_t *expected)
{
    if (!memcmp(found, expected, l->bytes))
        return;
    ALLOCATED(uint8_t) *rest = malloc(l->bytes);
    assert_non_null(rest);
    memcpy(rest, found, l->bytes);
    for (size_t k = 0; k < l->count; k++) {
        const struct tensor *t = &l->tensor[k];
        for (uint64_t i = 0; i < t->count; i++) {
            const float y = gpu_element(l->type, found + t->y_at, i);
            const float wanted = gpu_element(l->type, expected + t->y_at, i);
            if (isnan(y) && isnan(wanted))
                gpu_set_element(l->type, rest + t->y_at, i, NAN);
            else if (memcmp(&y, &wanted, sizeof y) != 0)
                fail_msg("%s: tensor %zu of %zu, %" PRIu64 " by %" PRIu64
                         ", amax %a: element %" PRIu64
                         ", %a, is %a and not %a (way %d, stochastic %d)",
                         ptx_type_name(l->type), k, l->count, t->of.rows, t->of.columns,
                         (double)t->amax, i, (double)t->x[i], (double)y, (double)wanted,
                         (int)(l->way - ways), l->stochastic);
        }
    }
    for (size_t k = 0; k < l->count; k++)
        for (uint64_t i = 0; i < l->tensor[k].count; i++) {
            const struct tensor *t = &l->tensor[k];
            if (isnan(gpu_element(l->type, expected + t->y_at, i)))
                memcpy(rest + t->y_at + i * ptx_type_bytes(l->type),
                       expected + t->y_at + i * ptx_type_bytes(l->type), ptx_type_bytes(l->type));
        }
    assert_memory_equal(rest, expected, l->bytes);
}

// Made once for each way, type and rounding, and destroyed by main().
static ptx_block_plan *plans[WAYS][3][4];

static ptx_block_plan **kept(const struct list *l)
{
    int type = 0;

    while (types[type] != l->type)
        type++;
    return &plans[l->way - ways][type][l->stochastic + 2 * l->hadamard];
}

static ptx_block_plan *plan_of(const struct list *l)
{
    const struct ptx_block_params params = { .dtype = l->type,
                                             .format = l->way->format,
                                             .like = l->way->like,
                                             .scale = l->way->scale,
                                             .two_dimensional = l->way->two_dimensional,
                                             .stochastic = l->stochastic,
                                             .hadamard = l->hadamard };
    ptx_block_plan **plan = kept(l);

    if (!*plan)
        *plan = ptx_block_plan_create(gpu.device, &params, gpu.stream);
    if (!*plan)
        fail_msg("%s", ptx_error_message());
    return *plan;
}

static void run_list(struct list *l, struct random *r, uint64_t most)
{
    struct ref_blocks how = l->way->expected;
    struct ptx_block_random random = { random_u64(r), random_u64(r), 0, 0 };
    struct ptx_block_tensor tensors[MOST];
    const uint64_t seeds[2] = { random.seed, random.offset };
    ptx_block_plan *plan = plan_of(l);

    make(l, r, most);
    how.stochastic = l->stochastic;
    how.seed = random.seed;
    how.offset = random.offset;
    uint8_t *memory = malloc(l->bytes), *expected = malloc(l->bytes);
    ALLOCATED(float) *amaxes = calloc(l->count, sizeof *amaxes);
    assert_true(memory && expected && amaxes);
    fill(l, memory, false, &how);
    fill(l, expected, true, &how);
    OWNED(ptx_buffer) *buffer = ptx_buffer_create(gpu.device, l->bytes);
    OWNED(ptx_buffer) *state =
        ptx_buffer_create(gpu.device, sizeof seeds + l->count * sizeof *amaxes);
    assert_true(buffer && state);
    const CUdeviceptr base = ptx_buffer_address(buffer), at = ptx_buffer_address(state);
    for (size_t k = 0; k < l->count; k++) {
        const bool tensor_scale = l->way->format == PTX_BLOCK_FORMAT_NVFP4;
        tensors[k] = l->tensor[k].of;
        tensors[k].x = base + l->tensor[k].at;
        tensors[k].y = base + l->tensor[k].y_at;
        tensors[k].amax = tensor_scale ? at + sizeof seeds + k * sizeof *amaxes : 0;
        amaxes[k] = l->tensor[k].amax;
    }
    assert_int_equal(ptx_buffer_upload(buffer, 0, memory, l->bytes, gpu.stream), PTX_OK);
    assert_int_equal(ptx_buffer_upload(state, 0, seeds, sizeof seeds, gpu.stream), PTX_OK);
    assert_int_equal(
        ptx_buffer_upload(state, sizeof seeds, amaxes, l->count * sizeof *amaxes, gpu.stream),
        PTX_OK);
    if (random_below(r, 2)) {
        random.seed_at = at;
        random.seed = 0;
    }
    if (random_below(r, 2)) {
        random.offset_at = at + sizeof(uint64_t);
        random.offset = 0;
    }
    if (ptx_block_plan_run(plan, tensors, l->count, l->stochastic ? &random : NULL, gpu.stream))
        fail_msg("%s", ptx_error_message());
    assert_int_equal(ptx_buffer_download(buffer, 0, memory, l->bytes, gpu.stream), PTX_OK);
    assert_int_equal(ptx_stream_synchronize(gpu.device, gpu.stream), PTX_OK);
    compare(l, memory, expected);
    for (size_t k = 0; k < l->count; k++)
        free(l->tensor[k].x);
    free(memory);
    free(expected);
}

// ---- tests --------------------------------------------------------------------------------------

TEST(test_every_format)
{
    struct random r = gpu_random("formats");
    static struct list l;

    for (int way = 0; way < WAYS; way += SANITIZED_EVERY(3))
        for (int type = 0; type < 3; type++) {
            l = (struct list) { .way = &ways[way], .type = types[type], .count = 3 };
            l.stochastic = (way + type) % 3 == 0;
            run_list(&l, &r, 520);
        }
}

// nvfp4 of the transform, with the scales of both.
TEST(test_hadamard)
{
    struct random r = gpu_random("hadamard");
    static struct list l;

    for (int k = 0; k < 4; k++) {
        l = (struct list) { .way = &ways[k / 2 * 2], .type = PTX_BF16, .count = 3 };
        l.stochastic = k % 2;
        l.hadamard = true;
        run_list(&l, &r, 520);
    }
}

// The amax of tensors, merged with what is there.
TEST(test_measure)
{
    struct random r = gpu_random("measure");
    static float x[3][4000], before[3] = { 0, 3, 1e30f };
    static const uint64_t columns[3] = { 16, 3984, 160 }, rows[3] = { 1, 1, 25 };
    static uint16_t stored_x[3][4000];

    for (int trial = 0; trial < 8; trial++) {
        const ptx_type type = trial < 4 ? PTX_BF16 : types[trial % 3];
        const struct ptx_block_params params = { .dtype = type,
                                                 .measure = true,
                                                 .hadamard = trial < 4 && trial % 2 };
        OWNED(ptx_block_plan) *plan = ptx_block_plan_create(gpu.device, &params, gpu.stream);
        OWNED(ptx_buffer) *buffer = ptx_buffer_create(gpu.device, sizeof x + sizeof before);
        float found[3], expected[3];
        struct ptx_block_tensor tensors[3];
        assert_true(plan && buffer);
        const CUdeviceptr at = ptx_buffer_address(buffer);
        for (int k = 0; k < 3; k++) {
            const uint64_t count = rows[k] * columns[k];
            for (uint64_t i = 0; i < count; i++) {
                void *to = type == PTX_F32 ? (void *)x[k] : (void *)stored_x[k];
                const bool other = trial % 4 == 2 + k / 2 && i == count - 1;
                gpu_set_element(type, to, i,
                                other ? k ? INFINITY : NAN : (float)(8 * random_unit(&r)));
                x[k][i] = gpu_element(type, to, i);
            }
            tensors[k] = (struct ptx_block_tensor) { .x = at + sizeof x[0] * (unsigned)k,
                                                     .rows = rows[k],
                                                     .columns = columns[k],
                                                     .amax = at + sizeof x + 4 * (unsigned)k };
            assert_int_equal(ptx_buffer_upload(buffer, sizeof x[0] * (size_t)k,
                                               type == PTX_F32 ? (void *)x[k] : stored_x[k],
                                               count * ptx_type_bytes(type), gpu.stream),
                             PTX_OK);
            assert_int_equal(ptx_stream_synchronize(gpu.device, gpu.stream), PTX_OK);
            if (params.hadamard)
                ref_hadamard(x[k], count, x[k]);
            expected[k] = before[k];
            for (uint64_t i = 0; i < count; i++)
                if (isnan(x[k][i]) || fabsf(x[k][i]) > expected[k])
                    expected[k] = fabsf(x[k][i]);
        }
        assert_int_equal(ptx_buffer_upload(buffer, sizeof x, before, sizeof before, gpu.stream),
                         PTX_OK);
        if (ptx_block_plan_run(plan, tensors, 3, NULL, gpu.stream))
            fail_msg("%s", ptx_error_message());
        assert_int_equal(ptx_buffer_download(buffer, sizeof x, found, sizeof found, gpu.stream),
                         PTX_OK);
        assert_int_equal(ptx_stream_synchronize(gpu.device, gpu.stream), PTX_OK);
        for (int k = 0; k < 3; k++)
            if (found[k] != expected[k] && !(isnan(found[k]) && isnan(expected[k])))
                fail_msg("trial %d: amax %d is %a and not %a", trial, k, (double)found[k],
                         (double)expected[k]);
    }
}

// Two launches.
TEST(test_long_list)
{
    struct random r = gpu_random("long list");
    static struct list l;

    l = (struct list) { .way = &ways[0], .type = PTX_BF16, .count = MOST, .stochastic = true };
    run_list(&l, &r, 64);
    l = (struct list) { .way = &ways[0], .type = PTX_F32, .count = MOST };
    run_list(&l, &r, 64);
}

// Seeds, sizes and formats at random; on a GPU more of them.
TEST(test_random_lists)
{
    struct random r = gpu_random("lists");
    static struct list l;
    const int trials = gpu.own_buffers ? 8 : 100;

    for (int trial = 0; trial < trials; trial += SANITIZED_EVERY(5)) {
        l = (struct list) { .way = &ways[random_below(&r, WAYS)],
                            .type = types[random_below(&r, 3)],
                            .count = 1 + random_below(&r, 6),
                            .stochastic = random_below(&r, 2) };
        run_list(&l, &r, gpu.own_buffers ? 700 : 3000);
    }
}

static void refused(const struct ptx_block_params *params, const char *text)
{
    assert_null(ptx_block_plan_create(gpu.device, params, gpu.stream));
    expect_failure(PTX_ERROR_INVALID, text);
}

#define REFUSED(words, ...) refused(&(struct ptx_block_params) { __VA_ARGS__ }, words)

TEST(test_refused_plans)
{
    refused(NULL, "params is NULL");
    REFUSED("dtype is f64", .dtype = PTX_F64);
    REFUSED("format is 99; it must be from 0 to 7", .dtype = PTX_BF16,
            .format = (ptx_block_format)99);
    REFUSED("like is 9", .dtype = PTX_BF16, .like = (ptx_block_like)9);
    REFUSED("scale is 9", .dtype = PTX_BF16, .scale = (ptx_block_scale)9);
    REFUSED("format is nvfp4, like is deepgemm and scale is default, which do not go together; "
            "the format has (te, default) (torchao, default)",
            .dtype = PTX_BF16, .like = PTX_BLOCK_LIKE_DEEPGEMM);
    REFUSED("(torchao, floor) (torchao, rceil)", .dtype = PTX_BF16,
            .format = PTX_BLOCK_FORMAT_MXFP6_E2M3, .like = PTX_BLOCK_LIKE_TE);
    REFUSED("two_dimensional is true, and format is mxfp4", .dtype = PTX_BF16,
            .format = PTX_BLOCK_FORMAT_MXFP4, .two_dimensional = true);
    REFUSED("hadamard is true, and dtype is f32", .dtype = PTX_F32, .hadamard = true);
    REFUSED("hadamard and two_dimensional are true", .dtype = PTX_F32, .hadamard = true,
            .two_dimensional = true);
    REFUSED("measure and stochastic are true", .dtype = PTX_F32, .measure = true,
            .stochastic = true);
    REFUSED("measure is true, and format is fp8_1x128", .dtype = PTX_F32, .measure = true,
            .stochastic = true, .format = PTX_BLOCK_FORMAT_FP8_1X128);
}

static void run_refused(ptx_block_plan *plan, const struct ptx_block_tensor *t,
                        const struct ptx_block_random *random, const char *text)
{
    assert_int_equal(ptx_block_plan_run(plan, t, 1, random, gpu.stream), PTX_ERROR_INVALID);
    if (!strstr(ptx_error_message(), text))
        fail_msg("\"%s\" is not in: %s", text, ptx_error_message());
}

TEST(test_refused_runs)
{
    const struct ptx_block_random random = { 1, 2, 0, 0 };
    OWNED(ptx_buffer) *buffer = ptx_buffer_create(gpu.device, 4096);
    static struct list l;

    assert_non_null(buffer);
    const CUdeviceptr at = ptx_buffer_address(buffer);
    const struct ptx_block_tensor good = {
        .x = at, .y = at + 1024, .rows = 2, .columns = 32, .amax = at + 2048
    };
    struct ptx_block_tensor t = good;
    l = (struct list) { .way = &ways[0], .type = PTX_BF16 };
    ptx_block_plan *plan = plan_of(&l);
    assert_int_equal(ptx_block_plan_run(plan, &good, 1, NULL, gpu.stream), PTX_OK);
    assert_int_equal(ptx_block_plan_run(plan, NULL, 0, NULL, gpu.stream), PTX_OK);
    run_refused(plan, &good, &random, "random is given");
    run_refused(plan, NULL, NULL, "tensors is NULL, and count is 1");
    run_refused(NULL, &good, NULL, "plan is NULL");
#define TENSOR_REFUSED(words, ...) CHANGED(t, run_refused(plan, &t, NULL, words), __VA_ARGS__)
    TENSOR_REFUSED("tensor 0: columns is 24, no multiple of 16", t.columns = 24);
    TENSOR_REFUSED("tensor 0's y", t.y += 1);
    TENSOR_REFUSED("the run would overwrite the one with the other", t.y = t.x + 2);
    TENSOR_REFUSED("tensor 0's amax", t.amax = 0);
    TENSOR_REFUSED("more than memory can have", t.rows = UINT64_MAX / 16);
    l = (struct list) { .way = &ways[1], .type = PTX_BF16, .stochastic = true };
    plan = plan_of(&l);
    run_refused(plan, &good, &random, "tensor 0: rows is 2, no multiple of 16");
    t.rows = 16;
    run_refused(plan, &t, NULL, "random is NULL");
    run_refused(plan, &t, &(struct ptx_block_random) { .seed_at = at + 4 }, "seed_at");
    l = (struct list) { .way = &ways[4], .type = PTX_BF16 };
    plan = plan_of(&l);
    run_refused(plan, &good, NULL, "only nvfp4 has a scale of the tensor");
}

int main(void)
{
    gpu_open_from(80);
    const int failed = tests_run(NULL, NULL);
    for (size_t k = 0; k < sizeof plans / sizeof(ptx_block_plan *); k++)
        ptx_block_plan_destroy(&plans[k / 12][k / 4 % 3][k % 4]);
    gpu_close();
    return failed;
}
