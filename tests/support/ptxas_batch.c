// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include "ptxas_batch.h"

#include <inttypes.h>
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

// "13.0.88"; empty where ptxas does not say.
static const char *version(void)
{
    static char found[32], of[1024];
    char command[1100], line[256];

    if (strcmp(of, ptxas_find()) == 0)
        return found;
    snprintf(of, sizeof of, "%s", ptxas_find());
    snprintf(command, sizeof command, "'%s' --version", of);
    found[0] = '\0';
    FILE *in = popen(command, "r");
    while (in && fgets(line, sizeof line, in)) {
        const char *at = strstr(line, ", V");
        if (at)
            snprintf(found, sizeof found, "%.*s", (int)strcspn(at + 3, " \n"), at + 3);
    }
    if (in)
        pclose(in);
    return found;
}

uint64_t ptxas_hash(uint64_t hash, const char *text)
{
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    return hash;
}

// "13.0.88 sm_90 squared_sum 0123456789abcdef\n"
static void verdict(const char *text, const char *target, int optimization, char line[256])
{
    const uint64_t hash = ptxas_hash(PTXAS_NO_TEXT + (unsigned)optimization, text);
    const char *entry = strstr(text, ".entry ");

    entry = entry ? entry + strlen(".entry ") : "none";
    snprintf(line, 256, "%s %s %.*s %016" PRIx64 "\n", version(), target,
             (int)strspn(entry, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$"),
             entry, hash);
}

// From a set of answers that is not believed to its ptxas_answers_seen(): its texts have no
// verdicts of their own.
static bool answering;

static bool is_believed(const char *line)
{
    const char *path = getenv("PTXGEN_PTXAS_VERDICTS"), *all = getenv("PTXGEN_PTXAS_ALL");
    char other[256];
    bool found = false;

    if (answering || !path || !*version() || (all && strcmp(all, "1") == 0))
        return false;
    FILE *file = fopen(path, "r");
    while (file && !found && fgets(other, sizeof other, file))
        found = strcmp(other, line) == 0;
    if (file)
        fclose(file);
    return found;
}

static void record(const char *line)
{
    const char *path = getenv("PTXGEN_PTXAS_RECORD");
    FILE *file = path && !answering && getenv("PTXGEN_PTXAS_VERDICTS") ? fopen(path, "a") : NULL;

    if (!file)
        return;
    fputs(line, file);
    fclose(file);
}

static void answers(const char *name, uint64_t hash, char line[256])
{
    snprintf(line, 256, "%s all %s %016" PRIx64 "\n", version(), name, hash);
}

bool ptxas_answers_believed(const char *name, uint64_t hash)
{
    char line[256];

    answering = false;
    answers(name, hash, line);
    answering = !is_believed(line);
    record(line);
    return !answering;
}

void ptxas_answers_seen(const char *name, uint64_t hash)
{
    char line[256];

    answering = false;
    answers(name, hash, line);
    record(line);
}

struct ptxas_report ptxas_assemble(const char *text, const char *target, int optimization)
{
    struct ptxas_report report = { 0 };
    char name[] = "/tmp/ptxgen-XXXXXX", command[1400], line[1024], kept[256];

    verdict(text, target, optimization, kept);
    if (is_believed(kept)) {
        record(kept);
        report.accepted = report.believed = true;
        return report;
    }
    const int file = mkstemp(name);
    if (file < 0)
        abort();
    FILE *out = fdopen(file, "w");
    fputs(text, out);
    fclose(out);
    snprintf(command, sizeof command, "'%s' -arch=%s -O%d -o /dev/null %s 2>&1", ptxas_find(),
             target, optimization, name);
    FILE *in = popen(command, "r");
    if (!in)
        abort();
    while (fgets(line, sizeof line, in)) {
        read_error(&report, line);
        report.warned |= strstr(line, "warning") != NULL;
    }
    const int status = pclose(in);
    report.accepted = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    unlink(name);
    if (report.accepted && !report.warned)
        record(kept);
    return report;
}

struct ptxas_report ptxas_run(const char *text, const char *target)
{
    return ptxas_assemble(text, target, 0);
}

void ptxas_report_free(struct ptxas_report *report)
{
    free(report->errors);
    report->errors = NULL;
    report->count = 0;
}

bool ptxas_knows_both(const char *target, int isa)
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
    return ptxas_knows_both(target, strncmp(target, "sm_107", 6) == 0 ? 94 : 90);
}

bool ptxas_knows_isa(int isa)
{
    // Every assembler that is supported knows 9.0.
    return isa <= 90 || ptxas_knows_both("sm_90", isa);
}
