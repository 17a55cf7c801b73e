// SPDX-License-Identifier: MIT
#include "cli.h"
#include "select.h"

#include <ptxgen/ptxgen.h>

#include <stdio.h>

static int list_json(const struct command *command)
{
    json_t *list = json_array();
    const ptx_kernel *kernel;
    for (size_t k = 0; (kernel = ptx_kernel_at(k)); k++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:o}", "name", kernel->name, "summary",
                                        kernel->summary, "dtypes", kernel_dtypes_json(kernel)));
    struct message error;
    if (!json_print(stdout, list, JSON_INDENT(2), &error))
        return cli_fail(command, EXIT_FAILED, "%s", error.text);
    return EXIT_DONE;
}

static int list_text(void)
{
    const ptx_kernel *kernel;
    for (size_t k = 0; (kernel = ptx_kernel_at(k)); k++) {
        char dtypes[64];
        size_t used = 0;
        for (unsigned type = 0; type < PTX_TYPE_COUNT && used < sizeof(dtypes) - 8; type++)
            if (kernel->dtypes >> type & 1)
                used += (size_t)snprintf(dtypes + used, sizeof(dtypes) - used, "%s%s",
                                         used ? " " : "", ptx_type_name((ptx_type)type));
        printf("%-32s %-18s %s\n", kernel->name, dtypes, kernel->summary);
    }
    return EXIT_DONE;
}

static int run(const struct command *command, int argc, char **argv)
{
    bool json = false;
    struct cli_list names = { 0 };
    const struct cli_option options[] = {
        CLI_FLAG("json", 0, &json, "print JSON"),
        CLI_END,
    };
    int status = cli_parse(command, options, &names, 0, argc, argv);
    if (status != CLI_GO_ON)
        return status;
    return json ? list_json(command) : list_text();
}

const struct command command_list = {
    .name = "list",
    .synopsis = "[--json]",
    .summary = "list the kernels",
    .run = run,
};
