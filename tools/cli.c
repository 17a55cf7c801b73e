// SPDX-License-Identifier: MIT
#include "cli.h"
#include "json.h"
#include "signals.h"

#include <ptxgen/ptxgen.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CALL_SIZE = 64 };

/// How the command is called: "ptxgen clip".
static const char *call_of(const struct command *command, char call[CALL_SIZE])
{
    const char *name = command ? command->name : NULL;
    snprintf(call, CALL_SIZE, "%s%s%s", cli_program, name ? " " : "", name ? name : "");
    return call;
}

int cli_main(int argc, char **argv, int (*run)(int argc, char **argv))
{
    signals_set_up();
    json_watch();
    int status = run(argc, argv);
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == EXIT_DONE)
        status = cli_fail(NULL, EXIT_FAILED, "cannot write standard output%s%s", errno ? ": " : "",
                          errno ? strerror(errno) : "");
    return status;
}

int cli_fail(const struct command *command, int status, const char *format, ...)
{
    char call[CALL_SIZE];
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", call_of(command, call));
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return status;
}

const struct cli_option cli_common[] = {
    { .name = "help", .letter = 'h', .help = "print this text" },
    { .name = "version", .letter = 'V', .help = "print the version" },
    CLI_END,
};

static void print_option(const struct cli_option *option)
{
    char form[64];
    snprintf(form, sizeof(form), "--%s%s%s", option->name, option->argument ? " " : "",
             option->argument ? option->argument : "");
    char letter[] = { '-', option->letter, ',', '\0' };
    printf("  %3s %-24s %s%s\n", option->letter ? letter : "", form, option->help,
           option->list ? "; may be repeated" : "");
}

static int print_help(const struct command *command, const struct cli_option *options)
{
    char call[CALL_SIZE];
    printf("usage: %s%s%s\n\n%s\n\noptions:\n", call_of(command, call),
           *command->synopsis ? " " : "", command->synopsis, command->summary);
    for (const struct cli_option *option = options; option->name; option++)
        print_option(option);
    for (const struct cli_option *option = cli_common; option->name; option++)
        print_option(option);
    if (command->details)
        printf("\n%s\n", command->details);
    return EXIT_DONE;
}

static const struct cli_option *find_long(const struct cli_option *options, const char *name,
                                          size_t length)
{
    for (; options->name; options++)
        if (strncmp(options->name, name, length) == 0 && options->name[length] == '\0')
            return options;
    return NULL;
}

static const struct cli_option *find_short(const struct cli_option *options, char letter)
{
    for (; options->name; options++)
        if (options->letter == letter)
            return options;
    return NULL;
}

static int fail_unknown(const struct command *command, const struct cli_option *options,
                        const char *given)
{
    const char *names[32] = { "help", "version" };
    size_t count = 2;
    for (; options->name && count < 32; options++)
        names[count++] = options->name;
    const char *near = nearest_name(given + strspn(given, "-"), names, count);
    char quoted[QUOTED_SIZE], call[CALL_SIZE];
    quote(quoted, given);
    if (near)
        return cli_fail(command, EXIT_USAGE, "unknown option %s: did you mean --%s?", quoted, near);
    return cli_fail(command, EXIT_USAGE, "unknown option %s: see %s --help", quoted,
                    call_of(command, call));
}

static int store(const struct command *command, const struct cli_option *option, const char *value)
{
    if (option->flag) {
        *option->flag = true;
        return CLI_GO_ON;
    }
    if (option->text) {
        if (*option->text)
            return cli_fail(command, EXIT_USAGE, "--%s is given twice", option->name);
        *option->text = value;
        return CLI_GO_ON;
    }
    if (option->list->count == CLI_LIST_LIMIT)
        return cli_fail(command, EXIT_USAGE, "--%s is given more than %d times", option->name,
                        CLI_LIST_LIMIT);
    option->list->items[option->list->count++] = value;
    return CLI_GO_ON;
}

/// Parses one option at argv[*k]; its argument is in the same word or in argv[*k + 1].
static int parse_option(const struct command *command, const struct cli_option *options, int argc,
                        char **argv, int *k)
{
    const char *given = argv[*k];
    const struct cli_option *option;
    const char *value = NULL;
    if (given[1] == '-') {
        size_t length = strcspn(given + 2, "=");
        option = find_long(options, given + 2, length);
        if (given[2 + length] == '=')
            value = given + 2 + length + 1;
    } else {
        option = find_short(options, given[1]);
        if (given[2] != '\0')
            value = given + 2;
    }
    if (!option || (given[1] != '-' && value && !option->argument))
        return fail_unknown(command, options, given);
    if (!option->argument && value)
        return cli_fail(command, EXIT_USAGE, "--%s takes no argument", option->name);
    if (option->argument && !value) {
        if (*k + 1 == argc)
            return cli_fail(command, EXIT_USAGE, "--%s needs an argument: --%s %s", option->name,
                            option->name, option->argument);
        value = argv[++*k];
    }
    return store(command, option, value);
}

int cli_parse(const struct command *command, const struct cli_option *options,
              struct cli_list *names, size_t most, int argc, char **argv)
{
    bool only_names = false;
    if (command->visit) {
        command->visit(command, options);
        return EXIT_DONE;
    }
    for (int k = 1; k < argc; k++) {
        const char *given = argv[k];
        int status = CLI_GO_ON;
        if (only_names || given[0] != '-' || given[1] == '\0') {
            if (names->count == most) {
                char quoted[QUOTED_SIZE], call[CALL_SIZE];
                return cli_fail(command, EXIT_USAGE, "unexpected argument %s: see %s --help",
                                quote(quoted, given), call_of(command, call));
            }
            names->items[names->count++] = given;
        } else if (strcmp(given, "--") == 0) {
            only_names = true;
        } else if (strcmp(given, "--help") == 0 || strcmp(given, "-h") == 0) {
            return print_help(command, options);
        } else if (strcmp(given, "--version") == 0 || strcmp(given, "-V") == 0) {
            printf("ptxgen %s\n", ptxgen_version());
            return EXIT_DONE;
        } else {
            status = parse_option(command, options, argc, argv, &k);
        }
        if (status != CLI_GO_ON)
            return status;
    }
    return CLI_GO_ON;
}
