// SPDX-License-Identifier: MIT
// Records and gradients of clip plans beside two references: the one in f32, to the bit, and the
// formula in f64. Norms and scalars of every size, those that vanish in f32 among them. A gradient
// becomes NaN only where found_inf is 1.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clip_fixture.h"
#include "clip_formula.h"
#include "test.h"

// Any size of f32 that is not negative; often 0 or the ends of the range.
static float any_f32(struct random *r)
{
    static const float ends[] = { 0, 0, 0x1p-149f, FLT_MIN, 1, FLT_MAX };
    const uint32_t choice = random_below(r, 16);

    if (choice < sizeof ends / sizeof *ends)
        return ends[choice];
    return (float)ldexp(1 + fabs(random_unit(r)), (int)random_below(r, 277) - 150);
}

static float any_loss_scale(struct random *r)
{
    const uint32_t choice = random_below(r, 4);
    const float scale = any_f32(r);

    return choice == 0 ? 1 : choice == 1 ? 65536 : scale > 0 ? scale : 0x1p-149f;
}

// ---- records ------------------------------------------------------------------------------------

enum { GROUPS = 256 };

// What the host writes and a plan reads.
struct inputs {
    double sums[GROUPS];
    float max_norms[GROUPS];
    float loss_scale;
};

static double any_sum(struct random *r)
{
    static const double ends[] = { 0, 0x1p-1074, 0x1p-300, 0x1p-299, 0x1p256, DBL_MAX };
    const uint32_t choice = random_below(r, 16);

    if (choice < sizeof ends / sizeof *ends)
        return ends[choice];
    if (choice < 10) // a norm about the least f32
        return ldexp(1 + fabs(random_unit(r)), (int)random_below(r, 12) - 306);
    return ldexp(1 + fabs(random_unit(r)), (int)random_below(r, 2098) - 1074);
}

// `bad`: some inputs are NaN, infinite or below 0.
static void fill(struct inputs *in, struct random *r, bool bad)
{
    static const double sums[] = { (double)NAN, (double)INFINITY, -1, -0x1p-1074 };
    static const float scalars[] = { NAN, -1, -0x1p-149f, -INFINITY };
    static const float scales[] = { NAN, -1, -0x1p-149f, INFINITY, 0 };

    for (unsigned g = 0; g < GROUPS; g++) {
        in->sums[g] = bad && random_below(r, 4) == 0 ? sums[random_below(r, 4)] : any_sum(r);
        in->max_norms[g] = random_below(r, 8) ? any_f32(r) : INFINITY;
        if (bad && random_below(r, 4) == 0)
            in->max_norms[g] = scalars[random_below(r, 4)];
    }
    in->loss_scale = bad && random_below(r, 2) ? scales[random_below(r, 5)] : any_loss_scale(r);
}

static void check_formula(const struct inputs *in, unsigned g, float eps, bool skips,
                          const float record[3])
{
    const double sum = in->sums[g], factor = (double)record[0];
    const float max_norm = in->max_norms[g], scale = in->loss_scale;
    const bool usable = sum >= 0 && isfinite(sum) && max_norm >= 0 && scale > 0 && isfinite(scale);
    const struct clip_bounds bounds =
        usable ? clip_formula(sum, max_norm, eps, scale) : (struct clip_bounds) { 0, 0 };
    const bool found = record[2] != 0;

    if (!usable || bounds.least > (double)FLT_MAX)
        assert_true(found);
    else if (bounds.most <= (double)FLT_MAX)
        assert_false(found);
    if (skips && found)
        assert_true(factor == 1);
    else if (!found && !(factor >= bounds.least && factor <= bounds.most))
        fail_msg("sum %a, max_norm %a, eps %a, loss scale %a: factor %a; should be %a to %a", sum,
                 (double)max_norm, (double)eps, (double)scale, factor, bounds.least, bounds.most);
}

