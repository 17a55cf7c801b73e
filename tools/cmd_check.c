// SPDX-License-Identifier: MIT
#include "cli.h"
#include "output.h"
#include "ptxas.h"
#include "select.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

struct arguments {
    bool all;
    bool verbose;
    bool json;
    const char *dtype;
    const char *target;
    struct cli_list names;
    struct cli_list sets;
};

/// The state of a check, and its results.
struct check {
    struct ptxas ptxas;
    bool verbose;
    bool json;
    json_t *texts; ///< the rows of --json, one for each text
    size_t accepted;
    size_t refused;
    size_t skipped;
    enum parsed parsed; ///< a file: what the emulator's parser says, with its words
    struct message log;
    char scope[64];         ///< the targets that its acceptance is for
    struct message lack;    ///< why there is no ptxas
    struct message unknown; ///< the targets that were skipped
    struct message error;   ///< why ptxas could not be run; ends the check
};

static void print_log(const char *log)
{
    while (log && *log) {
        size_t length = strcspn(log, "\n");
        printf("    %.*s\n", (int)length, log);
        log += length + (log[length] == '\n');
    }
}

/// Notes what became of a text. `log` is why it was refused, `target` what ptxas does not know.
static void note(struct check *check, const char *result, const char *name, const char *log,
                 const char *target)
{
    if (check->json) {
        json_t *row = json_pack("{s:s, s:s}", "name", name, "result", result);
        if (log)
            json_object_set_new(row, "log", json_string(log));
        if (target)
            json_object_set_new(row, "unknown", json_string(target));
        json_array_append_new(check->texts, row);
        return;
    }
    if (!log && !check->verbose)
        return;
    printf("%s %s%s%s\n", result, name, target ? ": ptxas does not know " : "",
           target ? target : "");
    print_log(log);
}

static void skip(struct check *check, const char *name, const char *target)
{
    // Matches whole words, so that sm_90 is not found in sm_90a.
    char word[132];
    snprintf(word, sizeof(word), " %s ", target);
    if (!strstr(check->unknown.text, word))
        message_add(&check->unknown, "%s%s ", check->unknown.text[0] ? "" : " ", target);
    note(check, "skipped", name, NULL, target);
    check->skipped++;
}

/// Checks one text for one target. False if ptxas could not be run. Of a file it may be the version
/// that ptxas does not know.
static bool check_text(struct check *check, const char *name, const char *text, const char *target)
{
    bool known;
    check->error.text[0] = '\0';
    if (!ptxas_knows(&check->ptxas, text, target, &known, &check->error))
        return false;
    if (!known) {
        char version[16], both[128];
        const bool own = check->parsed != PARSED_NONE &&
                         ptx_directive(text, ".version", version, sizeof(version));
        snprintf(both, sizeof(both), "%s in .version %s", target, own ? version : "");
        skip(check, name, own ? both : target);
        return true;
    }
    char *log;
    if (ptxas_accepts(&check->ptxas, text, target, &log, &check->error)) {
        check->accepted++;
        note(check, "accepted", name, NULL, NULL);
        return true;
    }
    if (!log)
        return false;
    check->refused++;
    note(check, "refused", name, log, NULL);
    free(log);
    return true;
}

/// Checks the kernel in one dtype, with every combination of the options that are not fixed.
static bool check_dtype(struct check *check, struct selection *selection, unsigned fixed)
{
    char name[SELECTION_NAME_SIZE], target[PTX_TARGET_NAME_SIZE];
    ptx_target_name(selection->target, target);
    do {
        selection_name(selection, name);
        struct message error;
        ptx_builder *b = selection_emit(selection, &error);
        if (!b) {
            check->refused++;
            note(check, "refused", name, error.text, NULL);
            continue;
        }
        bool asked = check_text(check, name, ptx_builder_finish(b), target);
        ptx_builder_destroy(&b);
        if (!asked)
            return false;
    } while (selection_next_options(selection, fixed));
    return true;
}

static bool check_targets(struct check *check, struct selection *selection, unsigned fixed,
                          bool every_target)
{
    if (!every_target)
        return check_dtype(check, selection, fixed);
    for (size_t k = 0; ptx_target_at(k, &selection->target, NULL); k++)
        if (!check_dtype(check, selection, fixed))
            return false;
    return true;
}

