// SPDX-License-Identifier: MIT
#include "binding.h"
#include "emulator.h"
#include "gpu_run.h"
#include "run_report.h"
#include "run_text.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
    const char *output;
    const char *device;
    bool force;
    bool json;
    struct cli_list inputs;
    struct cli_list names;
    struct cli_list sets;
    struct selection selection; ///< of a kernel: only its lines
    struct run_text_params text;
};

static void print_report(FILE *stream, const struct binding *binding,
                         const struct gpu_report *report, const char *path)
{
    char name[SELECTION_NAME_SIZE];
    fprintf(stream, "%s on %s\n", selection_name(&binding->selection, name), report->device);
    fprintf(stream, "n = %" PRIu64 ", %u block%s of %u thread%s\n", binding->n,
            binding->geometry.grid, plural(binding->geometry.grid), binding->geometry.block,
            plural(binding->geometry.block));
    char rate[RATE_SIZE];
    double seconds = (double)report->milliseconds / 1e3;
    uint64_t bytes = binding_traffic(binding);
    rate_of(rate, (double)bytes, seconds);
    if (binding->geometry.grid == 0)
        fputs("nothing to launch\n", stream);
    else if (seconds > 0)
        fprintf(stream, "%.4f ms%s%s (%" PRIu64 " bytes)%s\n", seconds * 1e3, *rate ? ", " : "",
                rate, bytes, report->emulated ? ", the emulator's time" : "");
    else
        fprintf(stream, "too fast to be timed (%" PRIu64 " bytes)\n", bytes);
    fprintf(stream, "%s:\n", path);
    for (size_t k = 0; k < binding->count; k++)
        if (binding->arguments[k].output.name)
            print_tensor(stream, &binding->arguments[k].output);
}

static json_t *options_json(const struct selection *selection)
{
    json_t *options = json_object();
    const struct ptx_kernel_option *option = selection->kernel->options;
    for (size_t k = 0; k < PTX_KERNEL_MAX_OPTIONS && option[k].name; k++)
        json_object_set_new(options, option[k].name,
                            json_string(option[k].values[selection->spec.option[k]]));
    return options;
}

/// The same as JSON; "seconds" is null where nothing was launched or it was too fast to be timed.
static bool print_json(FILE *stream, const struct binding *binding, const struct gpu_report *report,
                       const char *path, struct message *error)
{
    const struct selection *selection = &binding->selection;
    const bool timed = binding->geometry.grid > 0 && report->milliseconds > 0;
    json_t *tensors = json_array();
    for (size_t k = 0; k < binding->count; k++)
        if (binding->arguments[k].output.name)
            json_array_append_new(tensors, tensor_json(&binding->arguments[k].output));
    json_t *root =
        json_pack("{s:s, s:s, s:o, s:s, s:b, s:I, s:I, s:I, s:o, s:I, s:s, s:o}", "kernel",
                  selection->kernel->name, "dtype", ptx_type_name(selection->spec.dtype), "options",
                  options_json(selection), "device", report->device, "emulator", report->emulated,
                  "n", (json_int_t)binding->n, "blocks", (json_int_t)binding->geometry.grid,
                  "threads", (json_int_t)binding->geometry.block, "seconds",
                  timed ? json_real((double)report->milliseconds / 1e3) : json_null(), "bytes",
                  (json_int_t)binding_traffic(binding), "output", path, "tensors", tensors);
    return json_print(stream, root, JSON_INDENT(2) | JSON_REAL_PRECISION(17), error);
}

static bool write_outputs(const struct binding *binding, const struct tensor_file *input,
                          const struct arguments *given, struct message *error)
{
    struct tensor outputs[BINDING_LIMIT];
    size_t count = 0;
    for (size_t k = 0; k < binding->count; k++)
        if (binding->arguments[k].output.name)
            outputs[count++] = binding->arguments[k].output;
    return tensor_file_write(given->output, given->force, outputs, count, input->notes,
                             input->note_count, error);
}

