// SPDX-License-Identifier: MIT
// The kernels of plans for every target, assembled by ptxas (77 without one); the parameters that a
// text depends on; and the description of a plan without a GPU. test_plan_refusals.c has what is
// refused.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/clip_apply.h"
#include "plan_calls.h"
#include "ptxas_batch.h"
#include "skip.h"
#include "test.h"

enum { STEP_RULES = PTX_STEP_RULE_MUON }; // those of elements

/// Returns the builder's text, which the caller frees, and destroys the builder.
static char *text_of_builder(ptx_builder *b)
{
    const char *text = ptx_builder_finish(b);
    if (!text)
        fail_msg("%s", ptx_builder_error(b));
    char *copy = malloc(strlen(text) + 1);
    assert_non_null(copy);
    strcpy(copy, text);
    ptx_builder_destroy(&b);
    return copy;
}

/// Fails unless ptxas accepts the text, if there is a ptxas that knows the target. Frees the text.
static void assemble(char *text, struct ptx_target target)
{
    char name[PTX_TARGET_NAME_SIZE];
    ptx_target_name(target, name);
    if (ptxas_find() && ptxas_knows(name)) {
        struct ptxas_report report = ptxas_run(text, name);
        if (!report.accepted)
            fail_msg("%s, line %d: %s\n%s", name, report.count ? report.errors[0].line : 0,
                     report.count ? report.errors[0].text : "no message", text);
        ptxas_report_free(&report);
    }
    free(text);
}

/// Ends a test of texts, as skipped where there is no ptxas: the texts were built, and no more.
static void end_of_texts(void)
{
    if (!ptxas_find())
        skip_because("no ptxas: texts are built, and not assembled");
}

