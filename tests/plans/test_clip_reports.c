// SPDX-License-Identifier: MIT
// Reports of gradients, of clip plans and step plans: every byte as in plain C, in every form of a
// run, with zeros, NaN and infinity, missing gradients and shards.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clip_fixture.h"
#include "step_fixture.h"
#include "test.h"

static struct clip_set clips;
static struct step_set steps;

enum { MOST = STEP_MOST_TENSORS + 1 };

// ---- the reference ------------------------------------------------------------------------------

static uint64_t in_whole(const struct ptx_step_whole *w, uint64_t i)
{
    return w->run ? w->first + i / w->run * w->stride + i % w->run : w->first + i;
}

static struct ptx_gradient_report expect(const struct ref_gradient *x, uint64_t chunk,
                                         const struct ptx_step_whole *whole, bool absent)
{
    struct ptx_gradient_report r = { .absent = absent || x->count == 0, .first_nonfinite = -1 };
    double thread[256] = { 0 }, largest = 0;

    for (uint64_t k = 0; !r.absent && k * chunk < x->count; k++) {
        const uint64_t end = (k + 1) * chunk < x->count ? (k + 1) * chunk : x->count;
        thread[k % 256] += ref_chunk_sum(x->type, x->data, k * chunk, end);
    }
    for (uint64_t i = 0; !r.absent && i < x->count; i++) {
        const double value = ref_load(x->type, x->data, i);
        r.zeros += value == 0;
        largest = isnan(value) || isnan(largest) ? NAN : fmax(largest, fabs(value));
        if (!isfinite(value) && r.first_nonfinite < 0)
            r.first_nonfinite = (int64_t)in_whole(whole, i);
    }
    ref_store(REF_F64, &r.norm, 0, sqrt(ref_block_sum(thread, 256)));
    ref_store(REF_F32, &r.largest, 0, largest);
    return r;
}

static void compare(const struct ptx_gradient_report *is, const struct ptx_gradient_report *must,
                    size_t t)
{
    const uint64_t nan = UINT64_MAX >> 1;
    struct ptx_gradient_report wanted = *must;

    if (isnan(must->norm))
        memcpy(&wanted.norm, &nan, sizeof nan);
    if (memcmp(is, &wanted, sizeof *is) != 0)
        fail_msg("tensor %zu: norm %a largest %a absent %u zeros %llu first %lld; must be %a %a %u "
                 "%llu %lld",
                 t, is->norm, (double)is->largest, is->absent, (unsigned long long)is->zeros,
                 (long long)is->first_nonfinite, must->norm, (double)must->largest, must->absent,
                 (unsigned long long)must->zeros, (long long)must->first_nonfinite);
}

static ptx_buffer *rows_create(void)
{
    ptx_buffer *rows =
        made(ptx_buffer_create(gpu.device, MOST * sizeof(struct ptx_gradient_report)));
    return rows;
}

static const struct ptx_gradient_report *rows_read(const ptx_buffer *rows, size_t count)
{
    static struct ptx_gradient_report read[MOST];

    require_done(ptx_buffer_download(rows, 0, read, count * sizeof *read, gpu.stream));
    return read;
}

// ---- clip plans ---------------------------------------------------------------------------------

// Some zeros, and now and then NaN and infinity.
static void spoil(struct random *r)
{
    static const double bad[] = { NAN, INFINITY, -INFINITY };

    for (size_t t = 0; t < clips.count; t++) {
        struct ref_gradient *x = &clips.host[t];
        for (unsigned k = 0; k < 9 && x->count; k++)
            ref_store(x->type, x->data, random_below(r, (uint32_t)x->count), k % 2 ? 0.0 : -0.0);
        for (unsigned k = 0; k < 2 && x->count && random_below(r, 4) == 0; k++)
            ref_store(x->type, x->data, random_below(r, (uint32_t)x->count),
                      bad[random_below(r, 3)]);
    }
    clip_set_upload(&clips);
}

