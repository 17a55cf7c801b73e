// SPDX-License-Identifier: MIT
// Compares texts with golden/: each kernel and dtype with default options for sm_80, each option
// with its second value, clip and step plans, functions of math.h; and a hash of every text. After
// an intended change: meson compile -C build golden, and read the difference in version control.
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ptxgen/clip.h>
#include <ptxgen/kernels.h>
#include <ptxgen/step.h>

#include "math_kernels.h"
#include "variants.h"

#ifndef GOLDEN_DIR
#error "GOLDEN_DIR: the folder of the golden texts"
#endif

enum { PATH_SIZE = 1024 };

static const char *golden_path(const char *name, const char *type, char path[PATH_SIZE])
{
    const char *folder = getenv("PTXGEN_GOLDEN_DIR");
    snprintf(path, PATH_SIZE, "%s/%s.%s.ptx", folder ? folder : GOLDEN_DIR, name, type);
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

/// Prints a unified diff on standard error, made by diff(1); or the new text if there is no
/// diff(1).
static void print_difference(const char *path, const char *text)
{
    char command[PATH_SIZE + 64];
    snprintf(command, sizeof command, "diff -u '%s' - 1>&2", path);
    fprintf(stderr, "\n");
    FILE *diff = popen(command, "w");
    if (diff)
        fputs(text, diff);
    int status = diff ? pclose(diff) : -1;
    if (status == -1 || status >> 8 != 1)
        fprintf(stderr, "no diff(1); %s should be:\n%s", path, text);
}

struct golden {
    bool rewrite;
    unsigned differences, written;
};

static void compare_with_golden(const char *path, const char *text, struct golden *g)
{
    char *golden = read_file(path);
    if (!golden) {
        fprintf(stderr, "%s is missing; meson compile golden writes it\n", path);
        ++g->differences;
    } else if (strcmp(golden, text) != 0) {
        print_difference(path, text);
        ++g->differences;
    }
    free(golden);
}

/// Destroys the builder.
static void check_text(struct golden *g, ptx_builder *b, const char *name, const char *type)
{
    char path[PATH_SIZE];
    const char *text = ptx_builder_finish(b);
    if (!text)
        fail_msg("%s: %s", name, ptx_builder_error(b));
    golden_path(name, type, path);
    if (!g->rewrite)
        compare_with_golden(path, text, g);
    else if (!write_file(path, text))
        fail_msg("cannot write %s", path);
    else
        ++g->written;
    ptx_builder_destroy(&b);
}

static void check_kernels(struct golden *g)
{
    const ptx_kernel *kernel;
    for (size_t k = 0; (kernel = ptx_kernel_at(k)) != NULL; ++k)
        for (int t = 1; t < PTX_TYPE_COUNT; ++t) {
            struct ptx_kernel_spec spec;
            if (!variant_first(kernel, (ptx_type)t, &spec))
                continue;
            ptx_builder *b = ptx_builder_create(NULL);
            ptx_kernel_emit(b, kernel, &spec);
            check_text(g, b, kernel->name, ptx_type_name(spec.dtype));
        }
}

/// A plan of f32 gradients with common options, for sm_90, where its launches overlap; a plan with
/// every option, for sm_80; a plan of many small tensors, which share chunks.
static void check_clip_plans(struct golden *g)
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
    check_text(g, b, "clip_plan", "f32");
    b = ptx_builder_create(NULL);
    assert_int_equal(ptx_clip_emit(b, &all), PTX_OK);
    check_text(g, b, "clip_plan", "mixed");
    struct ptx_clip_tensor many[1000];
    for (size_t t = 0; t < 1000; ++t)
        many[t] = tensors[0];
    const struct ptx_clip_params packed = { .tensors = many, .tensor_count = 1000, .max_norm = 1 };
    b = ptx_builder_create(&sm_90);
    assert_int_equal(ptx_clip_emit(b, &packed), PTX_OK);
    check_text(g, b, "clip_plan", "packed");
}

