// SPDX-License-Identifier: MIT
// The texts that the library writes: every variant of every kernel, clip and step plans, functions
// of math.h, Muon's products, formats of blocks.
#include <stdarg.h>
#include <stdio.h>

#include <ptxgen/clip.h>
#include <ptxgen/kernels.h>
#include <ptxgen/step.h>

#ifndef GOLDEN_EXPORTED // with an installed library: no texts of functions that it does not export
#include "kernels/blocks.h"
#include "kernels/muon.h"
#include "kernels/muon_parts.h"
#endif
#include "golden_texts.h"
#include "math_kernels.h"
#include "test.h"
#include "variants.h"

enum { STEP_RULES = PTX_STEP_RULE_MUON }; // those of elements

/// For the oldest target, the default, and one of the newest. The default in f32 is a file, for the
/// default target.
static void check_kernels(struct golden *g)
{
    static const int targets[] = { 70, 80, 100 };
    const ptx_kernel *kernel;
    for (size_t k = 0; (kernel = ptx_kernel_at(k)) != NULL; ++k) {
        struct ptx_kernel_spec spec;
        bool first = true;
        for (bool more = variant_first(kernel, PTX_NONE, &spec); more;
             more = variant_next(kernel, &spec))
            for (unsigned t = 0; t < 3; ++t) {
                const struct ptx_builder_params target = { .target = { .sm = targets[t] } };
                char variant[VARIANT_NAME_SIZE], name[VARIANT_NAME_SIZE + 16], file[128];
                ptx_builder *b = ptx_builder_create(&target);
                ptx_kernel_emit(b, kernel, &spec);
                snprintf(name, sizeof name, "%s_sm%d", variant_name(kernel, &spec, variant),
                         targets[t]);
                snprintf(file, sizeof file, "%s.f32.ptx", kernel->name);
                const bool kept = first && spec.dtype == PTX_F32 && targets[t] == 80;
                first = first && !kept;
                check_text(g, b, name, kept ? file : NULL);
            }
    }
}

static void check_clip(struct golden *g, int sm, const struct ptx_clip_params *params,
                       const char *name)
{
    ptx_builder *b = ptx_builder_create(&(struct ptx_builder_params) { .target = { .sm = sm } });
    char full[96];
    assert_int_equal(ptx_clip_emit(b, params), PTX_OK);
    snprintf(full, sizeof full, "%s_sm%d", name, sm);
    check_text(g, b, full, NULL);
}

/// A plan of one gradient, on two targets.
static void check_clip_of(struct golden *g, ptx_type type, struct ptx_clip_params params,
                          const char *name)
{
    const struct ptx_clip_tensor tensor = { .count = 1000, .dtype = type };
    params.tensors = &tensor;
    params.tensor_count = 1;
    params.max_norm = 1;
    for (unsigned k = 0; k < 2; ++k)
        check_clip(g, k ? 90 : 70, &params, name);
}

/// A plan of one tensor, of the type that its format takes, and of one group, on two targets.
static void check_step_of(struct golden *g, struct ptx_step_tensor tensor,
                          struct ptx_step_group group, struct ptx_step_params params,
                          const char *format, ...)
{
    const bool f32 =
        tensor.format == PTX_STEP_FORMAT_FULL || tensor.format == PTX_STEP_FORMAT_STATE_BF16;
    char name[64], full[96];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    if (tensor.dtype == PTX_NONE)
        tensor.dtype = f32 ? PTX_F32 : PTX_BF16;
    params.tensors = &tensor;
    params.groups = &group;
    params.tensor_count = params.group_count = 1;
    params.max_norm = 1;
    const int least = group.rule == PTX_STEP_RULE_MUON ? 80 : 70;
    for (unsigned k = 0; k < 2; ++k) {
        const struct ptx_builder_params target = { .target = { .sm = k ? 90 : least } };
        ptx_builder *b = ptx_builder_create(&target);
        assert_int_equal(ptx_step_emit(b, &params), PTX_OK);
        snprintf(full, sizeof full, "step_plan_%s_sm%d", name, target.target.sm);
        check_text(g, b, full, NULL);
    }
}