static void check_clip(struct random *r, struct ptx_clip_params params)
{
    static const struct ptx_step_whole whole;
    const struct ref_clip_plan plain = { .tensors = clips.host,
                                         .tensor_count = clips.count,
                                         .group_count = clips.groups };
    const struct ptx_clip_params of_set = clip_set_params(&clips);
    const uint64_t chunk = ref_clip_chunk(&plain);
    OWNED(ptx_buffer) *rows = rows_create();

    params.tensors = of_set.tensors;
    params.tensor_count = of_set.tensor_count;
    params.group_count = of_set.group_count;
    params.max_norm = INFINITY;
    params.nonfinite = PTX_NONFINITE_SKIP; // the gradients stay
    params.reports_at = ptx_buffer_address(rows);
    const struct any_plan plan = { .clip = clip_create(&params), .measures = params.measure_only };
    ptx_graph *graph = plan_capture(plan);
    for (unsigned form = 0; form < 3; form++) {
        spoil(r);
        require(ptx_buffer_fill(rows, 0, 0x5a, ptx_buffer_size(rows), gpu.stream));
        plan_run(plan, (enum plan_form)form, graph);
        const struct ptx_gradient_report *is = rows_read(rows, clips.count + 1);
        for (size_t t = 0; t < clips.count; t++) {
            const struct ptx_gradient_report must = expect(&clips.host[t], chunk, &whole, false);
            compare(&is[t], &must, t);
        }
        for (size_t k = 0; k < sizeof *is; k++)
            assert_int_equal(((const unsigned char *)(is + clips.count))[k], 0x5a);
    }
    ptx_graph_destroy(&graph);
    ptx_clip_plan *done = plan.clip;
    ptx_clip_plan_destroy(&done);
}

TEST(test_clip)
{
    struct random r = gpu_random("reports of clip plans");

    for (unsigned trial = 0; trial < 12; trial++) {
        const struct clip_shape shape = { .tensors = 1 + random_below(&r, 9),
                                          .groups = 1 + trial % 3,
                                          .most = trial % 4 ? 3000 : 40,
                                          .large = trial == 5 ? 700000 : 0,
                                          .types = trial % 2 ? ALL_TYPES : PTX_TYPE_BIT(F32),
                                          .data = trial % 3 == 2 ? DATA_SPECIAL : DATA_PLAIN,
                                          .aligned = trial % 3 == 0,
                                          .weighted = trial % 2 };
        clip_set_create(&clips, &r, &shape);
        check_clip(&r, clip_trial_params(trial));
    }
}

// Many small tensors share no chunks where they are reported; the report is the last launch.
TEST(test_many)
{
    struct random r = gpu_random("reports of many tensors");
    const struct clip_shape shape = { .tensors = 299, .groups = 2, .most = 60 };
    struct ptx_clip_description with, without;

    clip_set_create(&clips, &r, &shape);
    check_clip(&r, (struct ptx_clip_params) { 0 });
    struct ptx_clip_params params = clip_set_params(&clips);
    require(ptx_clip_describe(&params, &without));
    params.reports_at = 8;
    require(ptx_clip_describe(&params, &with));
    assert_int_equal(with.launches, without.launches + 1);
    params.reports_at = 12;
    expect_refused(ptx_clip_describe(&params, &with),
                   "reports_at is 0xc; it must be a multiple of 8");
}

// ---- step plans ---------------------------------------------------------------------------------

static struct ref_clip_plan plain_steps(struct ref_gradient x[STEP_MOST_TENSORS])
{
    for (size_t t = 0; t < steps.count; t++)
        x[t] = (struct ref_gradient) {
            .type = gpu_ref_type(steps.tensors[t].gradient_dtype != PTX_NONE
                                     ? steps.tensors[t].gradient_dtype
                                     : steps.tensors[t].dtype),
            .data = steps.host + steps.offset[t][1],
            .count = steps.tensors[t].count,
            .group = steps.tensors[t].norm_group,
        };
    return (struct ref_clip_plan) {
        .tensors = x,
        .tensor_count = steps.count,
        .group_count = steps.norm_groups,
        .reports = true,
    };
}

// In every form of a run, one after another, of which some are skipped.
static void check_step(struct random *r, unsigned trial, ptx_buffer *rows)
{
    struct ref_gradient x[STEP_MOST_TENSORS];
    bool shared[STEP_MOST_TENSORS];
    const struct ref_clip_plan plain = plain_steps(x);
    struct ptx_step_params params = step_set_params(&steps);

    for (size_t t = 0; t < steps.count; t++)
        shared[t] = ref_clip_shares(&plain, t);
    params.reports_at = ptx_buffer_address(rows);
    params.max_norm = trial % 2 ? INFINITY : 1;
    OWNED(ptx_step_plan) *plan = step_create(&params);
    OWNED(ptx_graph) *graph = plan_capture((struct any_plan) { .step = plan });
    for (unsigned form = 0; form < 3; form++) {
        const bool bad = (trial + form) % 3 == 2;
        struct ptx_gradient_report must[STEP_MOST_TENSORS];
        step_set_gradients(&steps, r, bad ? NAN : 0);
        for (size_t t = 0; t < steps.count; t++) {
            must[t] = expect(&x[t], ref_clip_chunk(&plain), &steps.tensors[t].whole,
                             steps.tensors[t].gradient == 0);
            if (shared[t] && !must[t].absent)
                ref_store(REF_F64, &must[t].norm, 0, sqrt(ref_clip_piece_sum(&x[t])));
        }
        const bool skips = step_set_expect(&steps, &params, 1);
        assert_true(skips == (bad && steps.has_elements) || bad);
        require(ptx_buffer_fill(rows, 0, 0x5a, ptx_buffer_size(rows), gpu.stream));
        plan_run((struct any_plan) { .step = plan }, (enum plan_form)form, graph);
        step_set_check(&steps, "with reports");
        const struct ptx_gradient_report *is = rows_read(rows, steps.count + 1);
        for (size_t t = 0; t < steps.count; t++)
            compare(&is[t], &must[t], t);
        for (size_t k = 0; k < sizeof *is; k++)
            assert_int_equal(((const unsigned char *)(is + steps.count))[k], 0x5a);
    }
}

