// SPDX-License-Identifier: MIT
// The parser's door.
#include "parse.h"

#include <string.h>

// What a text may take, so that a hostile one cannot have all of the host's memory.
static const size_t BASE_BYTES = (size_t)64 << 20;
enum { BYTES_PER_CHARACTER = 256 };

unsigned emu_bits(enum emu_type type)
{
    static const uint8_t bits[] = {
        [EMU_NONE] = 0,  [EMU_PRED] = 1, [EMU_U8] = 8,   [EMU_U16] = 16,   [EMU_U32] = 32,
        [EMU_U64] = 64,  [EMU_S8] = 8,   [EMU_S16] = 16, [EMU_S32] = 32,   [EMU_S64] = 64,
        [EMU_B8] = 8,    [EMU_B16] = 16, [EMU_B32] = 32, [EMU_B64] = 64,   [EMU_F16] = 16,
        [EMU_BF16] = 16, [EMU_F32] = 32, [EMU_F64] = 64, [EMU_F16X2] = 32, [EMU_BF16X2] = 32,
    };
    return (unsigned)type < sizeof bits ? bits[type] : 0;
}

// The text is that up to the first NUL, as cuModuleLoadData has it.
static size_t text_length(const char *text, size_t length)
{
    const char *end = memchr(text, '\0', length);
    return end ? (size_t)(end - text) : length;
}

static struct emu_module *parse(struct emu_parser *p, const char *text, size_t length)
{
    p->module = emu_arena_alloc(p->arena, sizeof *p->module);
    char *copy = p->module ? emu_arena_copy(p->arena, text, length) : NULL;
    if (!copy) {
        emu_out_of_memory(p);
        return NULL;
    }
    p->module->text = copy;
    p->module->arena = p->arena;
    emu_lexer_init(&p->lexer, copy, length);
    return emu_parse_module(p) && !p->errors ? p->module : NULL;
}

struct emu_module *emu_module_parse(const char *text, size_t length,
                                    const struct emu_parse_limits *limits, char *log,
                                    size_t log_size, int *result)
{
    struct emu_parser p;
    int ignored;

    memset(&p, 0, sizeof p);
    p.limits = limits;
    p.log = log;
    p.log_size = log ? log_size : 0;
    if (p.log_size)
        log[0] = '\0';
    if (!result)
        result = &ignored;
    length = text ? text_length(text, length) : 0;
    const size_t room = SIZE_MAX / BYTES_PER_CHARACTER / 2;
    const bool fits = length < UINT32_MAX / 2 && length < room;
    p.arena = fits ? emu_arena_create(BASE_BYTES + length * BYTES_PER_CHARACTER) : NULL;
    struct emu_module *module = NULL;
    if (p.arena)
        module = parse(&p, text ? text : "", length);
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