/// Plans of one type and of all types, of few and of many tensors, with each policy, on two
/// targets.
static void check_clip_plans(struct golden *g)
{
    enum { MANY = 1000 };
    static const struct ptx_loss_scale_params update;
    static const ptx_type types[] = { PTX_F32, PTX_F64, PTX_F16, PTX_BF16 };
    for (unsigned v = 0; v < 5 * 3 * 2 * 2 * 2 * 2; ++v) {
        const unsigned set = v % 5, policy = v / 5 % 3, updates = v / 15 % 2, measures = v / 30 % 2;
        const unsigned many = v / 60 % 2;
        struct ptx_clip_tensor tensors[MANY];
        for (size_t t = 0; t < MANY; ++t)
            tensors[t] =
                (struct ptx_clip_tensor) { .count = 1000, .dtype = types[set < 4 ? set : t % 4] };
        const struct ptx_clip_params params = { .tensors = tensors,
                                                .tensor_count = many ? MANY : 4,
                                                .max_norm = 1,
                                                .nonfinite = (ptx_nonfinite)policy,
                                                .update = updates ? &update : NULL,
                                                .measure_only = measures };
        char name[64];
        snprintf(name, sizeof name, "clip_plan_%s_nonfinite%u%s%s%s",
                 set < 4 ? ptx_type_name(types[set]) : "mixed", policy, updates ? "_update" : "",
                 measures ? "_measure" : "", many ? "_packed" : "");
        check_clip(g, v / 120 % 2 ? 90 : 80, &params, name);
    }
}

/// Plans with every combination of scalars at the caller's addresses.
static void check_clip_plan_scalars(struct golden *g)
{
    static const struct ptx_clip_tensor tensor = { .count = 1000, .dtype = PTX_F32 };
    for (unsigned v = 0; v < 32; ++v) {
        const struct ptx_clip_params params = { .tensors = &tensor,
                                                .tensor_count = 1,
                                                .max_norm = 1,
                                                .max_norms_at = v & 1 ? 4 : 0,
                                                .loss_scale_at = v & 2 ? 8 : 0,
                                                .found_inf_at = v & 4 ? 12 : 0,
                                                .found_inf_to = v & 8 ? 16 : 0,
                                                .sum_rows = v & 16 ? 2 : 0 };
        char name[80];
        snprintf(name, sizeof name, "clip_plan_f32%s%s%s%s%s", v & 1 ? "_max_norms_at" : "",
                 v & 2 ? "_loss_scale_at" : "", v & 4 ? "_found_inf_at" : "",
                 v & 8 ? "_found_inf_to" : "", v & 16 ? "_sum_rows" : "");
        check_clip(g, 80, &params, name);
    }
}

static const struct ptx_step_group adamw = { .rule = PTX_STEP_RULE_ADAMW };

/// Plans with each guard, and with several, that clip and that step.
static void check_guards(struct golden *g)
{
    static const struct {
        const char *name;
        struct ptx_guard_params guards;
    } all[] = {
        { "none", { 0 } },
        { "limit", { .limit = 1 } },
        { "limits_at_skip_at", { .limits_at = 16, .skip_at = 4 } },
        { "history", { .history.length = 128 } },
        { "losses", { .history = { .length = 128, .loss_at = 4, .most_skips = 3 } } },
        { "one_group", { .limit = 1, .history = { .length = 128, .one_group = true } } },
        { "zclip", { .zclip.warmup = 25 } },
        { "adagc", { .adagc.warmup = 100, .history.length = 16 } },
    };
    for (unsigned v = 0; v < sizeof all / sizeof *all; ++v) {
        char name[64];
        snprintf(name, sizeof name, "clip_plan_guards_%s", all[v].name);
        check_clip_of(g, PTX_F32,
                      (struct ptx_clip_params) { .sum_rows = 1 + v % 2, .guards = &all[v].guards },
                      name);
        check_step_of(g, (struct ptx_step_tensor) { .count = 1000 }, adamw,
                      (struct ptx_step_params) { .guards = &all[v].guards }, "guards_%s",
                      all[v].name);
    }
}

