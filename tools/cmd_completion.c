// SPDX-License-Identifier: MIT
/// Completion scripts for shells, written from the tables that the commands parse with.
#include "cli.h"
#include "plan_text.h"

#include <ptxgen/ptxgen.h>

#include <stdio.h>
#include <string.h>

enum shell { BASH, ZSH, SHELL_COUNT };

static const char *const shells[SHELL_COUNT] = { [BASH] = "bash", [ZSH] = "zsh" };

/// A copy of a command, to be visited.
struct probe {
    struct command command;
    enum shell shell;
};

// ---- what an argument may be --------------------------------------------------------------------

static void put_kernels(void)
{
    for (size_t k = 0; ptx_kernel_at(k); k++)
        printf(" %s", ptx_kernel_at(k)->name);
}

static void put_plans(void)
{
    for (size_t k = 0; plan_at(k); k++)
        printf(" %s", plan_at(k)->name);
}

static void put_dtypes(void)
{
    uint32_t dtypes = 0;
    for (size_t k = 0; ptx_kernel_at(k); k++)
        dtypes |= ptx_kernel_at(k)->dtypes;
    for (unsigned type = 0; type < PTX_TYPE_COUNT; type++)
        if (dtypes >> type & 1)
            printf(" %s", ptx_type_name((ptx_type)type));
}

static void put_targets(void)
{
    struct ptx_target target;
    char name[PTX_TARGET_NAME_SIZE];
    for (size_t k = 0; ptx_target_at(k, &target, NULL); k++)
        printf(" %s", ptx_target_name(target, name));
}

static void put_policies(void)
{
    for (size_t k = 0; clip_policy_at(k); k++)
        printf(" %s", clip_policy_at(k));
}

/// What has options: the kernels, then the plans. NULL past the last.
static const char *name_at(size_t k, const ptx_kernel **kernel, const struct plan_text **plan)
{
    size_t kernels = 0;
    while (ptx_kernel_at(kernels))
        kernels++;
    *kernel = k < kernels ? ptx_kernel_at(k) : NULL;
    *plan = k < kernels ? NULL : plan_at(k - kernels);
    return *kernel ? (*kernel)->name : *plan ? (*plan)->name : NULL;
}

/// Value `value` of option `option` of the kernel or plan `k`; the option's name goes to *name.
/// NULL past the last.
static const char *choice_at(size_t k, size_t option, size_t value, const char **name)
{
    const ptx_kernel *kernel;
    const struct plan_text *plan;
    if (!name_at(k, &kernel, &plan))
        return NULL;
    if (plan) {
        *name = plan->options[option].name;
        return *name ? plan->options[option].values[value] : NULL;
    }
    if (option >= PTX_KERNEL_MAX_OPTIONS || !kernel->options[option].name ||
        value >= PTX_KERNEL_MAX_CHOICES)
        return NULL;
    *name = kernel->options[option].name;
    return kernel->options[option].values[value];
}

/// Whether an earlier kernel has this option with this value.
static bool is_repeated(size_t kernel, const char *wanted, const char *value)
{
    const char *name, *other;
    for (size_t k = 0; k < kernel; k++)
        for (size_t o = 0; choice_at(k, o, 0, &name); o++)
            for (size_t v = 0; (other = choice_at(k, o, v, &name)); v++)
                if (strcmp(name, wanted) == 0 && strcmp(other, value) == 0)
                    return true;
    return false;
}

/// A kernel's choices, each after a blank; `once`: without those of earlier kernels.
static void put_choices(size_t kernel, bool once)
{
    const char *name, *value;
    for (size_t o = 0; choice_at(kernel, o, 0, &name); o++)
        for (size_t v = 0; (value = choice_at(kernel, o, v, &name)); v++)
            if (!once || !is_repeated(kernel, name, value))
                printf(" %s=%s", name, value);
}

/// The function _ptxgen_choices WORD...: sets `choices` to those of the kernel that is among the
/// words, or else to those of every kernel.
static void print_choices(void)
{
    printf("_ptxgen_choices()\n{\n    local word\n    for word in \"$@\"; do\n"
           "        case $word in\n");
    const ptx_kernel *kernel;
    const struct plan_text *plan;
    const char *name;
    for (size_t k = 0; (name = name_at(k, &kernel, &plan)); k++) {
        printf("        %s) choices=\"", name);
        put_choices(k, false);
        printf("\" && return ;;\n");
    }
    printf("        esac\n    done\n    choices=\"");
    for (size_t k = 0; ptx_kernel_at(k); k++)
        put_choices(k, true);
    printf("\"\n}\n\n");
}

static void put_commands(void)
{
    for (size_t k = 0; command_at(k); k++)
        printf(" %s", command_at(k)->name);
}

/// The names that stand for something in synopses and option tables. Other capital words are free
/// text.
static const struct meaning {
    const char *name;
    void (*put)(void); ///< prints each value after a blank; NULL: the names of files
} meanings[] = {
    { "FILE", NULL },       { "KERNEL", put_kernels },   { "PLAN", put_plans },
    { "TYPE", put_dtypes }, { "SM", put_targets },       { "POLICY", put_policies },
    { "FOLDER", NULL },     { "COMMAND", put_commands },
};