TEST(test_step)
{
    struct random r = gpu_random("reports of step plans");
    const struct step_shape shape = { .tensors = 9,
                                      .groups = 2,
                                      .norm_groups = 2,
                                      .most = 5000,
                                      .rules = (1 << STEP_RULES) - 1,
                                      .formats = 1 << PTX_STEP_FORMAT_STOCHASTIC |
                                                 1 << PTX_STEP_FORMAT_FULL,
                                      .sharded = true,
                                      .absent = true };
    OWNED(ptx_buffer) *rows = rows_create();

    for (unsigned trial = 0; trial < 8; trial++) {
        step_set_create(&steps, &r, &shape);
        check_step(&r, trial, rows);
    }
}

// So many small tensors that they share chunks, of which a warp reports each; among them some that
// do not, that have no elements, or no gradient. In vectors, and at any alignment.
TEST(test_step_packed)
{
    struct random r = gpu_random("reports of tensors that share chunks");
    struct step_shape shape = { .tensors = STEP_MOST_TENSORS,
                                .norm_groups = 2,
                                .most = 300,
                                .rules = 1 << PTX_STEP_RULE_SGD,
                                .formats =
                                    1 << PTX_STEP_FORMAT_STOCHASTIC | 1 << PTX_STEP_FORMAT_FULL,
                                .sharded = true,
                                .absent = true };
    OWNED(ptx_buffer) *rows = rows_create();

    for (unsigned trial = 0; trial < 2; trial++) {
        shape.aligned = trial;
        for (bool mixed = false; !mixed;) { // most of a set share chunks, and some do not
            struct ref_gradient x[STEP_MOST_TENSORS];
            size_t count = 0;
            step_set_create(&steps, &r, &shape);
            const struct ref_clip_plan plain = plain_steps(x);
            for (size_t t = 0; t < steps.count; t++)
                count += ref_clip_shares(&plain, t);
            mixed = count > steps.count / 2 && count < steps.count;
        }
        check_step(&r, trial, rows);
    }
}

// More chunks than a block has threads; and a plan without tensors, which has no rows.
TEST(test_step_sizes)
{
    struct random r = gpu_random("reports of many chunks");
    struct step_shape shape = { .tensors = 1, .most = 600000, .rules = 1 << PTX_STEP_RULE_SGD };
    struct ptx_step_description with, without;
    OWNED(ptx_buffer) *rows = rows_create();

    do
        step_set_create(&steps, &r, &shape);
    while (steps.tensors[0].count < 2048 * 260);
    struct ptx_step_params params = step_set_params(&steps);
    require(ptx_step_describe(&params, &without));
    params.reports_at = 8;
    require(ptx_step_describe(&params, &with));
    assert_int_equal(with.launches, without.launches);
    check_step(&r, 0, rows);
    shape.tensors = 0;
    step_set_create(&steps, &r, &shape);
    check_step(&r, 0, rows);
}

// An array that is too small, or overlaps.
TEST(test_refused)
{
    struct random r = gpu_random("reports that are refused");
    const struct clip_shape shape = {
        .tensors = 3, .groups = 1, .most = 60, .types = PTX_TYPE_BIT(F32)
    };

    clip_set_create(&clips, &r, &shape);
    OWNED(ptx_buffer) *rows = ptx_buffer_create(gpu.device, 64);
    struct ptx_clip_params params = clip_set_params(&clips);
    params.reports_at = ptx_buffer_address(rows);
    assert_null(ptx_clip_plan_create(gpu.device, &params));
    expect_failure(PTX_ERROR_INVALID, "reports_at: 12 elements are 96 bytes, and its memory ends");
}

