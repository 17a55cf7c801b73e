// SPDX-License-Identifier: MIT
// Each kernel as the host sees it: its parameters in order, and their valid values.
#include <stdio.h>
#include <string.h>

#include <ptxgen/kernels.h>

#include "test.h"
#include "variants.h"

/// What one parameter must be. S stands for the dtype; C for the compute type, which is f64 for f64
/// tensors and f32 otherwise.
struct wanted {
    const char *name;
    const char *type;
    const char *length; ///< NULL: passed by value
    char access;        ///< 'r' read only, 'w' written only, 'b' both; 'v' by value
    const char *preset;
    unsigned range;
    const char *only_option, *only_value; ///< the parameter exists only with this option
};

/// An option that changes no parameter has no row. A scalar that can be by value or in device
/// memory has a row for each.
static const struct wanted squared_sum[] = {
    { "x", "S", "n", 'r' },
    { "n", "u64", NULL, 'v' },
    { "partials", "f64", "blocks", 'w', NULL, 0, "partials", "f64" },
    { "partials", "f32", "blocks", 'w', NULL, 0, "partials", "f32" },
    { NULL }
};

static const struct wanted clip_scale_reduce[] = {
    { "partials", "S", "count", 'r' },
    { "count", "u64", NULL, 'v' },
    { "max_norm", "f32", NULL, 'v', NULL, PTX_RANGE_NOT_NAN | PTX_RANGE_NOT_NEGATIVE, "max_norm",
      "value" },
    { "max_norm", "f32", "1", 'r', NULL, PTX_RANGE_NOT_NAN | PTX_RANGE_NOT_NEGATIVE, "max_norm",
      "device" },
    { "eps", "f32", NULL, 'v', "0", PTX_RANGE_FINITE | PTX_RANGE_NOT_NEGATIVE },
    { "out", "f32", "3", 'w' },
    { NULL }
};

static const struct wanted gradient_clip[] = {
    { "gradient", "S", "n", 'b' },
    { "n", "u64", NULL, 'v' },
    { "record", "f32", "1", 'r', NULL, 0, "nonfinite", "propagate" },
    { "record", "f32", "1", 'r', NULL, 0, "nonfinite", "skip" },
    { "record", "f32", "3", 'r', NULL, 0, "nonfinite", "zero" },
    { NULL }
};

static const struct wanted quantize[] = {
    { "x", "S", "n", 'r' },
    { "d_output", "S", "n", 'r' },
    { "d_input", "S", "n", 'w' },
    { "n", "u64", NULL, 'v' },
    { "scale", "C", NULL, 'v', NULL, PTX_RANGE_FINITE | PTX_RANGE_POSITIVE, "scalars", "value" },
    { "scale", "C", "1", 'r', NULL, PTX_RANGE_FINITE | PTX_RANGE_POSITIVE, "scalars", "device" },
    { "zero_point", "s32", NULL, 'v', "0", 0, "scalars", "value" },
    { "zero_point", "s32", "1", 'r', "0", 0, "scalars", "device" },
    { "q_min", "s32", NULL, 'v', "*", 0, "target", "any" },
    { "q_max", "s32", NULL, 'v', "*", 0, "target", "any" },
    { NULL }
};

static const struct wanted quantize_channel[] = {
    { "x", "S", "n", 'r' },
    { "d_output", "S", "n", 'r' },
    { "d_input", "S", "n", 'w' },
    { "n", "u64", NULL, 'v' },
    { "scale", "C", "channels", 'r', NULL, PTX_RANGE_FINITE | PTX_RANGE_POSITIVE },
    { "zero_point", "s32", "channels", 'r', "0" },
    { "channels", "u64", NULL, 'v' },
    { "inner", "u64", NULL, 'v', "1" },
    { "q_min", "s32", NULL, 'v', "*", 0, "target", "any" },
    { "q_max", "s32", NULL, 'v', "*", 0, "target", "any" },
    { NULL }
};

