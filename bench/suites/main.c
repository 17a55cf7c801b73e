// SPDX-License-Identifier: MIT
#include "bench.h"
#include "commit.h"
#include "emulator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char cli_program[] = "ptxgen_bench";

struct arguments {
    const char *json, *only, *samples, *sizes, *device;
    bool force, quiet;
    struct cli_list names;
};

/// In the order in which they run: `load` is first because it forks, which CUDA does not survive.
static const struct suite {
    const char *name;
    bool (*run)(struct bench *b);
    bool device; ///< needs a device
    bool opened; ///< opened in this process
} suites[] = {
    { "emit", bench_suite_emit, false, false },     { "load", bench_suite_load, true, false },
    { "kernels", bench_suite_kernels, true, true }, { "clip", bench_suite_clip, true, true },
    { "growth", bench_suite_growth, true, true },   { "step", bench_suite_step, true, true },
};

enum { SUITE_COUNT = sizeof(suites) / sizeof(suites[0]) };

static const char everything[] = "all";

// ---- arguments ----------------------------------------------------------------------------------

static bool read_samples(const char *text, unsigned *samples)
{
    char *end;
    const unsigned long number = text ? strtoul(text, &end, 10) : 0;
    *samples = (unsigned)number;
    return !text ||
           (text[0] >= '0' && text[0] <= '9' && *end == '\0' && number > 0 && number <= 1000);
}

/// 4096, 64K, 16M, 1G; more of them with commas between.
static bool read_sizes(const char *text, struct bench_options *options)
{
    static const char units[] = "KMG";
    while (text) {
        char *end;
        if (options->size_count == BENCH_MOST_SIZES || text[0] < '0' || text[0] > '9')
            return false;
        errno = 0;
        unsigned long long number = strtoull(text, &end, 10);
        const char *unit = *end ? strchr(units, *end) : NULL;
        const unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
        end += unit != NULL;
        if (errno || number == 0 || number > (UINT64_C(1) << 36) >> shift || (*end && *end != ','))
            return false;
        options->sizes[options->size_count++] = number << shift;
        text = *end ? end + 1 : NULL;
    }
    return true;
}

/// Which suites run: NULL if the name is not known.
static bool read_suite(const struct arguments *given, const char **name, struct message *error)
{
    const char *names[SUITE_COUNT + 1];
    *name = given->names.count ? given->names.items[0] : everything;
    for (size_t k = 0; k < SUITE_COUNT; k++) {
        names[k] = suites[k].name;
        if (strcmp(*name, names[k]) == 0)
            return true;
    }
    names[SUITE_COUNT] = everything;
    return strcmp(*name, everything) == 0 ||
           message_unknown(error, "suite", *name, names, SUITE_COUNT + 1);
}

static bool is_chosen(const struct suite *suite, const char *name)
{
    return strcmp(name, everything) == 0 || strcmp(name, suite->name) == 0;
}

static int read_arguments(const struct arguments *given, struct bench *b, const char **suite)
{
    b->options.only = given->only;
    b->options.quiet = given->quiet;
    if (!read_suite(given, suite, &b->error))
        return EXIT_USAGE;
    if (!place_read(&b->place, given->device))
        message_set(&b->error, "--device takes a number from 0, or emulator");
    else if (!read_samples(given->samples, &b->options.samples))
        message_set(&b->error, "--samples takes a number from 1 to 1000");
    else if (!read_sizes(given->sizes, &b->options))
        message_set(&b->error,
                    "--sizes takes numbers of elements, as 4096,64K,16M, from 1 to 64G, at most %d",
                    BENCH_MOST_SIZES);
    else
        return EXIT_DONE;
    return EXIT_USAGE;
}

// ---- the machine --------------------------------------------------------------------------------

/// What a process that opens the device says of it.
struct seen {
    int status;
    struct opened gpu; ///< without the device object
    struct ptx_device_info info;
    struct message error;
};

