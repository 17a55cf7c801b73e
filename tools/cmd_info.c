// SPDX-License-Identifier: MIT
#include "cli.h"
#include "plan_text.h"
#include "select.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    uint8_t bit;
    const char *text;
} ranges[] = {
    { PTX_RANGE_NOT_NAN, "not NaN" },
    { PTX_RANGE_FINITE, "finite" },
    { PTX_RANGE_POSITIVE, "positive" },
    { PTX_RANGE_NOT_NEGATIVE, "not negative" },
};

enum { RANGE_COUNT = sizeof(ranges) / sizeof(ranges[0]) };

static const char *access_of(const struct ptx_param_info *param)
{
    if (!param->is_pointer)
        return "value";
    return param->readonly ? "in" : param->writeonly ? "out" : "in/out";
}

static const char *const grids[] = {
    [PTX_GRID_VECTORS] = "vectors",
    [PTX_GRID_CHUNKS] = "chunks",
    [PTX_GRID_ONE] = "one",
};

static json_t *param_json(const struct ptx_param_info *param)
{
    json_t *range = json_array();
    for (size_t k = 0; k < RANGE_COUNT; k++)
        if (param->range & ranges[k].bit)
            json_array_append_new(range, json_string(ranges[k].text));
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name", param->name, "type",
        ptx_type_name((ptx_type)param->type), "access", access_of(param), "meaning",
        json_string_or_null(param->meaning), "length", json_string_or_null(param->length), "range",
        range, "low", json_string_or_null(param->low), "high", json_string_or_null(param->high),
        "preset", json_string_or_null(param->preset), "format", json_string_or_null(param->format));
}

static json_t *options_json(const struct selection *selection)
{
    const ptx_kernel *kernel = selection->kernel;
    json_t *list = json_array();
    for (size_t k = 0; k < PTX_KERNEL_MAX_OPTIONS && kernel->options[k].name; k++) {
        const struct ptx_kernel_option *option = &kernel->options[k];
        json_t *values = json_array();
        for (size_t v = 0; v < PTX_KERNEL_MAX_CHOICES && option->values[v]; v++)
            json_array_append_new(values, json_string(option->values[v]));
        json_array_append_new(list, json_pack("{s:s, s:o, s:s, s:o, s:s}", "name", option->name,
                                              "summary", json_string_or_null(option->summary),
                                              "default", option->values[0], "values", values,
                                              "chosen", option->values[selection->spec.option[k]]));
    }
    return list;
}

static int info_json(const struct command *command, const struct selection *selection,
                     const ptx_builder *b)
{
    const ptx_kernel *kernel = selection->kernel;
    char entry[PTX_ENTRY_NAME_SIZE];
    json_t *params = json_array();
    struct ptx_param_info param;
    for (unsigned k = 0; ptx_builder_param(b, 0, k, &param); k++)
        json_array_append_new(params, param_json(&param));
    json_t *launch = json_pack("{s:s, s:i}", "grid", grids[kernel->grid], "block", kernel->block);
    if (kernel->grid == PTX_GRID_CHUNKS)
        json_object_set_new(launch, "chunk", json_integer(ptx_kernel_chunk(kernel, UINT64_MAX)));
    const uint64_t short_most = kernel->short_most;
    if (short_most) {
        json_object_set_new(launch, "short_chunk",
                            json_integer(ptx_kernel_chunk(kernel, short_most)));
        json_object_set_new(launch, "short_most", json_integer((json_int_t)short_most));
    }
    struct message error;
    return json_print(stdout,
                      json_pack("{s:s, s:s, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "name",
                                kernel->name, "summary", kernel->summary, "formula",
                                json_string_or_null(kernel->formula), "dtypes",
                                dtypes_json(kernel->dtypes), "dtype",
                                ptx_type_name(selection->spec.dtype), "entry",
                                ptx_kernel_entry_name(kernel, &selection->spec, entry), "options",
                                options_json(selection), "parameters", params, "launch", launch,
                                "accumulator", json_string_or_null(kernel->accumulator),
                                "guarantees", json_string_or_null(kernel->guarantees)),
                      JSON_INDENT(2), &error)
               ? EXIT_DONE
               : cli_fail(command, EXIT_FAILED, "%s", error.text);
}

static void print_options(const struct selection *selection)
{
    const struct ptx_kernel_option *option = selection->kernel->options;
    if (option->name)
        puts("\noptions (the first value is the default):");
    for (size_t k = 0; k < PTX_KERNEL_MAX_OPTIONS && option[k].name; k++) {
        char values[128] = "";
        for (size_t v = 0, used = 0; v < PTX_KERNEL_MAX_CHOICES && option[k].values[v]; v++) {
            int length = snprintf(values + used, sizeof(values) - used, "%s%s", v ? " | " : "",
                                  option[k].values[v]);
            used += length > 0 && (size_t)length < sizeof(values) - used ? (size_t)length : 0;
        }
        printf("  %-14s %-34s %s\n", option[k].name, values,
               option[k].summary ? option[k].summary : "");
    }
}

