// SPDX-License-Identifier: MIT
#include "cli.h"
#include "output.h"
#include "plan_text.h"
#include "select.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct arguments {
    bool all, force;
    const char *dtype;
    const char *target;
    const char *isa;
    const char *output;
    struct cli_list names;
    struct cli_list sets;
};

// Destroys the builder, which is finished, or NULL with the error set.
static bool emit_to(ptx_builder *b, const char *path, bool force, struct message *error)
{
    if (!b)
        return false;
    struct output output;
    bool written = output_open(&output, path, force, error);
    if (written) {
        const char *text = ptx_builder_finish(b);
        output_write(&output, text, strlen(text));
        written = output_commit(&output, error);
    }
    ptx_builder_destroy(&b);
    return written;
}

static bool emit_into(const struct selection *selection, const struct arguments *given,
                      struct message *error)
{
    const char *dtype = ptx_type_name(selection->spec.dtype), *folder = given->output;
    size_t size = strlen(folder) + strlen(selection->kernel->name) + strlen(dtype) + 8;
    char *path = malloc(size);
    if (!path)
        return message_set(error, "out of memory");
    snprintf(path, size, "%s/%s.%s.ptx", folder, selection->kernel->name, dtype);
    bool written = emit_to(selection_emit(selection, error), path, given->force, error);
    free(path);
    return written;
}

/// Writes every kernel in every dtype, with default options.
static int emit_all(const struct command *command, struct selection *selection,
                    const struct arguments *given)
{
    const char *folder = given->output;
    struct message error;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return cli_fail(command, EXIT_FAILED, "cannot make the folder %s: %s", folder,
                        strerror(errno));
    for (size_t k = 0; (selection->kernel = ptx_kernel_at(k)); k++) {
        ptx_type dtype;
        for (size_t t = 0; (dtype = kernel_dtype_at(selection->kernel, t)) != PTX_NONE; t++) {
            selection->spec = (struct ptx_kernel_spec) { .dtype = dtype };
            if (!emit_into(selection, given, &error))
                return cli_fail(command, EXIT_FAILED, "%s", error.text);
        }
    }
    return EXIT_DONE;
}

static int emit_one(const struct command *command, struct selection *selection,
                    const struct arguments *given)
{
    struct message error;
    if (!select_kernel(given->names.items[0], &selection->kernel, &error) ||
        !select_dtype(selection->kernel, given->dtype, &selection->spec.dtype, &error))
        return cli_fail(command, EXIT_USAGE, "%s", error.text);
    for (size_t k = 0; k < given->sets.count; k++)
        if (!select_option(selection, given->sets.items[k], &error))
            return cli_fail(command, EXIT_USAGE, "%s", error.text);
    if (!emit_to(selection_emit(selection, &error), given->output, given->force, &error))
        return cli_fail(command, EXIT_FAILED, "%s", error.text);
    return EXIT_DONE;
}

static int emit_plan(const struct command *command, const struct plan_text *plan,
                     const struct selection *selection, const struct arguments *given)
{
    struct plan_choice choice;
    struct message error;
    if (!plan_select(&choice, plan, given->dtype, &given->sets, &error))
        return cli_fail(command, EXIT_USAGE, "%s", error.text);
    ptx_builder *b = plan_emit(&choice, selection, &error);
    if (!emit_to(b, given->output, given->force, &error))
        return cli_fail(command, EXIT_FAILED, "%s", error.text);
    return EXIT_DONE;
}

static int run(const struct command *command, int argc, char **argv)
{
    struct arguments given = { 0 };
    struct selection selection = { .target = { .sm = 80 } };
    const struct cli_option options[] = {
        CLI_FLAG("all", 0, &given.all, "every kernel in every dtype; needs -o FOLDER"),
        CLI_TEXT("dtype", 0, "TYPE", &given.dtype, "type of the tensors; default f32"),
        CLI_TEXT("target", 0, "SM", &given.target, "default sm_80"),
        CLI_TEXT("isa", 0, "VERSION", &given.isa,
                 "PTX ISA version, as 8.0; default: the least possible"),
        CLI_LIST("set", 0, "OPTION=VALUE", &given.sets, "choose an option"),
        SELECT_LINES(selection),
        CLI_TEXT("output", 'o', "FILE", &given.output, "file to write; default: standard output"),
        CLI_FLAG("force", 'f', &given.force, FORCE_HELP),
        CLI_END,
    };
    int status = cli_parse(command, options, &given.names, 1, argc, argv);
    if (status != CLI_GO_ON)
        return status;
    struct message error;
    if ((given.target && !select_target(given.target, &selection.target, &error)) ||
        (given.isa && !select_isa(given.isa, selection.target, &selection.isa, &error)) ||
        !select_lines(&selection, &error))
        return cli_fail(command, EXIT_USAGE, "%s", error.text);
    if (!given.all && given.names.count == 0)
        return cli_fail(command, EXIT_USAGE, "which kernel? ptxgen list names them");
    if (!given.all) {
        const struct plan_text *plan = plan_find(given.names.items[0]);
        return plan ? emit_plan(command, plan, &selection, &given)
                    : emit_one(command, &selection, &given);
    }
    if (given.names.count > 0 || given.dtype || given.sets.count > 0)
        return cli_fail(command, EXIT_USAGE, "--all takes no kernel, no --dtype and no --set");
    if (!given.output)
        return cli_fail(command, EXIT_USAGE, "--all needs a folder to write to: -o FOLDER");
    if (output_is_stdout(given.output))
        return cli_fail(
            command, EXIT_USAGE,
            "name a folder, as -o FOLDER: --all writes a file for each kernel and type, and "
            "%s is standard output",
            given.output);
    return emit_all(command, &selection, &given);
}

const struct command command_emit = {
    .name = "emit",
    .operand = "KERNEL|PLAN",
    .synopsis =
        "KERNEL|PLAN [--dtype TYPE] [--target SM] [--isa VERSION] "
        "[--set OPTION=VALUE]...\n       [-o FILE [-f]] [--line-info [--source-folder FOLDER]]\n"
        "       ptxgen emit --all -o FOLDER [-f] [--target SM] [--isa VERSION]\n"
        "       [--line-info [--source-folder FOLDER]]",
    .summary = "write a kernel's PTX text",
    .run = run,
    .details = "With --all the files are FOLDER/KERNEL.TYPE.ptx. ptxgen info KERNEL shows its "
               "dtypes and options.\nA PLAN, clip or step, stands for its kernels.",
};
