// SPDX-License-Identifier: MIT
// The kernels of step plans for every target, assembled by ptxas (77 without one); the parameters
// that the text depends on; and the description of a plan. test_plan_input.c has what is refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ptxgen/step.h>

#include "plan_text.h"

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

static char *text_of(const struct ptx_step_params *params, struct ptx_target target)
{
    ptx_builder *b = ptx_builder_create(&(struct ptx_builder_params) { .target = target });
    if (ptx_step_emit(b, params) != PTX_OK)
        fail_msg("%s", ptx_error_message());
    return plan_text_finish(b);
}

static void assemble(const struct ptx_step_params *params, struct ptx_target target)
{
    plan_text_assemble(text_of(params, target), target);
}

// Every format on every target, with the rules in turn; all formats of a target also in one text.
static void test_targets(void **state)
{
    (void)state;
    static const ptx_type gradients[] = { PTX_F32, PTX_BF16, PTX_F16 };
    static const ptx_type averages[] = { PTX_NONE, PTX_BF16, PTX_F32 };
    struct ptx_target target;
    unsigned variant = 0;

    for (size_t k = 0; ptx_target_at(k, &target, NULL); k++) {
        struct ptx_step_tensor tensors[PTX_STEP_FORMAT_COUNT];
        struct ptx_step_group groups[PTX_STEP_RULE_COUNT];
        for (unsigned g = 0; g < PTX_STEP_RULE_COUNT; g++)
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
            tensors[f].fp8_format = variant / 6 % 2 ? PTX_FP8_E5M2 : PTX_FP8_E4M3;
            tensors[f].group = variant % PTX_STEP_RULE_COUNT;
        }
        assemble(&(struct ptx_step_params) { .tensors = tensors,
                                             .tensor_count = PTX_STEP_FORMAT_COUNT,
                                             .groups = groups,
                                             .group_count = PTX_STEP_RULE_COUNT,
                                             .gradients = (ptx_step_gradients)(variant % 3),
                                             .max_norms_at = variant & 1 ? 4 : 0,
                                             .loss_scale_at = variant & 2 ? 8 : 0,
                                             .found_inf_at = variant & 4 ? 12 : 0,
                                             .found_inf_to = variant & 8 ? 16 : 0,
                                             .sum_rows = variant & 16 ? 3 : 0,
                                             .max_norm = 1 },
                 target);
    }
    plan_text_end();
}

static void test_text_is_shared(void **state)
{
    (void)state;
    struct ptx_step_tensor tensors[3] = { tensor_of(PTX_STEP_FORMAT_FULL),
                                          tensor_of(PTX_STEP_FORMAT_FULL),
                                          tensor_of(PTX_STEP_FORMAT_FULL) };
    struct ptx_step_group group = { .hyper = hyper };
    struct ptx_step_params params = {
        .tensors = tensors, .tensor_count = 1, .groups = &group, .group_count = 1, .max_norm = 1
    };
    char *one = text_of(&params, (struct ptx_target) { .sm = 90 });
    params.tensor_count = 3;
    params.norm_group_count = 2;
    params.max_norm = 7;
    params.seed = 5;
    params.loss_scale = 128;
    group.hyper.lr = 3;
    tensors[2].count = 77;
    tensors[1].norm_group = 1;
    char *other = text_of(&params, (struct ptx_target) { .sm = 90 });
    assert_string_equal(one, other);
    free(one);
    free(other);
}

