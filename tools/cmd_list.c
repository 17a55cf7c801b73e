// SPDX-License-Identifier: MIT
#include "cli.h"
#include "select.h"
#include "step_text.h"

#include <ptxgen/ptxgen.h>

#include <stdio.h>

/// What has a text: the kernels, then the plans.
struct row {
    const char *name, *summary;
    const char *kind;
    uint32_t dtypes; ///< a bit each
};

/// False past the last; `step` are the types of the plan.
static bool row_at(size_t k, uint32_t step, struct row *row)
{
    const ptx_kernel *kernel = ptx_kernel_at(k);
    if (kernel)
        *row = (struct row) { kernel->name, kernel->summary, "kernel", kernel->dtypes };
    else if (k == 0 || ptx_kernel_at(k - 1))
        *row = (struct row) { step_name, step_summary, "plan", step };
    else
        return false;
    return true;
}

static int list_json(const struct command *command, uint32_t step)
{
    json_t *list = json_array();
    struct row row;
    for (size_t k = 0; row_at(k, step, &row); k++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o}", "name", row.name, "summary",
                                              row.summary, "kind", row.kind, "dtypes",
                                              dtypes_json(row.dtypes)));
    struct message error;
    if (!json_print(stdout, list, JSON_INDENT(2), &error))
        return cli_fail(command, EXIT_FAILED, "%s", error.text);
    return EXIT_DONE;
}

static int list_text(uint32_t step)
{
    struct row row;
    for (size_t k = 0; row_at(k, step, &row); k++) {
        char dtypes[64];
        size_t used = 0;
        for (unsigned type = 0; type < PTX_TYPE_COUNT && used < sizeof(dtypes) - 8; type++)
            if (row.dtypes >> type & 1)
                used += (size_t)snprintf(dtypes + used, sizeof(dtypes) - used, "%s%s",
                                         used ? " " : "", ptx_type_name((ptx_type)type));
        printf("%-32s %-18s %s\n", row.name, dtypes, row.summary);
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
    uint32_t step;
    struct message error;
    if (!step_dtypes(&step, &error))
        return cli_fail(command, EXIT_FAILED, "%s", error.text);
    return json ? list_json(command, step) : list_text(step);
}

const struct command command_list = {
    .name = "list",
    .synopsis = "[--json]",
    .summary = "list the kernels and plans",
    .run = run,
    .details = "info and emit take the name of a plan as that of a kernel.",
};
