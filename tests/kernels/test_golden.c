// SPDX-License-Identifier: MIT
// Compares each text that the library writes with the hash of it in golden/hashes.txt: every
// variant of every kernel, clip and step plans, functions of math.h, Muon's products. The texts
// that golden/ has whole are there to be read: each kernel's default in f32, and two plans. Of a
// text that differs, golden_difference.py prints the difference from the text of the last commit.
// After an intended change: meson compile -C build golden. In each text a comment stands at least
// every 40 lines.
//
//     test_golden --text NAME       prints the text that has this name in hashes.txt
//     test_golden --texts FOLDER    writes all of them, each to FOLDER/NAME.ptx
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ptxgen/clip.h>
#include <ptxgen/kernels.h>
#include <ptxgen/step.h>

#ifndef GOLDEN_EXPORTED // with an installed library: no texts of functions that it does not export
#include "kernels/blocks.h"
#include "kernels/muon.h"
#include "kernels/muon_parts.h"
#endif
#include "math_kernels.h"
#include "test.h"
#include "variants.h"

enum { STEP_RULES = PTX_STEP_RULE_MUON }; // those of elements

#ifndef GOLDEN_DIR
#error "GOLDEN_DIR: the folder of the golden texts"
#endif

enum { PATH_SIZE = 1024, HASHES_SIZE = 1 << 18, SHOWN = 3, MOST_IN_A_ROW = 40 };

static struct {
    const char *program, *wanted; // --text: a name in hashes.txt
    const char *folder;           // --texts
    bool found;
} call;

static const char *golden_path(const char *name, char path[PATH_SIZE])
{
    const char *folder = getenv("PTXGEN_GOLDEN_DIR");
    snprintf(path, PATH_SIZE, "%s/%s", folder ? folder : GOLDEN_DIR, name);
    return path;
}

/// The file's bytes with a NUL after them, or NULL. Freed by the caller.
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    size_t room = 1 << 16, size = 0;
    char *text = malloc(room + 1);
    for (size_t got; text && (got = fread(text + size, 1, room - size, file)) > 0;) {
        size += got;
        if (size < room)
            continue;
        char *larger = realloc(text, 2 * room + 1);
        if (!larger)
            free(text);
        text = larger;
        room *= 2;
    }
    fclose(file);
    if (text)
        text[size] = '\0';
    return text;
}

static bool write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    if (!file)
        return false;
    bool written = fputs(text, file) >= 0;
    return fclose(file) == 0 && written;
}

/// Prints what a command that reads the text prints, on standard error. The command's exit status,
/// or -1.
static int pass_to(const char *command, const char *text)
{
    fprintf(stderr, "\n");
    FILE *reader = popen(command, "w");
    if (!reader)
        return -1;
    fputs(text, reader);
    const int status = pclose(reader);
    return status == -1 ? -1 : status >> 8;
}

struct golden {
    bool rewrite;
    unsigned differences, written, long_runs;
    char hashes[HASHES_SIZE]; // a line each: name and hash
    size_t used;
};

/// A file of golden/.
static void check_file(struct golden *g, const char *name, const char *text)
{
    char path[PATH_SIZE], command[PATH_SIZE + 64];
    golden_path(name, path);
    if (g->rewrite) {
        if (!write_file(path, text))
            fail_msg("cannot write %s", path);
        ++g->written;
        return;
    }
    char *golden = read_file(path);
    if (!golden) {
        fprintf(stderr, "%s is missing; meson compile golden writes it\n", path);
        ++g->differences;
    } else if (strcmp(golden, text) != 0) {
        snprintf(command, sizeof command, "diff -u '%s' - 1>&2", path);
        if (pass_to(command, text) != 1)
            fprintf(stderr, "no diff(1); %s should be:\n%s", path, text);
        ++g->differences;
    }
    free(golden);
}

/// Names each place where too many lines of code follow each other without a comment. Declarations
/// and blank lines are no code.
static void check_comments(struct golden *g, const char *name, const char *text)
{
    unsigned number = 1, in_a_row = 0;
    for (const char *line = text, *end; *line; line = end + 1, ++number) {
        end = line + strcspn(line, "\n");
        const char *first = line + strspn(line, " ");
        const bool is_comment = strncmp(first, "//", 2) == 0;
        const bool is_code = first > line ? *first != '.' && !is_comment : *first == '$';
        if (first < end)
            in_a_row = is_code ? in_a_row + 1 : 0;
        if (in_a_row == MOST_IN_A_ROW + 1) {
            fprintf(stderr, "%s:%u: more than %d lines of code without a comment\n", name,
                    number - MOST_IN_A_ROW, MOST_IN_A_ROW);
            ++g->long_runs;
        }
        if (!*end)
            break;
    }
}

