// SPDX-License-Identifier: MIT
#include "emulator.h"
#include "json.h"
#include "place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/// The driver's own compute cache: CUDA_CACHE_PATH, or its default on Linux.
struct compute_cache {
    char path[4096]; ///< "" if it is disabled or the user has no home directory
    bool disabled;
    int error; ///< errno of why the user cannot write to it; 0: the user can
};

/// Whether the user can write to the folder or, if it does not exist, can create it.
static int write_error(const char *path)
{
    char folder[sizeof(((struct compute_cache *)NULL)->path)];
    snprintf(folder, sizeof(folder), "%s", path);
    while (access(folder, W_OK | X_OK) != 0) {
        char *slash = strrchr(folder, '/');
        if (errno != ENOENT)
            return errno;
        if (slash)
            slash[slash == folder] = '\0';
        else
            strcpy(folder, ".");
    }
    return 0;
}

static struct compute_cache find_compute_cache(void)
{
    struct compute_cache cache = { .path = "" };
    const char *disable = getenv("CUDA_CACHE_DISABLE");
    const char *path = getenv("CUDA_CACHE_PATH");
    const char *home = getenv("HOME");
    cache.disabled = disable && strcmp(disable, "1") == 0;
    if (cache.disabled)
        return cache;
    if (path && path[0])
        snprintf(cache.path, sizeof(cache.path), "%s", path);
    else if (home && home[0])
        snprintf(cache.path, sizeof(cache.path), "%s/.nv/ComputeCache", home);
    cache.error = cache.path[0] ? write_error(cache.path) : ENOENT;
    return cache;
}

static void print_compute_cache(void)
{
    const struct compute_cache cache = find_compute_cache();
    if (cache.disabled)
        puts("compute cache: off, since CUDA_CACHE_DISABLE is 1: every process compiles");
    else if (!cache.path[0])
        puts("compute cache: none, since neither CUDA_CACHE_PATH nor HOME is set");
    else if (cache.error)
        printf("compute cache: %s, which cannot be written: %s\n", cache.path,
               strerror(cache.error));
    else
        printf("compute cache: %s, which can be written\n", cache.path);
}

static json_t *device_json(const struct ptx_device_info *info)
{
    const struct compute_cache cache = find_compute_cache();
    const bool emulated = emulator_is(info); // it compiles nothing
    const char *path = cache.path[0] && !emulated ? cache.path : NULL;
    return json_pack("{s:i, s:s, s:i, s:I, s:i, s:i, s:i, s:s, s:b, s:s?, s:b}", "ordinal",
                     info->ordinal, "name", info->name, "sm", info->sm, "memory",
                     (json_int_t)info->memory, "multiprocessors", info->multiprocessors,
                     "driver_version", info->driver_version, "isa", info->isa, "library",
                     info->library_path, "emulator", emulated, "compute_cache", path,
                     "compute_cache_writable", path && cache.error == 0);
}

/// False: out of memory.
static bool print_device(json_t *device)
{
    int ordinal, sm, multiprocessors, driver, isa, emulator;
    const char *name, *library;
    json_int_t memory;
    if (json_unpack(device, "{s:i, s:s, s:i, s:I, s:i, s:i, s:i, s:s, s:b}", "ordinal", &ordinal,
                    "name", &name, "sm", &sm, "memory", &memory, "multiprocessors",
                    &multiprocessors, "driver_version", &driver, "isa", &isa, "library", &library,
                    "emulator", &emulator) != 0)
        return false;
    if (emulator)
        fputs("emulator: ", stdout);
    else
        printf("%d: ", ordinal);
    printf("%s, sm_%d, %d multiprocessors, %.1f GiB, driver %d.%d, PTX ISA %d.%d, %s\n", name, sm,
           multiprocessors, (double)memory / (1024.0 * 1024.0 * 1024.0), driver / 1000,
           driver % 1000 / 10, isa / 10, isa % 10, library);
    return true;
}

/// The devices that the driver layer's library reports.
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