static const struct wanted fake[] = {
    { "x", "S", "n", 'r' },
    { "y", "S", "n", 'w' },
    { "n", "u64", NULL, 'v' },
    { "scale", "C", NULL, 'v', NULL, PTX_RANGE_FINITE | PTX_RANGE_POSITIVE, "scalars", "value" },
    { "scale", "C", "1", 'r', NULL, PTX_RANGE_FINITE | PTX_RANGE_POSITIVE, "scalars", "device" },
    { "zero_point", "Z", NULL, 'v', "0", 0, "scalars", "value" },
    { "zero_point", "Z", "1", 'r', "0", 0, "scalars", "device" },
    { "q_min", "s32", NULL, 'v', "-128" },
    { "q_max", "s32", NULL, 'v', "127" },
    { NULL }
};

static const struct wanted fake_channel[] = { { "x", "S", "n", 'r' },
                                              { "y", "S", "n", 'w' },
                                              { "n", "u64", NULL, 'v' },
                                              { "scale", "C", "channels", 'r', NULL,
                                                PTX_RANGE_FINITE | PTX_RANGE_POSITIVE },
                                              { "zero_point", "Z", "channels", 'r', "0" },
                                              { "channels", "u64", NULL, 'v' },
                                              { "inner", "u64", NULL, 'v', "1" },
                                              { "q_min", "s32", NULL, 'v', "-128" },
                                              { "q_max", "s32", NULL, 'v', "127" },
                                              { NULL } };

static const struct wanted groups[] = {
    { "x", "S", "n", 'r' },
    { "y", "S", "n", 'w' },
    { "n", "u64", NULL, 'v' },
    { "scale", "f32", "groups", 'w' },
    { "zero_point", "s32", "groups", 'w', NULL, 0, "levels", "asymmetric" },
    { "zero_point", "s32", "groups", 'w', NULL, 0, "levels", "unsigned" },
    { NULL }
};

#define POSITIVE (PTX_RANGE_FINITE | PTX_RANGE_POSITIVE)

/// The zero point with each layout: a float if it is learned.
static const struct wanted learned_tensor[] = {
    { "x", "S", "n", 'r' },
    { "d_output", "S", "n", 'r' },
    { "d_input", "S", "n", 'w' },
    { "n", "u64", NULL, 'v' },
    { "scale", "C", "1", 'r', NULL, POSITIVE },
    { "zero_point", "C", "1", 'r', NULL, 0, "zero_point", "learned" },
    { "zero_point", "s32", "1", 'r', NULL, 0, "zero_point", "fixed" },
    { "q_min", "s32", NULL, 'v', "*" },
    { "q_max", "s32", NULL, 'v', "*" },
    { "scale_sums", "f64", "pieces", 'w' },
    { "zero_sums", "f64", "pieces", 'w', NULL, 0, "zero_point", "learned" },
    { NULL }
};

static const struct wanted learned_channels[] = {
    { "x", "S", "n", 'r' },
    { "d_output", "S", "n", 'r' },
    { "d_input", "S", "n", 'w' },
    { "n", "u64", NULL, 'v' },
    { "scale", "C", "channels", 'r', NULL, POSITIVE },
    { "zero_point", "C", "channels", 'r', NULL, 0, "zero_point", "learned" },
    { "zero_point", "s32", "channels", 'r', NULL, 0, "zero_point", "fixed" },
    { "channels", "u64", NULL, 'v' },
    { "inner", "u64", NULL, 'v', "1" },
    { "q_min", "s32", NULL, 'v', "*" },
    { "q_max", "s32", NULL, 'v', "*" },
    { "scale_sums", "f64", "pieces", 'w' },
    { "zero_sums", "f64", "pieces", 'w', NULL, 0, "zero_point", "learned" },
    { NULL }
};

