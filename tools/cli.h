// SPDX-License-Identifier: MIT
/// The command line. Each subcommand has one table, from which arguments are parsed and the help is
/// printed.
#ifndef PTXGEN_TOOLS_CLI_H
#define PTXGEN_TOOLS_CLI_H

#include "message.h"

/// Exit statuses. Every status except EXIT_DONE comes with a line on standard error.
enum exit_status {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NOTHING = 77, ///< nothing to run on: no GPU and no emulator, or no ptxas
};

struct cli_option;

/// The program's name, for its help and messages. The file with main() defines it.
extern const char cli_program[];

struct command {
    const char *name;     ///< NULL: the program has no other command
    const char *synopsis; ///< the part after the name
    const char *summary;
    int (*run)(const struct command *command, int argc, char **argv); ///< returns an exit status
    const char *details; ///< printed at the end of the help; NULL: none
    const char *operand; ///< name of the argument that is no option, as in the synopsis; NULL: none
    /// If set, cli_parse() calls this with the command's table, and the command ends: `run` with a
    /// copy of the command shows its options.
    void (*visit)(const struct command *command, const struct cli_option *options);
};

extern const struct command command_list;
extern const struct command command_info;
extern const struct command command_emit;
extern const struct command command_check;
extern const struct command command_run;
extern const struct command command_clip;
extern const struct command command_devices;
extern const struct command command_completion;

/// The commands in the order of the help; NULL after the last.
const struct command *command_at(size_t k);

/// The names of the policies of `ptxgen clip --nonfinite`; NULL after the last.
const char *clip_policy_at(size_t k);

enum { CLI_LIST_LIMIT = 64 };

/// The values of a repeatable option.
struct cli_list {
    const char *items[CLI_LIST_LIMIT];
    size_t count;
};

struct cli_option {
    const char *name;     ///< without the dashes; NULL ends the table
    char letter;          ///< of the short form, or 0
    const char *argument; ///< name of the argument in the help; NULL for a flag
    bool *flag;           ///< exactly one of the three is set: the destination of the result
    const char **text;
    struct cli_list *list;
    const char *help;
};

/// The options that every command has.
extern const struct cli_option cli_common[];

/// The rows of a table: a flag, an option with an argument, a repeatable option, the end.
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

/// The help of --force, in every command that writes a file.
#define FORCE_HELP "write over a file that is read-only"

/// The result of cli_parse() if the command should continue.
enum { CLI_GO_ON = -1 };

/// Parses argv[1] and up. Arguments that are not options go to `names`; at most `most` are allowed.
/// Returns CLI_GO_ON, or the exit status after printing the help, the version or an error, or after
/// a visit.
int cli_parse(const struct command *command, const struct cli_option *options,
              struct cli_list *names, size_t most, int argc, char **argv);

/// What main() does in a program: sets up signals and jansson, calls `run`, and reports an error of
/// standard output. Returns the exit status.
int cli_main(int argc, char **argv, int (*run)(int argc, char **argv));

/// Prints "PROGRAM COMMAND: ..." on standard error and returns the status; `command` may be NULL.
int cli_fail(const struct command *command, int status, const char *format, ...)
    PTXGEN_PRINTF(3, 4);

#endif