static void look(const struct place *place, int to)
{
    static struct seen seen; // static: zeroed, and too large for some stacks
    seen.status = place_open(place, &seen.gpu, &seen.error);
    if (seen.status == EXIT_DONE)
        seen.info = *ptx_device_get_info(seen.gpu.device);
    seen.gpu.device = NULL;
    seen.info.library_path = NULL;
    const char *bytes = (const char *)&seen;
    size_t left = sizeof(seen);
    for (ssize_t put; left > 0 && (put = write(to, bytes, left)) > 0; left -= (size_t)put)
        bytes += put;
    _exit(left > 0);
}

/// Opens the device in a child process, so that this process stays free of CUDA and can fork.
static void look_from_outside(const struct place *place, struct seen *seen)
{
    int ends[2];
    size_t got = 0;
    fflush(NULL);
    pid_t child = pipe(ends) == 0 ? fork() : -1;
    if (child == 0) {
        close(ends[0]);
        look(place, ends[1]);
    }
    if (child > 0) {
        close(ends[1]);
        for (ssize_t part; (part = read(ends[0], (char *)seen + got, sizeof(*seen) - got)) > 0;)
            got += (size_t)part;
        close(ends[0]);
        waitpid(child, NULL, 0);
    }
    if (got != sizeof(*seen)) {
        seen->status = EXIT_FAILED;
        message_set(&seen->error, "the process that examines the device ended early");
    }
}

/// False if there was no memory to open the list.
static bool name_processor(char *name, size_t size)
{
    char line[256];
    FILE *list = fopen("/proc/cpuinfo", "r");
    snprintf(name, size, "unknown");
    if (!list)
        return errno != ENOMEM;
    while (fgets(line, sizeof(line), list)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        snprintf(name, size, "%s", colon + 1 + (colon[1] == ' '));
        name[strcspn(name, "\n")] = '\0';
        break;
    }
    fclose(list);
    return true;
}

/// The first line: where and with what.
static bool report_machine(struct bench *b, const struct seen *seen)
{
    char date[32], processor[128];
    const time_t now = time(NULL);
    struct tm utc;
    struct utsname host;
    gmtime_r(&now, &utc);
    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (!name_processor(processor, sizeof(processor)))
        return message_set(&b->error, "out of memory");
    if (uname(&host) != 0)
        return message_set(&b->error, "uname: %s", strerror(errno));
    json_t *facts = json_pack("{s:s, s:s, s:s, s:s, s:s++++}", "ptxgen", ptxgen_version(), "commit",
                              BENCH_COMMIT, "date", date, "processor", processor, "system",
                              host.sysname, " ", host.release, " ", host.machine);
    if (seen)
        facts = bench_with_all(
            facts, json_pack("{s:s, s:b, s:i, s:i, s:i, s:I, s:I}", "device", seen->gpu.name,
                             "emulator", seen->gpu.emulated, "driver", seen->info.driver_version,
                             "sm", seen->info.sm, "multiprocessors", seen->info.multiprocessors,
                             "l2_bytes", (json_int_t)seen->info.l2_cache, "memory_bytes",
                             (json_int_t)seen->info.memory));
    fprintf(b->text, "ptxgen %s (%s), %s, %s\n", ptxgen_version(), BENCH_COMMIT, date, processor);
    if (seen)
        fprintf(b->text, "on %s, driver %d.%d%s\n", seen->gpu.name,
                seen->info.driver_version / 1000, seen->info.driver_version % 1000 / 10,
                seen->gpu.emulated ? "; the emulator's times say nothing of a GPU" : "");
    return bench_write(b, facts);
}

// ---- the run ------------------------------------------------------------------------------------

static bool run_suites(struct bench *b, const char *name, const struct seen *seen)
{
    for (size_t k = 0; k < SUITE_COUNT; k++) {
        const struct suite *suite = &suites[k];
        if (!is_chosen(suite, name))
            continue;
        b->suite = suite->name;
        b->emulated = suite->device && seen->gpu.emulated;
        progress_hide(&b->progress);
        fprintf(b->text, "\n%s\n", suite->name);
        bool done = (!suite->opened || bench_open(b)) && suite->run(b);
        progress_end(&b->progress);
        if (!done)
            return false;
    }
    return true;
}