// A plan without tensors, whose sums the host writes. `own`: the scalars are those of the plan.
static void check_records(struct random *r, float eps, ptx_nonfinite policy, bool own)
{
    struct inputs in;
    struct ptx_clip_record records[GROUPS];
    OWNED(ptx_buffer) *memory = made(ptx_buffer_create(gpu.device, sizeof in));
    fill(&in, r, false);
    const CUdeviceptr at = ptx_buffer_address(memory);
    struct ptx_clip_params params = { .group_count = GROUPS,
                                      .group_max_norms = in.max_norms,
                                      .loss_scale = in.loss_scale,
                                      .eps = eps,
                                      .nonfinite = policy,
                                      .sums_at = at,
                                      .stream = gpu.stream };
    if (!own) {
        params.max_norms_at = at + offsetof(struct inputs, max_norms);
        params.loss_scale_at = at + offsetof(struct inputs, loss_scale);
    }
    OWNED(ptx_clip_plan) *plan = clip_create(&params);
    for (unsigned turn = 0; turn < 8; turn++) {
        if (!own)
            fill(&in, r, turn % 2);
        for (unsigned g = 0; own && g < GROUPS; g++)
            in.sums[g] = any_sum(r);
        require(ptx_buffer_upload(memory, 0, &in, sizeof in, gpu.stream));
        // The first chunk takes the loss scale; only the last one would write the sums.
        require(ptx_clip_plan_norm_sq_chunks(plan, 0, 1, gpu.stream));
        require(ptx_clip_plan_finish(plan, gpu.stream));
        require_done(ptx_clip_plan_read(plan, 0, GROUPS, records, NULL, gpu.stream));
        const struct ref_clip_plan reference = { .group_count = GROUPS,
                                                 .max_norms = in.max_norms,
                                                 .eps = eps,
                                                 .nonfinite = (enum ref_nonfinite)policy };
        for (unsigned g = 0; g < GROUPS; g++) {
            float expected[3];
            ref_clip_record(&reference, g, in.sums[g], in.loss_scale, expected);
            if (memcmp(&records[g], expected, sizeof expected) != 0)
                fail_msg(
                    "sum %a, max_norm %a, eps %a, loss scale %a: factor %a, norm %a, found_inf "
                    "%g; should be %a, %a, %g",
                    in.sums[g], (double)in.max_norms[g], (double)eps, (double)in.loss_scale,
                    (double)records[g].factor, (double)records[g].norm,
                    (double)records[g].found_inf, (double)expected[0], (double)expected[1],
                    (double)expected[2]);
            check_formula(&in, g, eps, policy == PTX_NONFINITE_SKIP, expected);
        }
    }
}

TEST(test_records)
{
    struct random r = gpu_random("records by the formula");

    for (unsigned trial = 0; trial < 24; trial++)
        check_records(&r, trial % 2 ? any_f32(&r) : 0, (ptx_nonfinite)(trial % 3), trial % 4 > 1);
}

// ---- gradients ----------------------------------------------------------------------------------

static bool has_nan(const struct ref_gradient *x)
{
    for (uint64_t i = 0; i < x->count; i++)
        if (isnan(ref_load(x->type, x->data, i)))
            return true;
    return false;
}

// Finite gradients of one random size a tensor, with zeros.
static void fill_gradients(struct clip_set *set, struct random *r)
{
    for (size_t t = 0; t < set->count; t++) {
        const struct ref_gradient *x = &set->host[t];
        const int least = x->type == REF_F16 ? -25 : x->type == REF_F64 ? -320 : -150;
        const int exponent = least + (int)random_below(r, x->type == REF_F16 ? 38 : 274);
        for (uint64_t i = 0; i < x->count; i++)
            ref_store(x->type, x->data, i,
                      random_below(r, 8) ? ldexp(random_unit(r), exponent) : 0.0);
    }
    clip_set_upload(set);
}

// Whole runs: what was finite stays so, unless found_inf says otherwise.
TEST(test_finite_gradients)
{
    enum { ALL = PTX_TYPE_BIT(F32) | PTX_TYPE_BIT(F64) | PTX_TYPE_BIT(F16) | PTX_TYPE_BIT(BF16) };
    static struct clip_set set;
    struct random r = gpu_random("finite gradients");

    for (unsigned trial = 0; trial < 60; trial++) {
        const struct clip_shape shape = { .tensors = 1 + random_below(&r, 6),
                                          .groups = 1 + random_below(&r, 3),
                                          .most = 40,
                                          .types = trial % 2 ? PTX_TYPE_BIT(F64) : ALL };
        struct clip_expected expected;
        clip_set_create(&set, &r, &shape);
        for (uint32_t g = 0; g < set.groups; g++)
            set.max_norms[g] = random_below(&r, 4) ? any_f32(&r) : 0;
        struct ptx_clip_params params = clip_set_params(&set);
        params.eps = random_below(&r, 2) ? 0 : any_f32(&r);
        params.loss_scale = any_loss_scale(&r);
        params.nonfinite = (ptx_nonfinite)(trial % 3);
        OWNED(ptx_clip_plan) *plan = clip_create(&params);
        fill_gradients(&set, &r);
        clip_set_expect(&set, &params, params.loss_scale, &expected);
        require(ptx_clip_plan_run(plan, gpu.stream));
        clip_set_check(&set, plan, &expected);
        for (size_t t = 0; t < set.count; t++)
            assert_false(expected.records[set.host[t].group][2] == 0 && has_nan(&set.host[t]));
    }
}

