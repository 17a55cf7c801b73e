// SPDX-License-Identifier: MIT
#include "cli.h"
#include "json.h"
#include "signals.h"

#include <ptxgen/ptxgen.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct command *const commands[] = {
    &command_clip,  &command_list, &command_info,    &command_emit,
    &command_check, &command_run,  &command_devices, &command_bench,
};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *stream)
{
    fputs("usage: ptxgen COMMAND [ARGUMENT]...\n\n"
          "Clip gradients; write GPU training kernels as NVIDIA PTX, check them and run them.\n\n"
          "commands:\n",
          stream);
    for (size_t k = 0; k < COMMAND_COUNT; k++)
        fprintf(stream, "  %-10s %s\n", commands[k]->name, commands[k]->summary);
    fputs("\nptxgen COMMAND --help says more; ptxgen --version prints the version.\n"
          "Exit status: 0 done, 1 failed, 2 wrong usage, 77 nothing to run it on (no GPU and no "
          "emulator,\nno ptxas).\n",
          stream);
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
    if (strcmp(argv[1], "--version") == 0) {
        printf("ptxgen %s\n", ptxgen_version());
        return EXIT_DONE;
    }
    const char *names[COMMAND_COUNT];
    for (size_t k = 0; k < COMMAND_COUNT; k++) {
        if (strcmp(argv[1], commands[k]->name) == 0)
            return commands[k]->run(commands[k], argc - 1, argv + 1);
        names[k] = commands[k]->name;
    }
    struct message error;
    message_unknown(&error, "command", argv[1], names, COMMAND_COUNT);
    return cli_fail(NULL, EXIT_USAGE, "%s", error.text);
}

int main(int argc, char **argv)
{
    signals_set_up();
    json_watch();
    int status = dispatch(argc, argv);
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == EXIT_DONE)
        status = cli_fail(NULL, EXIT_FAILED, "cannot write standard output%s%s", errno ? ": " : "",
                          errno ? strerror(errno) : "");
    return status;
}