static bool check_kernel(struct check *check, struct selection *selection, const char *dtype,
                         unsigned fixed, bool every_target)
{
    if (dtype)
        return check_targets(check, selection, fixed, every_target);
    for (size_t k = 0; kernel_dtype_at(selection->kernel, k) != PTX_NONE; k++) {
        selection->spec.dtype = kernel_dtype_at(selection->kernel, k);
        if (!check_targets(check, selection, fixed, every_target))
            return false;
    }
    return true;
}

/// The selection of the command line; resolved before ptxas is searched.
struct request {
    bool every_kernel;
    bool every_target;
    struct selection selection;
    unsigned fixed; ///< options that --set selected, one bit each
    const char *dtype;
    const char *path; ///< path of a given file; then only `every_target` is used besides
    char *text;
    char own[PTX_TARGET_NAME_SIZE];    ///< the text's own target
    char target[PTX_TARGET_NAME_SIZE]; ///< the one asked for, or its own
};

static bool check_kernels(struct check *check, struct request *request)
{
    struct selection *selection = &request->selection;
    if (!request->every_kernel)
        return check_kernel(check, selection, request->dtype, request->fixed,
                            request->every_target);
    for (size_t k = 0; (selection->kernel = ptx_kernel_at(k)); k++) {
        selection->spec = (struct ptx_kernel_spec) { 0 };
        if (!check_kernel(check, selection, NULL, 0, request->every_target))
            return false;
    }
    return true;
}

/// The text of a file is for its own target and newer ones; with a suffix, only for its own target.
static bool check_file(struct check *check, const struct request *request)
{
    struct ptx_target own, target;
    bool only_own = !ptx_target_parse(request->own, &own) || own.suffix;
    if (!request->every_target || only_own)
        return check_text(check, request->path, request->text, request->target);
    for (size_t k = 0; ptx_target_at(k, &target, NULL); k++) {
        char label[512], name[PTX_TARGET_NAME_SIZE];
        if (target.sm < own.sm)
            continue;
        snprintf(label, sizeof(label), "%s %s", request->path, ptx_target_name(target, name));
        if (!check_text(check, label, request->text, name))
            return false;
    }
    return true;
}

static int look_up_file(const struct command *command, const struct arguments *given,
                        struct request *request)
{
    struct message error;
    request->path = given->names.items[0];
    request->text = read_text(request->path, TEXT_LIMIT, &error);
    if (!request->text)
        return cli_fail(command, EXIT_FAILED, "%s", error.text);
    if (!ptx_directive(request->text, ".target", request->own, sizeof(request->own)))
        return cli_fail(command, EXIT_FAILED, NOT_PTX, request->path);
    snprintf(request->target, sizeof(request->target), "%s",
             given->target && !request->every_target ? given->target : request->own);
    return CLI_GO_ON;
}

/// Applies the options of --set to the selection and marks them in `fixed`.
static bool fix_options(struct request *request, const struct cli_list *sets, struct message *error)
{
    for (size_t k = 0; k < sets->count; k++) {
        char name[ASSIGNMENT_NAME_SIZE];
        const char *value;
        if (!select_option(&request->selection, sets->items[k], error) ||
            !split_assignment(sets->items[k], name, &value, error))
            return false;
        request->fixed |= 1u << ptx_kernel_find_option(request->selection.kernel, name);
    }
    return true;
}

static int look_up(const struct command *command, const struct arguments *given,
                   struct request *request)
{
    struct message error;
    struct selection *selection = &request->selection;
    selection->target.sm = 80;
    request->every_kernel = given->all;
    request->every_target = given->target && strcmp(given->target, "all") == 0;
    request->dtype = given->dtype;
    if (given->target && !request->every_target &&
        !select_target(given->target, &selection->target, &error))
        return cli_fail(command, EXIT_USAGE, "%s", error.text);
    if (given->all)
        return CLI_GO_ON;
    if (is_text_name(given->names.items[0]))
        return look_up_file(command, given, request);
    if (!select_kernel(given->names.items[0], &selection->kernel, &error)) {
        select_advise_file(&error, given->names.items[0]);
        return cli_fail(command, EXIT_USAGE, "%s", error.text);
    }
    if (!select_dtype(selection->kernel, given->dtype, &selection->spec.dtype, &error) ||
        !fix_options(request, &given->sets, &error))
        return cli_fail(command, EXIT_USAGE, "%s", error.text);
    return CLI_GO_ON;
}

