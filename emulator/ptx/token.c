// SPDX-License-Identifier: MIT
// Steps through the tokens.
#include "parse.h"

#include <string.h>

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

// The '}' of a vector has an operand or the end of the statement behind it.
static bool ends_vector(const struct emu_parser *p)
{
    const struct emu_token next = emu_peek(p);
    return emu_token_is(&next, ',') || emu_token_is(&next, ';') || emu_token_is(&next, '|');
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
