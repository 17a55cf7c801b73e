// SPDX-License-Identifier: MIT
// Initial values of .global and .const variables.
#include "parse.h"

#include <string.h>

struct init {
    struct emu_parser *p;
    const struct emu_declaration *d;
    uint32_t symbol;
    unsigned char *bytes;
    uint64_t element; // bytes of one
    uint64_t count;   // elements of the variable
};

static void store(const struct init *init, uint64_t index, uint64_t bits)
{
    for (uint64_t k = 0; k < init->element; k++)
        init->bytes[index * init->element + k] = (unsigned char)(bits >> 8 * k);
}

// x, x+4, generic(x), generic(x)+4: the address of a variable.
static bool parse_address(const struct init *init, uint64_t index)
{
    struct emu_parser *p = init->p;
    struct emu_constant addend = { EMU_TOKEN_INTEGER, 0, false };
    struct emu_token at = p->token;

    emu_next(p);
    const bool generic = emu_token_is_name(&at, "generic") && emu_take(p, '(');
    if (generic && (!emu_parse_name(p, &at) || !emu_expect(p, ')')))
        return false;
    if (emu_take(p, '+') && !emu_parse_constant(p, &addend))
        return false;
    const struct emu_name *name = emu_find(p, &at);
    if (!name || name->kind != EMU_NAME_SYMBOL)
        return emu_error(p, &at,
                         name ? "The address of '%.*s' is not supported by the emulator here"
                              : "Unknown symbol '%.*s'",
                         EMU_TEXT(&at));
    const struct emu_symbol *target = &p->module->symbols[name->index];
    if (target->space != EMU_GLOBAL && target->space != EMU_CONST)
        return emu_error(p, &at, "'%.*s' has no address before the launch", EMU_TEXT(&at));
    if (init->element < 4 || emu_is_float((enum emu_type)init->d->type) ||
        addend.kind != EMU_TOKEN_INTEGER)
        return emu_error(p, &at, "An address does not fit into this variable");
    struct emu_relocation *relocation =
        emu_push(p, &p->module->relocations, &p->module->relocation_count, &p->relocation_capacity,
                 sizeof *relocation);
    if (!relocation)
        return false;
    *relocation = (struct emu_relocation) { .symbol = init->symbol,
                                            .target = name->index,
                                            .offset = index * init->element,
                                            .addend = (int64_t)addend.bits,
                                            .bytes = (uint8_t)init->element };
    return true;
}

static bool parse_value(const struct init *init, uint64_t index)
{
    struct emu_parser *p = init->p;
    const struct emu_token at = p->token;
    struct emu_constant constant;
    uint64_t bits;

    if (index >= init->count)
        return emu_error(p, &at, "There are more values than '%.*s' has elements",
                         EMU_TEXT(&init->d->name));
    if (at.kind == EMU_TOKEN_NAME && !emu_token_is_name(&at, "WARP_SZ"))
        return parse_address(init, index);
    if (!emu_parse_constant(p, &constant))
        return false;
    if (emu_token_is(&p->token, '('))
        return emu_error(p, &at, "Parts of addresses are not supported by the emulator");
    if (!emu_constant_in(&constant, (enum emu_type)init->d->type, &bits))
        return emu_error(p, &at, "The value does not fit the type of '%.*s'",
                         EMU_TEXT(&init->d->name));
    store(init, index, bits);
    return true;
}

// The braces of one dimension; `span` elements begin at `index`.
static bool parse_braces(const struct init *init, unsigned dimension, uint64_t index, uint64_t span)
{
    struct emu_parser *p = init->p;
    const struct emu_token at = p->token;
    const uint64_t end = index + span;
    uint64_t inner = dimension < init->d->dimensions ? span / init->d->extents[dimension] : 1;

    emu_next(p);
    if (emu_take(p, '}'))
        return true;
    if (!inner)
        inner = 1;
    do {
        if (emu_token_is(&p->token, '{')) {
            if (dimension >= EMU_MOST_DIMENSIONS || index > end - inner)
                return emu_error(p, &at, "There are too many braces");
            if (!parse_braces(init, dimension + 1, index, inner))
                return false;
            index += inner;
        } else if (index >= end) {
            return emu_error(p, &p->token, "There are more values than '%.*s' has elements",
                             EMU_TEXT(&init->d->name));
        } else if (!parse_value(init, index++)) {
            return false;
        }
    } while (emu_take(p, ','));
    return emu_expect(p, '}');
}

bool emu_parse_init(struct emu_parser *p, const struct emu_declaration *d, uint32_t symbol)
{
    struct init init = { p, d, symbol, NULL, emu_bits((enum emu_type)d->type) / 8, 0 };

    if (!init.element || !d->bytes)
        return emu_error(p, &d->name, "'%.*s' has no elements", EMU_TEXT(&d->name));
    init.count = d->bytes / init.element;
    init.bytes = d->bytes < SIZE_MAX ? emu_arena_alloc(p->arena, (size_t)d->bytes) : NULL;
    if (!init.bytes)
        return emu_out_of_memory(p);
    p->module->symbols[symbol].init = init.bytes;
    if (!emu_token_is(&p->token, '{'))
        return parse_value(&init, 0);
    return parse_braces(&init, 0, 0, init.count);
}
