// SPDX-License-Identifier: MIT
// Texts to a module, from the first token to the link.
#include "link.h"
#include "module.h"
#include "names.h"

#include <stdlib.h>
#include <string.h>

// Memory limit for a text, so that a hostile one cannot take all of the host's memory.
static const size_t BASE_BYTES = (size_t)64 << 20;
enum { BYTES_PER_CHARACTER = 256 };

// A text ends at the first NUL, as for cuModuleLoadData.
static size_t text_length(const struct emu_text *text)
{
    const char *end = text->at ? memchr(text->at, '\0', text->length) : NULL;
    return !text->at ? 0 : end ? (size_t)(end - text->at) : text->length;
}

static uint32_t lines_of(const char *text, size_t length)
{
    uint32_t lines = 0;
    for (size_t k = 0; k < length; k++)
        lines += text[k] == '\n';
    return lines;
}

// Each text has a line end after it, so that lines of the copy belong to one text.
static struct emu_module *parse(struct emu_parser *p, const struct emu_text *texts, unsigned count,
                                size_t total)
{
    uint32_t line = 1;

    p->module = emu_arena_alloc(p->arena, sizeof *p->module);
    char *copy = p->module ? emu_arena_alloc(p->arena, total + 1) : NULL;
    if (!copy) {
        emu_out_of_memory(p);
        return NULL;
    }
    p->module->text = copy;
    p->module->arena = p->arena;
    for (p->unit = 0; p->unit < count && !p->result; p->unit++) {
        const size_t length = text_length(&texts[p->unit]);
        if (length)
            memcpy(copy, texts[p->unit].at, length);
        copy[length] = '\n';
        emu_lexer_init(&p->lexer, copy, length);
        p->lexer.line = line;
        line += lines_of(copy, length + 1);
        copy += length + 1;
        if (!emu_parse_unit(p))
            return NULL;
        emu_forget_static(p);
    }
    return emu_link(p) && !p->errors ? p->module : NULL;
}

struct emu_module *emu_module_link(const struct emu_text *texts, unsigned count,
                                   const struct emu_parse_limits *limits, char *log,
                                   size_t log_size, int *result)
{
    struct emu_parser p;
    int ignored;
    size_t total = 0;
    const size_t room = SIZE_MAX / BYTES_PER_CHARACTER / 2;
    bool fits = true;

    memset(&p, 0, sizeof p);
    p.limits = limits;
    p.log = log;
    p.log_size = log ? log_size : 0;
    if (p.log_size)
        log[0] = '\0';
    if (!result)
        result = &ignored;
    for (unsigned k = 0; k < count && fits; k++) {
        total += text_length(&texts[k]) + 1;
        fits = total < UINT32_MAX / 2 && total < room;
    }
    p.arena = fits ? emu_arena_create(BASE_BYTES + total * BYTES_PER_CHARACTER) : NULL;
    struct emu_module *module = NULL;
    if (p.arena)
        module = parse(&p, texts, count, total);
    else
        p.result = EMU_OUT_OF_HOST_MEMORY;
    if (!module) {
        emu_arena_destroy(p.arena);
        *result = p.result ? p.result : EMU_INVALID_PTX;
        return NULL;
    }
    *result = 0;
    return module;
}

struct emu_module *emu_module_parse(const char *text, size_t length,
                                    const struct emu_parse_limits *limits, char *log,
                                    size_t log_size, int *result)
{
    const struct emu_text only = { text, length };
    return emu_module_link(&only, 1, limits, log, log_size, result);
}

void emu_module_destroy(struct emu_module **module)
{
    if (!module || !*module)
        return;
    emu_arena_destroy((*module)->arena);
    *module = NULL;
}

const struct emu_function *emu_module_entry(const struct emu_module *module, const char *name)
{
    for (uint32_t k = 0; k < module->function_count; k++)
        if (module->functions[k].is_entry && module->functions[k].insn_count &&
            strcmp(module->functions[k].name, name) == 0)
            return &module->functions[k];
    return NULL;
}
