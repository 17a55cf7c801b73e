// SPDX-License-Identifier: MIT
#include "clip/outputs.h"
#include "clip/report.h"
#include "clock.h"
#include "emulator.h"
#include "scalar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/// The command line as it was given.
struct arguments {
    const char *output, *max_norm, *loss_scale, *eps, *group_by, *nonfinite, *device, *memory;
    bool force, json, quiet;
    struct cli_list names;
};

// ---- values -------------------------------------------------------------------------------------

/// The number in an option, rounded as the plan uses it. If `text` is NULL, `value` does not
/// change.
static bool read_number(const char *option, const char *text, unsigned range, float *value,
                        struct message *error)
{
    struct scalar scalar;
    struct message reason;
    if (!text)
        return true;
    if (!scalar_parse(&scalar, PTX_F32, text, &reason))
        return message_set(error, "--%s: %s", option, reason.text);
    const char *broken = scalar_range_broken(&scalar, range);
    if (broken)
        return message_set(error, "--%s %s: %s", option, broken, text);
    *value = scalar.as.f32;
    return true;
}

const char *clip_policy_at(size_t k)
{
    return k < CLIP_POLICY_COUNT ? clip_policies[k] : NULL;
}

static bool read_policy(const char *text, enum clip_policy *policy, struct message *error)
{
    for (size_t k = 0; text && k < CLIP_POLICY_COUNT; k++) {
        if (strcmp(text, clip_policies[k]) == 0) {
            *policy = (enum clip_policy)k;
            return true;
        }
    }
    return !text || message_unknown(error, "policy", text, clip_policies, CLIP_POLICY_COUNT);
}

/// A number of bytes, at least 1, optionally followed by K, M, G or T: powers of 1024.
static bool read_memory(const char *text, uint64_t *bytes, struct message *error)
{
    static const char units[] = "KMGT";
    char quoted[QUOTED_SIZE];
    char *end;
    if (!text)
        return true;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    bool whole = text[0] >= '0' && text[0] <= '9' && errno == 0 && end[unit != NULL] == '\0';
    if (!whole || number == 0 || number > UINT64_MAX >> shift)
        return message_set(
            error, "--memory takes a number of bytes, as 4096, 64K, 512M or 8G, above 0; not %s",
            quote(quoted, text));
    *bytes = (uint64_t)number << shift;
    return true;
}

static int read_values(const struct arguments *given, struct clip_job *values,
                       struct clip_request *request, struct message *error)
{
    *values = (struct clip_job) { .eps = 1e-6f, .loss_scale = 1 };
    if (!place_read(&request->place, given->device))
        message_set(error, "--device takes a number from 0, or emulator");
    else if (read_number("max-norm", given->max_norm, PTX_RANGE_NOT_NAN | PTX_RANGE_NOT_NEGATIVE,
                         &values->max_norm, error) &&
             read_number("loss-scale", given->loss_scale, PTX_RANGE_FINITE | PTX_RANGE_POSITIVE,
                         &values->loss_scale, error) &&
             read_number("eps", given->eps, PTX_RANGE_FINITE | PTX_RANGE_NOT_NEGATIVE, &values->eps,
                         error) &&
             read_policy(given->nonfinite, &values->nonfinite, error) &&
             read_memory(given->memory, &request->memory, error))
        return EXIT_DONE;
    return EXIT_USAGE;
}

// ---- the job ------------------------------------------------------------------------------------

static int clip_tensors(struct clip_request *request, const struct clip_job *values,
                        const struct tensor_file *file, const struct arguments *given, double begun,
                        struct message *error)
{
    struct clip_job job;
    struct clip_report report;
    int status =
        clip_job_create(&job, file, tensor_index_is(given->output), given->group_by, error);
    job.max_norm = values->max_norm;
    job.eps = values->eps;
    job.loss_scale = values->loss_scale;
    job.nonfinite = values->nonfinite;
    request->job = &job;
    if (status == EXIT_DONE && !clip_outputs_check(&job, request->path, request->force, error))
        status = EXIT_FAILED;
    if (status == EXIT_DONE)
        status = clip_run(request, &report, error);
    if (status == EXIT_DONE) {
        struct clip_end end = { file->path, request->path, clock_now() - begun };
        // Standard output may have been given to the tensors.
        FILE *stream = output_is_stdout(request->path) ? stderr : stdout;
        if (!given->json) {
            clip_print(stream, &job, &report, &end);
        } else if (!clip_print_json(stream, &job, &report, &end, error)) {
            message_add(error, "; the tensors are written");
            status = EXIT_FAILED;
        }
    }
    clip_job_release(&job);
    return status;
}