// ---- over ranks ---------------------------------------------------------------------------------

// By hand: parts add up in the order of the ranks, copies and absent rows do not count, one part
// alone stays, NaN is in the maximum.
TEST(test_fold)
{
    const double third = 1.0 / 3;
    const struct ptx_gradient_report g[3][4] = {
        { { 3, 2, 0, 5, -1 }, { 0, 0, 1, 0, -1 }, { third, 1, 0, 1, 9 }, { 1, NAN, 0, 0, 70 } },
        { { 4, 7, 0, 1, -1 }, { 0, 0, 1, 0, -1 }, { third, 1, 0, 1, 9 }, { 0, 0, 1, 0, -1 } },
        { { 12, 1, 0, 0, -1 }, { 0, 0, 1, 0, -1 }, { 0, 0, 1, 0, -1 }, { NAN, 5, 0, 2, 64 } },
    };
    const struct ptx_weight_report w[2][2] = { { { 3, third, 2, 0 }, { 1e200, 0, 1, 0 } },
                                               { { 4, 0, 9, 1 }, { 1e200, INFINITY, NAN, 0 } } };
    const bool copies[3][4] = { { 0 }, { 0, 0, 1, 0 }, { 0 } };
    const uint64_t nan = UINT64_MAX >> 1;
    const uint32_t nan32 = UINT32_MAX >> 1;
    struct ptx_gradient_report folded[4];
    struct ptx_weight_report both[2];

    require(ptx_gradient_reports_fold(g[0], copies[0], 3, 4, folded));
    const struct ptx_gradient_report sum = { 13, 7, 0, 6, -1 }, absent = { 0, 0, 1, 0, -1 };
    assert_memory_equal(&folded[0], &sum, sizeof sum);
    assert_memory_equal(&folded[1], &absent, sizeof absent);
    assert_memory_equal(&folded[2], &g[0][2], sizeof *folded);
    assert_memory_equal(&folded[3].norm, &nan, sizeof nan);
    assert_memory_equal(&folded[3].largest, &nan32, sizeof nan32);
    assert_int_equal(folded[3].zeros, 2);
    assert_int_equal(folded[3].first_nonfinite, 64);
    require(ptx_gradient_reports_fold(g[0], NULL, 3, 4, folded));
    assert_true(folded[2].norm == sqrt(third * third + third * third) && folded[2].zeros == 2);

    require(ptx_weight_reports_fold(w[0], NULL, 2, 2, both));
    assert_memory_equal(&both[0], &w[0][0], sizeof *both);
    assert_true(isinf(both[1].norm) && isinf(both[1].change) && !both[1].absent);
    assert_memory_equal(&both[1].largest, &nan32, sizeof nan32);
    expect_refused(ptx_weight_reports_fold(w[0], NULL, 0, 2, both), "ranks is 0");
    expect_refused(ptx_weight_reports_fold(NULL, NULL, 2, 2, both), "rows is NULL");
    expect_refused(ptx_gradient_reports_fold(g[0], NULL, 2, 2, NULL), "folded is NULL");
    require(ptx_gradient_reports_fold(NULL, NULL, 2, 0, NULL));
}

// ---- what was not finite ------------------------------------------------------------------------

// A clip plan of three gradients, of which two may have something.
struct found {
    ptx_buffer *memory, *rows;
    ptx_clip_plan *plan;
};

static struct found found_create(bool reports, float one, float two)
{
    float values[96] = { 1 };
    struct found f = { ptx_buffer_create(gpu.device, sizeof values), rows_create(), NULL };
    const CUdeviceptr at = ptx_buffer_address(f.memory);
    const struct ptx_clip_tensor tensors[] = {
        { .data = at, .count = 32, .dtype = PTX_F32 },
        { .data = at + 128, .count = 32, .dtype = PTX_F32, .group = 1 },
        { .data = at + 256, .count = 32, .dtype = PTX_F32, .group = 1 },
    };

    values[32 + 17] = one;
    values[64 + 3] = two;
    require(ptx_buffer_upload(f.memory, 0, values, sizeof values, gpu.stream));
    f.plan = clip_create(
        &(struct ptx_clip_params) { .tensors = tensors,
                                    .tensor_count = 3,
                                    .group_count = 2,
                                    .max_norm = 1,
                                    .nonfinite = PTX_NONFINITE_SKIP,
                                    .found_inf_at = ptx_buffer_address(f.rows) + 256,
                                    .reports_at = reports ? ptx_buffer_address(f.rows) : 0 });
    require(ptx_buffer_fill(f.rows, 0, 0, ptx_buffer_size(f.rows), gpu.stream));
    require(ptx_clip_plan_run(f.plan, gpu.stream));
    return f;
}