/// A step plan whose small tensors share chunks, and are reported.
static void check_packed_reports(struct golden *g)
{
    static struct ptx_step_tensor tensors[600];
    const struct ptx_step_params params = { .tensors = tensors,
                                            .tensor_count = 600,
                                            .groups = &adamw,
                                            .group_count = 1,
                                            .max_norm = 1,
                                            .reports_at = 8 };
    for (unsigned t = 0; t < 600; ++t)
        tensors[t] = (struct ptx_step_tensor) { .count = 100,
                                                .dtype = PTX_F32,
                                                .gradient_dtype = t % 2 ? PTX_BF16 : PTX_F32 };
    for (int sm = 70; sm <= 90; sm += 20) {
        const struct ptx_builder_params target = { .target = { .sm = sm } };
        ptx_builder *b = ptx_builder_create(&target);
        char name[64];
        assert_int_equal(ptx_step_emit(b, &params), PTX_OK);
        snprintf(name, sizeof name, "step_plan_reports_packed_sm%d", sm);
        check_text(g, b, name, NULL);
    }
}

/// Plans with reports, of each type of gradient; step plans with reports of weights, in each
/// format.
static void check_reports(struct golden *g)
{
    static const ptx_type types[] = { PTX_F32, PTX_F16, PTX_BF16, PTX_F64 };
    for (unsigned v = 0; v < 4; ++v) {
        char name[64];
        snprintf(name, sizeof name, "clip_plan_reports_%s", ptx_type_name(types[v]));
        check_clip_of(g, types[v], (struct ptx_clip_params) { .reports_at = 8 }, name);
    }
    for (unsigned v = 0; v < 3; ++v)
        check_step_of(g, (struct ptx_step_tensor) { .count = 1000, .gradient_dtype = types[v] },
                      adamw, (struct ptx_step_params) { .reports_at = 8 }, "reports_%s",
                      ptx_type_name(types[v]));
    check_packed_reports(g);
}

static void check_weight_reports(struct golden *g)
{
    for (unsigned format = 0; format < PTX_STEP_FORMAT_COUNT; ++format)
        check_step_of(
            g, (struct ptx_step_tensor) { .count = 1000, .format = (ptx_step_format)format }, adamw,
            (struct ptx_step_params) { .weight_reports_at = 8 }, "weight_reports_format%u", format);
}

/// Plans of each rule in each format, with every type of gradient in turn.
static void check_step_plans(struct golden *g)
{
    static const ptx_type gradients[] = { PTX_F32, PTX_F16, PTX_BF16 };
    for (unsigned v = 0; v < STEP_RULES * PTX_STEP_FORMAT_COUNT; ++v) {
        const unsigned rule = v % STEP_RULES, format = v / STEP_RULES;
        check_step_of(g,
                      (struct ptx_step_tensor) { .count = v % 3 ? 1000 : 1 << 24,
                                                 .gradient_dtype = gradients[v % 3],
                                                 .format = (ptx_step_format)format },
                      (struct ptx_step_group) { .rule = (ptx_step_rule)rule,
                                                .maximize = format % 2,
                                                .hyper = { .momentum = 0.9 } },
                      (struct ptx_step_params) { .gradients = (ptx_step_gradients)(v % 3) },
                      "rule%u_format%u", rule, format);
    }
}

