// SPDX-License-Identifier: MIT
// The text of each kernel and dtype, with default options for sm_80, against golden/. After a
// change that is meant: meson compile -C build golden, and read the difference in version control.
#define _POSIX_C_SOURCE 200809L

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ptxgen/kernels.h>

#include "variants.h"

#ifndef GOLDEN_DIR
#error "GOLDEN_DIR: the folder of the golden texts"
#endif

enum { PATH_SIZE = 1024 };

static const char *golden_path(const ptx_kernel *kernel, ptx_type dtype, char path[PATH_SIZE])
{
    const char *folder = getenv("PTXGEN_GOLDEN_DIR");
    snprintf(path, PATH_SIZE, "%s/%s.%s.ptx", folder ? folder : GOLDEN_DIR, kernel->name,
             ptx_type_name(dtype));
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

static void compare_with_golden(const ptx_kernel *kernel, ptx_type dtype, const char *text,
                                unsigned *differences)
{
    char path[PATH_SIZE];
    char *golden = read_file(golden_path(kernel, dtype, path));
    if (!golden) {
        fprintf(stderr, "%s is missing; meson compile golden writes it\n", path);
        ++*differences;
    } else if (strcmp(golden, text) != 0) {
        print_difference(path, text);
        ++*differences;
    }
    free(golden);
}

static void test_golden(void **state)
{
    (void)state;
    bool rewrite = getenv("PTXGEN_REWRITE_GOLDEN") != NULL;
    unsigned differences = 0, written = 0;
    char path[PATH_SIZE];
    const ptx_kernel *kernel;
    for (size_t k = 0; (kernel = ptx_kernel_at(k)) != NULL; ++k)
        for (int t = 1; t < PTX_TYPE_COUNT; ++t) {
            struct ptx_spec spec;
            if (!variant_first(kernel, (ptx_type)t, &spec))
                continue;
            ptx_builder *b = ptx_builder_create(NULL);
            ptx_kernel_emit(b, kernel, &spec);
            const char *text = ptx_builder_finish(b);
            if (!text)
                fail_msg("%s: %s", kernel->name, ptx_builder_error(b));
            if (!rewrite)
                compare_with_golden(kernel, spec.dtype, text, &differences);
            else if (!write_file(golden_path(kernel, spec.dtype, path), text))
                fail_msg("cannot write %s", path);
            else
                ++written;
            ptx_builder_destroy(&b);
        }
    if (rewrite)
        fprintf(stderr, "%u golden texts written\n", written);
    if (differences)
        fail_msg("%u golden texts differ", differences);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_golden) };
    return cmocka_run_group_tests_name("golden texts", tests, NULL, NULL);
}
