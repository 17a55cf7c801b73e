// SPDX-License-Identifier: MIT
#include "cli.h"
#include "plan_text.h"
#include "select.h"

#include <ptxgen/ptxgen.h>

#include <stdio.h>

/// What has a text: the kernels, then the plans.
struct row {
    const char *name, *summary;
    const char *kind;
    uint32_t dtypes; ///< a bit each
};

/// Whether there is a row `k`, after which *more is false. False with `error` set: out of memory.
static bool row_at(size_t k, struct row *row, bool *more, struct message *error)
{
    const ptx_kernel *kernel;
    const struct plan_text *plan;
    size_t kernels = 0;
    *more = true;
    for (; (kernel = ptx_kernel_at(kernels)); kernels++)
        if (kernels == k) {
            *row = (struct row) { kernel->name, kernel->summary, "kernel", kernel->dtypes };
            return true;
        }
    *more = (plan = plan_at(k - kernels));
    if (!plan)
        return true;
    *row = (struct row) { plan->name, plan->summary, "plan", 0 };
    return plan_dtypes(plan, &row->dtypes, error);
}

static int list_json(const struct command *command)
{
    json_t *list = json_array();
    struct message error;
    struct row row;
    bool more, right;
    for (size_t k = 0; (right = row_at(k, &row, &more, &error)) && more; k++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o}", "name", row.name, "summary",
                                              row.summary, "kind", row.kind, "dtypes",
                                              dtypes_json(row.dtypes)));
    if (!right)
        json_decref(list);
    if (!right || !json_print(stdout, list, JSON_INDENT(2), &error))
        return cli_fail(command, EXIT_FAILED, "%s", error.text);
    return EXIT_DONE;
}

static int list_text(const struct command *command)
{
    struct message error;
    struct row row;
    bool more, right;
    for (size_t k = 0; (right = row_at(k, &row, &more, &error)) && more; k++) {
        char dtypes[64];
        size_t used = 0;
        for (unsigned type = 0; type < PTX_TYPE_COUNT && used < sizeof(dtypes) - 8; type++)
            if (row.dtypes >> type & 1)
                used += (size_t)snprintf(dtypes + used, sizeof(dtypes) - used, "%s%s",
                                         used ? " " : "", ptx_type_name((ptx_type)type));
        printf("%-32s %-18s %s\n", row.name, dtypes, row.summary);
    }
    return right ? EXIT_DONE : cli_fail(command, EXIT_FAILED, "%s", error.text);
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
    return json ? list_json(command) : list_text(command);
}

const struct command command_list = {
    .name = "list",
    .synopsis = "[--json]",
    .summary = "list the kernels and plans",
    .run = run,
    .details = "info and emit take the name of a plan as that of a kernel.",
};
