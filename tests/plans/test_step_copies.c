// SPDX-License-Identifier: MIT
// Copies of weights in 8 bits and their largest magnitude: every byte as in plain C, for every rule
// and format, in every form of a run, at any alignment, with NaN, infinity and scales that are
// neither; what skipped steps and absent gradients leave; delayed scaling around a step.
#define _POSIX_C_SOURCE 200809L // setenv()
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sanitized.h"
#include "step_fixture.h"
#include "test.h"

#include <ptxgen/operations.h>

static struct step_set set;
static ptx_buffer *rows;

static const struct step_shape few = {
    .tensors = 3, .most = 300, .copies = 1 << (1 + PTX_FP8_E4M3), .amax = true
};

// Scales that no plan is made with, and that a step finds nevertheless.
static void set_scales(struct random *r)
{
    const float scales[] = { 0, NAN, INFINITY, -2, 0x1p-149f, 0x1p127f, 1 };

    for (size_t t = 0; t < set.count; t++)
        if (set.copy[t])
            memcpy(set.host + (set.tensors[t].fp8_scale - ptx_buffer_address(set.memory)),
                   &scales[random_below(r, sizeof scales / sizeof *scales)], sizeof(float));
}

// Steps in all forms, of which the third is skipped, because a gradient is NaN.
static void check_steps(struct random *r, struct ptx_step_params params, bool any_scale,
                        const char *what)
{
    OWNED(ptx_step_plan) *plan = step_create(&params);
    OWNED(ptx_graph) *graph = plan_capture((struct any_plan) { .step = plan });

    for (unsigned step = 0; step < 5; step++) {
        if (any_scale && step)
            set_scales(r);
        step_set_gradients(&set, r, step == 2 && set.has_elements ? NAN : 0);
        step_set_expect(&set, &params, 1);
        plan_run((struct any_plan) { .step = plan }, (enum plan_form)(step % 3), graph);
        step_set_check(&set, what);
    }
}

static bool has_gradient(void)
{
    for (size_t t = 0; t < set.count; t++)
        if (set.tensors[t].count && set.tensors[t].gradient)
            return true;
    return false;
}

// Whether all tensors have elements, a copy and an amax.
static bool all_are_copied(void)
{
    for (size_t t = 0; t < set.count; t++)
        if (!set.tensors[t].count || !set.copy[t] || !set.amax[t])
            return false;
    return true;
}

static void create(struct random *r, const struct step_shape *shape)
{
    do
        step_set_create(&set, r, shape);
    while (!has_gradient());
}

// ---- tests --------------------------------------------------------------------------------------

TEST(test_formats)
{
    struct random r = gpu_random("copies of weights");

    for (unsigned trial = 0; trial < 3 * PTX_STEP_FORMAT_COUNT; trial += SANITIZED_EVERY(5)) {
        const struct step_shape shape = { FORMAT_IN_TURN(trial),         .tensors = 7,
                                          .most = trial % 3 ? 6000 : 40, .copies = ALL_COPIES,
                                          .transposed = trial % 2,       .amax = trial % 4 != 3 };
        create(&r, &shape);
        set.gradients = (ptx_step_gradients)(trial % 3);
        check_steps(&r, step_set_params(&set), trial % 2, "a format");
    }
}

// All formats in one plan, also beside reports, averages and accumulators' kind of gradients.
TEST(test_mixed)
{
    struct random r = gpu_random("copies of weights, mixed");

    for (unsigned trial = 0; trial < 4; trial += SANITIZED_EVERY(3)) {
        const struct step_shape shape = {
            .tensors = 12,
            .groups = 4,
            .most = 5000,
            .rules = 1 << PTX_STEP_RULE_ADAMW | 1 << PTX_STEP_RULE_LION,
            .formats = ALL_FORMATS & ~(1 << PTX_STEP_FORMAT_STATE_8BIT),
            .averages = trial / 2 ? PTX_TYPE_BIT(NONE) | PTX_TYPE_BIT(BF16) : 0,
            .copies = ALL_COPIES,
            .transposed = true,
            .amax = true,
            .aligned = trial % 2,
            .absent = true
        };
        create(&r, &shape);
        struct ptx_step_params params = step_set_params(&set);
        params.weight_reports_at = trial % 2 ? ptx_buffer_address(rows) : 0;
        check_steps(&r, params, false, "all formats");
    }
}