static const struct wanted learned_whole[] = {
    { "x", "S", "n", 'r' },
    { "d_output", "S", "n", 'r' },
    { "d_input", "S", "n", 'w' },
    { "n", "u64", NULL, 'v' },
    { "scale", "C", "channels", 'r', NULL, POSITIVE },
    { "zero_point", "C", "channels", 'r', NULL, 0, "zero_point", "learned" },
    { "zero_point", "s32", "channels", 'r', NULL, 0, "zero_point", "fixed" },
    { "channels", "u64", NULL, 'v' },
    { "inner", "u64", NULL, 'v', "1" },
    { "q_min", "s32", NULL, 'v', "*" },
    { "q_max", "s32", NULL, 'v', "*" },
    { "grad_factor", "f64", NULL, 'v', "1" },
    { "d_scale", "C", "channels", 'w' },
    { "d_zero_point", "C", "channels", 'w', NULL, 0, "zero_point", "learned" },
    { NULL }
};

static const struct wanted learned_groups[] = {
    { "x", "S", "n", 'r' },
    { "d_output", "S", "n", 'r' },
    { "d_input", "S", "n", 'w' },
    { "n", "u64", NULL, 'v' },
    { "scale", "f32", "groups", 'r', NULL, POSITIVE },
    { "zero_point", "f32", "groups", 'r', NULL, 0, "zero_point", "learned" },
    { "zero_point", "s32", "groups", 'r', NULL, 0, "zero_point", "fixed" },
    { "q_min", "s32", NULL, 'v', "*" },
    { "q_max", "s32", NULL, 'v', "*" },
    { "grad_factor", "f64", NULL, 'v', "1" },
    { "d_scale", "f32", "groups", 'w' },
    { "d_zero_point", "f32", "groups", 'w', NULL, 0, "zero_point", "learned" },
    { NULL }
};

static const struct wanted learned_reduce[] = {
    { "scale_sums", "f64", "pieces", 'r' },
    { "zero_sums", "f64", "pieces", 'r', NULL, 0, "gradients", "both" },
    { "pieces", "u64", NULL, 'v' },
    { "channels", "u64", NULL, 'v', "1" },
    { "width", "u64", NULL, 'v', "1" },
    { "grad_factor", "f64", NULL, 'v', "1" },
    { "d_scale", "S", "channels", 'w' },
    { "d_zero_point", "S", "channels", 'w', NULL, 0, "gradients", "both" },
    { NULL }
};

static const struct wanted min_max[] = {
    { "x", "S", "n", 'r' }, { "n", "u64", NULL, 'v' }, { "extremes", "f32", "2", 'b' }, { NULL }
};

static const struct wanted moving_average[] = {
    { "extremes", "f32", "2", 'b' },
    { "averages", "f32", "2", 'b' },
    { "averaging_constant", "f32", NULL, 'v', "0.01", POSITIVE },
    { "q_min", "s32", NULL, 'v', "-128" },
    { "q_max", "s32", NULL, 'v', "127" },
    { "eps", "f32", NULL, 'v', "1.1920928955078125e-07", POSITIVE },
    { "zero", "s32", NULL, 'v', "0", 0, "scheme", "symmetric" },
    { "scale", "f32", "1", 'w' },
    { "zero_point", "s32", "1", 'w' },
    { NULL }
};

static const struct wanted loss_scale[] = {
    { "scale", "f32", "1", 'b' },
    { "growth_tracker", "s32", "1", 'b' },
    { "found_inf", "f32", "1", 'r' },
    { "growth", "f32", NULL, 'v', "2", PTX_RANGE_FINITE | PTX_RANGE_POSITIVE },
    { "backoff", "f32", NULL, 'v', "0.5", PTX_RANGE_FINITE | PTX_RANGE_POSITIVE },
    { "interval", "s32", NULL, 'v', "2000" },
    { "min_scale", "f32", NULL, 'v', "0", PTX_RANGE_FINITE | PTX_RANGE_NOT_NEGATIVE },
    { "max_scale", "f32", NULL, 'v', "inf", PTX_RANGE_NOT_NAN | PTX_RANGE_POSITIVE },
    { "hysteresis", "s32", NULL, 'v', "1" },
    { NULL }
};

