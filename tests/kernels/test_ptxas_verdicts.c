// SPDX-License-Identifier: MIT
// What is recorded of ptxas is believed of that text, target, optimization and version alone. Asks
// a script in place of ptxas, which refuses texts with "bad" and counts its runs.
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ptxas_batch.h"
#include "test.h"

static const char text[] = ".visible .entry saxpy()\n{\n    ret;\n}\n";
static char folder[] = "/tmp/ptxgen-verdicts-XXXXXX";
static char script[64], verdicts[64], runs[64];

static void write_text(const char *path, const char *what)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(what, file) >= 0 && fclose(file) == 0);
}

static size_t size_of(const char *path)
{
    struct stat is;
    return stat(path, &is) == 0 ? (size_t)is.st_size : 0;
}

static void ptxas_of_version(const char *version)
{
    char code[512];
    snprintf(
        code, sizeof code,
        "#!/bin/sh\n"
        "[ \"$1\" != --version ] || { echo 'release 13.0, V%s'; exit; }\n"
        "printf . >>%s\n"
        "for file; do :; done\n"
        "! grep -q worse \"$file\" || { echo 'warning : worse'; exit 0; }\n"
        "! grep -q bad \"$file\" || { echo \"ptxas $file, line 1; error   : bad\"; exit 1; }\n",
        version, runs);
    write_text(script, code);
    assert_int_equal(chmod(script, 0700), 0);
}

/// Whether ptxas was run.
static bool is_run(const char *what, const char *target, int optimization, bool accepted)
{
    const size_t before = size_of(runs);
    struct ptxas_report report = ptxas_assemble(what, target, optimization);
    assert_int_equal(report.accepted, accepted);
    assert_int_equal(report.count, !accepted);
    const bool run = size_of(runs) > before;
    assert_int_equal(report.believed, !run);
    ptxas_report_free(&report);
    return run;
}

TEST(believed)
{
    ptxas_of_version("13.0.88");
    setenv("PTXGEN_PTXAS_VERDICTS", verdicts, 1);
    assert_true(is_run(text, "sm_90", 1, true));
    assert_true(is_run(text, "sm_90", 1, true)); // nothing is recorded unless it is asked for
    setenv("PTXGEN_PTXAS_RECORD", verdicts, 1);
    assert_true(is_run(text, "sm_90", 1, true));
    assert_true(is_run("bad", "sm_90", 1, false));
    assert_true(is_run("worse", "sm_90", 1, true));
    unsetenv("PTXGEN_PTXAS_RECORD");
    assert_false(is_run(text, "sm_90", 1, true));
    assert_true(is_run("bad", "sm_90", 1, false));
    assert_true(is_run("worse", "sm_90", 1, true));
    assert_true(is_run(text, "sm_80", 1, true));
    assert_true(is_run(text, "sm_90", 0, true));
    assert_true(is_run(text + 1, "sm_90", 1, true));
    setenv("PTXGEN_PTXAS_ALL", "1", 1);
    assert_true(is_run(text, "sm_90", 1, true));
    unsetenv("PTXGEN_PTXAS_ALL");
    assert_false(is_run(text, "sm_90", 1, true));
}

/// The version is asked once of each path.
TEST(of_another_version)
{
    char other[96];
    snprintf(other, sizeof other, "%s/other", folder);
    assert_int_equal(mkdir(other, 0700), 0);
    snprintf(script, sizeof script, "%s/other/ptxas", folder);
    ptxas_of_version("13.0.89");
    char path[160];
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", other);
    setenv("PATH", path, 1);
    assert_true(is_run(text, "sm_90", 1, true));
    unlink(script);
    rmdir(other);
}

int main(void)
{
    char path[160];
    if (!mkdtemp(folder)) {
        perror(folder);
        return 1;
    }
    snprintf(script, sizeof script, "%s/ptxas", folder);
    snprintf(verdicts, sizeof verdicts, "%s/verdicts", folder);
    snprintf(runs, sizeof runs, "%s/runs", folder);
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", folder);
    setenv("PATH", path, 1);
    const int failed = tests_run(NULL, NULL);
    unlink(verdicts);
    unlink(runs);
    snprintf(script, sizeof script, "%s/ptxas", folder);
    unlink(script);
    rmdir(folder);
    return failed;
}
