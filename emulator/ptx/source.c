// SPDX-License-Identifier: MIT
// The source lines that a text names by .file and .loc.
#include "program.h"

#include <stdio.h>
#include <string.h>

enum { MOST_CALLS = 8, MOST_NAME = 80 }; // that a report names; characters of a file's name

// The last location at the line or before it, or NULL.
static const struct emu_location *location_of(const struct emu_module *module, uint32_t ptx_line)
{
    uint32_t low = 0, high = module->location_count;

    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (module->locations[middle].ptx_line <= ptx_line)
            low = middle + 1;
        else
            high = middle;
    }
    return low && module->locations[low - 1].file ? &module->locations[low - 1] : NULL;
}

// A call that was itself inlined has a location of its own, before those in the function called.
static const struct emu_location *call_of(const struct emu_module *module,
                                          const struct emu_location *location)
{
    for (const struct emu_location *l = location; l-- > module->locations && l->file;)
        if (l->file == location->at_file && l->line == location->at_line &&
            l->column == location->at_column && l->text == location->text)
            return l;
    return NULL;
}

static void add_place(const struct emu_module *module, const char *before, uint32_t text,
                      uint32_t file, uint32_t line, char *to, size_t size)
{
    const size_t used = strlen(to);
    const char *name = NULL;

    for (uint32_t k = 0; k < module->file_count && !name; k++)
        if (module->files[k].text == text && module->files[k].number == file)
            name = module->files[k].name;
    if (!name) {
        snprintf(to + used, size - used, "%sfile %u:%u", before, (unsigned)file, (unsigned)line);
        return;
    }
    const size_t length = strlen(name);
    snprintf(to + used, size - used, "%s%s%s:%u", before, length > MOST_NAME ? "..." : "",
             name + (length > MOST_NAME ? length - MOST_NAME : 0), (unsigned)line);
}

void emu_module_source(const struct emu_module *module, uint32_t ptx_line, char *text, size_t size)
{
    const struct emu_location *location = location_of(module, ptx_line);

    text[0] = '\0';
    if (!location)
        return;
    add_place(module, "", location->text, location->file, location->line, text, size);
    unsigned calls = 0;
    for (; location && location->at_file; location = call_of(module, location))
        if (calls++ < MOST_CALLS)
            add_place(module, ", inlined at ", location->text, location->at_file, location->at_line,
                      text, size);
    if (calls > MOST_CALLS)
        snprintf(text + strlen(text), size - strlen(text), ", and %u more", calls - MOST_CALLS);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
            *c = '?';
}