static int clip_file(const struct arguments *given, struct place *place, struct message *error)
{
    double begun = clock_now();
    struct tensor_file file;
    struct clip_job values;
    struct clip_request request = { .path = given->output,
                                    .force = given->force,
                                    .quiet = given->quiet };
    int status = read_values(given, &values, &request, error);
    *place = request.place;
    if (status != EXIT_DONE)
        return status;
    if (!output_check(given->output, given->force, error) ||
        !tensor_file_open(&file, given->names.items[0], error))
        return EXIT_FAILED;
    if (file.shard_count == 0 && tensor_index_is(given->output)) {
        message_set(error, "name one file with --output: the input is no index, and %s is one",
                    given->output);
        status = EXIT_USAGE;
    }
    if (status == EXIT_DONE)
        status = clip_tensors(&request, &values, &file, given, begun, error);
    tensor_file_close(&file);
    return status;
}

static int run(const struct command *command, int argc, char **argv)
{
    struct arguments given = { 0 };
    const struct cli_option options[] = {
        CLI_TEXT("output", 'o', "FILE", &given.output,
                 "safetensors file to write; may be the input"),
        CLI_TEXT("max-norm", 0, "X", &given.max_norm, "largest norm of a group; inf: no limit"),
        CLI_TEXT("loss-scale", 0, "S", &given.loss_scale, "divide the gradients by it; default 1"),
        CLI_TEXT("group-by", 0, "REGEX", &given.group_by,
                 "a norm for each group of tensors; default one for all"),
        CLI_TEXT("nonfinite", 0, "POLICY", &given.nonfinite,
                 "propagate, skip, zero or error; default propagate"),
        CLI_TEXT("eps", 0, "E", &given.eps, "added to the norm; default 1e-6"),
        CLI_FLAG("force", 'f', &given.force, FORCE_HELP),
        CLI_TEXT("device", 0, "N|emulator", &given.device, PLACE_HELP),
        CLI_TEXT("memory", 0, "BYTES", &given.memory,
                 "most device memory to use, as 512M; default: what is free"),
        CLI_FLAG("json", 0, &given.json, "print JSON"),
        CLI_FLAG("quiet", 'q', &given.quiet, "no progress bar, no word of a file that is replaced"),
        CLI_END,
    };
    struct place place;
    int status = cli_parse(command, options, &given.names, 1, argc, argv);
    if (status != CLI_GO_ON)
        return status;
    if (given.names.count == 0)
        return cli_fail(command, EXIT_USAGE, "which file? ptxgen clip IN.safetensors ...");
    if (!given.output || !given.max_norm)
        return cli_fail(command, EXIT_USAGE, "--%s is missing",
                        given.output ? "max-norm X" : "output FILE");
    struct message error;
    status = clip_file(&given, &place, &error);
    if (status == EXIT_NOTHING && !place.chosen)
        status = emulator_take_over(argc, argv, &error);
    if (status != EXIT_DONE)
        cli_fail(command, status, "%s", error.text);
    return status;
}

const struct command command_clip = {
    .name = "clip",
    .operand = "FILE",
    .synopsis = "FILE --max-norm X --output FILE [--loss-scale S] [--group-by REGEX] "
                "[--nonfinite POLICY]\n       [--eps E] [--device N|emulator] [--memory BYTES] "
                "[--force] [--json] [--quiet]",
    .summary = "clip the gradients of a safetensors file by their norm",
    .run = run,
    .details =
        "FILE is a safetensors file, the .index.json of a model in shards, or - for standard "
        "input. If the\noutput ends in .index.json, it has the same shards beside it; else it is "
        "one file.\n\n"
        "Tensors of type F32, F64, F16 and BF16 are gradients; others are copied without a "
        "change.\n\n"
        "  norm = sqrt(sum of g^2) / S, over the tensors of a group\n"
        "  g    = g * min(1, X / (norm + E)) / S\n\n"
        "REGEX is a POSIX extended regular expression, searched in each tensor's name. What its "
        "first\npair of parentheses matches, or else the whole match, names the tensor's group: "
        "'h\\.([0-9]+)\\.' makes\na group of each layer, '.*' of each tensor. Tensors without a "
        "match form one more group.\n\n"
        "POLICY is for a group with a NaN or an infinity. propagate: as in PyTorch, a NaN norm "
        "makes all\nNaN; skip: the group is not changed, not even divided by S; zero: all becomes "
        "0; error: the\ncommand fails and writes nothing.\n\n"
        "Gradients that do not fit into device memory are processed in parts, each read twice; "
        "the\nresult has the same bits.",
};
