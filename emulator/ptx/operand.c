// SPDX-License-Identifier: MIT
// Operands as they are written, before an instruction gives them types.
#include "operand.h"

#include "isa.h"
#include "names.h"

#include <string.h>

static bool starts_constant(const struct emu_parser *p)
{
    const struct emu_token *token = &p->token;

    return token->kind == EMU_TOKEN_INTEGER || token->kind == EMU_TOKEN_DECIMAL ||
           token->kind == EMU_TOKEN_FLOAT32 || token->kind == EMU_TOKEN_FLOAT64 ||
           emu_token_is(token, '-') || emu_token_is(token, '+') || emu_token_is(token, '~') ||
           emu_token_is(token, '(') || emu_token_is_name(token, "WARP_SZ");
}

// '+' and a constant integer.
static bool parse_offset(struct emu_parser *p, int64_t *offset)
{
    struct emu_constant constant;
    const struct emu_token at = p->token;

    emu_next(p);
    if (!emu_parse_constant(p, &constant))
        return false;
    if (constant.kind != EMU_TOKEN_INTEGER)
        return emu_error(p, &at, "The offset of an address is an integer");
    *offset = (int64_t)constant.bits;
    return true;
}

static bool parse_special(struct emu_parser *p, struct emu_written *w,
                          const struct emu_special_row *row)
{
    const struct emu_token at = w->at;
    const char *found = NULL;

    if (p->module->isa < row->isa)
        return emu_error(p, &at, "Feature '%s' requires PTX ISA .version %d.%d or later", row->name,
                         row->isa / 10, row->isa % 10);
    if (p->module->sm < row->sm)
        return emu_error(p, &at, "Feature '%s' requires .target sm_%d or higher", row->name,
                         row->sm);
    w->syntax = EMU_SYNTAX_SPECIAL;
    w->special = row->special;
    w->special_bits = row->bits;
    if (row->special == EMU_ENVREG)
        w->axis = (uint8_t)emu_envreg_number(at.at, at.length);
    if (p->token.kind == EMU_TOKEN_DOT && p->token.length == 1)
        found = strchr("xyzw", *p->token.at);
    if (!row->has_axis && p->token.kind == EMU_TOKEN_DOT)
        return emu_error(p, &p->token, "Unknown field '.%.*s'", EMU_TEXT(&p->token));
    if (!row->has_axis)
        return true;
    w->is_whole = !found;
    if (!found)
        return true;
    w->axis = (uint8_t)(strchr("xyzw", *p->token.at) - "xyzw");
    emu_next(p);
    return true;
}

// r.b2 or r.h10: parts of a register, as video instructions take them.
static bool parse_select(struct emu_parser *p, struct emu_written *w)
{
    const struct emu_token *field = &p->token;
    const bool halves = *field->at == 'h';
    uint32_t parts = 0;

    if (field->length < 2 || field->length > (halves ? 3 : 5))
        return emu_error(p, field, "Unknown video selector: '.%.*s'", EMU_TEXT(field));
    for (uint32_t k = 1; k < field->length; k++) {
        const unsigned part = (unsigned)(field->at[k] - '0');
        if (part > (halves ? 3 : 7))
            return emu_error(p, field, "Unknown video selector: '.%.*s'", EMU_TEXT(field));
        parts = parts << 4 | part;
    }
    w->select = parts | (field->length - 1) << 16 | (halves ? EMU_SELECT_HALVES : 0);
    emu_next(p);
    return true;
}

