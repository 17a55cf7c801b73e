// SPDX-License-Identifier: MIT
// Matrices in windows: with less memory a plan leaves the bits of one that steps all at once, in
// every array and report, launched and captured; how much it takes; what is refused.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_calls.h"
#include "random.h"
#include "reference/reference.h"
#include "test.h"

enum { TENSORS = 8, ROOM = 20000, ARRAYS = 3, ARRAY = ROOM * 4, COUNTS = TENSORS * ARRAYS * ARRAY };
enum { REPORTS = COUNTS + 64 * TENSORS, BYTES = REPORTS + 64 * TENSORS };
enum { PARAMETER, GRADIENT, STATE };
enum { PRODUCTS_OF_LARGEST = 140 * 136 * 6 };

// On chip, in tiles, tall, wide, spread, and without elements; one of another rule among them.
static const struct matrix {
    uint64_t rows, columns;
    bool other;
    struct ptx_muon_spread spread;
} matrices[TENSORS] = {
    { 24, 160, false, { 0 } },      { 0, 5, false, { 0 } },   { 130, 132, false, { 0 } },
    { 40, 50, true, { 0 } },        { 90, 70, false, { 0 } }, { 140, 129, false, { 0 } },
    { 16, 64, false, { 64, 192 } }, { 3, 7, false, { 0 } },
};

static size_t place(size_t t, unsigned array)
{
    return (t * ARRAYS + array) * (size_t)ARRAY;
}

static const struct ptx_muon_params muon = { .steps = 1 };
static const struct ptx_step_group groups[] = {
    { .rule = PTX_STEP_RULE_MUON,
      .nesterov = true,
      .muon = &muon,
      .hyper = { .lr = 0.02, .momentum = 0.9, .weight_decay = 0.1, .eps = 1e-7 } },
    { .rule = PTX_STEP_RULE_LION, .hyper = { .lr = 0.01, .beta1 = 0.9, .beta2 = 0.99 } },
};

static struct ptx_step_params params_of(CUdeviceptr at, struct ptx_step_tensor tensors[TENSORS],
                                        uint64_t memory)
{
    for (size_t t = 0; t < TENSORS; t++) {
        const struct matrix *m = &matrices[t];
        tensors[t] = (struct ptx_step_tensor) {
            .parameter = at + place(t, PARAMETER),
            .gradient = at + place(t, GRADIENT),
            .state = { at + place(t, STATE) },
            .step = at + COUNTS + 64 * (t / 2), // two share one
            .count = m->rows * m->columns,
            .columns = m->columns,
            .dtype = PTX_F32,
            .group = m->other,
            .spread = m->spread,
        };
    }
    return (struct ptx_step_params) { .tensors = tensors,
                                      .tensor_count = TENSORS,
                                      .groups = groups,
                                      .group_count = 2,
                                      .max_norm = 5,
                                      .weight_reports_at = at + REPORTS,
                                      .matrix_memory = memory,
                                      .stream = gpu.stream };
}

static struct ptx_step_description describe(uint64_t memory)
{
    struct ptx_step_tensor tensors[TENSORS];
    struct ptx_step_description description;
    const struct ptx_step_params params = params_of(1 << 20, tensors, memory);

    require(ptx_step_describe(&params, &description));
    return description;
}

// Three steps of the image, of which the second is skipped, and the others replayed if `captured`.
static void step(unsigned char *image, uint64_t memory, bool captured)
{
    struct ptx_step_tensor tensors[TENSORS];
    OWNED(ptx_buffer) *arrays = ptx_buffer_create(gpu.device, BYTES);
    const float bad = INFINITY;
    float good;

    assert_non_null(arrays);
    require(ptx_buffer_upload(arrays, 0, image, BYTES, gpu.stream));
    const struct ptx_step_params params = params_of(ptx_buffer_address(arrays), tensors, memory);
    OWNED(ptx_step_plan) *plan = made(ptx_step_plan_create(gpu.device, &params));
    OWNED(ptx_graph) *graph = plan_capture((struct any_plan) { .step = plan });
    memcpy(&good, image + place(5, GRADIENT), sizeof good);
    for (unsigned k = 0; k < 3; k++) {
        require(ptx_buffer_upload(arrays, place(5, GRADIENT), k == 1 ? &bad : &good, sizeof good,
                                  gpu.stream));
        plan_run((struct any_plan) { .step = plan },
                 captured ? REPLAYED
                 : k      ? IN_PHASES
                          : IN_A_RUN,
                 graph);
    }
    require_done(ptx_buffer_download(arrays, 0, image, BYTES, gpu.stream));
}

TEST(test_bits)
{
    struct random r = gpu_random("windows of matrices");
    const uint64_t memories[] = { 0, PRODUCTS_OF_LARGEST * 2, PRODUCTS_OF_LARGEST };
    unsigned char *first = calloc(BYTES, 1), *expected = malloc(BYTES), *got = malloc(BYTES);

    for (size_t t = 0; t < TENSORS; t++)
        for (uint64_t i = 0; i < (uint64_t)ARRAYS * ROOM; i++)
            ref_store(REF_F32, first + place(t, 0), i, (double)random_below(&r, 20001) / 1e4 - 1);
    for (unsigned k = 0; k < 3; k++) {
        memcpy(got, first, BYTES);
        step(got, memories[k], k == 1);
        if (!k)
            memcpy(expected, got, BYTES);
        for (size_t i = 0; i < BYTES; i++)
            if (got[i] != expected[i])
                fail_msg("memory %u: byte %zu is %02x; expected %02x", k, i, got[i], expected[i]);
    }
    assert_memory_not_equal(first + place(7, PARAMETER), got + place(7, PARAMETER), 80);
    free(first);
    free(expected);
    free(got);
}