/// Whether the argument is one of --set, whose values _ptxgen_choices has.
static bool is_choice(const char *argument)
{
    const char *equals = argument ? strchr(argument, '=') : NULL;
    return equals && strcmp(equals, "=VALUE") == 0;
}

/// The meaning of part of an argument, up to '|'. NULL: none.
static const struct meaning *meaning_of(const char *part, size_t length)
{
    for (size_t k = 0; k < sizeof(meanings) / sizeof(meanings[0]); k++)
        if (strlen(meanings[k].name) == length && strncmp(meanings[k].name, part, length) == 0)
            return &meanings[k];
    return NULL;
}

/// Prints the values of an argument such as "N|emulator", each after a blank. Returns whether a
/// file is one.
static bool put_values(const char *argument)
{
    bool file = false;
    while (argument && *argument) {
        size_t length = strcspn(argument, "|");
        const struct meaning *meaning = meaning_of(argument, length);
        const bool literal = *argument >= 'a' && *argument <= 'z';
        if (meaning && meaning->put)
            meaning->put();
        else if (meaning)
            file = true;
        else if (literal)
            printf(" %.*s", (int)length, argument);
        argument += length + (argument[length] == '|');
    }
    return file;
}

// ---- bash ---------------------------------------------------------------------------------------

static void bash_values(const char *variable, const char *argument)
{
    printf("%s=\"", variable);
    if (is_choice(argument))
        printf("@SET\"");
    else
        printf(put_values(argument) ? " @FILE\"" : "\"");
}

static void bash_names(const struct cli_option *option, const char *between)
{
    if (option->letter)
        printf("-%c%s", option->letter, between);
    printf("--%s", option->name);
}

static void bash_command(const struct command *command, const struct cli_option *options)
{
    const struct cli_option *const tables[] = { options, cli_common };
    printf("    %s)\n        options=\"", command->name);
    for (size_t t = 0; t < 2; t++)
        for (const struct cli_option *option = tables[t]; option->name; option++) {
            bash_names(option, " ");
            putchar(' ');
        }
    printf("\"\n        ");
    bash_values("operands", command->operand);
    printf("\n        case $before in\n");
    for (const struct cli_option *option = options; option->name; option++) {
        if (!option->argument)
            continue;
        printf("        ");
        bash_names(option, " | ");
        printf(") is_value=1 ");
        bash_values("values", option->argument);
        printf(" ;;\n");
    }
    printf("        esac\n        ;;\n");
}

// The line is split at blanks, because bash also splits it at '=' and ':'. Values that hold '=' are
// offered from the last '=' on, which is the word that bash replaces.
static const char bash_begin[] =
    "_ptxgen()\n"
    "{\n"
    "    local line=${COMP_LINE:0:COMP_POINT} words current before command\n"
    "    local options= operands= values= is_value= choices=\n"
    "    read -ra words <<<\"$line\"\n"
    "    case $line in *[[:space:]]) words+=('') ;; esac\n"
    "    current=${words[${#words[@]} - 1]}\n"
    "    before=${words[${#words[@]} - 2]}\n"
    "    command=${words[1]}\n"
    "    [ ${#words[@]} -gt 2 ] || command= before=\n"
    "    case $current in --*=*) before=${current%%=*} current=${current#*=} ;; esac\n"
    "    case $command in\n";

static const char bash_end[] =
    "    esac\n"
    "    if [ -z \"$is_value\" ]; then\n"
    "        case $current in\n"
    "        -*) values=$options ;;\n"
    "        *) values=$operands ;;\n"
    "        esac\n"
    "    fi\n"
    "    if [ \"$values\" = @SET ]; then\n"
    "        _ptxgen_choices \"${words[@]:2}\"\n"
    "        values=$choices\n"
    "    fi\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"${values/@FILE/}\" -- \"$current\")\n"
    "    case $values in\n"
    "    *@FILE)\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$current\")\n"
    "        ;;\n"
    "    esac\n"
    "    case $COMP_WORDBREAKS$current in\n"
    "    *=*=*) COMPREPLY=(\"${COMPREPLY[@]#\"${current%=*}=\"}\") ;;\n"
    "    esac\n"
    "}\n"
    "complete -F _ptxgen ptxgen\n";

// ---- zsh ----------------------------------------------------------------------------------------

/// Prints a text within single quotes and the brackets or colons of a specification.
static void zsh_text(const char *text)
{
    for (; *text; text++) {
        if (strchr("[]:\\", *text))
            putchar('\\');
        if (*text == '\'')
            printf("'\\''");
        else
            putchar(*text);
    }
}

/// ":NAME:ACTION" for an argument. A colon would end the action.
static void zsh_argument(const char *argument)
{
    putchar(':');
    zsh_text(argument);
    if (is_choice(argument)) {
        printf(":{local choices; _ptxgen_choices $words; compadd -- ${=choices}}");
        return;
    }
    printf(":{compadd --");
    printf(put_values(argument) ? "; _files}" : "}");
}