/// AdamW in f32 and Lion with 8-bit states, for sm_90; and a plan of several rules and formats, for
/// sm_80.
static void check_step_plans(struct golden *g)
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
    check_text(g, b, "step_plan", "adamw_f32");
    struct ptx_step_params codes = one;
    codes.tensors = &tensors[3];
    codes.group_count = 3;
    b = ptx_builder_create(&sm_90);
    assert_int_equal(ptx_step_emit(b, &codes), PTX_OK);
    check_text(g, b, "step_plan", "lion_8bit");
    b = ptx_builder_create(NULL);
    assert_int_equal(ptx_step_emit(b, &several), PTX_OK);
    check_text(g, b, "step_plan", "mixed");
}

/// A kernel for each function of math.h.
static void check_math(struct golden *g)
{
    ptx_builder *b = ptx_builder_create(NULL);
    math_kernels(b);
    check_text(g, b, "math", "f32");
}

/// Each option with its second value, and the others with their defaults.
static void check_options(struct golden *g)
{
    const ptx_kernel *kernel;
    for (size_t k = 0; (kernel = ptx_kernel_at(k)) != NULL; ++k)
        for (size_t o = 0; kernel->options[o].name; ++o) {
            const struct ptx_kernel_option *option = &kernel->options[o];
            struct ptx_kernel_spec spec;
            char type[64];
            assert_true(variant_first(kernel, PTX_F32, &spec));
            spec.option[o] = 1;
            snprintf(type, sizeof type, "f32.%s=%s", option->name, option->values[1]);
            ptx_builder *b = ptx_builder_create(NULL);
            ptx_kernel_emit(b, kernel, &spec);
            check_text(g, b, kernel->name, type);
        }
}

// ---- a hash of every text -----------------------------------------------------------------------

struct hashes {
    char text[1 << 18]; // a line each: name and hash
    size_t used;
};

/// Destroys the builder.
static void add_hash(struct hashes *all, ptx_builder *b, const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); // FNV-1a
    const char *text = ptx_builder_finish(b);
    if (!text)
        fail_msg("%s: %s", name, ptx_builder_error(b));
    for (const char *c = text; *c; ++c)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    assert_true(all->used + strlen(name) + 24 < sizeof all->text);
    all->used += (size_t)snprintf(all->text + all->used, sizeof all->text - all->used,
                                  "%s %016" PRIx64 "\n", name, hash);
    ptx_builder_destroy(&b);
}

/// For the oldest target, the default, and one of the newest.
static void hash_kernels(struct hashes *all)
{
    static const int targets[] = { 70, 80, 100 };
    const ptx_kernel *kernel;
    for (size_t k = 0; (kernel = ptx_kernel_at(k)) != NULL; ++k) {
        struct ptx_kernel_spec spec;
        for (bool more = variant_first(kernel, PTX_NONE, &spec); more;
             more = variant_next(kernel, &spec))
            for (unsigned t = 0; t < 3; ++t) {
                const struct ptx_builder_params target = { .target = { .sm = targets[t] } };
                char variant[VARIANT_NAME_SIZE], name[VARIANT_NAME_SIZE + 16];
                ptx_builder *b = ptx_builder_create(&target);
                ptx_kernel_emit(b, kernel, &spec);
                snprintf(name, sizeof name, "%s_sm%d", variant_name(kernel, &spec, variant),
                         targets[t]);
                add_hash(all, b, name);
            }
    }
}

/// Plans of one type and of all types, of few and of many tensors, with each policy, on two
/// targets.
static void hash_clip_plans(struct hashes *all)
{
    enum { MANY = 1000 };
    static const struct ptx_loss_scale_params update;
    static const ptx_type types[] = { PTX_F32, PTX_F64, PTX_F16, PTX_BF16 };
    for (unsigned v = 0; v < 5 * 3 * 2 * 2 * 2 * 2; ++v) {
        const unsigned set = v % 5, policy = v / 5 % 3, updates = v / 15 % 2, measures = v / 30 % 2;
        const unsigned many = v / 60 % 2, sm = v / 120 % 2 ? 90 : 80;
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
        const struct ptx_builder_params target = { .target = { .sm = (int)sm } };
        ptx_builder *b = ptx_builder_create(&target);
        char name[64];
        assert_int_equal(ptx_clip_emit(b, &params), PTX_OK);
        snprintf(name, sizeof name, "clip_plan_%s_nonfinite%u%s%s%s_sm%u",
                 set < 4 ? ptx_type_name(types[set]) : "mixed", policy, updates ? "_update" : "",
                 measures ? "_measure" : "", many ? "_packed" : "", sm);
        add_hash(all, b, name);
    }
}

