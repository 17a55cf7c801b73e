// SPDX-License-Identifier: MIT
// The base of the parser: a text from its first token to a module, its errors, its tokens and its
// memory.
#include "parse.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Memory limit for a text, so that a hostile one cannot take all of the host's memory.
static const size_t BASE_BYTES = (size_t)64 << 20;
enum { BYTES_PER_CHARACTER = 256 };

unsigned emu_bits(enum emu_type type)
{
    static const uint8_t bits[] = {
        [EMU_NONE] = 0,    [EMU_PRED] = 1,    [EMU_U8] = 8,    [EMU_U16] = 16,   [EMU_U32] = 32,
        [EMU_U64] = 64,    [EMU_S8] = 8,      [EMU_S16] = 16,  [EMU_S32] = 32,   [EMU_S64] = 64,
        [EMU_B8] = 8,      [EMU_B16] = 16,    [EMU_B32] = 32,  [EMU_B64] = 64,   [EMU_F16] = 16,
        [EMU_BF16] = 16,   [EMU_F32] = 32,    [EMU_F64] = 64,  [EMU_F16X2] = 32, [EMU_BF16X2] = 32,
        [EMU_E4M3X2] = 16, [EMU_E5M2X2] = 16, [EMU_TF32] = 32, [EMU_F32X2] = 64, [EMU_U16X2] = 32,
        [EMU_S16X2] = 32,
    };
    return (unsigned)type < sizeof bits ? bits[type] : 0;
}

enum emu_type emu_twice(enum emu_type type)
{
    switch (type) {
    case EMU_U16:
        return EMU_U32;
    case EMU_S16:
        return EMU_S32;
    case EMU_U32:
        return EMU_U64;
    case EMU_S32:
        return EMU_S64;
    default:
        return EMU_NONE;
    }
}

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

// ---- errors, in ptxas's manner ------------------------------------------------------------------

enum { MOST_ERRORS = 20 };

static void put_log(struct emu_parser *p, const char *text)
{
    while (*text && p->log_used + 1 < p->log_size)
        p->log[p->log_used++] = *text++;
    if (p->log_size)
        p->log[p->log_used] = '\0';
}

static void stop(struct emu_parser *p)
{
    p->lexer.at = p->lexer.end;
    p->token = emu_lexer_next(&p->lexer);
}

// The text of a module may have any byte; a log has printable ones only.
static void clean(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text >= 0x7f)
            *text = '?';
}

static void report(struct emu_parser *p, const struct emu_token *at, const char *format,
                   va_list args)
{
    char message[400], line[512];

    vsnprintf(message, sizeof message, format, args);
    clean(message);
    snprintf(line, sizeof line, "ptxas application ptx input, line %u; error   : %s (column %u)\n",
             at->line, message, at->column);
    put_log(p, line);
    p->errors++;
}

bool emu_error(struct emu_parser *p, const struct emu_token *at, const char *format, ...)
{
    va_list args;

    if (p->result && p->result != EMU_INVALID_PTX)
        return false;
    if (p->errors >= MOST_ERRORS)
        return false;
    va_start(args, format);
    report(p, at, format, args);
    va_end(args);
    p->result = EMU_INVALID_PTX;
    if (p->errors >= MOST_ERRORS)
        stop(p);
    return false;
}

bool emu_fatal(struct emu_parser *p, const struct emu_token *at, int result, const char *format,
               ...)
{
    va_list args;

    if (p->result && p->result != EMU_INVALID_PTX)
        return false;
    va_start(args, format);
    report(p, at, format, args);
    va_end(args);
    p->result = result;
    stop(p);
    return false;
}

bool emu_out_of_memory(struct emu_parser *p)
{
    const struct emu_token at = p->token;

    return emu_fatal(p, &at, EMU_OUT_OF_HOST_MEMORY,
                     "Out of memory: the text needs more than its size justifies");
}

// ---- tokens -------------------------------------------------------------------------------------

void emu_next(struct emu_parser *p)
{
    p->token = emu_lexer_next(&p->lexer);
    while (p->token.kind == EMU_TOKEN_ERROR) {
        const struct emu_token bad = p->token;
        emu_error(p, &bad, "Parsing error near '%.*s': %s", EMU_TEXT(&bad), bad.error);
        p->token = emu_lexer_next(&p->lexer);
    }
}

bool emu_ended(const struct emu_parser *p)
{
    return p->token.kind == EMU_TOKEN_END;
}

bool emu_take(struct emu_parser *p, char punct)
{
    if (!emu_token_is(&p->token, punct))
        return false;
    emu_next(p);
    return true;
}

bool emu_take_dot(struct emu_parser *p, const char *name)
{
    if (!emu_token_is_dot(&p->token, name))
        return false;
    emu_next(p);
    return true;
}