/// Adds a text to the hashes, under this name. file: of golden/, or NULL. Destroys the builder.
static void check_text(struct golden *g, ptx_builder *b, const char *name, const char *file)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); // FNV-1a
    const char *text = ptx_builder_finish(b);
    if (!text)
        fail_msg("%s: %s", name, ptx_builder_error(b));
    for (const char *c = text; *c; ++c)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    check_comments(g, name, text);
    assert_true(g->used + strlen(name) + 24 < sizeof g->hashes);
    g->used += (size_t)snprintf(g->hashes + g->used, sizeof g->hashes - g->used,
                                "%s %016" PRIx64 "\n", name, hash);
    if (call.wanted && strcmp(call.wanted, name) == 0) {
        call.found = true;
        fputs(text, stdout);
    } else if (call.folder) {
        char path[PATH_SIZE];
        snprintf(path, sizeof path, "%s/%s.ptx", call.folder, name);
        if (!write_file(path, text))
            fail_msg("cannot write %s", path);
    } else if (!call.wanted && file) {
        check_file(g, file, text);
    }
    ptx_builder_destroy(&b);
}

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

/// Plans whose products step their matrices.
static void check_chip_plans(struct golden *g)
{
    for (unsigned format = 0; format < PTX_STEP_FORMAT_STATE_8BIT; format += 3)
        check_step_of(g,
                      (struct ptx_step_tensor) {
                          .count = 5280, .columns = 80, .format = (ptx_step_format)format },
                      (struct ptx_step_group) { .rule = PTX_STEP_RULE_MUON,
                                                .nesterov = true,
                                                .hyper = { .momentum = 0.9 } },
                      (struct ptx_step_params) { .gradients = PTX_STEP_GRADIENTS_RAW },
                      "matrices_chips_format%u", format);
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
                                                 .accumulated = v % 3 == 1 ? 4 : 0,
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

static void emit_all(struct golden *g)
{
    check_kernels(g);
    check_clip_plans(g);
    check_clip_plan_scalars(g);
    check_some_clip_plans(g);
    check_step_plans(g);
    check_matrix_plans(g);
    check_chip_plans(g);
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

/// Whether the line is among the lines of the text.
static bool has_line(const char *text, const char *line, size_t length)
{
    for (const char *at = text; at; at = strchr(at, '\n'), at += at != NULL)
        if (strncmp(at, line, length) == 0)
            return true;
    return false;
}

/// Names the texts whose hash is not the recorded one, and shows how the first few differ.
static void check_hashes(struct golden *g)
{
    char path[PATH_SIZE], names[SHOWN * 160] = "";
    char command[4 * PATH_SIZE];
    char *golden = g->rewrite ? NULL : read_file(golden_path("hashes.txt", path));
    if (!golden || strcmp(golden, g->hashes) == 0) {
        check_file(g, "hashes.txt", g->hashes);
        free(golden);
        return;
    }
    unsigned before = g->differences, lost = 0;
    for (const char *line = g->hashes, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        if (has_line(golden, line, (size_t)(end - line) + 1))
            continue;
        const int name = (int)(strcspn(line, " "));
        fprintf(stderr, "%.*s differs from what hashes.txt records\n", name, line);
        if (++g->differences - before <= SHOWN)
            snprintf(names + strlen(names), sizeof names - strlen(names), " %.*s", name, line);
    }
    for (const char *line = golden, *end; *line && (end = strchr(line, '\n')); line = end + 1)
        if (!has_line(g->hashes, line, strcspn(line, " ") + 1) && ++lost)
            fprintf(stderr, "%.*s is in hashes.txt, and is written no more\n",
                    (int)strcspn(line, " "), line);
    g->differences += lost + (g->differences == before && !lost); // another order, at least
    free(golden);
    const char *script = getenv("PTXGEN_GOLDEN_DIFFERENCE");
    if (!script || !*names)
        return;
    snprintf(command, sizeof command, "python3 '%s' '%s'%s 1>&2", script, call.program, names);
    if (system(command) != 0)
        fprintf(stderr, "%s: no difference printed\n", script);
}

TEST(test_golden)
{
    static struct golden g;
    g.rewrite = getenv("PTXGEN_REWRITE_GOLDEN") != NULL;
    emit_all(&g);
    check_hashes(&g);
    if (g.rewrite)
        fprintf(stderr, "%u golden texts written\n", g.written);
    if (g.differences)
        fail_msg("%u golden texts differ", g.differences);
    if (g.long_runs)
        fail_msg("%u places need a comment: ptx_comment() writes one", g.long_runs);
}

int main(int argc, char **argv)
{
    call.program = argv[0];
    if (argc == 3 && (strcmp(argv[1], "--text") == 0 || strcmp(argv[1], "--texts") == 0)) {
        static struct golden g;
        *(argv[1][6] ? &call.folder : &call.wanted) = argv[2];
        emit_all(&g);
        if (call.wanted && !call.found)
            fprintf(stderr, "%s: no text has this name\n", argv[2]);
        return call.wanted && !call.found;
    }
    return tests_run(NULL, NULL);
}
