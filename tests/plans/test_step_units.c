// SPDX-License-Identifier: MIT
// Clipping of units (AGC): every byte as in plain C, for every rule and format, in every form of a
// run; timm's formula in f64; weights that something else has written; what is refused.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sanitized.h"
#include "step_fixture.h"
#include "test.h"

static struct step_set set;

// A set of which some group clips units.
static void create(struct random *r, struct step_shape shape)
{
    shape.units = true;
    for (bool clips = false; !clips;) {
        step_set_create(&set, r, &shape);
        for (size_t t = 0; t < set.count; t++)
            clips |= set.tensors[t].count && set.group[set.tensors[t].group].agc.clipping != 0;
    }
}

// Whether the units of a shard are whole.
static void make_whole(void)
{
    for (size_t t = 0; t < set.count; t++)
        if (set.group[set.tensors[t].group].agc.clipping != 0)
            set.tensors[t].whole = (struct ptx_step_whole) {
                .first = set.tensors[t].columns ? 256 * set.tensors[t].columns : 0,
            };
}

// Steps in all forms, of which the third is skipped, because a gradient is NaN. Before the last one
// weights are written by something else.
static void check_steps(struct random *r, struct ptx_step_params params, const char *what)
{
    OWNED(ptx_step_plan) *plan = step_create(&params);

    step_set_gradients(&set, r, 0);
    require(ptx_step_plan_weights_changed(plan, gpu.stream));
    OWNED(ptx_graph) *graph = plan_capture((struct any_plan) { .step = plan });
    for (unsigned step = 0; step < 6; step++) {
        if (step == 5)
            for (size_t t = 0; t < set.count; t++)
                for (uint64_t i = 0; i < set.tensors[t].count; i += 7)
                    ref_store(gpu_ref_type(set.tensors[t].dtype), set.host + set.offset[t][0], i,
                              1.0 / (double)(i % 9 + 1));
        step_set_gradients(&set, r, step == 2 ? NAN : 0);
        if (step == 5)
            require(ptx_step_plan_weights_changed(plan, gpu.stream));
        step_set_expect(&set, &params, 1);
        plan_run((struct any_plan) { .step = plan }, (enum plan_form)(step % 3), graph);
        step_set_check(&set, what);
    }
}

TEST(test_formats)
{
    struct random r = gpu_random("units");

    for (unsigned trial = 0; trial < 2 * PTX_STEP_FORMAT_COUNT; trial += SANITIZED_EVERY(3)) {
        const struct step_shape shape = { FORMAT_IN_TURN(trial), .tensors = 6,
                                          .most = trial % 3 ? 3000 : 60 };
        create(&r, shape);
        make_whole();
        set.gradients = (ptx_step_gradients)(trial % 3);
        check_steps(&r, step_set_params(&set), "a format");
    }
}

TEST(test_mixed)
{
    struct random r = gpu_random("units, mixed");
    OWNED(ptx_buffer) *rows = ptx_buffer_create(gpu.device, STEP_MOST_TENSORS * 64);

    for (unsigned trial = 0; trial < 3; trial += SANITIZED_EVERY(2)) {
        const struct step_shape shape = {
            ALL_STEPS,     .tensors = 10,
            .groups = 4,   .norm_groups = 2,
            .most = 3000,  .averages = PTX_TYPE_BIT(NONE) | PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(BF16),
            .amax = true,  .aligned = trial % 2,
            .absent = true
        };
        create(&r, shape);
        struct ptx_step_params params = step_set_params(&set);
        if (trial) { // reports read the same elements
            params.reports_at = ptx_buffer_address(rows);
            params.weight_reports_at = params.reports_at + 32 * STEP_MOST_TENSORS;
        }
        check_steps(&r, params, "all formats");
    }
}

static void check_size(struct random *r, uint64_t columns, uint64_t units, bool is_vector,
                       ptx_step_format format)
{
    const struct step_shape shape = {
        .tensors = 1, .most = 30000, .formats = UINT32_C(1) << format, .aligned = true
    };
    const uint64_t count = columns * units;

    create(r, shape);
    while (set.tensors[0].count < count)
        create(r, shape);
    set.tensors[0].count = count;
    set.tensors[0].columns = is_vector ? 0 : columns;
    check_steps(r, step_set_params(&set), "a size");
}

// One tensor of each kind of unit: several chunks, parts that begin in one and end in the next, and
// a vector of many parts.
TEST(test_sizes)
{
    static const struct {
        uint64_t columns, units;
    } sizes[] = { { 768, 11 }, { 3072, 3 }, { 1, 3000 }, { 9, 700 }, { 5001, 2 }, { 20000, 1 } };
    struct random r = gpu_random("units of sizes");

    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k += SANITIZED_EVERY(2))
        check_size(&r, sizes[k].columns, sizes[k].units, sizes[k].units == 1,
                   k % 2 ? PTX_STEP_FORMAT_STOCHASTIC : PTX_STEP_FORMAT_FULL);
}

