// SPDX-License-Identifier: MIT
// Every kernel x dtype x option combination through NVIDIA's assembler, one module for each target
// from which on the text is another. Where a portable target has its predecessor's text, but for
// the target's line, every kernel x dtype with every option's values; for targets with a suffix
// every kernel x dtype. Without ptxas, skips with 77 and says so. Prints the targets that this
// ptxas does not know.
#define _POSIX_C_SOURCE 200809L

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <ptxgen/kernels.h>

#include "ptxas_batch.h"
#include "variants.h"

enum { EXIT_SKIPPED = 77, OUTPUT_SIZE = 8192, COMMAND_SIZE = 2048 };

static const char *ptxas;
static char folder[256];
static char *last_text; // of variants_for()

/// Assembles the text for the target. Returns the exit status; `output` receives what ptxas
/// printed.
static int assemble(const char *text, const char *target, char output[OUTPUT_SIZE])
{
    char path[300], command[COMMAND_SIZE];
    snprintf(path, sizeof path, "%s/%s.ptx", folder, target);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
    snprintf(command, sizeof command, "'%s' -O1 -arch=%s '%s' -o '%s.cubin' 2>&1", ptxas, target,
             path, path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t used = fread(output, 1, OUTPUT_SIZE - 1, pipe);
    output[used] = '\0';
    char rest[512];
    while (fread(rest, 1, sizeof rest, pipe) > 0)
        ;
    int status = pclose(pipe);
    if (status == 0)
        unlink(path);
    snprintf(command, sizeof command, "%s.cubin", path);
    unlink(command);
    return status;
}

/// True if this ptxas accepts an empty module for the target.
static bool knows(const char *target, int isa)
{
    char module[128], output[OUTPUT_SIZE];
    snprintf(module, sizeof module, ".version %d.%d\n.target %s\n.address_size 64\n", isa / 10,
             isa % 10, target);
    return assemble(module, target, output) == 0;
}

static void test_target(void **state)
{
    const struct ptx_target *target = *state;
    char name[PTX_TARGET_NAME_SIZE], output[OUTPUT_SIZE];
    ptx_target_name(*target, name);
    ptx_builder *b = ptx_builder_create(&(struct ptx_builder_params) { .target = *target });
    variants_emit(b, variants_for(*target, &last_text));
    const char *text = ptx_builder_finish(b);
    if (!text)
        fail_msg("%s: %s", name, ptx_builder_error(b));
    int status = assemble(text, name, output);
    // A warning means that the text does not say what it was meant to say.
    if (status != 0 || strstr(output, "warning"))
        fail_msg("ptxas -arch=%s, status %d:\n%s\nthe text is in %s/%s.ptx", name, status, output,
                 folder, name);
    ptx_builder_destroy(&b);
}

int main(void)
{
    enum { MOST_TARGETS = 64 };
    static struct ptx_target targets[MOST_TARGETS];
    static char names[MOST_TARGETS][PTX_TARGET_NAME_SIZE];
    struct CMUnitTest tests[MOST_TARGETS];
    size_t count = 0;
    int isa;
    ptxas = ptxas_find();
    if (!ptxas) {
        fprintf(stderr, "SKIPPED: no ptxas in PATH, $CUDA_HOME/bin or /usr/local/cuda/bin\n");
        return EXIT_SKIPPED;
    }
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/ptxgen_ptxas_XXXXXX",
             temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) {
        perror(folder);
        return 1;
    }
    for (size_t k = 0; count < MOST_TARGETS && ptx_target_at(k, &targets[count], &isa); ++k) {
        ptx_target_name(targets[count], names[count]);
        if (!knows(names[count], isa)) {
            fprintf(stderr, "SKIPPED, %s: unknown to %s\n", names[count], ptxas);
            continue;
        }
        tests[count] =
            (struct CMUnitTest) { names[count], test_target, NULL, NULL, &targets[count] };
        ++count;
    }
    printf("%s\n", ptxas);
    int failed = count ? _cmocka_run_group_tests("ptxas", tests, count, NULL, NULL) : EXIT_SKIPPED;
    free(last_text);
    rmdir(folder);
    return failed;
}
