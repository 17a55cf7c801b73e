// SPDX-License-Identifier: MIT
// Step plans with matrices, compared with plain C that is written from the formulas of muon.h:
// every format, shapes that tiles cut, phases and graphs, beside AdamW; and what is refused.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "matrix_fixture.h"
#include "plans/muon_schedule.h"
#include "reference/fp8.h"
#include "rules/rules.h"
#include "sanitized.h"
#include "test.h"

static struct matrix_set set;

static const struct matrix_shape full[] = {
    { 1, 1, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    { 1, 70, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    { 70, 1, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_BF16, false },
    { 5, 3, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    { 64, 64, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    { 65, 131, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F16, false },
    { 131, 65, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    { 9, 9, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, true },
    { 0, 7, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    { 72, 36, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    { 40, 260, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    { 6147, 1, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },  // blocks have several tiles
    { 1, 12293, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false }, // likewise
};
static const struct matrix_shape formats[] = {
    { 66, 70, PTX_STEP_FORMAT_MASTER, PTX_BF16, PTX_BF16, false },
    { 70, 20, PTX_STEP_FORMAT_MASTER, PTX_F16, PTX_F16, false },
    { 66, 33, PTX_STEP_FORMAT_REMAINDER, PTX_BF16, PTX_F32, false },
    { 33, 66, PTX_STEP_FORMAT_STOCHASTIC, PTX_BF16, PTX_BF16, false },
    { 67, 15, PTX_STEP_FORMAT_STOCHASTIC, PTX_BF16, PTX_F32, false },
    { 30, 31, PTX_STEP_FORMAT_STATE_BF16, PTX_F32, PTX_F32, false },
    { 8, 4, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
};

TEST(test_shapes)
{
    struct random r = gpu_random("shapes of matrices");

    for (unsigned k = 0; k < 3; k += SANITIZED_EVERY(2)) {
        matrix_set_create(&set, &r, full, sizeof full / sizeof *full);
        set.groups[0].nesterov = k != 1;
        set.groups[0].maximize = k == 1;
        set.muon.adjust = k ? PTX_MUON_ADJUST_MATCH_RMS_ADAMW : PTX_MUON_ADJUST_ORIGINAL;
        set.muon.in_by_out = k == 2;
        set.params.gradients = (ptx_step_gradients)k;
        set.params.max_norm = k == 2 ? INFINITY : 3;
        matrix_set_steps(&set, &r);
    }
}

TEST(test_formats)
{
    struct random r = gpu_random("formats of matrices");

    for (unsigned k = 0; k < 3; k += SANITIZED_EVERY(2)) {
        matrix_set_create(&set, &r, formats, sizeof formats / sizeof *formats);
        set.groups[0].nesterov = k == 1;
        set.params.gradients = (ptx_step_gradients)k;
        matrix_set_steps(&set, &r);
    }
}

// With products: each matrix gets the bits that it gets alone.
TEST(test_products)
{
    static const float triples[] = { 3.4445f, -4.775f, 2.0315f, 2.0f, -1.5f, 0.5f };
    static const struct matrix_shape shapes[] = {
        { 20, 30, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 70, 40, PTX_STEP_FORMAT_MASTER, PTX_BF16, PTX_BF16, false },
        { 24, 24, PTX_STEP_FORMAT_STOCHASTIC, PTX_BF16, PTX_BF16, false },
        { 1, 33, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 130, 136, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    };
    struct random r = gpu_random("products of matrices");

    for (unsigned k = 0; k < 2; k++) {
        matrix_set_create(&set, &r, shapes, sizeof shapes / sizeof *shapes - k);
        set.muon.steps = k ? 5 : 2;
        set.muon.triples = k ? NULL : triples;
        matrix_set_steps(&set, &r);
    }
}

// A step that is skipped, because an element of a gradient is not finite.
static void check_skipped(struct random *r, ptx_step_plan *plan, unsigned tensor, float value)
{
    matrix_set_gradients(&set, r);
    matrix_put(&set, tensor, MATRIX_GRADIENT, 17, value);
    matrix_set_upload(&set);
    require(ptx_step_plan_run(plan, gpu.stream));
    if (set.params.gradients == PTX_STEP_GRADIENTS_ZERO)
        matrix_set_clear(&set);
    matrix_set_check(&set, "a skipped step");
}

// Matrices that the block of their products steps, in all formats and in windows, one without a
// gradient among them; beside some of its chips that it does not step, square and tall ones, and a
// launch of smaller chips before it.
TEST(test_chips)
{
    enum { PLANS = 3, SHAPES = 6 };
    static const struct matrix_shape shapes[PLANS][SHAPES] = {
        { { 65, 131, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F16, false },
          { 68, 68, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
          { 80, 66, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
          { 70, 140, PTX_STEP_FORMAT_STOCHASTIC, PTX_BF16, PTX_BF16, false },
          { 90, 200, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, true },
          { 20, 72, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false } },
        { { 128, 136, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false } },
        { { 66, 70, PTX_STEP_FORMAT_MASTER, PTX_BF16, PTX_BF16, false },
          { 72, 90, PTX_STEP_FORMAT_REMAINDER, PTX_BF16, PTX_F32, false },
          { 140, 66, PTX_STEP_FORMAT_STATE_BF16, PTX_F32, PTX_F32, false },
          { 66, 80, PTX_STEP_FORMAT_STATE_BF16, PTX_F32, PTX_F32, false },
          { 96, 130, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, true },
          { 100, 110, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_BF16, false } },
    };
    struct random r = gpu_random("matrices stepped by their products");

    for (unsigned k = 0; k < PLANS; k++) {
        matrix_set_create(&set, &r, shapes[k], k == 1 ? 1 : SHAPES);
        set.groups[0].nesterov = k != 1;
        set.params.gradients = (ptx_step_gradients)k;
        set.params.matrix_memory = k == 2 ? 60000 : 0;
        set.muon.steps = k ? 1 : 4;
        set.muon.triples = NULL;
        matrix_set_two_steps(&set, &r, k);
        OWNED(ptx_step_plan) *plan = matrix_plan(&set);
        struct ptx_step_description description;
        require(ptx_step_plan_describe(plan, &description));
        if (k == 1) // norm, records, updates, AdamW's tensor, and products with the step
            assert_int_equal(description.launches, 5);
        check_skipped(&r, plan, 0, INFINITY);
    }
}

// Matrices in tiles of both sides, which their last products step: in all formats, tall, cut by
// tiles, one without a gradient, in windows; and a small square one, which they do not.
TEST(test_tiles)
{
    enum { PLANS = 3, SHAPES = 4 };
    static const struct matrix_shape shapes[PLANS][SHAPES] = {
        { { 130, 211, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F16, false },
          { 150, 131, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
          { 132, 140, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, true },
          { 129, 129, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false } },
        { { 136, 132, PTX_STEP_FORMAT_MASTER, PTX_BF16, PTX_BF16, false },
          { 211, 130, PTX_STEP_FORMAT_STOCHASTIC, PTX_BF16, PTX_BF16, false },
          { 140, 133, PTX_STEP_FORMAT_REMAINDER, PTX_BF16, PTX_F32, false },
          { 148, 140, PTX_STEP_FORMAT_STATE_BF16, PTX_F32, PTX_F32, true } },
        { { 130, 136, PTX_STEP_FORMAT_MASTER, PTX_BF16, PTX_BF16, false },
          { 131, 150, PTX_STEP_FORMAT_STOCHASTIC, PTX_BF16, PTX_BF16, false },
          { 133, 134, PTX_STEP_FORMAT_REMAINDER, PTX_BF16, PTX_F32, false },
          { 60, 68, PTX_STEP_FORMAT_STATE_BF16, PTX_F32, PTX_F32, false } },
    };
    const uint32_t side = ptxp_matrix_side;
    struct random r = gpu_random("matrices stepped by tiles");

    for (unsigned k = 0; k < PLANS; k++) {
        ptxp_matrix_side = k ? MUON_TILE : MUON_SMALL, ptxp_matrix_band = 2;
        matrix_set_create(&set, &r, shapes[k], SHAPES);
        set.groups[0].nesterov = !k;
        set.params.gradients = (ptx_step_gradients)(2 * (k / 2));
        set.params.matrix_memory = k ? 230000 : 0;
        set.muon.triples = NULL;
        set.muon.steps = k ? 1 : 2;
        matrix_set_two_steps(&set, &r, k);
        OWNED(ptx_step_plan) *plan = matrix_plan(&set);
        check_skipped(&r, plan, 0, INFINITY);
    }
    ptxp_matrix_side = side;
    ptxp_matrix_band = 0;
}

// Long matrices, whose momentum and update are made there, too, and whose Q is kept at a restart;
// a short one and one without a gradient beside them; and in windows.
TEST(test_long)
{
    enum { PLANS = 3, SHAPES = 4 };
    static const struct matrix_shape shapes[PLANS][SHAPES] = {
        { { 67, 2500, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
          { 66, 130, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
          { 70, 2400, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, true },
          { 20, 72, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false } },
        { { 128, 1280, PTX_STEP_FORMAT_STATE_BF16, PTX_F32, PTX_F16, false } },
        { { 65, 2561, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
          { 72, 2300, PTX_STEP_FORMAT_MASTER, PTX_BF16, PTX_BF16, false },
          { 66, 2501, PTX_STEP_FORMAT_STOCHASTIC, PTX_BF16, PTX_BF16, false },
          { 20, 72, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false } },
    };
    const size_t many = ptxp_matrix_many;
    struct random r = gpu_random("long matrices");
    struct ptx_step_description description;

    ptxp_matrix_many = 1;
    for (unsigned k = 0; k < PLANS; k += SANITIZED_EVERY(2)) {
        matrix_set_create(&set, &r, shapes[k], k == 1 ? 1 : SHAPES);
        set.groups[0].nesterov = k != 1;
        set.groups[0].maximize = k == 2;
        set.params.matrix_memory = k == 2 ? 400000 : 0;
        set.params.gradients = (ptx_step_gradients)k;
        set.muon.triples = NULL;
        set.muon.steps = 3;
        require(ptx_step_describe(&set.params, &description));
        assert_non_null(
            strstr(description.determinism, "on devices of one generation and on the "));
        const uint64_t workspace = description.workspace;
        set.muon.steps = k ? 1 : 4;
        require(ptx_step_describe(&set.params, &description));
        if (k == 0) // two of them are long
            assert_int_equal(description.workspace - workspace, 2 * 128 * 128 * 2);
        if (k == 1) // norm, records, AdamW's tensor, and products with momentum and step
            assert_int_equal(description.launches, 4);
        matrix_set_two_steps(&set, &r, k);
        OWNED(ptx_step_plan) *plan = matrix_plan(&set);
        check_skipped(&r, plan, 0, INFINITY);
    }
    ptxp_matrix_many = many;
}

// What the norm has of a matrix does not change the length of its update.
TEST(test_weights_of_the_norm)
{
    static const struct matrix_shape shapes[] = {
        { 67, 2500, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false }, // long
        { 70, 20, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 9, 40, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_BF16, false },
    };
    const size_t many = ptxp_matrix_many;
    struct random r = gpu_random("weights of matrices");

    for (ptxp_matrix_many = 1; ptxp_matrix_many <= many; ptxp_matrix_many *= many) {
        matrix_set_create(&set, &r, shapes, sizeof shapes / sizeof *shapes);
        set.tensors[0].uncounted = set.tensors[2].uncounted = true;
        set.tensors[1].weight = 0.25;
        set.params.max_norm = 3;
        set.muon.steps = 1;
        matrix_set_steps(&set, &r);
    }
    ptxp_matrix_many = many;
}

// A run, the four phases, and a graph.
static void steps_with_reduce(struct random *r)
{
    OWNED(ptx_step_plan) *plan = matrix_plan(&set);
    OWNED(ptx_graph) *graph = plan_capture((struct any_plan) { .step = plan });

    for (uint32_t step = 1; step <= 3; step++) {
        matrix_set_gradients(&set, r);
        if (step == 1)
            require(ptx_step_plan_run(plan, gpu.stream));
        if (step == 2) {
            require(ptx_step_plan_norm_sq(plan, gpu.stream));
            require(ptx_step_plan_finish(plan, gpu.stream));
            require(ptx_step_plan_reduce(plan, gpu.stream));
            require(ptx_step_plan_step(plan, gpu.stream));
        }
        if (step == 3)
            require(ptx_graph_launch(graph, gpu.stream));
        matrix_set_expect(&set, plan, step);
        matrix_set_check(&set, "beside a rule with sums");
    }
}

// LAMB's tensor beside a set's, which has sums of its own and so a launch, or phase, before the
// step; and alone. Each has the bits that it has without the other.
TEST(test_beside_a_rule_with_sums)
{
    enum { ELEMENTS = 300, ARRAY = 2048, ARRAYS = 5, SHAPES = 4 };
    static const struct matrix_shape shapes[SHAPES] = {
        { 67, 2500, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false }, // long
        { 66, 130, PTX_STEP_FORMAT_MASTER, PTX_BF16, PTX_BF16, false },
        { 70, 20, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 130, 130, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    };
    const size_t many = ptxp_matrix_many;
    struct random r = gpu_random("a rule with sums");
    OWNED(ptx_rule) *lamb = ptx_rule_create(&lamb_params);
    static float first[ARRAYS * ARRAY / 4], ends[2][ARRAYS * ARRAY / 4];
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, sizeof first);
    const CUdeviceptr at = ptx_buffer_address(memory);
    struct ptx_step_group groups[3];

    assert_true(lamb && memory);
    for (size_t k = 0; k < 2 * (size_t)ARRAY / 4; k++) // parameter and gradient
        first[k] = (float)random_unit(&r);
    ptxp_matrix_many = 1;
    matrix_set_create(&set, &r, shapes, SHAPES);
    set.muon.steps = 1;
    memcpy(groups, set.groups, sizeof set.groups);
    groups[2] = (struct ptx_step_group) {
        .own_rule = lamb,
        .hyper = { .lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1 }
    };
    set.tensors[SHAPES + 1] =
        (struct ptx_step_tensor) { .parameter = at,
                                   .gradient = at + ARRAY,
                                   .state = { at + 2 * ARRAY, at + 3 * ARRAY },
                                   .step = at + 4 * ARRAY,
                                   .count = ELEMENTS,
                                   .dtype = PTX_F32,
                                   .group = 2 };
    set.params.max_norm = INFINITY; // of one factor, 1, with any other tensors
    set.params.groups = groups;
    set.params.group_count = 3;
    set.params.tensor_count++;
    for (unsigned alone = 0; alone < 2; alone++) {
        require(ptx_buffer_upload(memory, 0, first, sizeof first, gpu.stream));
        if (alone) {
            set.params.tensors = &set.tensors[SHAPES + 1];
            set.params.tensor_count = 1;
            OWNED(ptx_step_plan) *plan = matrix_plan(&set);
            for (unsigned k = 0; k < 3; k++)
                require(ptx_step_plan_run(plan, gpu.stream));
        } else {
            steps_with_reduce(&r);
        }
        require(ptx_buffer_download(memory, 0, ends[alone], sizeof first, gpu.stream));
        require(ptx_stream_synchronize(gpu.device, gpu.stream));
    }
    assert_memory_equal(ends[0], ends[1], sizeof first);
    assert_memory_not_equal(ends[0], first, ELEMENTS * sizeof(float));
    ptxp_matrix_many = many;
}

// A step that is skipped writes nothing, but clears gradients that are to be.
TEST(test_skips)
{
    struct random r = gpu_random("skipped matrices");

    for (unsigned k = 0; k < 3; k += SANITIZED_EVERY(2)) {
        matrix_set_create(&set, &r, formats, sizeof formats / sizeof *formats);
        set.params.gradients = (ptx_step_gradients)k;
        OWNED(ptx_step_plan) *plan = matrix_plan(&set);
        check_skipped(&r, plan, k, k == 1 ? NAN : INFINITY);
    }
}

// Scalars change; a gradient and a matrix move away; a guard skips.
static void check_changes(const struct matrix_shape *shapes, unsigned count, uint32_t steps)
{
    struct random r = gpu_random("changes of matrices");
    matrix_set_create(&set, &r, shapes, count);
    set.muon.steps = steps;
    const CUdeviceptr skip = ptx_buffer_address(set.memory);
    const struct ptx_guard_params guards = { .skip_at = skip };
    set.params.guards = &guards;
    OWNED(ptx_step_plan) *plan = matrix_plan(&set);

    set.groups[0].hyper.lr = 0.3;
    set.groups[0].hyper.momentum = 0.5;
    set.groups[0].hyper.eps = 100;
    require(ptx_step_plan_set_hyper(plan, 0, &set.groups[0].hyper, gpu.stream));
    matrix_set_gradients(&set, &r);
    require(ptx_step_plan_run(plan, gpu.stream));
    matrix_set_expect(&set, plan, 1);
    matrix_set_check(&set, "other scalars");

    const CUdeviceptr none = 0, gradient = set.tensors[1].gradient;
    require(ptx_step_plan_set_gradients(plan, 1, 1, &none, gpu.stream));
    set.tensors[1].gradient = 0;
    matrix_set_gradients(&set, &r);
    require(ptx_step_plan_run(plan, gpu.stream));
    matrix_set_expect(&set, plan, 2);
    matrix_set_check(&set, "a matrix without a gradient");

    set.tensors[1].gradient = gradient;
    require(ptx_step_plan_set_addresses(plan, 1, 1, &set.tensors[1], gpu.stream));
    *(float *)set.expected = 1;
    matrix_set_gradients(&set, &r);
    require(ptx_step_plan_run(plan, gpu.stream));
    matrix_set_check(&set, "a step that a guard skips");
}

TEST(test_changes)
{
    // Stepped by the block that multiplies; and the first two updated by it, too.
    static const struct matrix_shape chips[] = {
        { 80, 2052, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 66, 2500, PTX_STEP_FORMAT_STOCHASTIC, PTX_BF16, PTX_BF16, false },
        { 100, 300, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F16, false },
        { 130, 140, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    };
    const size_t many = ptxp_matrix_many;

    check_changes(formats, sizeof formats / sizeof *formats, 0);
    check_changes(chips, sizeof chips / sizeof *chips, 1);
    ptxp_matrix_many = 1;
    check_changes(chips, sizeof chips / sizeof *chips, 1);
    ptxp_matrix_many = many;
}

// The only matrix has no gradient: AdamW's tensor is stepped all the same.
TEST(test_no_gradient)
{
    static const struct matrix_shape shape = { 9, 9, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, true };
    struct random r = gpu_random("no gradient");

    matrix_set_create(&set, &r, &shape, 1);
    matrix_set_steps(&set, &r);
}

// Without momentum the formulas are as they are: SGD alone has other states there.
TEST(test_no_momentum)
{
    static const struct matrix_shape shapes[] = {
        { 20, 30, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 70, 40, PTX_STEP_FORMAT_MASTER, PTX_BF16, PTX_BF16, false },
        { 9, 66, PTX_STEP_FORMAT_STOCHASTIC, PTX_BF16, PTX_F32, false },
    };
    struct random r = gpu_random("no momentum");

    for (unsigned nesterov = 0; nesterov < 2; nesterov++) {
        matrix_set_create(&set, &r, shapes, sizeof shapes / sizeof *shapes);
        set.groups[0].nesterov = nesterov != 0;
        set.groups[0].hyper.momentum = 0;
        matrix_set_steps(&set, &r);
    }
}

// Without eps, an update that is shorter than any f32 is zeros.
TEST(test_shortest_update)
{
    static const struct matrix_shape one = { 3, 5, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false };
    struct random r = gpu_random("the shortest update");

    matrix_set_create(&set, &r, &one, 1);
    set.groups[0].hyper.eps = 0;
    OWNED(ptx_step_plan) *plan = matrix_plan(&set);
    memset(matrix_array(&set, 0, MATRIX_GRADIENT), 0, 15 * sizeof(float));
    memset(matrix_array(&set, 0, MATRIX_STATE), 0, 15 * sizeof(float));
    memset(matrix_array(&set, 1, MATRIX_GRADIENT), 0, (size_t)matrix_adamw.columns * sizeof(float));
    matrix_put(&set, 0, MATRIX_GRADIENT, 7, 0x1p-149f);
    matrix_set_upload(&set);
    require(ptx_step_plan_run(plan, gpu.stream));
    matrix_set_expect(&set, plan, 1);
    matrix_set_check(&set, "the shortest update");
    assert_true(isfinite(matrix_get(&set, 0, MATRIX_PARAMETER, 7)));
}

// Sums of gradients in accumulators, which are what the step sees.
TEST(test_accumulators)
{
    static const struct matrix_shape shapes[] = {
        { 65, 30, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 33, 66, PTX_STEP_FORMAT_STATE_BF16, PTX_F32, PTX_F32, false },
        { 66, 2500, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 129, 140, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    };
    enum { TENSORS = 5 };
    struct random r = gpu_random("accumulators of matrices");
    matrix_set_create(&set, &r, shapes, TENSORS - 1);
    set.muon.steps = 1;
    OWNED(ptx_buffer) *sums = ptx_buffer_create(gpu.device, (size_t)TENSORS * MATRIX_ROOM);
    float *first[TENSORS], *last[TENSORS];

    require(ptx_buffer_fill(sums, 0, 0, (size_t)TENSORS * MATRIX_ROOM, gpu.stream));
    for (size_t t = 0; t < TENSORS; t++) {
        set.tensors[t].accumulator = ptx_buffer_address(sums) + t * MATRIX_ROOM + 256;
        set.tensors[t].accumulated = ptx_buffer_address(sums) + t * MATRIX_ROOM;
        first[t] = calloc((size_t)set.tensors[t].count, sizeof(float));
        last[t] = calloc((size_t)set.tensors[t].count, sizeof(float));
    }
    OWNED(ptx_step_plan) *plan = matrix_plan(&set);
    matrix_set_gradients(&set, &r);
    for (size_t t = 0; t < TENSORS; t++)
        memcpy(first[t], matrix_array(&set, t, MATRIX_GRADIENT),
               (size_t)set.tensors[t].count * sizeof(float));
    require(ptx_step_plan_accumulate(plan, gpu.stream));
    matrix_set_gradients(&set, &r);
    require(ptx_step_plan_run(plan, gpu.stream));
    for (size_t t = 0; t < TENSORS; t++) {
        float *g = matrix_array(&set, t, MATRIX_GRADIENT);
        memcpy(last[t], g, (size_t)set.tensors[t].count * sizeof(float));
        for (uint64_t i = 0; i < set.tensors[t].count; i++)
            g[i] = first[t][i] + g[i];
    }
    matrix_set_expect(&set, plan, 1);
    for (size_t t = 0; t < TENSORS; t++) { // what the step has not written
        memcpy(matrix_array(&set, t, MATRIX_GRADIENT), last[t],
               (size_t)set.tensors[t].count * sizeof(float));
        free(first[t]);
        free(last[t]);
    }
    matrix_set_check(&set, "sums of gradients");
}

// Averages of matrices that their products step, and of others: momenta stay what they are.
TEST(test_averages)
{
    enum { SHAPES = 4, ROOM = 130 * 201 };
    static const struct matrix_shape shapes[SHAPES] = {
        { 70, 140, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 130, 201, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 130, 130, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 20, 72, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    };
    static float found[SHAPES][ROOM];
    struct random r = gpu_random("averages of matrices");
    OWNED(ptx_buffer) *averages = ptx_buffer_create(gpu.device, sizeof found);

    require(ptx_buffer_fill(averages, 0, 0, sizeof found, gpu.stream));
    matrix_set_create(&set, &r, shapes, SHAPES);
    set.muon.steps = 1;
    for (size_t t = 0; t < SHAPES; t++) {
        set.tensors[t].ema = ptx_buffer_address(averages) + t * sizeof found[0];
        set.tensors[t].ema_dtype = PTX_F32;
    }
    set.groups[0].hyper.ema_decay = 0.5;
    OWNED(ptx_step_plan) *plan = matrix_plan(&set);
    matrix_set_gradients(&set, &r);
    require(ptx_step_plan_run(plan, gpu.stream));
    matrix_set_expect(&set, plan, 1);
    matrix_set_check(&set, "beside averages");
    require_done(ptx_buffer_download(averages, 0, found, sizeof found, gpu.stream));
    for (size_t t = 0; t < SHAPES; t++) {
        const float *p = matrix_array(&set, t, MATRIX_PARAMETER);
        for (uint64_t i = 0; i < set.tensors[t].count; i++)
            assert_true(found[t][i] == 0.5f * p[i]);
    }
}

// What a step leaves of weights: their average, amax, codes and report.
TEST(test_copies)
{
    static const struct matrix_shape shapes[] = {
        { 70, 130, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 40, 20, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
    };
    enum { EMA = 0, CODES = 40000, TURNED = 50000, AMAX = 60000, SCALE = 60004, REPORTS = 60008 };
    struct random r = gpu_random("copies of matrices");
    unsigned char found[2][MATRIX_ROOM / 2];
    matrix_set_create(&set, &r, shapes, 2);
    OWNED(ptx_buffer) *more = ptx_buffer_create(gpu.device, sizeof found);
    const CUdeviceptr at = ptx_buffer_address(more);
    const float scale = 16;

    require(ptx_buffer_fill(more, 0, 0, sizeof found, gpu.stream));
    for (size_t t = 0; t < 2; t++) {
        const CUdeviceptr own = at + t * sizeof found[0];
        require(ptx_buffer_upload(more, t * sizeof found[0] + SCALE, &scale, 4, gpu.stream));
        set.tensors[t].ema = own + EMA;
        set.tensors[t].ema_dtype = PTX_F32;
        set.tensors[t].amax = own + AMAX;
        set.tensors[t].fp8 = own + CODES;
        set.tensors[t].fp8_scale = own + SCALE;
        set.tensors[t].fp8_transposed = own + TURNED;
        set.tensors[t].fp8_columns = shapes[t].columns;
    }
    set.groups[0].hyper.ema_decay = 0.5;
    set.params.weight_reports_at = at + REPORTS;
    OWNED(ptx_step_plan) *plan = matrix_plan(&set);
    matrix_set_gradients(&set, &r);
    ALLOCATED(float) *old = calloc(MATRIX_ROOM, 1);
    struct ptx_weight_report reports[3];
    for (size_t t = 0; t < 2; t++)
        memcpy(old + t * 10000, matrix_array(&set, t, MATRIX_PARAMETER),
               (size_t)set.tensors[t].count * sizeof *old);
    require(ptx_step_plan_run(plan, gpu.stream));
    matrix_set_expect(&set, plan, 1);
    matrix_set_check(&set, "beside copies");
    require_done(ptx_buffer_download(more, 0, found, sizeof found, gpu.stream));
    memcpy(reports, found[0] + REPORTS, sizeof reports);
    for (size_t t = 0; t < 2; t++) {
        const float *p = matrix_array(&set, t, MATRIX_PARAMETER);
        const uint64_t n = set.tensors[t].count, columns = shapes[t].columns;
        double norm = 0, change = 0;
        float largest = 0;
        ALLOCATED(unsigned char) *codes = calloc((size_t)n, 1);
        ref_cast_fp8(REF_F32, p, n, REF_E4M3, scale, codes, NULL);
        for (uint64_t i = 0; i < n; i++) {
            const double apart = (double)p[i] - old[t * 10000 + i];
            const float ema = 0.5f * p[i];
            const uint64_t turned = i % columns * (n / columns) + i / columns;
            norm += (double)p[i] * p[i];
            change += apart * apart;
            largest = fmaxf(largest, fabsf(p[i]));
            assert_memory_equal(found[t] + EMA + 4 * i, &ema, 4);
            assert_int_equal(found[t][CODES + i], codes[i]);
            assert_int_equal(found[t][TURNED + turned], codes[i]);
        }
        assert_memory_equal(found[t] + AMAX, &largest, 4);
        assert_true(fabs(reports[t].norm - sqrt(norm)) <= 1e-12 * sqrt(norm));
        assert_true(fabs(reports[t].change - sqrt(change)) <= 1e-12 * sqrt(change));
        assert_true(reports[t].largest == largest && !reports[t].absent);
    }
}

// Codes in blocks of the stepped weights are those that a cast makes of them; the weights are the
// formula's.
TEST(test_blocks)
{
    static const struct matrix_shape shapes[] = {
        { 130, 36, PTX_STEP_FORMAT_FULL, PTX_F32, PTX_F32, false },
        { 33, 140, PTX_STEP_FORMAT_STOCHASTIC, PTX_BF16, PTX_F32, false },
    };
    enum { CODES = 130 * 36, TURNED = CODES + 64, SCALES = 2 * TURNED, EACH = SCALES + 4096 };
    struct random r = gpu_random("blocks of matrices");
    unsigned char *found[2] = { calloc(2, EACH), calloc(2, EACH) };
    matrix_set_create(&set, &r, shapes, 2);
    OWNED(ptx_buffer) *more = ptx_buffer_create(gpu.device, (size_t)2 * EACH);
    const CUdeviceptr at = ptx_buffer_address(more);

    for (size_t t = 0; t < 2; t++) {
        struct ptx_step_tensor *tensor = &set.tensors[t];
        tensor->fp8 = at + t * EACH;
        tensor->fp8_transposed = tensor->fp8 + TURNED;
        tensor->fp8_scale_inv = tensor->fp8 + SCALES;
        tensor->fp8_transposed_scale_inv = tensor->fp8 + SCALES + 2048;
        tensor->fp8_columns = shapes[t].columns;
        tensor->fp8_blocks = t ? PTX_FP8_BLOCKS_1X128 : PTX_FP8_BLOCKS_128X128;
    }
    set.muon.steps = 1;
    OWNED(ptx_step_plan) *plan = matrix_plan(&set);
    matrix_set_gradients(&set, &r);
    for (unsigned k = 0; k < 2; k++) {
        require(ptx_buffer_fill(more, 0, 0, (size_t)2 * EACH, gpu.stream));
        require(k ? ptx_step_plan_cast(plan, gpu.stream) : ptx_step_plan_run(plan, gpu.stream));
        require_done(ptx_buffer_download(more, 0, found[k], (size_t)2 * EACH, gpu.stream));
    }
    matrix_set_expect(&set, plan, 1);
    matrix_set_check(&set, "beside codes in blocks");
    assert_memory_equal(found[0], found[1], (size_t)2 * EACH);
    for (size_t t = 0; t < 2; t++) {
        const uint64_t n = set.tensors[t].count, columns = shapes[t].columns;
        uint64_t zeros = 0;
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t turned = i % columns * (n / columns) + i / columns;
            zeros += !(found[0][t * EACH + i] & 0x7f);
            if (!t) // blocks of columns have scales of their own
                assert_int_equal(found[0][TURNED + turned], found[0][i]);
        }
        assert_true(zeros < n / 10);
    }
    free(found[0]);
    free(found[1]);
}

static void refuse(const char *words)
{
    expect_no_step(&set.params, words);
}

#define REFUSED(words, ...) CHANGED(*tensor, refuse(words), __VA_ARGS__)

TEST(test_refusals)
{
    static const float triples[] = { 1, 2, INFINITY };
    struct random r = gpu_random("refused matrices");
    matrix_set_create(&set, &r, formats, 2);
    struct ptx_step_tensor *tensor = &set.tensors[1];
    struct ptx_step_group *group = &set.groups[0];
    const struct ptx_step_tensor good = *tensor;
    const struct ptx_step_group usual = *group;

    tensor->columns = 0;
    refuse("tensor 1: columns is 0, and the tensor has 1400 elements");
    tensor->columns = 3;
    refuse(
        "tensor 1: columns is 3, and the tensor has 1400 elements, which is no multiple: its rule");
    *tensor = good;
    set.params.any_address = true;
    tensor->count = UINT64_C(16385) * 16385;
    tensor->columns = 16385;
    refuse("tensor 1: it is a matrix of 16385 x 16385; rule muon takes a smaller side");
    tensor->count = tensor->columns = (1 << 24) + 1;
    refuse("tensor 1: it is a matrix of 1 x 16777217; rule muon takes sides of at most 2^24");
    *tensor = good;
    REFUSED("tensor 1: its rule, muon, steps whole matrices, and `whole` says",
            tensor->whole.first = 8);
    REFUSED("tensor 1: its rule is muon, and its format, state_8bit, stores states in blocks",
            tensor->dtype = PTX_BF16, tensor->beside = 0,
            tensor->format = PTX_STEP_FORMAT_STATE_8BIT);
    REFUSED("tensor 1: counts_empty is set, and its rule is muon", tensor->count = 0,
            tensor->counts_empty = true);
    REFUSED("tensor 1: state[1] is given, and its rule, muon, has 1 state",
            tensor->state[1] = tensor->state[0] + 8192);
    group->hyper.momentum = 1;
    refuse("group 0: momentum is 1; it must be 0 or more, and below 1");
    *group = usual;
    set.muon.steps = 33;
    refuse("group 0: muon->steps is 33; there are at most 32");
    set.muon.steps = 1;
    set.muon.triples = triples;
    refuse("group 0: muon->triples[2] is inf; the coefficients of a step must be finite");
    set.muon = (struct ptx_muon_params) { .adjust = (ptx_muon_adjust)2 };
    refuse("group 0: muon->adjust is 2; there are 0 to 1");
    set.muon.adjust = PTX_MUON_ADJUST_ORIGINAL;
    set.groups[1].muon = &set.muon;
    refuse("group 1: muon is given, and its rule is adamw: make it NULL");
}

GPU_MAIN
