// SPDX-License-Identifier: MIT
// Runs a ptxgen command once for each of its allocations, which fails in that run. The command must
// end with 0 and the same output as without a fault, or with 1 or 2 and a reason on standard error.
// Another output with 0, the status 77, which means "nothing to run it on", and an end by a signal
// are errors. 127 is accepted: it comes from the dynamic loader.
//
// usage: sweep_allocations FAULTS [-n MOST] [-f] [-o OUTPUT] -- PTXGEN ARGUMENT...
//
// The current folder must be a temporary one. -n: at most MOST allocations, evenly spread. -o: a
// file that the command writes, or a folder of files. -f: the output has measured figures, whose
// digits are not compared.
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_SECONDS = 600, MOST_FAILURES = 10 };

struct sweep {
    const char *faults, *output;
    bool figures;
    char **command;
};

/// Bytes in a buffer that grows.
struct text {
    char *bytes;
    size_t length, room;
};

static void die(const char *what)
{
    fprintf(stderr, "sweep_allocations: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void add(struct text *text, const void *bytes, size_t length)
{
    if (text->room <= text->length + length) {
        text->room = 2 * (text->length + length + 1);
        text->bytes = realloc(text->bytes, text->room);
        if (!text->bytes)
            die("memory");
    }
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
}

static void add_file(struct text *text, const char *path)
{
    char part[4096];
    FILE *stream = fopen(path, "rb");
    if (!stream)
        return;
    for (size_t got; (got = fread(part, 1, sizeof(part), stream)) > 0;)
        add(text, part, got);
    fclose(stream);
}

/// Adds the files of a folder, sorted by name, with their names.
static void add_folder(struct text *text, const char *path)
{
    struct dirent **entries;
    const int count = scandir(path, &entries, NULL, alphasort);
    for (int k = 0; k < count; k++) {
        char file[512];
        snprintf(file, sizeof(file), "%s/%s", path, entries[k]->d_name);
        if (entries[k]->d_name[0] != '.') {
            add(text, entries[k]->d_name, strlen(entries[k]->d_name));
            add_file(text, file);
        }
        free(entries[k]);
    }
    if (count >= 0)
        free(entries);
}

/// Removes what differs between runs: lines with times, or the digits of all figures.
static void settle(struct text *text, bool figures)
{
    static const char *const times[] = { " ms", "B/s", "seconds\"", "Too fast", "too fast" };
    size_t kept = 0;
    for (size_t begin = 0; begin < text->length;) {
        char *line = text->bytes + begin;
        char *newline = memchr(line, '\n', text->length - begin);
        const size_t length = newline ? (size_t)(newline - line) + 1 : text->length - begin;
        bool timed = false;
        for (size_t k = 0; k < sizeof(times) / sizeof(times[0]); k++)
            timed = timed || memmem(line, length, times[k], strlen(times[k]));
        if (figures || !timed) {
            for (size_t k = 0; k < length; k++) {
                const bool unit =
                    length - k > 3 && strchr("kMG", line[k]) && memcmp(line + k + 1, "B/s", 3) == 0;
                const bool figure =
                    isdigit((unsigned char)line[k]) || strchr(".+-e ", line[k]) || unit;
                if (!figures || !figure)
                    text->bytes[kept++] = line[k];
            }
        }
        begin += length;
    }
    text->length = kept;
    text->bytes[kept] = '\0';
}

static void remove_output(const char *path)
{
    char command[512];
    snprintf(command, sizeof(command), "rm -rf '%s'", path);
    if (path && system(command) != 0)
        die(path);
}

/// Runs the command; its allocation `number` fails, or none if that is 0. Returns the status as
/// wait() gives it.
static int run(const struct sweep *sweep, long number, struct text *seen, struct text *said)
{
    int status = 0;
    *seen = *said = (struct text) { 0 };
    add(seen, "", 0);
    add(said, "", 0);
    remove_output(sweep->output);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        char text[32];
        const int out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
        const int err = open("err", O_WRONLY | O_CREAT | O_TRUNC, 0600);
        const int in = open("/dev/null", O_RDONLY);
        snprintf(text, sizeof(text), "%ld", number);
        setenv("FAULT_ALLOCATION", text, 1);
        if (number == 0)
            setenv("FAULT_COUNT", "count", 1);
        setenv("LD_PRELOAD", sweep->faults, 1);
        alarm(LIMIT_SECONDS);
        if (dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(err, 2) == 2)
            execv(sweep->command[0], sweep->command);
        _exit(126);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        die("fork");
    add_file(seen, "out");
    if (sweep->output) {
        add_file(seen, sweep->output);
        add_folder(seen, sweep->output);
    }
    settle(seen, sweep->figures);
    add_file(said, "err");
    return status;
}

/// NULL if a run with a failed allocation ended correctly; otherwise the error.
static const char *fault_in(int status, const struct text *seen, const struct text *said,
                            const struct text *wanted)
{
    if (!WIFEXITED(status))
        return "ended by a signal";
    switch (WEXITSTATUS(status)) {
    case 0:
        return seen->length == wanted->length &&
                       memcmp(seen->bytes, wanted->bytes, seen->length) == 0
                   ? NULL
                   : "status 0 and another output";
    case 1:
    case 2:
        return said->length > 0 ? NULL : "no reason on standard error";
    case 127:
        return NULL;
    default:
        return "another status than 0, 1, 2 and 127";
    }
}

static long count_allocations(void)
{
    struct text text = { 0 };
    add(&text, "", 0);
    add_file(&text, "count");
    const long count = atol(text.bytes);
    free(text.bytes);
    return count;
}

int main(int argc, char **argv)
{
    struct sweep sweep = { .faults = argv[1] };
    long most = LONG_MAX, tried = 0, survived = 0, failures = 0;
    int k = 2;
    for (; k < argc && strcmp(argv[k], "--") != 0; k++) {
        if (strcmp(argv[k], "-f") == 0)
            sweep.figures = true;
        else if (k + 1 < argc && strcmp(argv[k], "-n") == 0)
            most = atol(argv[++k]);
        else if (k + 1 < argc && strcmp(argv[k], "-o") == 0)
            sweep.output = argv[++k];
    }
    if (k + 1 >= argc || most < 1) {
        fputs("usage: sweep_allocations FAULTS [-n MOST] [-f] [-o OUTPUT] -- PTXGEN ARGUMENT...\n",
              stderr);
        return 2;
    }
    sweep.command = argv + k + 1;

    struct text wanted, said;
    unlink("count");
    int status = run(&sweep, 0, &wanted, &said);
    const long count = count_allocations();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || count == 0) {
        printf("without a fault: wait status %d, %ld allocations: %s\n", status, count, said.bytes);
        return 1;
    }
    free(said.bytes);
    const long tries = count < most ? count : most;
    while (tried < tries && failures < MOST_FAILURES) {
        const long number = 1 + (long)((double)tried * (double)count / (double)tries);
        struct text seen;
        status = run(&sweep, number, &seen, &said);
        const char *fault = fault_in(status, &seen, &said, &wanted);
        tried++;
        survived += WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (fault) {
            failures++;
            printf("allocation %ld of %ld: %s (wait status %d): %s\n", number, count, fault, status,
                   said.bytes);
        }
        free(seen.bytes);
        free(said.bytes);
    }
    printf("%ld of %ld allocations failed, one at a time; %ld runs gave the whole output\n", tried,
           count, survived);
    free(wanted.bytes);
    return failures > 0;
}