static void zsh_option(const struct cli_option *option)
{
    // Without a list, the forms of one option exclude each other.
    for (unsigned form = 0; form < 2; form++) {
        if (form == 0 && !option->letter)
            continue;
        printf("            '");
        if (option->list)
            printf("*");
        else if (option->letter)
            printf("(-%c --%s)", option->letter, option->name);
        if (form == 0)
            printf("-%c%s[", option->letter, option->argument ? "+" : "");
        else
            printf("--%s%s[", option->name, option->argument ? "=" : "");
        zsh_text(option->help);
        printf("]");
        if (option->argument)
            zsh_argument(option->argument);
        printf("' \\\n");
    }
}

static void zsh_command(const struct command *command, const struct cli_option *options)
{
    const struct cli_option *const tables[] = { options, cli_common };
    printf("        %s)\n            _arguments -s \\\n", command->name);
    for (size_t t = 0; t < 2; t++)
        for (const struct cli_option *option = tables[t]; option->name; option++)
            zsh_option(option);
    if (command->operand) {
        printf("            '1");
        zsh_argument(command->operand);
        printf("'\n");
    } else {
        printf("            ':: :'\n");
    }
    printf("            ;;\n");
}

static const char zsh_begin[] = "_ptxgen()\n"
                                "{\n"
                                "    local context state state_descr line curcontext=$curcontext\n"
                                "    typeset -A opt_args\n"
                                "    _arguments -C '(- *)'{-h,--help}'[print this text]' \\\n"
                                "        '(- *)'{-V,--version}'[print the version]' "
                                "'1:command:->command' '*::argument:->arguments'\n"
                                "    case $state in\n"
                                "    command)\n"
                                "        local -a commands=(\n";

static const char zsh_middle[] = "        )\n"
                                 "        _describe command commands\n"
                                 "        ;;\n"
                                 "    arguments)\n"
                                 "        case $words[1] in\n";

static const char zsh_end[] = "        esac\n"
                              "        ;;\n"
                              "    esac\n"
                              "}\n"
                              "_ptxgen \"$@\"\n";

// ---- the command --------------------------------------------------------------------------------

static void visit(const struct command *command, const struct cli_option *options)
{
    const struct probe *probe = (const struct probe *)(const void *)command;
    (probe->shell == BASH ? bash_command : zsh_command)(command, options);
}

static void visit_all(enum shell shell)
{
    static const struct cli_option none[] = { CLI_END };
    static const struct command help = { .name = "help", .operand = "COMMAND" };
    for (size_t k = 0; command_at(k); k++) {
        struct probe probe = { *command_at(k), shell };
        char name[] = "";
        probe.command.visit = visit;
        probe.command.run(&probe.command, 1, (char *[]) { name, NULL });
    }
    visit(&(struct probe) { help, shell }.command, none);
}

static void print_bash(void)
{
    puts("# bash completion for ptxgen, written by: ptxgen completion bash");
    print_choices();
    fputs(bash_begin, stdout);
    printf("    '') options=\"-h --help -V --version\" operands=\"help");
    put_commands();
    printf("\" ;;\n");
    visit_all(BASH);
    fputs(bash_end, stdout);
}

static void print_zsh(void)
{
    puts("#compdef ptxgen\n# zsh completion for ptxgen, written by: ptxgen completion zsh");
    print_choices();
    fputs(zsh_begin, stdout);
    for (size_t k = 0; command_at(k); k++) {
        printf("            '%s:", command_at(k)->name);
        zsh_text(command_at(k)->summary);
        printf("'\n");
    }
    printf("            'help:describe a command'\n");
    fputs(zsh_middle, stdout);
    visit_all(ZSH);
    fputs(zsh_end, stdout);
}

static int run(const struct command *command, int argc, char **argv)
{
    struct cli_list names = { 0 };
    const struct cli_option options[] = { CLI_END };
    int status = cli_parse(command, options, &names, 1, argc, argv);
    if (status != CLI_GO_ON)
        return status;
    if (names.count == 0)
        return cli_fail(command, EXIT_USAGE, "for which shell? bash or zsh");
    for (size_t k = 0; k < SHELL_COUNT; k++) {
        if (strcmp(names.items[0], shells[k]) != 0)
            continue;
        (k == BASH ? print_bash : print_zsh)();
        return EXIT_DONE;
    }
    struct message error;
    message_unknown(&error, "shell", names.items[0], shells, SHELL_COUNT);
    return cli_fail(command, EXIT_USAGE, "%s", error.text);
}

const struct command command_completion = {
    .name = "completion",
    .operand = "bash|zsh",
    .synopsis = "bash|zsh",
    .summary = "print a completion script for a shell",
    .run = run,
    .details =
        "For one session of bash: source <(ptxgen completion bash). zsh reads the script from "
        "a file\n_ptxgen in a folder of its fpath. An installation has both in their places.",
};