static void print_param(const struct ptx_param_info *param)
{
    char type[64];
    const char *name = ptx_type_name((ptx_type)param->type);
    if (param->is_pointer)
        snprintf(type, sizeof(type), "%s[%s] %s", name, param->length ? param->length : "",
                 access_of(param));
    else
        snprintf(type, sizeof(type), "%s", name);
    printf("  %-14s %-18s %s", param->name, type, param->meaning ? param->meaning : "");
    if (param->format)
        printf("; %s", param->format);
    for (size_t k = 0; k < RANGE_COUNT; k++)
        if (param->range & ranges[k].bit)
            printf("; %s", ranges[k].text);
    if (param->low)
        printf("; %s or more", param->low);
    if (param->high)
        printf("; %s or less", param->high);
    if (param->preset)
        printf("; usually %s", param->preset);
    putchar('\n');
}

static void print_launch(const ptx_kernel *kernel)
{
    const uint64_t short_most = kernel->short_most;

    printf("\nlaunch:      ");
    switch (kernel->grid) {
    case PTX_GRID_VECTORS:
        printf("blocks of %u threads, each with the elements of 16 bytes\n", kernel->block);
        break;
    case PTX_GRID_CHUNKS:
        printf("blocks of %u threads, a block with %u elements", kernel->block,
               ptx_kernel_chunk(kernel, UINT64_MAX));
        if (short_most)
            printf(", or with %u where n is %" PRIu64 " or less",
                   ptx_kernel_chunk(kernel, short_most), short_most);
        putchar('\n');
        break;
    case PTX_GRID_ONE:
        printf("one block of %u thread%s\n", kernel->block, kernel->block == 1 ? "" : "s");
        break;
    }
    if (kernel->accumulator)
        printf("accumulator: %s\n", kernel->accumulator);
    if (kernel->guarantees)
        printf("guarantees:  %s\n", kernel->guarantees);
}

static int info_text(const struct selection *selection, const ptx_builder *b)
{
    const ptx_kernel *kernel = selection->kernel;
    char entry[PTX_ENTRY_NAME_SIZE];
    printf("%s: %s\n", kernel->name, kernel->summary);
    if (kernel->formula)
        printf("\n  %s\n", kernel->formula);
    printf("\ndtypes:");
    ptx_type type;
    for (size_t k = 0; (type = kernel_dtype_at(kernel, k)) != PTX_NONE; k++)
        printf(" %s", ptx_type_name(type));
    putchar('\n');
    print_options(selection);
    printf("\nparameters of %s:\n", ptx_kernel_entry_name(kernel, &selection->spec, entry));
    struct ptx_param_info param;
    for (unsigned k = 0; ptx_builder_param(b, 0, k, &param); k++)
        print_param(&param);
    print_launch(kernel);
    return EXIT_DONE;
}

static int run(const struct command *command, int argc, char **argv)
{
    bool json = false;
    const char *dtype = NULL;
    struct cli_list names = { 0 };
    struct cli_list sets = { 0 };
    const struct cli_option options[] = {
        CLI_TEXT("dtype", 0, "TYPE", &dtype, "type of the tensors"),
        CLI_LIST("set", 0, "OPTION=VALUE", &sets, "choose an option"),
        CLI_FLAG("json", 0, &json, "print JSON"),
        CLI_END,
    };
    int status = cli_parse(command, options, &names, 1, argc, argv);
    if (status != CLI_GO_ON)
        return status;
    if (names.count == 0)
        return cli_fail(command, EXIT_USAGE, "which kernel? ptxgen list names them");
    struct message error;
    const struct plan_text *plan = plan_find(names.items[0]);
    if (plan) {
        struct plan_choice choice;
        if (!plan_select(&choice, plan, dtype, &sets, &error))
            return cli_fail(command, EXIT_USAGE, "%s", error.text);
        return plan_info(&choice, json, &error) ? EXIT_DONE
                                                : cli_fail(command, EXIT_FAILED, "%s", error.text);
    }
    struct selection selection = { .target = { .sm = 80 } };
    if (!select_kernel(names.items[0], &selection.kernel, &error) ||
        !select_dtype(selection.kernel, dtype, &selection.spec.dtype, &error))
        return cli_fail(command, EXIT_USAGE, "%s", error.text);
    for (size_t k = 0; k < sets.count; k++)
        if (!select_option(&selection, sets.items[k], &error))
            return cli_fail(command, EXIT_USAGE, "%s", error.text);
    ptx_builder *b = selection_emit(&selection, &error);
    if (!b)
        return cli_fail(command, EXIT_FAILED, "%s", error.text);
    status = json ? info_json(command, &selection, b) : info_text(&selection, b);
    ptx_builder_destroy(&b);
    return status;
}

const struct command command_info = {
    .name = "info",
    .operand = "KERNEL|PLAN",
    .synopsis = "KERNEL|PLAN [--dtype TYPE] [--set OPTION=VALUE]... [--json]",
    .summary = "show what a kernel computes, takes and guarantees",
    .run = run,
    .details = "The parameters shown are those of the chosen dtype and options; f32 and the "
               "defaults\nunless told otherwise. A PLAN, clip or step, stands for its kernels.",
};