// A row that is alone, as in a shard, has the bits that it has among others.
TEST(test_rows_alone)
{
    enum { ROWS = 64, COLUMNS = 300, COUNT = ROWS * COLUMNS };
    static float cells[2 * COUNT + ROWS], whole[COUNT], alone[COUNT]; // p, g, counts
    struct random r = gpu_random("rows alone");
    const struct ptx_step_group group = { .rule = PTX_STEP_RULE_SGD,
                                          .hyper = { .lr = 1 },
                                          .agc = { .clipping = 0.01 } };
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, sizeof cells);
    const CUdeviceptr at = ptx_buffer_address(memory);
    struct ptx_step_tensor row[ROWS];

    for (unsigned i = 0; i < 2 * COUNT; i++)
        cells[i] = (float)random_unit(&r);
    for (unsigned k = 0; k < 2; k++) {
        for (unsigned t = 0; t < ROWS; t++)
            row[t] =
                (struct ptx_step_tensor) { .parameter = at + (CUdeviceptr)t * COLUMNS * 4,
                                           .gradient = at + (CUdeviceptr)(COUNT + t * COLUMNS) * 4,
                                           .step = at + (CUdeviceptr)(2 * COUNT + t) * 4,
                                           .count = k ? COLUMNS : COUNT,
                                           .columns = COLUMNS,
                                           .dtype = PTX_F32 };
        require(ptx_buffer_upload(memory, 0, cells, sizeof cells, gpu.stream));
        OWNED(ptx_step_plan) *plan =
            step_create(&(struct ptx_step_params) { .tensors = row,
                                                    .tensor_count = k ? ROWS : 1,
                                                    .groups = &group,
                                                    .group_count = 1,
                                                    .max_norm = INFINITY,
                                                    .stream = gpu.stream });
        require(ptx_step_plan_weights_changed(plan, gpu.stream));
        require(ptx_step_plan_run(plan, gpu.stream));
        require(ptx_buffer_download(memory, 0, k ? alone : whole, sizeof whole, gpu.stream));
        require(ptx_stream_synchronize(gpu.device, gpu.stream));
    }
    assert_memory_equal(whole, alone, sizeof whole);
    assert_true(memcmp(whole, cells, sizeof whole) != 0);
}

// ---- timm's formula -----------------------------------------------------------------------------

// SGD with lr 1 leaves what was clipped as the change of the weights: p - g.
TEST(test_formula)
{
    enum { ROWS = 12, COLUMNS = 24, COUNT = ROWS * COLUMNS };
    float p[COUNT], g[COUNT], count = 0, is[COUNT];
    OWNED(ptx_buffer) *memory = ptx_buffer_create(gpu.device, sizeof p + sizeof g + sizeof count);
    struct random r = gpu_random("units, timm's formula");

    for (int i = 0; i < COUNT; i++) { // rows of zeros, of small and of large weights and gradients
        const int row = i / COLUMNS;
        p[i] = (row % 4 ? ldexpf(1, 5 * (row % 4) - 12) : 0) * ((float)random_below(&r, 200) - 100);
        g[i] = (row % 3 ? ldexpf(1, 6 - 9 * (row % 3)) : 0) * ((float)random_below(&r, 200) - 100);
    }
    require(ptx_buffer_upload(memory, 0, p, sizeof p, gpu.stream));
    require(ptx_buffer_upload(memory, sizeof p, g, sizeof g, gpu.stream));
    require(ptx_buffer_upload(memory, sizeof p + sizeof g, &count, sizeof count, gpu.stream));
    const CUdeviceptr at = ptx_buffer_address(memory);
    const struct ptx_step_group group = { .rule = PTX_STEP_RULE_SGD,
                                          .hyper.lr = 1,
                                          .agc = { .clipping = 0.25 } };
    const struct ptx_step_tensor tensor = { .parameter = at,
                                            .gradient = at + sizeof p,
                                            .step = at + sizeof p + sizeof g,
                                            .count = COUNT,
                                            .columns = COLUMNS,
                                            .dtype = PTX_F32 };
    OWNED(ptx_step_plan) *plan =
        step_create(&(struct ptx_step_params) { ONE_TENSOR(tensor, group), .max_norm = INFINITY });
    require(ptx_step_plan_weights_changed(plan, gpu.stream));
    require(ptx_step_plan_run(plan, gpu.stream));
    require_done(ptx_buffer_download(memory, 0, is, sizeof is, gpu.stream));
    int clipped = 0;
    for (int row = 0; row < ROWS; row++) {
        double gg = 0, ww = 0;
        for (int i = row * COLUMNS; i < (row + 1) * COLUMNS; i++) {
            gg += (double)g[i] * (double)g[i];
            ww += (double)p[i] * (double)p[i];
        }
        const double most = 0.25 * fmax(sqrt(ww), 1e-3), norm = sqrt(gg);
        clipped += norm >= most;
        for (int i = row * COLUMNS; i < (row + 1) * COLUMNS; i++) {
            const double x = (double)g[i], y = norm < most ? x : x * (most / fmax(norm, 1e-6));
            if (!(fabs((double)is[i] - ((double)p[i] - y)) <=
                  1e-6 * (fabs((double)p[i]) + fabs(y))))
                fail_msg("row %d: %a - %a is %a", row, (double)p[i], y, (double)is[i]);
        }
    }
    assert_true(clipped > 2 && clipped < ROWS - 2);
}

