// SPDX-License-Identifier: MIT
#include "emulator.h"
#include "json_print.h"
#include "place.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static json_t *device_json(const struct ptx_device_info *info)
{
    return json_pack("{s:i, s:s, s:i, s:I, s:i, s:i, s:i, s:s, s:b}", "ordinal", info->ordinal,
                     "name", info->name, "sm", info->sm, "memory", (json_int_t)info->memory,
                     "multiprocessors", info->multiprocessors, "driver_version",
                     info->driver_version, "isa", info->isa, "library", info->library_path,
                     "emulator", emulator_is(info->library_path));
}

static void print_device(json_t *device)
{
    int ordinal, sm, multiprocessors, driver, isa, emulator;
    const char *name, *library;
    json_int_t memory;
    if (json_unpack(device, "{s:i, s:s, s:i, s:I, s:i, s:i, s:i, s:s, s:b}", "ordinal", &ordinal,
                    "name", &name, "sm", &sm, "memory", &memory, "multiprocessors",
                    &multiprocessors, "driver_version", &driver, "isa", &isa, "library", &library,
                    "emulator", &emulator) != 0)
        return;
    if (emulator)
        fputs("emulator: ", stdout);
    else
        printf("%d: ", ordinal);
    printf("%s, sm_%d, %d multiprocessors, %.1f GiB, driver %d.%d, PTX ISA %d.%d, %s\n", name, sm,
           multiprocessors, (double)memory / (1024.0 * 1024.0 * 1024.0), driver / 1000,
           driver % 1000 / 10, isa / 10, isa % 10, library);
}

/// What the driver layer's library sees.
static int add_devices(json_t *list, struct message *error)
{
    int count;
    if (ptx_device_count(&count) != PTX_OK)
        return gpu_error(error);
    for (int ordinal = 0; ordinal < count; ordinal++) {
        struct ptx_device_params params = { .ordinal = ordinal, .primary = true };
        ptx_device *device = ptx_device_open(&params);
        if (!device)
            return gpu_error(error);
        json_array_append_new(list, device_json(ptx_device_get_info(device)));
        ptx_device_close(&device);
    }
    return EXIT_DONE;
}

static int write_emulator(int to)
{
    struct message error;
    json_t *list = json_array();
    bool done = emulator_choose(&error) == EXIT_DONE && add_devices(list, &error) == EXIT_DONE &&
                json_dumpfd(list, to, 0) == 0;
    json_decref(list);
    return done ? EXIT_DONE : EXIT_FAILED;
}

/// The emulator, seen by a process of its own: a driver, once loaded, stays. NULL: there is none.
static json_t *emulator_devices(void)
{
    int ends[2];
    if (emulator_is_ruled_out() || pipe(ends) != 0)
        return NULL;
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        _exit(write_emulator(ends[1]));
    }
    close(ends[1]);
    json_t *list = child > 0 ? json_loadfd(ends[0], 0, NULL) : NULL;
    close(ends[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    return list;
}

static int run(const struct command *command, int argc, char **argv)
{
    bool json = false;
    struct message error;
    struct cli_list names = { 0 };
    const struct cli_option options[] = {
        CLI_FLAG("json", 0, &json, "print JSON"),
        CLI_END,
    };
    int status = cli_parse(command, options, &names, 0, argc, argv);
    if (status != CLI_GO_ON)
        return status;
    json_t *emulator = emulator_devices(), *list = json_array();
    status = add_devices(list, &error);
    bool instead = status == EXIT_NOTHING && json_array_size(emulator) > 0;
    if (status != EXIT_DONE && !instead) {
        json_decref(list);
        json_decref(emulator);
        if (status == EXIT_NOTHING)
            emulator_advise(&error, false);
        return cli_fail(command, status, "%s", error.text);
    }
    if (emulator)
        json_array_extend(list, emulator);
    json_decref(emulator);
    if (json)
        return json_print(command, list);
    for (size_t k = 0; k < json_array_size(list); k++)
        print_device(json_array_get(list, k));
    if (instead)
        printf("no GPU: %s\n", error.text);
    json_decref(list);
    return EXIT_DONE;
}

const struct command command_devices = {
    .name = "devices",
    .synopsis = "[--json]",
    .summary = "show the GPUs, their driver and the emulator",
    .run = run,
    .details = "PTXGEN_LIBCUDA names the driver's library, where it is not to be libcuda.so.1; "
               "then no other is\nlooked at. PTXGEN_EMULATOR names the emulator, where it is not "
               "the one that came with this program.",
};
