// SPDX-License-Identifier: MIT
// Clip plans on a GPU, or on the emulator, against the plain-C reference.
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip_fixture.h"
#include "skip.h"
#include "test.h"

static void check_set(struct random *r, const struct clip_shape *shape,
                      struct ptx_clip_params params)
{
    static struct clip_set set;
    clip_set_create(&set, r, shape);
    clip_set_check_runs(&set, r, shape->data, params);
}

TEST(test_random_sets)
{
    static const uint32_t one_type[] = { PTX_TYPE_BIT(F32), PTX_TYPE_BIT(BF16), PTX_TYPE_BIT(F16) };
    struct random r = gpu_random("clip plan");
    for (unsigned trial = 0; trial < 24; ++trial) {
        const struct clip_shape shape = {
            .tensors = 1 + random_below(&r, 20),
            .groups = 1 + random_below(&r, 4),
            .most = trial % 4 == 3 ? 9000 : 3000,
            .types = trial % 6 < 3 ? one_type[trial % 6] : ALL_TYPES,
            .data = trial % 5 == 4 ? DATA_WILD : DATA_PLAIN,
            .aligned = trial % 2,
            .weighted = trial % 3 == 1,
        };
        check_set(&r, &shape, clip_trial_params(trial));
    }
}

TEST(test_policies)
{
    struct random r = gpu_random("policies");
    for (unsigned trial = 0; trial < 9; ++trial) {
        const struct clip_shape shape = { .tensors = 12,
                                          .groups = 3,
                                          .most = 600,
                                          .data = trial % 3 == 2 ? DATA_SPECIAL : DATA_PLAIN,
                                          .aligned = trial % 2 };
        const struct ptx_clip_params params = { .nonfinite = (ptx_nonfinite)(trial / 3),
                                                .loss_scale = 8.0f };
        check_set(&r, &shape, params);
    }
}

/// So many small tensors that they share chunks.
TEST(test_many_tensors)
{
    struct random r = gpu_random("many tensors");
    for (unsigned trial = 0; trial < 4; ++trial) {
        const struct clip_shape shape = { .tensors = 2500 + random_below(&r, 400),
                                          .groups = trial % 2 ? 5 : 1,
                                          .most = 40,
                                          .types = trial / 2 ? ALL_TYPES : PTX_TYPE_BIT(BF16),
                                          .weighted = true };
        const struct ptx_clip_params params = { .nonfinite = PTX_NONFINITE_ZERO,
                                                .loss_scale = trial % 2 ? 7.0f : 0.0f };
        check_set(&r, &shape, params);
    }
}

/// Long chunks, cut into tiles, at odd addresses.
TEST(test_large_sets)
{
    struct random r = gpu_random("large sets");
    if (gpu.max_size < 40000000)
        skip_because("large sets: left out by %s", gpu.limit);
    if (strstr(ptx_device_get_info(gpu.device)->name, "emulator"))
        skip_because("large sets: too slow on the emulator");
    for (unsigned trial = 0; trial < 4; ++trial) {
        const struct clip_shape shape = { .tensors = 7,
                                          .groups = 1 + trial % 2,
                                          .most = 12000000,
                                          .types = trial / 2 ? ALL_TYPES : PTX_TYPE_BIT(BF16),
                                          .aligned = trial == 1 };
        check_set(&r, &shape, (struct ptx_clip_params) { .eps = 1e-6f, .loss_scale = 2.0f });
    }
}

TEST(test_nothing)
{
    struct ptx_clip_record record;
    struct ptx_clip_summary summary;
    OWNED(ptx_clip_plan) *plan = clip_create(&(struct ptx_clip_params) { .max_norm = 1.0f });
    require(ptx_clip_plan_run(plan, gpu.stream));
    require_done(ptx_clip_plan_read(plan, 0, 1, &record, &summary, gpu.stream));
    assert_true(record.factor == 1.0f && record.norm == 0.0f && record.found_inf == 0.0f);
    assert_true(summary.found_inf == 0.0f && summary.loss_scale == 1.0f);
}

/// A limit of 0 makes every gradient 0.
TEST(test_max_norm_of_zero)
{
    static struct clip_set set;
    struct random r = gpu_random("max_norm of zero");
    struct clip_expected expected;
    const struct clip_shape shape = { .tensors = 5, .groups = 2, .most = 600 };
    clip_set_create(&set, &r, &shape);
    set.max_norms[0] = 0.0f;
    const struct ptx_clip_params params = clip_set_params(&set);
    OWNED(ptx_clip_plan) *plan = clip_create(&params);
    for (unsigned turn = 0; turn < 3; turn++) {
        clip_set_expect(&set, &params, 1.0f, &expected);
        require(ptx_clip_plan_run(plan, gpu.stream));
        clip_set_check(&set, plan, &expected);
        clip_set_fill(&set, &r, DATA_PLAIN);
        set.max_norms[turn % 2] = turn % 2 ? 0.0f : INFINITY;
        for (uint32_t g = 0; g < 2; g++)
            require(ptx_clip_plan_set_max_norm(plan, g, set.max_norms[g], gpu.stream));
    }
}

int main(void)
{
    // On the emulator: so few multiprocessors that blocks draw tiles.
    setenv("PTXGEN_EMU_DEVICE", "sm_90,sms=2", 0);
    return gpu_tests_run();
}