static const struct wanted lerp[] = {
    { "d_output", "S", "n", 'r' },
    { "d_a", "S", "n", 'w', NULL, 0, "outputs", "both" },
    { "d_a", "S", "n", 'w', NULL, 0, "outputs", "da" },
    { "d_b", "S", "n", 'w', NULL, 0, "outputs", "both" },
    { "d_b", "S", "n", 'w', NULL, 0, "outputs", "db" },
    { "n", "u64", NULL, 'v' },
    { "weight", "f64", NULL, 'v', NULL, PTX_RANGE_NOT_NAN, "weight", "value" },
    { "weight", "f64", "1", 'r', NULL, PTX_RANGE_NOT_NAN, "weight", "device" },
    { NULL }
};

static const struct wanted cast_fp8[] = {
    { "x", "S", "n", 'r' },
    { "y", "u8", "n", 'w' },
    { "n", "u64", NULL, 'v' },
    { "scale", "f32", NULL, 'v', NULL, PTX_RANGE_FINITE | PTX_RANGE_POSITIVE, "scale", "value" },
    { "scale", "f32", "1", 'r', NULL, PTX_RANGE_FINITE | PTX_RANGE_POSITIVE, "scale", "device" },
    { "amax", "f32", "1", 'b', NULL, 0, "amax", "merge" },
    { NULL }
};

static const struct wanted delayed_scale[] = {
    { "scale", "f32", "n", 'b' },        { "scale_inv", "f32", "n", 'w' },
    { "history", "f32", "count", 'b' },  { "formats", "u32", "n", 'r', NULL, 0, "format", "each" },
    { "n", "u64", NULL, 'v' },           { "count", "u64", NULL, 'v' },
    { "margin", "s32", NULL, 'v', "0" }, { NULL }
};

/// Z: C for a zero point that is learned, else s32.
static ptx_type wanted_type(const char *type, const ptx_kernel *kernel,
                            const struct ptx_kernel_spec *spec)
{
    if (strcmp(type, "S") == 0)
        return spec->dtype;
    if (strcmp(type, "Z") == 0)
        type = variant_is(kernel, spec, "zero_point", "learned") ? "C" : "s32";
    if (strcmp(type, "C") == 0)
        return spec->dtype == PTX_F64 ? PTX_F64 : PTX_F32;
    return ptx_type_parse(type);
}

static void assert_text(const char *got, const char *want)
{
    if (!want)
        assert_null(got);
    else if (strcmp(want, "*") != 0)
        assert_string_equal(got ? got : "(none)", want);
}

static void assert_param(const struct ptx_param_info *got, const struct wanted *want,
                         const ptx_kernel *kernel, const struct ptx_kernel_spec *spec)
{
    assert_string_equal(got->name, want->name);
    assert_string_equal(ptx_type_name((ptx_type)got->type),
                        ptx_type_name(wanted_type(want->type, kernel, spec)));
    assert_int_equal(got->is_pointer, want->access != 'v');
    assert_int_equal(got->readonly, want->access == 'r');
    assert_int_equal(got->writeonly, want->access == 'w');
    assert_text(got->length, want->length);
    assert_text(got->preset, want->preset);
    assert_int_equal(got->range, want->range);
    assert_true(got->meaning && *got->meaning);
    assert_int_equal(got->count, 0);
}