/// Plans that clip units, in each format, with rows that steps leave sums of and with others.
static void check_unit_plans(struct golden *g)
{
    static const ptx_type gradients[] = { PTX_F32, PTX_F16, PTX_BF16 };
    for (unsigned format = 0; format < PTX_STEP_FORMAT_COUNT; ++format)
        check_step_of(g,
                      (struct ptx_step_tensor) { .count = 1000,
                                                 .columns = format % 2 ? 5 : 40,
                                                 .gradient_dtype = gradients[format % 3],
                                                 .format = (ptx_step_format)format },
                      (struct ptx_step_group) { .rule = PTX_STEP_RULE_ADAMW, .agc = { 0.01 } },
                      (struct ptx_step_params) { .weight_reports_at = format == 2 ? 8 : 0 },
                      "units_format%u", format);
}

/// Plans of matrices, in each format that has no blocks, with products and without.
static void check_matrix_plans(struct golden *g)
{
    static const ptx_type gradients[] = { PTX_F32, PTX_F16, PTX_BF16 };
    static const struct ptx_muon_params none = { .steps = 0 };
    for (unsigned v = 0; v < 2 * PTX_STEP_FORMAT_STATE_8BIT; ++v) {
        const unsigned format = v / 2;
        check_step_of(g,
                      (struct ptx_step_tensor) { .count = 1000,
                                                 .columns = 20,
                                                 .gradient_dtype = gradients[v % 3],
                                                 .format = (ptx_step_format)format,
                                                 .ema_dtype = v == 1 ? PTX_BF16 : PTX_NONE,
                                                 .accumulator = v == 4 ? 16 : 0,
                                                 .accumulated = v == 4 ? 8 : 0 },
                      (struct ptx_step_group) { .rule = PTX_STEP_RULE_MUON,
                                                .nesterov = v % 2,
                                                .maximize = format == 1,
                                                .hyper = { .momentum = 0.9 },
                                                .muon = v % 4 ? &none : NULL },
                      (struct ptx_step_params) { .gradients = (ptx_step_gradients)(v % 3),
                                                 .weight_reports_at = v == 2 ? 8 : 0 },
                      "matrices%u_format%u", v % 2, format);
    }
}

/// Plans whose products step their matrices, without guards and with them.
static void check_chip_plans(struct golden *g)
{
    static const struct ptx_guard_params guards = { .limit = 1 };
    for (unsigned v = 0; v < 2 * PTX_STEP_FORMAT_STATE_8BIT; ++v)
        if (v / 2 % 3 == 0)
            check_step_of(g,
                          (struct ptx_step_tensor) {
                              .count = 5280, .columns = 80, .format = (ptx_step_format)(v / 2) },
                          (struct ptx_step_group) { .rule = PTX_STEP_RULE_MUON,
                                                    .nesterov = true,
                                                    .hyper = { .momentum = 0.9 } },
                          (struct ptx_step_params) { .gradients = PTX_STEP_GRADIENTS_RAW,
                                                     .guards = v % 2 ? &guards : NULL },
                          "matrices_chips%s_format%u", v % 2 ? "_guards" : "", v / 2);
}

/// The same in tiles, of wide matrices and tall ones.
static void check_tile_plans(struct golden *g)
{
    for (unsigned v = 0; v < 2 * PTX_STEP_FORMAT_STATE_8BIT; ++v)
        if (v / 2 % 3 == 0)
            check_step_of(g,
                          (struct ptx_step_tensor) { .count = 132 * 140,
                                                     .columns = v % 2 ? 132 : 140,
                                                     .format = (ptx_step_format)(v / 2) },
                          (struct ptx_step_group) { .rule = PTX_STEP_RULE_MUON,
                                                    .hyper = { .momentum = 0.9 } },
                          (struct ptx_step_params) { .gradients = PTX_STEP_GRADIENTS_RAW },
                          "matrices_tiles%s_format%u", v % 2 ? "_tall" : "", v / 2);
}

