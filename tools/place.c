// SPDX-License-Identifier: MIT
#include "place.h"

#include "emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool place_read(struct place *place, const char *text)
{
    char *end;
    *place = (struct place) { .chosen = text != NULL };
    if (!text)
        return true;
    if (strcmp(text, "emulator") == 0) {
        place->emulator = true;
        return true;
    }
    unsigned long number = strtoul(text, &end, 10);
    place->ordinal = (int)number;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && number <= 9999;
}

/// The library's message without the names of C functions: the user of the command knows options.
static void in_words_of_the_command(struct message *words, const char *text)
{
    const char *colon = strncmp(text, "ptx_", 4) == 0 ? strstr(text, ": ") : NULL;
    const char *separator = "";
    words->text[0] = '\0';
    for (const char *end, *part = colon ? colon + 2 : text; *part; part = end) {
        const char *semicolon = strstr(part, "; ");
        size_t length = strcspn(part, "\n");
        if (semicolon && (size_t)(semicolon - part) < length)
            length = (size_t)(semicolon - part);
        end = part + length;
        const char *function = strstr(part, "ptx_");
        if (length > 0 && (!function || function >= end)) {
            message_add(words, "%s%.*s", separator, (int)length, part);
            separator = "; ";
        }
        if (*end == '\n')
            separator = words->text[0] ? "\n" : "";
        end += *end == '\n' ? 1 : *end == ';' ? 2 : 0;
    }
}

int gpu_error(struct message *error)
{
    ptx_status status = ptx_error_status();
    struct message words;
    in_words_of_the_command(&words, ptx_error_message());
    const char *text = words.text;
    // A library that exists but cannot be loaded is a failure: memory may have run out.
    if (status != PTX_ERROR_NO_DEVICE && (status != PTX_ERROR_NO_DRIVER || driver_is_there())) {
        message_set(error, "%s", text);
        return EXIT_FAILED;
    }
    // In one line. The last line of the library says what to do with the variable.
    const char *last = strrchr(text, '\n');
    const bool leads = last && strncmp(last, "\nPTXGEN_LIBCUDA ", 16) == 0;
    const char *stop = leads ? last : text + strlen(text);
    error->text[0] = '\0';
    for (const char *end; (end = strchr(text, '\n')) && end < stop; text = end + 1)
        message_add(error, "%.*s%s", (int)(end - text), text,
                    end > text && end[-1] == ':' ? " " : "; ");
    message_add(error, "%.*s", (int)(stop - text), text);
    if (leads)
        message_lead(error, "%s", last + 1);
    return EXIT_NOTHING;
}

/// There is no GPU: suggests the emulator.
static int no_gpu(const struct place *place, struct message *error)
{
    int status = gpu_error(error);
    if (status == EXIT_NOTHING && !place->emulator)
        emulator_advise(error, place->chosen);
    return status;
}

int place_open(const struct place *place, struct opened *opened, struct message *error)
{
    int devices;
    *opened = (struct opened) { 0 };
    int status = place->emulator ? emulator_choose(error) : EXIT_DONE;
    if (status != EXIT_DONE)
        return status;
    if (ptx_device_count(&devices) != PTX_OK)
        return no_gpu(place, error);
    if (place->ordinal >= devices) {
        message_set(error, "--device %d: the driver sees %d GPU%s, numbered from 0", place->ordinal,
                    devices, devices == 1 ? "" : "s");
        return EXIT_USAGE;
    }
    struct ptx_device_params params = { .ordinal = place->ordinal, .primary = true };
    opened->device = ptx_device_open(&params);
    if (!opened->device)
        return gpu_error(error);
    const struct ptx_device_info *info = ptx_device_get_info(opened->device);
    opened->emulated = emulator_is(info);
    if (opened->emulated)
        snprintf(opened->name, sizeof(opened->name), "the emulator (sm_%d)", info->sm);
    else
        snprintf(opened->name, sizeof(opened->name), "%s", info->name);
    return EXIT_DONE;
}
