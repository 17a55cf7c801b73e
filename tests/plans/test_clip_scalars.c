// SPDX-License-Identifier: MIT
// Clip plans with scalars and sums at the caller's addresses: max_norm, the loss scale, found_inf
// and the sums.
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "caller_scalars.h"
#include "clip_fixture.h"

enum { ALL_TYPES = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16) };

static struct gpu gpu;
static struct clip_set set;

static void check_scalars(struct random *r, struct ptx_clip_params params, unsigned has)
{
    struct caller_scalars scalars;
    struct clip_expected expected;
    float own[sizeof set.max_norms / sizeof *set.max_norms];

    // The caller's may be values that the next plan's creation refuses.
    memcpy(own, set.max_norms, sizeof own);
    caller_scalars_create(&scalars, &gpu, r, has);
    CALLER_SCALARS_SET(&scalars, &params);
    ptx_clip_plan *plan = clip_create(&gpu, &params);
    const struct any_plan any = { .clip = plan, .measures = params.measure_only };
    ptx_graph *graph = plan_capture(&gpu, any);
    for (unsigned step = 0; step < 6; step++) {
        caller_scalars_change(&scalars, r);
        const float scale = caller_scalars_loss_scale(&scalars, 1.0f);
        for (uint32_t g = 0; has & CALLER_MAX_NORMS && g < set.groups; g++)
            set.max_norms[g] = scalars.values.max_norms[g];
        set.found_inf = has & CALLER_FOUND_INF ? scalars.values.found_inf : 0;
        clip_set_fill(&set, r, step == 4 ? DATA_SPECIAL : DATA_PLAIN);
        clip_set_expect(&set, &params, scale, &expected);
        plan_run(&gpu, any, (enum plan_form)(step % 3), graph);
        clip_set_check(&set, plan, &expected);
        caller_scalars_check(&scalars, expected.found);
    }
    memcpy(set.max_norms, own, sizeof own);
    ptx_graph_destroy(&graph);
    ptx_clip_plan_destroy(&plan);
    caller_scalars_destroy(&scalars);
    set.found_inf = 0;
}

// Every combination of the first three scalars, with each source of the loss scale in turn.
static void test_random_sets(void **state)
{
    (void)state;
    static const unsigned scale[] = { 0, CALLER_LOSS_SCALE, CALLER_STATE, CALLER_UPDATED_STATE };
    struct random r = gpu_random(&gpu, "scalars of the caller");

    for (unsigned trial = 0; trial < 32; trial++) {
        const struct clip_shape shape = { .tensors = 1 + random_below(&r, 12),
                                          .groups = 1 + random_below(&r, 4),
                                          .most = 2500,
                                          .types = ALL_TYPES,
                                          .data = DATA_PLAIN,
                                          .aligned = trial % 2 };
        clip_set_create(&set, &gpu, &r, &shape);
        struct ptx_clip_params params = clip_set_params(&set);
        params.nonfinite = (ptx_nonfinite)(trial % 3);
        params.measure_only = trial % 7 == 3;
        check_scalars(&r, params, trial % 8 | scale[trial / 8]);
        clip_set_destroy(&set);
    }
}

// Tensors that share chunks. Factors come from the partials, or from the records where a run writes
// the sums at the caller's address.
static void test_packed_sets(void **state)
{
    (void)state;
    struct random r = gpu_random(&gpu, "scalars of the caller, packed");
    const struct clip_shape shape = { .tensors = 2300,
                                      .groups = 3,
                                      .most = 30,
                                      .types = PTX_TYPE_BIT(F32),
                                      .data = DATA_PLAIN,
                                      .aligned = true };
    ptx_buffer *sums = ptx_buffer_create(gpu.device, shape.groups * sizeof(double));

    assert_non_null(sums);
    clip_set_create(&set, &gpu, &r, &shape);
    struct ptx_clip_params params = clip_set_params(&set);
    params.nonfinite = PTX_NONFINITE_SKIP;
    for (unsigned own = 0; own < 2; own++) {
        params.sums_at = own ? 0 : ptx_buffer_address(sums);
        check_scalars(&r, params, CALLER_MAX_NORMS | CALLER_FOUND_INF | CALLER_FOUND_INF_TO);
    }
    clip_set_destroy(&set);
    ptx_buffer_destroy(&sums);
}