static void found_destroy(struct found *f)
{
    ptx_clip_plan_destroy(&f->plan);
    ptx_buffer_destroy(&f->memory);
    ptx_buffer_destroy(&f->rows);
}

TEST(test_error_if_nonfinite)
{
    static const char *const names[] = { NULL, "blocks.0.weight", NULL };
    static const char *const two[] = {
        "the gradient of tensor 1 (blocks.0.weight) has NaN or infinity, the first at element 17 "
        "(and 1 more tensor)",
        "the gradient of tensor 1 has NaN or infinity, the first at element 17 (and 1 more tensor)"
    };
    struct found f = found_create(true, NAN, INFINITY);

    for (unsigned k = 0; k < 2; k++) {
        assert_int_equal(ptx_clip_plan_error_if_nonfinite(f.plan, k ? NULL : names, gpu.stream),
                         PTX_ERROR_NONFINITE);
        expect_failure(PTX_ERROR_NONFINITE, two[k]);
    }
    expect_failure(PTX_ERROR_NONFINITE, "ptx_clip_plan_error_if_nonfinite: ");
    require(ptx_capture_begin(gpu.device, gpu.stream, PTX_CAPTURE_THREAD_LOCAL));
    assert_int_equal(ptx_clip_plan_error_if_nonfinite(f.plan, NULL, gpu.stream), PTX_ERROR_CAPTURE);
    ptx_graph *graph = ptx_capture_end(gpu.device, gpu.stream);
    ptx_graph_destroy(&graph);
    found_destroy(&f);

    f = found_create(true, 1, -INFINITY);
    assert_int_equal(ptx_clip_plan_error_if_nonfinite(f.plan, names, gpu.stream),
                     PTX_ERROR_NONFINITE);
    expect_failure(PTX_ERROR_NONFINITE, "tensor 2 has NaN or infinity, the first at element 3");
    found_destroy(&f);

    f = found_create(true, 1, 2);
    require(ptx_clip_plan_error_if_nonfinite(f.plan, names, gpu.stream));
    require(ptx_buffer_fill(f.rows, 256, 0x3f, 4, gpu.stream)); // found_inf_at
    require(ptx_clip_plan_run(f.plan, gpu.stream));
    assert_int_equal(ptx_clip_plan_error_if_nonfinite(f.plan, names, gpu.stream),
                     PTX_ERROR_NONFINITE);
    expect_failure(PTX_ERROR_NONFINITE, "every gradient of this plan is finite");
    found_destroy(&f);

    f = found_create(false, 1, NAN);
    assert_int_equal(ptx_clip_plan_error_if_nonfinite(f.plan, names, gpu.stream),
                     PTX_ERROR_NONFINITE);
    expect_failure(PTX_ERROR_NONFINITE, "something in group 1 is NaN or infinite");
    found_destroy(&f);
    expect_refused(ptx_clip_plan_error_if_nonfinite(NULL, NULL, gpu.stream), "the plan is NULL");
    assert_string_equal(ptx_status_name(PTX_ERROR_NONFINITE), "PTX_ERROR_NONFINITE");
}

// Of a shard the element is that of the whole parameter; a plan without a norm detects nothing.
TEST(test_step_error)
{
    struct random r = gpu_random("errors of step plans");
    const struct step_shape shape = { .tensors = 1, .most = 500, .rules = 1 << PTX_STEP_RULE_SGD };
    static const char *const names[] = { "w" };
    OWNED(ptx_buffer) *rows = rows_create();

    do
        step_set_create(&steps, &r, &shape);
    while (!steps.tensors[0].count);
    steps.tensors[0].whole.first = 1000000;
    struct ptx_step_params params = step_set_params(&steps);
    params.max_norm = INFINITY;
    OWNED(ptx_step_plan) *plan = step_create(&params);
    step_set_gradients(&steps, &r, NAN);
    require(ptx_step_plan_run(plan, gpu.stream));
    expect_refused(ptx_step_plan_error_if_nonfinite(plan, names, gpu.stream),
                   "the plan takes no norm");
    ptx_step_plan_destroy(&plan);
    params.reports_at = ptx_buffer_address(rows);
    plan = step_create(&params);
    require(ptx_step_plan_run(plan, gpu.stream));
    assert_int_equal(ptx_step_plan_error_if_nonfinite(plan, names, gpu.stream),
                     PTX_ERROR_NONFINITE);
    expect_failure(PTX_ERROR_NONFINITE,
                   "tensor 0 (w) has NaN or infinity, the first at element 1000");
}

GPU_MAIN