// The same for a step, which has no other sign of a bad factor than its parameters.
TEST(test_steps)
{
    enum { COUNT = 32 };
    struct random r = gpu_random("steps over finite gradients");
    struct {
        float parameters[COUNT], gradients[COUNT], step;
    } host;
    OWNED(ptx_buffer) *memory = made(ptx_buffer_create(gpu.device, sizeof host));
    const CUdeviceptr at = ptx_buffer_address(memory);
    const struct ptx_step_tensor tensor = { .parameter = at,
                                            .gradient = at + sizeof host.parameters,
                                            .step = at + 2 * sizeof host.parameters,
                                            .count = COUNT,
                                            .dtype = PTX_F32 };
    const struct ptx_step_group group = { .rule = PTX_STEP_RULE_SGD, .hyper = { .lr = 1 } };
    for (unsigned trial = 0; trial < 60; trial++) {
        const float max_norms[] = { 0, any_f32(&r), INFINITY };
        const float max_norm = max_norms[random_below(&r, 3)];
        const int exponent = (int)random_below(&r, trial % 3 ? 8 : 260) - 149;
        OWNED(ptx_step_plan) *plan = made(ptx_step_plan_create(
            gpu.device, &(struct ptx_step_params) {
                            ONE_TENSOR(tensor, group), .group_max_norms = &max_norm,
                            .norm_group_count = 1, .loss_scale = any_loss_scale(&r),
                            .eps = random_below(&r, 2) ? 0 : any_f32(&r), .stream = gpu.stream }));
        memset(&host, 0, sizeof host);
        for (unsigned i = 0; i < COUNT; i++)
            host.gradients[i] = i ? (float)ldexp(random_unit(&r), exponent) : 0;
        require(ptx_buffer_upload(memory, 0, &host, sizeof host, gpu.stream));
        require(ptx_step_plan_run(plan, gpu.stream));
        require_done(ptx_buffer_download(memory, 0, &host, sizeof host, gpu.stream));
        for (unsigned i = 0; i < COUNT; i++)
            assert_true(!isnan(host.parameters[i]));
    }
}

// ---- roundings ----------------------------------------------------------------------------------

// Products of f16 and bf16 are rounded to f32, then to the type. One rounding would give other
// elements.
TEST(test_two_roundings)
{
    enum { ALL = 1 << 16 };
    static uint16_t gradients[2][ALL], got[2][ALL];
    static const enum ref_type types[2] = { REF_F16, REF_BF16 };
    struct random r = gpu_random("two roundings");
    const float one = 1;
    unsigned differ[2] = { 0 };
    OWNED(ptx_buffer) *memory = made(ptx_buffer_create(gpu.device, sizeof gradients + sizeof one));
    for (unsigned t = 0; t < 2; t++)
        for (unsigned k = 0; k < ALL; k++) {
            gradients[t][k] = (uint16_t)k;
            if (!isfinite(ref_load(types[t], gradients[t], k)))
                gradients[t][k] = 0;
        }
    const CUdeviceptr at = ptx_buffer_address(memory);
    const struct ptx_clip_tensor tensors[] = {
        { .data = at, .count = ALL, .dtype = PTX_F16, .uncounted = true },
        { .data = at + sizeof *gradients, .count = ALL, .dtype = PTX_BF16, .uncounted = true },
        { .data = at + sizeof gradients, .count = 1, .dtype = PTX_F32 }, // the norm is 1
    };
    OWNED(ptx_clip_plan) *plan = clip_create(&(struct ptx_clip_params) {
        .tensors = tensors, .tensor_count = 3, .max_norm = 1, .stream = gpu.stream });
    for (unsigned turn = 0; turn < 8; turn++) {
        const float factor = clip_rounded_twice(&r, types[turn % 2]).factor;
        require(ptx_clip_plan_set_max_norm(plan, 0, factor, gpu.stream));
        require(ptx_buffer_upload(memory, 0, gradients, sizeof gradients, gpu.stream));
        require(ptx_buffer_upload(memory, sizeof gradients, &one, sizeof one, gpu.stream));
        require(ptx_clip_plan_run(plan, gpu.stream));
        require_done(ptx_buffer_download(memory, 0, got, sizeof got, gpu.stream));
        for (unsigned t = 0; t < 2; t++)
            for (unsigned k = 0; k < ALL; k++) {
                const double g = ref_load(types[t], gradients[t], k);
                const uint16_t twice = clip_rounded(types[t], g, factor, true);
                if (got[t][k] != twice)
                    fail_msg("%a times %a is %a; should be %a", g, (double)factor,
                             ref_load(types[t], got[t], k), ref_load(types[t], &twice, 0));
                differ[t] += twice != clip_rounded(types[t], g, factor, false);
            }
    }
    assert_true(differ[0] > 0 && differ[1] > 0);
}

