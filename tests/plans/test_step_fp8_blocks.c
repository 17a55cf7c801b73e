// SPDX-License-Identifier: MIT
// Codes in blocks of 128 x 128 and 1 x 128 with scales of their own: every byte as in plain C, for
// every format, both scalings, transposed, with ragged edges and at any alignment; what zeros, tiny
// values, infinity and NaN make; what skipped steps and absent gradients leave.
#include <float.h>
#include <math.h>
#include <string.h>

#include "sanitized.h"
#include "step_fixture.h"
#include "test.h"

enum {
    BOTH_COPIES = 1 << (1 + PTX_FP8_E4M3) | 1 << (1 + PTX_FP8_E5M2),
    BOTH_BLOCKS = 1 << PTX_FP8_BLOCKS_128X128 | 1 << PTX_FP8_BLOCKS_1X128,
    SCALINGS = 4,
};

static struct step_set set;
static ptx_buffer *rows;

static const struct step_shape one = { .tensors = 1,
                                       .most = 900,
                                       .copies = 1 << (1 + PTX_FP8_E4M3),
                                       .blocks = BOTH_BLOCKS,
                                       .transposed = true,
                                       .aligned = true };

// A tensor with codes in blocks, of at least so many elements, transposed too.
static struct ptx_step_tensor *create(struct random *r, const struct step_shape *shape,
                                      uint64_t least)
{
    for (;;) {
        step_set_create(&set, r, shape);
        if (set.has_elements && set.tensors[0].count >= least && set.tensors[0].fp8_blocks &&
            set.transposed[0])
            return &set.tensors[0];
    }
}

// In all forms; the third step is skipped, because a gradient is NaN.
static void check_steps(struct random *r, struct ptx_step_params params, const char *what)
{
    OWNED(ptx_step_plan) *plan = step_create(&params);
    OWNED(ptx_graph) *graph = plan_capture((struct any_plan) { .step = plan });

    for (unsigned step = 0; step < 4; step++) {
        step_set_gradients(&set, r, step == 2 ? NAN : 0);
        assert_true(step_set_expect(&set, &params, 1) == (step == 2));
        plan_run((struct any_plan) { .step = plan }, (enum plan_form)(step % 3), graph);
        step_set_check(&set, what);
    }
}

// ---- tests --------------------------------------------------------------------------------------

TEST(test_formats)
{
    struct random r = gpu_random("codes in blocks");

    for (unsigned trial = 0; trial < 2 * PTX_STEP_FORMAT_COUNT; trial += SANITIZED_EVERY(5)) {
        const struct step_shape shape = { .tensors = 4,
                                          .groups = 2,
                                          .most = trial % 3 ? 12000 : 1500,
                                          .rules =
                                              1 << PTX_STEP_RULE_ADAMW | 1 << PTX_STEP_RULE_SGD,
                                          .formats = 1u << trial % PTX_STEP_FORMAT_COUNT,
                                          .copies = BOTH_COPIES | 1,
                                          .blocks = BOTH_BLOCKS,
                                          .transposed = true,
                                          .amax = trial % 2,
                                          .aligned = trial % 4 != 3,
                                          .absent = trial % 3 == 1,
                                          .wild = trial % 3 == 2 };
        create(&r, &shape, 1);
        check_steps(&r, step_set_params(&set), "a format");
    }
}

// All formats and kinds of copies in one plan, beside reports and averages.
TEST(test_mixed)
{
    struct random r = gpu_random("codes in blocks, mixed");

    for (unsigned trial = 0; trial < 2; trial++) {
        const struct step_shape shape = {
            .tensors = 14,
            .groups = 2,
            .norm_groups = 2,
            .most = 3000,
            .rules = 1 << PTX_STEP_RULE_ADAMW | 1 << PTX_STEP_RULE_LION,
            .formats = ALL_FORMATS & ~(1 << PTX_STEP_FORMAT_STATE_8BIT),
            .averages = trial ? PTX_TYPE_BIT(NONE) | PTX_TYPE_BIT(BF16) : 0,
            .copies = BOTH_COPIES | 1,
            .blocks = BOTH_BLOCKS | 1 << PTX_FP8_BLOCKS_NONE,
            .transposed = true,
            .amax = true,
            .aligned = true,
            .absent = true
        };
        create(&r, &shape, 1);
        struct ptx_step_params params = step_set_params(&set);
        params.weight_reports_at = trial ? ptx_buffer_address(rows) : 0;
        check_steps(&r, params, "all formats");
    }
}