// v.x, or v.r: an element of a vector register.
static bool parse_field(struct emu_parser *p, struct emu_written *w)
{
    const struct emu_token *field = &p->token;
    const char *found = NULL;

    if (w->name && w->name->kind == EMU_NAME_REGISTER && (*field->at == 'b' || *field->at == 'h'))
        return parse_select(p, w);
    if (field->length == 1 && w->name && w->name->kind == EMU_NAME_VECTOR &&
        w->name->type != EMU_B128)
        found = strchr("xyzwrgba", *field->at);
    const unsigned element = found ? (unsigned)(found - "xyzwrgba") % 4 : 0;
    if (!found || element >= w->name->lanes)
        return emu_error(p, field, "Unknown field '.%.*s'", EMU_TEXT(field));
    w->name = &w->name->elements[element];
    emu_next(p);
    return !emu_token_is(&p->token, '|') || emu_syntax_error(p); // as ptxas has it
}

// A name with an optional axis, offset or index.
static bool parse_named(struct emu_parser *p, struct emu_written *w)
{
    w->at = p->token;
    emu_next(p);
    if (w->at.length == 1 && *w->at.at == '_') {
        w->syntax = EMU_SYNTAX_SINK;
        return true;
    }
    w->syntax = EMU_SYNTAX_NAME;
    w->name = emu_find(p, &w->at);
    const struct emu_special_row *row = w->name ? NULL : emu_special_find(w->at.at, w->at.length);
    if (row)
        return parse_special(p, w, row);
    if (p->token.kind == EMU_TOKEN_DOT)
        return parse_field(p, w);
    const bool reg = w->name && w->name->kind == EMU_NAME_REGISTER;
    if (reg && emu_token_is(&p->token, '+')) {
        w->offset_given = true;
        return parse_offset(p, &w->offset);
    }
    const bool symbol = w->name && w->name->kind == EMU_NAME_SYMBOL;
    const bool param = w->name && w->name->kind == EMU_NAME_PARAM;
    if ((symbol || param) && emu_token_is(&p->token, '+')) {
        w->offset_given = true;
        return parse_offset(p, &w->offset);
    }
    const uint32_t element = symbol  ? emu_bits(p->module->symbols[w->name->index].type) / 8
                             : param ? p->body->params[w->name->index].element
                                     : 0;
    if ((symbol || element) && emu_take(p, '[')) {
        uint64_t index;
        if (!emu_parse_count(p, 0, UINT32_MAX, &index))
            return false;
        w->offset = (int64_t)(index * element);
        w->offset_given = true;
        return emu_expect(p, ']');
    }
    return true;
}

static bool parse_address(struct emu_parser *p, struct emu_written *w)
{
    w->syntax = EMU_SYNTAX_ADDRESS;
    w->at = p->token;
    emu_next(p);
    if (starts_constant(p)) {
        if (!emu_parse_constant(p, &w->constant))
            return false;
        if (w->constant.kind != EMU_TOKEN_INTEGER)
            return emu_error(p, &w->at, "An address is an integer");
        w->offset = (int64_t)w->constant.bits;
        return emu_expect(p, ']');
    }
    if (!emu_parse_name(p, &w->at))
        return false;
    w->name = emu_find(p, &w->at);
    if (!w->name || (w->name->kind != EMU_NAME_REGISTER && w->name->kind != EMU_NAME_SYMBOL &&
                     w->name->kind != EMU_NAME_PARAM))
        return emu_error(p, &w->at, "Unknown symbol '%.*s'", EMU_TEXT(&w->at));
    if (emu_token_is(&p->token, '+') && !parse_offset(p, &w->offset))
        return false;
    return emu_expect(p, ']');
}

static bool parse_element(struct emu_parser *p, struct emu_written *w)
{
    if (starts_constant(p)) {
        w->syntax = EMU_SYNTAX_CONSTANT;
        w->at = p->token;
        return emu_parse_constant(p, &w->constant);
    }
    return p->token.kind == EMU_TOKEN_NAME ? parse_named(p, w) : emu_syntax_error(p);
}

// The next element of a vector, or NULL.
static struct emu_written *add_element(struct emu_parser *p, struct emu_written_list *list,
                                       struct emu_written *w)
{
    if (w->lanes == EMU_MOST_LANES ||
        list->element_count == sizeof list->elements / sizeof *list->elements) {
        emu_error(p, &w->at, "A vector has at most %d elements", EMU_MOST_LANES);
        return NULL;
    }
    struct emu_written *element = &list->elements[list->element_count++];
    memset(element, 0, sizeof *element);
    w->lanes++;
    return element;
}

