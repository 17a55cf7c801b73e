// SPDX-License-Identifier: MIT
#include "cli.h"

#include <ptxgen/ptxgen.h>

#include <stdio.h>
#include <string.h>

const char cli_program[] = "ptxgen";

static const struct command *const commands[] = {
    &command_clip,  &command_list, &command_info,    &command_emit,
    &command_check, &command_run,  &command_devices, &command_completion,
};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

const struct command *command_at(size_t k)
{
    return k < COMMAND_COUNT ? commands[k] : NULL;
}

static void print_help(FILE *stream)
{
    fputs("usage: ptxgen COMMAND [ARGUMENT]...\n\n"
          "Clip gradients; write GPU training kernels as NVIDIA PTX; check and run them, and your "
          "own PTX.\n\n"
          "commands:\n",
          stream);
    for (size_t k = 0; k < COMMAND_COUNT; k++)
        fprintf(stream, "  %-10s %s\n", commands[k]->name, commands[k]->summary);
    fputs("\nptxgen help COMMAND says more; ptxgen --version prints the version.\n"
          "Exit status: 0 done, 1 failed, 2 wrong usage, 77 nothing to run it on (no GPU and no "
          "emulator,\nno ptxas).\n",
          stream);
}

/// Runs the command of this name with the arguments after it.
static int run_command(int argc, char **argv)
{
    const char *names[COMMAND_COUNT];
    for (size_t k = 0; k < COMMAND_COUNT; k++) {
        if (strcmp(argv[0], commands[k]->name) == 0)
            return commands[k]->run(commands[k], argc, argv);
        names[k] = commands[k]->name;
    }
    struct message error;
    message_unknown(&error, "command", argv[0], names, COMMAND_COUNT);
    return cli_fail(NULL, EXIT_USAGE, "%s", error.text);
}

/// `ptxgen help [COMMAND]`: argv[0] is "help".
static int help(int argc, char **argv)
{
    char option[] = "--help";
    if (argc > 2)
        return cli_fail(NULL, EXIT_USAGE, "help takes one command");
    if (argc == 2)
        return run_command(2, (char *[]) { argv[1], option, NULL });
    print_help(stdout);
    return EXIT_DONE;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return cli_fail(NULL, EXIT_USAGE, "no command given");
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("ptxgen %s\n", ptxgen_version());
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "help") == 0)
        return help(argc - 1, argv + 1);
    return run_command(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    return cli_main(argc, argv, dispatch);
}