/// Whether a text for `own` is one for `target`: portable text for newer ones too, family-specific
/// text for newer ones of its family.
static bool includes(struct ptx_target own, struct ptx_target target)
{
    if (own.suffix == 'a')
        return target.sm == own.sm && target.suffix == own.suffix;
    return target.sm >= own.sm && (!own.suffix || target.sm / 10 == own.sm / 10);
}

/// The parser reads a text for its own target. Refuses it for a target that cannot have the text.
static void check_scope(struct check *check, const struct request *request)
{
    struct ptx_target own, target;
    if (!ptx_target_parse(request->own, &own))
        return;
    snprintf(check->scope, sizeof(check->scope), " for %s%s", request->own,
             own.suffix == 'a'   ? ""
             : own.suffix == 'f' ? " and newer ones of its family"
                                 : " and newer");
    if ((check->parsed != PARSED_ACCEPTED && check->parsed != PARSED_UNSUPPORTED) ||
        !ptx_target_parse(request->target, &target) || includes(own, target))
        return;
    check->parsed = PARSED_REFUSED;
    message_set(&check->log,
                "%s: error: its .target is %s, and the text is%s, not for %s: compile "
                "it for %s",
                request->path, request->own, check->scope, request->target, request->target);
}

static const char *const parser_results[] = { [PARSED_ACCEPTED] = "accepted",
                                              [PARSED_REFUSED] = "refused",
                                              [PARSED_UNSUPPORTED] = "not supported",
                                              [PARSED_NOT] = "not parsed" };

static json_t *parser_json(const struct check *check)
{
    json_t *row = json_pack("{s:s}", "result", parser_results[check->parsed]);
    if (check->parsed == PARSED_ACCEPTED && check->scope[0])
        json_object_set_new(row, "targets", json_string(check->scope + strlen(" for ")));
    if (check->parsed != PARSED_ACCEPTED)
        json_object_set_new(row, "log", json_string(check->log.text));
    return row;
}

static void print_parser(const struct check *check, const char *path)
{
    const bool accepted = check->parsed == PARSED_ACCEPTED;
    printf("%s by the emulator's parser: %s%s\n", parser_results[check->parsed], path,
           accepted ? check->scope : "");
    if (!accepted)
        print_log(check->log.text);
}

/// Prints the totals, with --json as one object. The rows are released.
static bool print_totals(struct check *check, const char *path, int length, struct message *error)
{
    const char *unknown = check->unknown.text;
    const bool assembled = check->ptxas.path[0];
    if (!check->json) {
        if (path)
            print_parser(check, path);
        if (assembled)
            printf("%zu accepted, %zu refused, %zu skipped by %s\n", check->accepted,
                   check->refused, check->skipped, check->ptxas.path);
        else
            printf("%s\n", check->lack.text);
        if (check->skipped > 0)
            printf("skipped, unknown to this ptxas:%.*s\n", length, unknown);
        return true;
    }
    json_t *root = json_pack("{s:o, s:I, s:I, s:I, s:o}", "ptxas",
                             json_string_or_null(assembled ? check->ptxas.path : NULL), "accepted",
                             (json_int_t)check->accepted, "refused", (json_int_t)check->refused,
                             "skipped", (json_int_t)check->skipped, "texts", check->texts);
    check->texts = NULL;
    if (path)
        json_object_set_new(root, "emulator", parser_json(check));
    return json_print(stdout, root, JSON_INDENT(2), error);
}

/// What the emulator lacks is wrong only where nothing else takes the text.
static int report_parser(const struct command *command, const struct check *check, const char *path)
{
    if (check->parsed == PARSED_REFUSED ||
        (check->parsed == PARSED_UNSUPPORTED && !check->accepted))
        return cli_fail(command, EXIT_FAILED, "%s: %s by the emulator's parser", path,
                        parser_results[check->parsed]);
    return check->parsed == PARSED_ACCEPTED || check->accepted ? EXIT_DONE : CLI_GO_ON;
}

static int report(const struct command *command, struct check *check, const char *path)
{
    const char *unknown = check->unknown.text;
    int length = (int)strlen(unknown) - (check->skipped > 0); // without the last blank
    if (!print_totals(check, path, length, &check->error))
        return cli_fail(command, EXIT_FAILED, "%s", check->error.text);
    if (check->refused > 0)
        return cli_fail(command, EXIT_FAILED, "%zu of %zu text%s refused", check->refused,
                        check->refused + check->accepted, plural(check->refused + check->accepted));
    const int status = path ? report_parser(command, check, path) : CLI_GO_ON;
    if (status != CLI_GO_ON)
        return status;
    if (check->accepted == 0)
        return cli_fail(command, EXIT_NOTHING, "%s does not know%.*s", check->ptxas.path, length,
                        unknown);
    return EXIT_DONE;
}