// So many tiles of a tensor that they are not all under way at once.
TEST(test_many_tiles)
{
    struct random r = gpu_random("copies of many tiles");

    const uint64_t least = 1500 * (uint64_t)ptx_device_get_info(gpu.device)->multiprocessors;

    for (unsigned trial = 0; trial < 3; trial += SANITIZED_EVERY(2)) {
        const ptx_step_format formats[] = { PTX_STEP_FORMAT_FULL, PTX_STEP_FORMAT_STOCHASTIC,
                                            PTX_STEP_FORMAT_STATE_8BIT };
        const struct step_shape shape = { .tensors = 2,
                                          .most = 2 * least,
                                          .formats = 1u << formats[trial],
                                          .copies = ALL_COPIES,
                                          .transposed = true,
                                          .amax = true,
                                          .aligned = trial != 1,
                                          .wild = trial == 1 };
        do
            create(&r, &shape);
        while (!(set.tensors[0].count > least && set.amax[0]));
        check_steps(&r, step_set_params(&set), false, "many tiles");
    }
}

// Transposes in words on both sides, on one side, and code by code, each in more tiles than one.
TEST(test_transposes)
{
    struct random r = gpu_random("transposes of copies");
    const struct step_shape shape = { .tensors = 1,
                                      .most = 30000,
                                      .rules = 1 << PTX_STEP_RULE_SGD,
                                      .copies = 1 << (1 + PTX_FP8_E4M3),
                                      .transposed = true,
                                      .aligned = true };

    for (unsigned trial = 0; trial < 4; trial += SANITIZED_EVERY(3)) {
        const bool reads_words = trial % 2, writes_words = trial / 2;
        for (;;) {
            create(&r, &shape);
            const uint64_t columns = set.tensors[0].fp8_columns;
            const uint64_t height = columns ? set.tensors[0].count / columns : 0;
            if (columns > 64 && height > 64 && (columns % 4 == 0) == reads_words &&
                (height % 4 == 0) == writes_words)
                break;
        }
        check_steps(&r, step_set_params(&set), false, "a transpose");
    }
}

// Matrices of 64 tiles and more, of which the step makes the transposed codes: at any address, with
// late elements, beside others and without a gradient.
TEST(test_turned)
{
    enum { TILES = 64, TILE = 128 * 128, TRIALS = 3 };
    static const uint64_t columns[TRIALS] = { 128, 480, 384 };
    struct random r = gpu_random("turned copies");

    for (unsigned trial = 0; trial < TRIALS; trial += SANITIZED_EVERY(3)) {
        const struct step_shape shape = { .tensors = 6,
                                          .groups = 2,
                                          .most = 40 * TILE,
                                          .rules =
                                              1 << PTX_STEP_RULE_ADAMW | 1 << PTX_STEP_RULE_SGD,
                                          .copies = trial ? ALL_COPIES : 1 << (1 + PTX_FP8_E4M3),
                                          .transposed = true,
                                          .columns = columns[trial],
                                          .amax = trial != 2,
                                          .aligned = trial != 1,
                                          .absent = trial == 1,
                                          .wild = trial == 2 };
        uint64_t elements;
        do {
            elements = 0;
            create(&r, &shape);
            for (size_t t = 0; t < set.count; t++)
                elements += set.transposed[t] ? set.tensors[t].count : 0;
        } while (elements < (TILES + 16) * TILE);
        check_steps(&r, step_set_params(&set), !trial, "turned");
    }
}

// A step between updates of delayed scales: each step's amax goes into the history, and its codes
// have the scale that the update before it left. The history's rows are those of plain C.
TEST(test_delayed)
{
    enum { TENSORS = 3, ROWS = 4, COUNT = 500 };
    struct random r = gpu_random("delayed scales");
    struct step_shape shape = few;
    float host[ROWS + 2][TENSORS] = { { 0 } }, got[ROWS + 2][TENSORS];

    shape.most = COUNT;
    do
        create(&r, &shape);
    while (!all_are_copied());
    OWNED(ptx_buffer) *memory = made(ptx_buffer_create(gpu.device, sizeof host));
    const CUdeviceptr history = ptx_buffer_address(memory);
    for (size_t t = 0; t < TENSORS; t++) {
        host[ROWS][t] = 1;
        set.tensors[t].amax = history + t * sizeof(float);
        set.tensors[t].fp8_scale = history + (ROWS * TENSORS + t) * sizeof(float);
    }
    require(ptx_buffer_upload(memory, 0, host, sizeof host, gpu.stream));
    const struct ptx_step_params params = step_set_params(&set);
    OWNED(ptx_step_plan) *plan = step_create(&params);
    const struct ptx_delayed_scale_update_params update = {
        .tensors = TENSORS,
        .rows = ROWS,
        .history = history,
        .scale = history + sizeof(float) * ROWS * TENSORS,
        .scale_inv = history + sizeof(float) * (ROWS + 1) * TENSORS
    };
    OWNED(ptx_operations) *operations = made(ptx_operations_create(gpu.device, NULL));
    require(ptx_delayed_scale_update_prepare(operations, &update));
    for (unsigned step = 0; step < 6; step++) {
        step_set_gradients(&set, &r, step == 2 ? INFINITY : 0);
        // The fixture expects them in its own memory.
        for (size_t t = 0; t < TENSORS; t++)
            memcpy(set.host + set.offset[t][9], &host[ROWS][t], sizeof(float));
        require(ptx_buffer_upload(set.memory, 0, set.host, set.bytes, gpu.stream));
        const bool skipped = step_set_expect(&set, &params, 1);
        for (size_t t = 0; t < TENSORS && !skipped; t++) {
            memcpy(&host[0][t], set.host + set.offset[t][11], sizeof(float));
            memset(set.host + set.offset[t][11], 0xa5, sizeof(float));
        }
        require(ptx_step_plan_run(plan, gpu.stream));
        require(ptx_delayed_scale_update(operations, &update, gpu.stream));
        step_set_check(&set, "a step with delayed scales");
        ref_delayed_scale_update(&(struct ref_delayed_scale) { .format = REF_E4M3 }, TENSORS, ROWS,
                                 host[0], host[ROWS], host[ROWS + 1]);
        require_done(ptx_buffer_download(memory, 0, got, sizeof got, gpu.stream));
        assert_memory_equal(got, host, sizeof got);
    }
}

