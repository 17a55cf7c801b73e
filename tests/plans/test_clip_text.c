// SPDX-License-Identifier: MIT
// The kernels of clip plans for every target, assembled by ptxas (77 without one); the parameters
// that the text depends on; and the description of a plan without a GPU.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ptxgen/clip.h>

#include "kernels/clip_apply.h"
#include "plan_text.h"

enum { TENSORS = 4 };

static const struct ptx_loss_scale_params update;

static void fill(struct ptx_clip_tensor tensors[TENSORS], const ptx_type *types, uint64_t count)
{
    for (unsigned t = 0; t < TENSORS; ++t)
        tensors[t] = (struct ptx_clip_tensor) { .count = count, .dtype = types[t], .group = t / 2 };
}

static char *text_of(const struct ptx_clip_params *params, struct ptx_target target)
{
    const struct ptx_builder_params builder = { .target = target };
    ptx_builder *b = ptx_builder_create(&builder);
    if (ptx_clip_emit(b, params) != PTX_OK)
        fail_msg("%s", ptx_error_message());
    return plan_text_finish(b);
}

static void assemble(const struct ptx_clip_params *params, struct ptx_target target)
{
    plan_text_assemble(text_of(params, target), target);
}

static void test_targets(void **state)
{
    static const ptx_type sets[][TENSORS] = { { PTX_F32, PTX_F32, PTX_F32, PTX_F32 },
                                              { PTX_BF16, PTX_BF16, PTX_F16, PTX_F16 },
                                              { PTX_F32, PTX_F64, PTX_F16, PTX_BF16 } };
    static const uint64_t counts[] = { 1000, 1000000, 100000000 };
    struct ptx_clip_tensor tensors[TENSORS];
    struct ptx_target target;
    unsigned variant = 0;
    (void)state;
    for (size_t k = 0; ptx_target_at(k, &target, NULL); ++k)
        for (size_t s = 0; s < 3; ++s, ++variant) {
            fill(tensors, sets[s], counts[variant % 3]);
            assemble(&(struct ptx_clip_params) { .tensors = tensors,
                                                 .max_norm = 1,
                                                 .tensor_count = TENSORS,
                                                 .nonfinite = (ptx_nonfinite)(variant / 3 % 3),
                                                 .max_norms_at = variant & 2 ? 4 : 0,
                                                 .update = variant % 2 ? &update : NULL,
                                                 .found_inf_at = variant & 4 ? 12 : 0,
                                                 .found_inf_to = variant & 8 ? 16 : 0,
                                                 .sum_rows = variant & 16 ? 3 : 0 },
                     target);
        }
    plan_text_end();
}

/// The same with small tensors that share chunks, of short and long chunks.
static void test_targets_packed(void **state)
{
    enum { MANY = 3000 };
    static const ptx_type sets[][TENSORS] = { { PTX_F32, PTX_F32, PTX_F32, PTX_F32 },
                                              { PTX_BF16, PTX_BF16, PTX_BF16, PTX_BF16 },
                                              { PTX_F32, PTX_F64, PTX_F16, PTX_BF16 } };
    static struct ptx_clip_tensor tensors[MANY];
    struct ptx_clip_params params = { .tensors = tensors, .tensor_count = MANY, .max_norm = 1 };
    struct ptx_target target;
    unsigned variant = 0;
    (void)state;
    for (size_t k = 0; ptx_target_at(k, &target, NULL); ++k)
        for (size_t s = 0; s < 3; ++s, ++variant) {
            struct ptx_clip_description d;
            for (size_t t = 0; t < MANY; ++t)
                tensors[t] = (struct ptx_clip_tensor) { .count = variant % 2 ? 7000 : 20,
                                                        .dtype = sets[s][t % TENSORS] };
            params.nonfinite = (ptx_nonfinite)(variant / 3 % 3);
            params.update = variant % 2 ? &update : NULL;
            assert_int_equal(ptx_clip_describe(&params, &d), PTX_OK);
            assert_true(d.chunks <= MANY / 2 && d.chunk == (variant % 2 ? 16384 : 2048));
            assemble(&params, target);
        }
    plan_text_end();
}

/// The same with each guard in turn.
static void test_targets_guarded(void **state)
{
    static const struct ptx_guard_params guards[] = {
        { .limit = 1, .history.length = 128 },
        { .limits_at = 16, .skip_at = 4, .zclip.warmup = 25 },
        { .history = { .length = 128, .loss_at = 4, .most_skips = 3 }, .adagc.warmup = 100 },
        { .history = { .length = 6, .one_group = true } },
    };
    static const ptx_type types[TENSORS] = { PTX_F32, PTX_F64, PTX_F16, PTX_BF16 };
    struct ptx_clip_tensor tensors[TENSORS];
    struct ptx_target target;
    (void)state;
    fill(tensors, types, 1000);
    for (size_t k = 0; ptx_target_at(k, &target, NULL); ++k)
        assemble(&(struct ptx_clip_params) { .tensors = tensors,
                                             .max_norm = 1,
                                             .tensor_count = TENSORS,
                                             .nonfinite = (ptx_nonfinite)(k % 3),
                                             .update = k % 2 ? &update : NULL,
                                             .guards = &guards[k % 4],
                                             .reports_at = k % 3 ? 8 : 0,
                                             .sum_rows = k & 4 ? 3 : 0 },
                 target);
    plan_text_end();
}