/// Plans with every combination of scalars at the caller's addresses.
static void hash_clip_plan_scalars(struct hashes *all)
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
        ptx_builder *b = ptx_builder_create(NULL);
        char name[96];
        assert_int_equal(ptx_clip_emit(b, &params), PTX_OK);
        snprintf(name, sizeof name, "clip_plan_f32%s%s%s%s%s_sm80", v & 1 ? "_max_norms_at" : "",
                 v & 2 ? "_loss_scale_at" : "", v & 4 ? "_found_inf_at" : "",
                 v & 8 ? "_found_inf_to" : "", v & 16 ? "_sum_rows" : "");
        add_hash(all, b, name);
    }
}

/// Plans of each rule in each format, with every type of gradient in turn, on two targets.
static void hash_step_plans(struct hashes *all)
{
    static const ptx_type gradients[] = { PTX_F32, PTX_F16, PTX_BF16 };
    for (unsigned v = 0; v < PTX_STEP_RULE_COUNT * PTX_STEP_FORMAT_COUNT * 2; ++v) {
        const unsigned rule = v / 2 % PTX_STEP_RULE_COUNT, format = v / 2 / PTX_STEP_RULE_COUNT;
        const bool f32 = format == PTX_STEP_FORMAT_FULL || format == PTX_STEP_FORMAT_STATE_BF16;
        const struct ptx_step_group group = { .rule = (ptx_step_rule)rule,
                                              .maximize = format % 2,
                                              .hyper = { .momentum = 0.9 } };
        const struct ptx_step_tensor tensor = { .count = v / 2 % 3 ? 1000 : 1 << 24,
                                                .dtype = f32 ? PTX_F32 : PTX_BF16,
                                                .gradient_dtype = gradients[v / 2 % 3],
                                                .format = (ptx_step_format)format };
        const struct ptx_step_params params = { .tensors = &tensor,
                                                .tensor_count = 1,
                                                .groups = &group,
                                                .group_count = 1,
                                                .max_norm = 1,
                                                .gradients = (ptx_step_gradients)(v / 2 % 3) };
        const struct ptx_builder_params target = { .target = { .sm = v % 2 ? 90 : 70 } };
        ptx_builder *b = ptx_builder_create(&target);
        char name[64];
        assert_int_equal(ptx_step_emit(b, &params), PTX_OK);
        snprintf(name, sizeof name, "step_plan_rule%u_format%u_sm%d", rule, format,
                 target.target.sm);
        add_hash(all, b, name);
    }
}

static void check_hashes(struct golden *g)
{
    static struct hashes all;
    char path[PATH_SIZE];
    const char *folder = getenv("PTXGEN_GOLDEN_DIR");
    all.used = 0;
    hash_kernels(&all);
    hash_clip_plans(&all);
    hash_clip_plan_scalars(&all);
    hash_step_plans(&all);
    snprintf(path, sizeof path, "%s/hashes.txt", folder ? folder : GOLDEN_DIR);
    if (!g->rewrite)
        compare_with_golden(path, all.text, g);
    else if (!write_file(path, all.text))
        fail_msg("cannot write %s", path);
    else
        ++g->written;
}

static void test_golden(void **state)
{
    (void)state;
    struct golden g = { .rewrite = getenv("PTXGEN_REWRITE_GOLDEN") != NULL };
    check_kernels(&g);
    check_clip_plans(&g);
    check_step_plans(&g);
    check_options(&g);
    check_math(&g);
    check_hashes(&g);
    if (g.rewrite)
        fprintf(stderr, "%u golden texts written\n", g.written);
    if (g.differences)
        fail_msg("%u golden texts differ", g.differences);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_golden) };
    return cmocka_run_group_tests_name("golden texts", tests, NULL, NULL);
}
