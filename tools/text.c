// SPDX-License-Identifier: MIT
#include "text.h"

#include "place.h"
#include "ptxas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EMULATED_SM = 90 }; // the device that the emulator is by default

bool is_text_name(const char *name)
{
    return strcmp(name, "-") == 0 || strpbrk(name, "./");
}

bool present_target(const char *text)
{
    char name[PTX_TARGET_NAME_SIZE], device[16];
    struct ptx_target target;
    if (!ptx_directive(text, ".target", name, sizeof(name)) || !ptx_target_parse(name, &target) ||
        target.sm <= EMULATED_SM || getenv("PTXGEN_EMU_DEVICE"))
        return false;
    snprintf(device, sizeof(device), "sm_%d", target.sm);
    return setenv("PTXGEN_EMU_DEVICE", device, 0) == 0;
}

bool lacks_target(struct message *error)
{
    static const char variable[] = "PTXGEN_EMU_DEVICE='", list[] = "NN one of ";
    const char *device = strstr(error->text, variable), *known = strstr(error->text, list);
    if (!device || !known)
        return false;
    const struct message reason = *error;
    device = reason.text + (device - error->text) + sizeof(variable) - 1;
    known = reason.text + (known - error->text) + sizeof(list) - 1;
    message_set(error, "the emulator has no %.*s: its targets are", (int)strcspn(device, "'"),
                device);
    for (const char *separator = ""; *known >= '0' && *known <= '9'; separator = ",") {
        const size_t length = strspn(known, "0123456789");
        message_add(error, "%s sm_%.*s", separator, (int)length, known);
        known += length;
        known += *known == ' ';
    }
    return true;
}

static const char prefix[] = "ptxas application ptx input, line ";

/// One line of a log: "ptxas application ptx input, line 11; error   : TEXT (column 8)".
static void place_line(struct message *placed, const char *line, size_t length, const char *path)
{
    unsigned number = 0, column = 0;
    int used = 0;
    const bool found = strncmp(line, prefix, sizeof(prefix) - 1) == 0 &&
                       sscanf(line + sizeof(prefix) - 1, "%u; error : %n", &number, &used) == 1 &&
                       used > 0;
    const char *text = found ? line + sizeof(prefix) - 1 + used : line;
    const char *stop = line + length, *last = NULL;
    for (const char *at = text; found && at < stop; at++)
        if (strncmp(at, " (column ", 9) == 0)
            last = at;
    if (last && sscanf(last, " (column %u)", &column) == 1)
        message_add(placed, "%s:%u:%u: error: %.*s\n", path, number, column, (int)(last - text),
                    text);
    else if (found)
        message_add(placed, "%s:%u: error: %.*s\n", path, number, (int)(stop - text), text);
    else
        message_add(placed, "%.*s\n", (int)length, line);
}

void place_errors(struct message *log, const char *path)
{
    struct message placed = { 0 };
    for (const char *line = log->text; *line;) {
        const size_t length = strcspn(line, "\n");
        place_line(&placed, line, length, path);
        line += length + (line[length] == '\n');
    }
    const size_t length = strlen(placed.text);
    if (length > 0 && placed.text[length - 1] == '\n')
        placed.text[length - 1] = '\0';
    *log = placed;
}

/// Whether each error of the log is something that the emulator lacks, by its name.
static bool only_lacks(const char *log)
{
    unsigned errors = 0, lacks = 0;
    for (const char *at = log; (at = strstr(at, "; error ")); at++) {
        const char *end = strchr(at, '\n');
        const char *lack = strstr(at, " is not supported by the emulator");
        errors++;
        lacks += lack && (!end || lack < end);
    }
    return errors > 0 && errors == lacks;
}

enum parsed parse_text(const char *text, const char *path, struct message *log)
{
    const struct place place = { .chosen = true, .emulator = true };
    struct opened opened;
    const bool presented = present_target(text);
    setenv("PTXGEN_EMU_LOG", "/dev/null", 0); // the command says it
    const int status = place_open(&place, &opened, log);
    if (status == EXIT_FAILED && presented && lacks_target(log))
        return PARSED_UNSUPPORTED;
    if (status != EXIT_DONE)
        return status == EXIT_FAILED ? PARSED_FAILED : PARSED_NOT;
    enum parsed parsed = PARSED_ACCEPTED;
    ptx_module *module = ptx_module_load(opened.device, text, NULL);
    if (!module) {
        const bool refused = ptx_error_status() == PTX_ERROR_JIT;
        gpu_error(log);
        const bool lacks = refused && only_lacks(log->text);
        parsed = lacks ? PARSED_UNSUPPORTED : refused ? PARSED_REFUSED : PARSED_FAILED;
        // The first line names the driver's function.
        const char *rest = refused ? strchr(log->text, '\n') : NULL;
        if (rest)
            memmove(log->text, rest + 1, strlen(rest));
        place_errors(log, path);
    }
    ptx_module_unload(&module);
    ptx_device_close(&opened.device);
    return parsed;
}
