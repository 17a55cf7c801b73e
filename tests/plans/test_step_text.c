// SPDX-License-Identifier: MIT
// The kernels of step plans for every target, assembled by ptxas (77 without one); the parameters
// that the text depends on; the description of a plan; and everything that is refused without a
// GPU.
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

// ---- refusals -----------------------------------------------------------------------------------

struct parts {
    struct ptx_step_tensor tensor;
    struct ptx_step_group group;
    struct ptx_step_params params;
};

static void expect_named(const char *call, const char *words)
{
    const char *message = ptx_error_message();

    if (strncmp(message, call, strlen(call)) != 0 || !strstr(message, words) ||
        strstr(message + strlen(call), "ptx_"))
        fail_msg("\"%s\" has not \"%s\" of %s", message, words, call);
}

static void refused(struct parts *p, const char *words)
{
    struct ptx_step_description d;
    ptx_builder *b = ptx_builder_create(NULL);

    p->params.tensors = &p->tensor;
    p->params.groups = &p->group;
    assert_int_equal(ptx_step_describe(&p->params, &d), PTX_ERROR_INVALID);
    expect_named("ptx_step_describe: ", words);
    assert_int_equal(ptx_step_emit(b, &p->params), PTX_ERROR_INVALID);
    expect_named("ptx_step_emit: ", words);
    assert_int_equal(ptx_step_emit(NULL, &p->params), PTX_ERROR_INVALID);
    expect_named("ptx_step_emit: ", words);
    ptx_builder_destroy(&b);
}

static struct parts right(void)
{
    return (struct parts) { .tensor = tensor_of(PTX_STEP_FORMAT_FULL),
                            .group = { .hyper = hyper },
                            .params = { .tensor_count = 1, .group_count = 1, .max_norm = 1 } };
}

// As with ptx_clip_emit(): no text, and the status of the parameters.
static void test_no_builder(void **state)
{
    (void)state;
    struct parts p = right();

    p.params.tensors = &p.tensor;
    p.params.groups = &p.group;
    assert_int_equal(ptx_step_emit(NULL, &p.params), PTX_OK);
    assert_int_equal(ptx_step_emit(NULL, NULL), PTX_ERROR_INVALID);
}

#define REFUSED(words, ...)                                                                        \
    do {                                                                                           \
        struct parts p = right();                                                                  \
        __VA_ARGS__;                                                                               \
        refused(&p, words);                                                                        \
    } while (0)

