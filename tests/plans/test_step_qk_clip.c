// SPDX-License-Identifier: MIT
// Factors of rows and columns: every byte as in plain C, for every rule and format, in every form
// of a run, at any alignment; reports; what skipped steps and factors of 1 leave; matrices, against
// the step without factors; what is refused.
#define _POSIX_C_SOURCE 200809L // setenv()
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qk_clip_fixture.h"
#include "test.h"

static struct step_set set;
static ptx_buffer *memory; // the factors, then reports

static struct qk_clips clips;

static void create(struct random *r, const struct step_shape *shape)
{
    for (;;) {
        bool any = false;
        step_set_create(&set, r, shape);
        for (size_t t = 0; t < set.count; t++)
            any |= set.tensors[t].count && set.tensors[t].gradient;
        if (any)
            break;
    }
    qk_clips_create(&clips, &set, r, memory);
}

static void destroy(void)
{
    qk_clips_destroy(&clips);
}

static struct ptx_step_params params_of(void)
{
    struct ptx_step_params params = step_set_params(&set);

    params.qk_clips = clips.entry;
    params.qk_clip_count = clips.count;
    return params;
}

// ---- tests of elements --------------------------------------------------------------------------

// Steps in all forms, with other factors each time, of which one is skipped.
static void check_steps(struct random *r, bool any, const char *what)
{
    const struct ptx_step_params params = params_of();
    OWNED(ptx_step_plan) *plan = step_create(&params);
    OWNED(ptx_graph) *graph = plan_capture((struct any_plan) { .step = plan });

    for (unsigned step = 0; step < 4; step++) {
        qk_clips_set(&clips, &set, r, any);
        step_set_gradients(&set, r, step == 1 && set.has_elements ? NAN : 0);
        step_set_expect(&set, &params, 1);
        plan_run((struct any_plan) { .step = plan }, (enum plan_form)(step % 3), graph);
        step_set_check(&set, what);
    }
}

TEST(test_formats)
{
    struct random r = gpu_random("factors of rows and columns");

    for (unsigned trial = 0; trial < 2 * PTX_STEP_FORMAT_COUNT; trial++) {
        const struct step_shape shape = { FORMAT_IN_TURN(trial),
                                          .tensors = 6,
                                          .most = trial % 3 ? 5000 : 60,
                                          .averages = PTX_TYPE_BIT(NONE) | PTX_TYPE_BIT(F32),
                                          .copies = ALL_COPIES,
                                          .transposed = true,
                                          .amax = true };
        create(&r, &shape);
        set.gradients = (ptx_step_gradients)(trial % 3);
        check_steps(&r, trial % 3 == 2, "factors in a format");
        destroy();
    }
}

// Beside tensors without factors, small ones among them, in one plan; and codes in blocks.
TEST(test_mixed)
{
    struct random r = gpu_random("factors in many formats");

    for (unsigned trial = 0; trial < 2; trial++) {
        const struct step_shape shape = { .tensors = 12,
                                          .groups = 2,
                                          .most = 3000,
                                          .rules =
                                              1 << PTX_STEP_RULE_ADAMW | 1 << PTX_STEP_RULE_SGD,
                                          .formats = ALL_FORMATS,
                                          .copies = trial ? ALL_COPIES : 0,
                                          .blocks = trial ? 1 << PTX_FP8_BLOCKS_128X128 : 0,
                                          .aligned = true };
        create(&r, &shape);
        check_steps(&r, false, "factors in all formats");
        destroy();
    }
}