// Whole tiles and ragged ones, in vectors and byte by byte, for every kind of block and scale.
TEST(test_tiles)
{
    struct random r = gpu_random("tiles of codes in blocks");
    struct step_shape shape = one;

    shape.rules = 1 << PTX_STEP_RULE_SGD;
    shape.most = 26000;
    for (unsigned trial = 0; trial < 2 * SCALINGS; trial += SANITIZED_EVERY(3)) {
        const bool by_words = trial % 2, in_vectors = trial / 2 % 2; // these by the step
        shape.blocks = 1u << (PTX_FP8_BLOCKS_128X128 + trial / SCALINGS);
        shape.aligned = trial % 4 != 3;
        shape.columns = in_vectors ? 0 : 131; // and the others, which all are whole vectors
        struct ptx_step_tensor *t = create(&r, &shape, 17000);
        while (t->fp8_columns < 128 || t->count / t->fp8_columns < 130 ||
               (t->count / t->fp8_columns % 16 == 0) != by_words) {
            t = create(&r, &shape, 17000);
        }
        t->fp8_scaling = (ptx_fp8_scaling)(trial % SCALINGS);
        check_steps(&r, step_set_params(&set), "tiles");
    }
}

// Whole tiles, of which some elements are stepped late: where a quick quotient does not hold, or,
// at odd addresses, all.
TEST(test_late)
{
    enum { SECOND_STATE = 4 };
    struct random r = gpu_random("tiles with late elements");
    struct step_shape shape = one;

    shape.most = 26000;
    for (unsigned trial = 0; trial < 8; trial += SANITIZED_EVERY(3)) {
        shape.blocks = 1u << (PTX_FP8_BLOCKS_128X128 + trial % 2);
        shape.copies = trial % 4 == 3 ? 1 << (1 + PTX_FP8_E5M2) : one.copies;
        shape.columns = trial / 4 ? 128 : 132; // tiles that are whole, or mostly less than half
        shape.aligned = trial / 2 % 2 == 0;
        struct ptx_step_tensor *t = create(&r, &shape, 132 * 129);
        while (!shape.aligned && (t->fp8 % 4 || t->gradient % 16 == 0))
            t = create(&r, &shape, 132 * 129);
        float *v = (float *)(void *)(set.host + set.offset[0][SECOND_STATE]);
        for (uint64_t i = 0; i < t->count; i++)
            if (shape.aligned && i / shape.columns % 3 == 0 && random_below(&r, 50) == 0)
                v[i] = INFINITY;
        check_steps(&r, step_set_params(&set), "late elements");
    }
}

// Blocks whose largest is a certain value, in plain C's bits; and without a step, by a cast.
TEST(test_values)
{
    static const float values[] = { 0,     -0.0f,   0x1p-149f, 1e-40f,    1.3e-36f, 1.4e-36f,
                                    1e-5f, 1.0e-4f, 1.01e-4f,  1,         448,      449,
                                    3e38f, FLT_MAX, INFINITY,  -INFINITY, NAN,      0.7f };
    enum { VALUES = sizeof values / sizeof *values, MOST_COLUMNS = VALUES * 128 + 5, ROWS = 2 };
    struct random r = gpu_random("values of codes in blocks");
    struct step_shape shape = one;

    for (unsigned trial = 0; trial < 2 * 2 * SCALINGS; trial += SANITIZED_EVERY(5)) {
        // Of a multiple of 4, the step makes the codes, in tiles of 128 x 128.
        const unsigned columns = MOST_COLUMNS - trial / 3 % 2;
        shape.most = columns * (ROWS + 1) - 1;
        shape.columns = columns;
        shape.blocks = 1u << (PTX_FP8_BLOCKS_128X128 + trial / SCALINGS % 2);
        shape.copies = 1u << (1 + trial / SCALINGS / 2);
        struct ptx_step_tensor *t = create(&r, &shape, columns * ROWS);
        t->fp8_scaling = (ptx_fp8_scaling)(trial % SCALINGS);
        float *w = (float *)(void *)(set.host + set.offset[0][0]);
        for (unsigned i = 0; i < columns * ROWS; i++) {
            const float value = values[i % columns / 128 % VALUES];
            w[i] = i % 37 == 5 ? value : value * 0.25f * (float)(random_below(&r, 9)) / 9;
            if (isnan(w[i]) && i % 37 != 5)
                w[i] = 0.5f;
        }
        step_set_gradients(&set, &r, 0);
        const struct ptx_step_params params = step_set_params(&set);
        OWNED(ptx_step_plan) *plan = step_create(&params);
        step_set_expect_blocks(&set, 0);
        require(ptx_step_plan_cast(plan, gpu.stream));
        step_set_check(&set, "values");
        step_set_expect(&set, &params, 1);
        require(ptx_step_plan_run(plan, gpu.stream));
        step_set_check(&set, "values after a step");
    }
}

