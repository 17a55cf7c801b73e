// SPDX-License-Identifier: MIT
// Errors, in ptxas's manner.
#include "parse.h"

#include <stdarg.h>
#include <stdio.h>

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

// Text of the module may hold any byte; a log holds printable ones.
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
                     "Memory is out: the text asks for more than its size warrants");
}