/// The same of matrices that are rows or columns of a parameter.
static void check_spread_plans(struct golden *g)
{
    static const struct ptx_muon_params none = { .steps = 0 };
    for (unsigned format = 0; format < PTX_STEP_FORMAT_STATE_8BIT; ++format)
        check_step_of(g,
                      (struct ptx_step_tensor) { .count = 1000,
                                                 .columns = 20,
                                                 .spread = { 20, 60 },
                                                 .format = (ptx_step_format)format,
                                                 .fp8 = format == 3 ? 8 : 0,
                                                 .fp8_scale = format == 3 ? 4 : 0,
                                                 .accumulator = format % 2 ? 16 : 0,
                                                 .accumulated = format % 2 ? 8 : 0 },
                      (struct ptx_step_group) {
                          .rule = PTX_STEP_RULE_MUON, .hyper = { .momentum = 0.9 }, .muon = &none },
                      (struct ptx_step_params) { .gradients = (ptx_step_gradients)(format % 3) },
                      "matrices_spread_format%u", format);
}

/// Plans in which rows or columns have factors, in each format, and of matrices.
static void check_factor_plans(struct golden *g)
{
    static const struct ptx_muon_params none = { .steps = 0 };
    for (unsigned format = 0; format <= PTX_STEP_FORMAT_COUNT; ++format) {
        const bool matrices = format == PTX_STEP_FORMAT_COUNT;
        const struct ptx_qk_clip clip = { .range = { .run = 2, .columns = format % 2 },
                                          .factor_at = 4 };
        const struct ptx_step_group muon = { .rule = PTX_STEP_RULE_MUON,
                                             .hyper = { .momentum = 0.9 },
                                             .muon = &none };
        check_step_of(g,
                      (struct ptx_step_tensor) {
                          .count = 1000,
                          .columns = 20,
                          .format = (ptx_step_format)(matrices ? PTX_STEP_FORMAT_FULL : format) },
                      matrices ? muon : adamw,
                      (struct ptx_step_params) { .qk_clips = &clip,
                                                 .qk_clip_count = 1,
                                                 .weight_reports_at = format == 1 ? 8 : 0 },
                      "factors%u", format);
    }
}

/// Plans with accumulators, for each type of gradients, without and with reports.
static void check_accumulating_plans(struct golden *g)
{
    static const ptx_type types[] = { PTX_F32, PTX_F16, PTX_BF16 };
    for (unsigned v = 0; v < 6; ++v)
        check_step_of(g,
                      (struct ptx_step_tensor) { .count = 1 << 24,
                                                 .gradient_dtype = types[v % 3],
                                                 .accumulator = 16,
                                                 .accumulated = 8 },
                      adamw, (struct ptx_step_params) { .reports_at = v / 3 ? 8 : 0 },
                      "accumulates%s_%s", v / 3 ? "_reports" : "", ptx_type_name(types[v % 3]));
}

/// Plans with an average of the weights, in f32 and in bf16, of each format, with the rules in
/// turn.
static void check_ema_plans(struct golden *g)
{
    for (unsigned v = 0; v < PTX_STEP_FORMAT_COUNT * 2; ++v) {
        const unsigned format = v / 2, rule = (v + format) % STEP_RULES;
        const ptx_type average = v % 2 ? PTX_BF16 : PTX_F32;
        check_step_of(
            g,
            (struct ptx_step_tensor) {
                .count = 1 << 24, .format = (ptx_step_format)format, .ema_dtype = average },
            (struct ptx_step_group) { .rule = (ptx_step_rule)rule,
                                      .hyper = { .momentum = 0.9, .ema_decay = 0.5 } },
            (struct ptx_step_params) { 0 }, "ema_%s_format%u", ptx_type_name(average), format);
    }
}