static int run_bound(struct binding *binding, const struct tensor_file *file,
                     const struct place *place, const struct arguments *given,
                     struct message *error)
{
    struct gpu_report report = { 0 };
    int status = binding_fill(binding, file, error);
    if (status == EXIT_DONE)
        status = gpu_run(binding, place, &report, error);
    if (status == EXIT_DONE && !write_outputs(binding, file, given, error))
        status = EXIT_FAILED;
    // Standard output may be used for the tensors.
    FILE *stream = output_is_stdout(given->output) ? stderr : stdout;
    if (status == EXIT_DONE && !given->json) {
        print_report(stream, binding, &report, given->output);
    } else if (status == EXIT_DONE && !print_json(stream, binding, &report, given->output, error)) {
        message_add(error, "; the tensors are written");
        status = EXIT_FAILED;
    }
    gpu_report_release(&report);
    return status;
}

static int run_file(struct binding *binding, const struct arguments *given,
                    const struct place *place, struct message *error)
{
    struct tensor_file file;
    binding->selection = given->selection;
    const int status = binding_select(binding, given->names.items[0], &given->sets, error);
    if (status != EXIT_DONE)
        return status;
    if (!output_check(given->output, given->force, error) ||
        !tensor_file_open(&file, given->inputs.items[0], error))
        return EXIT_FAILED;
    const int ran = run_bound(binding, &file, place, given, error);
    tensor_file_close(&file);
    return ran;
}

/// The options of one form of the command that the other does not have.
static int refuse_mixed(const struct command *command, const struct arguments *given, bool text)
{
    const struct run_text_params *own = &given->text;
    const char *strange = NULL;
    if (text)
        strange = given->sets.count                ? "--set"
                  : given->selection.line_info     ? "--line-info"
                  : given->selection.source_folder ? "--source-folder"
                                                   : NULL;
    else
        strange = own->entry                ? "--entry"
                  : own->grid               ? "--grid"
                  : own->block              ? "--block"
                  : own->shared             ? "--shared"
                  : own->cooperative        ? "--cooperative"
                  : own->args.count         ? "--arg"
                  : own->seed               ? "--seed"
                  : own->sanitize           ? "--sanitize"
                  : given->inputs.count > 1 ? "a second --input"
                                            : NULL;
    if (!strange)
        return CLI_GO_ON;
    if (text)
        return cli_fail(command, EXIT_USAGE, "a file of PTX takes no %s: its arguments are --arg",
                        strange);
    return cli_fail(command, EXIT_USAGE,
                    "a kernel of ptxgen takes no %s; a name with a . or a / is "
                    "a file of PTX",
                    strange);
}

static int run_kernel(const struct command *command, const struct arguments *given,
                      const struct place *place, struct message *error)
{
    const ptx_kernel *kernel;
    if (!select_kernel(given->names.items[0], &kernel, error)) {
        select_advise_file(error, given->names.items[0]);
        return EXIT_USAGE;
    }
    if (!given->inputs.count || !given->output)
        return cli_fail(command, EXIT_USAGE, "--%s FILE is missing",
                        given->inputs.count ? "output" : "input");
    struct binding *binding = calloc(1, sizeof(*binding));
    if (!binding) {
        message_set(error, "out of memory");
        return EXIT_FAILED;
    }
    int status = run_file(binding, given, place, error);
    binding_release(binding);
    free(binding);
    return status;
}

static bool ends_with(const char *path, const char *end)
{
    const size_t length = strlen(path);
    return length >= strlen(end) && strcmp(path + length - strlen(end), end) == 0;
}

