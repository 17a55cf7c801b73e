// SPDX-License-Identifier: MIT
// Errors of the parser, its tokens, its arrays.
#include "parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