/// Checks the variants that have the value for the option; all, if it is NULL.
static void check_params_with(const ptx_kernel *kernel, const struct wanted *rows,
                              const char *option, const char *value)
{
    struct ptx_kernel_spec spec;
    for (bool more = variant_first(kernel, PTX_NONE, &spec); more;
         more = variant_next(kernel, &spec)) {
        struct ptx_param_info info;
        unsigned k = 0;
        if (option && !variant_is(kernel, &spec, option, value))
            continue;
        OWNED(ptx_builder) *b = ptx_builder_create(NULL);
        ptx_kernel_emit(b, kernel, &spec);
        assert_non_null(ptx_builder_finish(b));
        for (const struct wanted *want = rows; want->name; ++want) {
            if (want->only_option &&
                !variant_is(kernel, &spec, want->only_option, want->only_value))
                continue;
            assert_true(ptx_builder_param(b, 0, k++, &info));
            assert_param(&info, want, kernel, &spec);
        }
        assert_false(ptx_builder_param(b, 0, k, &info));
        assert_false(ptx_builder_param(b, 1, 0, &info));
    }
}

static void check_params(const ptx_kernel *kernel, const struct wanted *rows)
{
    check_params_with(kernel, rows, NULL, NULL);
}

TEST(test_params)
{
    check_params(&ptx_kernel_squared_sum, squared_sum);
    check_params(&ptx_kernel_clip_scale_reduce, clip_scale_reduce);
    check_params(&ptx_kernel_gradient_clip_from_device_scale, gradient_clip);
    check_params(&ptx_kernel_quantize_ste_backward, quantize);
    check_params(&ptx_kernel_quantize_channel_ste_backward, quantize_channel);
    check_params(&ptx_kernel_fake_quantize, fake);
    check_params(&ptx_kernel_fake_quantize_channel, fake_channel);
    check_params(&ptx_kernel_fake_quantize_groups, groups);
    check_params(&ptx_kernel_quantize_learned_groups, learned_groups);
    check_params(&ptx_kernel_quantize_learned_reduce, learned_reduce);
    check_params(&ptx_kernel_observe_min_max, min_max);
    check_params(&ptx_kernel_moving_average_update, moving_average);
    check_params(&ptx_kernel_loss_scale_update, loss_scale);
    check_params(&ptx_kernel_lerp_backward, lerp);
    check_params(&ptx_kernel_cast_fp8, cast_fp8);
    check_params(&ptx_kernel_delayed_scale_update, delayed_scale);
    const ptx_kernel *kernel = &ptx_kernel_quantize_learned_backward;
    check_params_with(kernel, learned_tensor, "layout", "tensor");
    check_params_with(kernel, learned_channels, "layout", "rows");
    check_params_with(kernel, learned_channels, "layout", "columns");
    check_params_with(kernel, learned_whole, "layout", "whole");
}

TEST(test_formats_of_cast_fp8)
{
    for (uint8_t format = 0; format < 2; format++) {
        const struct ptx_kernel_spec spec = { .dtype = PTX_BF16, .option = { format } };
        struct ptx_param_info x, y;
        OWNED(ptx_builder) *b = ptx_builder_create(NULL);
        ptx_kernel_emit(b, &ptx_kernel_cast_fp8, &spec);
        assert_non_null(ptx_builder_finish(b));
        assert_true(ptx_builder_param(b, 0, 0, &x) && ptx_builder_param(b, 0, 1, &y));
        assert_null(x.format);
        assert_string_equal(y.format, format ? "e5m2" : "e4m3");
    }
}

TEST(test_ranges_of_delayed_scale)
{
    const struct ptx_kernel_spec spec = { .dtype = PTX_F32 };
    struct ptx_param_info count, margin;
    OWNED(ptx_builder) *b = ptx_builder_create(NULL);
    ptx_kernel_emit(b, &ptx_kernel_delayed_scale_update, &spec);
    assert_non_null(ptx_builder_finish(b));
    assert_true(ptx_builder_param(b, 0, 4, &count) && ptx_builder_param(b, 0, 5, &margin));
    assert_string_equal(count.low, "n");
    assert_string_equal(margin.low, "-100");
    assert_string_equal(margin.high, "100");
}