// The norms of the weights and of their change are those of what is stored, and the largest is its
// magnitude, of tensors of one tile and of several.
TEST(test_reports)
{
    struct random r = gpu_random("factors and reports");
    const struct step_shape shape = { .tensors = 4,
                                      .most = 9000,
                                      .formats = 1 << PTX_STEP_FORMAT_FULL |
                                                 1 << PTX_STEP_FORMAT_STOCHASTIC,
                                      .aligned = true };
    struct ptx_weight_report got[4];
    unsigned changed = 0;

    create(&r, &shape);
    while (!clips.count) {
        destroy();
        create(&r, &shape);
    }
    struct ptx_step_params params = params_of();
    params.weight_reports_at = ptx_buffer_address(memory) + 64;
    ptx_step_plan *plan = step_create(&params);
    do
        qk_clips_set(&clips, &set, &r, false);
    while (clips.factor[qk_clips_slot(&clips, &clips.entry[0])] == 1);
    step_set_gradients(&set, &r, 0);
    unsigned char *before = malloc(set.bytes);
    memcpy(before, set.host, set.bytes);
    step_set_expect(&set, &params, 1);
    require(ptx_step_plan_run(plan, gpu.stream));
    step_set_check(&set, "factors and reports");
    require_done(ptx_buffer_download(memory, 64, got, sizeof got, gpu.stream));
    for (size_t t = 0; t < set.count; t++) {
        const enum ref_type type = gpu_ref_type(set.tensors[t].dtype);
        double norm = 0, change = 0, largest = 0;
        for (uint64_t i = 0; i < set.tensors[t].count; i++) {
            const double is = ref_load(type, set.host + set.offset[t][0], i);
            const double was = ref_load(type, before + set.offset[t][0], i);
            norm += is * is;
            change += (is - was) * (is - was);
            largest = fmax(largest, fabs(is));
            changed += set.factors[t] && set.factors[t][i] != 1;
        }
        assert_true(fabs(got[t].norm - sqrt(norm)) <= 1e-12 * sqrt(norm));
        assert_true(fabs(got[t].change - sqrt(change)) <= 1e-12 * sqrt(change));
        assert_true((double)got[t].largest == largest);
    }
    assert_true(changed > 0);
    free(before);
    ptx_step_plan_destroy(&plan);
    destroy();
}

// ---- matrices -----------------------------------------------------------------------------------

enum { MATRICES = 4, ROOM = 6000, ARRAYS = 4, BYTES = MATRICES * ARRAYS * ROOM * 4 };
enum { OF_PARAMETER, OF_GRADIENT, OF_MASTER, OF_STATE };

// Wide, tall, of rows that are no vectors, and spread.
static const struct matrix {
    uint64_t rows, columns;
    bool master, by_columns;
    struct ptx_muon_spread spread;
} matrices[MATRICES] = { { 24, 160, false, false, { 0 } },
                         { 90, 40, true, false, { 0 } },
                         { 33, 70, false, true, { 0 } },
                         { 16, 64, true, true, { 64, 192 } } };

static size_t place(size_t m, unsigned array)
{
    return (m * ARRAYS + array) * (size_t)ROOM * 4;
}

static uint64_t element(const struct matrix *m, uint64_t i)
{
    return m->spread.run ? i / m->spread.run * m->spread.stride + i % m->spread.run : i;
}

// Steps the image, with factors or without.
static void step_matrices(unsigned char *image, bool clipped)
{
    const struct ptx_step_group group = {
        .rule = PTX_STEP_RULE_MUON,
        .nesterov = true,
        .hyper = { .lr = 0.02, .momentum = 0.9, .weight_decay = 0.1, .eps = 1e-7 },
    };
    struct ptx_step_tensor tensors[MATRICES];
    OWNED(ptx_buffer) *arrays = made(ptx_buffer_create(gpu.device, BYTES + 256));
    const CUdeviceptr at = ptx_buffer_address(arrays);
    for (size_t k = 0; k < MATRICES; k++) {
        const struct matrix *m = &matrices[k];
        tensors[k] = (struct ptx_step_tensor) {
            .parameter = at + place(k, OF_PARAMETER),
            .gradient = at + place(k, OF_GRADIENT),
            .beside = m->master ? at + place(k, OF_MASTER) : 0,
            .state = { at + place(k, OF_STATE) },
            .step = at + BYTES + 4 * k,
            .count = m->rows * m->columns,
            .columns = m->columns,
            .dtype = m->master ? PTX_BF16 : PTX_F32,
            .gradient_dtype = PTX_F32,
            .format = m->master ? PTX_STEP_FORMAT_MASTER : PTX_STEP_FORMAT_FULL,
            .spread = m->spread,
        };
    }
    require(ptx_buffer_upload(arrays, 0, image, BYTES, gpu.stream));
    require(ptx_buffer_fill(arrays, BYTES, 0, 256, gpu.stream));
    const struct ptx_step_params params = { .tensors = tensors,
                                            .tensor_count = MATRICES,
                                            .groups = &group,
                                            .group_count = 1,
                                            .max_norm = 5,
                                            .qk_clips = clipped ? clips.entry : NULL,
                                            .qk_clip_count = clipped ? clips.count : 0,
                                            .stream = gpu.stream };
    OWNED(ptx_step_plan) *plan = step_create(&params);
    require(ptx_step_plan_run(plan, gpu.stream));
    require_done(ptx_buffer_download(arrays, 0, image, BYTES, gpu.stream));
}

