// SPDX-License-Identifier: MIT
// The text of each kernel and dtype, with default options for sm_80, and of two clip plans, against
// golden/. After a change that is meant: meson compile -C build golden, and read the difference in
// version control.
#define _POSIX_C_SOURCE 200809L

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ptxgen/kernels.h>
#include <ptxgen/plans.h>

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

/// A unified diff on standard error, by diff(1). Without it, the new text.
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

/// Takes the builder and destroys it.
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
            struct ptx_spec spec;
            if (!variant_first(kernel, (ptx_type)t, &spec))
                continue;
            ptx_builder *b = ptx_builder_create(NULL);
            ptx_kernel_emit(b, kernel, &spec);
            check_text(g, b, kernel->name, ptx_type_name(spec.dtype));
        }
}

/// A plan of f32 gradients as most have it, for sm_90, where its launches overlap; one with all
/// there is, for sm_80; and one of many small tensors, which share chunks.
static void check_clip_plans(struct golden *g)
{
    static const struct ptx_loss_scale_params update;
    static const struct ptx_tensor tensors[] = { { .count = 1000, .dtype = PTX_F32 },
                                                 { .count = 1000, .dtype = PTX_F64, .group = 1 },
                                                 { .count = 1000, .dtype = PTX_F16, .group = 1 },
                                                 { .count = 1000, .dtype = PTX_BF16 } };
    const struct ptx_clip_params one = { .tensors = tensors, .tensor_count = 1 };
    const struct ptx_clip_params all = {
        .tensors = tensors, .tensor_count = 4, .nonfinite = PTX_NONFINITE_ZERO, .update = &update
    };
    const struct ptx_builder_params sm_90 = { .target = { .sm = 90 } };
    ptx_builder *b = ptx_builder_create(&sm_90);
    assert_int_equal(ptx_clip_emit(b, &one), PTX_OK);
    check_text(g, b, "clip_plan", "f32");
    b = ptx_builder_create(NULL);
    assert_int_equal(ptx_clip_emit(b, &all), PTX_OK);
    check_text(g, b, "clip_plan", "mixed");
    struct ptx_tensor many[1000];
    for (size_t t = 0; t < 1000; ++t)
        many[t] = tensors[0];
    const struct ptx_clip_params packed = { .tensors = many, .tensor_count = 1000 };
    b = ptx_builder_create(&sm_90);
    assert_int_equal(ptx_clip_emit(b, &packed), PTX_OK);
    check_text(g, b, "clip_plan", "packed");
}

static void test_golden(void **state)
{
    (void)state;
    struct golden g = { .rewrite = getenv("PTXGEN_REWRITE_GOLDEN") != NULL };
    check_kernels(&g);
    check_clip_plans(&g);
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