static bool is_vector(const struct emu_written *w)
{
    return w->syntax == EMU_SYNTAX_NAME && w->name && w->name->kind == EMU_NAME_VECTOR;
}

// A vector register, or a special one without an axis, is {v.x, v.y ...}.
static bool spread(struct emu_parser *p, struct emu_written_list *list, struct emu_written *w)
{
    const struct emu_written whole = *w;
    const unsigned lanes = whole.syntax == EMU_SYNTAX_SPECIAL ? 4 : whole.name->lanes;

    if (w->negated)
        return emu_error(p, &w->at, "A vector cannot be negated");
    w->syntax = EMU_SYNTAX_VECTOR;
    w->wide = whole.syntax == EMU_SYNTAX_NAME && whole.name->type == EMU_B128;
    w->first = (uint8_t)list->element_count;
    for (unsigned k = 0; k < lanes; k++) {
        struct emu_written *element = add_element(p, list, w);
        if (!element)
            return false;
        *element = whole;
        element->is_whole = false;
        element->axis = (uint8_t)k;
        if (whole.syntax == EMU_SYNTAX_NAME)
            element->name = &whole.name->elements[k];
    }
    return true;
}

static bool parse_vector(struct emu_parser *p, struct emu_written_list *list, struct emu_written *w)
{
    w->syntax = EMU_SYNTAX_VECTOR;
    w->at = p->token;
    w->first = (uint8_t)list->element_count;
    emu_next(p);
    do {
        struct emu_written *element = add_element(p, list, w);
        if (!element || !parse_element(p, element))
            return false;
        if (is_vector(element) || element->is_whole)
            return emu_error(p, &element->at, "An element of a vector is no vector");
    } while (emu_take(p, ','));
    return emu_expect(p, '}');
}

static bool parse_operand(struct emu_parser *p, struct emu_written_list *list,
                          struct emu_written *w)
{
    if (emu_token_is(&p->token, '['))
        return parse_address(p, w);
    if (emu_token_is(&p->token, '{'))
        return parse_vector(p, list, w);
    if (emu_token_is(&p->token, '!')) {
        const struct emu_token next = emu_peek(p);
        if (next.kind == EMU_TOKEN_NAME && !emu_token_is_name(&next, "WARP_SZ")) {
            emu_next(p);
            w->negated = true;
            return parse_named(p, w);
        }
        w->syntax = EMU_SYNTAX_CONSTANT;
        w->at = p->token;
        return emu_parse_constant(p, &w->constant);
    }
    if (emu_token_is(&p->token, '-')) {
        const struct emu_token next = emu_peek(p);
        const struct emu_name *name = next.kind == EMU_TOKEN_NAME ? emu_find(p, &next) : NULL;
        if (name && (name->kind == EMU_NAME_REGISTER || name->kind == EMU_NAME_VECTOR)) {
            emu_next(p);
            w->minus = true;
            return parse_named(p, w);
        }
    }
    return parse_element(p, w);
}

bool emu_parse_operands(struct emu_parser *p, struct emu_written_list *list)
{
    list->count = list->element_count = 0;
    if (emu_token_is(&p->token, ';'))
        return true;
    for (;;) {
        if (list->count == EMU_MOST_OPERANDS)
            return emu_error(p, &p->token, "There are too many operands");
        struct emu_written *w = &list->at[list->count++];
        memset(w, 0, sizeof *w);
        if (!parse_operand(p, list, w) || ((is_vector(w) || w->is_whole) && !spread(p, list, w)))
            return false;
        if (emu_take(p, '|'))
            w->pair = true;
        else if (!emu_take(p, ','))
            return true;
    }
}