TEST(test_matrices)
{
    struct random r = gpu_random("factors of matrices");
    const float factor[QK_FACTORS] = { 0.5f, 0.70710677f, 1, 0.9f, 0.99f, 1, 0, -1.1f };
    unsigned char *expected = calloc(BYTES, 1), *got = malloc(BYTES);

    clips = (struct qk_clips) { .memory = memory };
    for (size_t k = 0; k < MATRICES; k++) {
        const struct matrix *m = &matrices[k];
        const uint64_t lines = m->by_columns ? m->columns : m->rows;
        qk_clips_add(&clips, &r, k, 1, 3, 8, m->by_columns);
        qk_clips_add(&clips, &r, k, 6, 1, 8, m->by_columns);
        for (uint64_t i = 0; i < ROOM; i++) {
            const float x = (float)random_below(&r, 20001) / 10000.0f - 1;
            ref_store(REF_F32, expected + place(k, OF_GRADIENT), i, x);
            ref_store(REF_F32, expected + place(k, OF_STATE), i, 0.1 * (double)x);
            ref_store(REF_F32, expected + place(k, OF_MASTER), i, x / 3);
            ref_store(m->master ? REF_BF16 : REF_F32, expected + place(k, OF_PARAMETER), i, x / 3);
        }
        assert_true(lines >= 8);
    }
    memcpy(got, expected, BYTES);
    require(ptx_buffer_upload(memory, 0, factor, sizeof factor, gpu.stream));
    step_matrices(expected, false);
    step_matrices(got, true);
    for (size_t n = 0; n < clips.count; n++) {
        const struct ptx_qk_clip *clip = &clips.entry[n];
        const struct matrix *m = &matrices[clip->tensor];
        const float f = factor[qk_clips_slot(&clips, clip)];
        unsigned char *p = expected + place(clip->tensor, m->master ? OF_MASTER : OF_PARAMETER);
        for (uint64_t i = 0; i < m->rows * m->columns; i++) {
            const uint64_t line = m->by_columns ? i % m->columns : i / m->columns;
            if (!qk_clips_has(&clip->range, m->by_columns ? m->columns : m->rows, line))
                continue;
            const uint64_t at = element(m, i);
            const float product = (float)ref_load(REF_F32, p, at) * f;
            ref_store(REF_F32, p, at, (double)product);
            if (m->master)
                ref_store(REF_BF16, expected + place(clip->tensor, OF_PARAMETER), at,
                          (double)product);
        }
    }
    for (size_t k = 0; k < BYTES; k++)
        if (expected[k] != got[k])
            fail_msg("matrix %zu, array %zu, byte %zu is %02x; expected %02x",
                     k / 4 / ROOM / ARRAYS, k / 4 / ROOM % ARRAYS, k % (ROOM * 4), got[k],
                     expected[k]);
    free(expected);
    free(got);
}

// ---- what is refused ----------------------------------------------------------------------------

static void expect_no_plan(const char *message)
{
    const struct ptx_step_params params = params_of();

    expect_no_step(&params, message);
}