static void test_refusals(void **state)
{
    (void)state;
    struct ptx_step_description d;
    char beyond[64];

    assert_int_equal(ptx_step_describe(NULL, &d), PTX_ERROR_INVALID);
    REFUSED("no hyperparameter groups", p.params.group_count = 0);
    REFUSED("65537 groups; a plan takes 65536", p.params.group_count = PTX_STEP_MAX_GROUPS + 1);
    REFUSED("1048577 tensors; a plan takes 1048576",
            p.params.tensor_count = PTX_CLIP_MAX_TENSORS + 1);
    REFUSED("gradients is 3", p.params.gradients = (ptx_step_gradients)3);
    REFUSED("group 0: rule is 32; there are 0 to ", p.group.rule = (ptx_step_rule)32);
    REFUSED("group 0: lr is -1", p.group.hyper.lr = -1);
    REFUSED("group 0: lr is nan", p.group.hyper.lr = NAN);
    REFUSED("group 0: eps is inf", p.group.hyper.eps = INFINITY);
    REFUSED("group 0: weight_decay is 1e+39", p.group.hyper.weight_decay = 1e39);
    REFUSED("group 0: weight_decay is -1", p.group.hyper.weight_decay = -1);
    REFUSED("group 0: momentum is -1; it must be finite in f32, and 0 or more",
            p.group.hyper.momentum = -1);
    REFUSED("group 0: momentum is nan", p.group.hyper.momentum = NAN);
    REFUSED("group 0: beta1 is 1; it must be 0 or more, and below 1", p.group.hyper.beta1 = 1);
    REFUSED("group 0: beta1 is -0.5", p.group.hyper.beta1 = -0.5);
    REFUSED("group 0: beta2 is nan", p.group.hyper.beta2 = NAN);
    REFUSED("group 0: beta2 is 0.99999999999;", p.group.hyper.beta2 = 0.99999999999);
    REFUSED("group 0: dampening is nan", p.group.hyper.dampening = NAN);
    REFUSED("group 0: ema_decay is -0.1; it must be from 0 to 1", p.group.hyper.ema_decay = -0.1);
    REFUSED("group 0: ema_decay is 1.001; it must be from 0 to 1", p.group.hyper.ema_decay = 1.001);
    REFUSED("group 0: ema_decay is nan", p.group.hyper.ema_decay = NAN);
    REFUSED("tensor 0: ema_dtype is f16; it must be f32 or bf16", p.tensor.ema_dtype = PTX_F16);
    REFUSED("tensor 0: ema_dtype is 99", p.tensor.ema_dtype = (ptx_type)99);
    REFUSED("tensor 0: ema is given, and ema_dtype is not: make it f32 or bf16", p.tensor.ema = 16);
    REFUSED("group 0: more[0] is 1; its rule has no such scalar: make it 0",
            p.group.hyper.more[0] = 1);
    REFUSED("group 0: more[7] is nan", p.group.hyper.more[7] = NAN);
    REFUSED("group 0: nesterov is set, and its rule, adamw, has no such option",
            p.group.nesterov = true);
    REFUSED(
        "group 0: nesterov is set, and momentum is 0: give a momentum",
        (p.group.rule = PTX_STEP_RULE_SGD, p.group.nesterov = true, p.group.hyper.momentum = 0));
    REFUSED("group 0: hyper_at is 0x4; it must be a multiple of 8", p.group.hyper_at = 4);
    REFUSED("group 0: lr_at is 0x2; it must be a multiple of 4", p.group.lr_at = 2);
    REFUSED("tensor 0: its group is 1", p.tensor.group = 1);
    REFUSED("tensor 0: its norm_group is 2; there are norm groups 0 to 1",
            (p.params.norm_group_count = 2, p.tensor.norm_group = 2));
    REFUSED("tensor 0: its norm_group is 4294967295", p.tensor.norm_group = UINT32_MAX);
    REFUSED("tensor 0: 18446744073709551615 elements", p.tensor.count = UINT64_MAX);
    REFUSED("tensor 0: its dtype is 39; format FULL", p.tensor.dtype = (ptx_type)39);
    REFUSED("tensor 0: its dtype is none; format FULL", p.tensor.dtype = PTX_NONE);
    REFUSED("tensor 0: gradient_dtype is -1; it must", p.tensor.gradient_dtype = (ptx_type)-1);
    snprintf(beyond, sizeof beyond, "tensor 0: format is %d; there are 0 to",
             PTX_STEP_FORMAT_COUNT);
    REFUSED(beyond, p.tensor.format = PTX_STEP_FORMAT_COUNT);
    REFUSED("tensor 0: its dtype is bf16; format FULL takes a parameter of f32",
            p.tensor.dtype = PTX_BF16);
    REFUSED("tensor 0: its dtype is f16; format REMAINDER takes a parameter of bf16",
            (p.tensor.format = PTX_STEP_FORMAT_REMAINDER, p.tensor.dtype = PTX_F16));
    REFUSED("tensor 0: gradient_dtype is f64", p.tensor.gradient_dtype = PTX_F64);
    REFUSED("whole.stride is 3, below whole.run, 4",
            (p.tensor.whole.run = 4, p.tensor.whole.stride = 3));
    REFUSED("beyond element 2^40", p.tensor.whole.first = (UINT64_C(1) << 40) + 1);
    REFUSED("beyond element 2^40",
            (p.tensor.count = 100, p.tensor.whole.first = (UINT64_C(1) << 40) - 99));
    REFUSED("beyond element 2^40",
            (p.tensor.count = 9, p.tensor.whole.run = 4, p.tensor.whole.stride = 8,
             p.tensor.whole.first = (UINT64_C(1) << 40) - 16));
    REFUSED("beyond element 2^40",
            (p.tensor.whole.run = 999, p.tensor.whole.stride = (UINT64_C(1) << 40) + 1));
    REFUSED("state[1] is given, and its rule, lion, has 1 state: make it 0",
            (p.group.rule = PTX_STEP_RULE_LION, p.tensor.state[1] = 16));
    REFUSED("state[0] is given, and its rule, sgd without momentum, has 0 states: make it 0",
            (p.group.rule = PTX_STEP_RULE_SGD, p.group.hyper.momentum = 0, p.tensor.state[0] = 16));
    REFUSED("beside is given, and format FULL has nothing there", p.tensor.beside = 16);
    REFUSED("tensor 0: absmax[1] is given, and format FULL has none", p.tensor.absmax[1] = 16);
    REFUSED("tensor 0: absmax[1] is given, and its rule, lion, has 1 state: make it 0",
            (p.group.rule = PTX_STEP_RULE_LION, p.tensor.format = PTX_STEP_FORMAT_STATE_8BIT,
             p.tensor.absmax[1] = 16));
    REFUSED("tensor 0: its dtype is f16; format STATE_8BIT takes a parameter of f32 or bf16",
            (p.tensor.format = PTX_STEP_FORMAT_STATE_8BIT, p.tensor.dtype = PTX_F16));
    REFUSED("tensor 0: whole.first is 255; with format STATE_8BIT it must be a multiple of 256",
            (p.tensor.format = PTX_STEP_FORMAT_STATE_8BIT, p.tensor.whole.first = 255));
    REFUSED("tensor 0: whole.first is 128; with format STATE_F16 it must be a multiple of 256",
            (p.tensor.format = PTX_STEP_FORMAT_STATE_F16, p.tensor.whole.first = 128));
    REFUSED("tensor 0: whole.run is 128; with format STATE_8BIT",
            (p.tensor.format = PTX_STEP_FORMAT_STATE_8BIT, p.tensor.whole.run = 128,
             p.tensor.whole.stride = 512));
    REFUSED("tensor 0: whole.stride is 257; with format STATE_8BIT",
            (p.tensor.format = PTX_STEP_FORMAT_STATE_8BIT, p.tensor.whole.run = 256,
             p.tensor.whole.stride = 257));
    REFUSED("max_norm is -1", p.params.max_norm = -1);
    REFUSED("max_norm is 0, as where it is left out", p.params.max_norm = 0);
    static const float max_norms[] = { 1, NAN };
    REFUSED("group_max_norms[1] is nan",
            (p.params.norm_group_count = 2, p.params.group_max_norms = max_norms));
    static const struct ptx_loss_scale_params shrinks = { .growth = 0.5f };
    REFUSED(": update.growth is 0.5", p.params.update = &shrinks);
    REFUSED("max_norms_at is 0x6; it must be a multiple of 4", p.params.max_norms_at = 6);
    REFUSED("found_inf_at is 0x2; it must be a multiple of 4", p.params.found_inf_at = 2);
    REFUSED("found_inf_to is 0x1; it must be a multiple of 4", p.params.found_inf_to = 1);
    REFUSED("loss_scale_at is 0x3; it must be a multiple of 4", p.params.loss_scale_at = 3);
    REFUSED("sums_at is 0x4; it must be a multiple of 8", p.params.sums_at = 4);
    REFUSED("sum_row is 1; there are sum_rows 0 to 0", p.params.sum_row = 1);
    REFUSED("sum_row is 4; there are sum_rows 0 to 2",
            (p.params.sum_row = 4, p.params.sum_rows = 3));
    REFUSED("4294967295 sum_rows of 1 groups; a plan takes 1048576 sums in all",
            p.params.sum_rows = UINT32_MAX);
    REFUSED("1025 sum_rows of 1024 groups; a plan takes 1048576 sums in all",
            (p.params.sum_rows = 1025, p.params.norm_group_count = 1024));
    REFUSED("loss_scale_at is given, which is only read, and loss_scale_state too",
            p.params.loss_scale_at = p.params.loss_scale_state = 8);
    static const struct ptx_loss_scale_params update;
    REFUSED("loss_scale_at is given, which is only read, and update too",
            (p.params.loss_scale_at = 8, p.params.update = &update));
    REFUSED("tensor 0: its weight is -1", p.tensor.weight = -1);
}

// Arrays that are missing, and more combinations of rule, format and types than a text has.
static void test_refused_arrays(void **state)
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
    params.tensors = NULL;
    assert_int_equal(ptx_step_describe(&params, &d), PTX_ERROR_INVALID);
    assert_non_null(strstr(ptx_error_message(), "tensors is NULL, and tensor_count is 65"));
    params.groups = NULL;
    assert_int_equal(ptx_step_describe(&params, &d), PTX_ERROR_INVALID);
    assert_non_null(strstr(ptx_error_message(), "there are no hyperparameter groups"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets),        cmocka_unit_test(test_text_is_shared),
        cmocka_unit_test(test_description),    cmocka_unit_test(test_last_element),
        cmocka_unit_test(test_refusals),       cmocka_unit_test(test_no_builder),
        cmocka_unit_test(test_refused_arrays),
    };
    return ptxas_status(cmocka_run_group_tests_name("step plans: text", tests, NULL, NULL));
}