static int check_all(const struct command *command, struct request *request,
                     const struct arguments *given)
{
    struct check *check = calloc(1, sizeof(*check));
    if (!check)
        return cli_fail(command, EXIT_FAILED, "out of memory");
    check->verbose = given->verbose;
    check->json = given->json;
    check->texts = check->json ? json_array() : NULL;
    int status;
    const char *path = request->path;
    const bool found = ptxas_find(&check->ptxas, &check->lack);
    if (!found)
        check->ptxas.path[0] = '\0';
    check->parsed = path ? parse_text(request->text, path, &check->log) : PARSED_NONE;
    if (path)
        check_scope(check, request);
    if (check->parsed == PARSED_FAILED)
        status = cli_fail(command, EXIT_FAILED, "%s", check->log.text);
    else if (!found && (check->parsed == PARSED_NOT || !path))
        status = cli_fail(command, EXIT_NOTHING, "%s%s%s", check->lack.text, path ? "; " : "",
                          check->log.text);
    else if (found && !(path ? check_file(check, request) : check_kernels(check, request)))
        status = cli_fail(command, EXIT_FAILED, "%s", check->error.text);
    else
        status = report(command, check, path);
    json_decref(check->texts);
    free(check);
    return status;
}

static int run(const struct command *command, int argc, char **argv)
{
    struct arguments given = { 0 };
    struct request request = { 0 };
    const struct cli_option options[] = {
        CLI_FLAG("all", 0, &given.all, "every kernel"),
        CLI_TEXT("dtype", 0, "TYPE", &given.dtype, "only this type; default: each"),
        CLI_LIST("set", 0, "OPTION=VALUE", &given.sets, "only this choice; default: each"),
        CLI_TEXT("target", 0, "SM|all", &given.target, "or all; default: sm_80, or a file's own"),
        SELECT_LINES(request.selection),
        CLI_FLAG("verbose", 'v', &given.verbose, "also print what is accepted"),
        CLI_FLAG("json", 0, &given.json, "print JSON, with every text"),
        CLI_END,
    };
    int status = cli_parse(command, options, &given.names, 1, argc, argv);
    if (status != CLI_GO_ON)
        return status;
    struct message error;
    if (!select_lines(&request.selection, &error))
        return cli_fail(command, EXIT_USAGE, "%s", error.text);
    bool selective = given.dtype || given.sets.count > 0;
    if (!given.all && given.names.count == 0)
        return cli_fail(command, EXIT_USAGE, "check what? a kernel, a file or --all");
    if (given.all && (given.names.count > 0 || selective))
        return cli_fail(command, EXIT_USAGE, "--all takes no kernel, no --dtype and no --set");
    if (!given.all && is_text_name(given.names.items[0]) && selective)
        return cli_fail(command, EXIT_USAGE, "a file takes no --dtype and no --set");
    if (!given.all && is_text_name(given.names.items[0]) && request.selection.line_info)
        return cli_fail(command, EXIT_USAGE, "a file takes no --line-info: it has its own lines");
    status = look_up(command, &given, &request);
    if (status == CLI_GO_ON)
        status = check_all(command, &request, &given);
    free(request.text);
    return status;
}

const struct command command_check = {
    .name = "check",
    .operand = "KERNEL|FILE",
    .synopsis = "KERNEL [--dtype TYPE] [--set OPTION=VALUE]... [--target SM] [-v] [--json]\n"
                "       [--line-info [--source-folder FOLDER]]\n"
                "       ptxgen check FILE [--target SM] [-v] [--json]\n"
                "       ptxgen check --all [--target SM] [-v] [--json] [--line-info]",
    .summary =
        "check PTX text: by NVIDIA's assembler, ptxas, your own by the emulator's parser too",
    .run = run,
    .details = "FILE holds a '.' or a '/', or is - for standard input. The emulator's parser reads "
               "it, and ptxas\nwhere there is one. ptxas is looked for in PATH, $CUDA_HOME/bin and "
               "/usr/local/cuda/bin. Targets\nthat it does not know are skipped.",
};