static void test_description(void **state)
{
    (void)state;
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
    assert_int_equal(ptx_step_describe(&params, &d), PTX_OK);
    assert_int_equal(d.elements, 3000);
    assert_int_equal(d.groups, 2);
    assert_int_equal(d.norm_groups, 1);
    assert_int_equal(d.clocks, 3);
    assert_int_equal(d.variants, 3);
    assert_int_equal(d.launches, 3);
    // Bytes an element: f32 32; master 2 + 2 + 2 and 24; Lion 2 + 2 + 4 + 4.
    assert_int_equal(d.bytes, 1000 * (32 + 30 + 12));
    params.max_norm = INFINITY;
    assert_int_equal(ptx_step_describe(&params, &d), PTX_OK);
    assert_int_equal(d.bytes, 1000 * (28 + 28 + 10));
    for (int k = PTX_STEP_GRADIENTS_WRITE; k <= PTX_STEP_GRADIENTS_ZERO; k++) { // written, too
        params.gradients = (ptx_step_gradients)k;
        assert_int_equal(ptx_step_describe(&params, &d), PTX_OK);
        assert_int_equal(d.bytes, 1000 * (32 + 30 + 12));
    }
    // 8 bits: 2 + 2 and 4 of codes, and 4 absmax twice.
    tensors[2] = tensor_of(PTX_STEP_FORMAT_STATE_8BIT);
    params.gradients = PTX_STEP_GRADIENTS_RAW;
    assert_int_equal(ptx_step_describe(&params, &d), PTX_OK);
    assert_int_equal(d.bytes, 1000 * (28 + 28 + 10) + 2 * 2 * 4 * sizeof(float));
    tensors[2] = tensor_of(PTX_STEP_FORMAT_STATE_F16);
    assert_int_equal(ptx_step_describe(&params, &d), PTX_OK);
    assert_int_equal(d.bytes, 1000 * (28 + 28 + 14) + 2 * 2 * 4 * sizeof(float));
    // An average is read and written.
    tensors[0].ema_dtype = PTX_F32;
    tensors[1].ema_dtype = PTX_BF16;
    assert_int_equal(ptx_step_describe(&params, &d), PTX_OK);
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
    assert_int_equal(ptx_step_describe(&params, &d), PTX_OK);
    assert_int_equal(d.norm_groups, 2);
    assert_int_equal(d.bytes, 1000 * (32 + 30 + 12));
}

// The last element that a shard may have.
static void test_last_element(void **state)
{
    (void)state;
    const uint64_t most = PTX_CLIP_MAX_ELEMENTS;
    const struct ptx_step_whole wholes[] = { { .first = most - 512 },
                                             { .first = most - 768, .run = 256, .stride = 512 },
                                             { .run = 256, .stride = most - 256 } };
    const struct ptx_step_group group = { .hyper = hyper };
    struct ptx_step_description d;

    for (size_t k = 0; k < sizeof wholes / sizeof *wholes; k++) {
        struct ptx_step_tensor tensor = tensor_of(PTX_STEP_FORMAT_STOCHASTIC);
        const struct ptx_step_params params = {
            .tensors = &tensor, .tensor_count = 1, .groups = &group, .group_count = 1, .max_norm = 1
        };
        tensor.count = 512;
        tensor.whole = wholes[k];
        assert_int_equal(ptx_step_describe(&params, &d), PTX_OK);
        tensor.count++;
        assert_int_equal(ptx_step_describe(&params, &d), PTX_ERROR_INVALID);
        tensor.count = 0; // as if it had one
        tensor.whole.first = most - 1;
        assert_int_equal(ptx_step_describe(&params, &d), PTX_OK);
        tensor.whole.first = most;
        assert_int_equal(ptx_step_describe(&params, &d), PTX_ERROR_INVALID);
    }
}

// More combinations of rule, format and types than a text has.
static void test_too_many_kinds(void **state)
{
    (void)state;
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
    assert_int_equal(ptx_step_describe(&params, &d), PTX_OK);
    assert_int_equal(d.variants, 64);
    params.tensor_count = 65;
    assert_int_equal(ptx_step_describe(&params, &d), PTX_ERROR_INVALID);
    assert_non_null(strstr(ptx_error_message(), "more than 64 kinds of rule, format and types"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets),        cmocka_unit_test(test_text_is_shared),
        cmocka_unit_test(test_description),    cmocka_unit_test(test_last_element),
        cmocka_unit_test(test_too_many_kinds),
    };
    return ptxas_status(cmocka_run_group_tests_name("step plans: text", tests, NULL, NULL));
}