// ---- what is refused ----------------------------------------------------------------------------

static void refuse(const struct ptx_step_params *params, const char *message)
{
    struct ptx_step_description description;

    expect_refused(ptx_step_describe(params, &description), message);
}

TEST(test_refused)
{
    struct random r = gpu_random("units that are refused");
    const struct step_shape shape = { .tensors = 2, .most = 300 };

    create(&r, shape);
    const struct ptx_step_params params = step_set_params(&set);
    struct ptx_step_tensor *tensor = &set.tensors[0];
    struct ptx_step_agc *agc = &set.group[0].agc;
    tensor->count = 96;
    tensor->columns = 5;
    refuse(&params,
           "tensor 0: columns is 5, and the tensor has 96 elements, which is no multiple: for agc");
    tensor->columns = 48;
    tensor->whole.first = 24;
    refuse(&params, "tensor 0: `whole` cuts its rows of 48 elements");
    tensor->whole = (struct ptx_step_whole) { .first = 48, .run = 48, .stride = 72 };
    refuse(&params, "tensor 0: `whole` cuts its rows");
    tensor->columns = 0;
    refuse(&params, "tensor 0: columns is 0, so that agc clips it as a whole, and `whole` says "
                    "that it is a shard");
    tensor->whole = (struct ptx_step_whole) { 0 };
    agc->clipping = -1;
    refuse(&params, "group 0: agc.clipping is -1; it must be finite and above 0");
    agc->clipping = NAN;
    refuse(&params, "group 0: agc.clipping is nan");
    *agc = (struct ptx_step_agc) { .clipping = 0.01, .eps = INFINITY };
    refuse(&params, "group 0: agc.eps is inf");
    *agc = (struct ptx_step_agc) { .eps = 1 };
    refuse(&params, "group 0: agc.eps is 1, and agc.clipping is 0");
    *agc = (struct ptx_step_agc) { .clipping = 0.01 };
    set.group[0].rule = PTX_STEP_RULE_MUON;
    set.group[0].hyper = (struct ptx_step_hyper) { .lr = 0.1, .momentum = 0.9, .eps = 1e-7 };
    refuse(&params, "group 0: agc is given, and its rule, muon");
}

// A run without norms of the weights, and what forgets them.
TEST(test_unknown)
{
    struct random r = gpu_random("units without norms");
    const struct step_shape shape = { .tensors = 3, .most = 300, .aligned = true };
    const char *const message = "the norms of the weights, by which agc clips, are not known";

    create(&r, shape);
    struct ptx_step_params params = step_set_params(&set);
    OWNED(ptx_step_plan) *plan = step_create(&params);
    step_set_gradients(&set, &r, 0);
    expect_refused(ptx_step_plan_run(plan, gpu.stream), message);
    expect_refused(ptx_step_plan_norm_sq(plan, gpu.stream), message);
    require(ptx_step_plan_weights_changed(plan, gpu.stream));
    require(ptx_step_plan_set_addresses(plan, 0, 3, set.tensors, gpu.stream));
    step_set_expect(&set, &params, 1);
    require(ptx_step_plan_run(plan, gpu.stream));
    step_set_check(&set, "known norms");
    const CUdeviceptr was = set.tensors[0].parameter;
    for (size_t t = 0; t < 3; t++)
        if (set.tensors[t].count) {
            struct ptx_step_tensor moved = set.tensors[t];
            ptx_buffer *elsewhere = ptx_buffer_create(gpu.device, moved.count * sizeof(float));
            moved.parameter = ptx_buffer_address(elsewhere);
            require(ptx_step_plan_set_addresses(plan, t, 1, &moved, gpu.stream));
            expect_refused(ptx_step_plan_run(plan, gpu.stream), message);
            require(ptx_step_plan_set_addresses(plan, t, 1, &set.tensors[t], gpu.stream));
            ptx_buffer_destroy(&elsewhere);
            break;
        }
    assert_true(was == set.tensors[0].parameter);
    expect_refused(ptx_step_plan_run(plan, gpu.stream), message);
    ptx_step_plan_destroy(&plan);
    set.group[0].agc = (struct ptx_step_agc) { 0 };
    params = step_set_params(&set);
    plan = step_create(&params);
    expect_refused(ptx_step_plan_weights_changed(plan, gpu.stream),
                   "ptx_step_plan_weights_changed: no group of the plan has agc");
}

int main(void)
{
    gpu_open();
    return gpu_tests_run();
}
