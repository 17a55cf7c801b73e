// SPDX-License-Identifier: MIT
#include "gpu_run.h"
#include "json_print.h"

#include <stdio.h>

static json_t *device_json(const struct ptx_device_info *info)
{
    return json_pack("{s:i, s:s, s:i, s:I, s:i, s:i, s:i, s:s}", "ordinal", info->ordinal, "name",
                     info->name, "sm", info->sm, "memory", (json_int_t)info->memory,
                     "multiprocessors", info->multiprocessors, "driver_version",
                     info->driver_version, "isa", info->isa, "library", info->library_path);
}

static void print_device(const struct ptx_device_info *info)
{
    printf("%d: %s, sm_%d, %d multiprocessors, %.1f GiB, driver %d.%d, PTX ISA %d.%d, %s\n",
           info->ordinal, info->name, info->sm, info->multiprocessors,
           (double)info->memory / (1024.0 * 1024.0 * 1024.0), info->driver_version / 1000,
           info->driver_version % 1000 / 10, info->isa / 10, info->isa % 10, info->library_path);
}

/// Every GPU, as text or into `list`.
static int show(int count, json_t *list, struct message *error)
{
    for (int ordinal = 0; ordinal < count; ordinal++) {
        struct ptx_device_params params = { .ordinal = ordinal, .primary = true };
        ptx_device *device = ptx_device_open(&params);
        if (!device)
            return gpu_error(error);
        const struct ptx_device_info *info = ptx_device_get_info(device);
        if (list)
            json_array_append_new(list, device_json(info));
        else
            print_device(info);
        ptx_device_close(&device);
    }
    return EXIT_DONE;
}

static int run(const struct command *command, int argc, char **argv)
{
    bool json = false;
    int count;
    struct message error;
    struct cli_list names = { 0 };
    const struct cli_option options[] = {
        CLI_FLAG("json", 0, &json, "print JSON"),
        CLI_END,
    };
    int status = cli_parse(command, options, &names, 0, argc, argv);
    if (status != CLI_GO_ON)
        return status;
    if (ptx_device_count(&count) != PTX_OK) {
        status = gpu_error(&error);
        return cli_fail(command, status, "%s", error.text);
    }
    json_t *list = json ? json_array() : NULL;
    status = show(count, list, &error);
    if (status != EXIT_DONE) {
        json_decref(list);
        return cli_fail(command, status, "%s", error.text);
    }
    return json ? json_print(command, list) : EXIT_DONE;
}

const struct command command_devices = {
    .name = "devices",
    .synopsis = "[--json]",
    .summary = "show the GPUs and the driver",
    .run = run,
    .details = "PTXGEN_LIBCUDA names the driver's library, where it is not to be libcuda.so.1.",
};