// A cast needs no gradient, and makes all copies in blocks, also captured.
TEST(test_cast)
{
    struct random r = gpu_random("casts");
    struct ptx_step_tensor *t = create(&r, &one, 200);

    step_set_gradients(&set, &r, 0);
    t->gradient = 0;
    const struct ptx_step_params params = step_set_params(&set);
    OWNED(ptx_step_plan) *plan = step_create(&params);
    step_set_expect(&set, &params, 1);
    require(ptx_step_plan_run(plan, gpu.stream));
    step_set_check(&set, "without a gradient");
    CUstream stream = ptx_stream_create(gpu.device);
    require(ptx_capture_begin(gpu.device, stream, PTX_CAPTURE_RELAXED));
    require(ptx_step_plan_cast(plan, stream));
    ptx_graph *graph = end_capture(stream);
    step_set_check(&set, "a capture runs nothing");
    step_set_expect_blocks(&set, 0);
    require(ptx_graph_launch(graph, gpu.stream));
    step_set_check(&set, "a cast");
    ptx_graph_destroy(&graph);
    ptx_stream_destroy(gpu.device, &stream);
    ptx_step_plan_destroy(&plan);
    t->fp8_blocks = PTX_FP8_BLOCKS_NONE;
    t->fp8 = t->fp8_scale_inv = t->fp8_transposed = t->fp8_transposed_scale_inv = 0;
    t->fp8_scaling = PTX_FP8_SCALING_TE;
    const struct ptx_step_params without = step_set_params(&set);
    plan = step_create(&without);
    expect_refused(ptx_step_plan_cast(plan, gpu.stream),
                   "ptx_step_plan_cast: no tensor of the plan has codes in blocks");
}

// Gradients in accumulators: a tensor without any is left.
TEST(test_accumulated)
{
    struct random r = gpu_random("codes in blocks, accumulated");
    struct step_shape shape = one;

    shape.sums = true;
    struct ptx_step_tensor *t = create(&r, &shape, 200);
    OWNED(ptx_buffer) *sums = made(ptx_buffer_create(gpu.device, (size_t)t->count * 4 + 256));
    require(ptx_buffer_fill(sums, 0, 0, (size_t)t->count * 4 + 256, gpu.stream));
    t->accumulated = ptx_buffer_address(sums);
    t->accumulator = t->accumulated + 256;
    const struct ptx_step_params params = step_set_params(&set);
    OWNED(ptx_step_plan) *plan = step_create(&params);
    const CUdeviceptr gradient = t->gradient, none = 0;
    for (unsigned step = 0; step < 3; step++) {
        step_set_gradients(&set, &r, 0);
        t->gradient = step == 1 ? 0 : gradient;
        require(ptx_step_plan_set_gradients(plan, 0, 1, step == 1 ? &none : &gradient, gpu.stream));
        step_set_expect(&set, &params, 1);
        require(ptx_step_plan_run(plan, gpu.stream));
        step_set_check(&set, "accumulated");
    }
}

