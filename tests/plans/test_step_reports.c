// SPDX-License-Identifier: MIT
// Reports of weights: every byte as in plain C, for every rule and format, in every form of a run,
// at any alignment, with NaN and infinity; what skipped steps and absent gradients leave; plans
// that take a norm for their reports alone.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rules/own.h"
#include "sanitized.h"
#include "step_fixture.h"
#include "test.h"
#include "weight_report.h"

enum { POISON = 0x5a };

static struct step_set set;
static ptx_buffer *rows;
static struct ptx_weight_report must[STEP_MOST_TENSORS + 1]; // and one that is never written

// ---- the reference ------------------------------------------------------------------------------

// Takes the step in plain C. Returns whether it is skipped.
static bool expect(const struct ptx_step_params *params)
{
    struct ptx_step_description description;
    ALLOCATED(unsigned char) *before = malloc(set.bytes);

    assert_non_null(before);
    memcpy(before, set.host, set.bytes);
    require(ptx_step_describe(params, &description));
    const bool skipped = step_set_expect(&set, params, 1);
    for (size_t t = 0; t < set.count; t++) {
        if (!set.tensors[t].gradient || !set.tensors[t].count)
            must[t] = (struct ptx_weight_report) { .absent = 1 };
        else if (!skipped)
            weight_report_expect(&set, before, t, description.tile, &must[t]);
    }
    return skipped;
}

static void check(const char *what)
{
    struct ptx_weight_report is[STEP_MOST_TENSORS + 1];

    step_set_check(&set, what);
    require_done(ptx_buffer_download(rows, 0, is, (set.count + 1) * sizeof *is, gpu.stream));
    for (size_t t = 0; t <= set.count; t++)
        if (memcmp(&is[t], &must[t], sizeof *is) != 0)
            fail_msg("%s: tensor %zu of %llu, format %d: norm %a change %a largest %a absent %u; "
                     "must be %a %a %a %u",
                     what, t, (unsigned long long)set.tensors[t].count, (int)set.tensors[t].format,
                     is[t].norm, is[t].change, (double)is[t].largest, is[t].absent, must[t].norm,
                     must[t].change, (double)must[t].largest, must[t].absent);
}

// A set whose tensor t has some elements.
static void create(struct random *r, const struct step_shape *shape, size_t t)
{
    do
        step_set_create(&set, r, shape);
    while (set.tensors[t].count < 30);
}

static void rows_reset(void)
{
    memset(must, POISON, sizeof must);
    require(ptx_buffer_fill(rows, 0, POISON, ptx_buffer_size(rows), gpu.stream));
}

// Steps in all forms, of which the third is skipped, because a gradient is NaN.
static void check_steps(struct random *r, struct ptx_step_params params, const char *what)
{
    rows_reset();
    params.weight_reports_at = ptx_buffer_address(rows);
    OWNED(ptx_step_plan) *plan = step_create(&params);
    OWNED(ptx_graph) *graph = plan_capture((struct any_plan) { .step = plan });

    for (unsigned step = 0; step < 5; step++) {
        step_set_gradients(&set, r, step == 2 ? NAN : 0);
        expect(&params);
        plan_run((struct any_plan) { .step = plan }, (enum plan_form)(step % 3), graph);
        check(what);
    }
}

// ---- tests --------------------------------------------------------------------------------------

TEST(test_formats)
{
    struct random r = gpu_random("reports of weights");

    for (unsigned trial = 0; trial < 3 * PTX_STEP_FORMAT_COUNT; trial++) {
        const struct step_shape shape = { FORMAT_IN_TURN(trial), .tensors = 7,
                                          .most = trial % 3 ? 6000 : 40 };
        step_set_create(&set, &r, &shape);
        set.gradients = (ptx_step_gradients)(trial % 3);
        check_steps(&r, step_set_params(&set), "a format");
    }
}

TEST(test_mixed)
{
    struct random r = gpu_random("reports of weights, mixed");

    for (unsigned trial = 0; trial < 4; trial++) {
        const struct step_shape shape = {
            ALL_STEPS,
            .tensors = 12,
            .groups = 4,
            .most = 5000,
            .averages = trial / 2 ? PTX_TYPE_BIT(NONE) | PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(BF16) : 0,
            .aligned = trial % 2,
            .absent = true
        };
        struct ptx_step_group groups[STEP_MOST_GROUPS];
        step_set_create(&set, &r, &shape);
        struct ptx_step_params params = step_set_params(&set);
        own_groups(&set, 5 * trial, groups); // of the caller's: none, 0 and 2, 1 and 3, all
        params.groups = groups;
        check_steps(&r, params, "all formats");
    }
}