// ---- infinity -----------------------------------------------------------------------------------

// An infinite gradient. With a finite max_norm the factor is 0, with an infinite one NaN, as
// torch's coefficient inf / (inf + eps), clamped to 1.
TEST(test_infinite_gradient)
{
    const float max_norms[] = { 1, INFINITY };

    for (unsigned k = 0; k < 2; k++) {
        float gradient[2] = { INFINITY, 1 };
        struct ptx_clip_record record;
        OWNED(ptx_buffer) *memory = made(ptx_buffer_create(gpu.device, sizeof gradient));
        const struct ptx_clip_tensor tensor = { .data = ptx_buffer_address(memory),
                                                .count = 2,
                                                .dtype = PTX_F32 };
        OWNED(ptx_clip_plan) *plan =
            clip_create(&(struct ptx_clip_params) { .tensors = &tensor,
                                                    .tensor_count = 1,
                                                    .max_norm = max_norms[k],
                                                    .eps = 1e-6f,
                                                    .stream = gpu.stream });
        require(ptx_buffer_upload(memory, 0, gradient, sizeof gradient, gpu.stream));
        require(ptx_clip_plan_run(plan, gpu.stream));
        require(ptx_clip_plan_read(plan, 0, 1, &record, NULL, gpu.stream));
        require_done(ptx_buffer_download(memory, 0, gradient, sizeof gradient, gpu.stream));
        assert_true(record.found_inf == 1 && isinf(record.norm) && isnan(gradient[0]));
        assert_true(k ? isnan(record.factor) && isnan(gradient[1])
                      : record.factor == 0 && gradient[1] == 0);
    }
}

// A tensor that is not counted, in a chunk with others or of its own: infinity makes the norm
// infinite, NaN makes it NaN, and finite elements leave it.
TEST(test_not_finite_and_uncounted)
{
    enum { MOST = 40000, ALONE = 8 };
    static float gradient[MOST + ALONE];
    static const size_t counts[] = { 2, MOST };
    static const float elements[] = { 3e38f, -INFINITY, NAN };
    OWNED(ptx_buffer) *memory = made(ptx_buffer_create(gpu.device, sizeof gradient));
    const CUdeviceptr at = ptx_buffer_address(memory);

    for (unsigned k = 0; k < 2; k++)
        for (unsigned e = 0; e < 3; e++)
            for (unsigned reports = 0; reports < 2; reports++) {
                const struct ptx_clip_tensor tensors[] = {
                    { .data = at, .count = 1, .dtype = PTX_F32 }, // the norm is 3
                    { .data = at + ALONE * sizeof *gradient,
                      .count = counts[k],
                      .dtype = PTX_F32,
                      .uncounted = true },
                };
                struct ptx_clip_record record;
                OWNED(ptx_buffer) *rows =
                    made(ptx_buffer_create(gpu.device, 2 * sizeof(struct ptx_gradient_report)));
                OWNED(ptx_clip_plan) *plan = clip_create(&(struct ptx_clip_params) {
                    .tensors = tensors,
                    .tensor_count = 2,
                    .max_norm = 1,
                    .reports_at = reports ? ptx_buffer_address(rows) : 0,
                    .stream = gpu.stream });
                memset(gradient, 0, sizeof gradient);
                gradient[0] = 3;
                gradient[ALONE + 1] = elements[e];
                require(ptx_buffer_upload(memory, 0, gradient, sizeof gradient, gpu.stream));
                require(ptx_clip_plan_run(plan, gpu.stream));
                require_done(ptx_clip_plan_read(plan, 0, 1, &record, NULL, gpu.stream));
                assert_int_equal(record.found_inf, e != 0);
                assert_true(e == 0   ? record.norm == 3
                            : e == 1 ? isinf(record.norm)
                                     : isnan(record.norm));
            }
}

int main(void)
{
    if (getenv("PTXGEN_TEST_FILTER"))
        cmocka_set_test_filter(getenv("PTXGEN_TEST_FILTER"));
    return gpu_tests_run();
}