// A copy takes no launch, an amax of several tiles one, neither a norm; a copy is a byte an
// element.
TEST(test_described)
{
    struct random r = gpu_random("copies of weights, described");
    struct ptx_step_description with, without, folds;

    create(&r, &few);
    struct ptx_step_params params = step_set_params(&set);
    params.max_norm = INFINITY;
    require(ptx_step_describe(&params, &with));
    assert_non_null(strstr(with.determinism, "on every GPU and on the emulator, launched"));
    const uint64_t count = set.tensors[0].count;
    const CUdeviceptr amax = set.tensors[0].amax;
    for (int k = 0; k < 2; k++) {
        set.tensors[0].count = with.tile + (uint64_t)k;
        set.tensors[0].amax = 4;
        require(ptx_step_describe(&params, &folds));
        assert_int_equal(folds.launches, with.launches + k);
        set.tensors[0].amax = 0;
        require(ptx_step_describe(&params, &folds));
        assert_int_equal(folds.launches, with.launches);
    }
    set.tensors[0].count = count;
    set.tensors[0].amax = amax;
    for (size_t t = 0; t < set.count; t++)
        set.tensors[t].fp8 = set.tensors[t].fp8_scale = set.tensors[t].fp8_scale_inv =
            set.tensors[t].fp8_columns = set.tensors[t].amax = 0;
    require(ptx_step_describe(&params, &without));
    assert_int_equal(with.launches, without.launches);
    assert_int_equal(with.bytes, without.bytes + without.elements);
    // A transpose is a launch, which reads the codes and writes them.
    set.tensors[0].count = 60;
    set.tensors[1].count = set.tensors[2].count = 0;
    require(ptx_step_describe(&params, &without));
    set.tensors[0].fp8 = set.tensors[0].fp8_scale = set.tensors[0].fp8_transposed = 4;
    set.tensors[0].fp8_columns = 60;
    require(ptx_step_describe(&params, &with));
    assert_int_equal(with.launches, without.launches + 1);
    assert_int_equal(with.bytes, without.bytes + 3 * 60);
    // The step makes those of many whole tiles.
    for (uint64_t tiles = 63; tiles <= 64; tiles++) {
        set.tensors[0].fp8_columns = 128;
        set.tensors[0].count = tiles * 128 * 128;
        require(ptx_step_describe(&params, &with));
        assert_int_equal(with.launches, without.launches + (tiles < 64));
        assert_int_equal(with.bytes,
                         (without.bytes / 60 + 2 + (tiles < 64)) * set.tensors[0].count);
    }
}

#define REFUSED(words, ...) CHANGED(*t, expect_no_step(&params, words), __VA_ARGS__)

