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

/// Seen from the program: in the build, and installed.
static const char *const places[] = { "../emulator/libcuda.so.1", EMULATOR_INSTALLED };

static const char *value_of(const char *variable)
{
    const char *value = getenv(variable);
    return value && value[0] ? value : NULL;
}

/// Where the emulator is, without symbolic links. Released with free().
static char *find(void)
{
    const char *named = value_of(emulator_variable);
    if (named)
        return realpath(named, NULL);
    char *program = realpath(own_program, NULL);
    char *slash = program ? strrchr(program, '/') : NULL;
    char *found = NULL;
    if (slash)
        slash[1] = '\0';
    for (size_t k = 0; program && !found && k < sizeof(places) / sizeof(places[0]); k++) {
        char path[PATH_MAX];
        int length =
            snprintf(path, sizeof(path), "%s%s", places[k][0] == '/' ? "" : program, places[k]);
        if (length > 0 && (size_t)length < sizeof(path))
            found = realpath(path, NULL);
    }
    free(program);
    return found;
}

static bool same_file(const char *path, const char *resolved)
{
    char *other = realpath(path, NULL);
    bool same = other && strcmp(other, resolved) == 0;
    free(other);
    return same;
}

static void add_missing(struct message *error)
{
    const char *named = value_of(emulator_variable);
    if (named)
        message_add(error, "%s: no such file; %s names it", named, emulator_variable);
    else
        message_add(error, "no emulator beside this program: name its libcuda.so.1 in %s",
                    emulator_variable);
}

bool emulator_is_ruled_out(void)
{
    return value_of(driver_variable) != NULL;
}

int emulator_choose(struct message *error)
{
    const char *driver = value_of(driver_variable);
    char *found = find();
    int status = EXIT_DONE;
    if (!found) {
        status = EXIT_NOTHING;
        error->text[0] = '\0';
        add_missing(error);
    } else if (driver && !same_file(driver, found)) {
        status = EXIT_USAGE;
        message_set(error, "%s=%s is not the emulator: unset it", driver_variable, driver);
    } else if (setenv(driver_variable, found, 1) != 0) {
        status = EXIT_FAILED;
        message_set(error, "out of memory");
    }
    free(found);
    return status;
}

bool emulator_is(const char *library_path)
{
    char *found = find();
    bool is = found && same_file(library_path, found);
    free(found);
    return is;
}

void emulator_advise(struct message *error, bool gpu_chosen)
{
    if (emulator_is_ruled_out())
        return;
    char *found = find();
    if (found && gpu_chosen)
        message_add(error, "; --device emulator needs no GPU");
    if (!found) {
        message_add(error, "; ");
        add_missing(error);
    }
    free(found);
}

void emulator_take_over(int argc, char **argv)
{
    struct message error;
    if (emulator_is_ruled_out() || emulator_choose(&error) != EXIT_DONE)
        return;
    // The driver that found no GPU stays in this process and would serve again.
    char **again = calloc((size_t)argc + 2, sizeof(*again));
    if (again) {
        char program[] = "ptxgen";
        again[0] = program;
        memcpy(again + 1, argv, (size_t)argc * sizeof(*argv));
        fflush(NULL);
        execv(own_program, again);
    }
    free(again);
    unsetenv(driver_variable);
}