/// Writes the emulator's devices: a list; null if there is no emulator; or an error message as a
/// string.
static bool write_emulator(int to)
{
    struct message error;
    json_t *seen = json_array();
    int status = emulator_choose(&error);
    if (status == EXIT_DONE && add_devices(seen, &error) != EXIT_DONE)
        status = EXIT_FAILED;
    if (status != EXIT_DONE) {
        json_decref(seen);
        seen = status == EXIT_NOTHING ? json_null() : json_string(error.text);
    }
    char *text = json_text(seen, JSON_ENCODE_ANY);
    const size_t length = text ? strlen(text) : 0;
    const bool written = text && write(to, text, length) == (ssize_t)length;
    free(text);
    return written;
}

/// Queries the emulator in a child process, because a loaded driver cannot be unloaded. *seen is
/// the result of write_emulator(); NULL if the emulator is excluded.
static bool emulator_devices(json_t **seen, struct message *error)
{
    int ends[2];
    *seen = NULL;
    if (emulator_is_ruled_out())
        return true;
    if (pipe(ends) != 0)
        return message_set(error, "cannot make a pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        _exit(write_emulator(ends[1]) ? EXIT_DONE : EXIT_FAILED);
    }
    close(ends[1]);
    *seen = child > 0 ? json_loadfd(ends[0], JSON_DECODE_ANY, NULL) : NULL;
    close(ends[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    return *seen || message_set(error, "the process that looks at the emulator ended early");
}

static bool print_devices(json_t *list)
{
    bool real = false;
    for (size_t k = 0; k < json_array_size(list); k++) {
        json_t *device = json_array_get(list, k);
        if (!print_device(device))
            return false;
        real = real || json_is_false(json_object_get(device, "emulator"));
    }
    if (real)
        print_compute_cache();
    return true;
}

/// Adds the driver's devices to the list and prints it with the emulator's.
static int show(const struct command *command, bool json, json_t *list, json_t *emulator)
{
    struct message error;
    int status = add_devices(list, &error);
    const bool instead = status == EXIT_NOTHING && json_array_size(emulator) > 0;
    if (status != EXIT_DONE && !instead) {
        if (status == EXIT_NOTHING)
            emulator_advise(&error, false);
        if (status == EXIT_NOTHING && json_is_string(emulator)) {
            message_add(&error, "; the emulator: %s", json_string_value(emulator));
            status = EXIT_FAILED; // it exists
        }
        return cli_fail(command, status, "%s", error.text);
    }
    json_array_extend(list, emulator);
    if (!json_whole())
        return cli_fail(command, EXIT_FAILED, "out of memory");
    if (json && !json_print(stdout, json_incref(list), JSON_INDENT(2), &error))
        return cli_fail(command, EXIT_FAILED, "%s", error.text);
    if (!json && !print_devices(list))
        return cli_fail(command, EXIT_FAILED, "out of memory");
    if (!json && instead)
        printf("no GPU: %s\n", error.text);
    if (json_is_string(emulator)) // it exists but does not work
        return cli_fail(command, EXIT_FAILED, "the emulator: %s", json_string_value(emulator));
    return EXIT_DONE;
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
    json_t *list = json_array(), *emulator = NULL;
    status = emulator_devices(&emulator, &error) ? show(command, json, list, emulator)
                                                 : cli_fail(command, EXIT_FAILED, "%s", error.text);
    json_decref(list);
    json_decref(emulator);
    return status;
}

const struct command command_devices = {
    .name = "devices",
    .synopsis = "[--json]",
    .summary = "show the GPUs, their driver and the emulator",
    .run = run,
    .details = "PTXGEN_LIBCUDA names the driver's library, if it is not libcuda.so.1; then no "
               "other is tried.\nPTXGEN_EMULATOR names the emulator, if it is not the one that "
               "came with this program.\nThe compute cache is where the driver keeps what it "
               "compiled: CUDA_CACHE_PATH, CUDA_CACHE_DISABLE.",
};