TEST(test_refused)
{
    struct random r = gpu_random("copies of weights that are refused");
    const float scales[] = { 0, -1, NAN, INFINITY };

    do
        create(&r, &few);
    while (!(set.tensors[0].count > 100 && set.tensors[1].count > 100 && set.amax[0]));
    const struct ptx_step_params params = step_set_params(&set);
    const struct ptx_step_tensor valid = set.tensors[0];
    struct ptx_step_tensor *const t = &set.tensors[0];
    step_set_gradients(&set, &r, 0);

    REFUSED("tensor 0: fp8 is given, and fp8_scale is 0: give the address", t->fp8_scale = 0);
    t->fp8 = 0;
    expect_no_step(&params, "tensor 0: fp8_scale is given, and fp8 is not");
    t->fp8_scale = 0;
    expect_no_step(&params, "tensor 0: fp8_scale_inv is given, and fp8 is not");
    *t = valid;
    t->fp8_transposed = t->fp8;
    expect_no_step(&params, "tensor 0: fp8_columns is 0, and the tensor has ");
    t->fp8_columns = t->count - 1;
    expect_no_step(&params, "elements, which is no multiple: give the length of the matrix's rows");
    t->fp8_columns = t->count;
    expect_no_step(&params, "tensor 0's fp8 and tensor 0's fp8_transposed overlap");
    t->fp8 = t->fp8_scale = t->fp8_scale_inv = 0;
    expect_no_step(&params, "tensor 0: fp8_transposed is given, and fp8 is not");
    *t = valid;
    REFUSED("tensor 0: fp8_format is 2; there are 0 to 1", t->fp8_format = (ptx_fp8)2);
    REFUSED("tensor 0's amax", t->amax += 2);
    REFUSED("tensor 0's parameter and tensor 0's amax overlap", t->amax = t->parameter);
    REFUSED("tensor 0's fp8 and tensor 1's parameter overlap", t->fp8 = set.tensors[1].parameter);
    REFUSED("tensor 0's fp8: ", t->fp8 = ptx_buffer_address(set.memory) + set.bytes - 50);
    REFUSED("overlap", t->fp8_scale = t->fp8_scale_inv);
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++) {
        require(
            ptx_buffer_upload(set.memory, set.offset[0][9], &scales[k], sizeof(float), gpu.stream));
        expect_no_step(&params, "tensor 0: the scale at its fp8_scale is ");
    }
}

// A scale that became 0 or NaN after creation, by what the header says: codes of 0, with the signs
// of the weights, and of NaN.
TEST(test_written_scales)
{
    struct random r = gpu_random("scales of 0 and NaN");
    const float scales[] = { 0, NAN, 4 };

    do
        create(&r, &few);
    while (!all_are_copied() || !set.tensors[0].gradient);
    struct ptx_step_params params = step_set_params(&set);
    OWNED(ptx_step_plan) *plan = step_create(&params);
    OWNED(ptx_graph) *graph = plan_capture((struct any_plan) { .step = plan });
    const uint64_t count = set.tensors[0].count;
    const size_t codes_at = set.offset[0][8], scale_at = set.offset[0][9];
    for (unsigned k = 0; k < 3 * sizeof scales / sizeof *scales; k++) {
        unsigned char codes[300];
        float inverse, weights[300];
        const float scale = scales[k / 3];
        memcpy(set.host + scale_at, &scale, sizeof scale);
        step_set_gradients(&set, &r, 0);
        step_set_expect(&set, &params, 1);
        plan_run((struct any_plan) { .step = plan }, (enum plan_form)(k % 3), graph);
        require(ptx_buffer_download(set.memory, codes_at, codes, count, gpu.stream));
        require(ptx_buffer_download(set.memory, set.offset[0][0], weights, count * sizeof *weights,
                                    gpu.stream));
        require(ptx_buffer_download(set.memory, set.offset[0][10], &inverse, sizeof inverse,
                                    gpu.stream));
        step_set_check(&set, "a scale of 0, NaN or 4"); // waits
        for (uint64_t i = 0; i < count && k / 3 < 2; i++)
            assert_int_equal(codes[i], k / 3 ? 0x7f : signbit(weights[i]) ? 0x80 : 0);
        assert_true(k / 3 == 1 ? isnan(inverse) : inverse == 1 / scale);
    }
}

// Addresses of copies stay as they are at creation.
TEST(test_fixed)
{
    struct random r = gpu_random("addresses of copies");

    create(&r, &few);
    const struct ptx_step_params params = step_set_params(&set);
    OWNED(ptx_step_plan) *plan = step_create(&params);
    struct ptx_step_tensor tensor = set.tensors[0];
    tensor.amax += 4;
    assert_int_equal(ptx_step_plan_set_addresses(plan, 0, 1, &tensor, gpu.stream),
                     PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "tensor 0: its amax is not what it was");
    tensor = set.tensors[0];
    tensor.fp8_format = PTX_FP8_E5M2;
    assert_int_equal(ptx_step_plan_set_addresses(plan, 0, 1, &tensor, gpu.stream),
                     PTX_ERROR_INVALID);
    expect_failure(PTX_ERROR_INVALID, "tensor 0: its fp8_format is not what it was");
}

int main(void)
{
    // On the emulator: so few multiprocessors that few elements are many tiles.
    setenv("PTXGEN_EMU_DEVICE", "sm_90,sms=8", 0);
    gpu_open();
    gpu_buffer(&rows, STEP_MOST_TENSORS * sizeof(struct ptx_weight_report));
    return gpu_tests_run();
}