/// One module serves plans of many sizes. If the text had sizes in it, each plan would compile its
/// own.
static void test_text_is_shared(void **state)
{
    static const ptx_type types[TENSORS] = { PTX_F32, PTX_F32, PTX_F32, PTX_F32 };
    struct ptx_clip_tensor tensors[TENSORS];
    struct ptx_clip_params params = { .tensors = tensors, .tensor_count = TENSORS, .max_norm = 1 };
    (void)state;
    fill(tensors, types, 1000);
    char *one = text_of(&params, (struct ptx_target) { .sm = 90 });
    fill(tensors, types, 77777);
    params.tensor_count = 3;
    params.group_count = 9;
    params.max_norm = 3.0f;
    params.eps = 1e-6f;
    params.loss_scale = 512.0f;
    char *other = text_of(&params, (struct ptx_target) { .sm = 90 });
    assert_string_equal(one, other);
    free(one);
    free(other);
}

static void test_description(void **state)
{
    static const ptx_type types[TENSORS] = { PTX_F32, PTX_F64, PTX_F16, PTX_BF16 };
    struct ptx_clip_tensor tensors[TENSORS];
    struct ptx_clip_params params = { .tensors = tensors, .tensor_count = TENSORS, .max_norm = 1 };
    struct ptx_clip_description d;
    (void)state;
    fill(tensors, types, 5000);
    tensors[3].count = 0;
    assert_int_equal(ptx_clip_describe(&params, &d), PTX_OK);
    assert_int_equal(d.elements, 15000);
    assert_int_equal(d.groups, 2);
    assert_int_equal(d.chunk, 2048);
    assert_int_equal(d.chunks, 9);
    assert_int_equal(d.launches, 2);
    assert_int_equal(d.bytes_measured, 5000 * (4 + 8 + 2));
    assert_int_equal(d.bytes_clipped, 3 * d.bytes_measured);
    assert_true(d.workspace > 0 && d.workspace < 8192);
    assert_string_equal(d.accumulator, "f64");
    params.sum_rows = 2; // norms, sums, records, gradients
    assert_int_equal(ptx_clip_describe(&params, &d), PTX_OK);
    assert_int_equal(d.launches, 4);
    params.sum_rows = 0;
    params.sums_at = 8; // a run writes them; blocks do not add them up themselves
    assert_int_equal(ptx_clip_describe(&params, &d), PTX_OK);
    assert_int_equal(d.launches, 3);
    params.sums_at = 0;
    params.measure_only = true;
    assert_int_equal(ptx_clip_describe(&params, &d), PTX_OK);
    assert_int_equal(d.bytes_clipped, d.bytes_measured);
    assert_int_equal(d.launches, 2);
    params.sum_rows = 2; // no gradients
    assert_int_equal(ptx_clip_describe(&params, &d), PTX_OK);
    assert_int_equal(d.launches, 3);
    params.sum_rows = 0;
    // The greatest number of tensors of a plan: nothing wraps.
    params.measure_only = false;
    fill(tensors, types, PTX_CLIP_MAX_ELEMENTS / 4);
    assert_int_equal(ptx_clip_describe(&params, &d), PTX_OK);
    assert_true(d.elements == PTX_CLIP_MAX_ELEMENTS && d.launches == 3);
    assert_true(d.chunks * d.chunk == d.elements);
}

/// A tile of a long chunk is what a block scales at a time: shorter where there are types of 32 or
/// 64 bits, unless small tensors share chunks.
static void test_tiles(void **state)
{
    (void)state;
    const uint32_t f32 = PTX_TYPE_BIT(F32), f64 = PTX_TYPE_BIT(F64), f16 = PTX_TYPE_BIT(F16);
    const struct {
        struct norm_spec spec;
        uint32_t tile;
    } cases[] = {
        { { .dtypes = f32, .chunk = 2048 }, 2048 },
        { { .dtypes = f32, .chunk = 8192, .packs = true }, 8192 },
        { { .dtypes = f32, .chunk = 16384 }, 4096 },
        { { .dtypes = f64 | f16, .chunk = 65536 }, 4096 },
        { { .dtypes = f16 | PTX_TYPE_BIT(BF16), .chunk = 16384 }, 8192 },
        { { .dtypes = f32, .chunk = 16384, .packs = true }, 8192 },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
        assert_int_equal(ptxk_clip_tile(&cases[k].spec), cases[k].tile);
        assert_int_equal(ptxk_clip_tiles_of_chunk(&cases[k].spec),
                         cases[k].spec.chunk / cases[k].tile);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets),         cmocka_unit_test(test_targets_packed),
        cmocka_unit_test(test_targets_guarded), cmocka_unit_test(test_text_is_shared),
        cmocka_unit_test(test_description),     cmocka_unit_test(test_tiles),
    };
    return ptxas_status(cmocka_run_group_tests_name("clip plans: text", tests, NULL, NULL));
}