static int run_with_output(struct bench *b, const char *name, const struct arguments *given,
                           const struct seen *seen, bool device)
{
    struct output json;
    if (given->json && !output_open(&json, given->json, given->force, &b->error))
        return EXIT_FAILED;
    b->json = given->json ? &json : NULL;
    // Standard output may have been given to the JSON.
    b->text = given->json && output_is_stdout(given->json) ? stderr : stdout;
    bool done = report_machine(b, device ? seen : NULL) && run_suites(b, name, seen);
    const bool idle = done && b->chosen == 0;
    bench_close(b);
    if (idle) {
        char quoted[QUOTED_SIZE];
        done = message_set(&b->error, "--only %s: nothing that %s measures has it in its name",
                           quote(quoted, b->options.only), name);
    }
    if (given->json && done)
        done = output_commit(&json, &b->error);
    else if (given->json)
        output_discard(&json);
    return done ? EXIT_DONE : idle ? EXIT_USAGE : EXIT_FAILED;
}

static int measure(struct bench *b, const struct arguments *given, int argc, char **argv)
{
    const char *name;
    bool device = false;
    int status = read_arguments(given, b, &name);
    if (status != EXIT_DONE)
        return status;
    for (size_t k = 0; k < SUITE_COUNT; k++)
        device = device || (suites[k].device && is_chosen(&suites[k], name));
    if (given->json && !output_check(given->json, given->force, &b->error))
        return EXIT_FAILED;
    struct seen *seen = calloc(1, sizeof(*seen));
    if (!seen) {
        message_set(&b->error, "out of memory");
        return EXIT_FAILED;
    }
    // Here and not only in the child process, because the processes of `load` must find it, too.
    if (device && b->place.emulator)
        status = emulator_choose(&b->error);
    if (device && status == EXIT_DONE) {
        look_from_outside(&b->place, seen);
        status = seen->status;
        b->error = seen->error;
        if (status == EXIT_NOTHING && !b->place.chosen)
            status = emulator_take_over(argc, argv, &b->error);
    }
    if (status == EXIT_DONE)
        status = run_with_output(b, name, given, seen, device);
    free(seen);
    return status;
}

static int run_bench(const struct command *command, int argc, char **argv)
{
    struct arguments given = { 0 };
    const struct cli_option options[] = {
        CLI_TEXT("json", 0, "FILE", &given.json, "write the figures there, a JSON object per line"),
        CLI_FLAG("force", 'f', &given.force, FORCE_HELP),
        CLI_TEXT("only", 0, "TEXT", &given.only, "measure only cases with this in their name"),
        CLI_TEXT("samples", 0, "N", &given.samples, "number of measurements of each case"),
        CLI_TEXT("sizes", 0, "N,N...", &given.sizes, "elements of the kernels' tensors, as 64M"),
        CLI_TEXT("device", 0, "N|emulator", &given.device, PLACE_HELP),
        CLI_FLAG("quiet", 'q', &given.quiet, "no progress bar"),
        CLI_END,
    };
    int status = cli_parse(command, options, &given.names, 1, argc, argv);
    if (status != CLI_GO_ON)
        return status;
    struct bench *b = calloc(1, sizeof(*b));
    if (!b)
        return cli_fail(command, EXIT_FAILED, "out of memory");
    status = measure(b, &given, argc - 1, argv + 1);
    if (status != EXIT_DONE)
        cli_fail(command, status, "%s", b->error.text);
    free(b);
    return status;
}

static const struct command command_bench = {
    .synopsis =
        "[emit|load|kernels|clip|growth|step|all] [--json FILE [-f]] [--only TEXT] [--samples N]\n"
        "       [--sizes N,N...] [--device N|emulator] [-q]",
    .summary = "measure kernels, plans, and the work before the first launch",
    .run = run_bench,
    .details =
        "emit: writing the kernels' text. load: the time to a first result, through the compiler "
        "and through\nthe driver's cache. kernels: every kernel in every type. clip: plans for the "
        "gradients of models.\ngrowth: plans by bytes and by number of tensors. step: step plans "
        "by "
        "rule and format. all,\nthe default: all of them. Results are checked before they are "
        "timed; bandwidths are compared with a copy\nof the same run. Times on the emulator are "
        "marked, and say nothing about a GPU.",
};

static int run(int argc, char **argv)
{
    return run_bench(&command_bench, argc, argv);
}

int main(int argc, char **argv)
{
    return cli_main(argc, argv, run);
}