TEST(test_described)
{
    struct random r = gpu_random("codes in blocks, described");
    struct ptx_step_description with, without;
    struct ptx_step_tensor *t = create(&r, &one, 200);
    const struct ptx_step_params params = step_set_params(&set);

    t->count = 300 * 200;
    t->fp8_columns = 200;
    t->fp8_blocks = PTX_FP8_BLOCKS_1X128;
    require(ptx_step_describe(&params, &with));
    const struct ptx_step_tensor blocks = *t;
    t->fp8_blocks = PTX_FP8_BLOCKS_NONE;
    t->fp8 = t->fp8_scale_inv = t->fp8_transposed = t->fp8_transposed_scale_inv = 0;
    t->fp8_scaling = PTX_FP8_SCALING_TE;
    require(ptx_step_describe(&params, &without));
    // The step makes them, without reading the weights again; but not beside an amax.
    assert_int_equal(with.launches, without.launches);
    assert_int_equal(with.variants, without.variants);
    const uint64_t codes = without.bytes + 60000 * 2 + 4 * (300 * 2 + 200 * 3);
    assert_int_equal(with.bytes, codes);
    *t = blocks;
    t->amax = t->step + 64;
    require(ptx_step_describe(&params, &with));
    t->amax = 0;
    assert_int_equal(with.launches, without.launches + 2);
    assert_int_equal(with.bytes, codes + 60000 * 4);
}

#define REFUSED(words, ...) CHANGED(*t, expect_no_step(&params, words), __VA_ARGS__)

TEST(test_refused)
{
    struct random r = gpu_random("codes in blocks that are refused");
    struct ptx_step_tensor *const t = create(&r, &one, 300);
    const struct ptx_step_tensor valid = *t;
    const struct ptx_step_params params = step_set_params(&set);

    step_set_gradients(&set, &r, 0);
    REFUSED("tensor 0: fp8_blocks is 3; there are 0 to 2", t->fp8_blocks = (ptx_fp8_blocks)3);
    REFUSED("tensor 0: fp8_scaling is 4; there are 0 to 3", t->fp8_scaling = (ptx_fp8_scaling)4);
    REFUSED("tensor 0: fp8_scale is given, and so is fp8_blocks", t->fp8_scale = t->parameter);
    REFUSED("tensor 0: fp8_blocks is given, and fp8_scale_inv is 0", t->fp8_scale_inv = 0);
    REFUSED("tensor 0: fp8_blocks is given, and fp8_transposed_scale_inv is 0",
            t->fp8_transposed_scale_inv = 0);
    REFUSED("fp8_transposed_scale_inv is given, and fp8_transposed is not", t->fp8_transposed = 0);
    REFUSED("a tensor of one dimension has no fp8_blocks", t->fp8_columns = 0);
    t->fp8 = t->fp8_transposed = t->fp8_transposed_scale_inv = t->fp8_scale_inv = 0;
    expect_no_step(&params, "tensor 0: fp8_blocks is given, and fp8 is not");
    t->fp8_blocks = PTX_FP8_BLOCKS_NONE;
    t->fp8_scaling = PTX_FP8_SCALING_DEEPGEMM;
    expect_no_step(&params, "tensor 0: fp8_scaling is given, and fp8_blocks is not");
    *t = valid;
    REFUSED("tensor 0's fp8_scale_inv", t->fp8_scale_inv += 2);
    REFUSED("tensor 0's parameter and tensor 0's fp8_scale_inv overlap",
            t->fp8_scale_inv = t->parameter);
    REFUSED("overlap", t->fp8_transposed_scale_inv = t->fp8_scale_inv);
    REFUSED("tensor 0's fp8_scale_inv: ",
            t->fp8_scale_inv = ptx_buffer_address(set.memory) + set.bytes / 4 * 4);
    OWNED(ptx_step_plan) *plan = step_create(&params);
    static const char *const messages[] = { "its fp8_scaling is not what it was",
                                            "its fp8_blocks is not what it was",
                                            "its fp8_transposed_scale_inv is not what it was" };
    for (unsigned k = 0; k < 3; k++) {
        struct ptx_step_tensor changed = valid;
        if (k == 0)
            changed.fp8_scaling = (ptx_fp8_scaling)((valid.fp8_scaling + 1) % SCALINGS);
        else if (k == 1)
            changed.fp8_blocks = (ptx_fp8_blocks)(3 - (int)valid.fp8_blocks);
        else
            changed.fp8_transposed_scale_inv += 4;
        expect_refused(ptx_step_plan_set_addresses(plan, 0, 1, &changed, gpu.stream), messages[k]);
    }
}

int main(void)
{
    gpu_open();
    gpu_buffer(&rows, STEP_MOST_TENSORS * sizeof(struct ptx_weight_report));
    return gpu_tests_run();
}