// Two plans, each with its own gradients, share their norms. Each plan's sums have their own row;
// each factor comes from the sum over both rows.
static void test_shared_sums(void **state)
{
    (void)state;
    enum { GROUPS = 3, PLANS = 2 };
    static struct clip_set sets[PLANS];
    struct random r = gpu_random(&gpu, "shared sums");
    const struct clip_shape shape = {
        .tensors = 7, .groups = GROUPS, .most = 2500, .types = ALL_TYPES, .data = DATA_PLAIN
    };
    ptx_buffer *sums = ptx_buffer_create(gpu.device, (size_t)PLANS * GROUPS * sizeof(double));
    struct clip_expected expected[PLANS];
    ptx_clip_plan *plans[PLANS];

    assert_non_null(sums);
    for (unsigned k = 0; k < PLANS; k++) {
        clip_set_create(&sets[k], &gpu, &r, &shape);
        memcpy(sets[k].max_norms, sets[0].max_norms, sizeof sets[0].max_norms);
        struct ptx_clip_params params = clip_set_params(&sets[k]);
        params.sum_rows = PLANS;
        params.sum_row = PLANS - 1 - k;
        params.sums_at = ptx_buffer_address(sums);
        plans[k] = clip_create(&gpu, &params);
        assert_true(ptx_clip_plan_get_info(plans[k])->sums == params.sums_at);
        params.measure_only = true; // the gradients stay for now
        clip_set_expect(&sets[k], &params, 1.0f, &expected[k]);
        require(ptx_clip_plan_norm_sq(plans[k], gpu.stream));
    }
    for (unsigned k = 0; k < PLANS; k++) {
        const struct ref_clip_plan plan = { .tensors = sets[k].host,
                                            .tensor_count = sets[k].count,
                                            .group_count = GROUPS,
                                            .max_norms = sets[k].max_norms };
        struct clip_expected both = { .found = false };
        for (uint32_t g = 0; g < GROUPS; g++) {
            ref_clip_record(&plan, g, expected[1].sums[g] + expected[0].sums[g], 1.0f,
                            both.records[g]);
            ref_clip_apply(&plan, g, both.records[g]);
        }
        require(ptx_clip_plan_finish(plans[k], gpu.stream));
        require(ptx_clip_plan_apply(plans[k], gpu.stream));
        clip_set_check(&sets[k], plans[k], &both);
        assert_int_equal(ptx_clip_plan_run(plans[k], gpu.stream), PTX_ERROR_INVALID);
        assert_non_null(strstr(ptx_error_message(), "the plan shares its norm"));
    }
    for (unsigned k = 0; k < PLANS; k++) {
        ptx_clip_plan_destroy(&plans[k]);
        clip_set_destroy(&sets[k]);
    }
    ptx_buffer_destroy(&sums);
}

// The sums of one plan at the caller's address: a run writes them too.
static void test_sums_of_one_plan(void **state)
{
    (void)state;
    struct random r = gpu_random(&gpu, "sums of one clip plan");
    const struct clip_shape shape = {
        .tensors = 7, .groups = 3, .most = 2500, .types = ALL_TYPES, .data = DATA_PLAIN
    };
    double got[3];
    ptx_buffer *sums = ptx_buffer_create(gpu.device, sizeof got);
    struct clip_expected expected;

    assert_non_null(sums);
    clip_set_create(&set, &gpu, &r, &shape);
    struct ptx_clip_params params = clip_set_params(&set);
    params.sums_at = ptx_buffer_address(sums);
    ptx_clip_plan *plan = clip_create(&gpu, &params);
    clip_set_expect(&set, &params, 1.0f, &expected);
    require(ptx_clip_plan_run(plan, gpu.stream));
    clip_set_check(&set, plan, &expected);
    require(ptx_buffer_download(sums, 0, got, sizeof got, gpu.stream));
    require(ptx_stream_synchronize(gpu.device, gpu.stream));
    assert_memory_equal(got, expected.sums, sizeof got);
    ptx_clip_plan_destroy(&plan);
    clip_set_destroy(&set);
    ptx_buffer_destroy(&sums);
}

// A setter refuses a scalar that the plan reads at the caller's address, and only that one.
// max_norm may then be left out.
static void test_setters(void **state)
{
    (void)state;
    struct random r = gpu_random(&gpu, "setters of the caller's");
    const struct ptx_loss_scale_state one = { .scale = 1 };

    for (unsigned k = 0; k < 2; k++) {
        const unsigned has = k ? CALLER_LOSS_SCALE : CALLER_MAX_NORMS;
        struct caller_scalars scalars;
        struct ptx_clip_params params = { .stream = gpu.stream };
        caller_scalars_create(&scalars, &gpu, &r, has);
        CALLER_SCALARS_SET(&scalars, &params);
        params.max_norm = has == CALLER_MAX_NORMS ? 0.0f : 1.0f;
        ptx_clip_plan *plan = clip_create(&gpu, &params);
        const ptx_status norm = ptx_clip_plan_set_max_norm(plan, 0, 1, gpu.stream);
        if (has == CALLER_MAX_NORMS)
            expect_refused(norm, "the plan reads it at max_norms_at, 0x");
        const ptx_status scale = ptx_clip_plan_set_loss_scale(plan, one, gpu.stream);
        if (has == CALLER_LOSS_SCALE)
            expect_refused(scale, "the plan reads it at loss_scale_at, 0x");
        require(has == CALLER_MAX_NORMS ? scale : norm);
        ptx_clip_plan_destroy(&plan);
        caller_scalars_destroy(&scalars);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_sets), cmocka_unit_test(test_packed_sets),
        cmocka_unit_test(test_shared_sums), cmocka_unit_test(test_sums_of_one_plan),
        cmocka_unit_test(test_setters),
    };
    // On the emulator: so few multiprocessors that blocks draw tiles.
    setenv("PTXGEN_EMU_DEVICE", "sm_90,sms=2", 0);
    gpu_open(&gpu);
    int failed =
        cmocka_run_group_tests_name("clip plans: scalars of the caller", tests, NULL, NULL);
    gpu_close(&gpu);
    return failed;
}