TEST(test_refused)
{
    struct random r = gpu_random("factors that are refused");
    const struct step_shape shape = { .tensors = 2, .most = 100 };
    struct ptx_qk_clip *const e = clips.entry;

    do
        step_set_create(&set, &r, &shape);
    while (set.tensors[0].count < 36 || set.tensors[1].count);
    clips = (struct qk_clips) { .memory = memory };
    set.tensors[0].count = 36;
    set.tensors[0].columns = 12;
    qk_clips_add(&clips, &r, 0, 0, 2, 0, false);
    qk_clips_add(&clips, &r, 0, 2, 1, 0, false);
    const struct ptx_qk_clip valid = e[1];

    struct ptx_step_params params = params_of();
    ptx_step_plan *plan = step_create(&params);
    struct ptx_step_tensor moved = set.tensors[0];
    moved.columns = 6;
    assert_int_equal(ptx_step_plan_set_addresses(plan, 0, 1, &moved, gpu.stream),
                     PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "tensor 0: its columns is not what it was");
    moved.columns = 12;
    require(ptx_step_plan_set_addresses(plan, 0, 1, &moved, gpu.stream));
    ptx_step_plan_destroy(&plan);
    params.qk_clips = NULL;
    expect_no_step(&params, "qk_clips is NULL, and qk_clip_count is 2");

#define REFUSED(words, ...) CHANGED(e[1], expect_no_plan(words), __VA_ARGS__)
    REFUSED("qk_clips[1]: its tensor is 2; the plan has 2", e[1].tensor = 2);
    REFUSED("qk_clips[1]: factor_at is 0x0; it must be the address of an f32", e[1].factor_at = 0);
    REFUSED("a multiple of 4", e[1].factor_at = valid.factor_at + 2);
    REFUSED("tensor 0's parameter and qk_clips[1]'s factor_at overlap",
            e[1].factor_at = set.tensors[0].parameter);
    REFUSED("qk_clips[1]'s factor_at: the driver knows no memory", e[1].factor_at = 4096);
    REFUSED("qk_clips[0] and qk_clips[1] overlap: both have row 1 of tensor 0",
            e[1].range.first = 1);
    REFUSED("qk_clips[1] is of columns of tensor 0, and qk_clips[0] of rows: they overlap",
            e[1].range.first = 1, e[1].range.columns = true);
    REFUSED("qk_clips[1]: first 2 and run 2 are not within the 3 rows of tensor 0",
            e[1].range.run = 2);
    REFUSED("qk_clips[1]: first 2 and run 0", e[1].range.run = 0);
    REFUSED("qk_clips[1]: its stride is 2, below first + run, 3", e[1].range.stride = 2);
    set.tensors[0].columns = 7;
    expect_no_plan("qk_clips[0]: columns of tensor 0 is 7, and it has 36 elements: give the "
                   "length of its rows; a shard has whole rows");
    set.tensors[0].columns = 0;
    expect_no_plan("qk_clips[0]: columns of tensor 0 is 0");
    set.tensors[0].columns = 12;
    e[1] = (struct ptx_qk_clip) { .tensor = 1, .factor_at = valid.factor_at }; // ignored: empty
    params = params_of();
    plan = step_create(&params);
    ptx_step_plan_destroy(&plan);
    set.tensors[0].count = UINT64_C(1) << 33;
    set.tensors[0].columns = 1024;
    params = params_of();
    assert_int_equal(ptx_step_describe(&params, &(struct ptx_step_description) { 0 }),
                     PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "qk_clips[0]: tensor 0 has 8589934592 elements; one with "
                                      "factors has at most 2^31 - 1");
    set.tensors[0].count = 36;
}

int main(void)
{
    // On the emulator: so few multiprocessors that few elements are many tiles.
    setenv("PTXGEN_EMU_DEVICE", "sm_90,sms=8", 0);
    gpu_open();
    gpu_buffer(&memory, 64 + STEP_MOST_TENSORS * sizeof(double) * 3);
    return gpu_tests_run();
}