/// The option values keep their order, because their numbers are in specs that hosts may store.
TEST(test_option_values)
{
    static const struct {
        const ptx_kernel *kernel;
        const char *option, *values;
    } rows[] = {
        { &ptx_kernel_squared_sum, "partials", "f64 f32 " },
        { &ptx_kernel_clip_scale_reduce, "nonfinite", "propagate skip zero " },
        { &ptx_kernel_clip_scale_reduce, "max_norm", "value device " },
        { &ptx_kernel_gradient_clip_from_device_scale, "nonfinite", "propagate skip zero " },
        { &ptx_kernel_quantize_ste_backward, "division", "exact reciprocal " },
        { &ptx_kernel_quantize_ste_backward, "gradient", "quantize fake_quantize " },
        { &ptx_kernel_quantize_ste_backward, "target", "s8 u8 any " },
        { &ptx_kernel_quantize_ste_backward, "scalars", "value device " },
        { &ptx_kernel_quantize_channel_ste_backward, "division", "exact reciprocal " },
        { &ptx_kernel_quantize_channel_ste_backward, "gradient", "quantize fake_quantize " },
        { &ptx_kernel_quantize_channel_ste_backward, "target", "s8 u8 any " },
        { &ptx_kernel_quantize_channel_ste_backward, "layout", "rows columns " },
        { &ptx_kernel_fake_quantize, "division", "exact reciprocal " },
        { &ptx_kernel_fake_quantize, "zero_point", "fixed learned " },
        { &ptx_kernel_fake_quantize, "scalars", "value device " },
        { &ptx_kernel_fake_quantize_channel, "division", "exact reciprocal " },
        { &ptx_kernel_fake_quantize_channel, "zero_point", "fixed learned " },
        { &ptx_kernel_fake_quantize_channel, "layout", "rows columns " },
        { &ptx_kernel_fake_quantize_groups, "group", "32 64 128 " },
        { &ptx_kernel_fake_quantize_groups, "levels", "symmetric full asymmetric unsigned " },
        { &ptx_kernel_fake_quantize_groups, "bits", "4 8 " },
        { &ptx_kernel_quantize_learned_backward, "division", "exact reciprocal " },
        { &ptx_kernel_quantize_learned_backward, "zero_point", "learned fixed " },
        { &ptx_kernel_quantize_learned_backward, "range", "level quotient " },
        { &ptx_kernel_quantize_learned_backward, "layout", "tensor rows columns whole " },
        { &ptx_kernel_quantize_learned_reduce, "gradients", "both scale " },
        { &ptx_kernel_quantize_learned_groups, "group", "32 64 128 " },
        { &ptx_kernel_moving_average_update, "scheme", "affine symmetric " },
        { &ptx_kernel_lerp_backward, "outputs", "both da db " },
        { &ptx_kernel_lerp_backward, "weight", "value device " },
        { &ptx_kernel_cast_fp8, "format", "e4m3 e5m2 " },
        { &ptx_kernel_cast_fp8, "scale", "value device " },
        { &ptx_kernel_cast_fp8, "amax", "merge none " },
        { &ptx_kernel_delayed_scale_update, "amax", "max most_recent " },
        { &ptx_kernel_delayed_scale_update, "format", "e4m3 e5m2 each " },
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        char values[128] = "";
        int i = ptx_kernel_find_option(rows[k].kernel, rows[k].option);
        assert_true(i >= 0);
        const struct ptx_kernel_option *option = &rows[k].kernel->options[i];
        for (int v = 0; v < PTX_KERNEL_MAX_CHOICES && option->values[v]; ++v) {
            strcat(values, option->values[v]);
            strcat(values, " ");
        }
        assert_string_equal(values, rows[k].values);
        assert_true(option->summary && *option->summary);
    }
}