/// Plans that leave copies of the weights in 8 bits, their amax or both, of each format.
static void check_copy_plans(struct golden *g)
{
    static const char *const names[] = { "amax", "e4m3", "e5m2_amax" };
    for (unsigned v = 0; v < PTX_STEP_FORMAT_COUNT * 3; ++v) {
        const unsigned format = v / 3, leaves = v % 3;
        check_step_of(
            g,
            (struct ptx_step_tensor) { .count = 1 << 24,
                                       .format = (ptx_step_format)format,
                                       .amax = leaves == 1 ? 0 : 4,
                                       .fp8 = leaves ? 8 : 0,
                                       .fp8_transposed = leaves == 2 && !format ? 16 : 0,
                                       .fp8_columns = 64,
                                       .fp8_scale = leaves ? 4 : 0,
                                       .fp8_format = leaves == 2 ? PTX_FP8_E5M2 : PTX_FP8_E4M3 },
            adamw, (struct ptx_step_params) { 0 }, "%s_format%u", names[leaves], format);
    }
    for (unsigned v = 0; v < 2; ++v) // of a matrix in whole tiles
        check_step_of(g,
                      (struct ptx_step_tensor) { .count = 1 << 24,
                                                 .amax = v ? 4 : 0,
                                                 .fp8 = 8,
                                                 .fp8_transposed = 16,
                                                 .fp8_columns = 128,
                                                 .fp8_scale = 4,
                                                 .fp8_format = v ? PTX_FP8_E5M2 : PTX_FP8_E4M3 },
                      adamw, (struct ptx_step_params) { 0 }, "%s_transposed", names[1 + v]);
}

/// Plans whose copies are in blocks, of each kind of block, type of parameter and format of codes;
/// with guards and with accumulators.
static void check_block_plans(struct golden *g)
{
    static const struct {
        ptx_step_format format;
        ptx_type dtype;
    } of[] = { { PTX_STEP_FORMAT_FULL, PTX_F32 },
               { PTX_STEP_FORMAT_REMAINDER, PTX_BF16 },
               { PTX_STEP_FORMAT_MASTER, PTX_F16 } };
    static const struct ptx_guard_params guards = { .limit = 1 };
    for (unsigned v = 0; v < 12; ++v)
        check_step_of(g,
                      (struct ptx_step_tensor) { .count = 1 << 24,
                                                 .dtype = of[v / 4].dtype,
                                                 .gradient_dtype = PTX_BF16,
                                                 .format = of[v / 4].format,
                                                 .accumulator = v % 3 == 1 ? 16 : 0,
                                                 .accumulated = v % 3 == 1 ? 8 : 0,
                                                 .fp8 = 8,
                                                 .fp8_scale_inv = 4,
                                                 .fp8_columns = 64,
                                                 .fp8_blocks = (ptx_fp8_blocks)(1 + v / 2 % 2),
                                                 .fp8_format = (ptx_fp8)(v % 2) },
                      adamw, (struct ptx_step_params) { .guards = v % 3 == 2 ? &guards : NULL },
                      "blocks%u_%s_%s", v / 2 % 2, ptx_type_name(of[v / 4].dtype),
                      v % 2 ? "e5m2" : "e4m3");
}

/// A plan of f32 gradients with common options, for sm_90, where its launches overlap, which is a
/// file; a plan with every option, for sm_80.
static void check_some_clip_plans(struct golden *g)
{
    static const struct ptx_loss_scale_params update;
    static const struct ptx_clip_tensor tensors[] = {
        { .count = 1000, .dtype = PTX_F32 },
        { .count = 1000, .dtype = PTX_F64, .group = 1 },
        { .count = 1000, .dtype = PTX_F16, .group = 1 },
        { .count = 1000, .dtype = PTX_BF16 }
    };
    const struct ptx_clip_params one = { .tensors = tensors, .tensor_count = 1, .max_norm = 1 };
    const struct ptx_clip_params all = { .tensors = tensors,
                                         .tensor_count = 4,
                                         .nonfinite = PTX_NONFINITE_ZERO,
                                         .max_norms_at = 4,
                                         .update = &update,
                                         .found_inf_at = 12,
                                         .found_inf_to = 16 };
    const struct ptx_builder_params sm_90 = { .target = { .sm = 90 } };
    ptx_builder *b = ptx_builder_create(&sm_90);
    assert_int_equal(ptx_clip_emit(b, &one), PTX_OK);
    check_text(g, b, "clip_plan_one_sm90", "clip_plan.f32.ptx");
    b = ptx_builder_create(NULL);
    assert_int_equal(ptx_clip_emit(b, &all), PTX_OK);
    check_text(g, b, "clip_plan_every_option_sm80", NULL);
}