static int run(const struct command *command, int argc, char **argv)
{
    struct arguments given = { 0 };
    const struct cli_option options[] = {
        CLI_LIST("input", 'i', "FILE", &given.inputs,
                 "safetensors or .npy file to read; - standard input"),
        CLI_TEXT("output", 'o', "FILE", &given.output, "safetensors file to write"),
        CLI_FLAG("force", 'f', &given.force, FORCE_HELP),
        CLI_LIST("set", 0, "NAME=VALUE", &given.sets, "KERNEL: an option or a value"),
        SELECT_LINES(given.selection),
        CLI_TEXT("entry", 0, "NAME", &given.text.entry, "PTX: the kernel; default: the only one"),
        CLI_TEXT("grid", 0, "X,Y,Z", &given.text.grid, "PTX: blocks, in 1 to 3 dimensions"),
        CLI_TEXT("block", 0, "X,Y,Z", &given.text.block,
                 "PTX: threads of a block; default: its .reqntid"),
        CLI_TEXT("shared", 0, "BYTES", &given.text.shared, "PTX: dynamic shared memory of a block"),
        CLI_FLAG("cooperative", 0, &given.text.cooperative, "PTX: all blocks are resident at once"),
        CLI_LIST("arg", 0, "[NAME=]ARG", &given.text.args, "PTX: an argument, by name or in order"),
        CLI_TEXT("seed", 0, "N", &given.text.seed, "PTX: of :random arrays; default: 0"),
        CLI_TEXT("sanitize", 0, "on|warn|off", &given.text.sanitize,
                 "PTX, emulator: checks; default: on"),
        CLI_TEXT("device", 0, "N|emulator", &given.device, PLACE_HELP),
        CLI_FLAG("json", 0, &given.json, "print JSON"),
        CLI_END,
    };
    struct place place;
    struct message error = { 0 };
    int status = cli_parse(command, options, &given.names, 1, argc, argv);
    if (status != CLI_GO_ON)
        return status;
    if (given.names.count == 0)
        return cli_fail(command, EXIT_USAGE,
                        "which kernel? ptxgen list names them; a name with a . "
                        "or a / is a file of PTX");
    const bool text = is_text_name(given.names.items[0]);
    status = refuse_mixed(command, &given, text);
    if (status != CLI_GO_ON)
        return status;
    if (given.output && (ends_with(given.output, ".npy") || ends_with(given.output, ".npz")))
        return cli_fail(command, EXIT_USAGE,
                        "--output %s: the output is a safetensors file: name it .safetensors",
                        given.output);
    if (!select_lines(&given.selection, &error))
        return cli_fail(command, EXIT_USAGE, "%s", error.text);
    if (!place_read(&place, given.device))
        return cli_fail(command, EXIT_USAGE, "--device takes a number from 0, or emulator");
    given.text.path = given.names.items[0];
    given.text.inputs = &given.inputs;
    given.text.output = given.output;
    given.text.force = given.force;
    given.text.json = given.json;
    status =
        text ? run_text(&given.text, &place, &error) : run_kernel(command, &given, &place, &error);
    if (status == EXIT_NOTHING && !place.chosen)
        status = emulator_take_over(argc, argv, &error);
    if (status != EXIT_DONE && error.text[0])
        cli_fail(command, status, "%s", error.text);
    return status;
}

const struct command command_run = {
    .name = "run",
    .operand = "KERNEL|FILE",
    .synopsis = "KERNEL --input FILE --output FILE [--force] [--set NAME=VALUE]...\n"
                "       [--line-info [--source-folder FOLDER]] [--device N|emulator] [--json]\n"
                "       ptxgen run FILE --grid X,Y,Z [--block X,Y,Z] [--entry NAME] [--arg "
                "[NAME=]ARG]...\n"
                "       [--shared BYTES] [--cooperative] [--input FILE]... [--output FILE] "
                "[--force]\n"
                "       [--seed N] [--sanitize on|warn|off] [--device N|emulator] [--json]",
    .summary = "run a kernel, or your own PTX, on the GPU or the emulator",
    .run = run,
    .details =
        "KERNEL: the kernel's parameters name the tensors (ptxgen info KERNEL). The tensors' type "
        "chooses\nthe dtype, their sizes give the counts. The time is that of the fastest launch; "
        "the bandwidth\ncounts every input read once and every output written once.\n\n"
        "FILE of PTX holds a '.' or a '/', or is - for standard input. ARG is a number (1000, 0.5, "
        "f16:0.5),\nan array (f32[1000]:zeros, :iota, :random or :uninitialised, "
        "s32[10,100]:iota), or "
        "the name of an\narray of --input; f32[1000] alone is the array of the parameter's name. "
        "All "
        "arrays go to the output\nafter one launch.\n\n"
        "The emulator executes the same text on the CPU and gives the same bits; its times say "
        "nothing\nabout a GPU. It reports the first wrong access, race or undefined value with its "
        "line, and the\ncommand ends with 1. On a GPU, compute-sanitizer does that.",
};
