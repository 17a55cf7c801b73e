// SPDX-License-Identifier: MIT
#include "emulator.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char driver_variable[] = "PTXGEN_LIBCUDA";
static const char emulator_variable[] = "PTXGEN_EMULATOR";
static const char own_program[] = "/proc/self/exe";

/// Relative to the program: in the build tree, and installed.
static const char *const places[] = { "../emulator/libcuda.so.1", EMULATOR_INSTALLED };

static const char *value_of(const char *variable)
{
    const char *value = getenv(variable);
    return value && value[0] ? value : NULL;
}

/// Finds the emulator's path, without symbolic links; false: there is none. Does not allocate, so
/// that a lack of memory is not reported as a lack of an emulator.
static bool find(char found[PATH_MAX])
{
    char program[PATH_MAX], path[2 * PATH_MAX];
    const char *named = value_of(emulator_variable);
    if (named)
        return realpath(named, found) != NULL;
    char *slash = realpath(own_program, program) ? strrchr(program, '/') : NULL;
    if (!slash)
        return false;
    slash[1] = '\0';
    for (size_t k = 0; k < sizeof(places) / sizeof(places[0]); k++) {
        snprintf(path, sizeof(path), "%s%s", places[k][0] == '/' ? "" : program, places[k]);
        if (realpath(path, found))
            return true;
    }
    return false;
}

static bool same_file(const char *path, const char *resolved)
{
    char other[PATH_MAX];
    return realpath(path, other) && strcmp(other, resolved) == 0;
}

/// What to do where there is no emulator, in one line.
static void set_missing(struct message *error)
{
    const char *named = value_of(emulator_variable);
    if (named)
        message_set(error, "correct or unset %s, which names %s: no such file", emulator_variable,
                    named);
    else
        message_set(error, "name the emulator's libcuda.so.1 in %s: none is beside this program",
                    emulator_variable);
}

bool emulator_is_ruled_out(void)
{
    return value_of(driver_variable) != NULL;
}

bool driver_is_there(void)
{
    const char *driver = value_of(driver_variable);
    return driver && access(driver, F_OK) == 0;
}

int emulator_choose(struct message *error)
{
    char found[PATH_MAX];
    const char *driver = value_of(driver_variable);
    if (!find(found)) {
        set_missing(error);
        return EXIT_NOTHING;
    }
    if (driver && !same_file(driver, found)) {
        message_set(error, "unset %s: it names %s, which is not the emulator", driver_variable,
                    driver);
        return EXIT_USAGE;
    }
    if (setenv(driver_variable, found, 1) == 0)
        return EXIT_DONE;
    message_set(error, "out of memory");
    return EXIT_FAILED;
}

bool emulator_is(const struct ptx_device_info *device)
{
    char found[PATH_MAX];
    return find(found) && same_file(device->library_path, found);
}

void emulator_advise(struct message *error, bool gpu_chosen)
{
    char found[PATH_MAX];
    struct message missing;
    if (emulator_is_ruled_out())
        return;
    if (!find(found)) {
        set_missing(&missing);
        message_lead(error, "%s", missing.text);
    } else if (gpu_chosen) {
        message_lead(error, "--device emulator needs no GPU");
    }
}

int emulator_take_over(int argc, char **argv, struct message *error)
{
    struct message reason;
    if (emulator_is_ruled_out())
        return EXIT_NOTHING;
    int status = emulator_choose(&reason);
    // The driver that found no GPU stays loaded in this process, so the command is started again.
    char **again = status == EXIT_DONE ? calloc((size_t)argc + 2, sizeof(*again)) : NULL;
    if (again) {
        char program[32];
        snprintf(program, sizeof(program), "%s", cli_program);
        again[0] = program;
        memcpy(again + 1, argv, (size_t)argc * sizeof(*argv));
        fflush(NULL);
        execv(own_program, again);
        unsetenv(driver_variable);
        free(again);
    } else if (status != EXIT_NOTHING) {
        message_set(error, "out of memory");
        return EXIT_FAILED;
    }
    return EXIT_NOTHING;
}