/// AdamW in f32, which is a file, and Lion with 8-bit states, for sm_90; and a plan of several
/// rules and formats, for sm_80.
static void check_some_step_plans(struct golden *g)
{
    static const struct ptx_loss_scale_params update;
    static const struct ptx_step_hyper hyper = {
        .lr = 0.001, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .momentum = 0.9
    };
    const struct ptx_step_group groups[] = {
        { .rule = PTX_STEP_RULE_ADAMW, .hyper = hyper },
        { .rule = PTX_STEP_RULE_SGD, .nesterov = true, .hyper = hyper },
        { .rule = PTX_STEP_RULE_LION, .maximize = true, .hyper = hyper },
    };
    static const struct ptx_step_tensor tensors[] = {
        { .count = 1000, .dtype = PTX_F32 },
        { .count = 1000, .dtype = PTX_BF16, .format = PTX_STEP_FORMAT_REMAINDER, .group = 1 },
        { .count = 1000,
          .dtype = PTX_BF16,
          .gradient_dtype = PTX_F16,
          .format = PTX_STEP_FORMAT_STOCHASTIC,
          .group = 2 },
        { .count = 1000, .dtype = PTX_F32, .format = PTX_STEP_FORMAT_STATE_8BIT, .group = 2 },
    };
    const struct ptx_step_params one = {
        .tensors = tensors, .tensor_count = 1, .groups = groups, .group_count = 1, .max_norm = 1
    };
    const struct ptx_step_params several = { .tensors = tensors,
                                             .tensor_count = 3,
                                             .groups = groups,
                                             .group_count = 3,
                                             .max_norm = 1,
                                             .update = &update,
                                             .gradients = PTX_STEP_GRADIENTS_WRITE };
    const struct ptx_builder_params sm_90 = { .target = { .sm = 90 } };
    ptx_builder *b = ptx_builder_create(&sm_90);
    assert_int_equal(ptx_step_emit(b, &one), PTX_OK);
    check_text(g, b, "step_plan_adamw_f32_sm90", "step_plan.adamw_f32.ptx");
    struct ptx_step_params codes = one;
    codes.tensors = &tensors[3];
    codes.group_count = 3;
    b = ptx_builder_create(&sm_90);
    assert_int_equal(ptx_step_emit(b, &codes), PTX_OK);
    check_text(g, b, "step_plan_lion_8bit_sm90", NULL);
    b = ptx_builder_create(NULL);
    assert_int_equal(ptx_step_emit(b, &several), PTX_OK);
    check_text(g, b, "step_plan_several_sm80", NULL);
}

/// A kernel for each function of math.h.
static void check_math(struct golden *g)
{
    ptx_builder *b = ptx_builder_create(NULL);
    math_kernels(b);
    check_text(g, b, "math_sm80", NULL);
}

#ifndef GOLDEN_EXPORTED
/// Muon's products, and what puts matrices together from parts.
static void check_muon(struct golden *g)
{
    ptx_builder *b = ptx_builder_create(NULL);
    ptxk_muon_emit(b, MUON_ALL);
    check_text(g, b, "muon_products_sm80", NULL);
    b = ptx_builder_create(&(struct ptx_builder_params) { .target = { .sm = 90, .suffix = 'a' } });
    ptxk_muon_emit(b, MUON_ALL);
    check_text(g, b, "muon_products_sm90a", NULL);
    b = ptx_builder_create(NULL);
    ptxk_muon_parts_emit(b);
    check_text(g, b, "muon_parts_sm80", NULL);
}

