// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include "ptxas_batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *ptxas_find(void)
{
    static char path[1024];
    const char *folder = getenv("PATH"), *home = getenv("CUDA_HOME");

    while (folder && *folder) {
        const size_t length = strcspn(folder, ":");
        snprintf(path, sizeof path, "%.*s/ptxas", (int)length, folder);
        if (access(path, X_OK) == 0)
            return path;
        folder += length + (folder[length] == ':');
    }
    const char *const usual[] = { home ? home : "", "/usr/local/cuda" };
    for (size_t k = 0; k < sizeof usual / sizeof *usual; k++) {
        snprintf(path, sizeof path, "%s/bin/ptxas", usual[k]);
        if (*usual[k] && access(path, X_OK) == 0)
            return path;
    }
    return NULL;
}

int ptxas_status(int failed)
{
    return failed ? 1 : ptxas_find() ? 0 : 77;
}

// Reads "ptxas FILE, line 12; error   : Feature ...", and lines without a line number.
static void read_error(struct ptxas_report *report, const char *line)
{
    const char *at = strstr(line, ", line ");
    const char *kind = strstr(line, "error ");

    if (!kind)
        kind = strstr(line, "fatal ");
    if (!kind)
        return;
    report->errors = realloc(report->errors, (report->count + 1) * sizeof *report->errors);
    if (!report->errors)
        abort();
    struct ptxas_error *error = &report->errors[report->count++];
    error->line = at && at < kind ? atoi(at + strlen(", line ")) : 0;
    const char *text = strchr(kind, ':');
    snprintf(error->text, sizeof error->text, "%.150s", text ? text + 2 : kind);
    error->text[strcspn(error->text, "\n")] = 0;
}

struct ptxas_report ptxas_run(const char *text, const char *target)
{
    struct ptxas_report report = { false, NULL, 0 };
    char name[] = "/tmp/ptxgen-XXXXXX", command[1400], line[1024];
    const int file = mkstemp(name);

    if (file < 0)
        abort();
    FILE *out = fdopen(file, "w");
    fputs(text, out);
    fclose(out);
    snprintf(command, sizeof command, "'%s' -arch=%s -O0 -o /dev/null %s 2>&1", ptxas_find(),
             target, name);
    FILE *in = popen(command, "r");
    if (!in)
        abort();
    while (fgets(line, sizeof line, in))
        read_error(&report, line);
    const int status = pclose(in);
    report.accepted = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    unlink(name);
    return report;
}

void ptxas_report_free(struct ptxas_report *report)
{
    free(report->errors);
    report->errors = NULL;
    report->count = 0;
}

static bool accepts_empty(int isa, const char *target)
{
    char text[256];
    snprintf(text, sizeof text,
             ".version %d.%d\n.target %s\n.address_size 64\n.visible .entry k()\n{\n    ret;\n}\n",
             isa / 10, isa % 10, target);
    struct ptxas_report report = ptxas_run(text, target);
    ptxas_report_free(&report);
    return report.accepted;
}

bool ptxas_knows(const char *target)
{
    // PTX ISA 9.0 has every target up to sm_121 but sm_107.
    return accepts_empty(strncmp(target, "sm_107", 6) == 0 ? 94 : 90, target);
}

bool ptxas_knows_isa(int isa)
{
    // Every assembler that is supported knows 9.0.
    return isa <= 90 || accepts_empty(isa, "sm_90");
}