// Less memory, and more launches; what has room for all is one window.
TEST(test_described)
{
    const struct ptx_step_description all = describe(0), room = describe(1 << 30);
    const struct ptx_step_description two = describe(PRODUCTS_OF_LARGEST * 2);
    const struct ptx_step_description few = describe(PRODUCTS_OF_LARGEST);

    assert_int_equal(room.launches, all.launches);
    assert_int_equal(room.workspace, all.workspace);
    assert_true(few.launches > two.launches || few.workspace < two.workspace);
    assert_true(few.launches > all.launches && few.workspace < all.workspace);
    // Whatever else it has is the same: what is saved is what the products do not have.
    assert_true(all.workspace - few.workspace > 130 * 132 * 6);
}

// Matrices of these sizes, in memory that need not be large enough for them: nothing is launched.
static ptx_step_plan *make_plan(CUdeviceptr at, const uint64_t (*sizes)[2], size_t count,
                                uint64_t memory, struct ptx_step_params *params)
{
    static struct ptx_step_tensor tensors[TENSORS];

    for (size_t t = 0; t < count; t++)
        tensors[t] = (struct ptx_step_tensor) { .parameter = at + place(t, PARAMETER),
                                                .gradient = at + place(t, GRADIENT),
                                                .state = { at + place(t, STATE) },
                                                .step = at + COUNTS + 64 * t,
                                                .count = sizes[t][0] * sizes[t][1],
                                                .columns = sizes[t][1],
                                                .dtype = PTX_F32 };
    *params = (struct ptx_step_params) { .tensors = tensors,
                                         .tensor_count = count,
                                         .groups = groups,
                                         .group_count = 1,
                                         .max_norm = 5,
                                         .any_address = true,
                                         .matrix_memory = memory,
                                         .stream = gpu.stream };
    return made(ptx_step_plan_create(gpu.device, params));
}

static void expect_launches(ptx_step_plan *plan, const struct ptx_step_description *description,
                            int launches)
{
    OWNED(ptx_graph) *graph = plan_capture((struct any_plan) { .step = plan });

    assert_int_equal(ptx_graph_get_info(graph)->kernel_nodes, launches);
    assert_int_equal(description->launches, launches);
}

// A window whose matrices are all stepped by the blocks of their products has no launch for that.
TEST(test_launches)
{
    static const uint64_t sizes[][2] = { { 66, 70 }, { 68, 68 } };
    OWNED(ptx_buffer) *arrays = ptx_buffer_create(gpu.device, BYTES);
    struct ptx_step_description description;
    struct ptx_step_params params;

    assert_non_null(arrays);
    for (uint64_t memory = 0; memory <= 10500; memory += 10500) {
        OWNED(ptx_step_plan) *plan =
            make_plan(ptx_buffer_address(arrays), sizes, 2, memory, &params);
        require(ptx_step_describe(&params, &description));
        expect_launches(plan, &description, memory ? 7 : 5);
    }
    // Tall and wide ones that the products step: norm, records, updates, products.
    static const uint64_t stepped[][2] = { { 140, 129 }, { 131, 150 } };
    OWNED(ptx_step_plan) *plan = make_plan(ptx_buffer_address(arrays), stepped, 2, 0, &params);
    require(ptx_step_describe(&params, &description));
    expect_launches(plan, &description, 4);
}

// Where warpgroups multiply, square matrices have a launch of their own, which only a plan knows.
TEST(test_launches_of_groups)
{
    static const uint64_t sizes[][2] = { { 130, 130 }, { 300, 230 }, { 140, 129 }, { 20, 20 } };
    OWNED(ptx_buffer) *arrays = ptx_buffer_create(gpu.device, BYTES);
    struct ptx_step_description description;
    struct ptx_step_params params;

    assert_non_null(arrays);
    OWNED(ptx_step_plan) *plan = make_plan(ptx_buffer_address(arrays), sizes, 4, 0, &params);
    require(ptx_step_describe(&params, &description));
    assert_int_equal(description.launches, 6);
    require(ptx_step_plan_describe(plan, &description));
    const struct ptx_device_info *info = ptx_device_get_info(gpu.device);
    expect_launches(plan, &description, info->sm == 90 && info->isa >= 80 ? 7 : 6);
}

TEST(test_refused)
{
    struct ptx_step_tensor tensors[TENSORS];
    struct ptx_step_params params = params_of(1 << 20, tensors, 20000);
    struct ptx_step_description unused;

    expect_refused(ptx_step_describe(&params, &unused), "tensor 2: its products need 106240 bytes");
    expect_refused(ptx_step_describe(&params, &unused), "matrix_memory is 20000: give that much");
    tensors[5].whole_rows = 140;
    tensors[5].update = 1 << 20;
    params.matrix_memory = 1 << 30;
    expect_refused(ptx_step_describe(&params, &unused),
                   "tensor 5: it has whole_rows, and matrix_memory is given");
}

GPU_MAIN