/// Block formats: each float, scale, type and shape of a block.
static void check_block_formats(struct golden *g)
{
    static const ptx_type types[] = { PTX_F32, PTX_F16, PTX_BF16 };
    char name[64];
    for (unsigned v = 0; v <= BLOCK_FP8_DEEPGEMM_POWER; ++v)
        for (unsigned k = 0; k < 6; ++k) {
            const bool mx = v >= BLOCK_MX_FLOOR && v <= BLOCK_MX_RCEIL_TE;
            const struct blocks_spec spec = {
                .dtype = types[k % 3],
                .scaling = (enum block_scaling)v,
                .element = v < BLOCK_MX_FLOOR ? BLOCK_E2M1
                           : mx               ? (enum block_float)((v + k) % (BLOCK_E5M2 + 1))
                                              : BLOCK_E4M3,
                .width = v < BLOCK_MX_FLOOR ? 16
                         : mx               ? 32
                                            : 128,
                .height = k < 3 || mx          ? 1
                          : v < BLOCK_MX_FLOOR ? 16
                                               : 128,
                .stochastic = k % 2,
            };
            ptx_builder *b = ptx_builder_create(NULL);
            ptxk_blocks_emit(b, &spec);
            snprintf(name, sizeof name, "block_format_%u_%u_%s_sm80", v, k,
                     ptx_type_name(spec.dtype));
            check_text(g, b, name, NULL);
        }
    for (unsigned k = 0; k < 7; ++k) {
        const struct blocks_spec spec = { .dtype = k < 4 ? PTX_BF16 : types[k % 3],
                                          .element = BLOCK_E2M1,
                                          .width = 16,
                                          .height = 1,
                                          .scaling = k == 1 ? BLOCK_NVFP4_TORCHAO : BLOCK_NVFP4_TE,
                                          .stochastic = k == 2,
                                          .hadamard = k<4, .measure = k> 2 };
        ptx_builder *b = ptx_builder_create(NULL);
        ptxk_blocks_emit(b, &spec);
        snprintf(name, sizeof name, "block_format_transform_%u_%s_sm80", k,
                 ptx_type_name(spec.dtype));
        check_text(g, b, name, NULL);
    }
    for (unsigned k = 0; k < 6; ++k) {
        const struct blocks_spec spec = { .dtype = types[k % 3],
                                          .element = BLOCK_E2M1,
                                          .width = 16,
                                          .height = 1,
                                          .scaling = k % 4 ? BLOCK_NVFP4_TE : BLOCK_NVFP4_TORCHAO,
                                          .learning = k < 3 ? BLOCK_GRADIENT : BLOCK_LEARNED };
        ptx_builder *b = ptx_builder_create(NULL);
        ptxk_blocks_emit(b, &spec);
        snprintf(name, sizeof name, "block_format_learned_%u_%s_sm80", k,
                 ptx_type_name(spec.dtype));
        check_text(g, b, name, NULL);
    }
}
#endif

void check_all_texts(struct golden *g)
{
    check_kernels(g);
    check_clip_plans(g);
    check_clip_plan_scalars(g);
    check_some_clip_plans(g);
    check_step_plans(g);
    check_matrix_plans(g);
    check_chip_plans(g);
    check_tile_plans(g);
    check_spread_plans(g);
    check_factor_plans(g);
    check_ema_plans(g);
    check_copy_plans(g);
    check_block_plans(g);
    check_accumulating_plans(g);
    check_guards(g);
    check_reports(g);
    check_weight_reports(g);
    check_unit_plans(g);
    check_some_step_plans(g);
    check_math(g);
#ifndef GOLDEN_EXPORTED
    check_muon(g);
    check_block_formats(g);
#endif
}
