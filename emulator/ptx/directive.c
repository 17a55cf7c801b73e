// SPDX-License-Identifier: MIT
// Directives that compute nothing: .loc, .file, .section, .pragma.
#include "directive.h"

#include "expression.h"

// .section .debug_info { ... }: braces do not nest there.
static bool skip_section(struct emu_parser *p)
{
    while (!emu_ended(p) && !emu_token_is(&p->token, '{'))
        emu_next(p);
    while (!emu_ended(p) && !emu_token_is(&p->token, '}'))
        emu_next(p);
    return emu_expect(p, '}');
}

static bool parse_loc(struct emu_parser *p)
{
    for (unsigned k = 0; k < 3; k++) {
        if (p->token.kind != EMU_TOKEN_INTEGER)
            return emu_syntax_error(p);
        emu_next(p);
    }
    // , function_name $L__info_string0+16, inlined_at 1 2 3
    while (emu_token_is(&p->token, ',')) {
        emu_next(p);
        if (emu_token_is_name(&p->token, "inlined_at")) {
            emu_next(p);
            for (unsigned k = 0; k < 3 && p->token.kind == EMU_TOKEN_INTEGER; k++)
                emu_next(p);
            continue;
        }
        struct emu_token name;
        if (!emu_parse_name(p, &name) || !emu_parse_name(p, &name))
            return false;
        if (emu_take(p, '+')) {
            struct emu_constant offset;
            if (!emu_parse_constant(p, &offset))
                return false;
        }
    }
    return true;
}

static bool parse_file(struct emu_parser *p)
{
    if (p->token.kind != EMU_TOKEN_INTEGER)
        return emu_syntax_error(p);
    emu_next(p);
    if (p->token.kind != EMU_TOKEN_STRING)
        return emu_syntax_error(p);
    emu_next(p);
    while (emu_take(p, ',')) {
        struct emu_constant ignored;
        if (!emu_parse_constant(p, &ignored))
            return false;
    }
    return true;
}

static bool parse_pragma(struct emu_parser *p)
{
    do {
        if (p->token.kind != EMU_TOKEN_STRING)
            return emu_syntax_error(p);
        emu_next(p);
    } while (emu_take(p, ','));
    return emu_expect(p, ';');
}

bool emu_parse_ignored(struct emu_parser *p, bool *found)
{
    *found = true;
    if (emu_take_dot(p, "loc"))
        return parse_loc(p);
    if (emu_take_dot(p, "pragma"))
        return parse_pragma(p);
    if (emu_take_dot(p, "file"))
        return parse_file(p);
    if (emu_take_dot(p, "section"))
        return skip_section(p);
    *found = false;
    return true;
}
