// SPDX-License-Identifier: MIT
// Directives that compute nothing: .loc and .file, which reports use, .section and .pragma.
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

// File, line and column.
static bool parse_place(struct emu_parser *p, uint32_t place[3])
{
    for (unsigned k = 0; k < 3; k++) {
        if (p->token.kind != EMU_TOKEN_INTEGER)
            return emu_syntax_error(p);
        place[k] = p->token.bits < UINT32_MAX ? (uint32_t)p->token.bits : 0;
        emu_next(p);
    }
    return true;
}

static struct emu_location *add_location(struct emu_parser *p, uint32_t ptx_line)
{
    struct emu_location *added = emu_push(p, &p->module->locations, &p->module->location_count,
                                          &p->location_capacity, sizeof *added);

    if (added)
        *added = (struct emu_location) { .ptx_line = ptx_line, .text = p->unit };
    return added;
}

bool emu_leave_location(struct emu_parser *p)
{
    return !p->module->location_count || add_location(p, p->token.line) != NULL;
}

static bool parse_loc(struct emu_parser *p, uint32_t ptx_line)
{
    uint32_t place[3], at[3] = { 0 };

    if (!parse_place(p, place))
        return false;
    // , function_name $L__info_string0+16, inlined_at 1 2 3
    while (emu_token_is(&p->token, ',')) {
        emu_next(p);
        if (emu_token_is_name(&p->token, "inlined_at")) {
            emu_next(p);
            if (!parse_place(p, at))
                return false;
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
    struct emu_location *added = add_location(p, ptx_line);
    if (!added)
        return false;
    added->file = place[0];
    added->line = place[1];
    added->column = place[2];
    added->at_file = at[0];
    added->at_line = at[1];
    added->at_column = at[2];
    return true;
}

static bool parse_file(struct emu_parser *p)
{
    struct emu_token number = p->token;

    if (p->token.kind != EMU_TOKEN_INTEGER)
        return emu_syntax_error(p);
    emu_next(p);
    const struct emu_token name = p->token;
    if (p->token.kind != EMU_TOKEN_STRING)
        return emu_syntax_error(p);
    emu_next(p);
    while (emu_take(p, ',')) {
        struct emu_constant ignored;
        if (!emu_parse_constant(p, &ignored))
            return false;
    }
    struct emu_file *added =
        emu_push(p, &p->module->files, &p->module->file_count, &p->file_capacity, sizeof *added);
    if (!added)
        return false;
    *added = (struct emu_file) {
        .text = p->unit,
        .number = number.bits < UINT32_MAX ? (uint32_t)number.bits : 0,
        .name = name.length < 2 ? "" : emu_arena_copy(p->arena, name.at + 1, name.length - 2)
    };
    return added->name || emu_out_of_memory(p);
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
    const uint32_t line = p->token.line;

    *found = true;
    if (emu_take_dot(p, "loc"))
        return parse_loc(p, line);
    if (emu_take_dot(p, "pragma"))
        return parse_pragma(p);
    if (emu_take_dot(p, "file"))
        return parse_file(p);
    if (emu_take_dot(p, "section"))
        return skip_section(p);
    *found = false;
    return true;
}