// So many small tensors that blocks have fewer threads; with an amax, too. A block less where that
// would cut a tensor that is one tile.
TEST(test_small)
{
    struct random r = gpu_random("reports of small tensors");

    for (unsigned trial = 0; trial < 3; trial += SANITIZED_EVERY(3)) {
        const unsigned most[] = { 250, 400, 120 }, tiles[] = { 256, 512, 512 };
        const struct step_shape shape = { .tensors = STEP_MOST_TENSORS,
                                          .most = most[trial],
                                          .formats = trial < 2 ? 1 << PTX_STEP_FORMAT_FULL
                                                               : 1 << PTX_STEP_FORMAT_STOCHASTIC,
                                          .copies = trial % 2,
                                          .aligned = trial != 1 };
        struct ptx_step_description description;
        step_set_create(&set, &r, &shape);
        struct ptx_step_params params = step_set_params(&set);
        params.weight_reports_at = 8;
        require(ptx_step_describe(&params, &description));
        assert_int_equal(description.tile, tiles[trial]);
        check_steps(&r, params, "small tensors");
    }
}

// More tiles than a block has threads, with all forms of a tile.
TEST(test_many_tiles)
{
    struct random r = gpu_random("reports of many tiles");

    for (unsigned trial = 0; trial < 3; trial += SANITIZED_EVERY(3)) {
        const ptx_step_format formats[] = { PTX_STEP_FORMAT_FULL, PTX_STEP_FORMAT_STOCHASTIC,
                                            PTX_STEP_FORMAT_STATE_8BIT };
        const struct step_shape shape = { .tensors = 1,
                                          .most = trial ? 700000 : 350000,
                                          .formats = 1u << formats[trial],
                                          .aligned = trial != 1 };
        struct ptx_step_description description;
        for (unsigned tries = 0; tries == 0 || description.elements / description.tile < 260;) {
            if (tries++)
                step_set_create(&set, &r, &shape);
            const struct ptx_step_params params = step_set_params(&set);
            require(ptx_step_describe(&params, &description));
        }
        check_steps(&r, step_set_params(&set), "many tiles");
    }
}

// What a guard skips leaves the rows, but for absent gradients, which go and come back.
TEST(test_skipped)
{
    struct random r = gpu_random("reports of skipped steps");
    const struct step_shape shape = { .tensors = 5, .most = 3000 };
    const float skips[] = { 0, 1 };

    create(&r, &shape, 1);
    rows_reset();
    OWNED(ptx_buffer) *given = made(ptx_buffer_create(gpu.device, sizeof skips));
    require(ptx_buffer_upload(given, 0, skips, sizeof skips, gpu.stream));
    struct ptx_step_params params = step_set_params(&set);
    const struct ptx_guard_params guards = { .skip_at = ptx_buffer_address(given) };
    params.guards = &guards;
    params.weight_reports_at = ptx_buffer_address(rows);
    OWNED(ptx_step_plan) *plan = step_create(&params);
    params.guards = NULL;
    for (unsigned step = 0; step < 4; step++) {
        const CUdeviceptr gradient = set.tensors[1].gradient, at = step % 2 ? 0 : gradient;
        const bool skipped = step / 2 % 2;
        step_set_gradients(&set, &r, 0);
        set.tensors[1].gradient = at;
        require(ptx_step_plan_set_gradients(plan, 1, 1, &at, gpu.stream));
        require(ptx_buffer_fill(given, 0, 0, sizeof(float), gpu.stream));
        if (skipped) {
            require(ptx_buffer_upload(given, 0, &skips[1], sizeof(float), gpu.stream));
            must[1] = at ? must[1] : (struct ptx_weight_report) { .absent = 1 };
        } else {
            expect(&params);
        }
        require(ptx_step_plan_run(plan, gpu.stream));
        check(skipped ? "a skipped step" : "a step");
        set.tensors[1].gradient = gradient;
    }
}