// The text of a plan with these parameters, and the same assembled.
#define KIND(kind)                                                                                 \
    static char *kind##_text(const struct ptx_##kind##_params *params, struct ptx_target target)   \
    {                                                                                              \
        ptx_builder *b = ptx_builder_create(&(struct ptx_builder_params) { .target = target });    \
        require(ptx_##kind##_emit(b, params));                                                     \
        return text_of_builder(b);                                                                 \
    }                                                                                              \
    static void kind##_assemble(const struct ptx_##kind##_params *params,                          \
                                struct ptx_target target)                                          \
    {                                                                                              \
        assemble(kind##_text(params, target), target);                                             \
    }
KIND(clip)
KIND(step)

// ---- clip plans ---------------------------------------------------------------------------------

enum { TENSORS = 4 };

static const struct ptx_loss_scale_params update;

static void fill(struct ptx_clip_tensor tensors[TENSORS], const ptx_type *types, uint64_t count)
{
    for (unsigned t = 0; t < TENSORS; ++t)
        tensors[t] = (struct ptx_clip_tensor) { .count = count, .dtype = types[t], .group = t / 2 };
}

TEST(test_targets_of_clip)
{
    static const ptx_type sets[][TENSORS] = { { PTX_F32, PTX_F32, PTX_F32, PTX_F32 },
                                              { PTX_BF16, PTX_BF16, PTX_F16, PTX_F16 },
                                              { PTX_F32, PTX_F64, PTX_F16, PTX_BF16 } };
    static const uint64_t counts[] = { 1000, 1000000, 100000000 };
    struct ptx_clip_tensor tensors[TENSORS];
    struct ptx_target target;
    unsigned variant = 0;
    for (size_t k = 0; ptx_target_at(k, &target, NULL); ++k)
        for (size_t s = 0; s < 3; ++s, ++variant) {
            fill(tensors, sets[s], counts[variant % 3]);
            tensors[1].uncounted = variant / 3 % 2;
            clip_assemble(&(struct ptx_clip_params) { .tensors = tensors,
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
    end_of_texts();
}

/// The same with small tensors that share chunks, of short and long chunks.
TEST(test_targets_packed)
{
    enum { MANY = 3000 };
    static const ptx_type sets[][TENSORS] = { { PTX_F32, PTX_F32, PTX_F32, PTX_F32 },
                                              { PTX_BF16, PTX_BF16, PTX_BF16, PTX_BF16 },
                                              { PTX_F32, PTX_F64, PTX_F16, PTX_BF16 } };
    static struct ptx_clip_tensor tensors[MANY];
    struct ptx_clip_params params = { .tensors = tensors, .tensor_count = MANY, .max_norm = 1 };
    struct ptx_target target;
    unsigned variant = 0;
    for (size_t k = 0; ptx_target_at(k, &target, NULL); ++k)
        for (size_t s = 0; s < 3; ++s, ++variant) {
            struct ptx_clip_description d;
            for (size_t t = 0; t < MANY; ++t)
                tensors[t] = (struct ptx_clip_tensor) { .count = variant % 2 ? 7000 : 20,
                                                        .dtype = sets[s][t % TENSORS],
                                                        .uncounted = variant / 3 % 2 };
            params.nonfinite = (ptx_nonfinite)(variant / 3 % 3);
            params.update = variant % 2 ? &update : NULL;
            require(ptx_clip_describe(&params, &d));
            assert_true(d.chunks <= MANY / 2 && d.chunk == (variant % 2 ? 16384 : 2048));
            clip_assemble(&params, target);
        }
    end_of_texts();
}

/// The same with each guard in turn.
TEST(test_targets_guarded)
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
    fill(tensors, types, 1000);
    for (size_t k = 0; ptx_target_at(k, &target, NULL); ++k)
        clip_assemble(&(struct ptx_clip_params) { .tensors = tensors,
                                                  .max_norm = 1,
                                                  .tensor_count = TENSORS,
                                                  .nonfinite = (ptx_nonfinite)(k % 3),
                                                  .update = k % 2 ? &update : NULL,
                                                  .guards = &guards[k % 4],
                                                  .reports_at = k % 3 ? 8 : 0,
                                                  .sum_rows = k & 4 ? 3 : 0 },
                      target);
    end_of_texts();
}

TEST(test_description_of_clip)
{
    static const ptx_type types[TENSORS] = { PTX_F32, PTX_F64, PTX_F16, PTX_BF16 };
    struct ptx_clip_tensor tensors[TENSORS];
    struct ptx_clip_params params = { .tensors = tensors, .tensor_count = TENSORS, .max_norm = 1 };
    struct ptx_clip_description d;
    fill(tensors, types, 5000);
    tensors[3].count = 0;
    require(ptx_clip_describe(&params, &d));
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
    require(ptx_clip_describe(&params, &d));
    assert_int_equal(d.launches, 4);
    params.sum_rows = 0;
    params.sums_at = 8; // a run writes them; blocks do not add them up themselves
    require(ptx_clip_describe(&params, &d));
    assert_int_equal(d.launches, 3);
    params.sums_at = 0;
    params.measure_only = true;
    require(ptx_clip_describe(&params, &d));
    assert_int_equal(d.bytes_clipped, d.bytes_measured);
    assert_int_equal(d.launches, 2);
    params.sum_rows = 2; // no gradients
    require(ptx_clip_describe(&params, &d));
    assert_int_equal(d.launches, 3);
    params.sum_rows = 0;
    // The greatest number of tensors of a plan: nothing wraps.
    params.measure_only = false;
    fill(tensors, types, PTX_CLIP_MAX_ELEMENTS / 4);
    require(ptx_clip_describe(&params, &d));
    assert_true(d.elements == PTX_CLIP_MAX_ELEMENTS && d.launches == 3);
    assert_true(d.chunks * d.chunk == d.elements);
}

/// A tile of a long chunk is what a block scales at a time: shorter where there are types of 32 or
/// 64 bits, unless small tensors share chunks.
TEST(test_tiles)
{
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

// ---- step plans ---------------------------------------------------------------------------------

static const struct ptx_step_hyper hyper = {
    .lr = 0.001, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .momentum = 0.9
};

static struct ptx_step_tensor tensor_of(ptx_step_format format)
{
    return (struct ptx_step_tensor) {
        .count = 1000,
        .dtype = format == PTX_STEP_FORMAT_FULL || format == PTX_STEP_FORMAT_STATE_BF16 ? PTX_F32
                                                                                        : PTX_BF16,
        .format = format,
    };
}

// Every format on every target, with the rules in turn; all formats of a target also in one text.
TEST(test_targets_of_step)
{
    static const ptx_type gradients[] = { PTX_F32, PTX_BF16, PTX_F16 };
    static const ptx_type averages[] = { PTX_NONE, PTX_BF16, PTX_F32 };
    struct ptx_target target;
    unsigned variant = 0;

    for (size_t k = 0; ptx_target_at(k, &target, NULL); k++) {
        struct ptx_step_tensor tensors[PTX_STEP_FORMAT_COUNT];
        struct ptx_step_group groups[STEP_RULES];
        for (unsigned g = 0; g < STEP_RULES; g++)
            groups[g] = (struct ptx_step_group) { .rule = (ptx_step_rule)g,
                                                  .maximize = g % 2,
                                                  .nesterov = g == PTX_STEP_RULE_SGD,
                                                  .hyper = hyper };
        for (unsigned f = 0; f < PTX_STEP_FORMAT_COUNT; f++, variant++) {
            tensors[f] = tensor_of((ptx_step_format)f);
            tensors[f].gradient_dtype = gradients[variant % 3];
            tensors[f].ema_dtype = averages[variant / 2 % 3];
            tensors[f].amax = variant % 2 ? 4 : 0;
            tensors[f].fp8 = tensors[f].fp8_scale = variant / 3 % 2 ? 8 : 0;
            tensors[f].fp8_transposed = variant / 12 % 2 ? tensors[f].fp8 : 0;
            tensors[f].fp8_columns = tensors[f].count;
            if (variant / 24 % 2 && tensors[f].fp8) {
                tensors[f].fp8_blocks = (ptx_fp8_blocks)(1 + variant % 2);
                tensors[f].fp8_scale_inv = 16;
                tensors[f].fp8_transposed_scale_inv = tensors[f].fp8_transposed ? 32 : 0;
                tensors[f].fp8_scale = 0;
            }
            tensors[f].fp8_format = variant / 6 % 2 ? PTX_FP8_E5M2 : PTX_FP8_E4M3;
            tensors[f].group = variant % STEP_RULES;
        }
        step_assemble(&(struct ptx_step_params) { .tensors = tensors,
                                                  .tensor_count = PTX_STEP_FORMAT_COUNT,
                                                  .groups = groups,
                                                  .group_count = STEP_RULES,
                                                  .gradients = (ptx_step_gradients)(variant % 3),
                                                  .max_norms_at = variant & 1 ? 4 : 0,
                                                  .loss_scale_at = variant & 2 ? 8 : 0,
                                                  .found_inf_at = variant & 4 ? 12 : 0,
                                                  .found_inf_to = variant & 8 ? 16 : 0,
                                                  .sum_rows = variant & 16 ? 3 : 0,
                                                  .max_norm = 1 },
                      target);
    }
    end_of_texts();
}

/// Matrices with their products beside AdamW: a text of 1 MB, for the first target that takes it
/// and for the first whose launches overlap.
TEST(test_targets_of_matrices)
{
    static const int targets[] = { 80, 90 };
    const struct ptx_step_group groups[] = {
        { .rule = PTX_STEP_RULE_MUON, .nesterov = true, .hyper = hyper }, { .hyper = hyper }
    };

    for (unsigned k = 0; k < 2; k++) {
        struct ptx_step_tensor tensors[] = { tensor_of(k ? PTX_STEP_FORMAT_MASTER
                                                         : PTX_STEP_FORMAT_FULL),
                                             tensor_of(PTX_STEP_FORMAT_FULL) };
        tensors[0].columns = 20;
        tensors[0].ema_dtype = k ? PTX_BF16 : PTX_NONE;
        tensors[1].group = 1;
        step_assemble(&(struct ptx_step_params) { .tensors = tensors,
                                                  .tensor_count = 2,
                                                  .groups = groups,
                                                  .group_count = 2,
                                                  .max_norm = 1,
                                                  .gradients = k ? PTX_STEP_GRADIENTS_ZERO
                                                                 : PTX_STEP_GRADIENTS_RAW },
                      (struct ptx_target) { .sm = targets[k] });
    }
    end_of_texts();
}

TEST(test_description_of_step)
{
    struct ptx_step_tensor tensors[3] = { tensor_of(PTX_STEP_FORMAT_FULL),
                                          tensor_of(PTX_STEP_FORMAT_MASTER),
                                          tensor_of(PTX_STEP_FORMAT_STOCHASTIC) };
    const struct ptx_step_group groups[2] = { { .hyper = hyper },
                                              { .rule = PTX_STEP_RULE_LION, .hyper = hyper } };
    struct ptx_step_params params = {
        .tensors = tensors, .tensor_count = 3, .groups = groups, .group_count = 2, .max_norm = 1
    };
    struct ptx_step_description d;

    tensors[2].group = 1;
    tensors[1].step = 4096;
    require(ptx_step_describe(&params, &d));
    assert_int_equal(d.elements, 3000);
    assert_int_equal(d.groups, 2);
    assert_int_equal(d.norm_groups, 1);
    assert_int_equal(d.clocks, 3);
    assert_int_equal(d.variants, 3);
    assert_int_equal(d.launches, 3);
    // Bytes an element: f32 32; master 2 + 2 + 2 and 24; Lion 2 + 2 + 4 + 4.
    assert_int_equal(d.bytes, 1000 * (32 + 30 + 12));
    params.max_norm = INFINITY;
    require(ptx_step_describe(&params, &d));
    assert_int_equal(d.bytes, 1000 * (28 + 28 + 10));
    for (int k = PTX_STEP_GRADIENTS_WRITE; k <= PTX_STEP_GRADIENTS_ZERO; k++) { // written, too
        params.gradients = (ptx_step_gradients)k;
        require(ptx_step_describe(&params, &d));
        assert_int_equal(d.bytes, 1000 * (32 + 30 + 12));
    }
    // 8 bits: 2 + 2 and 4 of codes, and 4 absmax twice.
    tensors[2] = tensor_of(PTX_STEP_FORMAT_STATE_8BIT);
    params.gradients = PTX_STEP_GRADIENTS_RAW;
    require(ptx_step_describe(&params, &d));
    assert_int_equal(d.bytes, 1000 * (28 + 28 + 10) + 2 * 2 * 4 * sizeof(float));
    tensors[2] = tensor_of(PTX_STEP_FORMAT_STATE_F16);
    require(ptx_step_describe(&params, &d));
    assert_int_equal(d.bytes, 1000 * (28 + 28 + 14) + 2 * 2 * 4 * sizeof(float));
    // 2 + 2 and 6 of codes and corrections, and 32 scales twice, of 2 bytes.
    tensors[2] = tensor_of(PTX_STEP_FORMAT_MASTER_24BIT);
    require(ptx_step_describe(&params, &d));
    assert_int_equal(d.bytes, 1000 * (28 + 28 + 12) + 2 * 2 * 32 * 2);
    tensors[2] = tensor_of(PTX_STEP_FORMAT_STATE_F16);
    // An average is read and written.
    tensors[0].ema_dtype = PTX_F32;
    tensors[1].ema_dtype = PTX_BF16;
    require(ptx_step_describe(&params, &d));
    assert_int_equal(d.bytes, 1000 * (36 + 32 + 14) + 2 * 2 * 4 * sizeof(float));
    tensors[0].ema_dtype = tensors[1].ema_dtype = PTX_NONE;
    tensors[2] = tensor_of(PTX_STEP_FORMAT_STOCHASTIC);
    tensors[2].group = 1;
    assert_int_equal(ptx_step_describe(&params, NULL), PTX_ERROR_INVALID);
    params.gradients = PTX_STEP_GRADIENTS_RAW;
    // If no number of norm groups is given, they are counted: one of these two has a limit.
    const float max_norms[] = { INFINITY, 1 };
    params.group_max_norms = max_norms;
    tensors[2].norm_group = 1;
    require(ptx_step_describe(&params, &d));
    assert_int_equal(d.norm_groups, 2);
    assert_int_equal(d.bytes, 1000 * (32 + 30 + 12));
}

// The last element that a shard may have.
TEST(test_last_element)
{
    const uint64_t most = PTX_CLIP_MAX_ELEMENTS;
    const struct ptx_step_whole wholes[] = { { .first = most - 512 },
                                             { .first = most - 768, .run = 256, .stride = 512 },
                                             { .run = 256, .stride = most - 256 } };
    const struct ptx_step_group group = { .hyper = hyper };
    struct ptx_step_description d;

    for (size_t k = 0; k < sizeof wholes / sizeof *wholes; k++) {
        struct ptx_step_tensor tensor = tensor_of(PTX_STEP_FORMAT_STOCHASTIC);
        const struct ptx_step_params params = { ONE_TENSOR(tensor, group), .max_norm = 1 };
        tensor.count = 512;
        tensor.whole = wholes[k];
        require(ptx_step_describe(&params, &d));
        tensor.count++;
        assert_int_equal(ptx_step_describe(&params, &d), PTX_ERROR_INVALID);
        tensor.count = 0; // as if it had one
        tensor.whole.first = most - 1;
        require(ptx_step_describe(&params, &d));
        tensor.whole.first = most;
        assert_int_equal(ptx_step_describe(&params, &d), PTX_ERROR_INVALID);
    }
}

// More combinations of rule, format and types than a text has.
TEST(test_too_many_kinds)
{
    static const ptx_type types[] = { PTX_F32, PTX_F16, PTX_BF16 };
    struct ptx_step_tensor tensors[72];
    struct ptx_step_group groups[8];
    struct ptx_step_description d;
    struct ptx_step_params params = {
        .tensors = tensors, .tensor_count = 64, .groups = groups, .group_count = 8, .max_norm = 1
    };

    for (unsigned g = 0; g < 8; g++)
        groups[g] = (struct ptx_step_group) { .rule = (ptx_step_rule)(g / 2),
                                              .maximize = g % 2,
                                              .hyper = hyper };
    for (unsigned t = 0; t < 72; t++) {
        static const ptx_step_format formats[] = { PTX_STEP_FORMAT_FULL, PTX_STEP_FORMAT_MASTER,
                                                   PTX_STEP_FORMAT_STOCHASTIC };
        tensors[t] = tensor_of(formats[t / 8 % 3]);
        tensors[t].group = t % 8;
        tensors[t].gradient_dtype = types[t / 24];
    }
    require(ptx_step_describe(&params, &d));
    assert_int_equal(d.variants, 64);
    params.tensor_count = 65;
    expect_refused(ptx_step_describe(&params, &d), "more than 64 kinds of rule, format and types");
}

// ---- both ---------------------------------------------------------------------------------------

static void expect_same_and_free(char *one, char *other)
{
    assert_string_equal(one, other);
    free(one);
    free(other);
}

/// One module serves plans of many sizes. If the text had sizes in it, each plan would compile its
/// own.
TEST(test_text_is_shared)
{
    static const ptx_type types[TENSORS] = { PTX_F32, PTX_F32, PTX_F32, PTX_F32 };
    const struct ptx_target target = { .sm = 90 };
    struct ptx_clip_tensor of_clip[TENSORS];
    struct ptx_clip_params clip = { .tensors = of_clip, .tensor_count = TENSORS, .max_norm = 1 };
    fill(of_clip, types, 1000);
    char *one = clip_text(&clip, target);
    fill(of_clip, types, 77777);
    clip.tensor_count = 3;
    clip.group_count = 9;
    clip.max_norm = 3.0f;
    clip.eps = 1e-6f;
    clip.loss_scale = 512.0f;
    expect_same_and_free(one, clip_text(&clip, target));

    struct ptx_step_tensor of_step[3] = { tensor_of(PTX_STEP_FORMAT_FULL),
                                          tensor_of(PTX_STEP_FORMAT_FULL),
                                          tensor_of(PTX_STEP_FORMAT_FULL) };
    struct ptx_step_group group = { .hyper = hyper };
    struct ptx_step_params step = {
        .tensors = of_step, .tensor_count = 1, .groups = &group, .group_count = 1, .max_norm = 1
    };
    one = step_text(&step, target);
    step.tensor_count = 3;
    step.norm_group_count = 2;
    step.max_norm = 7;
    step.seed = 5;
    step.loss_scale = 128;
    group.hyper.lr = 3;
    of_step[2].count = 77;
    of_step[1].norm_group = 1;
    expect_same_and_free(one, step_text(&step, target));
}

int main(void)
{
    return ptxas_status(tests_run(NULL, NULL));
}