bool emu_syntax_error(struct emu_parser *p)
{
    const struct emu_token at = p->token;

    if (at.kind == EMU_TOKEN_END)
        return emu_error(p, &at, "Parsing error at the end of the text: syntax error");
    return emu_error(p, &at, "Parsing error near '%s%.*s': syntax error",
                     at.kind == EMU_TOKEN_DOT ? "." : "", EMU_TEXT(&at));
}

bool emu_expect(struct emu_parser *p, char punct)
{
    return emu_take(p, punct) || emu_syntax_error(p);
}

bool emu_parse_name(struct emu_parser *p, struct emu_token *name)
{
    if (p->token.kind != EMU_TOKEN_NAME)
        return emu_syntax_error(p);
    *name = p->token;
    emu_next(p);
    return true;
}

struct emu_token emu_peek(const struct emu_parser *p)
{
    struct emu_lexer ahead = p->lexer;
    return emu_lexer_next(&ahead);
}

// An operand or the end of the statement follows the '}' of a vector.
static bool ends_vector(const struct emu_parser *p)
{
    const struct emu_token next = emu_peek(p);
    return emu_token_is(&next, ',') || emu_token_is(&next, ';') || emu_token_is(&next, '|') ||
           emu_token_is(&next, ']');
}

void emu_skip_statement(struct emu_parser *p)
{
    for (; !emu_ended(p); emu_next(p)) {
        if (emu_take(p, ';'))
            return;
        if (emu_token_is(&p->token, '}') && !ends_vector(p))
            return;
    }
}

void emu_skip_definition(struct emu_parser *p)
{
    uint32_t depth = 0;

    for (; !emu_ended(p); emu_next(p)) {
        if (depth == 0 && emu_take(p, ';'))
            return;
        if (emu_token_is(&p->token, '{'))
            depth++;
        if (!emu_token_is(&p->token, '}'))
            continue;
        if (depth <= 1) {
            emu_next(p);
            emu_take(p, ';');
            return;
        }
        depth--;
    }
}

void *emu_push(struct emu_parser *p, void *array, uint32_t *count, uint32_t *capacity,
               size_t element)
{
    void *at;

    memcpy(&at, array, sizeof at);
    if (!emu_arena_grow(p->arena, &at, *count, capacity, element)) {
        emu_out_of_memory(p);
        return NULL;
    }
    memcpy(array, &at, sizeof at);
    return (char *)at + element * (*count)++;
}

// ---- memory of one module, up to a limit --------------------------------------------------------

enum { BLOCK_BYTES = 64 * 1024 };

struct block {
    struct block *next;
    alignas(max_align_t) unsigned char bytes[];
};

struct emu_arena {
    struct block *blocks;
    size_t room; // left in the first block
    size_t left; // bytes left of the limit
    unsigned char *at;
};

struct emu_arena *emu_arena_create(size_t limit)
{
    struct emu_arena *arena = calloc(1, sizeof *arena);

    if (arena)
        arena->left = limit;
    return arena;
}

void emu_arena_destroy(struct emu_arena *arena)
{
    if (!arena)
        return;
    for (struct block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(arena);
}

static struct block *new_block(struct emu_arena *arena, size_t bytes)
{
    struct block *block = calloc(1, sizeof *block + bytes);

    if (!block)
        return NULL;
    block->next = arena->blocks;
    arena->blocks = block;
    return block;
}

void *emu_arena_alloc(struct emu_arena *arena, size_t bytes)
{
    const size_t unit = alignof(max_align_t);

    if (bytes > arena->left)
        return NULL;
    bytes = (bytes + unit - 1) / unit * unit;
    if (bytes > arena->room) {
        const size_t size = bytes > BLOCK_BYTES / 4 ? bytes : BLOCK_BYTES;
        struct block *block = new_block(arena, size);
        if (!block)
            return NULL;
        if (size == bytes && arena->blocks->next) {
            // A large allocation has its own block; small ones continue in the previous block.
            arena->blocks = block->next;
            block->next = arena->blocks->next;
            arena->blocks->next = block;
            arena->left -= bytes < arena->left ? bytes : arena->left;
            return block->bytes;
        }
        arena->at = block->bytes;
        arena->room = size;
    }
    void *result = arena->at;
    arena->at += bytes;
    arena->room -= bytes;
    arena->left -= bytes < arena->left ? bytes : arena->left;
    return result;
}

char *emu_arena_copy(struct emu_arena *arena, const char *text, size_t length)
{
    char *copy = length < SIZE_MAX ? emu_arena_alloc(arena, length + 1) : NULL;

    if (copy && length)
        memcpy(copy, text, length);
    return copy;
}

bool emu_arena_grow(struct emu_arena *arena, void **at, uint32_t count, uint32_t *capacity,
                    size_t element)
{
    if (count < *capacity)
        return true;
    if (count > UINT32_MAX / 4)
        return false;
    const uint32_t wanted = count ? count * 2 : 8;
    void *moved = emu_arena_alloc(arena, (size_t)wanted * element);
    if (!moved)
        return false;
    if (count)
        memcpy(moved, *at, (size_t)count * element);
    *at = moved;
    *capacity = wanted;
    return true;
}