// Reports of weights take no launch and no norm; a plan without tensors has none.
TEST(test_described)
{
    struct random r = gpu_random("reports of weights, described");
    const struct step_shape shape = { .tensors = 3, .most = 300 };
    struct ptx_step_description with, without;

    step_set_create(&set, &r, &shape);
    struct ptx_step_params params = step_set_params(&set);
    const uint64_t count = set.tensors[0].count;
    params.max_norm = INFINITY;
    require(ptx_step_describe(&params, &without));
    params.weight_reports_at = 8;
    require(ptx_step_describe(&params, &with));
    assert_int_equal(with.launches, without.launches);
    assert_int_equal(with.bytes, without.bytes);
    set.tensors[0].count = with.tile + 1; // a second tile, which a launch folds
    require(ptx_step_describe(&params, &with));
    assert_int_equal(with.launches, without.launches + 1);
    set.tensors[0].count = count;
    params.weight_reports_at = 12;
    expect_refused(ptx_step_describe(&params, &with),
                   "weight_reports_at is 0xc; it must be a multiple of 8");
    check_steps(&r, step_set_params(&set), "three tensors");
    set.count = 0;
    set.has_elements = false;
    check_steps(&r, step_set_params(&set), "no tensors");
}

TEST(test_refused)
{
    struct random r = gpu_random("reports of weights that are refused");
    const struct step_shape shape = { .tensors = 3, .most = 300 };

    create(&r, &shape, 0);
    OWNED(ptx_buffer) *small = ptx_buffer_create(gpu.device, 48);
    struct ptx_step_params params = step_set_params(&set);
    params.weight_reports_at = ptx_buffer_address(small);
    expect_no_step(&params, "weight_reports_at: 9 elements are 72 bytes, and its memory ends");
    params.weight_reports_at = (set.tensors[0].parameter + 7) / 8 * 8;
    expect_no_step(&params, "tensor 0's parameter and weight_reports_at overlap");
    params.weight_reports_at = params.reports_at = ptx_buffer_address(rows);
    expect_no_step(&params, "weight_reports_at and reports_at overlap");
}

// ---- norms that nothing clips -------------------------------------------------------------------

static float norm_of_run(struct ptx_step_params params, struct random *r)
{
    struct ptx_clip_record record;
    OWNED(ptx_step_plan) *plan = step_create(&params);

    step_set_gradients(&set, r, 0);
    require(ptx_step_plan_run(plan, gpu.stream));
    require_done(ptx_step_plan_read(plan, 0, 1, &record, NULL, gpu.stream));
    return record.norm;
}

// Without a max_norm the norm is taken where a report or a guard needs it, and only there.
TEST(test_norms)
{
    struct random r = gpu_random("norms for reports and guards");
    const struct step_shape shape = { .tensors = 3, .most = 300 };
    const struct ptx_guard_params guards[] = { { .limit = 1e30f },
                                               { .history.length = 8 },
                                               { .zclip.warmup = 3 },
                                               { .adagc.warmup = 3 },
                                               { .limits_at = ptx_buffer_address(rows) },
                                               { .skip_at = ptx_buffer_address(rows) },
                                               { 0 } };
    const float all[] = { INFINITY };

    create(&r, &shape, 0);
    require(ptx_buffer_fill(rows, 0, 0, ptx_buffer_size(rows), gpu.stream));
    for (unsigned form = 0; form < 2; form++) {
        struct ptx_step_params params = step_set_params(&set);
        params.max_norm = INFINITY;
        params.group_max_norms = form ? all : NULL;
        assert_true(norm_of_run(params, &r) == 0);
        params.weight_reports_at = ptx_buffer_address(rows) + 256;
        assert_true(norm_of_run(params, &r) == 0);
        params.reports_at = ptx_buffer_address(rows) + 512;
        assert_true(norm_of_run(params, &r) > 0);
        params.weight_reports_at = params.reports_at = 0;
        for (size_t k = 0; k < sizeof guards / sizeof *guards; k++) {
            const bool needs = k < 5;
            params.guards = &guards[k];
            assert_true((norm_of_run(params, &r) > 0) == needs);
        }
    }
}

int main(void)
{
    gpu_open();
    own_rules_create();
    gpu_buffer(&rows, (STEP_MOST_TENSORS + 1) * sizeof *must);
    const int failed = gpu_tests_run();
    own_rules_destroy();
    return failed;
}
