// SPDX-License-Identifier: MIT
/// The command line: one table a subcommand, from which it is parsed and its help is printed.
#ifndef PTXGEN_TOOLS_CLI_H
#define PTXGEN_TOOLS_CLI_H

#include "message.h"

/// How the process ends. Everything but EXIT_DONE comes with a line on standard error.
enum exit_status {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NOTHING = 77, ///< nothing to run it on: no GPU and no emulator, no ptxas
};

struct command {
    const char *name;
    const char *synopsis; ///< what follows the name
    const char *summary;
    int (*run)(const struct command *command, int argc, char **argv); ///< returns an exit status
    const char *details; ///< printed at the end of the help; NULL: nothing
};

extern const struct command command_list;
extern const struct command command_info;
extern const struct command command_emit;
extern const struct command command_check;
extern const struct command command_run;
extern const struct command command_clip;
extern const struct command command_devices;
extern const struct command command_bench;

enum { CLI_LIST_LIMIT = 64 };

/// The values of an option that may be repeated.
struct cli_list {
    const char *items[CLI_LIST_LIMIT];
    size_t count;
};

struct cli_option {
    const char *name;     ///< without the dashes; NULL ends the table
    char letter;          ///< of the short form, or 0
    const char *argument; ///< what the help calls the argument; NULL for a flag
    bool *flag;           ///< exactly one of the three is set: where the result goes
    const char **text;
    struct cli_list *list;
    const char *help;
};

/// The rows of a table: a flag, an option with an argument, one that may be repeated, the end.
#define CLI_FLAG(name, letter, flag, help)                                                         \
    {                                                                                              \
        name, letter, NULL, flag, NULL, NULL, help                                                 \
    }
#define CLI_TEXT(name, letter, argument, text, help)                                               \
    {                                                                                              \
        name, letter, argument, NULL, text, NULL, help                                             \
    }
#define CLI_LIST(name, letter, argument, list, help)                                               \
    {                                                                                              \
        name, letter, argument, NULL, NULL, list, help                                             \
    }
#define CLI_END                                                                                    \
    {                                                                                              \
        NULL, 0, NULL, NULL, NULL, NULL, NULL                                                      \
    }

/// Of --force, which every command has that writes a file.
#define FORCE_HELP "write over a file that is read-only"

/// What cli_parse() returns when the command is to go on.
enum { CLI_GO_ON = -1 };

/// Reads argv[1] and up. What is no option goes to `names`, of which at most `most` are allowed.
/// Returns CLI_GO_ON, or the exit status where it has printed the help, the version or an error.
int cli_parse(const struct command *command, const struct cli_option *options,
              struct cli_list *names, size_t most, int argc, char **argv);

/// Prints "ptxgen COMMAND: ..." on standard error and returns the status; `command` may be NULL.
int cli_fail(const struct command *command, int status, const char *format, ...)
    PTXGEN_PRINTF(3, 4);

#endif
